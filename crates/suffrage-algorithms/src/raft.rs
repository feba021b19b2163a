//! The election of Raft (Ongaro and Ousterhout 2014, section 5.2; Ongaro's thesis 2014, sections 3.4,
//! 3.10, 4.2.3, 6.2 and 9.6).
//!
//! Model: partially synchronous, crash and recovery with the disk kept; everybody knows everybody.
//! Servers have time-outs of their own and need no failure detector.
//!
//! ```text
//!   2 ──PreVote {1}──▶ 1, 3, 4, 5     "would you vote for me in term 1?" Nothing has changed yet
//!   2 ◀──WouldVote {1}── 1, 3, 4, 5   a majority would: 2 enters term 1 and votes for itself
//!   2 ──RequestVote {1}──▶ 1, 3, 4, 5
//!   2 ◀──Vote {1}─────── 1, 3, 4, 5   each saves its vote first; a majority did: 2 leads
//!   2 ──Heartbeat {1}──▶ 1, 3, 4, 5   at once, and periodically from then on
//!   2 ◀──HeartbeatReply {1}── 1, 3, 4, 5
//! ```
//!
//! Cost: `5(N - 1)` messages and 5 message delays until everybody has heard the first heartbeat;
//! `3(N - 1)` and 3 without pre-vote. Votes may split, and the round is repeated after a time-out. From
//! then on `2(N - 1)` messages a heartbeat period; the replies are counted apart.
//!
//! Promises never two leaders in one term, whatever happens to messages and clocks, as long as disks
//! are kept; and that some time after faults stop, a majority that can talk has a leader, and, with
//! check-quorum, those who cannot talk to a majority have none. Does not promise that a deposed leader
//! knows it at once: a leader of an earlier term may believe in itself until it hears of the later one, or
//! misses a majority for an election time-out. Without check-quorum, one that stays cut off leads those
//! that it reaches for good. Nor that the best leads: ranks play no part.
//!
//! Interpretations:
//! - There is no log here, so that all logs are equally up to date: the restriction on votes of section
//!   5.4.1 never applies, and a transfer has nothing to bring up to date first.
//! - A server that heard from a current leader within the minimum election time-out, or leads, grants
//!   neither pre-votes (9.6) nor votes (4.2.3), unless the vote is for a transfer (3.10). Like etcd's
//!   it answers all the same, and does answer the heartbeat of an earlier term with its own, later one:
//!   that leader must step down, or the server would never follow anybody again. So without pre-vote
//!   a server that comes back from a partition deposes a healthy leader, and with it does not.
//! - As in etcd's, check-quorum looks once an election time-out at who has answered since the last look.
//! - A server saves something when it starts for the first time. One that recovers without anything
//!   saved has therefore lost its disk, and with it perhaps a vote. It must not vote or stand again as
//!   the one it was; it follows whoever leads, for good. If a majority is lost that way, so is the group.
//! - `Campaign` starts an election at once, with pre-vote if that is on: it does nothing to a healthy
//!   leader then. `Resign` steps down and stands back for one time-out, so that the others go first.

mod message;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::message::Message;
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Announcement, BadParameter, Choice, Command, Context, Contract, Cost, Detection, Electorate,
    Formula, NodeId, Parameter, Process, Roster, Safety, Span, Start, Synchrony, Term, Topology,
};

/// What a server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The minimum election time-out after word from a leader: until then, it grants no vote.
    Lease,
    /// The election time-out, or what is left of it after the lease.
    Election,
    /// As a leader: the next heartbeat.
    Heartbeat,
    /// As a leader: the next look at who has answered.
    Quorum,
}

suffrage_core::timer_indices!(Timer { Lease, Election, Heartbeat, Quorum });

/// What outlives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The latest term the server has seen.
    pub term: Term,
    /// For whom it voted in that term.
    pub vote: Option<NodeId>,
    /// False once it has lost its disk.
    pub voter: bool,
}

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How often a leader speaks.
    pub heartbeat: u64,
    /// The minimum election time-out; each one is drawn from here to twice that.
    pub election_timeout: u64,
    /// Whether a candidate asks first whether it would be voted for.
    pub pre_vote: bool,
    /// Whether a leader that a majority does not answer steps down.
    pub check_quorum: bool,
    /// A deliberate mistake: nothing is saved.
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

/// What a server is at the moment, with those who support it in that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Follower,
    /// Would these vote for it?
    PreCandidate(BTreeSet<NodeId>),
    /// These voted for it.
    Candidate(BTreeSet<NodeId>),
    /// These have answered since the last look.
    Leader(BTreeSet<NodeId>),
}

