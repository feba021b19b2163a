//! The common part of the ring algorithms: everything but the handling of an `Election`.
//!
//! A ring algorithm is a [`Token`]: the content of its `Election` message, and the reaction of a process to it. A
//! [`Ring`] is the rest, which is the same for all ring algorithms: the delivery of messages to the next live
//! process (`ring/hops.rs`), the circulation of the outcome, and the handling of failures meanwhile.
//!
//! ```text
//!   3 ──Election──▶ 4 ──Election──▶ 5 ─ ─ ▶ …     a token circulates, and a process concludes
//!   3 ──Elected───▶ 4 ──Elected───▶ 5 ─ ─ ▶ 3     the outcome circulates, back to where it began
//!   4 ──Ack──▶ 3                                  every hop is acknowledged; not counted
//!   4 ──Outdated──▶ 3                             "a later election than that is over"
//! ```
//!
//! **Runs.** An election is identified by its term and its initiator, and the greater run wins. The slides
//! distinguish runs by the initiator alone and suppress lower ones "all the time": once 6 has called an election, no
//! process below 6 could ever complete one. Runs therefore have terms, and a new election has a term above all
//! observed terms. A process that has lost its memory calls an election of an old term. The first process that sees
//! the old term replies with `Outdated`, unless a greater run is in progress, which will reach all processes anyway.
//! The reply goes back one hop, to a process that is alive. That process awaits the run or has accepted its outcome,
//! and calls a new election.
//!
//! **Rounds.** A leader may circulate its outcome again, as the next *round* of the same run. A process passes every
//! round on once. That rule ends a round where it began, drops duplicates (an acknowledgement may be lost), and
//! keeps the announcement of a dead process from circulating.
//!
//! **Repairs.** An `Election` that waits for a dead process never ends (cs425, "Effect of Failures"). Both repairs
//! of the slides are implemented, see [`Repair`]. In both, a process knows which process has to conclude the run
//! that it has passed on.
//!
//! **Merging.** When a suspicion ends, a leader circulates its outcome again, and a process with a new neighbour
//! sends it the outcome that it believes in. The greatest known run therefore reaches every process when two rings
//! become one. A process that outranks its leader calls an election.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::hops::Hops;
use super::LeaderBelief;
use suffrage_core::{
    Algorithm, Command, Context, Contract, NodeId, Parameter, Process, Rank, Start, Term, View,
};

mod hops;
mod message;
mod options;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub use message::{Message, Outcome, Run, Timer};
pub use options::{Options, Repair};

/// A ring algorithm: the content of an `Election` message, and the reaction of a process to it.
pub trait Token:
    Clone + fmt::Debug + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The assumptions, promises and costs of the algorithm.
    const CONTRACT: Contract;
    /// The source's name of the message `Elected`.
    const OUTCOME: &'static str;
    /// The names of the repairs, in the order both, time-out, detector, none.
    const REPAIRS: &'static str;
    /// True if "each process suppresses Election/Elected messages of any lower-id initiators" (cs425, "Multiple
    /// Initiators?").
    const SUPPRESSES: bool;

    /// The token that an initiator sends.
    fn new(view: View<'_>) -> Self;

    /// The best process that the token has met, if the token tells.
    fn best(&self) -> Option<Rank>;

    /// Handles a token that is not outdated.
    fn arrive(self, ring: &mut Ring<Self>, cx: &mut Context<'_, Ring<Self>>, run: Run);
}

/// A run whose `Election` this process has passed on and whose outcome it awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    /// The run.
    pub run: Run,
    /// The process that has to conclude the run.
    pub concluder: NodeId,
    /// The best process in the token that was passed on.
    pub best: Option<Rank>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Awaiting(Awaited),
    /// The process has circulated an outcome that has not returned yet.
    Announcing,
}

/// A circulating message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Circulating {
    Election,
    Elected,
}

