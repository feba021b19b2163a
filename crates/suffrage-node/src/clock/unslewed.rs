//! A clock that time daemons do not slew, and that goes on while the machine is suspended.
//!
//! No clock of Linux is both. CLOCK_BOOTTIME goes on in suspend, but time daemons slew it: the kernel lets them change
//! its rate by up to 10%, and chrony uses 8%. CLOCK_MONOTONIC_RAW is not slewed, but it stops in suspend.
//! CLOCK_BOOTTIME and CLOCK_MONOTONIC are slewed alike: they differ by the suspended time exactly. So the time is
//!
//! ```text
//!   CLOCK_MONOTONIC_RAW + (CLOCK_BOOTTIME - CLOCK_MONOTONIC)
//!      awake, unslewed                suspended
//! ```
//!
//! The three clocks are not read at the same moment. Let `t1 <= t2 <= t3` be the moments when BOOTTIME, MONOTONIC and
//! RAW are read, in this order, and `S(t)` the suspended time at the moment `t`.
//!
//! - *The suspended time is never overestimated.* BOOTTIME is read first, and MONOTONIC does not go back, so
//!   `BOOTTIME(t1) - MONOTONIC(t2) = S(t1) - (MONOTONIC(t2) - MONOTONIC(t1)) <= S(t1)`. That holds whatever happens
//!   between the reads: a suspend, a preemption, slewing.
//! - *The time never goes back.* The suspended time is the greatest difference that this process has seen
//!   (`suspended`), and RAW does not go back. So neither does their sum.
//! - *A reading is not later than the end of its call*, because `S(t1) <= S(t3)`. A voter counts no time that has not
//!   passed.
//! - *A reading is not earlier than the beginning of its call*, but for the time between two reads of clocks, some
//!   20 ns. `S` is constant between suspends, so it is enough if one difference since the last suspend had neighbouring
//!   reads: if a difference is greater than all before, or smaller by more than [`TORN`], it is taken several times. A
//!   preemption in all of them would hide a suspend only in part, because RAW counts the preemption: what is missing is
//!   the preemption times the slew. A leader counts all time that has passed.
//!
//! So a reading is the time at some moment of its call, as if one clock were read. A suspend during the call may or may
//! not be included. That is no worse than a suspend just after the call.

use std::sync::atomic::{AtomicI64, Ordering};

use suffrage_core::Time;

/// The clocks of the machine, in nanoseconds.
pub(super) trait Readings {
    /// CLOCK_BOOTTIME.
    fn boottime(&self) -> i64;
    /// CLOCK_MONOTONIC.
    fn monotonic(&self) -> i64;
    /// CLOCK_MONOTONIC_RAW.
    fn raw(&self) -> i64;
}

/// Two clocks that are read in succession are read within this time, in nanoseconds, unless the thread is preempted.
const TORN: i64 = 1_000;
/// How often the suspended time is read again if it has changed or the thread was preempted.
const RETRIES: usize = 8;
/// The time of a clock at boot, nine years in nanoseconds. In a time namespace CLOCK_BOOTTIME may start at zero while
/// the raw clock is behind by all the slewing since the boot of the machine: the sum must not be negative there.
pub(super) const EPOCH: i64 = 1 << 58;

/// A clock of three readings. Processes on one machine and in one time namespace read the same time.
#[derive(Debug)]
pub(super) struct UnslewedClock<R> {
    readings: R,
    /// The suspended time, and a constant in time namespaces. It only grows.
    suspended: AtomicI64,
}

impl<R: Readings> UnslewedClock<R> {
    /// A clock of these readings.
    pub(super) const fn new(readings: R) -> UnslewedClock<R> {
        UnslewedClock { readings, suspended: AtomicI64::new(i64::MIN) }
    }

