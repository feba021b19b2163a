//! The environment of the processes: the network, disks and timers.
//!
//! This module is compiled for every algorithm. Everything that does not depend on messages and timers is in
//! [`state`](crate::state).

use suffrage_core::{
    Announcement, Effects, Message as _, NodeId, Process, Rng, Roster, SaveQueue, Span, Time, Timer as _,
};

use crate::facts::Status;
use crate::observer::{DropReason, TracedMessage};
use crate::state::WorldState;
use crate::{Latency, Queue, TraceEvent};

/// An entry of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Event<P: Process> {
    /// The slot of the process that handles the event; of a scheduled action, its index in the list.
    pub(crate) target: u32,
    /// The sender of a message; the generation of a timer; the loss at the sending of a multicast, as bits.
    pub(crate) tag: u32,
    pub(crate) kind: EventKind<P>,
}

/// The kind of an event, with its content. Separate from the target, so that a message keeps its memory layout from
/// sender to receiver. As fields of one enum, target and message would be rearranged on every copy.
#[derive(Clone, Debug)]
pub(crate) enum EventKind<P: Process> {
    Message(P::Message),
    Timer(P::Timer),
    /// One entry for all addressees, where all are reached at the same time. The target is the sender.
    Multicast(P::Message),
    ScheduledAction,
    /// A save has ended. The tag is the generation of the disk.
    SaveEnd,
}

pub(crate) struct Environment<P: Process> {
    pub(crate) state: WorldState,
    pub(crate) queue: Queue<Event<P>>,
    /// For each process and timer, the number of times it was set or cancelled. An event in the queue with an older
    /// number is stale.
    generations: Vec<u32>,
    /// The events for paused processes, in order, with the slot.
    deferred: Vec<(usize, Event<P>)>,
    /// The saved states, by slot. Empty until the first save.
    disks: Vec<Option<P::Saved>>,
    /// The saves under way, by slot. Empty until a disk is slow.
    saves: Vec<Saves<P::Saved>>,
}

/// The saves of a process that are under way.
struct Saves<S> {
    queue: SaveQueue<S>,
    /// The number of crashes. The end of a save that began before a crash is void.
    generation: u32,
}

impl<S> Default for Saves<S> {
    fn default() -> Self {
        Saves { queue: SaveQueue::default(), generation: 0 }
    }
}

impl<P: Process> Environment<P> {
    pub(crate) fn new(count: usize, seed: u64, latency: Latency) -> Self {
        Environment {
            state: WorldState::new(count, P::Message::KINDS.len(), seed, latency),
            queue: Queue::default(),
            generations: vec![0; count * P::Timer::COUNT],
            deferred: Vec::new(),
            disks: Vec::new(),
            saves: Vec::new(),
        }
    }

    // The rare paths take a message by value: a reference would force the message into memory, and cause a copy, on
    // the hot path too.

    #[cold]
    #[inline(never)]
    pub(crate) fn observe_delivery(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        self.state.observe(TraceEvent::Delivered { from, to, message: traced(&message) });
    }

    #[cold]
    #[inline(never)]
    fn inspect_send(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: P::Message,
        arrives: Time,
        duplicate: bool,
    ) {
        // A message that the network duplicates was sent once.
        if !duplicate {
            self.count_bytes(&message, 1);
        }
        self.state.observe(TraceEvent::Sent { from, to, message: traced(&message), arrives });
    }

