//! The clock of a node behind its handles, without its type.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::Time;

use crate::clock::Clock;

/// The clock of a node.
#[derive(Clone)]
pub struct NodeClock(Arc<dyn Fn() -> Time + Send + Sync>);

/// Tokio timers stop during suspend, CLOCK_BOOTTIME does not: the clock is read again at least this often.
const RECHECK: Duration = Duration::from_millis(500);

impl NodeClock {
    pub(super) fn new(clock: impl Clock) -> NodeClock {
        NodeClock(Arc::new(move || clock.now()))
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
            tokio::time::sleep(RECHECK.min(Duration::from_nanos(left.as_nanos()))).await;
        }
    }
}

impl fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeClock({})", self.now())
    }
}
