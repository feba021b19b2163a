//! A candidate of one election: it waits until a voter wakes it, contends, leads, renews and hands over.
//!
//! ```text
//!              Vacant, or a command            majority promised              majority accepted in time
//!   waiting ──────────────────────▶ preparing ──────────────────▶ proposing ──────────────────────────▶ leading
//!      ▲        Held, Rejected or no reply  │                         │      lease over, released,      │ │
//!      └────────────────────────────────────┴─────────────────────────┴──────────────────────────────── ┘ │
//!                                                                       renews; prepares a greater token ◀┘
//! ```
//!
//! In every state [`next_due`](Candidate::next_due) names the moment of the next step: a candidate never gives up.

mod hand_over;
mod round;
mod value;

use std::sync::Arc;

pub use self::hand_over::{HandOver, NOTICE_SLACK};
use self::round::{Attempt, Round, RttProbe, TtlLimits, Voters};
use super::message::{Ask, Boot, Grant, Reply, Request, Token};
use super::timings::{Bug, Timings};
use super::value::ValueVersion;
use suffrage_core::{Announcement, Attribute, NodeId, Rng, Span, Time};

/// The effects of a candidate.
pub trait Effects {
    /// Sends to a voter.
    fn ask(&mut self, voter: NodeId, ask: Ask);
    /// Asks the leader to hand over.
    fn claim(&mut self, leader: NodeId, attribute: Attribute);
    /// Announces the leader that the candidate believes in.
    fn announce(&mut self, announcement: Announcement);
    /// Reports the end of the lease, by the candidate's own clock.
    fn lead_until(&mut self, end: Time);
    /// The random number generator.
    fn rng(&mut self) -> &mut Rng;
}

/// The greatest number of voters.
pub const MAX_VOTERS: usize = 64;

/// The most times that failed claims double the fail-back delay. A candidate whose claims fail still claims every 64
/// delays.
const MAX_DOUBLINGS: u8 = 6;

/// The lease of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The fencing token.
    pub token: Token,
    /// The end of the lease, by the leader's own clock.
    pub valid_until: Time,
}

/// The greatest number of renewals in flight. Beyond it every other one is forgotten, but never the oldest.
const MAX_RENEWALS_IN_FLIGHT: usize = 8;

/// The stage of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Waits for a wake-up, for the next poll, or for the end of a back-off.
    Waiting,
    /// Has asked who leads.
    Enquiring,
    /// Has asked for promises.
    Preparing,
    /// Has asked for a lease, or for its renewal.
    Proposing,
    /// Leads, and no request is in flight.
    Leading,
}

/// A candidate. Inputs: [`new`](Candidate::new) once, then the `on_…` methods and the commands of the
/// application: [`contend`](Candidate::contend), [`hand_over`](Candidate::hand_over),
/// [`release`](Candidate::release), [`set_healthy`](Candidate::set_healthy),
/// [`set_attribute`](Candidate::set_attribute).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    me: NodeId,
    boot: Boot,
    timings: Timings,
    /// Shared by all candidates of a node.
    voters: Arc<[NodeId]>,
    attribute: Attribute,
    healthy: bool,
    /// The greatest token that the candidate has heard of.
    greatest: u64,
    request: Request,
    round: Round,
    /// When the last request was sent.
    asked_at: Time,
    /// How long the candidate waits for replies. It grows when replies come too late.
    reply_timeout: Span,
    /// The request by which the candidate measures the round trip.
    rtt_probe: Option<RttProbe>,
    lease: Option<Lease>,
    /// The voluntary hand-over that has begun. The lease is not renewed any more, and is released at its end.
    hand_over: Option<Box<HandOver>>,
    /// Whether the lease is pinned.
    pinned: bool,
    /// The last request that a majority accepted: a late `Rejected` to it still counts.
    won: Option<Request>,
    /// The leader that the candidate follows; none if it leads itself.
    leader: Option<Grant>,
    /// Whether the last enquiry left open if `leader` still leads.
    leader_in_doubt: bool,
    /// How often in a row the candidate was defeated.
    defeats: u16,
    /// Whether the candidate has asked a leader of lower rank to hand over, and has not contended since.
    claimed: bool,
    /// The number of claims after which the candidate was not elected, since it last led.
    failed_claims: u8,
    ttl_limits: TtlLimits,
    /// Since when the candidate has stood without interruption.
    stood_since: Time,
    /// Until when the candidate yields to others, after it has handed over.
    yield_until: Time,
    next: Time,
    /// The version of the candidate's value.
    value: ValueVersion,
    /// The version in the last proposal.
    told_value: ValueVersion,
}

