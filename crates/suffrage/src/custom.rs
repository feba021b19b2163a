//! Your own algorithm on the network.
//!
//! An algorithm is a [`Process`]: inputs are its `on_…` methods, and what it does about them goes through the
//! [`Context`]. It reads no clock and opens no socket, so that the simulator (crate `simulator`) can put it through
//! losses, crashes and partitions by the thousand; then [`spawn`] runs it, unchanged, on a [`Transport`], a
//! [`Clock`] and a [`Storage`]. `examples/custom_algorithm.rs` does both.
//!
//! What the rest of this crate promises is promised by its quorum leases, not by your algorithm.

pub use ::election::{
    Announcement, Attribute, Command, Context, Effects, Kind, Message, Process, Rng, Roster, Start, Term,
    Timer, View,
};
pub use ::election::{message_kinds, timer_indices};
pub use runtime::clock::{BootClock, Clock};
pub use runtime::codec::Protocol;
pub use runtime::driver::{Belief, Event, Handle, Settings, spawn};
pub use runtime::storage::{DataFolder, MemoryDisk, StateFile, Storage};
pub use runtime::transport::udp::{Socket, Udp};
pub use runtime::transport::{Config, Transport};
pub use runtime::{Counters, Error};
