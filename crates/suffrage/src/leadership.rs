//! Being the leader.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::Token;
use suffrage_node::lease::{Belief, HeldLease, Participation};
use tokio::sync::watch;

/// Who leads of those in this program that have joined together: one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Office(Arc<Mutex<Option<Arc<HeldLease>>>>);

impl Office {
    fn holder(&self) -> MutexGuard<'_, Option<Arc<HeldLease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when somebody holds it. Whoever has lost it holds it no more, noticed or not; and that for good: a
    /// renewal that comes too late must not bring it back.
    pub(crate) fn held_until(&self, now: Time, part: &Participation) -> Option<Time> {
        let mut holder = self.holder();
        if let Some(held) = holder.take_if(|held| now >= held.valid_until()) {
            held.end();
            part.withdraw();
        }
        holder.as_ref().map(|held| held.valid_until())
    }

    /// Whoever leads by this does not any more, and hands over: to this node, if it is another. If it had lost it
    /// before, another may stand or lead here by now, and nothing is handed over. All of it under one lock: what is
    /// said for this one must not come after what the next has said.
    fn end(&self, held: &Arc<HeldLease>, part: &Participation, to: Option<NodeId>) {
        let mut holder = self.holder();
        // It does not believe that it leads any more before anybody is told.
        held.end();
        if holder.take_if(|held| Arc::ptr_eq(held, held)).is_some() {
            if let Some(to) = to {
                part.transfer(to);
            }
            part.withdraw();
        }
    }
}

/// Stands until it is dropped.
#[derive(Debug)]
pub(crate) struct Campaign {
    part: Arc<Participation>,
    won: bool,
}

impl Campaign {
    pub(crate) fn new(part: Arc<Participation>) -> Campaign {
        Campaign { part, won: false }
    }

    /// Asks to lead, if it does not already.
    pub(crate) fn ask(&self) {
        self.part.campaign();
    }

    pub(crate) fn win(
        mut self,
        office: &Office,
        held: Arc<HeldLease>,
        belief: watch::Receiver<Belief>,
        margin: Span,
    ) -> Leadership {
        self.won = true;
        *office.holder() = Some(Arc::clone(&held));
        Leadership { part: Arc::clone(&self.part), held, belief, margin, office: office.clone() }
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        if !self.won {
            self.part.withdraw();
        }
    }
}

/// This program leads: until the lease is over, or this is dropped, which hands over at once.
#[derive(Debug)]
#[must_use = "to drop it is to hand over"]
pub struct Leadership {
    part: Arc<Participation>,
    held: Arc<HeldLease>,
    belief: watch::Receiver<Belief>,
    margin: Span,
    office: Office,
}

impl Leadership {
    fn now(&self) -> Time {
        self.part.node().clock().now()
    }

    /// The fencing token: greater than that of every leader before. Give it to whatever is written to.
    ///
    /// It may grow while this one leads on, so ask for it each time; and where there is only time to look once,
    /// the earlier one is as good until a later leader has written.
    pub fn token(&self) -> Token {
        self.held.token()
    }

    /// For how much longer this one leads if its lease is not renewed. Zero if it does not any more.
    pub fn valid_for(&self) -> Duration {
        Duration::from_nanos(self.held.valid_until().since(self.now()).as_nanos())
    }

    /// Whether this one leads, by the clock: after a pause of any length the answer is right at once.
    pub fn is_valid(&self) -> bool {
        self.now() < self.held.valid_until()
    }

    /// Waits until it is time to stop: the leadership is lost, or will be in less than the
    /// [stop margin](crate::ElectionBuilder::stop_margin) unless the lease is renewed after all.
    pub async fn lost(&self) {
        let mut belief = self.belief.clone();
        let mine = |belief: &Belief| belief.held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &self.held));
        loop {
            let until = self.held.valid_until();
            let stop = Time::from_nanos(until.as_nanos().saturating_sub(self.margin.as_nanos()));
            if self.now() >= stop {
                return;
            }
            tokio::select! {
                () = self.part.node().clock().sleep_until(stop) => {}
                // Another belief, or none any more since the node has stopped.
                _ = belief.wait_for(|belief| !mine(belief)) => return,
            }
        }
    }

    /// Hands over to another node; if that one does not take over, whoever is next does.
    pub fn transfer(self, to: impl Into<NodeId>) {
        self.office.end(&self.held, &self.part, Some(to.into()));
    }

    /// Hands over. The same as dropping it.
    pub fn resign(self) {}
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.office.end(&self.held, &self.part, None);
    }
}
