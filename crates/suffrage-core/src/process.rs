//! The trait of processes: inputs in, effects out.

use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{NodeId, Rng, Span, Time, View};

/// An election algorithm (or a part of one, such as a failure detector) as a state machine.
///
/// Inputs are the `on_…` methods, one at a time. Outputs are the effects caused through the [`Context`]. A process
/// does nothing on its own, keeps no clock and draws no randomness but the context's. Its state is therefore a
/// value: a model checker clones, compares and hashes it, a simulator packs a million of them, a network driver
/// moves it between threads.
///
/// The legal order: `on_start` once, then anything. A process that crashed comes back as a *new*
/// value whose `on_start` gets [`Start::Recovered`].
pub trait Process: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The messages between processes.
    type Message: Message;
    /// The timers of a process.
    type Timer: Timer;
    /// The persistent state: the last value given to [`Context::save`]. `()` if the process persists nothing.
    type Saved: Clone + fmt::Debug + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// A request of the application: a [`Command`], which every algorithm understands, or more. Scenarios and traces
    /// hold the text form.
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

    /// The process starts for the first time, or restarts after a crash.
    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Self::Saved>);

    /// A message arrived. The transport has authenticated the sender; the content may be anything.
    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message);

    /// A timer expired that was set, and neither reset nor cancelled since.
    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Self::Timer);

    /// The failure detector believes that `peer` has failed.
    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let _ = (cx, peer);
    }

    /// The failure detector no longer believes that `peer` has failed.
    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let _ = (cx, peer);
    }

    /// The rank of a member changed, or a member joined or left.
    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        let _ = cx;
    }

    /// This state, which the process gave to [`Context::begin_save`], is durable.
    fn on_saved(&mut self, cx: &mut Context<'_, Self>, state: Self::Saved) {
        let _ = (cx, state);
    }

    /// The application sends a command.
    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Self::Command);
}

/// The environment of a process while it handles one input: what it may read, and the effects it may cause.
///
/// Effects happen in the order in which they are caused. A [`save`](Context::save) is durable before any later
/// effect happens. A process that need not wait uses [`begin_save`](Context::begin_save).
///
/// The effects are a trait object. The handlers of an algorithm are therefore ordinary functions, compiled once in
/// the crate of the algorithm, for all drivers.
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

/// Executes the effects of a process: a simulator, a network driver, a [`Recorder`](crate::Recorder). Processes use
/// the methods of their [`Context`] of the same names, which document the effects.
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
    /// See [`Context::begin_save`]. The default saves at once.
    fn begin_save(&mut self, state: P::Saved) -> bool {
        self.save(state);
        true
    }
    /// See [`Context::announce`].
    fn announce(&mut self, announcement: Announcement);
    /// See [`Context::lead_until`].
    fn lead_until(&mut self, end: Time);
    /// See [`Context::announce_in`]. The default drops announcements about elections other than election 0.
    fn announce_in(&mut self, election: usize, announcement: Announcement) {
        if election == 0 {
            self.announce(announcement);
        }
    }
    /// See [`Context::lead_until_in`]. The default drops leases of elections other than election 0.
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
    /// A context for one input of the process that owns `view`.
    #[inline]
    pub fn new(now: Time, view: View<'v>, delay_bound: Span, effects: &'v mut (dyn Effects<P> + 'v)) -> Self {
        Context { now, me: view.me(), view, delay_bound, effects }
    }

    /// The time by this process's own clock.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The id of this process.
    #[inline]
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// The process's view of the group. The view outlives the borrow of the context, so that a process can send
    /// while it iterates over the view.
    #[inline]
    pub fn view(&self) -> View<'v> {
        self.view
    }

    /// The expected upper bound of the message delay (T in the sources). Time-outs are multiples of this bound, so
    /// that one algorithm fits a LAN and a WAN.
    #[inline]
    pub fn delay_bound(&self) -> Span {
        self.delay_bound
    }

    /// The executor of the effects. A process that is composed of several processes uses it to build their contexts.
    pub fn effects(&mut self) -> &mut (dyn Effects<P> + '_) {
        self.effects
    }

    /// The process's random number generator.
    #[inline]
    pub fn rng(&mut self) -> &mut Rng {
        self.effects.rng()
    }

    /// Sends a message to one peer. The network may lose, duplicate or reorder messages. A message to a non-member
    /// is never delivered.
    #[inline]
    pub fn send(&mut self, to: NodeId, message: P::Message) {
        self.effects.send(to, message);
    }

    /// Sends a message to all other members of the group, known or unknown. Each copy is delivered or lost
    /// independently.
    #[inline]
    pub fn multicast(&mut self, message: P::Message) {
        self.effects.multicast(message);
    }

    /// Sets a timer: `on_timer` is called once `after` has passed by this process's clock. Replaces a pending timer
    /// of the same [`index`](Timer::index).
    #[inline]
    pub fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.effects.set_timer(timer, after);
    }

    /// Cancels the pending timer of the same [`index`](Timer::index), if there is one.
    #[inline]
    pub fn cancel_timer(&mut self, timer: P::Timer) {
        self.effects.cancel_timer(timer);
    }

    /// Replaces the persistent state. A restarted process gets it back in [`Start::Recovered`].
    #[inline]
    pub fn save(&mut self, state: P::Saved) {
        self.effects.save(state);
    }

    /// Begins to replace the persistent state, and does not wait: later effects may happen before the state is durable.
    /// True if the state is durable already. If not, [`on_saved`](Process::on_saved) follows, unless the process crashes:
    /// then the disk has this state, or an earlier one. A state that is begun later replaces one that is not written yet,
    /// so `on_saved` may skip states.
    #[inline]
    pub fn begin_save(&mut self, state: P::Saved) -> bool {
        self.effects.begin_save(state)
    }

    /// Publishes this process's current belief about the leader.
    #[inline]
    pub fn announce(&mut self, announcement: Announcement) {
        self.effects.announce(announcement);
    }

    /// Sets the end of this process's leadership. The caller leads, or is about to announce that it leads. After
    /// `end` by its own clock this process is no longer the leader, even if it has not announced that yet. The end
    /// holds until the next call, or until the process announces that it does not lead.
    #[inline]
    pub fn lead_until(&mut self, end: Time) {
        self.effects.lead_until(end);
    }

    /// Publishes the belief about the leader of one of several elections. Elections are numbered from 0, which is
    /// the election of [`announce`](Context::announce).
    #[inline]
    pub fn announce_in(&mut self, election: usize, announcement: Announcement) {
        self.effects.announce_in(election, announcement);
    }

    /// Sets the end of leadership in one of several elections, as [`lead_until`](Context::lead_until) does.
    #[inline]
    pub fn lead_until_in(&mut self, election: usize, end: Time) {
        self.effects.lead_until_in(election, end);
    }

    /// Reports, as a failure detector, that `peer` seems to have failed.
    #[inline]
    pub fn suspect(&mut self, peer: NodeId) {
        self.effects.suspect(peer);
    }

    /// Reports, as a failure detector, that `peer` is alive after all.
    #[inline]
    pub fn restore(&mut self, peer: NodeId) {
        self.effects.restore(peer);
    }
}

