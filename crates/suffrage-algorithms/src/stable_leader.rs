//! Stable leader election (Aguilera, Delporte-Gallet, Fauconnier, Toueg 2001; named by Database
//! Internals, ch. 10).
//!
//! Model: partially synchronous, crash and recovery, lost messages; everybody knows everybody and the
//! ring order, whose places number the leaders: process `r mod n` leads round `r`. Ranks play no part.
//!
//! ```text
//!   2, 3, 4 ──Start(0)──▶ 1          everybody is in round 0, which 1 leads
//!   1 ──Ok(0)──▶ 2, 3, 4             each period; after two of them, all believe in 1
//!   ... 1 dies ...
//!   3, 4 ──Start(1)──▶ 2             their time-out: round 1, which 2 leads
//!   2 ──Ok(1)──▶ 1, 3, 4             each period
//! ```
//!
//! Cost: `3N - 3` messages if all live, `3N - 4` after the leader's death if the next one lives; then
//! `N - 1` each period, on the `N - 1` links from the leader. Each dead leader on the way costs a
//! time-out, unless a failure detector has reported it.
//!
//! Promises **stability**: a leader that all live processes have believed in for a while, that is up,
//! and whose links to and from all others deliver in time, stays the leader, whatever befalls the
//! others: crashes, recoveries with and without their disks, pauses, wrong suspicions, cuts between
//! them, `Campaign`. The invariant `Stability` of the simulator says it precisely. Promises that some
//! time after faults stop, one live process of each component leads it; it is enough that the links of one
//! process to and from all others work. Tolerates lost messages: a lost
//! `Start` or `Ok` is made good by the next, and a leader falls by loss only if one follower misses
//! `time-out / period` times `Ok` in a row, rounded down: of chance `p` to the power of that, each period
//! and for each follower, at loss `p`; a millionth part of a per cent for the defaults at 1%, a
//! hundredth of a per cent at 10%.
//!
//! Does not promise more: under partition every part has a leader, and after it the higher round wins.
//! A follower that alone is cut from a leader does replace it: in the paper too a leader is protected
//! for as long as "its links have been behaving well". Rounds have one leader each by construction, but
//! are no epochs: when all forget, they begin at 0 again.
//!
//! The paper's (its abstract and the description of its basic algorithm were at hand; the rest is from
//! memory of it): rounds, `r mod n`, `Start(k)` to the leader of the round one begins, `Ok(r)` to all each
//! period δ, the time-out that begins round `r + 1`, and to begin any higher round one hears of. From
//! memory: to believe in a leader only after two `Ok`, since by the second the first has reached everybody,
//! and for lossy links to tell one that is behind the higher round.
//!
//! Readings, and where this departs from the paper:
//! - The paper's time-out is a little over 2δ; ours is longer than four periods, for lossy links.
//! - It rules out old messages by links that drop what is older than δ (from memory), which takes clocks
//!   we do not have. Here an old message of a higher round can begin that round, so the promise starts when
//!   nobody is paused and such messages have arrived.
//! - It knows no recovery. A process that recovers begins at round 0 and is told the present round: it
//!   saves nothing, since a round from its disk may be higher than the one of a healthy leader.
//! - A doubled `Ok` is not two: consecutive ones are told apart by a bit.
//! - Rounds of leaders that a failure detector has reported are skipped, but only once the time-out has
//!   run out: a wrong suspicion does not unseat anybody. That stands in for the paper's best algorithm,
//!   which "ensures that a leader is elected in constant time when the system is stable", and is not
//!   built.
//! - The delay bound is known, as in the paper, and time-outs do not grow: where messages take longer than
//!   the time-out for good, rounds go on for ever.
//! - Nobody can call an election: `Campaign` is ignored. The leader may go: `Resign` begins the next
//!   round, `Transfer` the next one that the named one leads.

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
    /// To the leader of a round: "I am in your round." To one that is behind: "This is the round."
    Start {
        /// Which.
        round: Term,
    },
    /// "I lead this round, and am well."
    Ok {
        /// Which.
        round: Term,
        /// Differs from one to the next, so that a doubled one is not taken for two.
        odd: bool,
    },
}

suffrage_core::message_kinds!(Message { Start, Ok });

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// As the leader of the round: the time to say `Ok` again.
    Period,
    /// As a follower: the leader's `Ok`.
    Ok,
}

