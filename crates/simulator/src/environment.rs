//! The environment of the processes: the network, clocks, disks and timers that their effects go to.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash as _;

use election::{
    Announcement, Effects, Hash, Message as _, NodeId, Process, Rng, Roster, Span, Time, Timer as _,
};

use crate::clocks::Clocks;
use crate::facts::Status;
use crate::invariants::Change;
use crate::network::Network;
use crate::observer::{Said, Why};
use crate::{Facts, Invariant, Latency, Ledger, Observer, Queue, TraceEvent, Violation};

/// An entry of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Event<P: Process> {
    /// The slot of the process that handles the event; of a scheduled action, its place in the list.
    pub(crate) target: u32,
    /// The sender of a message; the generation of a timer; the loss a multicast was sent into, as bits.
    pub(crate) tag: u32,
    pub(crate) kind: EventKind<P>,
}

/// The kind of an event, with its content. Kept apart from the target so that a message keeps its place in
/// memory from the sender's hands to the receiver's; as fields of one enum they would be shuffled on every
/// copy.
#[derive(Clone, Debug)]
pub(crate) enum EventKind<P: Process> {
    Message(P::Message),
    Timer(P::Timer),
    /// One entry for all addressees, where all are reached at the same time; it concerns the sender.
    Multicast(P::Message),
    ScheduledAction,
}

/// A process that does not run for a while.
pub(crate) struct Pause<P: Process> {
    pub(crate) until: Time,
    /// What has reached it meanwhile, in order.
    pub(crate) waiting: Vec<Event<P>>,
}

/// An election besides the first: who believes what in it, and what must hold.
pub(crate) struct Other {
    pub(crate) ledger: Ledger,
    pub(crate) invariants: Vec<Box<dyn Invariant>>,
}

pub(crate) struct Environment<P: Process> {
    pub(crate) now: Time,
    pub(crate) queue: Queue<Event<P>>,
    pub(crate) network: Network,
    statuses: Vec<Status>,
    /// How many are not up: while it is nobody, nobody's status need be looked at.
    impaired: usize,
    pub(crate) paused: BTreeMap<usize, Pause<P>>,
    /// For each process and timer, how often it was set or cancelled: an event in the queue with an
    /// older number is stale.
    generations: Vec<u32>,
    /// Empty until somebody saves something.
    disks: Vec<Option<P::Saved>>,
    /// The processes' chance; the network has its own.
    rng: Rng,
    pub(crate) clocks: Clocks,
    pub(crate) delay_bound: Span,
    /// Whether the bytes of messages are counted.
    pub(crate) weighs: bool,
    /// Whether anybody looks at what is sent, an observer or the scales: one question for both.
    pub(crate) looked_at: bool,
    pub(crate) ledger: Ledger,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) invariants: Vec<Box<dyn Invariant>>,
    /// The elections besides the first, if processes take part in several.
    pub(crate) others: Vec<Other>,
    pub(crate) ineligible: BTreeSet<usize>,
}

impl<P: Process> Environment<P> {
    pub(crate) fn new(count: usize, seed: u64, latency: Latency) -> Self {
        let seeds = Hash::new(seed);
        Environment {
            now: Time::ZERO,
            queue: Queue::default(),
            network: Network::new(latency, seeds.word(0)),
            statuses: vec![Status::Up; count],
            impaired: 0,
            paused: BTreeMap::new(),
            generations: vec![0; count * P::Timer::COUNT],
            disks: Vec::new(),
            rng: Rng::new(seeds.word(1)),
            clocks: Clocks::new(seeds.word(2)),
            delay_bound: latency.bound(),
            weighs: false,
            looked_at: false,
            ledger: Ledger::new::<P>(count),
            observer: None,
            invariants: Vec::new(),
            others: Vec::new(),
            ineligible: BTreeSet::new(),
        }
    }

    pub(crate) fn facts<'a>(&'a self, roster: &'a Roster) -> Facts<'a> {
        self.facts_in(roster, &self.ledger)
    }

