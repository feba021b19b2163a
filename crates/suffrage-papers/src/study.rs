//! A study: a list of points to be measured, each by many independent runs.
//!
//! A study does not run itself. Its runs are numbered. The caller calls [`Study::run`] for each number, in any order
//! and on any number of threads, and passes the figures to [`Study::record`] in the order of the numbers. The results
//! therefore do not depend on the number of threads, and the memory does not grow with the number of runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use suffrage_core::{Figure, Value};
use suffrage_sim::{Estimate, RunningMean, proportion};

/// The maximum number of runs of a point, and the distance between the first seeds of neighbouring points.
pub const MAX_RUNS: u64 = 1_000_000;

/// A point of a study: one setting, run many times.
pub struct Point {
    /// The name in tables and progress bars.
    pub name: String,
    /// The number of runs.
    pub runs: u64,
    /// The seed of the first run. Later runs have the seeds that follow.
    pub seed: u64,
    /// The command that repeats the first run alone, without `--seed`.
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
    /// The number of runs up to and including each point.
    ends: Vec<u64>,
    /// The seed of the first run of the first point.
    seed: u64,
}

impl Study {
    /// A study without points. The seed determines all random draws.
    pub fn new(seed: u64) -> Study {
        Study { seed, ..Study::default() }
    }

    /// Adds a point; `run` makes the run of a seed. Returns the index of the point in the [`Results`].
    ///
    /// # Panics
    /// If there are more than [`MAX_RUNS`] runs.
    pub fn add(
        &mut self,
        name: String,
        runs: u64,
        replay: String,
        run: impl Fn(u64) -> Vec<Figure> + Send + Sync + 'static,
    ) -> usize {
        assert!(runs <= MAX_RUNS, "{runs} runs of {name}");
        let index = self.points.len();
        let seed = self.seed.wrapping_add(index as u64 * MAX_RUNS);
        self.points.push(Point { name, runs, seed, replay, run: Box::new(run) });
        self.ends.push(self.runs() + runs);
        index
    }

    /// The points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The number of runs of all points.
    pub fn runs(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The index of the point that the run of this number belongs to.
    pub fn point_of(&self, number: u64) -> usize {
        self.ends.partition_point(|&end| end <= number)
    }

    /// Makes the run of this number, which is below [`runs`](Study::runs).
    pub fn run(&self, number: u64) -> Vec<Figure> {
        let index = self.point_of(number);
        let point = &self.points[index];
        let first = self.ends[index] - point.runs;
        (point.run)(point.seed.wrapping_add(number - first))
    }

    /// Adds the figures of a run to the results.
    pub fn record(&self, results: &mut Results, number: u64, figures: Vec<Figure>) {
        results.0[self.point_of(number)].add(figures);
    }

    /// Results without any run.
    pub fn results(&self) -> Results {
        Results(vec![Measured::default(); self.points.len()])
    }

    /// Makes all runs one after the other, for tests and small studies.
    pub fn run_all(&self) -> Results {
        let mut results = self.results();
        (0..self.runs()).for_each(|number| self.record(&mut results, number, self.run(number)));
        results
    }
}

/// The measurements of all points of a study, by index.
#[derive(Clone, Debug)]
pub struct Results(Vec<Measured>);

impl Results {
    /// The measurements of the point of this index.
    pub fn at(&self, index: usize) -> &Measured {
        &self.0[index]
    }
}

/// The figures of a point, summed over its runs.
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
    /// Adds the figures of a run. A figure that is absent in a run does not count in its mean.
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

    /// Adds the measurements of other runs of the same point.
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

    /// The number of runs in which a figure was measured.
    pub fn count(&self, name: &str) -> usize {
        match self.figures.get(name) {
            Some(Sum::Share { of, .. }) => *of,
            Some(Sum::Amount(mean)) => mean.count(),
            None => 0,
        }
    }

    /// The mean of a figure with its 95% interval: exact for a share, Student's t for an amount. `None` if the figure
    /// was never measured.
    pub fn mean(&self, name: &str) -> Option<Estimate> {
        self.figures.get(name).map(|sum| match sum {
            Sum::Share { of, yes } => proportion(*yes, *of),
            Sum::Amount(mean) => mean.estimate(),
        })
    }

    /// The summed measurements of an amount. `None` if the figure was never measured, or is a share.
    pub fn amount(&self, name: &str) -> Option<RunningMean> {
        match self.figures.get(name)? {
            Sum::Share { .. } => None,
            Sum::Amount(mean) => Some(*mean),
        }
    }

    /// The share of runs in which an event happened, with its exact 95% interval. `None` if the figure was never
    /// measured, or is an amount.
    pub fn share(&self, name: &str) -> Option<Estimate> {
        self.counts(name).map(|(yes, of)| proportion(yes, of))
    }

    /// The number of runs in which an event happened, and the number of runs in which the figure was measured. `None`
    /// if the figure was never measured, or is an amount.
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
            vec![Figure::share("odd", seed % 2 == 1), Figure::amount("seed", (seed % MAX_RUNS) as f64)];
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
        assert_eq!(study.points()[2].seed, 2 * MAX_RUNS);
        assert_eq!(results.at(1).mean("seed"), None);
    }

    #[test]
    fn merged_halves_equal_the_whole() {
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
    fn absent_figures_do_not_count() {
        let results = study().run_all();
        assert_eq!((results.at(0).count("rare"), results.at(0).mean("rare").unwrap().mean), (3, 1.0));
        assert_eq!((results.at(0).count("never"), results.at(0).mean("never")), (0, None));
        assert_eq!((results.at(0).share("seed"), results.at(0).amount("odd")), (None, None));
        assert_eq!(results.at(0).share("odd"), Some(proportion(5, 10)));
        assert_eq!(results.at(0).amount("seed").map(|mean| mean.count()), Some(10));
    }
}
