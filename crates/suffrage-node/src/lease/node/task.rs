//! The task that owns an engine and its sessions, and carries out their effects.

mod moves;
mod saves;
mod surveys;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use suffrage_core::{Context, NodeId, Process as _, Roster, Span, Start, Time};
use suffrage_lease::membership::Configuration;
use suffrage_lease::sessions::{MembershipChange, SessionEngine};
use suffrage_lease::{
    Action, Ask, Body, CandidateConfig, ElectionIndex, ElectionName, Engine, JoinError, Lease, NOTICE_SLACK,
    Name, Report, Saved, Timer, Token,
};
use suffrage_net::codec::Protocol;
use suffrage_net::{Dropped, Transport};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError as TaskError, JoinHandle};

use self::saves::{Write, finished};
use super::sessions::Sessions;
use super::{Command, ElectionCommand, Joined, NodeEvent, NodeMetrics, NodeState};
use crate::clock::Clock;
use crate::lease::journal::{Journal, Notes, SILENT_AFTER};
use crate::lease::output::{Content, ElectionEvent, Event, Output, PROTOCOL, Turn, WireItem, content};
use crate::lease::participation::{Belief, HeldLease, Participation};
use crate::lease::report;
use crate::lease::status::{KnownElection, Leader, LeaderValue, Status};
use crate::lease::survey::Survey;
use crate::lease::witness::Witness;
use crate::storage::Storage;

/// The most datagrams, and the most commands, of one half of a turn. Messages of one turn to one peer share datagrams; a small
/// number keeps the answers to handles quick.
const TURN: usize = 64;
/// The longest time between two turns. The time of the last turn shows that the task is not stuck.
const IDLE: Span = Span::from_millis(1_000);
/// The least time between two notices to one node that this voter does not vote.
const ABSENCE: Span = Span::from_millis(500);
/// The greatest number of nodes that get such notices at a time, and of requests to hand over that are remembered.
const MAX_TOLD: usize = 4_096;

/// The part of the node in one election, as the handles see it.
struct Local {
    notes: Notes,
    belief: watch::Sender<Belief>,
    held: Option<Arc<HeldLease>>,
    /// Gets the next lease: see [`Command::Campaign`].
    elected: Option<oneshot::Sender<Arc<HeldLease>>>,
}

impl Drop for Local {
    /// A leadership ends with the participation and with the task, also if the task is aborted: nobody renews the lease any
    /// more, and a second process with the same id may be started.
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.end();
        }
    }
}

/// The disk without its type: the task is compiled once for all kinds of disks.
pub(super) type Disk = Box<dyn Storage<Saved>>;

pub(super) struct Task<T, C> {
    pub(super) node: SessionEngine,
    out: Output,
    journal: Journal,
    /// The number of gathered events that the journal has recorded.
    recorded: usize,
    /// By the engine's index of the election.
    locals: Vec<Option<Local>>,
    /// The leases that were pinned in this turn. The replies are sent when the turn's state is saved.
    pinned: Vec<(oneshot::Sender<Option<Lease>>, Option<Lease>)>,
    pub(super) sessions: Sessions,
    /// Elections whose applications learned too late that the node hands over.
    late_notices: Vec<ElectionIndex>,
    /// Elections whose leases have ended while the application waits for the next one.
    stand_again: Vec<ElectionIndex>,
    /// Receives events for the operator.
    events: Option<mpsc::UnboundedSender<NodeEvent>>,
    /// When each node was last told that this voter does not vote.
    told_absence: BTreeMap<NodeId, Time>,
    /// The last request to hand over an election, from or to another node, that the operator knows of.
    told_moves: BTreeMap<(Name, NodeId), (Token, Option<NodeId>)>,
    /// The node alone, for the engine's context: an engine knows its voters by its configuration.
    roster: Roster,
    protocol: Protocol,
    transport: T,
    pub(super) clock: C,
    /// None while a blocking thread writes to it.
    disk: Option<Disk>,
    /// The write that is under way, off the task.
    write: Option<JoinHandle<Write>>,
    witness: Witness,
    survey: Survey,
    /// Whether another node knows saves that the disk of this node's voter has lost.
    outdated: bool,
    handles: Handles,
    /// Whether the node leaves all elections, and then stops.
    draining: bool,
    stopping: bool,
}

