//! LE-A, leader election by announcement (Schooler, Manohar, Chandy 2002; Ramanathan et al. 2007,
//! section 8).
//!
//! Model: a multicast group, crash and recovery, lost messages; everybody knows everybody and how each
//! ranks.
//!
//! ```text
//!   1 ══Announce══▶ all      everybody announces itself, and listens for three message delays;
//!   2 ══Announce══▶ all      "the process with the greatest identifier is selected"
//!   3 ══Announce══▶ all      and announces itself again each period
//! ```
//!
//! Cost: `N` multicasts for an election, one each period after it.
//!
//! Promises that some time after faults stop, the best live process of each component leads it; a lost
//! message is made good by the next. Does not promise more: under partition every part has a leader,
//! and one that hears nobody leads in its own eyes.
//!
//! Readings: what is said of LE-A is that a process "initially announces itself as the leader to the group"
//! and listens "for announcements of the other members", and that loss is a concern. So
//! - a process takes itself for the leader, or another, only after it has listened for more than a
//!   round trip, so that simultaneous starters do not all lead for a moment; but one that knows nobody
//!   better leads at once;
//! - only the leader repeats its announcement; whoever misses it for a time-out, or whose detector
//!   suspects the leader, announces itself; a leader that hears a worse one answers by its own;
//! - one that recovers announces itself, and takes over if it is better.

use super::soft_state::{Message, Pace, SoftState, Timer};
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, BadParameter, Choice, Command, Context, Contract, Cost, Detection, Electorate, Formula,
    NodeId, Parameter, Process, Roster, Safety, Span, Start, Synchrony, Topology,
};

/// A process of LE-A.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Announce {
    state: SoftState,
}

impl Algorithm for Announce {
    const CONTRACT: Contract = Contract {
        name: "announce",
        summary: "Everybody announces itself to the multicast group; the best heard leads.",
        source: "Schooler, Manohar, Chandy 2002 (LE-A); Ramanathan et al. 2007, section 8",
        topology: Topology::Multicast,
        synchrony: Synchrony::Synchronous,
        knowledge: "all members and their ranks",
        tolerates: "crash and recovery; lost messages",
        detection: Detection::Timeout,
        electorate: Electorate::Anybody,
        needs_disk: false,
        persists: true,
        under_loss: &[],
        safety: Safety::Eventual,
        choice: Choice::Best,
        handover: false,
        messages: Cost {
            best: Formula { text: "N - 1 multicasts", of: |n| n - 1 },
            worst: Formula { text: "N multicasts", of: |n| n },
        },
        time: Cost { best: Formula { text: "3", of: |_| 3 }, worst: Formula { text: "3", of: |_| 3 } },
        upkeep: &[],
    };

    type Options = Pace;

    const PARAMETERS: &'static [Parameter<Pace>] = &[
        parameters::delays_parameter!("period", period, "How often a leader repeats its announcement"),
        parameters::delays_parameter!(
            "timeout",
            timeout,
            "How long a leader may be silent: longer than its period and a message delay"
        ),
    ];

    fn new(_: NodeId, options: &Pace) -> Announce {
        Announce { state: SoftState::new(*options, Some(0)) }
    }

    fn check(options: &Pace, _: &Roster) -> Result<(), BadParameter> {
        options.check()
    }
}

impl Process for Announce {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        self.state.call_election(cx, Span::ZERO);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let Message::Announce { term } = message;
        self.state.hear(cx, from, term);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.state.expire(cx, timer) {
            self.state.call_election(cx, Span::ZERO);
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        if self.state.follows() == Some(peer) {
            self.state.call_election(cx, Span::ZERO);
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.state.is_overtaken(cx) {
            self.state.call_election(cx, Span::ZERO);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // The best live process leads by definition: to resign is to lower one's rank.
        if command != Command::Campaign || self.state.is_electing() {
            return;
        }
        match self.state.follows() {
            Some(_) => self.state.call_election(cx, Span::ZERO),
            None => self.state.remind(cx),
        }
    }
}

#[cfg(test)]
mod tests;
