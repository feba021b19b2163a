//! `suffrage-lab member`: a process of a real cluster that runs an algorithm of the catalog and prints its beliefs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a member runs in real time")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use crate::member_runner::{self, Group, Member, Runner};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};
use suffrage_core::{self as core, Announcement, NodeId, Roster, Span, Time};
use suffrage_net::transport::Sealed;
use suffrage_net::transport::udp::Socket;
use suffrage_net::{Keyring, transport};
use suffrage_node::clock::{BootClock, Clock as _};
use suffrage_node::config::Config;
use suffrage_node::driver::Event;
use suffrage_node::resolver;
use suffrage_node::storage::DataFolder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use suffrage_cli::{Error, cluster, socket};

use crate::algorithms;

const ABOUT: &str = "Runs a member of a cluster in which any of the algorithms elects a leader.

Use it to observe an algorithm with real processes and a real network, or if the promises of the algorithm are \
enough: `suffrage-lab algorithms NAME` prints them. For one leader at a time, with tokens, leases and HTTP, run \
`suffrage node`.

All members need the same --algorithm, --set, --cluster and --delay. Algorithms get the settings of their contracts \
for networks that lose messages. An algorithm that needs a failure detector gets heartbeats every 3 delays with a \
time-out of 15 delays. Gossip repairs lost multicasts.

The member prints its beliefs and suspicions on standard output, one per line. With --input it reads commands from \
standard input: `campaign`, `resign`, `transfer ID`. SIGTERM and SIGINT stop it; a leader resigns first if the \
algorithm supports it.";

const EXAMPLES: &str = "Examples:
  suffrage keygen cluster.key
      creates the key of the cluster; copy it to every member
  suffrage-lab member --algorithm raft --id 1 --cluster 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 \\
      --keys cluster.key --data raft-1 --new
      starts the first of three members for the first time; to restart it, leave out --new
  suffrage-lab member --algorithm bully --set reaffirm=20 --json --id 2 \\
      --cluster 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 --keys cluster.key --data bully-2 --new
      prints one JSON object per line

Exit codes: 0 the member was stopped, 1 it failed, 2 the command line is wrong.";

const KEYS: &[&str] = &["id", "voters", "keys", "data", "listen", "delay"];

/// The time for a leader to resign before the process stops, in message delays.
const RESIGN_TIMEOUT: u64 = 10;

pub(crate) fn command() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("member")
        .about("Runs a member of a real cluster, with any of the algorithms")
        .long_about(ABOUT)
        .arg(
            Arg::new("algorithm")
                .long("algorithm")
                .value_name("NAME")
                .required(true)
                .value_parser(|name: &str| algorithms::contract(name).map(|contract| contract.name))
                .help("The algorithm: the same at all members"),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("PARAMETER=VALUE")
                .action(ArgAction::Append)
                .value_parser(parameter)
                .help("Sets a parameter of the algorithm, listed by `suffrage-lab simulate NAME --help`; can be repeated"),
        )
        .args(cluster::flags(KEYS).map(|arg| match arg.get_id().as_str() {
            "voters" => arg.help("The ids and addresses of all members (or SUFFRAGE_VOTERS)"),
            "data" => arg.help("The folder for the member's durable state (or SUFFRAGE_DATA)"),
            _ => arg,
        }))
        .arg(flag("new", "Creates the data folder: the first start of this member"))
        .arg(flag("wait", "Calls no election at the first start"))
        .arg(flag("json", "Prints one JSON object per line"))
        .arg(flag(
            "input",
            "Reads commands from standard input (campaign, resign, transfer ID), and stops at its end",
        ))
        .arg(
            flag("socket-from-input", "Receives the UDP socket over standard input")
                .hide(true)
                .requires("input"),
        )
        .after_help(EXAMPLES)
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not PARAMETER=VALUE, like reaffirm=10"))?;
    Ok((name.to_string(), value.to_string()))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<u8, Error> {
    let config = cluster::read(KEYS, matches, None)?;
    let runner = runner(matches)?;
    let mut ids: Vec<NodeId> = config.voters.iter().map(|peer| peer.id).collect();
    // The order of the ring must not depend on the order of the list.
    ids.sort_unstable();
    let roster = Roster::listed(ids).map_err(|id| {
        Error::flag("cluster", format!("id {id} is given twice; every member needs its own id"))
    })?;
    if !config.votes() {
        return Err(Error::flag("id", format!("{} is not one of --cluster", config.id)));
    }
    let group = Group { roster, delay_bound: config.delay };
    runner.check(&group).map_err(|bad| Error::flag("set", format!("{}: {}", bad.name, bad.reason)))?;
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let result = threads.block_on(async {
        let new = matches.get_flag("new");
        let socket = match matches.get_flag("socket-from-input") {
            true => Some(socket::receive(std::io::stdin())?),
            false => None,
        };
        let member = start(&config, runner.as_ref(), group, new, socket).await?;
        let printer = EventPrinter { json: matches.get_flag("json"), start: BootClock.now(), me: config.id };
        let behaviour = Behaviour {
            campaigns: new && !matches.get_flag("wait"),
            input: matches.get_flag("input"),
            resigns: runner.contract().handover,
            resign_timeout: config.delay * RESIGN_TIMEOUT,
        };
        run(member, printer, behaviour).await
    });
    // The thread that reads standard input may block for ever.
    threads.shutdown_background();
    result.map(|()| 0)
}

