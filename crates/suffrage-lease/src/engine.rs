//! A node that takes part in very many elections, without I/O: the wire, the simulator and the model checker run it.
//!
//! ```text
//!   commands ────┐  ┌──────────────────────────────────┐  ┌─▶ saves
//!   messages ────┼─▶│ Engine                           │──┼─▶ announcements: the leader of each election
//!   the timer ───┘  │   Voter, if the node votes       │  └─▶ messages
//!                   │   ElectionState, for each name:  │
//!                   │     Candidate, contention policy │
//!                   └──────────────────────────────────┘
//! ```
//!
//! [`Voter`] and [`Candidate`] are the protocol, which safety depends on. Around them this module is the contention
//! policy: it decides *when* a node campaigns.
//! - A node that has handed over *yields* to others for a while ([`Engine::yield_window`]).
//! - After the death of a leader a woken candidate *defers* its campaign until the grants of all voters have expired
//!   and a rival with priority has had time to campaign ([`Engine::should_defer_campaign`]).
//! - A candidate that hears of a rival's campaign lets the rival finish ([`Engine::defer_to_rival`]).
//! - A defeated candidate *retries* a few times by itself ([`ElectionState::retry`]).
//!
//! Renewals are aligned to ticks of the node, so that they share datagrams. Each renewal is due up to a *slack* (a
//! sixtieth of the ttl) early, and waits for the next tick. An early renewal is always safe: the lease counts from the
//! moment of the request, and a reply moves the end of the lease only forward. The cost is at most 5% more renewals.

mod command;
mod config;
mod effects;
mod election;
mod grants;
mod hand_over;
mod membership;
mod timer_queue;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use suffrage_core::{Attribute, Context, NodeId, Process, Span, Start, Time};

pub use self::command::{Action, Command, ElectionName, VoterChange};
pub use self::config::{CandidateConfig, EngineConfig, InvalidConfig, LONGEST_TTL, SHORTEST_TTL};
use self::effects::{Loopback, NodeEffects};
pub use self::election::{ELECTION_MEMORY, ElectionIndex, ElectionState};
use self::grants::GrantNotes;
pub use self::grants::{GRANT_NOTE_MEMORY, GrantChange, GrantedElection, Refusal, Report};
pub use self::membership::Mismatch;
use self::membership::{Membership, voting};
use self::timer_queue::TimerQueue;
pub use self::values::VALUE_MEMORY;
use self::values::Values;
use crate::candidate::{Candidate, Lease, Stage};
use crate::message::{Ask, Body, Grant, Header, Message, Name, Reply};
use crate::timings::Bug;
use crate::value::Value;
use crate::voter::{Saved, Voter};

/// The greatest number of due candidates that one timer input handles: their renewals fill some datagrams. Then the
/// driver can deliver replies.
const MAX_DUE_PER_INPUT: usize = 512;
/// A node that has handed over yields for this many round trips, as measured lately. The wake-up of another candidate
/// takes half a round trip, and its election one and a half until the grant.
const YIELD_ROUND_TRIPS: u64 = 4;
/// The shortest time for which a node yields: a woken node needs some time to handle the wake-up.
const MIN_YIELD: Span = Span::from_nanos(200_000);
/// After the death of a leader a candidate without priority defers for at least this long: timers of the operating
/// system fire a millisecond late, and on a busy machine two.
const TIMER_GRAIN: Span = Span::from_nanos(3_000_000);
/// The greatest number of elections that a node takes part in.
const MAX_ELECTIONS: usize = 10_000_000;

/// The timer of an engine, which serves the voter and all elections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer;

suffrage_core::timer_indices!(Timer);

