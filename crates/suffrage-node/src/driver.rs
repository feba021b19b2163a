//! The driver of one process on a network, a clock and a disk.
//!
//! ```text
//!   Transport ─▶ messages ─┐  ┌─────────┐  ┌─▶ messages, by addressee ─▶ Transport
//!   Clock ─────▶ timers ───┼─▶│ Process │──┼─▶ save ───────────────────▶ Storage
//!   Handle ────▶ commands ─┘  └─────────┘  └─▶ announcements ──────────▶ Handle
//! ```
//!
//! One task handles one input at a time. Effects are carried out in their order: a state is saved before later effects
//! become visible, and the node stops if it cannot be saved. Messages to one peer of one input, or of one datagram, share
//! a datagram. A message that is longer than a datagram is dropped and counted.
//!
//! Failure detectors and gossip are processes themselves: an algorithm that wants them is run as a
//! [`Stack`](suffrage_core::layers::Stack).

mod handle;
mod timers;

use std::collections::VecDeque;
use std::io;

use suffrage_core::{Announcement, Context, Effect, NodeId, Process, Recorder, Roster, Span, Start, Time};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task;

use self::handle::Order;
pub use self::handle::{Belief, Event, Handle};
use self::timers::Timers;
use crate::clock::Clock;
use crate::storage::Storage;
use suffrage_net::codec::{Outbox, Protocol};
use suffrage_net::{Counters, Dropped, Transport};

use crate::Error;

/// The capacity of the queue of orders.
const ORDERS: usize = 64;
/// The number of events that a slow receiver may lag behind.
const EVENTS: usize = 1_024;

/// The settings of a process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The group.
    pub roster: Roster,
    /// The expected upper bound of the delay of a message. Timeouts are multiples of it.
    pub delay_bound: Span,
    /// The protocol of the messages, by convention named after the algorithm.
    pub protocol: Protocol,
    /// The seed of the process's random numbers. None for a seed of the system.
    pub seed: Option<u64>,
}

/// Starts a process at the node of the transport. The process runs until it is stopped, its handle is dropped, or the
/// disk or the network fails. Needs a tokio runtime.
pub fn spawn<P, T, C, S>(
    process: P,
    transport: T,
    clock: C,
    mut storage: S,
    settings: Settings,
) -> Result<Handle<P>, Error>
where
    P: Process,
    T: Transport,
    C: Clock,
    S: Storage<P::Saved>,
{
    let me = transport.local();
    let Settings { roster, delay_bound, protocol, seed } = settings;
    let slot = roster.slot(me).ok_or(Error::NotAMember(me))?;
    let seed = seed.map_or_else(getrandom::u64, Ok)?;
    let start = storage.start()?;
    let (orders, inbox) = mpsc::channel(ORDERS);
    let belief = Belief { announcement: Announcement::Undecided, lead_until: None, since: clock.now() };
    let (beliefs, events) = (watch::Sender::new(belief), broadcast::Sender::new(EVENTS));
    let handle = (orders, beliefs.subscribe(), events.clone());
    let driver = Driver {
        me,
        slot,
        roster,
        delay_bound,
        process,
        recorder: Recorder::new(seed),
        protocol,
        outbox: Outbox::new(protocol, transport.max_payload()),
        loopback: VecDeque::new(),
        timers: Timers::new(),
        marked: false,
        beliefs,
        events,
        transport,
        clock,
        storage,
    };
    Ok(Handle::new(me, handle, task::spawn(driver.run(start, inbox))))
}

struct Driver<P: Process, T, C, S> {
    me: NodeId,
    slot: usize,
    roster: Roster,
    delay_bound: Span,
    process: P,
    recorder: Recorder<P>,
    protocol: Protocol,
    outbox: Outbox,
    /// Messages of the process to itself.
    loopback: VecDeque<P::Message>,
    timers: Timers<P::Timer>,
    /// Whether the process is marked as started.
    marked: bool,
    beliefs: watch::Sender<Belief>,
    events: broadcast::Sender<Event>,
    transport: T,
    clock: C,
    storage: S,
}

