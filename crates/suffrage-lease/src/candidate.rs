//! A candidate of one election: waits for its turn, contends, leads, renews, hands over, and waits again.
//!
//! ```text
//!              Vacant, or told to              majority promised              majority accepted in time
//!   waiting ──────────────────────▶ preparing ──────────────────▶ proposing ──────────────────────────▶ leading
//!      ▲        Held, Rejected or no answer │                         │      lease over, released,      │ │
//!      └────────────────────────────────────┴─────────────────────────┴──────────────────────────────── ┘ │
//!                                                                       renews; prepares a greater token ◀┘
//! ```
//!
//! Whatever happens, [`next_due`](Candidate::next_due) names a moment at which it will do something: there is
//! no candidate that has given up.

mod round;

use std::sync::Arc;

use self::round::{Attempt, Measured, Round, Voters};
use super::message::{Ask, Grant, Reply, Request, Token};
use super::timings::{Bug, Timings};
use suffrage_core::{Announcement, Attribute, NodeId, Rng, Span, Time};

/// Carries out what a candidate does.
pub trait Effects {
    /// Sends to a voter.
    fn ask(&mut self, voter: NodeId, ask: Ask);
    /// Asks the leader to hand over.
    fn claim(&mut self, leader: NodeId, attribute: Attribute);
    /// Tells the world what it believes.
    fn announce(&mut self, announcement: Announcement);
    /// Says until when it leads by its own clock.
    fn lead_until(&mut self, end: Time);
    /// The source of chance.
    fn rng(&mut self) -> &mut Rng;
}

/// The most voters there can be.
pub const MOST_VOTERS: usize = 64;

/// What a leader holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The fencing token.
    pub token: Token,
    /// Until when, by the leader's own clock.
    pub valid_until: Time,
}

/// How many unanswered attempts to renew are kept at most: then every other one is dropped, but for the oldest.
const MOST_ATTEMPTS: usize = 8;

/// Whether a lease from before the candidate began may still be somebody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Past {
    /// None is, or it does not matter: whoever it led for ended with it.
    Over,
    /// One may be; and whether it is to contend as soon as none is.
    Open { eager: bool },
}

/// How far a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It waits: for its turn, for the next poll, or for a while after a defeat.
    Waiting,
    /// It asks who leads.
    Enquiring,
    /// It asks for a promise.
    Preparing,
    /// It asks for a lease.
    Proposing,
    /// It leads, and there is nothing to do.
    Leading,
}

/// A candidate. Inputs: [`new`](Candidate::new) once, then the `on_…` methods and the wishes of the
/// application: [`contend`](Candidate::contend), [`release`](Candidate::release),
/// [`transfer`](Candidate::transfer), [`set_healthy`](Candidate::set_healthy),
/// [`set_attribute`](Candidate::set_attribute).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    me: NodeId,
    timings: Timings,
    /// The same for very many candidates of one process.
    voters: Arc<[NodeId]>,
    attribute: Attribute,
    healthy: bool,
    past: Past,
    /// The greatest token it has heard of.
    greatest: u64,
    request: Request,
    round: Round,
    /// When the last question was asked.
    asked: Time,
    /// How long it waits for answers: longer once some have come too late.
    wait: Span,
    /// The question by which it learns how long answers take.
    measured: Option<Measured>,
    lease: Option<Lease>,
    /// The request that was won last: a late `Rejected` still counts.
    won: Option<Request>,
    /// Whom it believes to lead, if it does not itself.
    leader: Option<Grant>,
    /// Whether its last enquiry left open if that one still leads.
    doubts: bool,
    /// How often in a row it contended in vain.
    defeats: u32,
    /// Whether it has asked a worse leader to hand over, and has not contended since.
    claimed: bool,
    /// How often it has contended in vain after that, and not led since.
    vain_claims: u8,
    /// Since when it has stood without interruption.
    stood_since: Time,
    /// Until when it lets others go first.
    stands_back_until: Time,
    next: Time,
}

