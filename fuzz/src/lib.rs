//! Properties that must hold for any received bytes.
//!
//! Each function takes any bytes, and panics if its property does not hold. `cargo test -p suffrage-fuzz` calls them
//! with random bytes of fixed seeds; `cargo +nightly fuzz run TARGET --features libfuzzer` searches for bytes that break
//! them.

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

/// Unsealed bytes never open. Sealed bytes open unchanged, unless a byte is changed or cut off.
pub fn datagram(bytes: &[u8]) {
    let (there, here) = (seal(NodeId(1)), seal(HERE));
    let reason = here.open(bytes).expect_err("unsealed bytes must not open");
    assert!(matches!(reason, Dropped::Malformed | Dropped::WrongVersion | Dropped::Unauthenticated));
    let sealed = there.seal(HERE, bytes);
    let opened = here.open(&sealed).expect("the datagram was sealed for this node");
    assert_eq!((opened.from, &*opened.payload), (NodeId(1), bytes));
    assert_eq!(sealed.len(), bytes.len() + OVERHEAD);
    // The bytes choose the position and the change.
    let mut source = Source::new(bytes);
    let (position, change) = (source.number() as usize % sealed.len(), source.byte().max(1));
    let mut changed = sealed.clone();
    changed[position] ^= change;
    assert!(here.open(&changed).is_err(), "byte {position} was changed by {change}");
    assert!(here.open(&sealed[..position]).is_err(), "cut to {position} bytes");
}

/// Bytes from a peer decode to messages or to an error. Messages can be encoded and decoded again.
pub fn envelope(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let contract = &CONTRACTS[usize::from(which) % CONTRACTS.len()];
    catalog::visit(contract.name, Decode(bytes)).expect("the name is in the catalog");
}

struct Decode<'a>(&'a [u8]);

impl Visitor for Decode<'_> {
    type Output = ();

    fn visit<A: Algorithm>(self) {
        let protocol = Protocol::named(A::CONTRACT.name);
        decode::<Stack<A>>(protocol, self.0);
        // Also after a valid header, which random bytes rarely have, and as one message.
        let start = Envelope::new(protocol, 99).as_bytes().to_vec();
        decode::<Stack<A>>(protocol, &[&start, self.0].concat());
        let length = self.0.len().min(127);
        decode::<Stack<A>>(protocol, &[&start, &[length as u8][..], &self.0[..length]].concat());
    }
}

fn decode<P: Process>(protocol: Protocol, bytes: &[u8]) {
    let Ok(messages) = protocol.decode::<P::Message>(bytes) else { return };
    assert!(messages.len() < bytes.len());
    // The encoding may be shorter than the input, and never much longer.
    let mut again = Envelope::new(protocol, 2 * bytes.len() + 64);
    for message in &messages {
        assert!(again.push(message).expect("the message fits"));
    }
    assert_eq!(protocol.decode(again.as_bytes()), Ok(messages));
}

/// A process does not panic and has a bounded number of effects, for any inputs in any order.
pub fn conversation(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    conversation_of(CONTRACTS[usize::from(which) % CONTRACTS.len()].name, bytes);
}
