//! Many named elections in one node, by quorum lease.
//!
//! - [`Host`] holds a node's part in all of them, without I/O: as a voter if it is one, and as a candidate or
//!   an observer of every name it takes part in.
//! - [`Node`] is a host with a network, a clock and a disk: a task, and handles to it.
//!
//! ```text
//!   commands, datagrams,   ┌──────┐   1. what must be on the disk
//!   the moment it asked ──▶│ Host │──▶ 2. events: who leads what
//!   to be called at        └──────┘   3. datagrams, each full of messages for one peer
//! ```
//!
//! **Packets.** What is said to one peer in one turn shares datagrams. Renewals are brought into step: each is
//! due up to a *slack* (a sixtieth of the ttl) before it has to be, and waits for the next of the node's ticks
//! within that, so that the names of one tick renew together from then on. A renewal that comes earlier than
//! it has to is always safe: the lease is counted from the moment of the question, and each answer moves its
//! end further away, never nearer. The price is a twentieth more renewals at most.
//!
//! **Order.** Everything in an [`Output`] is done only after what it wants saved is on the disk. A node that
//! cannot save therefore stands still, which to all others is a pause: safe, and over when the disk is well.
//! Events come before datagrams: who has handed over knows that it does not lead before anybody else does.

mod agenda;
mod durations;
mod host;
mod node;
mod outbox;
mod output;
mod part;
mod seat;
mod settings;
mod status;
mod timepiece;

pub use suffrage_lease::{Drift, Grant, Lease, Name, Saved, Token};

pub use self::durations::Durations;
pub use self::host::{Host, Refused};
pub use self::node::{Condition, Figures, Node};
pub use self::outbox::Outbox;
pub use self::output::{Event, Output};
pub use self::part::{Belief, Part, Stint};
pub use self::seat::{SEAT_MEMORY, Seat};
pub use self::settings::{Settings, Terms, Unfit};
pub use self::status::{History, Record, Status, Tally, VoterStatus, Why};
pub use self::timepiece::Timepiece;
