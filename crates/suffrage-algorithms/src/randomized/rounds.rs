//! The number of rounds of the first phase, and the number of mediators that a contender asks in each (section 3.1).
//!
//! The paper's number of rounds, `log n - log log^6 n`, is below one for every n under 6 x 10^8, and that of its
//! Figure 1, `log2 n - 1`, often eliminates all contenders. The limit on the number of rounds comes not from n
//! contenders but from two, which have no third to survive them: synchronously, two that meet at a mediator both
//! lose. `auto` is the largest number of rounds for which that happens with at most a given probability, calculated
//! exactly.

use super::options::{Mode, Rounding, Rounds};
use suffrage_core::Rng;

/// The maximum number of rounds: there are fewer than 2^63 processes.
const MAX_ROUNDS: u8 = 63;

/// The rules of an election for an assumed size of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tournament {
    /// n, or its estimate.
    pub size: u64,
    /// The timing model.
    pub mode: Mode,
    /// The rule for the number of rounds of the first phase.
    pub rounds: Rounds,
}

impl Tournament {
    /// Returns whether the first phase has this round. The first round is number 1.
    ///
    /// With `auto`, each round is decided when it is reached, so that a million contenders need not all calculate
    /// the whole number: half of them never reach the second round.
    pub fn has_round(self, round: u8) -> bool {
        round <= MAX_ROUNDS
            && match self.rounds {
                Rounds::Auto { ppm } => {
                    self.size > 2
                        && sigma(self.size, round) < sigma_last(self.size) as f64
                        && no_finalist_of_two(self.size, self.mode, round) <= f64::from(ppm) / 1e6
                }
                Rounds::Paper => f64::from(round) <= paper_rounds(self.size),
                Rounds::Figure1 => u32::from(round) < self.size.max(1).ilog2(),
                Rounds::Log2 => u32::from(round) <= self.size.max(1).ilog2(),
                Rounds::Fixed(rounds) => round <= rounds,
            }
    }

    /// The number of rounds of the first phase.
    pub fn first_phase(self) -> u8 {
        (1..=MAX_ROUNDS).take_while(|&round| self.has_round(round)).last().unwrap_or(0)
    }

    /// The number of mediators that a contender asks in this round of the first phase.
    pub fn mediators(self, round: u8, rounding: Rounding, rng: &mut Rng) -> usize {
        let exact = sigma(self.size, round).min(self.size as f64);
        let whole = match rounding {
            Rounding::Ceil => exact.ceil(),
            Rounding::Nearest => exact.round(),
            Rounding::Random => exact.floor() + f64::from(u8::from(rng.chance(exact - exact.floor()))),
        };
        // A round needs at least one mediator.
        (whole as usize).max(1)
    }
}

/// The paper's `w - 1 = log n - log log^6 n`, logarithms to the base 2.
pub fn paper_rounds(size: u64) -> f64 {
    let log = libm::log2(size.max(1) as f64);
    if log <= 1.0 { 0.0 } else { log - 6.0 * libm::log2(log) }
}

/// `E[X_j]`, "approximately n / 2^(j-1)".
pub fn expected_contenders(size: u64, round: u8) -> f64 {
    size as f64 / libm::exp2(f64::from(round) - 1.0)
}

/// `sigma_j` of the first phase, before rounding: the root of `n ln 2 / (E[X_j] - 1)`. Where one contender or none
/// is expected, all processes are asked.
pub fn sigma(size: u64, round: u8) -> f64 {
    let others = expected_contenders(size, round) - 1.0;
    let all = size as f64;
    if others <= 0.0 { all } else { libm::sqrt(all * std::f64::consts::LN_2 / others).min(all) }
}

/// `sigma_w`, the root of `n ln n`, as a whole number from 1 to n.
pub fn sigma_last(size: u64) -> usize {
    let all = size as f64;
    let exact = libm::sqrt(all * libm::log(all));
    (exact.ceil() as u64).clamp(1, size.max(1)) as usize
}

