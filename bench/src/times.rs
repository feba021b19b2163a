//! Statistics of measured times.

use std::time::Duration;

use suffrage_sim::quantiles;

/// The quantiles of measured times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
    /// The number of measured times.
    pub(crate) count: usize,
}

impl Times {
    /// None if nothing was measured.
    pub(crate) fn of(times: &[Duration]) -> Option<Times> {
        let [median, p99, longest] = quantiles(times, [0.5, 0.99, 1.0])?;
        Some(Times { median, p99, longest, count: times.len() })
    }
}

/// A duration in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summarised_by_quantiles() {
        let times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let Times { median, p99, longest, count } = Times::of(&times).unwrap();
        assert_eq!(([median, p99, longest].map(millis), count), ([50.0, 99.0, 100.0], 100));
        assert_eq!(Times::of(&[]), None);
    }
}
