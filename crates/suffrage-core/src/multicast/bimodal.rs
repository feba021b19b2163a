//! Bimodal multicast: an unreliable broadcast, repaired by gossip.
//!
//! Source: Birman, Hayden, Ozkasap, Xiao, Budiu and Minsky, "Bimodal multicast", 1999.
//!
//! ```text
//!   p ── Data ──▶ everybody, each reached or missed on its own
//!   then each round, at whoever has it:
//!   q ── Digest [p's message] ──▶ `fanout` random members
//!                r ── Solicit [p's message] ──▶ q        r missed it
//!   q ── Retransmission ──▶ r
//! ```
//!
//! Model: messages may be lost, doubled and overtaken; processes may crash, the sender too.
//!
//! Cost: the broadcast; then up to `fanout` digests per process and round, and two messages for each
//! process that the broadcast missed. A message is gossiped about for `rounds` rounds of
//! [`PERIOD`] delay bounds, counted from the broadcast, and then forgotten; when nothing is left to
//! gossip about, all is quiet.
//!
//! Promise: almost everybody or almost nobody gets the message, and hardly ever anything in between
//! (the two modes of the name); the more rounds and fan-out, the likelier everybody. What is delivered
//! is delivered once between a process's start and its crash, as a message from its first sender. No order
//! is promised.
//!
//! Readings, where the paper is silent:
//! - A message's age travels with it, so that the whole group gives it up at about the same time
//!   (the round numbers of section 5). Its name is remembered as long again. Then it is only remembered that
//!   the sender has come so far: no copy is too late to be known for one. What the sender had multicast before
//!   that and this process never got is given up with it, if it should still come: it is older.
//!   That takes a number for each start of each sender, for good.
//! - What was asked for is not asked for again in the same round.
//! - A message is named by its sender, a random number drawn at the sender's start, and a count: names
//!   do not repeat after a crash, which nothing survives here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::layers::{Concatenation, Lists};
use crate::macros::forward_effects;
use crate::{Context, Effects, Kind, NodeId, Process, Rng, Span, Start, View};

/// How long a round is, in delay bounds: digest, solicitation and retransmission fit in.
pub const PERIOD: u64 = 4;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How many members a digest goes to, each round.
    pub fanout: u32,
    /// For how many rounds a message is gossiped about.
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

/// The name of a multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id {
    /// Who multicast it.
    pub sender: NodeId,
    /// Drawn at the sender's start.
    pub boot: u64,
    /// How many it had multicast since.
    pub number: u64,
}

/// What processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<M> {
    /// The algorithm's, to one addressee; or to all, where there is no bimodal multicast.
    Plain(M),
    /// The algorithm's, to all.
    Data {
        /// Its name.
        id: Id,
        /// All of it.
        message: M,
    },
    /// What the sender has.
    Digest(Vec<Id>),
    /// What the sender misses.
    Solicit(Vec<Id>),
    /// What the addressee had missed.
    Retransmission {
        /// Its name.
        id: Id,
        /// How many rounds ago it was multicast.
        age: u32,
        /// All of it.
        message: M,
    },
}

impl<M: crate::Message> Lists for Message<M> {
    const FIRST: &'static [Kind] = M::KINDS;
    const SECOND: &'static [Kind] =
        &[Kind::apart("Digest"), Kind::apart("Solicit"), Kind::apart("Retransmission")];
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

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer<T> {
    /// The next round of gossip.
    Round,
    /// Of the algorithm.
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

/// An algorithm whose multicasts are repaired by gossip.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bimodal<A: Process> {
    options: Option<Options>,
    buffer: Buffer<A::Message>,
    algorithm: A,
}

/// What has been multicast lately.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Buffer<M> {
    record: Record,
    /// What is gossiped about, by name. A list and not a map, which would be compiled for every algorithm.
    messages: Vec<(Id, M)>,
}

/// What is known about multicasts but for what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    boot: u64,
    sent: u64,
    /// The age of each multicast that has come, in rounds.
    ages: BTreeMap<Id, u32>,
    /// By sender and its start, the number below which everything has been forgotten.
    forgotten: BTreeMap<(NodeId, u64), u64>,
    /// What has been asked for in this round.
    wanted: BTreeSet<Id>,
    /// Whether the timer runs.
    gossiping: bool,
}

impl Record {
    /// Names a new multicast.
    fn name(&mut self, sender: NodeId) -> Id {
        let id = Id { sender, boot: self.boot, number: self.sent };
        self.sent += 1;
        id
    }

    /// Everything is a round older; what is still to be gossiped about.
    fn grow_older(&mut self, rounds: u32) -> Vec<Id> {
        self.wanted.clear();
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

    fn misses(&self, id: &Id) -> bool {
        let given_up = self.forgotten.get(&(id.sender, id.boot)).is_some_and(|below| id.number < *below);
        !given_up && !self.ages.contains_key(id)
    }

    /// Those of the multicasts in a digest that are to be asked for.
    fn missed(&mut self, ids: Vec<Id>, view: View<'_>) -> Vec<Id> {
        let news = |id: &Id| is_others(view, id) && self.misses(id) && !self.wanted.contains(id);
        let missed: Vec<Id> = ids.into_iter().filter(news).collect();
        self.wanted.extend(&missed);
        missed
    }
}

impl<M> Buffer<M> {
    /// Keeps a copy of a multicast that is new.
    fn keep(&mut self, id: Id, age: u32, message: M) {
        self.record.ages.insert(id, age);
        let place = self.messages.partition_point(|(other, _)| *other < id);
        self.messages.insert(place, (id, message));
    }

