//! Messages on their way to peers, several to an envelope, held back until what must be saved is.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use suffrage_core::NodeId;
use suffrage_lease::Message;

use suffrage_net::Dropped;
use suffrage_net::codec::{Envelope, Protocol};

/// The longest envelope of one message: five bytes of the envelope's own, one of the message's length, sixteen
/// of name, two tags, and five numbers of ten bytes at most.
const LEAST: usize = 5 + 1 + 16 + 2 + 5 * 10;

static PROTOCOL: LazyLock<Protocol> = LazyLock::new(|| Protocol::named("quorum-lease"));

/// What a datagram says, or why it cannot be read.
pub(super) fn decode(datagram: &[u8]) -> Result<Vec<Message>, Dropped> {
    PROTOCOL.decode(datagram)
}

/// Collects messages for peers into datagrams of bounded length.
#[derive(Debug)]
pub struct Outbox {
    limit: usize,
    /// The last envelope for each peer: there may be room in it.
    open: BTreeMap<NodeId, Envelope>,
    full: Vec<(NodeId, Envelope)>,
    messages: u64,
}

impl Outbox {
    /// An outbox for datagrams of this length at most; no shorter than one message.
    pub fn new(limit: usize) -> Outbox {
        Outbox { limit: limit.max(LEAST), open: BTreeMap::new(), full: Vec::new(), messages: 0 }
    }

    /// Puts in a message.
    pub fn push(&mut self, to: NodeId, message: &Message) {
        let fresh = || Envelope::new(*PROTOCOL, self.limit);
        let envelope = self.open.entry(to).or_insert_with(fresh);
        if !envelope.push(message).expect("one message always fits") {
            self.full.push((to, std::mem::replace(envelope, fresh())));
            envelope.push(message).expect("one message always fits");
        }
        self.messages += 1;
    }

    /// Takes out every datagram, in order for each peer.
    pub fn drain(&mut self, mut send: impl FnMut(NodeId, &[u8])) {
        self.full.drain(..).for_each(|(to, envelope)| send(to, envelope.as_bytes()));
        while let Some((to, envelope)) = self.open.pop_first() {
            send(to, envelope.as_bytes());
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

#[cfg(test)]
mod tests {
    use suffrage_core::Span;
    use suffrage_lease::{Ask, Body, Grant, Name, Reply, Request, Token};

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
            read[to.0 as usize].extend(decode(datagram).unwrap());
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
        assert_eq!(lengths, [LEAST, LEAST], "one to a datagram");
    }
}
