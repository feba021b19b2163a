//! Waiting for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the closure returns a value. Panics after 60 seconds.
#[track_caller]
pub fn until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}: timed out after {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
