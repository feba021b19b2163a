//! Members of a world that are machines: a node, and processes that lead through it by connection.
//!
//! In production the kernel carries the connections and knows which processes live. So a machine is one member, which
//! plays the kernel too: whatever a connection carries arrives, in order, after a moment, and the node learns of each
//! death. Processes are killed, stopped (SIGSTOP) and continued, close their connections, resign, and ignore requests to
//! hand over; the node's end of a connection breaks, with or without the process noticing soon; the node alone dies and
//! starts again from its disk, while the processes live on. A fault of the world hits the machine as a whole.
//!
//! Other members may be clients of the node, by renewal: they wait in the same queues as the processes.
//!
//! Processes measure deadlines by a clock that is slewed, the node by the clock of the member.
//!
//! The processes announce that they lead, as the member. Two processes of one machine that lead at once announce in
//! turns, which breaks the promise that tokens increase.

mod process;

use std::collections::BTreeMap;

use suffrage_core::{Announcement, Context, Effects, NodeId, Process, Span, Start, Time, forward_effects};

use self::process::{LocalProcess, Told};
use super::clients::KnownLeaders;
use super::message::SessionMessage;
use super::requests::ClientRequests;
use super::values::ValueAudit;
use super::{QuorumLease, name};
use suffrage_lease::Bug;
use suffrage_lease::Saved;
use suffrage_lease::Value;
use suffrage_lease::sessions::connection::{ConnectionEnd, ConnectionState, deadline_by};
use suffrage_lease::sessions::{
    Arrival, ClientValue, LeaseRequest, RequestId, SessionConfig, SessionEngine, SessionId, SessionReply,
    SessionRequest,
};
use suffrage_lease::{Action, Command, ElectionName, Engine, EngineConfig, Timer};
use suffrage_lease::{Boot, Message, Name};

/// For how many lengths of a lease a stopped node accepts no clients.
const LEASES_STOPPED: u64 = 3;
/// In how many lengths of a lease after the start of a machine its first disruptions come.
const LEASES_DISRUPTED: u64 = 6;

/// What a machine's node and its processes are made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Blueprint {
    pub(super) me: NodeId,
    pub(super) engine: EngineConfig,
    pub(super) sessions: SessionConfig,
    pub(super) lease: LeaseRequest,
    pub(super) elections: usize,
    /// The number of processes in each election.
    pub(super) processes: usize,
    /// Whether other members are clients of the node, by renewal.
    pub(super) clients: bool,
    /// The longest time that a connection takes to carry something.
    pub(super) delay: Span,
    pub(super) bug: Option<Bug>,
}

/// Something that a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Delivery {
    /// The process in this place has opened a connection.
    Hold {
        process: usize,
        request: RequestId,
    },
    Resign {
        election: usize,
        session: SessionId,
    },
    /// The process sets the value with this number.
    SetValue {
        election: usize,
        session: SessionId,
        number: u32,
    },
    End {
        election: usize,
        request: RequestId,
    },
    /// The node tells the process in this place something.
    Tell {
        process: usize,
        request: RequestId,
        told: Told,
    },
}

/// A disruption inside of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Disruption {
    Kill,
    Stop,
    Close,
    Resign,
    Break,
    RestartNode,
}

const DISRUPTIONS: [Disruption; 8] = [
    Disruption::Kill,
    Disruption::Kill,
    Disruption::Stop,
    Disruption::Close,
    Disruption::Resign,
    Disruption::Break,
    Disruption::Break,
    Disruption::RestartNode,
];

/// A machine with a node and processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    blueprint: Blueprint,
    /// None while the node is down.
    node: Option<Box<SessionEngine>>,
    node_due: Option<Time>,
    /// When a node that is down starts again.
    node_back_at: Option<Time>,
    /// When a node whose sessions are stopped accepts clients again.
    resume_at: Option<Time>,
    /// The state that is on the disk.
    durable: Option<Saved>,
    /// The number of saves that are under way.
    saves: u32,
    processes: Vec<LocalProcess>,
    deliveries: BTreeMap<(Time, u64), Delivery>,
    disruptions: BTreeMap<(Time, u64), Disruption>,
    /// Connections whose node's end is open: the place of the process, by the request.
    open: BTreeMap<RequestId, usize>,
    /// Requests of clients that are other members.
    requests: ClientRequests,
    next_number: u64,
    /// The rate of the processes' clock, in thousandths of that of the member's clock.
    rate: u64,
    known_leaders: KnownLeaders,
    /// The place of the process that the member has announced as the leader, by election.
    announced: Vec<Option<usize>>,
    armed: Option<Time>,
    pub(super) values: ValueAudit,
}

