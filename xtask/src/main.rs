//! The project's own chores: `cargo xtask test`, `tidy`, `docs`, `bench`, `mutants-protocol`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it runs programs and takes their time"
)]

mod architecture;
mod command;
mod docs;
mod mutants;
mod test;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use command::cargo;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [--bless]            everything CI runs: format, lints, documentation, tidiness, tests,
                            determinism, torture, the two commands of the README. --bless rewrites golden
                            files and generated documentation instead of comparing them
  tidy                      house rules that no other tool checks
  docs [--bless]            whether the generated parts of the documents are up to date
  mutants-protocol [--quick]
                            whether the torture of quorum leases finds every deliberate mistake in them, in
                            how many seeds, and accuses nobody else
  bench simulator [--json] [--large]
                            the simulator's speed, as ratios to bare loops measured in the same run
  bench papers [--json]     how fast the papers' largest elections are measured, as ratios to bare loops
  bench cluster [--json] [--quick] [--without-etcd] [--only PART]
                            three real nodes and a real three-node etcd, side by side: failover, handover,
                            acquisitions, elections held, as ratios, and whether the targets are met";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["test"] => test::test(false),
        ["test", "--bless"] => test::test(true),
        ["tidy"] => tidy::tidy(root()),
        ["docs"] => docs::docs(root(), false),
        ["docs", "--bless"] => docs::docs(root(), true),
        ["mutants-protocol"] => mutants::mutants(&mutants::FULL),
        ["mutants-protocol", "--quick"] => mutants::mutants(&mutants::QUICK),
        ["bench", "simulator", flags @ ..] => bench("simulator", "throughput", flags),
        ["bench", "papers", flags @ ..] => bench("papers", "elections", flags),
        ["bench", "cluster", flags @ ..] => bench_cluster(flags),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("\nxtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn bench(package: &str, name: &str, flags: &[&str]) -> Result<(), String> {
    let arguments = ["bench", "--quiet", "--package", package, "--bench", name, "--"];
    cargo(&[&arguments, flags].concat()).run()
}

/// In a program of its own, so that this one stays small. The nodes are of the program beside it.
fn bench_cluster(flags: &[&str]) -> Result<(), String> {
    cargo(&["build", "--release", "--package", "cli"]).run()?;
    cargo(&[&["run", "--quiet", "--release", "--package", "bench", "--"], flags].concat()).run()
}

/// The workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
