//! What is to be measured: a list of points, each by many runs that know nothing of each other.
//!
//! A study does not run itself. Its runs are numbered; whoever has cores to spare calls
//! [`Study::run`] for each number, in any order, and hands the results to [`Study::take_in`] in the order of
//! the numbers. So results do not depend on how many run at a time, and nothing is kept of a run but its
//! part in the sums.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use suffrage_core::{Figure, Value};
use suffrage_sim::{Estimate, RunningMean, proportion};

/// Seeds of neighbouring points are so far apart: more runs of a point there cannot be.
pub const MOST_RUNS: u64 = 1_000_000;

/// A point of a study: one setting, run many times.
pub struct Point {
    /// What it is called in tables and progress bars.
    pub name: String,
    /// How many runs.
    pub runs: u64,
    /// The seed of the first; the others have those after it.
    pub seed: u64,
    /// The command that makes the first of its runs by itself, but for `--seed`.
    pub replay: String,
    run: Box<dyn Fn(u64) -> Vec<Figure> + Send + Sync>,
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { name, runs, seed, .. } = self;
        f.debug_struct("Point").field("name", name).field("runs", runs).field("seed", seed).finish()
    }
}

/// Points to be measured.
#[derive(Debug, Default)]
pub struct Study {
    points: Vec<Point>,
    /// How many runs there are up to each point, itself included.
    ends: Vec<u64>,
    /// The seed of the first run of all.
    seed: u64,
}

impl Study {
    /// A study of nothing yet. All of its chances are decided by the seed.
    pub fn new(seed: u64) -> Study {
        Study { seed, ..Study::default() }
    }

    /// Adds a point; `run` makes a run of a seed. The result is the point's place in the [`Results`].
    ///
    /// # Panics
    /// If there are more runs than seeds for them.
    pub fn add(
        &mut self,
        name: String,
        runs: u64,
        replay: String,
        run: impl Fn(u64) -> Vec<Figure> + Send + Sync + 'static,
    ) -> usize {
        assert!(runs <= MOST_RUNS, "{runs} runs of {name}");
        let place = self.points.len();
        let seed = self.seed.wrapping_add(place as u64 * MOST_RUNS);
        self.points.push(Point { name, runs, seed, replay, run: Box::new(run) });
        self.ends.push(self.runs() + runs);
        place
    }

    /// The points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// How many runs there are, of all points together.
    pub fn runs(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Which point the run of this number belongs to.
    pub fn point_of(&self, number: u64) -> usize {
        self.ends.partition_point(|&end| end <= number)
    }

    /// Makes the run of this number, below [`runs`](Study::runs).
    pub fn run(&self, number: u64) -> Vec<Figure> {
        let place = self.point_of(number);
        let point = &self.points[place];
        let first = self.ends[place] - point.runs;
        (point.run)(point.seed.wrapping_add(number - first))
    }

    /// What a run gave, into the results.
    pub fn take_in(&self, results: &mut Results, number: u64, figures: Vec<Figure>) {
        results.0[self.point_of(number)].add(figures);
    }

    /// Results to be filled.
    pub fn results(&self) -> Results {
        Results(vec![Measured::default(); self.points.len()])
    }

    /// Makes all runs, one after the other: for tests and small studies.
    pub fn run_all(&self) -> Results {
        let mut results = self.results();
        (0..self.runs()).for_each(|number| self.take_in(&mut results, number, self.run(number)));
        results
    }
}

/// What a study's points came to, in their order.
#[derive(Clone, Debug)]
pub struct Results(Vec<Measured>);

impl Results {
    /// What came of the point in this place.
    pub fn at(&self, place: usize) -> &Measured {
        &self.0[place]
    }
}

/// What the runs of a point came to.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    figures: BTreeMap<Cow<'static, str>, Sum>,
}

#[derive(Clone, Copy, Debug)]
enum Sum {
    Share { of: usize, yes: usize },
    Amount(RunningMean),
}

impl Measured {
    /// Takes the figures of a run in. What is absent in a run is left out of its mean.
    ///
    /// # Panics
    /// If a figure is a share in one run and an amount in another.
    pub fn add(&mut self, figures: impl IntoIterator<Item = Figure>) {
        for Figure { name, value } in figures {
            let sum = self.figures.entry(name).or_insert(match value {
                Value::Share(_) => Sum::Share { of: 0, yes: 0 },
                Value::Amount(_) => Sum::Amount(RunningMean::default()),
            });
            match (sum, value) {
                (Sum::Share { of, yes }, Value::Share(value)) => {
                    *of += 1;
                    *yes += usize::from(value);
                }
                (Sum::Amount(mean), Value::Amount(value)) => mean.add(value),
                _ => panic!("a figure is a share or an amount, and not both"),
            }
        }
    }

