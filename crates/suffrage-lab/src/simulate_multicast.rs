//! `suffrage-lab simulate-multicast`: how many processes a multicast reaches.

use std::str::FromStr as _;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde::Serialize;
use suffrage_sim::measure::{Delivery, DeliveryTrial};
use suffrage_sim::{Estimate, Latency, Multicast, mean, proportion};

use crate::args::{check_seeds, help, jobs, kept_runs, probability, seed, several_nodes};
use crate::parallel::{self, Progress};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Measures multicasts by themselves.

In each run one process multicasts once. Printed is which share of the others it reached, and how \
often which: a bimodal multicast reaches almost everybody or almost nobody, and hardly ever \
anything in between.

Several can be compared in one table, on the same seeds.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate-multicast broadcast bimodal:1,5 bimodal:2,10 --nodes 50 --loss 0.3
      what gossip repairs, with little and with more of it
  suffrage-lab simulate-multicast bimodal:2,12 --broadcast-loss 0.97 --sender-crashes --loss 0.05
      the broadcast reaches one or two, or nobody, and the sender dies: all or nothing

Exit codes: 0 it ran, 1 output could not be written, 2 the command line is wrong.";

/// How many shares of equal width a histogram has, beside nobody and everybody.
const BINS: usize = 10;

/// What is measured, and where.
#[derive(Args, Debug)]
struct Arguments {
    /// broadcast (each addressee misses it as often as any message), ideal:PROBABILITY (each is
    /// reached so often, whatever --loss is), or bimodal:FANOUT,ROUNDS (a broadcast, then ROUNDS
    /// rounds in which whoever has it tells FANOUT others)
    #[arg(value_name = "MULTICAST", required = true, num_args = 1.., value_parser = Multicast::from_str)]
    multicasts: Vec<Multicast>,
    /// How many processes
    #[arg(long, value_name = "N", default_value = "50", value_parser = several_nodes)]
    nodes: usize,
    #[arg(long, help = help("latency"), value_name = "LATENCY", default_value = "const:1", value_parser = Latency::from_str)]
    latency: Latency,
    #[arg(long, help = help("loss"), value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    loss: f64,
    /// How likely the broadcast misses an addressee [default: as --loss]
    #[arg(long, value_name = "PROBABILITY", value_parser = probability)]
    broadcast_loss: Option<f64>,
    /// The sender dies when it has sent the broadcast
    #[arg(long)]
    sender_crashes: bool,
    /// How many runs, with seeds from SEED on
    #[arg(long, value_name = "R", default_value = "1000", value_parser = kept_runs)]
    runs: u64,
    /// Decides everything that is left to chance
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed)]
    seed: u64,
    /// How many runs go on at a time; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    jobs: Option<usize>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn command() -> Command {
    Arguments::augment_args(Command::new("simulate-multicast"))
        .about("Measures multicasts: how many they reach, and at what cost")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let arguments = Arguments::from_arg_matches(matches)?;
    check_seeds(arguments.seed, arguments.runs)?;
    if arguments.latency.bound().is_zero() {
        return Err(Error::flag("latency", "messages must take some time"));
    }
    if arguments.broadcast_loss.is_some()
        && arguments.multicasts.iter().any(|multicast| matches!(multicast, Multicast::Ideal(_)))
    {
        return Err(Error::flag("broadcast-loss", "ideal:PROBABILITY already says how many are missed"));
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

/// What came of one multicast's runs.
#[derive(Debug, Serialize)]
struct Figures {
    multicast: String,
    nodes: usize,
    runs: u64,
    seed: u64,
    /// Which share of the others was reached.
    fraction: Estimate,
    /// How often everybody was reached.
    everybody: Estimate,
    /// How often at most a tenth was.
    almost_nobody: Estimate,
    /// How often more than a tenth was, and less than nine tenths.
    between: Estimate,
    /// Per process, to one addressee each.
    messages: Estimate,
    /// Until the last delivery, in time units, over the runs that reached somebody.
    last: Option<Estimate>,
    /// Until all is quiet, in time units.
    quiet: Estimate,
    /// How many runs reached nobody; up to so many tenths, but not everybody; everybody.
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
            everybody: share(&|fraction| fraction == 1.0),
            almost_nobody: share(&|fraction| fraction <= 0.1),
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
            opening += &format!(", of the broadcast {loss}");
        }
        if self.sender_crashes {
            opening += ", the sender dies at once";
        }
        let runs = text::count(self.runs as usize, "run", "runs");
        format!(
            "{opening}; {runs} of each multicast from seed {}\n\n{}\n{}\n  reached: mean share of the others; \
             everybody, up to 10%, between (10% and 90%): share of runs;\n  messages: per process; last: \
             mean time of the last delivery, in the runs that reached somebody;\n  quiet: mean time until \
             gossip is over, too; in brackets: 95% intervals\n",
            self.seed,
            self.summary(figures),
            histogram(figures)
        )
    }

    fn summary(&self, figures: &[Figures]) -> String {
        let interval = |estimate: Estimate| {
            format!("{:.3} ({})", estimate.mean, estimate.interval(|end| format!("{end:.3}")))
        };
        let heading =
            ["multicast", "reached", "everybody", "up to 10%", "between", "messages", "last", "quiet"];
        let mut rows = vec![heading.map(str::to_string).to_vec()];
        rows.extend(figures.iter().map(|figures| {
            vec![
                figures.multicast.clone(),
                interval(figures.fraction),
                interval(figures.everybody),
                interval(figures.almost_nobody),
                interval(figures.between),
                text::number(figures.messages.mean),
                figures.last.map_or("-".to_string(), |last| text::number(last.mean)),
                text::number(figures.quiet.mean),
            ]
        }));
        text::columns(&rows)
    }
}

/// In which bin of the histogram a share of the others falls.
fn bin(fraction: f64) -> usize {
    match fraction {
        0.0 => 0,
        1.0 => BINS + 1,
        _ => (fraction * BINS as f64).ceil() as usize,
    }
}

/// How many runs reached how many, a column for each multicast.
fn histogram(figures: &[Figures]) -> String {
    let names = figures.iter().map(|figures| figures.multicast.clone());
    let mut rows: Vec<Vec<String>> =
        vec![["runs that reached".to_string()].into_iter().chain(names).collect()];
    for bin in 0..BINS + 2 {
        let label = match bin {
            0 => "nobody".to_string(),
            bin if bin > BINS => "everybody".to_string(),
            BINS => "nearly everybody".to_string(),
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
    fn nobody_and_everybody_have_bins_of_their_own() {
        assert_eq!([0.0, 0.01, 0.1, 0.11, 0.95, 0.999, 1.0].map(bin), [0, 1, 1, 2, 10, 10, 11]);
    }
}
