//! Bimodal multicast: an unreliable broadcast, repaired by gossip.
//!
//! Source: Birman, Hayden, Ozkasap, Xiao, Budiu and Minsky, "Bimodal multicast", 1999.
//!
//! ```text
//!   p ── Data ──▶ all members, each copy delivered or lost independently
//!   then each round, at every process that has the message:
//!   q ── Digest [p's message] ──▶ `fanout` random members
//!                r ── Solicit [p's message] ──▶ q        r missed it
//!   q ── Retransmission ──▶ r
//! ```
//!
//! Model: messages may be lost, duplicated and reordered; processes may crash, the sender too.
//!
//! Cost: the broadcast; then up to `fanout` digests per process and round, and two messages for each process that
//! the broadcast missed. A message is gossiped for `rounds` rounds of [`PERIOD`] delay bounds, counted from the
//! broadcast, and then dropped. When a process has no message left to gossip, it sends nothing.
//!
//! Promise: almost all members or almost none get the message, and hardly ever a number in between (the two modes of
//! the name). More rounds and more fan-out make delivery to all members likelier. A message is delivered once
//! between a process's start and its crash, as a message from its first sender. No order is promised.
//!
//! Interpretations, where the paper leaves the behaviour open:
//! - A message carries its age, so that the whole group drops it at about the same time (the round numbers of
//!   section 5). Its id is kept for as long again. After that only the highest id of each sender's start is kept,
//!   for good: later duplicates are still recognised. An older message of that sender that this process never got is
//!   also dropped if it arrives later.
//! - A message is solicited at most once per round.
//! - A message id consists of the sender, a random number drawn at the sender's start, and a count. Ids do not
//!   repeat after a crash, although this layer has no persistent state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::forward_effects;
use crate::layers::{Concatenation, KindLists};
use crate::{Context, Effects, Kind, NodeId, Process, Rng, Span, Start, View};

/// The length of a round in delay bounds: digest, solicitation and retransmission fit into it.
pub const PERIOD: u64 = 4;

/// The options of the bimodal multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The number of members that get a digest, each round.
    pub fanout: u32,
    /// The number of rounds for which a message is gossiped.
    pub rounds: u32,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.fanout, self.rounds)
    }
}

impl FromStr for Options {
    type Err = String;

    fn from_str(text: &str) -> Result<Options, String> {
        let number = |text: &str, most: u32| text.parse().ok().filter(|number| (1..=most).contains(number));
        let pair = text.split_once(',').and_then(|(fanout, rounds)| {
            Some(Options { fanout: number(fanout, 10_000)?, rounds: number(rounds, 10_000)? })
        });
        pair.ok_or_else(|| {
            format!("`{text}` is not a fan-out and a number of rounds, each from 1 to 10000, like 2,5")
        })
    }
}

/// The id of a multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id {
    /// The sender.
    pub sender: NodeId,
    /// The random number drawn at the sender's start.
    pub boot: u64,
    /// The number of the sender's multicasts since its start, before this one.
    pub number: u64,
}

/// The messages of the layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<M> {
    /// A message of the algorithm to one addressee; or to all members, if the layer is switched off.
    Plain(M),
    /// A multicast of the algorithm.
    Data {
        /// The id of the multicast.
        id: Id,
        /// The message of the algorithm.
        message: M,
    },
    /// The ids of the messages that the sender holds.
    Digest(Vec<Id>),
    /// The ids of the messages that the sender misses.
    Solicit(Vec<Id>),
    /// A message that the addressee has solicited.
    Retransmission {
        /// The id of the multicast.
        id: Id,
        /// The number of rounds since the multicast.
        age: u32,
        /// The message of the algorithm.
        message: M,
    },
}

impl<M: crate::Message> KindLists for Message<M> {
    const FIRST: &'static [Kind] = M::KINDS;
    const SECOND: &'static [Kind] =
        &[Kind::uncounted("Digest"), Kind::uncounted("Solicit"), Kind::uncounted("Retransmission")];
}

impl<M: crate::Message> crate::Message for Message<M> {
    const KINDS: &'static [Kind] = Concatenation::<Self>::KINDS;

    fn kind(&self) -> usize {
        match self {
            Message::Plain(message) | Message::Data { message, .. } => message.kind(),
            Message::Digest(_) => M::KINDS.len(),
            Message::Solicit(_) => M::KINDS.len() + 1,
            Message::Retransmission { .. } => M::KINDS.len() + 2,
        }
    }
}

/// The timers of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer<T> {
    /// The next round of gossip is due.
    Round,
    /// A timer of the algorithm.
    Algorithm(T),
}

impl<T: crate::Timer> crate::Timer for Timer<T> {
    const COUNT: usize = 1 + T::COUNT;

    fn index(self) -> usize {
        match self {
            Timer::Round => 0,
            Timer::Algorithm(timer) => 1 + timer.index(),
        }
    }
}

