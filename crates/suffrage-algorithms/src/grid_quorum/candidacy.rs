//! The progress of a candidate.

use std::collections::BTreeMap;

use suffrage_core::NodeId;

/// A voter's lock, as far as the candidate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Asked,
    Failed,
    Locked { grant: u64, inquired: bool },
    Relinquished,
}

/// The candidate's data about a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ballot {
    pub(super) state: State,
    /// The number of requests since the voter's last answer.
    pub(super) unanswered: u8,
}

/// The progress of a candidate in the term of its own lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Candidacy {
    pub(super) ballots: BTreeMap<NodeId, Ballot>,
    /// The last grant of each voter that was returned.
    pub(super) returned: BTreeMap<NodeId, u64>,
}

impl Candidacy {
    /// Maekawa: a process relinquishes "if it has received a FAILED message".
    pub(super) fn cannot_win(&self) -> bool {
        self.ballots.values().any(|ballot| matches!(ballot.state, State::Failed | State::Relinquished))
    }

    pub(super) fn has_won(&self) -> bool {
        let locked = |ballot: &Ballot| matches!(ballot.state, State::Locked { .. });
        !self.ballots.is_empty() && self.ballots.values().all(locked)
    }
}
