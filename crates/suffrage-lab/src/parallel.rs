//! Many runs side by side, with results that do not depend on how many at a time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "threads and clocks are of no consequence to the results here"
)]

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How many runs are made before their results are taken in, in order, and forgotten: memory does not
/// grow with the number of runs.
const BLOCK: u64 = 1024;

/// Work that takes less is over before a bar would have been read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes a run of each number and takes the results in, in the order of the numbers. Without a number
/// of jobs there is one per core.
pub(crate) fn for_each<T: Send>(
    runs: Range<u64>,
    jobs: Option<usize>,
    progress: &Progress,
    run: impl Fn(u64) -> T + Sync,
    mut take_in: impl FnMut(u64, T),
) {
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    let mut first = runs.start;
    while first < runs.end {
        let last = first.saturating_add(BLOCK).min(runs.end);
        for (number, result) in block(first..last, jobs, progress, &run) {
            take_in(number, result);
        }
        first = last;
    }
}

/// The same, with the results in a list.
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

/// The results of some of the runs, in order.
fn block<T: Send>(
    runs: Range<u64>,
    jobs: usize,
    progress: &Progress,
    run: &(impl Fn(u64) -> T + Sync),
) -> Vec<(u64, T)> {
    // Counted from the block's start: there may be no number after its end.
    let (next, count) = (AtomicU64::new(0), runs.end - runs.start);
    let work = || {
        let mut results = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return results;
            }
            let number = runs.start + place;
            results.push((number, run(number)));
            progress.step();
        }
    };
    let mut results: Vec<(u64, T)> = thread::scope(|scope| {
        let jobs = (jobs as u64).min(count);
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let others = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        mine.into_iter().chain(others).collect()
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results
}

/// A bar that appears when the work turns out to take long, and goes when it is dropped.
pub(crate) struct Progress {
    since: Instant,
    bar: ProgressBar,
    wanted: bool,
}

impl Progress {
    /// A bar for so many runs, if anybody is there to look at it.
    pub(crate) fn new(runs: u64, wanted: bool) -> Progress {
        let style = ProgressStyle::with_template("{msg}{wide_bar} {pos}/{len} runs, {eta} left")
            .expect("the template is sound");
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden()).with_style(style);
        Progress { since: Instant::now(), bar, wanted }
    }

    /// Says what is being done, before the bar.
    pub(crate) fn name(&self, what: &str) {
        self.bar.set_message(format!("{what} "));
    }

    /// Takes the bar away while something else is written.
    pub(crate) fn hide_while<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    fn step(&self) {
        self.bar.inc(1);
        if self.wanted && self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How long something has taken, for work of which nobody knows how much there is.
pub(crate) struct Stopwatch {
    since: Instant,
    told: Instant,
    line: ProgressBar,
    wanted: bool,
}

impl Stopwatch {
    /// From now on, and with a line that says how far it is, if anybody is there to read it.
    pub(crate) fn start(wanted: bool) -> Stopwatch {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg}").expect("the template is sound");
        let now = Instant::now();
        Stopwatch { since: now, told: now, line: line.with_style(style), wanted }
    }

    /// Says how far it is, but not too often.
    pub(crate) fn tell(&mut self, how_far: impl FnOnce() -> String) {
        const OFTEN: Duration = Duration::from_millis(200);
        if !self.wanted || self.since.elapsed() < PATIENCE || self.told.elapsed() < OFTEN {
            return;
        }
        self.told = Instant::now();
        if self.line.is_hidden() {
            self.line.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.line.set_message(how_far());
    }

    /// How long it has taken.
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
    fn the_last_numbers_there_are_end_the_work() {
        let last = u64::MAX - 5..u64::MAX;
        assert!(map(last.clone(), Some(3), &Progress::new(0, false), |number| number).into_iter().eq(last));
    }
}