/// The task's ends of what it shares with the handles to the node.
pub(super) struct Handles {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) state: watch::Sender<NodeState>,
    pub(super) configuration: watch::Sender<Arc<Configuration>>,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) turned: Arc<AtomicU64>,
    /// See [`NOT_SAVING`](super::NOT_SAVING).
    pub(super) saving_since: Arc<AtomicU64>,
}

/// The reason for a turn.
enum Wake {
    Command(Option<Command>),
    Datagram(io::Result<(NodeId, Vec<u8>)>),
    Timer,
    /// The blocking thread has written to the disk, or failed to.
    Written(Result<Write, TaskError>),
}

impl<T: Transport, C: Clock> Task<T, C> {
    pub(super) fn new(
        node: SessionEngine,
        out: Output,
        transport: T,
        clock: C,
        disk: Disk,
        handles: Handles,
        history: usize,
    ) -> Task<T, C> {
        let me = node.engine().me();
        Task {
            journal: Journal::new(me, &node.engine().configuration().ids(), history),
            node,
            out,
            recorded: 0,
            locals: Vec::new(),
            pinned: Vec::new(),
            sessions: Sessions::default(),
            late_notices: Vec::new(),
            stand_again: Vec::new(),
            events: None,
            told_absence: BTreeMap::new(),
            told_moves: BTreeMap::new(),
            roster: Roster::listed(vec![me]).expect("one id is unique"),
            protocol: Protocol::named(PROTOCOL),
            transport,
            clock,
            disk: Some(disk),
            write: None,
            witness: Witness::default(),
            survey: Survey::default(),
            outdated: false,
            handles,
            draining: false,
            stopping: false,
        }
    }

    pub(super) async fn run(mut self, start: Start<Saved>) {
        let now = self.clock.now();
        self.input(now, |node, cx| node.on_start(cx, start));
        let mut cause = None;
        if !self.carry_out().await {
            self.stopping = true;
        }
        while !self.stopping {
            if let Err(error) = self.turn().await {
                cause = Some(error.to_string());
                break;
            }
        }
        // The data folder is in use until the write has ended. Nothing rests on the state that it writes.
        if let Some(write) = self.write.take() {
            _ = write.await;
        }
        // Leaderships have ended, and socket and data folder are released, before the state says that the node has stopped.
        let state = self.handles.state.clone();
        drop(self);
        state.send_replace(NodeState::Stopped { cause });
    }

    fn engine(&self) -> &Engine {
        self.node.engine()
    }

