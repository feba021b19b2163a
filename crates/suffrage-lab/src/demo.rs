//! `suffrage-lab demo`: an election, a crash and the next election: by real processes ([`demo_members`]), or in the
//! simulator, drawn as if it happened now.
//!
//! [`demo_members`]: crate::demo_members
#![allow(clippy::disallowed_methods, reason = "a drawing that unfolds before a person takes its time")]

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
use crate::watch::{Cuts, Shared};
use crate::{algorithms, args};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const EXAMPLES: &str = "Examples:
  suffrage-lab demo --algorithm raft
      five processes elect a leader, which is killed; then it is your turn, until Ctrl-C
  suffrage-lab demo --simulated
      one algorithm after the other, drawn message by message
  suffrage-lab demo --simulated --once --algorithm bully --nodes 8
      one of them

`suffrage demo` shows the quorum lease as it runs in production.";

/// How long a line, and a pause between acts, is left to be read.
const LINE: Duration = Duration::from_millis(150);
const ACT: Duration = Duration::from_millis(900);

/// More voters only cost, and are refused by every node.
const MOST_REAL: usize = 9;

pub(crate) fn command() -> Command {
    Command::new("demo")
        .about("Shows an election, the leader's crash and the next election")
        .arg(Arg::new("algorithm").long("algorithm").value_name("NAME").value_parser(name))
        .arg(Arg::new("nodes").long("nodes").value_name("N").default_value("5").value_parser(nodes))
        .arg(Arg::new("seed").long("seed").value_name("SEED").default_value("0").value_parser(args::seed))
        .arg(
            Arg::new("once").long("once").action(ArgAction::SetTrue).help(
                "Ends by itself; of --simulated, after one algorithm, as if output goes to no terminal",
            ),
        )
        .arg(
            Arg::new("simulated")
                .long("simulated")
                .action(ArgAction::SetTrue)
                .help("In the simulator, drawn message by message, instead of real processes"),
        )
        .mut_arg("algorithm", |arg| {
            arg.help("Which algorithm; of --simulated, which comes first [default: bully]")
        })
        .mut_arg("nodes", |arg| arg.help("How many processes"))
        .mut_arg("seed", |arg| arg.help("Decides everything that is left to chance, of --simulated"))
        .allow_negative_numbers(true)
        .after_help(EXAMPLES)
}

/// The place of an algorithm in the catalog.
fn name(text: &str) -> Result<usize, String> {
    CONTRACTS.iter().position(|contract| contract.name == text).ok_or_else(|| algorithms::no_such(text))
}

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes @ 2..=diagram::MOST) => Ok(nodes),
        _ => Err(format!("`{text}` is not a number of processes from 2 to {}", diagram::MOST)),
    }
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let nodes = *matches.get_one::<usize>("nodes").expect("it has a default");
    let chosen = matches.get_one::<usize>("algorithm").copied();
    if !matches.get_flag("simulated") {
        if matches.value_source("seed") == Some(ValueSource::CommandLine) {
            return Err(Error::flag("seed", "is for --simulated; real processes run as they do"));
        }
        if nodes > MOST_REAL {
            let reason = format!("a real cluster has up to {MOST_REAL} nodes here; --simulated has more");
            return Err(Error::flag("nodes", reason));
        }
        let members = Members::of(CONTRACTS[chosen.unwrap_or(0)].name);
        return suffrage_cli::demo::execute(Box::new(members), nodes, matches.get_flag("once"), console);
    }
    let seed = *matches.get_one::<u64>("seed").expect("it has a default");
    let mut place = chosen.unwrap_or(0);
    let mut stage = Stage::new(console);
    loop {
        let contract = &CONTRACTS[place % CONTRACTS.len()];
        play(contract, nodes, seed, &mut stage)?;
        if stage.is_stopped() {
            return stage.say("Stopped.");
        }
        if matches.get_flag("once") || !stage.live {
            return Ok(());
        }
        place += 1;
        stage.wait(ACT * 2);
    }
}

/// Where the play is given.
struct Stage<'a, 'c> {
    console: &'a mut Console<'c>,
    /// Whether anybody watches.
    live: bool,
    stopped: Arc<AtomicBool>,
}

