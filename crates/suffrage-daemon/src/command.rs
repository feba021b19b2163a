//! The command line as a whole.

use std::ffi::OsString;

use clap::Command;

use crate::error::Error;
use crate::{
    Console, algorithms, check, client, compare, demo, demo_node, keygen, member, node, plan, reproduce, run,
    simulate, simulate_detector, simulate_multicast, torture, validate,
};

const ABOUT: &str = "Leader election: algorithms to compare, break and look at.

Every algorithm is written once, as a state machine without I/O. Here it runs in a deterministic \
simulator: the same seed gives the same run on every machine, so whatever you see you can see again.";

const EXAMPLES: &str = "Examples:
  suffrage demo --once
      five processes elect a leader; it is killed, and the others elect the next
  suffrage algorithms
      every algorithm, what it costs and what it promises
  suffrage simulate bully --nodes 6 --crashed 6 --initiator 3 --diagram
      one run, message by message
  suffrage compare --scenario leader-crash
      every algorithm on the same runs, in one table
  suffrage torture all --seeds 0..100
      everything goes wrong, and promises must be kept
  suffrage check quorum-lease
      every schedule of a small world
  suffrage validate --ttl 3s --renew 1s --rtt 5ms --drift 1%
      what the timings of a quorum lease are worth
  suffrage reproduce gupta2000 --help
      a paper's figures made again, and which of its claims held

On real machines:
  `suffrage node --help` says how to run a cluster, and `suffrage leader NAME` asks it who leads;
  `suffrage member --help`, how to run one with any of the algorithms
  suffrage run --name reports --config suffrage.toml -- ./reports
      a command that runs only where it leads

Exit codes:
  0  the command ran
  1  a promise was broken under torture or check, or in a simulation with --strict; timings cannot
     work; no plan reaches its target; output could not be written; or nobody leads, or the node that was
     asked does not
  2  the command line is wrong; one sentence on standard error says how
  3  the node that was to be asked cannot be reached
  `suffrage run` exits as its command does";

/// The command line: parser, help and checks in one.
pub(crate) fn command() -> Command {
    Command::new("suffrage")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Leader election: algorithms to compare, break and look at.")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .max_term_width(100)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands([
            demo::command(),
            run::command(),
            algorithms::command(),
            simulate::command(),
            compare::command(),
            torture::command(),
            check::command(),
            simulate_detector::command(),
            simulate_multicast::command(),
            validate::command(),
            reproduce::command(),
            plan::command(),
            keygen::command(),
            node::command(),
            node::config_command(),
            member::command(),
            run::guard_command(),
            demo_node::command(),
        ])
        .subcommands(client::commands())
}

/// Does what the command line says; the exit code.
pub(crate) fn execute(arguments: &[OsString], console: &mut Console<'_>) -> Result<u8, Error> {
    let matches = command().try_get_matches_from(arguments)?;
    match matches.subcommand() {
        Some(("algorithms", matches)) => algorithms::execute(matches, console).map(|()| 0),
        Some(("check", matches)) => check::execute(matches, console),
        Some(("compare", matches)) => compare::execute(matches, console).map(|()| 0),
        Some(("demo", matches)) => demo::execute(matches, console).map(|()| 0),
        Some(("keygen", matches)) => keygen::execute(matches, console).map(|()| 0),
        Some(("demo-node", matches)) => demo_node::execute(matches),
        Some(("run", matches)) => run::execute(matches, console),
        Some((suffrage_node::supervise::ENTRY, matches)) => Ok(run::guard(matches)),
        Some(("torture", matches)) => torture::execute(matches, console),
        Some(("plan", matches)) => plan::execute(matches, console),
        Some(("reproduce", matches)) => reproduce::execute(matches, console).map(|()| 0),
        Some(("simulate", matches)) => simulate::execute(matches, console),
        Some(("simulate-detector", matches)) => simulate_detector::execute(matches, console).map(|()| 0),
        Some(("simulate-multicast", matches)) => simulate_multicast::execute(matches, console).map(|()| 0),
        Some(("validate", matches)) => validate::execute(matches, console),
        Some(("member", matches)) => member::execute(matches),
        Some(("node", matches)) => node::execute(matches, console),
        Some(("config", matches)) => node::check(matches, console),
        Some((name, matches)) if client::NAMES.contains(&name) => client::execute(name, matches, console),
        _ => unreachable!("clap demands one of the subcommands"),
    }
}

/// The subcommand a command line names, as far as it can be made out, for hints.
pub(crate) fn path(arguments: &[OsString]) -> String {
    let command = command();
    let mut here = &command;
    let mut path = here.get_name().to_string();
    for word in arguments.iter().skip(1) {
        let Some(next) = here.find_subcommand(word) else { break };
        here = next;
        path = format!("{path} {}", here.get_name());
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    /// They need a cluster to run, but can be read without.
    #[test]
    fn the_examples_for_real_clusters_are_understood() {
        let check = node::config_command().find_subcommand("check").unwrap().clone();
        let commands = [node::command(), member::command(), keygen::command(), check];
        for page in commands.into_iter().chain(client::commands()) {
            let help = page.get_after_help().unwrap().to_string().replace("\\\n", "");
            let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
            let examples: Vec<&str> = lines.filter(|line| line.starts_with("suffrage ")).collect();
            assert!(!examples.is_empty(), "{}", page.get_name());
            for example in examples {
                let read = command().try_get_matches_from(example.split_whitespace());
                assert!(read.is_ok(), "{example}: {}", read.unwrap_err());
            }
        }
    }

    /// What people copy from the documents is understood: all that stands in a block of shell commands.
    #[test]
    fn the_commands_of_the_documents_are_understood() {
        for document in ["docs/operations.md", "docs/tutorial.md"] {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            let text = std::fs::read_to_string(format!("{path}/{document}")).unwrap().replace("\\\n", "");
            let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
            let lines: Vec<&str> = blocks.flat_map(str::lines).filter_map(invocation).collect();
            assert!(lines.len() > 5, "{document}: {lines:?}");
            for line in lines {
                let read = command().try_get_matches_from(line.split_whitespace());
                assert!(read.is_ok(), "{document}: {line}: {}", read.unwrap_err());
            }
        }
    }

    /// The command line of ours in a line of shell, without what the shell itself reads.
    fn invocation(line: &str) -> Option<&str> {
        let place = line.match_indices("suffrage ").map(|(place, _)| place).find(|place| {
            let before = line[..*place].trim_end();
            before.is_empty() || before.ends_with("--") || before.ends_with("=A") || before.ends_with("=B")
        })?;
        let ends = [" 2>", " &", ";", " |"].iter().filter_map(|end| line[place..].find(end));
        Some(&line[place..place + ends.min().unwrap_or(line.len() - place)])
    }

    #[test]
    fn hints_name_the_subcommand() {
        let path = |line: &str| path(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(path("suffrage simulate bully --nodes x"), "suffrage simulate bully");
        assert_eq!(path("suffrage simulate nobody --nodes x"), "suffrage simulate");
        assert_eq!(path("suffrage --nodes"), "suffrage");
    }
}
