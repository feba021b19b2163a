//! At the end, the best process leads.

use super::Invariant;
use crate::Facts;

/// At the end, every leader that a process believes in is the best live process of its component that may lead
/// (cs425: "a particular non-faulty process with the best attribute value").
#[derive(Clone, Copy, Debug, Default)]
pub struct BestLeads;

impl Invariant for BestLeads {
    fn name(&self) -> &'static str {
        "best-leads"
    }

    fn at_end(&mut self, facts: &Facts<'_>) -> Result<(), String> {
        for component in facts.components() {
            let best = facts.best(&component);
            let wrong =
                |slot: &&usize| facts.belief(**slot).is_some_and(|belief| Some(belief.leader) != best);
            if let Some(&slot) = component.iter().find(wrong) {
                let who = facts.roster().id(slot);
                let leader = facts.belief(slot).expect("the process has a belief").leader;
                let better = best.map_or("nobody may lead".to_string(), |best| format!("{best} is the best"));
                return Err(format!("{who} believes in {leader}, but {better}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::TestWorld;

    #[test]
    fn fires_when_a_worse_process_leads() {
        let mut world = TestWorld::new(3);
        world.believe(0, 2, 1);
        assert!(BestLeads.at_end(&world.facts()).unwrap_err().contains("1 believes in 2, but 3 is the best"));
        world.ineligible.insert(2);
        assert_eq!(BestLeads.at_end(&world.facts()), Ok(()));
        world.ineligible.extend([0, 1]);
        assert!(BestLeads.at_end(&world.facts()).unwrap_err().contains("nobody may lead"));
    }

    #[test]
    fn each_component_has_a_best_of_its_own() {
        let mut world = TestWorld::new(4);
        world.cut(2);
        world.believe(0, 2, 1);
        world.believe(3, 4, 1);
        assert_eq!(BestLeads.at_end(&world.facts()), Ok(()));
    }
}
