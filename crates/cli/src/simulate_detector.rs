//! `suffrage simulate-detector`: how soon failure detectors notice a crash, and how often they err.

use std::str::FromStr as _;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use election::{Span, detectors};
use serde::Serialize;
use simulator::measure::{Detection, DetectionTrial};
use simulator::{Estimate, Latency, Tally, quantile};

use crate::args::{drift, jobs, nodes, probability, runs, seed};
use crate::error::Error;
use crate::parallel::{self, Progress};
use crate::{Console, simulate, words};

const ABOUT: &str = "Measures failure detectors by themselves.

In each run a group of detectors warms up, is watched for mistakes, and then loses one process at a \
random moment. Printed is how long after the crash the others suspected it for good, how often \
somebody suspected a live process and for how long, and what it cost.

A detector that waits longer errs less; the question is at which price. Several can be compared in \
one table, on the same seeds.";

const EXAMPLES: &str = "Examples:
  suffrage simulate-detector heartbeat:1,3.5 --loss 0.1 --runs 20
      time-outs of three heartbeats, of which one in ten is lost
  suffrage simulate-detector phi:1,10 phi:2,10 phi:3,10 --latency lognormal:10,0.1 --watch 2000
      thresholds compared: each step makes mistakes ten times rarer
  suffrage simulate-detector heartbeat:1,8.5 gossip:1,8 gossip:1,16 --nodes 30 --loss 0.2 --runs 10
      gossip sends one message a period, however many processes there are

Exit codes: 0 it ran, 1 output could not be written, 2 the command line is wrong.";

/// What is measured, and where.
#[derive(Args, Debug)]
struct Arguments {
    /// heartbeat:PERIOD,TIMEOUT (silence for TIMEOUT is a failure), phi:THRESHOLD[,PERIOD] (silence
    /// that comes once in 10^THRESHOLD is; each longest delay if no period is given), or
    /// gossip:PERIOD,T_FAIL (no news for T_FAIL is)
    #[arg(value_name = "DETECTOR", required = true, num_args = 1..)]
    #[arg(value_parser = detectors::Options::from_str)]
    detectors: Vec<detectors::Options>,
    /// How many processes
    #[arg(long, value_name = "N", default_value = "5", value_parser = nodes)]
    nodes: usize,
    /// How long messages take, in time units: const:1, uniform:0.5,1.5, exp:1 (mean) or
    /// lognormal:1,0.5 (median, spread)
    #[arg(long, value_name = "LATENCY", default_value = "const:1", value_parser = Latency::from_str)]
    latency: Latency,
    /// How likely a message is lost
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    loss: f64,
    /// How likely a message arrives twice
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    duplicate: f64,
    /// How much clocks run fast or slow, as a fraction
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = drift)]
    drift: f64,
    /// How long the detectors run before anything is counted
    #[arg(long, value_name = "TIME", default_value = "200", value_parser = Span::from_str)]
    warm_up: Span,
    /// For how long mistakes are counted before the crash
    #[arg(long, value_name = "TIME", default_value = "200", value_parser = Span::from_str)]
    watch: Span,
    /// How many runs, with seeds from SEED on
    #[arg(long, value_name = "R", default_value = "100", value_parser = runs)]
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
    Arguments::augment_args(Command::new("simulate-detector"))
        .about("Measures failure detectors: how soon, how wrong, at what cost")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if arguments.nodes < 2 {
        return Err(Error::flag("nodes", "it takes 2 processes for one to watch the other"));
    }
    if arguments.watch.is_zero() {
        return Err(Error::flag("watch", "no time at all to count mistakes in"));
    }
    if arguments.seed.checked_add(arguments.runs).is_none() {
        return Err(Error::flag("seed", "there are not that many seeds after it for --runs"));
    }
    if arguments.latency.bound().is_zero() {
        return Err(Error::flag("latency", "messages must take some time"));
    }
    let progress = Progress::new(arguments.runs * arguments.detectors.len() as u64, console.err_is_terminal);
    let figures = |&detector| arguments.measure(detector, &progress);
    let figures: Vec<Figures> = arguments.detectors.iter().map(figures).collect();
    drop(progress);
    let text = match arguments.json {
        true => simulate::json(&figures),
        false => arguments.table(&figures),
    };
    Ok(console.out.write_all(text.as_bytes())?)
}

