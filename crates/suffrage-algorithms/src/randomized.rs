//! Randomized leader election (Ramanathan, Ferreira, Jagannathan, Grama, Szpankowski 2007).
//!
//! Model: n processes, of which any may contend; every process can be asked to mediate, contenders included. No
//! process knows the contenders. Synchronous (`--mode sync`): a common clock. Asynchronous (the default): no
//! assumption about time in the first phase, a bound tau on delays in the second. No failures, or few: section 5 and
//! `--on-failure`.
//!
//! ```text
//!   first phase, round j                            second phase, asynchronous
//!   contender          mediator, one of sigma_j     contender           mediator, one of sqrt(n ln n)
//!      ├────Request─────▶│                             ├──────REQ──────▶│ idle: grants, and is safe;
//!      │◀───Positive─────┤ to a single request         │◀─────ACK───────┤ a greater number waits,
//!      │◀───Negative─────┤ to all the others           │◀─────NAK───────┤ a smaller is refused
//!                                                      ├──────POTW─────▶│ all have granted
//!   single: synchronously, of all in that round;       │◀───POTW-ACK────┤
//!   asynchronously, the first request                  ├──────DEC──────▶│ one has refused
//!                                                      ╞═════Elected════▶ to all, not counted
//! ```
//!
//! Each round of the first phase lets about half of the contenders through, each of which asks more mediators than
//! before. The second phase is an election by probabilistic quorums
//! ([`probabilistic_quorum`](super::probabilistic_quorum)) among the remaining contenders. Synchronously, its
//! mediators choose the greatest of the received random numbers, and there are neither POTW nor DEC.
//!
//! Cost: `O(n)` messages for any number of contenders, `O(log n)` rounds of two message delays. In the second phase
//! a contender knows its result within 7 tau as printed (Theorem 8), 10 tau as repaired: 8 for the answers, as a
//! mediator may be safe for three and close-safe for another three, and 2 for those to POTW. If all contend,
//! synchronously 14.1 n messages with 1,000 processes, 12.1 n with 10,000 and 7.3 n with 100,000; asynchronously
//! 10.0, 9.0 and 8.9 (`suffrage-lab simulate randomized --nodes N --initiator all --mode sync --latency uniform:0,1
//! --runs 5`).
//!
//! Measured with 1,000 processes of which 1% contend, 10,000 elections each (`suffrage-lab simulate randomized
//! --nodes 1000 --contenders 0.01 --latency uniform:0,1 --runs 10000`): a unique leader in 99.9% as repaired, in 67%
//! with `--tables printed`, where a third of the elections has no leader.
//!
//! Promise: one leader "with high probability", `1 - 1/log^k n`. Two may win if their mediators of the second phase
//! have no member in common (probability about `1/n` for each pair). It is possible that no contender wins:
//! synchronously, all remaining contenders may meet in the first phase; and failures, section 5. The algorithm
//! elects once: a loser does not retry, and a dead leader is replaced only if a detector or the application triggers
//! an election. As repaired, two contenders with a common mediator never both win, whatever the delays: a mediator
//! that has granted a POTW grants no other contender before that contender's own DEC. The time bounds are only
//! needed for a contender to win at all.
//!
//! # Interpretations
//!
//! - A process with the command to campaign contends. Elections are numbered. The process joins the election in
//!   progress, if there is one, and otherwise calls the next.
//! - The number of rounds: [`rounds`]. `sigma_j` is rounded up, so that the early rounds let fewer than half
//!   through; `--rounding`.
//! - Mediators are distinct and uniform over all n, the contender itself included. With an overlay (`--topology
//!   power-law:0.8`) random walks find them. The hops of the walks are a metric and do not count as messages.
//! - Random numbers are from `[0..n^4]` as far as 64 bits reach; ids break ties.
//! - Synchronous rounds begin at multiples of two tau of the common clock, and mediators answer in their middle. A
//!   mediator that has chosen in the second phase refuses smaller numbers that come later. A contender that starts
//!   after that has received the winner's announcement.
//! - Asynchronously, a contender whose mediators must all grant waits for them without a time-out: the first phase
//!   is "totally asynchronous".
//! - `--reuse-mediators` ("with the mediators from previous rounds participating in round j"): a mediator holds an
//!   accepted contender until it drops out, and lets it compete with the requests of later rounds. A contender that
//!   loses must therefore send DEC. The second phase asks new mediators. Measured
//!   (`tests/randomized/asynchronous.rs`), this saves a quarter of the messages asynchronously. Synchronously, with
//!   as few rounds as are safe, it lets so many more contenders through that the second phase costs more than is
//!   saved.
//! - Failures: a contender of the second phase asks other mediators in place of those that do not answer. That takes
//!   longer than mediators are post-safe. A mediator that has become idle again still grants the POTW of its last
//!   contender if it has granted no other since. With `all-positive`, which the paper adopts, a contender wins when
//!   the full number has also granted its POTW.
//! - All processes learn the winner from a multicast. Of two winners, processes that receive both announcements
//!   follow the one with the greater number; the election still has two winners.
//!
//! # Errors in the printed tables
//!
//! `--tables printed` keeps the errors, `literal` adds two typographical errors, `repaired` is the default. The
//! errors that prevent a winner or allow two have schedules in `tests/randomized/flaws.rs`; the others are shown at
//! a single mediator in `mediator/tests.rs`.
//!
//! - Row 1 sends no ACK (literal): no contender ever wins. The last `init` of Table 7 has its arguments swapped
//!   (literal): the waiting contender is a non-member.
//! - DEC is not matched with its sender: the DEC of a loser removes a potential winner, and two win.
//! - POTW refuses the waiting contender at once: if its sender then loses elsewhere, no contender wins. As repaired,
//!   the waiting contender is kept, so an answer may take 8 tau and post-safe lasts 6.
//! - DEC in the safe state without a waiting contender leaves the mediator with a contender that has dropped out; so
//!   does a post-safe state that expires; so does a REQ that was overtaken by its sender's DEC.
//! - POTW of a contender that is not current is ignored in post-safe and close-safe, and so that contender wins.
//! - A final mediator answers no REQ, and never answers a waiting contender.

