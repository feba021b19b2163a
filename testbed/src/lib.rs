//! A network with faults, on one machine, for tests of real programs.
//!
//! ```text
//!     host 1        host 2        host 3       each a network namespace, with 10.77.0.1, .2, .3, ..
//!       │ TAP         │ TAP         │ TAP
//!   ┌───┴─────────────┴─────────────┴───┐
//!   │  switch: a thread of this process │      cuts, loses, delays and doubles frames, each way of each
//!   └───────────────────────────────────┘      pair of hosts for itself
//! ```
//!
//! The kernel's own emulation (`tc netem`) is not everywhere; this needs `ip` of iproute2, `/dev/net/tun` and a
//! user who may make namespaces: root. Whatever is missing is an error that says so.
//!
//! - [`Network`] is the hosts and the switch. [`Host::enter`] runs something in a host's network: a program that
//!   is spawned there stays there, and so does a socket that is opened there.
//! - `fabric` decides what becomes of a frame. Chance is seeded; but when which frame comes is the machine's
//!   affair, so that a seed does not mean the same run.
//! - [`address`] is an address of loopback that no other test has.
//! - [`Folder`] is one to work in, and [`SmallDisk`] one that is soon full. [`until`] waits for what programs do.
//!
//! Everything has a name that tells which process made it, so that any number of tests can run side by
//! side. It is gone with its value, and if a test was killed, the next one clears away what it has left.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it is made of threads and clocks")]

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

pub use disk::SmallDisk;
pub use fabric::{Tally, Weather};
pub use folder::Folder;
pub use loopback::address;
pub use network::{Host, Network};
pub use process::{Process, alone};
pub use wait::until;
