//! `suffrage-lab simulate-detector`: measures the detection time and the mistakes of failure detectors.

use std::str::FromStr as _;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde::Serialize;
use suffrage_core::{Span, detectors};
use suffrage_sim::measure::{Detection, DetectionTime, DetectionTrial};
use suffrage_sim::{Estimate, Latency, mean, quantiles};

use crate::args::{check_seeds, drift, help, jobs, probability, seed, stored_runs, two_or_more_nodes};
use crate::parallel::{self, Progress};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Measures failure detectors without an election algorithm.

In each run a group of detectors warms up, is watched for mistakes, and then one process crashes at a random time. \
The output has the time from the crash until the other processes suspect the crashed one permanently, the number \
and duration of wrong suspicions, and the number of messages. An observer that suspects the process already before \
the crash made a mistake: it is counted separately and has no detection time.

A longer time-out means fewer mistakes and slower detection. Several detectors can be compared in one table, with \
the same seeds.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate-detector heartbeat:1,3.5 --loss 0.1 --runs 20
      a time-out of three heartbeats, with a loss of one in ten
  suffrage-lab simulate-detector phi:1,10 phi:2,10 phi:3,10 --latency lognormal:10,0.1 --watch 2000
      compares thresholds: each step makes mistakes ten times rarer
  suffrage-lab simulate-detector heartbeat:1,8.5 gossip:1,8 --nodes 30 --loss 0.2 --runs 10
      gossip sends one message per period, for any number of processes

Exit codes: 0 the measurement ran, 1 output could not be written, 2 the command line is wrong.";

/// The detectors and their environment.
#[derive(Args, Debug)]
struct Arguments {
    /// The detectors: heartbeat:PERIOD,TIMEOUT (suspects after a silence of TIMEOUT), phi:THRESHOLD[,PERIOD]
    /// (suspects after a silence of probability 10^-THRESHOLD; the default PERIOD is the delay bound), or
    /// gossip:PERIOD,T_FAIL (suspects without a new counter for T_FAIL)
    #[arg(value_name = "DETECTOR", required = true, num_args = 1..)]
    #[arg(value_parser = detectors::Options::from_str)]
    detectors: Vec<detectors::Options>,
    /// The number of processes
    #[arg(long, value_name = "N", default_value = "5", value_parser = two_or_more_nodes)]
    nodes: usize,
    #[arg(long, help = help("latency"), value_name = "LATENCY", default_value = "const:1", value_parser = Latency::from_str)]
    latency: Latency,
    #[arg(long, help = help("loss"), value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    loss: f64,
    #[arg(long, help = help("duplicate"), value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    duplicate: f64,
    #[arg(long, help = help("drift"), value_name = "DRIFT", default_value = "0%", value_parser = drift)]
    drift: f64,
    /// The time before anything is counted
    #[arg(long, value_name = "TIME", default_value = "200", value_parser = Span::from_str)]
    warm_up: Span,
    /// The time before the crash in which mistakes are counted
    #[arg(long, value_name = "TIME", default_value = "200", value_parser = Span::from_str)]
    watch: Span,
    /// The number of runs, with seeds from SEED on
    #[arg(long, value_name = "R", default_value = "100", value_parser = stored_runs)]
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
    Arguments::augment_args(Command::new("simulate-detector"))
        .about("Measures failure detectors: detection time, mistakes, cost")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if arguments.watch.is_zero() {
        return Err(Error::flag("watch", "must be above 0"));
    }
    check_seeds(arguments.seed, arguments.runs)?;
    if arguments.latency.bound().is_zero() {
        return Err(Error::flag("latency", "must be above 0"));
    }
    let progress = Progress::new(arguments.runs * arguments.detectors.len() as u64, console.err_is_terminal);
    let figures = |&detector| arguments.measure(detector, &progress);
    let figures: Vec<Figures> = arguments.detectors.iter().map(figures).collect();
    drop(progress);
    let text = match arguments.json {
        true => text::json(&figures),
        false => arguments.table(&figures),
    };
    Ok(console.out.write_all(text.as_bytes())?)
}

