//! State that only few members need: relay members, and members that suspect a peer.

use super::Round;
use suffrage_core::{NodeId, View};

/// The rarely needed state of a member. It is stored separately, since most members of a large group do not need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RareState {
    /// The rounds of this election in which the member relayed, one bit each.
    pub(super) relayed: u32,
    /// The rounds in which the member multicast its final choice, one bit each.
    pub(super) sent_choice: u32,
    /// The current best choice of a relay member.
    pub(super) best: Option<NodeId>,
    /// `{Mj}`: the other known relay members of this round, sorted by id.
    pub(super) relays: Vec<NodeId>,
    /// Members that contacted this one, and former leaders, that were not in its view before, sorted by id.
    pub(super) added: Vec<NodeId>,
    /// The peers that the failure detector suspects, sorted by id.
    pub(super) suspects: Vec<NodeId>,
    /// Peers whose suspicion ended while this member knew no leader, and that must be told the result, sorted by id.
    pub(super) restored: Vec<NodeId>,
    /// Preferences that arrived before the initiating message of their round.
    pub(super) early: Vec<(Round, NodeId, NodeId)>,
}

impl RareState {
    pub(super) fn is_suspected(&self, member: NodeId) -> bool {
        self.suspects.binary_search(&member).is_ok()
    }

    /// Adds a member to the view.
    pub(super) fn add_to_view(&mut self, view: View<'_>, member: NodeId) {
        if !view.contains(member) && view.is_member(member) {
            include(&mut self.added, member);
        }
    }

    /// The best of the whole view and the member itself, without suspected members.
    ///
    /// Added members are left out, too. The failure detector monitors only the view, so a crash of an added member,
    /// such as a former leader, would never be detected.
    pub(super) fn preferred(&self, view: View<'_>) -> NodeId {
        view.best(|id| !self.is_suspected(id)).unwrap_or(view.me())
    }

    /// The other members in the view that pass the filter and are not suspected. The filter is evaluated first,
    /// since few members pass it.
    pub(super) fn filtered(&self, view: View<'_>, passes: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let knows = |id| view.contains(id) || self.added.binary_search(&id).is_ok();
        let group = (0..view.group_len()).map(|slot| view.in_slot(slot));
        let relays = group.filter(|&id| passes(id) && id != view.me() && knows(id) && !self.is_suspected(id));
        let mut relays: Vec<NodeId> = relays.collect();
        relays.sort_unstable();
        relays
    }
}

/// Inserts an id into a sorted list, unless it is present.
pub(super) fn include(ids: &mut Vec<NodeId>, id: NodeId) {
    if let Err(index) = ids.binary_search(&id) {
        ids.insert(index, id);
    }
}

/// Removes an id from a sorted list, if it is present.
pub(super) fn exclude(ids: &mut Vec<NodeId>, id: NodeId) {
    if let Ok(index) = ids.binary_search(&id) {
        ids.remove(index);
    }
}
