//! The candidate/ordinary optimization of the bully algorithm (Murshed 2012; Database Internals,
//! ch. 10, "Candidate/Ordinary Optimization").
//!
//! Model: synchronous, crash and recovery; every process knows all members, their ranks, and the candidates: no
//! other process is ever elected. A failure detector triggers elections; without a detector, the application does
//! (`Campaign`).
//!
//! ```text
//!   4 ──Election──▶ 1, 2              the candidates that remain: 6 has failed
//!   4 ◀──Alive───── 1, 2
//!   4 ──Elected {2}──▶ 1, 2, 3, 5, 6  the best of them, to all processes
//! ```
//!
//! Cost: `N - 1` messages if the best live candidate calls and knows that it is; if all processes are candidates and
//! the worst calls, `3N - 3`, and `3N - 4` if the best is dead. The latter takes 4 message times: the three above,
//! and the caller's time-out for the reply of the dead one.
//!
//! Promise: some time after faults stop, the best live candidate of each component leads it, and a component without
//! candidates knows that it has no leader. Not promised: under partition every component elects a leader, and a late
//! message or a false suspicion can make two leaders for a while.
//!
//! Interpretations: all processes are candidates unless `candidates` are listed. A candidate that calls asks only
//! the candidates that rank above it. Suspected processes are not asked, but get the result like all others. The
//! tiebreaker δ is `delta` message delays times one more than the number of members that rank above, dead or alive.
//! It precedes an election that a process calls after a detection, but not an election that the application
//! requests. A process that sees another's election while its tiebreaker runs waits for the result, and calls if
//! there is none in time. The caller may be wrong about the best candidate: a better candidate that learns the
//! result holds an election itself, and the elected process gives the better leader that it believed in, if any, the
//! chance to do so (`Deposed`, not counted). If no candidate is alive, the caller announces that it is undecided and
//! retries after another δ. The rules of `bully` for repeated, overtaken and awaited announcements apply here too; a
//! leader that defers to a better one forwards the announcement.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bully::Bully;
use super::{LeaderBelief, LeaderLiveness, Poll};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Announcement, BadParameter, Command, Context, Contract, Cost, Formula, NodeId, Parameter,
    Process, Roster, Start, Term,
};

/// The messages of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I call an election, and you are a candidate."
    Election,
    /// "I am alive."
    Alive,
    /// "This process leads": the result of an election, or the leader's own announcement.
    Elected {
        /// The leader.
        leader: NodeId,
        /// The term.
        term: Term,
    },
    /// "I was told that I lead, though I believed you did."
    Deposed {
        /// The term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Election, Alive, Elected, Deposed: uncounted });

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The tiebreaker is over: the process calls an election.
    Tiebreaker,
    /// The wait for replies to the own election is over.
    Alive,
    /// The wait for the result of another's election is over.
    Elected,
    /// The leader is due to repeat its announcement.
    Reaffirm,
    /// A follower has missed the leader's repeated announcement.
    Leader,
}

suffrage_core::timer_indices!(Timer { Tiebreaker, Alive, Elected, Reaffirm, Leader });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The processes that may lead; all if empty. All processes must use the same set.
    pub candidates: Arc<BTreeSet<NodeId>>,
    /// The step of the tiebreaker from one rank to the next: more than an election takes.
    pub delta: u64,
    /// The time to wait for replies: more than a round trip.
    pub alive_timeout: u64,
    /// The time to wait for the result of another's election.
    pub elected_timeout: u64,
    /// The period of a leader's repeated announcement.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        let candidates = Arc::default();
        Options { candidates, delta: 4, alive_timeout: 3, elected_timeout: 6, reaffirm: None }
    }
}

impl Options {
    /// Returns whether this process may lead.
    fn is_candidate(&self, id: NodeId) -> bool {
        self.candidates.is_empty() || self.candidates.contains(&id)
    }
}

/// The phase of the process's own election, or of its wait for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The process has detected that an election is due, and lets processes of higher priority call it first.
    Tiebreaking,
    /// The process has seen another's election, and waits for the result.
    AwaitingResult,
    /// The process has called an election.
    Polling(Poll),
}

/// A process, candidate or ordinary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateOrdinary {
    options: Options,
    /// True if this process is a candidate.
    candidate: bool,
    phase: Phase,
    belief: LeaderBelief,
    liveness: LeaderLiveness<Timer>,
}

