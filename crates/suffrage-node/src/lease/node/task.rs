//! The task that owns an engine and its sessions, and carries out what they want done.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use suffrage_core::{Context, NodeId, Process as _, Roster, Span, Start, Time};
use suffrage_lease::sessions::{MembershipChange, SessionEngine};
use suffrage_lease::{
    Action, CandidateConfig, ElectionIndex, ElectionName, Engine, JoinError, Lease, Message, Name, Saved,
    Timer,
};
use suffrage_net::Transport;
use suffrage_net::codec::Protocol;
use tokio::sync::{mpsc, oneshot, watch};

use super::sessions::Sessions;
use super::{Command, ElectionCommand, Joined, LeaderChange, NodeMetrics, NodeState};
use crate::clock::Clock;
use crate::lease::journal::{Journal, Notes};
use crate::lease::output::{ElectionEvent, Event, Output, PROTOCOL, Turn};
use crate::lease::participation::{Belief, HeldLease, Participation};
use crate::lease::report;
use crate::lease::status::Status;
use crate::storage::Storage;

/// How many datagrams, and how many commands, are taken in one turn. What is said to a peer in one turn shares
/// datagrams; but a handle that waits for an answer does not wait for all of what came after.
const TURN: usize = 64;
/// The task comes round at least this often, if only to show that it can.
const IDLE: Span = Span::from_millis(1_000);
/// How long the task waits before it tries to save again.
const RETRY: Duration = Duration::from_secs(1);

/// A node's part in one election, as far as others are told of it.
struct Local {
    notes: Notes,
    belief: watch::Sender<Belief>,
    held: Option<Arc<HeldLease>>,
}

pub(super) struct Task<T, C, D> {
    pub(super) node: SessionEngine,
    out: Output,
    journal: Journal,
    /// How many of the gathered events the journal has noted.
    recorded: usize,
    /// By the engine's index of the election.
    locals: Vec<Option<Local>>,
    /// Leases that were pinned in this turn: to be told when all of it is on the disk.
    pinned: Vec<(oneshot::Sender<Option<Lease>>, Option<Lease>)>,
    pub(super) sessions: Sessions,
    /// Told of every change of leaders.
    changes: Option<mpsc::UnboundedSender<LeaderChange>>,
    /// The node alone, for the engine's context: an engine knows its voters by its configuration.
    roster: Roster,
    protocol: Protocol,
    transport: T,
    pub(super) clock: C,
    /// None while it is being written to.
    disk: Option<D>,
    handles: Handles,
    stopping: bool,
}

/// The task's ends of what it shares with the handles to the node.
pub(super) struct Handles {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) state: watch::Sender<NodeState>,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) turned: Arc<AtomicU64>,
}

/// What woke the task.
enum Woken {
    Command(Option<Command>),
    Datagram(io::Result<(NodeId, Vec<u8>)>),
    Due,
}

impl<T: Transport, C: Clock, D: Storage<Saved>> Task<T, C, D> {
    pub(super) fn new(
        node: SessionEngine,
        out: Output,
        transport: T,
        clock: C,
        disk: D,
        handles: Handles,
        history: usize,
    ) -> Task<T, C, D> {
        let me = node.engine().me();
        Task {
            journal: Journal::new(me, &node.engine().config().voters, history),
            node,
            out,
            recorded: 0,
            locals: Vec::new(),
            pinned: Vec::new(),
            sessions: Sessions::default(),
            changes: None,
            roster: Roster::listed(vec![me]).expect("one id is unique"),
            protocol: Protocol::named(PROTOCOL),
            transport,
            clock,
            disk: Some(disk),
            handles,
            stopping: false,
        }
    }

    pub(super) async fn run(mut self, start: Start<Saved>) {
        let now = self.clock.now();
        self.input(now, |node, cx| node.on_start(cx, start));
        let mut cause = None;
        if !self.settle().await {
            self.stopping = true;
        }
        while !self.stopping {
            if let Err(error) = self.turn().await {
                cause = Some(error.to_string());
                break;
            }
        }
        // Holders know at once, though the task may have handed over already.
        self.locals.iter().flatten().filter_map(|local| local.held.as_ref()).for_each(|held| held.end());
        // Whoever hears that the node has stopped finds its address and its folder free.
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
        for change in self.node.take_membership_changes() {
            match change {
                MembershipChange::Joined { index, name } => self.on_joined(now, index, name),
                MembershipChange::Left { index } => self.on_left(index),
            }
        }
        result
    }

    fn act(&mut self, now: Time, index: ElectionIndex, action: Action) {
        self.input(now, |node, cx| node.act(cx, index, action));
        if let Some(local) = self.locals[index.index()].as_mut()
            && !self.node.engine().election(index).is_some_and(|state| state.stands() && state.is_healthy())
        {
            local.notes.leaderless_since = None;
        }
    }