impl Host {
    /// A machine whose node starts now, and whose processes start soon.
    pub(super) fn start(
        cx: &mut Context<'_, QuorumLease>,
        blueprint: Blueprint,
        start: Start<Saved>,
    ) -> Host {
        let (now, ttl) = (cx.now(), blueprint.lease.ttl);
        let count = blueprint.elections * blueprint.processes;
        let processes = (0..count)
            .map(|place| {
                let start_at = now + ttl.scale(cx.rng().unit() * 0.5);
                LocalProcess::new(place % blueprint.elections, start_at)
            })
            .collect();
        let durable = match &start {
            Start::Recovered(saved) => saved.clone(),
            Start::Fresh => None,
        };
        let mut host = Host {
            known_leaders: KnownLeaders::new(blueprint.elections, ttl),
            announced: vec![None; blueprint.elections],
            node: None,
            node_due: None,
            node_back_at: None,
            resume_at: None,
            durable,
            saves: 0,
            processes,
            deliveries: BTreeMap::new(),
            disruptions: BTreeMap::new(),
            open: BTreeMap::new(),
            requests: ClientRequests::default(),
            next_number: 0,
            rate: *cx.rng().pick(&[900, 1_000, 1_100]).expect("there are some"),
            armed: None,
            values: ValueAudit::new(blueprint.elections, blueprint.clients),
            blueprint,
        };
        host.start_node(cx, start);
        let disruptions = cx.rng().below(6);
        host.schedule_disruptions(cx, disruptions, ttl * LEASES_DISRUPTED);
        host.arm(cx);
        host
    }

    pub(super) fn engine(&self) -> Option<&Engine> {
        self.node.as_ref().map(|node| node.engine())
    }

    /// Whether a process believes that it leads, even if its deadline has passed.
    pub(super) fn leads(&self, election: usize) -> bool {
        self.announced[election].is_some()
    }

    // The node.

    fn start_node(&mut self, cx: &mut Context<'_, QuorumLease>, start: Start<Saved>) {
        let Blueprint { me, engine, sessions, .. } = &self.blueprint;
        let engine = SessionEngine::new(*me, engine.clone(), *sessions).expect("the options were checked");
        self.node = Some(Box::new(engine));
        self.input(cx, |engine, cx| engine.on_start(cx, start));
    }

