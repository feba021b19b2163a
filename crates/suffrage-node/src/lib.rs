//! Election processes on real machines: the same state machines, with a clock, a disk and a network.
//!
//! - What runs any [`Process`](suffrage_core::Process): [`driver::spawn`].
//! - Many named elections in one node: [`lease::Node`].
//! - What time it is: [`clock`]. What outlives a crash: [`storage`]. What a node is told: [`config`].
//! - Commands that must have ended by a given moment: [`supervise`].
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it reads clocks, opens sockets and is run by several threads"
)]

pub mod clock;
pub mod config;
pub mod driver;
mod error;
pub mod lease;
pub mod storage;
pub mod supervise;

pub use error::Error;
