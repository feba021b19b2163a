//! The modified bully algorithm (Kordafshari 2005; Database Internals, ch. 10, "Bully Algorithm").
//!
//! Model: synchronous, crash and recovery; every process knows all members and their ranks. A failure detector
//! triggers elections; without a detector, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election──▶ 4, 5, 6      to all that rank above
//!   3 ◀──Alive───── 4, 5         which hold no elections of their own
//!   3 ──Proceed───▶ 5            to the best that replied
//!   5 ──Elected───▶ 1, 2, 3, 4   to all that rank below
//! ```
//!
//! Cost: `N - 2` messages if the second best knows that the best is dead; `3N - 2` if the worst calls and all live;
//! `3N - 4` if it does and the best is dead. The latter takes 5 message times, as the slides count the classic run:
//! the four above, and the caller's time-out for the reply of the dead one as the fifth.
//!
//! Promise: some time after faults stop, the best live process of each component leads it. Not promised: under
//! partition every component elects a leader, and a late message or a false suspicion can make two leaders for a
//! while.
//!
//! Interpretations: the caller stops waiting when all processes have replied that its detector does not suspect. The
//! source does not cover a failure of the notified process: the caller awaits its announcement, and starts the
//! election again without it. A process that is notified during its own election continues that election. A process
//! that is notified while it believes in a better leader proceeds, and gives that leader the chance to object
//! (`Deposed`, not counted): the caller may have suspected that leader falsely. The rules of `bully` for repeated,
//! overtaken, requested and awaited announcements apply here too.

use serde::{Deserialize, Serialize};

use super::bully::Bully;
use super::{LeaderBelief, LeaderLiveness, Poll};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Command, Context, Contract, Cost, Formula, NodeId, Parameter, Process, Start, Term,
};

/// The messages of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I call an election, and you rank above me."
    Election,
    /// "I am alive."
    Alive,
    /// "No better process is alive: proceed with step 3."
    Proceed,
    /// "I lead."
    Elected {
        /// The term.
        term: Term,
    },
    /// "I was told to lead, though I believed you did."
    Deposed {
        /// The term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Election, Alive, Proceed, Elected, Deposed: uncounted });

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The wait for replies to the own election is over.
    Alive,
    /// The wait for the announcement of the notified process is over.
    Elected,
    /// The leader is due to repeat its announcement.
    Reaffirm,
    /// A follower has missed the leader's repeated announcement.
    Leader,
}

suffrage_core::timer_indices!(Timer { Alive, Elected, Reaffirm, Leader });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The time to wait for replies: more than a round trip.
    pub alive_timeout: u64,
    /// The time to wait for the announcement of the notified process.
    pub elected_timeout: u64,
    /// The period of a leader's repeated announcement.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { alive_timeout: 3, elected_timeout: 6, reaffirm: None }
    }
}

/// The phase of the process's own election. A process runs at most one election at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// Step 2: higher-ranked processes are allowed to respond.
    Polling(Poll),
    /// The process awaits the announcement of this peer, which was notified, or is expected to know that it is the
    /// best.
    AwaitingElected(NodeId),
}

/// A process of the modified bully algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModifiedBully {
    options: Options,
    phase: Phase,
    belief: LeaderBelief,
    liveness: LeaderLiveness<Timer>,
}

impl Algorithm for ModifiedBully {
    const CONTRACT: Contract = Contract {
        name: "modified-bully",
        summary: "The caller polls the processes that rank above it and makes the best live one the leader.",
        source: "Kordafshari 2005; Database Internals, figure 10-1",
        messages: Cost {
            best: Formula { text: "N - 2", of: |n| n.saturating_sub(2) },
            worst: Formula { text: "3N - 2", of: |n| 3 * n - 2 },
        },
        ..Bully::CONTRACT
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        parameters::delays_parameter!(
            "alive-timeout",
            alive_timeout,
            "Time to wait for replies: more than a round trip"
        ),
        parameters::delays_parameter!(
            "elected-timeout",
            elected_timeout,
            "Time to wait for the announcement of the notified process, before calling again"
        ),
        parameters::reaffirm_parameter!(),
    ];

    fn new(_: NodeId, options: &Options) -> ModifiedBully {
        let liveness = LeaderLiveness::new(options.reaffirm, Timer::Reaffirm, Timer::Leader);
        ModifiedBully { options: *options, phase: Phase::Idle, belief: LeaderBelief::default(), liveness }
    }
}

