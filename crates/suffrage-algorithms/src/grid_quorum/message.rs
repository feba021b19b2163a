//! Messages of the grid quorum algorithm.

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
    /// "I am locked for a better candidate, or a better one waits."
    Failed { term: Term },
    /// "A better candidate wants the lock that you hold."
    Inquire { term: Term, grant: u64 },
    /// "The better candidate may have the lock first, since I cannot win now."
    Relinquish { term: Term, grant: u64 },
    /// "I do not want your lock any more", if I have it.
    Release { term: Term, grant: Option<u64> },
    /// "I lead."
    Elected { term: Term },
    /// "You are the first waiting candidate": the answer to a repeated request.
    Pending { term: Term },
    /// "That term is over": the refused term, the sender's term, and perhaps a later leader with its term.
    Outdated { refused: Term, term: Term, elected: Option<(NodeId, Term)> },
    /// "Announce yourself if you lead."
    Ask,
    /// "Campaign: I led until now", in that term.
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
