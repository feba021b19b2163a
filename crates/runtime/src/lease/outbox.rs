//! Messages on their way to peers, several to a datagram.
//!
//! A datagram is a byte that says what it is, and messages one after the other until it ends.

use std::collections::BTreeMap;

use election::NodeId;
use election::algorithms::quorum_lease::Message;

/// What a datagram of lease messages begins with.
const MARK: u8 = b'L';
/// The longest message: sixteen bytes of name, two tags, and five numbers of ten bytes at most.
const LONGEST_MESSAGE: usize = 72;
/// How many buffers are kept to be used again.
const SPARE: usize = 1_024;

/// Collects messages for peers into datagrams of bounded length.
#[derive(Debug)]
pub struct Outbox {
    limit: usize,
    /// The last datagram for each peer: there may be room in it.
    open: BTreeMap<NodeId, Vec<u8>>,
    full: Vec<(NodeId, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    messages: u64,
}

impl Outbox {
    /// An outbox for datagrams of this length at most; no shorter than one message.
    pub fn new(limit: usize) -> Outbox {
        let limit = limit.max(LONGEST_MESSAGE + 1);
        Outbox { limit, open: BTreeMap::new(), full: Vec::new(), spare: Vec::new(), messages: 0 }
    }

    /// Puts in a message.
    pub fn push(&mut self, to: NodeId, message: &Message) {
        let mut room = [0; LONGEST_MESSAGE];
        let encoded = postcard::to_slice(message, &mut room).expect("no message is longer");
        let datagram = self.open.entry(to).or_default();
        if datagram.len() + encoded.len() > self.limit {
            self.full.push((to, std::mem::take(datagram)));
        }
        if datagram.capacity() == 0 {
            *datagram = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.limit));
        }
        if datagram.is_empty() {
            datagram.push(MARK);
        }
        datagram.extend_from_slice(encoded);
        self.messages += 1;
    }

    /// Takes out every datagram, in order for each peer.
    pub fn drain(&mut self, mut send: impl FnMut(NodeId, &[u8])) {
        for (to, datagram) in self.full.drain(..) {
            send(to, &datagram);
            keep(&mut self.spare, datagram);
        }
        while let Some((to, datagram)) = self.open.pop_first() {
            send(to, &datagram);
            keep(&mut self.spare, datagram);
        }
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.full.is_empty()
    }

    /// How many messages were put in, ever.
    pub fn messages(&self) -> u64 {
        self.messages
    }
}

fn keep(spare: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if spare.len() < SPARE {
        buffer.clear();
        spare.push(buffer);
    }
}

/// The messages of a datagram. Ends before the first that cannot be read: [`is_sound`](Messages::is_sound)
/// then says no.
#[derive(Clone, Debug)]
pub struct Messages<'d> {
    rest: &'d [u8],
    sound: bool,
}

impl<'d> Messages<'d> {
    /// Reads a datagram.
    pub fn of(datagram: &'d [u8]) -> Messages<'d> {
        match datagram.split_first() {
            Some((&MARK, rest)) => Messages { rest, sound: true },
            _ => Messages { rest: &[], sound: false },
        }
    }

    /// Whether everything so far could be read.
    pub fn is_sound(&self) -> bool {
        self.sound
    }
}

impl Iterator for Messages<'_> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        if self.rest.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(self.rest) {
            Ok((message, rest)) => {
                self.rest = rest;
                Some(message)
            }
            Err(_) => {
                (self.rest, self.sound) = (&[], false);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use election::algorithms::quorum_lease::{Ask, Body, Grant, Name, Reply, Request, Token};
    use election::{Rng, Span};

    use super::*;

    fn message(number: u64) -> Message {
        let ask = Ask::Enquire { request: Request(number), standing: Some(-5) };
        Message { name: Name::of(&number.to_string()), body: Body::Ask(ask) }
    }

    #[test]
    fn messages_to_a_peer_share_datagrams_and_arrive_in_order() {
        let mut outbox = Outbox::new(300);
        for number in 0..100 {
            outbox.push(NodeId(number % 2), &message(number));
        }
        let mut read = [Vec::new(), Vec::new()];
        let mut datagrams = 0;
        outbox.drain(|to, datagram| {
            assert!(datagram.len() <= 300);
            datagrams += 1;
            let mut messages = Messages::of(datagram);
            read[to.0 as usize].extend(messages.by_ref());
            assert!(messages.is_sound());
        });
        for (peer, read) in read.iter().enumerate() {
            assert!(read.iter().copied().eq((0..50).map(|count| message(2 * count + peer as u64))));
        }
        assert!(datagrams <= 10, "{datagrams}: about twenty bytes each");
        assert!(outbox.is_empty());
    }

    #[test]
    fn the_longest_message_fits() {
        let token = Token::after(u64::MAX - 1);
        let grant = Grant { token, holder: NodeId(u64::MAX), attribute: i64::MIN };
        let (request, remaining) = (Request(u64::MAX), Span::from_nanos(u64::MAX));
        let reply = Reply::Held { request, grant, remaining };
        let longest = Message { name: Name::of("x"), body: Body::Reply(reply) };
        let mut outbox = Outbox::new(0);
        outbox.push(NodeId(1), &longest);
        outbox.push(NodeId(1), &longest);
        let mut lengths = Vec::new();
        outbox.drain(|_, datagram| lengths.push(datagram.len()));
        assert_eq!(lengths, [1 + 68, 1 + 68], "one to a datagram");
    }

    /// Whatever arrives is read without a panic, and what was not said is not heard.
    #[test]
    fn nonsense_is_read_up_to_where_it_begins() {
        let mut outbox = Outbox::new(1_000);
        (0..5).for_each(|number| outbox.push(NodeId(1), &message(number)));
        let mut whole = Vec::new();
        outbox.drain(|_, datagram| whole = datagram.to_vec());
        let length = (whole.len() - 1) / 5;
        for cut in 0..whole.len() {
            let mut messages = Messages::of(&whole[..cut]);
            let count = messages.by_ref().count();
            assert_eq!(count, cut.saturating_sub(1) / length);
            assert_eq!(messages.is_sound(), cut > 0 && (cut - 1) % length == 0, "{cut}");
        }
        let mut rng = Rng::new(5);
        for _ in 0..10_000 {
            let place = rng.below(whole.len() as u64) as usize;
            let mut damaged = whole.clone();
            damaged[place] = rng.bits() as u8;
            let count = Messages::of(&damaged).count();
            assert!(count <= damaged.len() / 19, "at least a name, two tags and a number each");
        }
    }
}
