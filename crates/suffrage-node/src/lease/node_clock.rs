//! A node's clock for whoever has a handle to the node, whichever kind of clock it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::Time;

use crate::clock::Clock;

/// A node's clock.
#[derive(Clone)]
pub struct NodeClock(Arc<dyn Fn() -> Time + Send + Sync>);

/// Tokio timers stop during suspend, CLOCK_BOOTTIME does not: the clock is read again at least this often.
const RECHECK: Duration = Duration::from_millis(500);

impl NodeClock {
    pub(super) fn new(clock: impl Clock) -> NodeClock {
        NodeClock(Arc::new(move || clock.now()))
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        (self.0)()
    }

    /// Waits until it shows at least this.
    pub async fn sleep_until(&self, time: Time) {
        loop {
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(RECHECK.min(Duration::from_nanos(left.as_nanos()))).await;
        }
    }
}

impl fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeClock({})", self.now())
    }
}
