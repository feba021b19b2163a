//! `suffrage-lab simulate`: one run told, or many runs measured.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Contract, Detection, Topology};
use suffrage_sim::grammar::Spec;
use suffrage_sim::{Observer, Outcome, Runner, Scenario, borrow_settings, runner};

use crate::account::{self, Account};
use crate::args::{Common, OutputArgs};
use crate::diagram::{self, Diagram};
use crate::sweep::{self, Sweep};
use crate::trace::Trace;
use crate::watch::{Cuts, Several, Shared};
use crate::{algorithms, args, options, replay, tournament};
use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Runs an algorithm in the simulator.

A run is decided by its flags and its seed alone. Times are in time units, of which a message takes \
one unless --latency says otherwise. Without --detector nobody notices a failure by itself, unless the \
algorithm has time-outs of its own: elections are called by --initiator, at time 0.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 3
      6 is dead and 3 notices
  suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 3 --diagram
      the same, message by message
  suffrage-lab simulate bully --partition '1,2|3,4,5@10..50' --detector ideal:2
      two leaders while the network is cut, one after it is healed
  suffrage-lab simulate bully --crash 5@20 --detector heartbeat:1,3.5 --until 60
      the leader dies and is missed by its heartbeats
  suffrage-lab simulate bully --nodes 20 --latency exp:1 --runs 1000
      means with 95% intervals

Exit codes: 0 it ran, 1 a promise was broken under --strict or output could not be written, 2 the
command line is wrong.";

/// One subcommand for each algorithm, so that each has a help text of its own.
pub(crate) fn command() -> Command {
    Command::new("simulate")
        .about("Runs an algorithm in the simulator")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .subcommand_value_name("ALGORITHM")
        .subcommand_help_heading("Algorithms")
        .disable_help_subcommand(true)
        .subcommands(CONTRACTS.iter().map(subcommand))
}

fn subcommand(contract: &Contract) -> Command {
    catalog::visit(contract.name, MakeSubcommand).expect("a contract's name is in the catalog")
}

struct MakeSubcommand;

impl Visitor for MakeSubcommand {
    type Output = Command;

    fn visit<A: Algorithm>(self) -> Command {
        let contract = &A::CONTRACT;
        Common::augment_args(
            Command::new(contract.name).args(options::flags::<A>()).args(args::scenario_flags()),
        )
        .about(contract.summary)
        .long_about(algorithms::details(contract))
        .after_help(examples(contract))
        .allow_negative_numbers(true)
    }
}

fn examples(contract: &Contract) -> String {
    let name = contract.name;
    let group = match contract.topology {
        Topology::Complete | Topology::Multicast => "--nodes 6 --crashed 6 --initiator 3",
        Topology::Ring => "--ids 3,32,5,80,6,12 --initiator 3",
    };
    let (missed, detector, until) = match contract.detection {
        Detection::Detector => ("after 2 time units", " --detector ideal:2", ""),
        // Its leader does not fall silent, so that somebody has to say when the drawing ends.
        Detection::Timeout => ("after a time-out", "", " --until 60"),
    };
    format!(
        "Examples:
  suffrage-lab simulate {name} {group}
      one election, told
  suffrage-lab simulate {name} {group} --diagram{until}
      the same, message by message
  suffrage-lab simulate {name} --crash leader@60{detector}
      the leader dies, is missed {missed}, and is replaced
  suffrage-lab simulate {name} --partition '1,2|3,4,5@30..80'{detector}
      the network is cut in two, and healed
  suffrage-lab simulate {name} --nodes 10 --latency uniform:0.5,1 --runs 200
      means with 95% intervals

Exit codes: 0 it ran, 1 a promise was broken under --strict or output could not be written, 2 the
command line is wrong."
    )
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let (name, matches) = matches.subcommand().expect("clap demands an algorithm");
    catalog::visit(name, Simulate { matches, console }).expect("clap knows the names of the catalog")
}

struct Simulate<'a, 'c> {
    matches: &'a ArgMatches,
    console: &'a mut Console<'c>,
}

impl Visitor for Simulate<'_, '_> {
    type Output = Result<u8, Error>;

    fn visit<A: Algorithm>(self) -> Result<u8, Error> {
        let common = Common::from_arg_matches(self.matches)?;
        let given = args::spec(self.matches)?;
        let options = options::read::<A>(self.matches)?;
        let mut spec = given.clone();
        // The algorithm's options may imply the number of processes.
        if spec.group.ids.is_empty() {
            spec.group.nodes = spec.group.nodes.or(A::members(&options));
        }
        check_output(&common, &spec)?;
        let mut scenario = spec.scenario().map_err(args::flag_error)?;
        let cuts = Cuts::of(&scenario);
        A::check(&options, &scenario.roster)?;
        if spec.group.initiator.is_none() && spec.group.contenders.is_none() {
            scenario.initiators = first_candidate::<A>(&options, &scenario);
        }
        // Where nobody reads the figure it is not worth its time.
        scenario.count_bytes = common.output.json && common.runs.runs.is_none();
        let settings = options::given::<A>(self.matches);
        let runner = runner(A::CONTRACT.name, &borrow_settings(&settings))?;
        let replay = |seed| {
            let mut spec = given.clone();
            spec.run.seed = Some(seed);
            replay::command_line(A::CONTRACT.name, &settings, &spec)
        };
        let broken = match common.runs.runs {
            None => {
                let run = Run {
                    runner: &*runner,
                    scenario: &scenario,
                    cuts,
                    output: &common.output,
                    replay: replay(scenario.seed),
                };
                run.show(self.console)?
            }
            Some(runs) => {
                let sweep = Sweep { runner: &*runner, scenario: &scenario, runs, jobs: common.runs.jobs };
                let summary = sweep.run(self.console.err_is_terminal);
                let text = match common.output.json {
                    true => json(&tournament::of_runs(&summary)),
                    false => sweep::table(&account::opening(A::CONTRACT.name, &scenario), &summary, replay),
                };
                self.console.out.write_all(text.as_bytes())?;
                summary.broken()
            }
        };
        Ok(u8::from(broken && common.output.strict))
    }
}