/// The reason why a node cannot join an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The configuration is invalid.
    Invalid(InvalidConfig),
    /// The node has already joined this election, or another whose name has the same hash.
    AlreadyJoined,
    /// The node takes part in the greatest number of elections.
    TooMany,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Invalid(invalid) => invalid.fmt(f),
            JoinError::AlreadyJoined => {
                f.write_str("this node has already joined that election: leave it first")
            }
            JoinError::TooMany => {
                write!(f, "this node has joined {MAX_ELECTIONS} elections, the limit: leave one first")
            }
        }
    }
}

impl std::error::Error for JoinError {}

impl From<InvalidConfig> for JoinError {
    fn from(invalid: InvalidConfig) -> JoinError {
        JoinError::Invalid(invalid)
    }
}

/// A node in very many elections: a [`Voter`] if the node votes, and a [`Candidate`] for each joined election.
///
/// Inputs are those of a [`Process`]; the application sends [`Command`]s. Messages of the candidates to the voter of
/// the same node are not sent: the loopback delivers them within the same input. Announcements name an election by its
/// [`ElectionIndex`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    me: NodeId,
    config: Arc<EngineConfig>,
    membership: Membership,
    voter: Option<Voter>,
    names: BTreeMap<Name, ElectionIndex>,
    elections: Vec<Option<Box<ElectionState>>>,
    /// Indices that are not in use.
    free_indices: Vec<ElectionIndex>,
    timers: TimerQueue,
    loopback: Loopback,
    grants: GrantNotes,
    values: Values,
    /// The measured round trip to voters, smoothed.
    round_trip: Span,
    /// Requests of other nodes to hand over, with the targets.
    requested: Vec<(ElectionIndex, Option<NodeId>)>,
    /// When the timer is set to fire.
    armed: Option<Time>,
}

impl Engine {
    /// The engine of a node that takes part in no election yet.
    pub fn new(me: NodeId, config: EngineConfig) -> Result<Engine, InvalidConfig> {
        config.check()?;
        Ok(Engine {
            me,
            membership: Membership::new(config.founding()?),
            config: Arc::new(config),
            voter: None,
            names: BTreeMap::new(),
            elections: Vec::new(),
            free_indices: Vec::new(),
            timers: TimerQueue::default(),
            loopback: Loopback::new(),
            grants: GrantNotes::default(),
            values: Values::default(),
            round_trip: Span::ZERO,
            requested: Vec::new(),
            armed: None,
        })
    }

    // Getters.

    /// The id of this node.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The node's voter, if the node votes.
    pub fn voter(&self) -> Option<&Voter> {
        voting(&self.voter, self.me)
    }

    /// Whether the node's voter replies at this moment. It does not if it has lost its disk, or is silent after a
    /// restart.
    pub fn is_voting(&self, now: Time) -> bool {
        self.voter().is_some_and(|voter| now >= voter.silent_until())
    }

    /// The measured round trip to voters, smoothed.
    pub fn round_trip(&self) -> Span {
        self.round_trip
    }

    /// The index of the election of this name, if the node takes part in it.
    pub fn index_of(&self, name: Name) -> Option<ElectionIndex> {
        self.names.get(&name).copied()
    }

    /// The state of an election that the node has joined.
    pub fn election(&self, index: ElectionIndex) -> Option<&ElectionState> {
        self.elections.get(index.index())?.as_deref()
    }

    /// All elections that the node has joined.
    pub fn elections(&self) -> impl Iterator<Item = (ElectionIndex, &ElectionState)> {
        self.names.values().filter_map(|&index| Some((index, self.election(index)?)))
    }

    /// The number of elections that the node has joined.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the node has joined no election.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The lease that the node holds in an election, if it is valid at this moment.
    pub fn lease(&self, now: Time, index: ElectionIndex) -> Option<Lease> {
        self.election(index)?.lease(now)
    }

