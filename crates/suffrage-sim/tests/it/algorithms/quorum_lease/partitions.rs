//! Partial partitions: the scenarios of the OmniPaxos paper (Ng, Haridi, Carbone 2023, section 2), in which
//! other protocols lose their leader for good or change it without end. A candidate need reach only a majority
//! of voters itself.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Roster, Span};
use suffrage_sim::invariants::Stability;
use suffrage_sim::{Cut, Fault, Scenario, World};

use crate::algorithms::quorum_lease::storm_scenarios::{leaders, time};
use crate::algorithms::seeds;

/// `members` voters that are candidates too; 3 leads since time 4.
fn group(members: usize, seed: u64) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.drift = 0.01;
    scenario.initiators = vec![2];
    scenario.until = Some(time(500));
    scenario
}

fn run(scenario: &Scenario, until: u64) -> World<QuorumLease> {
    let mut world = scenario.world::<QuorumLease>(&Options::default());
    world.run(time(until));
    world
}

/// Only the hub reaches a majority; the leader no longer does. The hub leads within a lease and some rounds, and stays
/// leader. It first defers to better candidates, which cannot win. Of 20,000 runs, half are over after 49 delays, 99%
/// after 51, five after more than 65, the last after 184.
#[test]
fn quorum_loss_makes_the_hub_lead() {
    for seed in 0..seeds() {
        let mut scenario = group(5, seed);
        scenario.plan = vec![(time(50), Fault::Cut(1, Cut::hub(5, 0)))];
        assert_eq!(leaders(&run(&scenario, 49)), [3], "seed {seed}");
        let mut world = run(&scenario, 50 + 250);
        for moment in (300..460).step_by(10) {
            world.run(time(moment));
            assert_eq!(leaders(&world), [1], "seed {seed} at {moment}");
        }
        assert_eq!(world.ledger().violations, [], "seed {seed}");
    }
}

/// The same, and the old leader reaches nobody. Candidates that cannot win are woken before the hub. Of 2,000 runs, half
/// are over after 57 delays, 99% after 66, the last after 67.
#[test]
fn constrained_election_makes_the_hub_lead() {
    for seed in 0..seeds() {
        let mut scenario = group(5, seed);
        scenario.plan =
            vec![(time(50), Fault::Cut(1, Cut::hub(5, 0))), (time(50), Fault::Cut(2, Cut::isolating(5, 2)))];
        let mut world = run(&scenario, 50 + 120);
        assert_eq!(leaders(&world), [1], "seed {seed}");
        world.run(time(300));
        assert_eq!(
            (leaders(&world), world.ledger().violations.as_slice()),
            (vec![1], &[][..]),
            "seed {seed}"
        );
    }
}

/// A process does not receive from the leader, but the others do. They tell it who leads, and the leader stays, with its
/// token.
#[test]
fn a_chain_changes_nothing() {
    for seed in 0..seeds() {
        let mut scenario = group(3, seed);
        scenario.plan = vec![(time(50), Fault::Cut(1, Cut::chained(3, 0, 2)))];
        scenario.commands = (60..200)
            .step_by(20)
            .map(|at| (time(at), 0, suffrage_core::Command::Campaign.to_string()))
            .collect();
        let mut world = scenario.world::<QuorumLease>(&Options::default());
        world.check(Box::new(Stability::of_terms_after(Span::from_millis(5))));
        world.run(time(49));
        let token = world.facts().belief(2);
        world.run(time(300));
        assert_eq!((leaders(&world), world.facts().belief(2)), (vec![3], token), "seed {seed}");
        assert_eq!(world.ledger().leaderships.len(), 1, "seed {seed}");
        assert_eq!(world.ledger().violations, [], "seed {seed}");
    }
}

/// A leader behind a one-way cut, in either direction, cannot renew its lease.
#[test]
fn a_leader_that_is_cut_one_way_is_succeeded() {
    for seed in 0..seeds() {
        for heard in [true, false] {
            let mut scenario = group(5, seed);
            let (leader, others) = (vec![2], vec![0, 1, 3, 4]);
            let groups = if heard { [others, leader] } else { [leader, others] };
            scenario.plan = vec![(time(50), Fault::Cut(1, Cut::new(5, &groups, true)))];
            let world = run(&scenario, 150);
            let leader = leaders(&world);
            assert!(leader.len() == 1 && leader != [3], "seed {seed}: {leader:?}");
            assert_eq!(world.ledger().violations, [], "seed {seed}");
        }
    }
}
