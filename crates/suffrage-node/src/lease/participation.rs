//! The participation of a node in one election: a handle outside the task that runs the engine.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use suffrage_core::{Attribute, NodeId, Time};
use suffrage_lease::{Action, Lease, Name, Token, Value};
use tokio::sync::{Notify, watch};

use super::node::{ElectionCommand, Node};
use super::status::{Leader, LeaderValue};
use crate::Error;

/// A lease that this node holds without interruption. It turns invalid by itself: readers compare its end with the
/// clock.
#[derive(Debug)]
pub struct HeldLease {
    /// Nanoseconds of the node's clock. Zero after the lease was ended.
    valid_until: AtomicU64,
    token: AtomicU64,
    /// Whether the node hands over: the lease gets shorter, and never longer again.
    hands_over: AtomicBool,
    /// Notified when the node hands over.
    notice: Notify,
    /// The first node that has asked this one to hand over.
    asked_by: OnceLock<NodeId>,
}

impl HeldLease {
    pub(crate) fn new(token: Token, valid_until: Time) -> HeldLease {
        let (valid_until, token) = (valid_until.as_nanos().into(), token.number().into());
        let (hands_over, notice) = (AtomicBool::new(false), Notify::new());
        HeldLease { valid_until, token, hands_over, notice, asked_by: OnceLock::new() }
    }

    /// Extends the lease. A lease that was ended stays ended, and a lease that is handed over does not get longer: a late
    /// renewal changes neither.
    pub(crate) fn renew(&self, valid_until: Time) {
        let later = |now: u64| match self.hands_over() {
            _ if now == 0 => None,
            true => Some(now.min(valid_until.as_nanos())),
            false => Some(valid_until.as_nanos()),
        };
        _ = self.valid_until.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// Extends the lease with a greater token. Readers see the token before the longer validity.
    pub(crate) fn renew_with_token(&self, token: Token, valid_until: Time) {
        self.token.store(token.number(), Ordering::Release);
        self.renew(valid_until);
    }

    /// Shortens the lease, because the node hands over: the work must have ended by then.
    pub(crate) fn shorten(&self, valid_until: Time) {
        self.hands_over.store(true, Ordering::Release);
        self.renew(valid_until);
        self.notice.notify_waiters();
    }

    /// Whether the node hands over: the work must end within the rest of the lease, and then the lease
    /// [be released](Participation::release).
    pub fn hands_over(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
    }

    /// Another node asks this one to hand over.
    pub(super) fn ask_to_hand_over(&self, by: NodeId) {
        // A later node changes nothing.
        _ = self.asked_by.set(by);
    }

    /// The first node that has asked this one to hand over, if one has.
    pub fn asked_by(&self) -> Option<NodeId> {
        self.asked_by.get().copied()
    }

    /// Waits until the node hands over.
    pub async fn hand_over_notice(&self) {
        let mut notified = pin!(self.notice.notified());
        // From here on no notice is missed.
        notified.as_mut().enable();
        if !self.hands_over() {
            notified.await;
        }
    }

    /// Ends the lease. Must be called before the node is told to release it.
    pub fn end(&self) {
        self.valid_until.store(0, Ordering::Release);
    }

    /// The end of the lease by the node's clock, unless it is renewed. [`Time::ZERO`] after it was ended.
    pub fn valid_until(&self) -> Time {
        Time::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// The fencing token. It may grow while the lease is held.
    pub fn token(&self) -> Token {
        Token::after(self.token.load(Ordering::Acquire).saturating_sub(1))
    }
}

/// The belief of a node about one election.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The leader, if one is known.
    pub leader: Option<Leader>,
    /// The value of the leader, if it has one and the node knows it.
    pub value: Option<LeaderValue>,
    /// The time of the last change of `leader`, by the node's clock.
    pub since: Time,
    /// The lease, if the node itself leads.
    pub held: Option<Arc<HeldLease>>,
}

/// The participation of a node in one election. It ends when this value is dropped: the lease is then released at once.
#[derive(Debug)]
pub struct Participation {
    pub(super) node: Node,
    pub(super) name: Name,
    pub(super) belief: watch::Receiver<Belief>,
    /// False for an observer.
    pub(super) candidate: bool,
}

impl Participation {
    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The hash of the election's name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The belief of the node and its changes.
    pub fn belief(&self) -> watch::Receiver<Belief> {
        self.belief.clone()
    }

