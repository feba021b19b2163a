//! Datagrams between nodes.

pub mod memory;

use std::future::Future;
use std::io;

use election::NodeId;

use crate::Counters;

/// The longest payload that goes into one packet nearly everywhere: with the seal it makes the 1,200 bytes
/// that QUIC relies on, so that nothing is fragmented.
pub const MAX_PAYLOAD: usize = 1_200 - 64;

/// Carries datagrams between nodes, each whole or not at all: they may be lost, doubled, late and overtaken.
///
/// Whoever a datagram is said to come from did send it, to this node, in its present or last run, and it is
/// received once.
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
    /// Can be given up and called again without losing anything. Not for two callers at once.
    fn receive(&self) -> impl Future<Output = io::Result<(NodeId, Vec<u8>)>> + Send;

    /// What went over it, and what was dropped.
    fn counters(&self) -> &Counters;
}

/// Why something could not be sent.
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
