//! `suffrage-lab torture`: random faults, under which the promises must hold.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde::Serialize;
use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, BadParameter, Contract};
use suffrage_sim::{Fault, Scenario, TortureTarget, Violation, borrow_settings, runner, shrink};

use crate::observers::{CutNames, SharedObserver};
use crate::parallel::{self, Progress};
use crate::player::{self, Encoder};
use crate::trace::{Recorder, SharedSink, Sink};
use crate::{args, options, output_file, replay};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Runs an algorithm under random faults and checks its promises.

The seed determines a whole run: the number of processes, their ranks, the network, crashes, recoveries, pauses, \
network cuts, clock drift, clock jumps, and calls for elections. Safety is checked all the time. At time 300 the \
faults end, except for processes that stay crashed and, in one run of four, a last cut that stays. Liveness is \
checked 1,000 message delays later. A run has no faults that the contract does not claim to tolerate. Several \
leaders for a while are no violation if the contract allows them: `suffrage-lab algorithms NAME` prints the promises.

A broken promise is reported with the command that replays it, and with a shrunk command that breaks it too.";

const EXAMPLES: &str = "Examples:
  suffrage-lab torture all --seeds 0..1000
      every algorithm
  suffrage-lab torture raft --seeds 0..100000
      never two leaders in one term
  suffrage-lab torture raft --forget-votes --seeds 0..10000 --expect-violation
      finds a deliberate bug
  suffrage-lab torture raft --forget-votes --seeds 0..10000 --expect-violation --html broken.html
      the shrunk run as a page to play

Exit codes: 0 all promises were kept, or with --expect-violation one was broken; 1 otherwise; 2 the
command line is wrong.";

/// The most events for shrinking a case: some seconds of work.
const SHRINK_BUDGET: u64 = 3_000_000;

/// One subcommand for each algorithm, because each has its own options, and one for all.
pub(crate) fn command() -> Command {
    let all = flags(Command::new("all")).about("Every algorithm, one after the other");
    let of = |contract: &Contract| {
        catalog::visit(contract.name, MakeSubcommand).expect("a contract's name is in the catalog")
    };
    Command::new("torture")
        .about("Runs algorithms under random faults and checks their promises")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .subcommand_value_name("ALGORITHM|all")
        .subcommand_help_heading("Algorithms")
        .disable_help_subcommand(true)
        .subcommand(all)
        .subcommands(CONTRACTS.iter().map(of))
}

fn flags(command: Command) -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    command
        .arg(
            Arg::new("seeds")
                .long("seeds")
                .value_name("A..B")
                .default_value("0..1000")
                .value_parser(seeds)
                .help("The seeds: from A on, up to but not including B"),
        )
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_name("N")
                .value_parser(nodes)
                .help("The number of processes [default: 1 to 9, from the seed]"),
        )
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .value_name("J")
                .value_parser(args::jobs)
                .help("The number of parallel runs; results do not depend on it [default: one per core]"),
        )
        .arg(Arg::new("drift").long("drift").value_name("DRIFT").value_parser(args::drift).help(
            "The greatest clock drift for algorithms with leases, like 30% [default: the drift bound of the algorithm]",
        ))
        .arg(flag("expect-violation", "Exits with 0 if a promise is broken, and with 1 if none is"))
        .arg(flag("json", "Prints the result as JSON"))
        .arg(Arg::new("html").long("html").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
            "Writes the shrunk runs as a page to play, the shortest first; no page if all promises were kept",
        ))
        .after_help(EXAMPLES)
}

struct MakeSubcommand;

impl Visitor for MakeSubcommand {
    type Output = Command;

    fn visit<A: Algorithm>(self) -> Command {
        flags(Command::new(A::CONTRACT.name).args(options::flags::<A>())).about(A::CONTRACT.summary)
    }
}

fn nodes(text: &str) -> Result<usize, String> {
    args::number(text, "processes", 1, args::MAX_ALL_TO_ALL_NODES)
}

/// Parses a range like `0..1000`.
pub(crate) fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    match range {
        Some(range) if range.start < range.end => Ok(range),
        Some(range) => Err(format!("the range {}..{} has no seed", range.start, range.end)),
        None => Err(format!("`{text}` is not a range of seeds like 0..1000")),
    }
}

