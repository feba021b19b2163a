//! LE-S, leader election by announcement with suppression (Schooler, Manohar, Chandy 2002; Ramanathan et
//! al. 2007, section 8).
//!
//! Model: a multicast group, crash and recovery, lost messages; every process knows all members and their ranks.
//!
//! ```text
//!   1, 2, 3 wait for a random time each
//!   2 ══Announce══▶ 1, 3     wakes first, without any announcement before
//!   1                        has received a better announcement, and sends none
//!   3 ══Announce══▶ 1, 2     has received only a worse announcement
//! ```
//!
//! Cost in multicasts: 1 at best, `N` at worst. With random waits in a window `W` and message delay `d`, a process
//! with `j - 1` better ones announces itself if none of those woke more than `d` before it: with `u = d / W`, that
//! has probability `u + (1 - u^j) / j`. The sum over all processes is `N u + H_N - sum of u^j / j`: the harmonic
//! number `H_N`, about `ln N`, and the processes that woke before a better announcement reached them. With waits by
//! rank, 1.
//!
//! Promise: some time after faults stop, the best live process of each component leads it; the next announcement
//! compensates for a lost one. Not promised: under partition every component has a leader, and an isolated process
//! believes that it leads.
//!
//! Interpretations: an election begins when a process starts, recovers, misses its leader for a time-out or suspects
//! it. Waits by rank (`--wake rank`) are the "extension […] making the suppression wake-up timer value the actual
//! id". Ranks are known here, so each process waits a little more than a round trip for every known member that is
//! better, except the leader that has just failed. In an election a process accepts no leader before all processes
//! have had their turn, so that a worse process does not lead until the best one wakes. All have had their turn a
//! window and a little more than a round trip after the election began, or, where ranks decide the order, a round
//! trip after the announcement. The interpretations of LE-A apply too.

use super::announce::Announce;
use super::soft_state::{AnnouncementTiming, LISTEN, Message, SoftState, Timer};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, BadParameter, Command, Context, Contract, Cost, Formula, NodeId, Parameter, Process, Roster,
    Start,
};

/// The wait before a process announces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// A time drawn uniformly from the window.
    Random,
    /// A time proportional to the number of members that rank above the process.
    Rank,
}

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The period of a leader's repeated announcement.
    pub period: u64,
    /// The time without an announcement after which followers call an election.
    pub timeout: u64,
    /// The maximum of random waits.
    pub window: u64,
    /// The rule for the wait.
    pub wake: Wake,
}

impl Default for Options {
    /// In a window no longer than a period, no process announces itself twice.
    fn default() -> Options {
        let AnnouncementTiming { period, timeout } = AnnouncementTiming::default();
        Options { period, timeout, window: period, wake: Wake::Random }
    }
}

impl Options {
    fn timing(self) -> AnnouncementTiming {
        AnnouncementTiming { period: self.period, timeout: self.timeout }
    }
}

/// A process of LE-S.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suppress {
    /// The maximum of random waits; `None` if ranks decide.
    window: Option<u64>,
    state: SoftState,
}

impl Algorithm for Suppress {
    const CONTRACT: Contract = Contract {
        name: "suppress",
        summary: "Each process waits, and announces itself only if no better one has done so.",
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
        parameters::delays_parameter!("period", period, "Period of a leader's repeated announcement"),
        parameters::delays_parameter!(
            "timeout",
            timeout,
            "Time without an announcement after which followers call an election: more than the period and a message delay"
        ),
        parameters::delays_parameter!("window", window, "Maximum of random waits"),
        Parameter {
            name: "wake",
            value: "random|rank",
            help: "Wait before a process announces itself: random, or by the number of members that rank \
                   above it",
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
        Suppress { window, state: SoftState::new(options.timing(), window) }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        options.timing().check()
    }
}

impl Suppress {
    /// Begins an election. `lost` is the leader that has failed, if this process knows it.
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
        self.state.on_announce(cx, from, term);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.state.on_timer(cx, timer) {
            self.call_election(cx, self.state.followed_leader());
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        if self.state.followed_leader() == Some(peer) {
            self.call_election(cx, Some(peer));
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.state.outranks_leader(cx) {
            self.call_election(cx, None);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // The best live process leads by definition: to resign, an application lowers the rank.
        if command != Command::Campaign || self.state.is_electing() {
            return;
        }
        match self.state.followed_leader() {
            Some(_) => self.call_election(cx, None),
            None => self.state.repeat_unless_recent(cx),
        }
    }
}

#[cfg(test)]
mod tests;
