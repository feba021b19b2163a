//! `suffrage-lab simulate`: the report of one run, or measurements of many runs.

use std::io::Write as _;
use std::path::Path;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Contract, Detection, Topology};
use suffrage_sim::grammar::Spec;
use suffrage_sim::{Observer, Outcome, Runner, Scenario, borrow_settings, runner};

use crate::args::{Common, OutputArgs};
use crate::diagram::{self, Diagram};
use crate::observers::{CutNames, ObserverList, SharedObserver};
use crate::output_file::{self, FileWriter, create};
use crate::picture::Picture;
use crate::player::{self, Encoder};
use crate::run_report::{self, RunLog};
use crate::sweep::{self, Sweep};
use crate::trace::{MAX_VECTOR, Recorder, SharedBuffer, SharedSink, Sink, TraceFormat};
use crate::{algorithms, args, options, replay, tournament, trace};
use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Runs an algorithm in the simulator.

A run depends only on its flags and its seed. Times are in time units; a message takes one time unit unless \
--latency is given. Without --detector, only algorithms with time-outs of their own notice a failure. The \
processes of --initiator call elections at time 0.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 3
      6 has crashed and 3 calls an election
  suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 3 --diagram
      the same as a space-time diagram
  suffrage-lab simulate bully --partition '1,2|3,4,5@10..50' --detector ideal:2
      two leaders while the network is cut, one after it is healed
  suffrage-lab simulate bully --crash 5@20 --detector heartbeat:1,3.5 --until 60
      the leader crashes, and its missing heartbeats are noticed
  suffrage-lab simulate bully --nodes 20 --latency exp:1 --runs 1000
      means with 95% intervals
  suffrage-lab simulate bully --crash leader@20 --detector ideal:2 --html run.html
      a page to play the run, step by step
  suffrage-lab simulate raft --nodes 3 --until 30 --svg run.svg --theme slide
      a picture for a slide

Exit codes: 0 the simulation ran, 1 a promise was broken with --strict or output could not be written,
2 the command line is wrong.";

/// One subcommand for each algorithm, so that each has its own help text.
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
    let (detected, detector, until) = match contract.detection {
        Detection::Detector => ("after 2 time units", " --detector ideal:2", ""),
        // The leader sends heartbeats for ever, so the diagram needs an end.
        Detection::Timeout => ("after a time-out", "", " --until 60"),
    };
    format!(
        "Examples:
  suffrage-lab simulate {name} {group}
      one election
  suffrage-lab simulate {name} {group} --diagram{until}
      the same as a space-time diagram
  suffrage-lab simulate {name} --crash leader@60{detector}
      the leader crashes, the crash is detected {detected}, and a new leader is elected
  suffrage-lab simulate {name} --partition '1,2|3,4,5@30..80'{detector}
      the network is cut in two, and healed
  suffrage-lab simulate {name} --nodes 10 --latency uniform:0.5,1 --runs 200
      means with 95% intervals

Exit codes: 0 the simulation ran, 1 a promise was broken with --strict or output could not be written,
2 the command line is wrong."
    )
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let (name, matches) = matches.subcommand().expect("clap requires an algorithm");
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
        let cuts = CutNames::of(&scenario);
        A::check(&options, &scenario.roster)?;
        A::check_delay_bound(&options, scenario.bound())?;
        if spec.group.initiator.is_none() && spec.group.contenders.is_none() {
            scenario.initiators = first_candidate::<A>(&options, &scenario);
        }
        // Counting bytes takes time, and only JSON shows the result.
        scenario.count_bytes = common.output.json && common.runs.runs.is_none();
        let settings = options::given::<A>(self.matches);
        let runner = runner(A::CONTRACT.name, &borrow_settings(&settings))?;
        let replay = |seed| {
            let mut spec = given.clone();
            spec.run.seed = Some(seed);
            replay::command_line(A::CONTRACT.name, &settings, &spec)
        };
        let violated = match common.runs.runs {
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
                    false => {
                        sweep::table(&run_report::heading(A::CONTRACT.name, &scenario), &summary, replay)
                    }
                };
                self.console.out.write_all(text.as_bytes())?;
                summary.is_violated()
            }
        };
        Ok(u8::from(violated && common.output.strict))
    }
}

/// The first live process that may lead: the default initiator.
fn first_candidate<A: Algorithm>(options: &A::Options, scenario: &Scenario) -> Vec<usize> {
    let live = |slot: &usize| !scenario.crashed.contains(slot) && A::slot_may_lead(options, *slot);
    (0..scenario.roster.len()).find(live).into_iter().collect()
}

