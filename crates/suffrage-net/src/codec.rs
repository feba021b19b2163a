//! Messages as bytes: one or many to an envelope, an envelope to a datagram.
//!
//! ```text
//!   version 1 │ protocol 4 │ length 1.. │ message │ length 1.. │ message │ …
//! ```
//!
//! Messages are written in postcard's format. Those to the same peer share an envelope ([`Outbox`]), so that a
//! node which holds very many elections sends few datagrams.
//!
//! What is decoded comes from a node that has the key, but may be of another version, or broken. Decoding
//! never panics, takes memory and time in proportion to the datagram, goes no deeper than [`frugal::DEPTH`],
//! and takes an envelope whole or not at all: what is left over, of a message or of the envelope, condemns it.

mod frugal;

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use suffrage_core::NodeId;
use xxhash_rust::xxh3::xxh3_64;

use crate::Dropped;

pub use frugal::DEPTH;

/// The version of the envelope.
pub const VERSION: u8 = 1;
const HEADER: usize = 1 + 4;
/// Seven bits a byte: enough for any datagram.
const LONGEST_LENGTH: usize = 3;

/// Which language an envelope's messages are in: nodes of two algorithms do not misread each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol([u8; 4]);

impl Protocol {
    /// The protocol that people call this.
    pub fn named(name: &str) -> Protocol {
        Protocol((xxh3_64(name.as_bytes()) as u32).to_be_bytes())
    }

    /// What an envelope says, or why it cannot be read.
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
            messages.push(frugal::decode(message).ok_or(Dropped::Malformed)?);
            rest = after;
        }
        if messages.is_empty() { Err(Dropped::Malformed) } else { Ok(messages) }
    }
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let mut length = 0;
    for place in 0..LONGEST_LENGTH {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 127) << (7 * place);
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

/// A message that fits into no envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes is too long for an envelope of {most}: allow longer datagrams")]
pub struct TooLong {
    /// How long it is, with what must be around it.
    pub length: usize,
    /// How long an envelope may be.
    pub most: usize,
}

/// Messages to one addressee.
#[derive(Clone, Debug)]
pub struct Envelope {
    bytes: Vec<u8>,
    most: usize,
}

impl Envelope {
    /// An empty envelope that holds so many bytes at most, its own included.
    pub fn new(protocol: Protocol, most: usize) -> Envelope {
        let mut bytes = Vec::with_capacity(most.min(256));
        bytes.push(VERSION);
        bytes.extend(protocol.0);
        Envelope { bytes, most }
    }

    /// Puts a message in, if there is room: if not, this envelope is to go, and the message into a new one.
    pub fn push<M: Serialize>(&mut self, message: &M) -> Result<bool, TooLong> {
        let start = self.bytes.len();
        // A byte for its length, which nearly always is enough.
        self.bytes.push(0);
        self.bytes = postcard::to_extend(message, std::mem::take(&mut self.bytes))
            .expect("messages are plain data: there is nothing in them that cannot be written");
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
        let length = self.bytes.len() - start + HEADER;
        self.bytes.truncate(start);
        if length > self.most { Err(TooLong { length, most: self.most }) } else { Ok(false) }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= HEADER
    }

    /// As it goes into a datagram.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Messages that are about to go out, several to an envelope: held back until whatever must happen before has.
///
/// Messages to the same addressee keep their order.
#[derive(Debug)]
pub struct Outbox {
    protocol: Protocol,
    most: usize,
    /// The last envelope for each addressee: there may be room in it.
    open: BTreeMap<NodeId, Envelope>,
    full: Vec<(NodeId, Envelope)>,
    messages: u64,
}

impl Outbox {
    /// An empty one, whose envelopes hold so many bytes at most.
    pub fn new(protocol: Protocol, most: usize) -> Outbox {
        Outbox { protocol, most, open: BTreeMap::new(), full: Vec::new(), messages: 0 }
    }

    /// Adds a message, unless it fits into no envelope.
    pub fn push<M: Serialize>(&mut self, to: NodeId, message: &M) -> Result<(), TooLong> {
        let fresh = || Envelope::new(self.protocol, self.most);
        let envelope = self.open.entry(to).or_insert_with(fresh);
        if !envelope.push(message)? {
            self.full.push((to, std::mem::replace(envelope, fresh())));
            envelope.push(message)?;
        }
        self.messages += 1;
        Ok(())
    }

    /// Whether nothing is to go out.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.values().all(Envelope::is_empty)
    }

    /// Takes out all there is, in order for each addressee.
    pub fn flush(&mut self, mut send: impl FnMut(NodeId, &[u8])) {
        self.full.drain(..).for_each(|(to, envelope)| send(to, envelope.as_bytes()));
        while let Some((to, envelope)) = self.open.pop_first() {
            if !envelope.is_empty() {
                send(to, envelope.as_bytes());
            }
        }
    }

    /// How many messages were added, ever.
    pub fn messages(&self) -> u64 {
        self.messages
    }
}

#[cfg(test)]
mod tests;
