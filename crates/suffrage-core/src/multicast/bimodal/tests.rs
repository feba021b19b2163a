//! Unit tests of single transitions of the bimodal multicast.

use std::convert::Infallible;

use super::*;
use crate::{Announcement, Command, Effect, Message as _, Recorder, Roster, Term, Time};

/// A test algorithm: multicasts on command, and announces the sender of a message as the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TestAlgorithm;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Ping;

crate::message_kinds!(Ping);

impl Process for TestAlgorithm {
    type Message = Ping;
    type Timer = Infallible;
    type Saved = ();
    type Command = Command;
    fn on_start(&mut self, _: &mut Context<'_, Self>, _: Start<()>) {}
    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, _: Ping) {
        cx.announce(Announcement::Elected { leader: from, term: Term(1) });
    }
    fn on_timer(&mut self, _: &mut Context<'_, Self>, timer: Infallible) {
        match timer {}
    }
    fn on_command(&mut self, cx: &mut Context<'_, Self>, _: Command) {
        cx.multicast(Ping);
    }
}

struct Bench {
    process: Bimodal<TestAlgorithm>,
    recorder: Recorder<Bimodal<TestAlgorithm>>,
    roster: Roster,
}

type Effects = Vec<Effect<Bimodal<TestAlgorithm>>>;

impl Bench {
    fn new(options: &str) -> Bench {
        let process = Bimodal::new(Some(options.parse().unwrap()), TestAlgorithm);
        let mut bench = Bench { process, recorder: Recorder::new(1), roster: Roster::numbered(9) };
        bench.input(|process, cx| process.on_start(cx, Start::Fresh));
        bench
    }

    /// Hands an input to process 1.
    fn input(
        &mut self,
        handle: impl FnOnce(&mut Bimodal<TestAlgorithm>, &mut Context<'_, Bimodal<TestAlgorithm>>),
    ) -> Effects {
        let view = self.roster.view(0);
        handle(&mut self.process, &mut self.recorder.context(Time::ZERO, view, Span::UNIT));
        self.recorder.take()
    }

    fn receive(&mut self, from: u64, message: Message<Ping>) -> Effects {
        self.input(|process, cx| process.on_message(cx, NodeId(from), message))
    }

    fn round(&mut self) -> Effects {
        self.input(|process, cx| process.on_timer(cx, Timer::Round))
    }

    fn multicast_ping(&mut self) -> Effects {
        self.input(|process, cx| process.on_command(cx, Command::Campaign))
    }
}

fn id(sender: u64, number: u64) -> Id {
    Id { sender: NodeId(sender), boot: 0, number }
}

fn sent(effects: &Effects) -> Vec<&Message<Ping>> {
    let mut messages = Vec::new();
    for effect in effects {
        if let Effect::Send { message, .. } = effect {
            messages.push(message);
        }
    }
    messages
}

fn announced(effects: &Effects) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Announce(_))).count()
}

#[test]
fn a_missed_message_is_solicited_once_per_round_and_delivered_once_as_from_its_sender() {
    let mut bench = Bench::new("2,3");
    let digest = Message::Digest(vec![id(5, 0), id(6, 3)]);
    let effects = bench.receive(4, digest.clone());
    assert_eq!(sent(&effects), [&Message::Solicit(vec![id(5, 0), id(6, 3)])]);
    assert_eq!(
        sent(&bench.receive(8, digest.clone())),
        [] as [&Message<Ping>; 0],
        "not solicited twice in a round"
    );
    bench.round();
    assert_eq!(sent(&bench.receive(8, digest)).len(), 1, "solicited again in the next round");

    let copy = || Message::Retransmission { id: id(5, 0), age: 2, message: Ping };
    let effects = bench.receive(4, copy());
    let elected = Effect::Announce(Announcement::Elected { leader: NodeId(5), term: Term(1) });
    assert!(effects.contains(&elected), "delivered as from 5, not from 4: {effects:?}");
    assert_eq!(announced(&bench.receive(8, copy())), 0);
    assert_eq!(announced(&bench.receive(5, Message::Data { id: id(5, 0), message: Ping })), 0);
}

#[test]
fn a_message_is_gossiped_for_the_configured_rounds_and_then_dropped() {
    let mut bench = Bench::new("2,3");
    let effects = bench.multicast_ping();
    let Effect::Multicast { message: Message::Data { id, .. } } = effects[0] else { panic!("{effects:?}") };
    assert_eq!(effects[1], Effect::SetTimer { timer: Timer::Round, after: Span::UNIT * PERIOD });
    for round in 1..=3 {
        let effects = bench.round();
        assert_eq!(sent(&effects), [&Message::Digest(vec![id]); 2], "round {round}");
        let effects = bench.receive(4, Message::Solicit(vec![id]));
        assert_eq!(sent(&effects), [&Message::Retransmission { id, age: round, message: Ping }]);
    }
    // The id is kept after the message is dropped, then nothing is left.
    let rounds = (4..20).take_while(|_| !bench.round().is_empty()).count();
    assert_eq!(rounds, 4);
    assert!(bench.process.buffer.history.ages.is_empty() && !bench.process.buffer.history.gossiping);
    assert_eq!(bench.receive(4, Message::Solicit(vec![id])), []);
}

