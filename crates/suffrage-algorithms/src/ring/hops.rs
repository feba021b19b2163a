//! Delivery of a message to the next live process of the ring.
//!
//! "Processes are able to skip faulty systems: instead of sending to process j, send to j + 1. Faulty systems are
//! those that don't respond in a fixed amount of time" (unimore). A message goes to the first successor that the
//! failure detector does not suspect. If hops are acknowledged, a successor that does not answer in time is skipped,
//! for this message only, and the next one is tried.

use super::{Message, Ring, Timer, Token};
use crate::LeaderBelief;
use suffrage_core::{Context, NodeId, Time, View};

/// The messages that this process has sent and whose arrival is not certain yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hops<T> {
    /// The time to wait for an acknowledgement, in message delays; `None` if hops are not acknowledged.
    timeout: Option<u64>,
    /// The number of hops so far.
    count: u32,
    /// The addressee of the latest message.
    latest: Option<NodeId>,
    outstanding: Vec<Outstanding<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Outstanding<T> {
    to: NodeId,
    deadline: Time,
    message: Message<T>,
}

/// The first unsuspected process after this one on the ring.
#[inline(always)]
pub(super) fn successor(view: View<'_>, belief: &LeaderBelief) -> Option<NodeId> {
    let mut ahead = view.successors();
    let next = ahead.next()?;
    if belief.is_suspected(next) { ahead.find(|&peer| !belief.is_suspected(peer)) } else { Some(next) }
}

/// The first unsuspected process before this one on the ring.
pub(super) fn predecessor(view: View<'_>, belief: &LeaderBelief) -> Option<NodeId> {
    view.successors().filter(|&peer| !belief.is_suspected(peer)).last()
}

impl<T: Token> Hops<T> {
    pub(super) fn new(timeout: Option<u64>) -> Hops<T> {
        Hops { timeout, count: 0, latest: None, outstanding: Vec::new() }
    }

    /// The maximum time of a circulation, in message delays: at most one hop for each member, and the longest hop is
    /// the time-out for a dead one.
    pub(super) fn max_circulation(&self, view: View<'_>) -> u64 {
        self.timeout.unwrap_or(1) * view.group_len() as u64
    }

    /// The addressee of the latest message.
    pub(super) fn latest(&self) -> Option<NodeId> {
        self.latest
    }

    /// Sends a message to the next live process, or to this one if it is alone.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        cx: &mut Context<'_, Ring<T>>,
        belief: &LeaderBelief,
        mut message: Message<T>,
    ) {
        let to = successor(cx.view(), belief);
        if let (Some(to), None) = (to, self.timeout) {
            self.latest = Some(to);
            return cx.send(to, message);
        }
        let earliest = self.earliest();
        self.count = self.count.wrapping_add(1).max(1);
        message.set_hop(self.count);
        self.attempt(cx, to, message);
        self.reschedule(cx, earliest);
    }

    /// Handles the acknowledgement of a hop.
    pub(super) fn on_ack(&mut self, cx: &mut Context<'_, Ring<T>>, from: NodeId, hop: u32) {
        let earliest = self.earliest();
        self.outstanding.retain(|entry| entry.to != from || entry.message.hop() != Some(hop));
        self.reschedule(cx, earliest);
    }

    /// Handles overdue acknowledgements: tries the next process. Returns the messages that have come round to this
    /// process because no other process answered.
    pub(super) fn on_timer(
        &mut self,
        cx: &mut Context<'_, Ring<T>>,
        belief: &LeaderBelief,
    ) -> Vec<Message<T>> {
        let (now, me) = (cx.now(), cx.me());
        let due = self.outstanding.extract_if(.., |entry| entry.deadline <= now).collect::<Vec<_>>();
        let (arrived, overdue): (Vec<_>, Vec<_>) = due.into_iter().partition(|entry| entry.to == me);
        self.try_next(cx, belief, overdue);
        self.reschedule(cx, None);
        arrived.into_iter().map(|entry| entry.message).collect()
    }

    /// Sends outstanding messages of a suspected peer to the next process at once.
    pub(super) fn on_suspect(&mut self, cx: &mut Context<'_, Ring<T>>, belief: &LeaderBelief, peer: NodeId) {
        let earliest = self.earliest();
        let undelivered = self.outstanding.extract_if(.., |entry| entry.to == peer).collect();
        self.try_next(cx, belief, undelivered);
        self.reschedule(cx, earliest);
    }

    fn try_next(
        &mut self,
        cx: &mut Context<'_, Ring<T>>,
        belief: &LeaderBelief,
        failed: Vec<Outstanding<T>>,
    ) {
        let view = cx.view();
        for Outstanding { to: silent, message, .. } in failed {
            let beyond = |&peer: &NodeId| view.distance(peer) > view.distance(silent);
            let to = view.successors().filter(beyond).find(|&peer| !belief.is_suspected(peer));
            self.attempt(cx, to, message);
        }
    }

    /// Sends a message and starts the wait for its acknowledgement. A message of the process to itself takes a
    /// message delay like any other, so that a message that circulates without end cannot keep a single process busy
    /// for ever.
    fn attempt(&mut self, cx: &mut Context<'_, Ring<T>>, to: Option<NodeId>, message: Message<T>) {
        self.latest = to;
        let wait = match to {
            Some(to) => {
                cx.send(to, message.clone());
                self.timeout.unwrap_or(1)
            }
            None => 1,
        };
        let deadline = cx.now() + cx.delay_bound() * wait;
        self.outstanding.push(Outstanding { to: to.unwrap_or(cx.me()), deadline, message });
    }

    fn earliest(&self) -> Option<Time> {
        self.outstanding.iter().map(|entry| entry.deadline).min()
    }

    fn reschedule(&self, cx: &mut Context<'_, Ring<T>>, before: Option<Time>) {
        match self.earliest() {
            now if now == before => {}
            Some(deadline) => cx.set_timer(Timer::Hop, deadline.since(cx.now())),
            None => cx.cancel_timer(Timer::Hop),
        }
    }
}