suffrage_core::timer_indices!(Timer { Period, Ok });

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How often a leader says that it is well. The paper's δ.
    pub period: u64,
    /// How long a leader may be silent.
    pub timeout: u64,
}

impl Default for Options {
    /// The time-out is four periods, the delay of the fourth `Ok`, and one more for clocks that drift.
    fn default() -> Options {
        Options { period: 5, timeout: 22 }
    }
}

/// A process of the stable leader election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StableLeader {
    options: Options,
    round: Term,
    /// Whether it believes in the leader of its round.
    adopted: bool,
    /// The bit of the last `Ok` of this round, heard from its leader or said by this process.
    last: Option<bool>,
    suspects: BTreeSet<NodeId>,
}

impl Algorithm for StableLeader {
    const CONTRACT: Contract = Contract {
        name: "stable-leader",
        summary: "A leader that is up and connected stays, whatever befalls the others.",
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
        parameters::delays_parameter!("period", period, "How often a leader says that it is well"),
        parameters::delays_parameter!(
            "timeout",
            timeout,
            "How long a leader may be silent: longer than its period and a round trip"
        ),
    ];

    fn new(_: NodeId, options: &Options) -> StableLeader {
        StableLeader {
            options: *options,
            round: Term::default(),
            adopted: false,
            last: None,
            suspects: BTreeSet::new(),
        }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        // One that is told of its round says its first `Ok` after a delay; a healthy leader's next one
        // comes after a period and a delay.
        let least = options.period + 2;
        if options.timeout < least {
            let reason = format!("a healthy leader would be replaced: it must be at least {least}");
            return Err(BadParameter { name: "timeout", reason });
        }
        Ok(())
    }
}

/// "Process k mod n", of the roster's order.
fn leader_of(round: Term, view: View<'_>) -> NodeId {
    view.in_slot((round.0 % view.group_len() as u64) as usize)
}

impl StableLeader {
    /// "To start a round k, a process (1) sends (START, k) to […] the leader of round k, (2) sets r to k
    /// […] and (4) starts a timer."
    fn start_round(&mut self, cx: &mut Context<'_, Self>, round: Term) {
        if self.adopted {
            let led = leader_of(self.round, cx.view()) == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
        (self.round, self.adopted, self.last) = (round, false, None);
        let leader = leader_of(round, cx.view());
        if leader == cx.me() {
            cx.cancel_timer(Timer::Ok);
            self.say_ok(cx);
        } else {
            cx.cancel_timer(Timer::Period);
            cx.send(leader, Message::Start { round });
            self.await_ok(cx);
        }
    }

    /// "The process checks if it is the leader of that round and if so sends (OK, r) to all every δ
    /// time": to itself too.
    fn say_ok(&mut self, cx: &mut Context<'_, Self>) {
        let odd = self.last == Some(false);
        for peer in cx.view().peers() {
            cx.send(peer, Message::Ok { round: self.round, odd });
        }
        self.take_ok(cx, odd);
        cx.set_timer(Timer::Period, cx.delay_bound() * self.options.period);
    }

    fn await_ok(&mut self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Ok, cx.delay_bound() * self.options.timeout);
    }

    /// After two consecutive ones, the leader of the round is the leader.
    fn take_ok(&mut self, cx: &mut Context<'_, Self>, odd: bool) {
        if !self.adopted && self.last == Some(!odd) {
            self.adopted = true;
            let leader = leader_of(self.round, cx.view());
            cx.announce(Announcement::Elected { leader, term: self.round });
        }
        self.last = Some(odd);
    }

    /// The next round whose leader is not suspected; this process's own at the latest.
    fn next_round(&self, view: View<'_>) -> Term {
        let ahead = |rounds| Term(self.round.0.saturating_add(rounds));
        let mut next = (1..=view.group_len() as u64).map(ahead);
        next.find(|&round| !self.suspects.contains(&leader_of(round, view))).unwrap_or(self.round.next())
    }

    /// As the leader: hands over to the one that leads this round.
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
            self.take_ok(cx, odd);
            self.await_ok(cx);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.say_ok(cx),
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
                // To itself, it is nothing to be done: a distance of none.
                if let Some(distance @ 1..) = cx.view().distance(to) {
                    self.step_down(cx, Term(self.round.0.saturating_add(distance as u64)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
