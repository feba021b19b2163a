//! The timers of one process: at most one of each index.

use std::mem;

use suffrage_core::{Time, Timer};

/// The timers that are set. There are few, so that a linear search is quick.
#[derive(Debug)]
pub(super) struct Timers<T> {
    pending: Vec<Option<Pending<T>>>,
    /// The number of timers ever set.
    set: u64,
}

/// A timer that is set. Timers are ordered by expiry, then by the time they were set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<T> {
    due: Time,
    number: u64,
    timer: T,
}

impl<T: Timer> Timers<T> {
    pub(super) fn new() -> Timers<T> {
        Timers { pending: vec![None; T::COUNT], set: 0 }
    }

    pub(super) fn set(&mut self, timer: T, due: Time) {
        self.set += 1;
        self.pending[timer.index()] = Some(Pending { due, number: self.set, timer });
    }

    pub(super) fn cancel(&mut self, timer: T) {
        self.pending[timer.index()] = None;
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.pending.iter().flatten().map(|pending| pending.due).min()
    }

    /// The timers that have expired at `now`, in their order.
    pub(super) fn due(&self, now: Time) -> Vec<Pending<T>> {
        let mut due: Vec<_> =
            self.pending.iter().flatten().filter(|pending| pending.due <= now).copied().collect();
        due.sort_unstable_by_key(|pending| (pending.due, pending.number));
        due
    }

    /// Takes an expired timer, unless it has been cancelled or set again since.
    pub(super) fn take(&mut self, pending: Pending<T>) -> Option<T> {
        let place = &mut self.pending[pending.timer.index()];
        match place {
            Some(found) if found.number == pending.number => mem::take(place).map(|found| found.timer),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Alarm {
        Retry(u8),
        Expiry,
    }

    suffrage_core::timer_indices!(Alarm { Retry, Expiry });

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn timers_expire_in_order_and_once() {
        let mut timers = Timers::new();
        assert_eq!(timers.next_due(), None);
        timers.set(Alarm::Expiry, at(5));
        timers.set(Alarm::Retry(1), at(5));
        assert_eq!(timers.next_due(), Some(at(5)));
        assert!(timers.due(at(4)).is_empty());
        let due = timers.due(at(9));
        assert_eq!(timers.take(due[0]), Some(Alarm::Expiry));
        assert_eq!(timers.take(due[1]), Some(Alarm::Retry(1)));
        assert_eq!(timers.take(due[0]), None);
        assert_eq!(timers.next_due(), None);
    }

    #[test]
    fn a_timer_that_is_set_again_or_cancelled_is_stale() {
        let mut timers = Timers::new();
        timers.set(Alarm::Retry(1), at(1));
        timers.set(Alarm::Expiry, at(1));
        let due = timers.due(at(1));
        timers.set(Alarm::Retry(2), at(1));
        timers.cancel(Alarm::Expiry);
        assert!(due.into_iter().all(|pending| timers.take(pending).is_none()));
        assert_eq!(timers.take(timers.due(at(1))[0]), Some(Alarm::Retry(2)));
    }
}
