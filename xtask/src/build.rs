//! `cargo xtask bench build`: the build time and the size of the default program.
//!
//! The default program is built in an empty target folder, as by `cargo run --release -- demo`. The report of cargo
//! (`--timings`) has the seconds of every unit: a library, a build script, its run, or a program. Units of this
//! workspace count as ours, also the link of the program, which optimises all code again (thin LTO), including the
//! dependencies. All other units count as dependencies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::command::cargo;
use crate::programs::{Kind, Programs};
use crate::{copies, layout, root};

/// The greatest ratio of the compile time of our crates to that of the dependencies.
const MAX_RATIO: f64 = 1.0;
/// The greatest size of the default program in bytes.
const MAX_BYTES: u64 = 10_000_000;

/// The flags of a build whose programs have the names of their functions.
pub(crate) const KEEP_NAMES: [&str; 4] = [
    "--config",
    "profile.release.strip=false",
    "--config",
    "profile.release.package.suffrage-daemon.strip=false",
];

/// The seconds of a build.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seconds {
    ours: f64,
    dependencies: f64,
    /// The part of `ours` that compiles `main.rs` and links the program.
    link: f64,
    /// From the start of the first unit to the end of the last.
    elapsed: f64,
}

/// A target folder that is removed when dropped.
struct TargetFolder(PathBuf);

impl Drop for TargetFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Builds and measures. Returns an error if a target is missed.
pub(crate) fn bench(flags: &[&str]) -> Result<(), String> {
    let as_json = match flags {
        [] => false,
        ["--json"] => true,
        other => return Err(format!("unknown flags: {}", other.join(" "))),
    };
    let folder = TargetFolder(root().join(format!("target/bench-build-{}", std::process::id())));
    let target = folder.0.to_string_lossy();
    let fixed = ["build", "--release", "--locked", "--target-dir", &target];
    // Copies of functions are counted by their names, which the program of users does not have.
    let named = [&fixed[..], &KEEP_NAMES].concat();
    let programs = Programs::build(&[&named[..], &["--timings"]].concat())?;
    let program = programs.path(Kind::Binary, "suffrage")?.to_path_buf();
    let counts = copies::of_program(&program)?;
    let report = fs::read_to_string(folder.0.join("cargo-timings/cargo-timing.html"))
        .map_err(|error| format!("the timings report of cargo: {error}"))?;
    let seconds = seconds(&report, &members()?)?;
    // The build of the laboratory is not measured: most users do not build it.
    let laboratory = Programs::build(&[&named[..], &["--package", "suffrage-lab"]].concat())?;
    let laboratory = laboratory.path(Kind::Binary, "suffrage-lab")?.to_path_buf();
    let found = [counts, copies::of_program(&laboratory)?];
    let program = Programs::build(&fixed)?.path(Kind::Binary, "suffrage")?.to_path_buf();
    let bytes = fs::metadata(&program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    let mut missed = missed_targets(seconds, bytes);
    missed.extend(found.iter().flat_map(|counts| counts.errors.clone()));
    missed.extend(layout::check(&program).err());
    if as_json {
        println!("{:#}", report_json(seconds, bytes, &found, &missed));
    } else {
        print_report(seconds, bytes, &found);
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

fn missed_targets(seconds: Seconds, bytes: u64) -> Vec<String> {
    let mut missed = Vec::new();
    if seconds.ratio() > MAX_RATIO {
        missed.push(format!(
            "our crates take {:.2} of the time of the dependencies; at most {MAX_RATIO}",
            seconds.ratio()
        ));
    }
    if bytes > MAX_BYTES {
        missed.push(format!("the program has {bytes} bytes; at most {MAX_BYTES}"));
    }
    missed
}

fn print_report(seconds: Seconds, bytes: u64, found: &[copies::Counts]) {
    println!("fresh build of the default program, `cargo build --release`:");
    println!("{:9.1} s  from start to end", seconds.elapsed);
    println!("{:9.1} s  dependencies, sum of all units", seconds.dependencies);
    println!(
        "{:9.1} s  our crates, of which {:.1} s compile and link the program",
        seconds.ours, seconds.link
    );
    println!("{:9.2}    our crates / dependencies; at most {MAX_RATIO}", seconds.ratio());
    println!("{:9.2} MB the program; at most {} MB", bytes as f64 / 1e6, MAX_BYTES / 1_000_000);
    for counts in found {
        println!("{counts}");
    }
}

fn report_json(seconds: Seconds, bytes: u64, found: &[copies::Counts], missed: &[String]) -> Value {
    let symbols: Vec<Value> = found.iter().map(copies::Counts::json).collect();
    json!({
        "elapsed_seconds": seconds.elapsed,
        "dependencies_seconds": seconds.dependencies,
        "ours_seconds": seconds.ours,
        "link_seconds": seconds.link,
        "ratio": seconds.ratio(),
        "ratio_limit": MAX_RATIO,
        "program_bytes": bytes,
        "program_bytes_limit": MAX_BYTES,
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

/// Adds up the units in the report of cargo, an HTML page with a list of units in a script.
fn seconds(report: &str, ours: &[String]) -> Result<Seconds, String> {
    let (_, rest) =
        report.split_once("const UNIT_DATA = ").ok_or("the report of cargo has no list of units")?;
    let list = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next();
    let list = list.and_then(Result::ok).ok_or("the list of units of cargo is not JSON")?;
    let units = list.as_array().ok_or("the list of units of cargo is not a list")?;
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
        seconds.elapsed = seconds.elapsed.max(start + duration);
    }
    match seconds.ours > 0.0 && seconds.dependencies > 0.0 {
        true => Ok(seconds),
        false => Err(format!("cargo compiled nothing: {seconds:?}")),
    }
}

/// Checks the size of a built program and the places of its functions: the part of the benchmark that needs no fresh build.
pub(crate) fn check_program(program: &Path) -> Result<(), String> {
    let bytes = fs::metadata(program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    println!("{:.2} MB; at most {} MB", bytes as f64 / 1e6, MAX_BYTES / 1_000_000);
    let missed = missed_targets(Seconds { dependencies: 1.0, ..Seconds::default() }, bytes);
    if missed.is_empty() { layout::check(program) } else { Err(missed.join("\n")) }
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
    fn units_are_added_up_by_owner() {
        let seconds = seconds(REPORT, &ours()).unwrap();
        assert_eq!(seconds, Seconds { ours: 3.5, dependencies: 3.0, link: 2.0, elapsed: 6.0 });
        let missed = missed_targets(seconds, MAX_BYTES + 1);
        assert!(
            missed.len() == 2 && missed[0].contains("1.17") && missed[1].contains("10000001"),
            "{missed:?}"
        );
        assert!(missed_targets(Seconds { ours: 3.0, ..seconds }, MAX_BYTES).is_empty());
    }

    #[test]
    fn an_empty_report_is_an_error() {
        assert!(seconds("<html>", &ours()).unwrap_err().contains("no list of units"));
        assert!(seconds("const UNIT_DATA = nonsense", &ours()).unwrap_err().contains("not JSON"));
        assert!(seconds("const UNIT_DATA = [];", &ours()).unwrap_err().contains("compiled nothing"));
    }
}
