//! Replay protection: the boot, the seen counters and the address of each sender, so that no datagram is accepted
//! twice.
//!
//! Only authenticated datagrams get here. For each sender, the latest boot ([`Boot`]) is stored, and which of the
//! last [`WINDOW`] counters of that boot were seen. A datagram that is older than the window may have been seen or
//! not, and is rejected. All datagrams of an earlier boot are rejected.
//!
//! Memory is bounded: a sender takes about 200 bytes. Beyond the maximum number of senders, the sender with the
//! oldest last datagram is evicted. Its datagrams could then be replayed, as to a node that has restarted: see
//! [`seal`](crate::seal) for the consequences.

use std::collections::BTreeMap;

use suffrage_core::NodeId;
use tokio::time::Instant;

use crate::Dropped;
use crate::seal::Boot;

/// The minimum number of later datagrams of its sender by which a datagram may be overtaken.
pub const WINDOW: u64 = (BLOCKS as u64 - 1) * 64;
const BLOCKS: usize = 16;

/// The replay window of one boot (after RFC 6479: blocks are reused in turn, so that no bits are shifted).
#[derive(Clone, Debug, Default)]
struct Window {
    highest: u64,
    seen: [u64; BLOCKS],
}

impl Window {
    fn admit(&mut self, counter: u64) -> bool {
        let (block, top) = (counter / 64, self.highest / 64);
        if block > top {
            let passed = (block - top).min(BLOCKS as u64);
            for step in 1..=passed {
                self.seen[(top + step) as usize % BLOCKS] = 0;
            }
        } else if top - block >= BLOCKS as u64 {
            return false;
        }
        self.highest = self.highest.max(counter);
        let (index, bit) = (block as usize % BLOCKS, 1 << (counter % 64));
        let fresh = self.seen[index] & bit == 0;
        self.seen[index] |= bit;
        fresh
    }
}

#[derive(Debug)]
struct Sender<A> {
    boot: Boot,
    window: Window,
    /// The source of the sender's latest datagram: of the one with the greatest counter, so that a late datagram from an
    /// earlier address changes nothing.
    address: A,
    /// When the last datagram from that address arrived.
    heard: Instant,
    /// The number of accepted datagrams before the sender's last one.
    last_accepted: u64,
}

/// The known senders.
#[derive(Debug)]
pub(crate) struct Senders<A> {
    senders: BTreeMap<NodeId, Sender<A>>,
    capacity: usize,
    accepted: u64,
}

impl<A: Copy + Eq> Senders<A> {
    /// No senders; at most `capacity`.
    pub(crate) fn new(capacity: usize) -> Senders<A> {
        Senders { senders: BTreeMap::new(), capacity: capacity.max(1), accepted: 0 }
    }

    /// Accepts an authenticated datagram, or returns the reason for dropping it.
    pub(crate) fn admit(
        &mut self,
        from: NodeId,
        boot: Boot,
        counter: u64,
        address: A,
    ) -> Result<(), Dropped> {
        let heard = Instant::now();
        match self.senders.get_mut(&from) {
            Some(sender) if boot < sender.boot => return Err(Dropped::Stale),
            Some(sender) if boot == sender.boot => {
                let latest = counter > sender.window.highest;
                if !sender.window.admit(counter) {
                    return Err(Dropped::Replayed);
                }
                if latest || sender.address == address {
                    (sender.address, sender.heard) = (address, heard);
                }
                sender.last_accepted = self.accepted;
            }
            known => {
                if known.is_none() && self.senders.len() >= self.capacity {
                    self.evict_oldest();
                }
                let mut window = Window::default();
                window.admit(counter);
                let last_accepted = self.accepted;
                self.senders.insert(from, Sender { boot, window, address, heard, last_accepted });
            }
        }
        self.accepted += 1;
        Ok(())
    }

