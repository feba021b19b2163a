//! Election by a row and a column of a grid (Maekawa 1985, as applied to election in Ramanathan et al.
//! 2007, section 8).
//!
//! Model: partially synchronous, crash and recovery with the disk kept; every process knows all members, and with
//! them the grid. A failure detector triggers elections; without a detector, the application does (`Campaign`), or
//! the leader's silence (`reaffirm`).
//!
//! ```text
//!   1 2 3     5 ──Request──▶ 2, 4, 6, 8        its row and column, and itself
//!   4 5 6     5 ◀──Locked─── 2, 4, 6, 8        each is locked for one candidate at a time
//!   7 8 9     5 ──Elected──▶ all others        5 has all the locks
//!
//!   9 ──Request──▶ 6 (locked for 5)            a better candidate wants the lock
//!   5 ◀──Inquire── 6                           "can you do without?"
//!   5 ──Relinquish──▶ 6                        yes, since another voter has answered `Failed`
//!   9 ◀──Locked─── 6
//! ```
//!
//! Cost: a single caller sends and gets `2(q - 1)` messages, with q the size of its row and column, and announces
//! itself in `N - 1`; 3 message delays. When all contend, each lock is requested, granted, refused, inquired about
//! and relinquished in at most 7 messages (Maekawa, 3 to 7 with the release): `O(N sqrt N)`, about `4 N sqrt N` as
//! measured in `tests/grid_quorum.rs`. The election takes at most 5 delays after the last candidate has started. By
//! 1, all requests have arrived; by 2, the inquiries and `Failed`, so that every candidate knows whether it must
//! relinquish. Of the candidates that need not, the worst waits only for candidates that do, and has all their locks
//! by 4.
//!
//! Promise: never two leaders in one term, whatever happens to messages and clocks, as long as disks are kept. Any
//! two quorums intersect. The common voter holds one lock per term, saves it before it grants it, and grants it to
//! another candidate only when its holder declares that it has not won. Some time after faults stop, all processes
//! that can reach a complete row and a complete column follow one leader. Not promised: that a leader without a
//! quorum knows it. It leads the processes that it reaches until it receives a later term. Nor is it promised that
//! the best leads: ranks decide only between simultaneous candidates.
//!
//! Interpretations:
//! - Maekawa's algorithm is mutual exclusion. In the election the winner keeps its locks for the whole term, and its
//!   `Elected` replaces `Release`. A new election is a new term, in which all locks are free. A process that learns
//!   of a term without a leader joins it, so that candidates compete in the same term.
//! - The first waiting candidate gets `Failed` when a better one arrives; without that, Maekawa's algorithm can
//!   deadlock (Sanders 1987).
//! - A voter numbers its grants, so that a duplicated or late message about an earlier grant changes nothing.
//! - "An arbitrarily selected single row and column": a candidate takes its own. A row or column with a member that
//!   is suspected, or left two requests unanswered, is replaced by the next one. If no row and column is left, the
//!   candidate waits, and starts again.
//! - A recovered process asks for the leader first (`Ask`), and may have won before: it never campaigns in a term in
//!   which it may have campaigned. It saves the term of the latest leader. Otherwise it could follow an earlier
//!   leader that does not know its own later leadership, while that leader follows it. A process that lost its disk
//!   grants no locks any more.
//! - A lock whose holder died blocks its term. Candidates time out, and begin the next term.

mod candidacy;
mod lock;
mod message;
mod voter;

use std::collections::BTreeSet;

use self::candidacy::{Ballot, Candidacy, State};
use self::lock::Lock;
pub use self::message::Message;
pub use self::voter::Saved;
use super::LeaderLiveness;
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Announcement, Choice, Command, Context, Contract, Cost, Detection, Electorate, Formula, Grid,
    NodeId, Parameter, Process, Safety, Start, Synchrony, Term, Topology,
};

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The candidate's wait for answers to its requests is over.
    Answers,
    /// The wait for a leader is over.
    Patience,
    /// The leader is due to repeat its announcement.
    Reaffirm,
    /// A follower has missed the leader's repeated announcement.
    Leader,
}

suffrage_core::timer_indices!(Timer { Answers, Patience, Reaffirm, Leader });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The time to wait before a request is repeated.
    pub retry: u64,
    /// The minimum time to wait for a leader before a new term begins; the time-out is drawn from this to twice
    /// this.
    pub patience: u64,
    /// The period of a leader's repeated announcement.
    pub reaffirm: Option<u64>,
    /// A deliberate bug: no state is saved.
    pub forget_locks: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { retry: 8, patience: 40, reaffirm: None, forget_locks: false }
    }
}

