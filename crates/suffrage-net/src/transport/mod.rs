//! Datagrams between nodes.
//!
//! ```text
//!   Transport   payloads between node ids        used by the other crates
//!   Sealed<W>   seals, opens, counts             the same for all wires
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

pub use sealed::{Config, HEARD_RECENTLY, LARGEST_DATAGRAM, SMALLEST_DATAGRAM, Sealed};

/// The default maximum length of a datagram, in bytes: with the headers of IP and UDP it is below the 1,280 bytes
/// that every IPv6 link carries, so that datagrams are never fragmented.
pub const DATAGRAM: usize = 1_200;
/// The maximum payload of a datagram of that length, in bytes.
pub const MAX_PAYLOAD: usize = DATAGRAM - seal::OVERHEAD;

/// A transport of datagrams between nodes. A datagram arrives completely or not at all. Datagrams may be lost,
/// duplicated, late and reordered.
///
/// The sender of a received datagram is authenticated, the datagram was addressed to this node, and it is received
/// once: see [`seal`] for the exact conditions.
pub trait Transport: Send + Sync + 'static {
    /// The id of this node.
    fn local(&self) -> NodeId;

    /// The maximum payload, in bytes.
    fn max_payload(&self) -> usize;

    /// Sends a payload, or drops and counts it. Never waits. A sent datagram may still be lost.
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError>;

    /// Waits for the next datagram, and returns its sender and payload. An error concerns this node's socket, and is
    /// final.
    ///
    /// This method is cancel safe. Concurrent callers take turns. A flood of invalid datagrams does not keep the other
    /// branches of a `select!` from being polled.
    fn receive(&self) -> impl Future<Output = io::Result<(NodeId, Vec<u8>)>> + Send;

    /// The counters of this transport.
    fn counters(&self) -> &Counters;
}

/// A shared transport, whose counters can be read and keys replaced from elsewhere.
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

/// A network that carries bytes between addresses.
pub trait Wire: Send + Sync + 'static {
    /// An address.
    type Address: Copy + Eq + fmt::Debug + Send + Sync + 'static;

    /// The address of a node, if the wire itself knows it.
    fn address_of(&self, id: NodeId) -> Option<Self::Address> {
        let _ = id;
        None
    }

    /// Sends without waiting. If there is no room, the error is [`WouldBlock`](io::ErrorKind::WouldBlock).
    fn send_to(&self, datagram: &[u8], to: Self::Address) -> io::Result<()>;

    /// Waits for the next datagram, and returns the number of its bytes that fit into the buffer and its source.
    /// Must be cancel safe.
    fn receive_from(
        &self,
        buffer: &mut [u8],
    ) -> impl Future<Output = io::Result<(usize, Self::Address)>> + Send;
}

/// The reason for a failed send, which has been counted.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The peer is not configured, and has sent no datagram.
    #[error("the address of node {0} is unknown: configure it, or wait for a datagram from the node")]
    UnknownPeer(NodeId),
    /// The payload is too long.
    #[error("a payload of {length} bytes is too long: the maximum is {most}")]
    TooLong {
        /// The length of the payload, in bytes.
        length: usize,
        /// The maximum, in bytes.
        most: usize,
    },
    /// The send queue is full.
    #[error("the send queue is full: the datagram was dropped")]
    Full,
    /// The operating system rejected the datagram.
    #[error("cannot send: {0}")]
    Io(#[from] io::Error),
}