/// A process of a ring algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ring<T> {
    repair: Repair,
    reaffirm: Option<u64>,
    belief: LeaderBelief,
    hops: Hops<T>,
    phase: Phase,
    /// The highest observed term. The term of `belief` is that of the current leader.
    highest_term: Term,
    /// The outcome of the greatest run that this process knows to be over.
    concluded: Option<Outcome>,
    /// The lower runs of this term that this process has passed on: initiator and message.
    passed_lower_runs: BTreeSet<(NodeId, Circulating)>,
}

impl<T: Token> Algorithm for Ring<T> {
    const CONTRACT: Contract = T::CONTRACT;

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = Options::parameters::<T>();

    fn new(_: NodeId, options: &Options) -> Ring<T> {
        Ring {
            repair: options.repair,
            reaffirm: options.reaffirm,
            belief: LeaderBelief::default(),
            hops: Hops::new(options.hop_timeout),
            phase: Phase::Idle,
            highest_term: Term::default(),
            concluded: None,
            passed_lower_runs: BTreeSet::new(),
        }
    }
}

/// Operations for the handling of a token.
impl<T: Token> Ring<T> {
    /// The repair of runs after failures.
    pub fn repair(&self) -> Repair {
        self.repair
    }

    /// Returns whether the failure detector suspects this peer.
    pub fn is_suspected(&self, peer: NodeId) -> bool {
        self.belief.is_suspected(peer)
    }

    /// The data about the run, if this process has passed it on and awaits its outcome.
    #[inline]
    pub fn awaited_run(&self, run: Run) -> Option<Awaited> {
        self.awaited().filter(|awaited| awaited.run == run)
    }

    /// Sends the token to the next process. `concluder` has to conclude the run.
    #[inline]
    pub fn pass_token(&mut self, cx: &mut Context<'_, Self>, run: Run, token: T, concluder: NodeId) {
        if self.repairs_by_detector_only() && self.is_suspected(concluder) {
            return self.abandon(cx, run);
        }
        let awaited = Awaited { run, concluder, best: token.best() };
        if self.awaited().is_none_or(|before| before.run < run || before.run == run && before != awaited) {
            self.await_outcome(cx, awaited);
        }
        self.hops.pass(cx, &self.belief, Message::Election { hop: 0, run, token });
    }

    /// Concludes the run: accepts its leader and circulates the outcome. If ranks have changed meanwhile, so that
    /// this process outranks the leader, abandons the run instead.
    pub fn conclude(&mut self, cx: &mut Context<'_, Self>, run: Run, leader: NodeId) {
        if cx.view().outranks(cx.me(), leader) {
            return self.abandon(cx, run);
        }
        self.accept(cx, Outcome { run, round: 0, leader });
        self.circulate(cx);
    }

    /// Abandons a run that cannot succeed and calls another, unless a greater run is in progress.
    pub fn abandon(&mut self, cx: &mut Context<'_, Self>, run: Run) {
        if self.awaited().is_some_and(|awaited| awaited.run <= run) {
            self.phase = Phase::Idle;
        }
        self.call_election(cx);
    }
}

