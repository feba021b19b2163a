//! Benchmark of a three-node cluster of `suffrage node` and a three-node etcd on one machine: `cargo xtask bench cluster`.
//! With `distance` as first argument, the benchmark of nodes far from each other; with `engines`, that of elections on
//! engines.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time and runs programs")]

mod benchmark;
mod cluster;
mod distance;
mod engines;
mod etcd;
mod http;
mod measure;
mod processes;
mod report;
mod times;

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use benchmark::{BenchConfig, FULL, QUICK};

const USAGE: &str = "\
usage: cargo xtask bench cluster [--quick] [--json] [--without-etcd] [--only PART].. [--minutes N]

Runs three nodes of `suffrage node` and three servers of etcd on loopback, and measures both in the same way:
failover, death of a process, handover, acquisitions, and the cost of many held elections and connections. Installs etcd
with apt-get if it is missing.
Takes about ten minutes on an idle machine.

  --quick         one or two minutes: fewer repetitions and at most 10,000 elections
  --json          prints the result as JSON
  --without-etcd  measures only suffrage
  --only PART     measures only this part: failover, kill, handover, acquire, held, connections or million; can be repeated
  --minutes N     how long the part `million` holds 1,000,000 elections, 10 by default; it runs only if it is named

Exit codes: 0 all measured targets are met, 1 a target is missed or the benchmark failed, 2 the command line is wrong.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [first, rest @ ..] if first == "distance" => return distance::main(rest),
        [first, rest @ ..] if first == "engines" => return engines::main(rest),
        _ => {}
    }
    if let [first, rest @ ..] = arguments.as_slice()
        && first == measure::kill::HOLD
    {
        return match measure::kill::hold(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => usage(&reason),
        };
    }
    let mut config = BenchConfig { plan: FULL, parts: Vec::new(), etcd: true, minutes: 10 };
    let mut json = false;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => config.plan = QUICK,
            "--json" => json = true,
            "--without-etcd" => config.etcd = false,
            "--only" => match arguments.next().filter(|part| benchmark::PARTS.contains(&part.as_str())) {
                Some(part) => config.parts.push(part),
                None => return usage(&format!("--only: must be one of {}", benchmark::PARTS.join(", "))),
            },
            "--minutes" => match arguments.next().and_then(|minutes| minutes.parse().ok()) {
                Some(minutes) if (1..=1_440).contains(&minutes) => config.minutes = minutes,
                _ => return usage("--minutes: must be a number from 1 to 1440"),
            },
            "--help" | "-h" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            other => return usage(&format!("there is no flag `{other}`")),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let result = runtime.block_on(interruptible(config.run()));
        // Dropping the benchmark has ended all processes. Other tasks are not waited for.
        runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        result
    });
    match result {
        Ok(report) => {
            println!("{}", if json { report.json().to_string() } else { report.text() });
            let missed = report.verdicts().iter().any(|verdict| verdict.met == Some(false));
            if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(reason) => {
            eprintln!("bench: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn usage(reason: &str) -> ExitCode {
    eprintln!("bench: {reason}\n\n{USAGE}");
    ExitCode::from(2)
}

/// Runs the work until SIGINT or SIGTERM. Dropping the work ends all processes and removes all folders.
async fn interruptible<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let listen = |kind| signal(kind).map_err(|error| error.to_string());
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        result = work => result,
        _ = interrupt.recv() => Err("interrupted".to_string()),
        _ = terminate.recv() => Err("terminated".to_string()),
    }
}
