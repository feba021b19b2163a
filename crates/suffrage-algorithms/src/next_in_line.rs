//! Next-in-line failover (Gholipour 2009; Database Internals, ch. 10, "Next-In-Line Failover").
//!
//! Model: synchronous, crash and recovery; every process knows all members and their ranks. A failure detector
//! reports the failure of the leader; without a detector, the application does (`Campaign`).
//!
//! ```text
//!   6 ──Elected {5, 4}──▶ 1, 2, 3, 4, 5    a leader names its alternatives, and fails
//!   3 ──Contact {6}──▶ 5                   to the best alternative
//!   3 ◀──Alive──────── 5                   so 3 does not contact 4
//!   5 ──Elected {4, 3}──▶ 1, 2, 3, 4       to all but 6
//! ```
//!
//! Cost: `N - 2` messages if the best alternative is the one that detects the failure; `N` if it is
//! alive; one message and a time-out more for each alternative that is not. When no alternative is
//! left, or none was ever named, the election is that of the modified bully algorithm: up to `3N - 2`.
//!
//! Promise: some time after faults stop, the best live process of each component leads it. Not promised: under
//! partition every component elects a leader, and a late message or a false suspicion can make two leaders for a
//! while.
//!
//! Interpretations: the alternatives are the best processes that the leader does not suspect. The leader names them
//! anew with every announcement, not whenever one of them fails. A process that ranks above all alternatives does
//! not contact them. Since the list may be outdated, an alternative also announces itself to processes that rank
//! above it, which object by holding an election. The alternative does not announce itself to the leader that is
//! reported as failed; but if it still believed in that leader itself, it gives that leader the chance to object
//! (`Deposed`, not counted). A process that knows the alternatives but not their leader (`alternatives`) assumes
//! that they are those of the best-ranked member. The rules of `bully` for repeated, overtaken, requested and
//! awaited announcements apply here too.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bully::Bully;
pub use super::modified_bully::Timer;
use super::{LeaderBelief, LeaderLiveness, Poll};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, BadParameter, Command, Context, Contract, Cost, Formula, NodeId, Parameter, Process, Rank,
    Roster, Start, Term,
};

/// The messages of the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "You are next in line."
    Contact {
        /// The leader that has failed, if known.
        failed: Option<NodeId>,
    },
    /// "I am alive": to a process that contacted this one or called an election.
    Alive,
    /// "I lead."
    Elected {
        /// The term.
        term: Term,
        /// The processes to contact if this leader fails, the best first.
        alternatives: Vec<NodeId>,
    },
    /// "There is no alternative left, and you rank above me."
    Election,
    /// "You are the best that is left: take over."
    Proceed,
    /// "I was told to lead, though I believed you did."
    Deposed {
        /// The term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Contact, Alive, Elected, Election, Proceed, Deposed: uncounted });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The number of alternatives that a leader names.
    pub spares: usize,
    /// The alternatives of the last leader, the best first, that a process knows at its start.
    pub alternatives: Arc<[NodeId]>,
    /// The time to wait for an alternative, or for the replies to an election: more than a round trip.
    pub alive_timeout: u64,
    /// The time to wait for the announcement of the process that takes over.
    pub elected_timeout: u64,
    /// The period of a leader's repeated announcement.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        let alternatives = Arc::new([]);
        Options { spares: 2, alternatives, alive_timeout: 3, elected_timeout: 6, reaffirm: None }
    }
}

/// The phase of the process's own election. A process runs at most one election at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The alternative at this index of the list has been contacted.
    Contacting(usize),
    /// No alternative is left: all higher processes have been asked.
    Polling(Poll),
    /// This process is alive, and must announce itself.
    AwaitingElected(NodeId),
}

/// The failover nodes that a leader has named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FailoverList {
    leader: Option<NodeId>,
    alternatives: Vec<NodeId>,
}

/// A process of the bully algorithm with next-in-line failover.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextInLine {
    options: Options,
    phase: Phase,
    failover: FailoverList,
    belief: LeaderBelief,
    liveness: LeaderLiveness<Timer>,
}