    /// Checks whether the node can join an election. If it cannot, [`Action::Join`] changes nothing.
    pub fn check_join(
        &self,
        election: &ElectionName,
        config: Option<&CandidateConfig>,
    ) -> Result<(), JoinError> {
        config.unwrap_or(&self.config.candidate).check(&self.config)?;
        let joined = self.index_of(election.hash()).and_then(|index| self.election(index));
        if joined.is_some_and(|state| !state.leaving) {
            return Err(JoinError::AlreadyJoined);
        }
        if self.names.len() >= MAX_ELECTIONS {
            return Err(JoinError::TooMany);
        }
        Ok(())
    }

    /// Takes the leader that the node follows in an election, before another participation replaces this one. The node
    /// then leaves without an announcement that it knows no leader.
    pub(crate) fn take_leader(&mut self, index: ElectionIndex) -> Option<Grant> {
        self.elections.get_mut(index.index())?.as_mut()?.candidate.take_leader()
    }

    /// Sets the leader that the node follows in an election that it has just joined.
    pub(crate) fn set_leader(&mut self, index: ElectionIndex, leader: Grant) {
        if let Some(Some(state)) = self.elections.get_mut(index.index()) {
            state.candidate.set_leader(leader);
        }
    }

    // Commands of the application.

    /// Carries out an action in an election that the node has joined.
    pub fn act(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex, action: Action) {
        let now = cx.now();
        match action {
            Action::Join(_) | Action::ChangeVoters(_) | Action::StopChange => {}
            Action::Leave => self.leave(cx, index),
            Action::Move(to) => {
                if let Some(name) = self.election(index).map(|state| state.name) {
                    self.ask_to_hand_over(cx, name, to);
                }
            }
            Action::Stand { once } => self.change_standing(cx, index, |state| {
                if !state.standing || !once {
                    (state.standing, state.once) = (true, once);
                }
            }),
            Action::Campaign => self.campaign(cx, index),
            Action::Withdraw => self.change_standing(cx, index, |state| state.standing = false),
            Action::Resign => self.hand_over(cx, index, None),
            Action::Transfer(to) => self.hand_over(cx, index, Some(to)),
            Action::Release(to) => self.release(cx, index, to),
            Action::Health(healthy) => self.change_standing(cx, index, |state| state.healthy = healthy),
            Action::Value(number) => {
                self.set_value(cx, index, Value::numbered(self.me, self.membership.boot, number));
            }
            Action::Rank(attribute) => {
                self.input(cx, index, |state, _| state.candidate.set_attribute(now, attribute));
            }
            Action::Pin(pinned) => {
                self.input(cx, index, |state, _| state.candidate.set_pinned(pinned));
            }
        }
        self.arm(cx);
    }

    /// Joins an election: as an observer, unless the configuration says that the node stands. If the node is about to leave
    /// the election, it joins when it has left.
    fn join(&mut self, cx: &mut Context<'_, Self>, text: &ElectionName, config: Option<CandidateConfig>) {
        if self.check_join(text, config.as_ref()).is_err() {
            return;
        }
        let (now, name, config) = (cx.now(), text.hash(), config.unwrap_or(self.config.candidate));
        if let Some(Some(leaving)) = self.index_of(name).map(|index| &mut self.elections[index.index()]) {
            leaving.rejoin = Some(Box::new(config));
            return;
        }
        let index = self.free_indices.pop().unwrap_or_else(|| {
            self.elections.push(None);
            ElectionIndex(self.elections.len() as u32 - 1)
        });
        let (me, voters) = ((self.me, self.membership.boot), Arc::clone(&self.membership.voters));
        let timings = config.timings(&self.config);
        let mut fx = NodeEffects::of_candidate(cx, &mut self.loopback, self.membership.header(), index, name);
        let mut candidate = Candidate::new(me, voters, timings, config.attribute, &mut fx, now);
        if !config.standing {
            candidate.set_healthy(&mut fx, now, false);
            candidate.enquire_by(now);
        }
        let state = ElectionState::new(text.clone(), candidate, &config, &self.config, now);
        self.elections[index.index()] = Some(Box::new(state));
        self.names.insert(name, index);
        self.grants.on_joined(name);
        self.schedule(index);
    }

