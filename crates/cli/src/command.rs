//! The command line as a whole.

use std::ffi::OsString;

use clap::Command;

use crate::error::Error;
use crate::{
    Console, algorithms, compare, demo, demo_node, run, simulate, simulate_detector, simulate_multicast,
    torture, validate,
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
  suffrage run --name reports --config suffrage.toml -- ./reports
      a command that runs only where it leads
  suffrage validate --ttl 3s --renew 1s --rtt 5ms --drift 1%
      what the timings of a quorum lease are worth

Exit codes:
  0  the command ran
  1  a promise was broken under torture, or in a simulation with --strict; or timings cannot work;
     or output could not be written
  2  the command line is wrong; one sentence on standard error says how
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
            simulate_detector::command(),
            simulate_multicast::command(),
            validate::command(),
            run::guard_command(),
            demo_node::command(),
        ])
}

/// Does what the command line says; the exit code.
pub(crate) fn execute(arguments: &[OsString], console: &mut Console<'_>) -> Result<u8, Error> {
    let matches = command().try_get_matches_from(arguments)?;
    match matches.subcommand() {
        Some(("algorithms", matches)) => algorithms::execute(matches, console).map(|()| 0),
        Some(("compare", matches)) => compare::execute(matches, console).map(|()| 0),
        Some(("demo", matches)) => demo::execute(matches, console).map(|()| 0),
        Some(("demo-node", matches)) => demo_node::execute(matches),
        Some(("run", matches)) => run::execute(matches, console),
        Some((runtime::supervise::ENTRY, matches)) => Ok(run::guard(matches)),
        Some(("torture", matches)) => torture::execute(matches, console),
        Some(("simulate", matches)) => simulate::execute(matches, console),
        Some(("simulate-detector", matches)) => simulate_detector::execute(matches, console).map(|()| 0),
        Some(("simulate-multicast", matches)) => simulate_multicast::execute(matches, console).map(|()| 0),
        Some(("validate", matches)) => validate::execute(matches, console),
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

    #[test]
    fn hints_name_the_subcommand() {
        let path = |line: &str| path(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(path("suffrage simulate bully --nodes x"), "suffrage simulate bully");
        assert_eq!(path("suffrage simulate nobody --nodes x"), "suffrage simulate");
        assert_eq!(path("suffrage --nodes"), "suffrage");
    }
}
