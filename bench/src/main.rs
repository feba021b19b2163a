//! A three-node cluster of `suffrage node` and a three-node etcd, side by side on one machine: `cargo xtask bench cluster`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures time, and runs programs"
)]

mod cluster;
mod course;
mod etcd;
mod grpc;
mod http;
mod measure;
mod processes;
mod report;
mod times;

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use course::{Course, FULL, QUICK};

const USAGE: &str = "\
usage: cargo xtask bench cluster [--quick] [--json] [--without-etcd] [--only PART]..

Runs three nodes of `suffrage node` and three servers of etcd on loopback, and measures both in the same way:
failover, handover, acquisitions, and what it costs to hold very many elections. Installs etcd if there is none
(apt-get). Takes about ten minutes; the machine should have nothing else to do.

  --quick         a minute or two, with fewer repetitions and no more than 10,000 elections
  --json          for machines
  --without-etcd  only suffrage
  --only PART     failover, handover, acquire or held; may be given again

Exit codes: 0 all targets that were measured are met, 1 one is missed or something failed, 2 bad usage.";

fn main() -> ExitCode {
    let mut course = Course { plan: FULL, parts: Vec::new(), etcd: true };
    let mut json = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => course.plan = QUICK,
            "--json" => json = true,
            "--without-etcd" => course.etcd = false,
            "--only" => match arguments.next().filter(|part| course::PARTS.contains(&part.as_str())) {
                Some(part) => course.parts.push(part),
                None => return usage(&format!("--only: one of {}", course::PARTS.join(", "))),
            },
            "--help" | "-h" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            other => return usage(&format!("{other}: no such flag")),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let outcome = runtime.block_on(interruptible(course.run()));
        // What was started ends with what holds it, and nothing else is waited for.
        runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        outcome
    });
    match outcome {
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

/// Does this, unless it is told to end: then it is dropped, and with it all processes and folders.
async fn interruptible<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let listen = |kind| signal(kind).map_err(|error| error.to_string());
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err("interrupted".to_string()),
        _ = terminate.recv() => Err("told to end".to_string()),
    }
}