    /// Contends now, unless the node yields to others. A node that does not stand starts to stand, once.
    fn campaign(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex) {
        let now = cx.now();
        if self.election(index).is_some_and(|state| !state.standing) {
            return self.change_standing(cx, index, |state| (state.standing, state.once) = (true, true));
        }
        self.input(cx, index, |state, fx| {
            if now >= state.yield_until() {
                state.candidate.contend(fx, now);
            } else if state.is_eligible() {
                state.campaign_at = Some(state.yield_until());
            }
        });
    }

    /// Changes what eligibility depends on. If the eligibility changes, the candidate starts or stops to stand.
    fn change_standing(
        &mut self,
        cx: &mut Context<'_, Self>,
        index: ElectionIndex,
        change: impl FnOnce(&mut ElectionState),
    ) {
        let now = cx.now();
        let Some(window) = self.handover_window(index) else { return };
        self.input(cx, index, |state, fx| {
            let before = state.is_eligible();
            change(state);
            match (before, state.is_eligible()) {
                (false, true) => {
                    state.candidate.set_healthy(fx, now, true);
                    // A node that has just handed over must not contend before the others.
                    if now < state.end_of_yield() {
                        state.campaign_at = Some(state.end_of_yield());
                    } else {
                        state.candidate.contend(fx, now);
                    }
                }
                (true, false) => {
                    state.start_yield(window);
                    (state.campaign_at, state.woken) = (None, false);
                    state.candidate.set_healthy(fx, now, false);
                }
                _ => {}
            }
        });
    }

    /// How long a node yields by default after it has handed over a lease of this length.
    fn yield_window(&self, ttl: Span) -> Span {
        let most = (self.config.delay * YIELD_ROUND_TRIPS).max(Span::from_nanos(ttl.as_nanos() / 4));
        (self.round_trip * YIELD_ROUND_TRIPS).max(MIN_YIELD).min(most)
    }

    // Messages and the timer.

    fn dispatch(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let Message { header, name, body } = message;
        let body = match body {
            Body::Membership(message) => return self.on_membership(cx, from, header, *message),
            body if self.admits(cx, from, header, &body) => body,
            _ => return,
        };
        let now = cx.now();
        match body {
            Body::Membership(_) => {}
            Body::Ask(ask) => {
                if !self.may_vote() {
                    return;
                }
                let Some(voter) = &mut self.voter else { return };
                let reply_header = match self.config.bug {
                    Some(Bug::OldVersionVotes) => Header { stamp: header.stamp, ..self.membership.header() },
                    _ => self.membership.header(),
                };
                let mut fx = NodeEffects::of_node(cx, &mut self.loopback, reply_header);
                voter.on_ask(&mut fx, now, (from, header.boot), name, ask);
                let reports = fx.reports;
                self.note_grants(now, reports);
                if from != self.me {
                    self.observe_ask(now, from, name, ask);
                    let renewal = matches!(ask, Ask::Propose { renewal: true, .. });
                    if renewal {
                        self.query_name(cx, from, name);
                    }
                    self.update_value(cx, name, renewal);
                }
            }
            Body::Reply(reply) => {
                let Some(index) = self.index_of(name) else { return };
                let votes = self.is_voting(now);
                let enquired = self.is_enquiring(index);
                if let Some(state) = self.elections[index.index()].as_mut() {
                    state.update_retries(&reply, votes);
                    let is_contended = matches!(reply, Reply::Accepted { contended: true, .. });
                    state.contended |= is_contended && self.membership.voters.contains(&from);
                    if state.is_contending() && reply.is_refusal() {
                        self.grants.on_refused(Refusal {
                            election: state.name().clone(),
                            voter: from,
                            reply,
                        });
                    }
                }
                match reply {
                    Reply::Vacant { .. } if self.should_defer_campaign(now, index) => return,
                    Reply::Vacant { .. } => {}
                    _ => self.measure_round_trip(now, from, index),
                }
                self.apply(cx, index, |state, fx| state.candidate.on_reply(fx, now, from, reply));
                self.finish_leaving(cx, index);
                if enquired && !self.is_enquiring(index) {
                    self.update_value(cx, name, true);
                }
            }
            Body::NameQuery => self.on_name_query(cx, from, name),
            Body::NameText(text) => self.on_name_text(now, name, text),
            Body::ValueQuery { token, version, missing } => {
                self.on_value_query(cx, from, name, (token, version, missing));
            }
            Body::ValueChunk(chunk) => self.on_value_chunk((from, header.boot), name, &chunk),
            Body::Claim { attribute } => {
                let Some(index) = self.index_of(name) else { return };
                let ignores_pins = self.config.bug == Some(Bug::IgnorePin);
                self.apply(cx, index, |state, fx| {
                    if !state.candidate.is_pinned() || ignores_pins {
                        if attribute > state.attribute() && state.lease(now).is_some() {
                            // A node that stands for one leadership at a time stands again at once.
                            state.start_yield(state.ttl);
                        }
                        state.candidate.on_claim(fx, now, from, attribute);
                    }
                });
                self.finish_leaving(cx, index);
            }
            Body::HandOver { token, to } => self.on_hand_over(now, name, token, to),
        }
    }

