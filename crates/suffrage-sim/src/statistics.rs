//! Means and proportions with their uncertainty.

use serde::Serialize;

/// The two-sided 95% point of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A measured value with its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The value.
    pub mean: f64,
    /// The lower end of the interval.
    pub lo: f64,
    /// The upper end of the interval.
    pub hi: f64,
}

/// The mean of independent measurements that come one at a time; none of them is kept (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Tally {
    /// Takes a measurement in.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// Takes in what another tally has taken in (Chan, Golub and LeVeque 1979).
    pub fn merge(&mut self, other: &Tally) {
        let count = self.count + other.count;
        if count > 0.0 {
            let off = other.mean - self.mean;
            self.mean += off * other.count / count;
            self.squares += other.squares + off * off * self.count * other.count / count;
            self.count = count;
        }
    }

    /// The mean, with the normal approximation's interval: meant for some dozens of measurements
    /// and more.
    pub fn estimate(&self) -> Estimate {
        let Tally { count, mean, squares } = *self;
        let error = if count < 2.0 { 0.0 } else { Z * (squares / (count - 1.0) / count).sqrt() };
        Estimate { mean, lo: mean - error, hi: mean + error }
    }
}

/// The mean of independent measurements; see [`Tally`].
pub fn mean(values: &[f64]) -> Estimate {
    let mut tally = Tally::default();
    values.iter().for_each(|&value| tally.add(value));
    tally.estimate()
}

/// How often something happens, with Wilson's interval, which is honest near zero and one.
pub fn proportion(successes: usize, trials: usize) -> Estimate {
    let (trials, share) = (trials as f64, successes as f64 / trials as f64);
    let weight = Z * Z / trials;
    let centre = (share + weight / 2.0) / (1.0 + weight);
    let error = Z / (1.0 + weight) * (share * (1.0 - share) / trials + weight / (4.0 * trials)).sqrt();
    // At the ends the interval reaches the end exactly; rounding must not leave a gap.
    let lo = if share == 0.0 { 0.0 } else { centre - error };
    let hi = if share == 1.0 { 1.0 } else { centre + error };
    Estimate { mean: share, lo, hi }
}

/// The smallest of the values that at least this share of them does not exceed (the "nearest rank"; it
/// always is one of the values). None if there are none.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // 0.07 * 100 is 7.000000000000001, and is to be rank 7.
    let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Rng;

    #[test]
    fn known_values() {
        assert_eq!(mean(&[2.0]), Estimate { mean: 2.0, lo: 2.0, hi: 2.0 });
        let estimate = mean(&[1.0, 2.0, 3.0, 4.0]);
        // Standard error of 1, 2, 3, 4: sqrt(5/3/4) = 0.6455.
        assert!((estimate.mean - 2.5).abs() < 1e-12 && (estimate.hi - 2.5 - 1.2652).abs() < 1e-3);
        // Wilson's interval for 8 of 10, as printed in many places: 0.490 to 0.943.
        let estimate = proportion(8, 10);
        assert!((estimate.lo - 0.490).abs() < 1e-3 && (estimate.hi - 0.943).abs() < 1e-3);
        assert!(proportion(0, 50).lo == 0.0 && proportion(0, 50).hi > 0.05);
        assert!(proportion(50, 50).hi == 1.0 && proportion(50, 50).lo < 0.95);
    }

    #[test]
    fn quantiles_are_order_statistics() {
        // The example of the nearest rank that statistics books give.
        let values = [20.0, 15.0, 50.0, 35.0, 40.0];
        for (share, value) in [(0.05, 15.0), (0.3, 20.0), (0.4, 20.0), (0.5, 35.0), (1.0, 50.0)] {
            assert_eq!(quantile(&values, share), Some(value), "{share}");
        }
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for percent in 1..=100 {
            assert_eq!(quantile(&hundred, f64::from(percent) / 100.0), Some(f64::from(percent)));
        }
        assert_eq!(quantile(&hundred[..99], 0.99), Some(100.0), "below 100 values it is the largest");
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    /// 400 intervals from 100 uniform draws each: about 95% cover the true mean. With 400 trials the
    /// count has a standard deviation of 4.4; the bound is six of those below 380.
    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let mut rng = Rng::new(1);
        let covers = |_: &u32| {
            let values: Vec<f64> = (0..100).map(|_| rng.unit()).collect();
            let estimate = mean(&values);
            (estimate.lo..=estimate.hi).contains(&0.5)
        };
        let covered = (0..400).filter(covers).count();
        assert!(covered > 353, "{covered}");
    }
}
