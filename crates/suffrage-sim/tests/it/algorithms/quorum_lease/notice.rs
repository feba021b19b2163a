//! Hand-overs with a stop margin: no two applications work at the same moment.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Rng, Roster, Span};
use suffrage_lease::Bug;
use suffrage_sim::{Latency, Scenario};

use crate::algorithms::quorum_lease::storm_scenarios::time;
use crate::algorithms::seeds;

/// Leaders that are told to hand over again and again, for all reasons, while the network loses messages.
fn hand_overs(seed: u64) -> Scenario {
    let rng = &mut Rng::new(seed);
    let mut scenario = Scenario::new(Roster::numbered(5));
    scenario.seed = seed;
    scenario.drift = 0.01;
    scenario.loss = *rng.pick(&[0.0, 0.1]).expect("there are some");
    scenario.latency = Latency::Uniform(Span::ZERO, Span::UNIT);
    for number in 0..40 {
        let (at, slot, to) = (10 + number * 10 + rng.below(10), rng.below(5) as usize, 1 + rng.below(5));
        let command = match rng.below(8) {
            0 => "resign".to_string(),
            1 => format!("transfer {to}"),
            2 => "health off".to_string(),
            3 => "withdraw".to_string(),
            4 => "leave".to_string(),
            5 => "move".to_string(),
            6 => format!("move {to}"),
            _ => format!("rank {to}"),
        };
        scenario.commands.push((time(at), slot, command));
        for command in ["health on", "join in 1", "stand"] {
            scenario.commands.push((time(at + rng.below(15)), slot, command.to_string()));
        }
    }
    scenario.commands.sort_by_key(|(at, ..)| *at);
    scenario.until = Some(time(500));
    scenario
}

fn broken(seed: u64, bug: Option<Bug>) -> Vec<&'static str> {
    let options = Options {
        voters: 3,
        ttl: 24,
        renew: Some(6),
        failback: Some(20),
        stop_margin: 8,
        bug,
        ..Options::default()
    };
    let outcome = hand_overs(seed).run::<QuorumLease>(&options);
    // The run may end in the middle of a hand-over.
    let safety = |name: &&str| !["agreement", "termination"].contains(name);
    outcome.violations.iter().map(|it| it.invariant).filter(safety).collect()
}

#[test]
fn applications_never_work_at_the_same_moment() {
    for seed in 0..seeds() {
        let broken = broken(seed, None);
        assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    }
}

#[test]
fn a_release_without_notice_makes_two_applications_work() {
    for bug in [Bug::SkipNotice, Bug::LengthenAfterNotice] {
        let found =
            (0..1_000).filter(|&seed| broken(seed, Some(bug)).contains(&"at-most-one-leader")).count();
        println!("{bug:?}: {found} of 1000 runs have two leaders");
        assert!(found >= 50, "{bug:?}: {found}");
    }
}
