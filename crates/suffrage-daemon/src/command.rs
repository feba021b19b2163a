//! The command line as a whole.

use clap::{ArgMatches, Command};
use suffrage_cli::{Console, Error, accept_hyphen_values, completions, validate};

use crate::{client, demo, demo_node, group, keygen, lab, node, run};

const ABOUT: &str = "Leader election: exactly one active instance of something.

A cluster of one, three or five nodes grants leases of named elections, each with a fencing token. There are never \
two leaders of one name at once.";

const EXAMPLES: &str = "Examples:
  suffrage demo --once
      five processes elect a leader; it is killed, and the others elect the next
  suffrage run --name reports --config suffrage.toml -- ./reports
      a command that runs only on the leader
  suffrage leader reports
      the leader, as a node knows it
  suffrage validate --ttl 3s --renew 1s --rtt 5ms --drift 1%
      the worst cases of the timings of a quorum lease
  suffrage group --join seed.example:7500 --name telemetry --keys group.key
      a member of a large group, which has no quorum: two members can lead at the same time
  suffrage lab --help
      simulate, compare, torture and check election algorithms, if suffrage-lab is installed

`suffrage node --help` explains how to run a cluster.

Exit codes:
  0  the command ran
  1  there is no leader, or the queried node is not the leader; timings cannot work; or output could not be written
  2  the command line is wrong; standard error has the reason
  3  the queried node cannot be reached
  `suffrage run` exits with the code of its command";

const COMPLETIONS: &str = "Examples:
  source <(suffrage completions bash)
      in ~/.bashrc
  suffrage completions zsh > ~/.zfunc/_suffrage
      in a folder of fpath
  suffrage completions fish > ~/.config/fish/completions/suffrage.fish";

/// The command line: parser and help.
pub(crate) fn command() -> Command {
    Command::new("suffrage")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Leader election: exactly one active instance of something.")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .max_term_width(100)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommands([
            demo::command(),
            accept_hyphen_values(run::command()),
            node::command(),
            node::config_command(),
            group::command(),
            keygen::command(),
            validate::command(),
            client::engine::command(),
            lab::command(),
            completions::command(COMPLETIONS),
            run::guard_command(),
            demo_node::command(),
        ])
        .subcommands(client::commands().into_iter().map(accept_hyphen_values))
}

/// Executes a command line and returns the exit code.
pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    match matches.subcommand() {
        Some(("demo", matches)) => demo::execute(matches, console).map(|()| 0),
        Some(("keygen", matches)) => keygen::execute(matches, console).map(|()| 0),
        Some(("demo-node", matches)) => demo_node::execute(matches),
        Some(("completions", matches)) => completions::execute(matches, console, command()),
        Some(("lab", matches)) => lab::execute(matches),
        Some(("run", matches)) => run::execute(matches, console),
        Some((suffrage_node::supervise::ENTRY, matches)) => Ok(run::guard(matches)),
        Some(("validate", matches)) => validate::execute(matches, console, |_, _| None),
        Some(("node", matches)) => node::execute(matches, console),
        Some(("engines", matches)) => client::engine::list(matches, console),
        Some(("config", matches)) => node::check(matches, console),
        Some(("group", matches)) => group::execute(matches, console),
        Some((name, matches)) if client::NAMES.contains(&name) => client::execute(name, matches, console),
        _ => unreachable!("clap demands one of the subcommands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// A member is started by flags of `group`, and asked by its subcommands; not by both.
    #[test]
    fn a_group_is_joined_by_flags_and_asked_by_subcommands() {
        let parses = |line: &str| command().try_get_matches_from(line.split_whitespace()).is_ok();
        assert!(parses("suffrage group --join seed:7500 --name telemetry"));
        assert!(parses("suffrage group --join a:7500 --join b:7500,c:7500 --name telemetry --rank -5"));
        assert!(parses("suffrage group members") && parses("suffrage group rank -5 --json"));
        assert!(!parses("suffrage group") && !parses("suffrage group --name telemetry status"));
    }

    /// The examples need a cluster to run; they are only parsed here.
    #[test]
    fn the_examples_for_real_clusters_are_parsed() {
        let check = node::config_command().find_subcommand("check").unwrap().clone();
        let commands = [node::command(), group::command(), keygen::command(), check];
        let queries = client::commands().into_iter().chain(client::group::commands());
        for page in commands.into_iter().chain(queries) {
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

    /// Every command line in a shell block of the documents is parsed.
    #[test]
    fn the_commands_of_the_documents_are_parsed() {
        for document in ["docs/operations.md", "docs/tutorial.md", "docs/engines.md", "docs/groups.md"] {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            let text = std::fs::read_to_string(format!("{path}/{document}")).unwrap().replace("\\\n", "");
            let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
            let lines: Vec<&str> = blocks.flat_map(str::lines).filter_map(invocation).collect();
            assert!(lines.len() > 3, "{document}: {lines:?}");
            for line in lines {
                let read = command().try_get_matches_from(line.split_whitespace());
                assert!(read.is_ok(), "{document}: {line}: {}", read.unwrap_err());
            }
        }
    }

    /// The command line of `suffrage` in a line of shell, without redirections and variables.
    fn invocation(line: &str) -> Option<&str> {
        let place = line.match_indices("suffrage ").map(|(place, _)| place).find(|place| {
            let before = line[..*place].trim_end();
            before.is_empty() || before.ends_with("--") || before.ends_with("=A") || before.ends_with("=B")
        })?;
        let ends = [" 2>", " >", " &", ";", " |"].iter().filter_map(|end| line[place..].find(end));
        Some(&line[place..place + ends.min().unwrap_or(line.len() - place)])
    }
}