impl<'a, 'c> Stage<'a, 'c> {
    fn new(console: &'a mut Console<'c>) -> Stage<'a, 'c> {
        let stopped = Arc::new(AtomicBool::new(false));
        let live = console.out_is_terminal;
        if live {
            let stop = Arc::clone(&stopped);
            // Where it cannot be set, Ctrl-C ends the program as it always does.
            let _ = ctrlc::set_handler(move || stop.store(true, Ordering::Relaxed));
        }
        Stage { console, live, stopped }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn say(&mut self, text: &str) -> Result<(), Error> {
        writeln!(self.console.out, "{text}")?;
        Ok(self.console.out.flush()?)
    }

    fn wait(&self, time: Duration) {
        let step = Duration::from_millis(50);
        let mut left = if self.live { time } else { Duration::ZERO };
        while !left.is_zero() && !self.is_stopped() {
            thread::sleep(left.min(step));
            left = left.saturating_sub(step);
        }
    }

    /// A sentence, then the lines of the drawing it is about.
    fn act<'l>(&mut self, sentence: &str, lines: impl Iterator<Item = &'l str>) -> Result<(), Error> {
        if self.is_stopped() {
            return Ok(());
        }
        self.say(&format!("\n{}\n", text::wrap(sentence, 100, 0)))?;
        self.wait(ACT);
        for line in lines {
            if self.is_stopped() {
                return Ok(());
            }
            self.say(line)?;
            self.wait(LINE);
        }
        self.wait(ACT);
        Ok(())
    }
}

/// Shows the algorithm of this contract: an election, the crash of the leader, and the next election.
fn play(contract: &Contract, nodes: usize, seed: u64, stage: &mut Stage<'_, '_>) -> Result<(), Error> {
    let runner = runner(contract.name, &[]).expect("nothing is set");
    let mut scenario = Scenario {
        seed,
        detector: Detector::Ideal { delay: Span::from_millis(2) },
        initiators: vec![0],
        ..Scenario::new(Roster::numbered(nodes))
    };
    let rehearsal = runner.run(&scenario);
    let leader = rehearsal.leader.expect("without faults, a leader is elected");
    let slot = scenario.roster.slot(leader).expect("a leader is a member");
    let crash = over(&rehearsal) + Span::from_millis(4);
    scenario.plan.push((crash, Fault::Crash(slot)));
    if !rehearsal.quiet {
        let rehearsal = runner.run(&scenario);
        scenario.until = Some(over(&rehearsal) + Span::from_millis(1));
    }
    let diagram = Shared::new(Diagram::new(&scenario, Cuts::default()));
    let outcome = runner.run_observed(&scenario, Box::new(diagram.handle()));
    let missed = crash + Span::from_millis(2);
    let (heading, lines, legend) = diagram.into_inner().lines();
    let part = |from: Time, to: Time| {
        lines.iter().filter(move |(at, _)| (from..to).contains(at)).map(|(_, line)| line.as_str())
    };

    let (name, crash_at) = (contract.name, text::time(crash));
    stage.say(&format!("{name}: {}", contract.summary))?;
    let first = scenario.roster.id(0);
    stage.act(
        &format!("Act 1. {} processes, and nobody leads. {first} calls an election.", nodes),
        std::iter::once(heading.as_str()).chain(part(Time::ZERO, crash)),
    )?;
    stage.act(&format!("Act 2. {leader} leads, until it crashes at {crash_at}."), part(crash, missed))?;
    let noticed = match contract.detection {
        Detection::Detector => "The failure detector reports the silence after 2 time units",
        Detection::Timeout => "The others miss it when a time-out runs out",
    };
    stage.act(
        &format!("Act 3. {noticed}, and a new leader is found."),
        part(missed, Time::MAX).chain(["", legend.as_str()]),
    )?;
    if stage.is_stopped() {
        return Ok(());
    }
    let back = text::time(crash + Span::from_millis(30));
    stage.say(&closing(name, leader, &outcome, &crash_at, &back))
}

/// When there was no more to see: nothing happened any more, or, where a leader repeats itself for ever,
/// nothing new.
fn over(rehearsal: &Outcome) -> Time {
    let last = if rehearsal.quiet { rehearsal.time } else { rehearsal.decided };
    Time::ZERO + Span::from_units(last.ceil())
}

fn closing(name: &str, fallen: NodeId, outcome: &Outcome, crash_at: &str, back_at: &str) -> String {
    let result = match outcome.leader {
        Some(leader) => {
            let messages = outcome.messages.total + outcome.messages.multicasts;
            format!("{fallen} is dead, {leader} leads: {messages} messages in all.")
        }
        None => format!("{fallen} is dead, and the others have not agreed on a successor."),
    };
    let nodes = outcome.nodes;
    format!(
        "\n{result}\n\nNext, bring {fallen} back and see what happens:\n  suffrage-lab simulate {name} --nodes {nodes} \
         --crash {fallen}@{crash_at} --recover {fallen}@{back_at} --detector ideal:2 --diagram\n"
    )
}
