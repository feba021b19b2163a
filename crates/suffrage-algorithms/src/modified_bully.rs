//! The modified bully algorithm (Kordafshari 2005; Database Internals, ch. 10, "Bully Algorithm").
//!
//! Model: synchronous, crash and recovery; everybody knows everybody and how each ranks. A failure
//! detector tells when to call an election; without one, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election──▶ 4, 5, 6      to all that rank above
//!   3 ◀──Alive───── 4, 5         which hold no elections of their own
//!   3 ──Proceed───▶ 5            to the best that replied
//!   5 ──Elected───▶ 1, 2, 3, 4   to all that rank below
//! ```
//!
//! Cost: `N - 2` messages if the second best knows that the best is dead; `3N - 2` if the worst calls
//! and all live; `3N - 4` if it does and the best is dead. The latter takes 5 message times, as the slides count the classic run:
//! the four above, and the caller's time-out for the reply of the dead one as the fifth.
//!
//! Promises that some time after faults stop, the best live process of each component leads it.
//! Does not promise more: under partition every part elects a leader, and a late message or a wrong
//! suspicion can make two leaders for a while.
//!
//! Readings: the caller stops waiting when everybody has replied that its detector does not suspect.
//! The source does not say what happens if the one that was notified fails: its announcement is
//! awaited, and the election starts again without it. One that is notified while it holds an
//! election of its own goes on with that. One that is notified while it believes in a better leader
//! proceeds as told, and gives that leader the chance to object (`Deposed`, counted apart): the
//! caller may have suspected it wrongly. What is said in `bully` of announcements that are repeated,
//! overtaken, asked for and waited for holds here too.

use serde::{Deserialize, Serialize};

use super::bully::Bully;
use super::{Outlook, Poll, Tenure};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Command, Context, Contract, Cost, Formula, NodeId, Parameter, Process, Start, Term,
};

/// What processes of this algorithm say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I call an election, and you rank above me."
    Election,
    /// "I am alive."
    Alive,
    /// "Nobody better than you is alive: proceed with step 3."
    Proceed,
    /// "I lead."
    Elected {
        /// In which term.
        term: Term,
    },
    /// "I was told to lead, though I believed you did."
    Deposed {
        /// In which term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Election, Alive, Proceed, Elected, Deposed: apart });

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The replies to its election.
    Alive,
    /// The announcement of the one it notified.
    Elected,
    /// As a leader: the next time to repeat the announcement.
    Reaffirm,
    /// As a follower: the leader's repeated announcement.
    Leader,
}

suffrage_core::timer_indices!(Timer { Alive, Elected, Reaffirm, Leader });

/// What can be set about the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How long to wait for replies: more than a round trip.
    pub alive_timeout: u64,
    /// How long to wait for the announcement of the one that was notified.
    pub elected_timeout: u64,
    /// How often a leader repeats its announcement.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { alive_timeout: 3, elected_timeout: 6, reaffirm: None }
    }
}

/// Where a process is in its own election. It runs at most one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// Step 2: higher-ranked processes are allowed to respond.
    Polling(Poll),
    /// This one is alive and has been notified, or is expected to know that it is the best.
    AwaitingElected(NodeId),
}

/// A process of the modified bully algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModifiedBully {
    options: Options,
    phase: Phase,
    outlook: Outlook,
    tenure: Tenure<Timer>,
}

impl Algorithm for ModifiedBully {
    const CONTRACT: Contract = Contract {
        name: "modified-bully",
        summary: "The caller asks who is alive above it and lets the best of them take over.",
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
            "How long to wait for replies: more than a round trip"
        ),
        parameters::delays_parameter!(
            "elected-timeout",
            elected_timeout,
            "How long to wait for the announcement of the one notified before calling again"
        ),
        parameters::reaffirm_parameter!(),
    ];

    fn new(_: NodeId, options: &Options) -> ModifiedBully {
        let tenure = Tenure::new(options.reaffirm, Timer::Reaffirm, Timer::Leader);
        ModifiedBully { options: *options, phase: Phase::Idle, outlook: Outlook::default(), tenure }
    }
}

impl ModifiedBully {
    /// Step 1: "The process sends election messages to processes with higher identifiers."
    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Idle if self.outlook.is_best(cx) => self.become_leader(cx),
            Phase::Idle => {
                self.phase = Phase::Polling(Poll::above(cx, &self.outlook, Message::Election));
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
        self.outlook.believe(cx, cx.me(), self.outlook.term().next());
        self.reaffirm(cx);
    }

    /// Announces this process as the leader to all that rank below.
    fn reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        for peer in cx.view().below() {
            cx.send(peer, Message::Elected { term: self.outlook.term() });
        }
        self.tenure.lead(cx);
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

    fn expects_better_than(&self, cx: &Context<'_, Self>, leader: NodeId) -> bool {
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
        let leader = self.outlook.leader();
        if self.phase != Phase::Idle || self.tenure.is_announcing(cx, &self.outlook) {
            return;
        }
        self.become_leader(cx);
        if let Some(better) = leader.filter(|&leader| cx.view().outranks(leader, cx.me())) {
            cx.send(better, Message::Deposed { term: self.outlook.term() });
        }
    }

    fn on_elected(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let doubtful = self.tenure.doubts(cx, &self.outlook, from, term);
        if doubtful || self.expects_better_than(cx, from) || cx.view().outranks(cx.me(), from) {
            self.outlook.hear(term);
            return self.call_election(cx);
        }
        self.tenure.hear(cx, from);
        if self.outlook.suspects(from) {
            return self.outlook.pass_over(from);
        }
        self.end_election(cx);
        if self.outlook.leads(cx) {
            cx.send(from, Message::Proceed);
        }
        self.outlook.believe(cx, from, term);
        self.tenure.follow(cx);
    }
}

impl Process for ModifiedBully {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh => self.tenure.follow(cx),
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
                self.outlook.forget(cx);
                self.call_election(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let leaderless = self.outlook.suspect(cx, peer);
        match &mut self.phase {
            Phase::Idle if leaderless => self.call_election(cx),
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
        let missed = self.outlook.restore(cx, peer);
        let leads = self.outlook.leads(cx);
        match &mut self.phase {
            _ if leads && cx.view().outranks(cx.me(), peer) => {
                cx.send(peer, Message::Elected { term: self.outlook.term() });
            }
            Phase::Idle if leads => self.call_election(cx),
            Phase::Idle if missed => self.await_elected(cx, peer),
            Phase::Polling(poll) if cx.view().outranks(peer, cx.me()) => {
                poll.expect(peer);
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
        if self.outlook.is_overtaken(cx) {
            self.call_election(cx);
        }
    }
}

#[cfg(test)]
mod tests;
