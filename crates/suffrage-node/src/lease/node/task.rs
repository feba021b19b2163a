//! The task that owns an engine, and carries out what it wants done.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use suffrage_core::{Context, NodeId, Process as _, Roster, Span, Start, Time};
use suffrage_lease::{
    Action, CandidateConfig, ElectionIndex, ElectionName, Engine, JoinError, Lease, Message, Name, Saved,
    Timer,
};
use suffrage_net::Transport;
use suffrage_net::codec::Protocol;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Command, ElectionCommand, Joined, NodeMetrics, NodeState};
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
    /// Whether one of its users may stand.
    taken: bool,
    users: usize,
}

pub(super) struct Task<T, C, D> {
    engine: Engine,
    out: Output,
    journal: Journal,
    /// How many of the gathered events the journal has noted.
    recorded: usize,
    /// By the engine's index of the election.
    locals: Vec<Option<Local>>,
    /// Leases that were pinned in this turn: to be told when all of it is on the disk.
    pinned: Vec<(oneshot::Sender<Option<Lease>>, Option<Lease>)>,
    /// The node alone, for the engine's context: an engine knows its voters by its configuration.
    roster: Roster,
    protocol: Protocol,
    transport: T,
    clock: C,
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
        engine: Engine,
        out: Output,
        transport: T,
        clock: C,
        disk: D,
        handles: Handles,
        history: usize,
    ) -> Task<T, C, D> {
        let me = engine.me();
        Task {
            journal: Journal::new(me, &engine.config().voters, history),
            engine,
            out,
            recorded: 0,
            locals: Vec::new(),
            pinned: Vec::new(),
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
        self.input(now, |engine, cx| engine.on_start(cx, start));
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

    /// Hands one input to the engine.
    fn input(&mut self, now: Time, input: impl FnOnce(&mut Engine, &mut Context<'_, Engine>)) {
        let delay = self.engine.config().delay;
        let mut turn = Turn { me: self.engine.me(), now, out: &mut self.out };
        input(&mut self.engine, &mut Context::new(now, self.roster.view(0), delay, &mut turn));
    }

    fn act(&mut self, now: Time, index: ElectionIndex, action: Action) {
        self.input(now, |engine, cx| engine.act(cx, index, action));
        if let Some(local) = self.locals[index.index()].as_mut()
            && !self.engine.election(index).is_some_and(|state| state.stands() && state.is_healthy())
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
            self.input(now, |engine, cx| engine.on_timer(cx, Timer));
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
                self.input(now, |engine, cx| {
                    messages.into_iter().for_each(|message| engine.on_message(cx, from, message));
                });
            }
        }
    }

    /// Saves, then tells, then sends: in this order. False if it was told to stop while it could not save.
    async fn settle(&mut self) -> bool {
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
            let state = self.engine.index_of(local.notes.name).and_then(|it| self.engine.election(it));
            self.journal.record(&mut local.notes, at, event, state.is_some_and(|state| state.stands()));
        }
        self.recorded = self.out.events.len();
    }

    /// Tells those concerned what has become of an election.
    fn tell(&mut self, ElectionEvent { index, epoch, event, .. }: ElectionEvent) {
        let (now, me) = (self.clock.now(), self.engine.me());
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
        local.belief.send_replace(belief);
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
                let index = self.engine.index_of(name);
                if let Some(index) = index {
                    match command {
                        ElectionCommand::Act(action) => self.act(now, index, action),
                        ElectionCommand::Leave { stands } => self.leave(now, index, stands),
                    }
                }
                if let Some(reply) = reply {
                    _ = reply.send(index.is_some());
                }
            }
            Some(Command::Pin { name, reply }) => {
                let lease = self.engine.index_of(name).and_then(|index| {
                    self.act(now, index, Action::Pin(true));
                    self.engine.lease(now, index)
                });
                self.pinned.push((reply, lease));
            }
            Some(Command::Status { name, reply }) => {
                _ = reply.send(self.engine.index_of(name).and_then(|index| self.status(now, index)));
            }
            Some(Command::Elections { reply }) => {
                let all = self.engine.elections().filter_map(|(index, _)| self.status(now, index));
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
        let election = self.engine.election(index)?;
        Some(report::status(now, &self.engine, &self.journal, election, &local.notes))
    }

    fn metrics(&self, now: Time) -> NodeMetrics {
        NodeMetrics {
            counters: self.journal.counters,
            elections: self.engine.len(),
            heard: self.journal.heard(now, self.engine.votes(now)),
            voter: report::voter_status(now, &self.engine),
            round_trip: self.engine.round_trip(),
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
        let name = election.hash();
        let mut earlier = None;
        if let Some(index) = self.engine.index_of(name) {
            let Some(local) = self.locals[index.index()].as_mut() else {
                return Err(JoinError::AlreadyJoined);
            };
            let Some(config) = config else {
                local.users += 1;
                return Ok((name, local.belief.subscribe()));
            };
            if local.taken {
                return Err(JoinError::AlreadyJoined);
            }
            config.check(self.engine.config())?;
            earlier = self.end_participation(now, index);
        }
        self.engine.check_join(election, config.as_ref())?;
        let join = Action::Join(config).in_election(election.clone());
        self.input(now, |engine, cx| engine.on_command(cx, join));
        let Some(index) = self.engine.index_of(name) else { return Err(JoinError::TooMany) };
        Ok((name, self.admit(now, index, name, config.is_some(), earlier)))
    }

    /// Keeps what others are told of an election that the engine has just joined.
    fn admit(
        &mut self,
        now: Time,
        index: ElectionIndex,
        name: Name,
        stands: bool,
        earlier: Option<Local>,
    ) -> watch::Receiver<Belief> {
        let config = self.engine.config();
        let ttl = self.engine.election(index).map_or(config.candidate.ttl, |state| state.ttl());
        let notes = Notes::new(name, config.drift.validity(ttl), now);
        let unknown = || Belief { leader: None, since: now, held: None };
        let mut local = match earlier {
            Some(earlier) => Local { notes, ..earlier },
            None => {
                let belief = watch::Sender::new(unknown());
                Local { notes, belief, held: None, taken: false, users: 0 }
            }
        };
        // A new candidate knows of nobody yet, and will say so only if that changes.
        local.belief.send_if_modified(|belief| {
            let changed = belief.leader.is_some();
            *belief = unknown();
            changed
        });
        local.taken = stands;
        local.users += 1;
        let belief = local.belief.subscribe();
        if self.locals.len() <= index.index() {
            self.locals.resize_with(index.index() + 1, || None);
        }
        self.locals[index.index()] = Some(local);
        belief
    }

    fn leave(&mut self, now: Time, index: ElectionIndex, stands: bool) {
        let Some(local) = self.locals[index.index()].as_mut() else { return };
        local.users -= 1;
        if stands {
            local.taken = false;
        }
        if local.users == 0 {
            self.end_participation(now, index);
        } else if stands {
            self.act(now, index, Action::Withdraw);
        }
    }

    /// The engine leaves an election. Holders know that they do not lead any more before anybody is told; and what is
    /// still to be told of it concerns nobody: were the lease kept, the next one would be taken for the same.
    fn end_participation(&mut self, now: Time, index: ElectionIndex) -> Option<Local> {
        if let Some(held) = self.locals[index.index()].as_mut().and_then(|local| local.held.take()) {
            held.end();
        }
        self.act(now, index, Action::Leave);
        self.record_events();
        self.out.end_epoch(index.index());
        self.locals[index.index()].take()
    }

    fn leave_all(&mut self, now: Time) {
        let all: Vec<ElectionIndex> = self.engine.elections().map(|(index, _)| index).collect();
        for index in all {
            self.end_participation(now, index);
        }
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
