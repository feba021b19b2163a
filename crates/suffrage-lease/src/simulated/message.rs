//! The messages of a simulated world: those of nodes, as on the wire, and those of clients and nodes, as over HTTP.

use serde::{Deserialize, Serialize};
use suffrage_core::{Attribute, Kind, Message as _};

use crate::message::{Ask, Body, Message, Name, Reply};
use crate::sessions::{SessionOutcome, SessionRequest};

/// A message between a client and a node, or of a client to all members. In production, requests and replies are HTTP,
/// a hang-up is a closed connection, and how a client makes its leadership known is its own business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// The content of a message about one election: a [`Body`], or a [`SessionMessage`]. A [`Body`] has the same bytes and
/// the same hash here as on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberBody {
    /// A message to a voter.
    Ask(Ask),
    /// A message from a voter.
    Reply(Reply),
    /// A claim of a candidate to the leader.
    Claim {
        /// The rank of the candidate.
        attribute: Attribute,
    },
    /// A message of a client or to a client. It is boxed because it is large and rare.
    Session(Box<SessionMessage>),
}

/// A message between members of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberMessage {
    /// The election.
    pub name: Name,
    /// The content.
    pub body: MemberBody,
}

impl From<Message> for MemberMessage {
    fn from(Message { name, body }: Message) -> MemberMessage {
        let body = match body {
            Body::Ask(ask) => MemberBody::Ask(ask),
            Body::Reply(reply) => MemberBody::Reply(reply),
            Body::Claim { attribute } => MemberBody::Claim { attribute },
        };
        MemberMessage { name, body }
    }
}

impl MemberMessage {
    /// A message of a client or to a client.
    pub fn session(name: Name, message: SessionMessage) -> MemberMessage {
        MemberMessage { name, body: MemberBody::Session(Box::new(message)) }
    }

    /// The message as on the wire, if it is one between nodes.
    pub fn wire(&self) -> Result<Message, SessionMessage> {
        let body = match self.body {
            MemberBody::Ask(ask) => Body::Ask(ask),
            MemberBody::Reply(reply) => Body::Reply(reply),
            MemberBody::Claim { attribute } => Body::Claim { attribute },
            MemberBody::Session(ref message) => return Err(**message),
        };
        Ok(Message { name: self.name, body })
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
        match self.wire() {
            Ok(message) => message.kind(),
            Err(SessionMessage::Request { .. }) => WIRE_KINDS,
            Err(SessionMessage::Reply { .. }) => WIRE_KINDS + 1,
            Err(SessionMessage::HangUp { .. }) => WIRE_KINDS + 2,
            Err(SessionMessage::Leading { .. }) => WIRE_KINDS + 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Request, Token};
    use std::hash::{BuildHasher, BuildHasherDefault};

    /// Traces and byte counts are those of the wire.
    #[test]
    fn messages_of_nodes_have_the_same_bytes_hash_and_kind_as_on_the_wire() {
        let bodies = [
            Body::Ask(Ask::Release { token: Token::after(6), to: None }),
            Body::Reply(Reply::Promised { request: Request(300) }),
            Body::Claim { attribute: -7 },
        ];
        #[allow(clippy::disallowed_types, reason = "a hasher without randomness")]
        let hasher = BuildHasherDefault::<std::collections::hash_map::DefaultHasher>::default();
        for body in bodies {
            let message = Message { name: Name::of("x"), body };
            let member = MemberMessage::from(message);
            assert_eq!(member.wire(), Ok(message));
            let bytes = |value: &MemberMessage| postcard::to_extend(value, Vec::new()).unwrap();
            assert_eq!(bytes(&member), postcard::to_extend(&message, Vec::new()).unwrap());
            assert_eq!(hasher.hash_one(&member), hasher.hash_one(message));
            assert_eq!(member.kind(), message.kind());
        }
        let hang_up = MemberMessage::session(Name::of("x"), SessionMessage::HangUp { number: 1 });
        assert_eq!(MemberMessage::KINDS[hang_up.kind()].name, "HangUp");
    }
}
