//! `suffrage-lab simulate-multicast`: measures the share of processes that a multicast reaches.

use std::str::FromStr as _;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde::Serialize;
use suffrage_sim::measure::{Delivery, DeliveryTrial};
use suffrage_sim::{Estimate, Latency, Multicast, mean, proportion};

use crate::args::{check_seeds, help, jobs, probability, seed, stored_runs, two_or_more_nodes};
use crate::parallel::{self, Progress};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Measures multicasts without an election algorithm.

In each run one process multicasts once. The output has the share of the other processes that it reached, and a \
histogram of these shares: a bimodal multicast reaches almost all or almost none, and rarely a share between.

Several multicasts can be compared in one table, with the same seeds.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate-multicast broadcast bimodal:1,5 bimodal:2,10 --nodes 50 --loss 0.3
      the effect of gossip, with two settings
  suffrage-lab simulate-multicast bimodal:2,12 --broadcast-loss 0.97 --sender-crashes --loss 0.05
      the broadcast reaches two processes at most and the sender crashes: all or nothing

Exit codes: 0 the measurement ran, 1 output could not be written, 2 the command line is wrong.";

/// The number of bins of equal width, in addition to the bins for no process and for all processes.
const BINS: usize = 10;

/// The multicasts and their environment.
#[derive(Args, Debug)]
struct Arguments {
    /// The multicasts: broadcast (--loss applies to each addressee), ideal:PROBABILITY (reaches each
    /// addressee with this probability; --loss does not apply), or bimodal:FANOUT,ROUNDS (a broadcast, then ROUNDS
    /// rounds of gossip in which each process with the message sends it to FANOUT others)
    #[arg(value_name = "MULTICAST", required = true, num_args = 1.., value_parser = Multicast::from_str)]
    multicasts: Vec<Multicast>,
    /// The number of processes
    #[arg(long, value_name = "N", default_value = "50", value_parser = two_or_more_nodes)]
    nodes: usize,
    #[arg(long, help = help("latency"), value_name = "LATENCY", default_value = "const:1", value_parser = Latency::from_str)]
    latency: Latency,
    #[arg(long, help = help("loss"), value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    loss: f64,
    /// The probability that the broadcast misses an addressee [default: --loss]
    #[arg(long, value_name = "PROBABILITY", value_parser = probability)]
    broadcast_loss: Option<f64>,
    /// The sender crashes after it has sent the broadcast
    #[arg(long)]
    sender_crashes: bool,
    /// The number of runs, with seeds from SEED on
    #[arg(long, value_name = "R", default_value = "1000", value_parser = stored_runs)]
    runs: u64,
    /// The seed of all random choices
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed)]
    seed: u64,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    jobs: Option<usize>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn command() -> Command {
    Arguments::augment_args(Command::new("simulate-multicast"))
        .about("Measures multicasts: reach and cost")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let arguments = Arguments::from_arg_matches(matches)?;
    check_seeds(arguments.seed, arguments.runs)?;
    if arguments.latency.bound().is_zero() {
        return Err(Error::flag("latency", "must be above 0"));
    }
    if arguments.broadcast_loss.is_some()
        && arguments.multicasts.iter().any(|multicast| matches!(multicast, Multicast::Ideal(_)))
    {
        return Err(Error::flag("broadcast-loss", "does not apply to ideal:PROBABILITY; remove one of them"));
    }
    let progress = Progress::new(arguments.runs * arguments.multicasts.len() as u64, console.err_is_terminal);
    let figures = |&multicast| arguments.measure(multicast, &progress);
    let figures: Vec<Figures> = arguments.multicasts.iter().map(figures).collect();
    drop(progress);
    let text = match arguments.json {
        true => text::json(&figures),
        false => arguments.tables(&figures),
    };
    Ok(console.out.write_all(text.as_bytes())?)
}

/// The results of one multicast.
#[derive(Debug, Serialize)]
struct Figures {
    multicast: String,
    nodes: usize,
    runs: u64,
    seed: u64,
    /// The mean share of the other processes that was reached.
    fraction: Estimate,
    /// The share of runs that reached all processes.
    all: Estimate,
    /// The share of runs that reached at most a tenth.
    up_to_a_tenth: Estimate,
    /// The share of runs that reached more than a tenth and less than nine tenths.
    between: Estimate,
    /// Messages per process, one per addressee.
    messages: Estimate,
    /// The time of the last delivery in time units, over the runs that reached any process.
    last: Option<Estimate>,
    /// The time of the last message in time units.
    quiet: Estimate,
    /// The number of runs by reached share: none, up to each tenth but not all, all.
    histogram: Vec<usize>,
}

