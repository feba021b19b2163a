//! Each deliberate bug is found by the same storms that the correct code passes.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Command, Rng, Roster, Span};
use suffrage_lease::Bug;
use suffrage_sim::invariants::Stability;
use suffrage_sim::{Fault, Scenario};

use crate::algorithms::quorum_lease::storm_scenarios::{storm_scenario, time};
use crate::algorithms::seeds;

/// The number of 2,000 storms that violate a promise, and the promises.
fn found(bug: Bug) -> (usize, Vec<&'static str>) {
    let mut broken = Vec::new();
    let mut count = 0;
    for seed in 0..2_000 {
        let (scenario, options) = storm_scenario(seed);
        let outcome = scenario.run::<QuorumLease>(&Options { bug: Some(bug), ..options });
        let safety = |name: &&str| !["agreement", "termination"].contains(name);
        let names: Vec<_> = outcome.violations.iter().map(|it| it.invariant).filter(safety).collect();
        count += usize::from(!names.is_empty());
        broken.extend(names);
    }
    broken.sort_unstable();
    broken.dedup();
    println!("{bug:?}: {count} of 2000 storms break {broken:?}");
    (count, broken)
}

#[test]
fn skipping_the_silence_after_a_restart_makes_two_leaders() {
    let (count, broken) = found(Bug::SkipSilence);
    assert!(count >= 5 && broken.contains(&"at-most-one-leader"), "{count} {broken:?}");
}

#[test]
fn counting_a_lease_from_the_answers_makes_two_leaders() {
    let (count, broken) = found(Bug::ValidityFromReply);
    assert!(count >= 5 && broken.contains(&"at-most-one-leader"), "{count} {broken:?}");
}

#[test]
fn promising_a_token_twice_makes_two_leaders_with_it() {
    let (count, broken) = found(Bug::EqualTokens);
    assert!(count >= 5 && broken.contains(&"token-increases"), "{count} {broken:?}");
    assert!(broken.contains(&"fenced-register"), "{broken:?}");
}

#[test]
fn forgetting_the_ceiling_lets_tokens_go_backwards() {
    let (count, broken) = found(Bug::ForgetCeiling);
    assert!(count >= 5 && broken.contains(&"token-increases"), "{count} {broken:?}");
}

/// The same storms, but some disks are lost. The group may lose its majority of voters for good, so liveness is not
/// checked; safety is.
fn with_lost_disks(seed: u64, bug: Option<Bug>) -> Vec<&'static str> {
    let (mut scenario, options) = storm_scenario(seed);
    let rng = &mut Rng::new(!seed);
    for (_, fault) in &mut scenario.plan {
        if let Fault::Recover { disk, .. } = fault {
            *disk = rng.chance(0.7);
        }
    }
    let outcome = scenario.run::<QuorumLease>(&Options { bug, ..options });
    let names = outcome.violations.iter().map(|it| it.invariant);
    names.filter(|name| !["agreement", "termination"].contains(name)).collect()
}

#[test]
fn a_lost_disk_costs_a_voter_and_never_safety() {
    for seed in 0..seeds() {
        assert_eq!(with_lost_disks(seed, None), [""; 0], "seed {seed}");
    }
}

/// "A voter that lost its disk must not come back under its old identity: it could let a token go backwards."
#[test]
fn a_voter_that_comes_back_without_its_disk_lets_tokens_go_backwards_and_makes_two_leaders() {
    let broken: Vec<_> = (0..2_000).map(|seed| with_lost_disks(seed, Some(Bug::TrustEmptyDisk))).collect();
    let count = |name| broken.iter().filter(|names| names.contains(&name)).count();
    let (tokens, leaders) = (count("token-increases"), count("at-most-one-leader"));
    println!("TrustEmptyDisk: of 2000 storms {tokens} let tokens go backwards, {leaders} make two leaders");
    assert!(tokens >= 5 && leaders >= 5, "{tokens} {leaders}");
}

/// The same storms, but saves take up to two leases. A crash during a save may lose it.
fn with_slow_disks(seed: u64, bug: Option<Bug>) -> Vec<&'static str> {
    let (mut scenario, options) = storm_scenario(seed);
    let longest = Span::from_units(Rng::new(!seed).unit() * 60.0);
    scenario.plan.push((time(0), Fault::SlowDisk(longest)));
    // The last save ends after the storm.
    scenario.until = scenario.until.map(|until| until + longest * 2);
    let outcome = scenario.run::<QuorumLease>(&Options { bug, ..options });
    outcome.violations.iter().map(|it| it.invariant).collect()
}

#[test]
fn slow_disks_cost_time_and_never_safety() {
    for seed in 0..seeds() {
        assert_eq!(with_slow_disks(seed, None), [""; 0], "seed {seed}");
    }
}

#[test]
fn replying_before_the_save_makes_two_leaders_and_lets_tokens_go_backwards() {
    let broken: Vec<_> = (0..2_000).map(|seed| with_slow_disks(seed, Some(Bug::ReplyBeforeSave))).collect();
    let count = |name| broken.iter().filter(|names| names.contains(&name)).count();
    let (tokens, leaders) = (count("token-increases"), count("at-most-one-leader"));
    println!("ReplyBeforeSave: of 2000 storms {tokens} let tokens go backwards, {leaders} make two leaders");
    assert!(tokens >= 5 && leaders >= 1, "{tokens} {leaders}");
}

/// A healthy leader, and rivals that campaign at any time. A process that does not vote crashes and recovers.
fn contended_leader(seed: u64) -> Scenario {
    let rng = &mut Rng::new(seed);
    let mut scenario = Scenario::new(Roster::numbered(6));
    scenario.seed = seed;
    scenario.drift = 0.01;
    scenario.initiators = vec![rng.below(6) as usize];
    for _ in 0..10 {
        scenario.commands.push((
            time(40 + rng.below(200)),
            rng.below(6) as usize,
            Command::Campaign.to_string(),
        ));
    }
    let down = 40 + rng.below(100);
    scenario.plan = vec![
        (time(down), Fault::Crash(5)),
        (time(down + rng.below(60)), Fault::Recover { slot: 5, disk: true }),
    ];
    scenario.until = Some(time(400));
    scenario
}

fn disturbed(seed: u64, bug: Option<Bug>) -> bool {
    let scenario = contended_leader(seed);
    let mut world = scenario.world::<QuorumLease>(&Options { voters: 3, bug, ..Options::default() });
    world.check(Box::new(Stability::of_terms_after(Span::from_millis(5))));
    world.run(scenario.horizon());
    world.finish();
    let violations = &world.ledger().violations;
    assert!(violations.iter().all(|it| it.invariant == "stability"), "seed {seed}: {violations:?}");
    !violations.is_empty()
}

/// DESIGN: "a waiting candidate can never disturb a leader".
#[test]
fn a_waiting_candidate_never_costs_a_healthy_leader_its_lease_or_its_token() {
    for seed in 0..seeds() {
        assert!(!disturbed(seed, None), "seed {seed}");
    }
}

#[test]
fn recording_a_greater_token_while_the_lease_is_held_disturbs_a_healthy_leader() {
    let count = (0..2_000).filter(|&seed| disturbed(seed, Some(Bug::BumpWhileHeld))).count();
    println!("BumpWhileHeld: {count} of 2000 healthy leaders are disturbed");
    assert!(count >= 1_000, "{count}");
}
