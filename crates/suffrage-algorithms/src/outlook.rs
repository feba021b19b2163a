//! What a process of the bully and ring families believes of the others.

use std::collections::BTreeSet;

use suffrage_core::{Announcement, Context, NodeId, Process, Term};

/// Whom a process believes to lead, and whom its failure detector has reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outlook {
    leader: Option<NodeId>,
    /// The highest term heard of.
    term: Term,
    suspects: BTreeSet<NodeId>,
    /// The suspects whose leadership was given up or refused: one that turns out to be alive has to
    /// be asked again.
    passed_over: BTreeSet<NodeId>,
}

impl Outlook {
    /// Whom this process believes to lead.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Whether this process believes itself the leader.
    pub fn leads<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        self.leader == Some(cx.me())
    }

    /// The highest term heard of.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Takes note of a term heard of.
    pub fn hear(&mut self, term: Term) {
        self.term = self.term.max(term);
    }

    /// Whether the detector has reported this peer.
    pub fn suspects(&self, peer: NodeId) -> bool {
        self.suspects.contains(&peer)
    }

    /// Whether everybody above this process is suspected: it *knows* that it is the best.
    pub fn is_best<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        cx.view().above().all(|peer| self.suspects(peer))
    }

    /// Believes in a leader from now on, and says so if that is news.
    pub fn believe<P: Process>(&mut self, cx: &mut Context<'_, P>, leader: NodeId, term: Term) {
        let news = self.leader != Some(leader) || term > self.term;
        self.hear(term);
        self.leader = Some(leader);
        if !self.passed_over.is_empty() {
            self.passed_over.clear();
        }
        if news {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    /// Believes in nobody from now on, and says so if that is news.
    pub fn forget<P: Process>(&mut self, cx: &mut Context<'_, P>) {
        if let Some(leader) = self.leader.take() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    /// Refuses a suspect's claim to lead: it may be a late word of the dead.
    pub fn pass_over(&mut self, suspect: NodeId) {
        self.passed_over.insert(suspect);
    }

    /// Takes note of a suspicion. True if it was the leader: there is none any more.
    pub fn suspect<P: Process>(&mut self, cx: &mut Context<'_, P>, peer: NodeId) -> bool {
        self.suspects.insert(peer);
        if self.leader != Some(peer) {
            return false;
        }
        self.passed_over.insert(peer);
        self.forget(cx);
        true
    }

    /// Takes note that a suspicion was lifted. True if the peer is the one to lead: it outranks the leader, or it
    /// was passed over and nobody leads.
    pub fn restore<P: Process>(&mut self, cx: &Context<'_, P>, peer: NodeId) -> bool {
        self.suspects.remove(&peer);
        let passed_over = self.passed_over.remove(&peer);
        self.outranks_leader(cx, peer) || passed_over && self.leader.is_none()
    }

    /// Whether this one would make a better leader than the one this process believes in.
    fn outranks_leader<P: Process>(&self, cx: &Context<'_, P>, peer: NodeId) -> bool {
        self.leader.is_some_and(|leader| cx.view().outranks(peer, leader))
    }

    /// Whether ranks have changed so that somebody other than the leader should lead, and this
    /// process is the one to notice: the leader itself, or one that outranks it now.
    pub fn is_overtaken<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        match self.leader {
            Some(leader) if leader == cx.me() => !self.is_best(cx),
            _ => self.outranks_leader(cx, cx.me()),
        }
    }
}
