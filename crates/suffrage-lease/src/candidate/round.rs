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

/// The voters that grant no lease as long as the candidate asks for, by their last replies. Few candidates have any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TtlLimits(Option<Box<(Voters, Span)>>);

impl TtlLimits {
    /// The voters that refuse.
    pub(super) fn refusing(&self) -> Voters {
        self.0.as_ref().map(|limits| limits.0).unwrap_or_default()
    }

    /// The limit of the voter that told it last, if one refuses.
    pub(super) fn longest(&self) -> Option<Span> {
        self.0.as_ref().map(|limits| limits.1)
    }

    /// This voter grants leases up to `longest`. The candidate asks for `ttl`.
    pub(super) fn update(&mut self, voter: usize, ttl: Span, longest: Span) {
        if longest < ttl {
            let limits = self.0.get_or_insert_default();
            limits.0.add(voter);
            limits.1 = longest;
        } else if let Some(limits) = &mut self.0 {
            limits.0.remove(voter);
            if limits.0.len() == 0 {
                self.0 = None;
            }
        }
    }
}
