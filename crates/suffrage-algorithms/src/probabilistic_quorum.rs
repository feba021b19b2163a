//! Election by probabilistic quorums (PQ): the second phase of Ramanathan et al. 2007 alone (sections 7 and
//! 8), after Malkhi, Reiter, Wool and Wright 2001.
//!
//! Model: as [`randomized`](super::randomized), of which it is the case without a first phase: every contender is a
//! finalist, and asks `sqrt(n ln n)` mediators. Two such sets have no member in common with a probability of about
//! `1/n`; otherwise the common mediator grants only one of the two.
//!
//! ```text
//!   contender                    mediator, one of sqrt(n ln n)
//!      ├───────────REQ──────────────▶│   idle: grants, and is safe
//!      │◀──────────ACK───────────────┤
//!      ├───────────POTW─────────────▶│   all have granted
//!      │◀────────POTW-ACK────────────┤
//!      ╞═══════════Elected══════════▶    to all, not counted
//! ```
//!
//! Cost: with one contender `4 sqrt(n ln n)`; with n of them `O(n sqrt(n ln n))`, "O(n sqrt n) and a single
//! round" in the paper's Table 1. Time: 4 message delays at best, 10 at most, and one for the announcement.
//!
//! Promise: one leader with probability `1 - O(1/n)`; see [`randomized`](super::randomized) for its assumptions, the
//! options and the interpretations, which are the same.

use super::randomized::options::{self, Options as Settings, Rounds};
use super::randomized::rounds::sigma_last;
use super::randomized::{Member, Message, Randomized, Timer, figures};
use suffrage_core::{
    Algorithm, Command, Context, Contract, Cost, Figure, Formula, NodeId, Parameter, Process, Start,
};

/// A process of PQ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProbabilisticQuorum(Member);

impl ProbabilisticQuorum {
    /// The process as contender and mediator.
    pub fn member(&self) -> &Member {
        &self.0
    }
}

/// The options of `randomized` that concern the second phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options(pub Settings);

impl Default for Options {
    fn default() -> Options {
        Options(Settings { rounds: Rounds::Fixed(0), ..Settings::default() })
    }
}

/// A parameter of `randomized`, for the options of this algorithm.
macro_rules! inherited {
    ($parameter:path) => {
        Parameter {
            name: $parameter.name,
            value: $parameter.value,
            help: $parameter.help,
            set: |options, text| ($parameter.set)(&mut options.0, text),
            show: |options| ($parameter.show)(&options.0),
        }
    };
}

fn quorum(n: u64) -> u64 {
    sigma_last(n) as u64
}

impl Algorithm for ProbabilisticQuorum {
    const CONTRACT: Contract = Contract {
        name: "probabilistic-quorum",
        summary: "A contender that all of sqrt(n ln n) random mediators grant leads.",
        source: "Ramanathan et al. 2007, sections 7 and 8; Malkhi et al. 2001",
        tolerates: "dead mediators, which are replaced; a leader's death with a detector",
        messages: Cost {
            best: Formula { text: "4 sqrt(N ln N)", of: |n| 4 * quorum(n) },
            worst: Formula { text: "5N sqrt(N ln N)", of: |n| 5 * n * quorum(n) },
        },
        time: Cost { best: Formula { text: "5", of: |_| 5 }, worst: Formula { text: "11", of: |_| 11 } },
        ..Randomized::CONTRACT
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        inherited!(options::MODE),
        inherited!(options::ON_FAILURE),
        inherited!(options::TABLES),
        inherited!(options::TAU),
        inherited!(options::ESTIMATE),
        inherited!(options::WALK),
        inherited!(options::STEPS),
    ];

    fn new(_: NodeId, options: &Options) -> ProbabilisticQuorum {
        ProbabilisticQuorum(Member::new(&options.0))
    }

    fn figures(
        options: &Options,
        members: &mut dyn Iterator<Item = suffrage_core::Member<'_, Self>>,
    ) -> Vec<Figure> {
        figures::of(&options.0, members.map(|member| &member.process.0))
    }
}

impl Process for ProbabilisticQuorum {
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
