//! What a process is: inputs in, effects out.

use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{NodeId, Rng, Span, Time, View};

/// An election algorithm (or a part of one, such as a failure detector) as a state machine.
///
/// Inputs are the `on_…` methods, one at a time; outputs are the effects caused through the
/// [`Context`]. A process does nothing on its own, keeps no clock and draws no randomness but the
/// context's, so its state is a value: cloned, compared and hashed by a model checker, packed by
/// the million in a simulator, moved between threads by a network driver.
///
/// The legal order: `on_start` once, then anything. A process that crashed comes back as a *new*
/// value whose `on_start` gets [`Start::Recovered`].
pub trait Process: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// What processes say to each other.
    type Message: Message;
    /// What a process can wait for.
    type Timer: Timer;
    /// What outlives a crash: the last value given to [`Context::save`]. `()` if nothing does.
    type Saved: Clone + fmt::Debug + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What an application asks of the process: a [`Command`] that every algorithm knows, or more. The text
    /// form is what scenarios and traces hold.
    type Command: From<Command>
        + FromStr<Err = String>
        + fmt::Display
        + Clone
        + fmt::Debug
        + Eq
        + Hash
        + Send
        + Sync
        + 'static;

    /// The process begins to exist, or exists again.
    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Self::Saved>);

    /// A message arrived. The sender is who it claims to be; the content may be anything.
    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message);

    /// A timer that was set, and neither set again nor cancelled since, ran out.
    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Self::Timer);

    /// The failure detector believes that `peer` has failed.
    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let _ = (cx, peer);
    }

    /// The failure detector no longer believes that `peer` has failed.
    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let _ = (cx, peer);
    }

    /// Somebody's rank changed, or somebody joined or left.
    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        let _ = cx;
    }

    /// The application asks for something.
    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Self::Command);
}

/// What a process may know and do while it handles one input.
///
/// Effects happen in the order they are caused, and a [`save`](Context::save) is durable before
/// anything after it happens.
///
/// The effects are a trait object: the handlers of an algorithm are ordinary functions, compiled once in the
/// crate of the algorithm, whoever drives it.
pub struct Context<'v, P: Process> {
    now: Time,
    me: NodeId,
    view: View<'v>,
    delay_bound: Span,
    effects: &'v mut (dyn Effects<P> + 'v),
}

impl<P: Process> fmt::Debug for Context<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { now, me, delay_bound, .. } = self;
        f.debug_struct("Context").field("now", now).field("me", me).field("delay_bound", delay_bound).finish()
    }
}

/// Carries out what a process does: a simulator, a network driver, a [`Recorder`](crate::Recorder).
/// Processes see it through their [`Context`], whose methods of the same names say what they mean.
pub trait Effects<P: Process> {
    /// See [`Context::rng`].
    fn rng(&mut self) -> &mut Rng;
    /// See [`Context::send`].
    fn send(&mut self, to: NodeId, message: P::Message);
    /// See [`Context::multicast`].
    fn multicast(&mut self, message: P::Message);
    /// See [`Context::set_timer`].
    fn set_timer(&mut self, timer: P::Timer, after: Span);
    /// See [`Context::cancel_timer`].
    fn cancel_timer(&mut self, timer: P::Timer);
    /// See [`Context::save`].
    fn save(&mut self, state: P::Saved);
    /// See [`Context::announce`].
    fn announce(&mut self, announcement: Announcement);
    /// See [`Context::lead_until`].
    fn lead_until(&mut self, end: Time);
    /// See [`Context::announce_in`]. Where there is but one election, others are not heard of.
    fn announce_in(&mut self, election: usize, announcement: Announcement) {
        if election == 0 {
            self.announce(announcement);
        }
    }
    /// See [`Context::lead_until_in`]. Where there is but one election, others are not heard of.
    fn lead_until_in(&mut self, election: usize, end: Time) {
        if election == 0 {
            self.lead_until(end);
        }
    }
    /// See [`Context::suspect`].
    fn suspect(&mut self, peer: NodeId);
    /// See [`Context::restore`].
    fn restore(&mut self, peer: NodeId);
}

impl<'v, P: Process> Context<'v, P> {
    /// The context of one input of the process that `view` belongs to.
    #[inline]
    pub fn new(now: Time, view: View<'v>, delay_bound: Span, effects: &'v mut (dyn Effects<P> + 'v)) -> Self {
        Context { now, me: view.me(), view, delay_bound, effects }
    }

    /// This process's own clock.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Who this process is.
    #[inline]
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// What it knows of the group. The view outlives the borrow of the context, so that one can send
    /// while iterating over it.
    #[inline]
    pub fn view(&self) -> View<'v> {
        self.view
    }

    /// The longest a message is expected to take (T in the sources). Time-outs are multiples of it,
    /// so that one algorithm fits a bus and a continent.
    #[inline]
    pub fn delay_bound(&self) -> Span {
        self.delay_bound
    }

    /// Whoever carries the effects out: for a process made of several, which hands its parts
    /// contexts of their own.
    pub fn effects(&mut self) -> &mut (dyn Effects<P> + '_) {
        self.effects
    }

    /// The process's source of chance.
    #[inline]
    pub fn rng(&mut self) -> &mut Rng {
        self.effects.rng()
    }

    /// Sends to one peer. May be lost, doubled or overtaken. A stranger is never reached.
    #[inline]
    pub fn send(&mut self, to: NodeId, message: P::Message) {
        self.effects.send(to, message);
    }