    /// The source address of the sender's latest datagram, and when that address was heard last.
    pub(crate) fn address(&self, id: NodeId) -> Option<(A, Instant)> {
        self.senders.get(&id).map(|sender| (sender.address, sender.heard))
    }

    /// Evicts the sender with the oldest last datagram. Takes time proportional to the number of senders, once for
    /// each new sender beyond the capacity.
    fn evict_oldest(&mut self) {
        let oldest = self.senders.iter().min_by_key(|(_, sender)| sender.last_accepted).map(|(id, _)| *id);
        oldest.map(|id| self.senders.remove(&id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use suffrage_core::Rng;

    fn boot(number: u64) -> Boot {
        Boot::from_parts(number, 0)
    }

    #[test]
    fn the_window_agrees_with_a_set_of_all_seen_counters() {
        let mut rng = Rng::new(11);
        for reach in [1, 3, 70, 900, 1_100, 5_000] {
            let (mut window, mut seen, mut highest) = (Window::default(), BTreeSet::new(), 0);
            for _ in 0..20_000 {
                let counter = (highest + rng.below(reach)).saturating_sub(rng.below(reach)) + 1;
                let admitted = window.admit(counter);
                let fresh = seen.insert(counter);
                assert!(fresh || !admitted, "{counter} was accepted twice");
                assert!(
                    !fresh || admitted || counter + WINDOW < highest,
                    "{counter} of {highest} was rejected"
                );
                highest = highest.max(counter);
            }
        }
    }

    /// Counters whose memory now belongs to newer counters, few of which were seen, are rejected too.
    #[test]
    fn no_counter_is_accepted_twice_however_old_it_is() {
        let mut window = Window::default();
        for counter in 0..3_000 {
            assert!(window.admit(counter));
            for old in 0..=counter {
                assert!(!window.clone().admit(old), "{old}, when {counter} was the latest");
            }
        }
    }

    #[test]
    fn the_window_handles_jumps_and_the_ends_of_the_range() {
        let mut window = Window::default();
        assert!(window.admit(0) && !window.admit(0));
        assert!(window.admit(u64::MAX) && !window.admit(u64::MAX) && !window.admit(0));
        assert!(window.admit(u64::MAX - WINDOW));
        assert!(!window.admit(u64::MAX - 64 * BLOCKS as u64));
    }

    #[test]
    fn a_new_boot_resets_the_window_and_an_older_boot_is_rejected() {
        let mut senders = Senders::new(8);
        let one = NodeId(1);
        assert_eq!(senders.admit(one, boot(5), 1, 'a'), Ok(()));
        assert_eq!(senders.admit(one, boot(5), 1, 'b'), Err(Dropped::Replayed));
        let address = |senders: &Senders<char>| senders.address(one).map(|(address, _)| address);
        assert_eq!(address(&senders), Some('a'), "a replay does not change the address");
        assert_eq!(senders.admit(one, boot(6), 1, 'c'), Ok(()));
        assert_eq!(senders.admit(one, boot(5), 2, 'd'), Err(Dropped::Stale));
        assert_eq!(address(&senders), Some('c'));
        assert_eq!(senders.admit(one, boot(6), 4, 'f'), Ok(()));
        assert_eq!(senders.admit(one, boot(6), 3, 'c'), Ok(()));
        assert_eq!(address(&senders), Some('f'), "a late datagram does not change the address");
        assert_eq!(senders.admit(NodeId(2), boot(5), 1, 'e'), Ok(()));
    }

    #[test]
    fn the_sender_with_the_oldest_last_datagram_is_evicted() {
        let mut senders = Senders::new(3);
        for id in [1, 2, 3, 1] {
            senders.admit(NodeId(id), boot(1), senders.accepted, ()).unwrap();
        }
        senders.admit(NodeId(4), boot(1), 1, ()).unwrap();
        let left: Vec<u64> = senders.senders.keys().map(|id| id.0).collect();
        assert_eq!(left, [1, 3, 4]);
    }
}