/// A process of the grid quorum algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GridQuorum {
    options: Options,
    lock: Lock,
    voter: bool,
    /// The latest term in which this process may have campaigned.
    campaigned: Term,
    candidacy: Option<Candidacy>,
    leader: Option<NodeId>,
    /// The term of the latest known leader.
    leader_term: Term,
    suspects: BTreeSet<NodeId>,
    /// The voters that left requests unanswered, and have sent no message since.
    unresponsive: BTreeSet<NodeId>,
    liveness: LeaderLiveness<Timer>,
}

/// The sizes of the members' rows and columns.
fn quorum_sizes(members: u64) -> impl Iterator<Item = u64> {
    let grid = Grid::of(members as usize);
    (0..members as usize)
        .map(move |slot| grid.quorum(grid.position(slot).0, grid.position(slot).1).len() as u64)
}

impl Algorithm for GridQuorum {
    const CONTRACT: Contract = Contract {
        name: "grid-quorum",
        summary: "A candidate that locks a whole row and a whole column of the grid is elected for a term.",
        source: "Maekawa 1985; Ramanathan et al. 2007, section 8",
        topology: Topology::Complete,
        synchrony: Synchrony::PartiallySynchronous,
        knowledge: "all members, their order and their ranks",
        tolerates: "crash and recovery with the disk kept; partitions; lost messages with --reaffirm",
        detection: Detection::Detector,
        electorate: Electorate::Grid,
        needs_disk: true,
        retries: true,
        under_loss: &[("reaffirm", "10")],
        safety: Safety::AtMostOnePerTerm,
        choice: Choice::Any,
        handover: true,
        messages: Cost {
            best: Formula {
                text: "N + 2q - 3, q about 2 sqrt N",
                of: |n| n - 1 + 2 * (quorum_sizes(n).min().unwrap_or(1) - 1),
            },
            worst: Formula {
                text: "7N(q - 1) + N - 1",
                of: |n| 7 * n * (quorum_sizes(n).max().unwrap_or(1) - 1) + n - 1,
            },
        },
        time: Cost { best: Formula { text: "3", of: |_| 3 }, worst: Formula { text: "5", of: |_| 5 } },
        upkeep: &[],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        parameters::delays_parameter!("retry", retry, "Time to wait before a request is repeated"),
        parameters::delays_parameter!(
            "patience",
            patience,
            "Minimum time to wait for a leader before a new term begins; each time-out is drawn from this to twice this"
        ),
        parameters::reaffirm_parameter!(),
        parameters::switch_parameter!(
            "forget-locks",
            forget_locks,
            "A deliberate bug: terms and locks are not saved, to show that the checker finds it"
        ),
    ];

    fn new(_: NodeId, options: &Options) -> GridQuorum {
        GridQuorum {
            options: *options,
            lock: Lock::default(),
            voter: true,
            campaigned: Term::default(),
            candidacy: None,
            leader: None,
            leader_term: Term::default(),
            suspects: BTreeSet::new(),
            unresponsive: BTreeSet::new(),
            liveness: LeaderLiveness::new(options.reaffirm, Timer::Reaffirm, Timer::Leader),
        }
    }
}

impl GridQuorum {
    /// Sends a message to a process. A message to this process itself is handled at once (loopback).
    fn send(&mut self, cx: &mut Context<'_, Self>, to: NodeId, message: Message) {
        if to == cx.me() {
            self.handle(cx, to, message);
        } else {
            cx.send(to, message);
        }
    }

    fn send_to_all(&self, cx: &mut Context<'_, Self>, message: Message) {
        for peer in cx.view().peers() {
            cx.send(peer, message);
        }
    }

    fn is_leader(&self, cx: &Context<'_, Self>) -> bool {
        self.leader == Some(cx.me())
    }