fn runner(matches: &ArgMatches) -> Result<Box<dyn Runner>, Error> {
    let name = matches.get_one::<&'static str>("algorithm").expect("clap requires it");
    let set = matches.get_many::<(String, String)>("set").unwrap_or_default();
    let settings: Vec<(String, String)> = set.cloned().collect();
    let runner = member_runner::runner(name, &settings).expect("the name is in the catalog");
    runner.map_err(|reason| Error::flag("set", reason))
}

async fn start(
    config: &Config,
    runner: &dyn Runner,
    group: Group,
    new: bool,
    socket: Option<UdpSocket>,
) -> Result<Box<dyn Member>, Error> {
    let keyring = Keyring::load(&config.keys).map_err(|error| Error::flag("keys", error.to_string()))?;
    let data =
        config.data.as_deref().ok_or_else(|| Error::flag("data", "is missing; name the data folder"))?;
    let mut addresses = BTreeMap::new();
    for peer in &config.voters {
        let unresolved =
            |reason| Error::flag("cluster", format!("voter {} at {}: {reason}", peer.id, peer.address));
        addresses.insert(peer.id, resolver::lookup_once(&peer.address).await.map_err(unresolved)?);
    }
    let own = addresses.remove(&config.id).expect("the member is one of the cluster");
    let folder = if new { DataFolder::create(data, config.id) } else { DataFolder::open(data, config.id) }?;
    let mut transport = transport::Config::new(config.id, keyring)?;
    (transport.peers, transport.boot) = (addresses, folder.boot()?);
    let socket = match socket {
        Some(socket) => Socket::from_std(socket)?,
        None => Socket::bind(config.listen.unwrap_or(own)).await?,
    };
    Ok(runner.start(Arc::new(Sealed::new(socket, transport)?), folder, group)?)
}

/// The behaviour of a member at start and stop.
struct Behaviour {
    campaigns: bool,
    /// Whether the member reads commands from standard input, and stops at its end.
    input: bool,
    resigns: bool,
    resign_timeout: Span,
}

async fn run(member: Box<dyn Member>, printer: EventPrinter, behaviour: Behaviour) -> Result<(), Error> {
    let (mut events, mut beliefs) = (member.events(), member.beliefs());
    printer.print(BootClock.now(), "ready", json!({}))?;
    // An announcement before the subscription to events.
    let mut last = beliefs.borrow_and_update().announcement;
    if last != Announcement::Undecided {
        printer.announce(BootClock.now(), last)?;
    }
    if behaviour.campaigns {
        member.command(core::Command::Campaign).await?;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Without --input, standard input may be the terminal of a shell.
    let mut lines = behaviour.input.then(input_lines);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(Event::Announced { announcement, .. }) if announcement == last => {}
                Ok(Event::Announced { at, announcement }) => {
                    last = announcement;
                    printer.announce(at, announcement)?;
                }
                Ok(Event::Suspected { at, peer }) => printer.print(at, "suspects", json!({ "peer": peer.0 }))?,
                Ok(Event::Restored { at, peer }) => printer.print(at, "restores", json!({ "peer": peer.0 }))?,
                // Events of later versions.
                Ok(_) => {}
                // The reader of the output is too slow: skip to the latest belief.
                Err(RecvError::Lagged(_)) => {
                    last = beliefs.borrow().announcement;
                    printer.announce(BootClock.now(), last)?;
                }
                Err(RecvError::Closed) => break,
            },
            // The channel closes when the process ends.
            changed = beliefs.changed() => if changed.is_err() { break },
            line = next(&mut lines) => match line.as_deref().map(parse_command) {
                Some(Ok(command)) => member.command(command).await?,
                Some(Err(reason)) => eprintln!("{reason}"),
                None => return Ok(member.stop().await?),
            },
            _ = terminate.recv() => return resign_and_stop(member, &printer, &behaviour).await,
            _ = interrupt.recv() => return resign_and_stop(member, &printer, &behaviour).await,
        }
    }
    // The process has stopped by itself: report the cause.
    Ok(member.stop().await?)
}