    /// Waits for something to do, does it and what else there is, and then what the engine makes of it.
    async fn turn(&mut self) -> io::Result<()> {
        match self.woken().await {
            Woken::Command(command) => self.obey(command),
            Woken::Datagram(received) => self.hear(received?),
            Woken::Due => {}
        }
        for _ in 0..TURN {
            match self.handles.commands.try_recv() {
                Ok(command) => self.obey(Some(command)),
                Err(_) => break,
            }
        }
        for _ in 0..TURN {
            match ready(self.transport.receive()).await {
                Some(received) => self.hear(received?),
                None => break,
            }
        }
        let now = self.clock.now();
        if self.out.due.take_if(|due| *due <= now).is_some() {
            self.input(now, |node, cx| node.on_timer(cx, Timer));
        }
        self.stopping |= !self.settle().await;
        Ok(())
    }

    async fn woken(&mut self) -> Woken {
        let now = self.clock.now();
        self.handles.turned.store(now.as_nanos(), Ordering::Relaxed);
        let due = self.out.due.unwrap_or(Time::MAX).min(now + IDLE);
        if due <= now {
            // There is more to do than fits into a turn; but others have to have theirs.
            tokio::task::yield_now().await;
            return Woken::Due;
        }
        tokio::select! {
            biased;
            received = self.transport.receive() => Woken::Datagram(received),
            command = self.handles.commands.recv() => Woken::Command(command),
            () = self.clock.sleep_until(due) => Woken::Due,
        }
    }

    /// The clock is read after a datagram has come, and for each: a lease is granted from a moment that is not
    /// before the one in which it was asked for.
    fn hear(&mut self, (from, datagram): (NodeId, Vec<u8>)) {
        let now = self.clock.now();
        match self.protocol.decode::<Message>(&datagram) {
            Err(reason) => self.transport.counters().count_drop(reason),
            Ok(messages) => {
                self.journal.hear(now, from, &messages);
                self.input(now, |node, cx| {
                    messages.into_iter().for_each(|message| node.on_message(cx, from, message));
                });
            }
        }
    }

    /// Saves, then tells, then sends, then replies to clients: in this order. False if the task was told to stop while
    /// it could not save.
    async fn settle(&mut self) -> bool {
        loop {
            if !self.out.is_empty() {
                if !self.save().await {
                    return false;
                }
                self.record_events();
                let mut events = std::mem::take(&mut self.out.events);
                for event in events.drain(..) {
                    self.tell(event);
                }
                (self.out.events, self.recorded) = (events, 0);
                let transport = &self.transport;
                // A peer that does not get it asks again; the transport has counted it.
                self.out.mail.flush(|to, datagram| _ = transport.send(to, datagram));
            }
            self.reply_to_clients();
            // A reply that nobody reads changes something again.
            if self.out.is_empty() && !self.node.has_replies() {
                break;
            }
        }
        for (reply, lease) in self.pinned.drain(..) {
            // If nobody waits for the answer, the lease is pinned all the same.
            _ = reply.send(lease);
        }
        true
    }

    /// Tries until it succeeds: nothing may happen before.
    async fn save(&mut self) -> bool {
        let Some(saved) = self.out.save.take() else { return true };
        loop {
            let Some(mut disk) = self.disk.take() else { return false };
            let written = tokio::task::spawn_blocking(move || {
                // The mark only after the first state is there, and before anybody hears of it.
                let written = disk.save(&saved).and_then(|()| disk.mark_started());
                (disk, written)
            });
            let Ok((disk, written)) = written.await else { return false };
            self.disk = Some(disk);
            let state = match &written {
                Ok(()) => NodeState::Running,
                Err(error) => NodeState::StorageFailing(error.to_string()),
            };
            self.handles.state.send_if_modified(|known| {
                let changed = *known != state;
                *known = state;
                changed
            });
            if written.is_ok() {
                return true;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                _ = self.handles.stopped.wait_for(|stop| *stop) => return false,
            }
        }
    }

    /// Has the journal take note of the events that it has not noted yet.
    fn record_events(&mut self) {
        for &ElectionEvent { index, epoch, at, event } in &self.out.events[self.recorded..] {
            let local = self.locals.get_mut(index).and_then(Option::as_mut);
            let Some(local) = local.filter(|_| epoch == self.out.epoch(index)) else { continue };
            let engine = self.node.engine();
            let state = engine.index_of(local.notes.name).and_then(|it| engine.election(it));
            self.journal.record(&mut local.notes, at, event, state.is_some_and(|state| state.stands()));
        }
        self.recorded = self.out.events.len();
    }

    /// Tells those concerned what has become of an election.
    fn tell(&mut self, ElectionEvent { index, epoch, event, .. }: ElectionEvent) {
        let (now, me) = (self.clock.now(), self.engine().me());
        let local = self.locals.get_mut(index).and_then(Option::as_mut);
        let Some(local) = local.filter(|_| epoch == self.out.epoch(index)) else { return };
        let leader = match event {
            Event::Renewed { valid_until } => {
                if let Some(held) = &local.held {
                    held.renew(valid_until);
                }
                return;
            }
            Event::Led { token, valid_until } => {
                match &local.held {
                    Some(held) => held.lead_on(token, valid_until),
                    None => local.held = Some(Arc::new(HeldLease::new(token, valid_until))),
                }
                Some((me, token))
            }
            Event::Follows { leader, token } => Some((leader, token)),
            Event::Lost | Event::Nobody => None,
        };
        if !matches!(event, Event::Led { .. })
            && let Some(held) = local.held.take()
        {
            held.end();
        }
        let belief = Belief { leader, since: now, held: local.held.clone() };
        let before = local.belief.send_replace(belief);
        if before.leader != leader
            && let Some(changes) = &self.changes
            && let Some(state) = self.node.engine().election(ElectionIndex::from(index))
        {
            // If nobody listens any more, nobody is told.
            _ = changes.send(LeaderChange { election: state.name().clone(), leader });
        }
    }

