//! The command line of the program.

use clap::{ArgMatches, Command};
use suffrage_cli::{Console, Error, completions};

use crate::{
    algorithms, check, compare, convert, demo, gallery, group, member, plan, play, reproduce, simulate,
    simulate_detector, simulate_multicast, torture, validate,
};

const ABOUT: &str = "Leader election algorithms to simulate, compare, break, check and look at.

Every algorithm is written once, as a state machine without I/O. Here it runs in a deterministic \
simulator: the same seed gives the same run on every machine, so every run can be repeated. \
The program for running elections is `suffrage`.";

const EXAMPLES: &str = "Examples:
  suffrage-lab algorithms
      every algorithm with its costs and promises
  suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 3 --diagram
      one run, as a space-time diagram
  suffrage-lab compare --scenario leader-crash
      every algorithm in the same runs, in one table
  suffrage-lab torture all --seeds 0..100
      random faults, under which the promises must hold
  suffrage-lab check lease
      every schedule of a small world
  suffrage-lab validate --ttl 3s --renew 1s --rtt 5ms --simulate
      the worst cases of the timings of a quorum lease, computed and simulated
  suffrage-lab reproduce gupta2000 --help
      reproduces the figures of a paper and checks its claims
  suffrage-lab demo --algorithm raft
      any algorithm as real processes; on several machines: `suffrage-lab member --help`

Exit codes:
  0  the command ran
  1  torture, check or simulate --strict found a broken promise; timings cannot work; no plan
     reaches its target; or output could not be written
  2  the command line is wrong; standard error says why";

const COMPLETIONS: &str = "Examples:
  source <(suffrage-lab completions bash)
      in ~/.bashrc
  suffrage-lab completions zsh > ~/.zfunc/_suffrage-lab
      in a folder of fpath
  suffrage-lab completions fish > ~/.config/fish/completions/suffrage-lab.fish";

/// The parser of the command line, with its help texts.
pub(crate) fn command() -> Command {
    Command::new("suffrage-lab")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Leader election algorithms to simulate, compare, break, check and look at.")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .max_term_width(100)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommands([
            algorithms::command(),
            simulate::command(),
            compare::command(),
            torture::command(),
            check::command(),
            simulate_detector::command(),
            simulate_multicast::command(),
            group::command(),
            play::command(),
            gallery::command(),
            convert::command(),
            validate::command(),
            reproduce::command(),
            plan::command(),
            demo::command(),
            member::command(),
            completions::command(COMPLETIONS),
        ])
}

/// Runs the command and returns its exit code.
pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    match matches.subcommand() {
        Some(("algorithms", matches)) => algorithms::execute(matches, console).map(|()| 0),
        Some(("check", matches)) => check::execute(matches, console),
        Some(("convert", matches)) => convert::execute(matches, console).map(|()| 0),
        Some(("compare", matches)) => compare::execute(matches, console).map(|()| 0),
        Some(("demo", matches)) => demo::execute(matches, console).map(|()| 0),
        Some(("torture", matches)) => torture::execute(matches, console),
        Some(("gallery", matches)) => gallery::execute(matches, console).map(|()| 0),
        Some(("group", matches)) => group::execute(matches, console),
        Some(("play", matches)) => play::execute(matches, console).map(|()| 0),
        Some(("plan", matches)) => plan::execute(matches, console),
        Some(("reproduce", matches)) => reproduce::execute(matches, console).map(|()| 0),
        Some(("simulate", matches)) => simulate::execute(matches, console),
        Some(("simulate-detector", matches)) => simulate_detector::execute(matches, console).map(|()| 0),
        Some(("simulate-multicast", matches)) => simulate_multicast::execute(matches, console).map(|()| 0),
        Some(("validate", matches)) => validate::execute(matches, console),
        Some(("completions", matches)) => completions::execute(matches, console, command()),
        Some(("member", matches)) => member::execute(matches),
        _ => unreachable!("clap demands one of the subcommands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        command().debug_assert();
    }

    /// Running these examples needs a cluster; parsing them does not.
    #[test]
    fn the_examples_for_real_clusters_parse() {
        let help = member::command().get_after_help().unwrap().to_string().replace("\\\n", "");
        let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
        let examples: Vec<&str> = lines.filter(|line| line.starts_with("suffrage-lab ")).collect();
        assert!(!examples.is_empty());
        for example in examples {
            let parsed = command().try_get_matches_from(example.split_whitespace());
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
