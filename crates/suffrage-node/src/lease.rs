//! Many named elections in one node, by quorum lease: a
//! [`SessionEngine`](suffrage_lease::sessions::SessionEngine) with a network, a clock and a disk.
//!
//! ```text
//!   commands, datagrams,   ┌───────────────┐   1. what must be on the disk
//!   clients' requests,   ─▶│ SessionEngine │─▶ 2. events: who leads what
//!   the moment it asked    └───────────────┘   3. datagrams, each full of messages for one peer
//!   to be called at                            4. replies to clients
//! ```
//!
//! **Packets.** What is said to one peer in one turn shares datagrams.
//!
//! **Order.** What a turn does is done only after what it wants saved is on the disk. A node that cannot save therefore
//! stands still, which to all others is a pause: safe, and over when the disk is well. Events come before datagrams: a
//! holder that has handed over knows that it does not lead before anybody else does.
//!
//! What is only counted or remembered is derived from the engine's announcements, and no part of its state.

mod durations;
mod journal;
mod node;
mod node_clock;
mod output;
mod participation;
mod report;
mod settings;
mod status;

pub use suffrage_lease::{
    CandidateConfig, Drift, ELECTION_MEMORY, Grant, InvalidConfig, JoinError, Lease, Name, Saved, Token,
};

pub use self::durations::Durations;
pub use self::node::{LeaderChange, Node, NodeMetrics, NodeState};
pub use self::node_clock::NodeClock;
pub use self::participation::{Belief, HeldLease, Participation};
pub use self::settings::Settings;
pub use self::status::{ElectionCounters, History, Record, Status, VoterStatus, Why};