    /// Takes in what other runs of the same point came to.
    ///
    /// # Panics
    /// If a figure is a share here and an amount there.
    pub fn merge(&mut self, other: &Measured) {
        for (name, sum) in &other.figures {
            match (self.figures.get_mut(name), sum) {
                (None, _) => {
                    self.figures.insert(name.clone(), *sum);
                }
                (Some(Sum::Share { of, yes }), Sum::Share { of: more, yes: also }) => {
                    *of += more;
                    *yes += also;
                }
                (Some(Sum::Amount(mean)), Sum::Amount(more)) => mean.merge(more),
                _ => panic!("a figure is a share or an amount, and not both"),
            }
        }
    }

    /// How many runs a figure was measured in.
    pub fn count(&self, name: &str) -> usize {
        match self.figures.get(name) {
            Some(Sum::Share { of, .. }) => *of,
            Some(Sum::Amount(mean)) => mean.count(),
            None => 0,
        }
    }

    /// The mean of a figure with its 95% interval: the exact one of a share, Student's of an amount. None if
    /// the figure was never measured.
    pub fn mean(&self, name: &str) -> Option<Estimate> {
        self.figures.get(name).map(|sum| match sum {
            Sum::Share { of, yes } => proportion(*yes, *of),
            Sum::Amount(mean) => mean.estimate(),
        })
    }

    /// The measurements of an amount, summed up. None if the figure was never measured, or is a share.
    pub fn amount(&self, name: &str) -> Option<RunningMean> {
        match self.figures.get(name)? {
            Sum::Share { .. } => None,
            Sum::Amount(mean) => Some(*mean),
        }
    }

    /// The share of runs in which something happened, with its exact 95% interval. None if the figure was
    /// never measured, or is an amount.
    pub fn share(&self, name: &str) -> Option<Estimate> {
        self.counts(name).map(|(yes, of)| proportion(yes, of))
    }

    /// The number of runs in which something happened, and of those in which the figure was measured. None if
    /// the figure was never measured, or is an amount.
    pub fn counts(&self, name: &str) -> Option<(usize, usize)> {
        match self.figures.get(name)? {
            Sum::Share { of, yes } => Some((*yes, *of)),
            Sum::Amount(_) => None,
        }
    }

    /// All figures with their means, by name.
    pub fn means(&self) -> BTreeMap<String, Estimate> {
        let names = self.figures.keys();
        names.filter_map(|name| Some((name.to_string(), self.mean(name)?))).collect()
    }
}

impl Serialize for Measured {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.means().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(seed: u64) -> Vec<Figure> {
        let mut figures =
            vec![Figure::share("odd", seed % 2 == 1), Figure::amount("seed", (seed % MOST_RUNS) as f64)];
        if seed.is_multiple_of(4) {
            figures.push(Figure::amount("rare", 1.0));
        }
        figures
    }

    fn study() -> Study {
        let mut study = Study::new(0);
        study.add("first".to_string(), 10, String::new(), figures);
        study.add("nothing".to_string(), 0, String::new(), figures);
        study.add("second".to_string(), 4, String::new(), figures);
        study
    }

    #[test]
    fn every_point_gets_its_own_runs_and_seeds() {
        let study = study();
        assert_eq!(study.runs(), 14);
        let results = study.run_all();
        let (first, second) = (results.at(0), results.at(2));
        assert_eq!(first.mean("seed").unwrap().mean, 4.5);
        assert_eq!((first.counts("odd"), first.count("seed")), (Some((5, 10)), 10));
        assert_eq!(second.mean("seed").unwrap().mean, 1.5);
        assert_eq!(study.points()[2].seed, 2 * MOST_RUNS);
        assert_eq!(results.at(1).mean("seed"), None);
    }

    #[test]
    fn two_halves_make_a_whole() {
        let mut halves = [Measured::default(), Measured::default()];
        let mut whole = Measured::default();
        for seed in 0..100 {
            halves[usize::from(seed >= 30)].add(figures(seed));
            whole.add(figures(seed));
        }
        let [mut sum, rest] = halves;
        sum.merge(&rest);
        assert_eq!(sum.counts("odd"), whole.counts("odd"));
        for name in ["seed", "rare"] {
            let (sum, whole) = (sum.mean(name).unwrap(), whole.mean(name).unwrap());
            assert!((sum.mean - whole.mean).abs() < 1e-9 && (sum.hi - whole.hi).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn what_is_absent_in_a_run_is_left_out() {
        let results = study().run_all();
        assert_eq!((results.at(0).count("rare"), results.at(0).mean("rare").unwrap().mean), (3, 1.0));
        assert_eq!((results.at(0).count("never"), results.at(0).mean("never")), (0, None));
        assert_eq!((results.at(0).share("seed"), results.at(0).amount("odd")), (None, None));
        assert_eq!(results.at(0).share("odd"), Some(proportion(5, 10)));
        assert_eq!(results.at(0).amount("seed").map(|mean| mean.count()), Some(10));
    }
}