impl Arguments {
    fn measure(&self, multicast: Multicast, progress: &Progress) -> Figures {
        let trial = DeliveryTrial {
            latency: self.latency,
            loss: self.loss,
            broadcast_loss: self.broadcast_loss,
            sender_crashes: self.sender_crashes,
            ..DeliveryTrial::new(multicast, self.nodes)
        };
        let seeds = self.seed..self.seed + self.runs;
        let run = |seed| DeliveryTrial { seed, ..trial.clone() }.run();
        let results = parallel::map(seeds, self.jobs, progress, run);
        let share = |wanted: &dyn Fn(f64) -> bool| {
            proportion(results.iter().filter(|result| wanted(result.fraction)).count(), results.len())
        };
        let of = |value: fn(&Delivery) -> f64| mean(&results.iter().map(value).collect::<Vec<_>>());
        let last: Vec<f64> = results.iter().filter_map(|result| result.last).collect();
        let mut histogram = vec![0; BINS + 2];
        results.iter().for_each(|result| histogram[bin(result.fraction)] += 1);
        Figures {
            multicast: multicast.to_string(),
            nodes: self.nodes,
            runs: self.runs,
            seed: self.seed,
            fraction: of(|result| result.fraction).clamp(0.0, 1.0),
            all: share(&|fraction| fraction == 1.0),
            up_to_a_tenth: share(&|fraction| fraction <= 0.1),
            between: share(&|fraction| 0.1 < fraction && fraction < 0.9),
            messages: of(|result| result.messages),
            last: (!last.is_empty()).then(|| mean(&last)),
            quiet: of(|result| result.quiet),
            histogram,
        }
    }

    fn tables(&self, figures: &[Figures]) -> String {
        let mut opening = format!("{} processes, latency {}, loss {}", self.nodes, self.latency, self.loss);
        if let Some(loss) = self.broadcast_loss {
            opening += &format!(", broadcast loss {loss}");
        }
        if self.sender_crashes {
            opening += ", the sender crashes at once";
        }
        let runs = text::count(self.runs as usize, "run", "runs");
        format!(
            "{opening}; {runs} of each multicast from seed {}\n\n{}\n{}\n  reached: mean share of the others; \
             all, up to 10%, between (10% and 90%): share of runs;\n  messages: per process; last: \
             mean time of the last delivery, in the runs that reached any process;\n  quiet: mean time of the \
             last message; in brackets: 95% intervals\n",
            self.seed,
            self.summary(figures),
            histogram(figures)
        )
    }

    fn summary(&self, figures: &[Figures]) -> String {
        let interval = |estimate: Estimate| {
            format!("{:.3} ({})", estimate.mean, estimate.interval(|end| format!("{end:.3}")))
        };
        let heading = ["multicast", "reached", "all", "up to 10%", "between", "messages", "last", "quiet"];
        let mut rows = vec![heading.map(str::to_string).to_vec()];
        rows.extend(figures.iter().map(|figures| {
            vec![
                figures.multicast.clone(),
                interval(figures.fraction),
                interval(figures.all),
                interval(figures.up_to_a_tenth),
                interval(figures.between),
                text::number(figures.messages.mean),
                figures.last.map_or("-".to_string(), |last| text::number(last.mean)),
                text::number(figures.quiet.mean),
            ]
        }));
        text::columns(&rows)
    }
}

/// The bin of the histogram for a share.
fn bin(fraction: f64) -> usize {
    match fraction {
        0.0 => 0,
        1.0 => BINS + 1,
        _ => (fraction * BINS as f64).ceil() as usize,
    }
}

/// The histograms, one column per multicast.
fn histogram(figures: &[Figures]) -> String {
    let names = figures.iter().map(|figures| figures.multicast.clone());
    let mut rows: Vec<Vec<String>> =
        vec![["runs that reached".to_string()].into_iter().chain(names).collect()];
    for bin in 0..BINS + 2 {
        let label = match bin {
            0 => "none".to_string(),
            bin if bin > BINS => "all".to_string(),
            BINS => "over 90%".to_string(),
            bin => format!("up to {}%", bin * 100 / BINS),
        };
        let counts = figures.iter().map(|figures| figures.histogram[bin].to_string());
        rows.push([label].into_iter().chain(counts).collect());
    }
    text::columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_and_all_have_their_own_bins() {
        assert_eq!([0.0, 0.01, 0.1, 0.11, 0.95, 0.999, 1.0].map(bin), [0, 1, 1, 2, 10, 10, 11]);
    }
}
