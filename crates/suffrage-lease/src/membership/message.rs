//! Messages about the configuration.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use suffrage_core::{NodeId, Span};

use super::configuration::{ClusterId, Configuration, DiskId};
use crate::timings::Drift;

/// The number of an attempt to change the configuration. Of two attempts, voters prefer the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Counts attempts.
    pub counter: u64,
    /// The node that makes the attempt.
    pub coordinator: NodeId,
    /// A random number of the coordinator: no two coordinators use the same ballot, also not two of one node.
    pub boot: u64,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of node {}", self.counter, self.coordinator)
    }
}

/// The reason for which a voter refuses to take part in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ChangeRefusal {
    /// The voter has promised a greater ballot.
    Outbid(Ballot),
    /// Leases that the voter granted before it installed this version may still be valid, for this long at most.
    NotDrained(Span),
    /// The node does not vote in this version.
    NotVoter,
    /// The configuration differs from the installed one by more than one voter.
    NotSuccessor,
}

/// A message about the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MembershipMessage {
    /// A newer configuration for the sender of a message of an older version.
    Newer(Arc<Configuration>),
    /// The sender of a message of a newer version is asked for its configuration.
    Behind,
    /// A chosen configuration, from a coordinator.
    Install(Arc<Configuration>),
    /// The reply to `Install`: the node has this version.
    Installed,
    /// Asks a voter to promise a ballot.
    Prepare(Ballot),
    /// The voter promises to take part in no smaller ballot.
    Promised {
        /// The ballot.
        ballot: Ballot,
        /// The configuration that the voter accepted last, and the ballot.
        accepted: Option<(Ballot, Arc<Configuration>)>,
        /// The voter has promised no greater token, in any election.
        ceiling: u64,
    },
    /// Asks a voter to accept the next configuration.
    Accept(Ballot, Arc<Configuration>),
    /// The voter accepts.
    Accepted(Ballot),
    /// The voter refuses `Prepare` or `Accept` of this ballot.
    Refused(Ballot, ChangeRefusal),
    /// Asks a node who it is.
    Hello,
    /// The reply to `Hello`.
    Identity(Identity),
}

/// Tells a coordinator who a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The identity of the node's disk. None if the node has no disk, and cannot vote.
    pub disk: Option<DiskId>,
    /// The cluster of the node. None if it has not found one.
    pub cluster: Option<ClusterId>,
    /// Whether the node votes.
    pub votes: bool,
    /// The bound on clock drift that the node was started with.
    pub drift: Drift,
}
