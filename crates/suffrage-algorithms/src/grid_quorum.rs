//! Election by a row and a column of a grid (Maekawa 1985, as applied to election in Ramanathan et al.
//! 2007, section 8).
//!
//! Model: partially synchronous, crash and recovery with the disk kept; everybody knows everybody, and
//! with it the grid. A failure detector tells when to call an election; without one, the application does
//! (`Campaign`), or the leader's silence (`reaffirm`).
//!
//! ```text
//!   1 2 3     5 ──Request──▶ 2, 4, 6, 8        its row and column, and itself
//!   4 5 6     5 ◀──Locked─── 2, 4, 6, 8        each is locked for one at a time
//!   7 8 9     5 ──Elected──▶ all others        5 has all the locks
//!
//!   9 ──Request──▶ 6 (locked for 5)            a better one wants the lock
//!   5 ◀──Inquire── 6                           "can you do without?"
//!   5 ──Relinquish──▶ 6                        yes, since some other has answered `Failed`
//!   9 ◀──Locked─── 6
//! ```
//!
//! Cost: one that calls alone sends and gets `2(q - 1)` messages, q the size of its row and column, and
//! announces itself in `N - 1`; 3 message delays. When all contend, each lock is asked for, granted,
//! refused, inquired about and relinquished in at most 7 messages (Maekawa, 3 to 7 with the release):
//! `O(N sqrt N)`, about `4 N sqrt N` as measured in `tests/grid_quorum.rs`. It takes at most 5 delays from
//! when the last has stood. By 1, all requests have come; by 2, the inquiries and `Failed`, so that everybody
//! knows whether it has to give way. Of those who do not, the worst waits only for some who do, and has all
//! their locks by 4.
//!
//! Promises never two leaders in one term, whatever happens to messages and clocks, as long as disks are
//! kept: any two quorums meet, whoever they meet in holds one lock a term, saves it before it says so, and
//! gives it to another only when its holder says that it has not won. And that some time after faults
//! stop, whoever can talk to all of a row and a column follows one leader. Does not promise that a leader
//! which lost its quorum knows it: it leads those that it reaches until it hears of a later term. Nor that
//! the best leads: ranks decide only between those who contend at the same time.
//!
//! Interpretations:
//! - Maekawa's is mutual exclusion. For an election, the winner keeps its locks for the whole term, and
//!   its `Elected` stands for `Release`. A new election is a new term, in which all locks are free. Whoever
//!   hears of a term in which nobody leads yet joins it, so that those who contend meet.
//! - One that is first in line is told `Failed` when a better one comes, without which Maekawa's can
//!   deadlock (Sanders 1987).
//! - A voter numbers its grants, so that a doubled or late message about an earlier one changes nothing.
//! - "An arbitrarily selected single row and column": a candidate takes its own; in place of one with a
//!   member that is suspected, or left two requests unanswered, the next one. If no row and column is
//!   left it waits, and starts again.
//! - A process that recovers asks for the leader first (`Ask`), and may have won before: it never stands
//!   in a term in which it may have stood. It saves the term of the latest leader, lest it follow an earlier
//!   one that has not heard of its own reign, and that one follow it. One that lost its disk does not lock any more.
//! - A lock whose holder died blocks its term. Candidates lose patience, and begin the next.

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
    /// As a candidate: answers to its requests.
    Answers,
    /// Without a leader: somebody to be elected.
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
    /// How long to wait before a request is repeated.
    pub retry: u64,
    /// How long to wait at least for a leader before a new term is begun, up to twice that.
    pub patience: u64,
    /// The period of a leader's repeated announcement.
    pub reaffirm: Option<u64>,
    /// A deliberate mistake: nothing is saved.
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
    /// The latest term in which this process may have stood.
    stood: Term,
    candidacy: Option<Candidacy>,
    leader: Option<NodeId>,
    /// The term of the latest leader heard of.
    heard: Term,
    suspects: BTreeSet<NodeId>,
    /// Those who left requests unanswered, and have not been heard since.
    silent: BTreeSet<NodeId>,
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
        summary: "Whoever locks all of a row and a column of the grid is elected for a term.",
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
        parameters::delays_parameter!("retry", retry, "How long to wait before a request is repeated"),
        parameters::delays_parameter!(
            "patience",
            patience,
            "How long to wait for a leader, up to twice this, before a new term is begun"
        ),
        parameters::reaffirm_parameter!(),
        parameters::switch_parameter!(
            "forget-locks",
            forget_locks,
            "A deliberate mistake: terms and locks are not saved, to show that the checker finds it"
        ),
    ];

    fn new(_: NodeId, options: &Options) -> GridQuorum {
        GridQuorum {
            options: *options,
            lock: Lock::default(),
            voter: true,
            stood: Term::default(),
            candidacy: None,
            leader: None,
            heard: Term::default(),
            suspects: BTreeSet::new(),
            silent: BTreeSet::new(),
            liveness: LeaderLiveness::new(options.reaffirm, Timer::Reaffirm, Timer::Leader),
        }
    }
}