    fn clear_leader(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(leader) = self.leader.take() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    /// Campaigns in the current term if it has no leader yet, otherwise in the next.
    fn start_candidacy(&mut self, cx: &mut Context<'_, Self>) {
        let open = self.lock.term > self.leader_term && self.lock.term > self.campaigned;
        let term = if open { self.lock.term } else { self.lock.term.next() };
        if !self.voter || term <= self.leader_term || term <= self.campaigned {
            return;
        }
        self.clear_leader(cx);
        self.set_patience_timer(cx);
        if self.available_quorum(cx).is_none() {
            // The unresponsive voters are asked again next time.
            return self.unresponsive.clear();
        }
        if term > self.lock.term {
            self.enter_term(cx, term);
        }
        self.campaigned = term;
        self.candidacy = Some(Candidacy::default());
        self.ask_quorum(cx);
    }

    fn set_patience_timer(&mut self, cx: &mut Context<'_, Self>) {
        let least = cx.delay_bound() * self.options.patience;
        let after = least + least.scale(cx.rng().unit());
        cx.set_timer(Timer::Patience, after);
    }

    /// A row and a column whose members are locked for this candidate, or can be asked.
    fn available_quorum(&self, cx: &Context<'_, Self>) -> Option<BTreeSet<NodeId>> {
        let (view, grid) = (cx.view(), Grid::of(cx.view().group_len()));
        let present = |slot| {
            let id = view.in_slot(slot);
            let ballot = self.candidacy.as_ref().and_then(|candidacy| candidacy.ballots.get(&id));
            let locked = ballot.is_some_and(|ballot| matches!(ballot.state, State::Locked { .. }));
            locked || !self.unresponsive.contains(&id) && !self.suspects.contains(&id)
        };
        let (row, column) = grid.available(view.slot(), present)?;
        Some(grid.quorum(row, column).into_iter().map(|slot| view.in_slot(slot)).collect())
    }

    /// Asks an available quorum, and releases the other voters.
    fn ask_quorum(&mut self, cx: &mut Context<'_, Self>) {
        let Some(quorum) = self.available_quorum(cx) else { return self.withdraw(cx) };
        let Some(candidacy) = &mut self.candidacy else { return };
        let spare: Vec<NodeId> =
            candidacy.ballots.keys().copied().filter(|id| !quorum.contains(id)).collect();
        let new: Vec<NodeId> = quorum.into_iter().filter(|id| !candidacy.ballots.contains_key(id)).collect();
        let asked = Ballot { state: State::Asked, unanswered: 1 };
        candidacy.ballots.extend(new.iter().map(|&id| (id, asked)));
        spare.into_iter().for_each(|voter| self.release(cx, voter));
        let term = self.lock.term;
        new.into_iter().for_each(|voter| self.send(cx, voter, Message::Request { term }));
        if self.candidacy.is_some() {
            cx.set_timer(Timer::Answers, cx.delay_bound() * self.options.retry);
        }
        self.check_victory(cx);
    }

    /// Releases this voter.
    fn release(&mut self, cx: &mut Context<'_, Self>, voter: NodeId) {
        let Some(candidacy) = &mut self.candidacy else { return };
        let Some(ballot) = candidacy.ballots.remove(&voter) else { return };
        let grant = match ballot.state {
            State::Locked { grant, .. } => Some(grant),
            _ => None,
        };
        candidacy.returned.extend(grant.map(|grant| (voter, grant)));
        self.send(cx, voter, Message::Release { term: self.lock.term, grant });
    }

    /// Ends the candidacy before it is decided.
    fn withdraw(&mut self, cx: &mut Context<'_, Self>) {
        let Some(candidacy) = &self.candidacy else { return };
        let voters: Vec<NodeId> = candidacy.ballots.keys().copied().collect();
        voters.into_iter().for_each(|voter| self.release(cx, voter));
        self.candidacy = None;
        cx.cancel_timer(Timer::Answers);
    }

    /// Checks for a victory: "When all members of S_i are locked", the candidate has won.
    fn check_victory(&mut self, cx: &mut Context<'_, Self>) {
        if !self.candidacy.as_ref().is_some_and(Candidacy::has_won) {
            return;
        }
        self.candidacy = None;
        cx.cancel_timer(Timer::Answers);
        cx.cancel_timer(Timer::Patience);
        (self.leader, self.leader_term) = (Some(cx.me()), self.lock.term);
        self.save(cx);
        cx.announce(Announcement::Elected { leader: cx.me(), term: self.leader_term });
        self.reaffirm(cx);
    }

    fn reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        self.send_to_all(cx, Message::Elected { term: self.leader_term });
        self.liveness.start_reaffirming(cx);
    }

