//! What the ring algorithms share: everything but the way of an `Election`.
//!
//! A ring algorithm is a [`Token`]: what its `Election` message carries, and what a process does
//! with one that arrives. The rest is the same for all, and is a [`Ring`]: how messages get to the
//! next live process (`ring/hops.rs`), how the outcome goes round, and what happens when somebody
//! fails meanwhile.
//!
//! ```text
//!   3 ──Election──▶ 4 ──Election──▶ 5 ─ ─ ▶ …     a token goes round, and somebody concludes
//!   3 ──Elected───▶ 4 ──Elected───▶ 5 ─ ─ ▶ 3     that outcome goes round, to where it began
//!   4 ──Ack──▶ 3                                  every hop is acknowledged; counted apart
//!   4 ──Outdated──▶ 3                             "a later election than that is over"
//! ```
//!
//! **Runs.** An election is named by its term and its initiator, and the greater run stands. The
//! slides tell runs apart by the initiator alone and suppress lower ones "all the time", so that
//! once 6 has called an election nobody below 6 ever completes one; hence the terms: a new election
//! has a term above all heard of. A process that has lost its memory calls one of the past; it is
//! told so (`Outdated`) by the first to see it, unless a greater run is under way, which will reach
//! everybody anyway. The reply goes back one step, to a process that is alive, waits for that run
//! or believes in its outcome, and calls a new election.
//!
//! **Rounds.** A leader may have its outcome go round again, as the next *round* of the same run.
//! A process passes every round on once: that ends it where it began, ends duplicates (an
//! acknowledgement may be lost), and keeps the announcement of a dead process from circling.
//!
//! **Repairs.** An `Election` that waits for a dead process never ends (cs425, "Effect of
//! Failures"). Both repairs of the slides are here, see [`Repair`]; what they have in common is that
//! a process knows who has to conclude the run it has passed on.
//!
//! **Merging.** When a suspicion is lifted, a leader has its outcome go round again, and a process
//! that has got a new neighbour tells it the outcome it believes in. So the greatest run known reaches
//! every process of two rings that become one; whoever outranks its leader calls an election.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::hops::Hops;
use super::Outlook;
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

/// What an `Election` carries round the ring, and what a process does with it: an algorithm.
pub trait Token:
    Clone + fmt::Debug + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// What the algorithm assumes, promises and costs.
    const CONTRACT: Contract;
    /// The source's name for the message `Elected`.
    const OUTCOME: &'static str;
    /// What the repairs are called, in the order both, time-out, detector, none.
    const REPAIRS: &'static str;
    /// Whether "each process suppresses Election/Elected messages of any lower-id initiators" (cs425,
    /// "Multiple Initiators?").
    const SUPPRESSES: bool;

    /// What an initiator sends off.
    fn new(view: View<'_>) -> Self;

    /// The best process it has met, if it says so.
    fn best(&self) -> Option<Rank>;

    /// What a process does with a token that is not outdated.
    fn arrive(self, ring: &mut Ring<Self>, cx: &mut Context<'_, Ring<Self>>, run: Run);
}

/// A run whose `Election` a process has passed on, and whose outcome it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    /// Which run.
    pub run: Run,
    /// Who has to conclude it.
    pub on: NodeId,
    /// The best process in the token that was passed on.
    pub best: Option<Rank>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Awaiting(Awaited),
    /// It has sent an outcome round that is not back yet.
    Announcing,
}

/// What goes round the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Trip {
    Election,
    Elected,
}

/// A process of a ring algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ring<T> {
    repair: Repair,
    reaffirm: Option<u64>,
    outlook: Outlook,
    hops: Hops<T>,
    phase: Phase,
    /// The highest term heard of; the outlook's is that of the leader believed in.
    heard: Term,
    /// The outcome of the greatest run it knows to be over.
    concluded: Option<Outcome>,
    /// Who called the lower runs of this term that it has passed on, and what of them.
    lower: BTreeSet<(NodeId, Trip)>,
}

impl<T: Token> Algorithm for Ring<T> {
    const CONTRACT: Contract = T::CONTRACT;

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = Options::parameters::<T>();

