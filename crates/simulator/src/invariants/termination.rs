//! At the end, everybody knows a leader.

use super::Invariant;
use crate::Facts;

/// At the end, every live process believes in some leader, unless nobody it can reach may lead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Termination;

impl Invariant for Termination {
    fn name(&self) -> &'static str {
        "termination"
    }

    fn at_end(&mut self, facts: &Facts<'_>) -> Result<(), String> {
        for component in facts.components() {
            if facts.best(&component).is_none() {
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
    use crate::facts::{Status, tests::Stage};

    #[test]
    fn fires_when_a_live_process_knows_no_leader() {
        let mut stage = Stage::new(2);
        stage.believe(0, 1, 1);
        assert!(Termination.at_end(&stage.facts()).unwrap_err().contains("2 knows of no leader"));
        stage.statuses[1] = Status::Down;
        assert_eq!(Termination.at_end(&stage.facts()), Ok(()));
    }

    #[test]
    fn nobody_to_elect_is_no_failure() {
        let mut stage = Stage::new(2);
        stage.ineligible.extend([0, 1]);
        assert_eq!(Termination.at_end(&stage.facts()), Ok(()));
        stage.ineligible.remove(&1);
        assert!(Termination.at_end(&stage.facts()).is_err());
    }
}
