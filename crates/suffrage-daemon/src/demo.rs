//! `suffrage demo`: five voters on loopback, each in a process of its own, elect a leader; the leader is killed, and the
//! others elect the next one.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes that run in real time")]

use std::path::Path;
use std::process;

use clap::{Arg, ArgAction, ArgMatches, Command};
use suffrage_cli::demo::{self, DemoNodes, DemoOptions, NodeReport, index_of};
use suffrage_cli::{Console, Error};
use suffrage_core::{Span, Time};

const EXAMPLES: &str = "Examples:
  suffrage demo --open
      five processes elect a leader, which is killed; then you kill, pause and cut off nodes on a page, until Ctrl-C
  suffrage demo --once --nodes 3
      ends after the second election

`suffrage-lab demo` shows the other algorithms, as real processes or in the simulator.";

const TTL: &str = "1s";
const LONGEST_TTL: &str = "2s";
/// The most voters of a cluster.
const MOST_NODES: usize = 9;

pub(crate) fn command() -> Command {
    Command::new("demo")
        .about("Shows an election, the leader's crash and the next election, by real processes")
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_name("N")
                .default_value("5")
                .value_parser(nodes)
                .help("The number of processes, 2 to 9"),
        )
        .arg(Arg::new("once").long("once").action(ArgAction::SetTrue).help("Ends after the second election"))
        .arg(demo::open_flag())
        .allow_negative_numbers(true)
        .after_help(EXAMPLES)
}

fn nodes(text: &str) -> Result<usize, String> {
    suffrage_cli::text::number_within(text, "processes", 2, MOST_NODES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let nodes = *matches.get_one::<usize>("nodes").expect("it has a default");
    let options = DemoOptions { nodes, once: matches.get_flag("once"), open: matches.get_flag("open") };
    demo::execute(Box::new(Voters), options, console)
}

/// Voters that are candidates, too: `suffrage demo-node`.
struct Voters;

impl DemoNodes for Voters {
    fn command(&self, node: usize, addresses: &str, folder: &Path, new: bool) -> process::Command {
        let mut command = process::Command::new("/proc/self/exe");
        command
            .args([
                "demo-node",
                "--socket-from-input",
                "--campaign",
                "demo",
                "--ttl",
                TTL,
                "--longest-ttl",
                LONGEST_TTL,
            ])
            .args(["--id", &(node + 1).to_string(), "--cluster", addresses, "--keys"])
            .arg(folder.join("keys"))
            .arg("--data")
            .arg(folder.join(format!("node-{}", node + 1)))
            .args(new.then_some("--new"));
        command
    }

    fn parse_line(&self, line: &str) -> Option<(Time, NodeReport)> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let report = match (*words.get(1)?, number(2), number(3)) {
            ("ready", ..) => NodeReport::Ready,
            ("leads", Some(token), _) => NodeReport::Leads(token),
            ("valid", Some(nanos), _) => NodeReport::Valid(Span::from_nanos(nanos)),
            ("follows", Some(leader), Some(token)) => NodeReport::Follows(index_of(leader)?, token),
            ("lost", ..) => NodeReport::Lost,
            ("nobody", ..) => NodeReport::Nobody,
            _ => return None,
        };
        Some((Time::from_nanos(number(0)?), report))
    }

    fn setting(&self, nodes: usize) -> String {
        format!("{nodes} processes, each with its own socket and data folder; leases of {TTL}")
    }

    fn on_return(&self, id: usize) -> String {
        format!("node {id} is restarted, and does not vote until its earlier grants have expired")
    }

    fn has_leases(&self) -> bool {
        true
    }

    fn never_two(&self) -> bool {
        true
    }

    fn title(&self) -> (String, String) {
        let promise = "Two nodes never lead at once, while their clocks keep the drift bound.";
        ("quorum lease".to_string(), promise.to_string())
    }

    fn suffices(&self, alive: &[bool]) -> bool {
        alive.iter().filter(|&&alive| alive).count() > alive.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_voters_are_parsed() {
        let at = Time::from_nanos(17);
        assert_eq!(Voters.parse_line("17 leads 5"), Some((at, NodeReport::Leads(5))));
        assert_eq!(Voters.parse_line("17 follows 2 5"), Some((at, NodeReport::Follows(1, 5))));
        assert_eq!(Voters.parse_line("17 follows 0 5"), None);
        assert_eq!(Voters.parse_line("nonsense"), None);
        assert!(!Voters.suffices(&[true, false]) && Voters.suffices(&[true, true, false]));
    }
}