    fn is_enquiring(&self, index: ElectionIndex) -> bool {
        self.election(index).is_some_and(|state| state.stage() == Stage::Enquiring)
    }

    fn drain_loopback(&mut self, cx: &mut Context<'_, Self>) {
        while let Some(message) = self.loopback.pop_front() {
            self.dispatch(cx, self.me, message);
        }
    }

    /// Handles the voter and up to [`MAX_DUE_PER_INPUT`] candidates that are due.
    fn on_due(&mut self, cx: &mut Context<'_, Self>) {
        let now = cx.now();
        self.coordinate_due(cx);
        if let Some(voter) = &mut self.voter
            && voter.next_due().is_some_and(|due| due <= now)
        {
            let mut fx = NodeEffects::of_node(cx, &mut self.loopback, self.membership.header());
            voter.on_due(&mut fx, now);
            let reports = fx.reports;
            self.note_grants(now, reports);
            self.drain_loopback(cx);
        }
        for _ in 0..MAX_DUE_PER_INPUT {
            let Some(index) = self.timers.take(now).map(ElectionIndex) else { return };
            let Some(state) = self.elections[index.index()].as_mut() else { continue };
            state.armed = None;
            // A retry is pointless if the node's own voter has a live grant by now.
            let held = state.retries > 0
                && voting(&self.voter, self.me).is_some_and(|voter| voter.grant(now, state.name).is_some());
            self.input(cx, index, |state, fx| {
                if state.campaign_at.take_if(|when| *when <= now).is_some() {
                    match (held, std::mem::take(&mut state.woken)) {
                        (true, _) => {}
                        (false, true) => state.candidate.wake_up(fx, now),
                        (false, false) => state.candidate.contend(fx, now),
                    }
                }
                state.candidate.on_due(fx, now);
            });
        }
    }

    /// Hands one input to a candidate, then delivers the node's messages to itself.
    fn input(
        &mut self,
        cx: &mut Context<'_, Self>,
        index: ElectionIndex,
        input: impl FnOnce(&mut ElectionState, &mut NodeEffects<'_, '_>),
    ) {
        self.apply(cx, index, input);
        self.drain_loopback(cx);
        self.finish_leaving(cx, index);
    }