impl GridQuorum {
    /// Says something to somebody, perhaps itself.
    fn say(&mut self, cx: &mut Context<'_, Self>, to: NodeId, message: Message) {
        if to == cx.me() {
            self.handle(cx, to, message);
        } else {
            cx.send(to, message);
        }
    }

    fn tell_all(&self, cx: &mut Context<'_, Self>, message: Message) {
        for peer in cx.view().peers() {
            cx.send(peer, message);
        }
    }

    fn leads(&self, cx: &Context<'_, Self>) -> bool {
        self.leader == Some(cx.me())
    }

    fn forget_leader(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(leader) = self.leader.take() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    /// Stands in the current term if nobody leads in it yet, otherwise in the next.
    fn stand(&mut self, cx: &mut Context<'_, Self>) {
        let open = self.lock.term > self.heard && self.lock.term > self.stood;
        let term = if open { self.lock.term } else { self.lock.term.next() };
        if !self.voter || term <= self.heard || term <= self.stood {
            return;
        }
        self.forget_leader(cx);
        self.lose_patience_later(cx);
        if self.available(cx).is_none() {
            // Next time, the silent are asked again.
            return self.silent.clear();
        }
        if term > self.lock.term {
            self.enter(cx, term);
        }
        self.stood = term;
        self.candidacy = Some(Candidacy::default());
        self.ask_quorum(cx);
    }

    fn lose_patience_later(&mut self, cx: &mut Context<'_, Self>) {
        let least = cx.delay_bound() * self.options.patience;
        let after = least + least.scale(cx.rng().unit());
        cx.set_timer(Timer::Patience, after);
    }

    /// A row and a column whose members are locked for this candidate, or may be there to be asked.
    fn available(&self, cx: &Context<'_, Self>) -> Option<BTreeSet<NodeId>> {
        let (view, grid) = (cx.view(), Grid::of(cx.view().group_len()));
        let present = |slot| {
            let id = view.in_slot(slot);
            let ballot = self.candidacy.as_ref().and_then(|candidacy| candidacy.ballots.get(&id));
            let locked = ballot.is_some_and(|ballot| matches!(ballot.state, State::Locked { .. }));
            locked || !self.silent.contains(&id) && !self.suspects.contains(&id)
        };
        let (row, column) = grid.available(view.slot(), present)?;
        Some(grid.quorum(row, column).into_iter().map(|slot| view.in_slot(slot)).collect())
    }

    /// Asks a quorum that is available, and lets the others go.
    fn ask_quorum(&mut self, cx: &mut Context<'_, Self>) {
        let Some(quorum) = self.available(cx) else { return self.withdraw(cx) };
        let Some(candidacy) = &mut self.candidacy else { return };
        let spare: Vec<NodeId> =
            candidacy.ballots.keys().copied().filter(|id| !quorum.contains(id)).collect();
        let new: Vec<NodeId> = quorum.into_iter().filter(|id| !candidacy.ballots.contains_key(id)).collect();
        let asked = Ballot { state: State::Asked, unanswered: 1 };
        candidacy.ballots.extend(new.iter().map(|&id| (id, asked)));
        spare.into_iter().for_each(|voter| self.release(cx, voter));
        let term = self.lock.term;
        new.into_iter().for_each(|voter| self.say(cx, voter, Message::Request { term }));
        if self.candidacy.is_some() {
            cx.set_timer(Timer::Answers, cx.delay_bound() * self.options.retry);
        }
        self.count(cx);
    }

    /// Does without this voter.
    fn release(&mut self, cx: &mut Context<'_, Self>, voter: NodeId) {
        let Some(candidacy) = &mut self.candidacy else { return };
        let Some(ballot) = candidacy.ballots.remove(&voter) else { return };
        let grant = match ballot.state {
            State::Locked { grant, .. } => Some(grant),
            _ => None,
        };
        candidacy.given_back.extend(grant.map(|grant| (voter, grant)));
        self.say(cx, voter, Message::Release { term: self.lock.term, grant });
    }

    /// Ends its candidacy before it is decided.
    fn withdraw(&mut self, cx: &mut Context<'_, Self>) {
        let Some(candidacy) = &self.candidacy else { return };
        let voters: Vec<NodeId> = candidacy.ballots.keys().copied().collect();
        voters.into_iter().for_each(|voter| self.release(cx, voter));
        self.candidacy = None;
        cx.cancel_timer(Timer::Answers);
    }

    /// "When all members of S_i are locked", it has won.
    fn count(&mut self, cx: &mut Context<'_, Self>) {
        if !self.candidacy.as_ref().is_some_and(Candidacy::has_won) {
            return;
        }
        self.candidacy = None;
        cx.cancel_timer(Timer::Answers);
        cx.cancel_timer(Timer::Patience);
        (self.leader, self.heard) = (Some(cx.me()), self.lock.term);
        self.save(cx);
        cx.announce(Announcement::Elected { leader: cx.me(), term: self.heard });
        self.reaffirm(cx);
    }

    fn reaffirm(&mut self, cx: &mut Context<'_, Self>) {
        self.tell_all(cx, Message::Elected { term: self.heard });
        self.liveness.start_reaffirming(cx);
    }

    /// The candidacy and the ballot of a voter that has just been heard, if they are of this term.
    fn ballot(&mut self, voter: NodeId, term: Term) -> Option<&mut Ballot> {
        let ballot = self.candidacy.as_mut().filter(|_| term == self.lock.term)?.ballots.get_mut(&voter)?;
        ballot.unanswered = 0;
        Some(ballot)
    }

    fn on_locked(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, grant: u64) {
        // Without a candidacy, this process may have won, crashed, and forgotten: it keeps its locks.
        let Some(candidacy) = self.candidacy.as_mut().filter(|_| term == self.lock.term) else { return };
        let given_back = candidacy.given_back.get(&from).copied().unwrap_or(0);
        let Some(ballot) = candidacy.ballots.get_mut(&from) else {
            candidacy.given_back.insert(from, grant.max(given_back));
            return self.say(cx, from, Message::Release { term, grant: Some(grant) });
        };
        ballot.unanswered = 0;
        if grant <= given_back {
            return self.say(cx, from, Message::Relinquish { term, grant });
        }
        match ballot.state {
            State::Locked { grant: held, .. } if held >= grant => {}
            _ => ballot.state = State::Locked { grant, inquired: false },
        }
        self.count(cx);
    }

    fn on_failed(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        let Some(ballot) = self.ballot(from, term) else { return };
        if ballot.state == State::Asked {
            ballot.state = State::Failed;
            self.relinquish(cx);
        }
    }

    fn on_inquire(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term, grant: u64) {
        // It may have overtaken the `Locked` that it is about.
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

    /// Gives back what was inquired about if it cannot win now.
    fn relinquish(&mut self, cx: &mut Context<'_, Self>) {
        let term = self.lock.term;
        let Some(candidacy) = self.candidacy.as_mut().filter(|candidacy| candidacy.cannot_win()) else {
            return;
        };
        let mut given = Vec::new();
        for (&voter, ballot) in &mut candidacy.ballots {
            if let State::Locked { grant, inquired: true } = ballot.state {
                ballot.state = State::Relinquished;
                candidacy.given_back.insert(voter, grant);
                given.push((voter, grant));
            }
        }
        given.into_iter().for_each(|(voter, grant)| self.say(cx, voter, Message::Relinquish { term, grant }));
    }

    /// Repeats what was not granted, and does without those who do not answer.
    fn ask_again(&mut self, cx: &mut Context<'_, Self>) {
        let term = self.lock.term;
        let Some(candidacy) = &mut self.candidacy else { return };
        let mut again = Vec::new();
        for (&voter, ballot) in &mut candidacy.ballots {
            match ballot.state {
                State::Locked { .. } => {}
                _ if ballot.unanswered >= 2 => drop(self.silent.insert(voter)),
                _ => {
                    ballot.unanswered += 1;
                    again.push(voter);
                }
            }
        }
        again.into_iter().for_each(|voter| self.say(cx, voter, Message::Request { term }));
        self.ask_quorum(cx);
    }

    /// Believes in a leader that speaks for itself, or of which another does.
    fn on_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId, term: Term) {
        let news = self.leader != Some(leader) || term > self.heard;
        let rival = term == self.heard && self.leader.is_some_and(|known| known != leader);
        if leader == cx.me() || term < self.heard || rival || self.suspects.contains(&leader) {
            return;
        }
        if term >= self.lock.term {
            self.candidacy = None;
            cx.cancel_timer(Timer::Answers);
        }
        self.withdraw(cx);
        cx.cancel_timer(Timer::Patience);
        (self.leader, self.heard) = (Some(leader), term);
        if term > self.lock.term {
            self.enter(cx, term);
        } else if news {
            self.save(cx);
        }
        self.liveness.expect_reaffirmation(cx);
        if news {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    fn on_claim(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        if term < self.heard && self.leader.is_some() {
            let message = self.outdated(term);
            return self.say(cx, from, message);
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
        // What was refused earlier is not asked for any more: to go on to the next term for that would
        // have two that are a term apart overtake each other for ever.
        if self.candidacy.is_some() && refused == self.lock.term && term >= refused {
            self.candidacy = None;
            if term > self.lock.term {
                self.enter(cx, term);
            }
            self.stand(cx);
        }
    }

    fn on_ask(&mut self, cx: &mut Context<'_, Self>, from: NodeId) {
        if self.leads(cx) {
            cx.send(from, Message::Elected { term: self.heard });
        }
    }

    /// Whether this peer is there to be told to stand, as far as is known.
    fn may_succeed(&self, cx: &Context<'_, Self>, peer: NodeId) -> bool {
        peer != cx.me() && cx.view().contains(peer) && !self.suspects.contains(&peer)
    }

    /// Lets go, and has another stand; in case it does not, this one does after a while.
    fn hand_over(&mut self, cx: &mut Context<'_, Self>, to: Option<NodeId>) {
        self.forget_leader(cx);
        cx.cancel_timer(Timer::Reaffirm);
        self.lose_patience_later(cx);
        if let Some(to) = to {
            cx.send(to, Message::Stand { term: self.heard });
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

    /// Stands in place of the leader of that term, unless another has led since.
    fn on_stand(&mut self, cx: &mut Context<'_, Self>, term: Term) {
        if term >= self.heard {
            self.campaign(cx);
        }
    }

    fn campaign(&mut self, cx: &mut Context<'_, Self>) {
        if self.candidacy.is_none() && !self.leads(cx) {
            self.stand(cx);
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
            self.tell_all(cx, Message::Ask);
            // A round trip takes two message delays.
            cx.set_timer(Timer::Patience, cx.delay_bound() * 3);
        }
        self.save(cx);
        self.liveness.expect_reaffirmation(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if from != cx.me() && cx.view().contains(from) {
            self.silent.remove(&from);
            self.handle(cx, from, message);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Answers => self.ask_again(cx),
            Timer::Patience => {
                self.candidacy = None;
                self.stand(cx);
            }
            Timer::Reaffirm => self.reaffirm(cx),
            Timer::Leader => {
                self.forget_leader(cx);
                self.campaign(cx);
            }
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.insert(peer);
        let state = self.candidacy.as_ref().and_then(|candidacy| candidacy.ballots.get(&peer));
        if self.leader == Some(peer) {
            self.forget_leader(cx);
            self.campaign(cx);
        } else if state.is_some_and(|ballot| !matches!(ballot.state, State::Locked { .. })) {
            self.ask_quorum(cx);
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.remove(&peer);
        match self.leads(cx) {
            true => cx.send(peer, Message::Elected { term: self.heard }),
            false => cx.send(peer, Message::Ask),
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Campaign => self.campaign(cx),
            Command::Resign if self.leads(cx) => {
                let view = cx.view();
                let heirs = view.peers().filter(|&peer| self.may_succeed(cx, peer));
                let best = heirs.max_by_key(|&peer| view.rank(peer));
                self.hand_over(cx, best);
            }
            Command::Transfer(to) if self.leads(cx) && self.may_succeed(cx, to) => {
                self.hand_over(cx, Some(to));
            }
            Command::Resign | Command::Transfer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
