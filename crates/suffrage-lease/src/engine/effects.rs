//! The effects of the voter and the candidates of one node.

use std::collections::VecDeque;

use suffrage_core::{Announcement, Attribute, Context, NodeId, Rng, Time};

use super::Engine;
use super::election::ElectionIndex;
use crate::candidate::Effects as CandidateEffects;
use crate::message::{Ask, Body, Message, Name, Reply};
use crate::voter::{Effects as VoterEffects, Saved};

/// Messages of a node to itself, in order. They are delivered within the same input.
pub(super) type Loopback = VecDeque<Message>;

/// The effects of a voter or a candidate during one input.
pub(super) struct NodeEffects<'e, 'v> {
    pub(super) cx: &'e mut Context<'v, Engine>,
    loopback: &'e mut Loopback,
    /// The election of the candidate; none for the voter, which names the election of each reply.
    election: Option<(ElectionIndex, Name)>,
    /// Whether the candidate has stepped down.
    pub(super) stepped_down: bool,
    /// Whether the candidate has learned who leads, or leads itself.
    pub(super) learned_leader: bool,
}

impl<'e, 'v> NodeEffects<'e, 'v> {
    pub(super) fn of_voter(cx: &'e mut Context<'v, Engine>, loopback: &'e mut Loopback) -> Self {
        NodeEffects { cx, loopback, election: None, stepped_down: false, learned_leader: false }
    }

    pub(super) fn of_candidate(
        cx: &'e mut Context<'v, Engine>,
        loopback: &'e mut Loopback,
        index: ElectionIndex,
        name: Name,
    ) -> Self {
        NodeEffects {
            cx,
            loopback,
            election: Some((index, name)),
            stepped_down: false,
            learned_leader: false,
        }
    }

    fn send(&mut self, to: NodeId, name: Name, body: Body) {
        let message = Message { name, body };
        if to == self.cx.me() {
            self.loopback.push_back(message);
        } else {
            self.cx.send(to, message);
        }
    }
}

impl VoterEffects for NodeEffects<'_, '_> {
    fn save(&mut self, saved: Saved) {
        self.cx.save(saved);
    }
    fn reply(&mut self, to: NodeId, name: Name, reply: Reply) {
        self.send(to, name, Body::Reply(reply));
    }
}

impl CandidateEffects for NodeEffects<'_, '_> {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        if let Some((_, name)) = self.election {
            self.send(voter, name, Body::Ask(ask));
        }
    }
    fn claim(&mut self, leader: NodeId, attribute: Attribute) {
        if let Some((_, name)) = self.election {
            self.send(leader, name, Body::Claim { attribute });
        }
    }
    fn announce(&mut self, announcement: Announcement) {
        self.stepped_down |= announcement == Announcement::SteppedDown;
        self.learned_leader |= announcement.leader().is_some();
        if let Some((index, _)) = self.election {
            self.cx.announce_in(index.index(), announcement);
        }
    }
    fn lead_until(&mut self, end: Time) {
        if let Some((index, _)) = self.election {
            self.cx.lead_until_in(index.index(), end);
        }
    }
    fn rng(&mut self) -> &mut Rng {
        self.cx.rng()
    }
}
