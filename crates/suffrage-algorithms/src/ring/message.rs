//! Messages and timers of the ring algorithms.

use serde::{Deserialize, Serialize};

use super::Token;
use suffrage_core::{NodeId, Term};

/// One election. A run is greater if its term is greater, or if its term is equal and its initiator has a higher id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// A term above all terms that the initiator had observed.
    pub term: Term,
    /// The process that called the election.
    pub initiator: NodeId,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// The run.
    pub run: Run,
    /// The number of earlier circulations of the outcome.
    pub round: u32,
    /// The leader.
    pub leader: NodeId,
}

/// The messages of the ring algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<T> {
    /// A circulating election.
    Election {
        /// The sender's number of this hop; 0 if no acknowledgement is required.
        hop: u32,
        /// The election.
        run: Run,
        /// The information gathered so far.
        token: T,
    },
    /// A circulating outcome.
    Elected {
        /// The sender's number of this hop; 0 if no acknowledgement is required.
        hop: u32,
        /// The outcome.
        outcome: Outcome,
    },
    /// "The run you passed on is outdated."
    Outdated {
        /// The run that was passed on.
        run: Run,
        /// The highest term that the sender has observed.
        term: Term,
    },
    /// "Your message has arrived."
    Ack {
        /// The hop's number.
        hop: u32,
    },
}

impl<T> Message<T> {
    /// The number of the hop, if an acknowledgement is required.
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
    Outdated: uncounted,
    Ack: uncounted,
});

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The acknowledgement of a hop is overdue.
    Hop,
    /// The outcome of a run that was passed on, or the return of a circulated outcome, is overdue.
    Outcome,
    /// The leader is due to circulate its outcome again.
    Reaffirm,
    /// A follower has missed the next round of the leader's outcome.
    Leader,
}

suffrage_core::timer_indices!(Timer { Hop, Outcome, Reaffirm, Leader });
