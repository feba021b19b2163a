//! A voter's half: what it saves, and how it answers those who ask for its lock.

use serde::{Deserialize, Serialize};

use super::lock::{Answers, Lock};
use super::{GridQuorum, Message};
use suffrage_core::{Context, NodeId, Term};

/// What outlives a crash: the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The latest term heard of.
    pub term: Term,
    /// For whom the process is locked in it.
    pub holder: Option<NodeId>,
    /// How often it was locked in it.
    pub grant: u64,
    /// The term of the latest leader heard of.
    pub heard: Term,
    /// False once it has lost its disk.
    pub voter: bool,
}

impl GridQuorum {
    pub(super) fn save(&self, cx: &mut Context<'_, Self>) {
        let Lock { term, holder, grant, .. } = self.lock;
        if !self.options.forget_locks {
            cx.save(Saved { term, holder, grant, heard: self.heard, voter: self.voter });
        }
    }

    /// Takes up what was saved. Without it, a lock may have been granted, or a term won, that it forgot.
    pub(super) fn recover(&mut self, saved: Option<Saved>) {
        let Some(Saved { term, holder, grant, heard, voter }) = saved else {
            self.voter = self.options.forget_locks;
            return;
        };
        self.lock = Lock::new(term, holder, grant);
        (self.stood, self.heard, self.voter) = (term, heard, voter);
    }

    /// Begins a term in which its lock is free.
    pub(super) fn enter(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        self.lock = Lock::new(term, None, 0);
        self.save(cx);
    }

    /// What this process knows of later terms, for one that speaks of an earlier one.
    pub(super) fn outdated(&self, refused: Term) -> Message {
        let elected = self.leader.filter(|_| refused <= self.heard).map(|leader| (leader, self.heard));
        Message::Outdated { refused, term: self.lock.term, elected }
    }

    pub(super) fn on_request(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        if !self.voter {
            return;
        }
        if term < self.lock.term || term <= self.heard {
            let message = self.outdated(term);
            return self.say(cx, from, message);
        }
        let mut overtaken = false;
        if term > self.lock.term {
            overtaken = self.candidacy.take().is_some();
            self.enter(cx, term);
            if self.leader.is_none() {
                // Somebody else sees to it: that deserves as much patience as an election of its own.
                self.lose_patience_later(cx);
            }
        }
        let answers = self.lock.request(cx.view(), from);
        self.answer(cx, answers);
        if overtaken {
            self.stand(cx);
        }
    }

    /// A lock is saved before it is granted.
    fn answer(&mut self, cx: &mut Context<'_, Self>, answers: Answers) {
        if answers.iter().any(|(_, message)| matches!(message, Message::Locked { .. })) {
            self.save(cx);
        }
        answers.into_iter().for_each(|(to, message)| self.say(cx, to, message));
    }

    pub(super) fn on_relinquish(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, grant: u64) {
        if term == self.lock.term {
            let answers = self.lock.give_back(cx.view(), from, grant, true);
            self.answer(cx, answers);
        }
    }

    pub(super) fn on_release(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        term: Term,
        grant: Option<u64>,
    ) {
        if term == self.lock.term {
            self.lock.forget(from);
            let answers = self.lock.give_back(cx.view(), from, grant.unwrap_or(0), false);
            self.answer(cx, answers);
        }
    }
}
