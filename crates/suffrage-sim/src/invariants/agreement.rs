//! At the end, all processes of a component believe in the same leader, which is one of them.

use super::Invariant;
use crate::Facts;

/// At the end, the processes of a component that believe in a leader believe in the same one, which
/// is live and in that component.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement;

impl Invariant for Agreement {
    fn name(&self) -> &'static str {
        "agreement"
    }

    fn at_end(&mut self, facts: &Facts<'_>) -> Result<(), String> {
        for component in facts.components() {
            let believers = component.iter().filter_map(|&slot| Some((slot, facts.belief(slot)?.leader)));
            let mut first = None;
            for (slot, leader) in believers {
                let who = facts.roster().id(slot);
                if facts.roster().slot(leader).is_none_or(|leader| component.binary_search(&leader).is_err())
                {
                    return Err(format!("{who} believes in {leader}, which is dead or out of reach"));
                }
                let (other, agreed) = *first.get_or_insert((who, leader));
                if leader != agreed {
                    return Err(format!("{other} believes in {agreed}, but {who} in {leader}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Status, tests::TestWorld};

    #[test]
    fn fires_on_disagreement_within_a_component_only() {
        let mut world = TestWorld::new(4);
        for (slot, leader) in [(0, 2), (1, 2), (2, 4), (3, 4)] {
            world.believe(slot, leader, 1);
        }
        assert!(Agreement.at_end(&world.facts()).unwrap_err().contains("1 believes in 2, but 3 in 4"));
        world.cut(2);
        assert_eq!(Agreement.at_end(&world.facts()), Ok(()));
    }

    #[test]
    fn fires_on_a_leader_that_is_dead_or_elsewhere() {
        let mut world = TestWorld::new(3);
        world.believe(0, 3, 1);
        world.statuses[2] = Status::Down;
        assert!(Agreement.at_end(&world.facts()).is_err());
        world.statuses[2] = Status::Up;
        assert_eq!(Agreement.at_end(&world.facts()), Ok(()));
        world.cut(1);
        assert!(Agreement.at_end(&world.facts()).is_err());
    }
}
