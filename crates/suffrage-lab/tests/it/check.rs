//! Tests of `suffrage-lab check`.

use crate::support::{json, run, succeed};

#[test]
fn the_split_brain_of_bully_is_found_and_shown_as_a_schedule() {
    let ran = run("suffrage-lab check bully");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    for part in [
        "BROKEN   never two leaders at once (promised only with bounded delays",
        "  1. 2 is told to call an election; it sends Election to 3",
        "  3. the timer Answer of 2 fires; it LEADS in term 1",
        "So 2 and 3 believe at the same time that they lead.",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    succeed("suffrage-lab check bully --expect-violation");
}

#[test]
fn bully_has_one_leader_in_a_synchronous_world() {
    let out = succeed("suffrage-lab check bully --synchronous");
    assert!(out.contains("held     never two leaders at once") && out.contains("Complete: "), "{out}");
    assert_eq!(run("suffrage-lab check bully --synchronous --expect-violation").code, 1);
}

#[test]
fn an_incomplete_search_is_reported() {
    assert!(succeed("suffrage-lab check ring --depth 4").contains("INCOMPLETE: there are longer schedules"));
    let out = succeed("suffrage-lab check chang-roberts --states 50");
    assert!(out.contains("INCOMPLETE: there are more states"), "{out}");
}

#[test]
fn a_report_is_plain_data() {
    let report = json("suffrage-lab check ring --candidates 1");
    assert_eq!((&report["algorithm"], &report["extent"]), (&"chang-roberts".into(), &"exhausted".into()));
    assert_eq!(report["bounds"]["nodes"], 3);
    assert!(report["states"].as_u64() > Some(50) && report["seconds"].is_f64());
    let first = &report["verdicts"][0];
    assert_eq!((&first["claim"], &first["outcome"]), (&"at-most-one-leader".into(), &"held".into()));
}

#[test]
fn a_bug_of_quorum_lease_is_found() {
    let out = succeed(
        "suffrage-lab check lease --nodes 3 --voters 1 --resigns 0 --transfers 0 --ticks 1 --bug skip-silence --expect-violation",
    );
    assert!(
        out.contains("1 crashes and restarts with its disk") && out.contains("So 2 and 3 believe"),
        "{out}"
    );
}

#[test]
fn the_voters_change_during_a_search() {
    let world = "suffrage-lab check lease --nodes 3 --voters 1 --start-state initial --resigns 0 --transfers 0 --candidates 0 --restarts 0 --before '1:voters adopt' --before '1:voters add 2' --before '3:campaign' --command '1:voters remove 1' --command '2:campaign'";
    let out = succeed(&format!("{world} --ticks 3"));
    for part in [
        "after the commands `1:voters adopt`, `1:voters add 2`, `3:campaign`",
        "with the commands `1:voters remove 1`, `2:campaign`",
        "held     never two leaders at once",
        "seen     a process is elected after all commands",
        "Complete: ",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let broken = succeed(&format!("{world} --bug old-version-votes --expect-violation"));
    assert!(broken.contains("1 gets the command `voters remove 1`; it sends"), "{broken}");
    let report = json(&format!("{world} --ticks 0"));
    assert_eq!(report["bounds"]["commands"], serde_json::json!(["1:voters remove 1", "2:campaign"]));
}

/// `--candidates` says who campaigns in the world. The voter still stands: it leads before the search.
#[test]
fn the_number_of_candidates_is_not_the_option_of_the_algorithm() {
    let out = succeed(
        "suffrage-lab check lease --nodes 2 --voters 1 --start-state initial --resigns 0 --transfers 0 --candidates 1 --ticks 3 --before '1:voters adopt' --before '1:campaign' --before '1:voters add 2' --command '1:voters remove 1'",
    );
    assert!(out.contains("seen     some process leads, after 0 steps"), "{out}");
    assert!(out.contains("seen     leadership passes from one process to another"), "{out}");
}

#[test]
fn invalid_flags_are_named() {
    for (flags, part) in [
        ("dictatorship", "`suffrage-lab check` does not explore an algorithm `dictatorship`"),
        ("gupta", "an algorithm `gupta`; `suffrage-lab check --help` lists those that it does"),
        ("bullly", "an algorithm `bullly`; did you mean `bully`?"),
        ("bully --nodes 10", "--nodes: `10` is not a number of processes from 1 to 9"),
        ("bully --candidates 4", "--candidates: there are only 3 processes"),
        ("bully --ticks 3", "--ticks: applies only with true time; add --synchronous"),
        ("bully --synchronous --drift 10%", "--drift"),
        ("bully --synchronous --tick 0", "--tick"),
        ("bully --start-state late", "--start-state"),
        ("quorum-lease --rates some", "--rates"),
        ("quorum-lease --ttl 5", "--ttl"),
        ("raft --timers 300", "--timers"),
        ("lease --before 1", "--before: `1` does not have the form 1:resign"),
        ("lease --command '7:voters adopt'", "--command: there is no process 7"),
        ("lease --command '1:voters elect'", "--command: `voters elect` is not a command"),
        ("bully --before '1:voters adopt'", "--before"),
    ] {
        let ran = run(&format!("suffrage-lab check {flags}"));
        assert_eq!((ran.code, ran.err.contains(part)), (2, true), "{flags}: {}", ran.err);
    }
}
