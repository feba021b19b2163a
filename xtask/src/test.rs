//! The tests that CI runs, and the part of them that contributors run before a commit.
//!
//! The workspace is compiled once, in the profile of tests: the steps run the programs of one build. Only the default
//! program is also built in release, as users build it.

use std::time::Instant;

use crate::background::{Background, Jobs};
use crate::command::{cargo, git, program};
use crate::programs::{Kind, Programs};
use crate::{browser, build, clients, copies, docs, engines, facade, mutants, prove, root, tidy, tools};

/// Packages that are not published.
const NOT_PUBLISHED: &[&str] =
    &["suffrage-bench", "suffrage-clients", "suffrage-fuzz", "suffrage-servers", "suffrage-testbed", "xtask"];
/// Tests that need root and network namespaces. They load the machine and run one at a time.
const NETWORK_FAULTS: &str = "network_faults::";
/// The packages without fast tests: the laboratory takes long to compile, and others need root.
const NOT_FAST: &[&str] = &[
    "suffrage-bench",
    "suffrage-check",
    "suffrage-cli",
    "suffrage-clients",
    "suffrage-daemon",
    "suffrage-fuzz",
    "suffrage-lab",
    "suffrage-papers",
    "suffrage-servers",
    "suffrage-testbed",
    "xtask",
];
/// More threads than cores: tests of real clusters mostly wait.
const TEST_THREADS: &str = "6";
/// The number of storms that an algorithm's test draws, in all tests and in the fast ones.
const SEEDS: &str = "1000";
const FAST_SEEDS: &str = "300";

/// Runs steps and measures the time of each.
struct StepRunner {
    start: Instant,
    times: Vec<(&'static str, f64)>,
}

impl StepRunner {
    fn new() -> StepRunner {
        StepRunner { start: Instant::now(), times: Vec::new() }
    }

    fn step<T>(&mut self, name: &'static str, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        println!("\n== {name}");
        let start = Instant::now();
        let value = run().map_err(|reason| format!("{name}: {reason}"))?;
        self.times.push((name, start.elapsed().as_secs_f64()));
        Ok(value)
    }

