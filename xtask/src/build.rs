//! `cargo xtask bench build`: what a new user waits for, and what an operator installs.
//!
//! The default program is built afresh in a folder of its own, as `cargo run --release -- demo` would. Cargo's report
//! (`--timings`) tells the seconds of every unit: a library, a build script, the run of one, or a program. Units of
//! this workspace are ours, the last of them the program itself: to link it is to optimise all of it again (thin LTO),
//! dependencies included, and all of that counts as ours. Everything else is of the dependencies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::command::cargo;
use crate::programs::{Kind, Programs};
use crate::{copies, root};

/// The most that our crates may take, compared to the dependencies.
const RATIO: f64 = 1.0;
/// The most bytes of the default program.
const BYTES: u64 = 10_000_000;

/// Seconds that a build took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seconds {
    ours: f64,
    dependencies: f64,
    /// The part of ours that compiles `main.rs` and links the program.
    link: f64,
    /// From the start of the first unit to the end of the last.
    waiting: f64,
}

/// A target folder that is removed with the value.
struct TargetFolder(PathBuf);

impl Drop for TargetFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Builds and measures; an error if a target is missed.
pub(crate) fn bench(flags: &[&str]) -> Result<(), String> {
    let as_json = match flags {
        [] => false,
        ["--json"] => true,
        other => return Err(format!("unknown flags: {}", other.join(" "))),
    };
    let folder = TargetFolder(root().join(format!("target/bench-build-{}", std::process::id())));
    let place = folder.0.to_string_lossy();
    let fixed = ["build", "--release", "--locked", "--target-dir", &place];
    let programs = Programs::build(&[&fixed[..], &["--timings"]].concat())?;
    let program = programs.path(Kind::Binary, "suffrage")?.to_path_buf();
    let report = fs::read_to_string(folder.0.join("cargo-timings/cargo-timing.html"))
        .map_err(|error| format!("cargo's report of timings: {error}"))?;
    let seconds = seconds(&report, &members()?)?;
    let bytes = fs::metadata(&program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    // Not measured: nobody waits for the laboratory who does not want it.
    let laboratory = Programs::build(&[&fixed[..], &["--package", "suffrage-lab"]].concat())?;
    let laboratory = laboratory.path(Kind::Binary, "suffrage-lab")?.to_path_buf();
    let found = [copies::of_program(&program)?, copies::of_program(&laboratory)?];
    let mut missed = misses(seconds, bytes);
    missed.extend(found.iter().flat_map(|counts| counts.complaints.clone()));
    if as_json {
        println!("{:#}", report_json(seconds, bytes, &found, &missed));
    } else {
        print_report(seconds, bytes, &found);
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

fn misses(seconds: Seconds, bytes: u64) -> Vec<String> {
    let mut missed = Vec::new();
    if seconds.ratio() > RATIO {
        missed.push(format!(
            "our crates take {:.2} of the time of the dependencies; {RATIO} at most",
            seconds.ratio()
        ));
    }
    if bytes > BYTES {
        missed.push(format!("the program has {bytes} bytes; {BYTES} at most"));
    }
    missed
}

fn print_report(seconds: Seconds, bytes: u64, found: &[copies::Counts]) {
    println!("a fresh build of the default program, `cargo build --release`:");
    println!("{:9.1} s  from start to end", seconds.waiting);
    println!("{:9.1} s  dependencies, all units added up", seconds.dependencies);
    println!("{:9.1} s  our crates, {:.1} s of them the program and its link", seconds.ours, seconds.link);
    println!("{:9.2}    our crates / dependencies; {RATIO} at most", seconds.ratio());
    println!("{:9.2} MB the program; {} MB at most", bytes as f64 / 1e6, BYTES / 1_000_000);
    for counts in found {
        println!("{counts}");
    }
}

fn report_json(seconds: Seconds, bytes: u64, found: &[copies::Counts], missed: &[String]) -> Value {
    let symbols: Vec<Value> = found.iter().map(copies::Counts::json).collect();
    json!({
        "waiting_seconds": seconds.waiting,
        "dependencies_seconds": seconds.dependencies,
        "ours_seconds": seconds.ours,
        "link_seconds": seconds.link,
        "ratio": seconds.ratio(),
        "ratio_limit": RATIO,
        "program_bytes": bytes,
        "program_bytes_limit": BYTES,
        "symbols": symbols,
        "missed": missed,
    })
}

impl Seconds {
    fn ratio(&self) -> f64 {
        self.ours / self.dependencies
    }
}

/// The names of the packages of this workspace.
fn members() -> Result<Vec<String>, String> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter_map(|package| package["name"].as_str().map(str::to_string)).collect())
}

/// Adds up the units in cargo's report, which is a page with a list of them for its script.
fn seconds(report: &str, ours: &[String]) -> Result<Seconds, String> {
    let (_, rest) = report.split_once("const UNIT_DATA = ").ok_or("cargo's report has no list of units")?;
    let list = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next();
    let list = list.and_then(Result::ok).ok_or("cargo's list of units is not JSON")?;
    let units = list.as_array().ok_or("cargo's list of units is not a list")?;
    let mut seconds = Seconds::default();
    for unit in units {
        let number = |key: &str| unit[key].as_f64().ok_or_else(|| format!("a unit without {key}: {unit}"));
        let (start, duration) = (number("start")?, number("duration")?);
        let name = unit["name"].as_str().unwrap_or_default();
        if ours.iter().any(|member| member == name) {
            seconds.ours += duration;
            if unit["target"].as_str().is_some_and(|target| target.contains("bin")) {
                seconds.link += duration;
            }
        } else {
            seconds.dependencies += duration;
        }
        seconds.waiting = seconds.waiting.max(start + duration);
    }
    match seconds.ours > 0.0 && seconds.dependencies > 0.0 {
        true => Ok(seconds),
        false => Err(format!("cargo built nothing afresh: {seconds:?}")),
    }
}

/// Whether a program that is built already is small enough and holds nothing of the laboratory: the part of the
/// benchmark that needs no fresh build.
pub(crate) fn check_program(program: &Path) -> Result<(), String> {
    let bytes = fs::metadata(program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    let counts = copies::of_program(program)?;
    println!("{:.2} MB; {counts}", bytes as f64 / 1e6);
    let seconds = Seconds { dependencies: 1.0, ..Seconds::default() };
    let missed = [misses(seconds, bytes), counts.complaints].concat();
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<script>
DURATION = 9;
const UNIT_DATA = [
  {"i": 0, "name": "serde", "target": "", "start": 0.0, "duration": 2.5},
  {"i": 1, "name": "serde", "target": " build-script", "start": 0.0, "duration": 0.5},
  {"i": 2, "name": "suffrage-core", "target": "", "start": 2.5, "duration": 1.5},
  {"i": 3, "name": "suffrage-daemon", "target": " bin \"suffrage\"", "start": 4.0, "duration": 2.0}
];
const CONCURRENCY_DATA = [];
</script>"#;

    fn ours() -> Vec<String> {
        ["suffrage-core", "suffrage-daemon"].map(str::to_string).to_vec()
    }

    #[test]
    fn units_are_added_up_by_whose_they_are() {
        let seconds = seconds(REPORT, &ours()).unwrap();
        assert_eq!(seconds, Seconds { ours: 3.5, dependencies: 3.0, link: 2.0, waiting: 6.0 });
        let missed = misses(seconds, BYTES + 1);
        assert!(
            missed.len() == 2 && missed[0].contains("1.17") && missed[1].contains("10000001"),
            "{missed:?}"
        );
        assert!(misses(Seconds { ours: 3.0, ..seconds }, BYTES).is_empty());
    }

    #[test]
    fn a_report_that_says_nothing_is_an_error() {
        assert!(seconds("<html>", &ours()).unwrap_err().contains("no list of units"));
        assert!(seconds("const UNIT_DATA = nonsense", &ours()).unwrap_err().contains("not JSON"));
        assert!(seconds("const UNIT_DATA = [];", &ours()).unwrap_err().contains("nothing afresh"));
    }
}
