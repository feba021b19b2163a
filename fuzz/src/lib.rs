//! What must hold whatever bytes arrive.
//!
//! Each function takes any bytes, and panics if something is wrong. `cargo test -p fuzz` calls them with random
//! bytes of fixed seeds; `cargo +nightly fuzz run TARGET --features libfuzzer` looks for bytes that break them.

mod conversation;
mod source;

use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::layers::Stack;
use suffrage_core::{Algorithm, NodeId, Process};
use suffrage_net::codec::{Envelope, Protocol};
use suffrage_net::seal::{Boot, OVERHEAD, Seal};
use suffrage_net::{Dropped, Key, Keyring};

pub use conversation::{conversation_of, converse};
use source::Source;

const HERE: NodeId = NodeId(2);

fn seal(id: NodeId) -> Seal {
    let keyring = Keyring::new(vec![Key::new([7; 32]), Key::new([8; 32])]).expect("two keys are fine");
    Seal::new(id, Boot::now().expect("the system gives random numbers"), &keyring)
}

/// Bytes from the network never open; bytes that were sealed open as they were, unless anything is changed.
pub fn datagram(bytes: &[u8]) {
    let (there, here) = (seal(NodeId(1)), seal(HERE));
    let reason = here.open(bytes).expect_err("it would be a forgery");
    assert!(matches!(reason, Dropped::Malformed | Dropped::WrongVersion | Dropped::Unauthenticated));
    let sealed = there.seal(HERE, bytes);
    let opened = here.open(&sealed).expect("it was sealed for here");
    assert_eq!((opened.from, &*opened.payload), (NodeId(1), bytes));
    assert_eq!(sealed.len(), bytes.len() + OVERHEAD);
    // The same, changed at a place and by an amount that the bytes choose.
    let mut source = Source::new(bytes);
    let (place, change) = (source.number() as usize % sealed.len(), source.byte().max(1));
    let mut changed = sealed.clone();
    changed[place] ^= change;
    assert!(here.open(&changed).is_err(), "byte {place} was changed by {change}");
    assert!(here.open(&sealed[..place]).is_err(), "cut to {place}");
}

/// Bytes from a peer are messages or are not; if they are, they can be written, and read again.
pub fn envelope(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let contract = &CONTRACTS[usize::from(which) % CONTRACTS.len()];
    catalog::visit(contract.name, Decode(bytes)).expect("it is in the catalog");
}

struct Decode<'a>(&'a [u8]);

impl Visitor for Decode<'_> {
    type Output = ();

    fn visit<A: Algorithm>(self) {
        let protocol = Protocol::named(A::CONTRACT.name);
        decode::<Stack<A>>(protocol, self.0);
        // Behind the right beginning, so that one need not be guessed; and as one message.
        let start = Envelope::new(protocol, 99).as_bytes().to_vec();
        decode::<Stack<A>>(protocol, &[&start, self.0].concat());
        let length = self.0.len().min(127);
        decode::<Stack<A>>(protocol, &[&start, &[length as u8][..], &self.0[..length]].concat());
    }
}

fn decode<P: Process>(protocol: Protocol, bytes: &[u8]) {
    let Ok(messages) = protocol.decode::<P::Message>(bytes) else { return };
    assert!(messages.len() < bytes.len());
    // What is read may be written shorter than it was, never much longer.
    let mut again = Envelope::new(protocol, 2 * bytes.len() + 64);
    for message in &messages {
        assert!(again.push(message).expect("it fits"));
    }
    assert_eq!(protocol.decode(again.as_bytes()), Ok(messages));
}

/// Whatever a process is told, in whatever order, it does not panic, and does not do more than its share.
pub fn conversation(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    conversation_of(CONTRACTS[usize::from(which) % CONTRACTS.len()].name, bytes);
}
