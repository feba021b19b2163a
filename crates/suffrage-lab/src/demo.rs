//! `suffrage-lab demo`: an election, a crash and the next election, with real processes ([`demo_members`]) or in the
//! simulator, as an animated diagram.
//!
//! [`demo_members`]: crate::demo_members
#![allow(clippy::disallowed_methods, reason = "an animated diagram needs real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::{Contract, Detection, NodeId, Roster, Span, Time};
use suffrage_sim::{Detector, Fault, Outcome, Scenario, runner};

use crate::demo_members::Members;
use crate::diagram::{self, Diagram};
use crate::observers::{CutNames, SharedObserver};
use crate::{algorithms, args};
use suffrage_cli::Error;
use suffrage_cli::demo::DemoOptions;
use suffrage_cli::{Console, text};

const EXAMPLES: &str = "Examples:
  suffrage-lab demo --algorithm raft
      five processes elect a leader, which is killed; then you can kill processes, until Ctrl-C
  suffrage-lab demo --algorithm bully --open
      a page on which a cut link makes two processes lead at once
  suffrage-lab demo --simulated
      one algorithm after the other, as space-time diagrams
  suffrage-lab demo --simulated --once --algorithm bully --nodes 8
      one algorithm

`suffrage demo` shows the quorum lease as it runs in production.";

/// The pause after a line.
const LINE_PAUSE: Duration = Duration::from_millis(150);
/// The pause between steps.
const STEP_PAUSE: Duration = Duration::from_millis(900);

/// The most real nodes: a configuration has at most this many voters.
const MAX_REAL_NODES: usize = 9;

pub(crate) fn command() -> Command {
    Command::new("demo")
        .about("Shows an election, the leader's crash and the next election")
        .arg(Arg::new("algorithm").long("algorithm").value_name("NAME").value_parser(catalog_index))
        .arg(Arg::new("nodes").long("nodes").value_name("N").default_value("5").value_parser(nodes))
        .arg(Arg::new("seed").long("seed").value_name("SEED").default_value("0").value_parser(args::seed))
        .arg(Arg::new("once").long("once").action(ArgAction::SetTrue).help(
            "Ends without Ctrl-C; with --simulated, after one algorithm, as it does without a terminal",
        ))
        .arg(
            Arg::new("simulated")
                .long("simulated")
                .action(ArgAction::SetTrue)
                .help("Runs in the simulator and draws a space-time diagram, instead of real processes"),
        )
        .arg(suffrage_cli::demo::open_flag().conflicts_with("simulated"))
        .mut_arg("algorithm", |arg| {
            arg.help("The algorithm; with --simulated, the first algorithm [default: bully]")
        })
        .mut_arg("nodes", |arg| arg.help("The number of processes"))
        .mut_arg("seed", |arg| arg.help("The seed of all random choices; only with --simulated"))
        .allow_negative_numbers(true)
        .after_help(EXAMPLES)
}

/// The index of an algorithm in the catalog.
fn catalog_index(text: &str) -> Result<usize, String> {
    CONTRACTS
        .iter()
        .position(|contract| contract.name == text)
        .ok_or_else(|| algorithms::unknown_algorithm(text))
}

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes @ 2..=diagram::MAX_LIFELINES) => Ok(nodes),
        _ => Err(format!("`{text}` is not a number of processes from 2 to {}", diagram::MAX_LIFELINES)),
    }
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let nodes = *matches.get_one::<usize>("nodes").expect("it has a default");
    let chosen = matches.get_one::<usize>("algorithm").copied();
    if !matches.get_flag("simulated") {
        if matches.value_source("seed") == Some(ValueSource::CommandLine) {
            return Err(Error::flag("seed", "applies only with --simulated"));
        }
        if nodes > MAX_REAL_NODES {
            let reason =
                format!("a real cluster has up to {MAX_REAL_NODES} nodes; use fewer nodes or --simulated");
            return Err(Error::flag("nodes", reason));
        }
        let members = Members::of(CONTRACTS[chosen.unwrap_or(0)].name);
        let options = DemoOptions { nodes, once: matches.get_flag("once"), open: matches.get_flag("open") };
        return suffrage_cli::demo::execute(Box::new(members), options, console);
    }
    let seed = *matches.get_one::<u64>("seed").expect("it has a default");
    let mut index = chosen.unwrap_or(0);
    let mut screen = Screen::new(console);
    loop {
        let contract = &CONTRACTS[index % CONTRACTS.len()];
        show(contract, nodes, seed, &mut screen)?;
        if screen.is_stopped() {
            return screen.print("Stopped.");
        }
        if matches.get_flag("once") || !screen.animated {
            return Ok(());
        }
        index += 1;
        screen.wait(STEP_PAUSE * 2);
    }
}

/// The terminal that shows the demo, or other output without pauses.
struct Screen<'a, 'c> {
    console: &'a mut Console<'c>,
    /// Whether output is a terminal: only then are there pauses.
    animated: bool,
    stopped: Arc<AtomicBool>,
}

