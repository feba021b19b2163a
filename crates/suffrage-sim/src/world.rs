//! The world: processes, the network between them, and faults.

use std::collections::BTreeSet;
use std::hash::Hash as _;

use suffrage_core::{
    Context, Effects, Message as _, NodeId, Process, Quality, Roster, Span, Start, Time, Timer as _,
};

use crate::crashable_effects::{CrashableEffects, Crashed};
use crate::detector::Suspicions;
use crate::environment::{Environment, Event, EventKind, ProcessEffects};
use crate::facts::Status;
use crate::observer::DropReason;
use crate::schedule::ScheduledAction;
use crate::state::ExtraElection;
use crate::{Detector, Facts, Fault, Invariant, Latency, Ledger, Observer, TraceEvent, Violation};

/// A simulated world of processes of one algorithm. One seed decides everything that happens.
///
/// Call [`new`](World::new), then the setters, then schedule faults and commands. Then [`run`](World::run) the world
/// and read the [`ledger`](World::ledger).
pub struct World<P: Process> {
    pub(crate) roster: Roster,
    pub(crate) processes: Vec<P>,
    pub(crate) make: Box<dyn Fn(NodeId) -> P>,
    pub(crate) environment: Environment<P>,
    /// The scheduled actions; the queue holds indices into this list.
    pub(crate) actions: Vec<ScheduledAction>,
    pub(crate) detector: Detector,
    pub(crate) suspicions: Suspicions,
    /// The greatest number of events.
    limit: u64,
    /// The leader that the last [`Fault::CrashLeader`] crashed.
    pub(crate) crashed_leader: Option<usize>,
    /// The quality of each process, if crashes lower the rank.
    pub(crate) qualities: Option<Vec<Quality>>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The queue is empty.
    Quiet,
    /// The time limit is reached.
    TimeUp,
    /// The limit of events is exceeded.
    Runaway,
}

impl<P: Process> World<P> {
    /// A world in which every member of the group starts at time zero. `make` makes the processes.
    pub fn new(
        roster: Roster,
        seed: u64,
        latency: Latency,
        make: impl Fn(NodeId) -> P + 'static,
    ) -> World<P> {
        let environment = Environment::new(roster.len(), seed, latency);
        let processes = roster.iter().map(&make).collect();
        let mut world = World {
            roster,
            processes,
            make: Box::new(make),
            environment,
            actions: Vec::new(),
            detector: Detector::None,
            suspicions: Suspicions::default(),
            limit: u64::MAX,
            crashed_leader: None,
            qualities: None,
        };
        world.schedule(Time::ZERO, ScheduledAction::Start);
        world
    }

    /// Sets the probability that a message is lost.
    pub fn set_loss(&mut self, probability: f64) {
        self.environment.state.network.loss = probability;
    }

    /// Sets the probability that an addressee misses a multicast, independent of the loss of other messages.
    pub fn set_multicast_loss(&mut self, probability: f64) {
        self.environment.state.network.multicast_loss = Some(probability);
    }

    /// Sets the probability that a message is duplicated.
    pub fn set_duplicate(&mut self, probability: f64) {
        self.environment.state.network.duplicate = probability;
    }

    /// Sets the clock drift: every clock runs at a constant rate of its own, up to this fraction fast or slow.
    pub fn set_drift(&mut self, drift: f64) {
        self.environment.state.clocks.drift = drift;
    }

    /// Sets the delay bound that processes assume, instead of the latency's bound.
    pub fn set_delay_bound(&mut self, bound: Span) {
        self.environment.state.delay_bound = bound;
    }

    /// Sets the failure detector. Call this once, before any process is killed. A real detector is a layer of the
    /// processes, and the world has nothing to do for it.
    pub fn set_detector(&mut self, detector: Detector) {
        self.detector = detector;
        self.schedule_mistake();
    }

    /// Counts the bytes of messages in the wire format. This doubles the cost of sending in the simulator.
    pub fn count_bytes(&mut self) {
        self.environment.state.counts_bytes = true;
        self.environment.state.inspects_sends = true;
    }

    /// Lowers the rank of a process with each crash: ranks become [`Quality`]s, with the present attribute as
    /// priority.
    pub fn count_failures(&mut self) {
        let quality = |id: NodeId| {
            let attribute = self.roster.rank(id).expect("a member ranks").attribute;
            let priority = attribute.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            Quality { priority, failures: 0 }
        };
        let qualities: Vec<Quality> = self.roster.iter().map(quality).collect();
        for (slot, quality) in qualities.iter().enumerate() {
            self.roster.set_attribute(self.roster.id(slot), quality.attribute());
        }
        self.qualities = Some(qualities);
    }

    /// Limits the number of events of a run: for processes that may multiply their messages without end.
    pub fn set_limit(&mut self, events: u64) {
        self.limit = events;
    }

    /// Sets the processes that may not lead, for the invariants.
    pub fn set_ineligible(&mut self, slots: BTreeSet<usize>) {
        self.environment.state.ineligible = slots;
    }