    /// Hands one input to a candidate. After a defeat it may schedule a retry, and after a leadership that was to be
    /// the only one it withdraws the candidate.
    fn apply(
        &mut self,
        cx: &mut Context<'_, Self>,
        index: ElectionIndex,
        input: impl FnOnce(&mut ElectionState, &mut NodeEffects<'_, '_>),
    ) {
        let (me, now) = (self.me, cx.now());
        let Some(ttl) = self.election(index).map(|state| state.ttl) else { return };
        let window = self.yield_window(ttl);
        let Some(state) = self.elections[index.index()].as_mut() else { return };
        let header = self.membership.header();
        let mut fx = NodeEffects::of_candidate(cx, &mut self.loopback, header, index, state.name);
        let contended = state.is_contending();
        input(state, &mut fx);
        if contended && !state.is_contending() {
            let first = voting(&self.voter, me).is_some_and(|voter| state.has_priority(me, voter));
            state.retry(now, first, window);
        }
        if fx.stepped_down {
            state.yield_now(now);
            state.contended = false;
            if state.once && state.standing {
                (state.standing, state.campaign_at, state.woken) = (false, None, false);
                state.candidate.set_healthy(&mut fx, now, false);
            }
        }
        if fx.learned_leader {
            state.retries = 0;
        }
        let name = state.name;
        self.schedule(index);
        self.update_value(cx, name, false);
    }

    /// Smooths the round trip as TCP does: an eighth of the new sample and seven eighths of the old value. A sample
    /// above the longest round is ignored: it means that a process was paused.
    fn measure_round_trip(&mut self, now: Time, from: NodeId, index: ElectionIndex) {
        let Some(state) = self.election(index).filter(|_| from != self.me) else { return };
        let took = now.since(state.candidate.asked_at());
        if took > state.candidate.longest_round() {
            return;
        }
        self.round_trip = match self.round_trip.as_nanos() {
            0 => took,
            before => Span::from_nanos(before - before / 8 + took.as_nanos() / 8),
        };
    }

    /// The node's voter has got a message of another candidate: adjusts when the node's own candidate acts.
    fn observe_ask(&mut self, now: Time, from: NodeId, name: Name, ask: Ask) {
        match ask {
            Ask::Propose { renewal: false, .. } => self.observe_change(now, name, false),
            Ask::Release { .. } => self.observe_change(now, name, true),
            Ask::Prepare { attribute, .. } => self.defer_to_rival(now, name, from, attribute),
            Ask::Propose { .. } | Ask::Enquire { .. } | Ask::Watch { .. } => {}
        }
    }

    /// Decides whether a woken candidate defers its campaign.
    ///
    /// When a leader dies with its voter, the votes of all other voters may be needed. Each of them may wake another
    /// candidate, at another moment. So the candidate waits until the grant of its own voter has expired, and one round
    /// trip more for the grants of the other voters. If another waiting candidate has priority, it waits longer.
    ///
    /// After a release no node has died, and most voters wake the same candidate, which campaigns at once.
    fn should_defer_campaign(&mut self, now: Time, index: ElectionIndex) -> bool {
        let (me, round_trip, delay) = (self.me, self.round_trip, self.config.delay);
        let Some(ttl) = self.election(index).map(|state| state.ttl) else { return false };
        let window = self.yield_window(ttl);
        let Some(voter) = voting(&self.voter, me) else { return false };
        let Some(state) = self.elections[index.index()].as_mut() else { return false };
        let released = state.released_at.is_some_and(|when| now.since(when) <= delay * 2);
        let waits = matches!(state.candidate.stage(), Stage::Waiting | Stage::Enquiring);
        if released || !waits || !state.is_eligible() {
            return false;
        }
        let expires = voter.grant(now, state.name).map_or(now, |(_, expires)| expires);
        if expires > now + delay * 2 {
            // The node's own voter has a renewed grant: the leader lives.
            return false;
        }
        if self.config.bug == Some(Bug::DropWakeUp) {
            return true;
        }
        let first = state.has_priority(me, voter);
        let pause = if first { round_trip } else { round_trip + window.max(TIMER_GRAIN) };
        state.campaign_at.get_or_insert(expires + pause.min(delay * YIELD_ROUND_TRIPS));
        state.woken = true;
        self.schedule(index);
        true
    }

