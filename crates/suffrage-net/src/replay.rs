//! Who has been heard, from where, and what of it: so that nothing is taken twice.
//!
//! Only what has been authenticated gets here. For each sender the latest of its runs ([`Boot`]) is
//! remembered, and which of that run's last [`WINDOW`] counters have been seen. What is older than that may
//! have been seen or not, and is refused; so is all of an earlier run.
//!
//! Memory is bounded: a sender takes about 200 bytes, and beyond a number of senders the one not heard for
//! the longest time is forgotten. Something that it said could then be replayed, as it could to a node that
//! has restarted: see [`seal`](crate::seal) for what that means.

use std::collections::BTreeMap;

use suffrage_core::NodeId;

use crate::Dropped;
use crate::seal::Boot;

/// How far back a datagram may be overtaken by others of its sender, at least.
pub const WINDOW: u64 = (BLOCKS as u64 - 1) * 64;
const BLOCKS: usize = 16;

/// Which of the last counters of one run have been seen (after RFC 6479: blocks that are reused in turn, so
/// that nothing is ever shifted).
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
        let (place, bit) = (block as usize % BLOCKS, 1 << (counter % 64));
        let fresh = self.seen[place] & bit == 0;
        self.seen[place] |= bit;
        fresh
    }
}

#[derive(Debug)]
struct Sender<A> {
    boot: Boot,
    window: Window,
    address: A,
    /// How many datagrams had been taken when its last one was.
    heard: u64,
}

/// All that have been heard.
#[derive(Debug)]
pub(crate) struct Senders<A> {
    senders: BTreeMap<NodeId, Sender<A>>,
    most: usize,
    taken: u64,
}

impl<A: Copy> Senders<A> {
    /// Nobody yet; at most so many.
    pub(crate) fn new(most: usize) -> Senders<A> {
        Senders { senders: BTreeMap::new(), most: most.max(1), taken: 0 }
    }

    /// Takes an authenticated datagram for the first time, or tells why not.
    pub(crate) fn admit(
        &mut self,
        from: NodeId,
        boot: Boot,
        counter: u64,
        address: A,
    ) -> Result<(), Dropped> {
        match self.senders.get_mut(&from) {
            Some(sender) if boot < sender.boot => return Err(Dropped::Stale),
            Some(sender) if boot == sender.boot => {
                if !sender.window.admit(counter) {
                    return Err(Dropped::Replayed);
                }
                sender.address = address;
                sender.heard = self.taken;
            }
            known => {
                if known.is_none() && self.senders.len() >= self.most {
                    self.forget_one();
                }
                let mut window = Window::default();
                window.admit(counter);
                self.senders.insert(from, Sender { boot, window, address, heard: self.taken });
            }
        }
        self.taken += 1;
        Ok(())
    }

    /// Where a sender was last heard from.
    pub(crate) fn address(&self, id: NodeId) -> Option<A> {
        self.senders.get(&id).map(|sender| sender.address)
    }

    /// Takes time proportional to their number, once for each new one beyond the most.
    fn forget_one(&mut self) {
        let longest = self.senders.iter().min_by_key(|(_, sender)| sender.heard).map(|(id, _)| *id);
        longest.map(|id| self.senders.remove(&id));
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
    fn the_window_agrees_with_a_set_of_all_that_was_seen() {
        let mut rng = Rng::new(11);
        for reach in [1, 3, 70, 900, 1_100, 5_000] {
            let (mut window, mut seen, mut highest) = (Window::default(), BTreeSet::new(), 0);
            for _ in 0..20_000 {
                let counter = (highest + rng.below(reach)).saturating_sub(rng.below(reach)) + 1;
                let admitted = window.admit(counter);
                let fresh = seen.insert(counter);
                assert!(fresh || !admitted, "{counter} was taken twice");
                assert!(
                    !fresh || admitted || counter + WINDOW < highest,
                    "{counter} of {highest} was refused"
                );
                highest = highest.max(counter);
            }
        }
    }

    /// Also those whose place in memory now belongs to newer ones, of which few have been seen.
    #[test]
    fn nothing_is_taken_twice_however_old_it_is() {
        let mut window = Window::default();
        for counter in 0..3_000 {
            assert!(window.admit(counter));
            for old in 0..=counter {
                assert!(!window.clone().admit(old), "{old}, when {counter} was the latest");
            }
        }
    }

    #[test]
    fn a_leap_and_the_ends_of_the_range_are_fine() {
        let mut window = Window::default();
        assert!(window.admit(0) && !window.admit(0));
        assert!(window.admit(u64::MAX) && !window.admit(u64::MAX) && !window.admit(0));
        assert!(window.admit(u64::MAX - WINDOW));
        assert!(!window.admit(u64::MAX - 64 * BLOCKS as u64));
    }

    #[test]
    fn a_new_run_counts_anew_and_an_old_one_is_over() {
        let mut senders = Senders::new(8);
        let one = NodeId(1);
        assert_eq!(senders.admit(one, boot(5), 1, 'a'), Ok(()));
        assert_eq!(senders.admit(one, boot(5), 1, 'b'), Err(Dropped::Replayed));
        assert_eq!(senders.address(one), Some('a'), "a replay moves nobody");
        assert_eq!(senders.admit(one, boot(6), 1, 'c'), Ok(()));
        assert_eq!(senders.admit(one, boot(5), 2, 'd'), Err(Dropped::Stale));
        assert_eq!(senders.address(one), Some('c'));
        assert_eq!(senders.admit(NodeId(2), boot(5), 1, 'e'), Ok(()));
    }

    #[test]
    fn the_one_not_heard_for_longest_is_forgotten() {
        let mut senders = Senders::new(3);
        for id in [1, 2, 3, 1] {
            senders.admit(NodeId(id), boot(1), senders.taken, ()).unwrap();
        }
        senders.admit(NodeId(4), boot(1), 1, ()).unwrap();
        let left: Vec<u64> = senders.senders.keys().map(|id| id.0).collect();
        assert_eq!(left, [1, 3, 4]);
    }
}
