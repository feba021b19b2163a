//! Reports of a node about its elections. Durations are those of the standard library, measured by the node's clock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::{NodeId, Time};
use suffrage_lease::membership::{Change, ChangeProgress, Configuration, DiskId};
use suffrage_lease::{ElectionName, Grant, Mismatch, Name, Token, Value, ValueVersion};

use super::histogram::DurationHistogram;

/// The leader of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leader {
    /// The node that leads.
    pub node: NodeId,
    /// The fencing token of its leadership.
    pub token: Token,
}

impl Leader {
    /// The holder of a lease.
    pub(super) fn of(grant: Grant) -> Leader {
        Leader { node: grant.holder, token: grant.token }
    }
}

/// The value of a leader: a text that the leader says about itself. No promise depends on it, and it may be out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderValue {
    version: u32,
    value: Value,
}

impl LeaderValue {
    pub(crate) fn new((version, value): (ValueVersion, &Value)) -> LeaderValue {
        LeaderValue { version: version.0, value: value.clone() }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.value.as_str()
    }

    /// The version: of two values of one leader with one token, the later has the greater version.
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// The state of one election, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The name of the election.
    pub name: String,
    /// The leader, if one is known.
    pub leader: Option<Leader>,
    /// The value of the leader, if it has one and this node knows it.
    pub value: Option<LeaderValue>,
    /// Whether this node has heard of a newer value of the leader and does not have it yet.
    pub value_pending: bool,
    /// The time since `leader` last changed at this node, also as its voter knew it before the node joined.
    pub leader_age: Duration,
    /// The time until this node's lease ends unless it is renewed. None if this node does not lead.
    pub lease_remaining: Option<Duration>,
    /// The time until the lease ends that this node's voter has granted, unless it is renewed. None if this node does not
    /// vote or has granted none.
    pub grant_remaining: Option<Duration>,
    /// The rank of this node as a candidate. A greater rank is better.
    pub rank: i64,
    /// Whether this node is a candidate: an application at this node asks to lead.
    pub candidate: bool,
    /// The candidates in the queue of this node's voter, in the order in which they are woken. Empty if this node does
    /// not vote.
    pub queue: Vec<NodeId>,
    /// The reason why this node leads or does not lead.
    pub why: Why,
    /// The nodes whose messages change nothing at this node: they may be missing for a majority.
    pub mismatches: Vec<MismatchedNode>,
    /// The time since a write to this node's disk began that has not ended within the ttl.
    pub slow_save: Option<Duration>,
}

impl Status {
    /// The status of an election in which the node is a candidate and knows no leader.
    pub fn new(name: impl Into<String>) -> Status {
        Status {
            name: name.into(),
            leader: None,
            value: None,
            value_pending: false,
            leader_age: Duration::ZERO,
            lease_remaining: None,
            grant_remaining: None,
            rank: 0,
            candidate: true,
            queue: Vec::new(),
            why: Why::Waiting,
            mismatches: Vec::new(),
            slow_save: None,
        }
    }

    /// The reason why this node leads or does not lead, in a sentence. Nodes that do not match and a stalled disk come first:
    /// whatever else holds may be a consequence.
    pub fn explanation(&self) -> String {
        let mismatch = |it: &MismatchedNode| format!("node {} is ignored: {}; ", it.node, it.reason);
        let slow = self.slow_save.map(|pending| format!("{}; ", slow_save(pending)));
        self.mismatches.iter().map(mismatch).chain(slow).chain([self.why.to_string()]).collect()
    }

    /// Whether this node leads.
    pub fn leads(&self) -> bool {
        self.lease_remaining.is_some()
    }
}

/// An election that a node takes no part in, as its voter knows it. That is one vote, not a majority: the lease may be
/// of a candidate that was not elected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantedElection {
    /// The name of the election. None until the holder of the lease has told it.
    pub name: Option<String>,
    /// The hash of the name, in hexadecimal digits.
    pub hash: String,
    /// The holder of the granted lease. None while nobody holds it and candidates wait.
    pub leader: Option<Leader>,
    /// The value of the leader, if it has one and this node knows it.
    pub value: Option<LeaderValue>,
    /// The time since `leader` last changed at this node.
    pub leader_age: Duration,
    /// The time until the granted lease ends, unless it is renewed.
    pub grant_remaining: Option<Duration>,
    /// The candidates in the queue of this node's voter, in the order in which they are woken.
    pub queue: Vec<NodeId>,
}