    /// Makes the node a candidate, until it has led and lost the lease or [`withdraw`](Participation::withdraw) is
    /// called. Idempotent.
    pub fn campaign(&self) {
        self.tell(Action::Stand { once: true });
    }

    /// Like [`campaign`](Participation::campaign), and waits for the lease. A lease that the node holds already is not returned:
    /// an earlier command has released it or will, or its work has not ended. The node is a candidate until it has another one.
    /// A caller that does not wait any more must [`release`](Participation::release) the lease, which the node may have by
    /// then. An observer waits for ever.
    pub async fn next_lease(&self) -> Result<Arc<HeldLease>, Error> {
        if !self.candidate {
            std::future::pending::<()>().await;
        }
        self.node.next_lease(self.name).await
    }

    /// Ends the candidacy. If the node leads, it hands over after the stop margin.
    pub fn withdraw(&self) {
        self.tell(Action::Withdraw);
    }

    /// Ends the candidacy. If the node leads, it releases the lease at once, because the work has ended: in favour of this
    /// node, or of the next candidate.
    pub fn release(&self, to: Option<NodeId>) {
        self.tell(Action::Release(to));
    }

    /// Hands over to another node after the stop margin. If that node does not take the lease, the next candidate gets it.
    pub fn transfer(&self, to: NodeId) {
        self.tell(Action::Transfer(to));
    }

    /// Reports the health of the application. While it is unhealthy, the node does not campaign. If it leads, it hands over
    /// after the stop margin.
    pub fn set_healthy(&self, healthy: bool) {
        self.tell(Action::Health(healthy));
    }

    /// Sets the rank of the node as a candidate. A greater rank is better.
    pub fn set_attribute(&self, attribute: Attribute) {
        self.tell(Action::Rank(attribute));
    }

    /// Sets the value that the node has as the leader, from now on and in later leaderships, or takes it back.
    pub fn set_value(&self, value: Option<Value>) {
        if self.candidate {
            self.node.set_value(self.name, value);
        }
    }

    /// Pins the lease that the node holds, and returns it. The node does not hand a pinned lease over to a candidate of
    /// greater rank, and lets it expire if the work does not end within the stop margin. The lease stays pinned until it is
    /// released or [unpinned](Participation::unpin).
    pub async fn pin(&self) -> Result<Option<Lease>, Error> {
        if self.candidate { self.node.pin(self.name).await } else { Ok(None) }
    }

    /// Unpins the lease: the node hands over to candidates of greater rank again.
    pub fn unpin(&self) {
        self.tell(Action::Pin(false));
    }

    fn tell(&self, action: Action) {
        if self.candidate {
            self.node.tell(self.name, ElectionCommand::Act(action));
        }
    }
}

impl Drop for Participation {
    fn drop(&mut self) {
        self.node.tell(self.name, ElectionCommand::Leave { candidate: self.candidate });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_renewal_does_not_revive_a_lease_that_was_ended() {
        let (first, second) = (Token::after(6), Token::after(7));
        let held = HeldLease::new(first, Time::from_nanos(10));
        held.renew(Time::from_nanos(20));
        assert_eq!((held.valid_until(), held.token()), (Time::from_nanos(20), first));
        held.renew_with_token(second, Time::from_nanos(30));
        assert_eq!((held.valid_until(), held.token()), (Time::from_nanos(30), second));
        held.end();
        held.renew(Time::from_nanos(40));
        held.renew_with_token(Token::after(8), Time::from_nanos(50));
        assert_eq!(held.valid_until(), Time::ZERO);
    }

    #[test]
    fn a_late_renewal_does_not_lengthen_a_lease_that_is_handed_over() {
        let held = HeldLease::new(Token::after(6), Time::from_nanos(100));
        assert!(!held.hands_over());
        held.shorten(Time::from_nanos(50));
        assert!(held.hands_over());
        held.renew(Time::from_nanos(200));
        assert_eq!(held.valid_until(), Time::from_nanos(50));
        held.shorten(Time::from_nanos(40));
        assert_eq!(held.valid_until(), Time::from_nanos(40));
        held.end();
        held.shorten(Time::from_nanos(30));
        assert_eq!(held.valid_until(), Time::ZERO);
    }
}
