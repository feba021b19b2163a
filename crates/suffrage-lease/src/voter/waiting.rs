//! The candidates that wait for an election at a voter.

use suffrage_core::{Attribute, NodeId, Time};

use super::{Effects, Voter};
use crate::message::{Boot, Name, Reply};

impl Voter {
    /// Queues a candidate. If nobody holds the election, other candidates have a gap to queue too before the best one
    /// is woken. The holder hears of the first candidate that waits.
    pub(super) fn enqueue(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        name: Name,
        who: (NodeId, Boot),
        attribute: Attribute,
    ) {
        let grant = self.live_grant(now, name);
        if grant.is_some_and(|grant| self.is_held_by(&grant, who)) {
            return;
        }
        self.election_or_insert(name, now + self.timings.gap);
        let is_first = !self.queues.contains_key(&name);
        self.queues.entry(name).or_default().join(who.0, attribute, now, self.timings.stale_after);
        if let Some(grant) = grant.filter(|_| is_first) {
            self.tell_contended(fx, name, grant.holder);
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

    /// Tells the holder that others wait, if they do and the holder does not vote: when it hands over, it yields to them. A
    /// node that votes asks its own voter.
    pub(super) fn tell_contended(&self, fx: &mut impl Effects, name: Name, holder: NodeId) {
        if self.queues.contains_key(&name) && self.saved.configuration.voter(holder).is_none() {
            fx.reply(holder, name, Reply::Contended);
        }
    }
}
