//! One algorithm in one trial: its runs and their totals.

use serde::{Serialize, Serializer};
use suffrage_algorithms::catalog;
use suffrage_core::{Algorithm, Contract, Detection, Visitor};
use suffrage_sim::{
    Detector, Estimate, Outcome, RunningMean, Traffic, Trial, TrialRun, mean, proportion, quantiles, runner,
};

use crate::replay;
use suffrage_cli::Error;

/// One algorithm in one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) trial: &'static Trial,
    pub(super) contract: &'static Contract,
    pub(super) nodes: usize,
    pub(super) detector: Detector,
}

/// The result of one run.
#[derive(Debug)]
pub(super) struct RunResult {
    outcome: Outcome,
    time_to_leader: Option<f64>,
    first_agreement: Option<(f64, Traffic)>,
}

impl Cell {
    fn draw(&self, seed: u64) -> TrialRun {
        self.trial.draw(self.contract, self.nodes, seed, self.detector)
    }

    /// Checks that the algorithm supports the group.
    pub(super) fn check(&self, seed: u64) -> Result<(), Error> {
        struct Check<'a>(&'a Cell, u64);
        impl Visitor for Check<'_> {
            type Output = Result<(), Error>;
            fn visit<A: Algorithm>(self) -> Result<(), Error> {
                let Check(cell, seed) = self;
                let (options, scenario) = (cell.options::<A>(), cell.draw(seed).scenario);
                let checked = A::check(&options, &scenario.roster)
                    .and_then(|()| A::check_delay_bound(&options, scenario.bound()));
                checked.map_err(|bad| {
                    let (name, nodes) = (cell.contract.name, cell.nodes);
                    let reason = format!("{name} does not support {nodes} processes: {}", bad.reason);
                    Error::flag("algorithms", reason)
                })
            }
        }
        self.visit(Check(self, seed))
    }

    pub(super) fn run(&self, seed: u64) -> RunResult {
        let runner = runner(self.contract.name, self.trial.settings(self.contract));
        let run = self.draw(seed);
        let outcome = runner.expect("a contract names valid values").run(&run.scenario);
        let time_to_leader = run.time_to_leader(&outcome);
        let first_agreement = run.first_agreement(&outcome);
        RunResult { outcome, time_to_leader, first_agreement }
    }

    fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        catalog::visit(self.contract.name, visitor).expect("a contract's name is in the catalog")
    }

    /// The default options of the algorithm, with the settings of its contract for this trial.
    fn options<A: Algorithm>(&self) -> A::Options {
        let mut options = A::Options::default();
        for (name, value) in self.trial.settings(self.contract) {
            A::set(&mut options, name, value).expect("a contract names valid values");
        }
        options
    }

    /// The command that replays the run with this seed.
    fn replay(&self, seed: u64) -> String {
        let settings: Vec<_> = self
            .trial
            .settings(self.contract)
            .iter()
            .map(|(name, value)| (*name, value.to_string()))
            .collect();
        replay::of_scenario(self.contract.name, &settings, &self.draw(seed).scenario)
    }
}

/// Sums over the runs so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    runs: usize,
    violated: usize,
    firsts: Vec<f64>,
    times: Vec<f64>,
    agreement: RunningMean,
    leaderless: RunningMean,
    split: RunningMean,
    leaderships: RunningMean,
    wrong_suspicions: RunningMean,
    messages: RunningMean,
    bytes: RunningMean,
    messages_to_first: RunningMean,
    bytes_to_first: RunningMean,
    hash: u64,
}

/// The result of all runs of an algorithm in a trial.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: &'static str,
    /// The settings that the contract names for this trial.
    #[serde(serialize_with = "as_map")]
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// The number of runs in which all processes agreed at the end.
    pub(super) settled_runs: usize,
    /// The share of runs in which all processes agreed at the end.
    agreed: Estimate,
    /// The time to the final agreement, over the runs that ended in agreement. None if no run did.
    pub(super) time_to_leader: Option<Times>,
    /// The time to the first agreement, over the runs that had one.
    pub(super) time_to_first_agreement: Option<Times>,
    /// The traffic until the first agreement.
    pub(super) sent_to_first_agreement: Option<Sent>,
    /// The share of time in which all live processes agreed on a live leader.
    pub(super) agreement: Estimate,
    pub(super) leaderless: Estimate,
    pub(super) split: Estimate,
    leaderships: Estimate,
    /// None for an algorithm without a failure detector.
    pub(super) wrong_suspicions: Option<Estimate>,
    pub(super) messages: Estimate,
    pub(super) bytes: Estimate,
    /// The share of runs in which a promise of the contract was broken. None if messages are lost until the end:
    /// some promises hold only after faults end.
    pub(super) violations: Option<Estimate>,
    trace_hash: String,
    /// The command that replays the first run.
    replay: String,
}

/// Statistics of times.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Times {
    pub(super) median: f64,
    pub(super) p99: f64,
    longest: f64,
    mean: Estimate,
}

impl Times {
    /// None without any times.
    fn of(times: &[f64]) -> Option<Times> {
        let [median, p99, longest] = quantiles(times, [0.5, 0.99, 1.0])?;
        Some(Times { median, p99, longest, mean: mean(times) })
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sent {
    pub(super) messages: Estimate,
    bytes: Estimate,
}

impl Totals {
    pub(super) fn add(&mut self, RunResult { outcome, time_to_leader, first_agreement }: &RunResult) {
        let window = outcome.window.expect("a trial has a window");
        self.runs += 1;
        self.violated += usize::from(!outcome.violations.is_empty());
        self.times.extend(time_to_leader);
        if let Some((time, sent)) = *first_agreement {
            self.firsts.push(time);
            self.messages_to_first.add(sent.messages as f64);
            self.bytes_to_first.add(sent.bytes as f64);
        }
        self.agreement.add(window.agreement / (window.to - window.from));
        self.leaderless.add(window.leaderless);
        self.split.add(window.split);
        self.leaderships.add(window.leaderships as f64);
        self.wrong_suspicions.add(window.wrong_suspicions as f64);
        self.messages.add(window.sent.messages as f64);
        self.bytes.add(window.sent.bytes as f64);
        self.hash = suffrage_core::Hash::new(self.hash).word(outcome.trace_hash);
    }

    pub(super) fn row(self, cell: &Cell, seed: u64) -> Row {
        Row {
            algorithm: cell.contract.name,
            settings: cell.trial.settings(cell.contract),
            settled_runs: self.times.len(),
            agreed: proportion(self.times.len(), self.runs),
            time_to_leader: Times::of(&self.times),
            time_to_first_agreement: Times::of(&self.firsts),
            sent_to_first_agreement: (!self.firsts.is_empty()).then(|| Sent {
                messages: self.messages_to_first.estimate(),
                bytes: self.bytes_to_first.estimate(),
            }),
            agreement: self.agreement.estimate().clamp(0.0, 1.0),
            leaderless: self.leaderless.estimate(),
            split: self.split.estimate(),
            leaderships: self.leaderships.estimate(),
            wrong_suspicions: (cell.contract.detection == Detection::Detector)
                .then(|| self.wrong_suspicions.estimate()),
            messages: self.messages.estimate(),
            bytes: self.bytes.estimate(),
            violations: (cell.trial.loss == 0.0).then(|| proportion(self.violated, self.runs)),
            trace_hash: format!("{:016x}", self.hash),
            replay: cell.replay(seed),
        }
    }
}

fn as_map<S: Serializer>(
    settings: &[(&'static str, &'static str)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(settings.iter().copied())
}
