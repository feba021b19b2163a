//! Everything CI runs.

use std::time::Instant;

use crate::command::{cargo, git, suffrage};
use crate::{docs, mutants, root, tidy, tools};

/// A step's name and what it does.
type Step = (&'static str, fn(bool) -> Result<(), String>);

const STEPS: &[Step] = &[
    ("tools", |_| tools::ensure(tools::TESTS)),
    ("format", |bless| cargo(if bless { &["fmt", "--all"] } else { &["fmt", "--all", "--check"] }).run()),
    ("lints", |_| {
        cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
    }),
    ("tests", tests),
    ("documentation", |_| {
        cargo(&["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").run()
    }),
    ("determinism, a second time", |_| {
        // The tests ran the set once, in another process: a run must not depend on anything but its seed.
        // Of the whole workspace, since it is compiled in that way already.
        cargo(&["test", "--quiet", "--workspace", "--test", "determinism"]).run()
    }),
    ("the worked example of CONTRIBUTING.md", |_| {
        cargo(&["run", "--quiet", "--package", "election", "--example", "roll_call"]).run()
    }),
    ("torture, by seeds of this commit", |_| torture()),
    ("torture, raft a hundred thousand times", |_| {
        suffrage(&["torture", "raft", "--seeds", "0..100000"]).run()
    }),
    ("torture finds votes that are not saved", |_| {
        let line = ["torture", "raft", "--forget-votes", "--seeds", "0..10000", "--expect-violation"];
        suffrage(&line).run()
    }),
    ("torture finds every mistake in quorum leases", |_| mutants::mutants(&mutants::QUICK)),
    ("demo", |_| cargo(&["run", "--quiet", "--release", "--", "demo", "--once"]).run()),
    ("generated documentation", |bless| docs::docs(root(), bless)),
    ("tidiness", |_| tidy::tidy(root())),
];

pub(crate) fn test(bless: bool) -> Result<(), String> {
    let start = Instant::now();
    let mut times = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        step(bless).map_err(|reason| format!("{name}: {reason}"))?;
        times.push((name, start.elapsed().as_secs_f64()));
    }
    println!("\n== all is well");
    for (name, seconds) in times {
        println!("{seconds:7.1} s  {name}");
    }
    println!("{:7.1} s  together", start.elapsed().as_secs_f64());
    Ok(())
}

/// Every commit tries seeds of its own, so that in time very many are tried.
fn torture() -> Result<(), String> {
    const SEEDS: u64 = 2_000;
    let commit = git(&["rev-parse", "HEAD"]).output().unwrap_or_default();
    // Without a repository around, the same seeds each time.
    let first = commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0) * SEEDS;
    suffrage(&["torture", "all", "--seeds", &format!("{first}..{}", first + SEEDS)]).run()
}

/// With nextest where it is installed, because it runs all test programs side by side; otherwise
/// with what every toolchain has.
fn tests(bless: bool) -> Result<(), String> {
    let blessing = if bless { "1" } else { "0" };
    if cargo(&["nextest", "--version"]).works() {
        cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]).env("SUFFRAGE_BLESS", blessing).run()?;
        return cargo(&["test", "--quiet", "--workspace", "--doc"]).run();
    }
    cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"]).env("SUFFRAGE_BLESS", blessing).run()
}
