//! Stable leader election (Aguilera, Delporte-Gallet, Fauconnier, Toueg 2001; named by Database
//! Internals, ch. 10).
//!
//! Model: partially synchronous, crash and recovery, lost messages; every process knows all members and the ring
//! order, whose positions number the leaders: process `r mod n` leads round `r`. Ranks play no part.
//!
//! ```text
//!   2, 3, 4 ──Start(0)──▶ 1          all processes are in round 0, which 1 leads
//!   1 ──Ok(0)──▶ 2, 3, 4             each period; after two of them, all accept 1
//!   ... 1 dies ...
//!   3, 4 ──Start(1)──▶ 2             their time-out: round 1, which 2 leads
//!   2 ──Ok(1)──▶ 1, 3, 4             each period
//! ```
//!
//! Cost: `3N - 3` messages if all live, `3N - 4` after the leader's death if the next one lives; then `N - 1` each
//! period, on the `N - 1` links from the leader. Each dead leader in between costs a time-out, unless a failure
//! detector suspects it.
//!
//! Promise of **stability**: a leader stays the leader if all live processes have accepted it for a while, it is up,
//! and its links to and from all others deliver in time. Faults of the other processes do not matter: crashes,
//! recoveries with and without their disks, pauses, false suspicions, partitions between them, `Campaign`. The
//! invariant `Stability` of the simulator states this precisely. Some time after faults stop, one live process of
//! each component leads it; it is enough that the links of one process to and from all others work. Lost messages
//! are tolerated: the next `Start` or `Ok` compensates for a lost one. A leader is replaced by loss only if one
//! follower misses `time-out / period` consecutive `Ok`s, rounded down: at loss `p`, with probability `p` to the
//! power of that, each period and for each follower. For the defaults that is a millionth of a per cent at 1% loss,
//! and a hundredth of a per cent at 10%.
//!
//! Not promised: under partition every component has a leader, and after it the higher round wins. A follower that
//! alone is cut off from a leader does replace it: in the paper too, a leader is protected for as long as "its links
//! have been behaving well". Each round has one leader by construction, but rounds are no epochs: when all processes
//! lose their state, rounds begin at 0 again.
//!
//! From the paper (its abstract and the description of its basic algorithm were available; the rest is from memory):
//! rounds, `r mod n`, `Start(k)` to the leader of a started round, `Ok(r)` to all each period δ, the time-out that
//! starts round `r + 1`, and the start of any higher round that a message names. From memory: a process accepts a
//! leader only after two `Ok`s, since by the second the first has reached all processes; and for lossy links a
//! process tells a process in a lower round the higher round.
//!
//! Interpretations and deviations from the paper:
//! - The paper's time-out is a little over 2δ; here it is more than four periods, for lossy links.
//! - The paper excludes old messages by links that drop messages older than δ (from memory), which requires clocks
//!   that are not available here. Here an old message of a higher round can start that round. The promise therefore
//!   begins when no process is paused and such messages have arrived.
//! - The paper has no recovery. A recovered process starts at round 0 and learns the current round from others. It
//!   saves nothing, since a round from its disk may be higher than the round of a healthy leader.
//! - A duplicated `Ok` does not count as two: a bit distinguishes consecutive ones.
//! - Rounds of suspected leaders are skipped, but only after the time-out: a false suspicion does not replace a
//!   leader. This replaces the paper's best algorithm, which "ensures that a leader is elected in constant time when
//!   the system is stable", and is not implemented.
//! - The delay bound is known, as in the paper, and time-outs do not grow: where messages permanently take longer
//!   than the time-out, rounds never end.
//! - Elections cannot be called: `Campaign` is ignored. The leader can hand over: `Resign` starts the next round,
//!   `Transfer` the next round that the named process leads.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Announcement, BadParameter, Choice, Command, Context, Contract, Cost, Detection, Electorate,
    Formula, NodeId, Parameter, Process, Roster, Safety, Start, Synchrony, Term, Topology, View,
};

/// The messages of the algorithm. Terms are rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// To the leader of a round: "I am in your round." To a process in a lower round: "This is the round."
    Start {
        /// The round.
        round: Term,
    },
    /// "I lead this round, and am alive."
    Ok {
        /// The round.
        round: Term,
        /// A bit that alternates, so that a duplicated `Ok` is not taken for two.
        odd: bool,
    },
}

suffrage_core::message_kinds!(Message { Start, Ok });

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The leader of the round is due to send `Ok` again.
    Period,
    /// A follower has missed the leader's `Ok`.
    Ok,
}

suffrage_core::timer_indices!(Timer { Period, Ok });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The period of a leader's `Ok`. The paper's δ.
    pub period: u64,
    /// The time without an `Ok` after which a follower starts the next round.
    pub timeout: u64,
}

impl Default for Options {
    /// The time-out is four periods, the delay of the fourth `Ok`, and one more delay for clock drift.
    fn default() -> Options {
        Options { period: 5, timeout: 22 }
    }
}

/// A process of the stable leader election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StableLeader {
    options: Options,
    round: Term,
    /// True if this process has accepted the leader of its round.
    accepted: bool,
    /// The bit of the last `Ok` of this round, received from its leader or sent by this process.
    last: Option<bool>,
    suspects: BTreeSet<NodeId>,
}