    /// The node's voter has promised a token to a rival. The candidate lets the rival finish, because two simultaneous
    /// campaigns can defeat each other. If the candidate contends itself, the one with priority retries first.
    fn defer_to_rival(&mut self, now: Time, name: Name, rival: NodeId, attribute: Attribute) {
        let Some(index) = self.index_of(name) else { return };
        let promised = voting(&self.voter, self.me).is_some_and(|voter| voter.grant(now, name).is_none());
        let Some(state) = self.elections[index.index()].as_mut() else { return };
        state.note_rival(self.me, rival, attribute);
        let pause = (self.config.delay * YIELD_ROUND_TRIPS).min(state.tenth_of_ttl());
        if let Some(when) = state.campaign_at.as_mut().filter(|_| promised) {
            *when = (*when).max(now + pause);
            self.schedule(index);
        }
    }

    /// The node's voter has heard that the leader changes: the candidate enquires after the election should be over.
    fn observe_change(&mut self, now: Time, name: Name, released: bool) {
        let Some(index) = self.index_of(name) else { return };
        let Some(ttl) = self.election(index).map(|state| state.ttl) else { return };
        let settled = now + self.yield_window(ttl);
        let Some(state) = self.elections[index.index()].as_mut() else { return };
        state.candidate.enquire_by(settled);
        if released {
            state.released_at = Some(now);
        }
        self.schedule(index);
    }

    /// Updates the election's entry in the timer queue.
    fn schedule(&mut self, index: ElectionIndex) {
        let Some(state) = self.elections[index.index()].as_mut() else { return };
        let due = Some(state.due());
        let before = std::mem::replace(&mut state.armed, due);
        self.timers.set(index.0, before, due);
    }

    /// Sets the timer to the earliest due moment, if that has changed.
    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let voter = self.voter.as_ref().and_then(Voter::next_due);
        let due = [self.timers.next(), voter, self.membership.next_due()].into_iter().flatten().min();
        if self.armed != due {
            match due {
                Some(due) => cx.set_timer(Timer, due.since(cx.now())),
                None => cx.cancel_timer(Timer),
            }
            self.armed = due;
        }
    }
}

impl Process for Engine {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    /// Starts the voter, if the node votes, with its saved state.
    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        self.grants.begin_input();
        self.start_voter(cx, start);
        self.arm(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        self.grants.begin_input();
        // A message in this node's own name is forged.
        if from != self.me {
            self.dispatch(cx, from, message);
            self.drain_loopback(cx);
            self.arm(cx);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, _: Timer) {
        self.grants.begin_input();
        self.armed = None;
        self.on_due(cx);
        self.arm(cx);
    }

    fn on_saved(&mut self, cx: &mut Context<'_, Self>, saved: Saved) {
        self.grants.begin_input();
        self.on_durable(cx, saved);
        self.drain_loopback(cx);
        self.arm(cx);
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, Command { election, action }: Command) {
        self.grants.begin_input();
        match (election, action) {
            (_, Action::ChangeVoters(change)) => _ = self.start_change(cx, change.into()),
            (_, Action::StopChange) => self.stop_change(cx),
            (Some(election), Action::Join(config)) => self.join(cx, &election, config),
            (Some(election), Action::Move(to)) => _ = self.ask_to_hand_over(cx, election.hash(), to),
            (Some(election), action) => {
                if let Some(index) = self.index_of(election.hash()) {
                    self.act(cx, index, action);
                }
            }
            (None, action) => {
                for index in 0..self.elections.len() as u32 {
                    self.act(cx, ElectionIndex(index), action);
                }
            }
        }
        self.arm(cx);
    }
}

#[cfg(test)]
mod tests;