    fn end(self) {
        println!("\n== all steps passed");
        for (name, seconds) in self.times {
            println!("{seconds:7.1} s  {name}");
        }
        println!("{:7.1} s  in total", self.start.elapsed().as_secs_f64());
    }
}

/// Runs all tests.
pub(crate) fn test(bless: bool) -> Result<(), String> {
    let mut steps = StepRunner::new();
    steps.step("tools", || tools::ensure(tools::TESTS))?;
    style(&mut steps, bless)?;
    let programs = steps.step("build of all programs and tests", Programs::build_all)?;
    // Tests of real clusters mostly wait. Meanwhile the compiler works, whenever no test needs the processor.
    // If a step fails, these jobs end with this function.
    let background = Background::start(|jobs| {
        // The first job locks another target folder than the tests, which lock theirs only until they run.
        let release = Programs::build_nicely(&["build", "--release"], jobs);
        (release, lints(jobs), documentation(jobs))
    });
    steps.step("tests", || tests(&["--workspace"], SEEDS, bless))?;
    // One at a time, because they load the network.
    steps.step("tests of real network faults", || programs.run_tests(NETWORK_FAULTS, 1))?;
    steps.step("elections on real servers of engines", engines::test)?;
    steps.step("clients of other languages", || clients::check(&[], &programs))?;
    steps.step("pages in a real browser", || browser::check(&[], &programs))?;
    // The tests ran the set once in another process: a run must depend only on its seed.
    steps.step("determinism, a second time", || programs.run_tests("determinism::", 2))?;
    let release = steps.step("the rest of the release build, lints and documentation", || {
        let (release, lints, documentation) = background.join()?;
        lints.and(documentation).and(release)
    })?;
    steps.step("symbols", || copies::check_all(&programs))?;
    steps.step("the worked example of CONTRIBUTING.md", || {
        program(&[&*programs.path(Kind::Example, "roll_call")?.to_string_lossy()]).run()
    })?;
    steps.step("torture, with seeds of this commit", || torture(&programs))?;
    steps.step("torture of raft with 20,000 seeds", || {
        programs.lab(&["torture", "raft", "--seeds", "0..20000"])?.run()
    })?;
    steps.step("torture finds unsaved votes", || {
        let line = ["torture", "raft", "--forget-votes", "--seeds", "0..10000", "--expect-violation"];
        programs.lab(&line)?.run()
    })?;
    steps
        .step("torture finds every bug in quorum leases", || mutants::mutants(&programs, &mutants::QUICK))?;
    steps.step("the safety argument of quorum leases, by a solver", || prove::prove(root(), &[]))?;
    steps.step("generated documentation", || docs::docs(root(), &programs, bless))?;
    steps.step("packages", packages)?;
    steps.step("public API of the facade", facade::check)?;
    steps.step("the default program, and the demo", || {
        let path = release.path(Kind::Binary, "suffrage")?;
        build::check_program(path)?;
        program(&[&path.to_string_lossy(), "demo", "--once"]).run()
    })?;
    steps.end();
    Ok(())
}

fn lints(jobs: &Jobs) -> Result<(), String> {
    let all = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo(&all).nice().among(jobs).run()
}

fn documentation(jobs: &Jobs) -> Result<(), String> {
    let all = ["doc", "--quiet", "--workspace", "--no-deps"];
    cargo(&all).env("RUSTDOCFLAGS", "-D warnings").nice().among(jobs).run()
}

/// Runs the fast tests, which need no root and no programs besides a Rust toolchain.
pub(crate) fn fast() -> Result<(), String> {
    let mut steps = StepRunner::new();
    style(&mut steps, false)?;
    let excluded = NOT_FAST.iter().flat_map(|package| ["--exclude", package]);
    let packages: Vec<&str> = std::iter::once("--workspace").chain(excluded).collect();
    steps.step("tests", || tests(&packages, FAST_SEEDS, false))?;
    println!("\nnot run: lints, tests of {} and of network faults, torture", NOT_FAST.join(", "));
    steps.end();
    Ok(())
}

/// Checks format and tidiness, which is quick.
fn style(steps: &mut StepRunner, bless: bool) -> Result<(), String> {
    steps.step("format", || {
        cargo(if bless { &["fmt", "--all"] } else { &["fmt", "--all", "--check"] }).run()
    })?;
    steps.step("tidiness", || tidy::tidy(root()))
}

/// Packs every crate that is published, as `cargo publish` does, without compiling it again.
fn packages() -> Result<(), String> {
    let excluded = NOT_PUBLISHED.iter().flat_map(|package| ["--exclude", package]);
    let options = ["package", "--quiet", "--workspace", "--no-verify", "--allow-dirty"];
    let line: Vec<&str> = options.into_iter().chain(excluded).collect();
    cargo(&line).run()
}

/// Runs the tests and doctests of these packages.
fn tests(packages: &[&str], seeds: &str, bless: bool) -> Result<(), String> {
    let options = ["--", "--skip", NETWORK_FAULTS];
    cargo(&[&["test", "--quiet", "--no-fail-fast"], packages, &options].concat())
        .env("SUFFRAGE_BLESS", if bless { "1" } else { "0" })
        .env("SUFFRAGE_SEEDS", seeds)
        .env("RUST_TEST_THREADS", TEST_THREADS)
        .run()
}

/// Tortures all algorithms and large groups with seeds derived from the commit, so that every commit tries new seeds.
fn torture(programs: &Programs) -> Result<(), String> {
    const SEEDS: u64 = 2_000;
    let commit = git(&["rev-parse", "HEAD"]).output().unwrap_or_default();
    // Without a git repository, the seeds are always the same.
    let first = commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0) * SEEDS;
    let seeds = format!("{first}..{}", first + SEEDS);
    programs.lab(&["torture", "all", "--seeds", &seeds])?.run()?;
    programs.lab(&["group", "torture", "--seeds", &seeds])?.run()
}
