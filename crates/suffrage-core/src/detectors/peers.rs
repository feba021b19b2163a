//! The monitored peers of a detector, and their deadlines.

use super::Timer;
use crate::{Context, NodeId, Process, Span, Time, View};

/// The monitored peers of a detector. One timer, for the first deadline, serves all peers.
///
/// Deadlines are absolute times of the process's own clock: relative deadlines would have to be counted down for all
/// peers at every input. If the process was paused, or its clock jumped, the first input afterwards shifts all
/// deadlines once ([`Peers::adjust_for_pause`]). Heartbeats from then on set correct deadlines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peers<T> {
    /// The peers, sorted by id.
    members: Vec<Peer<T>>,
    /// The expiry of the timer; [`Time::MAX`] if no peer can become overdue.
    next: Time,
    /// The time of the last input.
    last: Time,
}

/// A monitored peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer<T> {
    pub(super) id: NodeId,
    /// The time at which the peer becomes overdue.
    pub(super) deadline: Time,
    pub(super) suspected: bool,
    /// The detector's data about the peer.
    pub(super) record: T,
}

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Peers { members: Vec::new(), next: Time::MAX, last: Time::ZERO }
    }
}

impl<T: Clone> Peers<T> {
    /// Monitors all peers in the view. Peers that were not monitored before get this time-out.
    pub(super) fn monitor<P: Process<Timer = Timer>>(
        &mut self,
        cx: &mut Context<'_, P>,
        record: &T,
        timeout: Span,
    ) {
        self.adjust_for_pause(cx);
        let view: View<'_> = cx.view();
        self.members.retain(|peer| view.contains(peer.id));
        let known = self.members.len();
        let deadline = cx.now() + timeout;
        for id in view.peers() {
            if self.members[..known].binary_search_by_key(&id, |peer| peer.id).is_err() {
                self.members.push(Peer { id, deadline, suspected: false, record: record.clone() });
            }
        }
        self.members.sort_unstable_by_key(|peer| peer.id);
        self.arm_timer(cx);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer<T>> {
        self.members.iter()
    }

    /// The index of a peer. `guess` is the probable index.
    pub(super) fn index_of(&self, id: NodeId, guess: usize) -> Option<usize> {
        match self.members.get(guess) {
            Some(peer) if peer.id == id => Some(guess),
            _ => self.members.binary_search_by_key(&id, |peer| peer.id).ok(),
        }
    }

    pub(super) fn get(&self, index: usize) -> &Peer<T> {
        &self.members[index]
    }

    pub(super) fn record(&mut self, index: usize) -> &mut T {
        &mut self.members[index].record
    }

    pub(super) fn records(&mut self) -> impl Iterator<Item = &mut T> {
        self.members.iter_mut().map(|peer| &mut peer.record)
    }

    /// Shifts the deadlines if the time since the last input says nothing about the peers, and returns whether it
    /// did so. Runs at the beginning of every input but the timer's.
    ///
    /// There are two such cases. If the timer is overdue, this process was paused or its clock jumped ahead;
    /// messages that the peers have sent meanwhile may still be queued. If the time is before the last input, the
    /// clock went back. In both cases each deadline becomes as far away as it was at the last input.
    pub(super) fn adjust_for_pause<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, P>) -> bool {
        let (now, grace) = (cx.now(), cx.delay_bound());
        let last = std::mem::replace(&mut self.last, now);
        if now < last {
            self.shift_deadlines_earlier(last.since(now));
        } else if now.since(self.next) > grace {
            self.shift_deadlines_later(now.since(last) + grace);
        } else {
            return false;
        }
        self.arm_timer(cx);
        true
    }

    fn shift_deadlines_later(&mut self, by: Span) {
        self.members.iter_mut().for_each(|peer| peer.deadline = peer.deadline + by);
    }

    fn shift_deadlines_earlier(&mut self, by: Span) {
        let earlier = |time: Time| Time::ZERO + (time.since(Time::ZERO) - by);
        self.members.iter_mut().for_each(|peer| peer.deadline = earlier(peer.deadline));
    }

    /// Records a sign of life of a peer, whose deadline becomes `timeout` from now. Callers call
    /// [`Peers::adjust_for_pause`] first.
    pub(super) fn record_sign_of_life<P: Process<Timer = Timer>>(
        &mut self,
        cx: &mut Context<'_, P>,
        index: usize,
        timeout: Span,
    ) {
        let peer = &mut self.members[index];
        peer.deadline = cx.now() + timeout;
        // The expiry of the timer handles later deadlines; only an earlier deadline resets the timer.
        if peer.deadline < self.next {
            self.next = peer.deadline;
            cx.set_timer(Timer::Overdue, timeout);
        }
        if std::mem::take(&mut peer.suspected) {
            cx.restore(peer.id);
        }
    }

    /// Suspects the overdue peers. Returns whether the time since the last input says nothing about the peers, as
    /// [`Peers::adjust_for_pause`] does. Here the length of the pause is known: it began when the timer was due.
    pub(super) fn suspect_overdue<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, P>) -> bool {
        let (now, grace) = (cx.now(), cx.delay_bound());
        let last = std::mem::replace(&mut self.last, now);
        let late = now.since(self.next);
        if late > grace {
            self.shift_deadlines_later(late + grace);
            self.arm_timer(cx);
            return true;
        }
        let went_back = now < last;
        if went_back && self.next < Time::MAX {
            self.shift_deadlines_earlier(self.next.since(now));
            self.next = now;
        }
        for peer in &mut self.members {
            // Not `<= now`: if the timer is a little late, heartbeats of peers that were due since may still be queued.
            if !peer.suspected && peer.deadline <= self.next.min(now) {
                peer.suspected = true;
                cx.suspect(peer.id);
            }
        }
        self.arm_timer(cx);
        went_back
    }

    /// Sets the timer for the first deadline in the future, or cancels the timer if there is none.
    fn arm_timer<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, P>) {
        let deadlines = self.members.iter().filter(|peer| !peer.suspected).map(|peer| peer.deadline);
        self.next = deadlines.min().unwrap_or(Time::MAX);
        match self.next {
            Time::MAX => cx.cancel_timer(Timer::Overdue),
            next => cx.set_timer(Timer::Overdue, next.since(cx.now())),
        }
    }
}