impl Algorithm for StableLeader {
    const CONTRACT: Contract = Contract {
        name: "stable-leader",
        summary: "A leader that is up and connected stays, whatever happens to the others.",
        source: "Aguilera, Delporte-Gallet, Fauconnier, Toueg 2001; Database Internals, ch. 10",
        topology: Topology::Complete,
        synchrony: Synchrony::PartiallySynchronous,
        knowledge: "all members and their order",
        tolerates: "crash and recovery; lost messages",
        detection: Detection::Timeout,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
        under_loss: &[],
        safety: Safety::Eventual,
        choice: Choice::Any,
        handover: true,
        messages: Cost {
            best: Formula { text: "3N - 4", of: |n| (3 * n).saturating_sub(4) },
            worst: Formula { text: "3N - 3", of: |n| 3 * n - 3 },
        },
        time: Cost { best: Formula { text: "6", of: |_| 6 }, worst: Formula { text: "7", of: |_| 7 } },
        upkeep: &[],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        parameters::delays_parameter!("period", period, "Period of a leader's Ok"),
        parameters::delays_parameter!(
            "timeout",
            timeout,
            "Time without an Ok after which a follower starts the next round: more than the period and a round trip"
        ),
    ];

    fn new(_: NodeId, options: &Options) -> StableLeader {
        StableLeader {
            options: *options,
            round: Term::default(),
            accepted: false,
            last: None,
            suspects: BTreeSet::new(),
        }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        // A process that learns that it leads a round sends its first `Ok` after a delay. The next `Ok` of a healthy
        // leader comes after a period and a delay.
        let least = options.period + 2;
        if options.timeout < least {
            let reason = format!("must be at least {least}: a healthy leader would be replaced");
            return Err(BadParameter { name: "timeout", reason });
        }
        Ok(())
    }
}

/// The leader of a round: "process k mod n", in the order of the roster.
fn leader_of(round: Term, view: View<'_>) -> NodeId {
    view.in_slot((round.0 % view.group_len() as u64) as usize)
}

impl StableLeader {
    /// "To start a round k, a process (1) sends (START, k) to […] the leader of round k, (2) sets r to k
    /// […] and (4) starts a timer."
    fn start_round(&mut self, cx: &mut Context<'_, Self>, round: Term) {
        if self.accepted {
            let led = leader_of(self.round, cx.view()) == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
        (self.round, self.accepted, self.last) = (round, false, None);
        let leader = leader_of(round, cx.view());
        if leader == cx.me() {
            cx.cancel_timer(Timer::Ok);
            self.send_ok(cx);
        } else {
            cx.cancel_timer(Timer::Period);
            cx.send(leader, Message::Start { round });
            self.await_ok(cx);
        }
    }

    /// Sends `Ok`: "The process checks if it is the leader of that round and if so sends (OK, r) to all every δ
    /// time", to itself too.
    fn send_ok(&mut self, cx: &mut Context<'_, Self>) {
        let odd = self.last == Some(false);
        for peer in cx.view().peers() {
            cx.send(peer, Message::Ok { round: self.round, odd });
        }
        self.record_ok(cx, odd);
        cx.set_timer(Timer::Period, cx.delay_bound() * self.options.period);
    }

    fn await_ok(&mut self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Ok, cx.delay_bound() * self.options.timeout);
    }

    /// Records an `Ok`. After two consecutive ones, the leader of the round is the leader.
    fn record_ok(&mut self, cx: &mut Context<'_, Self>, odd: bool) {
        if !self.accepted && self.last == Some(!odd) {
            self.accepted = true;
            let leader = leader_of(self.round, cx.view());
            cx.announce(Announcement::Elected { leader, term: self.round });
        }
        self.last = Some(odd);
    }

    /// The next round whose leader is not suspected; at the latest the next round of this process.
    fn next_round(&self, view: View<'_>) -> Term {
        let ahead = |rounds| Term(self.round.0.saturating_add(rounds));
        let mut next = (1..=view.group_len() as u64).map(ahead);
        next.find(|&round| !self.suspects.contains(&leader_of(round, view))).unwrap_or(self.round.next())
    }

    /// Starts this round if this process leads, which hands leadership over to the leader of the round.
    fn step_down(&mut self, cx: &mut Context<'_, Self>, round: Term) {
        if leader_of(self.round, cx.view()) == cx.me() {
            self.start_round(cx, round);
        }
    }
}

impl Process for StableLeader {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        self.start_round(cx, Term::default());
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let (round, ok) = match message {
            Message::Start { round } => (round, None),
            Message::Ok { round, odd } => (round, Some(odd)),
        };
        if ok.is_some() && from != leader_of(round, cx.view()) {
            return;
        }
        match round.cmp(&self.round) {
            Ordering::Less => return cx.send(from, Message::Start { round: self.round }),
            Ordering::Greater => self.start_round(cx, round),
            Ordering::Equal => {}
        }
        if let Some(odd) = ok {
            self.record_ok(cx, odd);
            self.await_ok(cx);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.send_ok(cx),
            Timer::Ok => {
                let next = self.next_round(cx.view());
                self.start_round(cx, next);
            }
        }
    }

    fn on_suspect(&mut self, _: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.insert(peer);
    }

    fn on_restore(&mut self, _: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.remove(&peer);
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Campaign => {}
            Command::Resign => {
                let next = self.next_round(cx.view());
                self.step_down(cx, next);
            }
            Command::Transfer(to) => {
                // A transfer to itself has a distance of 0 and needs no action.
                if let Some(distance @ 1..) = cx.view().distance(to) {
                    self.step_down(cx, Term(self.round.0.saturating_add(distance as u64)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
