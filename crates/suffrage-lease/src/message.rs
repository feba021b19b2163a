//! The messages of candidates and voters.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use suffrage_core::{Attribute, NodeId, Span, Term};

use crate::engine::ElectionName;
use crate::membership::{MembershipMessage, Stamp};
use crate::value::{ValueChunk, ValueVersion};

/// The hash of an election's name, which stands for the election in messages. Among a trillion names the probability
/// that two have the same hash is below 10^-14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name([u8; 16]);

impl Name {
    /// The name of no election.
    pub const NONE: Name = Name([0; 16]);

    /// The hash of this name.
    pub fn of(text: &str) -> Name {
        Name(xxh3_128(text.as_bytes()).to_be_bytes())
    }
}

/// Shows the hash in hexadecimal digits.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A fencing token: strictly greater than the token of every earlier leader of the same election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(NonZeroU64);

impl Token {
    /// The token after `number`. It saturates at the greatest number, which only a forged message can contain.
    pub fn after(number: u64) -> Token {
        Token(NonZeroU64::MIN.saturating_add(number))
    }

    /// The token as a number.
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

/// A lease that a voter has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The fencing token of the lease.
    pub token: Token,
    /// The candidate that holds the lease.
    pub holder: NodeId,
    /// The boot of the holder.
    pub boot: Boot,
    /// The rank of the holder.
    pub attribute: Attribute,
    /// The version of the holder's [value](crate::Value).
    pub value: ValueVersion,
}

/// The id of a request, which the reply quotes. A candidate draws its first id at random when it starts, and increments
/// it from there, so that a reply to a request of an earlier boot matches no request of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Request(pub u64);

/// A message of a candidate to a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ask {
    /// Asks for a promise of this token.
    Prepare {
        /// The id that the reply quotes.
        request: Request,
        /// The token.
        token: Token,
        /// The rank of the candidate.
        attribute: Attribute,
    },
    /// Asks for a lease.
    Propose {
        /// The id that the reply quotes.
        request: Request,
        /// The token of the lease.
        token: Token,
        /// The length of the lease.
        ttl: Span,
        /// The rank of the candidate.
        attribute: Attribute,
        /// Whether the candidate leads already with this token. It makes no difference to a voter.
        renewal: bool,
        /// The version of the candidate's [value](crate::Value).
        value: ValueVersion,
    },
    /// Gives the lease back. The candidate has stepped down.
    Release {
        /// The token that the candidate led with, or proposed.
        token: Token,
        /// The candidate that the voter wakes first, if the sender names one.
        to: Option<NodeId>,
    },
    /// Asks who leads. A candidate that stands is queued too, and woken when nobody holds the lease.
    Enquire {
        /// The id that the reply quotes.
        request: Request,
        /// The rank of the candidate; none if it does not stand.
        standing: Option<Attribute>,
    },
    /// Asks who leads, and subscribes to changes for [`Timings::stale_after`](crate::Timings::stale_after).
    Watch {
        /// The id that the reply quotes.
        request: Request,
    },
}

/// A message of a voter to a candidate or an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// Reply to `Prepare`: the voter accepts no smaller token from now on, and promises this one to no other candidate.
    Promised {
        /// The request that this replies to.
        request: Request,
    },
    /// Reply to `Propose`: this voter has granted the lease.
    Accepted {
        /// The request that this replies to.
        request: Request,
        /// The flag of the proposal.
        renewal: bool,
        /// Whether others wait at the voter. Only holders that do not vote are told: the voter of a node knows itself who
        /// waits. No promise depends on it.
        contended: bool,
    },
    /// Reply to `Prepare` or `Propose`: another candidate holds the lease. Only the queue has changed: the sender is in
    /// it.
    Held {
        /// The request that this replies to.
        request: Request,
        /// The lease that the other candidate holds.
        grant: Grant,
        /// The time until the grant expires, unless it is renewed.
        remaining: Span,
    },
    /// Reply to `Prepare` or `Propose`: the voter has promised a token that forbids this one.
    Rejected {
        /// The request that this replies to.
        request: Request,
        /// The greatest promised token.
        promised: u64,
    },
    /// Reply to `Propose`: the voter grants no lease that is so long.
    TooLong {
        /// The request that this replies to.
        request: Request,
        /// The longest lease that the voter grants.
        longest: Span,
    },
    /// Reply to `Enquire`.
    Status {
        /// The request that this replies to.
        request: Request,
        /// The greatest promised token.
        promised: u64,
        /// The lease that is held, if any.
        grant: Option<Grant>,
        /// The longest lease that the voter grants.
        longest: Span,
    },
    /// Wakes a candidate in the queue: nobody holds the lease, and the candidate is next.
    Vacant {
        /// The greatest promised token.
        promised: u64,
    },
    /// Reply to `Watch`.
    Watched {
        /// The request that this replies to.
        request: Request,
        /// The number of the voter's last change.
        number: u64,
        /// The lease that is held, if any.
        grant: Option<Grant>,
    },
    /// Notifies a watcher that the holder has changed.
    Changed {
        /// The number of that change.
        number: u64,
        /// The lease that is held now.
        grant: Option<Grant>,
    },
}

