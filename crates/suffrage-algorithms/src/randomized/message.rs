//! Messages and timers of contenders and mediators.

use serde::{Deserialize, Serialize};

/// The messages. Their names show the phase: those of the first phase are words, those of the second are the paper's
/// capitals (Tables 3 and 4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// First phase, contender to mediator: "a request, along with a round number".
    Request {
        /// The election.
        term: u32,
        /// The round of the first phase, from 1.
        round: u8,
    },
    /// First phase, mediator to contender: the positive response.
    Positive {
        /// The election.
        term: u32,
        /// The round.
        round: u8,
    },
    /// First phase, mediator to contender: the "decline message".
    Negative {
        /// The election.
        term: u32,
        /// The round.
        round: u8,
    },
    /// "A request from a contender to make the mediator recognize it as a potential winner"; in the
    /// synchronous protocol, the ordered pair of contender and number.
    Req {
        /// The election.
        term: u32,
        /// The contender's random number.
        number: u64,
    },
    /// "Positive Response for REQ".
    Ack {
        /// The election.
        term: u32,
    },
    /// "Negative Response for REQ, POTW messages".
    Nak {
        /// The election.
        term: u32,
    },
    /// "The requisite mediators have recognized it as a potential winner".
    Potw {
        /// The election.
        term: u32,
    },
    /// The positive response for POTW.
    PotwAck {
        /// The election.
        term: u32,
    },
    /// "To notify the mediator that the contender is dropping out as a contender."
    Dec {
        /// The election.
        term: u32,
    },
    /// The winner to all processes; the paper does not say how they learn of it.
    Elected {
        /// The election.
        term: u32,
        /// The winner's random number: of two winners, processes follow the greater.
        number: u64,
    },
}

impl Message {
    /// The phase of a kind of message: `first`, `second`, or the winner's `announcement`. `None` for other kinds.
    pub fn phase(kind: &str) -> Option<&'static str> {
        match kind {
            "Request" | "Positive" | "Negative" => Some("first"),
            "REQ" | "ACK" | "NAK" | "POTW" | "POTW-ACK" | "DEC" => Some("second"),
            "Elected" => Some("announcement"),
            _ => None,
        }
    }

    /// The election of the message.
    #[inline]
    pub fn term(&self) -> u32 {
        match *self {
            Message::Request { term, .. }
            | Message::Positive { term, .. }
            | Message::Negative { term, .. }
            | Message::Req { term, .. }
            | Message::Ack { term }
            | Message::Nak { term }
            | Message::Potw { term }
            | Message::PotwAck { term }
            | Message::Dec { term }
            | Message::Elected { term, .. } => term,
        }
    }
}

suffrage_core::message_kinds!(Message {
    Request,
    Positive,
    Negative,
    Req as "REQ",
    Ack as "ACK",
    Nak as "NAK",
    Potw as "POTW",
    PotwAck as "POTW-ACK",
    Dec as "DEC",
    Elected: uncounted,
});

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The contender's wait for answers or for the next round is over.
    Contender,
    /// The mediator's safe, post-safe or close-safe state ends; synchronously, the answers are due.
    Mediator,
}

suffrage_core::timer_indices!(Timer { Contender, Mediator });
