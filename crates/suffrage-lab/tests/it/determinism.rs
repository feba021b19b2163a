//! The seed determines a run: a committed set of runs has the same trace hashes on every machine, in every version,
//! and with any number of jobs.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{HOW_TO_BLESS, blessing, difference, json, path};

const HASHES: &str = "crates/suffrage-lab/tests/it/trace-hashes.txt";

fn trace_hash(command: &str, jobs: usize) -> String {
    let result = json(&format!("{command} --jobs {jobs}"));
    result["trace_hash"].as_str().expect("every result has its trace hash").to_string()
}

#[test]
fn trace_hashes_are_as_committed_for_any_number_of_jobs() {
    let text = fs::read_to_string(path(HASHES)).unwrap();
    let mut fresh = String::new();
    for line in text.lines() {
        let Some((_, command)) = line.split_once("suffrage-lab ") else {
            fresh += &format!("{line}\n");
            continue;
        };
        let command = format!("suffrage-lab {command}");
        let hash = trace_hash(&command, 1);
        assert_eq!(hash, trace_hash(&command, 3), "--jobs matters: {command}");
        fresh += &format!("{hash}  {command}\n");
    }
    if fresh == text {
        return;
    }
    if blessing() {
        return fs::write(path(HASHES), fresh).unwrap();
    }
    panic!("\n{HASHES}\n{}{HOW_TO_BLESS}\n", difference(&text, &fresh));
}

#[test]
fn every_algorithm_is_in_the_set() {
    let text = fs::read_to_string(path(HASHES)).unwrap();
    for contract in suffrage_algorithms::catalog::CONTRACTS {
        let command = format!("suffrage-lab simulate {} ", contract.name);
        assert!(text.matches(&command).count() >= 2, "{}", contract.name);
    }
}

/// The trace hash depends on the run.
#[test]
fn what_changes_a_run_changes_its_hash() {
    let changes = ["", "--seed 1", "--loss 0.3", "--crash 5@1", "--initiator 2", "--nodes 6"];
    let run =
        |change| trace_hash(&format!("suffrage-lab simulate bully --latency uniform:0.5,1.5 {change}"), 1);
    let hashes: BTreeSet<String> = changes.into_iter().map(run).collect();
    assert_eq!(hashes.len(), changes.len());
}
