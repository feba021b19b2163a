//! The clock of a node behind its handles, without its type.

use std::fmt;
use std::sync::Arc;

use suffrage_core::Time;

use crate::clock::{Clock, boottime, nap};

/// The clock of a node.
#[derive(Clone)]
pub struct NodeClock(Arc<dyn Fn() -> Time + Send + Sync>);

impl NodeClock {
    pub(super) fn new(clock: impl Clock) -> NodeClock {
        NodeClock(Arc::new(move || clock.now()))
    }

    /// CLOCK_BOOTTIME, by which the clients of a node measure their deadlines.
    pub fn boottime() -> NodeClock {
        NodeClock(Arc::new(boottime))
    }

    /// The time.
    pub fn now(&self) -> Time {
        (self.0)()
    }

    /// Waits until this time.
    pub async fn sleep_until(&self, time: Time) {
        loop {
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(nap(left)).await;
        }
    }
}

impl fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeClock({})", self.now())
    }
}