/// An election in the [list](super::Node::list) of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedElection {
    /// The name of the election. None until the holder of the lease has told it.
    pub name: Option<ElectionName>,
    /// The hash of the name.
    pub hash: Name,
    /// The leader, or the holder of the lease that this node's voter has granted.
    pub leader: Option<NodeId>,
}

/// An election that a node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownElection {
    /// The node takes part in the election.
    Joined(Status),
    /// The node knows the election as a voter only.
    Granted(GrantedElection),
}

/// The last refusal of a candidate's request by a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The voter.
    pub voter: NodeId,
    /// The reason.
    pub reason: RefusalReason,
}

/// The reason why a voter refuses a candidate's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Another candidate holds the lease.
    Held {
        /// The holder.
        holder: NodeId,
        /// The time until the lease ends unless it is renewed.
        remaining: Duration,
    },
    /// The voter has promised a token that forbids the candidate's.
    Promised {
        /// The promised token.
        token: u64,
    },
    /// The voter grants no lease that is so long.
    TooLong {
        /// The longest lease that the voter grants.
        longest: Duration,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let voter = self.voter;
        match self.reason {
            RefusalReason::Held { holder, remaining } => {
                write!(
                    f,
                    "voter {voter} has granted the lease to node {holder} for another {}",
                    short(remaining)
                )
            }
            RefusalReason::Promised { token } => {
                write!(f, "voter {voter} has promised token {token}: this node retries with a greater one")
            }
            RefusalReason::TooLong { longest } => write!(
                f,
                "voter {voter} grants leases of at most {}, and this node asks for longer ones: lower its ttl, or raise \
                 `longest-ttl` of the voters",
                short(longest)
            ),
        }
    }
}

/// A sentence about a write to a node's disk that takes longer than a lease.
pub fn slow_save(pending: Duration) -> String {
    format!(
        "a write to the disk of this node has not ended for {}: until it ends, this node as a voter promises nothing that \
         it must save first; check its disk",
        short(pending)
    )
}

/// A duration with a unit, in whole milliseconds, rounded up.
fn short(duration: Duration) -> String {
    suffrage_core::Span::from_millis(duration.as_nanos().div_ceil(1_000_000) as u64).format_duration()
}

/// A node whose messages change nothing at this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MismatchedNode {
    /// The node.
    pub node: NodeId,
    /// The reason, as a sentence.
    pub reason: String,
}

/// The reason why a node leads an election or does not lead it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The node leads.
    Leading {
        /// The time until the lease ends unless it is renewed.
        remaining: Duration,
    },
    /// The node leads, and hands over: it does not renew its lease any more, so that its application can stop first.
    HandingOver {
        /// The time that the application has to stop its work.
        remaining: Duration,
        /// The node that is to lead next. None for the next candidate.
        to: Option<NodeId>,
    },
    /// The node only observes: no application at the node asks to lead.
    NotCandidate,
    /// The application reported that it is unhealthy.
    Unhealthy,
    /// Fewer voters than a majority answer.
    NoMajority {
        /// The voters that do not answer.
        silent: Vec<VoterContact>,
        /// The number of voters that must answer.
        majority: usize,
    },
    /// The ttl is longer than a voter grants: the node is never elected.
    TtlTooLong {
        /// The longest lease that the voter grants.
        longest: Duration,
    },
    /// No leader is known, and a voter has refused the last campaign of this node.
    Refused {
        /// The refusal.
        refusal: Refusal,
    },
    /// Another node leads and renews its lease.
    Following {
        /// The leader.
        leader: NodeId,
    },
    /// The node handed over and lets other candidates go first.
    Yielding {
        /// The time until the node campaigns again.
        remaining: Duration,
    },
    /// The node is asking the voters for promises or for the lease.
    Campaigning,
    /// No leader is known, and the node waits before it campaigns.
    Waiting,
    /// The reason in the words of the node of this machine, to a program that is its client.
    Reported(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Leading { remaining } => {
                write!(f, "this node leads; its lease is valid for another {} ms", remaining.as_millis())
            }
            Why::HandingOver { remaining, to } => {
                f.write_str("this node leads and hands over")?;
                if let Some(to) = to {
                    write!(f, " to node {to}")?;
                }
                write!(f, ": its application has another {} ms to stop its work", remaining.as_millis())
            }
            Why::NotCandidate => f.write_str("this node is not a candidate: no client of it asks to lead"),
            Why::Unhealthy => {
                f.write_str("this node does not campaign: its application reported that it is unhealthy")
            }
            Why::NoMajority { silent, majority } => {
                let ids: Vec<String> = silent.iter().map(|contact| contact.voter.to_string()).collect();
                let ids = match &*ids {
                    [one] => format!("{one} does"),
                    [most @ .., last] => format!("{} and {last} do", most.join(", ")),
                    [] => "all do".to_string(),
                };
                write!(f, "no majority of voters answers: {ids} not")?;
                silent.iter().try_for_each(|contact| write!(f, "; {contact}"))?;
                write!(f, "; {majority} voters must answer: start these nodes, or repair the network to them")
            }
            Why::TtlTooLong { longest } => write!(
                f,
                "voters grant leases of at most {} ms, and this node asks for longer ones: lower its ttl, or raise \
                 `longest-ttl` of the voters",
                longest.as_millis()
            ),
            Why::Refused { refusal } => refusal.fmt(f),
            Why::Following { leader } => write!(f, "node {leader} leads and renews its lease"),
            Why::Yielding { remaining } => {
                let millis = remaining.as_millis();
                write!(f, "this node handed over and lets other candidates go first for another {millis} ms")
            }
            Why::Campaigning => f.write_str("this node is asking the voters for the lease"),
            Why::Waiting => f.write_str("no leader is known; this node waits before it campaigns"),
            Why::Reported(reason) => f.write_str(reason),
        }
    }
}

