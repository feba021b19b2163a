//! Many named elections in one node, by quorum lease: a
//! [`SessionEngine`](suffrage_lease::sessions::SessionEngine) with a network, a clock and a disk.
//!
//! ```text
//!   commands, datagrams,   ┌───────────────┐   1. state to be saved
//!   requests of clients, ─▶│ SessionEngine │─▶ 2. events: changes of leaders
//!   timer                  └───────────────┘   3. datagrams, each with messages for one peer
//!                                              4. replies to clients
//! ```
//!
//! **Packets.** The messages of one turn to one peer share datagrams.
//!
//! **Saves.** A blocking thread saves the state of the voter while the task goes on. The engine defers what needs the saved
//! state until the task tells it that the state is durable. A stalled disk therefore stops no renewal. Only the first state
//! of a process is saved before any other effect. A node whose disk refuses a save is suspended until it succeeds. For its
//! peers, that is a pause, which is safe.
//!
//! **Order.** Events precede datagrams: a leader that hands over knows that it does not lead before any peer knows.
//!
//! Counters and history are derived from the announcements of the engine. They are no part of its state.

mod histogram;
mod journal;
mod node;
mod node_clock;
mod output;
mod participation;
mod report;
mod settings;
mod status;
mod survey;
mod witness;

pub use suffrage_lease::membership;
pub use suffrage_lease::{
    CandidateConfig, Drift, ELECTION_MEMORY, Grant, InvalidConfig, InvalidValue, JoinError, Lease, Mismatch,
    Name, Saved, Token, Value,
};

pub use self::histogram::DurationHistogram;
pub use self::node::{HoldState, Holding, Node, NodeEvent, NodeMetrics, NodeOverview, NodeState};
pub use self::node_clock::NodeClock;
pub use self::participation::{Belief, HeldLease, Participation};
pub use self::settings::Settings;
pub use self::status::{
    ElectionCounters, GrantedElection, HistoryEntry, KnownElection, Leader, LeaderValue, ListedElection,
    MembershipStatus, MismatchedNode, NotVoting, Refusal, RefusalReason, Status, VoterContact, VoterStatus,
    Why, slow_save,
};
pub use self::survey::{ClockComparison, ClockRate, ReportedContact, VoterReport};