/// The size of the range of random numbers: "a random integer in the range [0..n^4]", as far as 64 bits reach.
pub fn number_range(size: u64) -> u64 {
    size.checked_pow(4).and_then(|range| range.checked_add(1)).unwrap_or(u64::MAX)
}

/// The probabilities that two sets of `s` among `size` have exactly 0, 1, 2, … members in common (hypergeometric).
fn intersection_sizes(size: u64, s: u64) -> impl Iterator<Item = f64> {
    let (n, s) = (size as f64, s.min(size) as f64);
    // At least 2s - n members are in common.
    let least = (2.0 * s - n).max(0.0);
    let first = if least > 0.0 {
        // 1 / C(n, s) times C(s, least): the complements are disjoint.
        (0..(n - s) as u64).map(|i| (s - i as f64) / (n - i as f64)).product()
    } else {
        (0..s as u64).map(|i| (n - s - i as f64) / (n - i as f64)).product()
    };
    let step = move |(k, chance): &(f64, f64)| {
        let ratio = (s - k) * (s - k) / ((k + 1.0) * (n - 2.0 * s + k + 1.0));
        (*k < s).then_some((k + 1.0, chance * ratio))
    };
    let zeros = std::iter::repeat_n(0.0, least as usize);
    zeros.chain(std::iter::successors(Some((least, first)), step).map(|(_, chance)| chance))
}

/// The probability that two uniform sets of `s` among `size` have a member in common.
pub fn intersection_probability(size: u64, s: u64) -> f64 {
    1.0 - intersection_sizes(size, s).next().unwrap_or(0.0)
}

/// The probability that, of exactly two contenders, neither gets through the given number of rounds.
///
/// Synchronously, both lose as soon as they meet: `1 - prod (1 - p_j)`. Asynchronously, the first to arrive
/// survives. Both lose only if they have several mediators in common and neither is first at all of them. The order
/// at the mediators is taken as random: with k in common, the probability is `1 - 2^(1-k)`. Once one has lost, the
/// other is the only contender.
pub fn no_finalist_of_two(size: u64, mode: Mode, rounds: u8) -> f64 {
    let (mut no_finalist, mut both) = (0.0, 1.0);
    for round in 1..=rounds {
        let s = sigma(size, round).ceil() as u64;
        let apart = 1.0 - intersection_probability(size, s);
        let destroyed = match mode {
            Mode::Sync => 1.0 - apart,
            Mode::Async => {
                // With so many in common that 2^(1-k) is negligible, both lose.
                let one_survives = |(k, chance): (usize, f64)| match k {
                    0 | 1 => chance,
                    _ => chance * libm::exp2(1.0 - k as f64),
                };
                let survives: f64 = intersection_sizes(size, s).take(64).enumerate().map(one_survives).sum();
                (1.0 - survives).max(0.0)
            }
        };
        no_finalist += both * destroyed;
        both *= apart;
    }
    no_finalist
}

