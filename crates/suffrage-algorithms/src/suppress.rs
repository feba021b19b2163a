//! LE-S, leader election by announcement with suppression (Schooler, Manohar, Chandy 2002; Ramanathan et
//! al. 2007, section 8).
//!
//! Model: a multicast group, crash and recovery, lost messages; everybody knows everybody and how each
//! ranks.
//!
//! ```text
//!   1, 2, 3 wait for a random time each
//!   2 ══Announce══▶ 1, 3     wakes first, and has heard nobody
//!   1                        has heard a better one, and is silent
//!   3 ══Announce══▶ 1, 2     has heard only a worse one
//! ```
//!
//! Cost in multicasts: 1 at best, `N` at worst. With random waits in a window `W` and messages that take
//! `d`, the one with `j - 1` better ones speaks if none of those woke more than `d` before it: with `u =
//! d / W`, of chance `u + (1 - u^j) / j`. The sum over all is `N u + H_N - sum of u^j / j`, which is the
//! harmonic number `H_N`, about `ln N`, and those that woke too late to be heard. With waits by rank, 1.
//!
//! Promises that some time after faults stop, the best live process of each component leads it; a lost
//! message is made good by the next. Does not promise more: under partition every part has a leader,
//! and one that hears nobody leads in its own eyes.
//!
//! Readings: an election begins when a process starts, recovers, misses its leader for a time-out or
//! suspects it. Waits by rank (`--wake rank`) are the "extension […] making the suppression wake-up timer
//! value the actual id": ranks are known here, so each waits a little more than a round trip for every
//! known one that is better, the leader it has just lost left out. In an election nobody is believed in
//! before all have had their turn, so that a worse one does not lead until the best one wakes: that is a
//! window and a little more than a round trip after the election began, or a round trip after the
//! announcement where ranks decide the order. The readings of LE-A hold too.

use super::announce::Announce;
use super::soft_state::{LISTEN, Message, Pace, SoftState, Timer};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, BadParameter, Command, Context, Contract, Cost, Formula, NodeId, Parameter, Process, Roster,
    Start,
};

/// How long a process waits before it announces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// A time drawn uniformly from the window.
    Random,
    /// The longer, the more members rank above it.
    Rank,
}

/// What can be set about the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How often a leader repeats its announcement.
    pub period: u64,
    /// How long it may be silent.
    pub timeout: u64,
    /// How long random waits are at most.
    pub window: u64,
    /// What decides how long a process waits.
    pub wake: Wake,
}

impl Default for Options {
    /// Within a window no longer than a period, nobody announces itself twice.
    fn default() -> Options {
        let Pace { period, timeout } = Pace::default();
        Options { period, timeout, window: period, wake: Wake::Random }
    }
}

impl Options {
    fn pace(self) -> Pace {
        Pace { period: self.period, timeout: self.timeout }
    }
}

/// A process of LE-S.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suppress {
    /// How long random waits are at most; none if ranks decide.
    window: Option<u64>,
    state: SoftState,
}

impl Algorithm for Suppress {
    const CONTRACT: Contract = Contract {
        name: "suppress",
        summary: "Each waits, and announces itself only if it has heard nobody better.",
        source: "Schooler, Manohar, Chandy 2002 (LE-S); Ramanathan et al. 2007, section 8",
        messages: Cost {
            best: Formula { text: "1 multicast", of: |_| 1 },
            worst: Formula { text: "N multicasts", of: |n| n },
        },
        time: Cost { best: Formula { text: "4", of: |_| 4 }, worst: Formula { text: "13", of: |_| 13 } },
        ..Announce::CONTRACT
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        parameters::delays_parameter!("period", period, "How often a leader repeats its announcement"),
        parameters::delays_parameter!(
            "timeout",
            timeout,
            "How long a leader may be silent: longer than its period and a message delay"
        ),
        parameters::delays_parameter!("window", window, "How long random waits are at most"),
        Parameter {
            name: "wake",
            value: "random|rank",
            help: "What decides how long a process waits before it announces itself: chance, or how many \
                   rank above it",
            set: |options, text| {
                options.wake = match text {
                    "random" => Wake::Random,
                    "rank" => Wake::Rank,
                    _ => return Err(format!("`{text}` is neither `random` nor `rank`")),
                };
                Ok(())
            },
            show: |options| match options.wake {
                Wake::Random => "random".to_string(),
                Wake::Rank => "rank".to_string(),
            },
        },
    ];

    fn new(_: NodeId, options: &Options) -> Suppress {
        let window = match options.wake {
            Wake::Random => Some(options.window),
            Wake::Rank => None,
        };
        Suppress { window, state: SoftState::new(options.pace(), window) }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        options.pace().check()
    }
}

impl Suppress {
    /// An election begins; this process may know who is lost.
    fn call_election(&mut self, cx: &mut Context<'_, Self>, lost: Option<NodeId>) {
        let wait = match self.window {
            Some(window) => {
                let share = cx.rng().unit();
                (cx.delay_bound() * window).scale(share)
            }
            None => {
                let better = cx.view().above().filter(|&peer| Some(peer) != lost).count();
                cx.delay_bound() * (LISTEN * better as u64)
            }
        };
        self.state.call_election(cx, wait);
    }
}

impl Process for Suppress {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        self.call_election(cx, None);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let Message::Announce { term } = message;
        self.state.hear(cx, from, term);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.state.expire(cx, timer) {
            self.call_election(cx, self.state.follows());
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        if self.state.follows() == Some(peer) {
            self.call_election(cx, Some(peer));
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.state.is_overtaken(cx) {
            self.call_election(cx, None);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // The best live process leads by definition: to resign is to lower one's rank.
        if command != Command::Campaign || self.state.is_electing() {
            return;
        }
        match self.state.follows() {
            Some(_) => self.call_election(cx, None),
            None => self.state.remind(cx),
        }
    }
}

#[cfg(test)]
mod tests;