impl Algorithm for NextInLine {
    const CONTRACT: Contract = Contract {
        name: "next-in-line",
        summary: "A leader names its successors in advance; if it fails, the first one alive takes over.",
        source: "Gholipour 2009; Database Internals, figure 10-2",
        messages: Cost {
            best: Formula { text: "N - 2", of: |n| n.saturating_sub(2) },
            worst: Formula { text: "3N - 2", of: |n| 3 * n - 2 },
        },
        ..Bully::CONTRACT
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        Parameter {
            name: "spares",
            value: "K",
            help: "Number of alternatives that a leader names",
            set: |options, text| parameters::count(text).map(|count| options.spares = count),
            show: |options| options.spares.to_string(),
        },
        Parameter {
            name: "alternatives",
            value: "IDS",
            help: "Alternatives of the last leader, the best first, like 5,4; none by default",
            set: |options, text| parameters::ids(text).map(|ids| options.alternatives = ids.into()),
            show: |options| parameters::show_ids(options.alternatives.iter()),
        },
        parameters::delays_parameter!(
            "alive-timeout",
            alive_timeout,
            "Time to wait for an alternative or for replies: more than a round trip"
        ),
        parameters::delays_parameter!(
            "elected-timeout",
            elected_timeout,
            "Time to wait for the announcement of the process that takes over"
        ),
        parameters::reaffirm_parameter!(),
    ];

    fn new(_: NodeId, options: &Options) -> NextInLine {
        NextInLine {
            phase: Phase::Idle,
            failover: FailoverList { leader: None, alternatives: options.alternatives.to_vec() },
            belief: LeaderBelief::default(),
            liveness: LeaderLiveness::new(options.reaffirm, Timer::Reaffirm, Timer::Leader),
            options: options.clone(),
        }
    }

    fn check(options: &Options, roster: &Roster) -> Result<(), BadParameter> {
        parameters::check_members("alternatives", options.alternatives.iter(), roster)
    }
}

impl NextInLine {
    /// "When one of the processes detects a leader failure, it starts a new election round by sending
    /// a message to the highest-ranked alternative from the list provided by the failed leader."
    fn fail_over(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase == Phase::Idle {
            self.contact(cx, 0);
        }
    }

    /// Contacts the first alternative from this index on that is not suspected.
    fn contact(&mut self, cx: &mut Context<'_, Self>, index: usize) {
        self.end_election(cx);
        let failed = self.failed_leader(cx);
        let mut rest = self.failover.alternatives.iter().copied().enumerate().skip(index);
        match rest.find(|&(_, next)| !self.belief.is_suspected(next)) {
            // "If the process that has detected the leader failure is itself the highest ranked
            // process from the list, it can notify the processes about the new leader right away."
            Some((_, next)) if next == cx.me() => self.take_over(cx, failed),
            Some((index, next)) if cx.view().outranks(next, cx.me()) => {
                cx.send(next, Message::Contact { failed });
                self.phase = Phase::Contacting(index);
                self.await_alive(cx);
            }
            Some(_) | None => self.call_election(cx),
        }
    }