    /// The same about the election of this ledger.
    pub(crate) fn facts_in<'a>(&'a self, roster: &'a Roster, ledger: &'a Ledger) -> Facts<'a> {
        Facts {
            now: self.now,
            roster,
            statuses: &self.statuses,
            network: &self.network,
            clocks: &self.clocks,
            ledger,
            ineligible: &self.ineligible,
        }
    }

    #[inline]
    pub(crate) fn status(&self, slot: usize) -> Status {
        if self.impaired == 0 { Status::Up } else { self.statuses[slot] }
    }

    pub(crate) fn set_status(&mut self, slot: usize, status: Status) {
        self.impaired -= usize::from(self.statuses[slot] != Status::Up);
        self.impaired += usize::from(status != Status::Up);
        let was = std::mem::replace(&mut self.statuses[slot], status);
        let others = self.others.iter_mut().map(|other| &mut other.ledger);
        for ledger in std::iter::once(&mut self.ledger).chain(others) {
            match (was == Status::Down, status == Status::Down) {
                (true, false) => ledger.join(self.now),
                (false, true) => ledger.live -= 1,
                _ => {}
            }
        }
    }

    /// What a process's clock shows.
    #[inline]
    pub(crate) fn clock(&self, slot: usize) -> Time {
        self.clocks.show(slot, self.now)
    }

    pub(crate) fn jump(&mut self, slot: usize, by: Span, back: bool) {
        self.clocks.jump(self.statuses.len(), slot, self.now, by, back);
    }

    /// Writes an input down in the fingerprint of the run.
    #[inline]
    pub(crate) fn note(&mut self, who: u64, what: u64) {
        self.ledger.events += 1;
        self.ledger.fingerprint.mix(self.now.as_nanos());
        self.ledger.fingerprint.mix(who ^ what.rotate_left(29));
    }

    pub(crate) fn observe(&mut self, event: TraceEvent<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.observe(self.now, event);
        }
    }

    pub(crate) fn observe_opinion(&mut self, who: NodeId, peer: NodeId, suspected: bool) {
        self.observe(match suspected {
            true => TraceEvent::Suspected { who, peer },
            false => TraceEvent::Restored { who, peer },
        });
    }

    /// Whether the observer hears nothing of the subject.
    pub(crate) fn is_silent(&self, observer: usize, subject: usize) -> bool {
        self.status(subject) != Status::Up || self.network.is_cut(subject, observer)
    }

    // What seldom happens to a message gets it by value: a reference would keep the message in memory
    // on the way where nothing happens to it, too, and have it copied there.

    #[cold]
    #[inline(never)]
    pub(crate) fn observe_delivery(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        self.observe(TraceEvent::Delivered { from, to, message: said(&message) });
    }

    #[cold]
    #[inline(never)]
    fn look_at_sending(&mut self, from: NodeId, to: NodeId, message: P::Message, arrives: Time, again: bool) {
        // What the network doubles was sent once.
        if !again {
            self.weigh(&message, 1);
        }
        self.observe(TraceEvent::Sent { from, to, message: said(&message), arrives });
    }

    /// Counts the bytes of so many copies of a message, if they are to be counted.
    fn weigh(&mut self, message: &P::Message, copies: u64) {
        if self.weighs {
            let size = postcard::experimental::serialized_size(message).expect("messages are plain data");
            self.ledger.bytes += size as u64 * copies;
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        self.weigh(&message, 1);
        self.ledger.strange += 1;
        self.observe(TraceEvent::Dropped { from, to, message: said(&message), why: Why::Stranger });
    }

    /// Drops what does not even leave.
    #[cold]
    #[inline(never)]
    fn hold_back(&mut self, roster: &Roster, from: usize, to: usize, message: P::Message, why: Why) {
        self.weigh(&message, 1);
        self.drop_message(roster, from, to, message, why);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn drop_message(
        &mut self,
        roster: &Roster,
        from: usize,
        to: usize,
        message: P::Message,
        why: Why,
    ) {
        match why {
            Why::Lost => self.ledger.lost += 1,
            Why::Cut => self.ledger.cut += 1,
            Why::Dead => self.ledger.dead += 1,
            Why::Stranger => self.ledger.strange += 1,
        }
        self.observe(TraceEvent::Dropped {
            from: roster.id(from),
            to: roster.id(to),
            message: said(&message),
            why,
        });
    }

    /// Keeps what reaches a paused process until it goes on.
    #[cold]
    pub(crate) fn defer(&mut self, slot: usize, event: Event<P>) {
        self.paused.get_mut(&slot).expect("it is paused").waiting.push(event);
    }

    /// Reads ahead what the timers of the open bucket will be compared with. With very many processes
    /// that is not in the cache, and the fetches of a whole bucket overlap: worth about a tenth of W2's
    /// speed at a million (`cargo xtask bench simulator`).
    pub(crate) fn warm_up(&self) {
        if self.generations.len() < 1 << 15 {
            return;
        }
        let generation = |event: &Event<P>| match event.kind {
            EventKind::Timer(timer) => {
                self.generations[event.target as usize * P::Timer::COUNT + timer.index()]
            }
            _ => 0,
        };
        std::hint::black_box(self.queue.opened().map(generation).fold(0, u32::wrapping_add));
    }

    #[inline]
    pub(crate) fn is_current(&self, slot: usize, timer: P::Timer, generation: u32) -> bool {
        self.generations[slot * P::Timer::COUNT + timer.index()] == generation
    }

    #[inline]
    fn next_generation(&mut self, slot: usize, timer: P::Timer) -> u32 {
        let generation = &mut self.generations[slot * P::Timer::COUNT + timer.index()];
        *generation = generation.wrapping_add(1);
        *generation
    }

    /// What is lost when a process dies: its timers, its belief, its place among the paused. What
    /// was waiting there is returned.
    pub(crate) fn crash(&mut self, slot: usize, who: NodeId) -> Vec<Event<P>> {
        self.set_status(slot, Status::Down);
        for generation in &mut self.generations[slot * P::Timer::COUNT..][..P::Timer::COUNT] {
            *generation = generation.wrapping_add(1);
        }
        self.ledger.forget(slot, who, self.now);
        self.others.iter_mut().for_each(|other| other.ledger.forget(slot, who, self.now));
        self.paused.remove(&slot).map_or(Vec::new(), |pause| pause.waiting)
    }

    /// What a process finds on its disk when it comes back. One that did not survive is empty.
    pub(crate) fn disk(&mut self, slot: usize, survived: bool) -> Option<P::Saved> {
        let disk = self.disks.get_mut(slot)?;
        if !survived {
            *disk = None;
        }
        disk.clone()
    }

    /// Shows the invariants what has changed.
    pub(crate) fn changed(&mut self, roster: &Roster, change: Change) {
        if self.invariants.is_empty() {
            return;
        }
        self.judge(roster, |invariant, facts| invariant.on_change(facts, change));
        // What somebody says concerns one election; a fault concerns all.
        if !matches!(change, Change::Announced(..)) {
            for place in 0..self.others.len() {
                self.judge_other(roster, place, |invariant, facts| invariant.on_change(facts, change));
            }
        }
    }

    pub(crate) fn at_end(&mut self, roster: &Roster) {
        self.judge(roster, |invariant, facts| invariant.at_end(facts));
        for place in 0..self.others.len() {
            self.judge_other(roster, place, |invariant, facts| invariant.at_end(facts));
        }
    }

    fn judge(
        &mut self,
        roster: &Roster,
        check: impl Fn(&mut dyn Invariant, &Facts<'_>) -> Result<(), String>,
    ) {
        let mut invariants = std::mem::take(&mut self.invariants);
        for invariant in &mut invariants {
            if let Err(detail) = check(invariant.as_mut(), &self.facts(roster)) {
                self.record_violation(invariant.name(), detail);
            }
        }
        self.invariants = invariants;
    }

    fn judge_other(
        &mut self,
        roster: &Roster,
        place: usize,
        check: impl Fn(&mut dyn Invariant, &Facts<'_>) -> Result<(), String>,
    ) {
        let mut invariants = std::mem::take(&mut self.others[place].invariants);
        for invariant in &mut invariants {
            let facts = self.facts_in(roster, &self.others[place].ledger);
            if let Err(detail) = check(invariant.as_mut(), &facts) {
                self.record_violation(invariant.name(), format!("in election {}: {detail}", place + 2));
            }
        }
        self.others[place].invariants = invariants;
    }

    /// Writes a broken promise down, the first of its kind.
    fn record_violation(&mut self, invariant: &'static str, detail: String) {
        if !self.ledger.violations.iter().any(|violation| violation.invariant == invariant) {
            self.ledger.violations.push(Violation { invariant, at: self.now, detail });
        }
    }

    #[inline(always)]
    fn transmit(&mut self, roster: &Roster, from: usize, to: usize, message: P::Message) {
        if !self.network.is_whole() && self.network.is_cut(from, to) {
            return self.hold_back(roster, from, to, message, Why::Cut);
        }
        if self.network.loses() {
            return self.hold_back(roster, from, to, message, Why::Lost);
        }
        if self.network.doubles() {
            self.ledger.doubled += 1;
            self.enqueue(roster, from, to, message.clone(), true);
        }
        self.enqueue(roster, from, to, message, false);
    }

    #[inline(always)]
    fn enqueue(&mut self, roster: &Roster, from: usize, to: usize, message: P::Message, again: bool) {
        let arrives = self.now + self.network.delay();
        if self.looked_at {
            self.look_at_sending(roster.id(from), roster.id(to), message.clone(), arrives, again);
        }
        let kind = EventKind::Message(message);
        self.queue.push(arrives.as_nanos(), Event { target: to as u32, tag: from as u32, kind });
    }
}

fn said<M: election::Message>(message: &M) -> Said<'_> {
    let kind = M::KINDS[message.kind()];
    Said { kind: kind.name, counted: kind.counted, content: message }
}

/// The effects of one process while it handles one input.
pub(crate) struct Turn<'w, P: Process> {
    slot: usize,
    roster: &'w Roster,
    environment: &'w mut Environment<P>,
}

impl<'w, P: Process> Turn<'w, P> {
    #[inline]
    pub(crate) fn new(slot: usize, roster: &'w Roster, environment: &'w mut Environment<P>) -> Self {
        Turn { slot, roster, environment }
    }

    /// A failure detector that is a process of its own says what it takes a peer for.
    fn report_suspicion(&mut self, peer: NodeId, suspected: bool) {
        let Some(subject) = self.roster.slot(peer) else { return };
        let wrong = suspected && !self.environment.is_silent(self.slot, subject);
        self.environment.ledger.wrong_suspicions += u64::from(wrong);
        let who = self.roster.id(self.slot);
        self.environment.observe_opinion(who, peer, suspected);
    }
}

impl<P: Process> Effects<P> for Turn<'_, P> {
    #[inline]
    fn rng(&mut self) -> &mut Rng {
        &mut self.environment.rng
    }

    #[inline(always)]
    fn send(&mut self, to: NodeId, message: P::Message) {
        self.environment.ledger.sent[message.kind()] += 1;
        match self.roster.slot(to) {
            Some(to) => self.environment.transmit(self.roster, self.slot, to, message),
            None => self.environment.refuse(self.roster.id(self.slot), to, message),
        }
    }

    fn multicast(&mut self, message: P::Message) {
        let copies = self.roster.len() as u64 - 1;
        self.environment.ledger.multicasts[message.kind()] += 1;
        self.environment.ledger.copies[message.kind()] += copies;
        let from = self.roster.id(self.slot);
        self.environment.observe(TraceEvent::Multicast { from, message: said(&message) });
        let loss = self.environment.network.multicast_loss.unwrap_or(self.environment.network.loss);
        // Cuts are met on sending too, so that what is sent into one stays lost if it heals.
        if let Latency::Const(delay) = self.environment.network.latency
            && self.environment.network.duplicate == 0.0
            && self.environment.network.is_whole()
        {
            self.environment.weigh(&message, copies);
            let tag = (loss as f32).to_bits();
            let event = Event { target: self.slot as u32, tag, kind: EventKind::Multicast(message) };
            return self.environment.queue.push((self.environment.now + delay).as_nanos(), event);
        }
        // The loss is put in place for the while, so that the way of every other message need not know.
        let usual = std::mem::replace(&mut self.environment.network.loss, loss);
        for to in (0..self.roster.len()).filter(|&to| to != self.slot) {
            self.environment.transmit(self.roster, self.slot, to, message.clone());
        }
        self.environment.network.loss = usual;
    }

    #[inline]
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        let after = self.environment.clocks.true_span(self.slot, after);
        let generation = self.environment.next_generation(self.slot, timer);
        let event = Event { target: self.slot as u32, tag: generation, kind: EventKind::Timer(timer) };
        self.environment.queue.push((self.environment.now + after).as_nanos(), event);
    }

    #[inline]
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.environment.next_generation(self.slot, timer);
    }

    fn save(&mut self, state: P::Saved) {
        if self.environment.disks.is_empty() {
            self.environment.disks = vec![None; self.roster.len()];
        }
        self.environment.disks[self.slot] = Some(state);
    }

    fn announce(&mut self, announcement: Announcement) {
        let who = self.roster.id(self.slot);
        let now = self.environment.now;
        announcement.hash(&mut self.environment.ledger.fingerprint);
        // One that was paused says late that it no longer leads: it has not since its lease ended.
        let overdue = self.environment.ledger.lease(self.slot).map_or(Span::ZERO, |end| {
            self.environment.clocks.true_span(self.slot, self.environment.clock(self.slot).since(end))
        });
        self.environment.ledger.believe(self.slot, who, announcement, now, overdue);
        self.environment.observe(TraceEvent::Announced { who, announcement });
        self.environment.changed(self.roster, Change::Announced(self.slot, announcement));
    }

    fn lead_until(&mut self, end: Time) {
        self.environment.ledger.lease_until(self.slot, end);
        self.environment.changed(self.roster, Change::Clocked(self.slot));
    }

    fn announce_in(&mut self, election: usize, announcement: Announcement) {
        let Some(place) = election.checked_sub(1) else { return self.announce(announcement) };
        let (who, now, clock) =
            (self.roster.id(self.slot), self.environment.now, self.environment.clock(self.slot));
        announcement.hash(&mut self.environment.ledger.fingerprint);
        self.environment.ledger.active = now;
        let Environment { others, clocks, .. } = &mut *self.environment;
        let ledger = &mut others[place].ledger;
        let overdue =
            ledger.lease(self.slot).map_or(Span::ZERO, |end| clocks.true_span(self.slot, clock.since(end)));
        ledger.believe(self.slot, who, announcement, now, overdue);
        let change = Change::Announced(self.slot, announcement);
        self.environment
            .judge_other(self.roster, place, |invariant, facts| invariant.on_change(facts, change));
    }

    fn lead_until_in(&mut self, election: usize, end: Time) {
        let Some(place) = election.checked_sub(1) else { return self.lead_until(end) };
        self.environment.others[place].ledger.lease_until(self.slot, end);
        let change = Change::Clocked(self.slot);
        self.environment
            .judge_other(self.roster, place, |invariant, facts| invariant.on_change(facts, change));
    }

    fn suspect(&mut self, peer: NodeId) {
        self.report_suspicion(peer, true);
    }

    fn restore(&mut self, peer: NodeId) {
        self.report_suspicion(peer, false);
    }
}