impl Candidate {
    /// A candidate of this rank in an election of these voters.
    pub fn new(
        (me, boot): (NodeId, Boot),
        voters: impl Into<Arc<[NodeId]>>,
        timings: Timings,
        attribute: Attribute,
        fx: &mut impl Effects,
        now: Time,
    ) -> Candidate {
        let voters = voters.into();
        assert!((1..=MAX_VOTERS).contains(&voters.len()), "there are 1 to {MAX_VOTERS} voters");
        let mut candidate = Candidate {
            me,
            boot,
            timings,
            voters,
            attribute,
            healthy: true,
            greatest: 0,
            request: Request(fx.rng().bits()),
            round: Round::None,
            asked_at: now,
            reply_timeout: timings.round,
            rtt_probe: None,
            lease: None,
            hand_over: None,
            pinned: false,
            won: None,
            leader: None,
            leader_in_doubt: false,
            defeats: 0,
            claimed: false,
            failed_claims: 0,
            ttl_limits: TtlLimits::default(),
            stood_since: now,
            yield_until: now,
            next: now,
            value: ValueVersion::NONE,
            told_value: ValueVersion::NONE,
        };
        candidate.next = now + timings.gap.scale(fx.rng().unit());
        candidate
    }

    /// When [`on_due`](Candidate::on_due) is to be called next.
    pub fn next_due(&self) -> Time {
        self.next
    }

    /// The lease of a leader. The caller must compare `valid_until` with the candidate's clock.
    pub fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// The leader that the candidate follows; none if it leads itself.
    pub fn leader(&self) -> Option<Grant> {
        self.leader
    }

    /// The longest lease that voters grant, if so many of them refuse the candidate's longer ones that it cannot be
    /// elected. It does not contend until their replies say otherwise.
    pub fn granted_at_most(&self) -> Option<Span> {
        self.ttl_limits.longest().filter(|_| self.cannot_win(self.ttl_limits.refusing()))
    }

    /// Forgets the leader without an announcement: another participation of the same node will follow it.
    pub(crate) fn take_leader(&mut self) -> Option<Grant> {
        self.leader.take()
    }

    /// Follows this leader without an announcement: an earlier participation of the same node has announced it. The next
    /// enquiry confirms it or finds another.
    pub(crate) fn set_leader(&mut self, leader: Grant) {
        self.leader = Some(leader);
    }

    /// The stage.
    pub fn stage(&self) -> Stage {
        match (&self.round, self.lease) {
            (Round::None, Some(_)) => Stage::Leading,
            (Round::None, None) => Stage::Waiting,
            (Round::Enquiry { .. }, _) => Stage::Enquiring,
            (Round::Preparation { .. }, _) => Stage::Preparing,
            (Round::Proposal { .. }, _) => Stage::Proposing,
        }
    }

    /// The rank.
    pub fn attribute(&self) -> Attribute {
        self.attribute
    }

    /// Until when the candidate yields to others, after it has handed over.
    pub fn yield_until(&self) -> Time {
        self.yield_until
    }

    /// When the candidate last sent a request to the voters.
    pub fn asked_at(&self) -> Time {
        self.asked_at
    }

    /// The longest time that the candidate waits for replies.
    pub fn longest_round(&self) -> Span {
        self.timings.longest_round()
    }

    /// Moves the next enquiry, which changes no grant, to this moment, unless it is due earlier.
    pub fn enquire_by(&mut self, when: Time) {
        if self.stage() == Stage::Waiting {
            self.next = self.next.min(when);
        }
    }

    fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Whether the voters that have not refused are fewer than a majority.
    fn cannot_win(&self, refused: Voters) -> bool {
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

    /// Whether the candidate may be elected at this moment.
    fn stands(&self, now: Time) -> bool {
        self.healthy && now >= self.yield_until && self.granted_at_most().is_none()
    }

    /// A random span from half of this one to all of it.
    fn jitter(fx: &mut impl Effects, span: Span) -> Span {
        span.scale(0.5 + fx.rng().unit() / 2.0)
    }

    /// Whether the round asks for promises or for a lease.
    fn is_contending(&self) -> bool {
        matches!(self.round, Round::Preparation { .. } | Round::Proposal { .. })
    }

    /// Whether the round renews the lease that the candidate holds.
    fn is_renewing(&self) -> bool {
        matches!((&self.round, self.lease), (Round::Proposal { token, .. }, Some(lease)) if lease.token == *token)
    }

    /// A voter has replied to this request. If a majority has replied, and later than the reply timeout, the replies
    /// came too late: the timeout grows. Missing replies do not make it grow, since a longer wait would not help.
    fn grow_reply_timeout(&mut self, now: Time, voter: usize, request: Request) {
        let majority = self.majority();
        let Some(probe) = self.rtt_probe.as_mut().filter(|probe| probe.request == request) else {
            return;
        };
        probe.answered.add(voter);
        if probe.answered.len() >= majority {
            let took = now.since(probe.asked);
            self.rtt_probe = None;
            // A sample above the longest round means that the candidate itself was paused.
            if took > self.reply_timeout && took <= self.timings.longest_round() {
                self.reply_timeout = (took * 2).min(self.timings.longest_round());
                if self.round != Round::None && !self.is_renewing() {
                    self.next = self.next.max(self.asked_at + self.reply_timeout);
                }
            }
        }
    }

    /// Moves the reply timeout an eighth of the way down to four times `took`: slowly, because round trips vary.
    fn shrink_reply_timeout(&mut self, took: Span) {
        let enough = (took * 4).max(self.timings.round);
        if enough < self.reply_timeout {
            self.reply_timeout =
                self.reply_timeout - Span::from_nanos((self.reply_timeout - enough).as_nanos().div_ceil(8));
        }
    }

    // Rounds.

    fn enquire(&mut self, fx: &mut impl Effects, now: Time) {
        let request = self.next_request();
        self.round = Round::Enquiry { request, answered: Voters::default(), grants: Vec::new() };
        self.start_round(now);
        let standing = self.stands(now).then_some(self.attribute);
        self.ask_all(fx, Ask::Enquire { request, standing });
    }

    fn prepare(&mut self, fx: &mut impl Effects, now: Time) {
        let (request, token) = (self.next_request(), Token::after(self.greatest));
        self.greatest = token.number();
        let (promised, refused) = (Voters::default(), Voters::default());
        self.round = Round::Preparation { request, token, promised, refused, outbid: false };
        self.start_round(now);
        self.ask_all(fx, Ask::Prepare { request, token, attribute: self.attribute });
    }

    /// Notes the clock, then sends: every grant for this request begins after the noted moment.
    fn propose(&mut self, fx: &mut impl Effects, now: Time, token: Token) {
        let earlier = self.renewals_in_flight(token);
        let request = self.next_request();
        let (accepted, refused) = (Voters::default(), Voters::default());
        self.round =
            Round::Proposal { request, token, noted: now, accepted, refused, outbid: false, earlier };
        let renewal = self.lease.is_some_and(|lease| lease.token == token);
        self.start_round(now);
        if renewal {
            self.next = now + self.timings.round;
        }
        let (ttl, attribute, value) = (self.timings.ttl, self.attribute, self.value);
        self.told_value = value;
        self.ask_all(fx, Ask::Propose { request, token, ttl, attribute, renewal, value });
    }

    fn start_round(&mut self, now: Time) {
        self.asked_at = now;
        // The replies to a probe that is older than the longest round are lost.
        let longest = self.timings.longest_round();
        if self.rtt_probe.is_none_or(|rtt_probe| now.since(rtt_probe.asked) > longest) {
            self.rtt_probe =
                Some(RttProbe { request: self.request, asked: now, answered: Voters::default() });
        }
        self.next = now + self.reply_timeout;
    }

    /// The renewals of this token that no majority has answered yet.
    fn renewals_in_flight(&mut self, renewed: Token) -> Vec<Attempt> {
        if !self.is_renewing() {
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
        if attempts.len() > MAX_RENEWALS_IN_FLIGHT {
            let mut position = 0;
            attempts.retain(|_| {
                position += 1;
                position % 2 == 1
            });
        }
        attempts
    }

    /// A majority has accepted the request. The candidate leads, unless the replies took longer than the lease.
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
            // With a monotone clock a later request means a later end, so a leader gets here only if its clock was set
            // back. It must not release the grants that its lease rests on.
            return if self.lease.is_some() { self.prepare(fx, now) } else { self.lose(fx, now) };
        }
        let news = self.lease.is_none_or(|lease| lease.token != token);
        self.lease = Some(Lease { token, valid_until });
        self.leader = None;
        (self.defeats, self.claimed, self.failed_claims) = (0, false, 0);
        self.won = Some(request);
        self.round = Round::None;
        self.next = now.max(noted + self.timings.renew).min(valid_until);
        self.renew_for_value(now);
        fx.lead_until(valid_until);
        if news {
            fx.announce(Announcement::Elected { leader: self.me, term: token.into() });
        }
        if outbid {
            self.prepare(fx, now);
        }
    }

