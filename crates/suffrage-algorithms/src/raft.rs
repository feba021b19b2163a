//! The election of Raft (Ongaro and Ousterhout 2014, section 5.2; Ongaro's thesis 2014, sections 3.4,
//! 3.10, 4.2.3, 6.2 and 9.6).
//!
//! Model: partially synchronous, crash and recovery with the disk kept; every server knows all members. Servers have
//! time-outs of their own and need no failure detector.
//!
//! ```text
//!   2 ──PreVote {1}──▶ 1, 3, 4, 5     "would you vote for me in term 1?" No state changes yet
//!   2 ◀──WouldVote {1}── 1, 3, 4, 5   a majority would: 2 enters term 1 and votes for itself
//!   2 ──RequestVote {1}──▶ 1, 3, 4, 5
//!   2 ◀──Vote {1}─────── 1, 3, 4, 5   each saves its vote first; a majority voted: 2 leads
//!   2 ──Heartbeat {1}──▶ 1, 3, 4, 5   at once, and periodically from then on
//!   2 ◀──HeartbeatReply {1}── 1, 3, 4, 5
//! ```
//!
//! Cost: `5(N - 1)` messages and 5 message delays until all servers have received the first heartbeat; `3(N - 1)`
//! and 3 without pre-vote. Votes may split; the round is then repeated after a time-out. From then on `2(N - 1)`
//! messages per heartbeat period; the replies are not counted.
//!
//! Promise: never two leaders in one term, whatever happens to messages and clocks, as long as disks are kept. Some
//! time after faults stop, a connected majority has a leader, and, with check-quorum, servers that cannot reach a
//! majority have none. Not promised: that a superseded leader knows it at once. A leader of an earlier term may
//! believe that it leads until it receives the later term, or misses a majority for an election time-out. Without
//! check-quorum, a leader that stays partitioned from the majority leads the servers that it reaches for good. Nor
//! is it promised that the best leads: ranks play no part.
//!
//! Interpretations:
//! - There is no log here, so all logs are equally up to date: the restriction on votes of section 5.4.1 never
//!   applies, and a transfer has no log to bring up to date first.
//! - A server that leads, or that received a message of a current leader within the minimum election time-out,
//!   grants neither pre-votes (9.6) nor votes (4.2.3), unless the vote is for a transfer (3.10). As in etcd, the
//!   server answers all the same, and answers the heartbeat of an earlier term with its own, later term: that leader
//!   must step down, or the server would never follow a leader again. Without pre-vote, a server that returns from a
//!   partition therefore replaces a healthy leader; with pre-vote it does not.
//! - As in etcd, check-quorum checks once per election time-out which servers have answered since the last check.
//! - A server saves its state when it starts for the first time. A server that recovers without saved state has
//!   therefore lost its disk, and with it perhaps a vote. It must not vote or campaign again under its id; it only
//!   follows, for good. If a majority loses its disks, the group can elect no leader any more.
//! - `Campaign` starts an election at once, with pre-vote if that is on: it then does not affect a healthy leader.
//!   `Resign` steps down and defers the own campaign by one time-out, so that other servers campaign first.

mod message;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::message::Message;
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Announcement, BadParameter, Choice, Command, Context, Contract, Cost, Detection, Electorate,
    Formula, NodeId, Parameter, Process, Roster, Safety, Span, Start, Synchrony, Term, Topology,
};

/// The timers of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The minimum election time-out after a message of a leader is over. Until then the server grants no vote.
    Lease,
    /// The election time-out, or the rest of it after the lease, is over.
    Election,
    /// The leader's next heartbeat is due.
    Heartbeat,
    /// The leader's next check of its quorum is due.
    Quorum,
}

suffrage_core::timer_indices!(Timer { Lease, Election, Heartbeat, Quorum });

/// The persistent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The latest term the server has seen.
    pub term: Term,
    /// The vote of the server in that term.
    pub vote: Option<NodeId>,
    /// False once the server has lost its disk.
    pub voter: bool,
}

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The period of heartbeats.
    pub heartbeat: u64,
    /// The minimum election time-out. Each time-out is drawn from this to twice this.
    pub election_timeout: u64,
    /// True if a candidate asks for pre-votes first.
    pub pre_vote: bool,
    /// True if a leader steps down that a majority does not answer.
    pub check_quorum: bool,
    /// A deliberate bug: no state is saved.
    pub forget_votes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            heartbeat: 5,
            election_timeout: 20,
            pre_vote: true,
            check_quorum: true,
            forget_votes: false,
        }
    }
}

/// The role of a server, with its supporters in that role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Follower,
    /// The servers that would vote for this one.
    PreCandidate(BTreeSet<NodeId>),
    /// The servers that voted for this one.
    Candidate(BTreeSet<NodeId>),
    /// The servers that have answered since the last check of the quorum.
    Leader(BTreeSet<NodeId>),
}

