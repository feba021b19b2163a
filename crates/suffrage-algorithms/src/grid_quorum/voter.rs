//! The voter's half of a process: its persistent state, and its answers to requests for its lock.

use serde::{Deserialize, Serialize};

use super::lock::{Answers, Lock};
use super::{GridQuorum, Message};
use suffrage_core::{Context, NodeId, Term};

/// The persistent state: the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The latest known term.
    pub term: Term,
    /// The holder of the lock in that term.
    pub holder: Option<NodeId>,
    /// The number of grants in that term.
    pub grant: u64,
    /// The term of the latest known leader.
    pub leader_term: Term,
    /// False once the process has lost its disk.
    pub voter: bool,
}

impl GridQuorum {
    pub(super) fn save(&self, cx: &mut Context<'_, Self>) {
        let Lock { term, holder, grant, .. } = self.lock;
        if !self.options.forget_locks {
            cx.save(Saved { term, holder, grant, leader_term: self.leader_term, voter: self.voter });
        }
    }

    /// Restores the saved state. Without it, a granted lock or a won term may be lost.
    pub(super) fn recover(&mut self, saved: Option<Saved>) {
        let Some(Saved { term, holder, grant, leader_term, voter }) = saved else {
            self.voter = self.options.forget_locks;
            return;
        };
        self.lock = Lock::new(term, holder, grant);
        (self.campaigned, self.leader_term, self.voter) = (term, leader_term, voter);
    }

    /// Begins a term with a free lock.
    pub(super) fn enter_term(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        self.lock = Lock::new(term, None, 0);
        self.save(cx);
    }

    /// The reply to a message of an earlier term.
    pub(super) fn outdated(&self, refused: Term) -> Message {
        let elected =
            self.leader.filter(|_| refused <= self.leader_term).map(|leader| (leader, self.leader_term));
        Message::Outdated { refused, term: self.lock.term, elected }
    }

    pub(super) fn on_request(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        if !self.voter {
            return;
        }
        if term < self.lock.term || term <= self.leader_term {
            let message = self.outdated(term);
            return self.send(cx, from, message);
        }
        let mut superseded = false;
        if term > self.lock.term {
            superseded = self.candidacy.take().is_some();
            self.enter_term(cx, term);
            if self.leader.is_none() {
                // Another process holds an election: it gets as much time as an own election.
                self.set_patience_timer(cx);
            }
        }
        let answers = self.lock.request(cx.view(), from);
        self.answer(cx, answers);
        if superseded {
            self.start_candidacy(cx);
        }
    }

    /// Sends answers. A lock is saved before it is granted.
    fn answer(&mut self, cx: &mut Context<'_, Self>, answers: Answers) {
        if answers.iter().any(|(_, message)| matches!(message, Message::Locked { .. })) {
            self.save(cx);
        }
        answers.into_iter().for_each(|(to, message)| self.send(cx, to, message));
    }

    pub(super) fn on_relinquish(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, grant: u64) {
        if term == self.lock.term {
            let answers = self.lock.return_lock(cx.view(), from, grant, true);
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
            self.lock.remove_waiting(from);
            let answers = self.lock.return_lock(cx.view(), from, grant.unwrap_or(0), false);
            self.answer(cx, answers);
        }
    }
}
