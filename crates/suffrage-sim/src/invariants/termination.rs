//! At the end, every process knows a leader.

use suffrage_core::Electorate;

use super::Invariant;
use crate::Facts;

/// At the end, every live process believes in some leader, unless its component has no process that may lead, or no
/// quorum.
#[derive(Clone, Copy, Debug)]
pub struct Termination {
    electorate: Electorate,
}

impl Termination {
    /// For algorithms that need this electorate.
    pub fn of(electorate: Electorate) -> Termination {
        Termination { electorate }
    }
}

impl Invariant for Termination {
    fn name(&self) -> &'static str {
        "termination"
    }

    fn at_end(&mut self, facts: &Facts<'_>) -> Result<(), String> {
        for component in facts.components() {
            let mut present = vec![false; facts.roster().len()];
            component.iter().for_each(|&slot| present[slot] = true);
            if facts.best(&component).is_none() || !self.electorate.is_quorum(&present) {
                continue;
            }
            if let Some(&slot) = component.iter().find(|&&slot| facts.belief(slot).is_none()) {
                return Err(format!("{} knows of no leader", facts.roster().id(slot)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Status, tests::TestWorld};

    const ANYBODY: Termination = Termination { electorate: Electorate::Anybody };

    #[test]
    fn fires_when_a_live_process_knows_no_leader() {
        let mut world = TestWorld::new(2);
        world.believe(0, 1, 1);
        assert!({ ANYBODY }.at_end(&world.facts()).unwrap_err().contains("2 knows of no leader"));
        world.statuses[1] = Status::Down;
        assert_eq!({ ANYBODY }.at_end(&world.facts()), Ok(()));
    }

    #[test]
    fn a_component_without_candidates_needs_no_leader() {
        let mut world = TestWorld::new(2);
        world.ineligible.extend([0, 1]);
        assert_eq!({ ANYBODY }.at_end(&world.facts()), Ok(()));
        world.ineligible.remove(&1);
        assert!({ ANYBODY }.at_end(&world.facts()).is_err());
    }

    #[test]
    fn a_component_without_a_quorum_needs_no_leader() {
        let mut world = TestWorld::new(5);
        world.cut(2);
        for slot in 2..5 {
            world.believe(slot, 5, 1);
        }
        let mut majority = Termination::of(Electorate::Majority);
        assert_eq!(majority.at_end(&world.facts()), Ok(()));
        assert!({ ANYBODY }.at_end(&world.facts()).is_err());
        world.statuses[0] = Status::Down;
        world.network.heal(0);
        assert!(majority.at_end(&world.facts()).unwrap_err().contains("2 knows of no leader"));
    }
}
