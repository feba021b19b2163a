//! Never two leaders at once.

use std::collections::BTreeSet;

use super::{Change, Invariant};
use crate::Facts;

/// At no true time do two live processes believe themselves leaders: anywhere, or in one component. A lease ends by the
/// leader's own clock.
#[derive(Clone, Debug)]
pub struct AtMostOneLeader {
    per_component: bool,
    leaders: BTreeSet<usize>,
}

impl AtMostOneLeader {
    /// Two leaders anywhere are a violation.
    pub fn anywhere() -> Self {
        AtMostOneLeader { per_component: false, leaders: BTreeSet::new() }
    }

    /// Two leaders that can reach each other are a violation.
    pub fn per_component() -> Self {
        AtMostOneLeader { per_component: true, leaders: BTreeSet::new() }
    }
}

impl Invariant for AtMostOneLeader {
    fn name(&self) -> &'static str {
        if self.per_component { "at-most-one-leader-per-component" } else { "at-most-one-leader" }
    }

    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        if let Change::Announced(slot, _) | Change::LeaseOrClock(slot) = change {
            self.leaders.insert(slot);
        }
        // Leases expire without an event.
        self.leaders.retain(|&slot| facts.leads(slot));
        let leaders: Vec<usize> = self.leaders.iter().copied().collect();
        for (index, &leader) in leaders.iter().enumerate() {
            let rival =
                leaders[..index].iter().find(|&&other| !self.per_component || facts.connected(leader, other));
            if let Some(&rival) = rival {
                let (leader, rival) = (facts.roster().id(leader), facts.roster().id(rival));
                return Err(format!("{rival} and {leader} both believe that they lead"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Status, tests::TestWorld};
    use suffrage_core::Time;

    #[test]
    fn fires_on_two_and_not_on_one_after_the_other() {
        let mut world = TestWorld::new(3);
        let mut invariant = AtMostOneLeader::anywhere();
        let change = Change::Announced(0, world.believe(0, 1, 1));
        assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
        let change = Change::Announced(2, world.believe(2, 3, 2));
        assert!(invariant.on_change(&world.facts(), change).unwrap_err().contains("1 and 3 both"));
        world.statuses[0] = Status::Down;
        assert_eq!(invariant.on_change(&world.facts(), Change::Crashed(0)), Ok(()));
    }

    #[test]
    fn two_leaders_on_different_sides_violate_one_of_the_two_invariants() {
        let mut world = TestWorld::new(2);
        world.cut(1);
        let (mut anywhere, mut local) = (AtMostOneLeader::anywhere(), AtMostOneLeader::per_component());
        for slot in 0..2 {
            let change = Change::Announced(slot, world.believe(slot, slot as u64 + 1, 1));
            assert_eq!(anywhere.on_change(&world.facts(), change).is_err(), slot == 1);
            assert_eq!(local.on_change(&world.facts(), change), Ok(()));
        }
        world.network.heal(0);
        assert!(local.on_change(&world.facts(), Change::Connectivity).is_err());
    }

    /// A paused leader cannot announce that it stepped down. Its own clock decides whether it may believe that it leads.
    #[test]
    fn an_expired_lease_is_no_leadership_until_it_is_extended() {
        let (one, two) = (Time::from_nanos(1), Time::from_nanos(2));
        let mut world = TestWorld::new(2);
        let mut invariant = AtMostOneLeader::anywhere();
        world.ledger.lease_until(0, one);
        let change = Change::Announced(0, world.believe(0, 1, 1));
        assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
        world.now = one;
        let change = Change::Announced(1, world.believe(1, 2, 2));
        assert_eq!(invariant.on_change(&world.facts(), change), Ok(()), "the first lease has expired");
        world.ledger.lease_until(0, two);
        assert!(invariant.on_change(&world.facts(), Change::LeaseOrClock(0)).is_err());
    }
}