/// A server of Raft, limited to elections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raft {
    options: Options,
    term: Term,
    vote: Option<NodeId>,
    voter: bool,
    role: Role,
    leader: Option<NodeId>,
    /// True if the minimum election time-out since the leader's last message is not over.
    lease: bool,
}

impl Algorithm for Raft {
    const CONTRACT: Contract = Contract {
        name: "raft",
        summary: "A server that misses the leader requests votes; a majority elects it for a term.",
        source: "Ongaro and Ousterhout 2014, 5.2; Ongaro's thesis, 3.10, 4.2.3, 6.2, 9.6",
        topology: Topology::Complete,
        synchrony: Synchrony::PartiallySynchronous,
        knowledge: "all members",
        tolerates: "crash and recovery with the disk kept; lost messages; partitions; a process that lost \
                    its disk only follows",
        detection: Detection::Timeout,
        electorate: Electorate::Majority,
        needs_disk: true,
        retries: true,
        under_loss: &[],
        safety: Safety::AtMostOnePerTerm,
        choice: Choice::Any,
        handover: true,
        messages: Cost {
            best: Formula { text: "5(N - 1) a round", of: |n| 5 * (n - 1) },
            worst: Formula { text: "5(N - 1) a round", of: |n| 5 * (n - 1) },
        },
        time: Cost {
            best: Formula { text: "5 a round", of: |_| 5 },
            worst: Formula { text: "5 a round", of: |_| 5 },
        },
        upkeep: &[],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        parameters::delays_parameter!("heartbeat", heartbeat, "Period of the leader's heartbeats"),
        parameters::delays_parameter!(
            "election-timeout",
            election_timeout,
            "Minimum time to wait for the leader's heartbeat; each time-out is drawn from this to twice this"
        ),
        parameters::switch_parameter!("pre-vote", pre_vote, "Ask for pre-votes before entering a new term"),
        parameters::switch_parameter!(
            "check-quorum",
            check_quorum,
            "Make a leader step down that gets no answers of a majority within an election time-out"
        ),
        parameters::switch_parameter!(
            "forget-votes",
            forget_votes,
            "A deliberate bug: terms and votes are not saved, to show that the checker finds it"
        ),
    ];

    fn new(_: NodeId, options: &Options) -> Raft {
        Raft {
            options: *options,
            term: Term::default(),
            vote: None,
            voter: true,
            role: Role::Follower,
            leader: None,
            lease: false,
        }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        // A heartbeat of a live leader arrives at least every period and a delay, and the answers to it every period
        // and a round trip.
        if options.election_timeout > options.heartbeat + 2 {
            return Ok(());
        }
        let reason =
            format!("must be more than {}: the heartbeat period and a round trip", options.heartbeat + 2);
        Err(BadParameter { name: "election-timeout", reason })
    }
}

impl Raft {
    /// Enters a term. "The value of currentTerm and votedFor are persisted" before any message about them.
    fn enter_term(&mut self, cx: &mut Context<'_, Self>, term: Term, vote: Option<NodeId>) {
        (self.term, self.vote) = (term, vote);
        if !self.options.forget_votes {
            cx.save(Saved { term, vote, voter: self.voter });
        }
    }

    fn minimum_timeout(&self, cx: &Context<'_, Self>) -> Span {
        cx.delay_bound() * self.options.election_timeout
    }

    /// A random time from zero to the minimum election time-out.
    fn random_extra(&self, cx: &mut Context<'_, Self>) -> Span {
        let minimum_timeout = self.minimum_timeout(cx);
        minimum_timeout.scale(cx.rng().unit())
    }

    fn set_election_timer(&self, cx: &mut Context<'_, Self>) {
        let after = self.minimum_timeout(cx) + self.random_extra(cx);
        cx.set_timer(Timer::Election, after);
    }

    fn send_to_all(&self, cx: &mut Context<'_, Self>, message: Message) {
        for peer in cx.view().peers() {
            cx.send(peer, message);
        }
    }

    /// Returns whether the supporters and this server are more than half of the group.
    fn is_majority(cx: &Context<'_, Self>, supporters: &BTreeSet<NodeId>) -> bool {
        supporters.len() + 1 > cx.view().group_len() / 2
    }

    /// Returns whether this server leads or has received a recent message of a leader, so that it grants no votes.
    fn has_recent_leader(&self) -> bool {
        self.lease || matches!(self.role, Role::Leader(_))
    }