/// The flags that all algorithms of one command share.
struct Torture {
    seeds: Range<u64>,
    nodes: Option<usize>,
    jobs: Option<usize>,
    drift: Option<f64>,
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let (name, matches) = matches.subcommand().expect("clap requires an algorithm");
    let torture = Torture {
        seeds: matches.get_one::<Range<u64>>("seeds").expect("the flag has a default").clone(),
        nodes: matches.get_one::<usize>("nodes").copied(),
        jobs: matches.get_one::<usize>("jobs").copied(),
        drift: matches.get_one::<f64>("drift").copied(),
    };
    let names: Vec<&str> = match name {
        "all" => CONTRACTS.iter().map(|contract| contract.name).collect(),
        name => vec![name],
    };
    let json = matches.get_flag("json");
    let progress = Progress::new(
        (torture.seeds.end - torture.seeds.start).saturating_mul(names.len() as u64),
        console.err_is_terminal,
    );
    let mut reports = Vec::new();
    for algorithm in names {
        let own = (name != "all").then_some(matches);
        let run = TortureRun { torture: &torture, matches: own, progress: &progress };
        let report = catalog::visit(algorithm, run).expect("clap knows the names of the catalog")?;
        if !json {
            progress.hide_while(|| {
                console.out.write_all(report.text().as_bytes()).and_then(|()| console.out.flush())
            })?;
        }
        reports.push(report);
    }
    drop(progress);
    if json {
        let text = serde_json::to_string_pretty(&reports).expect("reports are plain data") + "\n";
        console.out.write_all(text.as_bytes())?;
    }
    if let Some(file) = matches.get_one::<PathBuf>("html") {
        write_page(file, &mut reports)?;
    }
    let expected = matches.get_flag("expect-violation");
    Ok(u8::from(reports.iter().any(|report| !report.cases.is_empty()) != expected))
}

/// Writes the shrunk runs as a page, the shortest first.
fn write_page(file: &Path, reports: &mut [Report]) -> Result<(), Error> {
    let cases = reports.iter_mut().flat_map(|report| &mut report.cases);
    let mut runs: Vec<(String, Encoder)> = cases.filter_map(|case| case.run.take()).collect();
    runs.sort_by_key(|(_, run)| run.events());
    match runs.is_empty() {
        true => Ok(()),
        false => output_file::write(file, &player::page("Broken promises", &runs)),
    }
}

/// The result of one algorithm.
#[derive(Serialize)]
struct Report {
    algorithm: &'static str,
    /// The first seed, and the one after the last.
    seeds: [u64; 2],
    events: u64,
    /// The number of leaderships.
    leaderships: u64,
    /// The number of runs that broke a promise.
    violating_runs: u64,
    /// The number of runs that broke each promise.
    broken: BTreeMap<&'static str, u64>,
    /// The first run of each broken promise.
    cases: Vec<Case>,
}

#[derive(Serialize)]
struct Case {
    seed: u64,
    violation: Violation,
    /// The command that replays the run.
    replay: String,
    /// A command with fewer faults that breaks the same promise.
    shrunk: String,
    /// The number of faults and commands after and before shrinking.
    faults: [usize; 2],
    /// Whether shrinking was complete: no fault or command can be removed.
    minimal: bool,
    /// The shrunk run, for a page.
    #[serde(skip)]
    run: Option<(String, Encoder)>,
}

/// The reason why the settings of a case cannot be refused.
const SETTINGS_ARE_VALID: &str = "the settings were checked before";

struct TortureRun<'a> {
    torture: &'a Torture,
    matches: Option<&'a ArgMatches>,
    progress: &'a Progress,
}