    /// A multicast that is gossiped about, and its age.
    fn held(&self, id: Id) -> Option<(u32, &M)> {
        let place = self.messages.binary_search_by_key(&id, |(other, _)| *other).ok()?;
        Some((*self.record.ages.get(&id)?, &self.messages[place].1))
    }
}

/// What the algorithm does, with its multicasts kept.
struct Inside<'a, A: Process> {
    buffer: &'a mut Buffer<A::Message>,
    /// How long a round is; none if there is no gossip.
    round: Option<Span>,
    me: NodeId,
    outer: &'a mut (dyn Effects<Bimodal<A>> + 'a),
}

impl<A: Process> Effects<A> for Inside<'_, A> {
    fn send(&mut self, to: NodeId, message: A::Message) {
        self.outer.send(to, Message::Plain(message));
    }
    fn multicast(&mut self, message: A::Message) {
        let Some(round) = self.round else { return self.outer.multicast(Message::Plain(message)) };
        let id = self.buffer.record.name(self.me);
        self.buffer.keep(id, 0, message.clone());
        self.outer.multicast(Message::Data { id, message });
        if !std::mem::replace(&mut self.buffer.record.gossiping, true) {
            self.outer.set_timer(Timer::Round, round);
        }
    }
    fn set_timer(&mut self, timer: A::Timer, after: Span) {
        self.outer.set_timer(Timer::Algorithm(timer), after);
    }
    fn cancel_timer(&mut self, timer: A::Timer) {
        self.outer.cancel_timer(Timer::Algorithm(timer));
    }
    fn save(&mut self, state: A::Saved) {
        self.outer.save(state);
    }
    forward_effects!(outer: rng, announce, lead_until, announce_in, lead_until_in, suspect, restore);
}

impl<A: Process> Bimodal<A> {
    /// The algorithm over this multicast; over the world's own, if there are no options.
    pub fn new(options: Option<Options>, algorithm: A) -> Self {
        let buffer = Buffer { record: Record::default(), messages: Vec::new() };
        Bimodal { options, buffer, algorithm }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// Hands an input to the algorithm.
    fn inner(&mut self, cx: &mut Context<'_, Self>, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let (now, view, bound, me) = (cx.now(), cx.view(), cx.delay_bound(), cx.me());
        let round = self.options.map(|_| bound * PERIOD);
        let mut effects = Inside { buffer: &mut self.buffer, round, me, outer: cx.effects() };
        input(&mut self.algorithm, &mut Context::new(now, view, bound, &mut effects));
    }

    fn keep_gossiping(&mut self, cx: &mut Context<'_, Self>) {
        if !std::mem::replace(&mut self.buffer.record.gossiping, true) {
            cx.set_timer(Timer::Round, cx.delay_bound() * PERIOD);
        }
    }

    /// A multicast has come, directly or not. Who sees it for the first time delivers it.
    fn on_data(&mut self, cx: &mut Context<'_, Self>, id: Id, age: u32, message: A::Message) {
        let Some(options) = self.options else { return };
        if age > options.rounds || !is_others(cx.view(), &id) || !self.buffer.record.misses(&id) {
            return;
        }
        self.buffer.keep(id, age, message.clone());
        self.keep_gossiping(cx);
        self.inner(cx, |part, cx| part.on_message(cx, id.sender, message));
    }

    fn on_digest(&mut self, cx: &mut Context<'_, Self>, from: NodeId, ids: Vec<Id>) {
        let missed = self.buffer.record.missed(ids, cx.view());
        if !missed.is_empty() {
            self.keep_gossiping(cx);
            cx.send(from, Message::Solicit(missed));
        }
    }

    fn on_solicit(&mut self, cx: &mut Context<'_, Self>, from: NodeId, ids: Vec<Id>) {
        for id in ids {
            if let Some((age, message)) = self.buffer.held(id) {
                cx.send(from, Message::Retransmission { id, age, message: message.clone() });
            }
        }
    }

    fn on_round(&mut self, cx: &mut Context<'_, Self>) {
        let Some(Options { fanout, rounds }) = self.options else { return };
        let digest = self.buffer.record.grow_older(rounds);
        self.buffer.messages.retain(|(id, _)| digest.binary_search(id).is_ok());
        if !digest.is_empty() {
            for peer in random_peers(cx.view(), cx.rng(), fanout as usize) {
                cx.send(peer, Message::Digest(digest.clone()));
            }
        }
        self.buffer.record.gossiping = !self.buffer.record.ages.is_empty();
        if self.buffer.record.gossiping {
            cx.set_timer(Timer::Round, cx.delay_bound() * PERIOD);
        }
    }
}

/// Whether a multicast is of another member: what a process sent itself, perhaps before it crashed, is
/// no news to it.
fn is_others(view: View<'_>, id: &Id) -> bool {
    id.sender != view.me() && view.is_member(id.sender)
}

/// Some peers, each at most once.
fn random_peers(view: View<'_>, rng: &mut Rng, count: usize) -> Vec<NodeId> {
    if count + 1 >= view.len() {
        return view.peers().collect();
    }
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let peer = view.random_peer(rng).expect("there are more peers than are wanted");
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
            self.buffer.record.boot = cx.rng().bits();
        }
        self.inner(cx, |part, cx| part.on_start(cx, start));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message) {
        match message {
            Message::Plain(message) => self.inner(cx, |part, cx| part.on_message(cx, from, message)),
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
            Timer::Algorithm(timer) => self.inner(cx, |part, cx| part.on_timer(cx, timer)),
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.inner(cx, |part, cx| part.on_suspect(cx, peer));
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.inner(cx, |part, cx| part.on_restore(cx, peer));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.inner(cx, |part, cx| part.on_view_change(cx));
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: A::Command) {
        self.inner(cx, |part, cx| part.on_command(cx, command));
    }
}

#[cfg(test)]
mod tests;
