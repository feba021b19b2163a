//! Which strategy a network needs: by the bounds, and by simulation.
//!
//! The bounds are computed at once. The simulation is a search that asks for runs and is told what came of
//! them, so that somebody else may make them: [`Search::next`], [`Search::tell`], until there is no next.

use serde::Serialize;
use suffrage_sim::Estimate;

use super::bounds::Setting;
use super::{Strategy, trial};
use crate::study::{Measured, Results, Study};

/// First values of K that are tried, in this order.
const KS: [u32; 24] =
    [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 56, 64, 80, 96];
/// How many rounds there are at most (section 5).
const MOST_ROUNDS: u8 = 5;
/// How many runs are made before the question is asked whether they are enough.
const BATCH: u64 = 500;

/// A strategy, and how likely it succeeds at least if the bounds are right.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByBound {
    /// The strategy.
    pub strategy: Strategy,
    /// How likely it succeeds, at least.
    pub success: f64,
    /// Whether that is the target.
    pub reaches: bool,
    /// Unicasts of its first round, at most, if E1 holds.
    pub most_unicasts: f64,
    /// Final multicasts of its first round, at most, if E1 holds.
    pub most_multicasts: f64,
}

/// The smallest first K whose bound reaches the target with so many rounds; if there is none, the best one.
pub fn by_bound(setting: &Setting, target: f64, max_rounds: u8) -> ByBound {
    let strategies = (2..=512).filter(|&k| f64::from(k) <= setting.nodes.max(2.0));
    let bounds = strategies.map(|k| {
        let strategy = Strategy { max_rounds, ..Strategy::one_round(k) };
        (strategy, setting.strategy(&strategy.ks(setting.nodes)))
    });
    let mut best: Option<(Strategy, f64)> = None;
    for (strategy, success) in bounds {
        if best.is_none_or(|(_, highest)| success > highest) {
            best = Some((strategy, success));
        }
        if success >= target {
            break;
        }
    }
    let (strategy, success) = best.expect("there is a K");
    let k = f64::from(strategy.first_k);
    ByBound {
        strategy,
        success,
        reaches: success >= target,
        most_unicasts: setting.most_unicasts(k),
        most_multicasts: setting.most_final_multicasts(k) + 1.0,
    }
}

/// A strategy, and what was measured of it.
#[derive(Clone, Debug, Serialize)]
pub struct BySimulation {
    /// The strategy.
    pub strategy: Strategy,
    /// How often it succeeded.
    pub success: Estimate,
    /// Whether the target was reached, as far as the runs can tell.
    pub reaches: Reach,
    /// How many runs were made of it.
    pub runs: usize,
    /// What else was measured: messages, rounds, why runs failed.
    pub figures: Measured,
}

/// Whether a target was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The whole interval is at or above it.
    Yes,
    /// The mean is, and the interval is on both sides: more runs would tell.
    Likely,
    /// The mean is not, and the interval is on both sides.
    Unlikely,
    /// The whole interval is below it.
    No,
}

impl Reach {
    fn of(success: Estimate, target: f64) -> Reach {
        match success {
            success if success.lo >= target => Reach::Yes,
            success if success.hi < target => Reach::No,
            success if success.mean >= target => Reach::Likely,
            _ => Reach::Unlikely,
        }
    }

    fn reached(self) -> bool {
        matches!(self, Reach::Yes | Reach::Likely)
    }
}

/// A search for the smallest first K that reaches a target, by halving: it takes success to grow with K.
#[derive(Debug)]
pub struct Search {
    setting: Setting,
    target: f64,
    max_rounds: u8,
    /// How many runs are made of one K at most.
    runs: u64,
    seed: u64,
    /// What is left of [`KS`]: the answer is in here, or is the one that was found.
    lo: usize,
    hi: usize,
    at: usize,
    measured: Measured,
    found: Option<BySimulation>,
    /// The best one that did not reach the target.
    best: Option<BySimulation>,
}

impl Search {
    /// A search among strategies with so many rounds, K doubling from each to the next.
    pub fn new(setting: Setting, target: f64, max_rounds: u8, runs: u64, seed: u64) -> Search {
        let hi = KS.iter().filter(|&&k| f64::from(k) <= setting.nodes).count();
        let max_rounds = max_rounds.clamp(1, MOST_ROUNDS);
        let measured = Measured::default();
        let (found, best) = (None, None);
        // Small ones are the likelier and the cheaper answer.
        Search { setting, target, max_rounds, runs, seed, lo: 0, hi, at: hi / 3, measured, found, best }
    }

