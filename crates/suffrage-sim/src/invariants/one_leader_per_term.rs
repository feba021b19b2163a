//! A term has at most one leader, ever: for algorithms whose terms are epochs.

use std::collections::BTreeMap;

use suffrage_core::{NodeId, Term};

use super::{Change, Invariant};
use crate::Facts;

/// No two processes ever believe themselves the leader of the same term.
#[derive(Clone, Debug, Default)]
pub struct OneLeaderPerTerm {
    leaders: BTreeMap<Term, NodeId>,
}

impl Invariant for OneLeaderPerTerm {
    fn name(&self) -> &'static str {
        "one-leader-per-term"
    }

    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        let Some((leader, term)) = change.new_leader(facts) else { return Ok(()) };
        match *self.leaders.entry(term).or_insert(leader) {
            first if first == leader => Ok(()),
            first => Err(format!("{first} and {leader} both led in term {term}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::TestWorld;

    #[test]
    fn fires_on_a_second_leader_of_a_term_at_any_later_time() {
        let mut world = TestWorld::new(3);
        let mut invariant = OneLeaderPerTerm::default();
        for (slot, leader, term, fine) in
            [(0, 1, 1, true), (1, 2, 2, true), (2, 1, 1, true), (2, 3, 1, false)]
        {
            let change = Change::Announced(slot, world.believe(slot, leader, term));
            assert_eq!(invariant.on_change(&world.facts(), change).is_ok(), fine, "{change:?}");
        }
    }
}
