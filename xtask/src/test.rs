//! Everything CI runs, and the part of it that contributors run before they commit.
//!
//! Everything is compiled in one profile, that of tests, and once: the steps run the programs that the first of them
//! has built. Only the default program is built in release as well, because that is what users build.

use std::time::Instant;

use crate::command::{cargo, git, program};
use crate::programs::{Kind, Programs};
use crate::{build, copies, docs, facade, mutants, prove, root, tidy, tools};

/// Tests that need root and network namespaces. They load the machine, and take turns.
const NETWORK_FAULTS: &str = "network_faults::";
/// Tests that take part in the laboratory and nothing else, which is long to compile; and those that need root.
const NOT_FAST: &[&str] = &[
    "suffrage-bench",
    "suffrage-check",
    "suffrage-cli",
    "suffrage-daemon",
    "suffrage-lab",
    "suffrage-papers",
    "suffrage-testbed",
];
/// Tests of real clusters wait more than they compute.
const TEST_THREADS: &str = "6";

/// A course of steps, which tells what each of them took.
struct Course {
    start: Instant,
    times: Vec<(&'static str, f64)>,
}

impl Course {
    fn new() -> Course {
        Course { start: Instant::now(), times: Vec::new() }
    }

    fn step<T>(&mut self, name: &'static str, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        println!("\n== {name}");
        let start = Instant::now();
        let made = run().map_err(|reason| format!("{name}: {reason}"))?;
        self.times.push((name, start.elapsed().as_secs_f64()));
        Ok(made)
    }

    fn end(self) {
        println!("\n== all is well");
        for (name, seconds) in self.times {
            println!("{seconds:7.1} s  {name}");
        }
        println!("{:7.1} s  together", self.start.elapsed().as_secs_f64());
    }
}

/// Runs every test there is.
pub(crate) fn test(bless: bool) -> Result<(), String> {
    let mut course = Course::new();
    course.step("tools", || tools::ensure(tools::TESTS))?;
    style(&mut course, bless)?;
    course.step("lints", || {
        cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
    })?;
    let programs = course.step("build of all programs and tests", Programs::build_all)?;
    course.step("tests", || tests(&["--workspace"], bless))?;
    course.step("tests of real network faults", || {
        // One at a time: they measure.
        let filter = ["--", NETWORK_FAULTS, "--test-threads", "1"];
        cargo(&[&["test", "--quiet", "--workspace", "--test", "it"], &filter[..]].concat()).run()
    })?;
    course.step("determinism, a second time", || {
        // The tests ran the set once, in another process: a run must not depend on anything but its seed.
        cargo(&["test", "--quiet", "--workspace", "--test", "it", "--", "determinism::"]).run()
    })?;
    course.step("symbols", || copies::check_all(&programs))?;
    course.step("the worked example of CONTRIBUTING.md", || {
        program(&[&*programs.path(Kind::Example, "roll_call")?.to_string_lossy()]).run()
    })?;
    course.step("torture, by seeds of this commit", || torture(&programs))?;
    course.step("torture, raft a hundred thousand times", || {
        programs.lab(&["torture", "raft", "--seeds", "0..100000"])?.run()
    })?;
    course.step("torture finds votes that are not saved", || {
        let line = ["torture", "raft", "--forget-votes", "--seeds", "0..10000", "--expect-violation"];
        programs.lab(&line)?.run()
    })?;
    course.step("torture finds every mistake in quorum leases", || {
        mutants::mutants(&programs, &mutants::QUICK)
    })?;
    course.step("the safety argument of quorum leases, by a solver", || prove::prove(root(), &[]))?;
    course.step("generated documentation", || docs::docs(root(), &programs, bless))?;
    course.step("documentation", || {
        cargo(&["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").run()
    })?;
    course.step("public API of the facade", facade::check)?;
    course.step("the default program, and the demo", || {
        let programs = Programs::build(&["build", "--release"])?;
        let path = programs.path(Kind::Binary, "suffrage")?;
        build::check_program(path)?;
        program(&[&path.to_string_lossy(), "demo", "--once"]).run()
    })?;
    course.end();
    Ok(())
}

/// Runs what needs neither root nor programs that a Rust toolchain does not have, nor long.
pub(crate) fn fast() -> Result<(), String> {
    let mut course = Course::new();
    style(&mut course, false)?;
    let left_out = NOT_FAST.iter().flat_map(|package| ["--exclude", package]);
    let packages: Vec<&str> = std::iter::once("--workspace").chain(left_out).collect();
    course.step("tests", || tests(&packages, false))?;
    println!("\nleft out: lints, tests of {} and of network faults, torture", NOT_FAST.join(", "));
    course.end();
    Ok(())
}

/// What is quick to check, first of all.
fn style(course: &mut Course, bless: bool) -> Result<(), String> {
    course.step("format", || {
        cargo(if bless { &["fmt", "--all"] } else { &["fmt", "--all", "--check"] }).run()
    })?;
    course.step("tidiness", || tidy::tidy(root()))
}

/// The tests of these packages, and what is tested in their documentation.
fn tests(packages: &[&str], bless: bool) -> Result<(), String> {
    let options = ["--", "--skip", NETWORK_FAULTS];
    cargo(&[&["test", "--quiet", "--no-fail-fast"], packages, &options].concat())
        .env("SUFFRAGE_BLESS", if bless { "1" } else { "0" })
        .env("RUST_TEST_THREADS", TEST_THREADS)
        .run()
}

/// Every commit tries seeds of its own, so that in time very many are tried.
fn torture(programs: &Programs) -> Result<(), String> {
    const SEEDS: u64 = 2_000;
    let commit = git(&["rev-parse", "HEAD"]).output().unwrap_or_default();
    // Without a repository around, the same seeds each time.
    let first = commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0) * SEEDS;
    programs.lab(&["torture", "all", "--seeds", &format!("{first}..{}", first + SEEDS)])?.run()
}
