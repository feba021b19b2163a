//! How a message gets to the next live process of the ring.
//!
//! "Processes are able to skip faulty systems: instead of sending to process j, send to j + 1.
//! Faulty systems are those that don't respond in a fixed amount of time" (unimore). A message goes
//! to the first successor the failure detector does not suspect. If hops are acknowledged, one that
//! does not answer in time is passed by, for this message only, and the next one is tried.

use super::{Message, Ring, Timer, Token};
use crate::Outlook;
use suffrage_core::{Context, NodeId, Time, View};

/// The messages a process has sent on and whose arrival is not certain yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hops<T> {
    /// How long to wait for an acknowledgement, in message delays.
    timeout: Option<u64>,
    /// How many hops there have been.
    count: u32,
    /// To whom the latest message went.
    latest: Option<NodeId>,
    outstanding: Vec<Outstanding<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Outstanding<T> {
    to: NodeId,
    deadline: Time,
    message: Message<T>,
}

/// The first process ahead on the ring that is not suspected.
#[inline(always)]
pub(super) fn successor(view: View<'_>, outlook: &Outlook) -> Option<NodeId> {
    let mut ahead = view.successors();
    let next = ahead.next()?;
    if outlook.suspects(next) { ahead.find(|&peer| !outlook.suspects(peer)) } else { Some(next) }
}

/// The first process behind on the ring that is not suspected.
pub(super) fn predecessor(view: View<'_>, outlook: &Outlook) -> Option<NodeId> {
    view.successors().filter(|&peer| !outlook.suspects(peer)).last()
}

impl<T: Token> Hops<T> {
    pub(super) fn new(timeout: Option<u64>) -> Hops<T> {
        Hops { timeout, count: 0, latest: None, outstanding: Vec::new() }
    }

    /// The longest a message can take to go round, in message delays: a step at most for each
    /// member, and the longest is the wait for one that is dead.
    pub(super) fn trip(&self, view: View<'_>) -> u64 {
        self.timeout.unwrap_or(1) * view.group_len() as u64
    }

    /// To whom the latest message went.
    pub(super) fn latest(&self) -> Option<NodeId> {
        self.latest
    }

    /// Sends a message to the next live process, or to this one if it is alone.
    #[inline(always)]
    pub(super) fn pass(&mut self, cx: &mut Context<'_, Ring<T>>, outlook: &Outlook, mut message: Message<T>) {
        let to = successor(cx.view(), outlook);
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

    /// A hop was acknowledged.
    pub(super) fn on_ack(&mut self, cx: &mut Context<'_, Ring<T>>, from: NodeId, hop: u32) {
        let earliest = self.earliest();
        self.outstanding.retain(|entry| entry.to != from || entry.message.hop() != Some(hop));
        self.reschedule(cx, earliest);
    }

    /// An acknowledgement is overdue: tries the next process. Returns the messages that have come
    /// round to this process without finding another.
    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, Ring<T>>, outlook: &Outlook) -> Vec<Message<T>> {
        let (now, me) = (cx.now(), cx.me());
        let due = self.outstanding.extract_if(.., |entry| entry.deadline <= now).collect::<Vec<_>>();
        let (arrived, overdue): (Vec<_>, Vec<_>) = due.into_iter().partition(|entry| entry.to == me);
        self.try_next(cx, outlook, overdue);
        self.reschedule(cx, None);
        arrived.into_iter().map(|entry| entry.message).collect()
    }

    /// What was sent to a suspect goes to the next process at once.
    pub(super) fn on_suspect(&mut self, cx: &mut Context<'_, Ring<T>>, outlook: &Outlook, peer: NodeId) {
        let earliest = self.earliest();
        let stranded = self.outstanding.extract_if(.., |entry| entry.to == peer).collect();
        self.try_next(cx, outlook, stranded);
        self.reschedule(cx, earliest);
    }

    fn try_next(&mut self, cx: &mut Context<'_, Ring<T>>, outlook: &Outlook, failed: Vec<Outstanding<T>>) {
        let view = cx.view();
        for Outstanding { to: silent, message, .. } in failed {
            let beyond = |&peer: &NodeId| view.distance(peer) > view.distance(silent);
            let to = view.successors().filter(beyond).find(|&peer| !outlook.suspects(peer));
            self.attempt(cx, to, message);
        }
    }

    /// A message to oneself takes a message delay like any other, so that even a message that
    /// nothing stops cannot keep a lonely process busy for ever.
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
