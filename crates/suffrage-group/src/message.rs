//! The messages between members.

use serde::{Deserialize, Serialize};
use suffrage_core::NodeId;

use crate::record::{Rumour, fixed_id};

/// The most bytes of a message before it is sealed. With the seal and the headers of IPv6 it fits into 1,280 bytes, which
/// every path of IPv6 carries.
pub const MAX_MESSAGE: usize = 1_150;

/// The number of live members, and a digest of their records. Members with equal digests have equal lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest {
    /// The number of live members.
    pub count: u32,
    /// The digest, as bytes: a random number is shorter that way.
    pub hash: [u8; 4],
}

/// A message between members.
///
/// ```text
///   prober                 target             prober          relay            target
///     │── Ping ──────────────▶│                 │── PingRequest ─▶│── Ping ────────▶│
///     │◀───────────── Ack ────│                 │◀── Requested ───│◀──────── Ack ───│
///     │   digests differ:     │                 │◀── Relayed ─────│                 │
///     │── Compare ───────────▶│
///     │◀──────────── Records ─│   the members in the parts that differ, in several datagrams
///     │◀──────────── Compare ─│   and the same in the other direction
///     │── Records ───────────▶│
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Asks for an answer.
    Ping {
        /// The number of the probe, which the answer repeats.
        probe: u32,
        /// The member that asked the sender to probe.
        origin: Option<NodeId>,
        /// The sender's list.
        digest: Digest,
        /// News.
        rumours: Vec<Rumour>,
    },
    /// Answers a [`Ping`](Message::Ping).
    Ack {
        /// The number of the probe.
        probe: u32,
        /// As in the ping.
        origin: Option<NodeId>,
        /// The sender's list.
        digest: Digest,
        /// News.
        rumours: Vec<Rumour>,
    },
    /// Asks the receiver to probe a member that did not answer.
    PingRequest {
        /// The number of the probe.
        probe: u32,
        /// The member to probe.
        #[serde(with = "fixed_id")]
        target: NodeId,
    },
    /// The sender has got the request. A prober that gets none of these doubts itself, not the target (Lifeguard).
    Requested {
        /// The number of the probe.
        probe: u32,
    },
    /// The target answered the sender.
    Relayed {
        /// The number of the probe.
        probe: u32,
    },
    /// News between probes.
    Gossip {
        /// The news.
        rumours: Vec<Rumour>,
    },
    /// Digests of the parts of the sender's list. Members are distributed over the parts by a hash of their ids.
    Compare {
        /// One digest for each part.
        parts: Vec<[u8; 2]>,
        /// The salt of the digests.
        salt: u16,
        /// True if the receiver sends its own digests back.
        answer: bool,
    },
    /// Members of the parts that differ.
    Records {
        /// The members.
        rumours: Vec<Rumour>,
    },
    /// A watcher of the leader gets no answer from it. Watchers send this to each other.
    Missing {
        /// The leader.
        #[serde(with = "fixed_id")]
        leader: NodeId,
        /// Its incarnation.
        incarnation: u32,
    },
    /// The leader steps down, and asks the receiver to lead.
    TakeOver {
        /// The term of the leader that steps down.
        term: u32,
    },
}

suffrage_core::message_kinds!(Message {
    Ping,
    Ack,
    PingRequest,
    Requested,
    Relayed,
    Gossip,
    Compare,
    Records,
    Missing,
    TakeOver,
});
