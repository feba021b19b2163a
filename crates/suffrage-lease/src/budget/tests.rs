//! The arithmetic alone. Simulated runs are compared with it in `tests/quorum_lease/budget.rs` of the simulator.

use super::*;

fn span(text: &str) -> Span {
    Span::parse_duration(text).unwrap()
}

fn timings(ttl: &str, renew: &str, rtt: &str, drift: &str) -> Timings {
    Timings::for_round_trip(span(ttl), span(renew), drift.parse().unwrap(), span(rtt))
}

fn deployment(rtt: &str, voters: usize, grace: &str) -> Deployment {
    Deployment { grace: span(grace), kill: span("100ms"), ..Deployment::new(span(rtt), voters) }
}

fn milliseconds(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}

/// Computed by hand for a ttl of 3 s, renewals every 1 s, a round trip of 5 ms, 1%, 500 ms and 100 ms.
#[test]
fn the_figures_of_the_example() {
    let budget = timings("3s", "1s", "5ms", "1%").budget(&deployment("5ms", 3, "500ms")).unwrap();
    // 3000 * 0.99 / 1.01.
    assert_eq!(milliseconds(budget.validity), 2_940);
    // 2.5 + 3000 / 0.99, then (7.5 + 480 + 15) / 0.99 and 6 * 2.5.
    assert_eq!(milliseconds(budget.crash), 3_032 + 507 + 15 + 1);
    // 8 * 2.5 and (15 + 15) / 0.99.
    assert_eq!(milliseconds(budget.release), 20 + 30);
    // (2940.5 - 1000 - 5.05) / 7.5, and the same with 600 less.
    assert_eq!((budget.lost_renewals, budget.lost_renewals_at_work), (258, 178));
    // (2940.5 - 1000 - 10.1) / 1.01, and the same with 600 less.
    assert_eq!((milliseconds(budget.pause), milliseconds(budget.pause_at_work)), (1_911, 1_317));
    assert_eq!((milliseconds(budget.lost_after), budget.notice), (2_340, span("600ms")));
    assert_eq!(milliseconds(budget.silence), 3_030);
    // 3000 (1 - d) / (1 + d) = 1000 + 7.5 + 600, so that d = (3000 - 1607.5) / (3000 + 1607.5).
    assert_eq!(budget.max_drift.to_string(), "30.2224%");
}

#[test]
fn a_single_voter_needs_no_other_voters() {
    let budget = timings("3s", "1s", "5ms", "0%").budget(&deployment("5ms", 1, "0s")).unwrap();
    assert_eq!((milliseconds(budget.crash), budget.release), (3_015, span("15ms")));
}

#[test]
fn each_rule_is_named() {
    let good = timings("3s", "1s", "5ms", "1%");
    let rules = |timings: Timings, grace: &str| -> Vec<&'static str> {
        timings.violations(&deployment("5ms", 3, grace)).iter().map(Violation::rule).collect()
    };
    assert_eq!(rules(good, "500ms"), [""; 0]);
    assert_eq!(rules(Timings { longest_ttl: span("2s"), ..good }, "0s"), ["ttl-refused"]);
    assert_eq!(rules(Timings { round: span("5ms"), ..good }, "0s"), ["round-too-short"]);
    assert_eq!(rules(Timings { gap: span("5ms"), ..good }, "0s"), ["gap-too-short"]);
    assert_eq!(rules(Timings { renew: span("7ms"), ..good }, "0s"), ["renew-too-often"]);
    assert_eq!(rules(Timings { renew: span("2.94s"), ..good }, "0s"), ["lease-too-short"]);
    assert_eq!(rules(Timings { renew: span("2.5s"), ..good }, "500ms"), ["no-time-to-stop"]);
    assert_eq!(rules(good, "5s"), ["no-time-to-stop"]);
    assert_eq!(rules(timings("5ms", "6ms", "5ms", "1%"), "0s"), ["renew-too-often", "lease-too-short"]);
}