    fn strategy(&self) -> Strategy {
        Strategy { max_rounds: self.max_rounds, ..Strategy::one_round(KS[self.at]) }
    }

    /// The runs that are to be made next; none when the search is over.
    pub fn next(&self) -> Option<Study> {
        if self.lo >= self.hi {
            return None;
        }
        let made = self.measured.count("strong") as u64;
        let mut study = Study::new(self.seed.wrapping_add(made));
        let name = format!("first K = {}, {} rounds at most", KS[self.at], self.max_rounds);
        trial(&self.setting, self.strategy()).add_to(&mut study, &name, BATCH.min(self.runs - made));
        Some(study)
    }

    /// Tells what came of them.
    pub fn tell(&mut self, results: &Results) {
        self.measured.merge(results.at(0));
        let success = self.measured.share("strong").expect("there were runs");
        let reaches = Reach::of(success, self.target);
        let runs = self.measured.count("strong");
        let open = matches!(reaches, Reach::Likely | Reach::Unlikely);
        if open && (runs as u64) < self.runs {
            return;
        }
        let figures = std::mem::take(&mut self.measured);
        let result = BySimulation { strategy: self.strategy(), success, reaches, runs, figures };
        if reaches.reached() {
            self.hi = self.at;
            self.found = Some(result);
        } else {
            self.lo = self.at + 1;
            if self.best.as_ref().is_none_or(|best| best.success.mean < success.mean) {
                self.best = Some(result);
            }
        }
        self.at = self.lo + (self.hi - self.lo) / 2;
    }

    /// What was found: the smallest first K that reaches the target, or else the best one tried.
    pub fn answer(self) -> Option<BySimulation> {
        self.found.or(self.best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Figure;

    const CALM: Setting =
        Setting { nodes: 1000.0, view_prob: 0.5, ucast_loss: 0.0001, mcast_loss: 0.0001, fail: 0.0 };

    #[test]
    fn the_bound_finds_the_smallest_k() {
        let one = by_bound(&CALM, 0.95, 1);
        assert!(one.reaches && one.success >= 0.95);
        let less = Strategy { first_k: one.strategy.first_k - 1, ..one.strategy };
        assert!(CALM.strategy(&less.ks(1000.0)) < 0.95);
        let three = by_bound(&CALM, 0.95, 3);
        assert!(three.strategy.first_k < one.strategy.first_k, "more rounds, smaller ones");
    }

    /// Figure 4: "peaks at 0.6".
    #[test]
    fn the_bound_says_when_it_cannot() {
        let plan = by_bound(&Setting::FIGURE_4, 0.999, 1);
        assert!(!plan.reaches && (0.55..0.65).contains(&plan.success), "{plan:?}");
    }

    /// A made-up protocol that succeeds in 90% of runs below K = 12 and always from there on.
    fn answers(search: &mut Search, runs: &mut usize) {
        while let Some(study) = search.next() {
            let k = KS[search.at];
            let point = &study.points()[0];
            let mut made = Study::new(0);
            made.add(String::new(), point.runs, String::new(), move |seed| {
                vec![Figure::share("strong", k >= 12 || seed % 10 > 0)]
            });
            *runs += point.runs as usize;
            search.tell(&made.run_all());
        }
    }

    #[test]
    fn the_search_finds_the_smallest_k() {
        let (mut search, mut runs) = (Search::new(CALM, 0.99, 5, 2000, 0), 0);
        answers(&mut search, &mut runs);
        let answer = search.answer().unwrap();
        assert_eq!((answer.strategy.first_k, answer.reaches), (12, Reach::Yes));
        assert!(runs < 8 * 1000, "what is clear takes few runs: {runs}");
    }

    #[test]
    fn the_search_says_when_there_is_none() {
        let (mut search, mut runs) = (Search::new(Setting { nodes: 9.0, ..CALM }, 0.99, 5, 2000, 0), 0);
        answers(&mut search, &mut runs);
        let answer = search.answer().unwrap();
        assert_eq!(answer.reaches, Reach::No);
        assert!(answer.strategy.first_k <= 9);
    }
}
