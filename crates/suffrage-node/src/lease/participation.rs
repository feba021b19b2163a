//! A node's part in one election, as seen from outside the task that plays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use suffrage_core::{Attribute, NodeId, Time};
use suffrage_lease::{Name, Token};
use tokio::sync::watch;

use super::node::{Deed, Node};

/// One unbroken time of leading, by this node. Turns invalid by itself: whoever asks reads the clock.
#[derive(Debug)]
pub struct Stint {
    /// Nanoseconds of the node's clock; zero once it is over for good.
    valid_until: AtomicU64,
    token: AtomicU64,
}

impl Stint {
    pub(super) fn new(token: Token, valid_until: Time) -> Stint {
        let (valid_until, token) = (valid_until.as_nanos().into(), token.number().into());
        Stint { valid_until, token }
    }

    /// Whatever has ended stays so, whoever is late to say otherwise.
    pub(super) fn renew(&self, valid_until: Time) {
        let later = |now: u64| (now != 0).then_some(valid_until.as_nanos());
        _ = self.valid_until.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// It leads on with a greater token. That is seen before the longer validity is.
    pub(super) fn lead_on(&self, token: Token, valid_until: Time) {
        self.token.store(token.number(), Ordering::Release);
        self.renew(valid_until);
    }

    /// Leads no longer, for good: to be called before anybody is told to hand over.
    pub fn end(&self) {
        self.valid_until.store(0, Ordering::Release);
    }

    /// Until when this node leads, unless it renews: by its own clock. [`Time::ZERO`] once it has ceased to.
    pub fn valid_until(&self) -> Time {
        Time::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// The fencing token: it may grow while the node leads on.
    pub fn token(&self) -> Token {
        Token::after(self.token.load(Ordering::Acquire).saturating_sub(1))
    }
}

/// What a node believes of one election.
#[derive(Clone, Debug)]
pub struct Belief {
    /// Who leads, and with which token.
    pub leader: Option<(NodeId, Token)>,
    /// Since when it believes so, by its own clock.
    pub since: Time,
    /// If it leads itself.
    pub stint: Option<Arc<Stint>>,
}

/// A node's part in one election. The node takes part until this is dropped.
#[derive(Debug)]
pub struct Part {
    pub(super) node: Node,
    pub(super) name: Name,
    pub(super) belief: watch::Receiver<Belief>,
    /// Whether it may stand, or only observes.
    pub(super) stands: bool,
}

impl Part {
    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Which election.
    pub fn name(&self) -> Name {
        self.name
    }

    /// What the node believes, now and whenever that changes.
    pub fn belief(&self) -> watch::Receiver<Belief> {
        self.belief.clone()
    }

    /// Asks to lead, until the node has led and does not any more, or [`withdraw`](Part::withdraw) is called.
    pub fn campaign(&self) {
        self.tell(Deed::Campaign);
    }

    /// Asks to lead no longer. If it led, it hands over.
    pub fn withdraw(&self) {
        self.tell(Deed::Withdraw);
    }

    /// Hands over to another; if that one does not take over, to whoever is next.
    pub fn transfer(&self, to: NodeId) {
        self.tell(Deed::Transfer(to));
    }

    /// Says whether whoever would lead is well: one that is not hands over, and does not stand.
    pub fn set_healthy(&self, healthy: bool) {
        self.tell(Deed::SetHealthy(healthy));
    }

    /// Says how good a leader this node would be.
    pub fn set_attribute(&self, attribute: Attribute) {
        self.tell(Deed::SetAttribute(attribute));
    }

    fn tell(&self, deed: Deed) {
        if self.stands {
            self.node.tell(self.name, deed);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.node.tell(self.name, Deed::Leave { stands: self.stands });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_stays_so_whoever_is_late_to_say_otherwise() {
        let (first, second) = (Token::after(6), Token::after(7));
        let stint = Stint::new(first, Time::from_nanos(10));
        stint.renew(Time::from_nanos(20));
        assert_eq!((stint.valid_until(), stint.token()), (Time::from_nanos(20), first));
        stint.lead_on(second, Time::from_nanos(30));
        assert_eq!((stint.valid_until(), stint.token()), (Time::from_nanos(30), second));
        stint.end();
        stint.renew(Time::from_nanos(40));
        stint.lead_on(Token::after(8), Time::from_nanos(50));
        assert_eq!(stint.valid_until(), Time::ZERO);
    }
}