    /// The ballot of a voter that has just answered, if the answer is of this term.
    fn ballot(&mut self, voter: NodeId, term: Term) -> Option<&mut Ballot> {
        let ballot = self.candidacy.as_mut().filter(|_| term == self.lock.term)?.ballots.get_mut(&voter)?;
        ballot.unanswered = 0;
        Some(ballot)
    }

    fn on_locked(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, grant: u64) {
        // Without a candidacy, this process may have won and lost its state in a crash: the locks stay granted.
        let Some(candidacy) = self.candidacy.as_mut().filter(|_| term == self.lock.term) else { return };
        let returned = candidacy.returned.get(&from).copied().unwrap_or(0);
        let Some(ballot) = candidacy.ballots.get_mut(&from) else {
            candidacy.returned.insert(from, grant.max(returned));
            return self.send(cx, from, Message::Release { term, grant: Some(grant) });
        };
        ballot.unanswered = 0;
        if grant <= returned {
            return self.send(cx, from, Message::Relinquish { term, grant });
        }
        match ballot.state {
            State::Locked { grant: held, .. } if held >= grant => {}
            _ => ballot.state = State::Locked { grant, inquired: false },
        }
        self.check_victory(cx);
    }

    fn on_failed(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let Some(ballot) = self.ballot(from, term) else { return };
        if ballot.state == State::Asked {
            ballot.state = State::Failed;
            self.relinquish(cx);
        }
    }

    fn on_inquire(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, grant: u64) {
        // The inquiry may have overtaken its `Locked`.
        self.on_locked(cx, from, term, grant);
        let Some(Ballot { state: State::Locked { grant: held, inquired }, .. }) = self.ballot(from, term)
        else {
            return;
        };
        if *held == grant {
            *inquired = true;
            self.relinquish(cx);
        }
    }

    /// Returns the locks that were inquired about, if this candidate cannot win now.
    fn relinquish(&mut self, cx: &mut Context<'_, Self>) {
        let term = self.lock.term;
        let Some(candidacy) = self.candidacy.as_mut().filter(|candidacy| candidacy.cannot_win()) else {
            return;
        };
        let mut given = Vec::new();
        for (&voter, ballot) in &mut candidacy.ballots {
            if let State::Locked { grant, inquired: true } = ballot.state {
                ballot.state = State::Relinquished;
                candidacy.returned.insert(voter, grant);
                given.push((voter, grant));
            }
        }
        given
            .into_iter()
            .for_each(|(voter, grant)| self.send(cx, voter, Message::Relinquish { term, grant }));
    }

    /// Repeats requests that were not granted, and replaces voters that do not answer.
    fn ask_again(&mut self, cx: &mut Context<'_, Self>) {
        let term = self.lock.term;
        let Some(candidacy) = &mut self.candidacy else { return };
        let mut repeated = Vec::new();
        for (&voter, ballot) in &mut candidacy.ballots {
            match ballot.state {
                State::Locked { .. } => {}
                _ if ballot.unanswered >= 2 => drop(self.unresponsive.insert(voter)),
                _ => {
                    ballot.unanswered += 1;
                    repeated.push(voter);
                }
            }
        }
        repeated.into_iter().for_each(|voter| self.send(cx, voter, Message::Request { term }));
        self.ask_quorum(cx);
    }