    fn new(_: NodeId, options: &Options) -> Ring<T> {
        Ring {
            repair: options.repair,
            reaffirm: options.reaffirm,
            outlook: Outlook::default(),
            hops: Hops::new(options.hop_timeout),
            phase: Phase::Idle,
            heard: Term::default(),
            concluded: None,
            lower: BTreeSet::new(),
        }
    }
}

/// What an algorithm does with a token.
impl<T: Token> Ring<T> {
    /// What is done about failures.
    pub fn repair(&self) -> Repair {
        self.repair
    }

    /// Whether the failure detector has reported this peer.
    pub fn suspects(&self, peer: NodeId) -> bool {
        self.outlook.suspects(peer)
    }

    /// What is known of the run, if this process has passed it on and waits for its outcome.
    #[inline]
    pub fn awaits(&self, run: Run) -> Option<Awaited> {
        self.awaited().filter(|awaited| awaited.run == run)
    }

    /// Sends the token to the next process. It takes `on` to conclude the run.
    #[inline]
    pub fn pass_on(&mut self, cx: &mut Context<'_, Self>, run: Run, token: T, on: NodeId) {
        if self.trusts_only_the_detector() && self.suspects(on) {
            return self.give_up(cx, run);
        }
        let awaited = Awaited { run, on, best: token.best() };
        if self.awaited().is_none_or(|before| before.run < run || before.run == run && before != awaited) {
            self.await_outcome(cx, awaited);
        }
        self.hops.pass(cx, &self.outlook, Message::Election { hop: 0, run, token });
    }

    /// The run is over: believes in its leader and has that go round. Not if ranks have changed
    /// meanwhile.
    pub fn conclude(&mut self, cx: &mut Context<'_, Self>, run: Run, leader: NodeId) {
        if cx.view().outranks(cx.me(), leader) {
            return self.give_up(cx, run);
        }
        self.accept(cx, Outcome { run, round: 0, leader });
        self.circulate(cx);
    }

    /// The run cannot end well: calls another, unless a greater one is under way.
    pub fn give_up(&mut self, cx: &mut Context<'_, Self>, run: Run) {
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
        self.hear(self.heard.next());
        let run = Run { term: self.heard, initiator: cx.me() };
        self.pass_on(cx, run, T::new(cx.view()), cx.me());
    }

    /// The time-out is the longest a run can take, three times round, and then longer the farther
    /// this process is from the one that has to conclude it, whose predecessor is therefore the first
    /// to lose patience although the last to have passed the token on.
    #[inline]
    fn await_outcome(&mut self, cx: &mut Context<'_, Self>, awaited: Awaited) {
        self.phase = Phase::Awaiting(awaited);
        if self.repair.timeouts {
            let distance = cx.view().distance(awaited.on).unwrap_or(0) as u64;
            let patience = 3 * self.hops.trip(cx.view()) + 4 * distance;
            cx.set_timer(Timer::Outcome, cx.delay_bound() * patience);
        }
        self.expect_leader(cx, 3);
    }

    fn end_wait(&mut self, cx: &mut Context<'_, Self>) {
        self.phase = Phase::Idle;
        if self.repair.timeouts {
            cx.cancel_timer(Timer::Outcome);
        }
    }

    fn trusts_only_the_detector(&self) -> bool {
        self.repair.detector && !self.repair.timeouts
    }

    /// Adopts an outcome. It stands, unless the run this process waits for is greater.
    fn accept(&mut self, cx: &mut Context<'_, Self>, outcome: Outcome) {
        let Outcome { run, leader, .. } = outcome;
        self.hear(run.term);
        self.concluded = Some(outcome);
        if self.awaited().is_none_or(|awaited| awaited.run <= run) {
            self.end_wait(cx);
        }
        if self.outlook.suspects(leader) {
            return self.doubt(cx);
        }
        self.outlook.believe(cx, leader, run.term);
        if leader == cx.me() && self.awaited().is_none() {
            self.schedule_reaffirm(cx);
        } else {
            self.expect_leader(cx, 1);
        }
    }

