//! A histogram of durations.

use std::time::Duration;

/// A histogram of durations. Counts and sum only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    counts: [u64; DurationHistogram::BOUNDS.len() + 1],
    sum: Duration,
}

impl DurationHistogram {
    /// The upper bounds of the buckets in seconds: from a renewal on loopback to a failover of a long lease.
    pub const BOUNDS: [f64; 17] = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 30.0,
    ];

    pub(super) fn record(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = Self::BOUNDS.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(Self::BOUNDS.len())] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// The cumulative buckets: each bound in seconds, and the number of durations up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut total = 0;
        Self::BOUNDS.into_iter().zip(self.counts).map(move |(bound, count)| {
            total += count;
            (bound, total)
        })
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = DurationHistogram::default();
        for millis in [1, 3, 60_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let up_to = |bound: f64| histogram.cumulative().find(|(it, _)| *it == bound).unwrap().1;
        assert_eq!([0.0005, 0.001, 0.0025, 0.005, 30.0].map(up_to), [0, 1, 1, 2, 2]);
        assert_eq!((histogram.count(), histogram.sum()), (3, Duration::from_millis(60_004)));
    }
}