    /// Hands one input to the node, if it is up, and carries its replies to the processes.
    pub(super) fn input(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>),
    ) {
        let mut undelivered = self.input_node(cx, input);
        while let Some((name, request)) = undelivered.pop() {
            undelivered
                .extend(self.input_node(cx, |engine, cx| engine.on_reply_undelivered(cx, name, request)));
        }
        self.arm(cx);
    }

    /// Hands one input to the node. Returns the requests whose replies were not delivered.
    fn input_node(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>),
    ) -> Vec<(Name, RequestId)> {
        let mut undelivered = Vec::new();
        let Some(node) = &mut self.node else { return undelivered };
        let (now, view, delay) = (cx.now(), cx.view(), cx.delay_bound());
        let (due, durable, saves) = (&mut self.node_due, &mut self.durable, &mut self.saves);
        let mut relay = Relay { cx, due, durable, saves };
        input(node, &mut Context::new(now, view, delay, &mut relay));
        node.take_membership_changes();
        self.values.observe(now, node.engine());
        for (request, outcome) in node.take_replies() {
            if !self.open.contains_key(&request) {
                let name = self.requests.reply(cx, request, outcome);
                undelivered.extend(name.map(|name| (name, request)));
                continue;
            }
            let told = match outcome {
                Ok(SessionReply::Connection(state)) => self.told(now, state),
                Ok(_) => continue,
                Err(_) => Told::Ended,
            };
            let Some(&process) = self.open.get(&request) else { continue };
            if told == Told::Ended {
                self.open.remove(&request);
            }
            self.deliver(cx, self.blueprint.delay, Delivery::Tell { process, request, told });
        }
        undelivered
    }

    /// What a process is told: the deadline is by its own clock.
    fn told(&self, now: Time, state: ConnectionState) -> Told {
        match state {
            ConnectionState::Waiting { .. } => Told::Waiting,
            ConnectionState::Leading { session, token, until, hand_over } => {
                let clock = self.process_clock(now);
                let deadline = deadline_by(clock, now, until, self.blueprint.bug);
                Told::Leading { session, token, told: clock, deadline, hand_over }
            }
            ConnectionState::Ended(_) => Told::Ended,
        }
    }

    pub(super) fn on_saved(&mut self, cx: &mut Context<'_, QuorumLease>, saved: Saved) {
        self.saves = self.saves.saturating_sub(1);
        self.durable = Some(saved.clone());
        self.input(cx, |engine, cx| engine.on_saved(cx, saved));
    }

    /// The node dies, and starts again later. Its connections close. What it has written can be read.
    fn crash_node(&mut self, cx: &mut Context<'_, QuorumLease>) {
        if self.saves > 0 || self.node.take().is_none() {
            return;
        }
        self.node_due = None;
        self.resume_at = None;
        self.requests.clear();
        for (request, process) in std::mem::take(&mut self.open) {
            self.deliver(cx, self.blueprint.delay, Delivery::Tell { process, request, told: Told::Ended });
        }
        let ttl = self.blueprint.lease.ttl;
        self.node_back_at = Some(cx.now() + ttl.scale(cx.rng().unit() * 1.2));
    }

    // The kernel.

    /// The time of the processes' clock.
    fn process_clock(&self, now: Time) -> Time {
        Time::from_nanos((u128::from(now.as_nanos()) * u128::from(self.rate) / 1_000) as u64)
    }

    /// The time of the member's clock when the clock of the processes shows this time.
    fn member_time(&self, time: Time) -> Time {
        Time::from_nanos((u128::from(time.as_nanos()) * 1_000).div_ceil(u128::from(self.rate)) as u64)
    }

    /// Has something arrive within this time, after all that is on its way in the same direction.
    fn deliver(&mut self, cx: &mut Context<'_, QuorumLease>, within: Span, delivery: Delivery) {
        let at = cx.now() + within.scale(cx.rng().unit());
        let same_direction = |other: &Delivery| match (&delivery, other) {
            (Delivery::Tell { process, .. }, Delivery::Tell { process: other, .. }) => process == other,
            (Delivery::Tell { .. }, _) | (_, Delivery::Tell { .. }) => false,
            _ => true,
        };
        let last = self.deliveries.iter().filter(|(_, it)| same_direction(it)).map(|((at, _), _)| *at).max();
        let number = self.number();
        self.deliveries.insert((last.map_or(at, |last| last.max(at)), number), delivery);
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn on_delivery(&mut self, cx: &mut Context<'_, QuorumLease>, delivery: Delivery) {
        match delivery {
            Delivery::Hold { process, request } if self.node.is_none() => {
                let refused = Delivery::Tell { process, request, told: Told::Ended };
                self.deliver(cx, self.blueprint.delay, refused);
            }
            Delivery::Hold { process, request } => {
                self.open.insert(request, process);
                let election = self.processes[process].election;
                let lease = self.blueprint.lease;
                let value = Value::numbered(self.blueprint.me, Boot(0), self.processes[process].value);
                self.request(cx, election, request, SessionRequest::Hold { lease, value });
            }
            Delivery::Resign { election, session } => {
                let request = RequestId(self.number());
                self.request(cx, election, request, SessionRequest::Resign { session, to: None });
            }
            Delivery::SetValue { election, session, number } => {
                let request = RequestId(self.number());
                let value = Value::numbered(self.blueprint.me, Boot(0), number);
                let value = ClientValue { order: 0, value };
                self.request(cx, election, request, SessionRequest::SetValue { session, value });
            }
            Delivery::End { election, request } => {
                if self.open.remove(&request).is_some() {
                    self.end_connection(cx, election, request, ConnectionEnd::HolderGone);
                }
            }
            Delivery::Tell { process, request, told } => {
                if self.processes[process].receive(request, told) {
                    self.read(cx, process);
                }
            }
        }
    }

    fn request(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: usize,
        request: RequestId,
        content: SessionRequest,
    ) {
        let rng = cx.rng();
        let new_session = SessionId(u128::from(rng.bits()) << 64 | u128::from(rng.bits()));
        let arrival = Arrival { request, received: cx.now(), new_session };
        self.input(cx, |engine, cx| engine.on_request(cx, arrival, &name(election), content));
    }

    fn end_connection(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: usize,
        request: RequestId,
        end: ConnectionEnd,
    ) {
        let name = name(election).hash();
        self.input(cx, |engine, cx| engine.on_connection_end(cx, name, request, end));
    }

    // Disruptions.

    fn schedule_disruptions(&mut self, cx: &mut Context<'_, QuorumLease>, count: u64, within: Span) {
        for _ in 0..count {
            let at = cx.now() + within.scale(cx.rng().unit());
            let disruption = *cx.rng().pick(&DISRUPTIONS).expect("there are some");
            let number = self.number();
            self.disruptions.insert((at, number), disruption);
        }
    }

    /// Disrupts a process, preferably one that leads.
    fn disrupt(&mut self, cx: &mut Context<'_, QuorumLease>, disruption: Disruption) {
        let leading = self.processes.iter().position(|process| process.token().is_some());
        let any = cx.rng().below(self.processes.len() as u64) as usize;
        let place = leading.filter(|_| cx.rng().chance(0.7)).unwrap_or(any);
        let ttl = self.blueprint.lease.ttl;
        match disruption {
            Disruption::RestartNode => self.crash_node(cx),
            Disruption::Kill => {
                let pause = ttl.scale(cx.rng().unit());
                self.close(cx, place, pause);
            }
            Disruption::Close if self.processes[place].is_running(cx.now()) => self.close(cx, place, ttl),
            Disruption::Stop => {
                let until = cx.now() + ttl.scale(cx.rng().unit() * 3.0);
                self.processes[place].stopped_until = Some(until);
            }
            Disruption::Resign if self.processes[place].is_running(cx.now()) => {
                let election = self.processes[place].election;
                if let Some(session) = self.processes[place].session() {
                    self.step_down(cx, place);
                    self.deliver(cx, self.blueprint.delay, Delivery::Resign { election, session });
                }
            }
            Disruption::Break => self.break_connection(cx, place),
            Disruption::Close | Disruption::Resign => {}
        }
    }

    /// The node's end of a connection is gone. The process notices soon, or much later.
    fn break_connection(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize) {
        let process = &self.processes[place];
        let Some(request) = process.connection.filter(|request| self.open.contains_key(request)) else {
            return;
        };
        let election = process.election;
        self.open.remove(&request);
        let late = cx.rng().chance(0.7);
        let within = if late { self.blueprint.lease.ttl * 2 } else { self.blueprint.delay };
        self.deliver(cx, within, Delivery::Tell { process: place, request, told: Told::Ended });
        self.end_connection(cx, election, request, ConnectionEnd::Broken);
    }

    // Inputs.

    pub(super) fn on_session(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        from: NodeId,
        election: usize,
        message: SessionMessage,
    ) {
        let token = match message {
            SessionMessage::Request { number, request } => {
                let id = RequestId(self.number());
                if self.node.is_some() {
                    self.requests.insert(id, (from, number), name(election).hash());
                    self.request(cx, election, id, request);
                }
                return;
            }
            SessionMessage::HangUp { number } => {
                for (request, name) in self.requests.hang_up(cx, from, number) {
                    self.input(cx, |engine, cx| engine.on_hang_up(cx, name, request));
                }
                return;
            }
            SessionMessage::Leading { token } => token,
            SessionMessage::Reply { .. } => return,
        };
        let now = self.process_clock(cx.now());
        for place in 0..self.processes.len() {
            let process = &self.processes[place];
            // A process that is stopped cannot notice that its deadline has passed.
            let over = process.token().is_some_and(|own| own < token) && process.is_over(now);
            if process.election == election && over {
                self.step_down(cx, place);
            }
        }
        if !self.leads(election) {
            self.known_leaders.on_leading(cx, election, from, token);
        }
        self.arm(cx);
    }

    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, QuorumLease>) {
        self.armed = None;
        let now = cx.now();
        if self.resume_at.take_if(|when| *when <= now).is_some()
            && let Some(node) = &mut self.node
        {
            node.resume_sessions();
        }
        if self.node_back_at.take_if(|when| *when <= now).is_some() {
            let start = Start::Recovered(self.durable.clone());
            self.start_node(cx, start);
        }
        if self.node_due.take_if(|due| *due <= now).is_some() {
            self.input(cx, |engine, cx| engine.on_timer(cx, Timer));
        }
        while let Some(entry) = self.disruptions.first_entry().filter(|entry| entry.key().0 <= now) {
            let disruption = entry.remove();
            self.disrupt(cx, disruption);
        }
        while let Some(entry) = self.deliveries.first_entry().filter(|entry| entry.key().0 <= now) {
            let delivery = entry.remove();
            self.on_delivery(cx, delivery);
        }
        for place in 0..self.processes.len() {
            self.run_process(cx, place);
        }
        self.known_leaders.on_due(cx);
        self.arm(cx);
    }

    /// On `leave` a node stops like a daemon. Every command comes with disruptions.
    pub(super) fn on_command(&mut self, cx: &mut Context<'_, QuorumLease>, command: Command) {
        let ttl = self.blueprint.lease.ttl;
        match command.action {
            // Announces nothing but the member's own rank.
            Action::Rank(_) => return self.input(cx, |engine, cx| engine.on_command(cx, command)),
            Action::Leave => {
                self.resume_at = self.node.as_ref().map(|_| cx.now() + ttl * LEASES_STOPPED);
                self.input(cx, |engine, cx| engine.stop_sessions(cx));
            }
            Action::Value(number) => return self.set_values(cx, command.election.as_ref(), number),
            // No application of the node's own takes part.
            Action::Join(_) => return,
            _ => self.input(cx, |engine, cx| engine.on_command(cx, command)),
        }
        let disruptions = cx.rng().below(3);
        self.schedule_disruptions(cx, disruptions, ttl);
        self.arm(cx);
    }

    /// The processes in an election, or in all, set another value.
    fn set_values(&mut self, cx: &mut Context<'_, QuorumLease>, wanted: Option<&ElectionName>, number: u32) {
        for place in 0..self.processes.len() {
            let election = self.processes[place].election;
            if wanted.is_some_and(|wanted| *wanted != name(election)) {
                continue;
            }
            self.processes[place].value = number;
            if let Some(session) = self.processes[place].session() {
                self.deliver(cx, self.blueprint.delay, Delivery::SetValue { election, session, number });
            }
        }
        self.arm(cx);
    }

    fn arm(&mut self, cx: &mut Context<'_, QuorumLease>) {
        let first = |queue: Option<&(Time, u64)>| queue.map(|(at, _)| *at);
        let known_leaders = Some(self.known_leaders.next_due()).filter(|&due| due < Time::MAX);
        let delivery = first(self.deliveries.keys().next());
        let disruption = first(self.disruptions.keys().next());
        let node = [self.node_due, self.node_back_at, self.resume_at];
        let rest = [known_leaders, delivery, disruption];
        let processes = self.processes.iter().filter_map(|process| {
            let deadline = process.due().map(|due| self.member_time(due));
            // A process that is stopped is due when it continues.
            process.stopped_until.or([deadline, process.start_at].into_iter().flatten().min())
        });
        let due = node.into_iter().chain(rest).flatten().chain(processes).min();
        if self.armed != due {
            match due {
                Some(due) => cx.set_timer(Timer, due.since(cx.now())),
                None => cx.cancel_timer(Timer),
            }
            self.armed = due;
        }
    }
}

/// Forwards the effects of the node, except announcements: processes announce. Records what is on the disk.
struct Relay<'e, 'v> {
    cx: &'e mut Context<'v, QuorumLease>,
    due: &'e mut Option<Time>,
    durable: &'e mut Option<Saved>,
    saves: &'e mut u32,
}

impl Effects<SessionEngine> for Relay<'_, '_> {
    forward_effects!(cx: rng, send(Message), multicast(Message), suspect, restore);
    fn save(&mut self, state: Saved) {
        *self.durable = Some(state.clone());
        self.cx.save(state);
    }
    fn begin_save(&mut self, state: Saved) -> bool {
        let done = self.cx.begin_save(state.clone());
        match done {
            true => *self.durable = Some(state),
            false => *self.saves += 1,
        }
        done
    }
    fn set_timer(&mut self, _: Timer, after: Span) {
        *self.due = Some(self.cx.now() + after);
    }
    fn cancel_timer(&mut self, _: Timer) {
        *self.due = None;
    }
    fn announce(&mut self, _: Announcement) {}
    fn lead_until(&mut self, _: Time) {}
    fn announce_in(&mut self, _: usize, _: Announcement) {}
    fn lead_until_in(&mut self, _: usize, _: Time) {}
}
