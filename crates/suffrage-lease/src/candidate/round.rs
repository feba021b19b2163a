//! A round of a candidate: the request in flight, and the voters that have replied.

use suffrage_core::{NodeId, Span, Time};

use super::MAX_VOTERS;
use crate::message::{Grant, Request, Token};

/// A set of voters, with a bit for each position in the list of voters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Voters(u64);

impl Voters {
    pub(super) fn add(&mut self, voter: usize) {
        self.0 |= 1 << voter;
    }

    fn remove(&mut self, voter: usize) {
        self.0 &= !(1 << voter);
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The same voters in another list. Voters that it lacks count on, at positions after its end: the deliberate bug
    /// [`MixVersions`](crate::timings::Bug::MixVersions).
    pub(super) fn carried_over(self, from: &[NodeId], to: &[NodeId]) -> Voters {
        let (mut carried, mut end) = (Voters::default(), to.len());
        for (_, id) in from.iter().enumerate().filter(|(index, _)| self.0 >> index & 1 == 1) {
            let position = to.iter().position(|other| other == id).unwrap_or_else(|| {
                end += 1;
                end - 1
            });
            carried.add(position.min(MAX_VOTERS - 1));
        }
        carried
    }
}

/// The request that a candidate waits for replies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Round {
    /// No request is in flight.
    None,
    Enquiry {
        request: Request,
        /// The voters that have replied, and the grants that they named.
        answered: Voters,
        grants: Vec<Grant>,
    },
    Preparation {
        request: Request,
        token: Token,
        promised: Voters,
        refused: Voters,
        /// Whether a voter has promised a greater token.
        outbid: bool,
    },
    Proposal {
        request: Request,
        token: Token,
        /// The candidate's clock before the request was sent.
        noted: Time,
        accepted: Voters,
        refused: Voters,
        outbid: bool,
        /// Earlier renewals of the same token that are still in flight: their replies may only be slow.
        earlier: Vec<Attempt>,
    },
}

/// A renewal that no majority has answered yet. Its lease would count from its own noted moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) request: Request,
    pub(super) noted: Time,
    pub(super) accepted: Voters,
}

/// A request by which a candidate measures the round trip. No majority has replied to it yet. The round of the request
/// may be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RttProbe {
    pub(super) request: Request,
    pub(super) asked: Time,
    pub(super) answered: Voters,
}

/// The voters that grant no lease as long as the candidate asks for, by their last replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TtlLimits {
    pub(super) refusing: Voters,
    /// The limit of the voter that told it last.
    pub(super) longest: Span,
}

impl TtlLimits {
    /// This voter grants leases up to `longest`. The candidate asks for `ttl`.
    pub(super) fn update(&mut self, voter: usize, ttl: Span, longest: Span) {
        if longest < ttl {
            self.refusing.add(voter);
            self.longest = longest;
        } else {
            self.refusing.remove(voter);
        }
    }
}