mod contender;
pub mod figures;
mod mediator;
mod mediator_set;
mod member;
mod message;
pub mod options;
pub mod rounds;
mod sync_mediator;
mod vector;

pub use contender::{Contender, Stage};
pub use mediator::{Answer, Claim, Mediator, MediatorOutput, State};
pub use mediator_set::{MediatorSet, MediatorStatus};
pub use member::{Member, Record, Winner};
pub use message::{Message, Timer};
pub use options::Options;
pub use sync_mediator::{PendingRequest, Response, SyncMediator};
pub use vector::Vector;

use rounds::{Tournament, sigma, sigma_last};

use suffrage_core::{
    Algorithm, Choice, Command, Context, Contract, Cost, Detection, Electorate, Figure, Formula, NodeId,
    Parameter, Process, Safety, Start, Synchrony, Topology,
};

/// A process of the randomized election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Randomized(Member);

impl Randomized {
    /// The process as contender and mediator.
    pub fn member(&self) -> &Member {
        &self.0
    }
}

/// The default tournament of a group of this size.
fn default_tournament(n: u64) -> Tournament {
    let Options { mode, rounds, .. } = Options::default();
    Tournament { size: n, mode, rounds }
}

/// The number of mediators that one contender asks in all rounds of the first phase.
fn first_phase_requests(n: u64) -> u64 {
    (1..=default_tournament(n).first_phase()).map(|round| sigma(n, round).ceil() as u64).sum()
}

impl Algorithm for Randomized {
    const CONTRACT: Contract = Contract {
        name: "randomized",
        summary: "Rounds before random mediators halve the contenders, and a random quorum picks the winner.",
        source: "Ramanathan et al. 2007",
        topology: Topology::Complete,
        synchrony: Synchrony::Synchronous,
        knowledge: "the approximate size of the group; uniform sampling of members",
        tolerates: "a few dead mediators; a leader's death with a detector",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: false,
        under_loss: &[],
        safety: Safety::WithHighProbability,
        choice: Choice::Any,
        handover: false,
        messages: Cost {
            best: Formula {
                text: "2 sum sigma_j + 4 sqrt(N ln N)",
                of: |n| 2 * first_phase_requests(n) + 4 * sigma_last(n) as u64,
            },
            worst: Formula {
                text: "N (2 sum sigma_j + 5 sqrt(N ln N)), O(N) expected",
                of: |n| n * (2 * first_phase_requests(n) + 5 * sigma_last(n) as u64),
            },
        },
        time: Cost {
            best: Formula { text: "2R + 5", of: |n| 2 * u64::from(default_tournament(n).first_phase()) + 5 },
            worst: Formula {
                text: "2R + 11",
                of: |n| 2 * u64::from(default_tournament(n).first_phase()) + 11,
            },
        },
        upkeep: &[],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        options::MODE,
        options::ROUNDS,
        options::ROUNDING,
        options::MEDIATOR,
        options::REUSE,
        options::ON_FAILURE,
        options::TABLES,
        options::TAU,
        options::ESTIMATE,
        options::WALK,
        options::STEPS,
    ];

    fn new(_: NodeId, options: &Options) -> Randomized {
        Randomized(Member::new(options))
    }

    fn figures(
        options: &Options,
        members: &mut dyn Iterator<Item = suffrage_core::Member<'_, Self>>,
    ) -> Vec<Figure> {
        figures::of(options, members.map(|member| &member.process.0))
    }
}

impl Process for Randomized {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, _: &mut Context<'_, Self>, _: Start<()>) {}

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        self.0.on_message(cx, from, message);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        self.0.on_timer(cx, timer);
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.0.on_suspect(cx, peer);
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.0.on_restore(cx, peer);
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        self.0.on_command(cx, command);
    }
}

#[cfg(test)]
mod tests;
