//! Single transitions of the bimodal multicast.

use std::convert::Infallible;

use super::*;
use crate::{Announcement, Command, Effect, Message as _, Recorder, Roster, Term, Time};

/// Multicasts its number on command; believes in whoever it hears from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shout;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Hey;

crate::message_kinds!(Hey);

impl Process for Shout {
    type Message = Hey;
    type Timer = Infallible;
    type Saved = ();
    type Command = Command;
    fn on_start(&mut self, _: &mut Context<'_, Self>, _: Start<()>) {}
    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, _: Hey) {
        cx.announce(Announcement::Elected { leader: from, term: Term(1) });
    }
    fn on_timer(&mut self, _: &mut Context<'_, Self>, timer: Infallible) {
        match timer {}
    }
    fn on_command(&mut self, cx: &mut Context<'_, Self>, _: Command) {
        cx.multicast(Hey);
    }
}

struct Bench {
    process: Bimodal<Shout>,
    recorder: Recorder<Bimodal<Shout>>,
    roster: Roster,
}

type Done = Vec<Effect<Bimodal<Shout>>>;

impl Bench {
    fn new(options: &str) -> Bench {
        let process = Bimodal::new(Some(options.parse().unwrap()), Shout);
        let mut bench = Bench { process, recorder: Recorder::new(1), roster: Roster::numbered(9) };
        bench.input(|process, cx| process.on_start(cx, Start::Fresh));
        bench
    }

    /// Hands an input to process 1.
    fn input(&mut self, handle: impl FnOnce(&mut Bimodal<Shout>, &mut Context<'_, Bimodal<Shout>>)) -> Done {
        let view = self.roster.view(0);
        handle(&mut self.process, &mut self.recorder.context(Time::ZERO, view, Span::UNIT));
        self.recorder.take()
    }

    fn hear(&mut self, from: u64, message: Message<Hey>) -> Done {
        self.input(|process, cx| process.on_message(cx, NodeId(from), message))
    }

    fn round(&mut self) -> Done {
        self.input(|process, cx| process.on_timer(cx, Timer::Round))
    }

    fn shout(&mut self) -> Done {
        self.input(|process, cx| process.on_command(cx, Command::Campaign))
    }
}

fn id(sender: u64, number: u64) -> Id {
    Id { sender: NodeId(sender), boot: 0, number }
}

fn sent(effects: &Done) -> Vec<&Message<Hey>> {
    let mut messages = Vec::new();
    for effect in effects {
        if let Effect::Send { message, .. } = effect {
            messages.push(message);
        }
    }
    messages
}

fn announced(effects: &Done) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Announce(_))).count()
}

#[test]
fn what_is_missed_is_asked_for_once_a_round_and_delivered_once_from_its_sender() {
    let mut bench = Bench::new("2,3");
    let digest = Message::Digest(vec![id(5, 0), id(6, 3)]);
    let effects = bench.hear(4, digest.clone());
    assert_eq!(sent(&effects), [&Message::Solicit(vec![id(5, 0), id(6, 3)])]);
    assert_eq!(sent(&bench.hear(8, digest.clone())), [] as [&Message<Hey>; 0], "not twice in a round");
    bench.round();
    assert_eq!(sent(&bench.hear(8, digest)).len(), 1, "but in the next, if it has not come");

    let copy = || Message::Retransmission { id: id(5, 0), age: 2, message: Hey };
    let effects = bench.hear(4, copy());
    let believes = Effect::Announce(Announcement::Elected { leader: NodeId(5), term: Term(1) });
    assert!(effects.contains(&believes), "from 5, not from 4: {effects:?}");
    assert_eq!(announced(&bench.hear(8, copy())), 0);
    assert_eq!(announced(&bench.hear(5, Message::Data { id: id(5, 0), message: Hey })), 0);
}

#[test]
fn who_has_it_gossips_for_so_many_rounds_and_falls_quiet() {
    let mut bench = Bench::new("2,3");
    let effects = bench.shout();
    let Effect::Multicast { message: Message::Data { id, .. } } = effects[0] else { panic!("{effects:?}") };
    assert_eq!(effects[1], Effect::SetTimer { timer: Timer::Round, after: Span::UNIT * PERIOD });
    for round in 1..=3 {
        let effects = bench.round();
        assert_eq!(sent(&effects), [&Message::Digest(vec![id]); 2], "round {round}");
        let effects = bench.hear(4, Message::Solicit(vec![id]));
        assert_eq!(sent(&effects), [&Message::Retransmission { id, age: round, message: Hey }]);
    }
    // The name outlives the message, and then nothing is left.
    let rounds = (4..20).take_while(|_| !bench.round().is_empty()).count();
    assert_eq!(rounds, 4);
    assert!(bench.process.buffer.record.ages.is_empty() && !bench.process.buffer.record.gossiping);
    assert_eq!(bench.hear(4, Message::Solicit(vec![id])), []);
}

