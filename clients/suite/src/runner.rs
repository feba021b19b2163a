//! Runs behaviours, several at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::behaviours::Behaviour;
use crate::driver::DriverProgram;

/// Runs each behaviour with each driver. Returns whether all are as they must be.
pub(crate) fn run(drivers: &[DriverProgram], behaviours: &[&(&str, Behaviour)], jobs: usize) -> bool {
    let start = Instant::now();
    // Each behaviour with all drivers before the next: the longest begin first.
    let queue =
        behaviours.iter().flat_map(|behaviour| drivers.iter().map(move |driver| (*behaviour, driver)));
    let queue: Mutex<VecDeque<_>> = Mutex::new(queue.collect());
    let count = queue.lock().expect("no thread has panicked").len();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count) {
            scope.spawn(|| {
                loop {
                    let Some(((name, behaviour), driver)) = queue.lock().expect("no panic").pop_front()
                    else {
                        return;
                    };
                    let began = Instant::now();
                    // The panic prints its reason itself.
                    let outcome = catch_unwind(AssertUnwindSafe(|| behaviour(driver)));
                    let verdict = if outcome.is_ok() { "ok    " } else { "FAILED" };
                    println!("{verdict} {:6.1} s  {} {name}", began.elapsed().as_secs_f64(), driver.name);
                    if outcome.is_err() {
                        failed.lock().expect("no panic").push(format!("{} {name}", driver.name));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    println!("{count} behaviours in {:.1} s, {} failed", start.elapsed().as_secs_f64(), failed.len());
    failed.iter().for_each(|name| println!("failed: {name}"));
    failed.is_empty()
}
