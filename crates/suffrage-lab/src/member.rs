//! `suffrage-lab member`: a process of a real cluster that runs any algorithm of the catalog, and tells what it believes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in real time")]

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
use suffrage_node::storage::DataFolder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use suffrage_cli::{Error, cluster, socket};

use crate::algorithms;

const ABOUT: &str = "Runs a member of a cluster in which any of the algorithms elects a leader.

It is for looking at an algorithm where it meets real processes and a real network, and for those who want its \
leader and know its promises: `suffrage-lab algorithms NAME` tells them. Whoever wants one leader at a time, tokens, \
leases and HTTP runs `suffrage node`, which is made for that.

All members must be told the same --algorithm, --set, --cluster and --delay. They are set as for a network that \
loses messages; where the algorithm wants a failure detector, hearts beat every 3 delays and may be silent for \
15; where it multicasts, gossip repairs what is lost.

It tells on standard output what it believes and whom it suspects, a line each. With --input, words on standard \
input ask it for something: `campaign`, `resign`, `transfer ID`. SIGTERM and SIGINT end it; if it leads, and the algorithm \
knows how to, it resigns first.";

const EXAMPLES: &str = "Examples:
  suffrage keygen cluster.key
      a key for the cluster, to be copied to every member
  suffrage-lab member --algorithm raft --id 1 --cluster 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 \\
      --keys cluster.key --data raft-1 --new
      the first of three, for the first time; without --new when it comes back
  suffrage-lab member --algorithm bully --set reaffirm=20 --json --id 2 \\
      --cluster 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 --keys cluster.key --data bully-2 --new
      an object a line, for programs

Exit codes: 0 it was told to end, 1 it could not go on, 2 what it was told is wrong.";

const KEYS: &[&str] = &["id", "voters", "keys", "data", "listen", "delay"];

/// How long one that resigns is given to be rid of it, in message delays.
const FAREWELL: u64 = 10;

pub(crate) fn command() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("member")
        .about("Runs a member of a cluster, with any of the algorithms")
        .long_about(ABOUT)
        .arg(
            Arg::new("algorithm")
                .long("algorithm")
                .value_name("NAME")
                .required(true)
                .value_parser(|name: &str| algorithms::contract(name).map(|contract| contract.name))
                .help("Which algorithm: the same at all members"),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("PARAMETER=VALUE")
                .action(ArgAction::Append)
                .value_parser(parameter)
                .help("Sets a parameter, as `suffrage-lab simulate NAME --help` has them; can be repeated"),
        )
        .args(cluster::flags(KEYS).map(|arg| match arg.get_id().as_str() {
            "voters" => arg.help("Who the members are, and where each is reached (or SUFFRAGE_VOTERS)"),
            "data" => arg.help("Where it keeps what must outlive it (or SUFFRAGE_DATA)"),
            _ => arg,
        }))
        .arg(flag("new", "Begins with an empty data folder: it has never been a member before"))
        .arg(flag("wait", "Calls no election when it is new: waits for others, or to be asked to"))
        .arg(flag("json", "Tells everything as JSON, an object a line"))
        .arg(flag(
            "input",
            "Takes words from standard input (campaign, resign, transfer ID), and ends with it",
        ))
        .arg(
            flag("socket-from-input", "Receives the UDP socket over the standard input")
                .hide(true)
                .requires("input"),
        )
        .after_help(EXAMPLES)
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not a parameter and its value, like reaffirm=10"))?;
    Ok((name.to_string(), value.to_string()))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<u8, Error> {
    let config = cluster::read(KEYS, matches, None)?;
    let runner = runner(matches)?;
    let mut ids: Vec<NodeId> = config.voters.iter().map(|peer| peer.id).collect();
    // However they are listed, the ring is the same at all members.
    ids.sort_unstable();
    let roster = Roster::listed(ids).map_err(|id| Error::flag("cluster", format!("{id} stands twice")))?;
    if !config.votes() {
        return Err(Error::flag("id", format!("{} is not one of --cluster", config.id)));
    }
    runner.check(&roster).map_err(|bad| Error::flag("set", format!("{}: {}", bad.name, bad.reason)))?;
    let group = Group { roster, delay_bound: config.delay };
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let done = threads.block_on(async {
        let new = matches.get_flag("new");
        let socket = match matches.get_flag("socket-from-input") {
            true => Some(socket::receive(std::io::stdin())?),
            false => None,
        };
        let member = start(&config, runner.as_ref(), group, new, socket).await?;
        let teller = Teller { json: matches.get_flag("json"), began: BootClock.now(), me: config.id };
        let life = Life {
            campaigns: new && !matches.get_flag("wait"),
            input: matches.get_flag("input"),
            resigns: runner.contract().handover,
            farewell: config.delay * FAREWELL,
        };
        live(member, teller, life).await
    });
    // The thread that waits for words is not waited for.
    threads.shutdown_background();
    done.map(|()| 0)
}