    /// Steps down if the lease has ended by the candidate's own clock. Called first in every input.
    fn lapse(&mut self, fx: &mut impl Effects, now: Time) {
        if self.hand_over.as_ref().is_some_and(|begun| now >= begun.until) {
            self.end_notice(fx, now);
        } else if self.lease.is_some_and(|lease| now >= lease.valid_until) {
            self.step_down(fx, now);
            self.next = now;
        }
    }

    /// The candidate is due at the end of its lease at the latest.
    fn limit_next_due(&mut self) {
        let until = self.hand_over.as_ref().map(|begun| begun.until);
        if let Some(end) = self.lease.map(|lease| until.unwrap_or(lease.valid_until).min(lease.valid_until)) {
            self.next = self.next.min(end);
        }
    }

    fn step_down(&mut self, fx: &mut impl Effects, now: Time) -> Option<Token> {
        let lease = self.lease.take()?;
        (self.round, self.won, self.hand_over, self.pinned) = (Round::None, None, None, false);
        self.stood_since = now;
        fx.announce(Announcement::SteppedDown);
        Some(lease.token)
    }

    /// Ends a campaign without success. The candidate gives back the grants of a minority, and backs off for a random time
    /// that doubles with every defeat, so that two rivals do not defeat each other again.
    fn lose(&mut self, fx: &mut impl Effects, now: Time) {
        assert!(self.lease.is_none(), "a leader does not release the grants that its lease rests on");
        if let Round::Proposal { token, .. } = self.round {
            self.ask_all(fx, Ask::Release { token, to: None });
        }
        self.round = Round::None;
        let span = self.timings.gap * (1 << self.defeats.min(5));
        self.defeats = self.defeats.saturating_add(1);
        if std::mem::take(&mut self.claimed) {
            self.stood_since = now;
            self.failed_claims = self.failed_claims.saturating_add(1);
        }
        self.next = now + Self::jitter(fx, span.min(self.timings.ttl.max(self.timings.gap)));
    }

    /// Forgets the known leader, and announces that if there was one.
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

    /// The voters have changed. Replies of two configurations never count together, so the open round ends. A leader
    /// keeps its lease, and asks the new voters to renew it at once.
    pub fn reconfigure(&mut self, fx: &mut impl Effects, now: Time, voters: &Arc<[NodeId]>) {
        self.lapse(fx, now);
        let round = std::mem::replace(&mut self.round, Round::None);
        let before = std::mem::replace(&mut self.voters, Arc::clone(voters));
        (self.won, self.rtt_probe, self.ttl_limits) = (None, None, TtlLimits::default());
        match (self.lease, round) {
            (Some(_), _) if self.waits_for_end() => {}
            (Some(lease), _) => self.propose(fx, now, lease.token),
            (None, Round::Proposal { token, .. }) => {
                self.ask_all(fx, Ask::Release { token, to: None });
                self.prepare(fx, now);
            }
            (None, Round::Preparation { request, token, promised, .. })
                if self.timings.bug == Some(Bug::MixVersions) =>
            {
                let (promised, refused) = (promised.carried_over(&before, voters), Voters::default());
                self.round = Round::Preparation { request, token, promised, refused, outbid: false };
                match promised.len() >= self.majority() {
                    true => self.propose(fx, now, token),
                    false => self.ask_all(fx, Ask::Prepare { request, token, attribute: self.attribute }),
                }
            }
            (None, Round::Preparation { .. }) => self.prepare(fx, now),
            (None, Round::Enquiry { .. }) => self.enquire(fx, now),
            (None, Round::None) => {}
        }
        self.limit_next_due();
    }

    // Commands of the application.

    /// Contends now, unless the candidate leads, is unhealthy or contends already.
    pub fn contend(&mut self, fx: &mut impl Effects, now: Time) {
        self.lapse(fx, now);
        if self.lease.is_none() && self.healthy && !self.is_contending() && self.granted_at_most().is_none() {
            self.yield_until = now;
            self.prepare(fx, now);
        }
    }

