//! Who plays in `suffrage demo`: how a node is started, and what is made of what it tells.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes that run in real time")]

use std::path::Path;
use std::process::Command;

use suffrage_core::{Detection, Roster, Safety, Span, Time};
use crate::member_runner::{self, Runner};
use serde_json::Value;

use crate::algorithms;

const TTL: &str = "1s";
const LONGEST_TTL: &str = "2s";
/// How long a message takes at most, as a rule: much, for loopback, and little, for a busy machine.
const DELAY: &str = "50ms";
/// The production algorithm, which the library and the daemon run: with leases and tokens.
pub(crate) const PRODUCTION: &str = "quorum-lease";

/// What the nodes are.
pub(crate) enum Cast {
    /// Voters that also stand, as the library makes them.
    Leases,
    /// Members that run another algorithm.
    Members(Box<dyn Runner>),
}

/// What a node tells. Nodes are counted from 0 here; the number is the token, or the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Ready,
    Leads(u64),
    /// How much is left of its lease.
    Valid(Span),
    Follows(usize, u64),
    /// It leads no more.
    Lost,
    Nobody,
    Suspects(usize),
    Restores(usize),
}

impl Cast {
    /// Those that run the algorithm of this name, of the catalog.
    pub(crate) fn of(name: &str) -> Cast {
        if name == PRODUCTION {
            return Cast::Leases;
        }
        let runner = member::runner(name, &[]).expect("it is in the catalog");
        Cast::Members(runner.expect("nothing is set that could be wrong"))
    }

    /// Starts this node, of a cluster at these addresses, with what is in this folder.
    pub(crate) fn command(&self, node: usize, addresses: &str, folder: &Path, new: bool) -> Command {
        let mut command = Command::new("/proc/self/exe");
        match self {
            Cast::Leases => {
                command.args(["demo-node", "--stand", "demo", "--ttl", TTL, "--longest-ttl", LONGEST_TTL])
            }
            Cast::Members(runner) => {
                let name = runner.contract().name;
                command.args(["member", "--algorithm", name, "--delay", DELAY])
            }
        };
        if let Cast::Members(_) = self {
            command.args(["--json", "--wait", "--input"]);
        }
        command
            .args(["--id", &(node + 1).to_string(), "--cluster", addresses, "--keys"])
            .arg(folder.join("keys"))
            .arg("--data")
            .arg(folder.join(format!("node-{}", node + 1)))
            .args(new.then_some("--new"));
        command
    }

    /// What a line says, and when; none if it says nothing to us.
    pub(crate) fn understand(&self, line: &str) -> Option<(Time, Told)> {
        match self {
            Cast::Leases => understand_words(line),
            Cast::Members(_) => understand_object(&serde_json::from_str(line).ok()?),
        }
    }

    /// What is said before the curtain rises.
    pub(crate) fn prologue(&self) -> Option<String> {
        let Cast::Members(runner) = self else { return None };
        let contract = runner.contract();
        let caveats = algorithms::caveats(contract);
        Some(format!("{}: {}\nNot promised: {caveats}.", contract.name, contract.summary))
    }

    pub(crate) fn setting(&self, nodes: usize) -> String {
        match self {
            Cast::Leases => {
                format!("{nodes} processes, each with its own socket and data folder; leases of {TTL}")
            }
            Cast::Members(runner) => {
                let noticed = match runner.contract().detection {
                    Detection::Detector => "heartbeats",
                    Detection::Timeout => "its own time-outs",
                };
                format!(
                    "{nodes} processes, each with its own socket; an assumed delay of {DELAY}; {noticed} find the dead"
                )
            }
        }
    }

    /// What one does that comes back.
    pub(crate) fn return_of(&self, id: usize) -> String {
        match self {
            Cast::Leases => format!("node {id} comes back, and says nothing until what it granted is over"),
            Cast::Members(_) => format!("node {id} comes back"),
        }
    }