    fn obey(&mut self, command: Option<Command>) {
        let now = self.clock.now();
        // If nobody waits for the answer, it is done all the same.
        match command {
            Some(Command::Join { node, election, config, reply }) => {
                // If nobody has the node any more, nobody waits for this.
                let Some(node) = node.upgrade() else { return };
                let stands = config.is_some();
                let joined = self.join(now, &election, config);
                _ = reply.send(joined.map(|(name, belief)| Participation { node, name, belief, stands }));
            }
            Some(Command::Do { name, command, reply }) => {
                let index = self.engine().index_of(name);
                match (command, index) {
                    (ElectionCommand::Act(action), Some(index)) => self.act(now, index, action),
                    (ElectionCommand::Act(_), None) => {}
                    (ElectionCommand::Leave { stands }, _) => {
                        _ = self.input(now, |node, cx| node.leave(cx, name, stands));
                    }
                }
                if let Some(reply) = reply {
                    _ = reply.send(index.is_some());
                }
            }
            Some(Command::Pin { name, reply }) => {
                let lease = self.engine().index_of(name).and_then(|index| {
                    self.act(now, index, Action::Pin(true));
                    self.engine().lease(now, index)
                });
                self.pinned.push((reply, lease));
            }
            Some(Command::Session(command)) => self.obey_client(now, command),
            Some(Command::Changes { sender }) => self.changes = Some(sender),
            Some(Command::Status { name, reply }) => {
                _ = reply.send(self.engine().index_of(name).and_then(|index| self.status(now, index)));
            }
            Some(Command::Elections { reply }) => {
                let all = self.engine().elections().filter_map(|(index, _)| self.status(now, index));
                _ = reply.send(all.collect());
            }
            Some(Command::History { name, reply }) => {
                let all = self.journal.history.all();
                let wanted = all.filter(|record| name.is_none_or(|name| name == record.name));
                _ = reply.send(wanted.copied().collect());
            }
            Some(Command::Metrics { reply }) => _ = reply.send(self.metrics(now)),
            Some(Command::Stop) | None => self.leave_all(now),
        }
    }

    fn status(&self, now: Time, index: ElectionIndex) -> Option<Status> {
        let local = self.locals.get(index.index())?.as_ref()?;
        let election = self.engine().election(index)?;
        Some(report::status(now, self.engine(), &self.journal, election, &local.notes))
    }

    fn metrics(&self, now: Time) -> NodeMetrics {
        NodeMetrics {
            counters: self.journal.counters,
            elections: self.engine().len(),
            heard: self.journal.heard(now, self.engine().votes(now)),
            voter: report::voter_status(now, self.engine()),
            round_trip: self.engine().round_trip(),
            messages_sent: self.out.mail.messages(),
        }
    }

    /// A handle takes part. Others may do so already as observers; their beliefs go on.
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
        let Some(local) = self.locals[index.index()].as_ref() else { return Err(JoinError::TooMany) };
        Ok((election.hash(), local.belief.subscribe()))
    }

    /// The engine has joined an election, or has another candidate in it from now on: whoever is told of the election
    /// is told of that one.
    fn on_joined(&mut self, now: Time, index: ElectionIndex, name: Name) {
        let config = self.engine().config();
        let ttl = self.engine().election(index).map_or(config.candidate.ttl, |state| state.ttl());
        let notes = Notes::new(name, config.drift.validity(ttl), now);
        // What the earlier candidate has announced is still to be noted and told, in order.
        self.record_events();
        if self.locals.len() <= index.index() {
            self.locals.resize_with(index.index() + 1, || None);
        }
        match &mut self.locals[index.index()] {
            Some(local) => local.notes = notes,
            empty => {
                let belief = watch::Sender::new(Belief { leader: None, since: now, held: None });
                *empty = Some(Local { notes, belief, held: None });
            }
        }
    }

    /// The engine has left an election. Holders know that they do not lead any more before anybody is told; and what is
    /// still to be told of it concerns nobody: were the lease kept, the next one would be taken for the same.
    fn on_left(&mut self, index: ElectionIndex) {
        self.record_events();
        self.out.end_epoch(index.index());
        if let Some(held) = self.locals[index.index()].take().and_then(|local| local.held) {
            held.end();
        }
    }

    fn leave_all(&mut self, now: Time) {
        self.input(now, |node, cx| node.leave_all(cx));
        self.stopping = true;
    }
}

/// What is there already, without waiting for it.
async fn ready<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
