//! The message counts of the sources, exactly.
//!
//! Messages are counted when sent, also to the dead; no loss; one time unit per message.

use std::sync::Arc;

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::candidate_ordinary::{self, CandidateOrdinary};
use suffrage_algorithms::catalog;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_algorithms::collecting_ring::CollectingRing;
use suffrage_algorithms::maximum_ring::MaximumRing;
use suffrage_algorithms::modified_bully::ModifiedBully;
use suffrage_algorithms::next_in_line::{self, NextInLine};
use suffrage_algorithms::raft::{self, Raft};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Detection, Electorate, NodeId, Roster, Span, Time};
use suffrage_sim::{Detector, Outcome, Scenario};

/// `nodes` processes, of which some are dead, and one calls an election.
fn call(nodes: usize, crashed: &[u64], caller: u64) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(nodes));
    scenario.crashed = crashed.iter().map(|&id| id as usize - 1).collect();
    scenario.initiators = vec![caller as usize - 1];
    scenario
}

fn run<A: Algorithm + 'static>(scenario: &Scenario) -> Outcome {
    run_with::<A>(scenario, &A::Options::default())
}

/// Runs until the world is quiet; if the leader goes on sending, until beliefs have settled.
fn run_with<A: Algorithm + 'static>(scenario: &Scenario, options: &A::Options) -> Outcome {
    let mut outcome = scenario.run::<A>(options);
    if A::CONTRACT.detection == Detection::Timeout {
        let until = Some(Time::ZERO + Span::from_units(outcome.decided));
        outcome = Scenario { until, ..scenario.clone() }.run::<A>(options);
    } else {
        assert!(outcome.quiet, "{} does not come to rest", A::CONTRACT.name);
    }
    assert_eq!(outcome.violations, [], "{}", A::CONTRACT.name);
    outcome
}

/// The number of messages of an election. A multicast counts once.
fn cost<A: Algorithm>(scenario: &Scenario) -> u64 {
    let messages = run::<A>(scenario).messages;
    messages.total + messages.multicasts
}

fn leader(outcome: &Outcome) -> u64 {
    outcome.leader.expect("all agree").0
}

/// cs425 slide 43: the lowest calls, the highest is dead.
#[test]
fn bully_worst_case_is_n_squared_minus_n_minus_one() {
    for n in 3..=50 {
        let outcome = run::<Bully>(&call(n as usize, &[n], 1));
        let messages = &outcome.messages;
        assert_eq!(messages.of("Election"), n * (n - 1) / 2);
        assert_eq!(messages.of("Answer"), (n - 1) * (n - 2) / 2);
        assert_eq!(messages.of("Coordinator"), n - 2);
        assert_eq!(messages.total, n * n - n - 1);
        assert_eq!(leader(&outcome), n - 1);
    }
    assert_eq!(run::<Bully>(&call(6, &[6], 1)).messages.total, 29);
}

/// cs425 slide 42: Election, Answer, Election, the time-out counted as one, Coordinator.
#[test]
fn bully_completes_within_five_message_times() {
    let outcome = run::<Bully>(&call(6, &[6], 1));
    let timeout = 3.0;
    // The second highest hears of the election after one message time, waits, and announces.
    assert_eq!(outcome.time, 1.0 + timeout + 1.0);
    assert!(outcome.time - timeout + 1.0 <= (Bully::CONTRACT.time.worst.of)(6) as f64);
}

/// unimore: "If the election is started by the highest ID process n-1 messages are enough".
#[test]
fn bully_called_by_the_highest_takes_n_minus_one() {
    for n in 2..=50 {
        let outcome = run::<Bully>(&call(n as usize, &[], n));
        assert_eq!((outcome.messages.total, outcome.time), (n - 1, 1.0));
    }
}

/// cs425 slide 43, best case: the second highest detects the leader's failure.
#[test]
fn bully_called_by_the_second_highest_who_knows_takes_n_minus_two_and_one_time_unit() {
    for n in 3..=50 {
        let mut scenario = call(n as usize, &[n], n - 1);
        scenario.detector = Detector::Ideal { delay: Span::ZERO };
        let outcome = run::<Bully>(&scenario);
        assert_eq!(outcome.messages.total, (Bully::CONTRACT.messages.best.of)(n));
        assert_eq!(outcome.time, (Bully::CONTRACT.time.best.of)(n) as f64);
        assert_eq!(leader(&outcome), n - 1);
    }
}

