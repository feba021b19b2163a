//! What contenders and mediators say to each other, and what they wait for.

use serde::{Deserialize, Serialize};

/// What is said. The kinds name the phase: those of the first are words, those of the second are the
/// paper's capitals (Tables 3 and 4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// First phase, contender to mediator: "a request, along with a round number".
    Request {
        /// The election.
        term: u32,
        /// Which round of the first phase, from 1.
        round: u8,
    },
    /// First phase, mediator to contender: go on.
    Positive {
        /// The election.
        term: u32,
        /// Which round.
        round: u8,
    },
    /// First phase, mediator to contender: the "decline message".
    Negative {
        /// The election.
        term: u32,
        /// Which round.
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
    /// The winner to everybody: the paper does not say how they learn of it.
    Elected {
        /// The election.
        term: u32,
        /// The winner's random number: should there be two, the greater is believed in.
        number: u64,
    },
}

impl Message {
    /// Which phase a kind of message belongs to: `first`, `second`, or the winner's `announcement`. None for
    /// what is no kind of these.
    pub fn phase(kind: &str) -> Option<&'static str> {
        match kind {
            "Request" | "Positive" | "Negative" => Some("first"),
            "REQ" | "ACK" | "NAK" | "POTW" | "POTW-ACK" | "DEC" => Some("second"),
            "Elected" => Some("announcement"),
            _ => None,
        }
    }

    /// Which election it belongs to.
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

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// As a contender: answers, or the next round.
    Contender,
    /// As a mediator: the end of safe, post-safe or close-safe; synchronously, the moment to answer.
    Mediator,
}

suffrage_core::timer_indices!(Timer { Contender, Mediator });
