//! Who lives and whom each believes in, as one who watches the run can tell.

use std::collections::BTreeMap;

use suffrage_core::{Announcement, NodeId, Roster, Term};
use suffrage_sim::Scenario;

/// Who lives and whom each believes in.
#[derive(Clone, Debug)]
pub(crate) struct Beliefs {
    roster: Roster,
    /// By slot.
    live: Vec<bool>,
    leaders: Vec<Option<(NodeId, Term)>>,
    /// Who has announced anything since it last began.
    heard_of: Vec<bool>,
}

/// What an announcement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// It leads, in this term.
    Leads(Term),
    /// It follows that one, in this term.
    Follows(NodeId, Term),
    /// It has followed that one all along, and does so in this term now.
    KeepsFollowing(NodeId, Term),
    /// It led, and does not any more.
    StepsDown,
    /// It followed, and does not know whom to follow any more.
    Forgets,
    /// It has believed in nobody yet, and says that there is nobody to believe in.
    FindsNobody,
}

impl Beliefs {
    pub(crate) fn new(scenario: &Scenario) -> Beliefs {
        let count = scenario.roster.len();
        let mut live = vec![true; count];
        scenario.crashed.iter().for_each(|&slot| live[slot] = false);
        let roster = scenario.roster.clone();
        Beliefs { roster, live, leaders: vec![None; count], heard_of: vec![false; count] }
    }

    fn slot(&self, id: NodeId) -> usize {
        self.roster.slot(id).expect("the simulator names members only")
    }

    pub(crate) fn crash(&mut self, who: NodeId) {
        let slot = self.slot(who);
        self.live[slot] = false;
        self.leaders[slot] = None;
        self.heard_of[slot] = false;
    }

    pub(crate) fn recover(&mut self, who: NodeId) {
        let slot = self.slot(who);
        self.live[slot] = true;
    }

    /// Takes note of an announcement; what is new about it, if anything.
    pub(crate) fn announce(&mut self, who: NodeId, announcement: Announcement) -> Option<News> {
        let slot = self.slot(who);
        let after = match announcement {
            Announcement::Elected { leader, term } => Some((leader, term)),
            Announcement::SteppedDown | Announcement::Undecided => None,
        };
        let before = std::mem::replace(&mut self.leaders[slot], after);
        let heard_of = std::mem::replace(&mut self.heard_of[slot], true);
        match (before, after) {
            (None, None) if !heard_of => Some(News::FindsNobody),
            _ if before == after => None,
            (_, Some((leader, term))) if leader == who => Some(News::Leads(term)),
            (Some((leader, _)), Some((same, term))) if leader == same => {
                Some(News::KeepsFollowing(leader, term))
            }
            (_, Some((leader, term))) => Some(News::Follows(leader, term)),
            (Some((leader, _)), None) if leader == who => Some(News::StepsDown),
            (_, None) => Some(News::Forgets),
        }
    }

    /// How many live.
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
    fn news_is_what_changes() {
        let mut beliefs = Beliefs::new(&Scenario::new(Roster::numbered(3)));
        let elected = |leader, term| Announcement::Elected { leader: NodeId(leader), term: Term(term) };
        let mut tell = |who, announcement| beliefs.announce(NodeId(who), announcement);
        assert_eq!(tell(1, elected(3, 1)), Some(News::Follows(NodeId(3), Term(1))));
        assert_eq!(tell(1, elected(3, 2)), Some(News::KeepsFollowing(NodeId(3), Term(2))));
        assert_eq!(tell(1, elected(3, 2)), None);
        assert_eq!(tell(3, elected(3, 1)), Some(News::Leads(Term(1))));
        assert_eq!(tell(3, elected(3, 2)), Some(News::Leads(Term(2))));
        assert_eq!(tell(3, Announcement::SteppedDown), Some(News::StepsDown));
        assert_eq!(tell(1, Announcement::Undecided), Some(News::Forgets));
        assert_eq!(tell(1, Announcement::Undecided), None);
        assert_eq!(tell(2, Announcement::Undecided), Some(News::FindsNobody));
        assert_eq!(tell(2, Announcement::Undecided), None, "once is enough");
        beliefs.crash(NodeId(2));
        assert_eq!(beliefs.by_leader(), [(None, vec![NodeId(1), NodeId(3)])].into());
        assert_eq!(beliefs.live(), 2);
    }
}
