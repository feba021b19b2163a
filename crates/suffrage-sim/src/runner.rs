//! Running an algorithm that is known by its name.
//!
//! A world for each algorithm, alone and behind layers, is most of what there is to compile. It is compiled
//! here, once for all programs. Whoever calls [`Scenario::run`] for an algorithm of the catalog compiles its worlds
//! a second time: use [`runner`] for those, and [`Scenario::run`] for algorithms of your own.

use suffrage_algorithms::catalog;
use suffrage_core::{Algorithm, BadParameter, Roster, Visitor};

use crate::{Observer, Outcome, Scenario};

/// An algorithm with its options, to be put through scenarios.
pub trait Runner: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// See [`Algorithm::check`].
    fn check(&self, roster: &Roster) -> Result<(), BadParameter>;
    /// See [`Scenario::run`].
    fn run(&self, scenario: &Scenario) -> Outcome;
    /// See [`Scenario::run_observed`].
    fn run_observed(&self, scenario: &Scenario, observer: Box<dyn Observer>) -> Outcome;
}

/// The algorithm of that name, with its parameters set to these values.
///
/// # Panics
/// If there is no such algorithm, or no such parameter.
pub fn runner(name: &str, settings: &[(&str, &str)]) -> Result<Box<dyn Runner>, BadParameter> {
    catalog::visit(name, MakeRunner(settings)).unwrap_or_else(|| panic!("there is no algorithm {name}"))
}

/// Settings whose values are owned, as [`runner`] takes them.
pub fn borrow_settings<'a>(settings: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    settings.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

struct AlgorithmRunner<A: Algorithm>(A::Options);

impl<A: Algorithm> Runner for AlgorithmRunner<A> {
    fn name(&self) -> &'static str {
        A::CONTRACT.name
    }

    fn check(&self, roster: &Roster) -> Result<(), BadParameter> {
        A::check(&self.0, roster)
    }

    fn run(&self, scenario: &Scenario) -> Outcome {
        scenario.run::<A>(&self.0)
    }

    fn run_observed(&self, scenario: &Scenario, observer: Box<dyn Observer>) -> Outcome {
        scenario.run_observed::<A>(&self.0, observer)
    }
}

struct MakeRunner<'a>(&'a [(&'a str, &'a str)]);

impl Visitor for MakeRunner<'_> {
    type Output = Result<Box<dyn Runner>, BadParameter>;

    fn visit<A: Algorithm>(self) -> Result<Box<dyn Runner>, BadParameter> {
        let mut options = A::Options::default();
        for (name, value) in self.0 {
            A::set(&mut options, name, value)?;
        }
        Ok(Box::new(AlgorithmRunner::<A>(options)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_algorithms::bully::Bully;

    #[test]
    fn a_runner_does_what_its_algorithm_does_with_these_settings() {
        let scenario = Scenario { initiators: vec![0], ..Scenario::new(Roster::numbered(5)) };
        let run = |settings: &[(&str, &str)]| runner("bully", settings).unwrap().run(&scenario).trace_hash;
        let plain = scenario.run::<Bully>(&Default::default()).trace_hash;
        assert_eq!(run(&[]), plain);
        assert_ne!(run(&[("reaffirm", "5")]), plain);
        let bad = runner("bully", &[("reaffirm", "often")]).err().unwrap();
        assert_eq!(bad.name, "reaffirm");
        let voters = runner("quorum-lease", &[("voters", "1")]).unwrap();
        assert_eq!((voters.name(), voters.check(&Roster::numbered(3))), ("quorum-lease", Ok(())));
    }
}
