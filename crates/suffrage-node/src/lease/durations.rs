//! How long something took, as a histogram.

use suffrage_core::Span;

/// How long something took, over and over. Only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    counts: [u64; Durations::BOUNDS.len() + 1],
    sum: Span,
}

impl Durations {
    /// The bounds of the buckets in seconds: a renewal on loopback falls into the first ones, a failover of a
    /// long lease into the last.
    pub const BOUNDS: [f64; 17] = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 30.0,
    ];

    /// It took this long once more.
    pub(super) fn add(&mut self, took: Span) {
        let seconds = took.as_nanos() as f64 / 1e9;
        let bucket = Self::BOUNDS.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(Self::BOUNDS.len())] += 1;
        self.sum = Span::from_nanos(self.sum.as_nanos().saturating_add(took.as_nanos()));
    }

    /// How often it took no longer than each of the bounds.
    pub fn within(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut so_far = 0;
        Self::BOUNDS.into_iter().zip(self.counts).map(move |(bound, count)| {
            so_far += count;
            (bound, so_far)
        })
    }

    /// How often it took any time.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long it took together.
    pub fn sum(&self) -> Span {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_within_its_bound_and_all_greater_ones() {
        let mut durations = Durations::default();
        for millis in [1, 3, 60_000] {
            durations.add(Span::from_millis(millis));
        }
        let within = |bound: f64| durations.within().find(|(it, _)| *it == bound).unwrap().1;
        assert_eq!([0.0005, 0.001, 0.0025, 0.005, 30.0].map(within), [0, 1, 1, 2, 2]);
        assert_eq!((durations.count(), durations.sum()), (3, Span::from_millis(60_004)));
    }
}