    /// The outcome names a suspect: a late word of the dead, or the detector is wrong and will say
    /// so. Calling an election at once would repeat itself as long as the suspicion lasts ("new
    /// election runs initiated forever"), so a process that has time-outs waits for one.
    fn doubt(&mut self, cx: &mut Context<'_, Self>) {
        self.outlook.forget(cx);
        self.expect_leader(cx, 3);
        if self.repair.timeouts {
            cx.set_timer(Timer::Outcome, cx.delay_bound() * (3 * self.hops.trip(cx.view())));
        } else if self.repair.detector {
            self.call_election(cx);
        }
    }

    /// Sends the outcome round, and expects it back.
    fn circulate(&mut self, cx: &mut Context<'_, Self>) {
        let Some(outcome) = self.concluded else { return };
        self.hops.pass(cx, &self.outlook, Message::Elected { hop: 0, outcome });
        if self.awaited().is_some() {
            return;
        }
        self.phase = Phase::Announcing;
        if self.repair.timeouts {
            cx.set_timer(Timer::Outcome, cx.delay_bound() * (self.hops.trip(cx.view()) + 1));
        }
    }

    fn circulate_again(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(outcome) = &mut self.concluded {
            outcome.round = outcome.round.saturating_add(1);
        }
        self.circulate(cx);
    }

    /// The outcome this process believes in, to be told to a new neighbour.
    fn belief(&self) -> Option<Message<T>> {
        self.outlook.leader().and(self.concluded).map(|outcome| Message::Elected { hop: 0, outcome })
    }

    fn tell_successor(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(belief) = self.belief() {
            self.hops.pass(cx, &self.outlook, belief);
        }
    }