fn runner(matches: &ArgMatches) -> Result<Box<dyn Runner>, Error> {
    let name = matches.get_one::<&'static str>("algorithm").expect("clap demands it");
    let set = matches.get_many::<(String, String)>("set").unwrap_or_default();
    let settings: Vec<(String, String)> = set.cloned().collect();
    let runner = member_runner::runner(name, &settings).expect("it is in the catalog");
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
    let data = config.data.as_deref().ok_or_else(|| Error::flag("data", "is missing"))?;
    let mut addresses = BTreeMap::new();
    for peer in &config.voters {
        let address = peer.resolve().map_err(|reason| Error::flag("cluster", reason))?;
        addresses.insert(peer.id, address);
    }
    let own = addresses.remove(&config.id).expect("it is one of them");
    let folder = if new { DataFolder::create(data, config.id) } else { DataFolder::open(data, config.id) }?;
    let mut talk = transport::Config::new(config.id, keyring)?;
    (talk.peers, talk.boot) = (addresses, folder.boot()?);
    let socket = match socket {
        Some(socket) => Socket::from_std(socket)?,
        None => Socket::bind(config.listen.unwrap_or(own)).await?,
    };
    Ok(runner.start(Arc::new(Sealed::new(socket, talk)?), folder, group)?)
}

/// How it goes about it.
struct Life {
    campaigns: bool,
    /// Whether it is asked for things by its standard input, and ends with it.
    input: bool,
    resigns: bool,
    farewell: Span,
}

async fn live(member: Box<dyn Member>, teller: Teller, life: Life) -> Result<(), Error> {
    let (mut events, mut beliefs) = (member.events(), member.beliefs());
    teller.tell(BootClock.now(), "ready", json!({}))?;
    // What it announced before anybody listened.
    let mut last = beliefs.borrow_and_update().announcement;
    if last != Announcement::Undecided {
        teller.announce(BootClock.now(), last)?;
    }
    if life.campaigns {
        member.command(core::Command::Campaign).await?;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Where nobody said so, it may be the terminal of a shell that does other things meanwhile.
    let mut words = life.input.then(words);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(Event::Announced { announcement, .. }) if announcement == last => {}
                Ok(Event::Announced { at, announcement }) => {
                    last = announcement;
                    teller.announce(at, announcement)?;
                }
                Ok(Event::Suspected { at, peer }) => teller.tell(at, "suspects", json!({ "peer": peer.0 }))?,
                Ok(Event::Restored { at, peer }) => teller.tell(at, "restores", json!({ "peer": peer.0 }))?,
                // Events of later versions.
                Ok(_) => {}
                // Who reads so slowly is told the latest.
                Err(RecvError::Lagged(_)) => {
                    last = beliefs.borrow().announcement;
                    teller.announce(BootClock.now(), last)?;
                }
                Err(RecvError::Closed) => break,
            },
            // The belief is gone when the process is.
            changed = beliefs.changed() => if changed.is_err() { break },
            word = next(&mut words) => match word.as_deref().map(request) {
                Some(Ok(command)) => member.command(command).await?,
                Some(Err(reason)) => eprintln!("{reason}"),
                None => return Ok(member.stop().await?),
            },
            _ = terminate.recv() => return farewell(member, &teller, &life).await,
            _ = interrupt.recv() => return farewell(member, &teller, &life).await,
        }
    }
    // It has stopped by itself, and this is why.
    Ok(member.stop().await?)
}

