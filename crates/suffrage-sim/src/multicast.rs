//! The multicast service.

use suffrage_core::multicast::bimodal;

/// The multicast service of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Multicast {
    /// One message to each addressee, which is lost as often as any message.
    #[default]
    Broadcast,
    /// Each live addressee that is not cut off is reached with this probability, independent of the loss of other
    /// messages.
    Ideal(f64),
    /// One message to each addressee; gossip repairs the losses.
    Bimodal(bimodal::Options),
}
