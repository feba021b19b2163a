//! Tests of `suffrage-lab torture`.

use crate::support::{run, succeed};
use serde_json::Value;

#[test]
fn kept_promises_are_one_line_per_algorithm() {
    let out = succeed("suffrage-lab torture all --seeds 0..20");
    for contract in suffrage_algorithms::catalog::CONTRACTS {
        let line = out.lines().find(|line| line.starts_with(&format!("{} ", contract.name)));
        assert!(line.is_some_and(|line| line.ends_with("all promises kept")), "{}: {out}", contract.name);
    }
}

/// Bully in a network that loses messages, without the setting that its contract needs: a known violation.
const BREAKS: &str = "suffrage-lab torture bully --reaffirm off --seeds 0..200";

#[test]
fn a_broken_promise_comes_with_commands_that_break_it_again() {
    let ran = run(&format!("{BREAKS} --json"));
    assert_eq!(ran.code, 1);
    let reports: Value = serde_json::from_str(&ran.out).unwrap();
    let cases = reports[0]["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["violation"]["invariant"] == "agreement").unwrap();
    assert!(reports[0]["broken"]["agreement"].as_u64() > Some(0));
    for command in ["replay", "shrunk"] {
        let line = case[command].as_str().unwrap();
        let ran = run(&format!("{line} --strict --json"));
        let outcome: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(ran.code, 1, "{line}");
        let mut broken = outcome["violations"].as_array().unwrap().iter();
        assert!(broken.any(|violation| violation["invariant"] == "agreement"), "{line}");
    }
    let replayed = crate::support::json(case["replay"].as_str().unwrap());
    assert!(replayed["violations"].as_array().unwrap().contains(&case["violation"]));
    let [few, many] = [0, 1].map(|place| case["faults"][place].as_u64().unwrap());
    assert!(few < many, "{few} of {many}");
}

#[test]
fn the_report_names_seed_promise_and_replay() {
    let out = run(BREAKS).out;
    for part in ["agreement BROKEN in ", " with seed ", "replay  suffrage-lab simulate bully", "shrunk  to "]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn an_expected_violation_is_a_success_and_its_absence_is_not() {
    assert_eq!(run(&format!("{BREAKS} --expect-violation")).code, 0);
    assert_eq!(run("suffrage-lab torture bully --seeds 0..5 --expect-violation").code, 1);
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let json =
        |jobs| succeed(&format!("suffrage-lab torture collecting-ring --seeds 5..60 --json --jobs {jobs}"));
    assert_eq!(json(1), json(3));
}

#[test]
fn bad_input_is_one_sentence_that_names_the_flag() {
    for (flags, named) in [
        ("bully --seeds 5", "`5` is not a range of seeds like 0..1000"),
        ("bully --seeds 5..5", "the range 5..5 has no seed"),
        ("bully --nodes 0", "--nodes"),
        ("bully --repair none", "--repair"),
        ("chang-roberts --repair some", "--repair"),
        ("candidate-ordinary --candidates 8 --seeds 0..40", "--candidates"),
        ("nobody", "nobody"),
    ] {
        let ran = run(&format!("suffrage-lab torture {flags}"));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags}");
        assert!(ran.err.contains(named), "{flags}: {}", ran.err);
    }
}

/// The limit of work grows with the group, because detectors send from every process to every other.
#[test]
fn large_groups_stay_within_the_limit_of_work() {
    let out = succeed("suffrage-lab torture all --nodes 30 --seeds 0..2");
    assert!(!out.contains("BROKEN"), "{out}");
}

#[test]
fn all_algorithms_without_a_violation_fail_expect_violation() {
    assert_eq!(
        run("suffrage-lab torture all --seeds 0..1 --expect-violation").code,
        1,
        "no promise was broken"
    );
}