impl<T: Token> Ring<T> {
    #[inline]
    fn awaited(&self) -> Option<Awaited> {
        match self.phase {
            Phase::Awaiting(awaited) => Some(awaited),
            Phase::Idle | Phase::Announcing => None,
        }
    }

    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        if self.awaited().is_some() {
            return;
        }
        self.observe_term(self.highest_term.next());
        let run = Run { term: self.highest_term, initiator: cx.me() };
        self.pass_token(cx, run, T::new(cx.view()), cx.me());
    }

    /// Awaits the outcome of a run. The time-out is the maximum duration of a run, three circulations, plus a time
    /// that grows with the distance from the process that has to conclude the run. The predecessor of that process
    /// therefore times out first, although it was the last to pass the token on.
    #[inline]
    fn await_outcome(&mut self, cx: &mut Context<'_, Self>, awaited: Awaited) {
        self.phase = Phase::Awaiting(awaited);
        if self.repair.timeouts {
            let distance = cx.view().distance(awaited.concluder).unwrap_or(0) as u64;
            let timeout = 3 * self.hops.max_circulation(cx.view()) + 4 * distance;
            cx.set_timer(Timer::Outcome, cx.delay_bound() * timeout);
        }
        self.expect_leader(cx, 3);
    }

    fn end_wait(&mut self, cx: &mut Context<'_, Self>) {
        self.phase = Phase::Idle;
        if self.repair.timeouts {
            cx.cancel_timer(Timer::Outcome);
        }
    }

    fn repairs_by_detector_only(&self) -> bool {
        self.repair.detector && !self.repair.timeouts
    }

    /// Accepts an outcome. The outcome is final unless this process awaits a greater run.
    fn accept(&mut self, cx: &mut Context<'_, Self>, outcome: Outcome) {
        let Outcome { run, leader, .. } = outcome;
        self.observe_term(run.term);
        self.concluded = Some(outcome);
        if self.awaited().is_none_or(|awaited| awaited.run <= run) {
            self.end_wait(cx);
        }
        if self.belief.is_suspected(leader) {
            return self.on_suspected_leader(cx);
        }
        self.belief.set_leader(cx, leader, run.term);
        if leader == cx.me() && self.awaited().is_none() {
            self.schedule_reaffirm(cx);
        } else {
            self.expect_leader(cx, 1);
        }
    }

    /// Handles an outcome that names a suspected leader: a delayed message of a crashed process, or a false
    /// suspicion that will end. An immediate election would repeat itself as long as the suspicion lasts ("new
    /// election runs initiated forever"), so a process with time-outs waits for one.
    fn on_suspected_leader(&mut self, cx: &mut Context<'_, Self>) {
        self.belief.clear_leader(cx);
        self.expect_leader(cx, 3);
        if self.repair.timeouts {
            cx.set_timer(Timer::Outcome, cx.delay_bound() * (3 * self.hops.max_circulation(cx.view())));
        } else if self.repair.detector {
            self.call_election(cx);
        }
    }

    /// Circulates the outcome, and awaits its return.
    fn circulate(&mut self, cx: &mut Context<'_, Self>) {
        let Some(outcome) = self.concluded else { return };
        self.hops.pass(cx, &self.belief, Message::Elected { hop: 0, outcome });
        if self.awaited().is_some() {
            return;
        }
        self.phase = Phase::Announcing;
        if self.repair.timeouts {
            cx.set_timer(Timer::Outcome, cx.delay_bound() * (self.hops.max_circulation(cx.view()) + 1));
        }
    }

    fn circulate_again(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(outcome) = &mut self.concluded {
            outcome.round = outcome.round.saturating_add(1);
        }
        self.circulate(cx);
    }

    /// The outcome that this process believes in, as a message to a new neighbour.
    fn believed_outcome(&self) -> Option<Message<T>> {
        self.belief.leader().and(self.concluded).map(|outcome| Message::Elected { hop: 0, outcome })
    }

    fn send_outcome_to_successor(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(outcome) = self.believed_outcome() {
            self.hops.pass(cx, &self.belief, outcome);
        }
    }

    fn schedule_reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(period) = self.reaffirm {
            cx.cancel_timer(Timer::Leader);
            cx.set_timer(Timer::Reaffirm, cx.delay_bound() * period);
        }
    }

    /// Starts the time-out of a follower for the leader's next round. The leader may miss two rounds, and the
    /// current round may take `circulations` circulations.
    #[inline]
    fn expect_leader(&mut self, cx: &mut Context<'_, Self>, circulations: u64) {
        if let Some(period) = self.reaffirm {
            cx.cancel_timer(Timer::Reaffirm);
            cx.set_timer(
                Timer::Leader,
                cx.delay_bound() * (3 * period + circulations * self.hops.max_circulation(cx.view())),
            );
        }
    }

    /// Returns whether the run is over, or its term is.
    #[inline]
    fn is_outdated(&self, run: Run) -> bool {
        run.term < self.highest_term || self.concluded.is_some_and(|known| run <= known.run)
    }

    #[inline]
    fn is_lower(&self, run: Run) -> bool {
        self.awaited().is_some_and(|awaited| run < awaited.run)
    }

    /// Records that a lower run of this term is passed on. Returns whether this is the first time.
    fn record_passed(&mut self, run: Run, trip: Circulating) -> bool {
        self.passed_lower_runs.insert((run.initiator, trip))
    }

    #[inline]
    fn observe_term(&mut self, term: Term) {
        if term > self.highest_term {
            self.highest_term = term;
            self.passed_lower_runs.clear();
        }
    }

    /// Replies `Outdated` to the sender of an old run. While a greater run is in progress there is no reply:
    /// otherwise the reply to each run would outdate the next one.
    fn reply_outdated(&mut self, cx: &mut Context<'_, Self>, from: NodeId, run: Run) {
        if self.awaited().is_none() && from != cx.me() {
            cx.send(from, Message::Outdated { run, term: self.highest_term });
        }
    }

    #[inline]
    fn on_election(&mut self, cx: &mut Context<'_, Self>, from: NodeId, run: Run, token: T) {
        if self.is_outdated(run) {
            if self.concluded.is_none_or(|known| known.run != run) {
                self.reply_outdated(cx, from, run);
            }
        } else if !self.is_lower(run) || !T::SUPPRESSES && self.record_passed(run, Circulating::Election) {
            self.observe_term(run.term);
            token.arrive(self, cx, run);
        }
    }

    fn on_elected(&mut self, cx: &mut Context<'_, Self>, from: NodeId, outcome: Outcome) {
        let Outcome { run, round, leader } = outcome;
        match self.concluded {
            Some(known) if (known.run, known.leader) == (run, leader) && round <= known.round => {
                return self.on_return(cx, outcome);
            }
            Some(known) if (known.run, known.leader) == (run, leader) => {}
            _ if run.term < self.highest_term => return self.reply_outdated(cx, from, run),
            Some(known) if run <= known.run => {
                return self.on_lower(cx, outcome, known);
            }
            _ => {}
        }
        if T::SUPPRESSES && self.is_lower(run) {
            return;
        }
        if cx.view().outranks(cx.me(), leader) {
            self.observe_term(run.term);
            return self.abandon(cx, run);
        }
        self.accept(cx, outcome);
        self.hops.pass(cx, &self.belief, Message::Elected { hop: 0, outcome });
    }

    /// Handles the outcome of a lower run. Two simultaneous elections agree, and a leader repeats the outcome of the
    /// greater one. Otherwise a process was skipped, and this process calls an election.
    fn on_lower(&mut self, cx: &mut Context<'_, Self>, outcome: Outcome, known: Outcome) {
        let Outcome { run, round, leader } = outcome;
        if leader != known.leader || round > 0 {
            self.call_election(cx);
        } else if !T::SUPPRESSES && run.initiator != cx.me() && self.record_passed(run, Circulating::Elected)
        {
            self.hops.pass(cx, &self.belief, Message::Elected { hop: 0, outcome });
        }
    }

    /// Handles an outcome that has returned to its origin, or is a duplicate.
    fn on_return(&mut self, cx: &mut Context<'_, Self>, outcome: Outcome) {
        if self.phase == Phase::Announcing && self.concluded == Some(outcome) {
            self.end_wait(cx);
        }
    }

    fn on_outdated(&mut self, cx: &mut Context<'_, Self>, run: Run, term: Term) {
        let accepted = self.concluded.is_some_and(|known| known.run == run) && run.term < term;
        if self.awaited_run(run).is_some() || accepted {
            self.observe_term(term);
            self.abandon(cx, run);
        }
    }

    /// Handles a message of another process, or a message that has come round to this process, which is alone.
    #[inline]
    fn arrive(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message<T>) {
        match message {
            Message::Election { run, token, .. } => self.on_election(cx, from, run, token),
            Message::Elected { outcome, .. } => self.on_elected(cx, from, outcome),
            Message::Outdated { run, term } => self.on_outdated(cx, run, term),
            Message::Ack { hop } => self.hops.on_ack(cx, from, hop),
        }
    }
}

