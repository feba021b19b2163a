//! A voter's lock in one term: Maekawa's arbiter.

use std::collections::BTreeSet;

use super::Message;
use suffrage_core::{NodeId, Term, View};

/// The answers of a voter, each with its addressee.
pub(super) type Answers = Vec<(NodeId, Message)>;

/// The lock of a voter in one term: its holder and its waiting candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub(super) term: Term,
    pub(super) holder: Option<NodeId>,
    /// The number of grants of the lock, so that messages about an earlier grant are recognised.
    pub(super) grant: u64,
    waiting: BTreeSet<NodeId>,
}

impl Lock {
    /// The lock of a new term, or as it was saved. Waiting candidates ask again.
    pub(super) fn new(term: Term, holder: Option<NodeId>, grant: u64) -> Lock {
        Lock { term, holder, grant, waiting: BTreeSet::new() }
    }

    /// Handles a request for the lock, perhaps a repeated one.
    pub(super) fn request(&mut self, view: View<'_>, from: NodeId) -> Answers {
        let (term, grant) = (self.term, self.grant);
        let Some(holder) = self.holder else {
            self.waiting.insert(from);
            return self.grant_to_first(view);
        };
        if holder == from {
            return vec![(from, Message::Locked { term, grant })];
        }
        let first = self.first(view);
        let repeated = !self.waiting.insert(from);
        if !view.outranks(from, holder) || first.is_some_and(|first| view.outranks(first, from)) {
            return vec![(from, Message::Failed { term })];
        }
        let mut answers = vec![(holder, Message::Inquire { term, grant })];
        // The former first candidate does not know yet that it has to wait.
        let displaced = first.filter(|&first| first != from && view.outranks(first, holder));
        answers.extend(displaced.map(|displaced| (displaced, Message::Failed { term })));
        if repeated {
            answers.push((from, Message::Pending { term }));
        }
        answers
    }

    /// Returns the lock. The holder waits for it again if `wants` is true. Messages about an earlier grant are
    /// ignored.
    pub(super) fn return_lock(&mut self, view: View<'_>, from: NodeId, grant: u64, wants: bool) -> Answers {
        if self.holder != Some(from) || self.grant != grant {
            return Vec::new();
        }
        self.holder = None;
        if wants {
            self.waiting.insert(from);
        }
        self.grant_to_first(view)
    }

    /// Removes a candidate from the waiting ones.
    pub(super) fn remove_waiting(&mut self, from: NodeId) {
        self.waiting.remove(&from);
    }

    fn first(&self, view: View<'_>) -> Option<NodeId> {
        self.waiting.iter().copied().max_by_key(|&id| view.rank(id))
    }

    /// Grants the free lock to the best waiting candidate.
    fn grant_to_first(&mut self, view: View<'_>) -> Answers {
        let Some(first) = self.first(view) else { return Vec::new() };
        self.waiting.remove(&first);
        self.grant += 1;
        self.holder = Some(first);
        vec![(first, Message::Locked { term: self.term, grant: self.grant })]
    }
}