/// A proposed remedy works, and a little less does not.
#[test]
fn the_remedies_of_violations_work_and_are_the_smallest() {
    let little = Span::from_millis(2);
    for (ttl, renew, rtt, drift, grace) in [
        ("3s", "2.95s", "5ms", "1%", "0s"),
        ("3s", "2.5s", "5ms", "1%", "500ms"),
        ("10s", "5s", "200ms", "10%", "4s"),
        ("1s", "600ms", "50ms", "20%", "0s"),
        ("100ms", "50ms", "80ms", "1%", "0s"),
    ] {
        let (timings, deployment) = (timings(ttl, renew, rtt, drift), deployment(rtt, 3, grace));
        let works = |timings: Timings, deployment: &Deployment| timings.violations(deployment).is_empty();
        let broken = timings.violations(&deployment);
        let last = *broken.last().expect("it does not work");
        let (max_renew, max_grace, min_ttl) = match last {
            Violation::LeaseTooShort { max_renew, min_ttl, .. } => (max_renew, None, min_ttl),
            Violation::NoTimeToStop { max_renew, max_grace, min_ttl, .. } => (max_renew, max_grace, min_ttl),
            other => panic!("{other}"),
        };
        let mut mends = 0;
        if let Some(renew) = max_renew {
            let deployment = match last {
                Violation::LeaseTooShort { .. } => Deployment::new(deployment.round_trip, 3),
                _ => deployment,
            };
            assert!(works(Timings { renew, ..timings }, &deployment), "{last}");
            assert!(!works(Timings { renew: renew + little, ..timings }, &deployment), "{last}");
            mends += 1;
        }
        if let Some(grace) = max_grace {
            assert!(works(timings, &Deployment { grace, ..deployment }), "{last}");
            assert!(!works(timings, &Deployment { grace: grace + little, ..deployment }), "{last}");
            mends += 1;
        }
        let longer = |ttl| {
            let renew = timings.renew.max(timings.round);
            Timings { ttl, longest_ttl: ttl, renew, ..timings }
        };
        let lenient = Deployment::new(deployment.round_trip, 3);
        let there = if max_grace.is_some() { &deployment } else { &lenient };
        assert!(works(longer(min_ttl), there), "{last}");
        assert!(!works(longer(min_ttl - little), there), "{last}");
        assert!(mends > 0 || ttl == "100ms", "{last}");
    }
}

#[test]
fn the_text_of_a_violation_has_the_numbers() {
    let broken = timings("3s", "2.9s", "5ms", "1%").violations(&deployment("5ms", 3, "500ms"));
    assert_eq!(
        broken[0].to_string(),
        "a lease of 3s is valid for 2.941s by its holder's clock, the last 600ms of which the work needs to \
         stop; a renewal every 2.9s leaves nothing for replies, and the leader waits 7.5ms for them; a renewal \
         every 2.333s, or a ttl of 3.579s, would do"
    );
}

#[test]
fn packets_are_per_peer_and_messages_per_election() {
    let timings = timings("3s", "1s", "5ms", "1%");
    let load = Load { names: 1, leaders: 1, waiting: 2, voters: 3 };
    let traffic = timings.traffic(&load);
    assert_eq!((traffic.renewals, traffic.packets), (6.0, 6.0));
    assert!((traffic.enquiries - 2.0 * 6.0 / 2.25).abs() < 1e-9);
    let traffic = timings.traffic(&Load { names: 100_000, ..load });
    assert_eq!(traffic.renewals, 600_000.0);
    assert_eq!(traffic.packets, (100_000.0 * 64.0 / 1_200.0_f64).ceil() * 6.0);
    let spread = timings.traffic(&Load { names: 100_000, leaders: 100_000, ..load });
    assert_eq!(spread.packets, spread.renewals, "nothing goes together");
}
