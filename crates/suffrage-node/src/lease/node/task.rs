//! The task that owns a host, and carries out what it wants done.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::{Name, Saved};
use tokio::sync::{mpsc, watch};

use super::{Command, Condition, Deed, Figures, Joined};
use crate::clock::Clock;
use crate::lease::host::{Host, Refused};
use crate::lease::output::{Event, Output};
use crate::lease::part::{Belief, Part, Stint};
use crate::lease::seat::Seat;
use crate::lease::settings::Terms;
use crate::storage::Storage;
use suffrage_net::Transport;

/// How many datagrams, and how many commands, are taken in one turn. What is said to a peer in one turn shares
/// datagrams; but who waits for an answer does not wait for all of what came after.
const TURN: usize = 64;
/// It comes round at least this often, if only to show that it can.
const IDLE: Span = Span::from_millis(1_000);
/// How long it waits before it tries to save again.
const RETRY: Duration = Duration::from_secs(1);

/// A node's part in one election, as far as others are told of it.
struct Place {
    belief: watch::Sender<Belief>,
    stint: Option<Arc<Stint>>,
    /// Whether one of its users may stand.
    taken: bool,
    users: usize,
}

pub(super) struct Task<T, C, D> {
    host: Host,
    out: Output,
    transport: T,
    clock: C,
    /// None while it is being written to.
    disk: Option<D>,
    handles: Handles,
    places: Vec<Option<Place>>,
    stopping: bool,
}

