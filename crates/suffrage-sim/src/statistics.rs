//! The statistics of everything that is measured: means, shares, quantiles, straight lines, and their 95%
//! intervals.
//!
//! - A mean of independent measurements has Student's t interval. It covers the true mean in 95% of cases if
//!   the measurements are normally distributed, however few there are; for skewed measurements it needs some
//!   dozens of them. One measurement says nothing of its error: its interval has no ends.
//! - A share has the interval of Clopper and Pearson (1934), which covers the true share in at least 95% of
//!   cases, whatever the share and the number of trials are.
//! - A quantile is the measurement of the nearest rank.
//!
//! The distribution functions come from `statrs`, which takes logarithms from the standard library: the last
//! digits of an interval's ends can differ between machines. Intervals are reported and decide nothing in a
//! run, so that no trace hash depends on them. The distribution functions are inverted here, by bisection:
//! `inverse_cdf` of `statrs` stops at an absolute error, which is too early for shares of one in a million.

#[cfg(test)]
mod tests;

use serde::{Serialize, Serializer};
use statrs::distribution::{Beta, ContinuousCDF, FisherSnedecor, StudentsT};

/// The probability on either side of a 95% interval.
const TAIL: f64 = 0.025;

/// A measured value with its 95% confidence interval.
///
/// The ends are infinite if the measurements say nothing of the error. JSON has `null` in their place, text
/// has `±?`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The value. Not a number if nothing was measured.
    #[serde(serialize_with = "finite_or_null")]
    pub mean: f64,
    /// The lower end of the interval.
    #[serde(serialize_with = "finite_or_null")]
    pub lo: f64,
    /// The upper end of the interval.
    #[serde(serialize_with = "finite_or_null")]
    pub hi: f64,
}

fn finite_or_null<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

impl Estimate {
    /// A value that is computed and not measured: both ends are the value.
    pub fn exact(value: f64) -> Estimate {
        Estimate { mean: value, lo: value, hi: value }
    }

    /// A value of which the error is unknown.
    pub fn unbounded(mean: f64) -> Estimate {
        Estimate { mean, lo: f64::NEG_INFINITY, hi: f64::INFINITY }
    }

    fn symmetric(mean: f64, error: f64) -> Estimate {
        Estimate { mean, lo: mean - error, hi: mean + error }
    }

    /// True if the interval has two ends.
    pub fn is_bounded(&self) -> bool {
        self.lo.is_finite() && self.hi.is_finite()
    }

    /// The interval in words, with numbers in a format of the caller: `0.25 to 0.75`, or `±?`.
    pub fn interval(&self, number: impl Fn(f64) -> String) -> String {
        match self.is_bounded() {
            true => format!("{} to {}", number(self.lo), number(self.hi)),
            false => "±?".to_string(),
        }
    }

    /// The value and its interval divided by a positive number.
    pub fn per(self, divisor: f64) -> Estimate {
        Estimate { mean: self.mean / divisor, lo: self.lo / divisor, hi: self.hi / divisor }
    }

    /// The value as a multiple of another. The interval reaches from the least to the greatest quotient of
    /// values in the two intervals, which covers the true quotient in at least 90% of cases, and in more than
    /// 95% if the two were measured independently. It has no ends if the divisor can be zero.
    pub fn ratio(self, divisor: Estimate) -> Estimate {
        let mean = self.mean / divisor.mean;
        if !(self.is_bounded() && divisor.is_bounded() && divisor.lo > 0.0) {
            return Estimate::unbounded(mean);
        }
        let lo = (self.lo / divisor.lo).min(self.lo / divisor.hi);
        let hi = (self.hi / divisor.lo).max(self.hi / divisor.hi);
        Estimate { mean, lo, hi }
    }

    /// The interval without what lies outside of the range that the value can have.
    pub fn clamp(self, least: f64, most: f64) -> Estimate {
        Estimate { lo: self.lo.max(least), hi: self.hi.min(most), ..self }
    }
}

/// The mean and the variance of independent measurements that come one at a time; none of them is kept
/// (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunningMean {
    count: f64,
    mean: f64,
    /// The sum of the squared distances from the mean.
    squares: f64,
}

impl RunningMean {
    /// Adds a measurement.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    /// Adds the measurements of another running mean (Chan, Golub and LeVeque 1979).
    pub fn merge(&mut self, other: &RunningMean) {
        let count = self.count + other.count;
        if count > 0.0 {
            let distance = other.mean - self.mean;
            self.mean += distance * other.count / count;
            self.squares += other.squares + distance * distance * self.count * other.count / count;
            self.count = count;
        }
    }

    /// The number of measurements.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The mean; not a number without measurements.
    pub fn mean(&self) -> f64 {
        if self.count > 0.0 { self.mean } else { f64::NAN }
    }

    /// The variance of the mean, estimated from two measurements or more.
    fn variance_of_mean(&self) -> Option<f64> {
        (self.count >= 2.0).then(|| self.squares / (self.count - 1.0) / self.count)
    }

    /// The standard error of the mean. None of fewer than two measurements.
    pub fn standard_error(&self) -> Option<f64> {
        self.variance_of_mean().map(f64::sqrt)
    }

    /// The mean with Student's t interval, which has no ends with fewer than two measurements.
    pub fn estimate(&self) -> Estimate {
        match self.standard_error() {
            None => Estimate::unbounded(self.mean()),
            Some(error) => Estimate::symmetric(self.mean, student_t(self.count - 1.0) * error),
        }
    }
}

