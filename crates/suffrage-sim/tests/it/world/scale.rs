//! A world of a million processes.

use serde::{Deserialize, Serialize};
use suffrage_core::Term;
use suffrage_core::{Announcement, Command, Context, NodeId, Process, Roster, Span, Start};
use suffrage_sim::{End, World};

use crate::world::probes::{ONE, time};

/// Sends to its successor and sets a timer. On command, multicasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Greeter {
    greetings: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Greeting;

suffrage_core::message_kinds!(Greeting);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Deadline;

suffrage_core::timer_indices!(Deadline);

impl Process for Greeter {
    type Message = Greeting;
    type Timer = Deadline;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        if let Some(next) = cx.view().successors().next() {
            cx.send(next, Greeting);
        }
        cx.set_timer(Deadline, Span::UNIT * 5);
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, _: Greeting) {
        self.greetings += 1;
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, _: Deadline) {
        cx.announce(Announcement::Elected { leader: NodeId(1), term: Term(1) });
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, _: Command) {
        cx.multicast(Greeting);
    }
}

const MILLION: usize = 1_000_000;

#[test]
fn a_million_processes_exchange_messages() {
    let mut world = World::new(Roster::numbered(MILLION), 1, ONE, |_| Greeter { greetings: 0 });
    world.command(time(3.0), 0, Command::Campaign);
    assert_eq!(world.run(time(10.0)), End::Quiet);
    assert_eq!(world.process(0).greetings, 1);
    assert!((1..MILLION).all(|slot| world.process(slot).greetings == 2));
    let ledger = world.ledger();
    assert_eq!(ledger.events, 1 + 3 * MILLION as u64 - 1, "a command, two messages and a timer each");
    assert_eq!(ledger.leaderships.len(), 1);
    assert_eq!(ledger.decided, time(5.0));
}
