//! The hash that chooses members without communication (3.1).

use super::Round;
use suffrage_core::{Hash, NodeId, View};

/// The purpose of a hash besides its round.
#[derive(Clone, Copy)]
pub(super) enum HashPurpose {
    /// The filter of the round's initiating message.
    Initiation,
    /// Re-initiation after the final choice of this member.
    Choice(NodeId),
    /// Re-initiation without a final choice.
    Silence,
    /// A reply to this member.
    Reply(NodeId),
}

/// The function H of the paper for one message: maps a member to 0..1.
pub(super) fn hash(view: View<'_>, round: Round, purpose: HashPurpose) -> impl Fn(NodeId) -> f64 {
    let of_round = Hash::new(Hash::new(view.group_name()).pair(round.election.into(), round.number.into()));
    let (kind, subject) = match purpose {
        HashPurpose::Initiation => (0, 0),
        HashPurpose::Choice(from) => (1, from.0),
        HashPurpose::Silence => (2, 0),
        HashPurpose::Reply(to) => (3, to.0),
    };
    let message = Hash::new(of_round.pair(kind, subject));
    move |member| (message.word(member.0) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}
