//! One configuration of an algorithm and its measured runs.

use std::fmt;
use std::sync::Arc;

use suffrage_core::{BadParameter, Figure, Overlay};
use suffrage_sim::{Fault, Latency, Multicast, Outcome, Ranking, Scenario, borrow_settings, runner};

use crate::study::Study;

/// The name of a parameter, and its value.
pub type Setting = (&'static str, String);

/// A scenario, an algorithm and its settings. Each seed gives one run.
#[derive(Clone)]
pub struct Trial {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The algorithm's parameters, as on the command line. Other parameters have their defaults.
    pub settings: Vec<Setting>,
    /// The scenario of the runs. Its seed is ignored.
    pub scenario: Scenario,
    /// The exponent of the power-law overlay by which processes sample each other; `None` without an overlay.
    power_law: Option<f64>,
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trial").field(&self.command()).finish()
    }
}

impl Trial {
    /// An algorithm of the catalog with its default settings, in a scenario.
    pub fn new(algorithm: &'static str, scenario: Scenario) -> Trial {
        Trial { algorithm, settings: Vec::new(), scenario, power_law: None }
    }

    /// Adds the power-law overlay of this exponent, the same one as on the command line.
    pub fn over_power_law(mut self, alpha: f64) -> Trial {
        let overlay = Overlay::power_law(self.scenario.roster.len(), alpha, 0);
        self.scenario.roster = self.scenario.roster.with_overlay(Arc::new(overlay));
        self.power_law = Some(alpha);
        self
    }

    /// Sets a parameter of the algorithm.
    pub fn set(mut self, name: &'static str, value: impl ToString) -> Trial {
        self.settings.push((name, value.to_string()));
        self
    }

    /// Runs the trial.
    ///
    /// # Panics
    /// If the algorithm rejects the settings.
    pub fn outcome(&self, seed: u64) -> Outcome {
        let scenario = Scenario { seed, ..self.scenario.clone() };
        let runner = runner(self.algorithm, &borrow_settings(&self.settings));
        let checked = runner.and_then(|runner| runner.check(&scenario).map(|()| runner));
        let runner = checked.unwrap_or_else(|BadParameter { name, reason }| {
            panic!("{} --{name}: {reason}", self.algorithm);
        });
        runner.run(&scenario)
    }

    /// Runs the trial and returns its figures: those of the algorithm; `unicasts` and `multicasts`; `agreed`, which
    /// is true if all processes agree on a live leader; and `decided`, the time of the last change of belief in time
    /// units.
    pub fn run(&self, seed: u64) -> Vec<Figure> {
        let outcome = self.outcome(seed);
        let mut figures = outcome.figures;
        figures.push(Figure::amount("unicasts", outcome.messages.total as f64));
        figures.push(Figure::amount("multicasts", outcome.messages.multicasts as f64));
        figures.push(Figure::share("agreed", outcome.agreed));
        figures.push(Figure::amount("decided", outcome.decided));
        figures
    }

    /// The command that runs the trial, without `--seed`.
    pub fn command(&self) -> String {
        let Scenario { roster, ranking, view_prob, latency, loss, multicast_loss, .. } = &self.scenario;
        let mut line = format!("suffrage-lab simulate {} --nodes {}", self.algorithm, roster.len());
        let mut flag = |name: &str, value: &dyn ToString| line += &format!(" --{name} {}", value.to_string());
        if *ranking != Ranking::Id {
            flag("rank", ranking);
        }
        for &slot in &self.scenario.initiators {
            flag("initiator", &roster.id(slot));
        }
        self.scenario.contenders.iter().for_each(|contenders| flag("contenders", contenders));
        self.power_law.iter().for_each(|alpha| flag("topology", &format!("power-law:{alpha}")));
        if *view_prob < 1.0 {
            flag("view-prob", view_prob);
        }
        if *latency != Scenario::new(roster.clone()).latency {
            flag("latency", latency);
        }
        match multicast_loss {
            None if *loss > 0.0 => flag("loss", loss),
            None => {}
            Some(mcast_loss) => {
                flag("ucast-loss", loss);
                flag("mcast-loss", mcast_loss);
            }
        }
        if self.scenario.fail > 0.0 {
            flag("fail", &self.scenario.fail);
            flag("fail-within", &self.scenario.fail_within);
        }
        for (at, fault) in &self.scenario.plan {
            if let Fault::Crash(slot) = fault {
                flag("crash", &format!("{}@{at}", roster.id(*slot)));
            }
        }
        if self.scenario.multicast != Multicast::Broadcast {
            flag("multicast", &self.scenario.multicast);
        }
        self.settings.iter().for_each(|(name, value)| flag(name, value));
        line
    }

    /// Adds the trial to a study with this number of runs. Returns the index of the point.
    pub fn add_to(self, study: &mut Study, name: &str, runs: u64) -> usize {
        let command = self.command();
        study.add(name.to_string(), runs, command, move |seed| self.run(seed))
    }

    /// The upper bound of the message delay, in time units.
    pub fn delay_bound(&self) -> f64 {
        let latency: Latency = self.scenario.latency;
        self.scenario.delay_bound.unwrap_or(latency.bound()).as_units()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Roster;

    fn trial() -> Trial {
        let scenario = Scenario { initiators: vec![0], ..Scenario::new(Roster::numbered(4)) };
        Trial::new("bully", scenario)
    }

    /// All processes are alive and the lowest calls: N (N - 1) Election and Answer messages, and N - 1 announcements.
    #[test]
    fn a_trial_runs_its_scenario() {
        let figures = trial().run(1);
        let unicasts = figures.iter().find(|figure| figure.name == "unicasts").unwrap();
        assert_eq!(unicasts, &Figure::amount("unicasts", 15.0));
        assert!(figures.contains(&Figure::share("agreed", true)));
    }

    #[test]
    fn the_command_lists_settings_that_are_not_defaults() {
        let mut trial = trial().set("reaffirm", 10);
        assert_eq!(trial.command(), "suffrage-lab simulate bully --nodes 4 --initiator 1 --reaffirm 10");
        trial.scenario.loss = 0.1;
        trial.scenario.multicast_loss = Some(0.2);
        trial.scenario.view_prob = 0.5;
        trial.scenario.fail = 0.01;
        trial.scenario.fail_within = "7".parse().unwrap();
        assert_eq!(
            trial.command(),
            "suffrage-lab simulate bully --nodes 4 --initiator 1 --view-prob 0.5 --ucast-loss 0.1 \
             --mcast-loss 0.2 --fail 0.01 --fail-within 7 --reaffirm 10"
        );
    }

    #[test]
    fn the_command_lists_contenders_and_topology() {
        let mut trial = trial().over_power_law(0.8);
        trial.scenario.initiators.clear();
        trial.scenario.contenders = Some(suffrage_sim::Contenders::Share(1.0));
        let command = "suffrage-lab simulate bully --nodes 4 --contenders 1.0 --topology power-law:0.8";
        assert_eq!(trial.command(), command);
    }

    #[test]
    fn the_command_lists_crashes() {
        let mut trial = trial();
        trial.scenario.plan =
            vec![(suffrage_core::Time::ZERO + suffrage_core::Span::from_units(2.5), Fault::Crash(3))];
        assert_eq!(trial.command(), "suffrage-lab simulate bully --nodes 4 --initiator 1 --crash 4@2.5");
    }

    #[test]
    fn a_study_runs_trials() {
        let mut study = Study::new(3);
        let index = trial().add_to(&mut study, "four", 5);
        let results = study.run_all();
        assert_eq!(results.at(index).counts("agreed"), Some((5, 5)));
    }
}