    /// Changes the rank.
    pub fn set_attribute(&mut self, now: Time, attribute: Attribute) {
        if attribute != std::mem::replace(&mut self.attribute, attribute) {
            (self.stood_since, self.claimed, self.failed_claims) = (now, false, 0);
        }
    }

    // Timer and messages.

    /// The moment of [`next_due`](Candidate::next_due) has come.
    pub fn on_due(&mut self, fx: &mut impl Effects, now: Time) {
        self.lapse(fx, now);
        if self.waits_for_end() || now < self.next {
            return;
        }
        match (self.lease, &self.round) {
            // The renewal or its replies may be lost: the leader renews again, and notes a later moment.
            (Some(_), &Round::Proposal { token, outbid: false, .. }) => self.propose(fx, now, token),
            (Some(_), Round::Proposal { .. } | Round::Preparation { .. }) => self.prepare(fx, now),
            (Some(lease), _) => self.propose(fx, now, lease.token),
            (None, Round::Preparation { .. } | Round::Proposal { .. }) => self.lose(fx, now),
            (None, Round::Enquiry { .. }) => self.conclude(fx, now),
            (None, Round::None) => self.enquire(fx, now),
        }
        self.limit_next_due();
    }

    /// A reply or a wake-up of a voter has arrived.
    pub fn on_reply(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, reply: Reply) {
        let Some(voter) = self.voters.iter().position(|&voter| voter == from) else { return };
        self.lapse(fx, now);
        if let Some(request) = reply.request() {
            self.grow_reply_timeout(now, voter, request);
        }
        if self.waits_for_end() {
            // A late renewal must not lengthen the lease again.
            return;
        }
        match reply {
            Reply::Promised { request } => self.on_promised(fx, now, voter, request),
            Reply::Accepted { request, .. } => {
                self.ttl_limits.update(voter, self.timings.ttl, self.timings.ttl);
                self.on_accepted(fx, now, voter, request);
            }
            Reply::Held { request, grant, .. } => self.on_held(fx, now, voter, request, grant),
            Reply::Rejected { request, promised } => self.on_rejected(fx, now, voter, request, promised),
            Reply::TooLong { request, longest } => {
                self.ttl_limits.update(voter, self.timings.ttl, longest);
                self.on_refused(fx, now, voter, request);
            }
            Reply::Status { request, promised, grant, longest } => {
                self.greatest = self.greatest.max(promised);
                self.ttl_limits.update(voter, self.timings.ttl, longest);
                self.on_status(fx, now, voter, request, grant);
            }
            Reply::Vacant { promised } => {
                self.greatest = self.greatest.max(promised);
                self.wake_up(fx, now);
            }
            // Only observers get these.
            Reply::Watched { .. } | Reply::Changed { .. } => {}
        }
        self.limit_next_due();
    }

    fn on_promised(&mut self, fx: &mut impl Effects, now: Time, voter: usize, answered: Request) {
        let majority = self.majority();
        match &mut self.round {
            Round::Preparation { request, token, promised, .. } if *request == answered => {
                promised.add(voter);
                let token = *token;
                if promised.len() >= majority {
                    self.shrink_reply_timeout(now.since(self.asked_at));
                    self.propose(fx, now, token);
                }
            }
            _ => {}
        }
    }

    fn on_accepted(&mut self, fx: &mut impl Effects, now: Time, voter: usize, answered: Request) {
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
        accepted.add(voter);
        let (token, outbid) = (*token, *outbid);
        if accepted.len() >= majority {
            self.shrink_reply_timeout(now.since(noted));
            self.win(fx, now, answered, (token, noted, outbid));
        }
    }

    fn on_held(&mut self, fx: &mut impl Effects, now: Time, voter: usize, answered: Request, grant: Grant) {
        self.greatest = self.greatest.max(grant.token.number());
        self.on_refused(fx, now, voter, answered);
    }

    fn on_rejected(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        voter: usize,
        answered: Request,
        greater: u64,
    ) {
        self.greatest = self.greatest.max(greater);
        // A majority accepted the renewal without this voter, which would accept a greater token.
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
        self.on_refused(fx, now, voter, answered);
    }