    /// Hands one input to the node.
    pub(super) fn input<R>(
        &mut self,
        now: Time,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>) -> R,
    ) -> R {
        let (me, delay) = (self.engine().me(), self.engine().config().delay);
        let mut turn = Turn { me, now, out: &mut self.out };
        let result = input(&mut self.node, &mut Context::new(now, self.roster.view(0), delay, &mut turn));
        self.after_input(now);
        result
    }

    /// Acts on everything that an input has changed.
    fn after_input(&mut self, now: Time) {
        for (voter, at) in self.out.asked.drain(..) {
            self.journal.on_asked(voter, at);
        }
        for report in self.node.take_reports() {
            self.on_report(now, report);
        }
        for change in self.node.take_membership_changes() {
            match change {
                MembershipChange::Joined { index, .. } => self.on_joined(now, index),
                MembershipChange::Left { index } => self.on_left(now, index),
            }
        }
        self.publish_events();
    }

    /// Publishes beliefs after every input, before the next one: a lease is not released before the application knows
    /// that the node hands over, and no datagram leaves before a leadership has ended here.
    fn publish_events(&mut self) {
        self.record_events();
        let mut events = std::mem::take(&mut self.out.events);
        for event in events.drain(..) {
            self.publish(event);
        }
        (self.out.events, self.recorded) = (events, 0);
        self.pin_late_notices();
        self.stand_again();
    }

    /// Records a report of the engine, and passes it to the operator.
    fn on_report(&mut self, now: Time, report: Report) {
        let event = match report {
            Report::Granted(change) => {
                let since =
                    self.engine().granted_since(change.election.hash()).map_or(now, |(since, _)| since);
                if !self.journal.record_grant(since, &change) {
                    return;
                }
                NodeEvent::GrantChanged { election: change.election, leader: change.grant.map(Leader::of) }
            }
            Report::Refused(refused) => match self.journal.record_refusal(now, &refused) {
                Some(refusal) => NodeEvent::Refused { election: refused.election, refusal },
                None => return,
            },
            Report::ValueChanged(election) => return self.publish_value(&election),
        };
        self.tell(event);
    }

    /// Publishes the value of the leader that is known in an election.
    fn publish_value(&mut self, election: &ElectionName) {
        let Some(index) = self.engine().index_of(election.hash()) else { return };
        let Some(Some(local)) = self.locals.get(index.index()) else { return };
        let value = self.known_value(election.hash(), local.belief.borrow().leader);
        local.belief.send_if_modified(|belief| {
            let changed = belief.value != value;
            belief.value = value;
            changed
        });
    }

    /// The value of this leader, if the node knows it.
    fn known_value(&self, name: Name, leader: Option<Leader>) -> Option<LeaderValue> {
        self.engine().value(name, leader?.token).map(LeaderValue::new)
    }

    fn tell(&self, event: NodeEvent) {
        if let Some(events) = &self.events {
            // The receiver may be gone.
            _ = events.send(event);
        }
    }

    fn act(&mut self, now: Time, index: ElectionIndex, action: Action) {
        self.input(now, |node, cx| node.act(cx, index, action));
        if let Some(Some(local)) = self.locals.get_mut(index.index())
            && !self.node.engine().election(index).is_some_and(|state| state.stands() && state.is_healthy())
        {
            local.notes.leaderless_since = None;
        }
    }

    /// Waits for an input, hands it and all inputs that are ready to the engine, and carries out the effects.
    async fn turn(&mut self) -> io::Result<()> {
        match self.wake().await {
            Wake::Command(command) => self.on_command(command),
            Wake::Datagram(received) => self.on_datagram(received?),
            Wake::Timer => {}
            Wake::Written(written) => {
                if !self.on_written(written).await {
                    self.stopping = true;
                    return Ok(());
                }
            }
        }
        self.drain_inputs().await?;
        if !self.out.is_empty() {
            // Tokio runs a task right after the one that has woken it, so that this one would send a datagram for each
            // command. Whoever is about to give commands does so first, and all of them share datagrams.
            tokio::task::yield_now().await;
            self.drain_inputs().await?;
        }
        if self.outdated {
            return Err(self.set_aside().await);
        }
        let now = self.clock.now();
        if self.out.due.take_if(|due| *due <= now).is_some() {
            self.input(now, |node, cx| node.on_timer(cx, Timer));
        }
        self.stopping |= !self.carry_out().await;
        // Leases whose work goes on are handed over after the stop margin.
        self.stopping |= self.draining && self.engine().is_empty();
        Ok(())
    }

    /// Hands the inputs that are ready to the engine: at most [`TURN`] of each kind.
    async fn drain_inputs(&mut self) -> io::Result<()> {
        for _ in 0..TURN {
            match self.handles.commands.try_recv() {
                Ok(command) => self.on_command(Some(command)),
                Err(_) => break,
            }
        }
        for _ in 0..TURN {
            match ready(self.transport.receive()).await {
                Some(received) => self.on_datagram(received?),
                None => break,
            }
        }
        Ok(())
    }

    async fn wake(&mut self) -> Wake {
        let now = self.clock.now();
        self.handles.turned.store(now.as_nanos(), Ordering::Relaxed);
        let due = self.out.due.unwrap_or(Time::MAX).min(now + IDLE);
        if self.write.as_ref().is_some_and(JoinHandle::is_finished) {
            return Wake::Written(finished(&mut self.write).await);
        }
        if due <= now {
            // More work is due: other tasks of the runtime get their turn first.
            tokio::task::yield_now().await;
            return Wake::Timer;
        }
        tokio::select! {
            // This order keeps a flood of datagrams from delaying commands. No input starves another: every turn handles
            // inputs of each kind, and what is due. The timer comes last, because it costs more to set than to read a
            // datagram that is there.
            biased;
            command = self.handles.commands.recv() => Wake::Command(command),
            written = finished(&mut self.write) => Wake::Written(written),
            received = self.transport.receive() => Wake::Datagram(received),
            () = self.clock.sleep_until(due) => Wake::Timer,
        }
    }

    /// Reads the clock after the datagram was received, and for each datagram: a grant must not begin before its
    /// request was sent.
    fn on_datagram(&mut self, (from, datagram): (NodeId, Vec<u8>)) {
        let now = self.clock.now();
        let items = self.protocol.decode::<WireItem>(&datagram);
        match items.and_then(|items| content(items).ok_or(Dropped::Malformed)) {
            Err(reason) => self.transport.counters().count_drop(reason),
            Ok(content) if self.is_outdated(from, &content) => {}
            Ok(content) => {
                self.journal.on_messages(now, from, &content.messages);
                self.exchange_absence(now, from, &content);
                self.exchange_reports(now, from, &content);
                // Each message is an input of its own: the engine keeps the reports of one input.
                for message in content.messages {
                    self.note_hand_over_request(now, from, &message);
                    self.input(now, |node, cx| node.on_message(cx, from, message));
                }
            }
        }
    }

    /// Records that a voter does not vote, and tells nodes that ask this voter that it does not. The engine ignores their
    /// requests, and no election depends on the notice. Each node gets one per [`ABSENCE`] at most.
    fn exchange_absence(&mut self, now: Time, from: NodeId, content: &Content) {
        let header = self.engine().header();
        if content.header.stamp != header.stamp {
            return;
        }
        if let Some(absence) = content.absence {
            self.journal.on_absence(now, from, absence);
        }
        let asks = |body: &Body| matches!(body, Body::Ask(ask) if !matches!(ask, Ask::Release { .. }));
        if content.messages.iter().any(|message| asks(&message.body))
            && let Some(absence) = report::own_absence(now, self.engine())
        {
            self.told_absence.retain(|_, at| now.since(*at) < ABSENCE);
            if self.told_absence.len() < MAX_TOLD && !self.told_absence.contains_key(&from) {
                self.told_absence.insert(from, now);
                self.out.push(from, header, &WireItem::NotVoting(absence));
            }
        }
    }

    /// Publishes the configuration if it has changed. The configuration is durable by then.
    fn publish_configuration(&mut self) {
        let configuration = self.node.engine().configuration();
        if !Arc::ptr_eq(&self.handles.configuration.borrow(), configuration) {
            self.journal.set_voters(&configuration.ids());
            self.survey.set_voters(&configuration.ids());
            self.handles.configuration.send_replace(Arc::clone(configuration));
        }
    }

    /// Carries out the effects in this order: save, send datagrams, reply to clients. Beliefs are published before
    /// ([`publish_events`](Task::publish_events)): a node that saves here starts, and has none. False if the node was
    /// stopped while it could not save.
    async fn carry_out(&mut self) -> bool {
        self.start_next_write();
        loop {
            if !self.out.is_empty() {
                if !self.save().await {
                    return false;
                }
                let transport = &self.transport;
                // The transport counts failures. A peer that misses a message asks again.
                self.out.mail.flush(|to, datagram| _ = transport.send(to, datagram));
            }
            self.reply_to_clients();
            self.start_next_write();
            // An undelivered reply changes the state of its session.
            if self.out.is_empty() && !self.node.has_replies() {
                break;
            }
        }
        self.publish_configuration();
        for (reply, lease) in self.pinned.drain(..) {
            // The lease stays pinned if the caller is gone.
            _ = reply.send(lease);
        }
        true
    }

    /// Passes new events to the journal.
    fn record_events(&mut self) {
        for place in self.recorded..self.out.events.len() {
            let ElectionEvent { index, epoch, at, event, .. } = self.out.events[place];
            let local = self.locals.get_mut(index).and_then(Option::as_mut);
            let Some(local) = local.filter(|_| epoch == self.out.epoch(index)) else { continue };
            let engine = self.node.engine();
            let state = engine.index_of(local.notes.name).and_then(|it| engine.election(it));
            // The end of a lease that is handed over moves without a renewal.
            if matches!(event, Event::Renewed { .. }) && state.is_some_and(|it| it.hand_over().is_some()) {
                continue;
            }
            let stands = state.is_some_and(|state| state.stands());
            self.out.events[place].news = self.journal.record(&mut local.notes, at, event, stands);
            if matches!(event, Event::Led { .. }) {
                self.journal.forget_refusal(local.notes.name);
            }
        }
        self.recorded = self.out.events.len();
    }

    /// Lets leases expire whose applications learned too late that the node hands over, because a save took long: they
    /// have less than the stop margin to end their work.
    fn pin_late_notices(&mut self) {
        if self.late_notices.is_empty() {
            return;
        }
        let now = self.clock.now();
        for index in std::mem::take(&mut self.late_notices) {
            self.act(now, index, Action::Pin(true));
        }
    }

    /// A candidacy ends with a leadership. It begins again for an application that waits for a later lease than the one that
    /// has ended: see [`Command::Campaign`].
    fn stand_again(&mut self) {
        if self.stand_again.is_empty() {
            return;
        }
        let now = self.clock.now();
        for index in std::mem::take(&mut self.stand_again) {
            self.act(now, index, Action::Stand { once: true });
        }
    }

    /// Publishes an event of an election to the handles.
    fn publish(&mut self, ElectionEvent { index, epoch, at, event, news }: ElectionEvent) {
        let me = self.engine().me();
        let local = self.locals.get_mut(index).and_then(Option::as_mut);
        let Some(local) = local.filter(|_| epoch == self.out.epoch(index)) else { return };
        let mut elected = None;
        let leader = match event {
            Event::Renewed { valid_until } => {
                let state = self.node.engine().election(ElectionIndex::from(index));
                match (&local.held, state.and_then(|state| state.hand_over())) {
                    (Some(held), None) => held.renew(valid_until),
                    (Some(held), Some(_)) => {
                        held.shorten(valid_until);
                        let slack = (valid_until.since(at).as_nanos()) / NOTICE_SLACK;
                        // Read after the application was told.
                        if self.clock.now().since(at).as_nanos() > slack {
                            self.late_notices.push(ElectionIndex::from(index));
                        }
                    }
                    (None, _) => {}
                }
                return;
            }
            Event::Led { token, valid_until } => {
                match &local.held {
                    Some(held) => held.renew_with_token(token, valid_until),
                    None => {
                        local.held = Some(Arc::new(HeldLease::new(token, valid_until)));
                        elected = local.elected.take();
                    }
                }
                Some(Leader { node: me, token })
            }
            Event::Follows { leader, token } => Some(Leader { node: leader, token }),
            Event::Lost | Event::Nobody => None,
        };
        if !matches!(event, Event::Led { .. })
            && let Some(held) = local.held.take()
        {
            held.end();
            if local.elected.as_ref().is_some_and(|elected| !elected.is_closed()) {
                self.stand_again.push(ElectionIndex::from(index));
            }
        }
        let name = local.notes.name;
        let value =
            leader.and_then(|leader| self.node.engine().value(name, leader.token)).map(LeaderValue::new);
        let belief = Belief { leader, value, since: at, held: local.held.clone() };
        let before = local.belief.send_replace(belief);
        // After the belief, by which the application learns that it has lost the lease.
        if let (Some(elected), Some(held)) = (elected, &local.held) {
            // If the caller is gone, it has told the node to release the lease.
            _ = elected.send(Arc::clone(held));
        }
        if before.leader != leader
            && news
            && let Some(state) = self.node.engine().election(ElectionIndex::from(index))
        {
            self.tell(NodeEvent::LeaderChanged { election: state.name().clone(), leader });
        }
    }

    fn on_command(&mut self, command: Option<Command>) {
        let now = self.clock.now();
        // A command is carried out also if its caller is gone.
        match command {
            Some(Command::Join { node, election, config, reply }) => {
                // Without a handle to the node, no caller waits.
                let Some(node) = node.upgrade().filter(|_| !self.draining) else { return };
                let candidate = config.is_some();
                self.note_grant(now, election.hash());
                let joined = self.join(now, &election, config);
                self.forget_leader(now, election.hash());
                _ = reply.send(joined.map(|(name, belief)| Participation { node, name, belief, candidate }));
            }
            Some(Command::Do { name, command, reply }) => {
                let index = self.engine().index_of(name);
                match (command, index) {
                    (ElectionCommand::Act(action), Some(index)) => self.act(now, index, action),
                    (ElectionCommand::Act(_), None) => {}
                    (ElectionCommand::Leave { candidate }, _) => {
                        _ = self.input(now, |node, cx| node.leave(cx, name, candidate));
                    }
                }
                if let Some(reply) = reply {
                    _ = reply.send(index.is_some());
                }
            }
            Some(Command::Campaign { name, elected }) => {
                if let Some(index) = self.engine().index_of(name)
                    && let Some(Some(local)) = self.locals.get_mut(index.index())
                {
                    local.elected = Some(elected);
                    self.act(now, index, Action::Stand { once: true });
                }
            }
            Some(Command::SetValue { name, value }) => {
                if let Some(index) = self.engine().index_of(name) {
                    self.input(now, |node, cx| node.set_value(cx, index, value));
                }
            }
            Some(Command::Pin { name, reply }) => {
                let lease = self.engine().index_of(name).and_then(|index| {
                    self.act(now, index, Action::Pin(true));
                    self.engine().lease(now, index)
                });
                self.pinned.push((reply, lease));
            }
            Some(Command::CheckTransfer { name, to, reply }) => {
                _ = reply.send(self.check_transfer(now, name, to))
            }
            Some(Command::Session(command)) => self.on_session_command(now, command),
            Some(Command::Events { sender }) => self.events = Some(sender),
            Some(Command::Status { name, reply }) => {
                _ = reply.send(self.engine().index_of(name).and_then(|index| self.status(now, index)));
            }
            Some(Command::Elections { reply }) => {
                let all = self.engine().elections().filter_map(|(index, _)| self.status(now, index));
                _ = reply.send(all.collect());
            }
            Some(Command::Granted { reply }) => {
                _ = reply.send(report::granted(now, self.engine(), &self.journal));
            }
            Some(Command::List { reply }) => _ = reply.send(report::list(now, self.engine())),
            Some(Command::Known { names, reply }) => {
                let known = names.into_iter().filter_map(|name| self.known(now, name));
                _ = reply.send(known.collect());
            }
            Some(Command::History { name, reply }) => {
                _ = reply.send(self.journal.history.entries(now, name));
            }
            Some(Command::Metrics { reply }) => _ = reply.send(self.metrics(now)),
            Some(Command::Overview { survey, reply }) => _ = reply.send(self.overview(now, survey)),
            Some(Command::ChangeVoters { change, reply }) => {
                _ = reply.send(self.input(now, |node, cx| node.start_change(cx, change)));
            }
            Some(Command::StopChange) => self.input(now, |node, cx| node.stop_change(cx)),
            Some(Command::Membership { reply }) => _ = reply.send(report::membership(now, self.engine())),
            Some(Command::Move { election, to, token, reply }) => {
                _ = reply.send(self.move_leader(now, election, to, token));
            }
            Some(Command::Holder { name, reply }) => {
                let holder = self.engine().holder(now, name);
                let voter = self.engine().voter().filter(|_| self.engine().is_voting(now));
                let expires = voter.and_then(|voter| voter.grant(now, name)).map(|(_, expires)| expires);
                let remaining = report::duration(expires.map_or(Span::ZERO, |expires| expires.since(now)));
                _ = reply.send(holder.map(|grant| (Leader::of(grant), remaining)));
            }
            Some(Command::Stop) => self.leave_all(now),
            None => {
                // Without a handle nothing works any more.
                self.leave_all(now);
                self.stopping = true;
            }
        }
    }

    fn status(&self, now: Time, index: ElectionIndex) -> Option<Status> {
        let local = self.locals.get(index.index())?.as_ref()?;
        let election = self.engine().election(index)?;
        let mismatches = report::mismatches(self.engine(), &self.witness);
        let status = report::status(now, self.engine(), &self.journal, election, (&local.notes, mismatches));
        let pending = super::save_pending(&self.handles.saving_since, now);
        let slow = pending.filter(|pending| *pending > report::duration(election.ttl()));
        Some(Status { slow_save: slow, ..status })
    }

    /// An election that the node takes part in, or that its voter has granted.
    fn known(&self, now: Time, name: Name) -> Option<KnownElection> {
        if let Some(index) = self.engine().index_of(name) {
            return self.status(now, index).map(KnownElection::Joined);
        }
        let granted = self.engine().granted_election(now, name)?;
        let granted = report::granted_election(now, self.engine(), &self.journal, granted);
        Some(KnownElection::Granted(granted))
    }

    fn metrics(&self, now: Time) -> NodeMetrics {
        NodeMetrics {
            counters: self.journal.counters,
            elections: self.engine().len(),
            granted: self.engine().voter().map_or(0, |voter| voter.granted(now)),
            voters: report::contacts(now, self.engine(), &self.journal, SILENT_AFTER),
            voter: report::voter_status(now, self.engine()),
            version: self.engine().configuration().version(),
            mismatches: report::mismatches(self.engine(), &self.witness),
            mismatched_messages: self.engine().mismatched_messages(),
            round_trip: report::duration(self.engine().round_trip()),
            messages_sent: self.out.mail.messages(),
        }
    }

    /// Adds a participation. Observers of the same election keep their beliefs.
    fn join(
        &mut self,
        now: Time,
        election: &ElectionName,
        config: Option<CandidateConfig>,
    ) -> Result<Joined, JoinError> {
        let index = self.input(now, |node, cx| match config {
            Some(config) => node.join(cx, election, config),
            None => node.observe(cx, election),
        })?;
        let Some(Some(local)) = self.locals.get(index.index()) else { return Err(JoinError::TooMany) };
        Ok((election.hash(), local.belief.subscribe()))
    }

    /// The engine has joined an election, or has replaced its candidate in it: the beliefs are about the new candidate
    /// from now on.
    fn on_joined(&mut self, now: Time, index: ElectionIndex) {
        let Some(election) = self.engine().election(index) else { return };
        let validity = self.engine().config().drift.validity(election.ttl());
        let notes = Notes::new(election.name().clone(), validity, now);
        // The announcements of the earlier candidate come first.
        self.record_events();
        if self.locals.len() <= index.index() {
            self.locals.resize_with(index.index() + 1, || None);
        }
        match &mut self.locals[index.index()] {
            // The known leader has not changed.
            Some(local) => {
                local.notes = Notes { since: local.notes.since, ..notes };
            }
            empty => {
                let belief = watch::Sender::new(Belief { leader: None, value: None, since: now, held: None });
                *empty = Some(Local { notes, belief, held: None, elected: None });
            }
        }
    }

    /// The engine has left an election. A held lease ends before any peer learns of it. Events that are not published
    /// yet are void: otherwise the next lease of this index would pass for the same one.
    fn on_left(&mut self, now: Time, index: ElectionIndex) {
        let events = &mut self.out.events[self.recorded..];
        // The engine announces that it knows no leader when it leaves. That is no news of the election.
        if let Some(last) = events.iter_mut().rfind(|event| event.index == index.index())
            && last.event == Event::Nobody
        {
            last.epoch = u64::MAX;
        }
        self.record_events();
        self.out.end_epoch(index.index());
        if let Some(local) = self.locals.get_mut(index.index()).and_then(Option::take) {
            let name = local.notes.name;
            self.journal.forget_refusal(name);
            self.forget_leader(now, name);
        }
    }

    /// The holder of the lease that the node's voter has granted.
    fn granted_to(&self, now: Time, name: Name) -> Option<Leader> {
        self.engine().voter()?.grant(now, name).map(|(grant, _)| Leader::of(grant))
    }

    /// Notes since when the node's voter has granted the lease of an election that the node is about to join.
    pub(super) fn note_grant(&mut self, now: Time, name: Name) {
        let engine = self.engine();
        if engine.index_of(name).is_none()
            && let Some((since, is_named)) = engine.granted_since(name)
            && let Some(leader) = self.granted_to(now, name)
        {
            self.journal.note_grant(name, leader, since, is_named);
        }
    }

    /// Forgets the leader of an election that the node takes no part in, unless its voter knows it.
    pub(super) fn forget_leader(&mut self, now: Time, name: Name) {
        if self.engine().index_of(name).is_none() {
            let granted = self.granted_to(now, name);
            self.journal.forget_leader(name, granted);
        }
    }

    fn leave_all(&mut self, now: Time) {
        self.input(now, |node, cx| node.leave_all(cx));
        self.draining = true;
    }
}

/// The output of a future that is ready, without waiting.
async fn ready<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
