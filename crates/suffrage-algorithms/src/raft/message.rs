//! What servers of Raft say to each other.

use serde::{Deserialize, Serialize};

use suffrage_core::Term;

/// What servers say. Every message carries a term (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "Would you vote for me?"
    PreVote {
        /// The term it would be in: the one after the sender's.
        term: Term,
    },
    /// "I would", or "I would not".
    WouldVote {
        /// The term asked about if granted, the sender's if not.
        term: Term,
        /// Whether it would.
        granted: bool,
    },
    /// "Vote for me."
    RequestVote {
        /// The term.
        term: Term,
        /// Whether the leader wants it so.
        transfer: bool,
    },
    /// "I do", or "I do not".
    Vote {
        /// The sender's term.
        term: Term,
        /// Whether it does.
        granted: bool,
    },
    /// "I lead": the source's `AppendEntries` without entries.
    Heartbeat {
        /// The term.
        term: Term,
    },
    /// "I have heard you", or, from a later term, "you lead no more".
    HeartbeatReply {
        /// The sender's term.
        term: Term,
    },
    /// "Stand for election at once: I want you to lead."
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
