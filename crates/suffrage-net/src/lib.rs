//! Encrypted and authenticated datagrams between the nodes of a cluster.
//!
//! - [`transport`]: the trait [`Transport`], in memory and over UDP. One conformance suite tests both.
//! - [`codec`]: messages as bounded envelopes, several to a datagram. Decoding never panics and never allocates more
//!   than the datagram.
//! - [`seal`]: encryption and authentication of a datagram with the cluster's [`Keyring`]. The first key seals, and all
//!   keys open, so that keys can be rotated.
//! - [`group_seal`]: the same for large groups, with fewer bytes.
//! - [`replay`]: a replay window for each sender and boot.
//! - [`Counters`]: datagrams sent, received, and dropped by reason.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it opens sockets and is run by several threads"
)]

pub mod codec;
mod counters;
mod error;
pub mod group_seal;
mod keyring;
pub mod replay;
pub mod seal;
pub mod transport;

pub use counters::{Counters, Dropped, Snapshot};
pub use error::Error;
pub use keyring::{Key, KeyId, Keyring, MAX_KEYS};
pub use transport::{SendError, Transport};
