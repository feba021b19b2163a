//! Whom a detector watches, and until when each may be silent.

use super::Timer;
use crate::{Context, Effects, NodeId, Process, Span, Time, View};

/// The peers of a detector. One timer, for the first deadline, serves all of them.
///
/// Deadlines are moments of the process's own clock: silence is judged by them, and a relative
/// deadline would have to be counted down for all peers at every input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peers<T> {
    /// By id.
    members: Vec<Peer<T>>,
    /// When the timer runs out; never, if nobody can become overdue.
    next: Time,
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
        Peers { members: Vec::new(), next: Time::MAX }
    }
}

impl<T: Clone> Peers<T> {
    /// Watches everybody in the view: those it did not watch before are given this long.
    pub(super) fn watch<P: Process<Timer = Timer>>(
        &mut self,
        cx: &mut Context<'_, impl Effects<P>>,
        record: &T,
        allowance: Span,
    ) {
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

    /// A peer has shown that it lives, and may be silent for this long now.
    pub(super) fn hear<P: Process<Timer = Timer>>(
        &mut self,
        cx: &mut Context<'_, impl Effects<P>>,
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

    /// Suspects whoever is overdue; but if the timer itself comes late, this process was held up or its
    /// clock has jumped, and what the others have sent meanwhile may be about to be heard.
    pub(super) fn judge<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, impl Effects<P>>) {
        let (now, grace) = (cx.now(), cx.delay_bound());
        let late = now.since(self.next);
        if late > grace {
            self.members.iter_mut().for_each(|peer| peer.deadline = peer.deadline + late + grace);
            return self.arm(cx);
        }
        for peer in &mut self.members {
            if !peer.suspected && peer.deadline <= now {
                peer.suspected = true;
                cx.suspect(peer.id);
            }
        }
        self.arm(cx);
    }

    /// Sets the timer for the first deadline that is to come.
    fn arm<P: Process<Timer = Timer>>(&mut self, cx: &mut Context<'_, impl Effects<P>>) {
        let deadlines = self.members.iter().filter(|peer| !peer.suspected).map(|peer| peer.deadline);
        self.next = deadlines.min().unwrap_or(Time::MAX);
        if self.next < Time::MAX {
            cx.set_timer(Timer::Overdue, self.next.since(cx.now()));
        }
    }
}