/// A voter, and when this node last received a reply from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoterContact {
    /// The voter.
    pub voter: NodeId,
    /// The time since the last reply. None if the voter has never replied. Zero for the node itself while it votes.
    pub reply_age: Option<Duration>,
    /// Whether the voter has left several requests in a row without a reply, for some seconds, or has said that it does
    /// not vote. For the node itself, whether it does not vote now.
    pub silent: bool,
    /// The reason why the voter does not vote, if this node knows it.
    pub not_voting: Option<NotVoting>,
    /// The smoothed time that the voter takes to answer, with the network. None for the node itself.
    pub round_trip: Option<Duration>,
}

/// The reason why a voter of the cluster does not vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotVoting {
    /// The voter has restarted. Leaders may rely on grants from before the restart.
    Restarted {
        /// The time until it votes again.
        remaining: Duration,
    },
    /// The voter has lost its saved state.
    LostState,
    /// The voter has another configuration than this node.
    Mismatched,
}

impl VoterContact {
    /// Whether the voter has replied and is not silent.
    pub fn answers(&self) -> bool {
        self.reply_age.is_some() && !self.silent
    }
}

impl fmt::Display for VoterContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let voter = self.voter;
        match (self.not_voting, self.reply_age) {
            (Some(NotVoting::Restarted { remaining }), _) => {
                let remaining = short(remaining);
                write!(f, "voter {voter} is silent for another {remaining} after its restart")
            }
            (Some(NotVoting::LostState), _) => write!(
                f,
                "voter {voter} has lost its saved state and does not vote: remove it from the voters, and add it again"
            ),
            (Some(NotVoting::Mismatched), _) => {
                write!(f, "voter {voter} has another configuration than this node")
            }
            (None, Some(age)) => {
                let age = suffrage_core::Span::from_millis(age.as_millis() as u64).format_duration();
                write!(f, "voter {voter} last answered {age} ago")
            }
            (None, None) => write!(f, "voter {voter} has never answered"),
        }
    }
}

/// The configuration of the cluster, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MembershipStatus {
    /// The configuration.
    pub configuration: Arc<Configuration>,
    /// Whether it is the configuration of the cluster. If not, it is the list that the node was started with, and no voter
    /// has answered yet.
    pub certain: bool,
    /// The time until this node, as a voter, takes part in the next change. None if it does not vote.
    pub drained_in: Option<Duration>,
    /// The identity of the node's disk. None if the node can never vote.
    pub disk: Option<DiskId>,
    /// The change that this node coordinates, and what it waits for.
    pub change: Option<(Change, ChangeProgress)>,
    /// The nodes whose messages change nothing at this node.
    pub mismatches: Vec<(NodeId, Mismatch)>,
}

