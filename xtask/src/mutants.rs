//! Whether the torture of quorum leases finds every mistake that can be made in them on purpose, and accuses
//! nobody else.

use serde_json::Value;
use suffrage_lease::Bug;

use crate::programs::Programs;

/// Clocks that drift far beyond the bound: it is not the protocol that is mistaken then, but what it assumes.
const DRIFT: (&str, &[&str]) = ("drift-beyond-bound", &["--drift", "0.3"]);

/// How many seeds are tried.
pub(crate) struct Effort {
    /// With each mistake.
    mistaken: u64,
    /// Without any.
    healthy: u64,
}

/// Enough for every day.
pub(crate) const QUICK: Effort = Effort { mistaken: 2_000, healthy: 5_000 };
/// Enough to tell how often each is found.
pub(crate) const FULL: Effort = Effort { mistaken: 20_000, healthy: 200_000 };

/// What came of torturing one mutant.
struct Row {
    name: String,
    seeds: u64,
    /// In how many of the runs a promise was broken.
    found: u64,
    /// Which promises, and in how many runs.
    broken: String,
    /// The first of those runs, and the command that does it again with as little as possible.
    first: Option<(u64, String)>,
}

/// Tortures the protocol with every deliberate mistake, and without.
pub(crate) fn mutants(programs: &Programs, effort: &Effort) -> Result<(), String> {
    let healthy = torture(programs, "none", &[], effort.healthy)?;
    let mut rows = Vec::new();
    for (name, _) in Bug::ALL {
        rows.push(torture(programs, name, &["--bug", name], effort.mistaken)?);
    }
    rows.push(torture(programs, DRIFT.0, DRIFT.1, effort.mistaken)?);
    println!(
        "{:<20} {:>8} {:>8} {:>10}  promises broken, and in how many runs",
        "mistake", "seeds", "found in", "first seed"
    );
    for row in std::iter::once(&healthy).chain(&rows) {
        let first = row.first.as_ref().map_or("-".to_string(), |(seed, _)| seed.to_string());
        println!("{:<20} {:>8} {:>8} {first:>10}  {}", row.name, row.seeds, row.found, row.broken);
    }
    println!();
    for row in std::iter::once(&healthy).chain(&rows) {
        if let Some((_, replay)) = &row.first {
            println!("{}:\n  {replay}", row.name);
        }
    }
    verdict(&healthy, &rows)
}

fn verdict(healthy: &Row, rows: &[Row]) -> Result<(), String> {
    let missed: Vec<&str> = rows.iter().filter(|row| row.found == 0).map(|row| row.name.as_str()).collect();
    match (healthy.found, missed.as_slice()) {
        (0, []) => Ok(()),
        (0, missed) => Err(format!("the torture does not find {}", missed.join(", "))),
        (accused, _) => Err(format!("the protocol without a mistake is accused in {accused} runs")),
    }
}

fn torture(programs: &Programs, name: &str, flags: &[&str], seeds: u64) -> Result<Row, String> {
    let range = format!("0..{seeds}");
    let line = ["torture", "quorum-lease", "--json", "--seeds", &range];
    let output = programs.lab(&[&line, flags].concat())?.printed()?;
    let reports: Value = serde_json::from_str(&output).map_err(|error| format!("{name}: {error}"))?;
    row(name, seeds, &reports[0]).ok_or_else(|| format!("{name}: the report lacks something: {output}"))
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
    use super::*;

    fn found(count: u64) -> Row {
        Row { name: format!("x{count}"), seeds: 9, found: count, broken: String::new(), first: None }
    }

    #[test]
    fn a_mistake_that_is_missed_and_an_accusation_of_the_healthy_are_failures() {
        assert_eq!(verdict(&found(0), &[found(1), found(2)]), Ok(()));
        assert!(verdict(&found(0), &[found(1), found(0)]).unwrap_err().contains("does not find x0"));
        assert!(verdict(&found(3), &[found(1)]).unwrap_err().contains("accused in 3 runs"));
    }

    #[test]
    fn the_first_run_is_that_of_the_smallest_seed() {
        let text = r#"{"violating_runs": 3, "broken": {"a": 2, "b": 1}, "cases": [
            {"seed": 7, "shrunk": "x"}, {"seed": 5, "shrunk": "y"}]}"#;
        let row = row("z", 10, &serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((row.found, row.broken.as_str(), row.first), (3, "a 2, b 1", Some((5, "y".to_string()))));
        assert!(super::row("z", 10, &Value::Null).is_none());
    }
}
