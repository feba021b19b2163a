//! Waiting for what other programs do.

use std::thread;
use std::time::{Duration, Instant};

/// Nothing that is waited for takes as long, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

/// Waits until this is so. Panics if it takes too long.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LONG, "{what}: not within {LONG:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
