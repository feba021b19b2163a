//! The hash that chooses members without a word between them (3.1).

use super::Round;
use suffrage_core::{Hash, NodeId, View};

/// What a hash is about besides its round.
#[derive(Clone, Copy)]
pub(super) enum About {
    /// The round's initiating message.
    Initiation,
    /// The final choice of this one.
    Choice(NodeId),
    /// Having heard none.
    Silence,
    /// Replying to this one.
    Reply(NodeId),
}

/// The function H of the paper for one message: maps a member to 0..1.
pub(super) fn hash(view: View<'_>, round: Round, about: About) -> impl Fn(NodeId) -> f64 {
    let named = Hash::new(Hash::new(view.group_name()).pair(round.election.into(), round.number.into()));
    let (kind, whose) = match about {
        About::Initiation => (0, 0),
        About::Choice(from) => (1, from.0),
        About::Silence => (2, 0),
        About::Reply(to) => (3, to.0),
    };
    let message = Hash::new(named.pair(kind, whose));
    move |member| (message.word(member.0) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}