    /// Sets the observer of the run.
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.environment.state.observer = Some(observer);
        self.environment.state.inspects_sends = true;
    }

    /// Checks an invariant during the run and at its end.
    pub fn check(&mut self, invariant: Box<dyn Invariant>) {
        self.environment.state.invariants.push(invariant);
    }

    /// Adds an election with its invariants. Call this before the first [`run`](World::run).
    pub fn add_election(&mut self, invariants: Vec<Box<dyn Invariant>>) {
        let ledger = Ledger::of(self.roster.len(), 0);
        self.environment.state.extra_elections.push(ExtraElection { ledger, invariants });
    }

    /// Makes a process dead from the start. Call this before the first [`run`](World::run).
    pub fn kill(&mut self, slot: usize) {
        self.environment.state.set_status(slot, Status::Down);
        self.schedule_check(ScheduledAction::CheckProcess(slot));
    }

    /// Schedules a fault. A fault in the past happens now.
    pub fn schedule_fault(&mut self, at: Time, fault: Fault) {
        self.schedule(at, ScheduledAction::Fault(fault));
    }

    /// Schedules a command. A command in the past is given now.
    pub fn command(&mut self, at: Time, slot: usize, command: impl Into<P::Command>) {
        let command = command.into().to_string().into_boxed_str();
        self.schedule(at, ScheduledAction::Command(slot, command));
    }

    pub(crate) fn counts_bytes(&self) -> bool {
        self.environment.state.counts_bytes
    }

    /// True time.
    pub fn now(&self) -> Time {
        self.environment.state.now
    }

    /// The group.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The process in this slot.
    pub fn process(&self, slot: usize) -> &P {
        &self.processes[slot]
    }

    /// The counts so far.
    pub fn ledger(&self) -> &Ledger {
        &self.environment.state.ledger
    }

    /// The true state of the first election.
    pub fn facts(&self) -> Facts<'_> {
        self.environment.state.facts(&self.roster)
    }

    /// The true state of one of several elections, numbered from 0.
    ///
    /// # Panics
    /// If there is no such election.
    pub fn facts_in(&self, election: usize) -> Facts<'_> {
        match election.checked_sub(1) {
            None => self.facts(),
            Some(index) => self
                .environment
                .state
                .facts_in(&self.roster, &self.environment.state.extra_elections[index].ledger),
        }
    }

    /// Handles all events up to and including this time.
    pub fn run(&mut self, until: Time) -> End {
        loop {
            self.environment.queue.open();
            self.environment.prefetch_generations();
            let mut idle = true;
            while let Some((time, event)) = self.environment.queue.pop_open(until.as_nanos()) {
                self.environment.state.now = Time::from_nanos(time);
                self.handle_event(event);
                idle = false;
                if self.environment.state.ledger.events > self.limit {
                    return End::Runaway;
                }
            }
            if self.environment.queue.is_empty() {
                return End::Quiet;
            }
            if idle {
                self.environment.state.now = self.environment.state.now.max(until);
                return End::TimeUp;
            }
        }
    }

    /// Checks the invariants that hold at the end of a run.
    pub fn finish(&mut self) {
        self.environment.state.at_end(&self.roster);
    }

    /// Records a violation.
    pub(crate) fn record_violation(&mut self, invariant: &'static str, detail: String) {
        let at = self.environment.state.now;
        self.environment.state.observe(TraceEvent::Violated { invariant, detail: &detail });
        self.environment.state.ledger.violations.push(Violation { invariant, at, detail });
    }

    pub(crate) fn schedule(&mut self, at: Time, action: ScheduledAction) {
        let event = self.store_action(action);
        self.environment.push(at.max(self.environment.state.now), event);
    }

    pub(crate) fn store_action(&mut self, action: ScheduledAction) -> Event<P> {
        let index = self.actions.len() as u32;
        self.actions.push(action);
        Event { target: index, tag: 0, kind: EventKind::ScheduledAction }
    }

    #[inline(always)]
    pub(crate) fn handle_event(&mut self, event: Event<P>) {
        let slot = event.target as usize;
        match event.kind {
            EventKind::Message(message) => self.deliver(event.tag as usize, slot, message),
            EventKind::Timer(timer) => self.fire_timer(slot, timer, event.tag),
            EventKind::Multicast(message) => {
                self.deliver_multicast(slot, f32::from_bits(event.tag), &message)
            }
            EventKind::SaveEnd => self.end_save(slot, event.tag),
            EventKind::ScheduledAction => self.perform(self.actions[slot].clone()),
        }
    }

    #[inline(always)]
    pub(crate) fn fire_timer(&mut self, slot: usize, timer: P::Timer, generation: u32) {
        if !self.environment.is_current(slot, timer, generation) {
            return;
        }
        if self.environment.state.status(slot) == Status::Paused {
            let event = Event { target: slot as u32, tag: generation, kind: EventKind::Timer(timer) };
            return self.environment.defer(slot, event);
        }
        self.environment.state.record_input(slot as u64, timer.index() as u64);
        if self.environment.state.observer.is_some() {
            let who = self.roster.id(slot);
            self.environment.state.observe(TraceEvent::Expired { who, timer: &timer });
        }
        self.input(slot, Input::Timer(timer));
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn end_save(&mut self, slot: usize, generation: u32) {
        if self.environment.state.status(slot) == Status::Paused {
            let event = Event { target: slot as u32, tag: generation, kind: EventKind::SaveEnd };
            return self.environment.defer(slot, event);
        }
        if let Some(state) = self.environment.end_save(slot, generation) {
            self.environment.state.record_input(slot as u64, 10 << 32);
            self.input_uninlined(slot, Input::Saved(state));
        }
    }

    fn deliver_multicast(&mut self, from: usize, loss: f32, message: &P::Message) {
        for to in 0..self.roster.len() {
            if to != from {
                if self.environment.state.network.draw_loss_at(loss.into()) {
                    self.environment.drop_message(&self.roster, from, to, message.clone(), DropReason::Lost);
                } else {
                    self.deliver_copy(from, to, message.clone());
                }
            }
        }
    }

    #[inline(always)]
    fn deliver(&mut self, from: usize, to: usize, message: P::Message) {
        let status = self.environment.state.status(to);
        if status == Status::Down {
            return self.environment.drop_message(&self.roster, from, to, message, DropReason::ReceiverDead);
        }
        if !self.environment.state.network.has_no_cuts() && self.environment.state.network.is_cut(from, to) {
            return self.environment.drop_message(&self.roster, from, to, message, DropReason::Cut);
        }
        if status == Status::Paused {
            let event = Event { target: to as u32, tag: from as u32, kind: EventKind::Message(message) };
            return self.environment.defer(to, event);
        }
        self.receive(from, to, message);
    }

    /// [`deliver`](Self::deliver) for one of several addressees; not inlined.
    #[inline(never)]
    fn deliver_copy(&mut self, from: usize, to: usize, message: P::Message) {
        self.deliver(from, to, message);
    }

    /// Gives a process a message that has arrived.
    #[inline(always)]
    pub(crate) fn receive(&mut self, from: usize, to: usize, message: P::Message) {
        let kind = message.kind();
        self.environment.state.record_input(to as u64 | (from as u64) << 32, 1 << 32);
        message.hash(&mut self.environment.state.ledger.fingerprint);
        if P::Message::KINDS[kind].counted {
            self.environment.state.ledger.active = self.environment.state.now;
        }
        let sender = self.roster.id(from);
        if self.environment.state.observer.is_some() {
            self.environment.observe_delivery(sender, self.roster.id(to), message.clone());
        }
        self.input(to, Input::Message(sender, message));
    }

    /// Gives a process an input: the hot path of messages and timers.
    #[inline(always)]
    fn input(&mut self, slot: usize, input: Input<P>) {
        if !self.environment.state.pending_crashes.is_empty() {
            return self.input_uninlined(slot, input);
        }
        let now = self.environment.state.clock(slot);
        let bound = self.environment.state.delay_bound;
        let mut effects = ProcessEffects::new(slot, &self.roster, &mut self.environment);
        let mut cx = Context::new(now, self.roster.view(slot), bound, &mut effects);
        input.apply_to(&mut self.processes[slot], &mut cx);
    }

    /// Gives a process an input that is rare, or in the middle of which the process may crash; not inlined.
    #[inline(never)]
    pub(crate) fn input_uninlined(&mut self, slot: usize, input: Input<P>) {
        let now = self.environment.state.clock(slot);
        let bound = self.environment.state.delay_bound;
        let point = self.environment.state.pending_crashes.get(&slot).copied();
        let mut effects = ProcessEffects::new(slot, &self.roster, &mut self.environment);
        let mut crashable_effects = CrashableEffects::new(&mut effects, point);
        let effects: &mut dyn Effects<P> =
            if point.is_some() { &mut crashable_effects } else { crashable_effects.effects() };
        let mut cx = Context::new(now, self.roster.view(slot), bound, effects);
        input.apply_to(&mut self.processes[slot], &mut cx);
        match crashable_effects.end() {
            Ok(None) => {}
            Ok(Some(point)) => drop(self.environment.state.pending_crashes.insert(slot, point)),
            Err(Crashed) => self.crash(slot),
        }
    }
}

/// An input of a process.
pub(crate) enum Input<P: Process> {
    Start(Start<P::Saved>),
    Message(NodeId, P::Message),
    Timer(P::Timer),
    Suspect(NodeId),
    Restore(NodeId),
    ViewChange,
    Saved(P::Saved),
    Command(P::Command),
}

impl<P: Process> Input<P> {
    #[inline(always)]
    fn apply_to(self, process: &mut P, cx: &mut Context<'_, P>) {
        match self {
            Input::Start(start) => process.on_start(cx, start),
            Input::Message(from, message) => process.on_message(cx, from, message),
            Input::Timer(timer) => process.on_timer(cx, timer),
            Input::Suspect(peer) => process.on_suspect(cx, peer),
            Input::Restore(peer) => process.on_restore(cx, peer),
            Input::ViewChange => process.on_view_change(cx),
            Input::Saved(state) => process.on_saved(cx, state),
            Input::Command(command) => process.on_command(cx, command),
        }
    }
}
