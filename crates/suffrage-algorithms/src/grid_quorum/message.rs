//! What processes that elect by a grid say to each other.

use serde::{Deserialize, Serialize};

use suffrage_core::{NodeId, Term};

/// The messages of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "every term is the election's, every grant the voter's count of it")]
pub enum Message {
    /// "Lock yourself for me."
    Request { term: Term },
    /// "I am locked for you."
    Locked { term: Term, grant: u64 },
    /// "I am locked for a better one, or one waits."
    Failed { term: Term },
    /// "A better one wants the lock that you hold."
    Inquire { term: Term, grant: u64 },
    /// "It may have it first, since I cannot win now."
    Relinquish { term: Term, grant: u64 },
    /// "I do not want your lock any more", if I have it.
    Release { term: Term, grant: Option<u64> },
    /// "I lead."
    Elected { term: Term },
    /// "You are first in line": in answer to a repeated request.
    Pending { term: Term },
    /// "That term is over": the one spoken of, the sender's, and perhaps a leader since, with its term.
    Outdated { refused: Term, term: Term, elected: Option<(NodeId, Term)> },
    /// "If you lead, say so."
    Ask,
    /// "Stand for election: I led until now", in that term.
    Stand { term: Term },
}

suffrage_core::message_kinds!(Message {
    Request,
    Locked,
    Failed,
    Inquire,
    Relinquish,
    Release,
    Elected,
    Pending: uncounted,
    Outdated: uncounted,
    Ask: uncounted,
    Stand: uncounted,
});
