//! The poll for live peers, as the modifications of the bully algorithm define it.

use std::collections::BTreeSet;

use super::LeaderBelief;
use suffrage_core::{Context, NodeId, Process, View};

/// The peers that were asked, and the peers that have replied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Poll {
    awaited: BTreeSet<NodeId>,
    alive: BTreeSet<NodeId>,
}

impl Poll {
    /// A poll that awaits the replies of these peers.
    pub(crate) fn new(awaited: impl Iterator<Item = NodeId>) -> Poll {
        Poll { awaited: awaited.collect(), alive: BTreeSet::new() }
    }

    /// Sends the question to all peers that rank above this process. The poll does not await replies of suspected
    /// peers: such a reply may be a delayed message of a crashed process.
    pub(crate) fn ask_higher<P: Process>(
        cx: &mut Context<'_, P>,
        belief: &LeaderBelief,
        question: P::Message,
    ) -> Poll {
        for peer in cx.view().above() {
            cx.send(peer, question.clone());
        }
        Poll::new(cx.view().above().filter(|&peer| !belief.is_suspected(peer)))
    }

    /// Awaits the reply of one more peer.
    pub(crate) fn await_reply(&mut self, peer: NodeId) {
        if !self.alive.contains(&peer) {
            self.awaited.insert(peer);
        }
    }

    /// Records a reply. A reply that is not awaited does not count.
    pub(crate) fn on_alive(&mut self, peer: NodeId) {
        if self.awaited.remove(&peer) {
            self.alive.insert(peer);
        }
    }

    /// Records a failure. A failed peer cannot be chosen, even if it has replied.
    pub(crate) fn on_suspect(&mut self, peer: NodeId) {
        self.awaited.remove(&peer);
        self.alive.remove(&peer);
    }

    /// Returns whether all awaited replies have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The best-ranked peer that has replied.
    pub(crate) fn best(&self, view: View<'_>) -> Option<NodeId> {
        self.alive.iter().copied().max_by_key(|&peer| view.rank(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Roster;

    #[test]
    fn only_awaited_replies_count_and_the_best_ranked_wins() {
        let mut roster = Roster::numbered(6);
        roster.set_attribute(NodeId(4), 9);
        let view = roster.view(2);
        let mut poll = Poll::new([4, 5, 6].map(NodeId).into_iter());
        assert_eq!(poll.best(view), None);
        poll.on_alive(NodeId(2));
        poll.on_alive(NodeId(5));
        poll.on_alive(NodeId(5));
        assert_eq!((poll.best(view), poll.is_complete()), (Some(NodeId(5)), false));
        poll.on_alive(NodeId(4));
        assert_eq!(poll.best(view), Some(NodeId(4)), "ranked by attribute");
        poll.on_suspect(NodeId(6));
        assert!(poll.is_complete());
        poll.on_suspect(NodeId(4));
        assert_eq!(poll.best(view), Some(NodeId(5)));
    }
}
