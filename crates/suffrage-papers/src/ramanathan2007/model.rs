//! The calculated behaviour of the protocol: exact where possible, else by mean field.
//!
//! The probability that two sets of mediators intersect, and the number of rounds, are the protocol's own
//! ([`suffrage_algorithms::randomized::rounds`]). This module derives the rest from them. `sigma_j` is rounded up, as
//! it is by default.

use serde::Serialize;
use suffrage_algorithms::randomized::options::{Mode, Rounds};
use suffrage_algorithms::randomized::rounds::{
    Tournament, intersection_probability, no_finalist_of_two, sigma, sigma_last, survivors,
};

/// A group and the number of rounds of its first phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// n.
    pub nodes: u64,
    /// Synchronous or asynchronous.
    pub mode: Mode,
    /// The number of rounds of the first phase.
    pub rounds: u8,
}

/// The expected number of messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Requests and answers of the first phase.
    pub first_phase: f64,
    /// All messages of the second phase.
    pub second_phase: f64,
}

impl Expected {
    /// The messages of both phases.
    pub fn total(self) -> f64 {
        self.first_phase + self.second_phase
    }
}

impl Model {
    /// The protocol with this rule for the number of rounds.
    pub fn new(nodes: u64, mode: Mode, rounds: Rounds) -> Model {
        Model { nodes, mode, rounds: Tournament { size: nodes, mode, rounds }.first_phase() }
    }

    /// The number of mediators that a contender asks in a round of the first phase. The first round has number 1.
    pub fn mediators(&self, round: u8) -> u64 {
        sigma(self.nodes, round).ceil() as u64
    }

    /// The number of mediators that a contender asks in all rounds of the first phase.
    pub fn asked(&self) -> u64 {
        (1..=self.rounds).map(|round| self.mediators(round)).sum()
    }

    /// `sigma_w`: the number of mediators that a contender asks in the second phase.
    pub fn quorum(&self) -> u64 {
        sigma_last(self.nodes) as u64
    }

    /// The expected number of contenders after a round, if mediators are dead with probability `gamma` and all must
    /// answer (section 5, second approach).
    pub fn next(&self, round: u8, contenders: f64, gamma: f64) -> f64 {
        let mediators = self.mediators(round) as f64;
        survivors(self.nodes, self.mode, mediators, contenders) * libm::pow(1.0 - gamma, mediators)
    }

    /// `E[X_j]` by mean field: the contenders of each round of the first phase, and then the finalists.
    pub fn contenders(&self, first: f64, gamma: f64) -> Vec<f64> {
        let mut all = vec![first];
        for round in 1..=self.rounds {
            all.push(self.next(round, all[usize::from(round) - 1], gamma));
        }
        all
    }

    /// The messages of an election with `first` contenders. Every request is answered. In the second phase a finalist
    /// that loses sends DEC to its mediators if there is no common clock, and the winner asks all its mediators a
    /// second time.
    pub fn messages(&self, first: f64) -> Expected {
        let contenders = self.contenders(first, 0.0);
        let rounds = (1..=self.rounds)
            .map(|round| 2.0 * contenders[usize::from(round) - 1] * self.mediators(round) as f64);
        let (finalists, quorum) = (contenders[usize::from(self.rounds)], self.quorum() as f64);
        let second_phase = match self.mode {
            Mode::Sync => 2.0 * finalists * quorum,
            Mode::Async => (3.0 * finalists + 1.0) * quorum,
        };
        Expected { first_phase: rounds.sum(), second_phase }
    }

    /// The probability that neither of two contenders is a finalist, which limits the number of rounds. In the
    /// synchronous mode it is exact. In the asynchronous mode it is an upper bound: it assumes that common mediators
    /// see the two in random order. If one contender is ahead, as it is after a round or two, the mediators agree
    /// more often.
    pub fn no_finalist_of_two(&self) -> f64 {
        no_finalist_of_two(self.nodes, self.mode, self.rounds)
    }

    /// An upper bound of the probability of a second winner, for any number of finalists.
    ///
    /// In the synchronous mode a finalist wins beside those with greater numbers only if it has no mediator in common
    /// with any of them: for the k-th, `q^(k-1)`, where two sets are disjoint with probability q. The sum is below `q
    /// / (1 - q)`. In the asynchronous mode it is an estimate, since the order of arrival also matters.
    pub fn two_winners(&self) -> f64 {
        let disjoint = 1.0 - intersection_probability(self.nodes, self.quorum());
        (disjoint / (1.0 - disjoint)).min(1.0)
    }

