//! Tests of `suffrage-lab compare`.

use crate::support::{json, run, succeed};
use serde_json::Value;
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_sim::TRIALS;

fn rows(scenario: &Value) -> &[Value] {
    scenario["algorithms"].as_array().expect("a table has rows")
}

#[test]
fn every_table_has_a_row_for_every_contract() {
    let text = succeed("suffrage-lab compare --runs 2 --nodes 5");
    for trial in TRIALS {
        let table = text.split(&format!("\n{}\n", trial.name)).nth(1).expect("a table for every scenario");
        let table = table.split("\n  replay ").next().unwrap();
        assert!(table.contains(&trial.description[..30]) && table.contains("Time counts from"), "{table}");
        let names = table.lines().skip_while(|line| !line.starts_with("  ALGORITHM")).skip(1);
        let names: Vec<&str> = names.map(|line| line.split_whitespace().next().unwrap()).collect();
        assert!(CONTRACTS.iter().map(|contract| contract.name).eq(names), "{table}");
        let widths = table.lines().skip_while(|line| !line.starts_with("  ALGORITHM")).map(str::len);
        assert_eq!(widths.collect::<std::collections::BTreeSet<_>>().len(), 1, "{table}");
    }
    assert!(text.contains("2 runs of each (seeds 0 to 1)"), "{text}");
    let all = json("suffrage-lab compare --runs 2 --nodes 5");
    let names: Vec<&Value> =
        all["scenarios"].as_array().unwrap().iter().map(|table| &table["name"]).collect();
    assert_eq!(names, TRIALS.iter().map(|trial| trial.name).collect::<Vec<_>>());
}

