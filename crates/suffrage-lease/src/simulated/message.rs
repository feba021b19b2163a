//! What members of a world say to each other: what nodes say on the wire, and what clients and nodes say by HTTP.

use serde::{Deserialize, Serialize};
use suffrage_core::{Attribute, Kind, Message as _};

use crate::message::{Ask, Body, Message, Name, Reply};
use crate::sessions::{SessionOutcome, SessionRequest};

/// What clients and nodes say to each other, and clients to all. Where clients really are, requests and replies are
/// HTTP, a hang-up is a closed connection, and clients tell whom they lead in ways of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionMessage {
    /// From a client to a node.
    Request {
        /// To be quoted in the reply.
        number: u64,
        /// What is asked for.
        request: SessionRequest,
    },
    /// From a node to a client.
    Reply {
        /// The number of the request.
        number: u64,
        /// The answer.
        outcome: SessionOutcome,
    },
    /// From a client to a node: nobody reads the reply any more.
    HangUp {
        /// The number of the request.
        number: u64,
    },
    /// From the client that leads to everybody.
    Leading {
        /// Its token.
        token: u64,
    },
}

/// What there is to say about one election: a [`Body`], or something between clients and nodes. A [`Body`] has the same
/// bytes and the same hash here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberBody {
    /// To a voter.
    Ask(Ask),
    /// From a voter.
    Reply(Reply),
    /// From a candidate to the leader.
    Claim {
        /// How good a leader the candidate is.
        attribute: Attribute,
    },
    /// Between clients and nodes. In a box: such messages are long, and few.
    Session(Box<SessionMessage>),
}

/// What members of a world say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberMessage {
    /// About which election.
    pub name: Name,
    /// What.
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
    /// Something between clients and nodes.
    pub fn session(name: Name, message: SessionMessage) -> MemberMessage {
        MemberMessage { name, body: MemberBody::Session(Box::new(message)) }
    }

    /// What nodes say on the wire, if it is that.
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
    let mut place = 0;
    while place < kinds.len() {
        kinds[place] =
            if place < WIRE_KINDS { Message::KINDS[place] } else { SESSION_KINDS[place - WIRE_KINDS] };
        place += 1;
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

    /// Traces and measured bytes are those of the wire.
    #[test]
    fn what_nodes_say_has_the_same_bytes_hash_and_kind_as_on_the_wire() {
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