#[test]
fn a_message_that_came_late_is_given_up_with_the_others() {
    let mut bench = Bench::new("2,3");
    bench.hear(4, Message::Retransmission { id: id(5, 0), age: 2, message: Hey });
    assert_eq!(sent(&bench.round()).len(), 2, "its third round");
    assert_eq!(sent(&bench.round()).len(), 0);
    let late = Message::Retransmission { id: id(5, 0), age: 3, message: Hey };
    assert_eq!(announced(&bench.hear(4, late)), 0, "it is still known");
}

/// A copy may be doubled and arrive at any time later.
#[test]
fn no_copy_is_too_late_to_be_known_for_one() {
    let mut bench = Bench::new("2,3");
    let data = |number| Message::Data { id: id(5, number), message: Hey };
    assert_eq!(announced(&bench.hear(5, data(1))), 1);
    let rounds = (0..20).take_while(|_| !bench.round().is_empty()).count();
    assert_eq!((rounds, bench.process.buffer.record.ages.len()), (7, 0), "its name is forgotten");
    assert_eq!(bench.hear(5, data(1)), [], "not delivered again");
    assert_eq!(bench.hear(4, Message::Digest(vec![id(5, 1)])), [], "nor asked for");
    assert_eq!(bench.hear(5, data(0)), [], "what came before it is given up too");
    assert_eq!(announced(&bench.hear(5, data(2))), 1);
    let restarted = Id { boot: 1, ..id(5, 0) };
    assert_eq!(announced(&bench.hear(5, Message::Data { id: restarted, message: Hey })), 1);
    assert_eq!(announced(&bench.hear(6, Message::Data { id: id(6, 0), message: Hey })), 1);
}

#[test]
fn names_differ_after_a_crash_and_what_one_sent_before_is_no_news() {
    let mut bench = Bench::new("2,3");
    let name = |effects: &Done| match effects[0] {
        Effect::Multicast { message: Message::Data { id, .. } } => id,
        _ => panic!("{effects:?}"),
    };
    let (first, second) = (name(&bench.shout()), name(&bench.shout()));
    assert_eq!((first.boot, first.number + 1), (second.boot, second.number));
    bench.process = Bimodal::new(Some("2,3".parse().unwrap()), Shout);
    bench.input(|process, cx| process.on_start(cx, Start::Recovered(None)));
    assert_eq!(bench.hear(4, Message::Digest(vec![first])), []);
    assert_ne!(name(&bench.shout()).boot, first.boot);
}

#[test]
fn forgeries_and_strangers_are_ignored() {
    let mut bench = Bench::new("2,3");
    assert_eq!(bench.hear(4, Message::Data { id: id(5, 0), message: Hey }), [], "4 is not 5");
    assert_eq!(bench.hear(4, Message::Digest(vec![id(77, 0)])), []);
    let old = Message::Retransmission { id: id(5, 0), age: 4, message: Hey };
    assert_eq!(bench.hear(4, old), []);
}

#[test]
fn without_options_everything_passes_as_it_is() {
    let mut bench = Bench::new("2,3");
    bench.process = Bimodal::new(None, Shout);
    assert_eq!(bench.shout(), [Effect::Multicast { message: Message::Plain(Hey) }]);
    assert_eq!(announced(&bench.hear(5, Message::Plain(Hey))), 1);
    assert_eq!(bench.hear(5, Message::Data { id: id(5, 0), message: Hey }), []);
    let names: Vec<&str> = Message::<Hey>::KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names, ["Hey", "Digest", "Solicit", "Retransmission"]);
    assert_eq!(Message::<Hey>::Digest(Vec::new()).kind(), 1);
}

#[test]
fn options_are_read_as_they_are_shown() {
    assert_eq!("2,5".parse::<Options>().unwrap().to_string(), "2,5");
    for text in ["", "2", "0,5", "2,0", "2,x", "-1,3", "2,10001"] {
        assert!(text.parse::<Options>().unwrap_err().contains(text), "{text}");
    }
}
