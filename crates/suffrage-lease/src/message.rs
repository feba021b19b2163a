//! What candidates and voters say to each other.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use suffrage_core::{Attribute, NodeId, Span, Term};

/// Which election: the hash of the name that people give it. Among a trillion names two share one with a
/// chance below one in 10^14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name([u8; 16]);

impl Name {
    /// The election that people call this.
    pub fn of(text: &str) -> Name {
        Name(xxh3_128(text.as_bytes()).to_be_bytes())
    }
}

/// A leader's number: strictly greater than that of every leader of the same name before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(NonZeroU64);

impl Token {
    /// The one after `number`. There is none after the last, which only a forger can have spoken of.
    pub fn after(number: u64) -> Token {
        Token(NonZeroU64::MIN.saturating_add(number))
    }

    /// As a plain number.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl From<Token> for Term {
    fn from(token: Token) -> Term {
        Term(token.number())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// To whom a voter has granted a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// With which token.
    pub token: Token,
    /// To whom.
    pub holder: NodeId,
    /// How good a leader it is.
    pub attribute: Attribute,
}

/// Ties an answer to what it answers. A candidate draws its first at random whenever it starts and counts
/// on from there, so that it takes no answer to a request it did not make, be it from before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Request(pub u64);

/// What a candidate says to a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ask {
    /// "Promise me this token."
    Prepare {
        /// To be quoted in the answer.
        request: Request,
        /// Which token.
        token: Token,
        /// How good a leader the candidate is.
        attribute: Attribute,
    },
    /// "Grant me a lease."
    Propose {
        /// To be quoted in the answer.
        request: Request,
        /// With this token.
        token: Token,
        /// For how long.
        ttl: Span,
        /// How good a leader the candidate is.
        attribute: Attribute,
        /// Whether it leads already, with this token. Makes no difference to a voter.
        renewal: bool,
    },
    /// "I do not lead any more."
    Release {
        /// The token it led with, or tried to.
        token: Token,
        /// Who is to be woken first.
        to: Option<NodeId>,
    },
    /// "Who leads? And wake me when nobody does, if I stand."
    Enquire {
        /// To be quoted in the answer.
        request: Request,
        /// How good a leader the candidate is; none if it only wants to know.
        standing: Option<Attribute>,
    },
    /// "Who leads? And tell me for a while whenever that changes."
    Watch {
        /// To be quoted in the answer.
        request: Request,
    },
}

/// What a voter says to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// To `Prepare`: "I shall take no smaller token, nor promise this one to another."
    Promised {
        /// What it answers.
        request: Request,
    },
    /// To `Propose`: "You hold the lease, as far as I am concerned."
    Accepted {
        /// What it answers.
        request: Request,
        /// As in the proposal.
        renewal: bool,
    },
    /// To either: "Another one holds it." Nothing has changed, but that the candidate is queued.
    Held {
        /// What it answers.
        request: Request,
        /// By whom.
        grant: Grant,
        /// For how long, unless it is renewed.
        remaining: Span,
    },
    /// To either: "I have promised a token that is at least as great."
    Rejected {
        /// What it answers.
        request: Request,
        /// Which.
        promised: u64,
    },
    /// To `Enquire`.
    Status {
        /// What it answers.
        request: Request,
        /// The greatest token that is promised.
        promised: u64,
        /// Who holds the lease.
        grant: Option<Grant>,
    },
    /// To a candidate in the queue: "Nobody holds it. Your turn."
    Vacant {
        /// The greatest token that is promised.
        promised: u64,
    },
    /// To `Watch`.
    Watched {
        /// What it answers.
        request: Request,
        /// How many changes this voter has told of so far.
        number: u64,
        /// Who holds the lease.
        grant: Option<Grant>,
    },
    /// To one that watches: "It has changed hands."
    Changed {
        /// The number of that change.
        number: u64,
        /// Who holds the lease now.
        grant: Option<Grant>,
    },
}

impl Reply {
    /// The request that it answers, if it answers one.
    pub fn request(&self) -> Option<Request> {
        match *self {
            Reply::Promised { request }
            | Reply::Accepted { request, .. }
            | Reply::Held { request, .. }
            | Reply::Rejected { request, .. }
            | Reply::Status { request, .. }
            | Reply::Watched { request, .. } => Some(request),
            Reply::Vacant { .. } | Reply::Changed { .. } => None,
        }
    }
}

/// What there is to say about one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    /// To a voter.
    Ask(Ask),
    /// From a voter.
    Reply(Reply),
    /// From a candidate to the leader: "I have been better than you for long enough. Hand over."
    Claim {
        /// How good a leader the candidate is.
        attribute: Attribute,
    },
}

/// What candidates and voters say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// About which election.
    pub name: Name,
    /// What.
    pub body: Body,
}

// Renewals and enquiries go on all the time, and are counted apart from what a change of leaders costs.
suffrage_core::message_kinds!(Message.body {
    Prepare = Body::Ask(Ask::Prepare { .. }),
    Promised = Body::Reply(Reply::Promised { .. }),
    Propose = Body::Ask(Ask::Propose { renewal: false, .. }),
    Accepted = Body::Reply(Reply::Accepted { renewal: false, .. }),
    Held = Body::Reply(Reply::Held { .. }),
    Rejected = Body::Reply(Reply::Rejected { .. }),
    Release = Body::Ask(Ask::Release { .. }),
    Vacant = Body::Reply(Reply::Vacant { .. }),
    Claim = Body::Claim { .. },
    Renew: uncounted = Body::Ask(Ask::Propose { renewal: true, .. }),
    Renewed: uncounted = Body::Reply(Reply::Accepted { renewal: true, .. }),
    Enquire: uncounted = Body::Ask(Ask::Enquire { .. }),
    Status: uncounted = Body::Reply(Reply::Status { .. }),
    Watch: uncounted = Body::Ask(Ask::Watch { .. }),
    Watched: uncounted = Body::Reply(Reply::Watched { .. }),
    Changed: uncounted = Body::Reply(Reply::Changed { .. }),
});