impl Algorithm for CandidateOrdinary {
    const CONTRACT: Contract = Contract {
        name: "candidate-ordinary",
        summary: "Only candidates can lead: the caller polls them and announces the best live one.",
        source: "Murshed 2012; Database Internals, figure 10-3",
        knowledge: "all members, their ranks and which are candidates",
        messages: Cost {
            best: Formula { text: "N - 1", of: |n| n - 1 },
            worst: Formula { text: "3N - 3", of: |n| 3 * (n - 1) },
        },
        time: Cost { best: Formula { text: "1", of: |_| 1 }, worst: Formula { text: "4", of: |_| 4 } },
        ..Bully::CONTRACT
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        Parameter {
            name: "candidates",
            value: "IDS",
            help: "Processes that may lead, like 1,2,6; all by default",
            set: |options, text| {
                parameters::ids(text).map(|ids| options.candidates = Arc::new(ids.into_iter().collect()))
            },
            show: |options| parameters::show_ids(options.candidates.iter()),
        },
        parameters::delays_parameter!(
            "delta",
            delta,
            "Step of the tiebreaker from one rank to the next: more than the time of an election"
        ),
        parameters::delays_parameter!(
            "alive-timeout",
            alive_timeout,
            "Time to wait for the replies of candidates: more than a round trip"
        ),
        parameters::delays_parameter!(
            "elected-timeout",
            elected_timeout,
            "Time to wait for the result of another's election before calling one"
        ),
        parameters::reaffirm_parameter!(),
    ];

    fn new(me: NodeId, options: &Options) -> CandidateOrdinary {
        CandidateOrdinary {
            options: options.clone(),
            candidate: options.is_candidate(me),
            phase: Phase::Idle,
            belief: LeaderBelief::default(),
            liveness: LeaderLiveness::new(options.reaffirm, Timer::Reaffirm, Timer::Leader),
        }
    }

    fn may_lead(&self) -> bool {
        self.candidate
    }

    fn check(options: &Options, roster: &Roster) -> Result<(), BadParameter> {
        parameters::check_members("candidates", options.candidates.iter(), roster)
    }
}

impl CandidateOrdinary {
    /// Starts the tiebreaker of a due election: "a tiebreaker variable δ, a process-specific delay, […] allows one
    /// of the nodes to initiate the election before the other ones. […] Nodes with higher priorities have a lower δ,
    /// and vice versa."
    fn start_tiebreaker(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Tiebreaking;
            let position = 1 + cx.view().above().count() as u64;
            cx.set_timer(Timer::Tiebreaker, cx.delay_bound() * (position * self.options.delta));
        }
    }

    /// "The ordinary process initiates election by contacting candidate nodes".
    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        if let Phase::Polling(_) = self.phase {
            return;
        }
        self.end_election(cx);
        let rivals: Vec<NodeId> = self.rivals(cx).collect();
        if rivals.is_empty() {
            return self.conclude(cx, None);
        }
        for &rival in &rivals {
            cx.send(rival, Message::Election);
        }
        self.phase = Phase::Polling(Poll::new(rivals.into_iter()));
        self.await_replies(cx);
    }

    fn await_replies(&self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Alive, cx.delay_bound() * self.options.alive_timeout);
    }

    /// "[…] collecting responses from them, picking the highest-ranked alive candidate as a new leader,
    /// and then notifying the rest of the nodes about the election results."
    fn conclude(&mut self, cx: &mut Context<'_, Self>, best_rival: Option<NodeId>) {
        self.end_election(cx);
        let Some(leader) = best_rival.or(self.candidate.then_some(cx.me())) else {
            return self.announce_undecided(cx);
        };
        self.follow_leader(cx, leader, self.belief.term().next());
        self.announce(cx, leader);
    }

    fn announce_undecided(&mut self, cx: &mut Context<'_, Self>) {
        match self.belief.leader() {
            Some(_) => self.belief.clear_leader(cx),
            None => cx.announce(Announcement::Undecided),
        }
        self.start_tiebreaker(cx);
    }

    fn end_election(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Idle => return,
            Phase::Tiebreaking => cx.cancel_timer(Timer::Tiebreaker),
            Phase::AwaitingResult => cx.cancel_timer(Timer::Elected),
            Phase::Polling(_) => cx.cancel_timer(Timer::Alive),
        }
        self.phase = Phase::Idle;
    }

    fn follow_leader(&mut self, cx: &mut Context<'_, Self>, leader: NodeId, term: Term) {
        self.belief.set_leader(cx, leader, term);
        if leader == cx.me() {
            self.liveness.start_reaffirming(cx);
        } else {
            self.liveness.record_announcement(cx, leader);
            self.liveness.expect_reaffirmation(cx);
        }
    }

    fn announce(&self, cx: &mut Context<'_, Self>, leader: NodeId) {
        for peer in cx.view().peers() {
            cx.send(peer, Message::Elected { leader, term: self.belief.term() });
        }
    }

    /// Returns whether the peer is preferred to this process: any candidate to an ordinary process, a better one to
    /// a candidate.
    fn is_rival(&self, cx: &Context<'_, Self>, peer: NodeId) -> bool {
        self.options.is_candidate(peer) && (!self.candidate || cx.view().outranks(peer, cx.me()))
    }

    /// Returns whether this process is preferred to that candidate.
    fn is_rival_of(&self, cx: &Context<'_, Self>, candidate: NodeId) -> bool {
        self.candidate && cx.view().outranks(cx.me(), candidate)
    }

    /// The rivals that are not suspected.
    fn rivals(&self, cx: &Context<'_, Self>) -> impl Iterator<Item = NodeId> {
        cx.view().peers().filter(|&peer| self.is_rival(cx, peer) && !self.belief.is_suspected(peer))
    }

    fn on_election(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        if self.candidate {
            cx.send(from, Message::Alive);
        }
        if self.phase == Phase::Tiebreaking {
            self.end_election(cx);
            self.phase = Phase::AwaitingResult;
            cx.set_timer(Timer::Elected, cx.delay_bound() * self.options.elected_timeout);
        }
    }

    fn on_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId, term: Term) {
        if !self.options.is_candidate(leader) || !cx.view().contains(leader) {
            return;
        }
        // A process that is elected while an election is due asks its rivals first.
        let must_ask_rivals =
            leader == cx.me() && self.phase != Phase::Idle && self.rivals(cx).next().is_some();
        if must_ask_rivals || self.is_rival_of(cx, leader) {
            self.belief.observe_term(term);
            self.call_election(cx);
        } else if self.liveness.may_be_superseded(cx, &self.belief, leader, term) {
            self.start_tiebreaker(cx);
        } else if self.belief.is_suspected(leader) {
            self.liveness.record_announcement(cx, leader);
            self.belief.reject_claim(leader);
            if self.belief.leader().is_none() {
                self.start_tiebreaker(cx);
            }
        } else {
            let former = self.belief.leader().filter(|&former| former != leader);
            self.end_election(cx);
            self.follow_leader(cx, leader, term);
            match former {
                Some(former) if former == cx.me() => self.announce(cx, leader),
                Some(better) if leader == cx.me() => cx.send(better, Message::Deposed { term }),
                _ => {}
            }
        }
    }
}

