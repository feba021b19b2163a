//! `suffrage validate`: the calculator alone. `suffrage-lab` has the tests of its numbers.

use crate::{run, succeed};

#[test]
fn the_worst_cases_of_valid_timings_are_printed() {
    let text = succeed("suffrage validate --ttl 3s --renew 1s --rtt 5ms --drift 1% --stop-grace 500ms");
    assert!(text.contains("no leader for      3.555s at most after a crash of the leader"), "{text}");
    assert_eq!(run("suffrage validate --ttl 3s --renew 2.9s").code, 1);
    assert_eq!(run("suffrage validate --simulate").code, 2, "only the laboratory simulates");
}
