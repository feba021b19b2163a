//! Clocks of nodes.

use std::future::Future;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use suffrage_core::{Span, Time};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// The clock of a node. It never goes backwards.
pub trait Clock: Clone + Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Time;

    /// Waits until this time.
    fn sleep_until(&self, time: Time) -> impl Future<Output = ()> + Send;
}

/// The clock of the machine since its boot, including suspend (CLOCK_BOOTTIME). It is never set. Leases are measured by
/// it.
///
/// Other systems than Linux have only the monotonic clock, which stops during suspend: leases are safe there only on
/// machines that do not suspend.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Tokio timers stop during suspend, CLOCK_BOOTTIME does not: the clock is read again at least this often.
const RECHECK: Duration = Duration::from_millis(500);

fn read(clock: ClockId) -> Time {
    let shown = clock_gettime(clock);
    Time::from_nanos(shown.tv_sec as u64 * 1_000_000_000 + shown.tv_nsec as u64)
}

impl Clock for BootClock {
    fn now(&self) -> Time {
        read(CLOCK)
    }

    async fn sleep_until(&self, time: Time) {
        loop {
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            sleep(RECHECK.min(Duration::from_nanos(left.as_nanos()))).await;
        }
    }
}

/// The clock of tokio, for tests with paused time.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// A clock that starts now.
    pub fn new() -> TokioClock {
        TokioClock { start: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> TokioClock {
        TokioClock::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    async fn sleep_until(&self, time: Time) {
        // Tokio timers have a resolution of 1 ms, and may end early by less than that.
        while self.now() < time {
            sleep(Duration::from_nanos(time.since(self.now()).as_nanos())).await;
        }
    }
}

/// A clock that is advanced by hand, for tests. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: watch::Sender<Time>,
}

impl ManualClock {
    /// A clock at time zero.
    pub fn new() -> ManualClock {
        ManualClock { time: watch::Sender::new(Time::ZERO) }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Span) {
        self.time.send_modify(|time| *time = *time + by);
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        *self.time.borrow()
    }

    async fn sleep_until(&self, time: Time) {
        let mut shown = self.time.subscribe();
        // The sender lives as long as this clock.
        _ = shown.wait_for(|now| *now >= time).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeping_ends_when_the_boot_clock_has_reached_the_time() {
        let clock = BootClock;
        let start = clock.now();
        assert!(start > Time::ZERO);
        let end = start + Span::from_millis(20);
        clock.sleep_until(end).await;
        assert!(clock.now() >= end);
        clock.sleep_until(start).await;
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_boot_clock_includes_suspend() {
        let awake = read(ClockId::Monotonic);
        let before = read(ClockId::Boottime);
        let shown = BootClock.now();
        assert!(awake <= before && before <= shown && shown <= read(ClockId::Boottime));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_skips_waits() {
        let clock = TokioClock::new();
        let hour = Time::ZERO + Span::from_millis(3_600_000);
        clock.sleep_until(hour).await;
        assert!(clock.now().since(hour) < Span::from_millis(2));
    }

    #[tokio::test]
    async fn advancing_a_manual_clock_wakes_its_waiters() {
        let clock = ManualClock::new();
        let second = Time::ZERO + Span::from_millis(2);
        let waiter = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(second).await }
        });
        clock.advance(Span::from_millis(1));
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        clock.advance(Span::from_millis(1));
        waiter.await.unwrap();
        assert_eq!(clock.now(), second);
    }
}
