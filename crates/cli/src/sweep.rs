//! Many runs: in parallel, with results that do not depend on how parallel.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "threads and clocks are of no consequence to the results here"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use election::Algorithm;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use simulator::{Estimate, Outcome, Scenario, Tally, Violation, proportion};

use crate::words;

/// How many runs are made before their outcomes are taken in, in the order of their seeds, and
/// forgotten: memory does not grow with the number of runs.
const BLOCK: u64 = 1024;

/// Work that takes less is over before a bar would have been read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same scenario with many seeds.
pub(crate) struct Sweep<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) runs: u64,
    pub(crate) jobs: Option<usize>,
}

/// What came of many runs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    algorithm: &'static str,
    nodes: usize,
    /// The first seed.
    seed: u64,
    runs: u64,
    messages: Estimate,
    by_kind: BTreeMap<&'static str, Estimate>,
    apart: BTreeMap<&'static str, Estimate>,
    undelivered: Estimate,
    time: Estimate,
    decided: Estimate,
    agreed: Estimate,
    reigns: Estimate,
    leaderless: Estimate,
    split: Estimate,
    events: Estimate,
    violations: Estimate,
    /// A run in which a promise was broken.
    first_violation: Option<Broken>,
    trace_hash: String,
}

#[derive(Clone, Debug, Serialize)]
struct Broken {
    seed: u64,
    violation: Violation,
}

impl Summary {
    /// Whether a promise was broken in any run.
    pub(crate) fn broken(&self) -> bool {
        self.first_violation.is_some()
    }
}

