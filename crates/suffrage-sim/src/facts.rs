//! The true state of the world at a moment, which no process sees.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use suffrage_core::{NodeId, Roster, Time};

use crate::Ledger;
use crate::clocks::Clocks;
use crate::ledger::Belief;
use crate::network::Network;

/// The status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Up,
    Paused,
    Down,
}

/// The true state of the world at a moment. Processes are named by slot.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub(crate) now: Time,
    pub(crate) roster: &'a Roster,
    pub(crate) statuses: &'a [Status],
    pub(crate) network: &'a Network,
    pub(crate) clocks: &'a Clocks,
    pub(crate) ledger: &'a Ledger,
    pub(crate) ineligible: &'a BTreeSet<usize>,
}

impl<'a> Facts<'a> {
    /// True time, which no process sees.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The group.
    pub fn roster(&self) -> &'a Roster {
        self.roster
    }

    /// True if a process is up or paused.
    pub fn is_up(&self, slot: usize) -> bool {
        self.statuses[slot] != Status::Down
    }

    /// True if a process is paused.
    pub fn is_paused(&self, slot: usize) -> bool {
        self.statuses[slot] == Status::Paused
    }

    /// The processes that are up or paused.
    pub fn up(&self) -> impl Iterator<Item = usize> + use<'a> {
        let statuses = self.statuses;
        (0..statuses.len()).filter(move |&slot| statuses[slot] != Status::Down)
    }

    /// The leader that a process believes in.
    pub fn belief(&self, slot: usize) -> Option<Belief> {
        self.ledger.belief(slot)
    }

    /// The reading of a process's own clock.
    pub fn clock(&self, slot: usize) -> Time {
        self.clocks.show(slot, self.now)
    }

    /// The end of a process's lease by its own clock, if it announced one.
    pub fn lease(&self, slot: usize) -> Option<Time> {
        self.ledger.lease(slot)
    }

    /// True if a live process believes itself the leader. With a lease, only before the end of the lease by the
    /// process's own clock, even if the process has not read its clock since.
    pub fn leads(&self, slot: usize) -> bool {
        let me = self.roster.id(slot);
        self.is_up(slot)
            && self.belief(slot).is_some_and(|belief| belief.leader == me)
            && self.ledger.lease(slot).is_none_or(|end| self.clock(slot) < end)
    }

    /// The live process that most live processes believe in; of several, the one with the lowest id.
    pub fn leader(&self) -> Option<usize> {
        let mut believers = BTreeMap::<NodeId, usize>::new();
        for belief in self.up().filter_map(|slot| self.belief(slot)) {
            *believers.entry(belief.leader).or_default() += 1;
        }
        let live = |id| self.roster.slot(id).filter(|&slot| self.is_up(slot));
        let (slot, _) = believers
            .into_iter()
            .filter_map(|(id, count)| Some((live(id)?, (count, Reverse(id)))))
            .max_by_key(|&(_, standing)| standing)?;
        Some(slot)
    }

    /// True if a process may be elected.
    pub fn may_lead(&self, slot: usize) -> bool {
        !self.ineligible.contains(&slot)
    }

    /// True if messages between two processes pass in both directions.
    pub fn connected(&self, slot: usize, other: usize) -> bool {
        self.network.has_no_cuts() || !self.network.is_cut(slot, other) && !self.network.is_cut(other, slot)
    }

    /// The connected components of the live processes.
    pub fn components(&self) -> Vec<Vec<usize>> {
        // Processes on the same sides of every cut are connected, so only the sides are compared.
        let mut by_sides = BTreeMap::<Vec<u16>, Vec<usize>>::new();
        for slot in self.up() {
            by_sides.entry(self.network.sides(slot)).or_default().push(slot);
        }
        let mut components: Vec<Vec<usize>> = Vec::new();
        for group in by_sides.into_values() {
            let (joined, apart) = components.into_iter().partition::<Vec<_>, _>(|component| {
                component.iter().any(|&slot| self.connected(slot, group[0]))
            });
            components = apart;
            let mut component: Vec<usize> = joined.into_iter().flatten().chain(group).collect();
            component.sort_unstable();
            components.push(component);
        }
        components.sort_unstable();
        components
    }

    /// The best of the processes that may lead.
    pub fn best(&self, slots: &[usize]) -> Option<NodeId> {
        let ids = slots.iter().filter(|&&slot| self.may_lead(slot)).map(|&slot| self.roster.id(slot));
        ids.max_by_key(|&id| self.roster.rank(id))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Cut, Latency};
    use suffrage_core::{Announcement, Span, Term};

    /// A true state for tests of [`Facts`] and of invariants.
    pub(crate) struct TestWorld {
        pub(crate) now: Time,
        pub(crate) roster: Roster,
        pub(crate) statuses: Vec<Status>,
        pub(crate) network: Network,
        pub(crate) clocks: Clocks,
        pub(crate) ledger: Ledger,
        pub(crate) ineligible: BTreeSet<usize>,
    }

    impl TestWorld {
        pub(crate) fn new(count: usize) -> TestWorld {
            TestWorld {
                now: Time::ZERO,
                roster: Roster::numbered(count),
                statuses: vec![Status::Up; count],
                network: Network::new(Latency::Const(Span::UNIT), 0),
                clocks: Clocks::new(0),
                ledger: Ledger::of(count, 0),
                ineligible: BTreeSet::new(),
            }
        }

        /// Cuts the first `left` processes from the others.
        pub(crate) fn cut(&mut self, left: usize) {
            let count = self.roster.len();
            let groups = [(0..left).collect(), (left..count).collect()];
            self.network.cut(0, Cut::new(count, &groups, false));
        }

        pub(crate) fn believe(&mut self, slot: usize, leader: u64, term: u64) -> Announcement {
            let announcement = Announcement::Elected { leader: NodeId(leader), term: Term(term) };
            let who = self.roster.id(slot);
            self.ledger.record_announcement(slot, who, announcement, Time::ZERO, Span::ZERO);
            announcement
        }

        pub(crate) fn facts(&self) -> Facts<'_> {
            Facts {
                now: self.now,
                roster: &self.roster,
                statuses: &self.statuses,
                network: &self.network,
                clocks: &self.clocks,
                ledger: &self.ledger,
                ineligible: &self.ineligible,
            }
        }
    }

    #[test]
    fn components_follow_the_cuts_and_the_dead() {
        let mut world = TestWorld::new(5);
        assert_eq!(world.facts().components(), [vec![0, 1, 2, 3, 4]]);
        world.cut(2);
        world.statuses[3] = Status::Down;
        assert_eq!(world.facts().components(), [vec![0, 1], vec![2, 4]]);
        assert_eq!(world.facts().best(&[2, 4]), Some(NodeId(5)));
        world.ineligible.insert(4);
        assert_eq!(world.facts().best(&[2, 4]), Some(NodeId(3)));
    }

    #[test]
    fn the_leader_is_live_and_has_the_most_believers() {
        let mut world = TestWorld::new(5);
        assert_eq!(world.facts().leader(), None);
        for (slot, leader) in [(0, 5), (1, 5), (2, 5), (3, 4), (4, 2)] {
            world.believe(slot, leader, 1);
        }
        assert_eq!(world.facts().leader(), Some(4), "even if the leader does not believe in itself");
        world.statuses[4] = Status::Down;
        assert_eq!(world.facts().leader(), Some(3), "the dead neither lead nor believe");
        world.believe(0, 9, 2);
        world.believe(1, 2, 2);
        assert_eq!(
            world.facts().leader(),
            Some(1),
            "the lower id of two; an id outside of the group does not lead"
        );
    }

    #[test]
    fn a_process_on_no_side_connects_the_sides() {
        let mut world = TestWorld::new(3);
        world.network.cut(0, Cut::new(3, &[vec![0], vec![2]], false));
        assert_eq!(world.facts().components(), [vec![0, 1, 2]]);
    }
}
