//! The world: processes, the network between them, and what befalls both.

use std::collections::BTreeSet;
use std::hash::Hash as _;

use suffrage_core::{
    Command, Context, Message as _, NodeId, Process, Quality, Roster, Span, Time, Timer as _,
};

use crate::detector::Suspicions;
use crate::facts::Status;
use crate::observer::Why;
use crate::occurrence::Occurrence;
use crate::outside::{Event, Other, Outside, Turn, What};
use crate::{Detector, Facts, Fault, Happening, Invariant, Latency, Ledger, Observer, Violation};

/// A simulated world of processes of one algorithm. One seed decides everything that happens.
///
/// Make one with [`new`](World::new), set what is to be unusual about it, schedule faults and
/// commands, then [`run`](World::run) it and read the [`ledger`](World::ledger).
pub struct World<P: Process> {
    pub(crate) roster: Roster,
    pub(crate) processes: Vec<P>,
    pub(crate) make: Box<dyn Fn(NodeId) -> P>,
    pub(crate) outside: Outside<P>,
    /// What is scheduled to befall the world; the queue holds the places in this list.
    pub(crate) occurrences: Vec<Occurrence>,
    pub(crate) detector: Detector,
    pub(crate) suspicions: Suspicions,
    /// How many events are put up with.
    limit: u64,
    /// Who the last crash of a leader hit.
    pub(crate) fallen: Option<usize>,
    /// Every process's quality, if crashes are to count against it.
    pub(crate) qualities: Option<Vec<Quality>>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing was left to happen.
    Quiet,
    /// Time was up.
    TimeUp,
    /// More happened than was to be put up with.
    Runaway,
}

impl<P: Process> World<P> {
    /// A world in which every member of the group starts at time zero, `make` making their processes.
    pub fn new(
        roster: Roster,
        seed: u64,
        latency: Latency,
        make: impl Fn(NodeId) -> P + 'static,
    ) -> World<P> {
        let outside = Outside::new(roster.len(), seed, latency);
        let processes = roster.iter().map(&make).collect();
        let mut world = World {
            roster,
            processes,
            make: Box::new(make),
            outside,
            occurrences: Vec::new(),
            detector: Detector::None,
            suspicions: Suspicions::default(),
            limit: u64::MAX,
            fallen: None,
            qualities: None,
        };
        world.schedule(Time::ZERO, Occurrence::Start);
        world
    }

    /// Has messages lost with this probability.
    pub fn set_loss(&mut self, probability: f64) {
        self.outside.network.loss = probability;
    }

    /// Has each addressee of a multicast miss it with this probability, whatever the loss of other
    /// messages.
    pub fn set_multicast_loss(&mut self, probability: f64) {
        self.outside.network.multicast_loss = Some(probability);
    }

    /// Has messages doubled with this probability.
    pub fn set_duplicate(&mut self, probability: f64) {
        self.outside.network.duplicate = probability;
    }

    /// Lets every clock run at a constant rate of its own, up to this fraction fast or slow.
    pub fn set_drift(&mut self, drift: f64) {
        self.outside.clocks.drift = drift;
    }

    /// Tells processes to expect messages to take at most this long, instead of the latency's bound.
    pub fn set_delay_bound(&mut self, bound: Span) {
        self.outside.delay_bound = bound;
    }

    /// Chooses how processes learn of failures. Once, and before any process is killed. A real detector
    /// is a part of the processes: all the world has to do about it is nothing.
    pub fn set_detector(&mut self, detector: Detector) {
        self.detector = detector;
        self.schedule_mistake();
    }

    /// Counts the bytes of what is sent, in the wire format. It costs about as much again as sending.
    pub fn weigh(&mut self) {
        self.outside.weighs = true;
        self.outside.looked_at = true;
    }

    /// Counts every crash against the one that crashed: ranks become [`Quality`]s, with the present
    /// attribute as priority.
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

    /// Ends a run after so many events, whatever the time: for processes that may multiply their
    /// messages without end.
    pub fn set_limit(&mut self, events: u64) {
        self.limit = events;
    }

    /// Names processes that may not lead, for the invariants.
    pub fn set_ineligible(&mut self, slots: BTreeSet<usize>) {
        self.outside.ineligible = slots;
    }

