//! What processes of the invitation algorithm say, and of which group.

use serde::{Deserialize, Serialize};

use suffrage_core::{NodeId, Rank, Term};

/// The identity of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Who founded it and has led it ever since.
    pub leader: NodeId,
    /// Counts the groups that its founder has been in.
    pub number: Term,
    /// Tells the founder's numbers from those it may have used before it lost its disk.
    pub life: u64,
}

/// The messages of the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "Join my group", from its leader.
    Invitation {
        /// Which.
        group: Group,
        /// How many are in it, the leader included.
        size: u64,
        /// How its leader ranks.
        rank: Rank,
    },
    /// "We join", from the leader of another group.
    Accept {
        /// Which group they join.
        group: Group,
        /// Who follows the one that joins.
        followers: Vec<NodeId>,
    },
    /// "You are in."
    Ready {
        /// In which group.
        group: Group,
    },
    /// "Our group is part of another now", from its leader to its followers.
    Merged {
        /// The group that was.
        from: Group,
        /// The group it is part of.
        into: Group,
    },
    /// "I do not lead, but belong to that group": the answer to an invitation.
    Leader {
        /// Which group, and thereby who leads it.
        group: Group,
    },
    /// "Lead in my place", from a leader to one of its followers.
    Handover {
        /// Which group.
        group: Group,
    },
    /// "Do you still lead this group?"
    AreYouThere {
        /// Which.
        group: Group,
    },
    /// "I do."
    Here {
        /// Which.
        group: Group,
    },
    /// "I do not any more": the other answer.
    NotHere {
        /// The group that was.
        from: Group,
        /// The group that this process is in now.
        into: Group,
    },
}

suffrage_core::message_kinds!(Message {
    Invitation,
    Accept,
    Ready,
    Merged,
    Leader,
    Handover,
    AreYouThere: uncounted,
    Here: uncounted,
    NotHere: uncounted,
});