    fn schedule_reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(period) = self.reaffirm {
            cx.cancel_timer(Timer::Leader);
            cx.set_timer(Timer::Reaffirm, cx.delay_bound() * period);
        }
    }

    /// As a follower, allows the leader to miss two rounds, and this one some trips round the ring.
    #[inline]
    fn expect_leader(&mut self, cx: &mut Context<'_, Self>, trips: u64) {
        if let Some(period) = self.reaffirm {
            cx.cancel_timer(Timer::Reaffirm);
            cx.set_timer(Timer::Leader, cx.delay_bound() * (3 * period + trips * self.hops.trip(cx.view())));
        }
    }

    /// Whether the run is over, or of a term that is.
    #[inline]
    fn is_outdated(&self, run: Run) -> bool {
        run.term < self.heard || self.concluded.is_some_and(|known| run <= known.run)
    }

    #[inline]
    fn is_lower(&self, run: Run) -> bool {
        self.awaited().is_some_and(|awaited| run < awaited.run)
    }

    /// Whether a lower run of this term has not been passed on before; it has from now on.
    fn first_passes(&mut self, run: Run, trip: Trip) -> bool {
        self.lower.insert((run.initiator, trip))
    }

    #[inline]
    fn hear(&mut self, term: Term) {
        if term > self.heard {
            self.heard = term;
            self.lower.clear();
        }
    }

    /// Tells the one that passed it on that a run is of the past; not if a greater run is under way,
    /// lest every run be overtaken by the answer to the one before.
    fn refuse(&mut self, cx: &mut Context<'_, Self>, from: NodeId, run: Run) {
        if self.awaited().is_none() && from != cx.me() {
            cx.send(from, Message::Outdated { run, term: self.heard });
        }
    }

    #[inline]
    fn on_election(&mut self, cx: &mut Context<'_, Self>, from: NodeId, run: Run, token: T) {
        if self.is_outdated(run) {
            if self.concluded.is_none_or(|known| known.run != run) {
                self.refuse(cx, from, run);
            }
        } else if !self.is_lower(run) || !T::SUPPRESSES && self.first_passes(run, Trip::Election) {
            self.hear(run.term);
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
            _ if run.term < self.heard => return self.refuse(cx, from, run),
            Some(known) if run <= known.run => {
                return self.on_lower(cx, outcome, known);
            }
            _ => {}
        }
        if T::SUPPRESSES && self.is_lower(run) {
            return;
        }
        if cx.view().outranks(cx.me(), leader) {
            self.hear(run.term);
            return self.give_up(cx, run);
        }
        self.accept(cx, outcome);
        self.hops.pass(cx, &self.outlook, Message::Elected { hop: 0, outcome });
    }

    /// Two elections at once agree, and a leader repeats the greater. If not, somebody was skipped.
    fn on_lower(&mut self, cx: &mut Context<'_, Self>, outcome: Outcome, known: Outcome) {
        let Outcome { run, round, leader } = outcome;
        if leader != known.leader || round > 0 {
            self.call_election(cx);
        } else if !T::SUPPRESSES && run.initiator != cx.me() && self.first_passes(run, Trip::Elected) {
            self.hops.pass(cx, &self.outlook, Message::Elected { hop: 0, outcome });
        }
    }

    /// The outcome is back where it began, or is a duplicate.
    fn on_return(&mut self, cx: &mut Context<'_, Self>, outcome: Outcome) {
        if self.phase == Phase::Announcing && self.concluded == Some(outcome) {
            self.end_wait(cx);
        }
    }

    fn on_outdated(&mut self, cx: &mut Context<'_, Self>, run: Run, term: Term) {
        let believes = self.concluded.is_some_and(|known| known.run == run) && run.term < term;
        if self.awaits(run).is_some() || believes {
            self.hear(term);
            self.give_up(cx, run);
        }
    }

    /// A message has arrived from another process, or come round to this one, which is alone.
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
                for message in self.hops.on_timer(cx, &self.outlook) {
                    self.arrive(cx, cx.me(), message);
                }
            }
            Timer::Outcome if self.phase == Phase::Announcing => self.circulate_again(cx),
            Timer::Outcome => {
                self.phase = Phase::Idle;
                self.call_election(cx);
            }
            Timer::Reaffirm if self.outlook.leads(cx) && self.awaited().is_none() => {
                self.schedule_reaffirm(cx);
                self.circulate_again(cx);
            }
            Timer::Reaffirm => {}
            Timer::Leader => {
                self.outlook.forget(cx);
                self.phase = Phase::Idle;
                self.call_election(cx);
            }
        }
    }

    /// "Any process that discovers the old coordinator has failed initiates an Election message."
    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let was_successor = hops::successor(cx.view(), &self.outlook) == Some(peer);
        let leaderless = self.outlook.suspect(cx, peer);
        self.hops.on_suspect(cx, &self.outlook, peer);
        match self.phase {
            Phase::Awaiting(Awaited { run, on, best }) => {
                let takes_it = on == peer || best.is_some_and(|best| best.id == peer);
                // Without a time-out, the token may also have died with the one it was passed to.
                let died_with_it = self.trusts_only_the_detector() && self.hops.latest() == Some(peer);
                if self.repair.detector && (takes_it || died_with_it) {
                    self.give_up(cx, run);
                }
            }
            Phase::Idle | Phase::Announcing if leaderless => self.call_election(cx),
            Phase::Announcing if self.repair.detector => self.circulate_again(cx),
            Phase::Idle | Phase::Announcing if was_successor => self.tell_successor(cx),
            Phase::Idle | Phase::Announcing => {}
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.outlook.restore(cx, peer);
        if let (true, Some(awaited)) = (self.trusts_only_the_detector(), self.awaited()) {
            // The token may have been lost where this one was thought dead.
            return self.give_up(cx, awaited.run);
        }
        let Some(leader) = self.outlook.leader() else { return self.call_election(cx) };
        if self.outlook.leads(cx) && cx.view().outranks(peer, leader) {
            self.call_election(cx);
        } else if self.outlook.leads(cx) {
            // Others may come back with it: one round for all.
            cx.set_timer(Timer::Reaffirm, cx.delay_bound());
        } else if hops::successor(cx.view(), &self.outlook) == Some(peer) {
            self.tell_successor(cx);
        } else if hops::predecessor(cx.view(), &self.outlook) == Some(peer)
            && let Some(belief) = self.belief()
        {
            // It may never have suspected this process, and yet not have reached it.
            cx.send(peer, belief);
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.outlook.is_overtaken(cx) {
            self.call_election(cx);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // The best live process leads by definition: to resign is to lower one's rank.
        if command == Command::Campaign {
            self.call_election(cx);
        }
    }
}