/// The first live process that may lead: it calls unless somebody else is to.
fn first_candidate<A: Algorithm>(options: &A::Options, scenario: &Scenario) -> Vec<usize> {
    let live = |slot: &usize| !scenario.crashed.contains(slot) && A::slot_may_lead(options, *slot);
    (0..scenario.roster.len()).find(live).into_iter().collect()
}

fn check_output(common: &Common, spec: &Spec) -> Result<(), Error> {
    let OutputArgs { json, diagram, trace, .. } = &common.output;
    let to_stdout = trace.as_deref() == Some(Path::new("-"));
    let nodes = spec.group.size();
    let refuse = |flag, reason: &str| Err(Error::flag(flag, reason));
    match common.runs.runs {
        Some(_) if *diagram => return refuse("diagram", "draws a single run; drop --runs"),
        Some(_) if trace.is_some() => return refuse("trace", "writes down a single run; drop --runs"),
        Some(runs) if spec.run.seed.unwrap_or(0).checked_add(runs - 1).is_none() => {
            return refuse("seed", "there are not that many seeds after it for --runs");
        }
        _ => {}
    }
    match (*diagram, *json) {
        (true, true) => refuse("diagram", "is not JSON; drop --json"),
        (true, false) if nodes > diagram::MOST => {
            let most = diagram::MOST;
            refuse("diagram", &format!("draws up to {most} processes, and there are {nodes}; try --trace"))
        }
        _ if to_stdout && (*diagram || *json) => {
            refuse("trace", "`-` leaves no room for --json or --diagram; name a file")
        }
        _ => Ok(()),
    }
}

/// A single run.
struct Run<'a> {
    runner: &'a dyn Runner,
    scenario: &'a Scenario,
    cuts: Cuts,
    output: &'a OutputArgs,
    replay: String,
}

impl Run<'_> {
    /// Runs and shows; whether a promise was broken.
    fn show(&self, console: &mut Console<'_>) -> Result<bool, Error> {
        let outcome = match self.output.trace.as_deref() {
            None => self.tell(None, console)?,
            Some(file) if file == Path::new("-") => {
                let trace =
                    Shared::new(Trace::new(Vec::new(), self.runner.name(), self.scenario, self.cuts.clone()));
                let outcome = self.runner.run_observed(self.scenario, Box::new(trace.handle()));
                console.out.write_all(&trace.into_inner().finish()?)?;
                outcome
            }
            Some(file) => {
                let failed = |error| Error::File(file.to_path_buf(), error);
                let out = BufWriter::new(File::create(file).map_err(failed)?);
                let trace =
                    Shared::new(Trace::new(out, self.runner.name(), self.scenario, self.cuts.clone()));
                let outcome = self.tell(Some(Box::new(trace.handle())), console)?;
                trace.into_inner().finish().map_err(failed)?;
                outcome
            }
        };
        Ok(!outcome.violations.is_empty())
    }

    fn tell(&self, trace: Option<Box<dyn Observer>>, console: &mut Console<'_>) -> Result<Outcome, Error> {
        let account = Shared::new(Account::new(self.scenario, self.cuts.clone()));
        let diagram =
            self.output.diagram.then(|| Shared::new(Diagram::new(self.scenario, self.cuts.clone())));
        let mut observers = Several(trace.into_iter().collect());
        if !self.output.json {
            observers.0.push(Box::new(account.handle()));
        }
        observers.0.extend(diagram.iter().map(|diagram| Box::new(diagram.handle()) as Box<dyn Observer>));
        let outcome = match observers.0.is_empty() {
            true => self.runner.run(self.scenario),
            false => self.runner.run_observed(self.scenario, Box::new(observers)),
        };
        let account = account.into_inner();
        let text = if self.output.json {
            json(&tournament::of_run(&outcome))
        } else {
            let course = diagram.map_or_else(|| account.course(), |diagram| diagram.into_inner().draw());
            let result = account::result(self.scenario, &outcome, &account.verdict(&outcome), &self.replay);
            let gap = if course.is_empty() { "" } else { "\n" };
            format!("{}\n\n{course}{gap}{result}", account::opening(self.runner.name(), self.scenario))
        };
        console.out.write_all(text.as_bytes())?;
        Ok(outcome)
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data") + "\n"
}