    /// The time.
    pub(super) fn now(&self) -> Time {
        // Relaxed: threads that see each other's readings are synchronized, and then see each other's `suspended`.
        let known = self.suspended.load(Ordering::Relaxed);
        let mut suspended = self.difference();
        if suspended > known || suspended < known.saturating_sub(TORN) {
            for _ in 0..RETRIES {
                suspended = suspended.max(self.difference());
            }
            suspended = suspended.max(self.suspended.fetch_max(suspended, Ordering::Relaxed));
        }
        Time::from_nanos((EPOCH + self.readings.raw() + suspended.max(known)).cast_unsigned())
    }

    /// The suspended time at the beginning of the call, or less.
    fn difference(&self) -> i64 {
        // The order matters.
        let boottime = self.readings.boottime();
        boottime - self.readings.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    /// How long a simulated machine takes to read a clock, in nanoseconds.
    const READ: i64 = 20;

    /// What happens to the machine before a read.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Suspend(i64),
        /// The thread does not run, the machine does.
        Preempt(i64),
    }

    /// A machine whose clocks are slewed. Each read takes [`READ`].
    #[derive(Default)]
    struct Machine {
        awake: Cell<i64>,
        suspended: Cell<i64>,
        /// The slew in per cent.
        slew: Cell<i64>,
        /// CLOCK_MONOTONIC, in hundredths of a nanosecond.
        monotonic: Cell<i64>,
        reads: Cell<usize>,
        /// By the number of the read that they precede.
        events: RefCell<BTreeMap<usize, Event>>,
        /// An offset of CLOCK_BOOTTIME, as in a time namespace.
        offset: i64,
    }

    impl Machine {
        fn run(&self, nanos: i64) {
            self.awake.set(self.awake.get() + nanos);
            self.monotonic.set(self.monotonic.get() + nanos * (100 + self.slew.get()));
        }

        fn suspend(&self, nanos: i64) {
            self.suspended.set(self.suspended.get() + nanos);
        }

        /// The true time since boot.
        fn time(&self) -> i64 {
            self.awake.get() + self.suspended.get()
        }

        fn read(&self) {
            match self.events.borrow().get(&self.reads.get()) {
                Some(Event::Suspend(nanos)) => self.suspend(*nanos),
                Some(Event::Preempt(nanos)) => self.run(*nanos),
                None => {}
            }
            self.reads.set(self.reads.get() + 1);
            self.run(READ);
        }
    }

    impl Readings for Machine {
        fn boottime(&self) -> i64 {
            self.read();
            self.monotonic.get() / 100 + self.suspended.get() + self.offset
        }

        fn monotonic(&self) -> i64 {
            self.read();
            self.monotonic.get() / 100
        }

        fn raw(&self) -> i64 {
            self.read();
            self.awake.get()
        }
    }

    fn show<R: Readings>(clock: &UnslewedClock<R>) -> i64 {
        clock.now().as_nanos() as i64 - EPOCH
    }

    /// The most that a reading may be early: the time between neighbouring reads on a fast clock, and its fraction.
    const EARLY: i64 = 2 * READ;

    #[test]
    fn slewing_changes_nothing() {
        for slew in [-10, -8, 0, 8, 10] {
            let clock = UnslewedClock::new(Machine::default());
            let machine = &clock.readings;
            let (start, shown) = (machine.time(), show(&clock));
            for hour in 0..10 {
                // The daemon turns back and forth, and for the most part in one direction.
                machine.slew.set(if hour % 3 == 2 { -slew } else { slew });
                machine.run(3_600 * SECOND);
                let (elapsed, counted) = (machine.time() - start, show(&clock) - shown);
                assert!((elapsed - counted).abs() <= EARLY + 30 * READ, "slew {slew}%: {counted} {elapsed}");
            }
        }
    }

