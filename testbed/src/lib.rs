//! A network with faults on one machine, for tests of real programs.
//!
//! ```text
//!     host 1        host 2        host 3       each a network namespace, with 10.77.0.1, .2, .3, ..
//!       │ TAP         │ TAP         │ TAP
//!   ┌───┴─────────────┴─────────────┴───┐
//!   │  switch: a thread of this process │      drops, delays and duplicates frames, separately for each
//!   └───────────────────────────────────┘      direction of each pair of hosts
//! ```
//!
//! The emulation of the kernel (`tc netem`) is not available everywhere. This needs `ip` of iproute2, `/dev/net/tun`
//! and root, which may create namespaces. An error names what is missing.
//!
//! - [`Network`] is the hosts and the switch. [`Host::enter`] runs a closure in the network of a host: programs that it
//!   spawns and sockets that it opens belong to that network.
//! - `fabric` decides the fate of a frame. Random choices are seeded, but the arrival times of frames are not, so that
//!   two runs with the same seed differ.
//! - [`address`] is a loopback address that no other test uses.
//! - [`Authority`] signs certificates.
//! - [`Folder`] is a temporary folder, and [`SmallDisk`] a small disk. [`until`] waits for a condition.
//!
//! The names of all resources contain the process id, so that tests can run in parallel. Dropping a value removes its
//! resource, and the next test removes the leftovers of killed tests.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "uses threads and clocks")]

mod authority;
mod disk;
mod fabric;
mod folder;
mod leftovers;
mod loopback;
mod namespace;
mod network;
mod process;
mod switch;
mod wait;

pub use authority::{Authority, secret};
pub use disk::SmallDisk;
pub use fabric::{LinkConditions, Tally};
pub use folder::Folder;
pub use loopback::address;
pub use network::{Host, Network};
pub use process::{Process, alone};
pub use wait::until;