impl Reply {
    /// Whether the voter refuses the request.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Reply::Held { .. } | Reply::Rejected { .. } | Reply::TooLong { .. })
    }

    /// The request that this replies to, if any.
    pub fn request(&self) -> Option<Request> {
        match *self {
            Reply::Promised { request }
            | Reply::Accepted { request, .. }
            | Reply::Held { request, .. }
            | Reply::Rejected { request, .. }
            | Reply::TooLong { request, .. }
            | Reply::Status { request, .. }
            | Reply::Watched { request, .. } => Some(request),
            Reply::Vacant { .. } | Reply::Changed { .. } => None,
        }
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    /// A message to a voter.
    Ask(Ask),
    /// A message from a voter.
    Reply(Reply),
    /// Asks a leader of lower rank to hand over. The candidate has stood for the fail-back delay.
    Claim {
        /// The rank of the candidate.
        attribute: Attribute,
    },
    /// A voter asks the holder of a lease for the text of the election's name. No promise depends on the text.
    NameQuery,
    /// The reply to `NameQuery`.
    NameText(ElectionName),
    /// Asks a leader for chunks of its [value](crate::Value). No promise depends on the value.
    ValueQuery {
        /// The token of the leader.
        token: Token,
        /// The version of the value.
        version: ValueVersion,
        /// The chunks: a bit for each.
        missing: u32,
    },
    /// A reply to `ValueQuery`. It is boxed because it is large and rare.
    ValueChunk(Box<ValueChunk>),
    /// A message about the configuration, and about no election. It is boxed because it is large and rare.
    Membership(Box<MembershipMessage>),
    /// Asks the leader to hand over, on behalf of an operator. A leader with another token ignores it: a late duplicate
    /// ends no later leadership.
    HandOver {
        /// The token of the leader.
        token: Token,
        /// The candidate that is to lead next; none for the next in the queue.
        to: Option<NodeId>,
    },
}

/// The boot of a node: a random number that a process draws when it starts. A grant belongs to a node and its boot, so
/// that a process never takes over the lease of another one with the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Boot(pub u64);

/// The sender of a message, besides its id, which the transport authenticates. On the wire, all messages of a datagram
/// share one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header {
    /// The boot of the sender.
    pub boot: Boot,
    /// The configuration of the sender.
    pub stamp: Stamp,
}

/// A message between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// The sender.
    pub header: Header,
    /// The election. [`Name::NONE`] for a message about the configuration.
    pub name: Name,
    /// The content.
    pub body: Body,
}

// Renewals, enquiries and subscriptions are periodic. They are counted apart from the cost of a change of leaders.
suffrage_core::message_kinds!(Message.body {
    Prepare = Body::Ask(Ask::Prepare { .. }),
    Promised = Body::Reply(Reply::Promised { .. }),
    Propose = Body::Ask(Ask::Propose { renewal: false, .. }),
    Accepted = Body::Reply(Reply::Accepted { renewal: false, .. }),
    Held = Body::Reply(Reply::Held { .. }),
    Rejected = Body::Reply(Reply::Rejected { .. }),
    TooLong = Body::Reply(Reply::TooLong { .. }),
    Release = Body::Ask(Ask::Release { .. }),
    Vacant = Body::Reply(Reply::Vacant { .. }),
    Claim = Body::Claim { .. },
    HandOver = Body::HandOver { .. },
    Renew: uncounted = Body::Ask(Ask::Propose { renewal: true, .. }),
    Renewed: uncounted = Body::Reply(Reply::Accepted { renewal: true, .. }),
    Enquire: uncounted = Body::Ask(Ask::Enquire { .. }),
    Status: uncounted = Body::Reply(Reply::Status { .. }),
    Watch: uncounted = Body::Ask(Ask::Watch { .. }),
    Watched: uncounted = Body::Reply(Reply::Watched { .. }),
    Changed: uncounted = Body::Reply(Reply::Changed { .. }),
    NameQuery: uncounted = Body::NameQuery,
    NameText: uncounted = Body::NameText(_),
    ValueQuery: uncounted = Body::ValueQuery { .. },
    ValueChunk: uncounted = Body::ValueChunk(_),
    Membership: uncounted = Body::Membership(_),
});
