//! What a host wants done.

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::{Saved, Token};

use super::outbox::Outbox;
use super::seat::Seat;

/// What has become of one election, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This node leads: for the first time, or on with a greater token.
    Led {
        /// The fencing token.
        token: Token,
        /// Until when, by this node's clock.
        valid_until: Time,
        /// How long the last question took to be answered by a majority.
        took: Span,
    },
    /// This node leads for longer, with the same token.
    Renewed {
        /// Until when, by this node's clock.
        valid_until: Time,
        /// How long the question took to be answered by a majority.
        took: Span,
    },
    /// This node led, and does not any more.
    Lost,
    /// Another node leads.
    Follows {
        /// Who.
        leader: NodeId,
        /// Its fencing token.
        token: Token,
    },
    /// Nobody leads that this node knows of.
    Nobody,
}

/// What a host wants done. Reused from turn to turn: whoever drives a host does all of it, in the order of the
/// fields, and leaves it empty.
#[derive(Debug)]
pub struct Output {
    /// To be on the disk before anything else here is done.
    pub save: Option<Saved>,
    /// To be told to whoever is concerned, in order. Who has ceased to lead must know before anybody else
    /// hears of it.
    pub events: Vec<(Seat, Event)>,
    /// To be sent.
    pub mail: Outbox,
}

impl Output {
    /// Nothing to be done yet; datagrams of this length at most.
    pub fn new(datagram: usize) -> Output {
        Output { save: None, events: Vec::new(), mail: Outbox::new(datagram) }
    }

    /// Whether there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        self.save.is_none() && self.mail.is_empty() && self.events.is_empty()
    }
}
