//! Encoding of messages: one or many per envelope, one envelope per datagram.
//!
//! ```text
//!   version 1 │ protocol 4 │ length 1.. │ message │ length 1.. │ message │ …
//! ```
//!
//! Messages are encoded in postcard's format. Messages to the same peer share an envelope ([`Outbox`]), so that a
//! node with very many elections sends few datagrams.
//!
//! A decoded envelope comes from a node that has the key, but may be of another version, or malformed. Decoding
//! never panics, takes memory and time in proportion to the datagram, nests no deeper than [`bounded::DEPTH`], and
//! accepts an envelope completely or not at all: leftover bytes, of a message or of the envelope, reject it.

mod bounded;

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use suffrage_core::NodeId;
use xxhash_rust::xxh3::xxh3_64;

use crate::Dropped;

pub use bounded::DEPTH;

/// The version of the envelope.
pub const VERSION: u8 = 5;
const HEADER: usize = 1 + 4;
/// The maximum number of bytes of a length, with seven bits per byte: enough for any datagram.
const LONGEST_LENGTH: usize = 3;

/// The protocol of an envelope's messages, so that nodes with different algorithms do not misread each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol([u8; 4]);

impl Protocol {
    /// The protocol with this name.
    pub fn named(name: &str) -> Protocol {
        Protocol((xxh3_64(name.as_bytes()) as u32).to_be_bytes())
    }

    /// Decodes an envelope, or returns the reason for dropping it.
    pub fn decode<M: DeserializeOwned>(self, envelope: &[u8]) -> Result<Vec<M>, Dropped> {
        match envelope.first() {
            None => return Err(Dropped::Malformed),
            Some(&VERSION) => {}
            Some(_) => return Err(Dropped::WrongVersion),
        }
        let (header, mut rest) = envelope.split_at_checked(HEADER).ok_or(Dropped::Malformed)?;
        if header[1..] != self.0 {
            return Err(Dropped::WrongProtocol);
        }
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let length = take_length(&mut rest).ok_or(Dropped::Malformed)?;
            let (message, after) = rest.split_at_checked(length).ok_or(Dropped::Malformed)?;
            messages.push(bounded::decode(message).ok_or(Dropped::Malformed)?);
            rest = after;
        }
        if messages.is_empty() { Err(Dropped::Malformed) } else { Ok(messages) }
    }
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let mut length = 0;
    for index in 0..LONGEST_LENGTH {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 127) << (7 * index);
        if byte < 128 {
            return Some(length);
        }
    }
    None
}

fn put_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 128 {
        bytes.push(length as u8 | 128);
        length >>= 7;
    }
    bytes.push(length as u8);
}

/// A message is too long for an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes is too long for an envelope of {most}: allow longer datagrams")]
pub struct TooLong {
    /// The length of the message with its overhead, in bytes.
    pub length: usize,
    /// The maximum length of an envelope, in bytes.
    pub most: usize,
}

/// Messages to one addressee.
#[derive(Clone, Debug)]
pub struct Envelope {
    bytes: Vec<u8>,
    most: usize,
    /// The length of the envelope without messages: its header and its preamble.
    base: usize,
}

impl Envelope {
    /// An empty envelope of at most `most` bytes, its header included.
    pub fn new(protocol: Protocol, most: usize) -> Envelope {
        let mut bytes = Vec::with_capacity(most.min(256));
        bytes.push(VERSION);
        bytes.extend(protocol.0);
        Envelope { bytes, most, base: HEADER }
    }

