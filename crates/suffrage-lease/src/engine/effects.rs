//! Carries out what a voter and a candidate of one node do.

use std::collections::VecDeque;

use suffrage_core::{Announcement, Attribute, NodeId, Rng, Span, Term, Time};
use suffrage_lease::{Ask, Body, CandidateEffects, Message, Name, Reply, Saved, Token, VoterEffects};

use crate::lease::output::{Event, Output};

/// Carries out what either role does about one input. What a node says to itself needs no message.
pub(super) struct Office<'o> {
    me: NodeId,
    name: Name,
    now: Time,
    own: &'o mut VecDeque<Message>,
    rng: &'o mut Rng,
    out: &'o mut Output,
    /// What the candidate has told the world. Nothing, nearly always: then it takes no memory.
    announced: Vec<Announcement>,
    lead_until: Option<Time>,
    /// Whether the candidate has asked for anything that is answered.
    pub(super) asked: bool,
}

impl<'o> Office<'o> {
    pub(super) fn new(
        me: NodeId,
        name: Name,
        now: Time,
        own: &'o mut VecDeque<Message>,
        rng: &'o mut Rng,
        out: &'o mut Output,
    ) -> Office<'o> {
        let announced = Vec::new();
        Office { me, name, now, own, rng, out, announced, lead_until: None, asked: false }
    }

    pub(super) fn me(&self) -> NodeId {
        self.me
    }

    /// Whether the candidate has ceased to lead.
    pub(super) fn has_lost(&self) -> bool {
        self.announced.contains(&Announcement::SteppedDown)
    }

    fn send(&mut self, to: NodeId, name: Name, body: Body) {
        let message = Message { name, body };
        if to == self.me {
            self.own.push_back(message);
        } else {
            self.out.mail.push(to, &message);
        }
    }

    /// What has become of the election, in order; the lease was asked for at that moment.
    pub(super) fn news(self, asked: Time) -> (Vec<Announcement>, Option<Lead>) {
        let took = self.now.since(asked);
        (self.announced, self.lead_until.map(|valid_until| Lead { valid_until, took }))
    }
}

/// Until when a candidate leads, and how long a majority took to say so.
#[derive(Clone, Copy)]
pub(super) struct Lead {
    pub(super) valid_until: Time,
    pub(super) took: Span,
}

/// What an announcement means here.
pub(super) fn event(me: NodeId, announced: Announcement, lead: Option<Lead>) -> Event {
    match (announced, lead) {
        (Announcement::Elected { leader, term }, Some(Lead { valid_until, took })) if leader == me => {
            Event::Led { token: token(term), valid_until, took }
        }
        (Announcement::Elected { leader, term }, _) => Event::Follows { leader, token: token(term) },
        (Announcement::SteppedDown, _) => Event::Lost,
        (Announcement::Undecided, _) => Event::Nobody,
    }
}

/// The term of an announcement is the token.
fn token(term: Term) -> Token {
    Token::after(term.0.saturating_sub(1))
}

impl VoterEffects for Office<'_> {
    fn save(&mut self, saved: Saved) {
        self.out.save = Some(saved);
    }
    fn reply(&mut self, to: NodeId, name: Name, reply: Reply) {
        self.send(to, name, Body::Reply(reply));
    }
}

impl CandidateEffects for Office<'_> {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        self.asked |= !matches!(ask, Ask::Release { .. });
        self.send(voter, self.name, Body::Ask(ask));
    }
    fn claim(&mut self, leader: NodeId, attribute: Attribute) {
        self.send(leader, self.name, Body::Claim { attribute });
    }
    fn announce(&mut self, announcement: Announcement) {
        self.announced.push(announcement);
    }
    fn lead_until(&mut self, end: Time) {
        self.lead_until = Some(end);
    }
    fn rng(&mut self) -> &mut Rng {
        self.rng
    }
}