    /// The probability that a single contender does not win because mediators are dead: `1 - (1-gamma)^(sum of
    /// sigma_j)`. In the second phase replacements are asked for dead mediators.
    pub fn single_contender_fails(&self, gamma: f64) -> f64 {
        1.0 - libm::pow(1.0 - gamma, self.asked() as f64)
    }

    /// The probability of exactly one winner at the worst number of contenders: two, or one where mediators are dead.
    pub fn success(&self, gamma: f64) -> f64 {
        let no_winner = self.no_finalist_of_two().max(self.single_contender_fails(gamma));
        (1.0 - no_winner - self.two_winners()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, known: f64, share: f64) {
        assert!((value - known).abs() <= share * known.abs(), "{value} is not {known}");
    }

    /// Section 3.1: `sigma_w` is the square root of n ln n: 736 for 50,000.
    #[test]
    fn sigma_w_is_the_square_root_of_n_ln_n() {
        let model = Model::new(50_000, Mode::Sync, Rounds::default());
        let exact = libm::sqrt(50_000.0 * libm::log(50_000.0));
        assert_eq!((model.quorum(), exact.ceil() as u64), (736, 736));
    }

    /// Theorem 3: two sets of that size are disjoint with a probability of "approximately 1/n".
    #[test]
    fn theorem_3_quorums_are_disjoint_about_once_in_n() {
        for nodes in [1_000, 50_000, 1_000_000] {
            let disjoint = Model::new(nodes, Mode::Sync, Rounds::default()).two_winners();
            assert!(
                disjoint < 1.0 / nodes as f64,
                "without replacement, disjoint quorums are even rarer: {disjoint}"
            );
            assert!(disjoint > 0.2 / nodes as f64, "{disjoint}");
        }
    }

    /// Lemma 1: `E[X_2 | X_1 = n] = n (1 - sigma/n)^(sigma (n-1))`, which is n/e for the one ball that 0.83
    /// is rounded up to, and would be n/2 without rounding.
    #[test]
    fn lemma_1_rounding_up_halves_faster() {
        let model = Model::new(1_000_000, Mode::Sync, Rounds::default());
        let contenders = model.contenders(1e6, 0.0);
        near(contenders[1], 1e6 / std::f64::consts::E, 1e-5);
        let ratios: Vec<f64> = contenders.windows(2).map(|pair| pair[1] / pair[0]).collect();
        assert!(ratios[0] < 0.5 && ratios[1] < 0.5, "{ratios:?}");
        // Fewer contenders than expected share fewer mediators: the deviations even out.
        let rounds = f64::from(model.rounds);
        let whole = libm::pow(contenders.last().unwrap() / 1e6, 1.0 / rounds);
        assert!((0.4..0.6).contains(&whole), "{whole} per round");
    }

    /// ALGORITHMS.md: P(no finalist | two contenders) = 1 - prod (1 - p_j), by hand for n = 8, where the rounds of
    /// Figure 1 ask one and two mediators: the sets intersect with probabilities 1/8 and 1 - (6*5)/(8*7) = 13/28.
    #[test]
    fn two_contenders_eliminate_each_other_as_calculated() {
        let model = Model { nodes: 8, mode: Mode::Sync, rounds: 2 };
        assert_eq!((model.mediators(1), model.mediators(2), model.asked()), (1, 2, 3));
        near(model.no_finalist_of_two(), 1.0 - (7.0 / 8.0) * (15.0 / 28.0), 1e-12);
    }

    /// Theorem 5: `O(n)`: the messages per process do not grow with n. They fall, because the second phase, which is
    /// proportionally larger in small groups, becomes the smaller part.
    #[test]
    fn theorem_5_messages_per_process_do_not_grow() {
        for mode in [Mode::Sync, Mode::Async] {
            let at = |nodes: u64| {
                Model::new(nodes, mode, Rounds::default()).messages(nodes as f64).total() / nodes as f64
            };
            let each = [1_000, 100_000, 10_000_000].map(at);
            // One round more or less, and rounding up, make a difference of a few percent.
            assert!(each[1] < 1.05 * each[0] && each[2] < 1.05 * each[1], "{mode:?} {each:?}");
        }
    }

    /// Section 5: with the second approach a single contender needs all its mediators alive.
    #[test]
    fn a_single_contender_needs_every_mediator() {
        let model = Model { nodes: 1_000, mode: Mode::Sync, rounds: 2 };
        assert_eq!(model.asked(), 3);
        near(model.single_contender_fails(0.1), 1.0 - 0.9 * 0.9 * 0.9, 1e-12);
        assert_eq!(model.single_contender_fails(0.0), 0.0);
        assert!(model.success(0.1) < model.success(0.0));
    }
}