    /// Adds a message. Returns false if there is no room: the caller sends this envelope, and adds the message to a
    /// new one.
    pub fn push<M: Serialize>(&mut self, message: &M) -> Result<bool, TooLong> {
        let start = self.bytes.len();
        // One byte for the length, which is nearly always enough.
        self.bytes.push(0);
        self.bytes = postcard::to_extend(message, std::mem::take(&mut self.bytes))
            .expect("messages are plain data, which can always be encoded");
        let length = self.bytes.len() - start - 1;
        if length < 128 {
            self.bytes[start] = length as u8;
        } else {
            let message = self.bytes.split_off(start + 1);
            self.bytes.truncate(start);
            put_length(&mut self.bytes, length);
            self.bytes.extend(message);
        }
        if self.bytes.len() <= self.most {
            return Ok(true);
        }
        let length = self.bytes.len() - start + self.base;
        self.bytes.truncate(start);
        if length > self.most { Err(TooLong { length, most: self.most }) } else { Ok(false) }
    }

    /// Makes the first message a preamble, which does not count as a message.
    fn end_preamble(&mut self) {
        self.base = self.bytes.len();
    }

    /// Returns whether the envelope has no messages, apart from its preamble.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= self.base
    }

    /// The bytes for a datagram.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Outgoing messages, coalesced into envelopes by addressee.
///
/// Messages stay here until [`flush`](Outbox::flush), so that the caller can first do what must precede them, such as a
/// save. Messages to the same addressee keep their order.
#[derive(Debug)]
pub struct Outbox {
    protocol: Protocol,
    most: usize,
    /// The last envelope for each addressee, which may have room for more messages.
    open: BTreeMap<NodeId, Envelope>,
    full: Vec<(NodeId, Envelope)>,
    /// An envelope with the first message of every envelope, and with no other.
    blank: Envelope,
    messages: u64,
}

impl Outbox {
    /// An empty outbox with envelopes of at most `most` bytes.
    pub fn new(protocol: Protocol, most: usize) -> Outbox {
        let blank = Envelope::new(protocol, most);
        Outbox { protocol, most, open: BTreeMap::new(), full: Vec::new(), blank, messages: 0 }
    }

    /// Sets the first message of every envelope from now on: what all messages of an envelope share.
    pub fn set_preamble<M: Serialize>(&mut self, preamble: &M) -> Result<(), TooLong> {
        let mut blank = Envelope::new(self.protocol, self.most);
        blank.push(preamble)?;
        blank.end_preamble();
        if blank.bytes != self.blank.bytes {
            let open = std::mem::take(&mut self.open);
            self.full.extend(open.into_iter().filter(|(_, envelope)| !envelope.is_empty()));
            self.blank = blank;
        }
        Ok(())
    }

    /// Adds a message. Fails if the message does not fit into an empty envelope.
    pub fn push<M: Serialize>(&mut self, to: NodeId, message: &M) -> Result<(), TooLong> {
        let blank = &self.blank;
        let envelope = self.open.entry(to).or_insert_with(|| blank.clone());
        if !envelope.push(message)? {
            self.full.push((to, std::mem::replace(envelope, blank.clone())));
            envelope.push(message)?;
        }
        self.messages += 1;
        Ok(())
    }

    /// Adds a message that shares its envelope with no other: a peer that does not know the message drops no other one.
    pub fn push_alone<M: Serialize>(&mut self, to: NodeId, message: &M) -> Result<(), TooLong> {
        let mut envelope = self.blank.clone();
        envelope.push(message)?;
        let before = self.open.remove(&to).filter(|open| !open.is_empty());
        self.full.extend(before.into_iter().chain([envelope]).map(|envelope| (to, envelope)));
        self.messages += 1;
        Ok(())
    }

    /// Returns whether there are no outgoing messages.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.values().all(Envelope::is_empty)
    }

    /// Removes all envelopes and passes them to `send`, in order for each addressee.
    pub fn flush(&mut self, mut send: impl FnMut(NodeId, &[u8])) {
        self.full.drain(..).for_each(|(to, envelope)| send(to, envelope.as_bytes()));
        while let Some((to, envelope)) = self.open.pop_first() {
            if !envelope.is_empty() {
                send(to, envelope.as_bytes());
            }
        }
    }

    /// The number of messages that were ever added.
    pub fn messages(&self) -> u64 {
        self.messages
    }
}

#[cfg(test)]
mod tests;