impl<'a, 'c> Screen<'a, 'c> {
    fn new(console: &'a mut Console<'c>) -> Screen<'a, 'c> {
        let stopped = Arc::new(AtomicBool::new(false));
        let animated = console.out_is_terminal;
        if animated {
            let stop = Arc::clone(&stopped);
            // If the handler cannot be set, Ctrl-C ends the program at once.
            let _ = ctrlc::set_handler(move || stop.store(true, Ordering::Relaxed));
        }
        Screen { console, animated, stopped }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn print(&mut self, text: &str) -> Result<(), Error> {
        writeln!(self.console.out, "{text}")?;
        Ok(self.console.out.flush()?)
    }

    fn wait(&self, time: Duration) {
        let step = Duration::from_millis(50);
        let mut left = if self.animated { time } else { Duration::ZERO };
        while !left.is_zero() && !self.is_stopped() {
            thread::sleep(left.min(step));
            left = left.saturating_sub(step);
        }
    }

    /// Prints a sentence and the lines of the diagram that belong to it.
    fn show_step<'l>(&mut self, sentence: &str, lines: impl Iterator<Item = &'l str>) -> Result<(), Error> {
        if self.is_stopped() {
            return Ok(());
        }
        self.print(&format!("\n{}\n", text::wrap(sentence, 100, 0)))?;
        self.wait(STEP_PAUSE);
        for line in lines {
            if self.is_stopped() {
                return Ok(());
            }
            self.print(line)?;
            self.wait(LINE_PAUSE);
        }
        self.wait(STEP_PAUSE);
        Ok(())
    }
}

/// Shows an election of this algorithm, the crash of the leader, and the next election.
fn show(contract: &Contract, nodes: usize, seed: u64, screen: &mut Screen<'_, '_>) -> Result<(), Error> {
    let runner = runner(contract.name, &[]).expect("nothing is set");
    let mut scenario = Scenario {
        seed,
        detector: Detector::Ideal { delay: Span::from_millis(2) },
        initiators: vec![0],
        ..Scenario::new(Roster::numbered(nodes))
    };
    let dry_run = runner.run(&scenario);
    let leader = dry_run.leader.expect("without faults, a leader is elected");
    let slot = scenario.roster.slot(leader).expect("a leader is a member");
    let crash = end_of(&dry_run) + Span::from_millis(4);
    scenario.plan.push((crash, Fault::Crash(slot)));
    if !dry_run.quiet {
        let dry_run = runner.run(&scenario);
        scenario.until = Some(end_of(&dry_run) + Span::from_millis(1));
    }
    let diagram = SharedObserver::new(Diagram::new(&scenario, CutNames::default()));
    let outcome = runner.run_observed(&scenario, Box::new(diagram.handle()));
    let detected = crash + Span::from_millis(2);
    let (heading, lines, legend) = diagram.into_inner().lines();
    let part = |from: Time, to: Time| {
        lines.iter().filter(move |(at, _)| (from..to).contains(at)).map(|(_, line)| line.as_str())
    };

    let (name, crash_at) = (contract.name, text::time(crash));
    screen.print(&format!("{name}: {}", contract.summary))?;
    let first = scenario.roster.id(0);
    screen.show_step(
        &format!("Step 1. {} processes, no leader. {first} calls an election.", nodes),
        std::iter::once(heading.as_str()).chain(part(Time::ZERO, crash)),
    )?;
    screen.show_step(
        &format!("Step 2. {leader} leads, until it crashes at {crash_at}."),
        part(crash, detected),
    )?;
    let detection = match contract.detection {
        Detection::Detector => "The failure detector reports the crash after 2 time units",
        Detection::Timeout => "A time-out of another process expires",
    };
    screen.show_step(
        &format!("Step 3. {detection}, and a new leader is elected."),
        part(detected, Time::MAX).chain(["", legend.as_str()]),
    )?;
    if screen.is_stopped() {
        return Ok(());
    }
    let recover_at = text::time(crash + Span::from_millis(30));
    screen.print(&summary(name, leader, &outcome, &crash_at, &recover_at))
}

/// The end of the interesting part of a run: its last event, or the last change of belief if the leader sends
/// heartbeats for ever.
fn end_of(dry_run: &Outcome) -> Time {
    let last = if dry_run.quiet { dry_run.time } else { dry_run.decided };
    Time::ZERO + Span::from_units(last.ceil())
}

fn summary(name: &str, crashed: NodeId, outcome: &Outcome, crash_at: &str, recover_at: &str) -> String {
    let result = match outcome.leader {
        Some(leader) => {
            let messages = outcome.messages.total + outcome.messages.multicasts;
            format!("{crashed} has crashed, {leader} leads. The run took {messages} messages.")
        }
        None => format!("{crashed} has crashed, and the others have not agreed on a new leader."),
    };
    let nodes = outcome.nodes;
    format!(
        "\n{result}\n\nNext, let {crashed} recover:\n  suffrage-lab simulate {name} --nodes {nodes} \
         --crash {crashed}@{crash_at} --recover {crashed}@{recover_at} --detector ideal:2 --diagram\n"
    )
}
