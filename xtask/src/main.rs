//! The tasks of the project: `cargo xtask test`, `conformance`, `clients`, `browser`, `tidy`, `facade`, `symbols`, `layout`, `docs`, `prove`,
//! `bench`, `mutants-protocol`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "runs programs and measures time")]

mod architecture;
mod background;
mod browser;
mod build;
mod clients;
mod command;
mod copies;
mod docs;
mod engines;
mod facade;
mod layout;
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
usage: cargo xtask <task>

  test [--bless]            runs everything that CI runs: format, tidiness, lints, tests, network faults,
                            determinism, copies of functions, torture, the safety argument, documentation, the
                            default program. --bless rewrites golden files and generated documentation instead of
                            comparing them
  test --fast               checks format and tidiness, and tests the core, the lease, the algorithms, the
                            simulator, the network, the node and the facade; needs no root and installs nothing
  conformance [ENGINE...]   runs the tests of elections on real servers, which it installs; by default of all engines
                            but kubernetes, whose server must be built: SUFFRAGE_KUBE_APISERVER and SUFFRAGE_CLIENT_GO
                            name the programs
  clients [LANGUAGE...]     checks the clients of these languages, or all: static checks, packages, and the suite of
                            behaviours on real clusters; installs the tools of the languages
  browser [FILE...]         drives the pages in a real headless Chromium, which it installs with the packages of npm that
                            browser/package-lock.json pins; SCREENSHOTS names a folder for screenshots
  tidy                      checks the house rules that no other tool checks
  facade                    checks that the public API of suffrage names no types of other crates of the workspace
  symbols [PROGRAM...]      checks that functions that take long to compile are in each program once, and that the
                            program of operators has no code of the laboratory; without PROGRAM, builds all programs
  layout                    runs a node in an emulator, which it installs, and writes the script by which the linker
                            places the functions of a node side by side
  docs [--bless]            checks that the generated parts of the documents are up to date
  mutants-protocol [--quick]
                            checks that the torture of quorum leases finds every deliberate bug, and no violation
                            without a bug; prints the number of seeds that find each bug
  prove [--only STEP] [--bugs] [--json] [--help]
                            checks the safety argument of quorum leases with a solver, for any number of voters and
                            candidates, and that each deliberate bug breaks a named step of the argument
  bench build [--json]      measures a fresh build of the default program: compile time of our crates as a ratio to
                            that of the dependencies, size of the program, copies of functions; exit code 1 if a
                            target is missed
  bench simulator [--json] [--large]
                            measures the speed of the simulator, as ratios to bare loops in the same run
  bench groups [--json] [--members N] [--processes P] [--runs R]
                            measures a large group of real sockets on this machine: formation, idle cost, deaths of
                            members and of leaders, beside the goals
  bench papers [--json]     measures the speed of the largest elections of the papers, as ratios to bare loops
  bench cluster [--json] [--quick] [--without-etcd] [--only PART]
                            compares three real nodes with a real three-node etcd: failover, handover, acquisitions
                            and held elections as ratios; checks the targets
  bench engines [--json] [--quick] [--only ENGINE]
                            compares elections on real servers of etcd, PostgreSQL, Consul, ZooKeeper, NATS and Redis
                            with the engines' own clients and with three nodes: handover, acquisitions, failover and
                            load on the servers; installs what is missing; checks the targets
  bench distance [--minutes N] [--cold-starts N] [--rtt-ms N] [--json]
                            measures three real nodes with a round trip of 200 ms between them: the time until somebody
                            leads in a new cluster, and changes of leader; checks the targets; needs root";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test"] => test::test(false),
        ["test", "--fast"] => test::fast(),
        ["test", "--bless"] => test::test(true),
        ["tidy"] => tidy::tidy(root()),
        ["conformance", names @ ..] => engines::conformance(names),
        ["clients", names @ ..] => clients::clients(names),
        ["browser", files @ ..] => browser::browser(files),
        ["facade"] => facade::check(),
        ["symbols"] => Programs::build_all().and_then(|programs| copies::check_all(&programs)),
        ["symbols", paths @ ..] => copies::check(paths.iter().map(Path::new)),
        ["layout"] => layout::layout(),
        ["docs"] => generated_documents(false),
        ["docs", "--bless"] => generated_documents(true),
        ["mutants-protocol"] => protocol_mutants(&mutants::FULL),
        ["mutants-protocol", "--quick"] => protocol_mutants(&mutants::QUICK),
        ["prove", flags @ ..] => prove::prove(root(), flags),
        ["bench", "build", flags @ ..] => build::bench(flags),
        ["bench", "simulator", flags @ ..] => bench("suffrage-sim", "throughput", flags),
        ["bench", "groups", flags @ ..] => bench("suffrage-node", "groups", flags),
        ["bench", "papers", flags @ ..] => bench("suffrage-papers", "elections", flags),
        ["bench", "cluster", flags @ ..] => bench_cluster(flags),
        ["bench", "engines", flags @ ..] => bench_cluster(&[&["engines"], flags].concat()),
        ["bench", "distance", flags @ ..] => bench_cluster(&[&["distance"], flags].concat()),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
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

/// Runs in release, because it takes long.
fn protocol_mutants(effort: &mutants::Effort) -> Result<(), String> {
    let programs = Programs::build(&["build", "--release", "--package", "suffrage-lab"])?;
    mutants::mutants(&programs, effort)
}

fn bench(package: &str, name: &str, flags: &[&str]) -> Result<(), String> {
    let arguments = ["bench", "--quiet", "--package", package, "--bench", name, "--"];
    cargo(&[&arguments, flags].concat()).run()
}

/// Runs the benchmark in its own program, so that xtask stays small. The program `suffrage` is in the same folder.
fn bench_cluster(flags: &[&str]) -> Result<(), String> {
    cargo(&["build", "--release", "--package", "suffrage-daemon"]).run()?;
    cargo(&[&["run", "--quiet", "--release", "--package", "suffrage-bench", "--"], flags].concat()).run()
}

/// The root of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
