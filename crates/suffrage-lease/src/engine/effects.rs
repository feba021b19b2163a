//! The effects of the voter and the candidates of one node.

use std::collections::VecDeque;

use suffrage_core::{Announcement, Attribute, Context, NodeId, Rng, Time};

use super::Engine;
use super::election::ElectionIndex;
use super::grants::{VoterReport, VoterReports};
use crate::candidate::Effects as CandidateEffects;
use crate::message::{Ask, Body, Grant, Header, Message, Name, Reply};
use crate::voter::{Effects as VoterEffects, Saved};

/// Messages of a node to itself, in order. They are delivered within the same input.
pub(super) type Loopback = VecDeque<Message>;

/// The effects of a voter or a candidate during one input.
pub(super) struct NodeEffects<'e, 'v> {
    pub(super) cx: &'e mut Context<'v, Engine>,
    loopback: &'e mut Loopback,
    /// The header of the node's messages.
    header: Header,
    /// The election of the candidate; none for the voter, which names the election of each reply.
    election: Option<(ElectionIndex, Name)>,
    /// Whether the candidate has stepped down.
    pub(super) stepped_down: bool,
    /// Whether the candidate has learned who leads, or leads itself.
    pub(super) learned_leader: bool,
    /// The changes that the voter has reported.
    pub(super) reports: VoterReports,
}

impl<'e, 'v> NodeEffects<'e, 'v> {
    pub(super) fn of_node(
        cx: &'e mut Context<'v, Engine>,
        loopback: &'e mut Loopback,
        header: Header,
    ) -> Self {
        NodeEffects {
            cx,
            loopback,
            header,
            election: None,
            stepped_down: false,
            learned_leader: false,
            reports: VoterReports::default(),
        }
    }

    pub(super) fn of_candidate(
        cx: &'e mut Context<'v, Engine>,
        loopback: &'e mut Loopback,
        header: Header,
        index: ElectionIndex,
        name: Name,
    ) -> Self {
        NodeEffects { election: Some((index, name)), ..NodeEffects::of_node(cx, loopback, header) }
    }

    pub(super) fn deliver(&mut self, to: NodeId, name: Name, body: Body) {
        let message = Message { header: self.header, name, body };
        if to == self.cx.me() {
            self.loopback.push_back(message);
        } else {
            self.cx.send(to, message);
        }
    }
}

impl VoterEffects for NodeEffects<'_, '_> {
    fn save(&mut self, saved: &Saved) {
        self.cx.save(saved.clone());
    }
    fn begin_save(&mut self, saved: &Saved) -> bool {
        self.cx.begin_save(saved.clone())
    }
    fn reply(&mut self, to: NodeId, name: Name, reply: Reply) {
        self.deliver(to, name, Body::Reply(reply));
    }
    fn grant_changed(&mut self, name: Name, grant: Option<Grant>) {
        self.reports.0.push((name, VoterReport::Granted(grant)));
    }
    fn forgotten(&mut self, name: Name) {
        self.reports.0.push((name, VoterReport::Forgotten));
    }
}

impl CandidateEffects for NodeEffects<'_, '_> {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        if let Some((_, name)) = self.election {
            self.deliver(voter, name, Body::Ask(ask));
        }
    }
    fn claim(&mut self, leader: NodeId, attribute: Attribute) {
        if let Some((_, name)) = self.election {
            self.deliver(leader, name, Body::Claim { attribute });
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
