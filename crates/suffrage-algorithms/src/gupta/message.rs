//! What members of the probabilistic election say, and what they wait for.

use serde::{Deserialize, Serialize};

use suffrage_core::NodeId;

/// Which round of which election: the paper's `A_I`, the pair of (election #, round #). Later ones are
/// greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Round {
    /// The election, counted from 1.
    pub election: u32,
    /// The round of it, counted from 1.
    pub number: u8,
}

impl Round {
    /// The first round of the election after this one's.
    pub(super) fn next_election(self) -> Round {
        Round { election: self.election.saturating_add(1), number: 1 }
    }

    /// The next round of the same election.
    pub(super) fn next(self) -> Round {
        Round { number: self.number.saturating_add(1), ..self }
    }
}

/// What members say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// To all: this round begins. The initiating multicast `I`, and a re-initiating one.
    Initiate(Round),
    /// To a relay member: "I prefer this one."
    Preference {
        /// In which round.
        round: Round,
        /// Whom.
        leader: NodeId,
    },
    /// To all: "my part of the relay graph has chosen this one." A final multicast.
    FinalChoice {
        /// In which round.
        round: Round,
        /// Whom.
        leader: NodeId,
    },
    /// To all: "I am back; how do things stand?"
    Join,
    /// To one that is back, or behind, or can be heard again: how things stand.
    Welcome {
        /// The latest round known.
        round: Round,
        /// Who was elected in it; none if that is not settled.
        leader: Option<NodeId>,
    },
}

suffrage_core::message_kinds!(Message {
    Initiate,
    Preference,
    FinalChoice,
    Join: uncounted,
    Welcome: uncounted
});

/// What a member waits for: one thing at a time, so that all are one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The initiating message of an election that is due.
    Initiation,
    /// The end of the Relay phase and all final choices, outside of it (`Time_Out_1`).
    RelayAndChoices,
    /// The end of the Relay phase, inside of it (`Time_Out_2`).
    Relay,
    /// The final choices of the others (`Time_Out_3`).
    Choices,
    /// A re-initiation by somebody who is not content (`Time_Out_3`).
    Objection,
    /// Its turn to initiate, unless somebody else does before.
    Turn,
    /// An answer to its joining.
    Welcome,
}

suffrage_core::timer_indices!(Timer);
