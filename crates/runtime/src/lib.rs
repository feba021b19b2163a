//! Election processes on real sockets: the same state machines, with a clock, a disk and a network.
//!
//! - How nodes reach each other: [`transport::Transport`], in memory and over UDP.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it reads clocks, opens sockets and is run by several threads"
)]

pub mod config;
mod counters;
pub mod transport;

pub use counters::{Counters, Dropped, Snapshot};
