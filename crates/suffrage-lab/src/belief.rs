//! The live processes and the leader that each believes in, derived from the events of a run.

use std::collections::BTreeMap;

use suffrage_core::{Announcement, NodeId, Roster, Term};
use suffrage_sim::Scenario;

/// The live processes and the leader that each believes in.
#[derive(Clone, Debug)]
pub(crate) struct Beliefs {
    roster: Roster,
    /// By slot.
    live: Vec<bool>,
    leaders: Vec<Option<(NodeId, Term)>>,
    /// Whether a process has announced anything since its last start.
    has_announced: Vec<bool>,
}

/// The change of a belief by an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BeliefChange {
    /// The process leads in this term.
    Leads(Term),
    /// The process follows a new leader in this term.
    Follows(NodeId, Term),
    /// The process follows the same leader in a new term.
    KeepsFollowing(NodeId, Term),
    /// The process no longer leads.
    StepsDown,
    /// The process followed a leader and now knows none.
    LosesLeader,
    /// The first announcement of the process is that it knows no leader.
    FindsNoLeader,
}

impl Beliefs {
    pub(crate) fn new(scenario: &Scenario) -> Beliefs {
        let count = scenario.roster.len();
        let mut live = vec![true; count];
        scenario.crashed.iter().for_each(|&slot| live[slot] = false);
        let roster = scenario.roster.clone();
        Beliefs { roster, live, leaders: vec![None; count], has_announced: vec![false; count] }
    }

    fn slot(&self, id: NodeId) -> usize {
        self.roster.slot(id).expect("the simulator names members only")
    }

    pub(crate) fn crash(&mut self, who: NodeId) {
        let slot = self.slot(who);
        self.live[slot] = false;
        self.leaders[slot] = None;
        self.has_announced[slot] = false;
    }

    pub(crate) fn recover(&mut self, who: NodeId) {
        let slot = self.slot(who);
        self.live[slot] = true;
    }

    /// Records an announcement and returns the change of belief, if any.
    pub(crate) fn announce(&mut self, who: NodeId, announcement: Announcement) -> Option<BeliefChange> {
        let slot = self.slot(who);
        let after = match announcement {
            Announcement::Elected { leader, term } => Some((leader, term)),
            Announcement::SteppedDown | Announcement::Undecided => None,
        };
        let before = std::mem::replace(&mut self.leaders[slot], after);
        let has_announced = std::mem::replace(&mut self.has_announced[slot], true);
        match (before, after) {
            (None, None) if !has_announced => Some(BeliefChange::FindsNoLeader),
            _ if before == after => None,
            (_, Some((leader, term))) if leader == who => Some(BeliefChange::Leads(term)),
            (Some((leader, _)), Some((same, term))) if leader == same => {
                Some(BeliefChange::KeepsFollowing(leader, term))
            }
            (_, Some((leader, term))) => Some(BeliefChange::Follows(leader, term)),
            (Some((leader, _)), None) if leader == who => Some(BeliefChange::StepsDown),
            (_, None) => Some(BeliefChange::LosesLeader),
        }
    }

    /// The number of live processes.
    pub(crate) fn live(&self) -> usize {
        self.live.iter().filter(|&&live| live).count()
    }

    /// The live processes by the leader they believe in.
    pub(crate) fn by_leader(&self) -> BTreeMap<Option<NodeId>, Vec<NodeId>> {
        let mut groups = BTreeMap::<_, Vec<NodeId>>::new();
        for (slot, leader) in self.leaders.iter().enumerate().filter(|(slot, _)| self.live[*slot]) {
            groups.entry(leader.map(|(leader, _)| leader)).or_default().push(self.roster.id(slot));
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_reported() {
        let mut beliefs = Beliefs::new(&Scenario::new(Roster::numbered(3)));
        let elected = |leader, term| Announcement::Elected { leader: NodeId(leader), term: Term(term) };
        let mut announce = |who, announcement| beliefs.announce(NodeId(who), announcement);
        assert_eq!(announce(1, elected(3, 1)), Some(BeliefChange::Follows(NodeId(3), Term(1))));
        assert_eq!(announce(1, elected(3, 2)), Some(BeliefChange::KeepsFollowing(NodeId(3), Term(2))));
        assert_eq!(announce(1, elected(3, 2)), None);
        assert_eq!(announce(3, elected(3, 1)), Some(BeliefChange::Leads(Term(1))));
        assert_eq!(announce(3, elected(3, 2)), Some(BeliefChange::Leads(Term(2))));
        assert_eq!(announce(3, Announcement::SteppedDown), Some(BeliefChange::StepsDown));
        assert_eq!(announce(1, Announcement::Undecided), Some(BeliefChange::LosesLeader));
        assert_eq!(announce(1, Announcement::Undecided), None);
        assert_eq!(announce(2, Announcement::Undecided), Some(BeliefChange::FindsNoLeader));
        assert_eq!(announce(2, Announcement::Undecided), None, "an unchanged belief is reported once");
        beliefs.crash(NodeId(2));
        assert_eq!(beliefs.by_leader(), [(None, vec![NodeId(1), NodeId(3)])].into());
        assert_eq!(beliefs.live(), 2);
    }
}
