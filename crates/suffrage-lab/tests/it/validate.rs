//! Tests of `suffrage-lab validate`.

use crate::support::{json, run, succeed};

const EXAMPLE: &str = "suffrage-lab validate --ttl 3s --renew 1s --rtt 5ms --drift 1% --stop-grace 500ms";

#[test]
fn the_worst_cases_of_valid_timings_are_printed() {
    let text = succeed(EXAMPLE);
    for line in [
        "no leader for      3.555s at most after a crash of the leader",
        "50.303ms at most after a release of the lease",
        "lost() returns     2.341s after the request, 600ms before the end",
        "tolerated losses   258 renewals in a row without a reply, 178 before lost() returns",
        "tolerated pause    1.911s of the leader at any moment",
        "tolerated drift    30.2224%",
        "restarted voters   are silent for 3.03s at most",
        "6 messages of renewals",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(succeed("suffrage-lab validate"), text, "the example is the default");
    assert_eq!(succeed(&EXAMPLE.replace("1%", "10000ppm")), text);
}

#[test]
fn invalid_timings_are_refused_with_the_rule_and_a_remedy() {
    for (flags, rule, remedy) in [
        ("--ttl 3s --renew 2.9s", "no-time-to-stop", "a renewal every 2.333s, or a ttl of 3.579s, would do"),
        ("--ttl 3s --renew 2.95s --stop-grace 0s --kill 0s", "lease-too-short", "a renewal every 2.933s"),
        ("--renew 7ms", "renew-too-often", "a renewal every 7.5ms would do"),
        ("--stop-grace 2s", "no-time-to-stop", "a grace of 1.833s"),
        ("--ttl 3s --drift 40%", "no-time-to-stop", "a ttl of 3.751s"),
        ("--rtt 3s", "renew-too-often", "4.5s"),
    ] {
        let line = format!("suffrage-lab validate {flags}");
        let ran = run(&line);
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{line}");
        let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("{rule}: ")) && text.contains(remedy), "{line}\n{text}");
        let ran = run(&format!("{line} --json --simulate"));
        let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, &value["works"]), (1, &false.into()), "{line}");
        assert_eq!(value["broken"][0]["rule"], rule, "{line}");
    }
}

#[test]
fn invalid_flags_exit_with_2() {
    for (flags, message) in [
        ("--ttl 3", "--ttl: `3` is not a time like 3s, 500ms or 1m"),
        ("--ttl 25h", "--ttl: `25h` is more than a day"),
        ("--renew -1s", "--renew: `-1s` is not a time"),
        ("--rtt 0s", "--rtt: is zero; set it above zero"),
        ("--drift 1", "--drift: `1` has no unit: write 100% for the fraction 1, or 1%"),
        ("--drift 50%", "--drift"),
        ("--voters 0", "--voters"),
        ("--voters 65", "--voters"),
        ("--names 0", "--names"),
        ("--runs 0", "--runs"),
        ("--nodes 4", "--simulate"),
        ("--simulate --nodes 2", "--nodes: --voters 3 needs at least 3 processes"),
        ("--simulate --seed 18446744073709551615", "--seed"),
    ] {
        let ran = run(&format!("suffrage-lab validate {flags}"));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags}");
        assert!(
            ran.err.contains(message) && ran.err.contains("suffrage-lab validate --help"),
            "{flags}: {}",
            ran.err
        );
    }
}

#[test]
fn simulated_runs_stay_within_the_computed_bounds_and_depend_only_on_the_seed() {
    for flags in
        ["", "--voters 1", "--voters 2", "--voters 5 --nodes 5", "--ttl 200ms --renew 50ms --stop-grace 0s"]
    {
        let line = format!("suffrage-lab validate {flags} --simulate --runs 200");
        let text = succeed(&line);
        assert!(text.contains("seeds 0 to 199: no run took longer than computed"), "{text}");
        assert_eq!(succeed(&format!("{line} --jobs 1")), text, "{line}");
        assert_ne!(succeed(&format!("{line} --seed 7")), text, "{line}");
    }
}

#[test]
fn json_has_times_in_seconds() {
    let value = json(&format!("{EXAMPLE} --names 1000 --leaders 10 --voters 5 --simulate --runs 50"));
    assert_eq!((&value["works"], &value["ttl"]), (&true.into(), &3.0.into()));
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(number(&value["simulated"]["crash"]["max"]) <= number(&value["failover_after_crash"]));
    let per_second = &value["per_second"];
    assert_eq!((&per_second["renewal_messages"], &per_second["leaders"]), (&10_000.0.into(), &10.into()));
    // A hundred renewals of 64 bytes need six packets, from each of ten leaders to each of five voters and back.
    assert_eq!(per_second["renewal_packets"], 600.0);
}
