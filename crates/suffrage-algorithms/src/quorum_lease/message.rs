//! The messages of a simulated world: those of nodes, as on the wire, and those of clients and nodes, as over HTTP.

use serde::{Deserialize, Serialize};
use suffrage_core::{Kind, Message as _};

use suffrage_lease::sessions::{SessionOutcome, SessionRequest};
use suffrage_lease::{Message, Name};

/// A message between a client and a node, or of a client to all members. In production, requests and replies are HTTP,
/// a hang-up is a closed connection, and how a client makes its leadership known is its own business.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionMessage {
    /// A request of a client to a node.
    Request {
        /// The number that the reply quotes.
        number: u64,
        /// The request.
        request: SessionRequest,
    },
    /// A reply of a node to a client.
    Reply {
        /// The number of the request.
        number: u64,
        /// The outcome.
        outcome: SessionOutcome,
    },
    /// The client has closed the connection: nobody reads the reply any more.
    HangUp {
        /// The number of the request.
        number: u64,
    },
    /// The client that leads tells all members.
    Leading {
        /// The client's token.
        token: u64,
    },
}

/// A message between members of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberMessage {
    /// A message between nodes, as on the wire.
    Node(Message),
    /// A message of a client or to a client about an election. It is boxed because it is large and rare.
    Session(Name, Box<SessionMessage>),
}

impl From<Message> for MemberMessage {
    fn from(message: Message) -> MemberMessage {
        MemberMessage::Node(message)
    }
}

impl MemberMessage {
    /// A message of a client or to a client.
    pub fn session(name: Name, message: SessionMessage) -> MemberMessage {
        MemberMessage::Session(name, Box::new(message))
    }
}

const WIRE_KINDS: usize = Message::KINDS.len();
const SESSION_KINDS: [Kind; 4] = [
    Kind::uncounted("SessionRequest"),
    Kind::uncounted("SessionReply"),
    Kind::uncounted("HangUp"),
    Kind::uncounted("Leading"),
];

const KINDS: [Kind; WIRE_KINDS + SESSION_KINDS.len()] = {
    let mut kinds = [Kind::new(""); WIRE_KINDS + SESSION_KINDS.len()];
    let mut index = 0;
    while index < kinds.len() {
        kinds[index] =
            if index < WIRE_KINDS { Message::KINDS[index] } else { SESSION_KINDS[index - WIRE_KINDS] };
        index += 1;
    }
    kinds
};

impl suffrage_core::Message for MemberMessage {
    const KINDS: &'static [Kind] = &KINDS;

    fn kind(&self) -> usize {
        match self {
            MemberMessage::Node(message) => message.kind(),
            MemberMessage::Session(_, message) => match **message {
                SessionMessage::Request { .. } => WIRE_KINDS,
                SessionMessage::Reply { .. } => WIRE_KINDS + 1,
                SessionMessage::HangUp { .. } => WIRE_KINDS + 2,
                SessionMessage::Leading { .. } => WIRE_KINDS + 3,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_clients_follow_those_of_the_wire() {
        let hang_up = MemberMessage::session(Name::of("x"), SessionMessage::HangUp { number: 1 });
        assert_eq!(MemberMessage::KINDS[hang_up.kind()].name, "HangUp");
        let leading = MemberMessage::session(Name::of("x"), SessionMessage::Leading { token: 1 });
        assert_eq!(MemberMessage::KINDS[leading.kind()].name, "Leading");
    }
}
