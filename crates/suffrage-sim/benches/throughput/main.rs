//! The speed of the simulator, as ratios to hand-written loops that are measured alternately in the same run. Run it with
//! `cargo xtask bench simulator`.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

mod gossip;
mod ring;

use std::time::Instant;

/// The result of a workload.
struct Work {
    events: u64,
    /// A value that depends on the whole workload, so that the compiler cannot remove it, and results can be compared.
    result: u64,
}

const USAGE: &str = "usage: cargo xtask bench simulator [--json] [--large]

W1  Chang-Roberts, 10,000 processes with random ranks, uniform latency, election after election
W2  rumour gossip, 10,000 processes, one timer and one message each a round, 1% loss, 20 rounds

--json   one object: w1_ratio, w2_ratio (simulator to bare loop, events per second; the median of
         turns), w1_events_per_s, w2_events_per_s, bytes_per_process, w2_by_size
--large  also W2 with 10,000,000 processes (2 GiB, about two minutes)";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let known = ["--json", "--large"];
    if let Some(unknown) = arguments.iter().find(|argument| !known.contains(&argument.as_str())) {
        eprintln!("unknown argument `{unknown}`\n{USAGE}");
        std::process::exit(2);
    }
    let asked = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let report = Report::measure(asked("--large"));
    if asked("--json") { report.print_json() } else { report.print_table() }
}

struct Report {
    /// Measured first, since only the peak of the memory is known.
    bytes_per_process: f64,
    w1: Comparison,
    /// By the number of processes.
    w2: Vec<(usize, Comparison)>,
}

impl Report {
    fn measure(large: bool) -> Report {
        let bytes_per_process = bytes_per_process(1_000_000);
        let w1 = compare(9, |seed| ring::bare(10_000, 60, seed), |seed| ring::simulate(10_000, 60, seed));
        let sizes = [(10_000, 15), (100_000, 5), (1_000_000, 3), (10_000_000, 1)];
        let w2 = |(size, turns)| {
            let bare = |seed| gossip::bare(size, 20, seed);
            (size, compare(turns, bare, |seed| gossip::simulate(size, 20, seed)))
        };
        let wanted = if large { sizes.len() } else { sizes.len() - 1 };
        Report { bytes_per_process, w1, w2: sizes.into_iter().take(wanted).map(w2).collect() }
    }

    fn print_json(&self) {
        let by_size = self.w2.iter().map(|(size, comparison)| {
            serde_json::json!({ "nodes": size, "ratio": comparison.ratio, "events_per_s": comparison.simulated })
        });
        let (_, w2) = &self.w2[0];
        let report = serde_json::json!({
            "w1_ratio": self.w1.ratio,
            "w1_events_per_s": self.w1.simulated,
            "w2_ratio": w2.ratio,
            "w2_events_per_s": w2.simulated,
            "bytes_per_process": self.bytes_per_process,
            "w2_by_size": by_size.collect::<Vec<_>>(),
        });
        println!("{report:#}");
    }

    fn print_table(&self) {
        println!("{:24} {:>12} {:>12} {:>7}", "", "bare loop", "simulator", "ratio");
        let row = |name: String, comparison: &Comparison| {
            let [bare, simulated] = [comparison.bare, comparison.simulated].map(|rate| rate / 1e6);
            println!("{name:24} {bare:>8.1} M/s {simulated:>8.1} M/s {:>7.2}", comparison.ratio);
        };
        row("W1 ring, N = 10000".into(), &self.w1);
        self.w2.iter().for_each(|(size, comparison)| row(format!("W2 gossip, N = {size}"), comparison));
        let bytes = self.bytes_per_process;
        println!("\n{bytes:.0} bytes a process in W2 with N = 1000000, events in flight included");
    }
}

/// Events per second, medians of alternating runs.
struct Comparison {
    bare: f64,
    simulated: f64,
    ratio: f64,
}

/// Measures the two alternately, so that other load on the machine affects both.
fn compare<B, S>(turns: u64, bare: impl Fn(u64) -> B, simulated: impl Fn(u64) -> S) -> Comparison
where
    B: FnOnce() -> Work,
    S: FnOnce() -> Work,
{
    let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for seed in 0..turns {
        let (rate, plain) = rate(bare(seed));
        let (simulated_rate, work) = self::rate(simulated(seed));
        // The same workload: as many events but for chance, and about the same result.
        assert!(work.events.abs_diff(plain.events) * 50 <= plain.events, "{} {}", work.events, plain.events);
        assert!(work.result.abs_diff(plain.result) * 2 <= plain.result, "{} {}", work.result, plain.result);
        rates[0].push(rate);
        rates[1].push(simulated_rate);
        ratios.push(simulated_rate / rate);
    }
    let [bare, simulated] = rates.map(median);
    Comparison { bare, simulated, ratio: median(ratios) }
}

/// The events per second, and the result.
fn rate(workload: impl FnOnce() -> Work) -> (f64, Work) {
    let start = Instant::now();
    let work = workload();
    (work.events as f64 / start.elapsed().as_secs_f64(), work)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The memory that W2 adds, by the kernel's peak.
fn bytes_per_process(members: usize) -> f64 {
    let before = peak();
    gossip::simulate(members, 5, 0)();
    (peak() - before) as f64 / members as f64
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}
