//! `suffrage-lab compare`: every algorithm in the same runs.

mod measure;
mod table;

use std::str::FromStr;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde::Serialize;
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::Contract;
use suffrage_sim::{Detector, TRIALS, Trial};

use crate::parallel::{self, Progress};
use crate::{algorithms, args};
use measure::{Cell, Row, Totals};
use suffrage_cli::Console;
use suffrage_cli::Error;

/// The default failure detector of the algorithms that need one.
const DETECTOR: &str = "heartbeat:10,32";
/// The default number of runs of each algorithm in each scenario.
const RUNS: &str = "100";

const ABOUT: &str = "Runs every algorithm in the same scenarios and prints one table per scenario.

The number of processes and the seed determine a run. It is the same for all algorithms: the same ring order, \
the same time of the crash, the same network cut. Messages take 0.5 to 1 time units. Algorithms that need a \
failure detector get the same one. Results do not depend on --jobs.";

const EXAMPLES: &str = "Examples:
  suffrage-lab compare
      9 processes, all scenarios
  suffrage-lab compare --scenario leader-crash --nodes 64
      the cost of a leader crash in a larger group
  suffrage-lab compare --scenario lossy --algorithms bully,chang-roberts --runs 1000
      two algorithms, with more runs
  suffrage-lab compare --scenario partition-heal --json
      all digits with 95% intervals, and for each row the `suffrage-lab simulate` line of its first run

Exit codes: 0 the comparison ran, 1 output could not be written, 2 the command line is wrong.";

#[derive(Args, Debug)]
struct Flags {
    /// The number of processes
    #[arg(long, value_name = "N", default_value = "9", value_parser = args::two_or_more_nodes)]
    nodes: usize,
    /// The scenarios: leader-crash, cold-start, partition-heal, flapping-leader, lossy, several of
    /// them, or all
    #[arg(long, value_name = "SCENARIO,..|all", default_value = "all", value_parser = Trials::from_str)]
    scenario: Trials,
    /// The algorithms, like bully,chang-roberts [default: all]
    #[arg(long, value_name = "ALGORITHM,..", value_parser = algorithms::contract)]
    #[arg(num_args = 1.., value_delimiter = ',')]
    algorithms: Vec<&'static Contract>,
    /// The failure detector of the algorithms that need one. Without messages: none, ideal:DELAY or
    /// parametric:DELAY,RATE, which has wrong suspicions at a rate per process and time unit. With messages:
    /// heartbeat:PERIOD,TIMEOUT, phi:THRESHOLD[,PERIOD] or gossip:PERIOD,T_FAIL
    #[arg(long, value_name = "DETECTOR", default_value = DETECTOR, value_parser = Detector::from_str)]
    detector: Detector,
    /// The number of runs of each algorithm in each scenario
    #[arg(long, value_name = "R", default_value = RUNS, value_parser = args::stored_runs)]
    runs: u64,
    /// The seed of the first run; the other runs have the seeds after it
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = args::seed)]
    seed: u64,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = args::jobs)]
    jobs: Option<usize>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
    /// Prints the tables as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// The trials to run.