#[test]
fn a_late_message_is_dropped_at_the_same_age_as_its_other_copies() {
    let mut bench = Bench::new("2,3");
    bench.receive(4, Message::Retransmission { id: id(5, 0), age: 2, message: Ping });
    assert_eq!(sent(&bench.round()).len(), 2, "the third round of the message");
    assert_eq!(sent(&bench.round()).len(), 0);
    let late = Message::Retransmission { id: id(5, 0), age: 3, message: Ping };
    assert_eq!(announced(&bench.receive(4, late)), 0, "its id is still known");
}

/// The network may duplicate a copy and deliver it at any later time.
#[test]
fn a_duplicate_is_recognised_however_late_it_arrives() {
    let mut bench = Bench::new("2,3");
    let data = |number| Message::Data { id: id(5, number), message: Ping };
    assert_eq!(announced(&bench.receive(5, data(1))), 1);
    let rounds = (0..20).take_while(|_| !bench.round().is_empty()).count();
    assert_eq!((rounds, bench.process.buffer.history.ages.len()), (7, 0), "the id is forgotten");
    assert_eq!(bench.receive(5, data(1)), [], "not delivered again");
    assert_eq!(bench.receive(4, Message::Digest(vec![id(5, 1)])), [], "not solicited");
    assert_eq!(bench.receive(5, data(0)), [], "older messages of the sender are dropped too");
    assert_eq!(announced(&bench.receive(5, data(2))), 1);
    let restarted = Id { boot: 1, ..id(5, 0) };
    assert_eq!(announced(&bench.receive(5, Message::Data { id: restarted, message: Ping })), 1);
    assert_eq!(announced(&bench.receive(6, Message::Data { id: id(6, 0), message: Ping })), 1);
}

#[test]
fn ids_differ_after_a_crash_and_own_multicasts_are_ignored() {
    let mut bench = Bench::new("2,3");
    let sent_id = |effects: &Effects| match effects[0] {
        Effect::Multicast { message: Message::Data { id, .. } } => id,
        _ => panic!("{effects:?}"),
    };
    let (first, second) = (sent_id(&bench.multicast_ping()), sent_id(&bench.multicast_ping()));
    assert_eq!((first.boot, first.number + 1), (second.boot, second.number));
    bench.process = Bimodal::new(Some("2,3".parse().unwrap()), TestAlgorithm);
    bench.input(|process, cx| process.on_start(cx, Start::Recovered(None)));
    assert_eq!(bench.receive(4, Message::Digest(vec![first])), []);
    assert_ne!(sent_id(&bench.multicast_ping()).boot, first.boot);
}

#[test]
fn forged_and_non_member_ids_are_ignored() {
    let mut bench = Bench::new("2,3");
    assert_eq!(bench.receive(4, Message::Data { id: id(5, 0), message: Ping }), [], "4 is not 5");
    assert_eq!(bench.receive(4, Message::Digest(vec![id(77, 0)])), []);
    let old = Message::Retransmission { id: id(5, 0), age: 4, message: Ping };
    assert_eq!(bench.receive(4, old), []);
}

#[test]
fn without_options_messages_pass_unchanged() {
    let mut bench = Bench::new("2,3");
    bench.process = Bimodal::new(None, TestAlgorithm);
    assert_eq!(bench.multicast_ping(), [Effect::Multicast { message: Message::Plain(Ping) }]);
    assert_eq!(announced(&bench.receive(5, Message::Plain(Ping))), 1);
    assert_eq!(bench.receive(5, Message::Data { id: id(5, 0), message: Ping }), []);
    let names: Vec<&str> = Message::<Ping>::KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names, ["Ping", "Digest", "Solicit", "Retransmission"]);
    assert_eq!(Message::<Ping>::Digest(Vec::new()).kind(), 1);
}

#[test]
fn options_parse_as_they_print() {
    assert_eq!("2,5".parse::<Options>().unwrap().to_string(), "2,5");
    for text in ["", "2", "0,5", "2,0", "2,x", "-1,3", "2,10001"] {
        assert!(text.parse::<Options>().unwrap_err().contains(text), "{text}");
    }
}
