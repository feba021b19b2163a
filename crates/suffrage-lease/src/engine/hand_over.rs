//! Hand-overs: by commands of the application, on behalf of other nodes, and when the node leaves an election.

use suffrage_core::{Announcement, Context, NodeId, Span, Time};

use super::effects::NodeEffects;
use super::election::ElectionIndex;
use super::{Engine, voting};
use crate::message::{Body, Grant, Name, Token};

impl Engine {
    /// Hands over with notice: see [`Candidate::hand_over`](crate::candidate::Candidate::hand_over). The node then
    /// yields to others for the length of a lease.
    pub(super) fn hand_over(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex, to: Option<NodeId>) {
        let now = cx.now();
        self.input(cx, index, |state, fx| {
            if to != Some(fx.cx.me()) {
                state.start_yield(state.ttl);
            }
            state.candidate.hand_over(fx, now, to);
        });
    }

    /// Releases the lease at once, because the application does not work, and stops to stand.
    pub(super) fn release(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex, to: Option<NodeId>) {
        let now = cx.now();
        let Some(window) = self.handover_window(index) else { return };
        let to = to.filter(|&to| to != self.me);
        self.input(cx, index, |state, fx| {
            state.start_yield(if to.is_some() { state.ttl } else { window });
            (state.standing, state.campaign_at, state.woken) = (false, None, false);
            state.candidate.release(fx, now, to);
            state.candidate.set_healthy(fx, now, false);
        });
    }

    /// How long a node yields after it has withdrawn as a leader.
    pub(super) fn handover_window(&self, index: ElectionIndex) -> Option<Span> {
        let state = self.election(index)?;
        let nobody_waits = match voting(&self.voter, self.me) {
            // A waiting candidate enquires at every voter that it can reach, so this node's voter has queued it.
            Some(voter) => voter.waiters(state.name).next().is_none(),
            // Voters tell every other node with each acceptance. Who begins to wait after the last one may wait for one more
            // leadership, whose holder is told.
            None => !state.contended && self.configuration().voter(self.me).is_none(),
        };
        Some(if nobody_waits { Span::ZERO } else { self.yield_window(state.ttl) })
    }

    /// Leaves an election. If the node leads, it hands over first, and leaves when it has.
    pub(super) fn leave(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex) {
        self.change_standing(cx, index, |state| {
            (state.standing, state.leaving, state.rejoin) = (false, true, None);
        });
    }

    /// Leaves an election that the node was told to leave, unless it still holds the lease.
    pub(super) fn finish_leaving(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex) {
        let Some(slot) = self.elections.get_mut(index.index()) else { return };
        let Some(state) = slot.take_if(|state| state.leaving && state.candidate.lease().is_none()) else {
            return;
        };
        if state.leader().is_some() {
            cx.announce_in(index.index(), Announcement::Undecided);
        }
        self.timers.set(index.0, state.armed, None);
        self.names.remove(&state.name);
        if voting(&self.voter, self.me).is_some_and(|voter| voter.grant(cx.now(), state.name).is_some()) {
            self.grants.on_left(cx.now(), state.name, state.name().clone());
        }
        self.free_indices.push(index);
        self.update_value(cx, state.name, false);
        if let Some(config) = state.rejoin.as_deref() {
            self.join(cx, state.name(), Some(*config));
        }
    }

    /// The holder of the lease of this name: as the node's voter knows it, or as its candidate does if it does not vote.
    pub fn holder(&self, now: Time, name: Name) -> Option<Grant> {
        match voting(&self.voter, self.me).filter(|voter| now >= voter.silent_until()) {
            Some(voter) => voter.grant(now, name).map(|(grant, _)| grant),
            None => self.election(self.index_of(name)?)?.leader(),
        }
    }

    /// Asks the leader of an election to hand over to the node `to`, or to the next candidate. Returns the leader, if this
    /// node knows one.
    pub fn ask_to_hand_over(
        &mut self,
        cx: &mut Context<'_, Self>,
        name: Name,
        to: Option<NodeId>,
    ) -> Option<Grant> {
        let grant = self.holder(cx.now(), name)?;
        if grant.holder != self.me {
            let header = self.membership.header();
            let mut fx = NodeEffects::of_node(cx, &mut self.loopback, header);
            fx.deliver(grant.holder, name, Body::HandOver { token: grant.token, to });
        } else if grant.boot == self.membership.boot {
            self.on_hand_over(cx.now(), name, grant.token, to);
        }
        Some(grant)
    }

    /// A node asks this one to hand over, if it leads with this token.
    pub(super) fn on_hand_over(&mut self, now: Time, name: Name, token: Token, to: Option<NodeId>) {
        let Some(index) = self.index_of(name) else { return };
        if self.lease(now, index).is_some_and(|lease| lease.token == token) {
            self.requested.push((index, to));
        }
    }

    /// Takes the requests of other nodes to hand over, with the targets. Clients may lead through this node, so that the
    /// caller decides how: by [`Action::Resign`](super::Action) and [`Action::Transfer`](super::Action) if none does.
    pub fn take_hand_over_requests(&mut self) -> Vec<(ElectionIndex, Option<NodeId>)> {
        std::mem::take(&mut self.requested)
    }
}
