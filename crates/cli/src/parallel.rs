//! Many runs at a time, with results that do not depend on how many.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "threads and clocks are of no consequence to the results here"
)]

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How many runs are made before their results are taken in, in the order of their seeds: memory does
/// not grow with the number of runs unless results are kept.
const BLOCK: u64 = 1024;

/// Work that takes less is over before a bar would have been read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The seeds of some runs: the first, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Works on every seed, `jobs` at a time or one per core, and takes the results in, in the order of
/// the seeds.
pub(crate) fn for_each<T: Send>(
    seeds: Seeds,
    jobs: Option<usize>,
    progress: &Progress,
    work: impl Fn(u64) -> T + Sync,
    mut take_in: impl FnMut(T),
) {
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    let mut done = 0;
    while done < seeds.count {
        let block = Seeds { first: seeds.first.wrapping_add(done), count: BLOCK.min(seeds.count - done) };
        run_block(block, jobs, progress, &work).into_iter().for_each(&mut take_in);
        done += block.count;
    }
}

/// The same, with the results in a list.
pub(crate) fn map<T: Send>(
    seeds: Seeds,
    jobs: Option<usize>,
    progress: &Progress,
    work: impl Fn(u64) -> T + Sync,
) -> Vec<T> {
    let mut results = Vec::new();
    for_each(seeds, jobs, progress, work, |result| results.push(result));
    results
}

fn run_block<T: Send>(
    seeds: Seeds,
    jobs: usize,
    progress: &Progress,
    work: &(impl Fn(u64) -> T + Sync),
) -> Vec<T> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= seeds.count {
                return results;
            }
            results.push((run, work(seeds.first.wrapping_add(run))));
            progress.step();
        }
    };
    let mut results: Vec<(u64, T)> = thread::scope(|scope| {
        let jobs = (jobs as u64).min(seeds.count);
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let others = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        mine.into_iter().chain(others).collect()
    });
    results.sort_unstable_by_key(|(run, _)| *run);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A bar that appears when the work turns out to take long, and goes when it is done.
pub(crate) struct Progress {
    since: Instant,
    bar: ProgressBar,
    wanted: bool,
}

impl Progress {
    pub(crate) fn new(runs: u64, wanted: bool) -> Progress {
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_seeds() {
        let seeds = Seeds { first: u64::MAX - 9, count: 3_000 };
        let expected: Vec<u64> = (0..3_000).map(|run| seeds.first.wrapping_add(run)).collect();
        for jobs in [1, 7] {
            let progress = Progress::new(seeds.count, false);
            assert_eq!(map(seeds, Some(jobs), &progress, |seed| seed), expected);
        }
    }
}