/// The task's ends of what it shares with those who have a handle to the node.
pub(super) struct Handles {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) condition: watch::Sender<Condition>,
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
        host: Host,
        out: Output,
        transport: T,
        clock: C,
        disk: D,
        handles: Handles,
    ) -> Task<T, C, D> {
        Task { host, out, transport, clock, disk: Some(disk), handles, places: Vec::new(), stopping: false }
    }

    pub(super) async fn run(mut self) {
        let mut reason = None;
        if !self.settle().await {
            self.stopping = true;
        }
        while !self.stopping {
            if let Err(error) = self.turn().await {
                reason = Some(error.to_string());
                break;
            }
        }
        // Whoever holds one knows at once, though it may have handed over already.
        self.places.iter().flatten().filter_map(|place| place.stint.as_ref()).for_each(|it| it.end());
        // Who hears that it has stopped finds its address and its folder free.
        let condition = self.handles.condition.clone();
        drop(self);
        condition.send_modify(|condition| condition.stopped = Some(reason));
    }

    /// Waits for something to do, does it and what else there is, and then what the host makes of it.
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
        if self.host.next_due().is_some_and(|due| due <= now) {
            self.host.on_due(now, &mut self.out);
        }
        self.stopping |= !self.settle().await;
        Ok(())
    }

    async fn woken(&mut self) -> Woken {
        let now = self.clock.now();
        self.handles.turned.store(now.as_nanos(), Ordering::Relaxed);
        let due = self.host.next_due().unwrap_or(Time::MAX).min(now + IDLE);
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
        if let Err(reason) = self.host.on_datagram(now, from, &datagram, &mut self.out) {
            self.transport.counters().count_drop(reason);
        }
    }

    /// Saves, then tells, then sends: in this order. False if it was told to stop while it could not save.
    async fn settle(&mut self) -> bool {
        if !self.out.is_empty() {
            if !self.save().await {
                return false;
            }
            let mut events = std::mem::take(&mut self.out.events);
            for (seat, event) in events.drain(..) {
                self.tell(seat, event);
            }
            self.out.events = events;
            let transport = &self.transport;
            // Whoever does not get it asks again; the transport has counted it.
            self.out.mail.drain(|to, datagram| _ = transport.send(to, datagram));
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
            let trouble = written.err().map(|error| error.to_string());
            let done = trouble.is_none();
            self.handles.condition.send_if_modified(|condition| {
                let changed = condition.trouble != trouble;
                condition.trouble = trouble;
                changed
            });
            if done {
                return true;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                _ = self.handles.stopped.wait_for(|stop| *stop) => return false,
            }
        }
    }

    /// Tells those concerned what has become of an election.
    fn tell(&mut self, seat: Seat, event: Event) {
        let now = self.clock.now();
        let Some(place) = self.places.get_mut(seat.index()).and_then(Option::as_mut) else { return };
        let leader = match event {
            Event::Renewed { valid_until, .. } => {
                if let Some(stint) = &place.stint {
                    stint.renew(valid_until);
                }
                return;
            }
            Event::Led { token, valid_until, .. } => {
                match &place.stint {
                    Some(stint) => stint.lead_on(token, valid_until),
                    None => place.stint = Some(Arc::new(Stint::new(token, valid_until))),
                }
                Some((self.host.me(), token))
            }
            Event::Follows { leader, token } => Some((leader, token)),
            Event::Lost | Event::Nobody => None,
        };
        if !matches!(event, Event::Led { .. })
            && let Some(stint) = place.stint.take()
        {
            stint.end();
        }
        let belief = Belief { leader, since: now, stint: place.stint.clone() };
        place.belief.send_replace(belief);
    }

    fn obey(&mut self, command: Option<Command>) {
        let now = self.clock.now();
        // If nobody is there to answer to, it is done all the same.
        match command {
            Some(Command::Join { node, text, terms, reply }) => {
                // If nobody has the node any more, nobody waits for this.
                let Some(node) = node.upgrade() else { return };
                let stands = terms.is_some();
                let joined = self.join(now, &text, terms);
                _ = reply.send(joined.map(|(name, belief)| Part { node, name, belief, stands }));
            }
            Some(Command::Do { name, deed, reply }) => {
                let done = self.host.seat(name).map(|seat| self.perform(now, seat, deed)).is_some();
                if let Some(reply) = reply {
                    _ = reply.send(done);
                }
            }
            Some(Command::Status { name, reply }) => {
                let status = self.host.seat(name).and_then(|seat| self.host.status(now, seat));
                _ = reply.send(status);
            }
            Some(Command::Elections { reply }) => {
                let seats = self.host.seats().filter_map(|(seat, _)| self.host.status(now, seat));
                _ = reply.send(seats.collect());
            }
            Some(Command::History { name, reply }) => {
                let all = self.host.history().all();
                let wanted = all.filter(|record| name.is_none_or(|name| name == record.name));
                _ = reply.send(wanted.copied().collect());
            }
            Some(Command::Figures { reply }) => _ = reply.send(self.figures(now)),
            Some(Command::Stop) | None => self.leave_all(now),
        }
    }

    fn figures(&self, now: Time) -> Figures {
        Figures {
            tally: self.host.tally(),
            elections: self.host.len(),
            heard: self.host.heard(now),
            voter: self.host.voter_status(now),
            round_trip: self.host.round_trip(),
            messages_sent: self.out.mail.messages(),
        }
    }

    fn perform(&mut self, now: Time, seat: Seat, deed: Deed) {
        let (host, out) = (&mut self.host, &mut self.out);
        match deed {
            Deed::Campaign => host.campaign(now, seat, out),
            Deed::Withdraw => host.withdraw(now, seat, out),
            Deed::Resign => host.resign(now, seat, out),
            Deed::Transfer(to) => host.transfer(now, seat, to, out),
            Deed::SetHealthy(healthy) => host.set_healthy(now, seat, healthy, out),
            Deed::SetAttribute(attribute) => host.set_attribute(now, seat, attribute, out),
            Deed::Leave { stands } => self.leave(now, seat, stands),
        }
    }

    /// Somebody takes part. Others may do so already as observers; their beliefs go on.
    fn join(&mut self, now: Time, text: &str, terms: Option<Terms>) -> Result<Joined, Refused> {
        let name = Name::of(text);
        let earlier = match (self.host.seat(name), terms) {
            (Some(seat), terms) => {
                let Some(place) = self.places[seat.index()].as_mut() else { return Err(Refused::Taken) };
                if terms.is_none() {
                    place.users += 1;
                    return Ok((name, place.belief.subscribe()));
                }
                if place.taken {
                    return Err(Refused::Taken);
                }
                terms.unwrap_or_default().check(self.host.settings())?;
                self.host.leave(now, seat, &mut self.out);
                self.places[seat.index()].take()
            }
            (None, _) => None,
        };
        let seat = self.host.join(now, text, terms.unwrap_or_default(), &mut self.out)?;
        let mut place = earlier.unwrap_or_else(|| {
            let belief = Belief { leader: None, since: now, stint: None };
            Place { belief: watch::Sender::new(belief), stint: None, taken: false, users: 0 }
        });
        // What led before leads no more, though the word of it may still be on its way, and to another seat: were
        // its stint kept, the next time of leading would be taken for one and the same, ended or not.
        if let Some(stint) = place.stint.take() {
            stint.end();
        }
        // A new candidate knows of nobody yet, and will say so only if it changes.
        place.belief.send_if_modified(|belief| {
            let changed = belief.leader.is_some();
            *belief = Belief { leader: None, since: now, stint: None };
            changed
        });
        place.taken = terms.is_some();
        place.users += 1;
        let belief = place.belief.subscribe();
        if self.places.len() <= seat.index() {
            self.places.resize_with(seat.index() + 1, || None);
        }
        self.places[seat.index()] = Some(place);
        Ok((name, belief))
    }

    fn leave(&mut self, now: Time, seat: Seat, stands: bool) {
        let Some(place) = self.places[seat.index()].as_mut() else { return };
        place.users -= 1;
        if stands {
            place.taken = false;
            self.host.withdraw(now, seat, &mut self.out);
        }
        if self.places[seat.index()].as_ref().is_some_and(|place| place.users == 0) {
            self.host.leave(now, seat, &mut self.out);
            self.forget(seat);
        }
    }

    /// Nobody is told of this election any more.
    fn forget(&mut self, seat: Seat) {
        if let Some(stint) = self.places[seat.index()].take().and_then(|place| place.stint) {
            stint.end();
        }
    }

    fn leave_all(&mut self, now: Time) {
        let seats: Vec<Seat> = self.host.seats().map(|(seat, _)| seat).collect();
        for seat in seats {
            // It does not believe that it leads any more before anybody is told.
            self.forget(seat);
            self.host.leave(now, seat, &mut self.out);
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
