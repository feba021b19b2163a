//! The strategy for a network: by the bounds, and by simulation.
//!
//! The bounds are computed at once. The simulation is a search without I/O: [`Search::next`] returns the runs to
//! make, [`Search::record`] takes their results, until `next` returns `None`.

use serde::Serialize;
use suffrage_sim::Estimate;

use super::bounds::Setting;
use super::{Strategy, trial};
use crate::study::{Measured, Results, Study};

/// The first values of K to try, in this order.
const KS: [u32; 24] =
    [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 56, 64, 80, 96];
/// The maximum number of rounds (section 5).
const MAX_ROUNDS: u8 = 5;
/// The number of runs between two tests of whether more runs are needed.
const BATCH: u64 = 500;

/// A strategy and the lower bound of its probability of success.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByBound {
    /// The strategy.
    pub strategy: Strategy,
    /// The lower bound of the probability of success.
    pub success: f64,
    /// True if the bound reaches the target.
    pub reaches: bool,
    /// The maximum number of unicasts of the first round, if E1 holds.
    pub most_unicasts: f64,
    /// The maximum number of final multicasts of the first round, if E1 holds.
    pub most_multicasts: f64,
}

/// The smallest first K whose bound reaches the target within `max_rounds` rounds; if there is none, the best K.
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

/// A strategy and its measurements.
#[derive(Clone, Debug, Serialize)]
pub struct BySimulation {
    /// The strategy.
    pub strategy: Strategy,
    /// The measured share of successful runs.
    pub success: Estimate,
    /// The verdict on the target.
    pub reaches: Reach,
    /// The number of runs.
    pub runs: usize,
    /// The other measurements: messages, rounds, causes of failures.
    pub figures: Measured,
}

/// The verdict on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The whole interval is at or above the target.
    Yes,
    /// The mean is at or above the target, but a part of the interval is below: more runs would decide.
    Likely,
    /// The mean is below the target, but a part of the interval is not.
    Unlikely,
    /// The whole interval is below the target.
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

/// A binary search for the smallest first K that reaches a target. It assumes that success grows with K.
#[derive(Debug)]
pub struct Search {
    setting: Setting,
    target: f64,
    max_rounds: u8,
    /// The maximum number of runs of one K.
    runs: u64,
    seed: u64,
    /// The remaining range of [`KS`]: the answer is in this range, or is the strategy found so far.
    lo: usize,
    hi: usize,
    at: usize,
    measured: Measured,
    found: Option<BySimulation>,
    /// The best strategy that did not reach the target.
    best: Option<BySimulation>,
}

impl Search {
    /// A search among strategies with `max_rounds` rounds, in which K doubles from round to round.
    pub fn new(setting: Setting, target: f64, max_rounds: u8, runs: u64, seed: u64) -> Search {
        let hi = KS.iter().filter(|&&k| f64::from(k) <= setting.nodes).count();
        let max_rounds = max_rounds.clamp(1, MAX_ROUNDS);
        let measured = Measured::default();
        let (found, best) = (None, None);
        // The search starts in the lower third: small K are likelier and cheaper.
        Search { setting, target, max_rounds, runs, seed, lo: 0, hi, at: hi / 3, measured, found, best }
    }

    fn strategy(&self) -> Strategy {
        Strategy { max_rounds: self.max_rounds, ..Strategy::one_round(KS[self.at]) }
    }

    /// The runs to make next; `None` when the search is over.
    pub fn next(&self) -> Option<Study> {
        if self.lo >= self.hi {
            return None;
        }
        let provenance = self.measured.count("strong") as u64;
        let mut study = Study::new(self.seed.wrapping_add(provenance));
        let name = format!("first K = {}, {} rounds at most", KS[self.at], self.max_rounds);
        trial(&self.setting, self.strategy()).add_to(&mut study, &name, BATCH.min(self.runs - provenance));
        Some(study)
    }

    /// Records the results of these runs.
    pub fn record(&mut self, results: &Results) {
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

    /// The result: the smallest first K that reaches the target, or else the best K that was tried.
    pub fn answer(self) -> Option<BySimulation> {
        self.found.or(self.best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Figure;

    const LOW_FAULTS: Setting =
        Setting { nodes: 1000.0, view_prob: 0.5, ucast_loss: 0.0001, mcast_loss: 0.0001, fail: 0.0 };

    #[test]
    fn the_bound_finds_the_smallest_k() {
        let one = by_bound(&LOW_FAULTS, 0.95, 1);
        assert!(one.reaches && one.success >= 0.95);
        let less = Strategy { first_k: one.strategy.first_k - 1, ..one.strategy };
        assert!(LOW_FAULTS.strategy(&less.ks(1000.0)) < 0.95);
        let three = by_bound(&LOW_FAULTS, 0.95, 3);
        assert!(three.strategy.first_k < one.strategy.first_k, "more rounds, smaller ones");
    }

    /// Figure 4: "peaks at 0.6".
    #[test]
    fn by_bound_reports_an_unreachable_target() {
        let plan = by_bound(&Setting::FIGURE_4, 0.999, 1);
        assert!(!plan.reaches && (0.55..0.65).contains(&plan.success), "{plan:?}");
    }

    /// A model protocol that succeeds in 90% of runs below K = 12, and always from K = 12 on.
    fn answers(search: &mut Search, runs: &mut usize) {
        while let Some(study) = search.next() {
            let k = KS[search.at];
            let point = &study.points()[0];
            let mut provenance = Study::new(0);
            provenance.add(String::new(), point.runs, String::new(), move |seed| {
                vec![Figure::share("strong", k >= 12 || seed % 10 > 0)]
            });
            *runs += point.runs as usize;
            search.record(&provenance.run_all());
        }
    }

    #[test]
    fn the_search_finds_the_smallest_k() {
        let (mut search, mut runs) = (Search::new(LOW_FAULTS, 0.99, 5, 2000, 0), 0);
        answers(&mut search, &mut runs);
        let answer = search.answer().unwrap();
        assert_eq!((answer.strategy.first_k, answer.reaches), (12, Reach::Yes));
        assert!(runs < 8 * 1000, "what is clear takes few runs: {runs}");
    }

    #[test]
    fn the_search_reports_an_unreachable_target() {
        let (mut search, mut runs) = (Search::new(Setting { nodes: 9.0, ..LOW_FAULTS }, 0.99, 5, 2000, 0), 0);
        answers(&mut search, &mut runs);
        let answer = search.answer().unwrap();
        assert_eq!(answer.reaches, Reach::No);
        assert!(answer.strategy.first_k <= 9);
    }
}
