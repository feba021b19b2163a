//! Messages of Raft.

use serde::{Deserialize, Serialize};

use suffrage_core::Term;

/// The messages between servers. Every message carries a term (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "Would you vote for me?"
    PreVote {
        /// The term of the election: the one after the sender's.
        term: Term,
    },
    /// "I would", or "I would not".
    WouldVote {
        /// The requested term if granted, the sender's term if not.
        term: Term,
        /// True if the sender would vote for the candidate.
        granted: bool,
    },
    /// "Vote for me."
    RequestVote {
        /// The term.
        term: Term,
        /// True if the leader has asked for this election.
        transfer: bool,
    },
    /// "I do", or "I do not".
    Vote {
        /// The sender's term.
        term: Term,
        /// True if the sender votes for the candidate.
        granted: bool,
    },
    /// "I lead": the source's `AppendEntries` without entries.
    Heartbeat {
        /// The term.
        term: Term,
    },
    /// "I have received your heartbeat", or, with a later term, "you no longer lead".
    HeartbeatReply {
        /// The sender's term.
        term: Term,
    },
    /// "Campaign at once: I hand leadership over to you."
    TimeoutNow {
        /// The leader's term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message {
    PreVote,
    WouldVote,
    RequestVote,
    Vote,
    Heartbeat,
    HeartbeatReply: uncounted,
    TimeoutNow,
});