/// An algorithm with a multicast that gossip repairs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bimodal<A: Process> {
    options: Option<Options>,
    buffer: Buffer<A::Message>,
    algorithm: A,
}

/// The recent multicasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Buffer<M> {
    history: History,
    /// The messages that are still gossiped, sorted by id. A sorted list compiles faster than a map, and this type is
    /// compiled for every algorithm.
    messages: Vec<(Id, M)>,
}

/// The ids and ages of multicasts, without their contents: not generic, so compiled once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct History {
    boot: u64,
    sent: u64,
    /// The age of each known multicast, in rounds.
    ages: BTreeMap<Id, u32>,
    /// The number below which all ids are forgotten, by sender and boot.
    forgotten: BTreeMap<(NodeId, u64), u64>,
    /// The ids that were solicited in this round.
    solicited: BTreeSet<Id>,
    /// True if the timer of the rounds is pending.
    gossiping: bool,
}

impl History {
    /// Assigns an id to a new multicast.
    fn next_id(&mut self, sender: NodeId) -> Id {
        let id = Id { sender, boot: self.boot, number: self.sent };
        self.sent += 1;
        id
    }

    /// Increases all ages by one round. Returns the ids that are still gossiped.
    fn advance_round(&mut self, rounds: u32) -> Vec<Id> {
        self.solicited.clear();
        self.ages.values_mut().for_each(|age| *age += 1);
        let forgotten = &mut self.forgotten;
        self.ages.retain(|id, age| {
            let keep = *age / 2 <= rounds;
            if !keep {
                let below = forgotten.entry((id.sender, id.boot)).or_default();
                *below = (*below).max(id.number.saturating_add(1));
            }
            keep
        });
        self.ages.iter().filter(|(_, age)| **age <= rounds).map(|(id, _)| *id).collect()
    }

    fn is_new(&self, id: &Id) -> bool {
        let dropped = self.forgotten.get(&(id.sender, id.boot)).is_some_and(|below| id.number < *below);
        !dropped && !self.ages.contains_key(id)
    }

    /// Returns the ids of a digest that are new and not solicited in this round, and marks them as solicited.
    fn solicit(&mut self, ids: Vec<Id>, view: View<'_>) -> Vec<Id> {
        let news = |id: &Id| is_from_peer(view, id) && self.is_new(id) && !self.solicited.contains(id);
        let missed: Vec<Id> = ids.into_iter().filter(news).collect();
        self.solicited.extend(&missed);
        missed
    }
}

impl<M> Buffer<M> {
    /// Stores a new multicast.
    fn store(&mut self, id: Id, age: u32, message: M) {
        self.history.ages.insert(id, age);
        let position = self.messages.partition_point(|(other, _)| *other < id);
        self.messages.insert(position, (id, message));
    }

    /// Returns the age and the message of a multicast that is still gossiped.
    fn get(&self, id: Id) -> Option<(u32, &M)> {
        let position = self.messages.binary_search_by_key(&id, |(other, _)| *other).ok()?;
        Some((*self.history.ages.get(&id)?, &self.messages[position].1))
    }
}

/// Maps effects of the algorithm to effects of the layer, and buffers multicasts.
struct AlgorithmEffects<'a, A: Process> {
    buffer: &'a mut Buffer<A::Message>,
    /// The length of a round; `None` if the layer is switched off.
    round: Option<Span>,
    me: NodeId,
    outer: &'a mut (dyn Effects<Bimodal<A>> + 'a),
}

impl<A: Process> Effects<A> for AlgorithmEffects<'_, A> {
    fn send(&mut self, to: NodeId, message: A::Message) {
        self.outer.send(to, Message::Plain(message));
    }
    fn multicast(&mut self, message: A::Message) {
        let Some(round) = self.round else { return self.outer.multicast(Message::Plain(message)) };
        let id = self.buffer.history.next_id(self.me);
        self.buffer.store(id, 0, message.clone());
        self.outer.multicast(Message::Data { id, message });
        if !std::mem::replace(&mut self.buffer.history.gossiping, true) {
            self.outer.set_timer(Timer::Round, round);
        }
    }
    fn set_timer(&mut self, timer: A::Timer, after: Span) {
        self.outer.set_timer(Timer::Algorithm(timer), after);
    }
    fn cancel_timer(&mut self, timer: A::Timer) {
        self.outer.cancel_timer(Timer::Algorithm(timer));
    }
    forward_effects!(outer: rng, save(A::Saved), suspect, restore);
    forward_effects!(outer: announce, lead_until, announce_in, lead_until_in);
}