    fn await_alive(&self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Alive, cx.delay_bound() * self.options.alive_timeout);
    }

    /// The leader whose alternatives this process knows.
    fn failed_leader(&self, cx: &Context<'_, Self>) -> Option<NodeId> {
        let best = || cx.view().iter().max_by_key(|&member| cx.view().rank(member));
        let presumed = || best().filter(|member| !self.failover.alternatives.contains(member));
        self.failover.leader.or_else(presumed)
    }

    /// "If one of the proposed alternatives is up, it becomes a new leader without having to go
    /// through the complete election round."
    fn take_over(&mut self, cx: &mut Context<'_, Self>, failed: Option<NodeId>) {
        let others =
            cx.view().peers().filter(|&peer| Some(peer) != failed && !self.belief.is_suspected(peer));
        let others = others.collect();
        let replaced = self.better_leader(cx).filter(|&leader| Some(leader) == failed);
        self.become_leader(cx, others);
        self.notify_replaced(cx, replaced);
    }

    /// The complete election round, as in the modified bully algorithm.
    fn call_election(&mut self, cx: &mut Context<'_, Self>) {
        if self.phase != Phase::Idle {
            return;
        }
        if self.belief.is_best(cx) {
            return self.become_leader(cx, cx.view().below().collect());
        }
        self.phase = Phase::Polling(Poll::ask_higher(cx, &self.belief, Message::Election));
        self.await_alive(cx);
    }

    fn call_again(&mut self, cx: &mut Context<'_, Self>) {
        self.end_election(cx);
        self.call_election(cx);
    }

    fn close_poll(&mut self, cx: &mut Context<'_, Self>, best: Option<NodeId>) {
        match best {
            None => self.become_leader(cx, cx.view().below().collect()),
            Some(best) => {
                cx.send(best, Message::Proceed);
                self.await_elected(cx, best);
            }
        }
    }

    fn await_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId) {
        self.end_election(cx);
        self.phase = Phase::AwaitingElected(leader);
        cx.set_timer(Timer::Elected, cx.delay_bound() * self.options.elected_timeout);
    }

    fn become_leader(&mut self, cx: &mut Context<'_, Self>, addressees: Vec<NodeId>) {
        self.end_election(cx);
        self.belief.set_leader(cx, cx.me(), self.belief.term().next());
        self.announce(cx, addressees);
        self.liveness.start_reaffirming(cx);
    }

    fn end_election(&mut self, cx: &mut Context<'_, Self>) {
        match self.phase {
            Phase::Idle => return,
            Phase::Contacting(_) | Phase::Polling(_) => cx.cancel_timer(Timer::Alive),
            Phase::AwaitingElected(_) => cx.cancel_timer(Timer::Elected),
        }
        self.phase = Phase::Idle;
    }

    /// Announces this process as the leader, with its alternatives.
    fn announce(&self, cx: &mut Context<'_, Self>, addressees: Vec<NodeId>) {
        let view = cx.view();
        let below = view.below().filter(|&peer| !self.belief.is_suspected(peer));
        let mut ranks: Vec<Rank> = below.filter_map(|peer| view.rank(peer)).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        let alternatives: Vec<NodeId> = ranks.iter().take(self.options.spares).map(|rank| rank.id).collect();
        for peer in addressees {
            cx.send(peer, Message::Elected { term: self.belief.term(), alternatives: alternatives.clone() });
        }
    }

    /// The leader that this process believes in, if it outranks this process.
    fn better_leader(&self, cx: &Context<'_, Self>) -> Option<NodeId> {
        self.belief.leader().filter(|&leader| cx.view().outranks(leader, cx.me()))
    }

    fn notify_replaced(&self, cx: &mut Context<'_, Self>, leader: Option<NodeId>) {
        if let Some(leader) = leader {
            cx.send(leader, Message::Deposed { term: self.belief.term() });
        }
    }

    /// Returns whether this process takes part in an election, or has just announced the result.
    fn is_engaged(&self, cx: &Context<'_, Self>) -> bool {
        self.phase != Phase::Idle || self.liveness.self_announced_recently(cx, &self.belief)
    }

    /// The process that is expected to take over.
    fn successor(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Contacting(index) => self.failover.alternatives.get(index).copied(),
            Phase::AwaitingElected(leader) => Some(leader),
            Phase::Idle | Phase::Polling(_) => None,
        }
    }

    fn on_contact(&mut self, cx: &mut Context<'_, Self>, from: NodeId, failed: Option<NodeId>) {
        cx.send(from, Message::Alive);
        if !self.is_engaged(cx) {
            self.take_over(cx, failed);
        }
    }

    fn on_alive(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        match &mut self.phase {
            // "5 responds to 3 that it's alive to prevent it from contacting other nodes from the
            // alternatives list" (figure 10-2, b).
            Phase::Contacting(index) if self.failover.alternatives.get(*index) == Some(&from) => {
                self.await_elected(cx, from);
            }
            Phase::Polling(poll) => {
                poll.on_alive(from);
                if poll.is_complete() {
                    let best = poll.best(cx.view());
                    self.close_poll(cx, best);
                }
            }
            Phase::Idle | Phase::Contacting(_) | Phase::AwaitingElected(_) => {}
        }
    }

    fn on_proceed(&mut self, cx: &mut Context<'_, Self>) {
        if !self.is_engaged(cx) {
            let replaced = self.better_leader(cx);
            self.become_leader(cx, cx.view().below().collect());
            self.notify_replaced(cx, replaced);
        }
    }

    fn on_elected(
        &mut self,
        cx: &mut Context<'_, Self>,
        leader: NodeId,
        term: Term,
        alternatives: Vec<NodeId>,
    ) {
        let rejected = self.liveness.may_be_superseded(cx, &self.belief, leader, term)
            || matches!(self.phase, Phase::AwaitingElected(better) if cx.view().outranks(better, leader));
        if cx.view().outranks(cx.me(), leader) || rejected {
            self.belief.observe_term(term);
            return self.call_election(cx);
        }
        self.liveness.record_announcement(cx, leader);
        if self.belief.is_suspected(leader) {
            return self.belief.reject_claim(leader);
        }
        if self.belief.is_leader(cx) {
            cx.send(leader, Message::Proceed);
        }
        self.end_election(cx);
        self.failover = FailoverList { leader: Some(leader), alternatives };
        self.belief.set_leader(cx, leader, term);
        self.liveness.expect_reaffirmation(cx);
    }
}

