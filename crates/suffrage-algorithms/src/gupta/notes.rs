//! What only few members have to remember: those that relay, and those that suspect somebody.

use super::Round;
use suffrage_core::{NodeId, View};

/// Most members of a large group have none of it, so that it is kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Notes {
    /// In which rounds of this election it relayed, a bit for each.
    pub(super) relayed: u32,
    /// In which of those it multicast its final choice.
    pub(super) spoke: u32,
    /// The current best choice, as a relay member.
    pub(super) best: Option<NodeId>,
    /// `{Mj}`: the other members that relay in this round as far as is known, by id.
    pub(super) relays: Vec<NodeId>,
    /// Those who contacted it, and former leaders, that were not in its view before, by id.
    pub(super) met: Vec<NodeId>,
    /// Whom its failure detector has reported, by id.
    pub(super) suspects: Vec<NodeId>,
    /// Who was suspected no longer while this member knew no leader: they are to be told, by id.
    pub(super) heard_again: Vec<NodeId>,
    /// Preferences that came before the initiating message of their round.
    pub(super) early: Vec<(Round, NodeId, NodeId)>,
}

impl Notes {
    pub(super) fn suspects(&self, member: NodeId) -> bool {
        self.suspects.binary_search(&member).is_ok()
    }

    /// Includes a member in the view.
    pub(super) fn meet(&mut self, view: View<'_>, member: NodeId) {
        if !view.contains(member) && view.is_member(member) {
            include(&mut self.met, member);
        }
    }

    /// The best of the whole view and the member itself, leaving out those that seem to have failed.
    ///
    /// Those met are left out, too: the failure detector watches the view, and nobody would ever tell that
    /// one of them, such as a former leader, is dead.
    pub(super) fn preferred(&self, view: View<'_>) -> NodeId {
        view.best(|id| !self.suspects(id)).unwrap_or(view.me())
    }

    /// The others in the view that pass the filter and do not seem to have failed. The filter is asked first:
    /// few pass it.
    pub(super) fn filtered(&self, view: View<'_>, passes: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let knows = |id| view.contains(id) || self.met.binary_search(&id).is_ok();
        let group = (0..view.group_len()).map(|slot| view.in_slot(slot));
        let relays = group.filter(|&id| passes(id) && id != view.me() && knows(id) && !self.suspects(id));
        let mut relays: Vec<NodeId> = relays.collect();
        relays.sort_unstable();
        relays
    }
}

/// Puts an id in its place, if it is not there.
pub(super) fn include(ids: &mut Vec<NodeId>, id: NodeId) {
    if let Err(place) = ids.binary_search(&id) {
        ids.insert(place, id);
    }
}

/// Takes an id out, if it is there.
pub(super) fn exclude(ids: &mut Vec<NodeId>, id: NodeId) {
    if let Ok(place) = ids.binary_search(&id) {
        ids.remove(place);
    }
}