/// unimore: "started by the lowest ID process n(n-1) messages", announcements left out.
#[test]
fn bully_all_alive_called_by_the_lowest() {
    for n in 2..=50 {
        let outcome = run::<Bully>(&call(n as usize, &[], 1));
        let messages = &outcome.messages;
        assert_eq!(messages.of("Election") + messages.of("Answer"), n * (n - 1));
        assert_eq!(messages.of("Coordinator"), n - 1);
        assert_eq!(messages.total, (Bully::CONTRACT.messages.worst.of)(n));
        assert_eq!(leader(&outcome), n);
    }
}

/// Database Internals, Figure 10-1.
#[test]
fn modified_bully_takes_ten() {
    let outcome = run::<ModifiedBully>(&call(6, &[6], 3));
    assert_eq!((outcome.messages.total, leader(&outcome)), (10, 5));
    for n in 3..=50 {
        let outcome = run::<ModifiedBully>(&call(n as usize, &[n], 1));
        assert_eq!(outcome.messages.total, 3 * n - 4);
    }
}

/// Database Internals, Figure 10-2.
#[test]
fn next_in_line_takes_six() {
    let options = next_in_line::Options { alternatives: [NodeId(5), NodeId(4)].into(), ..Default::default() };
    let outcome = call(6, &[6], 3).run::<NextInLine>(&options);
    assert_eq!((outcome.messages.total, outcome.leader), (6, Some(NodeId(5))));
    assert_eq!(outcome.violations, []);
}

/// cs425 slides 23-26: the initiator is the ring successor of the would-be leader, or is it.
#[test]
fn chang_roberts_takes_3n_minus_1_at_worst_and_2n_at_best() {
    let cost = ChangRoberts::CONTRACT.messages;
    for n in (2..=60).chain([100, 317, 1000]) {
        let worst = run::<ChangRoberts>(&call(n as usize, &[], 1));
        assert_eq!(worst.messages.total, (cost.worst.of)(n));
        assert_eq!((worst.messages.total, worst.time), (3 * n - 1, (3 * n - 1) as f64));
        let best = run::<ChangRoberts>(&call(n as usize, &[], n));
        assert_eq!(best.messages.total, (cost.best.of)(n));
        assert_eq!((best.messages.total, best.time), (2 * n, (2 * n) as f64));
    }
}

/// cs425 slide 22: all processes end with 80.
#[test]
fn the_slides_ring_elects_80() {
    let ring = [3, 32, 5, 80, 6, 12].map(NodeId).to_vec();
    let mut scenario = Scenario::new(Roster::listed(ring).unwrap());
    scenario.initiators = vec![0];
    assert_eq!(leader(&run::<ChangRoberts>(&scenario)), 80);
    assert_eq!(leader(&run::<CollectingRing>(&scenario)), 80);
    assert_eq!(leader(&run::<MaximumRing>(&scenario)), 80);
}

/// unimore: "The complexity is always 2n", whoever calls.
#[test]
fn collecting_and_maximum_rings_take_2n() {
    for n in [2, 3, 6, 50, 200] {
        for caller in [1, n / 2, n] {
            let collecting = run::<CollectingRing>(&call(n as usize, &[], caller.max(1)));
            let maximum = run::<MaximumRing>(&call(n as usize, &[], caller.max(1)));
            for outcome in [collecting, maximum] {
                assert_eq!((outcome.messages.total, outcome.time), (2 * n, (2 * n) as f64));
                assert_eq!(leader(&outcome), n);
            }
        }
    }
}

/// Database Internals, Figure 10-5: 5 cannot reach 6, skips it, and is elected. The hop to the dead
/// is counted in both rounds, so that it is 2N again.
#[test]
fn figure_10_5_elects_5_with_6_skipped() {
    for outcome in [run::<CollectingRing>(&call(6, &[6], 3)), run::<MaximumRing>(&call(6, &[6], 3))] {
        assert_eq!(leader(&outcome), 5);
        assert_eq!(outcome.messages.total, 12);
    }
}

/// unimore: "OK to have two elections at once"; "both 2 and 1 elect 6".
#[test]
fn two_ring_elections_at_once_agree() {
    let mut scenario = call(6, &[], 1);
    scenario.initiators = vec![0, 1];
    for outcome in [run::<CollectingRing>(&scenario), run::<MaximumRing>(&scenario)] {
        assert_eq!((leader(&outcome), outcome.messages.total), (6, 2 * 12));
    }
    // Chang-Roberts suppresses the run of the lower initiator (cs425 slide 27).
    let outcome = run::<ChangRoberts>(&scenario);
    assert_eq!(leader(&outcome), 6);
    assert!(outcome.messages.total < 2 * 17, "{}", outcome.messages.total);
}

