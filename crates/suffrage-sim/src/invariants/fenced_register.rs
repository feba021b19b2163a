//! What is led is safe from leaders of the past, if it looks at tokens.

use suffrage_core::{NodeId, Term};

use super::{Change, Invariant};
use crate::Facts;

/// A register that leaders write to. A write carries its leader's token and may be on its way for any time:
/// its leader may have been paused between looking at its lease and writing, or the network was slow. So
/// whenever somebody begins to lead and has written, the writes of all who led before arrive.
///
/// The register never takes a write of a leader that has been succeeded, and always one of the latest.
#[derive(Clone, Debug)]
pub struct FencedRegister {
    checks: bool,
    /// The greatest token it has seen.
    seen: Term,
    /// Whose writes are on their way.
    delayed: Vec<(NodeId, Term)>,
}

impl FencedRegister {
    /// A register that refuses a write with a smaller token than it has seen.
    pub fn fenced() -> FencedRegister {
        FencedRegister { checks: true, seen: Term::default(), delayed: Vec::new() }
    }

    /// A register that takes every write, to show what comes of that.
    pub fn unfenced() -> FencedRegister {
        FencedRegister { checks: false, ..FencedRegister::fenced() }
    }

    /// Whether a write is taken.
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
            return Err(format!("{leader} leads, and its write with {term} is refused"));
        }
        for index in 0..self.delayed.len() {
            let (predecessor, token) = self.delayed[index];
            if predecessor != leader && self.write(token) {
                return Err(format!("{leader} leads, and a write of {predecessor} with {token} is taken"));
            }
        }
        // Of one leader's writes the latest is the hardest to refuse.
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
    fn fires_on_late_writes_where_tokens_are_not_looked_at_or_do_not_increase() {
        let increasing = [(0, 1), (1, 2), (1, 3), (0, 4)];
        assert_eq!(successions(FencedRegister::fenced(), &increasing), Ok(()));
        let error = successions(FencedRegister::unfenced(), &increasing).unwrap_err();
        assert_eq!(error, "2 leads, and a write of 1 with 1 is taken");
        let error = successions(FencedRegister::fenced(), &[(0, 2), (1, 2)]).unwrap_err();
        assert_eq!(error, "2 leads, and a write of 1 with 2 is taken");
        let error = successions(FencedRegister::fenced(), &[(0, 2), (1, 1)]).unwrap_err();
        assert_eq!(error, "2 leads, and its write with 1 is refused");
    }
}