    /// Ends the round as soon as no majority can accept it any more.
    fn on_refused(&mut self, fx: &mut impl Effects, now: Time, voter: usize, answered: Request) {
        let (refused, outbid) = match &mut self.round {
            Round::Preparation { request, refused, outbid, .. }
            | Round::Proposal { request, refused, outbid, .. }
                if *request == answered =>
            {
                refused.add(voter);
                (*refused, *outbid)
            }
            _ => return,
        };
        if !self.cannot_win(refused) {
            return;
        }
        match (self.lease, outbid) {
            // The lease is still valid: the leader prepares a greater token, and continues to lead.
            (Some(_), true) => self.prepare(fx, now),
            // Other candidates hold grants at the refusing voters. The leader tries again after the round.
            (Some(_), false) => {}
            // The candidate did not know the greatest token. It retries once without a back-off.
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
        voter: usize,
        answered: Request,
        grant: Option<Grant>,
    ) {
        let (voters, majority) = (self.voters.len(), self.majority());
        let Round::Enquiry { request, answered: heard, grants } = &mut self.round else { return };
        if *request != answered {
            return;
        }
        let before = heard.len();
        heard.add(voter);
        if heard.len() > before {
            grants.extend(grant);
        }
        let most = grants.iter().map(|grant| grants_with_holder(grants, grant)).max().unwrap_or(0);
        if most >= majority || heard.len() == voters {
            self.conclude(fx, now);
        }
    }

    /// Ends an enquiry. This is a majority read: the holder of a majority's grants leads at this moment. If the replies
    /// leave open whether the known leader still leads, the candidate enquires once more before it forgets the leader.
    fn conclude(&mut self, fx: &mut impl Effects, now: Time) {
        let Round::Enquiry { answered, grants, .. } = std::mem::replace(&mut self.round, Round::None) else {
            return;
        };
        let majority = self.majority();
        if answered.len() >= majority {
            self.shrink_reply_timeout(now.since(self.asked_at));
        }
        let silent = self.voters.len() - answered.len();
        let may_still_lead = |leader: Grant| grants_with_holder(&grants, &leader) + silent >= majority;
        let open = self.leader.is_some_and(may_still_lead);
        let elected = grants.iter().filter(|grant| grants_with_holder(&grants, grant) >= majority);
        let elected = elected.max_by_key(|grant| grant.token).copied();
        match elected {
            // A lease that this process released or lost: voters let it have a greater token at once. A lease of an
            // earlier process with the same id runs out first.
            Some(grant) if (grant.holder, grant.boot) == (self.me, self.boot) && self.stands(now) => {
                self.prepare(fx, now);
            }
            Some(grant) if grant.holder != self.me => {
                self.follow(fx, grant);
                (self.defeats, self.leader_in_doubt) = (0, false);
                self.next = now + Self::jitter(fx, self.timings.poll);
                self.claim(fx, now, grant);
            }
            _ if open && !self.leader_in_doubt => {
                self.leader_in_doubt = true;
                self.enquire(fx, now);
            }
            _ => {
                self.leader_in_doubt = false;
                self.forget_leader(fx);
                let too_long = self.granted_at_most().is_some();
                let pause = if too_long { self.timings.poll } else { self.timings.gap * 2 };
                self.next = now + Self::jitter(fx, pause);
            }
        }
    }

    /// Asks a worse-ranked leader to hand over, if this candidate has stood for the fail-back delay: one that comes and
    /// goes never has. The delay starts again and doubles when the leader has handed over and this candidate is not
    /// elected: voters may never elect it.
    fn claim(&mut self, fx: &mut impl Effects, now: Time, grant: Grant) {
        let Some(delay) = self.timings.failback else { return };
        let steady = now.since(self.stood_since) >= delay * (1 << self.failed_claims.min(MAX_DOUBLINGS));
        if steady && self.stands(now) && self.attribute > grant.attribute {
            self.claimed = true;
            fx.claim(grant.holder, self.attribute);
        }
    }

    /// A voter has woken the candidate, because nobody leads. The candidate contends if it stands.
    pub fn wake_up(&mut self, fx: &mut impl Effects, now: Time) {
        if self.stands(now) && self.lease.is_none() {
            self.forget_leader(fx);
            self.contend(fx, now);
        }
    }
}

/// The number of these grants that have the same holder as this one.
fn grants_with_holder(grants: &[Grant], of: &Grant) -> usize {
    grants.iter().filter(|grant| (grant.holder, grant.boot) == (of.holder, of.boot)).count()
}

#[cfg(test)]
mod tests;