/// The results of one detector. Times are in time units.
#[derive(Debug, Serialize)]
struct Figures {
    detector: String,
    nodes: usize,
    runs: u64,
    seed: u64,
    /// The detection times of observers that did not suspect the crashed process before the crash.
    detection: Times,
    /// The mean detection time: the mean over runs of the mean of each run with a detection.
    mean_detection: Option<Estimate>,
    /// The number of observers in all runs.
    observers: usize,
    /// Observers that suspected the process before the crash and never stopped.
    already: usize,
    /// Observers that did not suspect the crashed process at the end of a run.
    missed: usize,
    /// Wrong suspicions that began during the watch, per process and time unit.
    mistake_rate: Estimate,
    mistakes: usize,
    /// The durations of the mistakes that ended.
    mistake_duration: Times,
    /// The share of the watched time, over all pairs, in which one process suspected the other.
    wrong: Estimate,
    /// Messages per process and time unit.
    messages: Estimate,
}

/// Statistics of times.
#[derive(Debug, Serialize)]
struct Times {
    median: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Times {
    fn of(times: &[f64]) -> Times {
        let [median, p99, max] = quantiles(times, [0.5, 0.99, 1.0]).map_or([None; 3], |of| of.map(Some));
        Times { median, p99, max }
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
        let noticed = |result: &Detection| -> Vec<f64> {
            result.detection_times.iter().copied().filter_map(DetectionTime::time).collect()
        };
        let times: Vec<Vec<f64>> = results.iter().map(noticed).filter(|times| !times.is_empty()).collect();
        let means = times.iter().map(|times| times.iter().sum::<f64>() / times.len() as f64);
        let means: Vec<f64> = means.collect();
        let observers = || results.iter().flat_map(|result| &result.detection_times);
        let count = |wanted| observers().filter(|&&noticed| noticed == wanted).count();
        let of = |value: &dyn Fn(&Detection) -> f64| mean(&results.iter().map(value).collect::<Vec<_>>());
        let exposure = |result: &Detection| result.watched * self.nodes as f64;
        let durations: Vec<f64> = results.iter().flat_map(|result| result.durations.clone()).collect();
        Figures {
            detector: detector.to_string(),
            nodes: self.nodes,
            runs: self.runs,
            seed: self.seed,
            detection: Times::of(&times.concat()),
            mean_detection: (!means.is_empty()).then(|| mean(&means)),
            observers: observers().count(),
            already: count(DetectionTime::BeforeCrash),
            missed: count(DetectionTime::Never),
            mistake_rate: of(&|result| result.mistakes as f64 / exposure(result)),
            mistakes: results.iter().map(|result| result.mistakes).sum(),
            mistake_duration: Times::of(&durations),
            wrong: of(&|result| result.suspected_share).clamp(0.0, 1.0),
            messages: of(&|result| result.messages as f64 / exposure(result)),
        }
    }

    fn table(&self, figures: &[Figures]) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_string(), text::number);
        let heading = [
            "detector", "median", "99%", "max", "mean", "already", "missed", "mistakes", "lasting", "wrong",
            "messages",
        ];
        let mut rows = vec![heading.map(str::to_string).to_vec()];
        rows.extend(figures.iter().map(|figures| {
            vec![
                figures.detector.clone(),
                number(figures.detection.median),
                number(figures.detection.p99),
                number(figures.detection.max),
                figures.mean_detection.map_or("-".to_string(), interval),
                figures.already.to_string(),
                figures.missed.to_string(),
                interval(figures.mistake_rate),
                number(figures.mistake_duration.median),
                text::small_number(figures.wrong.mean),
                text::number(figures.messages.mean),
            ]
        }));
        format!(
            "{} processes, latency {}, loss {}; {} of each detector from seed {}\n\n{}\n{}",
            self.nodes,
            self.latency,
            self.loss,
            text::count(self.runs as usize, "run", "runs"),
            self.seed,
            text::columns(&rows),
            self.legend()
        )
    }

    fn legend(&self) -> String {
        format!(
            "  median to mean: time from the crash until an observer suspects the crashed process permanently\n  \
             already: observers (of {}) that suspected it before the crash, which have no detection time\n  \
             missed: observers that did not suspect the crashed process at the end of the run\n  \
             mistakes: wrong suspicions that began in the watched time, per process and time unit\n  \
             lasting: median duration of the mistakes that ended\n  \
             wrong: share of the watched time, over all pairs, in which one process suspected the other\n  \
             messages: per process and time unit; in brackets: 95% intervals\n",
            self.runs * (self.nodes as u64 - 1)
        )
    }
}

/// A mean with its interval, or without if all runs gave the same value.
fn interval(estimate: Estimate) -> String {
    let mean = text::small_number(estimate.mean);
    match estimate.lo == estimate.hi {
        true => mean,
        false => format!("{mean} ({})", estimate.clamp(0.0, f64::INFINITY).interval(text::small_number)),
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
