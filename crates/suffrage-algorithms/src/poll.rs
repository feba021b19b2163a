//! The question "who of you is alive?", as the modifications of the bully algorithm put it.

use std::collections::BTreeSet;

use super::Outlook;
use suffrage_core::{Context, NodeId, Process, View};

/// Who has been asked, and who has replied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Poll {
    awaited: BTreeSet<NodeId>,
    alive: BTreeSet<NodeId>,
}

impl Poll {
    /// A poll in which the replies of these are awaited.
    pub(crate) fn new(awaited: impl Iterator<Item = NodeId>) -> Poll {
        Poll { awaited: awaited.collect(), alive: BTreeSet::new() }
    }

    /// Puts the question to all that rank above this process. The replies of suspects are not awaited:
    /// it may be a late word of the dead.
    pub(crate) fn above<P: Process>(
        cx: &mut Context<'_, P>,
        outlook: &Outlook,
        question: P::Message,
    ) -> Poll {
        for peer in cx.view().above() {
            cx.send(peer, question.clone());
        }
        Poll::new(cx.view().above().filter(|&peer| !outlook.suspects(peer)))
    }

    /// Awaits the reply of one more.
    pub(crate) fn expect(&mut self, peer: NodeId) {
        if !self.alive.contains(&peer) {
            self.awaited.insert(peer);
        }
    }

    /// Takes note of a reply. That of one that is not awaited does not count.
    pub(crate) fn on_alive(&mut self, peer: NodeId) {
        if self.awaited.remove(&peer) {
            self.alive.insert(peer);
        }
    }

    /// Takes note of a failure: it cannot be chosen, replied or not.
    pub(crate) fn on_suspect(&mut self, peer: NodeId) {
        self.awaited.remove(&peer);
        self.alive.remove(&peer);
    }

    /// Whether there is nothing left to wait for.
    pub(crate) fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The best-ranked of those that replied.
    pub(crate) fn best(&self, view: View<'_>) -> Option<NodeId> {
        self.alive.iter().copied().max_by_key(|&peer| view.rank(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Roster;

    #[test]
    fn only_replies_that_are_awaited_count_and_the_best_ranked_wins() {
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
