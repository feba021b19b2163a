//! The bully algorithm (Garcia-Molina 1982; cs425 slides 32-43; unimore).
//!
//! Model: synchronous, crash and recovery; everybody knows everybody and how each ranks. A failure
//! detector tells when to call an election; without one, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election──▶ 4, 5, 6      to all that rank above
//!   3 ◀──Answer──── 4, 5         and 4 and 5 hold elections of their own
//!   5 ──Coordinator──▶ 1, 2, 3, 4    nobody above 5 answered in time
//! ```
//!
//! Cost: `N - 2` messages if the second best calls and knows that the best is dead; `N - 1` if the best
//! calls; `N^2 - N - 1` if the best is dead and the worst calls; `N^2 - 1` if the worst calls and all
//! live, which is the unimore slides' `N (N - 1)` and the `N - 1` announcements.
//!
//! Promises that some time after faults stop, the best live process of each component leads it.
//! Does not promise more: under partition every part elects a leader, and a late message or a wrong
//! suspicion can make two leaders for a while.
//!
//! Readings: a process asked within a round trip of a leader's announcement, its own or another's, only
//! answers, since that announcement is on its way to the caller too ("unless it has already done so").
//! Terms count the announcements a leader has made or heard of; one that was away starts behind. The
//! sources assume that no message is lost; for a network that loses some, `reaffirm` repeats the
//! announcement periodically and makes followers that miss it call an election. They do not speak of
//! partitions that heal, of wrong suspicions, or of messages that overtake each other either; so
//! - an announcement that a better one may have overtaken is not believed: its receiver calls, unless
//!   a better one has answered it and is waited for;
//! - a leader that gives way to a better one asks it to announce itself, in case it has not to those
//!   that the former leader had told;
//! - a process that no longer suspects one that outranks its leader waits for the announcement, and
//!   calls if there is none.

use serde::{Deserialize, Serialize};

use super::{Outlook, Tenure};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Choice, Command, Context, Contract, Cost, Detection, Electorate, Formula, NodeId, Parameter,
    Process, Safety, Start, Synchrony, Term, Topology,
};

/// What processes of this algorithm say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I call an election, and you rank above me."
    Election,
    /// "I am alive, and will see to it." The slides' OK.
    Answer,
    /// "I lead."
    Coordinator {
        /// In which term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Election, Answer, Coordinator });

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// An answer to its election.
    Answer,
    /// The announcement of the one that answered.
    Coordinator,
    /// As a leader: the next time to repeat the announcement.
    Reaffirm,
    /// As a follower: the leader's repeated announcement.
    Leader,
}

suffrage_core::timer_indices!(Timer { Answer, Coordinator, Reaffirm, Leader });

/// What can be set about the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How long to wait for an answer: more than a round trip.
    pub answer_timeout: u64,
    /// How long to wait, once answered, for an announcement.
    pub coordinator_timeout: u64,
    /// How often a leader repeats its announcement.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { answer_timeout: 3, coordinator_timeout: 6, reaffirm: None }
    }
}

/// Where a process is in its own election. It runs at most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    AwaitingAnswer,
    /// The announcement of this one, the best that answered, or of a better one.
    AwaitingCoordinator(NodeId),
}

/// A process of the bully algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bully {
    options: Options,
    phase: Phase,
    outlook: Outlook,
    tenure: Tenure<Timer>,
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
        persists: true,
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
            "How long to wait for an answer: more than a round trip"
        ),
        parameters::delays_parameter!(
            "coordinator-timeout",
            coordinator_timeout,
            "How long to wait, once answered, for the announcement before calling again"
        ),
        parameters::reaffirm_parameter!(),
    ];

    fn new(_: NodeId, options: &Options) -> Bully {
        let tenure = Tenure::new(options.reaffirm, Timer::Reaffirm, Timer::Leader);
        Bully { options: *options, phase: Phase::Idle, outlook: Outlook::default(), tenure }
    }
}

impl Bully {
    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase != Phase::Idle {
            return;
        }
        if self.outlook.is_best(cx) {
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
        self.outlook.believe(cx, cx.me(), self.outlook.term().next());
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
            cx.send(peer, Message::Coordinator { term: self.outlook.term() });
        }
        self.tenure.lead(cx);
    }

    fn on_election(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        if !cx.view().outranks(cx.me(), from) {
            return;
        }
        cx.send(from, Message::Answer);
        if !self.tenure.is_fresh(cx, &self.outlook) {
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

    /// Whether one that is better than this leader has answered.
    fn expects_better_than(&self, cx: &Context<'_, Self>, leader: NodeId) -> bool {
        matches!(self.phase, Phase::AwaitingCoordinator(better)
            if cx.view().outranks(better, leader) && !self.outlook.suspects(better))
    }

    fn on_coordinator(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let doubtful =
            self.tenure.doubts(cx, &self.outlook, from, term) || self.expects_better_than(cx, from);
        if doubtful || cx.view().outranks(cx.me(), from) {
            self.outlook.hear(term);
            return self.call_election(cx);
        }
        self.tenure.hear(cx, from);
        if self.outlook.suspects(from) {
            return self.outlook.pass_over(from);
        }
        if self.outlook.leads(cx) {
            cx.send(from, Message::Election);
        }
        self.end_election(cx);
        self.outlook.believe(cx, from, term);
        self.tenure.follow(cx);
    }
}

impl Process for Bully {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh => self.tenure.follow(cx),
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
                self.outlook.forget(cx);
                self.call_election(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let leaderless = self.outlook.suspect(cx, peer);
        if self.phase != Phase::Idle && self.outlook.is_best(cx) {
            self.become_leader(cx);
        } else if leaderless {
            self.call_election(cx);
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let missed = self.outlook.restore(cx, peer);
        let leads = self.outlook.leads(cx);
        if leads && cx.view().outranks(cx.me(), peer) {
            cx.send(peer, Message::Coordinator { term: self.outlook.term() });
        } else if leads {
            self.call_election(cx);
        } else if missed && self.phase == Phase::Idle {
            self.await_coordinator(cx, peer);
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

#[cfg(test)]
mod tests;