impl Sweep<'_> {
    pub(crate) fn run<A: Algorithm>(&self, options: &A::Options, show_progress: bool) -> Summary {
        let jobs = self.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
        let progress = Progress::new(self.runs, show_progress);
        let mut totals = Totals::default();
        let mut first = 0;
        while first < self.runs {
            let last = (first + BLOCK).min(self.runs);
            for outcome in self.block::<A>(options, first, last, jobs, &progress) {
                totals.take_in(outcome);
            }
            first = last;
        }
        progress.bar.finish_and_clear();
        totals.summary(A::CONTRACT.name, self.scenario, self.runs)
    }

    /// The outcomes of some of the runs, in the order of their seeds.
    fn block<A: Algorithm>(
        &self,
        options: &A::Options,
        first: u64,
        last: u64,
        jobs: usize,
        progress: &Progress,
    ) -> Vec<Outcome> {
        let next = AtomicU64::new(first);
        let work = || {
            let mut outcomes = Vec::new();
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= last {
                    return outcomes;
                }
                let seed = self.scenario.seed.wrapping_add(run);
                let scenario = Scenario { seed, ..self.scenario.clone() };
                outcomes.push((run, scenario.run::<A>(options)));
                progress.step();
            }
        };
        let mut outcomes: Vec<(u64, Outcome)> = thread::scope(|scope| {
            let jobs = (jobs as u64).min(last - first);
            let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
            let mine = work();
            let others = workers.into_iter().flat_map(|worker| match worker.join() {
                Ok(outcomes) => outcomes,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            mine.into_iter().chain(others).collect()
        });
        outcomes.sort_unstable_by_key(|(run, _)| *run);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// A bar that appears when the work turns out to take long.
struct Progress {
    since: Instant,
    bar: ProgressBar,
    wanted: bool,
}

impl Progress {
    fn new(runs: u64, wanted: bool) -> Progress {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left")
            .expect("the template is sound");
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden()).with_style(style);
        Progress { since: Instant::now(), bar, wanted }
    }

    fn step(&self) {
        self.bar.inc(1);
        if self.wanted && self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// Sums over the runs taken in so far.
#[derive(Default)]
struct Totals {
    messages: Tally,
    by_kind: BTreeMap<&'static str, Tally>,
    apart: BTreeMap<&'static str, Tally>,
    undelivered: Tally,
    time: Tally,
    decided: Tally,
    agreed: usize,
    reigns: Tally,
    leaderless: Tally,
    split: Tally,
    events: Tally,
    violated: usize,
    first_violation: Option<Broken>,
    hash: u64,
}

impl Totals {
    fn take_in(&mut self, outcome: Outcome) {
        self.messages.add(outcome.messages.total as f64);
        for &(kind, count) in &outcome.messages.by_kind {
            self.by_kind.entry(kind).or_default().add(count as f64);
        }
        for &(kind, count) in &outcome.messages.apart {
            self.apart.entry(kind).or_default().add(count as f64);
        }
        self.undelivered.add(outcome.messages.undelivered as f64);
        self.time.add(outcome.time);
        self.decided.add(outcome.decided);
        self.agreed += usize::from(outcome.agreed);
        self.reigns.add(outcome.reigns as f64);
        self.leaderless.add(outcome.leaderless);
        self.split.add(outcome.split);
        self.events.add(outcome.events as f64);
        self.hash = election::Hash::new(self.hash).word(outcome.trace_hash);
        if let Some(violation) = outcome.violations.into_iter().next() {
            self.violated += 1;
            self.first_violation.get_or_insert(Broken { seed: outcome.seed, violation });
        }
    }

    fn summary(self, algorithm: &'static str, scenario: &Scenario, runs: u64) -> Summary {
        let kinds = |tallies: &BTreeMap<&'static str, Tally>| {
            tallies.iter().map(|(kind, tally)| (*kind, tally.estimate())).collect()
        };
        Summary {
            algorithm,
            nodes: scenario.roster.len(),
            seed: scenario.seed,
            runs,
            messages: self.messages.estimate(),
            by_kind: kinds(&self.by_kind),
            apart: kinds(&self.apart),
            undelivered: self.undelivered.estimate(),
            time: self.time.estimate(),
            decided: self.decided.estimate(),
            agreed: proportion(self.agreed, runs as usize),
            reigns: self.reigns.estimate(),
            leaderless: self.leaderless.estimate(),
            split: self.split.estimate(),
            events: self.events.estimate(),
            violations: proportion(self.violated, runs as usize),
            first_violation: self.first_violation,
            trace_hash: format!("{:016x}", self.hash),
        }
    }
}

/// The means with their intervals, a line each.
pub(crate) fn table(opening: &str, summary: &Summary, replay: impl Fn(u64) -> String) -> String {
    let mut rows = vec![("messages", summary.messages)];
    rows.extend(summary.by_kind.iter().map(|(kind, estimate)| (*kind, *estimate)));
    rows.extend(summary.apart.iter().map(|(kind, estimate)| (*kind, *estimate)));
    let kinds = rows.len();
    rows.extend([
        ("came to nothing", summary.undelivered),
        ("time", summary.time),
        ("beliefs settled", summary.decided),
        ("agreed", summary.agreed),
        ("reigns", summary.reigns),
        ("leaderless", summary.leaderless),
        ("split", summary.split),
        ("events", summary.events),
        ("promise broken", summary.violations),
    ]);
    let last = summary.seed.wrapping_add(summary.runs - 1);
    let runs = words::count(summary.runs as usize, "run", "runs");
    let mut text = format!("{opening}\n{runs}, seeds {} to {last}\n\n", summary.seed);
    let _ = writeln!(text, "  {:<20} {:>14}   95% interval", "", "mean");
    for (place, (name, Estimate { mean, lo, hi })) in rows.into_iter().enumerate() {
        let name = if (1..kinds).contains(&place) { format!("  {name}") } else { name.to_string() };
        let _ = writeln!(text, "  {name:<20} {mean:>14.3}   {lo:.3} to {hi:.3}");
    }
    let _ = writeln!(text, "\n  trace   {}, all runs together", summary.trace_hash);
    if let Some(Broken { seed, violation }) = &summary.first_violation {
        let (invariant, at) = (violation.invariant, words::time(violation.at));
        let _ = writeln!(text, "  BROKEN  {invariant} at {at} with seed {seed}: {}", violation.detail);
        let _ = writeln!(text, "  replay  {}", replay(*seed));
    }
    text
}