impl Candidate {
    /// A candidate of this rank, which these voters elect or not.
    pub fn new(
        me: NodeId,
        voters: impl Into<Arc<[NodeId]>>,
        timings: Timings,
        attribute: Attribute,
        fx: &mut impl Effects,
        now: Time,
    ) -> Candidate {
        let voters = voters.into();
        assert!((1..=MOST_VOTERS).contains(&voters.len()), "there are 1 to {MOST_VOTERS} voters");
        let mut candidate = Candidate {
            me,
            timings,
            voters,
            attribute,
            healthy: true,
            past: Past::Over,
            greatest: 0,
            request: Request(fx.rng().bits()),
            round: Round::None,
            asked: now,
            wait: timings.round,
            measured: None,
            lease: None,
            won: None,
            leader: None,
            doubts: false,
            defeats: 0,
            claimed: false,
            vain_claims: 0,
            stood_since: now,
            stands_back_until: now,
            next: now,
        };
        candidate.next = now + timings.gap.scale(fx.rng().unit());
        candidate
    }

    /// The same, but that clients hold its leases, and may have outlived the process of this id that led for them
    /// before it crashed. Voters would let the candidate have its own lease again at once; it contends only after it
    /// has heard that no majority holds one for it any more. The clients have ceased to believe in theirs by then.
    #[must_use]
    pub fn wait_out_previous_holder(self) -> Candidate {
        match self.timings.bug {
            Some(Bug::SkipWaitOut) => self,
            _ => Candidate { past: Past::Open { eager: false }, ..self },
        }
    }

    /// When [`on_due`](Candidate::on_due) is to be called next.
    pub fn next_due(&self) -> Time {
        self.next
    }

    /// What it holds, if it leads. Look at its own clock before believing it.
    pub fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// Whom it believes to lead, if it does not itself.
    pub fn leader(&self) -> Option<Grant> {
        self.leader
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        match (&self.round, self.lease) {
            (Round::None, Some(_)) => Stage::Leading,
            (Round::None, None) => Stage::Waiting,
            (Round::Enquiry { .. }, _) => Stage::Enquiring,
            (Round::Preparation { .. }, _) => Stage::Preparing,
            (Round::Proposal { .. }, _) => Stage::Proposing,
        }
    }

    /// How good a leader it would be.
    pub fn attribute(&self) -> Attribute {
        self.attribute
    }

    /// Until when it lets others go first, having handed over.
    pub fn stands_back_until(&self) -> Time {
        self.stands_back_until
    }

    /// When it last asked voters for anything.
    pub fn asked_at(&self) -> Time {
        self.asked
    }

    /// The longest that it waits for answers: a share of the lease.
    pub fn longest_round(&self) -> Span {
        self.timings.longest_round()
    }

    /// Asks who leads at this moment if it would only later: there may be news. Asking changes nothing.
    pub fn look_by(&mut self, when: Time) {
        if self.stage() == Stage::Waiting {
            self.next = self.next.min(when);
        }
    }

    fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Whether so many refusals leave no majority.
    fn is_lost(&self, refused: Voters) -> bool {
        self.voters.len() - refused.len() < self.majority()
    }

    fn ask_all(&self, fx: &mut impl Effects, ask: Ask) {
        for &voter in &*self.voters {
            fx.ask(voter, ask);
        }
    }

    fn next_request(&mut self) -> Request {
        self.request = Request(self.request.0.wrapping_add(1));
        self.request
    }

    /// Whether it is there to be elected.
    fn stands(&self, now: Time) -> bool {
        self.healthy && now >= self.stands_back_until
    }

    /// Somewhere from half of this to all of it.
    fn about(fx: &mut impl Effects, span: Span) -> Span {
        span.scale(0.5 + fx.rng().unit() / 2.0)
    }