/// The state of a node as a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoterStatus {
    /// False if the voter has lost its saved state. The node must then get another id.
    pub votes: bool,
    /// The time for which the voter still grants nothing after a restart.
    pub silence_remaining: Duration,
    /// The number of elections of which the voter stores state.
    pub elections: usize,
}

/// A change of leader in a node's history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The name of the election.
    pub election: String,
    /// The time since the node learned of the change.
    pub age: Duration,
    /// The leader since then. None if no leader was known.
    pub leader: Option<Leader>,
}

/// A change of leader, with a time of the node's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaderRecord {
    pub(super) election: ElectionName,
    pub(super) at: Time,
    pub(super) leader: Option<Leader>,
}

/// The latest changes of leaders that a node learned of, over all elections. New entries replace the oldest.
#[derive(Clone, Debug)]
pub(super) struct History {
    capacity: usize,
    changes: VecDeque<LeaderRecord>,
}

impl History {
    pub(super) fn new(capacity: usize) -> History {
        History { capacity, changes: VecDeque::new() }
    }

    pub(super) fn add(&mut self, change: LeaderRecord) {
        if self.capacity == 0 {
            return;
        }
        if self.changes.len() == self.capacity {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// The entries of one election, or of all, the oldest first.
    pub(super) fn entries(&self, now: Time, name: Option<Name>) -> Vec<HistoryEntry> {
        let wanted = self.changes.iter().filter(|it| name.is_none_or(|name| name == it.election.hash()));
        let entry = |it: &LeaderRecord| {
            let (election, age) = (it.election.to_string(), now.since(it.at));
            HistoryEntry { election, age: Duration::from_nanos(age.as_nanos()), leader: it.leader }
        };
        wanted.map(entry).collect()
    }
}

/// The counters of a node over all its elections. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionCounters {
    /// Leaderships that this node began, and continuations with a greater token.
    pub leaderships_started: u64,
    /// Leaderships of this node that ended.
    pub leaderships_ended: u64,
    /// Renewals of leases of this node.
    pub renewals: u64,
    /// Times that this node learned that another node leads.
    pub leaders_followed: u64,
    /// Leases that this node's voter granted to another holder than before, in elections that this node takes no part in.
    pub leaders_granted: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Durations of renewals, from the request to the reply of a majority.
    pub renewal_seconds: DurationHistogram,
    /// Durations of failovers: from the loss of one leader until the next leader is known.
    pub failover_seconds: DurationHistogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_drops_the_oldest_entries() {
        let name = |text: &str| ElectionName::new(text).unwrap();
        let (x, y) = (name("x"), name("y"));
        let mut history = History::new(3);
        for at in 0..5 {
            let election = if at % 2 == 0 { x.clone() } else { y.clone() };
            history.add(LeaderRecord { election, at: Time::from_nanos(at), leader: None });
        }
        let ages = |name: Option<&ElectionName>| -> Vec<u128> {
            let entries = history.entries(Time::from_nanos(10), name.map(ElectionName::hash));
            entries.iter().map(|entry| entry.age.as_nanos()).collect()
        };
        assert_eq!(ages(Some(&x)), [8, 6]);
        assert_eq!(ages(Some(&y)), [7]);
        assert_eq!(ages(None), [8, 7, 6]);
        let mut none = History::new(0);
        none.add(LeaderRecord { election: x, at: Time::ZERO, leader: None });
        assert_eq!(none.entries(Time::ZERO, None), []);
    }

    #[test]
    fn each_silent_voter_is_named() {
        let age = Some(Duration::from_millis(70));
        let contact = |voter, reply_age, not_voting| VoterContact {
            voter: NodeId(voter),
            reply_age,
            silent: true,
            not_voting,
            round_trip: None,
        };
        let silent = vec![contact(2, age, None), contact(3, None, None)];
        let why = Why::NoMajority { silent, majority: 2 };
        let text = "no majority of voters answers: 2 and 3 do not; voter 2 last answered 70ms ago; voter 3 has never \
                    answered; 2 voters must answer: start these nodes, or repair the network to them";
        assert_eq!(why.to_string(), text);
        let remaining = Duration::from_micros(2_099_001);
        let known = |reason| {
            let not_voting = Some(reason);
            contact(2, age, not_voting).to_string()
        };
        let text = "voter 2 is silent for another 2.1s after its restart";
        assert_eq!(known(NotVoting::Restarted { remaining }), text);
        assert!(known(NotVoting::LostState).contains("lost its saved state"));
    }
}