impl<P, T, C, S> Driver<P, T, C, S>
where
    P: Process,
    T: Transport,
    C: Clock,
    S: Storage<P::Saved>,
{
    async fn run(mut self, start: Start<P::Saved>, mut orders: mpsc::Receiver<Order<P>>) -> Result<P, Error> {
        self.input(|process, cx| process.on_start(cx, start))?;
        self.mark_started()?;
        loop {
            self.flush()?;
            if let Some(message) = self.loopback.pop_front() {
                let me = self.me;
                self.input(|process, cx| process.on_message(cx, me, message))?;
                continue;
            }
            let due = self.timers.next_due();
            tokio::select! {
                // This order keeps a flood of messages from delaying timers and orders.
                biased;
                order = orders.recv() => match order {
                    None | Some(Order::Stop) => return Ok(self.process),
                    Some(order) => self.on_order(order)?,
                },
                () = self.clock.sleep_until(due.unwrap_or(Time::MAX)), if due.is_some() => self.on_timers()?,
                received = self.transport.receive() => self.on_datagram(received)?,
            }
        }
    }

    /// Hands one input to the process, and carries out the effects.
    fn input(&mut self, input: impl FnOnce(&mut P, &mut Context<'_, P>)) -> Result<(), Error> {
        let now = self.clock.now();
        let view = self.roster.view(self.slot);
        input(&mut self.process, &mut self.recorder.context(now, view, self.delay_bound));
        for effect in self.recorder.take() {
            self.carry_out(now, effect)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, now: Time, effect: Effect<P>) -> Result<(), Error> {
        match effect {
            Effect::Send { to, message } if to == self.me => self.loopback.push_back(message),
            Effect::Send { to, message } => return self.post(to, &message),
            Effect::Multicast { message } => {
                for slot in 0..self.roster.len() {
                    if slot != self.slot {
                        self.post(self.roster.id(slot), &message)?;
                    }
                }
            }
            Effect::SetTimer { timer, after } => self.timers.set(timer, now + after),
            Effect::CancelTimer { timer } => self.timers.cancel(timer),
            Effect::Save(state) => {
                self.flush()?;
                self.storage.save(&state)?;
            }
            Effect::Announce(announcement) => {
                self.flush()?;
                self.mark_started()?;
                let me = self.me;
                self.beliefs.send_modify(|belief| belief.announce(me, announcement, now));
                self.publish(Event::Announced { at: now, announcement });
            }
            Effect::LeadUntil(end) => self.beliefs.send_modify(|belief| belief.lead_until = Some(end)),
            Effect::Suspect(peer) => self.publish(Event::Suspected { at: now, peer }),
            Effect::Restore(peer) => self.publish(Event::Restored { at: now, peer }),
        }
        Ok(())
    }

    fn post(&mut self, to: NodeId, message: &P::Message) -> Result<(), Error> {
        if self.roster.slot(to).is_none() {
            self.transport.counters().count_drop(Dropped::UnknownPeer);
            return Ok(());
        }
        if self.outbox.push(to, message).is_err() {
            self.transport.counters().count_drop(Dropped::Oversized);
        }
        Ok(())
    }

    /// Sends the posted messages.
    fn flush(&mut self) -> Result<(), Error> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        self.mark_started()?;
        let transport = &self.transport;
        // The transport counts failures; the messages are lost.
        self.outbox.flush(|to, payload| _ = transport.send(to, payload));
        Ok(())
    }

    /// Marks the process as started, before its first message or announcement.
    fn mark_started(&mut self) -> Result<(), Error> {
        if !self.marked {
            self.storage.mark_started()?;
            self.marked = true;
        }
        Ok(())
    }

    fn publish(&self, event: Event) {
        // There may be no receiver.
        _ = self.events.send(event);
    }

    fn on_order(&mut self, order: Order<P>) -> Result<(), Error> {
        match order {
            Order::Stop => Ok(()),
            Order::Command(command) => self.input(|process, cx| process.on_command(cx, command.into())),
            Order::Suspect(peer) => self.input(|process, cx| process.on_suspect(cx, peer)),
            Order::Restore(peer) => self.input(|process, cx| process.on_restore(cx, peer)),
            Order::Attribute(id, attribute) => {
                self.roster.set_attribute(id, attribute);
                self.input(|process, cx| process.on_view_change(cx))
            }
            Order::Roster(roster) => {
                self.slot = roster.slot(self.me).ok_or(Error::NotAMember(self.me))?;
                self.roster = roster;
                self.input(|process, cx| process.on_view_change(cx))
            }
            Order::Inspect(inspect) => {
                inspect(&self.process, self.clock.now());
                Ok(())
            }
        }
    }

    /// Handles the timers that have expired, in the order of their expiry.
    fn on_timers(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        // Timers that these handlers set are handled in a later round, after messages.
        for timer in self.timers.due(now) {
            if let Some(timer) = self.timers.take(timer) {
                self.input(|process, cx| process.on_timer(cx, timer))?;
            }
        }
        Ok(())
    }

    fn on_datagram(&mut self, received: io::Result<(NodeId, Vec<u8>)>) -> Result<(), Error> {
        let failed =
            |source| Error::Net(suffrage_net::Error::Network { doing: "receive".to_string(), source });
        let (from, payload) = received.map_err(failed)?;
        if from == self.me || self.roster.slot(from).is_none() {
            self.counters().count_drop(Dropped::NonMember);
            return Ok(());
        }
        match self.protocol.decode::<P::Message>(&payload) {
            Err(reason) => self.counters().count_drop(reason),
            Ok(messages) => {
                for message in messages {
                    self.input(|process, cx| process.on_message(cx, from, message))?;
                }
            }
        }
        Ok(())
    }

    fn counters(&self) -> &Counters {
        self.transport.counters()
    }
}

#[cfg(test)]
mod tests;
