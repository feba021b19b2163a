//! How many rounds the first phase has, and how many mediators a contender asks in each (section 3.1).
//!
//! The paper's number of rounds, `log n - log log^6 n`, is below one for every n under 6 x 10^8, and that
//! of its Figure 1, `log2 n - 1`, often kills everybody. What limits the number of rounds is not the case of
//! n contenders but that of two, who have nobody else to survive them: synchronously, two that meet at a
//! mediator both lose. `auto` is the largest number of rounds for which that happens with at most a given
//! probability, exactly calculated.

use super::options::{Mode, Rounding, Rounds};
use suffrage_core::Rng;

/// No group needs more rounds: there are fewer than 2^63 processes.
const MOST: u8 = 63;

/// What everybody who takes the group to be of this size plays by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tournament {
    /// n, or what it is taken for.
    pub size: u64,
    /// Synchronous or not.
    pub mode: Mode,
    /// How many rounds the first phase has.
    pub rounds: Rounds,
}

impl Tournament {
    /// Whether the first phase has such a round. The first is number 1.
    ///
    /// With `auto`, each round is decided on when it comes, so that a million contenders need not all
    /// calculate the whole: half of them never ask about the second.
    pub fn has_round(self, round: u8) -> bool {
        round <= MOST
            && match self.rounds {
                Rounds::Auto { ppm } => {
                    self.size > 2
                        && sigma(self.size, round) < sigma_last(self.size) as f64
                        && nobody_of_two(self.size, self.mode, round) <= f64::from(ppm) / 1e6
                }
                Rounds::Paper => f64::from(round) <= paper_rounds(self.size),
                Rounds::Figure1 => u32::from(round) < self.size.max(1).ilog2(),
                Rounds::Log2 => u32::from(round) <= self.size.max(1).ilog2(),
                Rounds::Fixed(rounds) => round <= rounds,
            }
    }

    /// How many rounds the first phase has.
    pub fn first_phase(self) -> u8 {
        (1..=MOST).take_while(|&round| self.has_round(round)).last().unwrap_or(0)
    }

