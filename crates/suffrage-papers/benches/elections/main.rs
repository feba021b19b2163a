//! The speed of the papers' largest elections, as ratios to bare hand-written loops, measured in turn in the same
//! process. Run it with `cargo xtask bench papers`.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time, on all cores")]

mod quorums;
mod rounds;

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use suffrage_papers::ramanathan2007::{self, bulk};
use suffrage_sim::Contenders;

const USAGE: &str = "usage: cargo xtask bench papers [--json]

P1  50,000 processes of whom half contend, as in Figure 9: 100 elections by probabilistic quorums, in bulk, and as
    many randomized ones, on all cores; and one of the former against a bare loop that draws its requests and their
    delays and puts them in order of time
P2  the same with 5,000 processes, in bulk against the simulated world
P3  the randomized election, 1,000,000 processes who all contend, in the simulated world, against a bare loop
    over a heap that does nothing else

--json   one object: p1_elections, p1_cores, p1_seconds, p1_ratio, p2_ratio, p3_seconds, p3_ratio,
         p3_peak_bytes. Ratios are of speeds, the median of turns: below one the bare loop is faster, and in P2
         above one bulk is";

/// The group of Figure 9, and its slowest point.
const GROUP: usize = 50_000;
const HALF: Contenders = Contenders::Share(0.5);
const ELECTIONS: u64 = 100;
const MILLION: usize = 1_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(unknown) = arguments.iter().find(|argument| *argument != "--json") {
        eprintln!("unknown argument `{unknown}`\n{USAGE}");
        std::process::exit(2);
    }
    let report = Report::measure();
    if arguments.is_empty() { report.print_table() } else { report.print_json() }
}

struct Report {
    /// Measured first, since only the peak memory is known.
    peak: u64,
    million: Comparison,
    cores: usize,
    hundred: Duration,
    bulk: Comparison,
    world: Comparison,
}

impl Report {
    fn measure() -> Report {
        let all = Contenders::Count(MILLION);
        let simulated = |seed| {
            let outcome = ramanathan2007::randomized(MILLION, all).outcome(seed);
            outcome.messages.total
        };
        simulated(0);
        let peak = peak();
        let million = compare(3, |seed| rounds::bare(MILLION, seed), simulated);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let hundred = hundred_of_each(cores);
        let bulk = compare(5, |seed| quorums::bare(GROUP, HALF, seed), |seed| requests(GROUP, seed));
        let world = |seed| ramanathan2007::quorums(GROUP / 10, HALF).outcome(seed).messages.total;
        let world = compare(5, world, |seed| in_bulk(GROUP / 10, seed).total());
        Report { peak, million, cores, hundred, bulk, world }
    }

    fn print_json(&self) {
        let report = serde_json::json!({
            "p1_elections": ELECTIONS,
            "p1_cores": self.cores,
            "p1_seconds": self.hundred.as_secs_f64(),
            "p1_ratio": self.bulk.ratio,
            "p2_ratio": self.world.ratio,
            "p3_seconds": self.million.measured,
            "p3_ratio": self.million.ratio,
            "p3_peak_bytes": self.peak,
        });
        println!("{report:#}");
    }

    fn print_table(&self) {
        println!("{:48} {:>12} {:>12} {:>7}", "", "baseline", "measured", "ratio");
        let row = |name: &str, Comparison { baseline, measured, ratio }: &Comparison| {
            println!("{name:48} {baseline:>10.3} s {measured:>10.3} s {ratio:>7.2}");
        };
        row("P1 quorums in bulk, N = 50000, against a loop", &self.bulk);
        row("P2 quorums in bulk, N = 5000, against the world", &self.world);
        row("P3 randomized, N = 1000000, against a loop", &self.million);
        println!();
        let (seconds, cores) = (self.hundred.as_secs_f64(), self.cores);
        println!(
            "P1: {ELECTIONS} elections by quorums and {ELECTIONS} randomized in {seconds:.1} s on {cores} cores"
        );
        println!("P3: peak memory {:.2} GiB", self.peak as f64 / f64::from(1 << 30));
    }
}

/// An election by probabilistic quorums.
fn in_bulk(nodes: usize, seed: u64) -> bulk::Counts {
    bulk::run(nodes, HALF, seed).expect("all requests are answered in time").counts
}

/// The number of requests of such an election, for comparison with the bare loop.
fn requests(nodes: usize, seed: u64) -> u64 {
    in_bulk(nodes, seed).req
}

/// The time of a hundred elections of each kind, on all cores.
fn hundred_of_each(cores: usize) -> Duration {
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let work = || {
        let seeds = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        for seed in seeds.take_while(|&seed| seed < ELECTIONS) {
            in_bulk(GROUP, seed);
            ramanathan2007::randomized(GROUP, HALF).outcome(seed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    start.elapsed()
}

/// Medians in seconds, and the speed relative to the baseline.
struct Comparison {
    baseline: f64,
    measured: f64,
    ratio: f64,
}

/// Measures the two in turn, so that other load of the machine affects both. Each returns its amount of work, which
/// must be the same up to randomness.
fn compare(turns: u64, baseline: impl Fn(u64) -> u64, measured: impl Fn(u64) -> u64) -> Comparison {
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for seed in 0..turns {
        let (plain, first) = timed(&baseline, seed);
        let (full, second) = timed(&measured, seed);
        assert!(first.abs_diff(second) * 50 <= first, "{first} {second}");
        times[0].push(plain);
        times[1].push(full);
        ratios.push(plain / full);
    }
    let [baseline, measured] = times.map(median);
    Comparison { baseline, measured, ratio: median(ratios) }
}

fn timed(work: impl Fn(u64) -> u64, seed: u64) -> (f64, u64) {
    let start = Instant::now();
    let done = work(seed);
    (start.elapsed().as_secs_f64(), done)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}
