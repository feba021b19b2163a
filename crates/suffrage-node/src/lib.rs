//! Election processes on real machines: state machines with a clock, a disk and a network.
//!
//! - [`driver::spawn`]: runs any [`Process`](suffrage_core::Process).
//! - [`lease::Node`]: many named elections in one node.
//! - [`group::GroupMember`]: a member of a large group, which is not the quorum lease.
//! - [`clock`]: clocks. [`storage`]: state that survives a crash. [`config`]: the configuration of a node.
//!   [`resolver`]: the addresses of peers with host names.
//! - [`supervise`]: commands that end by a deadline.
//! - [`client`]: programs that lead through the node of their machine.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it reads clocks, opens sockets and is run by several threads"
)]

pub mod client;
pub mod clock;
pub mod config;
pub mod driver;
mod error;
pub mod group;
pub mod lease;
pub mod resolver;
pub mod storage;
pub mod supervise;
mod tasks;

pub use error::Error;
pub use tasks::spawn;