fn check_output(common: &Common, spec: &Spec) -> Result<(), Error> {
    let OutputArgs { json, diagram, trace: file, format, vector_clocks, html, picture, .. } = &common.output;
    let to_stdout = file.as_deref() == Some(Path::new("-"));
    let nodes = spec.group.size();
    let error = |flag, reason: &str| Err(Error::flag(flag, reason));
    match common.runs.runs {
        Some(_) if *diagram => return error("diagram", "draws a single run; remove --runs"),
        Some(_) if file.is_some() => return error("trace", "records a single run; remove --runs"),
        Some(_) if picture.svg.is_some() => return error("svg", "draws a single run; remove --runs"),
        Some(_) if html.is_some() => return error("html", "shows a single run; remove --runs"),
        Some(runs) if spec.run.seed.unwrap_or(0).checked_add(runs - 1).is_none() => {
            return error("seed", "there are not enough seeds after it; lower --seed or --runs");
        }
        _ => {}
    }
    if (*vector_clocks || *format == TraceFormat::Shiviz) && nodes > MAX_VECTOR {
        let flag = if *vector_clocks { "vector-clocks" } else { "format" };
        return error(
            flag,
            &format!("vector clocks have at most {MAX_VECTOR} processes, and there are {nodes}"),
        );
    }
    trace::check_clocks(*format, *vector_clocks)?;
    match (*diagram, *json) {
        (true, true) => error("diagram", "is not JSON; remove --json"),
        (true, false) if nodes > diagram::MAX_LIFELINES => {
            let most = diagram::MAX_LIFELINES;
            error("diagram", &format!("draws at most {most} processes, and there are {nodes}; use --trace"))
        }
        _ if to_stdout && (*diagram || *json) => {
            error("trace", "`-` cannot be combined with --json or --diagram; name a file")
        }
        _ => Ok(()),
    }
}

/// The files that a run is written to.
#[derive(Default)]
struct Outputs {
    sinks: Vec<Box<dyn Sink>>,
    /// The file of the page, its title, and the run.
    page: Option<(FileWriter, String, SharedSink<Encoder>)>,
}

/// A single run.
struct Run<'a> {
    runner: &'a dyn Runner,
    scenario: &'a Scenario,
    cuts: CutNames,
    output: &'a OutputArgs,
    replay: String,
}

impl Run<'_> {
    /// Makes the run, prints its result, and returns whether a promise was broken.
    fn show(&self, console: &mut Console<'_>) -> Result<bool, Error> {
        let mut outputs = Outputs::default();
        let is_printed = self.output.trace.as_deref() == Some(Path::new("-"));
        let text = SharedBuffer::default();
        let format = |out| self.output.format.sink(out, self.output.vector_clocks);
        match self.output.trace.as_deref() {
            None => {}
            Some(_) if is_printed => outputs.sinks.push(format(Box::new(text.clone()))),
            Some(file) => outputs.sinks.push(format(Box::new(create(file)?))),
        }
        if let Some(file) = &self.output.html {
            let title = run_report::heading(self.runner.name(), self.scenario);
            let run = SharedSink::new(Encoder::new(&title, ""));
            outputs.sinks.push(Box::new(run.handle()));
            outputs.page = Some((create(file)?, title, run));
        }
        let options = self.output.picture.options()?;
        let picture =
            self.output.picture.svg.as_deref().map(|file| (file, SharedSink::new(Picture::new(options))));
        outputs.sinks.extend(picture.iter().map(|(_, picture)| Box::new(picture.handle()) as Box<dyn Sink>));
        let Outputs { sinks, page } = outputs;
        let trace = (!sinks.is_empty()).then(|| self.recorder(sinks));
        let observer = trace.as_ref().map(|trace| Box::new(trace.handle()) as Box<dyn Observer>);
        let outcome = match observer {
            Some(observer) if is_printed => self.runner.run_observed(self.scenario, observer),
            observer => self.run_and_print(observer, console)?,
        };
        if let Some(trace) = trace {
            trace.into_inner().finish()?;
        }
        console.out.write_all(&text.take())?;
        if let Some((mut file, title, run)) = page {
            file.write_all(player::page(&title, &[(title.clone(), run.into_inner())]).as_bytes())?;
            file.flush()?;
        }
        if let Some((file, picture)) = picture {
            output_file::write(file, &picture.into_inner().svg()?)?;
        }
        Ok(!outcome.violations.is_empty())
    }

    fn recorder(&self, sinks: Vec<Box<dyn Sink>>) -> SharedObserver<Recorder> {
        let (name, cuts) = (self.runner.name(), self.cuts.clone());
        SharedObserver::new(Recorder::new(sinks, name, self.scenario, cuts, &self.replay))
    }

    fn run_and_print(
        &self,
        trace: Option<Box<dyn Observer>>,
        console: &mut Console<'_>,
    ) -> Result<Outcome, Error> {
        let log = SharedObserver::new(RunLog::new(self.scenario, self.cuts.clone()));
        let diagram =
            self.output.diagram.then(|| SharedObserver::new(Diagram::new(self.scenario, self.cuts.clone())));
        let mut observers = ObserverList(trace.into_iter().collect());
        if !self.output.json {
            observers.0.push(Box::new(log.handle()));
        }
        observers.0.extend(diagram.iter().map(|diagram| Box::new(diagram.handle()) as Box<dyn Observer>));
        let outcome = match observers.0.is_empty() {
            true => self.runner.run(self.scenario),
            false => self.runner.run_observed(self.scenario, Box::new(observers)),
        };
        let log = log.into_inner();
        let text = if self.output.json {
            json(&tournament::of_run(&outcome))
        } else {
            let timeline = diagram.map_or_else(|| log.timeline(), |diagram| diagram.into_inner().draw());
            let result =
                run_report::result(self.scenario, &outcome, &log.leader_summary(&outcome), &self.replay);
            let gap = if timeline.is_empty() { "" } else { "\n" };
            format!("{}\n\n{timeline}{gap}{result}", run_report::heading(self.runner.name(), self.scenario))
        };
        console.out.write_all(text.as_bytes())?;
        Ok(outcome)
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data") + "\n"
}
