//! The bully algorithm (Garcia-Molina 1982; cs425 slides 32-43; unimore).
//!
//! Model: synchronous, crash and recovery; every process knows all members and their ranks. A failure detector
//! triggers elections; without a detector, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election──▶ 4, 5, 6      to all that rank above
//!   3 ◀──Answer──── 4, 5         and 4 and 5 hold elections of their own
//!   5 ──Coordinator──▶ 1, 2, 3, 4    no process above 5 answered in time
//! ```
//!
//! Cost: `N - 2` messages if the second best calls and knows that the best is dead; `N - 1` if the best calls; `N^2
//! - N - 1` if the best is dead and the worst calls; `N^2 - 1` if the worst calls and all live, which is the unimore
//! slides' `N (N - 1)` and the `N - 1` announcements.
//!
//! Promise: some time after faults stop, the best live process of each component leads it. Not promised: under
//! partition every component elects a leader, and a late message or a false suspicion can make two leaders for a
//! while.
//!
//! Interpretations: a process that is asked within a round trip of a leader's announcement, its own or another's,
//! only answers, since that announcement is on its way to the caller too ("unless it has already done so"). A term
//! counts the announcements that a leader has made or observed; a process that was away starts behind. The sources
//! assume that no message is lost. For a network that loses messages, `reaffirm` repeats the announcement
//! periodically, and a follower that misses it calls an election. The sources do not cover healing partitions, false
//! suspicions and reordered messages either. Therefore:
//! - A process rejects an announcement that a better one may have overtaken, and calls an election, unless it awaits
//!   the announcement of a better process that has answered.
//! - A leader that defers to a better one asks it to announce itself, in case it has not done so to the followers of
//!   the former leader.
//! - A process that no longer suspects a peer that outranks its leader awaits the announcement of that peer, and
//!   calls an election if there is none.

use serde::{Deserialize, Serialize};

use super::{LeaderBelief, LeaderLiveness};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Choice, Command, Context, Contract, Cost, Detection, Electorate, Formula, NodeId, Parameter,
    Process, Safety, Start, Synchrony, Term, Topology,
};

/// The messages of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I call an election, and you rank above me."
    Election,
    /// "I am alive, and call an election myself." The slides' OK.
    Answer,
    /// "I lead."
    Coordinator {
        /// The term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Election, Answer, Coordinator });

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The wait for an answer to the own election is over.
    Answer,
    /// The wait for an announcement of the answering process is over.
    Coordinator,
    /// The leader is due to repeat its announcement.
    Reaffirm,
    /// A follower has missed the leader's repeated announcement.
    Leader,
}

suffrage_core::timer_indices!(Timer { Answer, Coordinator, Reaffirm, Leader });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The time to wait for an answer: more than a round trip.
    pub answer_timeout: u64,
    /// The time to wait for an announcement after an answer.
    pub coordinator_timeout: u64,
    /// The period of a leader's repeated announcement.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { answer_timeout: 3, coordinator_timeout: 6, reaffirm: None }
    }
}

/// The phase of the process's own election. A process runs at most one election at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    AwaitingAnswer,
    /// The process awaits the announcement of this peer, the best that answered, or of a better one.
    AwaitingCoordinator(NodeId),
}

/// A process of the bully algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bully {
    options: Options,
    phase: Phase,
    belief: LeaderBelief,
    liveness: LeaderLiveness<Timer>,
}

impl Algorithm for Bully {
    const CONTRACT: Contract = Contract {
        name: "bully",
        summary: "The best live process bullies the others into accepting it.",
        source: "Garcia-Molina 1982; cs425 slides 32-43; unimore",
        topology: Topology::Complete,
        synchrony: Synchrony::Synchronous,
        knowledge: "all members and their ranks",
        tolerates: "crash and recovery; lost messages with --reaffirm",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
        under_loss: &[("reaffirm", "10")],
        safety: Safety::Eventual,
        choice: Choice::Best,
        handover: false,
        messages: Cost {
            best: Formula { text: "N - 2", of: |n| n.saturating_sub(2) },
            worst: Formula { text: "N^2 - 1", of: |n| n * n - 1 },
        },
        time: Cost { best: Formula { text: "1", of: |_| 1 }, worst: Formula { text: "5", of: |_| 5 } },
        upkeep: &[],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        parameters::delays_parameter!(
            "answer-timeout",
            answer_timeout,
            "Time to wait for an answer, more than a round trip"
        ),
        parameters::delays_parameter!(
            "coordinator-timeout",
            coordinator_timeout,
            "Time to wait for the announcement after an answer, before calling again"
        ),
        parameters::reaffirm_parameter!(),
    ];

