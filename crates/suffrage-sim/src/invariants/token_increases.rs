//! Each new leader has a greater token than all leaders before.

use suffrage_core::{NodeId, Term};

use super::{Change, Invariant};
use crate::Facts;

/// A process that announces itself the leader has a greater term than all leaders before, itself included: terms are
/// fencing tokens, which order leaders.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenIncreases {
    greatest: Option<(Term, NodeId)>,
}

impl Invariant for TokenIncreases {
    fn name(&self) -> &'static str {
        "token-increases"
    }

    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        let Some((leader, term)) = change.new_leader(facts) else { return Ok(()) };
        match self.greatest.filter(|&(greatest, _)| term <= greatest) {
            Some((greatest, earlier)) => Err(format!("{leader} leads with {term}, {earlier} had {greatest}")),
            None => {
                self.greatest = Some((term, leader));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::TestWorld;

    #[test]
    fn fires_on_an_equal_and_on_a_smaller_token_of_a_leader() {
        let mut world = TestWorld::new(3);
        let mut invariant = TokenIncreases::default();
        for (slot, leader, term, fine) in [
            (0, 1, 5, true),
            (1, 1, 5, true),
            (1, 2, 5, false),
            (2, 3, 4, false),
            (0, 1, 5, false),
            (0, 1, 6, true),
            (2, 3, 8, true),
        ] {
            let change = Change::Announced(slot, world.believe(slot, leader, term));
            assert_eq!(invariant.on_change(&world.facts(), change).is_ok(), fine, "{change:?}");
        }
    }
}
