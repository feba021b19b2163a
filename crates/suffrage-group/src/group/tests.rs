//! Tests of single inputs. The torture of `suffrage-sim` tests whole groups.

use suffrage_core::{Context, Effect, NodeId, Process as _, Recorder, Rng, Roster, Span, Start, Time};

use super::{Group, GroupCommand, Timer};
use crate::message::{Digest, MAX_MESSAGE, Message};
use crate::record::{Address, Record, Rumour};
use crate::settings::Settings;

const ME: NodeId = NodeId(1);

struct Member {
    group: Group,
    recorder: Recorder<Group>,
    roster: Roster,
    now: Time,
}

impl Member {
    fn new(seeds: &[u64]) -> Member {
        let settings = Settings::new(Address::simulated(ME), seeds.iter().copied().map(NodeId).collect());
        let mut member = Member {
            group: Group::new(ME, settings),
            recorder: Recorder::new(7),
            roster: Roster::numbered(1),
            now: Time::ZERO,
        };
        member.input(|group, cx| group.on_start(cx, Start::Fresh));
        member
    }

    fn input(&mut self, input: impl FnOnce(&mut Group, &mut Context<'_, Group>)) -> Vec<(NodeId, Message)> {
        let mut cx = self.recorder.context(self.now, self.roster.view(0), Span::UNIT);
        input(&mut self.group, &mut cx);
        let sent = self.recorder.take().into_iter().filter_map(|effect| match effect {
            Effect::Send { to, message } => Some((to, message)),
            _ => None,
        });
        sent.collect()
    }

    fn receive(&mut self, from: u64, message: Message) -> Vec<(NodeId, Message)> {
        self.input(|group, cx| group.on_message(cx, NodeId(from), message))
    }

    fn hear(&mut self, rumours: Vec<Rumour>) -> Vec<(NodeId, Message)> {
        self.receive(2, Message::Gossip { rumours })
    }

    fn expire(&mut self, timer: Timer, after: Span) -> Vec<(NodeId, Message)> {
        self.now = self.now + after;
        self.input(|group, cx| group.on_timer(cx, timer))
    }

    fn with_members(ids: std::ops::RangeInclusive<u64>) -> Member {
        let mut member = Member::new(&[]);
        member.hear(ids.map(|id| Rumour::Alive(record(id, 1))).collect());
        member
    }
}

fn record(id: u64, incarnation: u32) -> Record {
    let address = Address::simulated(NodeId(id));
    Record { id: NodeId(id), incarnation, address, rank: 0, stands: true, term: 0, size: 0 }
}

fn ping(rumours: Vec<Rumour>) -> Message {
    Message::Ping { probe: 9, origin: None, digest: Digest::default(), rumours }
}

/// The rumours about this member in an answer.
fn about_me(sent: &[(NodeId, Message)]) -> Vec<Rumour> {
    let Some((_, Message::Ack { rumours, .. })) = sent.first() else { panic!("{sent:?}") };
    let is_me = |rumour: &&Rumour| matches!(rumour, Rumour::Alive(record) if record.id == ME);
    rumours.iter().filter(is_me).copied().collect()
}

#[test]
fn a_member_refutes_its_suspicion_and_its_death_in_the_answer() {
    let mut member = Member::with_members(2..=5);
    let before = member.group.incarnation(ME).unwrap();
    let suspect = Rumour::Suspect { id: ME, incarnation: before, by: NodeId(3) };
    let sent = member.receive(2, ping(vec![suspect]));
    assert_eq!(about_me(&sent), [Rumour::Alive(record(1, before + 1))]);
    let dead = Rumour::Dead { id: ME, incarnation: before + 7, fresh: true };
    let sent = member.receive(2, ping(vec![dead]));
    assert_eq!(about_me(&sent), [Rumour::Alive(record(1, before + 8))]);
    // Old statements need no answer.
    member.receive(2, ping(vec![suspect]));
    assert_eq!(member.group.incarnation(ME), Some(before + 8));
    assert_eq!(member.group.counters().refutations, 2);
}

#[test]
fn news_of_a_death_buries_and_an_old_death_only_suspects() {
    let mut member = Member::with_members(2..=5);
    member.hear(vec![Rumour::Dead { id: NodeId(3), incarnation: 1, fresh: true }]);
    member.hear(vec![Rumour::Dead { id: NodeId(4), incarnation: 1, fresh: false }]);
    let ids: Vec<u64> = member.group.members().iter().map(|record| record.id.0).collect();
    assert_eq!(ids, [1, 2, 4, 5]);
    assert!(member.group.suspects(NodeId(4)));
    // An older record does not bring the dead back, a newer one does.
    member.hear(vec![Rumour::Alive(record(3, 1))]);
    assert_eq!(member.group.members().len(), 4);
    member.hear(vec![Rumour::Alive(record(3, 2)), Rumour::Alive(record(4, 2))]);
    assert_eq!(member.group.members().len(), 5);
    assert_eq!((member.group.suspected(), member.group.counters().revivals), (0, 1));
}

#[test]
fn a_member_that_is_held_dead_is_told_so_in_the_answer() {
    let mut member = Member::with_members(2..=5);
    member.hear(vec![Rumour::Dead { id: NodeId(3), incarnation: 4, fresh: true }]);
    let sent = member.receive(3, ping(vec![]));
    let Some((_, Message::Ack { rumours, .. })) = sent.first() else { panic!("{sent:?}") };
    assert_eq!(rumours[0], Rumour::Dead { id: NodeId(3), incarnation: 4, fresh: true });
}

#[test]
fn no_message_exceeds_a_datagram_however_long_the_list() {
    let mut member = Member::new(&[]);
    let v6 = |id: u64| Record {
        address: Address::V6([255; 16], 65_535),
        rank: i64::MIN,
        ..record(id, u32::MAX - 1)
    };
    for first in (2..3_000).step_by(30) {
        member.receive(
            2,
            Message::Records { rumours: (first..first + 30).map(|id| Rumour::Alive(v6(id))).collect() },
        );
    }
    let mut sent = member.receive(2, Message::Compare { parts: vec![[0; 2]; 512], salt: 1, answer: true });
    assert!(sent.len() > 10, "{}", sent.len());
    member.hear(
        (2..300)
            .map(|id| Rumour::Suspect { id: NodeId(id), incarnation: u32::MAX - 1, by: NodeId(9) })
            .collect(),
    );
    for _ in 0..20 {
        sent.extend(member.expire(Timer::Gossip, Span::from_millis(200)));
        sent.extend(member.expire(Timer::Probe, Span::ZERO));
    }
    for (_, message) in sent {
        let bytes = postcard::to_extend(&message, Vec::new()).unwrap();
        assert!(bytes.len() <= MAX_MESSAGE, "{} bytes", bytes.len());
    }
}

#[test]
fn a_suspended_member_declares_nobody_dead_when_it_wakes_up() {
    let mut member = Member::with_members(2..=5);
    member.hear(vec![Rumour::Suspect { id: NodeId(3), incarnation: 1, by: NodeId(2) }]);
    // The timer of the suspicion expires a minute late.
    member.expire(Timer::Suspicion, Span::from_millis(60_000));
    assert_eq!((member.group.members().len(), member.group.counters().stalls), (5, 1));
    // One accuser of the three that are possible.
    member.expire(Timer::Suspicion, Span::from_millis(3_750));
    assert_eq!(member.group.members().len(), 4);
}

#[test]
fn a_seed_is_asked_until_it_answers_and_again_when_it_is_gone() {
    let mut member = Member::new(&[9]);
    for _ in 0..3 {
        let sent = member.expire(Timer::Ask, Span::from_millis(500));
        assert!(matches!(&sent[..], [(NodeId(9), Message::Ping { .. })]), "{sent:?}");
    }
    let sent = member.expire(Timer::Ask, Span::from_millis(500));
    let [(_, Message::Ping { probe, rumours, .. })] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(rumours[..], [Rumour::Alive(record(1, 1))]);
    // The seed's own id is 4.
    let ack = Message::Ack {
        probe: *probe,
        origin: None,
        digest: Digest::default(),
        rumours: vec![Rumour::Alive(record(4, 1))],
    };
    member.receive(4, ack);
    assert_eq!(member.expire(Timer::Ask, Span::from_millis(5_000)), []);
    member.hear(vec![Rumour::Left { id: NodeId(4), incarnation: 1 }]);
    let sent = member.expire(Timer::Ask, Span::from_millis(5_000));
    assert!(matches!(&sent[..], [(NodeId(9), Message::Ping { .. })]), "{sent:?}");
}

#[test]
fn commands_parse_as_they_print() {
    for text in ["campaign", "resign", "transfer 7", "rank -3", "leave"] {
        assert_eq!(text.parse::<GroupCommand>().unwrap().to_string(), text);
    }
    assert!("rank x".parse::<GroupCommand>().unwrap_err().contains('x'));
}

/// Whatever decodes is handled: nothing panics, and the list stays within what was said.
#[test]
fn no_message_makes_a_member_panic() {
    let mut rng = Rng::new(11);
    let mut member = Member::with_members(2..=9);
    let mut decoded = 0;
    for round in 0..60_000 {
        let length = 1 + rng.below(60) as usize;
        let mut bytes: Vec<u8> =
            (0..length).map(|_| rng.bits() as u8 & [0xff, 0x0f, 0x83][round % 3]).collect();
        bytes[0] = rng.below(10) as u8;
        if let Ok(message) = postcard::from_bytes::<Message>(&bytes) {
            decoded += 1;
            member.receive(1 + rng.below(12), message);
        }
        if round % 50 == 0 {
            for timer in [
                Timer::Probe,
                Timer::Answer,
                Timer::Gossip,
                Timer::Suspicion,
                Timer::Ask,
                Timer::Watch,
                Timer::Election,
            ] {
                member.expire(timer, Span::from_millis(rng.below(300)));
            }
        }
    }
    assert!(decoded > 5_000, "{decoded}");
    assert!(member.group.members().iter().any(|record| record.id == ME));
}
