//! What went over a transport, and what was dropped and why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// On arrival: too short, or not of the form.
    Malformed,
    /// On arrival or on sending: longer than any that this node takes.
    Oversized,
    /// On arrival: of another version of the wire format.
    WrongVersion,
    /// On arrival: sealed with a key that this node does not have, or changed on the way.
    Unauthenticated,
    /// On arrival: seen before, or too old to know.
    Replayed,
    /// On arrival: of an earlier run of its sender than one already heard.
    Stale,
    /// On arrival: for another node.
    NotForMe,
    /// On arrival: from a node that is not of the group.
    Stranger,
    /// On arrival: of another protocol, such as another algorithm's.
    WrongProtocol,
    /// On arrival or on sending: no room for it.
    QueueFull,
    /// On sending: to a peer whose address is not known.
    UnknownPeer,
    /// On sending: refused by the operating system.
    Refused,
}

impl Dropped {
    /// Every reason there is, in order.
    pub const ALL: [Dropped; 12] = [
        Dropped::Malformed,
        Dropped::Oversized,
        Dropped::WrongVersion,
        Dropped::Unauthenticated,
        Dropped::Replayed,
        Dropped::Stale,
        Dropped::NotForMe,
        Dropped::Stranger,
        Dropped::WrongProtocol,
        Dropped::QueueFull,
        Dropped::UnknownPeer,
        Dropped::Refused,
    ];

    /// The reason as a label of a metric.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Malformed => "malformed",
            Dropped::Oversized => "oversized",
            Dropped::WrongVersion => "wrong_version",
            Dropped::Unauthenticated => "unauthenticated",
            Dropped::Replayed => "replayed",
            Dropped::Stale => "stale",
            Dropped::NotForMe => "not_for_me",
            Dropped::Stranger => "stranger",
            Dropped::WrongProtocol => "wrong_protocol",
            Dropped::QueueFull => "queue_full",
            Dropped::UnknownPeer => "unknown_peer",
            Dropped::Refused => "refused",
        }
    }
}

/// What a transport has done so far. Only ever grows; read by whoever likes.
#[derive(Debug, Default)]
pub struct Counters {
    sent: Traffic,
    received: Traffic,
    dropped: [AtomicU64; Dropped::ALL.len()],
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

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Datagrams that were handed to the network.
    pub sent: u64,
    /// Their bytes, as on the wire.
    pub sent_bytes: u64,
    /// Datagrams that were handed to this node.
    pub received: u64,
    /// Their bytes, as on the wire.
    pub received_bytes: u64,
    dropped: [u64; Dropped::ALL.len()],
}

impl Snapshot {
    /// How many were dropped for this reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    /// How many were dropped.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

impl Counters {
    /// The counters now. Taken while others count, they need not be of one moment.
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

    /// How many were dropped for this reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts what is not fit to be used. Transports do for what they drop; who decodes a payload does for
    /// what it cannot read ([`Dropped::Malformed`]).
    pub fn count_drop(&self, reason: Dropped) {
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn send(&self, bytes: usize) {
        self.sent.count(bytes);
    }

    pub(crate) fn receive(&self, bytes: usize) {
        self.received.count(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_place_and_name() {
        let counters = Counters::default();
        for (place, reason) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            (0..=place).for_each(|_| counters.count_drop(reason));
        }
        let snapshot = counters.snapshot();
        for (place, reason) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(snapshot.dropped(reason), place as u64 + 1);
            assert!(Dropped::ALL[..place].iter().all(|other| other.name() != reason.name()));
        }
        assert_eq!(snapshot.all_dropped(), 78);
    }
}
