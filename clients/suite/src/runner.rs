//! Runs behaviours, several at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::behaviours::Behaviour;
use crate::driver::DriverProgram;

/// How many heavy behaviours run at a time.
const HEAVY_JOBS: usize = 2;

type Queue<'a> = Mutex<VecDeque<(&'a Behaviour, &'a DriverProgram)>>;

/// Runs each behaviour with each driver. Returns whether all are as they must be.
pub(crate) fn run(drivers: &[DriverProgram], behaviours: &[&Behaviour], jobs: usize) -> bool {
    let start = Instant::now();
    let queue = |heavy: bool| -> Queue<'_> {
        let chosen = behaviours.iter().filter(move |behaviour| behaviour.is_heavy == heavy);
        let pairs = chosen.flat_map(|behaviour| drivers.iter().map(move |driver| (*behaviour, driver)));
        Mutex::new(pairs.filter(|(behaviour, driver)| behaviour.is_of(driver)).collect())
    };
    let (heavy, light) = (queue(true), queue(false));
    let count = [&heavy, &light].iter().map(|queue| queue.lock().expect("no panic").len()).sum::<usize>();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for job in 0..jobs.max(1) {
            let (heavy, light, failed) = (&heavy, &light, &failed);
            scope.spawn(move || {
                let heavy = (job < HEAVY_JOBS).then_some(heavy);
                while let Some((behaviour, driver)) = heavy.and_then(next).or_else(|| next(light)) {
                    if !run_one(behaviour, driver) {
                        failed.lock().expect("no panic").push(format!("{} {}", driver.name, behaviour.name));
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

fn next<'a>(queue: &Queue<'a>) -> Option<(&'a Behaviour, &'a DriverProgram)> {
    queue.lock().expect("no panic").pop_front()
}

fn run_one(behaviour: &Behaviour, driver: &DriverProgram) -> bool {
    let start = Instant::now();
    // The panic prints its reason itself.
    let is_ok = catch_unwind(AssertUnwindSafe(|| (behaviour.run)(driver))).is_ok();
    let verdict = if is_ok { "ok    " } else { "FAILED" };
    println!("{verdict} {:6.1} s  {} {}", start.elapsed().as_secs_f64(), driver.name, behaviour.name);
    is_ok
}