impl Process for CandidateOrdinary {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh => self.liveness.expect_reaffirmation(cx),
            Start::Recovered(_) => self.start_tiebreaker(cx),
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match (message, &mut self.phase) {
            (Message::Election, _) => self.on_election(cx, from),
            (Message::Alive, Phase::Polling(poll)) => {
                poll.on_alive(from);
                if poll.is_complete() {
                    let best = poll.best(cx.view());
                    self.conclude(cx, best);
                }
            }
            (Message::Alive, _) => {}
            (Message::Elected { leader, term }, _) => self.on_elected(cx, leader, term),
            (Message::Deposed { term }, _) => self.on_elected(cx, from, term),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match (timer, &self.phase) {
            (Timer::Tiebreaker | Timer::Elected, _) => self.call_election(cx),
            (Timer::Alive, Phase::Polling(poll)) => self.conclude(cx, poll.best(cx.view())),
            (Timer::Alive, _) => {}
            (Timer::Reaffirm, _) => {
                self.announce(cx, cx.me());
                self.liveness.start_reaffirming(cx);
            }
            (Timer::Leader, _) => {
                self.belief.clear_leader(cx);
                self.start_tiebreaker(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        if self.belief.suspect(cx, peer) {
            self.start_tiebreaker(cx);
        }
        if let Phase::Polling(poll) = &mut self.phase {
            poll.on_suspect(peer);
            if poll.is_complete() {
                let best = poll.best(cx.view());
                self.conclude(cx, best);
            }
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let should_lead = self.belief.restore(cx, peer);
        let leads = self.belief.is_leader(cx);
        let rival = self.is_rival(cx, peer);
        match &mut self.phase {
            _ if leads && !rival => {
                cx.send(peer, Message::Elected { leader: cx.me(), term: self.belief.term() });
            }
            Phase::Polling(poll) if rival => {
                poll.await_reply(peer);
                cx.send(peer, Message::Election);
                self.await_replies(cx);
            }
            _ if leads => self.call_election(cx),
            _ if should_lead && self.options.is_candidate(peer) => self.start_tiebreaker(cx),
            _ => {}
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        let must_replace = match self.belief.leader() {
            Some(leader) if leader == cx.me() => self.rivals(cx).next().is_some(),
            Some(leader) => self.is_rival_of(cx, leader),
            None => false,
        };
        if must_replace {
            self.call_election(cx);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        if command == Command::Campaign {
            self.call_election(cx);
        }
    }
}

#[cfg(test)]
mod tests;
