//! Whom a detector watches, and until when each may be silent.

use super::Timer;
use crate::{Context, NodeId, Process, Span, Time, View};

/// The peers of a detector. One timer, for the first deadline, serves all of them.
///
/// Deadlines are moments of the process's own clock: silence is judged by them, and a relative
/// deadline would have to be counted down for all peers at every input. So they are moved along when the
/// process was held up or its clock has jumped, once, at the first input after it ([`Peers::settle`]): what
/// is heard from then on sets deadlines that are right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peers<T> {
    /// By id.
    members: Vec<Peer<T>>,
    /// When the timer runs out; never, if nobody can become overdue.
    next: Time,
    /// When the last input came.
    last: Time,
}

/// A peer that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer<T> {
    pub(super) id: NodeId,
    /// When it is overdue.
    pub(super) deadline: Time,
    pub(super) suspected: bool,
    /// What the detector knows of it.
    pub(super) record: T,
}

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Peers { members: Vec::new(), next: Time::MAX, last: Time::ZERO }
    }
}

impl<T: Clone> Peers<T> {
    /// Watches everybody in the view: those it did not watch before are given this long.
    pub(super) fn watch<P: Process<Timer = Timer>>(
        &mut self,
        cx: &mut Context<'_, P>,
        record: &T,
        allowance: Span,
    ) {
        self.settle(cx);
        let view: View<'_> = cx.view();
        self.members.retain(|peer| view.contains(peer.id));
        let known = self.members.len();
        let deadline = cx.now() + allowance;
        for id in view.peers() {
            if self.members[..known].binary_search_by_key(&id, |peer| peer.id).is_err() {
                self.members.push(Peer { id, deadline, suspected: false, record: record.clone() });
            }
        }
        self.members.sort_unstable_by_key(|peer| peer.id);
        self.arm(cx);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer<T>> {
        self.members.iter()
    }

    /// Where a peer stands, which is probably at `guess`.
    pub(super) fn place(&self, id: NodeId, guess: usize) -> Option<usize> {
        match self.members.get(guess) {
            Some(peer) if peer.id == id => Some(guess),
            _ => self.members.binary_search_by_key(&id, |peer| peer.id).ok(),
        }
    }

    pub(super) fn get(&self, place: usize) -> &Peer<T> {
        &self.members[place]
    }

    pub(super) fn record(&mut self, place: usize) -> &mut T {
        &mut self.members[place].record
    }

    pub(super) fn records(&mut self) -> impl Iterator<Item = &mut T> {
        self.members.iter_mut().map(|peer| &mut peer.record)
    }

    /// At the beginning of every input but the timer's: whether the time since the one before says nothing
    /// about the peers. Either the timer is overdue, and then this process was held up, or its clock has
    /// jumped ahead; what the others have sent meanwhile may be about to be heard. Or the clock has gone back.
    /// Deadlines are then as far away as they were at the input before.
    pub(super) fn settle<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, P>) -> bool {
        let (now, grace) = (cx.now(), cx.delay_bound());
        let last = std::mem::replace(&mut self.last, now);
        if now < last {
            self.bring_forward(last.since(now));
        } else if now.since(self.next) > grace {
            self.put_off(now.since(last) + grace);
        } else {
            return false;
        }
        self.arm(cx);
        true
    }

    fn put_off(&mut self, by: Span) {
        self.members.iter_mut().for_each(|peer| peer.deadline = peer.deadline + by);
    }

    fn bring_forward(&mut self, by: Span) {
        let earlier = |time: Time| Time::ZERO + (time.since(Time::ZERO) - by);
        self.members.iter_mut().for_each(|peer| peer.deadline = earlier(peer.deadline));
    }

    /// A peer has shown that it lives, and may be silent for this long now. After [`Peers::settle`].
    pub(super) fn hear<P: Process<Timer = Timer>>(
        &mut self,
        cx: &mut Context<'_, P>,
        place: usize,
        allowance: Span,
    ) {
        let peer = &mut self.members[place];
        peer.deadline = cx.now() + allowance;
        // A later deadline is met when the timer runs out; only an earlier one moves it.
        if peer.deadline < self.next {
            self.next = peer.deadline;
            cx.set_timer(Timer::Overdue, allowance);
        }
        if std::mem::take(&mut peer.suspected) {
            cx.restore(peer.id);
        }
    }

    /// Suspects whoever is overdue, and says whether the time since the last input says anything about the
    /// peers, as [`Peers::settle`] does. Here it is known how long that was: until the timer was due.
    pub(super) fn judge<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, P>) -> bool {
        let (now, grace) = (cx.now(), cx.delay_bound());
        let last = std::mem::replace(&mut self.last, now);
        let late = now.since(self.next);
        if late > grace {
            self.put_off(late + grace);
            self.arm(cx);
            return true;
        }
        let went_back = now < last;
        if went_back && self.next < Time::MAX {
            self.bring_forward(self.next.since(now));
            self.next = now;
        }
        for peer in &mut self.members {
            // Not `<= now`: if the timer comes a little late, who was due since may be about to be heard.
            if !peer.suspected && peer.deadline <= self.next.min(now) {
                peer.suspected = true;
                cx.suspect(peer.id);
            }
        }
        self.arm(cx);
        went_back
    }

    /// Sets the timer for the first deadline that is to come; if there is none, it does not run.
    fn arm<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, P>) {
        let deadlines = self.members.iter().filter(|peer| !peer.suspected).map(|peer| peer.deadline);
        self.next = deadlines.min().unwrap_or(Time::MAX);
        match self.next {
            Time::MAX => cx.cancel_timer(Timer::Overdue),
            next => cx.set_timer(Timer::Overdue, next.since(cx.now())),
        }
    }
}