#[derive(Clone, Debug)]
struct Trials(Vec<&'static Trial>);

impl FromStr for Trials {
    type Err = String;

    fn from_str(text: &str) -> Result<Trials, String> {
        if text == "all" {
            return Ok(Trials(TRIALS.iter().collect()));
        }
        let unknown = |name: &str| {
            let names: Vec<&str> = TRIALS.iter().map(|trial| trial.name).collect();
            format!("there is no scenario `{name}`; there are {}, and all", names.join(", "))
        };
        let trial = |name: &str| Trial::named(name).ok_or_else(|| unknown(name));
        let trials: Vec<_> = text.split(',').map(trial).collect::<Result<_, _>>()?;
        match duplicate(trials.iter().map(|trial| trial.name)) {
            Some(name) => Err(format!("`{name}` is given twice; name it once")),
            None => Ok(Trials(trials)),
        }
    }
}

/// A name that is given twice.
fn duplicate<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

pub(crate) fn command() -> Command {
    Flags::augment_args(Command::new("compare"))
        .about("Runs every algorithm in the same scenarios, one table per scenario")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
struct Comparison {
    nodes: usize,
    runs: u64,
    /// The first seed.
    seed: u64,
    detector: String,
    scenarios: Vec<Table>,
}

/// The result of one trial.
#[derive(Debug, Serialize)]
struct Table {
    name: &'static str,
    story: &'static str,
    /// The event from which the time to a new leader counts.
    clock: &'static str,
    /// The probability that a message is lost.
    loss: f64,
    /// The time from the start of the clock to the end of the run.
    lasts: f64,
    /// The command that prints this table again.
    replay: String,
    algorithms: Vec<Row>,
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let flags = Flags::from_arg_matches(matches)?;
    args::check_seeds(flags.seed, flags.runs)?;
    if let Some(name) = duplicate(flags.algorithms.iter().map(|contract| contract.name)) {
        return Err(Error::flag("algorithms", format!("`{name}` is given twice; name it once")));
    }
    let comparison = compare(&flags, console.err_is_terminal)?;
    let text = match (flags.json, flags.markdown) {
        (true, _) => serde_json::to_string_pretty(&comparison).expect("results are plain data") + "\n",
        (_, true) => table::markdown(&comparison),
        _ => table::text(&comparison),
    };
    Ok(console.out.write_all(text.as_bytes())?)
}

fn compare(flags: &Flags, show_progress: bool) -> Result<Comparison, Error> {
    let Flags { nodes, detector, runs, seed, .. } = *flags;
    let contracts = match flags.algorithms.as_slice() {
        [] => CONTRACTS.iter().collect(),
        some => some.to_vec(),
    };
    let trials = &flags.scenario.0;
    let cell = |trial| contracts.iter().map(move |&contract| Cell { trial, contract, nodes, detector });
    let cells: Vec<Cell> = trials.iter().flat_map(|&trial| cell(trial)).collect();
    cells.iter().try_for_each(|cell| cell.check(seed))?;

    let progress = Progress::new(cells.len() as u64 * runs, show_progress);
    let locate = |number: u64| ((number / runs) as usize, seed + number % runs);
    let run = |number| {
        let (cell, seed) = locate(number);
        if seed == flags.seed {
            progress.set_name(cells[cell].trial.name);
        }
        cells[cell].run(seed)
    };
    let mut totals: Vec<Totals> = cells.iter().map(|_| Totals::default()).collect();
    let all = 0..cells.len() as u64 * runs;
    parallel::for_each(all, flags.jobs, &progress, run, |number, result| {
        totals[locate(number).0].add(&result);
    });
    drop(progress);

    let mut rows = cells.iter().zip(totals).map(|(cell, totals)| totals.row(cell, seed));
    let table = |&trial: &&'static Trial| {
        let run = trial.draw(contracts[0], nodes, seed, detector);
        let given = |name: &str, default: &str, value: &dyn ToString| match value.to_string() {
            value if value == default => String::new(),
            value => format!(" --{name} {value}"),
        };
        let names: Vec<&str> = flags.algorithms.iter().map(|contract| contract.name).collect();
        let replay = format!(
            "suffrage-lab compare --nodes {nodes} --scenario {}{}{} --runs {runs} --seed {seed}",
            trial.name,
            given("algorithms", "", &names.join(",")),
            given("detector", DETECTOR, &detector),
        );
        Table {
            name: trial.name,
            story: trial.description,
            clock: trial.clock_start,
            loss: trial.loss,
            lasts: run.scenario.horizon().since(run.clock_start).as_units(),
            replay,
            algorithms: rows.by_ref().take(contracts.len()).collect(),
        }
    };
    let scenarios = trials.iter().map(table).collect();
    Ok(Comparison { nodes, runs, seed, detector: detector.to_string(), scenarios })
}