/// What came of one detector's runs. Times are in time units.
#[derive(Debug, Serialize)]
struct Figures {
    detector: String,
    nodes: usize,
    runs: u64,
    seed: u64,
    detection: Times,
    /// Mean over the runs, of which each counts once.
    mean_detection: Estimate,
    /// Observers that had not noticed when a run was over.
    unnoticed: usize,
    /// Wrong suspicions per process and time unit.
    mistake_rate: Estimate,
    mistakes: usize,
    mistake_duration: Times,
    /// Per process and time unit.
    messages: Estimate,
}

/// Of all that was measured.
#[derive(Debug, Serialize)]
struct Times {
    median: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Times {
    fn of(times: &[f64]) -> Times {
        Times { median: quantile(times, 0.5), p99: quantile(times, 0.99), max: quantile(times, 1.0) }
    }
}

impl Arguments {
    fn measure(&self, detector: detectors::Options, progress: &Progress) -> Figures {
        let trial = DetectionTrial {
            latency: self.latency,
            loss: self.loss,
            duplicate: self.duplicate,
            drift: self.drift,
            warm_up: self.warm_up,
            watch: self.watch,
            ..DetectionTrial::new(detector, self.nodes)
        };
        let seeds = self.seed..self.seed + self.runs;
        let run = |seed| DetectionTrial { seed, ..trial.clone() }.run();
        let results = parallel::map(seeds, self.jobs, progress, run);
        self.summarise(detector, &results)
    }

    fn summarise(&self, detector: detectors::Options, results: &[Detection]) -> Figures {
        let (mut detected, mut mistakes, mut messages) =
            (Tally::default(), Tally::default(), Tally::default());
        let (mut times, mut durations, mut unnoticed) = (Vec::new(), Vec::new(), 0);
        for result in results {
            let noticed: Vec<f64> = result.noticed.iter().copied().flatten().collect();
            if !noticed.is_empty() {
                detected.add(noticed.iter().sum::<f64>() / noticed.len() as f64);
            }
            unnoticed += result.noticed.len() - noticed.len();
            times.extend(noticed);
            durations.extend(&result.durations);
            let exposure = result.watched * self.nodes as f64;
            mistakes.add(result.mistakes as f64 / exposure);
            messages.add(result.messages as f64 / exposure);
        }
        Figures {
            detector: detector.to_string(),
            nodes: self.nodes,
            runs: self.runs,
            seed: self.seed,
            detection: Times::of(&times),
            mean_detection: detected.estimate(),
            unnoticed,
            mistake_rate: mistakes.estimate(),
            mistakes: results.iter().map(|result| result.mistakes).sum(),
            mistake_duration: Times::of(&durations),
            messages: messages.estimate(),
        }
    }

    fn table(&self, figures: &[Figures]) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_string(), words::number);
        let interval = |estimate: Estimate| match self.runs {
            1 => words::small_number(estimate.mean),
            _ => format!(
                "{} ({} to {})",
                words::small_number(estimate.mean),
                words::small_number(estimate.lo.max(0.0)),
                words::small_number(estimate.hi)
            ),
        };
        let heading = ["detector", "median", "99%", "max", "mean", "mistakes", "lasting", "messages"];
        let mut rows = vec![heading.map(str::to_string).to_vec()];
        rows.extend(figures.iter().map(|figures| {
            vec![
                figures.detector.clone(),
                number(figures.detection.median),
                number(figures.detection.p99),
                number(figures.detection.max),
                interval(figures.mean_detection),
                interval(figures.mistake_rate),
                number(figures.mistake_duration.median),
                words::number(figures.messages.mean),
            ]
        }));
        let unnoticed: usize = figures.iter().map(|figures| figures.unnoticed).sum();
        let note = match unnoticed {
            0 => String::new(),
            some => format!("\n  {some} observers had not noticed the crash when the run was over\n"),
        };
        format!(
            "{} processes, latency {}, loss {}; {} of each detector from seed {}\n\n{}{note}\n  median to \
             mean: time from the crash until it is suspected for good; mistakes: wrong suspicions\n  per \
             process and time unit; lasting: median; messages: per process and time unit; 95% intervals\n",
            self.nodes,
            self.latency,
            self.loss,
            words::count(self.runs as usize, "run", "runs"),
            self.seed,
            words::columns(&rows)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let times = Times::of(&(1..=200).rev().map(f64::from).collect::<Vec<_>>());
        assert_eq!((times.median, times.p99, times.max), (Some(100.0), Some(198.0), Some(200.0)));
        let none = Times::of(&[]);
        assert_eq!((none.median, none.max), (None, None));
    }
}
