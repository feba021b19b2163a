//! Tests of envelopes.

use std::collections::BTreeMap;

use serde::Deserialize;
use suffrage_core::Rng;

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Message {
    Ping,
    Pong { term: u64, from: Option<NodeId> },
    Gossip(Vec<(NodeId, u64)>),
    Deep(Box<Option<Message>>),
    Units(Vec<()>),
    Named { name: String, ratio: f64, sign: char, table: BTreeMap<u32, (bool, i64)> },
}

fn messages() -> Vec<Message> {
    vec![
        Message::Ping,
        Message::Pong { term: u64::MAX, from: Some(NodeId(3)) },
        Message::Pong { term: 0, from: None },
        Message::Gossip((0..40).map(|number| (NodeId(number), number * number)).collect()),
        Message::Deep(Box::new(Some(Message::Deep(Box::new(None))))),
        Message::Units(vec![(); 9]),
        Message::Named { name: "ü".into(), ratio: 0.5, sign: '∑', table: [(7, (true, -9))].into() },
    ]
}

const PROTOCOL: &str = "test";

fn protocol() -> Protocol {
    Protocol::named(PROTOCOL)
}

fn decode(bytes: &[u8]) -> Result<Vec<Message>, Dropped> {
    protocol().decode(bytes)
}

fn sealed(messages: &[Message]) -> Envelope {
    let mut envelope = Envelope::new(protocol(), 60_000);
    messages.iter().for_each(|message| assert!(envelope.push(message).unwrap()));
    envelope
}

/// An envelope around bytes that need not be a message.
fn around(message: &[u8]) -> Vec<u8> {
    let mut bytes = Envelope::new(protocol(), 60_000).bytes;
    put_length(&mut bytes, message.len());
    bytes.extend(message);
    bytes
}

#[test]
fn envelopes_round_trip() {
    let all = messages();
    for message in &all {
        assert_eq!(decode(sealed(std::slice::from_ref(message)).as_bytes()), Ok(vec![message.clone()]));
    }
    assert_eq!(decode(sealed(&all).as_bytes()), Ok(all));
    for length in [0, 1, 127, 128, 129, 16_383, 16_384, 40_000] {
        let message = Message::Named { name: "x".repeat(length), ratio: 0.0, sign: 'a', table: [].into() };
        assert_eq!(decode(sealed(std::slice::from_ref(&message)).as_bytes()), Ok(vec![message]), "{length}");
    }
}

#[test]
fn an_envelope_never_exceeds_its_maximum() {
    let message = Message::Gossip(vec![(NodeId(1), 2); 10]);
    for most in 40..90 {
        let mut envelope = Envelope::new(protocol(), most);
        let mut put = 0;
        while envelope.push(&message).unwrap() {
            put += 1;
            assert!(envelope.as_bytes().len() <= most);
        }
        assert_eq!(decode(envelope.as_bytes()).unwrap().len(), put, "a rejected message leaves no bytes");
    }
    let mut small = Envelope::new(protocol(), 20);
    assert_eq!(small.push(&message), Err(TooLong { length: 28, most: 20 }));
    assert!(small.is_empty());
}

#[test]
fn messages_are_grouped_by_addressee_in_order() {
    let mut outbox = Outbox::new(protocol(), 64);
    let mut sent: BTreeMap<NodeId, Vec<Message>> = BTreeMap::new();
    let mut datagrams = 0;
    let mut send = |to: NodeId, bytes: &[u8]| {
        datagrams += 1;
        assert!(bytes.len() <= 64);
        sent.entry(to).or_default().extend(decode(bytes).unwrap());
    };
    let pong = |term| Message::Pong { term, from: None };
    for number in 0..100 {
        outbox.push(NodeId(number % 3), &pong(number)).unwrap();
    }
    outbox.flush(&mut send);
    outbox.flush(&mut send);
    for (id, messages) in sent {
        assert!(messages.into_iter().eq((0..100).filter(|number| number % 3 == id.0).map(pong)));
    }
    assert!(datagrams < 12, "{datagrams}");
}