/// A server of Raft, as far as elections go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raft {
    options: Options,
    term: Term,
    vote: Option<NodeId>,
    voter: bool,
    role: Role,
    leader: Option<NodeId>,
    /// Whether the minimum election time-out since the leader's last word is not over.
    lease: bool,
}

impl Algorithm for Raft {
    const CONTRACT: Contract = Contract {
        name: "raft",
        summary: "Whoever misses the leader first asks for votes; a majority elects it for a term.",
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
        parameters::delays_parameter!("heartbeat", heartbeat, "How often the leader speaks"),
        parameters::delays_parameter!(
            "election-timeout",
            election_timeout,
            "How long to wait at least for the leader's word; drawn from this to twice this each time"
        ),
        parameters::switch_parameter!(
            "pre-vote",
            pre_vote,
            "Whether a candidate asks for promises before it enters a new term"
        ),
        parameters::switch_parameter!(
            "check-quorum",
            check_quorum,
            "Whether a leader steps down that hears no majority within an election time-out"
        ),
        parameters::switch_parameter!(
            "forget-votes",
            forget_votes,
            "A deliberate mistake: terms and votes are not saved, to show that the checker finds it"
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
        // Word of a live leader comes at least every period and a delay, and answers to it every period
        // and a round trip.
        if options.election_timeout > options.heartbeat + 2 {
            return Ok(());
        }
        let reason = format!("a leader that speaks every {} cannot keep that", options.heartbeat);
        Err(BadParameter { name: "election-timeout", reason })
    }
}

impl Raft {
    /// "The value of currentTerm and votedFor are persisted" before anything is said about them.
    fn enter(&mut self, cx: &mut Context<'_, Self>, term: Term, vote: Option<NodeId>) {
        (self.term, self.vote) = (term, vote);
        if !self.options.forget_votes {
            cx.save(Saved { term, vote, voter: self.voter });
        }
    }

    fn minimum(&self, cx: &Context<'_, Self>) -> Span {
        cx.delay_bound() * self.options.election_timeout
    }

    /// Somewhere from nothing to the minimum election time-out.
    fn extra(&self, cx: &mut Context<'_, Self>) -> Span {
        let minimum = self.minimum(cx);
        minimum.scale(cx.rng().unit())
    }

    fn set_election_timer(&self, cx: &mut Context<'_, Self>) {
        let after = self.minimum(cx) + self.extra(cx);
        cx.set_timer(Timer::Election, after);
    }

    fn tell_all(&self, cx: &mut Context<'_, Self>, message: Message) {
        for peer in cx.view().peers() {
            cx.send(peer, message);
        }
    }

    /// Whether these and this server are more than half of the group.
    fn is_majority(cx: &Context<'_, Self>, supporters: &BTreeSet<NodeId>) -> bool {
        supporters.len() + 1 > cx.view().group_len() / 2
    }

    /// Whether a current leader is so fresh in mind that no other is voted for.
    fn is_content(&self) -> bool {
        self.lease || matches!(self.role, Role::Leader(_))
    }

