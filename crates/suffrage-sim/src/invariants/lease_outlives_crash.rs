//! Nobody leads while clients of a crashed leader may rely on its lease.

use std::collections::BTreeMap;

use suffrage_core::Time;

use super::{Change, Invariant};
use crate::Facts;

/// Clients that act for a leader may survive its crash. Until the lease ends by the clock of the leader's machine,
/// nobody leads, not even the same process after a restart.
#[derive(Clone, Debug, Default)]
pub struct LeaseOutlivesCrash {
    /// The end of each leader's lease, by its own clock.
    leading: BTreeMap<usize, Time>,
    /// The leases of leaders that have crashed.
    outliving: Vec<(usize, Time)>,
}

impl Invariant for LeaseOutlivesCrash {
    fn name(&self) -> &'static str {
        "lease-outlives-crash"
    }

    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        match change {
            Change::Announced(slot, _) | Change::LeaseOrClock(slot) => {
                match facts.lease(slot).filter(|_| facts.leads(slot)) {
                    Some(end) => _ = self.leading.insert(slot, end),
                    None => _ = self.leading.remove(&slot),
                }
            }
            Change::Crashed(slot) => {
                self.outliving.extend(self.leading.remove(&slot).map(|end| (slot, end)));
            }
            Change::Paused(_) | Change::Connectivity => {}
        }
        self.outliving.retain(|&(slot, end)| facts.clock(slot) < end);
        let leader = self.leading.keys().copied().find(|&slot| facts.leads(slot));
        match (self.outliving.first(), leader) {
            (Some(&(crashed, _)), Some(leader)) => {
                let (crashed, leader) = (facts.roster().id(crashed), facts.roster().id(leader));
                Err(format!(
                    "{leader} leads while clients of {crashed}, which has crashed, may believe that they lead"
                ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Status, tests::TestWorld};

    #[test]
    fn fires_on_a_leader_before_the_lease_of_a_crashed_leader_ends() {
        let (one, two) = (Time::from_nanos(1), Time::from_nanos(2));
        for next in 0..2 {
            for (now, fine) in [(one, false), (two, true)] {
                let mut world = TestWorld::new(2);
                let mut invariant = LeaseOutlivesCrash::default();
                world.ledger.lease_until(0, two);
                let change = Change::Announced(0, world.believe(0, 1, 1));
                assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
                let who = world.roster.id(0);
                world.ledger.record_crash(0, who, Time::ZERO);
                world.statuses[0] = Status::Down;
                assert_eq!(invariant.on_change(&world.facts(), Change::Crashed(0)), Ok(()));
                (world.statuses[0], world.now) = (Status::Up, now);
                world.ledger.lease_until(next, Time::from_nanos(9));
                let change = Change::Announced(next, world.believe(next, next as u64 + 1, 2));
                assert_eq!(invariant.on_change(&world.facts(), change).is_ok(), fine, "{next} at {now}");
            }
        }
    }

    #[test]
    fn a_leader_that_stepped_down_leaves_no_lease_behind() {
        let mut world = TestWorld::new(2);
        let mut invariant = LeaseOutlivesCrash::default();
        world.ledger.lease_until(0, Time::from_nanos(9));
        for (slot, leader) in [(0, 1), (0, 2), (1, 2)] {
            world.ledger.lease_until(1, Time::from_nanos(9));
            let change = Change::Announced(slot, world.believe(slot, leader, leader));
            assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
        }
        assert_eq!(invariant.on_change(&world.facts(), Change::Crashed(0)), Ok(()));
    }
}
