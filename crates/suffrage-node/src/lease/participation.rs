//! A node's part in one election, as seen from outside the task that runs the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use suffrage_core::{Attribute, NodeId, Time};
use suffrage_lease::{Action, Lease, Name, Token};
use tokio::sync::watch;

use super::node::{ElectionCommand, Node};
use crate::Error;

/// A lease that this node holds without interruption, renewed or not. It turns invalid by itself: readers compare it
/// with the clock.
#[derive(Debug)]
pub struct HeldLease {
    /// Nanoseconds of the node's clock; zero once the lease is over for good.
    valid_until: AtomicU64,
    token: AtomicU64,
}

impl HeldLease {
    pub(super) fn new(token: Token, valid_until: Time) -> HeldLease {
        let (valid_until, token) = (valid_until.as_nanos().into(), token.number().into());
        HeldLease { valid_until, token }
    }

    /// What has ended stays so: a late renewal does not revive it.
    pub(super) fn renew(&self, valid_until: Time) {
        let later = |now: u64| (now != 0).then_some(valid_until.as_nanos());
        _ = self.valid_until.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// The node leads on with a greater token. Readers see the token before the longer validity.
    pub(super) fn lead_on(&self, token: Token, valid_until: Time) {
        self.token.store(token.number(), Ordering::Release);
        self.renew(valid_until);
    }

    /// Ends the lease for good. To be called before anybody is told to hand over.
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
    /// The lease, if the node leads itself.
    pub held: Option<Arc<HeldLease>>,
}

/// A node's part in one election. The node takes part until this is dropped.
#[derive(Debug)]
pub struct Participation {
    pub(super) node: Node,
    pub(super) name: Name,
    pub(super) belief: watch::Receiver<Belief>,
    /// Whether it may stand, or only observes.
    pub(super) stands: bool,
}

impl Participation {
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

    /// Asks to lead, until the node has led and does not any more, or [`withdraw`](Participation::withdraw) is called.
    /// Nothing changes if it asks already.
    pub fn campaign(&self) {
        self.tell(Action::Stand { once: true });
    }

    /// Asks to lead no longer. If it led, it hands over.
    pub fn withdraw(&self) {
        self.tell(Action::Withdraw);
    }

    /// Hands over to another; if that one does not take over, to whoever is next.
    pub fn transfer(&self, to: NodeId) {
        self.tell(Action::Transfer(to));
    }

    /// Says whether the application that would lead is healthy: if not, the node hands over, and does not stand.
    pub fn set_healthy(&self, healthy: bool) {
        self.tell(Action::Health(healthy));
    }

    /// Says how good a leader this node would be.
    pub fn set_attribute(&self, attribute: Attribute) {
        self.tell(Action::Rank(attribute));
    }

    /// Makes sure that no claim of a better candidate makes the node hand over the lease that it holds at this moment,
    /// and tells which that is. The lease stays pinned until it is released or [unpinned](Participation::unpin).
    pub async fn pin(&self) -> Result<Option<Lease>, Error> {
        if self.stands { self.node.pin(self.name).await } else { Ok(None) }
    }

    /// Lets claims of better candidates make the node hand over again.
    pub fn unpin(&self) {
        self.tell(Action::Pin(false));
    }

    fn tell(&self, action: Action) {
        if self.stands {
            self.node.tell(self.name, ElectionCommand::Act(action));
        }
    }
}

impl Drop for Participation {
    fn drop(&mut self) {
        self.node.tell(self.name, ElectionCommand::Leave { stands: self.stands });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_stays_so_whoever_is_late_to_say_otherwise() {
        let (first, second) = (Token::after(6), Token::after(7));
        let held = HeldLease::new(first, Time::from_nanos(10));
        held.renew(Time::from_nanos(20));
        assert_eq!((held.valid_until(), held.token()), (Time::from_nanos(20), first));
        held.lead_on(second, Time::from_nanos(30));
        assert_eq!((held.valid_until(), held.token()), (Time::from_nanos(30), second));
        held.end();
        held.renew(Time::from_nanos(40));
        held.lead_on(Token::after(8), Time::from_nanos(50));
        assert_eq!(held.valid_until(), Time::ZERO);
    }
}
