//! Sealed datagrams between the nodes of a cluster.
//!
//! - How nodes reach each other: [`transport::Transport`], in memory and over UDP.
//! - What they say, as bytes: [`codec`].
//! - Who may take part: [`seal`], with the cluster's [`Keyring`]; nothing is taken twice: [`replay`].
//! - What is dropped, and why: [`Counters`].
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it opens sockets and is run by several threads"
)]

pub mod codec;
mod counters;
mod error;
mod keyring;
pub mod replay;
pub mod seal;
pub mod transport;

pub use counters::{Counters, Dropped, Snapshot};
pub use error::Error;
pub use keyring::{Key, KeyId, Keyring, MOST_KEYS};
pub use transport::{SendError, Transport};
