//! Large groups without I/O: gossip membership, and a leader that the members believe in.
//!
//! [`Group`] is a [`Process`](suffrage_core::Process). Members find each other from a seed, detect failures (SWIM with
//! Lifeguard), compare digests of their lists, and elect a leader by a claim in its own record.
//!
//! **This is not the quorum lease.** Two members can lead at the same time: in a partition, each part elects a leader,
//! and a leader that was declared dead leads until it hears of its successor. Use `suffrage-lease` where two leaders do
//! harm. docs/groups.md has the contract.
//!
//! - [`Record`], [`Rumour`], [`Message`]: what members say about each other.
//! - [`Settings`]: periods and time-outs; [`Bug`]: deliberate bugs for the torture.
//! - `table.rs`: the list of members and its digest. `rumours.rs`: what is still to be passed on.
//! - `group.rs`: the process. `group/probe.rs` probes and suspects, `group/sync.rs` compares lists and asks seeds and dead
//!   members, `group/leader.rs` elects, `group/watch.rs` watches the leader.

mod group;
mod message;
mod record;
mod rumours;
mod settings;
mod table;

pub use group::{Counters, Group, GroupCommand, Timer};
pub use message::{Digest, MAX_MESSAGE, Message};
pub use record::{Address, Record, Rumour};
pub use settings::{Bug, Settings};