impl Extend<f64> for RunningMean {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.add(value));
    }
}

impl FromIterator<f64> for RunningMean {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> RunningMean {
        let mut mean = RunningMean::default();
        mean.extend(values);
        mean
    }
}

/// The mean of independent measurements with Student's t interval; see [`RunningMean`].
pub fn mean(values: &[f64]) -> Estimate {
    values.iter().copied().collect::<RunningMean>().estimate()
}

/// The share of trials that succeed, with the exact interval of Clopper and Pearson. An end is zero without
/// successes, and one without failures.
///
/// # Panics
/// If there are no trials, or fewer than successes.
pub fn proportion(successes: usize, trials: usize) -> Estimate {
    assert!(trials > 0 && successes <= trials, "{successes} successes in {trials} trials");
    let (some, all) = (successes as f64, trials as f64);
    let lo = if successes == 0 { 0.0 } else { beta_quantile(some, all - some + 1.0, TAIL) };
    let hi = if successes == trials { 1.0 } else { beta_quantile(some + 1.0, all - some, 1.0 - TAIL) };
    Estimate { mean: some / all, lo, hi }
}

/// The quantiles of measurements for some shares, each by the nearest rank: the least measurement that at
/// least this share of all does not exceed. The share 1 gives the greatest. None without measurements.
///
/// # Panics
/// If a measurement is not a number.
pub fn quantiles<T: Copy + PartialOrd, const N: usize>(values: &[T], shares: [f64; N]) -> Option<[T; N]> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("measurements are numbers"));
    Some(shares.map(|share| {
        // 0.07 * 100 is 7.000000000000001, and has to give rank 7.
        let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    }))
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The slope, with the interval that the distances of the points from the line give it.
    pub slope: Estimate,
    /// The value at zero.
    pub intercept: f64,
}

/// Fits a straight line by least squares. None of fewer than three points, or of points with the same x.
pub fn fit_line(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let spread: f64 = points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
    if points.len() < 3 || spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    let intercept = y - slope * x;
    let distance = |point: &(f64, f64)| point.1 - intercept - slope * point.0;
    let squares: f64 = points.iter().map(|point| distance(point) * distance(point)).sum();
    let error = student_t(count - 2.0) * (squares / (count - 2.0) / spread).sqrt();
    Some(Line { slope: Estimate::symmetric(slope, error), intercept })
}

/// Fits the exponent `e` of a power law `y = c x^e`. None if a coordinate is not positive, or if
/// [`fit_line`] gives none.
pub fn fit_exponent(points: &[(f64, f64)]) -> Option<Estimate> {
    if points.iter().any(|&(x, y)| x <= 0.0 || y <= 0.0) {
        return None;
    }
    let logarithms: Vec<_> = points.iter().map(|&(x, y)| (libm::log(x), libm::log(y))).collect();
    fit_line(&logarithms).map(|line| line.slope)
}

/// The probability that means differ at least as much as these by chance if all are the same: Welch's
/// analysis of variance (Welch 1951), which does not need equal variances. None of fewer than two means, or
/// where the measurements of a mean do not vary.
pub fn equal_means(means: &[RunningMean]) -> Option<f64> {
    let groups = means.len() as f64;
    let weights: Option<Vec<f64>> =
        means.iter().map(|mean| mean.variance_of_mean().filter(|&variance| variance > 0.0)).collect();
    let weights: Vec<f64> = weights?.into_iter().map(|variance| 1.0 / variance).collect();
    if means.len() < 2 {
        return None;
    }
    let total: f64 = weights.iter().sum();
    let grand = means.iter().zip(&weights).map(|(mean, weight)| mean.mean * weight).sum::<f64>() / total;
    let between = means.iter().zip(&weights).map(|(mean, weight)| weight * (mean.mean - grand).powi(2));
    let between = between.sum::<f64>() / (groups - 1.0);
    let lack =
        means.iter().zip(&weights).map(|(mean, weight)| (1.0 - weight / total).powi(2) / (mean.count - 1.0));
    let lack: f64 = lack.sum();
    let within = 1.0 + 2.0 * (groups - 2.0) / (groups * groups - 1.0) * lack;
    let freedom = (groups * groups - 1.0) / (3.0 * lack);
    let distribution = FisherSnedecor::new(groups - 1.0, freedom).ok()?;
    Some(distribution.sf(between / within))
}

/// The two-sided 95% point of Student's t distribution.
fn student_t(freedom: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, freedom).expect("freedom is positive");
    // The point is greatest with one degree of freedom: 12.71.
    bisect(0.0, 13.0, |point| distribution.cdf(point) < 1.0 - TAIL)
}

/// The point at which the distribution function of Beta(a, b) reaches a probability.
fn beta_quantile(a: f64, b: f64, probability: f64) -> f64 {
    let distribution = Beta::new(a, b).expect("a and b are positive");
    bisect(0.0, 1.0, |point| distribution.cdf(point) < probability)
}

/// The point up to which a condition holds, to the last bit.
fn bisect(mut lo: f64, mut hi: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = (lo + hi) / 2.0;
        if middle <= lo || middle >= hi {
            return middle;
        }
        *(if holds(middle) { &mut lo } else { &mut hi }) = middle;
    }
}