impl Process for NextInLine {
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
            Message::Contact { failed } => self.on_contact(cx, from, failed),
            Message::Alive => self.on_alive(cx, from),
            Message::Elected { term, alternatives } => self.on_elected(cx, from, term, alternatives),
            Message::Election if cx.view().outranks(cx.me(), from) => cx.send(from, Message::Alive),
            Message::Election => {}
            Message::Proceed => self.on_proceed(cx),
            Message::Deposed { term } => self.on_elected(cx, from, term, Vec::new()),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match (timer, &self.phase) {
            (Timer::Alive, Phase::Contacting(index)) => self.contact(cx, index + 1),
            (Timer::Alive, Phase::Polling(poll)) => self.close_poll(cx, poll.best(cx.view())),
            (Timer::Alive, Phase::Idle | Phase::AwaitingElected(_)) => {}
            // The alternatives have failed: a complete election follows.
            (Timer::Elected, _) => self.call_again(cx),
            (Timer::Reaffirm, _) => {
                self.announce(cx, cx.view().below().collect());
                self.liveness.start_reaffirming(cx);
            }
            (Timer::Leader, _) => {
                self.belief.clear_leader(cx);
                self.fail_over(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let lost_leader = self.belief.suspect(cx, peer);
        let successor = self.successor();
        match &mut self.phase {
            Phase::Idle if lost_leader => self.fail_over(cx),
            Phase::Polling(poll) => {
                poll.on_suspect(peer);
                if poll.is_complete() {
                    let best = poll.best(cx.view());
                    self.close_poll(cx, best);
                }
            }
            Phase::Contacting(index) if successor == Some(peer) => {
                let next = *index + 1;
                self.contact(cx, next);
            }
            Phase::AwaitingElected(_) if successor == Some(peer) => self.call_again(cx),
            Phase::Idle | Phase::Contacting(_) | Phase::AwaitingElected(_) => {}
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let should_lead = self.belief.restore(cx, peer);
        let leads = self.belief.is_leader(cx);
        let better = self.successor().is_some_and(|other| cx.view().outranks(peer, other));
        match &mut self.phase {
            _ if leads && cx.view().outranks(cx.me(), peer) => self.announce(cx, vec![peer]),
            Phase::Idle if leads => self.call_election(cx),
            Phase::Polling(poll) if cx.view().outranks(peer, cx.me()) => {
                cx.send(peer, Message::Election);
                poll.await_reply(peer);
                self.await_alive(cx);
            }
            Phase::Idle if should_lead => self.await_elected(cx, peer),
            Phase::Contacting(_) | Phase::AwaitingElected(_) if better => self.await_elected(cx, peer),
            Phase::Idle | Phase::Contacting(_) | Phase::Polling(_) | Phase::AwaitingElected(_) => {}
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.belief.should_replace_leader(cx) {
            self.call_election(cx);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Campaign if self.belief.is_leader(cx) => self.call_election(cx),
            Command::Campaign => self.fail_over(cx),
            Command::Resign | Command::Transfer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