    #[test]
    fn suspended_time_counts_in_full_and_once() {
        for slew in [-8, 0, 8] {
            let clock = UnslewedClock::new(Machine::default());
            let machine = &clock.readings;
            machine.slew.set(slew);
            for suspended in [1_000_000, SECOND, 8 * 3_600 * SECOND] {
                machine.run(SECOND);
                let (start, shown) = (machine.time(), show(&clock));
                machine.suspend(suspended);
                for _ in 0..3 {
                    let (elapsed, counted) = (machine.time() - start, show(&clock) - shown);
                    assert!((elapsed - counted).abs() <= EARLY + 30 * READ, "{slew}% {counted} {elapsed}");
                }
            }
        }
    }

    /// One or two events before any of the reads of eight readings: each reading lies within its call, and none goes
    /// back.
    #[test]
    fn readings_torn_by_suspends_and_preemptions_lie_within_their_calls() {
        const READS: usize = 60;
        let events = [
            Event::Suspend(2_000),
            // Longer than the preemption of 20 ms, and shorter by a clock that is 8% fast.
            Event::Suspend(21_000_000),
            Event::Suspend(60 * SECOND),
            // Too short to be noticed.
            Event::Preempt(900),
            Event::Preempt(20_000_000),
            Event::Preempt(90 * SECOND),
        ];
        let mut cases = 0;
        for slew in [-8, 0, 8] {
            for (first, one) in (0..READS).flat_map(|first| events.map(|one| (first, one))) {
                for (second, two) in (first..READS).flat_map(|second| events.map(|two| (second, two))) {
                    let machine = Machine::default();
                    machine.slew.set(slew);
                    machine.events.replace(BTreeMap::from([(second, two), (first, one)]));
                    let clock = UnslewedClock::new(machine);
                    let mut last = i64::MIN;
                    while clock.readings.reads.get() < READS {
                        let start = clock.readings.time();
                        let shown = show(&clock);
                        let end = clock.readings.time();
                        let case = format!("slew {slew}%, {one:?} before {first}, {two:?} before {second}");
                        assert!(start - EARLY <= shown, "{case}: {shown} is before {start}");
                        assert!(shown <= end, "{case}: {shown} is after {end}");
                        assert!(last <= shown, "{case}: {last} and then {shown}");
                        last = shown;
                        cases += 1;
                    }
                }
            }
        }
        assert!(cases > 1_000_000, "{cases}");
    }

    /// A thread that is preempted between most reads, so that retries do not help: no reading goes back or is too late,
    /// and what is missing is at most the slew of the time in which the thread did not run.
    #[test]
    fn readings_of_an_overloaded_machine_do_not_go_back() {
        let mut rng = suffrage_core::Rng::new(7);
        for slew in [-8, 0, 8] {
            let clock = UnslewedClock::new(Machine::default());
            let machine = &clock.readings;
            machine.slew.set(slew);
            let mut last = i64::MIN;
            for _ in 0..20_000 {
                let reads = machine.reads.get();
                let events = (reads..reads + 20).filter_map(|read| match rng.below(100) {
                    0 => Some((read, Event::Suspend(SECOND / 10))),
                    1..97 => Some((read, Event::Preempt(rng.below(90_000_000) as i64))),
                    _ => None,
                });
                machine.events.replace(events.collect());
                let (start, awake) = (machine.time(), machine.awake.get());
                let shown = show(&clock);
                let lost = (machine.awake.get() - awake) / 10;
                assert!(start - lost - EARLY <= shown && shown <= machine.time(), "{slew}%: {start} {shown}");
                assert!(last <= shown, "{slew}%: {last} and then {shown}");
                last = shown;
            }
        }
    }

    /// A machine that was up for a year, in a time namespace that starts at zero.
    #[test]
    fn a_time_namespace_does_not_stop_the_clock() {
        let mut machine = Machine::default();
        machine.slew.set(1);
        machine.run(365 * 86_400 * SECOND);
        machine.offset = -machine.monotonic.get() / 100;
        let clock = UnslewedClock::new(machine);
        let shown = show(&clock);
        clock.readings.run(SECOND);
        let counted = show(&clock) - shown;
        assert!(shown < 0 && (SECOND..SECOND + 30 * READ).contains(&counted), "{shown} {counted}");
    }
}
