//! A node with clients: the engine, and the broker of the clients that lead through it. The wire and the simulator run
//! this process.
//!
//! ```text
//!   commands, messages, the timer ──▶ Engine ──leases that begin and end──▶ SessionBroker ──▶ replies
//!   requests, hang-ups ─────────────────────▶ SessionBroker ──LeaseControl──▶ Engine ──▶ messages, announcements
//! ```
//!
//! All of it happens within one input: when the input is handled, the candidates are in step with the queues.

use std::collections::BTreeMap;

use suffrage_core::{
    Announcement, Attribute, Context, Effects, NodeId, Process, Span, Start, Time, forward_effects,
};

use super::connection::ConnectionEnd;
use super::{
    Arrival, LeaseControl, NodeLease, RequestId, SessionBroker, SessionConfig, SessionOutcome, SessionRequest,
};
use crate::engine::{
    Action, CandidateConfig, Command, ElectionIndex, ElectionName, Engine, EngineConfig, InvalidConfig,
    JoinError, Report, Timer,
};
use crate::membership::Change;
use crate::message::{Grant, Message, Name};
use crate::value::Value;
use crate::voter::Saved;

/// The participants of an election at this node, besides the clients of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Participants {
    observers: u32,
    /// Whether the application has a candidate.
    candidate: bool,
}

/// The node has joined an election, or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MembershipChange {
    /// The node has joined, or takes part under the same index with another candidate from now on.
    Joined {
        /// The index of the election.
        index: ElectionIndex,
        /// Its name.
        name: Name,
    },
    /// The node has left. Others get the index.
    Left {
        /// The index that the election had.
        index: ElectionIndex,
    },
}

/// A node with clients. Inputs are those of a [`Process`], requests of clients
/// ([`on_request`](SessionEngine::on_request) and the methods after it), and the application's
/// [`join`](SessionEngine::join), [`observe`](SessionEngine::observe) and [`leave`](SessionEngine::leave).
///
/// Outputs go through the [`Context`], but for the replies, which [`take_replies`](SessionEngine::take_replies)
/// hands out after an input, and for elections that the node has joined or left
/// ([`take_membership_changes`](SessionEngine::take_membership_changes)). A reply must not be sent before everything is
/// durable that the input saved.
///
/// An election that clients take part in belongs to them: a command to hand over becomes a
/// [`Revoke`](SessionRequest::Revoke), and the client keeps what it was promised. Other commands change nothing there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionEngine {
    engine: Engine,
    broker: SessionBroker,
    participants: BTreeMap<Name, Participants>,
    /// Elections whose lease has begun or ended since the broker was last told.
    changed: Vec<ElectionIndex>,
    /// Elections whose lease was renewed since the broker was last told.
    renewed: Vec<ElectionIndex>,
    memberships: Vec<MembershipChange>,
    /// Elections that the node leaves when it has handed over.
    leaving: Vec<ElectionIndex>,
    /// When the engine is due.
    engine_due: Option<Time>,
    /// The moment for which the timer is set.
    armed: Option<Time>,
    /// The number of revocations by commands so far. They are requests without a client that waits for the reply.
    revocations: u64,
}

/// Requests from this number on have no client that waits for the reply. Drivers number theirs from 0.
const UNANSWERED: u64 = 1 << 63;