    /// Accepts a leader that announced itself, or that another process named.
    fn on_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId, term: Term) {
        let changed = self.leader != Some(leader) || term > self.leader_term;
        let is_rival = term == self.leader_term && self.leader.is_some_and(|known| known != leader);
        if leader == cx.me() || term < self.leader_term || is_rival || self.suspects.contains(&leader) {
            return;
        }
        if term >= self.lock.term {
            self.candidacy = None;
            cx.cancel_timer(Timer::Answers);
        }
        self.withdraw(cx);
        cx.cancel_timer(Timer::Patience);
        (self.leader, self.leader_term) = (Some(leader), term);
        if term > self.lock.term {
            self.enter_term(cx, term);
        } else if changed {
            self.save(cx);
        }
        self.liveness.expect_reaffirmation(cx);
        if changed {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    fn on_claim(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        if term < self.leader_term && self.leader.is_some() {
            let message = self.outdated(term);
            return self.send(cx, from, message);
        }
        self.on_elected(cx, from, term);
    }

    fn on_outdated(
        &mut self,
        cx: &mut Context<'_, Self>,
        refused: Term,
        term: Term,
        elected: Option<(NodeId, Term)>,
    ) {
        if let Some((leader, since)) = elected {
            self.on_elected(cx, leader, since);
        }
        // A refusal of an earlier request is ignored. Otherwise two candidates that are a term apart would overtake
        // each other for ever.
        if self.candidacy.is_some() && refused == self.lock.term && term >= refused {
            self.candidacy = None;
            if term > self.lock.term {
                self.enter_term(cx, term);
            }
            self.start_candidacy(cx);
        }
    }

    fn on_ask(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        if self.is_leader(cx) {
            cx.send(from, Message::Elected { term: self.leader_term });
        }
    }

    /// Returns whether this peer can take over, as far as this process knows.
    fn may_succeed(&self, cx: &Context<'_, Self>, peer: NodeId) -> bool {
        peer != cx.me() && cx.view().contains(peer) && !self.suspects.contains(&peer)
    }

    /// Steps down, and asks another process to campaign. If that process does not, this one campaigns after a
    /// time-out.
    fn hand_over(&mut self, cx: &mut Context<'_, Self>, to: Option<NodeId>) {
        self.clear_leader(cx);
        cx.cancel_timer(Timer::Reaffirm);
        self.set_patience_timer(cx);
        if let Some(to) = to {
            cx.send(to, Message::Stand { term: self.leader_term });
        }
    }

    fn handle(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Request { term } => self.on_request(cx, from, term),
            Message::Locked { term, grant } => self.on_locked(cx, from, term, grant),
            Message::Failed { term } => self.on_failed(cx, from, term),
            Message::Inquire { term, grant } => self.on_inquire(cx, from, term, grant),
            Message::Relinquish { term, grant } => self.on_relinquish(cx, from, term, grant),
            Message::Release { term, grant } => self.on_release(cx, from, term, grant),
            Message::Elected { term } => self.on_claim(cx, from, term),
            Message::Pending { term } => drop(self.ballot(from, term)),
            Message::Outdated { refused, term, elected } => self.on_outdated(cx, refused, term, elected),
            Message::Ask => self.on_ask(cx, from),
            Message::Stand { term } => self.on_stand(cx, term),
        }
    }

    /// Campaigns in place of the leader of that term, unless there has been another leader since.
    fn on_stand(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        if term >= self.leader_term {
            self.campaign(cx);
        }
    }

    fn campaign(&mut self, cx: &mut Context<'_, Self>) {
        if self.candidacy.is_none() && !self.is_leader(cx) {
            self.start_candidacy(cx);
        }
    }
}

impl Process for GridQuorum {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        if let Start::Recovered(saved) = start {
            self.recover(saved);
            self.send_to_all(cx, Message::Ask);
            // A round trip takes two message delays.
            cx.set_timer(Timer::Patience, cx.delay_bound() * 3);
        }
        self.save(cx);
        self.liveness.expect_reaffirmation(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if from != cx.me() && cx.view().contains(from) {
            self.unresponsive.remove(&from);
            self.handle(cx, from, message);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Answers => self.ask_again(cx),
            Timer::Patience => {
                self.candidacy = None;
                self.start_candidacy(cx);
            }
            Timer::Reaffirm => self.reaffirm(cx),
            Timer::Leader => {
                self.clear_leader(cx);
                self.campaign(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.insert(peer);
        let state = self.candidacy.as_ref().and_then(|candidacy| candidacy.ballots.get(&peer));
        if self.leader == Some(peer) {
            self.clear_leader(cx);
            self.campaign(cx);
        } else if state.is_some_and(|ballot| !matches!(ballot.state, State::Locked { .. })) {
            self.ask_quorum(cx);
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.remove(&peer);
        match self.is_leader(cx) {
            true => cx.send(peer, Message::Elected { term: self.leader_term }),
            false => cx.send(peer, Message::Ask),
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Campaign => self.campaign(cx),
            Command::Resign if self.is_leader(cx) => {
                let view = cx.view();
                let successors = view.peers().filter(|&peer| self.may_succeed(cx, peer));
                let best = successors.max_by_key(|&peer| view.rank(peer));
                self.hand_over(cx, best);
            }
            Command::Transfer(to) if self.is_leader(cx) && self.may_succeed(cx, to) => {
                self.hand_over(cx, Some(to));
            }
            Command::Resign | Command::Transfer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