impl ModifiedBully {
    /// Step 1: "The process sends election messages to processes with higher identifiers."
    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Idle if self.belief.is_best(cx) => self.become_leader(cx),
            Phase::Idle => {
                self.phase = Phase::Polling(Poll::ask_higher(cx, &self.belief, Message::Election));
                self.await_replies(cx);
            }
            Phase::Polling(_) | Phase::AwaitingElected(_) => {}
        }
    }

    fn await_replies(&self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Alive, cx.delay_bound() * self.options.alive_timeout);
    }

    /// Step 2: "If no higher-ranked process responds, it proceeds with step 3. Otherwise, the process
    /// notifies the highest-ranked process it has heard from".
    fn close_poll(&mut self, cx: &mut Context<'_, Self>) {
        let Phase::Polling(poll) = &self.phase else { return };
        let Some(best) = poll.best(cx.view()) else { return self.become_leader(cx) };
        cx.send(best, Message::Proceed);
        self.await_elected(cx, best);
    }

    fn await_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId) {
        self.end_election(cx);
        self.phase = Phase::AwaitingElected(leader);
        cx.set_timer(Timer::Elected, cx.delay_bound() * self.options.elected_timeout);
    }

    /// Step 3: "notifies all lower-ranked processes about the new leader."
    fn become_leader(&mut self, cx: &mut Context<'_, Self>) {
        self.end_election(cx);
        self.belief.set_leader(cx, cx.me(), self.belief.term().next());
        self.reaffirm(cx);
    }

    /// Announces this process as the leader to all that rank below.
    fn reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        for peer in cx.view().below() {
            cx.send(peer, Message::Elected { term: self.belief.term() });
        }
        self.liveness.start_reaffirming(cx);
    }

    fn end_election(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Idle => return,
            Phase::Polling(_) => cx.cancel_timer(Timer::Alive),
            Phase::AwaitingElected(_) => cx.cancel_timer(Timer::Elected),
        }
        self.phase = Phase::Idle;
    }

    fn call_again(&mut self, cx: &mut Context<'_, Self>) {
        self.end_election(cx);
        self.call_election(cx);
    }

    fn awaits_better_than(&self, cx: &Context<'_, Self>, leader: NodeId) -> bool {
        matches!(self.phase, Phase::AwaitingElected(better) if cx.view().outranks(better, leader))
    }

    fn on_alive(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        let Phase::Polling(poll) = &mut self.phase else { return };
        poll.on_alive(from);
        if poll.is_complete() {
            self.close_poll(cx);
        }
    }

    fn on_proceed(&mut self, cx: &mut Context<'_, Self>) {
        let leader = self.belief.leader();
        if self.phase != Phase::Idle || self.liveness.self_announced_recently(cx, &self.belief) {
            return;
        }
        self.become_leader(cx);
        if let Some(better) = leader.filter(|&leader| cx.view().outranks(leader, cx.me())) {
            cx.send(better, Message::Deposed { term: self.belief.term() });
        }
    }

    fn on_elected(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let rejected = self.liveness.may_be_superseded(cx, &self.belief, from, term);
        if rejected || self.awaits_better_than(cx, from) || cx.view().outranks(cx.me(), from) {
            self.belief.observe_term(term);
            return self.call_election(cx);
        }
        self.liveness.record_announcement(cx, from);
        if self.belief.is_suspected(from) {
            return self.belief.reject_claim(from);
        }
        self.end_election(cx);
        if self.belief.is_leader(cx) {
            cx.send(from, Message::Proceed);
        }
        self.belief.set_leader(cx, from, term);
        self.liveness.expect_reaffirmation(cx);
    }
}

impl Process for ModifiedBully {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh => self.liveness.expect_reaffirmation(cx),
            Start::Recovered(_) => self.call_election(cx),
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Election if cx.view().outranks(cx.me(), from) => cx.send(from, Message::Alive),
            Message::Election => {}
            Message::Alive => self.on_alive(cx, from),
            Message::Proceed => self.on_proceed(cx),
            Message::Elected { term } | Message::Deposed { term } => self.on_elected(cx, from, term),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Alive => self.close_poll(cx),
            Timer::Elected => self.call_again(cx),
            Timer::Reaffirm => self.reaffirm(cx),
            Timer::Leader => {
                self.belief.clear_leader(cx);
                self.call_election(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let lost_leader = self.belief.suspect(cx, peer);
        match &mut self.phase {
            Phase::Idle if lost_leader => self.call_election(cx),
            Phase::Idle => {}
            Phase::Polling(poll) => {
                poll.on_suspect(peer);
                if poll.is_complete() {
                    self.close_poll(cx);
                }
            }
            Phase::AwaitingElected(notified) if *notified == peer => self.call_again(cx),
            Phase::AwaitingElected(_) => {}
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let should_lead = self.belief.restore(cx, peer);
        let leads = self.belief.is_leader(cx);
        match &mut self.phase {
            _ if leads && cx.view().outranks(cx.me(), peer) => {
                cx.send(peer, Message::Elected { term: self.belief.term() });
            }
            Phase::Idle if leads => self.call_election(cx),
            Phase::Idle if should_lead => self.await_elected(cx, peer),
            Phase::Polling(poll) if cx.view().outranks(peer, cx.me()) => {
                poll.await_reply(peer);
                cx.send(peer, Message::Election);
                self.await_replies(cx);
            }
            Phase::AwaitingElected(other) if cx.view().outranks(peer, *other) => self.await_elected(cx, peer),
            Phase::Idle | Phase::Polling(_) | Phase::AwaitingElected(_) => {}
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        if command == Command::Campaign {
            self.call_election(cx);
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.belief.should_replace_leader(cx) {
            self.call_election(cx);
        }
    }
}

#[cfg(test)]
mod tests;