#[test]
fn markdown_has_the_same_tables() {
    let text = succeed("suffrage-lab compare --runs 2 --nodes 5 --markdown");
    for trial in TRIALS {
        assert!(text.contains(&format!("\n## {}\n", trial.name)));
    }
    for contract in CONTRACTS {
        let rows: Vec<&str> =
            text.lines().filter(|line| line.starts_with(&format!("| `{}` |", contract.name))).collect();
        assert_eq!(rows.len(), TRIALS.len());
        let head = text.lines().find(|line| line.starts_with("| algorithm |")).expect("a table has a head");
        assert!(rows.iter().all(|row| row.matches('|').count() == head.matches('|').count()));
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let line = "suffrage-lab compare --runs 7 --nodes 6 --seed 3 --json --jobs";
    let [one, three] = [1, 3].map(|jobs| succeed(&format!("{line} {jobs}")));
    assert_eq!(one, three);
}

#[test]
fn a_row_does_not_depend_on_the_other_algorithms() {
    let all = json("suffrage-lab compare --runs 3 --scenario lossy");
    let alone = json("suffrage-lab compare --runs 3 --scenario lossy --algorithms chang-roberts");
    let row = |value: &Value| {
        let name = |row: &&Value| row["algorithm"] == "chang-roberts";
        rows(&value["scenarios"][0]).iter().find(name).expect("the algorithm has a row").clone()
    };
    assert_eq!(row(&all), row(&alone));
    assert_eq!(rows(&alone["scenarios"][0]).len(), 1);
}

/// Removes a flag and its value.
fn without(line: &str, flag: &str) -> String {
    let (before, rest) = line.split_once(&format!(" --{flag} ")).expect("the flag is there");
    format!("{before} {}", rest.split_once(' ').map_or("", |(_, rest)| rest))
}

/// The messages and bytes that a run of `simulate` sent.
fn sent(line: &str) -> [f64; 2] {
    let messages = &json(line)["messages"];
    let bytes = messages["bytes"].as_u64().expect("a single run is weighed");
    [messages["sent"].as_u64().unwrap() as f64, bytes as f64]
}

/// For every algorithm, the table counts the messages of the whole run of `simulate` minus those before the crash.
#[test]
fn the_table_of_a_crash_counts_the_same_messages_as_simulate() {
    let table = json("suffrage-lab compare --scenario leader-crash --runs 1 --seed 5");
    for row in rows(&table["scenarios"][0]) {
        let whole = row["replay"].as_str().expect("every row can be replayed");
        let crash = whole.split("--crash leader@").nth(1).unwrap().split(' ').next().unwrap();
        let before = without(&without(whole, "crash"), "until") + &format!(" --until {crash}");
        let ([all, all_bytes], [early, early_bytes]) = (sent(whole), sent(&before));
        assert_eq!(row["messages"]["mean"].as_f64(), Some(all - early), "{whole}");
        assert_eq!(row["bytes"]["mean"].as_f64(), Some(all_bytes - early_bytes), "{whole}");
        assert!(all_bytes > early_bytes && all > early, "{whole}");
    }
}

/// The replay of a row is the run that was measured, in every scenario and for every algorithm.
#[test]
fn a_replay_is_the_run_that_was_measured() {
    let tables = json("suffrage-lab compare --nodes 6 --runs 1 --seed 11");
    for table in tables["scenarios"].as_array().unwrap() {
        for row in rows(table) {
            let outcome = json(row["replay"].as_str().expect("every row can be replayed"));
            let hash = u64::from_str_radix(outcome["trace_hash"].as_str().unwrap(), 16).unwrap();
            let hash = format!("{:016x}", suffrage_core::Hash::new(0).word(hash));
            assert_eq!(row["trace_hash"], hash, "{} {}", table["name"], row["replay"]);
            assert_eq!(row["agreed"]["mean"] == 1.0, outcome["agreed"], "{}", row["replay"]);
        }
    }
    let line = tables["scenarios"][0]["replay"].as_str().unwrap();
    assert_eq!(json(line)["scenarios"][0], tables["scenarios"][0]);
}

/// Without a detector, an algorithm that needs one never replaces the leader, and the table shows that.
#[test]
fn runs_without_agreement_are_shown() {
    let line = "suffrage-lab compare --scenario leader-crash --algorithms bully --runs 3 --detector none";
    let table = json(line);
    let row = &rows(&table["scenarios"][0])[0];
    assert_eq!(row["agreed"]["mean"], 0.0);
    assert!(row["time_to_leader"].is_null() && row["time_to_first_agreement"].is_null());
    assert_eq!(
        (row["leaderless"]["mean"].as_f64(), row["agreement"]["mean"].as_f64()),
        (Some(680.0), Some(0.0))
    );
    let text = succeed(line);
    let shown: Vec<&str> =
        text.lines().find(|line| line.starts_with("  bully")).unwrap().split_whitespace().collect();
    assert_eq!(shown[1..5], ["0/3", "-", "-", "-"]);
    assert!(text.contains("--detector none"), "the line that repeats it");
}

/// Only algorithms that need a detector get the one of the command line.
#[test]
fn only_algorithms_that_need_a_detector_get_one() {
    let table = json("suffrage-lab compare --scenario leader-crash --runs 1 --detector ideal:5");
    for row in rows(&table["scenarios"][0]) {
        let contract = CONTRACTS.iter().find(|contract| row["algorithm"] == contract.name).unwrap();
        let detector = contract.detection == suffrage_core::Detection::Detector;
        assert_eq!(row["replay"].as_str().unwrap().contains("--detector ideal:5"), detector, "{row}");
    }
}

#[test]
fn bad_input_is_one_sentence_with_a_suggestion() {
    for (flags, message) in [
        ("--algorithms buly", "--algorithms: there is no algorithm `buly`; there are bully, "),
        ("--algorithms bully,bully", "--algorithms: `bully` is given twice"),
        ("--scenario leader", "--scenario: there is no scenario `leader`; there are leader-crash, "),
        ("--scenario lossy,lossy", "--scenario: `lossy` is given twice"),
        ("--nodes 1", "--nodes: `1` is not a number of processes from 2"),
        ("--nodes 1001", "--nodes"),
        ("--runs 0", "--runs"),
        ("--runs 1000001", "--runs"),
        ("--seed 18446744073709551615 --runs 2", "--seed"),
        ("--seed x", "--seed"),
        ("--jobs 0", "--jobs"),
        ("--detector perfect", "--detector"),
        ("--json --markdown", "cannot be combined with"),
        ("--scenarios all", "`--scenario`"),
        ("bully", "unexpected argument `bully`"),
    ] {
        let ran = run(&format!("suffrage-lab compare {flags}"));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags}");
        let lines: Vec<&str> = ran.err.lines().collect();
        assert!(lines[0].starts_with("error: ") && lines[0].contains(message), "{flags}: {}", ran.err);
        assert_eq!(lines[1..], ["hint: `suffrage-lab compare --help` explains every flag"]);
    }
}

#[test]
fn a_leader_can_be_named_leader() {
    let base = "suffrage-lab simulate bully --nodes 5 --detector ideal:2";
    let named = succeed(&format!("{base} --crash 5@20 --recover 5@40"));
    let leader = succeed(&format!("{base} --crash leader@20 --recover leader@40"));
    let result = |text: &str| text.split("replay").next().unwrap().to_string();
    assert_eq!(result(&named), result(&leader));
    for flags in ["--recover leader@40", "--crash leader@40 --recover leader@20"] {
        let ran = run(&format!("{base} {flags}"));
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("--recover: no leader has crashed before"), "{}", ran.err);
    }
}