    /// Believes in no leader any more, and says so if that is news.
    fn forget_leader(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(leader) = self.leader.take() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    /// Stops what a server does in any role.
    fn stop(&mut self, cx: &mut Context<'_, Self>) {
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

    /// Follows nobody for the time being. A follower that did not either has its time-out running.
    fn become_follower(&mut self, cx: &mut Context<'_, Self>) {
        self.forget_leader(cx);
        if self.lease || self.role != Role::Follower {
            self.stop(cx);
            self.set_election_timer(cx);
        }
    }

    /// "If one server's current term is smaller than the other's, then it updates its current term to the
    /// larger value. If a candidate or leader discovers that its term is out of date, it immediately
    /// reverts to follower state" (5.1).
    fn catch_up(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        if term > self.term {
            self.become_follower(cx);
            self.enter(cx, term, None);
        }
    }

    /// Begins an election, with the question whether it would be won if so wanted.
    fn campaign(&mut self, cx: &mut Context<'_, Self>) {
        if !self.options.pre_vote {
            return self.become_candidate(cx, false);
        }
        if !self.may_stand() {
            return;
        }
        self.role = Role::PreCandidate(BTreeSet::new());
        self.set_election_timer(cx);
        self.tell_all(cx, Message::PreVote { term: self.term.next() });
        self.count(cx);
    }

    /// Whether there is a term after this one (only a forger can have spoken of the last), and this server
    /// may ask for votes in it.
    fn may_stand(&self) -> bool {
        self.voter && self.term.next() > self.term && !matches!(self.role, Role::Leader(_))
    }

    /// "A follower increments its current term and transitions to candidate state. It then votes for
    /// itself and issues RequestVote RPCs in parallel to each of the other servers" (5.2).
    fn become_candidate(&mut self, cx: &mut Context<'_, Self>, transfer: bool) {
        if !self.may_stand() {
            return;
        }
        self.forget_leader(cx);
        self.stop(cx);
        self.role = Role::Candidate(BTreeSet::new());
        self.enter(cx, self.term.next(), Some(cx.me()));
        self.set_election_timer(cx);
        self.tell_all(cx, Message::RequestVote { term: self.term, transfer });
        self.count(cx);
    }

    /// Goes on if a majority supports it.
    fn count(&mut self, cx: &mut Context<'_, Self>) {
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
        self.beat(cx);
        if self.options.check_quorum {
            cx.set_timer(Timer::Quorum, self.minimum(cx));
        }
    }

    fn beat(&mut self, cx: &mut Context<'_, Self>) {
        self.tell_all(cx, Message::Heartbeat { term: self.term });
        cx.set_timer(Timer::Heartbeat, cx.delay_bound() * self.options.heartbeat);
    }

    /// "A leader […] steps down if an election timeout elapses without a successful round of heartbeats
    /// to a majority of its cluster" (thesis, 6.2).
    fn check_quorum(&mut self, cx: &mut Context<'_, Self>) {
        let Role::Leader(heard) = &mut self.role else { return };
        if Self::is_majority(cx, heard) {
            heard.clear();
            cx.set_timer(Timer::Quorum, self.minimum(cx));
        } else {
            self.become_follower(cx);
        }
    }

    /// Says whether it would vote for the sender. Nothing changes by that.
    fn on_pre_vote(&self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let granted = self.would_vote(from, term) && !self.is_content();
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
        if self.is_content() && !transfer {
            return cx.send(from, Message::Vote { term: self.term, granted: false });
        }
        let granted = self.would_vote(from, term);
        if !granted {
            self.catch_up(cx, term);
        } else if (self.term, self.vote) != (term, Some(from)) {
            self.forget_leader(cx);
            self.stop(cx);
            self.enter(cx, term, Some(from));
            self.set_election_timer(cx);
        }
        cx.send(from, Message::Vote { term: self.term, granted });
    }

    fn on_would_vote(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, granted: bool) {
        if !granted {
            return self.catch_up(cx, term);
        }
        if let Role::PreCandidate(promises) = &mut self.role
            && term == self.term.next()
        {
            promises.insert(from);
            self.count(cx);
        }
    }

    fn on_vote(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, granted: bool) {
        self.catch_up(cx, term);
        if let Role::Candidate(votes) = &mut self.role
            && granted
            && term == self.term
        {
            votes.insert(from);
            self.count(cx);
        }
    }

    /// "If the leader's term […] is at least as large as the candidate's current term, then the candidate
    /// recognizes the leader as legitimate and returns to follower state" (5.2).
    fn on_heartbeat(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let rival = term == self.term && matches!(self.role, Role::Leader(_));
        // The rival of a leader in its own term has not been elected: not with votes that were kept.
        if term >= self.term && !rival {
            self.follow(cx, from, term);
        }
        cx.send(from, Message::HeartbeatReply { term: self.term });
    }

    fn follow(&mut self, cx: &mut Context<'_, Self>, leader: NodeId, term: Term) {
        let news = self.leader != Some(leader) || term > self.term;
        if term > self.term {
            self.enter(cx, term, None);
        }
        if !self.lease || self.role != Role::Follower {
            self.stop(cx);
            cx.cancel_timer(Timer::Election);
        }
        self.leader = Some(leader);
        self.lease = true;
        cx.set_timer(Timer::Lease, self.minimum(cx));
        if news {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    fn on_heartbeat_reply(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        self.catch_up(cx, term);
        match &mut self.role {
            Role::Leader(heard) if term == self.term => drop(heard.insert(from)),
            _ => {}
        }
    }

    /// "The current leader then sends a TimeoutNow request to the target server. This request has the same
    /// effect as the target server's election timer firing" (thesis, 3.10).
    fn on_timeout_now(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        self.catch_up(cx, term);
        if term == self.term {
            self.become_candidate(cx, true);
        }
    }

    /// Stands back for one time-out, the longest that others may have.
    fn resign(&mut self, cx: &mut Context<'_, Self>) {
        self.become_follower(cx);
        let after = self.minimum(cx) * 2 + self.extra(cx);
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
                self.enter(cx, self.term, None);
            }
            Start::Fresh | Start::Recovered(None) => self.enter(cx, self.term, None),
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
                    let after = self.extra(cx);
                    cx.set_timer(Timer::Election, after);
                }
            }
            Timer::Election => {
                self.forget_leader(cx);
                self.campaign(cx);
            }
            Timer::Heartbeat => self.beat(cx),
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
