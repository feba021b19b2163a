//! `suffrage node` and `suffrage config check`: a node of a real cluster, and what it is told.
#![allow(clippy::disallowed_methods, reason = "a node is told things by the environment, too")]

use std::path::PathBuf;

use crate::daemon;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use suffrage_node::config::{Config, KEYS};

use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Runs a node of a cluster, until it is told to stop.

A node votes if it is one of the voters, and takes part in elections for whoever asks it to over HTTP. What it \
is told comes from flags, from SUFFRAGE_.. in the environment and from a file, in this order: --longest-ttl is \
SUFFRAGE_LONGEST_TTL is longest-ttl.

SIGTERM and SIGINT stop it: it hands over first, and waits for clients that lead to resign, or for their \
leases to end; a second one does not wait. SIGHUP reads the keys, the token and the certificate of HTTP again, so that \
they can be replaced without a break. It logs to standard error, and tells systemd when it is ready (Type=notify).";

const EXAMPLES: &str = "Examples:
  suffrage keygen cluster.key
      a key for the cluster, to be copied to every node
  suffrage node --id 1 --voters 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 \\
      --keys cluster.key --data /var/lib/suffrage --new
      the first of three, for the first time
  suffrage node --config suffrage.toml
      the same, later, from a file
  suffrage node --config suffrage.toml --init
      only makes the data folder, before a service is started for the first time
  suffrage node --config suffrage.toml --http 10.0.0.1:7480 --http-token token --http-cert node.pem --http-key node.key
      with HTTP for others than this machine: encrypted, and only for those who bear the token

Exit codes: 0 it was told to stop, 1 it could not go on, 2 what it was told is wrong.";

const CHECK_EXAMPLES: &str = "Examples:
  suffrage config check --config /etc/suffrage.toml
      says whether a node would accept it, and what it would be

Exit codes: 0 it would, 1 a file that it names is not as it should be, 2 what it says is wrong.";

pub(crate) fn command() -> Command {
    told(Command::new("node"))
        .about("Runs a node of a cluster")
        .long_about(ABOUT)
        .arg(Arg::new("new").long("new").action(ArgAction::SetTrue).help(
            "Begins with an empty data folder: for a voter that has never voted. One that has lost its \
             folder must come back with another id",
        ))
        .arg(Arg::new("init").long("init").action(ArgAction::SetTrue).conflicts_with("new").help(
            "Only makes that empty data folder, and ends: for services, which are always started the same way",
        ))
        .after_help(EXAMPLES)
}

pub(crate) fn config_command() -> Command {
    let check = told(Command::new("check"))
        .about("Says whether a node would accept this configuration")
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints the result as JSON"))
        .after_help(CHECK_EXAMPLES);
    Command::new("config")
        .about("Checks the configuration of a node")
        .subcommand_required(true)
        .subcommand(check)
}

/// With everything a node can be told.
fn told(command: Command) -> Command {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("A file that says the same, as TOML [also: SUFFRAGE_CONFIG]");
    let keys = KEYS.iter().map(|key| {
        Arg::new(key.name)
            .long(key.name)
            .value_name(key.value)
            .help(sentence(key.help))
            .allow_hyphen_values(true)
    });
    command.arg(file).args(keys)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn read(matches: &ArgMatches) -> Result<Config, Error> {
    let said = matches.get_one::<PathBuf>("config").cloned();
    let path = said.or_else(|| std::env::var_os("SUFFRAGE_CONFIG").map(PathBuf::from));
    let text = match &path {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let unread = |error| Error::flag("config", format!("cannot read {}: {error}", path.display()));
            Some(text.map_err(unread)?)
        }
        None => None,
    };
    let flags: Vec<(&'static str, String)> = KEYS
        .iter()
        .filter_map(|key| Some((key.name, matches.get_one::<String>(key.name)?.clone())))
        .collect();
    let file = path.as_deref().zip(text.as_deref());
    Ok(Config::read(file, |variable| std::env::var(variable).ok(), &flags)?)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let config = read(matches)?;
    if matches.get_flag("init") {
        let Some(folder) = daemon::prepare(&config)? else {
            return Err(Error::flag("init", "there is nothing to make: `data` is not set"));
        };
        writeln!(console.out, "{} is the data folder of node {}", folder.display(), config.id)?;
        return Ok(0);
    }
    daemon::run(&config, matches.get_flag("new"))?;
    Ok(0)
}

pub(crate) fn check(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let Some(("check", matches)) = matches.subcommand() else { unreachable!("clap demands it") };
    let config = read(matches)?;
    daemon::check(&config)?;
    let voters: Vec<String> = config.voters.iter().map(|voter| voter.id.to_string()).collect();
    let scheme = if config.http_cert.is_some() { "https" } else { "http" };
    let http = config.http.map_or("off".to_string(), |address| format!("{scheme}://{address}"));
    let (id, votes) = (config.id, config.votes());
    if matches.get_flag("json") {
        let said = json!({ "id": id.0, "votes": votes, "voters": voters, "http": http });
        writeln!(console.out, "{said}")?;
    } else {
        let votes = if votes { "votes" } else { "does not vote" };
        let voters = voters.join(", ");
        writeln!(console.out, "fine: node {id} {votes}; voters {voters}; HTTP {http}")?;
    }
    Ok(0)
}
