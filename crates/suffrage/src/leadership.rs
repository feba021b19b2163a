//! Leaderships.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::Token;
use suffrage_node::lease::{Belief, HeldLease};
use tokio::sync::watch;

use crate::Error;
use crate::election::leader_value;
use crate::participation::Participation;

/// The lease that a [`Leadership`] of this program holds. The clones of an election share one slot: at most one of them
/// leads at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseSlot(Arc<Mutex<Option<Arc<HeldLease>>>>);

impl LeaseSlot {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<HeldLease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of the lease in the slot. A lease that has ended leaves the slot for good: a late renewal must not
    /// revive it. The clock says that it has ended, and nobody says that the work has: the node does not release it.
    pub(crate) fn valid_until(&self, now: Time, participation: &Participation) -> Option<Time> {
        let mut slot = self.lock();
        if let Some(ended) = slot.take_if(|held| now >= held.valid_until()) {
            ended.end();
            participation.withdraw();
        }
        slot.as_ref().map(|held| held.valid_until())
    }

    /// Ends this lease and releases it at once, to a given node or to the next candidate: the work has ended. If the lease
    /// has left the slot before, another leadership of this program may hold the next lease, and the node gets no command.
    /// The lock orders the commands of this leadership before those of the next one.
    fn end(&self, lease: &Arc<HeldLease>, participation: &Participation, to: Option<NodeId>) {
        let mut slot = self.lock();
        // The lease turns invalid here before the node tells any peer.
        lease.end();
        if slot.take_if(|held| Arc::ptr_eq(held, lease)).is_some() {
            participation.release(to);
        }
    }
}

/// A candidacy. It ends when this value is dropped, unless it was won.
#[derive(Debug)]
pub(crate) struct Campaign {
    participation: Arc<Participation>,
    won: bool,
}

impl Campaign {
    pub(crate) fn new(participation: Arc<Participation>) -> Campaign {
        Campaign { participation, won: false }
    }

    /// Waits for the next lease.
    pub(crate) async fn next_lease(&self) -> Result<Arc<HeldLease>, Error> {
        self.participation.next_lease().await
    }

    /// Gives back a lease that has ended before this program has seen it. It has no work.
    pub(crate) fn give_back(&self, lease: &HeldLease) {
        lease.end();
        self.participation.release(None);
    }

    pub(crate) fn win(
        mut self,
        slot: &LeaseSlot,
        held: Arc<HeldLease>,
        belief: watch::Receiver<Belief>,
        margin: Span,
    ) -> Leadership {
        self.won = true;
        *slot.lock() = Some(Arc::clone(&held));
        let participation = Arc::clone(&self.participation);
        Leadership { participation, held, belief, margin, slot: slot.clone() }
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if !self.won {
            // A lease that the node has got meanwhile has no work.
            self.participation.release(None);
        }
    }
}

/// A leadership of this program. It ends with the lease. A node that is to hand over (fail-back,
/// [`Node::resign`](crate::Node::resign), [`Node::transfer`](crate::Node::transfer),
/// [`Election::set_healthy`](crate::Election::set_healthy), [`Node::stop`](crate::Node::stop), or a request of an
/// operator at another node) first shortens the lease to the [stop margin](crate::ElectionBuilder::stop_margin):
/// [`lost`](Leadership::lost) returns, and the leadership is valid until the margin is over or this value is dropped.
///
/// Dropping a leadership releases the lease at once, and another node may lead a moment later: stop the work before, also
/// work that this program has spawned (tasks, threads, processes). A future that owns a leadership and is dropped, for
/// example by `tokio::select!` or `JoinHandle::abort`, drops its locals in the reverse order of their declaration: declare
/// the leadership before the work. A [`Supervisor`](crate::Supervisor) does this for a command.
#[derive(Debug)]
#[must_use = "dropping a leadership releases the lease"]
pub struct Leadership {
    participation: Arc<Participation>,
    held: Arc<HeldLease>,
    belief: watch::Receiver<Belief>,
    margin: Span,
    slot: LeaseSlot,
}

impl Leadership {
    fn now(&self) -> Time {
        self.participation.clock().now()
    }

    /// The fencing token, greater than the tokens of all leaders before. Send it with every write.
    ///
    /// The token may grow during a leadership: read it for each write. An earlier token of the same leadership stays
    /// good until a later leader has written.
    pub fn token(&self) -> Token {
        self.held.token()
    }

    /// The time until the lease ends unless it is renewed. Zero if the leadership has ended.
    pub fn valid_for(&self) -> Duration {
        Duration::from_nanos(self.held.valid_until().since(self.now()).as_nanos())
    }

    /// Whether the leadership is valid, by the clock. The answer is right also right after a pause of the process.
    pub fn is_valid(&self) -> bool {
        self.now() < self.held.valid_until()
    }

    /// Whether the node hands over: it does not renew the lease any more, so that the program can stop its work and drop
    /// this value. If not, [`lost`](Leadership::lost) has returned because the lease was not renewed in time.
    pub fn hands_over(&self) -> bool {
        self.held.hands_over()
    }

    /// The node that has asked this one to hand over, if one has: an operator there moves the leader.
    pub fn asked_by(&self) -> Option<u64> {
        self.held.asked_by().map(|node| node.0)
    }

    /// Waits until the leadership has ended, or will end within the
    /// [stop margin](crate::ElectionBuilder::stop_margin): the lease was not renewed in time, or the node
    /// [hands over](Leadership::hands_over). The program must stop its work then, and drop the leadership.
    pub async fn lost(&self) {
        let mut belief = self.belief.clone();
        let mine = |belief: &Belief| belief.held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &self.held));
        loop {
            let until = self.held.valid_until();
            let stop = Time::from_nanos(until.as_nanos().saturating_sub(self.margin.as_nanos()));
            if self.now() >= stop || self.held.hands_over() {
                return;
            }
            tokio::select! {
                () = self.held.hand_over_notice() => return,
                () = self.participation.clock().sleep_until(stop) => {}
                // The belief is about another lease, or the node has stopped.
                _ = belief.wait_for(|belief| !mine(belief)) => return,
            }
        }
    }

    /// The clock has passed the end of the lease.
    #[cfg(test)]
    pub(crate) fn expire(&self) {
        self.held.end();
    }

    /// Changes the value of this program as the leader, which other nodes show: a text of up to 4,096 bytes; none if it is
    /// empty. See [`ElectionBuilder::value`](crate::ElectionBuilder::value). The value stays for later leaderships of the
    /// same election. Nodes that vote learn of it after about a round trip.
    pub fn set_value(&self, value: impl AsRef<str>) -> Result<(), Error> {
        self.participation.set_value(leader_value(value.as_ref())?);
        Ok(())
    }

    /// Hands over to another node. If that node does not take the lease, the next candidate gets it.
    pub fn transfer(self, to: impl Into<NodeId>) {
        self.slot.end(&self.held, &self.participation, Some(to.into()));
    }

    /// Releases the lease, as dropping the leadership does.
    pub fn resign(self) {}
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.slot.end(&self.held, &self.participation, None);
    }
}
