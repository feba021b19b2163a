//! A healthy leader is not replaced.

use suffrage_core::{NodeId, Span, Time};

use super::{Change, Invariant};
use crate::Facts;

/// A leader, once it is settled, is not replaced for as long as it is healthy (Aguilera et al. 2001: "once
/// a leader is elected, it remains the leader for as long as it does not crash and its links have been
/// behaving well, irrespective of the behavior of other processes and links").
///
/// *Healthy*: the leader is up, not paused, and cut from nobody, in either direction. *Settled*: for some time the leader
/// was healthy, every live process believed in it, and none was paused, so that earlier messages have arrived.
/// *Replaced*: the leader no longer believes in itself, or a live process believes in another. Lost and late messages
/// are not considered: with them, even a correct algorithm can violate this invariant.
#[derive(Clone, Debug)]
pub struct Stability {
    settling: Span,
    terms: bool,
    /// The leader that all live processes believe in, and the time since when.
    unanimous: Option<(usize, Time)>,
    settled: Option<usize>,
}

impl Stability {
    /// Protects leaders that all processes have believed in for this long.
    pub fn after(settling: Span) -> Stability {
        Stability { settling, terms: false, unanimous: None, settled: None }
    }

    /// Protects the terms of these leaders too: where a term is a fencing token, a rival must not force a healthy leader
    /// to get another one.
    pub fn of_terms_after(settling: Span) -> Stability {
        Stability { terms: true, ..Stability::after(settling) }
    }
}

fn is_healthy(facts: &Facts<'_>, leader: usize) -> bool {
    let members = 0..facts.roster().len();
    facts.is_up(leader)
        && !facts.is_paused(leader)
        && members.filter(|&other| other != leader).all(|other| facts.connected(leader, other))
}

/// The healthy leader that all live processes believe in, none of them paused.
fn unanimous(facts: &Facts<'_>) -> Option<usize> {
    let mut believed = facts.up().map(|slot| facts.belief(slot).map(|belief| belief.leader));
    let leader: NodeId = believed.next()??;
    let agreed = believed.all(|other| other == Some(leader)) && !facts.up().any(|slot| facts.is_paused(slot));
    facts.roster().slot(leader).filter(|&leader| agreed && is_healthy(facts, leader))
}

impl Invariant for Stability {
    fn name(&self) -> &'static str {
        "stability"
    }

    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        if let Some((leader, since)) = self.unanimous
            && facts.now().since(since) >= self.settling
        {
            self.settled = Some(leader);
        }
        let now = unanimous(facts);
        if now.is_none() || self.unanimous.is_none_or(|(leader, _)| Some(leader) != now) {
            self.unanimous = now.map(|leader| (leader, facts.now()));
        }
        self.settled = self.settled.filter(|&leader| is_healthy(facts, leader));
        let (Some(leader), Change::Announced(slot, announcement)) = (self.settled, change) else {
            return Ok(());
        };
        let (who, leader_id) = (facts.roster().id(slot), facts.roster().id(leader));
        match announcement.leader() {
            None if slot == leader => self.settled = None,
            Some(other) if other == leader_id && slot == leader && self.terms => {
                self.settled = None;
                return Err(format!("{leader_id} leads and is healthy, but had to begin a new term"));
            }
            Some(other) if other != leader_id => self.settled = None,
            _ => return Ok(()),
        }
        let now = announcement.leader().map_or("in nobody".to_string(), |other| format!("in {other}"));
        Err(format!("{leader_id} leads and is healthy, but {who} believes {now}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Status, tests::TestWorld};

    /// Three processes that all believe in 2. The settling time is zero.
    fn settled() -> (TestWorld, Stability) {
        let mut world = TestWorld::new(3);
        let mut invariant = Stability::after(Span::ZERO);
        for slot in 0..3 {
            let change = Change::Announced(slot, world.believe(slot, 2, 1));
            assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
        }
        (world, invariant)
    }

    #[test]
    fn fires_when_a_healthy_leader_is_replaced() {
        let (mut world, mut invariant) = settled();
        let change = Change::Announced(0, world.believe(0, 3, 2));
        let error = invariant.on_change(&world.facts(), change).unwrap_err();
        assert_eq!(error, "2 leads and is healthy, but 1 believes in 3");
        let (mut world, mut invariant) = settled();
        let change = Change::Announced(1, world.believe(1, 1, 2));
        assert!(invariant.on_change(&world.facts(), change).is_err());
    }

    #[test]
    fn fires_on_a_new_term_of_the_leader_only_if_terms_are_protected() {
        let (mut world, mut invariant) = settled();
        let mut strict = Stability { terms: true, ..invariant.clone() };
        let change = Change::Announced(1, world.believe(1, 2, 2));
        assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
        assert!(strict.on_change(&world.facts(), change).unwrap_err().contains("new term"));
    }

    #[test]
    fn other_processes_may_crash_pause_and_be_cut_from_each_other() {
        let (mut world, mut invariant) = settled();
        world.statuses[2] = Status::Down;
        assert_eq!(invariant.on_change(&world.facts(), Change::Crashed(2)), Ok(()));
        world.statuses[0] = Status::Paused;
        assert_eq!(invariant.on_change(&world.facts(), Change::Paused(0)), Ok(()));
        world.network.cut(0, crate::Cut::new(3, &[vec![0], vec![2]], false));
        assert_eq!(invariant.on_change(&world.facts(), Change::Connectivity), Ok(()));
        let change = Change::Announced(0, world.believe(0, 1, 2));
        assert!(invariant.on_change(&world.facts(), change).is_err(), "2 is still healthy");
    }

    #[test]
    fn a_leader_that_crashed_paused_or_was_cut_off_may_be_replaced() {
        type ApplyFault = fn(&mut TestWorld);
        let faults: [(Change, ApplyFault); 3] = [
            (Change::Crashed(1), |world| world.statuses[1] = Status::Down),
            (Change::Paused(1), |world| world.statuses[1] = Status::Paused),
            (Change::Connectivity, |world| world.cut(1)),
        ];
        for (fault, apply) in faults {
            let (mut world, mut invariant) = settled();
            apply(&mut world);
            assert_eq!(invariant.on_change(&world.facts(), fault), Ok(()));
            world.statuses[1] = Status::Up;
            world.network.heal(0);
            let change = Change::Announced(0, world.believe(0, 3, 2));
            assert_eq!(invariant.on_change(&world.facts(), change), Ok(()), "{fault:?}");
        }
    }

    #[test]
    fn a_leader_that_is_not_settled_may_be_replaced() {
        for (believers, settling) in [(2, Span::ZERO), (3, Span::UNIT)] {
            let mut world = TestWorld::new(3);
            let mut invariant = Stability::after(settling);
            for slot in 0..believers {
                let change = Change::Announced(slot, world.believe(slot, 2, 1));
                assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
            }
            let change = Change::Announced(2, world.believe(2, 3, 2));
            assert_eq!(invariant.on_change(&world.facts(), change), Ok(()));
        }
    }
}
