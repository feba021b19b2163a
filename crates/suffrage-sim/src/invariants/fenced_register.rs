//! A resource that checks fencing tokens is safe from writes of former leaders.

use suffrage_core::{NodeId, Term};

use super::{Change, Invariant};
use crate::Facts;

/// A register that leaders write to. A write carries its leader's token, and may be delayed without bound: the leader
/// may have been paused between the check of its lease and the write, or the network was slow. So after the first write
/// of a new leader, delayed writes of all former leaders arrive.
///
/// The register never accepts a write of a former leader, and always accepts one of the latest leader.
#[derive(Clone, Debug)]
pub struct FencedRegister {
    checks: bool,
    /// The greatest token of a write so far.
    seen: Term,
    /// The former leaders whose writes are delayed, with their tokens.
    delayed: Vec<(NodeId, Term)>,
}

impl FencedRegister {
    /// A register that rejects a write with a smaller token than it has seen.
    pub fn fenced() -> FencedRegister {
        FencedRegister { checks: true, seen: Term::default(), delayed: Vec::new() }
    }

    /// A register that accepts every write, to show the damage.
    pub fn unfenced() -> FencedRegister {
        FencedRegister { checks: false, ..FencedRegister::fenced() }
    }

    /// True if a write is accepted.
    fn write(&mut self, token: Term) -> bool {
        let taken = !self.checks || token >= self.seen;
        self.seen = self.seen.max(token);
        taken
    }
}

impl Invariant for FencedRegister {
    fn name(&self) -> &'static str {
        if self.checks { "fenced-register" } else { "unfenced-register" }
    }

    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        let Some((leader, term)) = change.new_leader(facts) else { return Ok(()) };
        if !self.write(term) {
            return Err(format!("{leader} leads, and its write with {term} is rejected"));
        }
        for index in 0..self.delayed.len() {
            let (predecessor, token) = self.delayed[index];
            if predecessor != leader && self.write(token) {
                return Err(format!("{leader} leads, and a write of {predecessor} with {token} is accepted"));
            }
        }
        // Of one leader's writes the latest has the greatest token, so it is the hardest to reject.
        self.delayed.retain(|&(earlier, _)| earlier != leader);
        self.delayed.push((leader, term));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::TestWorld;

    fn successions(mut register: FencedRegister, leaders: &[(usize, u64)]) -> Result<(), String> {
        let mut world = TestWorld::new(3);
        leaders.iter().try_for_each(|&(slot, term)| {
            let change = Change::Announced(slot, world.believe(slot, slot as u64 + 1, term));
            register.on_change(&world.facts(), change)
        })
    }

    #[test]
    fn fires_on_delayed_writes_if_tokens_are_not_checked_or_do_not_increase() {
        let increasing = [(0, 1), (1, 2), (1, 3), (0, 4)];
        assert_eq!(successions(FencedRegister::fenced(), &increasing), Ok(()));
        let error = successions(FencedRegister::unfenced(), &increasing).unwrap_err();
        assert_eq!(error, "2 leads, and a write of 1 with 1 is accepted");
        let error = successions(FencedRegister::fenced(), &[(0, 2), (1, 2)]).unwrap_err();
        assert_eq!(error, "2 leads, and a write of 1 with 2 is accepted");
        let error = successions(FencedRegister::fenced(), &[(0, 2), (1, 1)]).unwrap_err();
        assert_eq!(error, "2 leads, and its write with 1 is rejected");
    }
}