impl SessionEngine {
    /// A node that takes part in no election yet.
    pub fn new(
        me: NodeId,
        config: EngineConfig,
        sessions: SessionConfig,
    ) -> Result<SessionEngine, InvalidConfig> {
        Ok(SessionEngine {
            engine: Engine::new(me, config)?,
            broker: SessionBroker::new(sessions),
            participants: BTreeMap::new(),
            changed: Vec::new(),
            renewed: Vec::new(),
            memberships: Vec::new(),
            leaving: Vec::new(),
            engine_due: None,
            armed: None,
            revocations: 0,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The sessions.
    pub fn broker(&self) -> &SessionBroker {
        &self.broker
    }

    // Clients.

    /// A client's request about the election of this name has arrived.
    pub fn on_request(
        &mut self,
        cx: &mut Context<'_, Self>,
        arrival: Arrival,
        election: &str,
        request: SessionRequest,
    ) {
        let now = cx.now();
        let (broker, mut control) = self.control(cx);
        broker.on_request(now, arrival, election, request, &mut control);
        self.reconcile(cx);
    }

    /// The client of a request does not wait for the reply any more. The reply may have been sent meanwhile.
    pub fn on_hang_up(&mut self, cx: &mut Context<'_, Self>, election: Name, request: RequestId) {
        let now = cx.now();
        let (broker, mut control) = self.control(cx);
        broker.on_hang_up(now, election, request, &mut control);
        self.reconcile(cx);
    }

    /// The reply to a request was not delivered, and it is certain that nobody will ever read it.
    pub fn on_reply_undelivered(&mut self, cx: &mut Context<'_, Self>, election: Name, request: RequestId) {
        let now = cx.now();
        let (broker, mut control) = self.control(cx);
        broker.on_reply_undelivered(now, election, request, &mut control);
        self.reconcile(cx);
    }

    /// The connection of a client, which this request has opened, has ended.
    pub fn on_connection_end(
        &mut self,
        cx: &mut Context<'_, Self>,
        election: Name,
        request: RequestId,
        end: ConnectionEnd,
    ) {
        let now = cx.now();
        let (broker, mut control) = self.control(cx);
        broker.on_connection_end(now, election, request, end, &mut control);
        self.reconcile(cx);
    }

    /// No client comes to lead any more, and those that lead are told to stop.
    pub fn stop_sessions(&mut self, cx: &mut Context<'_, Self>) {
        let now = cx.now();
        let (broker, mut control) = self.control(cx);
        broker.stop(now, &mut control);
        self.reconcile(cx);
    }

    /// Takes clients again. Nothing happens unless [`stop_sessions`](SessionEngine::stop_sessions) was called and no
    /// client leads any more.
    pub fn resume_sessions(&mut self) {
        self.broker.resume();
    }

    /// The replies that are to be sent, in order.
    pub fn take_replies(&mut self) -> Vec<(RequestId, SessionOutcome)> {
        let mut replies = self.broker.take_replies();
        replies.retain(|(request, _)| request.0 < UNANSWERED);
        replies
    }

    /// Whether there are replies to be sent.
    pub fn has_replies(&self) -> bool {
        self.broker.has_replies()
    }

    /// The elections that the node has joined or left since this was last called, in order.
    pub fn take_membership_changes(&mut self) -> Vec<MembershipChange> {
        std::mem::take(&mut self.memberships)
    }

    /// The reports to the operator: see [`Engine::take_reports`].
    pub fn take_reports(&mut self) -> Vec<Report> {
        self.engine.take_reports()
    }

    // The application.

    /// Joins an election with a candidate of the application. Existing observers stay, under the same index.
    pub fn join(
        &mut self,
        cx: &mut Context<'_, Self>,
        election: &ElectionName,
        config: CandidateConfig,
    ) -> Result<ElectionIndex, JoinError> {
        let name = election.hash();
        if self.has_candidate(name) {
            return Err(JoinError::AlreadyJoined);
        }
        let (_, mut control) = self.control(cx);
        control.replace(election, config)?;
        self.participants.entry(name).or_default().candidate = true;
        self.reconcile(cx);
        self.engine.index_of(name).ok_or(JoinError::TooMany)
    }

    /// Observes an election. An observer does not affect other participants.
    pub fn observe(
        &mut self,
        cx: &mut Context<'_, Self>,
        election: &ElectionName,
    ) -> Result<ElectionIndex, JoinError> {
        let name = election.hash();
        if self.engine.index_of(name).is_none() {
            let (_, mut control) = self.control(cx);
            control.observe(election)?;
        }
        self.participants.entry(name).or_default().observers += 1;
        self.reconcile(cx);
        self.engine.index_of(name).ok_or(JoinError::TooMany)
    }

    /// Removes the application's candidate, whose work has ended, or one of its observers. True if the node has left the
    /// election.
    pub fn leave(&mut self, cx: &mut Context<'_, Self>, name: Name, candidate: bool) -> bool {
        let Some(participants) = self.participants.get_mut(&name) else { return false };
        if candidate {
            participants.candidate = false;
        } else {
            participants.observers = participants.observers.saturating_sub(1);
        }
        let left = *participants == Participants::default();
        if left {
            self.participants.remove(&name);
        }
        if !self.broker.has_joined(name)
            && let Some(index) = self.engine.index_of(name)
        {
            let (_, mut control) = self.control(cx);
            if candidate {
                control.act(index, Action::Release(None));
            }
            if left {
                control.leave_index(index);
            }
        }
        self.reconcile(cx);
        self.engine.index_of(name).is_none()
    }

    /// Carries out an action in the election with this index, if there is one.
    pub fn act(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex, action: Action) {
        if let Some(election) = self.engine.election(index).map(|state| state.name().clone()) {
            self.command(cx, election, action);
        }
    }

    /// Sets the value that the node has as the leader of the election with this index. In an election that clients take part
    /// in, they have the values.
    pub fn set_value(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex, value: Option<Value>) {
        let name = self.engine.election(index).map(|state| state.name().hash());
        if name.is_some_and(|name| !self.broker.has_joined(name)) {
            self.input(cx, |engine, cx| engine.set_value(cx, index, value));
        }
    }

    /// Leaves all elections. The node leaves those that it leads when it has handed over, and then the engine
    /// [is empty](Engine::is_empty). Clients that lead are not waited for.
    pub fn leave_all(&mut self, cx: &mut Context<'_, Self>) {
        let indices: Vec<ElectionIndex> = self.engine.elections().map(|(index, _)| index).collect();
        let (_, mut control) = self.control(cx);
        indices.into_iter().for_each(|index| control.leave_index(index));
        self.participants.clear();
        self.changed.clear();
        self.renewed.clear();
        self.arm(cx);
    }

    /// Asks the leader of an election to hand over: see [`Engine::ask_to_hand_over`].
    pub fn ask_to_hand_over(
        &mut self,
        cx: &mut Context<'_, Self>,
        name: Name,
        to: Option<NodeId>,
    ) -> Option<Grant> {
        let mut holder = None;
        self.input(cx, |engine, cx| holder = engine.ask_to_hand_over(cx, name, to));
        holder
    }

    /// Whether the application or a client has a candidate in this election. A join by a command is the application's.
    fn has_candidate(&self, name: Name) -> bool {
        self.engine.index_of(name).is_some()
            && self.participants.get(&name).is_none_or(|participants| participants.candidate)
            || self.broker.has_joined(name)
    }

    /// Coordinates a change of the configuration: see [`Engine::start_change`].
    pub fn start_change(&mut self, cx: &mut Context<'_, Self>, change: Change) -> bool {
        let mut begun = false;
        self.input(cx, |engine, cx| begun = engine.start_change(cx, change));
        begun
    }

    /// Stops coordinating: see [`Engine::stop_change`].
    pub fn stop_change(&mut self, cx: &mut Context<'_, Self>) {
        self.input(cx, |engine, cx| engine.stop_change(cx));
    }

    // Internals.

    /// The broker, and the handle through which it drives the engine.
    fn control<'e, 'v>(
        &'e mut self,
        cx: &'e mut Context<'v, Self>,
    ) -> (&'e mut SessionBroker, Control<'e, 'v>) {
        let control = Control {
            engine: &mut self.engine,
            participants: &self.participants,
            memberships: &mut self.memberships,
            leaving: &mut self.leaving,
            effects: EngineEffects {
                cx,
                due: &mut self.engine_due,
                changed: &mut self.changed,
                renewed: &mut self.renewed,
            },
        };
        (&mut self.broker, control)
    }

    /// Hands one input to the engine.
    fn input(
        &mut self,
        cx: &mut Context<'_, Self>,
        input: impl FnOnce(&mut Engine, &mut Context<'_, Engine>),
    ) {
        let (_, mut control) = self.control(cx);
        control.input(input);
        self.reconcile(cx);
    }

    /// Carries out requests of other nodes, and tells the broker of leases that have begun or ended, until nothing changes
    /// any more; then sets the timer.
    fn reconcile(&mut self, cx: &mut Context<'_, Self>) {
        let (engine, memberships) = (&self.engine, &mut self.memberships);
        self.leaving.retain(|&index| {
            let leaves = engine.election(index).is_some();
            if !leaves {
                memberships.push(MembershipChange::Left { index });
            }
            leaves
        });
        for (index, to) in self.engine.take_hand_over_requests() {
            self.act(cx, index, to.map_or(Action::Resign, Action::Transfer));
        }
        loop {
            let (index, renewal) = match (self.changed.pop(), self.renewed.last()) {
                (Some(index), _) => (index, false),
                (None, Some(&index)) => {
                    self.renewed.pop();
                    (index, true)
                }
                (None, None) => break,
            };
            let Some(name) = self.engine.election(index).map(|state| state.name().hash()) else { continue };
            let now = cx.now();
            let (broker, mut control) = self.control(cx);
            if renewal {
                broker.on_renewal(now, name, &mut control);
            } else {
                broker.on_lease_change(now, name, &mut control);
            }
        }
        self.arm(cx);
    }

    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let due = [self.engine_due, self.broker.next_due()].into_iter().flatten().min();
        if self.armed != due {
            match due {
                Some(due) => cx.set_timer(Timer, due.since(cx.now())),
                None => cx.cancel_timer(Timer),
            }
            self.armed = due;
        }
    }

    /// Asks the clients of an election to hand over, on behalf of a command.
    fn revoke(&mut self, cx: &mut Context<'_, Self>, election: &ElectionName, to: Option<NodeId>) {
        let request = RequestId(UNANSWERED | self.revocations);
        self.revocations = (self.revocations + 1) % UNANSWERED;
        let arrival = Arrival { request, received: cx.now(), new_session: super::SessionId(0) };
        let to = to.filter(|&to| to != self.engine.me());
        self.on_request(cx, arrival, election, SessionRequest::Revoke { to });
    }

    /// Carries out an action in an election. If clients take part, the election belongs to them.
    fn command(&mut self, cx: &mut Context<'_, Self>, election: ElectionName, action: Action) {
        let name = election.hash();
        if let Action::Move(to) = action {
            self.ask_to_hand_over(cx, name, to);
            return;
        }
        if self.broker.has_joined(name) {
            return self.command_clients(cx, &election, action);
        }
        let before = self.engine.index_of(name);
        let (_, mut control) = self.control(cx);
        control.input(|engine, cx| engine.on_command(cx, action.in_election(election)));
        match (before, self.engine.index_of(name)) {
            (None, Some(index)) => self.memberships.push(MembershipChange::Joined { index, name }),
            (Some(index), None) if !self.leaving.contains(&index) => {
                self.memberships.push(MembershipChange::Left { index });
            }
            (Some(index), Some(_)) if action == Action::Leave && !self.leaving.contains(&index) => {
                self.leaving.push(index);
            }
            _ => {}
        }
        self.reconcile(cx);
    }

    fn command_clients(&mut self, cx: &mut Context<'_, Self>, election: &ElectionName, action: Action) {
        match action {
            Action::Resign | Action::Withdraw | Action::Leave | Action::Health(false) => {
                self.revoke(cx, election, None);
            }
            Action::Transfer(to) => self.revoke(cx, election, Some(to)),
            Action::Join(_)
            | Action::Stand { .. }
            | Action::Campaign
            | Action::Health(true)
            | Action::Rank(_)
            | Action::Value(_)
            | Action::Pin(_)
            | Action::Release(_)
            | Action::Move(_)
            | Action::ChangeVoters(_)
            | Action::StopChange => {}
        }
    }
}

impl Process for SessionEngine {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        self.input(cx, |engine, cx| engine.on_start(cx, start));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        self.input(cx, |engine, cx| engine.on_message(cx, from, message));
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        self.armed = None;
        let now = cx.now();
        if self.engine_due.is_some_and(|due| due <= now) {
            self.engine_due = None;
            self.input(cx, |engine, cx| engine.on_timer(cx, timer));
        }
        let (broker, mut control) = self.control(cx);
        broker.on_due(now, &mut control);
        self.reconcile(cx);
    }

    fn on_saved(&mut self, cx: &mut Context<'_, Self>, saved: Saved) {
        self.input(cx, |engine, cx| engine.on_saved(cx, saved));
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, Command { election, action }: Command) {
        match action {
            Action::ChangeVoters(change) => {
                self.start_change(cx, change.into());
                return;
            }
            Action::StopChange => return self.stop_change(cx),
            _ => {}
        }
        match election {
            Some(election) => self.command(cx, election, action),
            None => {
                let elections: Vec<ElectionName> =
                    self.engine.elections().map(|(_, state)| state.name().clone()).collect();
                elections.into_iter().for_each(|election| self.command(cx, election, action));
            }
        }
    }
}

/// The configuration of an observer, which never asks for a lease.
fn observer(config: &EngineConfig) -> CandidateConfig {
    let ttl = config.candidate.ttl.min(config.longest_ttl);
    CandidateConfig { ttl, standing: false, ..config.candidate }
}

/// The handle through which the broker drives the engine.
struct Control<'e, 'v> {
    engine: &'e mut Engine,
    participants: &'e BTreeMap<Name, Participants>,
    memberships: &'e mut Vec<MembershipChange>,
    leaving: &'e mut Vec<ElectionIndex>,
    effects: EngineEffects<'e, 'v>,
}

impl Control<'_, '_> {
    fn input(&mut self, input: impl FnOnce(&mut Engine, &mut Context<'_, Engine>)) {
        let (now, view, bound) =
            (self.effects.cx.now(), self.effects.cx.view(), self.effects.cx.delay_bound());
        input(self.engine, &mut Context::new(now, view, bound, &mut self.effects));
    }

    fn act(&mut self, index: ElectionIndex, action: Action) {
        self.input(|engine, cx| engine.act(cx, index, action));
    }

    fn leave_index(&mut self, index: ElectionIndex) {
        self.act(index, Action::Leave);
        match self.engine.election(index) {
            Some(_) => self.leaving.push(index),
            None => self.memberships.push(MembershipChange::Left { index }),
        }
    }

    fn act_in(&mut self, name: Name, action: Action) {
        if let Some(index) = self.engine.index_of(name) {
            self.act(index, action);
        }
    }

    /// Joins with this configuration, in place of the candidate or observer that is there. The engine gives the index
    /// that was left last to the next that joins: it stays the same.
    fn replace(&mut self, election: &ElectionName, config: CandidateConfig) -> Result<(), JoinError> {
        config.check(self.engine.config())?;
        let before = self.engine.index_of(election.hash());
        // The leader is the same before and after: a moment without a leader would be a false report.
        let leader = before.and_then(|index| self.engine.take_leader(index));
        if let Some(index) = before {
            self.act(index, Action::Leave);
        }
        self.engine.check_join(election, Some(&config))?;
        self.input(|engine, cx| {
            engine.on_command(cx, Action::Join(Some(config)).in_election(election.clone()));
        });
        let Some(index) = self.engine.index_of(election.hash()) else { return Err(JoinError::TooMany) };
        assert!(before.is_none_or(|before| index == before), "an election keeps its index");
        if let Some(leader) = leader {
            self.engine.set_leader(index, leader);
        }
        self.memberships.push(MembershipChange::Joined { index, name: election.hash() });
        Ok(())
    }

    fn observe(&mut self, election: &ElectionName) -> Result<(), JoinError> {
        self.replace(election, observer(self.engine.config()))
    }
}

impl LeaseControl for Control<'_, '_> {
    fn lease(&self, name: Name) -> Option<NodeLease> {
        let lease = self.engine.lease(self.effects.cx.now(), self.engine.index_of(name)?)?;
        Some(NodeLease { token: lease.token.number(), until: lease.valid_until })
    }

    fn join(&mut self, name: &str, config: CandidateConfig) -> bool {
        let Ok(election) = ElectionName::new(name) else { return false };
        let name = election.hash();
        let observed = self.participants.get(&name).is_some_and(|participants| !participants.candidate);
        let free = self.engine.index_of(name).is_none() || observed;
        free && self.replace(&election, config).is_ok()
    }

    fn campaign(&mut self, name: Name) {
        self.act_in(name, Action::Stand { once: true });
    }

    fn set_rank(&mut self, name: Name, rank: Attribute) {
        self.act_in(name, Action::Rank(rank));
    }

    fn set_value(&mut self, name: Name, value: Option<&Value>) {
        let Some(index) = self.engine.index_of(name) else { return };
        if self.engine.election(index).is_some_and(|state| state.value() != value) {
            let value = value.cloned();
            self.input(|engine, cx| engine.set_value(cx, index, value));
        }
    }

    fn withdraw(&mut self, name: Name) {
        self.act_in(name, Action::Withdraw);
    }

    fn transfer(&mut self, name: Name, to: NodeId) {
        if to != self.engine.me() {
            self.act_in(name, Action::Transfer(to));
        }
        self.act_in(name, Action::Withdraw);
    }

    fn pin(&mut self, name: Name) -> Option<NodeLease> {
        self.act_in(name, Action::Pin(true));
        self.lease(name)
    }

    fn leave(&mut self, name: Name) {
        let Some(index) = self.engine.index_of(name) else { return };
        let Some(election) = self.engine.election(index).map(|state| state.name().clone()) else { return };
        match self.participants.contains_key(&name) {
            // The observers stay. The configuration of an observer is valid in every engine.
            true => _ = self.observe(&election),
            false => self.leave_index(index),
        }
    }
}

/// The effects of the engine. Records which leases begin and end, and when the engine is due.
struct EngineEffects<'e, 'v> {
    cx: &'e mut Context<'v, SessionEngine>,
    due: &'e mut Option<Time>,
    changed: &'e mut Vec<ElectionIndex>,
    renewed: &'e mut Vec<ElectionIndex>,
}

impl EngineEffects<'_, '_> {
    fn record_lease_change(&mut self, election: usize, announcement: Announcement) {
        let leads = announcement.leader() == Some(self.cx.me());
        if leads || announcement == Announcement::SteppedDown {
            self.changed.push(ElectionIndex::from(election));
        }
    }
}

impl Effects<Engine> for EngineEffects<'_, '_> {
    forward_effects!(cx: rng, send(Message), multicast(Message), save(Saved), begin_save(Saved), suspect, restore);
    fn set_timer(&mut self, _: Timer, after: Span) {
        *self.due = Some(self.cx.now() + after);
    }
    fn cancel_timer(&mut self, _: Timer) {
        *self.due = None;
    }
    fn announce(&mut self, announcement: Announcement) {
        self.announce_in(0, announcement);
    }
    fn lead_until(&mut self, end: Time) {
        self.lead_until_in(0, end);
    }
    fn announce_in(&mut self, election: usize, announcement: Announcement) {
        self.record_lease_change(election, announcement);
        self.cx.announce_in(election, announcement);
    }
    fn lead_until_in(&mut self, election: usize, end: Time) {
        self.renewed.push(ElectionIndex::from(election));
        self.cx.lead_until_in(election, end);
    }
}

#[cfg(test)]
mod tests;
