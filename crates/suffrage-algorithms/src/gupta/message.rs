//! Messages and timers of the probabilistic election.

use serde::{Deserialize, Serialize};

use suffrage_core::NodeId;

/// A round of an election: the paper's `A_I`, the pair of (election #, round #). Later rounds are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Round {
    /// The election, counted from 1.
    pub election: u32,
    /// The round of the election, counted from 1.
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

/// The messages between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// To all: this round begins. The initiating multicast `I`, and a re-initiating one.
    Initiate(Round),
    /// To a relay member: "I prefer this one."
    Preference {
        /// The round.
        round: Round,
        /// The preferred leader.
        leader: NodeId,
    },
    /// To all: "my part of the relay graph has chosen this one." A final multicast.
    FinalChoice {
        /// The round.
        round: Round,
        /// The chosen leader.
        leader: NodeId,
    },
    /// To all: "I have restarted; what is the current state?"
    Join,
    /// The current state, to a restarted member, a member in an earlier round, or a peer whose suspicion ended.
    Welcome {
        /// The latest round that the sender knows.
        round: Round,
        /// The leader that was elected in it; `None` if the election is not decided.
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

/// The timers of a member. A member waits for one event at a time, so all timers share one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The wait for the initiating message of a due election is over.
    Initiation,
    /// The wait for the end of the Relay phase and for all final choices is over, for members outside of it
    /// (`Time_Out_1`).
    RelayAndChoices,
    /// The Relay phase is over, for relay members (`Time_Out_2`).
    Relay,
    /// The wait for the final choices of the others is over (`Time_Out_3`).
    Choices,
    /// The wait for a re-initiation by a member that objects is over (`Time_Out_3`).
    Objection,
    /// The random delay before an initiation is over.
    Turn,
    /// The wait for an answer to `Join` is over.
    Welcome,
}

suffrage_core::timer_indices!(Timer);