#[test]
fn truncated_envelopes_and_leftover_bytes_are_rejected() {
    let envelope = sealed(&messages());
    let bytes = envelope.as_bytes();
    for length in 0..bytes.len() {
        // A cut between messages gives a shorter, valid envelope.
        match decode(&bytes[..length]) {
            Ok(some) => assert_eq!(some, messages()[..some.len()]),
            Err(reason) => assert_eq!(reason, Dropped::Malformed),
        }
    }
    let mut message = postcard::to_extend(&Message::Ping, Vec::new()).unwrap();
    assert_eq!(decode(&around(&message)), Ok(vec![Message::Ping]));
    message.push(0);
    assert_eq!(decode(&around(&message)), Err(Dropped::Malformed), "garbage after a message");
    assert_eq!(decode(&[bytes, &[5]].concat()), Err(Dropped::Malformed), "garbage after all messages");
    assert_eq!(decode(Envelope::new(protocol(), 99).as_bytes()), Err(Dropped::Malformed), "no message");
}

#[test]
fn other_versions_and_protocols_are_rejected() {
    let mut bytes = sealed(&messages()).bytes;
    assert_eq!(Protocol::named("other").decode::<Message>(&bytes), Err(Dropped::WrongProtocol));
    bytes[0] = VERSION + 1;
    assert_eq!(decode(&bytes), Err(Dropped::WrongVersion));
}

#[test]
fn excessive_nesting_is_rejected() {
    let nested = |levels: usize| {
        let mut bytes = [3, 1].repeat(levels);
        bytes.extend([3, 0]);
        around(&bytes)
    };
    assert!(decode(&nested(5)).is_ok());
    for levels in [200, 1_000, 30_000] {
        assert_eq!(decode(&nested(levels)), Err(Dropped::Malformed));
    }
}

#[test]
fn excessive_numbers_of_empty_values_are_rejected() {
    let units = |claim: &[u8]| around(&[&[4], claim].concat());
    assert_eq!(decode(&units(&[100])), Ok(vec![Message::Units(vec![(); 100])]));
    // 2^63 units, in ten bytes.
    let claim = [[0x80; 9].as_slice(), &[1]].concat();
    assert_eq!(decode(&units(&claim)), Err(Dropped::Malformed));
    // As many pairs without any bytes: no memory is allocated for them.
    let claim = [[0xff; 4].as_slice(), &[0x0f]].concat();
    assert_eq!(decode(&around(&[&[2], claim.as_slice()].concat())), Err(Dropped::Malformed));
}

/// 10,000 envelopes with random changes: none panics, and every decoded envelope can be encoded again.
#[test]
fn random_changes_never_panic_the_decoder() {
    let mut rng = Rng::new(5);
    let good = sealed(&messages()).bytes;
    for _ in 0..10_000 {
        let mut bytes = good.clone();
        for _ in 0..=rng.below(8) {
            let index = HEADER + rng.below((bytes.len() - HEADER) as u64) as usize;
            match rng.below(3) {
                0 => bytes[index] = rng.bits() as u8,
                1 => bytes[index] ^= 1 << rng.below(8),
                _ => bytes.truncate(index.max(HEADER + 1)),
            }
        }
        if let Ok(messages) = decode(&bytes) {
            assert_eq!(decode(sealed(&messages).as_bytes()).map(|again| again.len()), Ok(messages.len()));
        }
    }
}

#[test]
fn every_envelope_begins_with_the_preamble() {
    let mut outbox = Outbox::new(protocol(), 20);
    let decoded = |outbox: &mut Outbox| {
        let mut all = Vec::new();
        outbox.flush(|to, bytes| all.push((to.0, protocol().decode::<u64>(bytes).unwrap())));
        all
    };
    outbox.set_preamble(&7_u64).unwrap();
    assert!(outbox.is_empty() && decoded(&mut outbox).is_empty(), "a preamble alone is not sent");
    for number in 100..110_u64 {
        outbox.push(NodeId(1), &number).unwrap();
    }
    outbox.set_preamble(&7_u64).unwrap();
    outbox.push(NodeId(2), &200_u64).unwrap();
    outbox.set_preamble(&8_u64).unwrap();
    outbox.push(NodeId(2), &201_u64).unwrap();
    let all = decoded(&mut outbox);
    let of = |to, preamble| -> Vec<u64> {
        let envelopes = all.iter().filter(|(id, messages)| (*id, messages[0]) == (to, preamble));
        envelopes.flat_map(|(_, messages)| messages[1..].to_vec()).collect()
    };
    assert_eq!(of(1, 7), (100..110).collect::<Vec<u64>>());
    assert_eq!((of(2, 7), of(2, 8)), (vec![200], vec![201]), "in the order in which they were added");
    assert!(all.len() > 3, "several envelopes to 1: {all:?}");
}
