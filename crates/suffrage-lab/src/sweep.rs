//! Measurements of many runs of one scenario.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use suffrage_core::{Figure, Value};
use suffrage_sim::{Estimate, Outcome, Runner, RunningMean, Scenario, Violation, proportion};

use crate::parallel::{self, Progress};
use suffrage_cli::text;

/// A value for each kind of message, in the order of the protocol.
type Kinds<T> = Vec<(&'static str, T)>;

/// The same scenario with many seeds.
pub(crate) struct Sweep<'a> {
    pub(crate) runner: &'a dyn Runner,
    pub(crate) scenario: &'a Scenario,
    pub(crate) runs: u64,
    pub(crate) jobs: Option<usize>,
}

/// The result of many runs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    algorithm: &'static str,
    nodes: usize,
    /// The first seed.
    seed: u64,
    pub(crate) runs: u64,
    messages: Estimate,
    #[serde(serialize_with = "as_map")]
    pub(crate) by_kind: Kinds<Estimate>,
    #[serde(serialize_with = "as_map")]
    pub(crate) uncounted: Kinds<Estimate>,
    multicasts: Estimate,
    undelivered: Estimate,
    time: Estimate,
    decided: Estimate,
    agreed: Estimate,
    leaderships: Estimate,
    leaderless: Estimate,
    split: Estimate,
    events: Estimate,
    /// Further figures of this algorithm.
    #[serde(serialize_with = "as_named", skip_serializing_if = "Vec::is_empty")]
    pub(crate) figures: Vec<(Cow<'static, str>, Estimate)>,
    violations: Estimate,
    /// The first run in which a promise was broken.
    first_violation: Option<FirstViolation>,
    trace_hash: String,
}

#[derive(Clone, Debug, Serialize)]
struct FirstViolation {
    seed: u64,
    violation: Violation,
}

impl Summary {
    /// Whether a promise was broken in any run.
    pub(crate) fn is_violated(&self) -> bool {
        self.first_violation.is_some()
    }
}

impl Sweep<'_> {
    pub(crate) fn run(&self, show_progress: bool) -> Summary {
        let progress = Progress::new(self.runs, show_progress);
        let run = |run| {
            let seed = self.scenario.seed.wrapping_add(run);
            self.runner.run(&Scenario { seed, ..self.scenario.clone() })
        };
        let mut totals = Totals::default();
        parallel::for_each(0..self.runs, self.jobs, &progress, run, |_, outcome| totals.add(outcome));
        totals.summary(self.runner.name(), self.scenario, self.runs)
    }
}

/// Sums over the runs so far.
#[derive(Default)]
struct Totals {
    messages: RunningMean,
    by_kind: Kinds<RunningMean>,
    uncounted: Kinds<RunningMean>,
    multicasts: RunningMean,
    undelivered: RunningMean,
    time: RunningMean,
    decided: RunningMean,
    agreed: usize,
    leaderships: RunningMean,
    leaderless: RunningMean,
    split: RunningMean,
    events: RunningMean,
    figures: Vec<(Cow<'static, str>, Measured)>,
    violated: usize,
    first_violation: Option<FirstViolation>,
    hash: u64,
}

impl Totals {
    fn add(&mut self, outcome: Outcome) {
        self.messages.add(outcome.messages.total as f64);
        add_counts(&mut self.by_kind, &outcome.messages.by_kind);
        add_counts(&mut self.uncounted, &outcome.messages.uncounted);
        self.multicasts.add(outcome.messages.multicasts as f64);
        self.undelivered.add(outcome.messages.undelivered as f64);
        self.time.add(outcome.time);
        self.decided.add(outcome.decided);
        self.agreed += usize::from(outcome.agreed);
        self.leaderships.add(outcome.leaderships as f64);
        self.leaderless.add(outcome.leaderless);
        self.split.add(outcome.split);
        self.events.add(outcome.events as f64);
        for Figure { name, value } in outcome.figures {
            match self.figures.iter_mut().find(|(known, _)| *known == name) {
                Some((_, measured)) => measured.add(value),
                None => self.figures.push((name, Measured::of(value))),
            }
        }
        self.hash = suffrage_core::Hash::new(self.hash).word(outcome.trace_hash);
        if let Some(violation) = outcome.violations.into_iter().next() {
            self.violated += 1;
            self.first_violation.get_or_insert(FirstViolation { seed: outcome.seed, violation });
        }
    }

