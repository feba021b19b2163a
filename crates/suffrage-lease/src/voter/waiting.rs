//! The candidates that wait for an election at a voter.

use suffrage_core::{Attribute, NodeId, Time};

use super::Voter;
use crate::message::{Boot, Name};

impl Voter {
    /// Queues a candidate. If nobody holds the election, other candidates have a gap to queue too before the best one
    /// is woken.
    pub(super) fn enqueue(&mut self, now: Time, name: Name, who: (NodeId, Boot), attribute: Attribute) {
        if self.live_grant(now, name).is_none_or(|grant| !self.is_held_by(&grant, who)) {
            self.election_or_insert(name, now + self.timings.gap);
            self.queues.entry(name).or_default().join(who.0, attribute, now, self.timings.stale_after);
        }
    }

    pub(super) fn dequeue(&mut self, name: Name, who: NodeId) {
        if let Some(queue) = self.queues.get_mut(&name)
            && queue.leave(who)
            && queue.is_empty()
        {
            self.queues.remove(&name);
        }
    }

    /// Whether the holder is told that others wait: when it hands over, it yields to them. A node that votes asks its own
    /// voter.
    pub(super) fn is_contended(&self, name: Name, holder: NodeId) -> bool {
        self.queues.contains_key(&name) && self.saved.configuration.voter(holder).is_none()
    }
}
