//! Exact intervals and fits, beyond what the simulator has.

use serde::Serialize;
use suffrage_sim::Estimate;

/// How often something happens, with the interval of Clopper and Pearson (1934): it covers the truth in at
/// least 95% of all cases whatever the truth is, and not only about so often as Wilson's does.
///
/// # Panics
/// If there are no trials, or fewer than successes.
pub fn exact_proportion(successes: usize, trials: usize) -> Estimate {
    assert!(trials > 0 && successes <= trials, "{successes} of {trials}");
    let (some, all) = (successes as f64, trials as f64);
    let lo = if successes == 0 { 0.0 } else { beta_quantile(some, all - some + 1.0, 0.025) };
    let hi = if successes == trials { 1.0 } else { beta_quantile(some + 1.0, all - some, 0.975) };
    Estimate { mean: some / all, lo, hi }
}

/// Where the distribution function of Beta(a, b) reaches `share`.
fn beta_quantile(a: f64, b: f64, share: f64) -> f64 {
    let (mut lo, mut hi) = (0.0, 1.0);
    // Halving to the last bit: nothing cleverer is as sure to arrive.
    for _ in 0..80 {
        let middle = (lo + hi) / 2.0;
        if beta_share(a, b, middle) < share {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    (lo + hi) / 2.0
}

/// The regularised incomplete beta function: the distribution function of Beta(a, b).
fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let logarithm =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let front = libm::exp(logarithm);
    // The fraction converges quickly on this side of the mean; the other side is its mirror.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * continued_fraction(a, b, x) / a
    } else {
        1.0 - front * continued_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let off_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / off_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..100_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / off_zero(1.0 + even * d);
        c = off_zero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / off_zero(1.0 + odd * d);
        c = off_zero(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The slope, with the interval that the scatter of the points about the line gives it.
    pub slope: Estimate,
    /// The value at zero.
    pub intercept: f64,
}

/// The straight line of least squares. None of fewer than three points, or of points above each other.
pub fn line(points: &[(f64, f64)]) -> Option<Fit> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let spread: f64 = points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
    if points.len() < 3 || spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    let intercept = y - slope * x;
    let off = |point: &(f64, f64)| point.1 - intercept - slope * point.0;
    let squares: f64 = points.iter().map(|point| off(point) * off(point)).sum();
    let error = student(points.len() - 2) * libm::sqrt(squares / (count - 2.0) / spread);
    Some(Fit { slope: Estimate { mean: slope, lo: slope - error, hi: slope + error }, intercept })
}

/// The exponent `e` of the power law `y = c x^e` that fits the points best; none if there is no such law.
pub fn exponent(points: &[(f64, f64)]) -> Option<Estimate> {
    if points.iter().any(|&(x, y)| x <= 0.0 || y <= 0.0) {
        return None;
    }
    let logarithms: Vec<_> = points.iter().map(|&(x, y)| (libm::log(x), libm::log(y))).collect();
    line(&logarithms).map(|fit| fit.slope)
}

/// The two-sided 95% point of Student's distribution.
fn student(freedom: usize) -> f64 {
    // |t| > q with the probability that Beta(freedom/2, 1/2) stays below freedom / (freedom + q^2).
    let freedom = freedom as f64;
    let x = beta_quantile(freedom / 2.0, 0.5, 0.05);
    libm::sqrt(freedom * (1.0 - x) / x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, known: f64, error: f64) {
        assert!((value - known).abs() < error, "{value} is not {known}");
    }

    /// Closed forms: with no success the upper end is 1 - 0.025^(1/n); and values printed in textbooks.
    #[test]
    fn known_exact_intervals() {
        near(exact_proportion(0, 50).hi, 1.0 - libm::pow(0.025, 1.0 / 50.0), 1e-12);
        near(exact_proportion(10_000, 10_000).lo, libm::pow(0.025, 1e-4), 1e-12);
        let estimate = exact_proportion(8, 10);
        near(estimate.lo, 0.4439, 1e-4);
        near(estimate.hi, 0.9748, 1e-4);
        let estimate = exact_proportion(1, 1000);
        near(estimate.lo, 2.5317e-5, 1e-8);
        near(estimate.hi, 5.5589e-3, 1e-6);
        assert_eq!((exact_proportion(0, 5).lo, exact_proportion(5, 5).hi), (0.0, 1.0));
    }

    /// The definition, by summing the binomial distribution: at the lower end as many successes or more
    /// have a chance of 2.5%, at the upper end as many or fewer.
    #[test]
    fn the_tails_hold_what_they_should() {
        let tail = |share: f64, from: u32, to: u32, trials: u32| -> f64 {
            let chance = |count: u32| {
                let ways = (0..count)
                    .fold(1.0, |ways, place| ways * f64::from(trials - place) / f64::from(place + 1));
                ways * libm::pow(share, f64::from(count)) * libm::pow(1.0 - share, f64::from(trials - count))
            };
            (from..=to).map(chance).sum()
        };
        for (successes, trials) in [(1, 7), (3, 20), (19, 20), (40, 60)] {
            let Estimate { lo, hi, .. } = exact_proportion(successes as usize, trials as usize);
            near(tail(lo, successes, trials, trials), 0.025, 1e-9);
            near(tail(hi, 0, successes, trials), 0.025, 1e-9);
        }
    }

    #[test]
    fn exact_intervals_contain_wilsons_centre() {
        for successes in [1, 50, 500, 999] {
            let (exact, wilson) =
                (exact_proportion(successes, 1000), suffrage_sim::proportion(successes, 1000));
            assert!(exact.lo < wilson.mean && wilson.mean < exact.hi);
            assert!(exact.hi - exact.lo > (wilson.hi - wilson.lo) * 0.99, "it is the more careful one");
        }
    }

    #[test]
    fn students_points_are_those_of_the_tables() {
        for (freedom, point) in [(1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042)] {
            near(student(freedom), point, 1e-3);
        }
    }

    #[test]
    fn lines_and_powers_are_found() {
        let fit = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        near(fit.slope.mean, 2.0, 1e-12);
        near(fit.intercept, 1.0, 1e-12);
        near(fit.slope.hi - fit.slope.lo, 0.0, 1e-6);
        let cubes: Vec<(f64, f64)> = (1..6).map(f64::from).map(|x| (x, 7.0 * x * x * x)).collect();
        near(exponent(&cubes).unwrap().mean, 3.0, 1e-12);
        // Residuals -1, 2, -1 over x = 0, 1, 2: the error of the slope is t(1) sqrt(6 / 1 / 2).
        let fit = line(&[(0.0, -1.0), (1.0, 2.0), (2.0, -1.0)]).unwrap();
        near(fit.slope.hi, 12.706 * libm::sqrt(3.0), 1e-2);
        assert_eq!(line(&[(0.0, 1.0), (1.0, 3.0)]), None);
        assert_eq!(exponent(&[(0.0, 1.0), (1.0, 3.0), (2.0, 4.0)]), None);
    }
}