    /// What leaders are numbered by.
    pub(crate) fn numbered(&self) -> &'static str {
        match self {
            Cast::Leases => "with token",
            Cast::Members(_) => "in term",
        }
    }

    /// Whether somebody must be asked to call the first election.
    pub(crate) fn waits_for_a_call(&self) -> bool {
        matches!(self, Cast::Members(runner) if runner.contract().detection == Detection::Detector)
    }

    /// Whether only one can believe to lead, whatever happens.
    pub(crate) fn never_two(&self) -> bool {
        match self {
            Cast::Leases => true,
            Cast::Members(runner) => runner.contract().safety == Safety::AtMostOne,
        }
    }

    /// Whether those who live are agreed, if so many of them believe in the leader and so many in another.
    pub(crate) fn agree(&self, alive: usize, believers: usize, others: usize) -> bool {
        match self {
            // That all know is only likely.
            Cast::Members(runner) if runner.contract().safety == Safety::WithHighProbability => {
                believers > alive / 2 && others == 0
            }
            _ => believers == alive,
        }
    }

    /// Whether those that live can elect somebody.
    pub(crate) fn suffices(&self, alive: &[bool]) -> bool {
        match self {
            Cast::Leases => alive.iter().filter(|&&alive| alive).count() > alive.len() / 2,
            Cast::Members(runner) => runner.suffices(&Roster::numbered(alive.len()), alive),
        }
    }
}

fn place(id: u64) -> Option<usize> {
    usize::try_from(id).ok()?.checked_sub(1)
}

/// What a `demo-node` tells.
fn understand_words(line: &str) -> Option<(Time, Told)> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
    let told = match (*words.get(1)?, number(2), number(3)) {
        ("ready", ..) => Told::Ready,
        ("leads", Some(token), _) => Told::Leads(token),
        ("valid", Some(nanos), _) => Told::Valid(Span::from_nanos(nanos)),
        ("follows", Some(leader), Some(token)) => Told::Follows(place(leader)?, token),
        ("lost", ..) => Told::Lost,
        ("nobody", ..) => Told::Nobody,
        _ => return None,
    };
    Some((Time::from_nanos(number(0)?), told))
}

/// What a `member` tells.
fn understand_object(object: &Value) -> Option<(Time, Told)> {
    let number = |name: &str| object[name].as_u64();
    let told = match object["event"].as_str()? {
        "ready" => Told::Ready,
        "leads" => Told::Leads(number("term")?),
        "follows" => Told::Follows(place(number("leader")?)?, number("term")?),
        "steps-down" => Told::Lost,
        "knows-nobody" => Told::Nobody,
        "suspects" => Told::Suspects(place(number("peer")?)?),
        "restores" => Told::Restores(place(number("peer")?)?),
        _ => return None,
    };
    Some((Time::from_nanos(number("at")?), told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_understood() {
        let at = Time::from_nanos(17);
        let leases = Cast::of(PRODUCTION);
        assert_eq!(leases.understand("17 leads 5"), Some((at, Told::Leads(5))));
        assert_eq!(leases.understand("17 follows 2 5"), Some((at, Told::Follows(1, 5))));
        assert_eq!(leases.understand("17 follows 0 5"), None);
        assert_eq!(leases.understand("nonsense"), None);
        let members = Cast::of("bully");
        let told = |line: &str| members.understand(line);
        assert_eq!(told(r#"{"at":17,"node":1,"event":"leads","term":2}"#), Some((at, Told::Leads(2))));
        assert_eq!(told(r#"{"at":17,"node":1,"event":"suspects","peer":3}"#), Some((at, Told::Suspects(2))));
        assert_eq!(told(r#"{"at":17,"event":"dances"}"#), None);
        assert_eq!(told("17 leads 5"), None);
    }

    #[test]
    fn agreement_is_all_or_where_it_is_only_likely_most() {
        assert!(!Cast::of("bully").agree(4, 3, 0) && Cast::of("bully").agree(4, 4, 0));
        assert!(Cast::of("gupta").agree(4, 3, 0) && !Cast::of("gupta").agree(4, 3, 1));
        assert!(!Cast::of(PRODUCTION).suffices(&[true, false]) && Cast::of("bully").suffices(&[true, false]));
    }
}
