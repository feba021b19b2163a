//! Checks that the torture of quorum leases finds every deliberate bug, and no violation without a bug.

use std::ops::Range;

use serde_json::Value;
use suffrage_lease::Bug;

use crate::programs::Programs;

/// Clocks that drift far beyond the bound: a violated assumption instead of a bug.
const DRIFT: (&str, &[&str]) = ("drift-beyond-bound", &["--drift", "30%"]);

/// Bugs in changes of the voters, which only runs that change the voters find. The model checker finds each of them in a
/// small world too, in the tests of `suffrage-check`.
const OF_CHANGES: &[&str] = &[
    "skip-drain",
    "change-while-silent",
    "drop-grants",
    "old-version-votes",
    "mix-versions",
    "forget-floor",
    "blind-coordinator",
];

/// Bugs that about one run in a thousand finds, and by how many more seeds than the others.
const RARE: (&[&str], u64) = (&["change-while-silent", "mix-versions"], 4);

/// The numbers of seeds.
pub(crate) struct Effort {
    /// With each bug, at first. If these find it, no more are tried.
    first: u64,
    /// With each bug.
    with_bug: u64,
    /// Without a bug.
    without_bug: u64,
}

/// Enough to find every bug.
pub(crate) const QUICK: Effort = Effort { first: 200, with_bug: 2_000, without_bug: 5_000 };
/// Enough to estimate how often each bug is found.
pub(crate) const FULL: Effort = Effort { first: 0, with_bug: 20_000, without_bug: 200_000 };

/// The result of one bug.
struct Row {
    name: String,
    seeds: u64,
    /// The number of runs that broke a promise.
    found: u64,
    /// The broken promises with their numbers of runs.
    broken: String,
    /// The seed of the first of those runs, and its shrunk command.
    first: Option<(u64, String)>,
}

/// Tortures the protocol with every deliberate bug, and without a bug.
pub(crate) fn mutants(programs: &Programs, effort: &Effort) -> Result<(), String> {
    let without_bug = torture(programs, "none", &[], 0..effort.without_bug)?;
    let mut rows = Vec::new();
    for (name, _) in Bug::ALL {
        let seeds = effort.with_bug * if RARE.0.contains(&name) { RARE.1 } else { 1 };
        let (bug, changes) = (["--bug", name], ["--changes", "on"]);
        let changes = if OF_CHANGES.contains(&name) { &changes[..] } else { &[] };
        rows.push(search(programs, name, &[&bug, changes].concat(), effort.first, seeds)?);
    }
    rows.push(search(programs, DRIFT.0, DRIFT.1, effort.first, effort.with_bug)?);
    println!(
        "{:<20} {:>8} {:>8} {:>10}  broken promises, with the number of runs",
        "bug", "seeds", "found in", "first seed"
    );
    for row in std::iter::once(&without_bug).chain(&rows) {
        let first = row.first.as_ref().map_or("-".to_string(), |(seed, _)| seed.to_string());
        println!("{:<20} {:>8} {:>8} {first:>10}  {}", row.name, row.seeds, row.found, row.broken);
    }
    println!();
    for row in std::iter::once(&without_bug).chain(&rows) {
        if let Some((_, replay)) = &row.first {
            println!("{}:\n  {replay}", row.name);
        }
    }
    verdict(&without_bug, &rows)
}

fn verdict(without_bug: &Row, rows: &[Row]) -> Result<(), String> {
    let missed: Vec<&str> = rows.iter().filter(|row| row.found == 0).map(|row| row.name.as_str()).collect();
    match (without_bug.found, missed.as_slice()) {
        (0, []) => Ok(()),
        (0, missed) => Err(format!("the torture does not find {}", missed.join(", "))),
        (runs, _) => Err(format!("{runs} runs without a bug break a promise")),
    }
}

/// Tortures with the first seeds, and with the others if those do not find the bug.
fn search(programs: &Programs, name: &str, flags: &[&str], first: u64, seeds: u64) -> Result<Row, String> {
    if first > 0 {
        let row = torture(programs, name, flags, 0..first)?;
        if row.found > 0 {
            return Ok(row);
        }
    }
    torture(programs, name, flags, first..seeds)
}

fn torture(programs: &Programs, name: &str, flags: &[&str], seeds: Range<u64>) -> Result<Row, String> {
    let range = format!("{}..{}", seeds.start, seeds.end);
    let line = ["torture", "quorum-lease", "--json", "--seeds", &range];
    let output = programs.lab(&[&line, flags].concat())?.printed()?;
    let reports: Value = serde_json::from_str(&output).map_err(|error| format!("{name}: {error}"))?;
    row(name, seeds.end, &reports[0]).ok_or_else(|| format!("{name}: the report lacks a field: {output}"))
}

fn row(name: &str, seeds: u64, report: &Value) -> Option<Row> {
    let broken = report["broken"].as_object()?.iter();
    let broken: Vec<String> = broken.map(|(promise, count)| format!("{promise} {count}")).collect();
    let cases = report["cases"].as_array()?.iter();
    let cases = cases.map(|case| Some((case["seed"].as_u64()?, case["shrunk"].as_str()?.to_string())));
    let first = cases.collect::<Option<Vec<_>>>()?.into_iter().min();
    let found = report["violating_runs"].as_u64()?;
    Some(Row { name: name.to_string(), seeds, found, broken: broken.join(", "), first })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::root;

    fn found(count: u64) -> Row {
        Row { name: format!("x{count}"), seeds: 9, found: count, broken: String::new(), first: None }
    }

    #[test]
    fn a_missed_bug_and_a_violation_without_a_bug_are_failures() {
        assert_eq!(verdict(&found(0), &[found(1), found(2)]), Ok(()));
        assert!(verdict(&found(0), &[found(1), found(0)]).unwrap_err().contains("does not find x0"));
        assert!(verdict(&found(3), &[found(1)]).unwrap_err().contains("3 runs without a bug"));
    }

    #[test]
    fn the_model_checker_has_a_world_for_every_bug_of_changes() {
        let worlds = fs::read_to_string(root().join("crates/suffrage-check/tests/it/changes.rs")).unwrap();
        for name in OF_CHANGES {
            assert!(Bug::ALL.iter().any(|(known, _)| known == name), "{name}");
            assert!(worlds.contains(&format!("\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn the_first_run_has_the_smallest_seed() {
        let text = r#"{"violating_runs": 3, "broken": {"a": 2, "b": 1}, "cases": [
            {"seed": 7, "shrunk": "x"}, {"seed": 5, "shrunk": "y"}]}"#;
        let row = row("z", 10, &serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((row.found, row.broken.as_str(), row.first), (3, "a 2, b 1", Some((5, "y".to_string()))));
        assert!(super::row("z", 10, &Value::Null).is_none());
    }
}
