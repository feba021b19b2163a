//! The project's own chores: `cargo xtask test`, `tidy`, `facade`, `docs`, `prove`, `bench`,
//! `mutants-protocol`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it runs programs and takes their time"
)]

mod architecture;
mod build;
mod command;
mod copies;
mod docs;
mod facade;
mod mutants;
mod programs;
mod prove;
mod symbols;
mod test;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use command::cargo;
use programs::Programs;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [--bless]            everything CI runs: format, tidiness, lints, tests, network faults, determinism,
                            copies of functions, torture, the safety argument, documentation, the default
                            program. --bless rewrites golden files and generated documentation instead of comparing them
  test --fast               format, tidiness, and the tests of the core, the lease, the algorithms, the simulator, the
                            network, the node and the facade; needs no root and installs nothing
  tidy                      house rules that no other tool checks
  facade                    whether the public API of the crate suffrage names types of other crates of the workspace
  symbols [PROGRAM...]      whether functions that are long to compile are in the programs and tests once, and the
                            operator's program has nothing of the laboratory; builds them if none is named
  docs [--bless]            whether the generated parts of the documents are up to date
  mutants-protocol [--quick]
                            whether the torture of quorum leases finds every deliberate mistake in them, in
                            how many seeds, and accuses nobody else
  prove [--only STEP] [--bugs] [--json] [--help]
                            whether the safety argument of quorum leases holds: an invariant, checked by a solver for
                            any number of voters and candidates; and whether each deliberate bug breaks a named step
  bench build [--json]      a fresh build of the default program: the compile time of our crates as a ratio to
                            that of the dependencies, the size of the program, copies of functions; exit code 1
                            if a target is missed
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
        ["test", "--fast"] => test::fast(),
        ["test", "--bless"] => test::test(true),
        ["tidy"] => tidy::tidy(root()),
        ["facade"] => facade::check(),
        ["symbols"] => Programs::build_all().and_then(|programs| copies::check_all(&programs)),
        ["symbols", paths @ ..] => copies::check(paths.iter().map(Path::new)),
        ["docs"] => generated_documents(false),
        ["docs", "--bless"] => generated_documents(true),
        ["mutants-protocol"] => protocol_mutants(&mutants::FULL),
        ["mutants-protocol", "--quick"] => protocol_mutants(&mutants::QUICK),
        ["prove", flags @ ..] => prove::prove(root(), flags),
        ["bench", "build", flags @ ..] => build::bench(flags),
        ["bench", "simulator", flags @ ..] => bench("suffrage-sim", "throughput", flags),
        ["bench", "papers", flags @ ..] => bench("suffrage-papers", "elections", flags),
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

fn generated_documents(bless: bool) -> Result<(), String> {
    docs::docs(root(), &Programs::build_for_users()?, bless)
}

/// In release: it is long.
fn protocol_mutants(effort: &mutants::Effort) -> Result<(), String> {
    let programs = Programs::build(&["build", "--release", "--package", "suffrage-lab"])?;
    mutants::mutants(&programs, effort)
}

fn bench(package: &str, name: &str, flags: &[&str]) -> Result<(), String> {
    let arguments = ["bench", "--quiet", "--package", package, "--bench", name, "--"];
    cargo(&[&arguments, flags].concat()).run()
}

/// In a program of its own, so that this one stays small. The nodes are of the program beside it.
fn bench_cluster(flags: &[&str]) -> Result<(), String> {
    cargo(&["build", "--release", "--package", "suffrage-daemon"]).run()?;
    cargo(&[&["run", "--quiet", "--release", "--package", "suffrage-bench", "--"], flags].concat()).run()
}

/// The workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