/// A message between processes.
pub trait Message:
    Clone + fmt::Debug + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// All kinds of message, for counts and diagrams.
    const KINDS: &'static [Kind];

    /// The index of this message's kind in [`KINDS`](Self::KINDS).
    fn kind(&self) -> usize;
}

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name of the message in the source.
    pub name: &'static str,
    /// False for messages that the sources leave out of their counts, such as acknowledgements of a hop. These
    /// messages are counted separately.
    pub counted: bool,
}

impl Kind {
    /// A kind that the source counts as a message of the protocol.
    pub const fn new(name: &'static str) -> Kind {
        Kind { name, counted: true }
    }

    /// A kind that the source leaves out of its counts.
    pub const fn uncounted(name: &'static str) -> Kind {
        Kind { name, counted: false }
    }
}

/// A timer of a process. At most one timer of each index is pending.
pub trait Timer: Copy + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The number of indices.
    const COUNT: usize;

    /// The index of this timer, below [`COUNT`](Self::COUNT).
    fn index(self) -> usize;
}

/// The timer type of a process without timers.
impl Timer for Infallible {
    const COUNT: usize = 0;

    fn index(self) -> usize {
        match self {}
    }
}

/// The kind of a start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Start<S> {
    /// The first start.
    Fresh,
    /// A restart after a crash. The value is the persistent state; `None` if the process saved nothing or the disk
    /// is lost.
    Recovered(Option<S>),
}

/// A request of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Command {
    /// Call an election: the leader seems to have failed, or there is no leader yet.
    Campaign,
    /// Stop leading, if leading.
    Resign,
    /// Stop leading, if leading, and hand leadership over to this member.
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

/// A number of an election, where the algorithm counts elections. A term is an epoch only if the contract says so:
/// in the bully family, a leader that was away starts with a term behind the terms that it missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

impl Term {
    /// The next term. The last term has no successor; only a forged message can contain it.
    pub fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The published belief of a process about the leader. The latest announcement of a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Announcement {
    /// The process believes that this member leads, which may be the process itself.
    Elected {
        /// The leader.
        leader: NodeId,
        /// The term of the leader.
        term: Term,
    },
    /// The process led, no longer leads, and knows of no other leader.
    SteppedDown,
    /// The process knows of no leader.
    Undecided,
}

impl Announcement {
    /// The leader of the announcement, if there is one.
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
