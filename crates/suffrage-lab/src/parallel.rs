//! Parallel runs with results that do not depend on the number of threads.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the results do not depend on threads and clocks"
)]

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The number of runs whose results are buffered, so that memory does not grow with the number of runs.
const BLOCK: u64 = 1024;

/// The time before progress is shown: shorter work needs no progress bar.
const PROGRESS_DELAY: Duration = Duration::from_secs(2);

/// Makes one run per number and passes the results to `consume` in the order of the numbers. By default there is one
/// thread per core.
pub(crate) fn for_each<T: Send>(
    runs: Range<u64>,
    jobs: Option<usize>,
    progress: &Progress,
    run: impl Fn(u64) -> T + Sync,
    mut consume: impl FnMut(u64, T),
) {
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    let mut first = runs.start;
    while first < runs.end {
        let last = first.saturating_add(BLOCK).min(runs.end);
        for (number, result) in block(first..last, jobs, progress, &run) {
            consume(number, result);
        }
        first = last;
    }
}

/// Makes one run per number and returns the results in order.
pub(crate) fn map<T: Send>(
    runs: Range<u64>,
    jobs: Option<usize>,
    progress: &Progress,
    run: impl Fn(u64) -> T + Sync,
) -> Vec<T> {
    let mut results = Vec::new();
    for_each(runs, jobs, progress, run, |_, result| results.push(result));
    results
}

/// The results of one block of runs, in order.
fn block<T: Send>(
    runs: Range<u64>,
    jobs: usize,
    progress: &Progress,
    run: &(impl Fn(u64) -> T + Sync),
) -> Vec<(u64, T)> {
    // The counter is relative to the start of the block: the number after the end may overflow.
    let (next, count) = (AtomicU64::new(0), runs.end - runs.start);
    let work = || {
        let mut results = Vec::new();
        loop {
            let offset = next.fetch_add(1, Ordering::Relaxed);
            if offset >= count {
                return results;
            }
            let number = runs.start + offset;
            results.push((number, run(number)));
            progress.step();
        }
    };
    let mut results: Vec<(u64, T)> = thread::scope(|scope| {
        let jobs = (jobs as u64).min(count);
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        own.into_iter().chain(others).collect()
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results
}

/// A progress bar that appears after [`PROGRESS_DELAY`] and disappears when dropped.
pub(crate) struct Progress {
    since: Instant,
    bar: ProgressBar,
    enabled: bool,
}

impl Progress {
    /// A progress bar for this number of runs, if enabled.
    pub(crate) fn new(runs: u64, enabled: bool) -> Progress {
        let style = ProgressStyle::with_template("{msg}{wide_bar} {pos}/{len} runs, {eta} left")
            .expect("the template is valid");
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden()).with_style(style);
        Progress { since: Instant::now(), bar, enabled }
    }

    /// Shows the name of the current work before the bar.
    pub(crate) fn set_name(&self, name: &str) {
        self.bar.set_message(format!("{name} "));
    }

    /// Hides the bar while other text is written.
    pub(crate) fn hide_while<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    fn step(&self) {
        self.bar.inc(1);
        if self.enabled && self.bar.is_hidden() && self.since.elapsed() > PROGRESS_DELAY {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A stopwatch with a line of progress, for work of unknown length.
pub(crate) struct Stopwatch {
    since: Instant,
    last_update: Instant,
    line: ProgressBar,
    enabled: bool,
}

impl Stopwatch {
    /// Starts the stopwatch. Progress is shown if enabled.
    pub(crate) fn start(enabled: bool) -> Stopwatch {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
        let now = Instant::now();
        Stopwatch { since: now, last_update: now, line: line.with_style(style), enabled }
    }

    /// Updates the line of progress, at most once per interval.
    pub(crate) fn update(&mut self, progress: impl FnOnce() -> String) {
        const INTERVAL: Duration = Duration::from_millis(200);
        if !self.enabled || self.since.elapsed() < PROGRESS_DELAY || self.last_update.elapsed() < INTERVAL {
            return;
        }
        self.last_update = Instant::now();
        if self.line.is_hidden() {
            self.line.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.line.set_message(progress());
    }

    /// The elapsed time in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_jobs() {
        for jobs in [Some(1), Some(3), None] {
            let mut seen = Vec::new();
            let square = |number| number * number;
            for_each(5..3000, jobs, &Progress::new(0, false), square, |number, square| {
                assert_eq!(square, number * number);
                seen.push(number);
            });
            assert!(seen.into_iter().eq(5..3000), "{jobs:?}");
        }
    }

    #[test]
    fn the_greatest_numbers_do_not_overflow() {
        let last = u64::MAX - 5..u64::MAX;
        assert!(map(last.clone(), Some(3), &Progress::new(0, false), |number| number).into_iter().eq(last));
    }
}
