//! Tests of envelopes: what is put in comes out, and nothing else does.

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
    Crowd(Vec<()>),
    Named { name: String, ratio: f64, sign: char, table: BTreeMap<u32, (bool, i64)> },
}

fn messages() -> Vec<Message> {
    vec![
        Message::Ping,
        Message::Pong { term: u64::MAX, from: Some(NodeId(3)) },
        Message::Pong { term: 0, from: None },
        Message::Gossip((0..40).map(|number| (NodeId(number), number * number)).collect()),
        Message::Deep(Box::new(Some(Message::Deep(Box::new(None))))),
        Message::Crowd(vec![(); 9]),
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
fn what_is_put_in_comes_out() {
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
fn an_envelope_is_never_longer_than_it_may_be() {
    let message = Message::Gossip(vec![(NodeId(1), 2); 10]);
    for most in 40..90 {
        let mut envelope = Envelope::new(protocol(), most);
        let mut put = 0;
        while envelope.push(&message).unwrap() {
            put += 1;
            assert!(envelope.as_bytes().len() <= most);
        }
        assert_eq!(decode(envelope.as_bytes()).unwrap().len(), put, "what did not fit left no trace");
    }
    let mut small = Envelope::new(protocol(), 20);
    assert_eq!(small.push(&message), Err(TooLong { length: 28, most: 20 }));
    assert!(small.is_empty());
}

#[test]
fn messages_are_put_together_by_addressee_in_their_order() {
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
fn every_other_length_and_every_leftover_is_refused() {
    let envelope = sealed(&messages());
    let bytes = envelope.as_bytes();
    for length in 0..bytes.len() {
        // Cut between messages it is a shorter envelope, and a good one.
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
    assert_eq!(decode(Envelope::new(protocol(), 99).as_bytes()), Err(Dropped::Malformed), "nothing");
}

#[test]
fn other_versions_and_protocols_are_told_apart() {
    let mut bytes = sealed(&messages()).bytes;
    assert_eq!(Protocol::named("other").decode::<Message>(&bytes), Err(Dropped::WrongProtocol));
    bytes[0] = 2;
    assert_eq!(decode(&bytes), Err(Dropped::WrongVersion));
}

#[test]
fn nesting_has_an_end() {
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
fn crowds_of_nothing_have_an_end() {
    let crowd = |claim: &[u8]| around(&[&[4], claim].concat());
    assert_eq!(decode(&crowd(&[100])), Ok(vec![Message::Crowd(vec![(); 100])]));
    // 2^63 of them, in ten bytes.
    let claim = [[0x80; 9].as_slice(), &[1]].concat();
    assert_eq!(decode(&crowd(&claim)), Err(Dropped::Malformed));
    // As many pairs, of which there are none: nothing is allocated for them.
    let claim = [[0xff; 4].as_slice(), &[0x0f]].concat();
    assert_eq!(decode(&around(&[&[2], claim.as_slice()].concat())), Err(Dropped::Malformed));
}

/// Ten thousand envelopes changed at random places: none panics, and what is read can be written again.
#[test]
fn noise_is_survived() {
    let mut rng = Rng::new(5);
    let good = sealed(&messages()).bytes;
    for _ in 0..10_000 {
        let mut bytes = good.clone();
        for _ in 0..=rng.below(8) {
            let place = HEADER + rng.below((bytes.len() - HEADER) as u64) as usize;
            match rng.below(3) {
                0 => bytes[place] = rng.bits() as u8,
                1 => bytes[place] ^= 1 << rng.below(8),
                _ => bytes.truncate(place.max(HEADER + 1)),
            }
        }
        if let Ok(messages) = decode(&bytes) {
            assert_eq!(decode(sealed(&messages).as_bytes()).map(|again| again.len()), Ok(messages.len()));
        }
    }
}