    /// Counts the bytes of `copies` copies of a message, if bytes are counted.
    fn count_bytes(&mut self, message: &P::Message, copies: u64) {
        if self.state.counts_bytes {
            let size = postcard::experimental::serialized_size(message).expect("messages are plain data");
            self.state.ledger.bytes += size as u64 * copies;
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_to_unknown(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        self.count_bytes(&message, 1);
        self.state.ledger.unknown_receiver += 1;
        let message = traced(&message);
        let reason = DropReason::UnknownReceiver;
        self.state.observe(TraceEvent::Dropped { from, to, message, reason, on_send: true });
    }

    /// Drops a message at its sender.
    #[cold]
    #[inline(never)]
    fn drop_on_send(
        &mut self,
        roster: &Roster,
        from: usize,
        to: usize,
        message: P::Message,
        reason: DropReason,
    ) {
        self.count_bytes(&message, 1);
        self.state.record_drop(roster, [from, to], traced(&message), reason, true);
    }

    /// Drops a message at its receiver.
    #[cold]
    #[inline(never)]
    pub(crate) fn drop_message(
        &mut self,
        roster: &Roster,
        from: usize,
        to: usize,
        message: P::Message,
        reason: DropReason,
    ) {
        self.state.record_drop(roster, [from, to], traced(&message), reason, false);
    }

    /// Keeps an event for a paused process until it resumes.
    #[cold]
    #[inline(never)]
    pub(crate) fn defer(&mut self, slot: usize, event: Event<P>) {
        self.deferred.push((slot, event));
    }

    /// Takes the events that were kept for a process.
    pub(crate) fn deferred(&mut self, slot: usize) -> Vec<Event<P>> {
        let mut events = Vec::new();
        for (owner, event) in std::mem::take(&mut self.deferred) {
            if owner == slot {
                events.push(event);
            } else {
                self.deferred.push((owner, event));
            }
        }
        events
    }

    /// Reads the generations of the timers in the open bucket into the cache. With very many processes they are not in
    /// the cache, and the fetches of a whole bucket overlap: this is worth about a tenth of W2's speed at a million
    /// processes (`cargo xtask bench simulator`).
    pub(crate) fn prefetch_generations(&self) {
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

    /// Crashes a process and cancels its timers. Returns the events that were kept for it.
    pub(crate) fn crash(&mut self, slot: usize, who: NodeId) -> Vec<Event<P>> {
        let paused = self.state.status(slot) == Status::Paused;
        self.state.crash(slot, who);
        for generation in &mut self.generations[slot * P::Timer::COUNT..][..P::Timer::COUNT] {
            *generation = generation.wrapping_add(1);
        }
        self.crash_disk(slot);
        if paused { self.deferred(slot) } else { Vec::new() }
    }

    /// Ends the saves of a process that crashes. The disk has the state that was being written, or the one before.
    fn crash_disk(&mut self, slot: usize) {
        let Some(saves) = self.saves.get_mut(slot) else { return };
        let saves = std::mem::replace(
            saves,
            Saves { queue: SaveQueue::default(), generation: saves.generation.wrapping_add(1) },
        );
        if let Some(state) = saves.queue.writing()
            && self.state.disk_rng.chance(0.5)
        {
            self.disks[slot] = Some(state.clone());
        }
    }

    fn save(&mut self, slot: usize, state: P::Saved) {
        if self.disks.is_empty() {
            self.disks = vec![None; self.state.processes()];
        }
        self.disks[slot] = Some(state);
    }

    /// Begins to save. True if the disk is fast, and the state is saved.
    fn begin_save(&mut self, slot: usize, state: P::Saved) -> bool {
        let busy = self.saves.get(slot).is_some_and(|saves| saves.queue.writing().is_some());
        if self.state.save_delay.is_zero() && !busy {
            self.save(slot, state);
            return true;
        }
        if self.saves.is_empty() {
            self.saves.resize_with(self.state.processes(), Saves::default);
        }
        if self.saves[slot].queue.begin(state).is_some() {
            self.schedule_save_end(slot);
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn schedule_save_end(&mut self, slot: usize) {
        let delay = self.state.save_delay.scale(self.state.disk_rng.unit());
        let tag = self.saves[slot].generation;
        self.push(self.state.now + delay, Event { target: slot as u32, tag, kind: EventKind::SaveEnd });
    }

    /// Ends a save. Returns the state that is durable, unless the process has crashed since the save began.
    pub(crate) fn end_save(&mut self, slot: usize, generation: u32) -> Option<P::Saved> {
        let saves = self.saves.get_mut(slot).filter(|saves| saves.generation == generation)?;
        let state = saves.queue.end()?;
        let more = saves.queue.writing().is_some();
        self.save(slot, state.clone());
        if more {
            self.schedule_save_end(slot);
        }
        Some(state)
    }

    /// The saved state of a process that recovers. Erases the disk first unless it `survived`.
    pub(crate) fn disk(&mut self, slot: usize, survived: bool) -> Option<P::Saved> {
        let disk = self.disks.get_mut(slot)?;
        if !survived {
            *disk = None;
        }
        disk.clone()
    }

    /// Sends a message into the network. `push` gets the messages that are not lost.
    #[inline(always)]
    fn transmit(
        &mut self,
        roster: &Roster,
        from: usize,
        to: usize,
        message: P::Message,
        push: impl FnOnce(&mut Self, Time, Event<P>),
    ) {
        if !self.state.network.has_no_cuts() && self.state.network.is_cut(from, to) {
            return self.drop_on_send(roster, from, to, message, DropReason::Cut);
        }
        if self.state.network.draw_loss() {
            return self.drop_on_send(roster, from, to, message, DropReason::Lost);
        }
        if self.state.network.draw_duplicate() {
            self.enqueue_duplicate(roster, from, to, message.clone());
        }
        self.enqueue(roster, from, to, message, false, push);
    }

    /// Sends to one of several addressees.
    #[inline(never)]
    fn transmit_copy(&mut self, roster: &Roster, from: usize, to: usize, message: P::Message) {
        self.transmit(roster, from, to, message, Self::push);
    }

    #[cold]
    #[inline(never)]
    fn enqueue_duplicate(&mut self, roster: &Roster, from: usize, to: usize, message: P::Message) {
        self.state.ledger.duplicated += 1;
        self.enqueue(roster, from, to, message, true, Self::push);
    }

    #[inline(always)]
    fn enqueue(
        &mut self,
        roster: &Roster,
        from: usize,
        to: usize,
        message: P::Message,
        duplicate: bool,
        push: impl FnOnce(&mut Self, Time, Event<P>),
    ) {
        let arrives = self.state.now + self.state.network.delay();
        if self.state.inspects_sends {
            self.inspect_send(roster.id(from), roster.id(to), message.clone(), arrives, duplicate);
        }
        let kind = EventKind::Message(message);
        push(self, arrives, Event { target: to as u32, tag: from as u32, kind });
    }

    /// [`Queue::push`] for rare events; not inlined.
    #[inline(never)]
    pub(crate) fn push(&mut self, at: Time, event: Event<P>) {
        self.queue.push(at.as_nanos(), event);
    }
}

fn traced<M: suffrage_core::Message>(message: &M) -> TracedMessage<'_> {
    let kind = M::KINDS[message.kind()];
    TracedMessage { kind: kind.name, counted: kind.counted, content: message }
}

/// The effects of one process while it handles one input.
pub(crate) struct ProcessEffects<'w, P: Process> {
    slot: usize,
    roster: &'w Roster,
    environment: &'w mut Environment<P>,
}

impl<'w, P: Process> ProcessEffects<'w, P> {
    #[inline]
    pub(crate) fn new(slot: usize, roster: &'w Roster, environment: &'w mut Environment<P>) -> Self {
        ProcessEffects { slot, roster, environment }
    }
}

impl<P: Process> Effects<P> for ProcessEffects<'_, P> {
    #[inline]
    fn rng(&mut self) -> &mut Rng {
        &mut self.environment.state.rng
    }

    #[inline(always)]
    fn send(&mut self, to: NodeId, message: P::Message) {
        self.environment.state.ledger.sent[message.kind()] += 1;
        match self.roster.slot(to) {
            Some(to) => self.environment.transmit(
                self.roster,
                self.slot,
                to,
                message,
                #[inline(always)]
                |environment, arrives, event| environment.queue.push(arrives.as_nanos(), event),
            ),
            None => self.environment.drop_to_unknown(self.roster.id(self.slot), to, message),
        }
    }

    fn multicast(&mut self, message: P::Message) {
        let copies = self.roster.len() as u64 - 1;
        self.environment.state.ledger.multicasts[message.kind()] += 1;
        self.environment.state.ledger.copies[message.kind()] += copies;
        let from = self.roster.id(self.slot);
        self.environment.state.observe(TraceEvent::Multicast { from, message: traced(&message) });
        let loss =
            self.environment.state.network.multicast_loss.unwrap_or(self.environment.state.network.loss);
        // Cuts are checked on sending too, so that a message sent into a cut stays lost if the cut heals.
        if let Some(delay) = self.environment.state.network.constant_delay()
            && self.environment.state.network.duplicate == 0.0
            && self.environment.state.network.has_no_cuts()
        {
            self.environment.count_bytes(&message, copies);
            let tag = (loss as f32).to_bits();
            let event = Event { target: self.slot as u32, tag, kind: EventKind::Multicast(message) };
            return self.environment.push(self.environment.state.now + delay, event);
        }
        // The multicast loss replaces the usual loss for these messages, so that the hot path needs no other test.
        let usual = std::mem::replace(&mut self.environment.state.network.loss, loss);
        for to in (0..self.roster.len()).filter(|&to| to != self.slot) {
            self.environment.transmit_copy(self.roster, self.slot, to, message.clone());
        }
        self.environment.state.network.loss = usual;
    }

    #[inline]
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        let after = self.environment.state.clocks.true_span(self.slot, after);
        let generation = self.environment.next_generation(self.slot, timer);
        let event = Event { target: self.slot as u32, tag: generation, kind: EventKind::Timer(timer) };
        self.environment.queue.push((self.environment.state.now + after).as_nanos(), event);
    }

    #[inline]
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.environment.next_generation(self.slot, timer);
    }

    fn save(&mut self, state: P::Saved) {
        self.environment.save(self.slot, state);
    }

    fn begin_save(&mut self, state: P::Saved) -> bool {
        self.environment.begin_save(self.slot, state)
    }

    fn announce(&mut self, announcement: Announcement) {
        self.environment.state.announce(self.roster, self.slot, announcement);
    }

    fn lead_until(&mut self, end: Time) {
        self.environment.state.lead_until(self.roster, self.slot, end);
    }

    fn announce_in(&mut self, election: usize, announcement: Announcement) {
        self.environment.state.announce_in(self.roster, self.slot, election, announcement);
    }

    fn lead_until_in(&mut self, election: usize, end: Time) {
        self.environment.state.lead_until_in(self.roster, self.slot, election, end);
    }

    fn suspect(&mut self, peer: NodeId) {
        self.environment.state.report_suspicion(self.roster, self.slot, peer, true);
    }

    fn restore(&mut self, peer: NodeId) {
        self.environment.state.report_suspicion(self.roster, self.slot, peer, false);
    }
}
