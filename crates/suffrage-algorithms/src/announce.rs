//! LE-A, leader election by announcement (Schooler, Manohar, Chandy 2002; Ramanathan et al. 2007,
//! section 8).
//!
//! Model: a multicast group, crash and recovery, lost messages; every process knows all members and their ranks.
//!
//! ```text
//!   1 ══Announce══▶ all      every process announces itself, and listens for three message delays;
//!   2 ══Announce══▶ all      "the process with the greatest identifier is selected"
//!   3 ══Announce══▶ all      and announces itself again each period
//! ```
//!
//! Cost: `N` multicasts for an election, one each period after it.
//!
//! Promise: some time after faults stop, the best live process of each component leads it; the next announcement
//! compensates for a lost one. Not promised: under partition every component has a leader, and an isolated process
//! believes that it leads.
//!
//! Interpretations: the source says that a process "initially announces itself as the leader to the group" and
//! listens "for announcements of the other members", and that loss is a concern. Therefore:
//! - A process accepts a leader, itself or another, only after it has listened for more than a round trip, so that
//!   simultaneous starters do not all lead for a moment. A process that knows no better member leads at once.
//! - Only the leader repeats its announcement. A process that misses the announcement for a time-out, or whose
//!   detector suspects the leader, announces itself. A leader that receives the announcement of a worse process
//!   repeats its own.
//! - A recovered process announces itself, and takes over if it is better.

use super::soft_state::{AnnouncementTiming, Message, SoftState, Timer};
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
        summary: "Every process announces itself to the multicast group; the best announced one leads.",
        source: "Schooler, Manohar, Chandy 2002 (LE-A); Ramanathan et al. 2007, section 8",
        topology: Topology::Multicast,
        synchrony: Synchrony::Synchronous,
        knowledge: "all members and their ranks",
        tolerates: "crash and recovery; lost messages",
        detection: Detection::Timeout,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
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

    type Options = AnnouncementTiming;

    const PARAMETERS: &'static [Parameter<AnnouncementTiming>] = &[
        parameters::delays_parameter!("period", period, "Period of a leader's repeated announcement"),
        parameters::delays_parameter!(
            "timeout",
            timeout,
            "Time without an announcement after which followers call an election: more than the period and a message delay"
        ),
    ];

    fn new(_: NodeId, options: &AnnouncementTiming) -> Announce {
        Announce { state: SoftState::new(*options, Some(0)) }
    }

    fn check(options: &AnnouncementTiming, _: &Roster) -> Result<(), BadParameter> {
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
        self.state.on_announce(cx, from, term);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.state.on_timer(cx, timer) {
            self.state.call_election(cx, Span::ZERO);
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        if self.state.followed_leader() == Some(peer) {
            self.state.call_election(cx, Span::ZERO);
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.state.outranks_leader(cx) {
            self.state.call_election(cx, Span::ZERO);
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // The best live process leads by definition: to resign, an application lowers the rank.
        if command != Command::Campaign || self.state.is_electing() {
            return;
        }
        match self.state.followed_leader() {
            Some(_) => self.state.call_election(cx, Span::ZERO),
            None => self.state.repeat_unless_recent(cx),
        }
    }
}

#[cfg(test)]
mod tests;
