//! Messages of the invitation algorithm, and the identity of groups.

use serde::{Deserialize, Serialize};

use suffrage_core::{NodeId, Rank, Term};

/// The identity of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    /// The founder and leader of the group.
    pub leader: NodeId,
    /// The number of groups that its founder has been in.
    pub number: Term,
    /// A random number that distinguishes the founder's numbers from those used before it lost its disk.
    pub life: u64,
}

/// The messages of the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "Join my group", from its leader.
    Invitation {
        /// The group.
        group: Group,
        /// The number of members, the leader included.
        size: u64,
        /// The rank of the leader.
        rank: Rank,
    },
    /// "We join", from the leader of another group.
    Accept {
        /// The group that they join.
        group: Group,
        /// The followers of the joining leader.
        followers: Vec<NodeId>,
    },
    /// "You are a member now."
    Ready {
        /// The group.
        group: Group,
    },
    /// "Our group is part of another now", from its leader to its followers.
    Merged {
        /// The former group.
        from: Group,
        /// The group that the former group is part of now.
        into: Group,
    },
    /// "I do not lead, but belong to that group": the answer to an invitation.
    Leader {
        /// The group, which names its leader.
        group: Group,
    },
    /// "Lead in my place", from a leader to one of its followers.
    Handover {
        /// The group.
        group: Group,
    },
    /// "Do you still lead this group?"
    AreYouThere {
        /// The group.
        group: Group,
    },
    /// "I do."
    Here {
        /// The group.
        group: Group,
    },
    /// "I do not any more": the other answer.
    NotHere {
        /// The former group.
        from: Group,
        /// The current group of the sender.
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
