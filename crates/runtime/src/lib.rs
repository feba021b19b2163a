//! Election processes on real sockets: the same state machines, with a clock, a disk and a network.
//!
//! - What runs any [`Process`](election::Process): [`driver::spawn`]; any of the catalog, by its name (feature
//!   `catalog`): `member::runner`.
//! - How nodes reach each other: [`transport::Transport`], in memory and over UDP.
//! - What they say, as bytes: [`codec`]. What time it is: [`clock`]. What outlives a crash: [`storage`].
//! - Why nobody else takes part: [`seal`], with the cluster's [`Keyring`]; [`replay`].
//! - Many named elections in one node: [`lease::Host`] and [`lease::Node`].
//! - A node as a service of its own, with HTTP (feature `daemon`): `daemon::Daemon`.
//! - Commands that must have ended by a given moment: [`supervise`].
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it reads clocks, opens sockets and is run by several threads"
)]

pub mod clock;
pub mod codec;
pub mod config;
mod counters;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod driver;
mod error;
mod keyring;
pub mod lease;
#[cfg(feature = "catalog")]
pub mod member;
pub mod replay;
pub mod seal;
pub mod storage;
pub mod supervise;
#[cfg(test)]
mod testing;
pub mod transport;

pub use counters::{Counters, Dropped, Snapshot};
pub use error::Error;
pub use keyring::{Key, KeyId, Keyring, MOST_KEYS};
pub use transport::{SendError, Transport};