    /// How many mediators a contender asks in this round of the first phase.
    pub fn mediators(self, round: u8, rounding: Rounding, rng: &mut Rng) -> usize {
        let exact = sigma(self.size, round).min(self.size as f64);
        let whole = match rounding {
            Rounding::Ceil => exact.ceil(),
            Rounding::Nearest => exact.round(),
            Rounding::Random => exact.floor() + f64::from(u8::from(rng.chance(exact - exact.floor()))),
        };
        // A round without a mediator would be none.
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

/// `sigma_j` of the first phase, not yet a whole number: the root of `n ln 2 / (E[X_j] - 1)`. Where one
/// contender or none is to be expected, everybody is asked.
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

/// From how many numbers a contender draws its own: "a random integer in the range [0..n^4]", as far as 64
/// bits reach.
pub fn number_range(size: u64) -> u64 {
    size.checked_pow(4).and_then(|range| range.checked_add(1)).unwrap_or(u64::MAX)
}

/// The chance that two sets of `s` among `size` have exactly 0, 1, 2, … members in common, one after the
/// other (hypergeometric).
fn common(size: u64, s: u64) -> impl Iterator<Item = f64> {
    let (n, s) = (size as f64, s.min(size) as f64);
    // At least 2s - n are in common.
    let least = (2.0 * s - n).max(0.0);
    let first = if least > 0.0 {
        // 1 / C(n, s) times C(s, least): both complements lie apart.
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

/// The chance that two sets of `s` among `size`, each uniform, have a member in common.
pub fn meet(size: u64, s: u64) -> f64 {
    1.0 - common(size, s).next().unwrap_or(0.0)
}

/// The chance that, of two contenders alone, neither gets through the first so many rounds.
///
/// Synchronously, both lose as soon as they meet: `1 - prod (1 - p_j)`. Asynchronously, the first to
/// arrive survives, so that both lose only if they have several mediators in common and are not first in
/// the same order at all of them, which are taken to be in random order: with k in common, of chance
/// `1 - 2^(1-k)`; and once one has lost, the other is alone.
pub fn nobody_of_two(size: u64, mode: Mode, rounds: u8) -> f64 {
    let (mut nobody, mut both) = (0.0, 1.0);
    for round in 1..=rounds {
        let s = sigma(size, round).ceil() as u64;
        let apart = 1.0 - meet(size, s);
        let destroyed = match mode {
            Mode::Sync => 1.0 - apart,
            Mode::Async => {
                // With so many in common that 2^(1-k) is nothing, both are as good as lost.
                let one_survives = |(k, chance): (usize, f64)| match k {
                    0 | 1 => chance,
                    _ => chance * libm::exp2(1.0 - k as f64),
                };
                let survives: f64 = common(size, s).take(64).enumerate().map(one_survives).sum();
                (1.0 - survives).max(0.0)
            }
        };
        nobody += both * destroyed;
        both *= apart;
    }
    nobody
}

/// Mean field: how many of so many contenders go on to the next round (ALGORITHMS.md, section 6), where
/// each asks `s` mediators. Synchronously `X (1 - p)^(X - 1)`; asynchronously
/// `(n / s^2)(1 - exp(-s^2 X / n))`.
pub fn survivors(size: u64, mode: Mode, s: f64, contenders: f64) -> f64 {
    let load = s * s / size as f64;
    match mode {
        Mode::Sync => {
            let p = meet(size, s.round() as u64);
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
        let game = tournament(8, Mode::Sync, Rounds::Figure1);
        assert_eq!(game.first_phase(), 2);
        let rng = &mut Rng::new(0);
        let balls = [1, 2].map(|round| game.mediators(round, Rounding::Ceil, rng));
        assert_eq!((balls, sigma_last(8)), ([1, 2], 5));
    }

    /// "log n - log log^6 n" leaves no first phase below about 6 x 10^8.
    #[test]
    fn the_printed_number_of_rounds_is_none_for_any_usual_group() {
        for size in [1, 2, 8, 50_000, 1_000_000, 500_000_000] {
            assert_eq!(tournament(size, Mode::Sync, Rounds::Paper).first_phase(), 0, "{size}");
        }
        let least = (1..64).map(|bits| 1u64 << bits).find(|&size| paper_rounds(size) >= 1.0);
        assert_eq!(least, Some(1 << 31));
        assert!(paper_rounds(600_000_000) < 0.0 && paper_rounds(630_000_000) > 0.0);
    }

    /// The product of ALGORITHMS.md against counting: two pairs of 5 lie apart in 3 of 10 cases.
    #[test]
    fn the_chance_to_meet_is_exact() {
        assert!((meet(5, 2) - 0.7).abs() < 1e-12);
        assert!((meet(8, 1) - 0.125).abs() < 1e-12);
        assert_eq!(meet(8, 5), 1.0, "five of eight always meet");
        for (size, s) in [(5, 2), (8, 5), (8, 4), (100, 9), (10, 10)] {
            assert!((common(size, s).sum::<f64>() - 1.0).abs() < 1e-9, "{size} {s}");
        }
        let two_of_five: Vec<f64> = common(5, 2).collect();
        assert!((two_of_five[1] - 0.6).abs() < 1e-12 && (two_of_five[2] - 0.1).abs() < 1e-12);
        let five_of_eight: Vec<f64> = common(8, 5).collect();
        assert_eq!(five_of_eight[..2], [0.0, 0.0]);
        assert!((five_of_eight[2] - 10.0 / 56.0).abs() < 1e-12, "{five_of_eight:?}");
    }

    #[test]
    fn auto_is_the_largest_number_of_rounds_within_its_chance() {
        for mode in [Mode::Sync, Mode::Async] {
            for size in [100, 1_000, 50_000, 1_000_000] {
                for ppm in [1_000, 10_000, 100_000] {
                    let rounds = tournament(size, mode, Rounds::Auto { ppm }).first_phase();
                    let most = f64::from(ppm) / 1e6;
                    assert!(nobody_of_two(size, mode, rounds) <= most, "{size} {mode:?} {ppm}");
                    assert!(nobody_of_two(size, mode, rounds + 1) > most, "{size} {mode:?} {ppm}");
                }
            }
        }
        assert_eq!(tournament(50_000, Mode::Sync, Rounds::default()).first_phase(), 9);
        assert_eq!(tournament(50_000, Mode::Async, Rounds::default()).first_phase(), 14);
        assert_eq!(tournament(1_000_000, Mode::Sync, Rounds::default()).first_phase(), 13);
    }

    /// Rounding is what makes the first rounds halve faster than by half (Lemma 1): 0.83 becomes 1.
    #[test]
    fn fractions_are_rounded_as_asked() {
        let game = tournament(1_000_000, Mode::Sync, Rounds::default());
        assert!((sigma(1_000_000, 1) - 0.8326).abs() < 1e-3);
        let rng = &mut Rng::new(1);
        let mut by = |rounding| [1, 4, 5].map(|round| game.mediators(round, rounding, rng));
        assert_eq!((by(Rounding::Ceil), by(Rounding::Nearest)), ([1, 3, 4], [1, 2, 3]));
        // 2.35: of 10,000 draws 3,548 are expected to be 3, give or take 48; six of those.
        let threes = (0..10_000).filter(|_| game.mediators(4, Rounding::Random, rng) == 3).count();
        assert!(threes.abs_diff(3_548) < 288, "{threes}");
    }
}