/// Gives up what it leads, if it can, and waits a little until it has.
async fn farewell(member: Box<dyn Member>, teller: &Teller, life: &Life) -> Result<(), Error> {
    let (me, mut beliefs) = (member.me(), member.beliefs());
    if life.resigns && beliefs.borrow().leader() == Some(me) {
        member.command(core::Command::Resign).await?;
        let resigned = beliefs.wait_for(|belief| belief.leader() != Some(me));
        _ = tokio::time::timeout(Duration::from_nanos(life.farewell.as_nanos()), resigned).await;
        let announcement = beliefs.borrow().announcement;
        teller.announce(BootClock.now(), announcement)?;
    }
    Ok(member.stop().await?)
}

/// The next of the words, or none any more; without an input, it never comes.
async fn next(words: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match words {
        Some(words) => words.recv().await,
        None => std::future::pending().await,
    }
}

/// What is written on standard input, line by line, until it ends.
fn words() -> mpsc::Receiver<String> {
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

fn request(line: &str) -> Result<core::Command, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let command = match words[..] {
        ["campaign"] => Some(core::Command::Campaign),
        ["resign"] => Some(core::Command::Resign),
        ["transfer", id] => id.parse().ok().map(|id| core::Command::Transfer(NodeId(id))),
        _ => None,
    };
    command.ok_or_else(|| format!("`{line}` is not understood; campaign, resign and transfer ID are"))
}

/// Tells on standard output.
struct Teller {
    json: bool,
    began: Time,
    me: NodeId,
}

impl Teller {
    fn announce(&self, at: Time, announcement: Announcement) -> Result<(), Error> {
        match announcement {
            Announcement::Elected { leader, term } if leader == self.me => {
                self.tell(at, "leads", json!({ "term": term.0 }))
            }
            Announcement::Elected { leader, term } => {
                self.tell(at, "follows", json!({ "leader": leader.0, "term": term.0 }))
            }
            Announcement::SteppedDown => self.tell(at, "steps-down", json!({})),
            Announcement::Undecided => self.tell(at, "knows-nobody", json!({})),
        }
    }

    /// As an object, with the machine's clock, which members on one machine share; or for people.
    fn tell(&self, at: Time, what: &str, more: Value) -> Result<(), Error> {
        let said = if self.json {
            let mut object = json!({ "at": at.as_nanos(), "node": self.me.0, "event": what });
            let fields = object.as_object_mut().expect("it is one");
            fields.extend(more.as_object().cloned().unwrap_or_default());
            object.to_string()
        } else {
            let number = |name: &str| more[name].as_u64().unwrap_or_default();
            let sentence = match what {
                "ready" => format!("node {} is ready", self.me),
                "leads" => format!("leads, in term {}", number("term")),
                "follows" => format!("follows {}, in term {}", number("leader"), number("term")),
                "suspects" => format!("suspects {}", number("peer")),
                "restores" => format!("hears {} again", number("peer")),
                "steps-down" => "leads no more".to_string(),
                _ => "knows no leader".to_string(),
            };
            format!("{:8.3}s  {sentence}", at.since(self.began).as_nanos() as f64 / 1e9)
        };
        let mut out = std::io::stdout();
        Ok(writeln!(out, "{said}").and_then(|()| out.flush())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_requests() {
        assert_eq!(request("campaign"), Ok(core::Command::Campaign));
        assert_eq!(request(" transfer  3 "), Ok(core::Command::Transfer(NodeId(3))));
        assert!(request("abdicate").unwrap_err().contains("campaign, resign and transfer"));
        assert!(request("transfer me").is_err());
    }

    #[test]
    fn parameters_have_a_name_and_a_value() {
        assert_eq!(parameter("reaffirm=10"), Ok(("reaffirm".to_string(), "10".to_string())));
        assert!(parameter("reaffirm").unwrap_err().contains("like reaffirm=10"));
    }
}
