//! A round of a candidate: the questions under way, and which voters have answered.

use suffrage_core::Time;

use crate::message::{Grant, Request, Token};

/// Some of the voters, by their places: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Voters(u64);

impl Voters {
    pub(super) fn add(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// The questions that a candidate waits for answers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Round {
    /// Nothing.
    None,
    Enquiry {
        request: Request,
        /// Who answered, and who holds the lease according to each of them.
        answered: Voters,
        grants: Vec<Grant>,
    },
    Preparation {
        request: Request,
        token: Token,
        promised: Voters,
        refused: Voters,
        /// Whether a voter has promised a greater token to somebody.
        outbid: bool,
    },
    Proposal {
        request: Request,
        token: Token,
        /// Its own clock before the first was sent.
        noted: Time,
        accepted: Voters,
        refused: Voters,
        outbid: bool,
        /// The same renewal, asked before in vain so far: answers may only be slow.
        earlier: Vec<Attempt>,
    },
}

/// A renewal that was asked for and not answered by a majority yet. Each counts from its own moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) request: Request,
    pub(super) noted: Time,
    pub(super) accepted: Voters,
}

/// A question by which a candidate learns how long answers take. No majority has answered it yet; the candidate may have
/// ceased to wait for the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Measured {
    pub(super) request: Request,
    pub(super) asked: Time,
    pub(super) answered: Voters,
}