/// Resigns if the member leads and the algorithm supports it, then stops the member.
async fn resign_and_stop(
    member: Box<dyn Member>,
    printer: &EventPrinter,
    behaviour: &Behaviour,
) -> Result<(), Error> {
    let (me, mut beliefs) = (member.me(), member.beliefs());
    if behaviour.resigns && beliefs.borrow().leader() == Some(me) {
        member.command(core::Command::Resign).await?;
        let resigned = beliefs.wait_for(|belief| belief.leader() != Some(me));
        _ = tokio::time::timeout(Duration::from_nanos(behaviour.resign_timeout.as_nanos()), resigned).await;
        let announcement = beliefs.borrow().announcement;
        printer.announce(BootClock.now(), announcement)?;
    }
    Ok(member.stop().await?)
}

/// The next line, or none at the end of the input. Never returns without an input.
async fn next(lines: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads standard input line by line.
fn input_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn parse_command(line: &str) -> Result<core::Command, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let command = match words[..] {
        ["campaign"] => Some(core::Command::Campaign),
        ["resign"] => Some(core::Command::Resign),
        ["transfer", id] => id.parse().ok().map(|id| core::Command::Transfer(NodeId(id))),
        _ => None,
    };
    command.ok_or_else(|| format!("`{line}` is not a command; commands are campaign, resign and transfer ID"))
}

/// Prints events on standard output.
struct EventPrinter {
    json: bool,
    start: Time,
    me: NodeId,
}

impl EventPrinter {
    fn announce(&self, at: Time, announcement: Announcement) -> Result<(), Error> {
        match announcement {
            Announcement::Elected { leader, term } if leader == self.me => {
                self.print(at, "leads", json!({ "term": term.0 }))
            }
            Announcement::Elected { leader, term } => {
                self.print(at, "follows", json!({ "leader": leader.0, "term": term.0 }))
            }
            Announcement::SteppedDown => self.print(at, "steps-down", json!({})),
            Announcement::Undecided => self.print(at, "undecided", json!({})),
        }
    }

    /// Prints an event: as JSON with the time of the machine's clock, which members on one machine share, or as text.
    fn print(&self, at: Time, event: &str, fields: Value) -> Result<(), Error> {
        let text = if self.json {
            let mut object = json!({ "at": at.as_nanos(), "node": self.me.0, "event": event });
            let map = object.as_object_mut().expect("the value is an object");
            map.extend(fields.as_object().cloned().unwrap_or_default());
            object.to_string()
        } else {
            let number = |name: &str| fields[name].as_u64().unwrap_or_default();
            let sentence = match event {
                "ready" => format!("node {} is ready", self.me),
                "leads" => format!("leads, in term {}", number("term")),
                "follows" => format!("follows {}, in term {}", number("leader"), number("term")),
                "suspects" => format!("suspects {}", number("peer")),
                "restores" => format!("no longer suspects {}", number("peer")),
                "steps-down" => "no longer leads".to_string(),
                _ => "knows no leader".to_string(),
            };
            format!("{:8.3}s  {sentence}", at.since(self.start).as_nanos() as f64 / 1e9)
        };
        let mut out = std::io::stdout();
        Ok(writeln!(out, "{text}").and_then(|()| out.flush())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_as_commands() {
        assert_eq!(parse_command("campaign"), Ok(core::Command::Campaign));
        assert_eq!(parse_command(" transfer  3 "), Ok(core::Command::Transfer(NodeId(3))));
        assert!(parse_command("abdicate").unwrap_err().contains("campaign, resign and transfer"));
        assert!(parse_command("transfer me").is_err());
    }

    #[test]
    fn parameters_have_a_name_and_a_value() {
        assert_eq!(parameter("reaffirm=10"), Ok(("reaffirm".to_string(), "10".to_string())));
        assert!(parameter("reaffirm").unwrap_err().contains("like reaffirm=10"));
    }
}
