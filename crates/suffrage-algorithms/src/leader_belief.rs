//! Beliefs of a process of the bully and ring families about the leader and about failed peers.

use std::collections::BTreeSet;

use suffrage_core::{Announcement, Context, NodeId, Process, Term};

/// The leader that a process believes in, and the peers that its failure detector suspects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaderBelief {
    leader: Option<NodeId>,
    /// The highest observed term.
    term: Term,
    suspects: BTreeSet<NodeId>,
    /// The suspected peers whose leadership ended or whose claim was rejected. If such a peer turns out to be alive,
    /// it must be asked again.
    rejected: BTreeSet<NodeId>,
}

impl LeaderBelief {
    /// The leader that this process believes in.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Returns whether this process believes that it leads.
    pub fn is_leader<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        self.leader == Some(cx.me())
    }

    /// The highest observed term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Raises the highest observed term to `term`.
    pub fn observe_term(&mut self, term: Term) {
        self.term = self.term.max(term);
    }

    /// Returns whether the failure detector suspects this peer.
    pub fn is_suspected(&self, peer: NodeId) -> bool {
        self.suspects.contains(&peer)
    }

    /// Returns whether all peers that rank above this process are suspected: the process *knows* that it is the
    /// best.
    pub fn is_best<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        cx.view().above().all(|peer| self.is_suspected(peer))
    }

    /// Sets the leader, and announces a change of leader or term.
    pub fn set_leader<P: Process>(&mut self, cx: &mut Context<'_, P>, leader: NodeId, term: Term) {
        let changed = self.leader != Some(leader) || term > self.term;
        self.observe_term(term);
        self.leader = Some(leader);
        if !self.rejected.is_empty() {
            self.rejected.clear();
        }
        if changed {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    /// Clears the leader, and announces the change.
    pub fn clear_leader<P: Process>(&mut self, cx: &mut Context<'_, P>) {
        if let Some(leader) = self.leader.take() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    /// Records that a suspected peer's claim to lead was rejected: the claim may be a delayed message of a crashed
    /// process.
    pub fn reject_claim(&mut self, suspect: NodeId) {
        self.rejected.insert(suspect);
    }

    /// Records a suspicion. Returns true if the peer was the leader; there is no leader any more.
    pub fn suspect<P: Process>(&mut self, cx: &mut Context<'_, P>, peer: NodeId) -> bool {
        self.suspects.insert(peer);
        if self.leader != Some(peer) {
            return false;
        }
        self.rejected.insert(peer);
        self.clear_leader(cx);
        true
    }

    /// Records the end of a suspicion. Returns true if the peer should lead: it outranks the leader, or its claim
    /// was rejected and there is no leader.
    pub fn restore<P: Process>(&mut self, cx: &Context<'_, P>, peer: NodeId) -> bool {
        self.suspects.remove(&peer);
        let rejected = self.rejected.remove(&peer);
        self.outranks_leader(cx, peer) || rejected && self.leader.is_none()
    }

    /// Returns whether the peer outranks the leader.
    fn outranks_leader<P: Process>(&self, cx: &Context<'_, P>, peer: NodeId) -> bool {
        self.leader.is_some_and(|leader| cx.view().outranks(peer, leader))
    }

    /// Returns whether a change of ranks calls for another leader, and this process must react: it is the leader
    /// itself, or it outranks the leader now.
    pub fn should_replace_leader<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        match self.leader {
            Some(leader) if leader == cx.me() => !self.is_best(cx),
            _ => self.outranks_leader(cx, cx.me()),
        }
    }
}
