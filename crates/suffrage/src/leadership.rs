//! Being the leader.

use std::sync::Arc;
use std::time::Duration;

use election::algorithms::quorum_lease::Token;
use election::{NodeId, Span, Time};
use runtime::lease::{Belief, Part, Stint};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Stands until it is dropped.
#[derive(Debug)]
pub(crate) struct Campaign(Arc<Part>);

impl Campaign {
    pub(crate) fn new(part: Arc<Part>) -> Campaign {
        Campaign(part)
    }

    pub(crate) fn ask(&self) {
        self.0.campaign();
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

/// This program leads: until the lease is over, or this is dropped, which hands over at once.
#[derive(Debug)]
#[must_use = "to drop it is to hand over"]
pub struct Leadership {
    stint: Arc<Stint>,
    belief: watch::Receiver<Belief>,
    margin: Span,
    // In this order, when it is dropped: hands over, then lets the next in this program stand.
    campaign: Campaign,
    _turn: OwnedSemaphorePermit,
}

impl Leadership {
    pub(crate) fn new(
        campaign: Campaign,
        stint: Arc<Stint>,
        belief: watch::Receiver<Belief>,
        margin: Span,
        turn: OwnedSemaphorePermit,
    ) -> Leadership {
        Leadership { stint, belief, margin, campaign, _turn: turn }
    }

    fn now(&self) -> Time {
        self.campaign.0.node().clock().now()
    }

    /// The fencing token: greater than that of every leader before. Give it to whatever is written to.
    ///
    /// It may grow while this one leads on, so ask for it each time; and where there is only time to look once,
    /// the earlier one is as good until a later leader has written.
    pub fn token(&self) -> Token {
        self.stint.token()
    }

    /// For how much longer this one leads if its lease is not renewed. Zero if it does not any more.
    pub fn valid_for(&self) -> Duration {
        Duration::from_nanos(self.stint.valid_until().since(self.now()).as_nanos())
    }

    /// Whether this one leads, by the clock: after a pause of any length the answer is right at once.
    pub fn is_valid(&self) -> bool {
        self.now() < self.stint.valid_until()
    }

    /// Waits until it is time to stop: the leadership is lost, or will be in less than the
    /// [stop margin](crate::ElectionBuilder::stop_margin) unless the lease is renewed after all.
    pub async fn lost(&self) {
        let mut belief = self.belief.clone();
        let mine =
            |belief: &Belief| belief.stint.as_ref().is_some_and(|stint| Arc::ptr_eq(stint, &self.stint));
        loop {
            let until = self.stint.valid_until();
            let stop = Time::from_nanos(until.as_nanos().saturating_sub(self.margin.as_nanos()));
            if self.now() >= stop {
                return;
            }
            tokio::select! {
                () = self.campaign.0.node().clock().sleep_until(stop) => {}
                // Another belief, or none any more since the node has stopped.
                _ = belief.wait_for(|belief| !mine(belief)) => return,
            }
        }
    }

    /// Hands over to another node; if that one does not take over, whoever is next does.
    pub fn transfer(self, to: u64) {
        self.stint.end();
        self.campaign.0.transfer(NodeId(to));
    }

    /// Hands over. The same as dropping it.
    pub fn resign(self) {}
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // It does not believe that it leads any more before anybody is told.
        self.stint.end();
    }
}