/// Database Internals, Figure 10-3: 4 asks the candidates that may be alive, they reply, it tells all.
#[test]
fn candidate_ordinary_asks_candidates_and_tells_everybody() {
    let candidates = Arc::new([1, 2, 6].map(NodeId).into());
    let options = candidate_ordinary::Options { candidates, ..Default::default() };
    let mut scenario = call(6, &[6], 4);
    scenario.detector = Detector::Ideal { delay: Span::ZERO };
    let outcome = scenario.run::<CandidateOrdinary>(&options);
    let messages = &outcome.messages;
    assert_eq!((messages.of("Election"), messages.of("Alive"), messages.of("Elected")), (2, 2, 5));
    assert_eq!((outcome.leader, outcome.violations), (Some(NodeId(2)), vec![]));
}

/// Ongaro and Ousterhout 2014, 5.2: each of the other servers is asked, answers, and hears a heartbeat; the
/// same question before it with pre-vote (Ongaro 2014, 9.6).
#[test]
fn raft_takes_five_messages_a_peer_and_three_without_pre_vote() {
    let plain = raft::Options { pre_vote: false, ..Default::default() };
    for n in 1..=50 {
        let outcome = run::<Raft>(&call(n as usize, &[], n));
        let messages = &outcome.messages;
        for kind in ["PreVote", "WouldVote", "RequestVote", "Vote", "Heartbeat"] {
            assert_eq!(messages.of(kind), n - 1, "{kind}");
        }
        assert_eq!((messages.total, leader(&outcome)), ((Raft::CONTRACT.messages.best.of)(n), n));
        let outcome = run_with::<Raft>(&call(n as usize, &[], n), &plain);
        assert_eq!((outcome.messages.total, leader(&outcome)), (3 * (n - 1), n));
        if n > 1 {
            assert_eq!(outcome.decided, 3.0);
            assert_eq!(
                run::<Raft>(&call(n as usize, &[], 1)).decided,
                (Raft::CONTRACT.time.best.of)(n) as f64
            );
        }
    }
}

/// Every cost a contract states holds for every caller, whether the best is alive, dead, or known to be
/// dead; and the worst case occurs, where it does not take luck.
#[test]
fn contracts_state_the_bounds_of_every_election_without_failures_on_the_way() {
    struct Bounds;
    impl Visitor for Bounds {
        type Output = ();
        fn visit<A: Algorithm>(self) {
            let contract = &A::CONTRACT;
            for n in [3, 4, 6, 11] {
                let (mut highest, mut lucky) = (0, false);
                for caller in 1..=n {
                    for (crashed, detector) in [
                        (vec![], Detector::None),
                        (vec![n], Detector::None),
                        (vec![n], Detector::Ideal { delay: Span::ZERO }),
                    ] {
                        // With a dead mediator, what elects with some probability may give up early.
                        if crashed.contains(&caller) || !contract.is_certain() && !crashed.is_empty() {
                            continue;
                        }
                        let mut scenario = call(n as usize, &crashed, caller);
                        scenario.detector = detector;
                        let total = cost::<A>(&scenario);
                        let again = |seed| cost::<A>(&Scenario { seed, ..scenario.clone() });
                        lucky |= (1..4).any(|seed| again(seed) != total);
                        // A ring that knows of a dead member is a ring of fewer.
                        let least = (contract.messages.best.of)(n - crashed.len() as u64);
                        let most = (contract.messages.worst.of)(n);
                        assert!((least..=most).contains(&total), "{} {n} {total}", contract.name);
                        highest = highest.max(total);
                    }
                }
                // The worst of a grid takes all of them calling at once: tests/grid_quorum.rs. That of a
                // random election takes bad luck, too.
                let hidden = lucky || contract.electorate == Electorate::Grid || !contract.is_certain();
                assert!(hidden || highest == (contract.messages.worst.of)(n), "{} {n}", contract.name);
            }
        }
    }
    for contract in catalog::CONTRACTS {
        catalog::visit(contract.name, Bounds).expect("it is in the catalog");
    }
}

/// cs425: "the result of an election should not depend on which process calls for it".
#[test]
fn the_result_does_not_depend_on_who_calls() {
    for callers in 1..64usize {
        let mut scenario = call(6, &[], 1);
        scenario.initiators = (0..6).filter(|slot| callers >> slot & 1 == 1).collect();
        assert_eq!(leader(&run::<Bully>(&scenario)), 6);
        assert_eq!(leader(&run::<ModifiedBully>(&scenario)), 6);
        assert_eq!(leader(&run::<NextInLine>(&scenario)), 6);
        assert_eq!(leader(&run::<CandidateOrdinary>(&scenario)), 6);
        assert_eq!(leader(&run::<ChangRoberts>(&scenario)), 6);
        assert_eq!(leader(&run::<CollectingRing>(&scenario)), 6);
        assert_eq!(leader(&run::<MaximumRing>(&scenario)), 6);
    }
}
