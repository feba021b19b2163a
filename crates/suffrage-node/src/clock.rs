//! What time it is at a node.

use std::future::Future;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use suffrage_core::{Span, Time};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A node's own clock. It never goes back.
pub trait Clock: Clone + Send + Sync + 'static {
    /// What it shows.
    fn now(&self) -> Time;

    /// Waits until it shows at least this.
    fn sleep_until(&self, time: Time) -> impl Future<Output = ()> + Send;
}

/// The machine's clock since it was started, which goes on while the machine sleeps (CLOCK_BOOTTIME) and is
/// never set: what leases are measured by.
///
/// Where there is no such clock, which is elsewhere than on Linux, it is the monotonic one. That stands
/// still while the machine sleeps: leases are then safe only on machines that do not.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Tokio's timers stand still while the machine sleeps. So nobody relies on a long one: after so much waking
/// time at most the clock is looked at again.
const NAP: Duration = Duration::from_millis(500);

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
            sleep(NAP.min(Duration::from_nanos(left.as_nanos()))).await;
        }
    }
}

/// Tokio's own clock: with its time paused, hours pass in no time at all.
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
        // Tokio's timers are as coarse as a millisecond, and may end before the nanosecond asked for.
        while self.now() < time {
            sleep(Duration::from_nanos(time.since(self.now()).as_nanos())).await;
        }
    }
}

/// A clock that shows what it is told to, for tests. Clones show the same.
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: watch::Sender<Time>,
}

impl ManualClock {
    /// A clock that stands at zero.
    pub fn new() -> ManualClock {
        ManualClock { time: watch::Sender::new(Time::ZERO) }
    }

    /// Moves it forward.
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
        // It cannot end while this clock is there to hold the sender.
        _ = shown.wait_for(|now| *now >= time).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_machines_clock_runs_and_is_waited_for() {
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
    fn it_is_the_one_that_goes_on_while_the_machine_sleeps() {
        let awake = read(ClockId::Monotonic);
        let before = read(ClockId::Boottime);
        let shown = BootClock.now();
        assert!(awake <= before && before <= shown && shown <= read(ClockId::Boottime));
    }

    #[tokio::test(start_paused = true)]
    async fn tokios_clock_skips_what_is_only_waited_for() {
        let clock = TokioClock::new();
        let hour = Time::ZERO + Span::from_millis(3_600_000);
        clock.sleep_until(hour).await;
        assert!(clock.now().since(hour) < Span::from_millis(2));
    }

    #[tokio::test]
    async fn a_clock_set_by_hand_wakes_those_who_wait() {
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