    fn summary(self, algorithm: &'static str, scenario: &Scenario, runs: u64) -> Summary {
        let kinds =
            |means: &Kinds<RunningMean>| means.iter().map(|(kind, mean)| (*kind, mean.estimate())).collect();
        Summary {
            algorithm,
            nodes: scenario.roster.len(),
            seed: scenario.seed,
            runs,
            messages: self.messages.estimate(),
            by_kind: kinds(&self.by_kind),
            uncounted: kinds(&self.uncounted),
            multicasts: self.multicasts.estimate(),
            undelivered: self.undelivered.estimate(),
            time: self.time.estimate(),
            decided: self.decided.estimate(),
            agreed: proportion(self.agreed, runs as usize),
            leaderships: self.leaderships.estimate(),
            leaderless: self.leaderless.estimate(),
            split: self.split.estimate(),
            events: self.events.estimate(),
            figures: self.figures.iter().map(|(name, value)| (name.clone(), value.estimate())).collect(),
            violations: proportion(self.violated, runs as usize),
            first_violation: self.first_violation,
            trace_hash: format!("{:016x}", self.hash),
        }
    }
}

/// One figure over many runs.
enum Measured {
    Share { held: usize, of: usize },
    Amount(RunningMean),
}

impl Measured {
    fn of(value: Value) -> Measured {
        let mut measured = match value {
            Value::Share(_) => Measured::Share { held: 0, of: 0 },
            Value::Amount(_) => Measured::Amount(RunningMean::default()),
        };
        measured.add(value);
        measured
    }

    fn add(&mut self, value: Value) {
        match (self, value) {
            (Measured::Share { held, of }, Value::Share(holds)) => {
                *held += usize::from(holds);
                *of += 1;
            }
            (Measured::Amount(mean), Value::Amount(amount)) => mean.add(amount),
            _ => panic!("a figure is a share in one run and an amount in another run"),
        }
    }

    fn estimate(&self) -> Estimate {
        match self {
            Measured::Share { held, of } => proportion(*held, *of),
            Measured::Amount(mean) => mean.estimate(),
        }
    }
}

/// Adds the counts of one run. Every run of a sweep counts the same kinds in the same order.
fn add_counts(means: &mut Kinds<RunningMean>, counts: &[(&'static str, u64)]) {
    if means.is_empty() {
        means.extend(counts.iter().map(|&(kind, _)| (kind, RunningMean::default())));
    }
    for ((_, mean), &(_, count)) in means.iter_mut().zip(counts) {
        mean.add(count as f64);
    }
}

fn as_map<S: Serializer>(kinds: &[(&'static str, Estimate)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(kinds.iter().copied())
}

fn as_named<S: Serializer>(
    figures: &[(Cow<'static, str>, Estimate)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(name, estimate)| (name, estimate)))
}

/// The means with their intervals, one per line, and the command that replays a run.
pub(crate) fn table(heading: &str, summary: &Summary, replay: impl Fn(u64) -> String) -> String {
    let runs = text::count(summary.runs as usize, "run", "runs");
    let seeds = match summary.runs {
        1 => format!("seed {}", summary.seed),
        runs => format!("seeds {} to {}", summary.seed, summary.seed.wrapping_add(runs - 1)),
    };
    let mut text = format!("{heading}\n{runs}, {seeds}\n\n");
    let width = summary.figures.iter().map(|(name, _)| name.len()).fold(20, usize::max);
    let row = |name: &str, estimate| row(name, width, estimate);
    let _ = writeln!(text, "  {:<width$} {:>14}   95% interval", "", "mean");
    text += &row("messages", summary.messages);
    let kinds = |kinds: &Kinds<Estimate>| -> String {
        kinds.iter().map(|(kind, estimate)| row(&format!("  {kind}"), *estimate)).collect()
    };
    text += &kinds(&summary.by_kind);
    if summary.uncounted.iter().any(|(_, estimate)| estimate.mean > 0.0) {
        let _ = writeln!(text, "  uncounted by the source");
        text += &kinds(&summary.uncounted);
    }
    if summary.multicasts.mean > 0.0 {
        text += &row("multicasts", summary.multicasts);
    }
    for (name, estimate) in &summary.figures {
        text += &row(name, *estimate);
    }
    for (name, estimate) in [
        ("undelivered", summary.undelivered),
        ("time", summary.time),
        ("beliefs settled", summary.decided),
        ("agreed", summary.agreed),
        ("leaderships", summary.leaderships),
        ("leaderless", summary.leaderless),
        ("split", summary.split),
        ("events", summary.events),
        ("promise broken", summary.violations),
    ] {
        text += &row(name, estimate);
    }
    let _ = writeln!(text, "\n  trace   {}, of all runs", summary.trace_hash);
    let mut shown = summary.seed;
    if let Some(FirstViolation { seed, violation }) = &summary.first_violation {
        let (invariant, at) = (violation.invariant, text::time(violation.at));
        let _ = writeln!(text, "  BROKEN  {invariant} at {at} with seed {seed}: {}", violation.detail);
        shown = *seed;
    }
    let _ = writeln!(text, "  replay  {}", replay(shown));
    text
}

fn row(name: &str, width: usize, estimate: Estimate) -> String {
    let interval = estimate.interval(|end| format!("{end:.3}"));
    format!("  {name:<width$} {:>14.3}   {interval}\n", estimate.mean)
}
