//! `suffrage leader`, `status`, `why`, `elections`, `watch`, `resign`, `transfer` and `voters`: queries and commands for a
//! running node.

pub(crate) mod engine;
pub(crate) mod group;
mod http;
mod voters;

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use self::http::{Answer, Node};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

/// A program to ask: the flag and the environment variable of its address, and the usual address.
struct Target {
    flag: &'static str,
    variable: &'static str,
    usual: &'static str,
    what: &'static str,
}

const NODE: Target =
    Target { flag: "node", variable: "SUFFRAGE_NODE", usual: "http://127.0.0.1:7480", what: "node" };

impl Target {
    /// The sentence about the environment, for the help.
    fn settings(&self) -> String {
        let Target { flag, variable, .. } = self;
        format!(
            "Instead of --{flag}, --token-file and --ca, {variable}, SUFFRAGE_TOKEN_FILE and SUFFRAGE_CA can be set in the \
             environment."
        )
    }
}

const CODES: &str = "Exit codes: 0 success, 1 there is no leader, this node does not lead, or the other node does not \
take over, 2 the command line is wrong, 3 the node cannot be reached or does not answer.";

/// The longest wait for the next leader after a handover.
const HANDOVER_WAIT: &str = "2s";
/// The timeout of a handover: a node waits for another that leads until its work has ended.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(40);

/// The subcommands, in the order of the help text.
pub(crate) const NAMES: [&str; 8] =
    ["leader", "status", "why", "elections", "watch", "resign", "transfer", "voters"];

pub(crate) fn commands() -> Vec<Command> {
    let history = Arg::new("history").long("history").action(ArgAction::SetTrue);
    let to = Arg::new("to").long("to").value_name("ID").required(true).value_parser(value_parser!(u64));
    let mut commands = vec![
        named("leader", "Prints the leader of an election", "suffrage leader billing"),
        named("status", "Prints the status of an election at a node", "suffrage status billing --history")
            .arg(history.help("Also prints the history of leaders, the oldest entry first")),
        named("why", "Prints why a node leads an election or does not", "suffrage why billing"),
        command(
            "elections",
            "Lists the elections that a node takes part in or has granted",
            "suffrage elections --json",
        ),
        named("watch", "Prints the leader of an election and its changes", "suffrage watch billing"),
        named(
            "resign",
            "Makes the leader hand over to the next candidate: a client, a `suffrage run` or another program, which ends \
             its work first",
            "suffrage resign billing",
        ),
    ];
    commands.push(
        named(
            "transfer",
            "Makes the leader hand over to another node, as `resign` does",
            "suffrage transfer billing --to 2",
        )
        .arg(to.help("The id of the next leader")),
    );
    commands.push(voters::command());
    let on_engine = |command: Command| match engine::NAMES.contains(&command.get_name()) {
        true => command.arg(engine::flag()),
        false => command,
    };
    commands.into_iter().map(on_engine).collect()
}

fn named(name: &'static str, about: &'static str, example: &'static str) -> Command {
    let election = Arg::new("name").value_name("NAME").required(true).help("The name of the election");
    command(name, about, example).arg(election)
}

fn command(name: &'static str, about: &'static str, example: &'static str) -> Command {
    let help = format!("Examples:\n  {example}\n\n{}\n\n{CODES}", NODE.settings());
    query(name, about, &NODE).after_help(help)
}

