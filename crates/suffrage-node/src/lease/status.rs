//! What a node tells of its elections: who leads, why not this node, and how it came to that.

use std::collections::VecDeque;
use std::fmt;

use suffrage_core::{Attribute, NodeId, Span, Time};
use suffrage_lease::{Lease, Name, Token};

use super::durations::Durations;

/// What a node knows of one election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Who leads, and with which token.
    pub leader: Option<(NodeId, Token)>,
    /// Since when that has been so, by this node's clock.
    pub since: Time,
    /// What this node holds, if it is the leader.
    pub lease: Option<Lease>,
    /// How good a leader this node would be.
    pub attribute: Attribute,
    /// Whether somebody at this node asks to lead.
    pub stands: bool,
    /// The candidates that wait in the queue of this node's voter, the next one first. Empty if the node does not
    /// vote.
    pub queue: Vec<NodeId>,
    /// Why this node leads or does not.
    pub why: Why,
}

/// Why a node leads or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It leads, for this much longer unless it renews.
    Leads(Span),
    /// Nobody at this node asks to lead.
    Observes,
    /// It was said to be unwell.
    Unhealthy,
    /// Too few voters answer.
    NoMajority {
        /// Who does not, and since when.
        silent: Vec<(NodeId, Option<Span>)>,
        /// How many have to.
        majority: usize,
    },
    /// Another leads, and that one renews its lease.
    Follows(NodeId),
    /// It handed over, and lets others go first for this long.
    StandsBack(Span),
    /// It is at it: asks voters for a promise or a lease.
    Contends,
    /// Nobody leads, and it is not its turn yet.
    Waits,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Leads(left) => write!(f, "this node leads; its lease has {left} ms left"),
            Why::Observes => f.write_str("nobody at this node asks to lead"),
            Why::Unhealthy => f.write_str("this node was said to be unwell, and does not stand"),
            Why::NoMajority { silent, majority } => {
                write!(f, "{majority} voters have to answer, and these do not:")?;
                for (place, (voter, since)) in silent.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    match since {
                        Some(since) => write!(f, "{comma} {voter} for {since} ms")?,
                        None => write!(f, "{comma} {voter} ever")?,
                    }
                }
                Ok(())
            }
            Why::Follows(leader) => write!(f, "node {leader} leads, and renews its lease"),
            Why::StandsBack(left) => {
                write!(f, "this node handed over, and lets others go first for another {left} ms")
            }
            Why::Contends => f.write_str("this node is asking the voters for the lease"),
            Why::Waits => f.write_str("nobody is known to lead; this node waits for its turn"),
        }
    }
}

/// How a node is as a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoterStatus {
    /// False if it has lost its disk: it must come back as a node of another id.
    pub votes: bool,
    /// How much longer it is silent, having restarted.
    pub silence: Span,
    /// How many elections it keeps anything of.
    pub elections: usize,
}

/// A change of leaders that a node learned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of which election.
    pub name: Name,
    /// When it learned of it, by its own clock.
    pub at: Time,
    /// Who led from then on, with which token; none if nobody did.
    pub leader: Option<(NodeId, Token)>,
}

/// The latest changes of leaders that a node learned of, over all names; older ones make room.
#[derive(Clone, Debug)]
pub struct History {
    most: usize,
    records: VecDeque<Record>,
}

impl History {
    pub(super) fn new(most: usize) -> History {
        History { most, records: VecDeque::new() }
    }

    pub(super) fn add(&mut self, record: Record) {
        if self.most == 0 {
            return;
        }
        if self.records.len() == self.most {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// Those of one election, the oldest first.
    pub fn of(&self, name: Name) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.name == name)
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }
}

/// What a node counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElectionCounters {
    /// How often it began to lead, or led on with a greater token.
    pub led: u64,
    /// How often it ceased to.
    pub lost: u64,
    /// How often it renewed a lease.
    pub renewed: u64,
    /// How often it learned that another leads.
    pub followed: u64,
    /// How many messages it received.
    pub messages: u64,
    /// How long its renewals took to be answered by a majority.
    pub renewals: Durations,
    /// How long it knew of no leader, after one was lost and until it knew the next.
    pub failovers: Durations,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_forgets_the_oldest() {
        let (x, y) = (Name::of("x"), Name::of("y"));
        let mut history = History::new(3);
        for at in 0..5 {
            let name = if at % 2 == 0 { x } else { y };
            history.add(Record { name, at: Time::from_nanos(at), leader: None });
        }
        let at = |records: Vec<&Record>| -> Vec<u64> { records.iter().map(|it| it.at.as_nanos()).collect() };
        assert_eq!(at(history.of(x).collect()), [2, 4]);
        assert_eq!(at(history.of(y).collect()), [3]);
        assert_eq!(history.all().count(), 3);
        let mut none = History::new(0);
        none.add(Record { name: x, at: Time::ZERO, leader: None });
        assert_eq!(none.all().count(), 0);
    }

    #[test]
    fn why_is_said_in_a_sentence() {
        let silent = vec![(NodeId(2), Some(Span::from_millis(70))), (NodeId(3), None)];
        let why = Why::NoMajority { silent, majority: 2 };
        assert_eq!(why.to_string(), "2 voters have to answer, and these do not: 2 for 70 ms, 3 ever");
    }
}