impl<T: Token> Process for Ring<T> {
    type Message = Message<T>;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh => self.expect_leader(cx, 1),
            Start::Recovered(_) => self.call_election(cx),
        }
    }

    #[inline]
    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message<T>) {
        if let Some(hop) = message.hop() {
            cx.send(from, Message::Ack { hop });
        }
        self.arrive(cx, from, message);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Hop => {
                for message in self.hops.on_timer(cx, &self.belief) {
                    self.arrive(cx, cx.me(), message);
                }
            }
            Timer::Outcome if self.phase == Phase::Announcing => self.circulate_again(cx),
            Timer::Outcome => {
                self.phase = Phase::Idle;
                self.call_election(cx);
            }
            Timer::Reaffirm if self.belief.is_leader(cx) && self.awaited().is_none() => {
                self.schedule_reaffirm(cx);
                self.circulate_again(cx);
            }
            Timer::Reaffirm => {}
            Timer::Leader => {
                self.belief.clear_leader(cx);
                self.phase = Phase::Idle;
                self.call_election(cx);
            }
        }
    }

    /// "Any process that discovers the old coordinator has failed initiates an Election message."
    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let was_successor = hops::successor(cx.view(), &self.belief) == Some(peer);
        let lost_leader = self.belief.suspect(cx, peer);
        self.hops.on_suspect(cx, &self.belief, peer);
        match self.phase {
            Phase::Awaiting(Awaited { run, concluder, best }) => {
                let concludes_run = concluder == peer || best.is_some_and(|best| best.id == peer);
                // Without a time-out, the token may also be lost with the process that it was passed to.
                let token_lost = self.repairs_by_detector_only() && self.hops.latest() == Some(peer);
                if self.repair.detector && (concludes_run || token_lost) {
                    self.abandon(cx, run);
                }
            }
            Phase::Idle | Phase::Announcing if lost_leader => self.call_election(cx),
            Phase::Announcing if self.repair.detector => self.circulate_again(cx),
            Phase::Idle | Phase::Announcing if was_successor => self.send_outcome_to_successor(cx),
            Phase::Idle | Phase::Announcing => {}
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.belief.restore(cx, peer);
        if let (true, Some(awaited)) = (self.repairs_by_detector_only(), self.awaited()) {
            // The token may have been lost while the peer was suspected.
            return self.abandon(cx, awaited.run);
        }
        let Some(leader) = self.belief.leader() else { return self.call_election(cx) };
        if self.belief.is_leader(cx) && cx.view().outranks(peer, leader) {
            self.call_election(cx);
        } else if self.belief.is_leader(cx) {
            // Other peers may be restored with this one: one round serves all.
            cx.set_timer(Timer::Reaffirm, cx.delay_bound());
        } else if hops::successor(cx.view(), &self.belief) == Some(peer) {
            self.send_outcome_to_successor(cx);
        } else if hops::predecessor(cx.view(), &self.belief) == Some(peer)
            && let Some(outcome) = self.believed_outcome()
        {
            // The peer may never have suspected this process, and yet not have reached it.
            cx.send(peer, outcome);
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.belief.should_replace_leader(cx) {
            self.call_election(cx);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // The best live process leads by definition: to resign, an application lowers the rank.
        if command == Command::Campaign {
            self.call_election(cx);
        }
    }
}
