//! `suffrage node` and `suffrage config check`: a node of a real cluster, and its configuration.
#![allow(clippy::disallowed_methods, reason = "reads the environment")]

use std::path::PathBuf;

use crate::daemon;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use suffrage_node::config::{Config, KEYS};

use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Runs a node of a cluster until it is stopped.

A node votes if it is one of the voters, and takes part in elections for its HTTP clients. Its configuration comes from \
flags, from environment variables and from a file, in this order of precedence: the key longest-ttl of the file is \
--longest-ttl and SUFFRAGE_LONGEST_TTL.

Clients of the same machine use the Unix socket (--socket). They can lead for as long as their connection stays open: the \
node renews, and releases as soon as their process has ended.

SIGTERM and SIGINT stop the node: it hands over first, and waits until clients that lead have resigned or their leases \
have ended. A second signal stops it without waiting. SIGHUP reloads the keys, the HTTP token and the HTTP certificate, \
so that they can be replaced without interruption. The node logs to standard error, and notifies systemd when it is \
ready (Type=notify).

If the disk is full, the node takes no part in elections until there is space, also when it is started. Only a first \
start (--new, --init) fails.";

const EXAMPLES: &str = "Examples:
  suffrage keygen cluster.key
      creates the key of the cluster; copy it to every node
  suffrage node --id 1 --voters 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 \\
      --keys cluster.key --data /var/lib/suffrage --new
      starts the first of three voters for the first time
  suffrage node --config suffrage.toml
      starts a voter again, with its configuration from a file
  suffrage node --config suffrage.toml --init
      only creates the data folder, before the first start of a service
  suffrage node --config suffrage.toml --http 10.0.0.1:7480 --http-token token --http-cert node.pem --http-key node.key
      serves HTTP to other machines, with TLS and a token
  suffrage node --config suffrage.toml --socket /tmp/node.sock
  curl -N --unix-socket /tmp/node.sock -d '{\"hold\":\"connection\"}' http://localhost/elections/x/campaign
      leads for as long as curl runs

Exit codes: 0 stopped by a signal, 1 failed, 2 the configuration is wrong.";

const CHECK_EXAMPLES: &str = "Examples:
  suffrage config check --config /etc/suffrage.toml
      checks a configuration file, and prints the role of the node

Exit codes: 0 the configuration is valid, 1 a file that it names is not usable, 2 the configuration is wrong.";

pub(crate) fn command() -> Command {
    with_keys(Command::new("node"))
        .about("Runs a node of a cluster")
        .long_about(ABOUT)
        .arg(Arg::new("new").long("new").action(ArgAction::SetTrue).help(
            "Creates the data folder: only for a voter that has never voted. A voter that has lost its data \
             folder is removed by `suffrage voters remove` and added again",
        ))
        .arg(
            Arg::new("init")
                .long("init")
                .action(ArgAction::SetTrue)
                .conflicts_with("new")
                .help("Only creates the data folder: for services, whose command line is always the same"),
        )
        .after_help(EXAMPLES)
}

pub(crate) fn config_command() -> Command {
    let check = with_keys(Command::new("check"))
        .about("Checks the configuration of a node and the files that it names")
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints the result as JSON"))
        .after_help(CHECK_EXAMPLES);
    Command::new("config")
        .about("Checks the configuration of a node")
        .subcommand_required(true)
        .subcommand(check)
}

/// Adds a flag for every key of the configuration.
fn with_keys(command: Command) -> Command {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The configuration file, in TOML [also: SUFFRAGE_CONFIG]");
    let keys = KEYS.iter().filter(|key| key.name != "on").map(|key| {
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
    let flag = matches.get_one::<PathBuf>("config").cloned();
    let path = flag.or_else(|| std::env::var_os("SUFFRAGE_CONFIG").map(PathBuf::from));
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
        .filter(|key| key.name != "on")
        .filter_map(|key| Some((key.name, matches.get_one::<String>(key.name)?.clone())))
        .collect();
    let file = path.as_deref().zip(text.as_deref());
    // The variable is for the programs that hold elections on an engine.
    let environment = |variable: &str| std::env::var(variable).ok().filter(|_| variable != "SUFFRAGE_ON");
    let config = Config::read(file, environment, &flags)?;
    if config.on.is_some() {
        let problem =
            "a node holds elections itself, and not on an engine: remove `on`, or use `suffrage run`";
        return Err(Error::Usage(format!("{}: {problem}", config.origin("on"))));
    }
    Ok(config)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let config = read(matches)?;
    if matches.get_flag("init") {
        let Some(folder) = daemon::prepare(&config)? else {
            return Err(Error::flag("init", "there is no folder to create: set --data"));
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
        let drift = config.drift.to_string();
        let body = json!({ "id": id.0, "votes": votes, "voters": voters, "drift": drift, "http": http });
        writeln!(console.out, "{body}")?;
    } else {
        let votes = if votes { "votes" } else { "does not vote" };
        let voters = voters.join(", ");
        writeln!(
            console.out,
            "valid: node {id} {votes}; voters {voters}; drift {}; HTTP {http}",
            config.drift
        )?;
    }
    Ok(0)
}