impl<A: Process> Bimodal<A> {
    /// The algorithm with this multicast. Without options, the algorithm uses the multicast of the driver.
    pub fn new(options: Option<Options>, algorithm: A) -> Self {
        let buffer = Buffer { history: History::default(), messages: Vec::new() };
        Bimodal { options, buffer, algorithm }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// Passes an input to the algorithm.
    fn run_algorithm(&mut self, cx: &mut Context<'_, Self>, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let (now, view, bound, me) = (cx.now(), cx.view(), cx.delay_bound(), cx.me());
        let round = self.options.map(|_| bound * PERIOD);
        let mut effects = AlgorithmEffects { buffer: &mut self.buffer, round, me, outer: cx.effects() };
        input(&mut self.algorithm, &mut Context::new(now, view, bound, &mut effects));
    }

    fn keep_gossiping(&mut self, cx: &mut Context<'_, Self>) {
        if !std::mem::replace(&mut self.buffer.history.gossiping, true) {
            cx.set_timer(Timer::Round, cx.delay_bound() * PERIOD);
        }
    }

    /// Handles a multicast, received directly or as a retransmission. The first copy is delivered to the algorithm.
    fn on_data(&mut self, cx: &mut Context<'_, Self>, id: Id, age: u32, message: A::Message) {
        let Some(options) = self.options else { return };
        if age > options.rounds || !is_from_peer(cx.view(), &id) || !self.buffer.history.is_new(&id) {
            return;
        }
        self.buffer.store(id, age, message.clone());
        self.keep_gossiping(cx);
        self.run_algorithm(cx, |algorithm, cx| algorithm.on_message(cx, id.sender, message));
    }

    fn on_digest(&mut self, cx: &mut Context<'_, Self>, from: NodeId, ids: Vec<Id>) {
        let missed = self.buffer.history.solicit(ids, cx.view());
        if !missed.is_empty() {
            self.keep_gossiping(cx);
            cx.send(from, Message::Solicit(missed));
        }
    }

    fn on_solicit(&mut self, cx: &mut Context<'_, Self>, from: NodeId, ids: Vec<Id>) {
        for id in ids {
            if let Some((age, message)) = self.buffer.get(id) {
                cx.send(from, Message::Retransmission { id, age, message: message.clone() });
            }
        }
    }

    fn on_round(&mut self, cx: &mut Context<'_, Self>) {
        let Some(Options { fanout, rounds }) = self.options else { return };
        let digest = self.buffer.history.advance_round(rounds);
        self.buffer.messages.retain(|(id, _)| digest.binary_search(id).is_ok());
        if !digest.is_empty() {
            for peer in random_peers(cx.view(), cx.rng(), fanout as usize) {
                cx.send(peer, Message::Digest(digest.clone()));
            }
        }
        self.buffer.history.gossiping = !self.buffer.history.ages.is_empty();
        if self.buffer.history.gossiping {
            cx.set_timer(Timer::Round, cx.delay_bound() * PERIOD);
        }
    }
}

/// Returns whether a multicast comes from another member. A process ignores its own multicasts, also those from
/// before a crash.
fn is_from_peer(view: View<'_>, id: &Id) -> bool {
    id.sender != view.me() && view.is_member(id.sender)
}

/// Chooses `count` distinct random peers, or all peers if there are fewer.
fn random_peers(view: View<'_>, rng: &mut Rng, count: usize) -> Vec<NodeId> {
    if count + 1 >= view.len() {
        return view.peers().collect();
    }
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let peer = view.random_peer(rng).expect("the view has more than `count` peers");
        if !chosen.contains(&peer) {
            chosen.push(peer);
        }
    }
    chosen
}

impl<A: Process> Process for Bimodal<A> {
    type Message = Message<A::Message>;
    type Timer = Timer<A::Timer>;
    type Saved = A::Saved;
    type Command = A::Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<A::Saved>) {
        if self.options.is_some() {
            self.buffer.history.boot = cx.rng().bits();
        }
        self.run_algorithm(cx, |algorithm, cx| algorithm.on_start(cx, start));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message) {
        match message {
            Message::Plain(message) => {
                self.run_algorithm(cx, |algorithm, cx| algorithm.on_message(cx, from, message))
            }
            Message::Data { id, message } if id.sender == from => self.on_data(cx, id, 0, message),
            Message::Data { .. } => {}
            Message::Digest(ids) => self.on_digest(cx, from, ids),
            Message::Solicit(ids) => self.on_solicit(cx, from, ids),
            Message::Retransmission { id, age, message } => self.on_data(cx, id, age, message),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Self::Timer) {
        match timer {
            Timer::Round => self.on_round(cx),
            Timer::Algorithm(timer) => self.run_algorithm(cx, |algorithm, cx| algorithm.on_timer(cx, timer)),
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.run_algorithm(cx, |algorithm, cx| algorithm.on_suspect(cx, peer));
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.run_algorithm(cx, |algorithm, cx| algorithm.on_restore(cx, peer));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.run_algorithm(cx, |algorithm, cx| algorithm.on_view_change(cx));
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: A::Command) {
        self.run_algorithm(cx, |algorithm, cx| algorithm.on_command(cx, command));
    }
}

#[cfg(test)]
mod tests;
