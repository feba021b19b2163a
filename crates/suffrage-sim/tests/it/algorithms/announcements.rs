//! The number of announcements of LE-A and LE-S (Schooler, Manohar, Chandy 2002), and the time they take.

use suffrage_algorithms::announce::Announce;
use suffrage_algorithms::soft_state::AnnouncementTiming;
use suffrage_algorithms::suppress::{Options, Suppress, Wake};
use suffrage_core::{NodeId, Roster, Span, Time};
use suffrage_sim::{Detector, Fault, Outcome, Ranking, Scenario};

/// A group that elects for the first time, and runs for this number of delays.
fn election(members: usize, seed: u64, delays: u64) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.ranking = Ranking::Random;
    scenario.until = Some(Time::ZERO + Span::from_millis(delays));
    scenario
}

/// LE-A: every process announces itself once; all know the leader after three message delays.
#[test]
fn announcement_takes_n_multicasts() {
    for n in [1, 2, 5, 50, 200] {
        let outcome = election(n, 7, 9).run::<Announce>(&AnnouncementTiming::default());
        assert_eq!((outcome.messages.multicasts, outcome.messages.total), (n as u64, 0));
        assert_eq!((outcome.leaderships, outcome.violations), (1, vec![]));
        assert_eq!(outcome.decided, if n == 1 { 0.0 } else { 3.0 });
    }
}

/// LE-S by rank: the best wakes first, and "nobody else needs to speak". The same after its crash.
#[test]
fn suppression_by_rank_takes_one_multicast() {
    let options = Options { wake: Wake::Rank, ..Default::default() };
    for n in [2, 5, 50, 200] {
        let outcome = election(n, 7, 9).run::<Suppress>(&options);
        assert_eq!((outcome.messages.multicasts, outcome.decided, outcome.leaderships), (1, 4.0, 1));
        // The leader repeats its announcement at 10 and crashes. The time-out expires at 11 + 35, and all follow the
        // next leader after its announcement and a round trip.
        let mut scenario = election(n, 7, 55);
        scenario.ranking = Ranking::Id;
        scenario.plan = vec![(Time::ZERO + Span::from_millis(15), Fault::Crash(n - 1))];
        let outcome = scenario.run::<Suppress>(&options);
        assert_eq!((outcome.messages.multicasts, outcome.leader), (3, Some(NodeId(n as u64 - 1))));
        assert_eq!(outcome.decided, 11.0 + 35.0 + if n == 2 { 3.0 } else { 4.0 });
    }
}

/// A suspected leader causes one election: its time-out does not cause another.
#[test]
fn a_suspicion_makes_one_election() {
    let mut scenario = Scenario::new(Roster::numbered(4));
    scenario.detector = Detector::Ideal { delay: Span::from_millis(2) };
    scenario.plan = vec![(Time::ZERO + Span::from_millis(20), Fault::Crash(3))];
    let by_rank = Options { wake: Wake::Rank, ..Default::default() };
    for outcome in [
        scenario.run::<Announce>(&AnnouncementTiming::default()),
        scenario.run::<Suppress>(&Options::default()),
        scenario.run::<Suppress>(&by_rank),
    ] {
        assert_eq!((outcome.leader, outcome.leaderships), (Some(NodeId(3)), 2), "{}", outcome.algorithm);
        assert!(outcome.decided < 40.0, "{}", outcome.algorithm);
    }
}

fn suppressed(members: usize, seed: u64, window: u64) -> Outcome {
    // No announcement is repeated before the end of the run.
    let options = Options { window, period: 1_000, timeout: 4_000, ..Default::default() };
    election(members, seed, window + 3).run::<Suppress>(&options)
}

/// The expected number of announcements. With u = d / W, a process with j - 1 better ones announces itself if none of
/// them woke more than d before it. It wakes within the first d of the window with probability u, and announces; or it
/// wakes at x, and none of them woke before x - d: the integral of (1 - x + u)^(j - 1) from u to 1.
fn expected(members: usize, window: u64) -> f64 {
    let u = 1.0 / window as f64;
    (1..=members as i32).map(|j| u + (1.0 - u.powi(j)) / f64::from(j)).sum()
}

/// Measured in 2,000 runs each, within five standard errors of the mean: wrong for one set of seeds in a million for
/// each of six settings; the seeds are fixed.
#[test]
fn suppression_takes_about_the_harmonic_number_of_multicasts() {
    for (members, window) in [(2, 10), (10, 10), (50, 10), (50, 100), (200, 10), (200, 1_000)] {
        let runs = 2_000;
        let counts: Vec<f64> = (0..runs)
            .map(|seed| {
                let outcome = suppressed(members, seed, window);
                assert!(outcome.agreed && outcome.leaderships == 1, "{members} {window} seed {seed}");
                outcome.messages.multicasts as f64
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / runs as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
        let (error, due) = ((variance / runs as f64).sqrt(), expected(members, window));
        println!("{members} members, window {window}: {mean:.3} measured, {due:.3} expected, +- {error:.3}");
        assert!((mean - due).abs() < 5.0 * error, "{members} {window}: {mean}, expected {due} +- {error}");
    }
}

/// For waits much longer than a message takes, the expectation is the harmonic number; LE-A takes N.
#[test]
fn the_formula_tends_to_the_harmonic_number() {
    let harmonic = |n: usize| (1..=n).map(|j| 1.0 / j as f64).sum::<f64>();
    for n in [1, 10, 1_000] {
        assert!((expected(n, 1_000_000_000) - harmonic(n)).abs() < 1e-5);
    }
    assert!((expected(50, 1) - 50.0).abs() < 1e-9, "a window of one delay suppresses nobody");
}