    /// Whether it asks for a promise or a lease.
    fn is_contending(&self) -> bool {
        matches!(self.round, Round::Preparation { .. } | Round::Proposal { .. })
    }

    /// Whether the round asks for the lease that it holds already, once more.
    fn renews(&self) -> bool {
        matches!((&self.round, self.lease), (Round::Proposal { token, .. }, Some(lease)) if lease.token == *token)
    }

    /// A voter has answered this request. If a majority has, and that took longer than the candidate waits for answers,
    /// they were in vain: from now on it waits for longer. Where no answer comes at all, that would not help.
    fn grow_wait(&mut self, now: Time, place: usize, request: Request) {
        let majority = self.majority();
        let Some(measured) = self.measured.as_mut().filter(|measured| measured.request == request) else {
            return;
        };
        measured.answered.add(place);
        if measured.answered.len() >= majority {
            let took = now.since(measured.asked);
            self.measured = None;
            // A round never takes longer than the longest: the candidate itself was paused.
            if took > self.wait && took <= self.timings.longest_round() {
                self.wait = (took * 2).min(self.timings.longest_round());
                if self.round != Round::None && !self.renews() {
                    self.next = self.next.max(self.asked + self.wait);
                }
            }
        }
    }

    /// A majority has answered within this time: it need not wait for much longer. Some answers take longer than others,
    /// so that it does not forget at once how long they took.
    fn shrink_wait(&mut self, took: Span) {
        let enough = (took * 4).max(self.timings.round);
        if enough < self.wait {
            self.wait = self.wait - Span::from_nanos((self.wait - enough).as_nanos().div_ceil(8));
        }
    }

    // What it does.

    fn enquire(&mut self, fx: &mut impl Effects, now: Time) {
        let request = self.next_request();
        self.round = Round::Enquiry { request, answered: Voters::default(), grants: Vec::new() };
        self.await_answers(now);
        let standing = self.stands(now).then_some(self.attribute);
        self.ask_all(fx, Ask::Enquire { request, standing });
    }

    fn prepare(&mut self, fx: &mut impl Effects, now: Time) {
        let (request, token) = (self.next_request(), Token::after(self.greatest));
        self.greatest = token.number();
        let (promised, refused) = (Voters::default(), Voters::default());
        self.round = Round::Preparation { request, token, promised, refused, outbid: false };
        self.await_answers(now);
        self.ask_all(fx, Ask::Prepare { request, token, attribute: self.attribute });
    }

    /// "Notes its own clock, then sends": what it is granted, it is granted after this moment.
    fn propose(&mut self, fx: &mut impl Effects, now: Time, token: Token) {
        let earlier = self.unanswered(token);
        let request = self.next_request();
        let (accepted, refused) = (Voters::default(), Voters::default());
        self.round =
            Round::Proposal { request, token, noted: now, accepted, refused, outbid: false, earlier };
        let renewal = self.lease.is_some_and(|lease| lease.token == token);
        self.await_answers(now);
        if renewal {
            self.next = now + self.timings.round;
        }
        let (ttl, attribute) = (self.timings.ttl, self.attribute);
        self.ask_all(fx, Ask::Propose { request, token, ttl, attribute, renewal });
    }

    fn await_answers(&mut self, now: Time) {
        self.asked = now;
        // One that is older than any round was lost.
        let longest = self.timings.longest_round();
        if self.measured.is_none_or(|measured| now.since(measured.asked) > longest) {
            self.measured = Some(Measured { request: self.request, asked: now, answered: Voters::default() });
        }
        self.next = now + self.wait;
    }

