//! Counters of a transport: datagrams sent, received, and dropped by reason.

use std::sync::atomic::{AtomicU64, Ordering};

use suffrage_core::NodeId;

/// The reason for a dropped datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Dropped {
    /// On receipt: too short, or malformed.
    Malformed,
    /// On receipt or on sending: longer than the configured maximum.
    Oversized,
    /// On receipt: another version of the wire format.
    WrongVersion,
    /// On receipt: sealed with an unknown key, or modified in transit.
    Unauthenticated,
    /// On receipt: a replay, or older than the replay window.
    Replayed,
    /// On receipt: from an earlier boot of its sender than one already seen.
    Stale,
    /// On receipt: addressed to another node.
    NotForMe,
    /// On receipt: from a node that is not a member of the group.
    NonMember,
    /// On receipt: another protocol, such as another algorithm's.
    WrongProtocol,
    /// On receipt or on sending: the queue is full.
    QueueFull,
    /// On sending: the address of the peer is unknown.
    UnknownPeer,
    /// On sending: rejected by the operating system.
    Refused,
}

impl Dropped {
    /// All reasons, in order.
    pub const ALL: [Dropped; 12] = [
        Dropped::Malformed,
        Dropped::Oversized,
        Dropped::WrongVersion,
        Dropped::Unauthenticated,
        Dropped::Replayed,
        Dropped::Stale,
        Dropped::NotForMe,
        Dropped::NonMember,
        Dropped::WrongProtocol,
        Dropped::QueueFull,
        Dropped::UnknownPeer,
        Dropped::Refused,
    ];

    /// The reason as a metric label.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Malformed => "malformed",
            Dropped::Oversized => "oversized",
            Dropped::WrongVersion => "wrong_version",
            Dropped::Unauthenticated => "unauthenticated",
            Dropped::Replayed => "replayed",
            Dropped::Stale => "stale",
            Dropped::NotForMe => "not_for_me",
            Dropped::NonMember => "non_member",
            Dropped::WrongProtocol => "wrong_protocol",
            Dropped::QueueFull => "queue_full",
            Dropped::UnknownPeer => "unknown_peer",
            Dropped::Refused => "refused",
        }
    }
}

/// The counters of a transport. They only increase, and any thread may read them.
#[derive(Debug, Default)]
pub struct Counters {
    sent: Traffic,
    received: Traffic,
    dropped: [AtomicU64; Dropped::ALL.len()],
    /// The id of the node whose earlier process sent last, plus one; zero if none did.
    stale_sender: AtomicU64,
}

#[derive(Debug, Default)]
struct Traffic {
    datagrams: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    fn count(&self, bytes: usize) {
        self.datagrams.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Datagrams that were passed to the network.
    pub sent: u64,
    /// The bytes of the sent datagrams, as on the wire.
    pub sent_bytes: u64,
    /// Datagrams that were accepted by this node.
    pub received: u64,
    /// The bytes of the accepted datagrams, as on the wire.
    pub received_bytes: u64,
    dropped: [u64; Dropped::ALL.len()],
}

impl Snapshot {
    /// The number of datagrams dropped for this reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    /// The number of all dropped datagrams.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

impl Counters {
    /// A snapshot of the counters. Under concurrent counting, the values need not be of one point in time.
    pub fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            sent: read(&self.sent.datagrams),
            sent_bytes: read(&self.sent.bytes),
            received: read(&self.received.datagrams),
            received_bytes: read(&self.received.bytes),
            dropped: self.dropped.each_ref().map(read),
        }
    }

    /// Notes that an earlier process of a node is alive: its datagram is [`Stale`](Dropped::Stale).
    pub(crate) fn note_stale_sender(&self, sender: NodeId) {
        self.stale_sender.store(sender.0.wrapping_add(1), Ordering::Relaxed);
    }

    /// The node whose earlier process sent a datagram last. If it goes on sending, two processes have the same id.
    pub fn stale_sender(&self) -> Option<NodeId> {
        self.stale_sender.load(Ordering::Relaxed).checked_sub(1).map(NodeId)
    }

    /// The number of datagrams dropped for this reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts a dropped datagram. Transports count the datagrams that they drop. A caller that decodes payloads
    /// counts malformed ones ([`Dropped::Malformed`]).
    pub fn count_drop(&self, reason: Dropped) {
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a datagram that was passed to the network.
    pub fn send(&self, bytes: usize) {
        self.sent.count(bytes);
    }

    /// Counts a datagram that was accepted.
    pub fn receive(&self, bytes: usize) {
        self.received.count(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drop_reason_has_its_own_index_and_name() {
        let counters = Counters::default();
        for (index, reason) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            (0..=index).for_each(|_| counters.count_drop(reason));
        }
        let snapshot = counters.snapshot();
        for (index, reason) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(snapshot.dropped(reason), index as u64 + 1);
            assert!(Dropped::ALL[..index].iter().all(|other| other.name() != reason.name()));
        }
        assert_eq!(snapshot.all_dropped(), 78);
    }
}