    fn new(_: NodeId, options: &Options) -> Bully {
        let liveness = LeaderLiveness::new(options.reaffirm, Timer::Reaffirm, Timer::Leader);
        Bully { options: *options, phase: Phase::Idle, belief: LeaderBelief::default(), liveness }
    }
}

impl Bully {
    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase != Phase::Idle {
            return;
        }
        if self.belief.is_best(cx) {
            return self.become_leader(cx);
        }
        self.phase = Phase::AwaitingAnswer;
        for peer in cx.view().above() {
            cx.send(peer, Message::Election);
        }
        cx.set_timer(Timer::Answer, cx.delay_bound() * self.options.answer_timeout);
    }

    fn become_leader(&mut self, cx: &mut Context<'_, Self>) {
        self.end_election(cx);
        self.belief.set_leader(cx, cx.me(), self.belief.term().next());
        self.reaffirm(cx);
    }

    fn end_election(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Idle => return,
            Phase::AwaitingAnswer => cx.cancel_timer(Timer::Answer),
            Phase::AwaitingCoordinator(_) => cx.cancel_timer(Timer::Coordinator),
        }
        self.phase = Phase::Idle;
    }

    fn await_coordinator(&mut self, cx: &mut Context<'_, Self>, leader: NodeId) {
        self.end_election(cx);
        self.phase = Phase::AwaitingCoordinator(leader);
        cx.set_timer(Timer::Coordinator, cx.delay_bound() * self.options.coordinator_timeout);
    }

    /// Announces this process as the leader to all that rank below.
    fn reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        for peer in cx.view().below() {
            cx.send(peer, Message::Coordinator { term: self.belief.term() });
        }
        self.liveness.start_reaffirming(cx);
    }

    fn on_election(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        if !cx.view().outranks(cx.me(), from) {
            return;
        }
        cx.send(from, Message::Answer);
        if !self.liveness.leader_announced_recently(cx, &self.belief) {
            self.call_election(cx);
        }
    }

    fn on_answer(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        match self.phase {
            Phase::AwaitingAnswer => self.await_coordinator(cx, from),
            Phase::AwaitingCoordinator(other) if cx.view().outranks(from, other) => {
                self.phase = Phase::AwaitingCoordinator(from);
            }
            Phase::Idle | Phase::AwaitingCoordinator(_) => {}
        }
    }

    /// Returns whether this process awaits the announcement of a peer that is better than `leader`.
    fn awaits_better_than(&self, cx: &Context<'_, Self>, leader: NodeId) -> bool {
        matches!(self.phase, Phase::AwaitingCoordinator(better)
            if cx.view().outranks(better, leader) && !self.belief.is_suspected(better))
    }

    fn on_coordinator(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let rejected = self.liveness.may_be_superseded(cx, &self.belief, from, term)
            || self.awaits_better_than(cx, from);
        if rejected || cx.view().outranks(cx.me(), from) {
            self.belief.observe_term(term);
            return self.call_election(cx);
        }
        self.liveness.record_announcement(cx, from);
        if self.belief.is_suspected(from) {
            return self.belief.reject_claim(from);
        }
        if self.belief.is_leader(cx) {
            cx.send(from, Message::Election);
        }
        self.end_election(cx);
        self.belief.set_leader(cx, from, term);
        self.liveness.expect_reaffirmation(cx);
    }
}

impl Process for Bully {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh => self.liveness.expect_reaffirmation(cx),
            // "When a crashed process reboots, it holds an election" (unimore).
            Start::Recovered(_) => self.call_election(cx),
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Election => self.on_election(cx, from),
            Message::Answer => self.on_answer(cx, from),
            Message::Coordinator { term } => self.on_coordinator(cx, from, term),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Answer => self.become_leader(cx),
            Timer::Coordinator => {
                self.phase = Phase::Idle;
                self.call_election(cx);
            }
            Timer::Reaffirm => self.reaffirm(cx),
            Timer::Leader => {
                self.belief.clear_leader(cx);
                self.call_election(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let lost_leader = self.belief.suspect(cx, peer);
        if self.phase != Phase::Idle && self.belief.is_best(cx) {
            self.become_leader(cx);
        } else if lost_leader {
            self.call_election(cx);
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let should_lead = self.belief.restore(cx, peer);
        let leads = self.belief.is_leader(cx);
        if leads && cx.view().outranks(cx.me(), peer) {
            cx.send(peer, Message::Coordinator { term: self.belief.term() });
        } else if leads {
            self.call_election(cx);
        } else if should_lead && self.phase == Phase::Idle {
            self.await_coordinator(cx, peer);
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

#[cfg(test)]
mod tests;
