//! Clocks of nodes.

#[cfg(any(target_os = "linux", target_os = "android", test))]
mod unslewed;

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

/// The clock of the machine: it is never set, time daemons do not slew it, and it goes on while the machine is suspended.
/// Leases are measured by it. `clock/unslewed.rs` says how it is read.
///
/// The clock starts at an arbitrary time, and all processes on the machine share it.
///
/// Other systems than Linux have only the monotonic clock, which may stop during suspend and may be slewed: leases are
/// safe there only on machines that do not suspend, and within the drift bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod machine {
    use super::*;

    /// The clocks of this machine.
    struct Machine;

    impl unslewed::Readings for Machine {
        fn boottime(&self) -> i64 {
            read(ClockId::Boottime)
        }

        fn monotonic(&self) -> i64 {
            read(ClockId::Monotonic)
        }

        fn raw(&self) -> i64 {
            read(ClockId::MonotonicRaw)
        }
    }

    static CLOCK: unslewed::UnslewedClock<Machine> = unslewed::UnslewedClock::new(Machine);

    pub(super) fn now() -> Time {
        CLOCK.now()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod machine {
    use super::*;

    pub(super) fn now() -> Time {
        Time::from_nanos(read(ClockId::Monotonic).cast_unsigned())
    }
}

/// The time of CLOCK_BOOTTIME, which every process of the machine can read, in nanoseconds. Time daemons slew it. Other
/// systems than Linux have only the monotonic clock.
pub fn boottime() -> Time {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let shown = read(ClockId::Boottime);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let shown = read(ClockId::Monotonic);
    Time::from_nanos(shown.cast_unsigned())
}

fn read(clock: ClockId) -> i64 {
    let shown = clock_gettime(clock);
    shown.tv_sec * 1_000_000_000 + shown.tv_nsec
}

/// Timers of the system stop during suspend, the clock of a node does not: the clock is read again at least this often.
const RECHECK: Span = Span::from_millis(500);
/// A timer that is so short may be late by the slewing.
const SHORT: Span = Span::from_millis(8);

/// How long to sleep by a timer of the system if so much time is left by the clock of a node. The clock is read again
/// after the sleep.
///
/// Timers follow CLOCK_MONOTONIC, which time daemons slew by up to 10%. A sleep that ends too early is followed by
/// another. So that no sleep ends too late, all but the last few milliseconds are slept for seven eighths: even with a
/// slewing of 10% the rest is left then.
pub(crate) fn nap(left: Span) -> Duration {
    let nap = if left <= SHORT { left } else { Span::from_nanos(left.as_nanos() / 8 * 7) };
    Duration::from_nanos(nap.min(RECHECK).as_nanos())
}

impl Clock for BootClock {
    fn now(&self) -> Time {
        machine::now()
    }

    async fn sleep_until(&self, time: Time) {
        loop {
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            sleep(nap(left)).await;
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

    /// The readings of this machine add up. The tests of [`unslewed`] have simulated readings.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_boot_clock_is_the_raw_clock_and_the_suspended_time() {
        // The suspended time is at least the first difference, and at most the second.
        let (boottime, monotonic) = (read(ClockId::Boottime), read(ClockId::Monotonic));
        let raw = read(ClockId::MonotonicRaw);
        let shown = BootClock.now().as_nanos() as i64 - unslewed::EPOCH;
        let latest = read(ClockId::MonotonicRaw) - read(ClockId::Monotonic) + read(ClockId::Boottime);
        let earliest = raw + boottime - monotonic - 1_000_000;
        assert!(earliest <= shown && shown <= latest, "{earliest} {shown} {latest}");
    }

    #[test]
    fn the_boot_clock_does_not_go_back_between_threads() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static LAST: AtomicU64 = AtomicU64::new(0);
        let compare = || {
            for _ in 0..100_000 {
                let before = LAST.load(Ordering::Acquire);
                let now = BootClock.now().as_nanos();
                assert!(before <= now, "{before} and then {now}");
                LAST.fetch_max(now, Ordering::AcqRel);
            }
        };
        let others: Vec<_> = (0..3).map(|_| std::thread::spawn(compare)).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
    }

    /// A timer of a slewed clock: a sleep never ends late by more than a millisecond, and there are few of them.
    #[test]
    fn naps_reach_a_time_by_a_slewed_clock() {
        for (slew, left) in [-0.1, -0.08, 0.0, 0.08, 0.1]
            .into_iter()
            .flat_map(|slew| [1, 20, 499, 1_000, 60_000].map(|left| (slew, left)))
        {
            let (end, mut now, mut naps) = (Span::from_millis(left), Span::ZERO, 0);
            while now < end {
                let nap = Span::from_nanos(nap(end - now).as_nanos() as u64);
                assert!(nap <= RECHECK && nap > Span::ZERO);
                now += nap.scale(1.0 / (1.0 + slew)).max(Span::from_nanos(1));
                naps += 1;
            }
            assert!(now <= end + Span::from_millis(1), "slew {slew}: {now} instead of {end}");
            assert!(naps <= left / 440 + 12, "slew {slew}: {naps} naps for {end}");
        }
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
