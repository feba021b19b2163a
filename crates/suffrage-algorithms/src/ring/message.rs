//! What processes on a ring say, and what they wait for.

use serde::{Deserialize, Serialize};

use super::Token;
use suffrage_core::{NodeId, Term};

/// One election: greater if of a later term, or of the same and called by a higher id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Above every term its initiator had heard of.
    pub term: Term,
    /// Who called it.
    pub initiator: NodeId,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// Which run.
    pub run: Run,
    /// How often the outcome has been sent round before.
    pub round: u32,
    /// Who leads.
    pub leader: NodeId,
}

/// What processes on a ring say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<T> {
    /// An election goes round.
    Election {
        /// The sender's number for this hop; 0 if it is not to be acknowledged.
        hop: u32,
        /// Which election.
        run: Run,
        /// What it has gathered so far.
        token: T,
    },
    /// Its outcome goes round.
    Elected {
        /// The sender's number for this hop; 0 if it is not to be acknowledged.
        hop: u32,
        /// The outcome.
        outcome: Outcome,
    },
    /// "The run you passed on is of the past."
    Outdated {
        /// The run that was passed on.
        run: Run,
        /// The highest term heard of.
        term: Term,
    },
    /// "Your message has arrived."
    Ack {
        /// The hop's number.
        hop: u32,
    },
}

impl<T> Message<T> {
    /// The number of the hop, if it is to be acknowledged.
    #[inline]
    pub(super) fn hop(&self) -> Option<u32> {
        match self {
            Message::Election { hop, .. } | Message::Elected { hop, .. } if *hop != 0 => Some(*hop),
            _ => None,
        }
    }

    pub(super) fn set_hop(&mut self, number: u32) {
        if let Message::Election { hop, .. } | Message::Elected { hop, .. } = self {
            *hop = number;
        }
    }
}

suffrage_core::message_kinds!(<T: Token> Message<T> {
    Election,
    Elected as (T::OUTCOME),
    Outdated: apart,
    Ack: apart,
});

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The acknowledgement of a hop.
    Hop,
    /// The outcome of a run it has passed on, or the return of the one it has sent round.
    Outcome,
    /// As a leader: the next time to have its outcome go round.
    Reaffirm,
    /// As a follower: the next round of the leader's outcome.
    Leader,
}

suffrage_core::timer_indices!(Timer { Hop, Outcome, Reaffirm, Leader });
