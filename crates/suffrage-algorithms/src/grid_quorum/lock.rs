//! A voter's lock in one term: Maekawa's arbiter.

use std::collections::BTreeSet;

use super::Message;
use suffrage_core::{NodeId, Term, View};

/// What a voter sends to whom.
pub(super) type Answers = Vec<(NodeId, Message)>;

/// Who holds the lock of a voter in one term, and who waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub(super) term: Term,
    pub(super) holder: Option<NodeId>,
    /// Counts how often the lock was granted, so that what is said of an earlier time is known as such.
    pub(super) grant: u64,
    waiting: BTreeSet<NodeId>,
}

impl Lock {
    /// The lock of a new term, or as it was saved: those who wait ask again.
    pub(super) fn new(term: Term, holder: Option<NodeId>, grant: u64) -> Lock {
        Lock { term, holder, grant, waiting: BTreeSet::new() }
    }

    /// Somebody asks for the lock, perhaps again.
    pub(super) fn request(&mut self, view: View<'_>, from: NodeId) -> Answers {
        let (term, grant) = (self.term, self.grant);
        let Some(holder) = self.holder else {
            self.waiting.insert(from);
            return self.hand_on(view);
        };
        if holder == from {
            return vec![(from, Message::Locked { term, grant })];
        }
        let first = self.first(view);
        let again = !self.waiting.insert(from);
        if !view.outranks(from, holder) || first.is_some_and(|first| view.outranks(first, from)) {
            return vec![(from, Message::Failed { term })];
        }
        let mut answers = vec![(holder, Message::Inquire { term, grant })];
        // One that was first in line, and did not hear that it has to wait, is not any more.
        let displaced = first.filter(|&first| first != from && view.outranks(first, holder));
        answers.extend(displaced.map(|displaced| (displaced, Message::Failed { term })));
        if again {
            answers.push((from, Message::Pending { term }));
        }
        answers
    }

    /// The holder gives the lock back, to have it again when its turn comes or not at all. What was said
    /// of an earlier grant is ignored.
    pub(super) fn give_back(&mut self, view: View<'_>, from: NodeId, grant: u64, wants: bool) -> Answers {
        if self.holder != Some(from) || self.grant != grant {
            return Vec::new();
        }
        self.holder = None;
        if wants {
            self.waiting.insert(from);
        }
        self.hand_on(view)
    }

    /// Somebody does not wait any more.
    pub(super) fn forget(&mut self, from: NodeId) {
        self.waiting.remove(&from);
    }

    fn first(&self, view: View<'_>) -> Option<NodeId> {
        self.waiting.iter().copied().max_by_key(|&id| view.rank(id))
    }

    /// Grants the free lock to the first in line.
    fn hand_on(&mut self, view: View<'_>) -> Answers {
        let Some(first) = self.first(view) else { return Vec::new() };
        self.waiting.remove(&first);
        self.grant += 1;
        self.holder = Some(first);
        vec![(first, Message::Locked { term: self.term, grant: self.grant })]
    }
}
