//! Your own algorithm on the network.
//!
//! An algorithm is a [`Process`]: inputs are its `on_…` methods, and what it does about them goes through the
//! [`Context`]. It reads no clock and opens no socket, so that the simulator (crate `simulator`) can put it through
//! losses, crashes and partitions by the thousand; then [`spawn`] runs it, unchanged, on a [`Transport`], a
//! [`Clock`] and a [`Storage`]. `examples/custom_algorithm.rs` does both.
//!
//! What the rest of this crate promises is promised by its quorum leases, not by your algorithm.

pub use suffrage_core::{
    Announcement, Attribute, Command, Context, Effects, Kind, Message, Process, Rng, Roster, Start, Term,
    Timer, View,
};
pub use suffrage_core::{message_kinds, timer_indices};
pub use suffrage_net::Counters;
pub use suffrage_net::codec::Protocol;
pub use suffrage_net::transport::udp::{Socket, Udp};
pub use suffrage_net::transport::{Config, Transport};
pub use suffrage_node::Error;
pub use suffrage_node::clock::{BootClock, Clock};
pub use suffrage_node::driver::{Belief, Event, Handle, Settings, spawn};
pub use suffrage_node::storage::{DataFolder, MemoryDisk, StateFile, Storage};
