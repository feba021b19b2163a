//! The processes' clocks: each runs at a rate of its own, and may jump.

use suffrage_core::{Hash, Span, Time};

/// The processes' clocks, by slot.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    /// The greatest deviation of a clock's rate, as a fraction.
    pub(crate) drift: f64,
    hash: Hash,
    /// The sum of the jumps of each clock, in nanoseconds. Empty until the first jump.
    jumps: Vec<i64>,
}

impl Clocks {
    pub(crate) fn new(seed: u64) -> Clocks {
        Clocks { drift: 0.0, hash: Hash::new(seed), jumps: Vec::new() }
    }

    /// The rate of a process's clock.
    pub(crate) fn rate(&self, slot: usize) -> f64 {
        let fraction = (self.hash.word(slot as u64) >> 11) as f64 / (1u64 << 53) as f64;
        1.0 + self.drift * (2.0 * fraction - 1.0)
    }

    /// The reading of a process's clock at a true time.
    #[inline]
    pub(crate) fn show(&self, slot: usize, now: Time) -> Time {
        if self.drift == 0.0 && self.jumps.is_empty() {
            return now;
        }
        let steady = self.steady(slot, now);
        Time::from_nanos(steady.saturating_add_signed(self.jumps.get(slot).copied().unwrap_or(0)))
    }

    /// The reading without jumps, in nanoseconds.
    fn steady(&self, slot: usize, now: Time) -> u64 {
        now.since(Time::ZERO).scale(self.rate(slot)).as_nanos()
    }

    /// The true time that passes while a process's clock advances by `counted`.
    #[inline]
    pub(crate) fn true_span(&self, slot: usize, counted: Span) -> Span {
        if self.drift == 0.0 { counted } else { counted.scale(1.0 / self.rate(slot)) }
    }

    /// Moves the clock of one of `count` processes. The reading does not go below zero.
    pub(crate) fn jump(&mut self, count: usize, slot: usize, now: Time, by: Span, back: bool) {
        if self.jumps.is_empty() {
            self.jumps = vec![0; count];
        }
        let by = by.as_nanos() as i64;
        let least = -(self.steady(slot, now) as i64);
        self.jumps[slot] = (self.jumps[slot] + if back { -by } else { by }).max(least);
    }
}