/// The mean-field number of contenders that go on to the next round (ALGORITHMS.md, section 6), where each asks `s`
/// mediators. Synchronously `X (1 - p)^(X - 1)`; asynchronously `(n / s^2)(1 - exp(-s^2 X / n))`.
pub fn survivors(size: u64, mode: Mode, s: f64, contenders: f64) -> f64 {
    let load = s * s / size as f64;
    match mode {
        Mode::Sync => {
            let p = intersection_probability(size, s.round() as u64);
            contenders * libm::pow(1.0 - p, (contenders - 1.0).max(0.0))
        }
        Mode::Async => (1.0 - libm::exp(-load * contenders)) / load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tournament(size: u64, mode: Mode, rounds: Rounds) -> Tournament {
        Tournament { size, mode, rounds }
    }

    /// Figure 1: n = 8, "the first phase consists of log2 8 - 1 = 2 rounds"; one ball, two balls, five.
    #[test]
    fn figure_1_has_one_ball_then_two_then_five() {
        let schedule = tournament(8, Mode::Sync, Rounds::Figure1);
        assert_eq!(schedule.first_phase(), 2);
        let rng = &mut Rng::new(0);
        let balls = [1, 2].map(|round| schedule.mediators(round, Rounding::Ceil, rng));
        assert_eq!((balls, sigma_last(8)), ([1, 2], 5));
    }

    /// "log n - log log^6 n" leaves no first phase below about 6 x 10^8.
    #[test]
    fn the_printed_number_of_rounds_is_zero_for_any_usual_group() {
        for size in [1, 2, 8, 50_000, 1_000_000, 500_000_000] {
            assert_eq!(tournament(size, Mode::Sync, Rounds::Paper).first_phase(), 0, "{size}");
        }
        let least = (1..64).map(|bits| 1u64 << bits).find(|&size| paper_rounds(size) >= 1.0);
        assert_eq!(least, Some(1 << 31));
        assert!(paper_rounds(600_000_000) < 0.0 && paper_rounds(630_000_000) > 0.0);
    }

    /// The product of ALGORITHMS.md against counting: two pairs of 5 are disjoint in 3 of 10 cases.
    #[test]
    fn the_intersection_probability_is_exact() {
        assert!((intersection_probability(5, 2) - 0.7).abs() < 1e-12);
        assert!((intersection_probability(8, 1) - 0.125).abs() < 1e-12);
        assert_eq!(intersection_probability(8, 5), 1.0, "five of eight always meet");
        for (size, s) in [(5, 2), (8, 5), (8, 4), (100, 9), (10, 10)] {
            assert!((intersection_sizes(size, s).sum::<f64>() - 1.0).abs() < 1e-9, "{size} {s}");
        }
        let two_of_five: Vec<f64> = intersection_sizes(5, 2).collect();
        assert!((two_of_five[1] - 0.6).abs() < 1e-12 && (two_of_five[2] - 0.1).abs() < 1e-12);
        let five_of_eight: Vec<f64> = intersection_sizes(8, 5).collect();
        assert_eq!(five_of_eight[..2], [0.0, 0.0]);
        assert!((five_of_eight[2] - 10.0 / 56.0).abs() < 1e-12, "{five_of_eight:?}");
    }

    #[test]
    fn auto_is_the_largest_number_of_rounds_within_its_probability() {
        for mode in [Mode::Sync, Mode::Async] {
            for size in [100, 1_000, 50_000, 1_000_000] {
                for ppm in [1_000, 10_000, 100_000] {
                    let rounds = tournament(size, mode, Rounds::Auto { ppm }).first_phase();
                    let most = f64::from(ppm) / 1e6;
                    assert!(no_finalist_of_two(size, mode, rounds) <= most, "{size} {mode:?} {ppm}");
                    assert!(no_finalist_of_two(size, mode, rounds + 1) > most, "{size} {mode:?} {ppm}");
                }
            }
        }
        assert_eq!(tournament(50_000, Mode::Sync, Rounds::default()).first_phase(), 9);
        assert_eq!(tournament(50_000, Mode::Async, Rounds::default()).first_phase(), 14);
        assert_eq!(tournament(1_000_000, Mode::Sync, Rounds::default()).first_phase(), 13);
    }

    /// Rounding makes the first rounds let fewer than half through (Lemma 1): 0.83 becomes 1.
    #[test]
    fn fractions_are_rounded_as_configured() {
        let schedule = tournament(1_000_000, Mode::Sync, Rounds::default());
        assert!((sigma(1_000_000, 1) - 0.8326).abs() < 1e-3);
        let rng = &mut Rng::new(1);
        let mut by = |rounding| [1, 4, 5].map(|round| schedule.mediators(round, rounding, rng));
        assert_eq!((by(Rounding::Ceil), by(Rounding::Nearest)), ([1, 3, 4], [1, 2, 3]));
        // 2.35: of 10,000 draws 3,548 are expected to be 3, with a standard deviation of 48; the tolerance is six of those.
        let threes = (0..10_000).filter(|_| schedule.mediators(4, Rounding::Random, rng) == 3).count();
        assert!(threes.abs_diff(3_548) < 288, "{threes}");
    }
}
