//! What a candidate has achieved so far.

use std::collections::BTreeMap;

use suffrage_core::NodeId;

/// What a candidate knows of a voter's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Asked,
    Failed,
    Locked { grant: u64, inquired: bool },
    Relinquished,
}

/// A voter as its candidate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ballot {
    pub(super) state: State,
    /// Requests since the voter's last word.
    pub(super) unanswered: u8,
}

/// What a candidate has achieved in the term of its own lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Candidacy {
    pub(super) ballots: BTreeMap<NodeId, Ballot>,
    /// The last grant of each voter that was given back.
    pub(super) given_back: BTreeMap<NodeId, u64>,
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
