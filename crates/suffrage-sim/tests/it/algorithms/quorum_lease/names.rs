//! Separate roles, and several elections at once, each with its own invariants.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Command, Roster};
use suffrage_lease::Bug;
use suffrage_sim::{Fault, Scenario, TortureTarget, World};

use crate::algorithms::quorum_lease::storm_scenarios::time;

/// The leaders of an election, by slot.
fn leaders_in(world: &World<QuorumLease>, election: usize) -> Vec<usize> {
    let facts = world.facts_in(election);
    (0..facts.roster().len()).filter(|&slot| facts.leads(slot)).collect()
}

#[test]
fn voters_that_do_not_stand_know_who_leads_and_never_do() {
    let options = Options { voters: 3, candidates: Some(2), ..Options::default() };
    let mut scenario = Scenario::new(Roster::numbered(5));
    // Voters that are not candidates ignore these commands.
    scenario.initiators = vec![0, 1, 2];
    scenario.commands = (0..3).map(|slot| (time(50), slot, Command::Campaign.to_string())).collect();
    // Then all candidates crash. That nobody leads then is no violation.
    scenario.plan = vec![(time(100), Fault::Crash(3)), (time(100), Fault::Crash(4))];
    let mut world = scenario.world::<QuorumLease>(&options);
    world.run(time(99));
    let leader = world.facts().belief(0).expect("a voter knows who leads").leader;
    assert!((1..3).all(|slot| world.facts().belief(slot).map(|belief| belief.leader) == Some(leader)));
    assert!(leader.0 > 3, "{leader}");
    world.run(time(400));
    world.finish();
    assert!(world.ledger().leaderships.iter().all(|period| period.leader.0 > 3));
    assert!((0..3).all(|slot| world.facts().belief(slot).is_none()));
    assert_eq!(world.ledger().violations, []);
}

/// Every process stands in all three elections, and each has its leader before and after a crash.
#[test]
fn every_election_has_a_leader_of_its_own() {
    let options = Options { voters: 3, candidates: Some(4), names: 3, ..Options::default() };
    let mut different = 0;
    for seed in 0..200 {
        let mut scenario = Scenario::new(Roster::numbered(7));
        scenario.seed = seed;
        scenario.loss = 0.2;
        scenario.plan = vec![(time(100), Fault::CrashLeader), (time(150), Fault::HealAll)];
        scenario.until = Some(time(400));
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(400));
        world.finish();
        let leaders: Vec<usize> = (0..3)
            .map(|election| match leaders_in(&world, election).as_slice() {
                &[leader] => leader,
                other => panic!("seed {seed}, election {election}: {other:?}"),
            })
            .collect();
        assert_eq!(world.ledger().violations, [], "seed {seed}");
        different += usize::from(leaders.iter().any(|&leader| leader != leaders[0]));
    }
    assert!(different > 10, "they are independent: only {different} of 200 have different leaders");
}

/// A bug that shows in another election than the first is found there.
#[test]
fn promises_are_checked_in_every_election() {
    let target = TortureTarget::<QuorumLease> {
        options: Options {
            voters: 3,
            names: 3,
            ttl: 8,
            renew: Some(3),
            bug: Some(Bug::ForgetCeiling),
            ..Options::default()
        },
        // Without clients: with clients, their beliefs replace those of members, and bugs show there too.
        given: ["voters", "names", "ttl", "renew", "bug", "clients"]
            .map(|name| (name, String::new()))
            .to_vec(),
        ..TortureTarget::default()
    };
    let mut found = [0; 4];
    for seed in 0..500 {
        let case = target.case(seed);
        for violation in case.scenario.run::<QuorumLease>(&case.options).violations {
            assert!(["token-increases", "fenced-register"].contains(&violation.invariant), "{violation:?}");
            let election =
                violation.detail.strip_prefix("in election ").map_or(1, |rest| rest[..1].parse().unwrap());
            found[election] += 1;
        }
    }
    println!("broken promises by election: {found:?}");
    assert!(found[1..].iter().all(|&count| count >= 5), "{found:?}");
}