    /// The attempts to renew the lease of this token that are not answered yet.
    fn unanswered(&mut self, renewed: Token) -> Vec<Attempt> {
        if !self.renews() {
            return Vec::new();
        }
        let Round::Proposal { request, token, noted, accepted, earlier, .. } = &mut self.round else {
            return Vec::new();
        };
        if *token != renewed {
            return Vec::new();
        }
        let mut attempts = std::mem::take(earlier);
        attempts.push(Attempt { request: *request, noted: *noted, accepted: *accepted });
        if attempts.len() > MOST_ATTEMPTS {
            let mut place = 0;
            attempts.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
        attempts
    }

    /// A majority has accepted: it leads, unless that took so long that it is over already.
    fn win(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        request: Request,
        (token, noted, outbid): (Token, Time, bool),
    ) {
        let noted = if self.timings.bug == Some(Bug::ValidityFromReply) { now } else { noted };
        let valid_until = noted + self.timings.drift.validity(self.timings.ttl);
        if now >= valid_until {
            // A leader gets here only if its clock was set back: what is asked later ends later. It must not give back
            // the grants that it leads by.
            return if self.lease.is_some() { self.prepare(fx, now) } else { self.lose(fx, now) };
        }
        let news = self.lease.is_none_or(|lease| lease.token != token);
        self.lease = Some(Lease { token, valid_until });
        self.leader = None;
        (self.defeats, self.claimed, self.vain_claims) = (0, false, 0);
        self.won = Some(request);
        self.round = Round::None;
        self.next = now.max(noted + self.timings.renew).min(valid_until);
        fx.lead_until(valid_until);
        if news {
            fx.announce(Announcement::Elected { leader: self.me, term: token.into() });
        }
        if outbid {
            self.prepare(fx, now);
        }
    }

    /// The lease is over by its own clock. Called before anything else is looked at.
    fn lapse(&mut self, fx: &mut impl Effects, now: Time) {
        if self.lease.is_some_and(|lease| now >= lease.valid_until) {
            self.step_down(fx, now);
            self.next = now;
        }
    }

    fn step_down(&mut self, fx: &mut impl Effects, now: Time) -> Option<Token> {
        let lease = self.lease.take()?;
        (self.round, self.won) = (Round::None, None);
        self.stood_since = now;
        fx.announce(Announcement::SteppedDown);
        Some(lease.token)
    }

    /// It contended in vain. What some voters may have granted is given back; then it waits, longer after
    /// every defeat and for a random time, so that of two that get into each other's way one comes first.
    fn lose(&mut self, fx: &mut impl Effects, now: Time) {
        assert!(self.lease.is_none(), "a leader does not give back the grants that it leads by");
        if let Round::Proposal { token, .. } = self.round {
            self.ask_all(fx, Ask::Release { token, to: None });
        }
        self.round = Round::None;
        let span = self.timings.gap * (1 << self.defeats.min(5));
        self.defeats += 1;
        self.vain_claims = self.vain_claims.saturating_add(u8::from(std::mem::take(&mut self.claimed)));
        self.next = now + Self::about(fx, span.min(self.timings.ttl.max(self.timings.gap)));
    }

    /// Believes in no leader any more, and says so if that is news.
    fn forget_leader(&mut self, fx: &mut impl Effects) {
        if self.leader.take().is_some() {
            fx.announce(Announcement::Undecided);
        }
    }

    fn follow(&mut self, fx: &mut impl Effects, grant: Grant) {
        let known = self.leader.replace(grant);
        if known.map(|known| (known.holder, known.token)) != Some((grant.holder, grant.token)) {
            fx.announce(Announcement::Elected { leader: grant.holder, term: grant.token.into() });
        }
    }

    // What the application wishes.

    /// Contends now, unless it leads, is not well, or is at it already.
    pub fn contend(&mut self, fx: &mut impl Effects, now: Time) {
        self.lapse(fx, now);
        if self.lease.is_none() && self.healthy && !self.is_contending() {
            self.stands_back_until = now;
            match self.past {
                Past::Over => self.prepare(fx, now),
                Past::Open { .. } => {
                    self.past = Past::Open { eager: true };
                    // Answers to a question that is under way tell as much.
                    if self.round == Round::None {
                        self.enquire(fx, now);
                    }
                }
            }
        }
    }

    /// Stops leading, and lets others go first for the length of a lease.
    pub fn release(&mut self, fx: &mut impl Effects, now: Time) {
        self.hand_over(fx, now, None);
    }

    /// Stops leading in favour of another. If that one does not take over, whoever is next does.
    pub fn transfer(&mut self, fx: &mut impl Effects, now: Time, to: NodeId) {
        if to != self.me {
            self.hand_over(fx, now, Some(to));
        }
    }

    fn hand_over(&mut self, fx: &mut impl Effects, now: Time, to: Option<NodeId>) {
        self.lapse(fx, now);
        // In this order: it does not believe that it leads any more before anybody is told.
        let renewal = (self.timings.bug == Some(Bug::ReviveLease)).then(|| self.round.clone());
        let proposed = match self.round {
            Round::Proposal { token, .. } => Some(token),
            _ => None,
        };
        let Some(token) = self.step_down(fx, now) else { return };
        if let Some(renewal) = renewal {
            self.round = renewal;
        }
        self.ask_all(fx, Ask::Release { token, to });
        // Voters may have granted a greater token in its place, which the candidate has never led with.
        if let Some(token) = proposed.filter(|&proposed| proposed != token) {
            self.ask_all(fx, Ask::Release { token, to });
        }
        self.stands_back_until = now + self.timings.ttl;
        self.next = now + self.timings.gap;
    }

    /// The application is well, or is not: one that is not steps down, and does not stand.
    pub fn set_healthy(&mut self, fx: &mut impl Effects, now: Time, healthy: bool) {
        if healthy == std::mem::replace(&mut self.healthy, healthy) {
            return;
        }
        (self.stood_since, self.claimed, self.vain_claims) = (now, false, 0);
        if healthy {
            self.stands_back_until = now;
            self.next = self.next.min(now);
            return;
        }
        self.hand_over(fx, now, None);
        if self.is_contending() {
            self.lose(fx, now);
        }
    }

    /// How good a leader it would be has changed.
    pub fn set_attribute(&mut self, now: Time, attribute: Attribute) {
        if attribute != std::mem::replace(&mut self.attribute, attribute) {
            (self.stood_since, self.claimed, self.vain_claims) = (now, false, 0);
        }
    }

    // What reaches it.

    /// The moment of [`next_due`](Candidate::next_due) has come.
    pub fn on_due(&mut self, fx: &mut impl Effects, now: Time) {
        self.lapse(fx, now);
        if now < self.next {
            return;
        }
        match (self.lease, &self.round) {
            // What takes longer than a round may be lost: asks again, from a later moment on.
            (Some(_), &Round::Proposal { token, outbid: false, .. }) => self.propose(fx, now, token),
            (Some(_), Round::Proposal { .. } | Round::Preparation { .. }) => self.prepare(fx, now),
            (Some(lease), _) => self.propose(fx, now, lease.token),
            (None, Round::Preparation { .. } | Round::Proposal { .. }) => self.lose(fx, now),
            (None, Round::Enquiry { .. }) => self.conclude(fx, now),
            (None, Round::None) => self.enquire(fx, now),
        }
        // The end of a lease is never slept through.
        if let Some(lease) = self.lease {
            self.next = self.next.min(lease.valid_until);
        }
    }

    /// A voter answers, or wakes it.
    pub fn on_reply(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, reply: Reply) {
        let Some(place) = self.voters.iter().position(|&voter| voter == from) else { return };
        self.lapse(fx, now);
        if let Some(request) = reply.request() {
            self.grow_wait(now, place, request);
        }
        match reply {
            Reply::Promised { request } => self.on_promised(fx, now, place, request),
            Reply::Accepted { request, .. } => self.on_accepted(fx, now, place, request),
            Reply::Held { request, grant, .. } => self.on_held(fx, now, place, request, grant),
            Reply::Rejected { request, promised } => self.on_rejected(fx, now, place, request, promised),
            Reply::Status { request, promised, grant } => {
                self.greatest = self.greatest.max(promised);
                self.on_status(fx, now, place, request, grant);
            }
            Reply::Vacant { promised } => {
                self.greatest = self.greatest.max(promised);
                self.wake_up(fx, now);
            }
            // For observers.
            Reply::Watched { .. } | Reply::Changed { .. } => {}
        }
        if let Some(lease) = self.lease {
            self.next = self.next.min(lease.valid_until);
        }
    }

    fn on_promised(&mut self, fx: &mut impl Effects, now: Time, place: usize, answered: Request) {
        let majority = self.majority();
        match &mut self.round {
            Round::Preparation { request, token, promised, .. } if *request == answered => {
                promised.add(place);
                let token = *token;
                if promised.len() >= majority {
                    self.shrink_wait(now.since(self.asked));
                    self.propose(fx, now, token);
                }
            }
            _ => {}
        }
    }

    fn on_accepted(&mut self, fx: &mut impl Effects, now: Time, place: usize, answered: Request) {
        let majority = self.majority();
        let Round::Proposal { request, token, noted, accepted, outbid, earlier, .. } = &mut self.round else {
            return;
        };
        let (noted, accepted) = if *request == answered {
            (*noted, accepted)
        } else {
            let attempt = earlier.iter_mut().find(|attempt| attempt.request == answered);
            let Some(Attempt { noted, accepted, .. }) = attempt else { return };
            (*noted, accepted)
        };
        accepted.add(place);
        let (token, outbid) = (*token, *outbid);
        if accepted.len() >= majority {
            self.shrink_wait(now.since(noted));
            self.win(fx, now, answered, (token, noted, outbid));
        }
    }

    fn on_held(&mut self, fx: &mut impl Effects, now: Time, place: usize, answered: Request, grant: Grant) {
        self.greatest = self.greatest.max(grant.token.number());
        self.on_refused(fx, now, place, answered);
    }

    fn on_rejected(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        place: usize,
        answered: Request,
        greater: u64,
    ) {
        self.greatest = self.greatest.max(greater);
        // A renewal that was won without this voter: it can be won over with a greater token.
        if self.lease.is_some() && self.won == Some(answered) && self.round == Round::None {
            return self.prepare(fx, now);
        }
        match &mut self.round {
            Round::Preparation { request, outbid, .. } => *outbid |= *request == answered,
            Round::Proposal { request, outbid, earlier, .. } => {
                *outbid |= *request == answered || earlier.iter().any(|attempt| attempt.request == answered);
            }
            Round::None | Round::Enquiry { .. } => {}
        }
        self.on_refused(fx, now, place, answered);
    }

    /// Contends no longer than it can win.
    fn on_refused(&mut self, fx: &mut impl Effects, now: Time, place: usize, answered: Request) {
        let (refused, outbid) = match &mut self.round {
            Round::Preparation { request, refused, outbid, .. }
            | Round::Proposal { request, refused, outbid, .. }
                if *request == answered =>
            {
                refused.add(place);
                (*refused, *outbid)
            }
            _ => return,
        };
        if !self.is_lost(refused) {
            return;
        }
        match (self.lease, outbid) {
            // Its lease still holds: it prepares a greater token, and goes on leading.
            (Some(_), true) => self.prepare(fx, now),
            // Others hold what is left; it tries again when the round is over.
            (Some(_), false) => {}
            // It did not know how far the tokens are. That may happen to it once.
            (None, true) if self.defeats == 0 && matches!(self.round, Round::Preparation { .. }) => {
                self.defeats = 1;
                self.prepare(fx, now);
            }
            (None, _) => self.lose(fx, now),
        }
    }

    fn on_status(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        place: usize,
        answered: Request,
        grant: Option<Grant>,
    ) {
        let (voters, majority) = (self.voters.len(), self.majority());
        let Round::Enquiry { request, answered: heard, grants } = &mut self.round else { return };
        if *request != answered {
            return;
        }
        let before = heard.len();
        heard.add(place);
        if heard.len() > before {
            grants.extend(grant);
        }
        let most = grants.iter().map(|grant| believers(grants, grant.holder)).max().unwrap_or(0);
        // One that only wants to know that it holds nothing any more need not hear all.
        let eager = self.past == Past::Open { eager: true };
        let vacant = eager && grants.is_empty() && heard.len() >= majority;
        if most >= majority || heard.len() == voters || vacant {
            self.conclude(fx, now);
        }
    }

    /// A majority read: whoever holds the leases of a majority leads, as of now. If too many answers are missing
    /// to tell, it asks once more before it gives up whom it believes in.
    fn conclude(&mut self, fx: &mut impl Effects, now: Time) {
        let Round::Enquiry { answered, grants, .. } = std::mem::replace(&mut self.round, Round::None) else {
            return;
        };
        let majority = self.majority();
        if answered.len() >= majority {
            self.shrink_wait(now.since(self.asked));
        }
        let silent = self.voters.len() - answered.len();
        let may_still_lead = |leader: Grant| believers(&grants, leader.holder) + silent >= majority;
        let open = self.leader.is_some_and(may_still_lead);
        let eager = self.past == Past::Open { eager: true };
        if believers(&grants, self.me) + silent < majority {
            self.past = Past::Over;
        }
        let may_contend = self.past == Past::Over && self.stands(now);
        let elected = grants.iter().filter(|grant| believers(&grants, grant.holder) >= majority);
        let elected = elected.max_by_key(|grant| grant.token).copied();
        match elected {
            // From before a crash: it can have it again at once, with a greater token.
            Some(grant) if grant.holder == self.me && may_contend => self.prepare(fx, now),
            Some(grant) if grant.holder != self.me => {
                self.follow(fx, grant);
                (self.defeats, self.doubts) = (0, false);
                self.next = now + Self::about(fx, self.timings.poll);
                self.claim(fx, now, grant);
            }
            None if eager && may_contend => {
                self.forget_leader(fx);
                self.prepare(fx, now);
            }
            _ if open && !self.doubts => {
                self.doubts = true;
                self.enquire(fx, now);
            }
            _ => {
                self.doubts = false;
                self.forget_leader(fx);
                self.next = now + Self::about(fx, self.timings.gap * 2);
            }
        }
    }

    /// Asks a worse leader to hand over, if it has stood for long enough: one that comes and goes never has. One that
    /// was defeated after the leader had handed over waits for longer the next time: voters may not elect it at all.
    fn claim(&mut self, fx: &mut impl Effects, now: Time, grant: Grant) {
        let Some(delay) = self.timings.failback else { return };
        let steady = now.since(self.stood_since) >= delay * (1 << self.vain_claims.min(16));
        if steady && self.stands(now) && self.attribute > grant.attribute {
            self.claimed = true;
            fx.claim(grant.holder, self.attribute);
        }
    }

    /// Another candidate asks it to hand over.
    pub fn on_claim(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, attribute: Attribute) {
        if attribute > self.attribute {
            self.transfer(fx, now, from);
        }
    }

    /// A voter has said that nobody leads: it contends, if it stands.
    pub fn wake_up(&mut self, fx: &mut impl Effects, now: Time) {
        if self.stands(now) && self.lease.is_none() {
            self.forget_leader(fx);
            self.contend(fx, now);
        }
    }
}

/// How many of the grants are to this one.
fn believers(grants: &[Grant], holder: NodeId) -> usize {
    grants.iter().filter(|grant| grant.holder == holder).count()
}

#[cfg(test)]
mod tests;
