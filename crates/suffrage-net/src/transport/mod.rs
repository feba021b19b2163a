//! Datagrams between nodes.
//!
//! ```text
//!   Transport   payloads between node ids        what the rest of the house uses
//!   Sealed<W>   seals, opens, counts, learns     the same for all
//!   Wire        bytes between addresses          udp::Socket, memory::Port
//! ```

pub mod memory;
mod sealed;
pub mod udp;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use suffrage_core::NodeId;

use crate::{Counters, seal};

pub use sealed::{Config, LARGEST_DATAGRAM, SMALLEST_DATAGRAM, Sealed};

/// The longest datagram unless set otherwise: with the headers of IP and UDP it is below the 1,280 bytes that
/// every IPv6 link carries, so that nothing is ever fragmented.
pub const DATAGRAM: usize = 1_200;
/// The longest payload of a datagram of that length.
pub const MAX_PAYLOAD: usize = DATAGRAM - seal::OVERHEAD;

/// Carries datagrams between nodes, each whole or not at all: they may be lost, doubled, late and overtaken.
///
/// Whoever a datagram is said to come from did send it, to this node, and it is received once: see
/// [`seal`] for the small print.
pub trait Transport: Send + Sync + 'static {
    /// Who this node is.
    fn local(&self) -> NodeId;

    /// The longest payload that can be sent.
    fn max_payload(&self) -> usize;

    /// Sends, or drops and counts: never waits. What is sent may still be lost.
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError>;

    /// Waits for the next datagram: who sent it, and its payload. An error is about this node's socket, and
    /// final.
    ///
    /// Can be given up and called again without losing anything. Two callers at once take turns.
    fn receive(&self) -> impl Future<Output = io::Result<(NodeId, Vec<u8>)>> + Send;

    /// What went over it, and what was dropped.
    fn counters(&self) -> &Counters;
}

/// A transport that is shared, so that its counters can be read, and its keys changed, from elsewhere.
impl<T: Transport> Transport for Arc<T> {
    fn local(&self) -> NodeId {
        T::local(self)
    }
    fn max_payload(&self) -> usize {
        T::max_payload(self)
    }
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError> {
        T::send(self, to, payload)
    }
    fn receive(&self) -> impl Future<Output = io::Result<(NodeId, Vec<u8>)>> + Send {
        T::receive(self)
    }
    fn counters(&self) -> &Counters {
        T::counters(self)
    }
}

/// Carries bytes between addresses, whoever is there.
pub trait Wire: Send + Sync + 'static {
    /// Where somebody is.
    type Address: Copy + Eq + fmt::Debug + Send + Sync + 'static;

    /// Where a node is, if the wire itself knows.
    fn address_of(&self, id: NodeId) -> Option<Self::Address> {
        let _ = id;
        None
    }

    /// Sends without waiting. What there is no room for is [`WouldBlock`](io::ErrorKind::WouldBlock).
    fn send_to(&self, datagram: &[u8], to: Self::Address) -> io::Result<()>;

    /// Waits for the next datagram: how much of it fits into the buffer, and where it came from. Must not lose
    /// anything when given up.
    fn receive_from(
        &self,
        buffer: &mut [u8],
    ) -> impl Future<Output = io::Result<(usize, Self::Address)>> + Send;
}

/// Why something could not be sent. It has been counted.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No such peer is configured, and none has been heard from.
    #[error("node {0} is unknown: list its address, or wait to hear from it")]
    UnknownPeer(NodeId),
    /// More than fits.
    #[error("a payload of {length} bytes is too long: {most} fit")]
    TooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        most: usize,
    },
    /// The network takes no more at the moment.
    #[error("the network takes no more at the moment: it was dropped")]
    Full,
    /// The network refused it.
    #[error("cannot send: {0}")]
    Io(#[from] io::Error),
}