    /// Clears the leader, and announces the change.
    fn clear_leader(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(leader) = self.leader.take() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    /// Stops the timers of the current role.
    fn leave_role(&mut self, cx: &mut Context<'_, Self>) {
        if let Role::Leader(_) = self.role {
            cx.cancel_timer(Timer::Heartbeat);
            cx.cancel_timer(Timer::Quorum);
        }
        if self.lease {
            self.lease = false;
            cx.cancel_timer(Timer::Lease);
        }
        self.role = Role::Follower;
    }

    /// Becomes a follower without a leader. A follower that had no leader before has its time-out running already.
    fn become_follower(&mut self, cx: &mut Context<'_, Self>) {
        self.clear_leader(cx);
        if self.lease || self.role != Role::Follower {
            self.leave_role(cx);
            self.set_election_timer(cx);
        }
    }

    /// "If one server's current term is smaller than the other's, then it updates its current term to the
    /// larger value. If a candidate or leader discovers that its term is out of date, it immediately
    /// reverts to follower state" (5.1).
    fn observe_term(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        if term > self.term {
            self.become_follower(cx);
            self.enter_term(cx, term, None);
        }
    }

    /// Begins an election, with pre-votes if configured.
    fn campaign(&mut self, cx: &mut Context<'_, Self>) {
        if !self.options.pre_vote {
            return self.become_candidate(cx, false);
        }
        if !self.may_campaign() {
            return;
        }
        self.role = Role::PreCandidate(BTreeSet::new());
        self.set_election_timer(cx);
        self.send_to_all(cx, Message::PreVote { term: self.term.next() });
        self.check_majority(cx);
    }

    /// Returns whether there is a term after this one (only a forged message can contain the last term), and this
    /// server may ask for votes in it.
    fn may_campaign(&self) -> bool {
        self.voter && self.term.next() > self.term && !matches!(self.role, Role::Leader(_))
    }

    /// "A follower increments its current term and transitions to candidate state. It then votes for
    /// itself and issues RequestVote RPCs in parallel to each of the other servers" (5.2).
    fn become_candidate(&mut self, cx: &mut Context<'_, Self>, transfer: bool) {
        if !self.may_campaign() {
            return;
        }
        self.clear_leader(cx);
        self.leave_role(cx);
        self.role = Role::Candidate(BTreeSet::new());
        self.enter_term(cx, self.term.next(), Some(cx.me()));
        self.set_election_timer(cx);
        self.send_to_all(cx, Message::RequestVote { term: self.term, transfer });
        self.check_majority(cx);
    }

    /// Enters the next role if a majority supports this server.
    fn check_majority(&mut self, cx: &mut Context<'_, Self>) {
        match &self.role {
            Role::PreCandidate(promises) if Self::is_majority(cx, promises) => {
                self.become_candidate(cx, false);
            }
            Role::Candidate(votes) if Self::is_majority(cx, votes) => self.become_leader(cx),
            _ => {}
        }
    }

    /// "Once a candidate wins an election, it becomes leader. It then sends heartbeat messages to all of
    /// the other servers to establish its authority and prevent new elections" (5.2).
    fn become_leader(&mut self, cx: &mut Context<'_, Self>) {
        cx.cancel_timer(Timer::Election);
        self.role = Role::Leader(BTreeSet::new());
        self.leader = Some(cx.me());
        cx.announce(Announcement::Elected { leader: cx.me(), term: self.term });
        self.send_heartbeats(cx);
        if self.options.check_quorum {
            cx.set_timer(Timer::Quorum, self.minimum_timeout(cx));
        }
    }

    fn send_heartbeats(&mut self, cx: &mut Context<'_, Self>) {
        self.send_to_all(cx, Message::Heartbeat { term: self.term });
        cx.set_timer(Timer::Heartbeat, cx.delay_bound() * self.options.heartbeat);
    }

    /// "A leader […] steps down if an election timeout elapses without a successful round of heartbeats
    /// to a majority of its cluster" (thesis, 6.2).
    fn check_quorum(&mut self, cx: &mut Context<'_, Self>) {
        let Role::Leader(answered) = &mut self.role else { return };
        if Self::is_majority(cx, answered) {
            answered.clear();
            cx.set_timer(Timer::Quorum, self.minimum_timeout(cx));
        } else {
            self.become_follower(cx);
        }
    }

    /// Replies whether this server would vote for the sender. The reply changes no state.
    fn on_pre_vote(&self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let granted = self.would_vote(from, term) && !self.has_recent_leader();
        let term = if granted { term } else { self.term };
        cx.send(from, Message::WouldVote { term, granted });
    }

    /// "Each server will vote for at most one candidate in a given term, on a first-come-first-served
    /// basis" (5.2).
    fn would_vote(&self, candidate: NodeId, term: Term) -> bool {
        let free = self.vote.is_none() && self.leader.is_none() || self.vote == Some(candidate);
        self.voter && (term > self.term || term == self.term && free)
    }

    fn on_request_vote(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, transfer: bool) {
        // "It does not update its term or grant its vote" (thesis, 4.2.3).
        if self.has_recent_leader() && !transfer {
            return cx.send(from, Message::Vote { term: self.term, granted: false });
        }
        let granted = self.would_vote(from, term);
        if !granted {
            self.observe_term(cx, term);
        } else if (self.term, self.vote) != (term, Some(from)) {
            self.clear_leader(cx);
            self.leave_role(cx);
            self.enter_term(cx, term, Some(from));
            self.set_election_timer(cx);
        }
        cx.send(from, Message::Vote { term: self.term, granted });
    }

    fn on_would_vote(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, granted: bool) {
        if !granted {
            return self.observe_term(cx, term);
        }
        if let Role::PreCandidate(promises) = &mut self.role
            && term == self.term.next()
        {
            promises.insert(from);
            self.check_majority(cx);
        }
    }

    fn on_vote(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, granted: bool) {
        self.observe_term(cx, term);
        if let Role::Candidate(votes) = &mut self.role
            && granted
            && term == self.term
        {
            votes.insert(from);
            self.check_majority(cx);
        }
    }

    /// "If the leader's term […] is at least as large as the candidate's current term, then the candidate
    /// recognizes the leader as legitimate and returns to follower state" (5.2).
    fn on_heartbeat(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let is_rival = term == self.term && matches!(self.role, Role::Leader(_));
        // A rival of a leader in its own term cannot have been elected if votes were kept.
        if term >= self.term && !is_rival {
            self.follow(cx, from, term);
        }
        cx.send(from, Message::HeartbeatReply { term: self.term });
    }

    fn follow(&mut self, cx: &mut Context<'_, Self>, leader: NodeId, term: Term) {
        let changed = self.leader != Some(leader) || term > self.term;
        if term > self.term {
            self.enter_term(cx, term, None);
        }
        if !self.lease || self.role != Role::Follower {
            self.leave_role(cx);
            cx.cancel_timer(Timer::Election);
        }
        self.leader = Some(leader);
        self.lease = true;
        cx.set_timer(Timer::Lease, self.minimum_timeout(cx));
        if changed {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    fn on_heartbeat_reply(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        self.observe_term(cx, term);
        match &mut self.role {
            Role::Leader(answered) if term == self.term => drop(answered.insert(from)),
            _ => {}
        }
    }

    /// "The current leader then sends a TimeoutNow request to the target server. This request has the same
    /// effect as the target server's election timer firing" (thesis, 3.10).
    fn on_timeout_now(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        self.observe_term(cx, term);
        if term == self.term {
            self.become_candidate(cx, true);
        }
    }

    /// Steps down and defers the own campaign by the longest time-out that other servers may have.
    fn resign(&mut self, cx: &mut Context<'_, Self>) {
        self.become_follower(cx);
        let after = self.minimum_timeout(cx) * 2 + self.random_extra(cx);
        cx.set_timer(Timer::Election, after);
    }
}

impl Process for Raft {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        match start {
            Start::Recovered(Some(Saved { term, vote, voter })) => {
                (self.term, self.vote, self.voter) = (term, vote, voter);
            }
            Start::Recovered(None) if !self.options.forget_votes => {
                self.voter = false;
                self.enter_term(cx, self.term, None);
            }
            Start::Fresh | Start::Recovered(None) => self.enter_term(cx, self.term, None),
        }
        self.set_election_timer(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if from == cx.me() || !cx.view().contains(from) {
            return;
        }
        match message {
            Message::PreVote { term } => self.on_pre_vote(cx, from, term),
            Message::WouldVote { term, granted } => self.on_would_vote(cx, from, term, granted),
            Message::RequestVote { term, transfer } => self.on_request_vote(cx, from, term, transfer),
            Message::Vote { term, granted } => self.on_vote(cx, from, term, granted),
            Message::Heartbeat { term } => self.on_heartbeat(cx, from, term),
            Message::HeartbeatReply { term } => self.on_heartbeat_reply(cx, from, term),
            Message::TimeoutNow { term } => self.on_timeout_now(cx, term),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Lease => {
                self.lease = false;
                if self.role == Role::Follower {
                    let after = self.random_extra(cx);
                    cx.set_timer(Timer::Election, after);
                }
            }
            Timer::Election => {
                self.clear_leader(cx);
                self.campaign(cx);
            }
            Timer::Heartbeat => self.send_heartbeats(cx),
            Timer::Quorum => self.check_quorum(cx),
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        let leads = matches!(self.role, Role::Leader(_));
        match command {
            Command::Campaign if self.role == Role::Follower => self.campaign(cx),
            Command::Resign if leads => self.resign(cx),
            Command::Transfer(to) if leads && to != cx.me() => {
                cx.send(to, Message::TimeoutNow { term: self.term });
            }
            Command::Campaign | Command::Resign | Command::Transfer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