    /// Sends to everybody in the group but itself, known or not, each reached or missed on its own.
    #[inline]
    pub fn multicast(&mut self, message: P::Message) {
        self.effects.multicast(message);
    }

    /// Has `on_timer` called after a while by this process's clock. Replaces a pending timer of the
    /// same [`index`](Timer::index).
    #[inline]
    pub fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.effects.set_timer(timer, after);
    }

    /// Forgets the pending timer of the same [`index`](Timer::index), if there is one.
    #[inline]
    pub fn cancel_timer(&mut self, timer: P::Timer) {
        self.effects.cancel_timer(timer);
    }

    /// Replaces what outlives a crash.
    #[inline]
    pub fn save(&mut self, state: P::Saved) {
        self.effects.save(state);
    }

    /// Tells the world what this process now believes.
    #[inline]
    pub fn announce(&mut self, announcement: Announcement) {
        self.effects.announce(announcement);
    }

    /// For one that leads, or is about to announce it: after this moment of its own clock it no longer
    /// takes itself for the leader, whether it has got round to saying so or not. Stands until said anew,
    /// or until it announces that it does not lead.
    #[inline]
    pub fn lead_until(&mut self, end: Time) {
        self.effects.lead_until(end);
    }

    /// For one that takes part in several elections: what it now believes in one of them. They are counted
    /// from 0, which is the one that [`announce`](Context::announce) is about.
    #[inline]
    pub fn announce_in(&mut self, election: usize, announcement: Announcement) {
        self.effects.announce_in(election, announcement);
    }

    /// [`lead_until`](Context::lead_until), of one of several elections.
    #[inline]
    pub fn lead_until_in(&mut self, election: usize, end: Time) {
        self.effects.lead_until_in(election, end);
    }

    /// For a failure detector: tells whoever is behind it that `peer` seems to have failed.
    #[inline]
    pub fn suspect(&mut self, peer: NodeId) {
        self.effects.suspect(peer);
    }

    /// For a failure detector: tells whoever is behind it that `peer` is there after all.
    #[inline]
    pub fn restore(&mut self, peer: NodeId) {
        self.effects.restore(peer);
    }
}

/// What processes say to each other.
pub trait Message:
    Clone + fmt::Debug + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Every kind of message there is, for counting and drawing.
    const KINDS: &'static [Kind];

    /// Which of [`KINDS`](Self::KINDS) this is.
    fn kind(&self) -> usize;
}

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The source's name for it.
    pub name: &'static str,
    /// False for what the sources leave out of their counts, such as acknowledgements of a hop: it
    /// is counted apart.
    pub counted: bool,
}

impl Kind {
    /// A message of the protocol.
    pub const fn new(name: &'static str) -> Kind {
        Kind { name, counted: true }
    }

    /// A message that is counted apart.
    pub const fn apart(name: &'static str) -> Kind {
        Kind { name, counted: false }
    }
}

/// What a process can wait for. A process has at most one pending timer of each index.
pub trait Timer: Copy + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// How many indices there are.
    const COUNT: usize;

    /// Which timer this is, below [`COUNT`](Self::COUNT).
    fn index(self) -> usize;
}

/// What a process waits for that waits for nothing.
impl Timer for Infallible {
    const COUNT: usize = 0;

    fn index(self) -> usize {
        match self {}
    }
}

/// How a process comes to exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Start<S> {
    /// For the first time.
    Fresh,
    /// After a crash, with what it had saved, if it had and the disk survived.
    Recovered(Option<S>),
}

/// What the application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Command {
    /// Call an election: the leader seems to be gone, or there never was one.
    Campaign,
    /// Stop leading, if leading.
    Resign,
    /// Stop leading, if leading, in favour of this one.
    Transfer(NodeId),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Campaign => f.write_str("campaign"),
            Command::Resign => f.write_str("resign"),
            Command::Transfer(to) => write!(f, "transfer {to}"),
        }
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(text: &str) -> Result<Command, String> {
        let transfer = |to: &str| to.parse().ok().map(|to| Command::Transfer(NodeId(to)));
        match text {
            "campaign" => Some(Command::Campaign),
            "resign" => Some(Command::Resign),
            _ => text.strip_prefix("transfer ").and_then(transfer),
        }
        .ok_or_else(|| format!("`{text}` is not a command; it is campaign, resign or transfer ID"))
    }
}

/// Counts elections, as far as an algorithm does. Only where a contract says so may it be taken for an
/// epoch: a leader of the bully family that was away starts behind the terms it has missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

impl Term {
    /// The term after this one. There is none after the last, which only a forger can have sent.
    pub fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a process tells the world it believes. The latest one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Announcement {
    /// That one leads: itself or another.
    Elected {
        /// Who leads.
        leader: NodeId,
        /// In which term.
        term: Term,
    },
    /// It led, and does not any more; it knows of no other.
    SteppedDown,
    /// It knows of no leader.
    Undecided,
}

impl Announcement {
    /// The leader believed in, if any.
    pub fn leader(self) -> Option<NodeId> {
        match self {
            Announcement::Elected { leader, .. } => Some(leader),
            Announcement::SteppedDown | Announcement::Undecided => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_parse_as_they_print() {
        for command in [Command::Campaign, Command::Resign, Command::Transfer(NodeId(7))] {
            assert_eq!(command.to_string().parse(), Ok(command));
        }
        for text in ["", "Campaign", "transfer", "transfer x", "resign 3"] {
            assert!(text.parse::<Command>().unwrap_err().contains(text), "{text}");
        }
    }
}
