//! Section 5: mediators that fail, messages that are lost, contenders that crash.

use suffrage_algorithms::randomized::Options;
use suffrage_algorithms::randomized::options::{Mode, OnFailure, Rounds};
use suffrage_algorithms::randomized::rounds::sigma;
use suffrage_core::{Rng, Roster, Span, Time};
use suffrage_sim::{Fault, Latency, Scenario};

use crate::algorithms::randomized::synchronous::{end, summary};

/// A group in which each process but the first is dead from the start with probability `gamma`, and the first
/// `contenders` live processes contend.
fn failing(nodes: usize, gamma: f64, contenders: usize, seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0xdead);
    let mut scenario = Scenario::new(Roster::numbered(nodes));
    scenario.seed = seed;
    scenario.latency = Latency::Uniform(Span::ZERO, Span::UNIT);
    scenario.crashed = (1..nodes).filter(|_| rng.chance(gamma)).collect();
    let live = (0..nodes).filter(|slot| scenario.crashed.binary_search(slot).is_err());
    scenario.initiators = live.take(contenders).collect();
    scenario
}

/// ALGORITHMS.md: "Approach 2 (all positive) with one contender: P(no leader) = 1 - (1 - gamma)^(sum of
/// sigma_j)". 2,000 elections, five standard errors. In the second phase other mediators replace dead ones.
#[test]
fn one_contender_fails_with_its_mediators() {
    let (nodes, gamma, rounds, runs) = (400, 0.02, 5, 2_000);
    let asked: f64 = (1..=rounds).map(|round| sigma(nodes as u64, round).ceil()).sum();
    let due = 1.0 - libm::pow(1.0 - gamma, asked);
    for mode in [Mode::Sync, Mode::Async] {
        let options = Options { mode, rounds: Rounds::Fixed(rounds), ..Options::default() };
        let fails = |seed: &u64| summary(&end(&failing(nodes, gamma, 1, *seed), &options)).winners == 0;
        let share = (0..runs).filter(fails).count() as f64 / runs as f64;
        let error = 5.0 * (due * (1.0 - due) / runs as f64).sqrt();
        println!("{mode:?}: {share}, due {due} +- {error}");
        assert!((share - due).abs() < error, "{mode:?}: {share}, due {due} +- {error}");
    }
}

/// The second phase "needs to get a response from sqrt(n ln n)" live mediators: with a fifth of all processes dead, PQ
/// still elects one leader, by either approach.
#[test]
fn the_second_phase_replaces_dead_mediators() {
    for mode in [Mode::Sync, Mode::Async] {
        for on_failure in [OnFailure::AllPositive, OnFailure::NoNegative] {
            let options = Options { mode, on_failure, rounds: Rounds::Fixed(0), ..Options::default() };
            for seed in 0..20 {
                let world = end(&failing(300, 0.2, 30, seed), &options);
                assert_eq!(summary(&world).winners, 1, "{mode:?} {on_failure:?} seed {seed}");
            }
        }
    }
}

/// The first approach has more finalists than without failures, the second fewer: section 5.
#[test]
fn the_approaches_differ_as_the_paper_says() {
    for mode in [Mode::Sync, Mode::Async] {
        let finalists = |gamma, on_failure| -> usize {
            let options = Options { mode, on_failure, rounds: Rounds::Fixed(5), ..Options::default() };
            let run = |seed| summary(&end(&failing(1_000, gamma, 800, seed), &options)).finalists;
            (0..10).map(run).sum()
        };
        let sound = finalists(0.0, OnFailure::AllPositive);
        let strict = finalists(0.1, OnFailure::AllPositive);
        let lenient = finalists(0.1, OnFailure::NoNegative);
        println!("{mode:?}: {strict} < {sound} < {lenient}");
        assert!(strict < sound && sound < lenient, "{mode:?}: {strict} < {sound} < {lenient}");
    }
}

/// Contenders crash during the election, and messages are lost. In groups of nine, whose quorums always intersect, an
/// election never has two winners. But it often has none: the protocol does not retransmit, and contenders that were
/// beaten by one that crashes later do not try again.
#[test]
fn intersecting_quorums_never_have_two_winners_under_failures() {
    let options = Options { rounds: Rounds::Fixed(0), ..Options::default() };
    let mut winners = 0;
    for seed in 0..1_000 {
        let mut rng = Rng::new(seed);
        let mut scenario = failing(9, 0.1, 6, seed);
        scenario.loss = 0.1 * rng.unit();
        for slot in 0..6 {
            if rng.chance(0.3) {
                let at = Time::ZERO + Span::from_units(12.0 * rng.unit());
                scenario.plan.push((at, Fault::Crash(slot)));
            }
        }
        let won = summary(&end(&scenario, &options)).winners;
        assert!(won <= 1, "seed {seed}");
        winners += won;
    }
    println!("{winners} of 1,000 elections had a winner");
    assert!(winners > 200, "{winners}");
}

/// A dead leader is replaced if a detector reports it: the processes that believed in it contend in the next election.
#[test]
fn a_dead_leader_is_replaced() {
    let mut scenario = Scenario::new(Roster::numbered(200));
    scenario.initiators = vec![3];
    scenario.detector = suffrage_sim::Detector::Ideal { delay: Span::from_millis(2) };
    scenario.plan = vec![(Time::ZERO + Span::from_millis(60), Fault::CrashLeader)];
    for mode in [Mode::Sync, Mode::Async] {
        let outcome = scenario
            .run::<suffrage_algorithms::randomized::Randomized>(&Options { mode, ..Options::default() });
        assert_eq!((outcome.leaderships, outcome.agreed, outcome.undecided), (2, true, 0), "{mode:?}");
        assert_ne!(outcome.leader, Some(suffrage_core::NodeId(4)));
    }
}
