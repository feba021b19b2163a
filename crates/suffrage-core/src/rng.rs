//! The only random number generator: seeded, and with the same results on every machine.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded random number generator (xoshiro256++).
///
/// The distributions are implemented here, over `libm`, instead of taken from a distributions crate or the system's
/// mathematics library: a recorded seed must reproduce the same run on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `0..bound`; zero for an empty range. The bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A real number in `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with the given probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A draw from the exponential distribution with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }

    /// A draw from the standard normal distribution (Box and Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log1p(-self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// A uniformly chosen item; `None` if there are no items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Shuffles the items uniformly (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_draws_on_every_machine() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.bits(), rng.bits()], [14971601782005023387, 13781649495232077965]);
        assert_eq!(Rng::new(7).normal().to_bits(), 4_594_883_772_175_463_710);
        assert_eq!(Rng::new(7).exponential(2.0).to_bits(), 4_592_872_045_581_025_750);
    }

    /// Ten thousand draws each; every bound is at least five standard errors away, so that over
    /// all seeds fewer than one in a million would fail; the seed is fixed.
    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let mut rng = Rng::new(2);
        let draws = 10_000;
        let mut mean = |draw: &mut dyn FnMut(&mut Rng) -> f64| {
            (0..draws).map(|_| draw(&mut rng)).sum::<f64>() / f64::from(draws)
        };
        assert!((mean(&mut |rng| rng.unit()) - 0.5).abs() < 0.015);
        assert!((mean(&mut |rng| rng.below(11) as f64) - 5.0).abs() < 0.16);
        assert!((mean(&mut |rng| rng.exponential(3.0)) - 3.0).abs() < 0.15);
        assert!(mean(&mut |rng| rng.normal()).abs() < 0.05);
        assert!((mean(&mut |rng| rng.normal().powi(2)) - 1.0).abs() < 0.075);
        assert!((mean(&mut |rng| f64::from(rng.chance(0.01))) - 0.01).abs() < 0.005);
    }

    #[test]
    fn a_shuffle_keeps_all_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(3).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
    }
}
