//! How multicasts reach people.

use suffrage_core::multicast::bimodal;

/// How a multicast reaches its addressees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Multicast {
    /// As messages to each: each is lost as often as any message.
    #[default]
    Broadcast,
    /// Each live addressee that is not cut off is reached with this probability, however many other
    /// messages are lost.
    Ideal(f64),
    /// As messages to each, and what is missed is repaired by gossip.
    Bimodal(bimodal::Options),
}