/// A command that asks a program by HTTP.
fn query(name: &'static str, about: &'static str, target: &Target) -> Command {
    let &Target { flag, usual, what, .. } = target;
    Command::new(name)
        .about(about)
        .arg(
            Arg::new(flag)
                .long(flag)
                .value_name("URL")
                .value_parser(http::address)
                .help(format!("The address of the {what}, http:// or https:// [default: {usual}]")),
        )
        .arg(
            Arg::new("ca")
                .long("ca")
                .value_name("FILE")
                .value_parser(http::authorities)
                .help("With https://, the certificates of the trusted authorities, in PEM"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .value_parser(http::token)
                .help(format!("The file with the bearer token of the {what}")),
        )
        .arg(
            Arg::new("plain")
                .long("plain")
                .action(ArgAction::SetTrue)
                .help("Sends the token to another machine with http://, because a proxy or tunnel encrypts"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help(format!("Prints the response of the {what} as JSON")),
        )
}

pub(crate) fn execute(name: &str, matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    if name == "voters" {
        let (name, matches) = matches.subcommand().expect("clap demands one of the subcommands");
        let mut session = Session::new(&NODE, matches, console)?;
        return voters::execute(name, matches, &mut session);
    }
    if engine::NAMES.contains(&name)
        && let Some(url) = engine::url(matches)
    {
        return engine::execute(name, &url, matches, console);
    }
    let mut session = Session::new(&NODE, matches, console)?;
    if name == "elections" {
        return session.elections();
    }
    let election = matches.get_one::<String>("name").expect("it is required");
    match name {
        "leader" => session.leader(election),
        "status" => session.status(election, matches.get_flag("history")),
        "why" => session.why(election),
        "watch" => session.watch(election),
        "resign" => session.hand_over(election, "resign", &json!({ "wait": HANDOVER_WAIT })),
        "transfer" => {
            let to = matches.get_one::<u64>("to").expect("it is required");
            session.hand_over(election, "transfer", &json!({ "to": to, "wait": HANDOVER_WAIT }))
        }
        _ => unreachable!("it is one of NAMES"),
    }
}

/// The program that the flags or the environment name.
fn node(target: &Target, matches: &ArgMatches) -> Result<Node, Error> {
    let node = setting(matches, target.flag, target.variable, http::address)?;
    let token = setting(matches, "token-file", "SUFFRAGE_TOKEN_FILE", http::token)?;
    let authorities = setting(matches, "ca", "SUFFRAGE_CA", http::authorities)?;
    let node = node.unwrap_or_else(|| target.usual.to_string());
    if node.starts_with("https://") && authorities.is_none() {
        let reason = "is missing: https:// needs the certificate of the authority that signed the node's";
        return Err(Error::flag("ca", reason));
    }
    if token.is_some() && !matches.get_flag("plain") && http::is_exposed(&node) {
        let reason = format!(
            "{node} would receive the token without encryption: use https://, or --plain if a proxy or tunnel encrypts"
        );
        return Err(Error::flag(target.flag, reason));
    }
    Ok(Node::new(&node, token.as_deref(), &authorities.unwrap_or_default()))
}

/// The value of a flag or of an environment variable.
#[allow(clippy::disallowed_methods, reason = "reads the environment")]
fn setting<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    flag: &str,
    variable: &str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Error> {
    if let Some(value) = matches.get_one::<T>(flag) {
        return Ok(Some(value.clone()));
    }
    let wrong = |reason| Error::Flag { flag: variable.to_string(), reason };
    std::env::var(variable).ok().map(|text| read(&text).map_err(wrong)).transpose()
}

struct Session<'a, 'c> {
    node: Node,
    json: bool,
    console: &'a mut Console<'c>,
}

impl<'a, 'c> Session<'a, 'c> {
    fn new(
        target: &Target,
        matches: &ArgMatches,
        console: &'a mut Console<'c>,
    ) -> Result<Session<'a, 'c>, Error> {
        Ok(Session { node: node(target, matches)?, json: matches.get_flag("json"), console })
    }

    fn print(&mut self, answer: &Value, text: &str) -> Result<(), Error> {
        let text = if self.json { answer.to_string() } else { text.to_string() };
        writeln!(self.console.out, "{text}")?;
        Ok(self.console.out.flush()?)
    }

    fn election(&self, name: &str) -> Result<Value, Error> {
        self.node.get(&format!("/elections/{}", http::encoded(name)))?.good()
    }

    fn leader(&mut self, name: &str) -> Result<u8, Error> {
        let body = self.election(name)?;
        self.print(&body, &leader(name, &body))?;
        Ok(u8::from(body["leader"].is_null()))
    }

    fn status(&mut self, name: &str, with_history: bool) -> Result<u8, Error> {
        let mut body = self.election(name)?;
        let mut text = format!("{}\nnode {}: {}", leader(name, &body), body["node"], plain(&body["why"]));
        if with_history {
            let history = self.node.get(&format!("/elections/{}/history", http::encoded(name)))?.good()?;
            for change in history["history"].as_array().into_iter().flatten() {
                let ago = duration(&change["age_ms"]);
                text += &match change["leader"].as_u64() {
                    Some(leader) => format!("\n{ago} ago: node {leader}, with token {}", change["token"]),
                    None => format!("\n{ago} ago: no leader"),
                };
            }
            body["history"] = history["history"].clone();
        }
        self.print(&body, &text)?;
        Ok(u8::from(body["leader"].is_null()))
    }

    fn why(&mut self, name: &str) -> Result<u8, Error> {
        let body = self.election(name)?;
        self.print(&body, &format!("node {}: {}", body["node"], plain(&body["why"])))?;
        Ok(u8::from(body["lease_remaining_ms"].is_null()))
    }

    fn elections(&mut self) -> Result<u8, Error> {
        let body = self.node.get("/elections")?.good()?;
        let mut rows = vec![["election", "leader", "token", "for", "known by"].map(String::from).to_vec()];
        for election in body["elections"].as_array().into_iter().flatten() {
            let or_dash = |value: &Value| value.as_u64().map_or("-".to_string(), |id| id.to_string());
            rows.push(vec![
                election["election"]
                    .as_str()
                    .map_or_else(|| format!("hash {}", plain(&election["hash"])), str::to_string),
                or_dash(&election["leader"]),
                or_dash(&election["token"]),
                duration(&election["since_ms"]),
                match election["known_by"].as_str() {
                    Some("grant") => "the grant of its voter".to_string(),
                    _ => "its participation".to_string(),
                },
            ]);
        }
        let text = text::columns(&rows);
        self.print(&body, text.trim_end())?;
        Ok(0)
    }

    /// Prints events until the node stops or the output is closed.
    fn watch(&mut self, name: &str) -> Result<u8, Error> {
        let events = self.node.events(&format!("/elections/{}/observe", http::encoded(name)))?;
        for event in events {
            let event = event?;
            self.print(&event, &leader(name, &event))?;
        }
        Err(Error::Unreachable("the node has closed the stream of events".to_string()))
    }

    fn hand_over(&mut self, name: &str, verb: &str, request: &Value) -> Result<u8, Error> {
        let path = format!("/elections/{}/{verb}", http::encoded(name));
        let Answer { status, body } = self.node.post_within(HANDOVER_TIMEOUT, &path, request)?;
        if status == 409 {
            let error = plain(&body["error"]);
            let text = match body["reason"].as_str() {
                Some("not_waiting" | "unknown_queue" | "not_released") => {
                    format!("{name} is not handed over: {error}")
                }
                _ => error,
            };
            self.print(&body, &text)?;
            return Ok(1);
        }
        let body = Answer { status, body }.good()?;
        let mut code = 0;
        let text = match (body["leader"].as_u64(), body["within_ms"].as_u64()) {
            (Some(next), _) => {
                let took = suffrage_core::Span::from_units(body["took_ms"].as_f64().unwrap_or_default());
                let took = took.format_duration();
                let rest = format!("node {next} leads, with token {}, after {took}", body["token"]);
                if let Some(to) = request["to"].as_u64().filter(|to| *to != next) {
                    code = 1;
                    format!("{name} is handed over, but node {to} did not take it: {rest}")
                } else {
                    format!("{name} is handed over: {rest}")
                }
            }
            (None, Some(0) | None) => format!("{name} is handed over; no node leads yet"),
            (None, Some(_)) => {
                let within = duration(&body["within_ms"]);
                format!("{name} is handed over when its client has resigned, in {within} at the latest")
            }
        };
        self.print(&body, &text)?;
        Ok(code)
    }
}

/// A sentence about the leader.
fn leader(name: &str, body: &Value) -> String {
    let time = duration(&body["since_ms"]);
    match body["leader"].as_u64() {
        Some(leader) => {
            let value =
                body["value"].as_str().map_or(String::new(), |value| format!(": {}", printable(value)));
            format!("node {leader} leads {name}, with token {}, for {time}{value}", body["token"])
        }
        None => format!("{name} has no leader"),
    }
}

/// A text of another program for a terminal: control characters are escaped.
fn printable(text: &str) -> String {
    let escape = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

fn plain(text: &Value) -> String {
    text.as_str().unwrap_or_default().to_string()
}

fn duration(millis: &Value) -> String {
    suffrage_core::Span::from_millis(millis.as_u64().unwrap_or_default()).format_duration()
}
