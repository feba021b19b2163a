//! How long something took, over many times.

use std::time::Duration;

/// How long something took, each time; in order.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// None if it never happened.
    pub(crate) fn new(mut times: Vec<Duration>) -> Option<Times> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Times(times))
    }

    /// The least that so large a share of all took no longer than (nearest rank): below a hundred times, the 99th
    /// of a hundred is the longest.
    fn quantile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1]
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(50)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.quantile(99)
    }

    pub(crate) fn longest(&self) -> Duration {
        self.quantile(100)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// In milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(millis: impl IntoIterator<Item = u64>) -> Times {
        Times::new(millis.into_iter().map(Duration::from_millis).collect()).unwrap()
    }

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let hundred = times((1..=100).rev());
        assert_eq!(
            [hundred.median(), hundred.p99(), hundred.longest()].map(|it| it.as_millis()),
            [50, 99, 100]
        );
        let thirty = times(1..=30);
        assert_eq!([thirty.median(), thirty.p99()].map(|it| it.as_millis()), [15, 30]);
        let one = times([7]);
        assert_eq!([one.median(), one.p99(), one.longest()].map(|it| it.as_millis()), [7, 7, 7]);
        assert!(Times::new(Vec::new()).is_none());
        assert_eq!((thirty.len(), millis(one.median())), (30, 7.0));
    }
}