impl Visitor for TortureRun<'_> {
    type Output = Result<Report, Error>;

    fn visit<A: Algorithm>(self) -> Result<Report, Error> {
        let Torture { seeds, nodes, jobs, drift } = self.torture;
        let target = TortureTarget::<A> {
            options: self.matches.map_or(Ok(Default::default()), options::read::<A>)?,
            given: self.matches.map_or_else(Vec::new, options::given::<A>),
            members: *nodes,
            drift: *drift,
        };
        let mut report = Report {
            algorithm: A::CONTRACT.name,
            seeds: [seeds.start, seeds.end],
            events: 0,
            leaderships: 0,
            violating_runs: 0,
            broken: BTreeMap::new(),
            cases: Vec::new(),
        };
        check(&target)?;
        let mut first_violations = Vec::new();
        self.progress.set_name(A::CONTRACT.name);
        let run = |seed| {
            let case = target.case(seed);
            let runner =
                runner(A::CONTRACT.name, &borrow_settings(&case.settings)).expect(SETTINGS_ARE_VALID);
            case.run(&case.scenario, |scenario| runner.run(scenario))
        };
        parallel::for_each(seeds.clone(), *jobs, self.progress, run, |seed, outcome| {
            report.events += outcome.events;
            report.leaderships += outcome.leaderships as u64;
            report.violating_runs += u64::from(!outcome.violations.is_empty());
            for violation in outcome.violations {
                let count = report.broken.entry(violation.invariant).or_default();
                *count += 1;
                if *count == 1 {
                    first_violations.push((seed, violation));
                }
            }
        });
        report.cases =
            first_violations.into_iter().map(|(seed, violation)| case(&target, seed, violation)).collect();
        Ok(report)
    }
}

/// Checks that the options are valid for every size of group.
fn check<A: Algorithm>(target: &TortureTarget<A>) -> Result<(), Error> {
    target.check().map_err(|BadParameter { name, reason }| {
        let advice = match target.members {
            None => "; set --nodes, or groups have 1 to 9 members",
            Some(_) => "",
        };
        Error::flag(name, format!("{reason}{advice}"))
    })
}

fn case<A: Algorithm>(target: &TortureTarget<A>, seed: u64, violation: Violation) -> Case {
    let case = target.case(seed);
    let runner = runner(A::CONTRACT.name, &borrow_settings(&case.settings)).expect(SETTINGS_ARE_VALID);
    let mut events = 0;
    let breaks = |scenario: &Scenario| {
        if events > SHRINK_BUDGET {
            return false;
        }
        let outcome = case.run(scenario, |scenario| runner.run(scenario));
        events += outcome.events;
        outcome.violations.iter().any(|other| other.invariant == violation.invariant)
    };
    let shrunk = shrink(&case.scenario, breaks);
    let line = |scenario| replay::of_scenario(A::CONTRACT.name, &case.settings, scenario);
    // HealAll is not a fault: it ends faults.
    let faults =
        |scenario: &Scenario| scenario.plan.iter().filter(|(_, fault)| *fault != Fault::HealAll).count();
    let count = |scenario: &Scenario| faults(scenario) + scenario.commands.len();
    let command = line(&shrunk);
    let name = format!("{} breaks {} (seed {seed})", A::CONTRACT.name, violation.invariant);
    let note = format!("{}: {}", violation.invariant, violation.detail);
    let encoder = SharedSink::new(Encoder::new(&name, &note));
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(encoder.handle())];
    let cuts = CutNames::of(&shrunk);
    let recorder = SharedObserver::new(Recorder::new(sinks, A::CONTRACT.name, &shrunk, cuts, &command));
    case.run(&shrunk, |scenario| runner.run_observed(scenario, Box::new(recorder.handle())));
    drop(recorder);
    Case {
        run: Some((name, encoder.into_inner())),
        seed,
        replay: line(&case.scenario),
        shrunk: line(&shrunk),
        faults: [count(&shrunk), count(&case.scenario)],
        minimal: events <= SHRINK_BUDGET,
        violation,
    }
}

impl Report {
    fn text(&self) -> String {
        let [from, to] = self.seeds;
        let verdict = match self.cases.as_slice() {
            [] => "all promises kept".to_string(),
            _ => self
                .broken
                .iter()
                .map(|(name, count)| format!("{name} BROKEN in {count}"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let (events, leaderships) = (self.events, self.leaderships);
        let mut text = format!(
            "{:<20} {:>9} seeds  {events:>12} events  {leaderships:>9} leaderships  {verdict}\n",
            self.algorithm,
            to - from
        );
        for Case { seed, violation, replay, shrunk, faults: [few, many], minimal, .. } in &self.cases {
            let at = text::time(violation.at);
            let _ = writeln!(
                text,
                "\n  BROKEN  {} at {at} with seed {seed}: {}",
                violation.invariant, violation.detail
            );
            let _ = writeln!(text, "  replay  {replay} --trace torture-{seed}.jsonl");
            let note = if *minimal { "" } else { " (shrinking was not finished)" };
            let _ = writeln!(
                text,
                "  shrunk  to {few} of {many} faults and commands{note}:\n          {shrunk}\n"
            );
        }
        text
    }
}
