//! A new algorithm in a hundred lines: the caller calls the roll and announces the best that answered.

use serde::{Deserialize, Serialize};
use suffrage_core::{
    Algorithm, Announcement, Choice, Command, Context, Contract, Cost, Detection, Electorate, Formula,
    NodeId, Parameter, Process, Roster, Safety, Start, Synchrony, Term, Topology,
};
use suffrage_sim::Scenario;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Message {
    RollCall,
    Here,
    Elected { leader: NodeId },
}

suffrage_core::message_kinds!(Message { RollCall, Here, Elected });

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Timer {
    Roll,
}

suffrage_core::timer_indices!(Timer { Roll });

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RollCall {
    /// The best that has answered, while the roll is being called.
    best: Option<NodeId>,
}

impl Algorithm for RollCall {
    const CONTRACT: Contract = Contract {
        name: "roll-call",
        summary: "The caller calls the roll and announces the best that answered.",
        source: "CONTRIBUTING.md",
        topology: Topology::Complete,
        synchrony: Synchrony::Synchronous,
        knowledge: "all members and their ranks",
        tolerates: "crashes before the election",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
        under_loss: &[],
        safety: Safety::Eventual,
        choice: Choice::Best,
        handover: false,
        messages: Cost {
            best: Formula { text: "3(N - 1)", of: |n| 3 * (n - 1) },
            worst: Formula { text: "3(N - 1)", of: |n| 3 * (n - 1) },
        },
        time: Cost { best: Formula { text: "4", of: |_| 4 }, worst: Formula { text: "4", of: |_| 4 } },
        upkeep: &[],
    };

    type Options = ();

    const PARAMETERS: &'static [Parameter<()>] = &[];

    fn new(_: NodeId, _: &()) -> RollCall {
        RollCall { best: None }
    }
}

impl Process for RollCall {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, _: &mut Context<'_, Self>, _: Start<()>) {}

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::RollCall => cx.send(from, Message::Here),
            Message::Here => {
                if self.best.is_some_and(|best| cx.view().outranks(from, best)) {
                    self.best = Some(from);
                }
            }
            Message::Elected { leader } => cx.announce(Announcement::Elected { leader, term: Term(1) }),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, Timer::Roll: Timer) {
        let Some(leader) = self.best.take() else { return };
        for peer in cx.view().peers() {
            cx.send(peer, Message::Elected { leader });
        }
        cx.announce(Announcement::Elected { leader, term: Term(1) });
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        if command == Command::Campaign && self.best.is_none() {
            self.best = Some(cx.me());
            for peer in cx.view().peers() {
                cx.send(peer, Message::RollCall);
            }
            // A round trip takes two message delays; at three, nobody alive is still to answer.
            cx.set_timer(Timer::Roll, cx.delay_bound() * 3);
        }
    }
}

fn main() {
    let mut scenario = Scenario::new(Roster::numbered(5));
    scenario.initiators = vec![1];
    let outcome = scenario.run::<RollCall>(&());
    let (messages, time) = (outcome.messages.total, outcome.time);
    println!("{:?} leads after {messages} messages and {time} time units", outcome.leader);
    assert_eq!(outcome.leader, Some(NodeId(5)));
    assert_eq!(messages, (RollCall::CONTRACT.messages.worst.of)(5));
    assert_eq!(time, (RollCall::CONTRACT.time.worst.of)(5) as f64);
    assert_eq!(outcome.violations, []);
}