    /// Watches the run.
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.outside.observer = Some(observer);
        self.outside.looked_at = true;
    }

    /// Checks an invariant during the run and at its end.
    pub fn check(&mut self, invariant: Box<dyn Invariant>) {
        self.outside.invariants.push(invariant);
    }

    /// Has processes take part in one more election, of which this must hold. Call before anything happens.
    pub fn add_election(&mut self, invariants: Vec<Box<dyn Invariant>>) {
        let ledger = Ledger::of(self.roster.len(), 0);
        self.outside.others.push(Other { ledger, invariants });
    }

    /// Has a process dead from the start. Call before the first [`run`](World::run).
    pub fn kill(&mut self, slot: usize) {
        self.outside.set_status(slot, Status::Down);
        self.look_later(Occurrence::Look(slot));
    }

    /// Schedules a fault. If the time is past, it happens now.
    pub fn befall(&mut self, at: Time, fault: Fault) {
        self.schedule(at, Occurrence::Fault(fault));
    }

    /// Schedules a command. If the time is past, it is given now.
    pub fn command(&mut self, at: Time, slot: usize, command: Command) {
        self.schedule(at, Occurrence::Command(slot, command));
    }

    pub(crate) fn weighs(&self) -> bool {
        self.outside.weighs
    }

    /// True time.
    pub fn now(&self) -> Time {
        self.outside.now
    }

    /// The group.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The process in this slot.
    pub fn process(&self, slot: usize) -> &P {
        &self.processes[slot]
    }

    /// What has been counted so far.
    pub fn ledger(&self) -> &Ledger {
        &self.outside.ledger
    }

    /// The truth at this moment.
    pub fn facts(&self) -> Facts<'_> {
        self.outside.facts(&self.roster)
    }

    /// The truth at this moment about one of several elections, which are counted from 0.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn facts_in(&self, election: usize) -> Facts<'_> {
        match election.checked_sub(1) {
            None => self.facts(),
            Some(place) => self.outside.facts_in(&self.roster, &self.outside.others[place].ledger),
        }
    }

    /// Lets time pass, up to and including the given moment.
    pub fn run(&mut self, until: Time) -> End {
        loop {
            self.outside.queue.open();
            self.outside.warm_up();
            let mut idle = true;
            while let Some((time, event)) = self.outside.queue.pop_open(until.as_nanos()) {
                self.outside.now = Time::from_nanos(time);
                self.happen(event);
                idle = false;
                if self.outside.ledger.events > self.limit {
                    return End::Runaway;
                }
            }
            if self.outside.queue.is_empty() {
                return End::Quiet;
            }
            if idle {
                self.outside.now = self.outside.now.max(until);
                return End::TimeUp;
            }
        }
    }

    /// Checks what must hold at the end.
    pub fn finish(&mut self) {
        self.outside.at_end(&self.roster);
    }

    /// Writes a broken promise down.
    pub(crate) fn accuse(&mut self, invariant: &'static str, detail: String) {
        let at = self.outside.now;
        self.outside.ledger.violations.push(Violation { invariant, at, detail });
    }

    pub(crate) fn schedule(&mut self, at: Time, occurrence: Occurrence) {
        let event = self.file(occurrence);
        self.outside.queue.push(at.max(self.outside.now).as_nanos(), event);
    }

    pub(crate) fn file(&mut self, occurrence: Occurrence) -> Event<P> {
        let place = self.occurrences.len() as u32;
        self.occurrences.push(occurrence);
        Event { whom: place, mark: 0, what: What::Occurrence }
    }

    #[inline(always)]
    pub(crate) fn happen(&mut self, event: Event<P>) {
        let slot = event.whom as usize;
        match event.what {
            What::Message(message) => self.deliver(event.mark as usize, slot, message),
            What::Timer(timer) => self.expire(slot, timer, event.mark),
            What::Multicast(message) => self.fan_out(slot, f32::from_bits(event.mark), &message),
            What::Occurrence => self.occur(self.occurrences[slot].clone()),
        }
    }

    #[inline(always)]
    fn expire(&mut self, slot: usize, timer: P::Timer, generation: u32) {
        if !self.outside.is_current(slot, timer, generation) {
            return;
        }
        if self.outside.status(slot) == Status::Paused {
            let event = Event { whom: slot as u32, mark: generation, what: What::Timer(timer) };
            return self.outside.defer(slot, event);
        }
        self.outside.note(slot as u64, timer.index() as u64);
        if self.outside.observer.is_some() {
            let who = self.roster.id(slot);
            self.outside.observe(Happening::Expired { who, timer: &timer });
        }
        self.input(slot, |process, cx| process.on_timer(cx, timer));
    }

    fn fan_out(&mut self, from: usize, loss: f32, message: &P::Message) {
        for to in 0..self.roster.len() {
            if to != from {
                if self.outside.network.loses_at(loss.into()) {
                    self.outside.drop_message(&self.roster, from, to, message.clone(), Why::Lost);
                } else {
                    self.deliver(from, to, message.clone());
                }
            }
        }
    }

    #[inline(always)]
    fn deliver(&mut self, from: usize, to: usize, message: P::Message) {
        let status = self.outside.status(to);
        if status == Status::Down {
            return self.outside.drop_message(&self.roster, from, to, message, Why::Dead);
        }
        if !self.outside.network.is_whole() && self.outside.network.is_cut(from, to) {
            return self.outside.drop_message(&self.roster, from, to, message, Why::Cut);
        }
        if status == Status::Paused {
            let event = Event { whom: to as u32, mark: from as u32, what: What::Message(message) };
            return self.outside.defer(to, event);
        }
        self.hear(from, to, message);
    }

    /// Hands over a message that has arrived.
    #[inline(always)]
    pub(crate) fn hear(&mut self, from: usize, to: usize, message: P::Message) {
        let kind = message.kind();
        self.outside.note(to as u64 | (from as u64) << 32, 1 << 32);
        message.hash(&mut self.outside.ledger.fingerprint);
        if P::Message::KINDS[kind].counted {
            self.outside.ledger.active = self.outside.now;
        }
        let sender = self.roster.id(from);
        if self.outside.observer.is_some() {
            self.outside.observe_delivery(sender, self.roster.id(to), message.clone());
        }
        self.input(to, |process, cx| process.on_message(cx, sender, message));
    }

    /// Hands an input to a process.
    #[inline(always)]
    pub(crate) fn input(&mut self, slot: usize, handle: impl FnOnce(&mut P, &mut Context<'_, P>)) {
        let now = self.outside.clock(slot);
        let bound = self.outside.delay_bound;
        let mut turn = Turn::new(slot, &self.roster, &mut self.outside);
        handle(&mut self.processes[slot], &mut Context::new(now, self.roster.view(slot), bound, &mut turn));
    }
}
