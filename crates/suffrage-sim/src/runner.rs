//! Runs an algorithm that is given by its name.
//!
//! The worlds of all algorithms, with and without layers, take most of the compile time. They are compiled here, once
//! for all programs. A call of [`Scenario::run`] with an algorithm of the catalog compiles its worlds a second time. Use
//! [`runner`] for the catalog, and [`Scenario::run`] for algorithms of your own.

use suffrage_algorithms::catalog;
use suffrage_core::{Algorithm, BadParameter, Visitor};

use crate::{Observer, Outcome, Scenario};

/// An algorithm with its options, which runs scenarios.
pub trait Runner: Send + Sync {
    /// The algorithm's name.
    fn name(&self) -> &'static str;
    /// Rejects options that do not fit the scenario: see [`Algorithm::check`] and [`Algorithm::check_delay_bound`].
    fn check(&self, scenario: &Scenario) -> Result<(), BadParameter>;
    /// See [`Scenario::run`].
    fn run(&self, scenario: &Scenario) -> Outcome;
    /// See [`Scenario::run_observed`].
    fn run_observed(&self, scenario: &Scenario, observer: Box<dyn Observer>) -> Outcome;
}

/// The runner of the algorithm of this name, with these values of its parameters.
///
/// # Panics
/// If there is no such algorithm, or no such parameter.
pub fn runner(name: &str, settings: &[(&str, &str)]) -> Result<Box<dyn Runner>, BadParameter> {
    catalog::visit(name, MakeRunner(settings)).unwrap_or_else(|| panic!("there is no algorithm {name}"))
}

/// Borrows settings with owned values, in the form that [`runner`] takes.
pub fn borrow_settings<'a>(settings: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    settings.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

struct AlgorithmRunner<A: Algorithm>(A::Options);

impl<A: Algorithm> Runner for AlgorithmRunner<A> {
    fn name(&self) -> &'static str {
        A::CONTRACT.name
    }

    fn check(&self, scenario: &Scenario) -> Result<(), BadParameter> {
        A::check(&self.0, &scenario.roster)?;
        A::check_delay_bound(&self.0, scenario.bound())
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
    use suffrage_core::Roster;

    #[test]
    fn a_runner_runs_its_algorithm_with_the_settings() {
        let scenario = Scenario { initiators: vec![0], ..Scenario::new(Roster::numbered(5)) };
        let run = |settings: &[(&str, &str)]| runner("bully", settings).unwrap().run(&scenario).trace_hash;
        let plain = scenario.run::<Bully>(&Default::default()).trace_hash;
        assert_eq!(run(&[]), plain);
        assert_ne!(run(&[("reaffirm", "5")]), plain);
        let bad = runner("bully", &[("reaffirm", "often")]).err().unwrap();
        assert_eq!(bad.name, "reaffirm");
        let voters = runner("quorum-lease", &[("voters", "1")]).unwrap();
        assert_eq!(
            (voters.name(), voters.check(&Scenario::new(Roster::numbered(3)))),
            ("quorum-lease", Ok(()))
        );
    }
}
