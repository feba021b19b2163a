//! Groups of Raft servers: one leader a term, and the purpose of pre-vote, check-quorum and saved votes.

use suffrage_algorithms::raft::{Options, Raft};
use suffrage_core::{Algorithm, Command, NodeId, Rng, Roster, Span, Start, Time};
use suffrage_sim::{Cut, Fault, Latency, Scenario, Storm, World, keep_disks, storm};

use crate::algorithms::seeds;

fn time(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

/// `nodes` servers; 1 stands for election at time zero and is elected at 4.
fn group(nodes: usize) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(nodes));
    scenario.initiators = vec![0];
    scenario.until = Some(time(400));
    scenario
}

/// A cut between these ids and the others.
fn cut(nodes: usize, ids: &[usize]) -> Cut {
    let (apart, others) = (1..=nodes).partition::<Vec<_>, _>(|id| ids.contains(id));
    let slots = |ids: Vec<usize>| ids.into_iter().map(|id| id - 1).collect();
    Cut::new(nodes, &[slots(apart), slots(others)], false)
}

/// The leaders, with the beginnings of their leaderships.
fn leaderships(world: &World<Raft>) -> Vec<(NodeId, Time)> {
    world.ledger().leaderships.iter().map(|period| (period.leader, period.from)).collect()
}

/// A storm of crashes, recoveries, pauses, cuts, loss, duplication and late messages; disks are kept.
fn storm_scenario(seed: u64) -> Scenario {
    let members = 2 + (seed % 7) as usize;
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.drift = if seed.is_multiple_of(2) { 0.0 } else { 0.05 };
    scenario.latency = match seed % 3 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.5)),
    };
    let (from, to) = (Time::ZERO, time(300));
    let config = Storm { members, from, to, lossy: !seed.is_multiple_of(4), shortest_cut: Span::ZERO };
    scenario.plan = storm(seed, config);
    // Additional crashes that are so short that they fall between two votes.
    let rng = &mut Rng::new(!seed);
    for _ in 0..4 * members {
        let (slot, down) = (rng.below(members as u64) as usize, time(rng.below(280)));
        scenario.plan.push((down, Fault::Crash(slot)));
        let up = down + Span::from_units(rng.unit() * 20.0);
        scenario.plan.push((up, Fault::Recover { slot, disk: true }));
    }
    scenario.plan.sort_by_key(|(at, _)| *at);
    keep_disks(&mut scenario.plan);
    scenario.until = Some(time(900));
    scenario
}

/// With and without pre-vote and check-quorum: safety does not depend on them.
#[test]
fn never_two_leaders_in_a_term_and_one_in_the_end() {
    let mut leaderships = 0;
    for seed in 0..seeds() {
        let options = Options { pre_vote: seed % 5 != 1, check_quorum: seed % 5 != 2, ..Options::default() };
        let mut scenario = storm_scenario(seed);
        // Without check-quorum a leader that stays cut off believes in itself for good, so the last cut is removed.
        if !options.check_quorum {
            scenario.plan.retain(|(at, fault)| !(*at == time(300) && matches!(fault, Fault::Cut(..))));
        }
        let outcome = scenario.run::<Raft>(&options);
        assert_eq!(outcome.violations, [], "seed {seed}");
        leaderships += outcome.leaderships as u64;
    }
    assert!(leaderships > 2 * seeds(), "the storms change leaders: {leaderships}");
}

/// The checker finds the bug: the same storms with votes and terms not saved.
#[test]
fn forgotten_votes_elect_two_leaders_in_a_term() {
    let options = Options { forget_votes: true, ..Options::default() };
    let duplicated = |seed: &u64| {
        let outcome = storm_scenario(*seed).run::<Raft>(&options);
        outcome.violations.iter().any(|violation| violation.invariant == "one-leader-per-term")
    };
    let found: Vec<u64> = (0..200).filter(duplicated).collect();
    assert!(found.len() >= 10, "only seeds {found:?}");
}

/// The shortest way to two leaders in a term: 3 votes for 1, loses its disk, and votes for 2.
/// A server that knows that it lost its disk does not vote, and 2 does not get a majority.
#[test]
fn a_server_that_votes_after_losing_its_disk_makes_two_leaders() {
    let run = |forget_votes, disk| {
        let mut scenario = group(3);
        // 1 is elected at 2 by 3, 2 being cut off; then 3 forgets, and hears only 2, which stands at 6.
        scenario.plan = vec![
            (Time::ZERO, Fault::Cut(1, cut(3, &[2]))),
            (time(2), Fault::Crash(2)),
            (time(3), Fault::Heal(1)),
            (time(3), Fault::Cut(2, cut(3, &[1]))),
            (time(4), Fault::Recover { slot: 2, disk }),
        ];
        let mut world =
            scenario.world::<Raft>(&Options { pre_vote: false, forget_votes, ..Options::default() });
        world.command(time(6), 1, Command::Campaign);
        world.run(time(400));
        world.finish();
        let violations: Vec<_> = world.ledger().violations.iter().map(|it| it.invariant).collect();
        (violations, leaderships(&world).len())
    };
    assert_eq!(run(true, true), (vec!["one-leader-per-term"], 2));
    // 2 and 3 are a majority, but not of those who may vote: the contract asks for disks that are kept.
    assert_eq!(run(false, false), (vec!["termination"], 1));
    // With the disk kept, 3 votes for 2 in a later term.
    assert_eq!(run(false, true), (vec![], 2));
}

/// Thesis, 9.6: "a server that is partitioned […] when it regains connectivity" deposes a healthy leader,
/// unless it needs pre-votes first.
#[test]
fn a_server_that_comes_back_deposes_a_healthy_leader_only_without_pre_vote() {
    for seed in 0..200 {
        let mut scenario = group(5);
        scenario.seed = seed;
        scenario.plan = vec![(time(20), Fault::Cut(1, cut(5, &[5]))), (time(150), Fault::Heal(1))];
        let outcome = scenario.run::<Raft>(&Options::default());
        assert_eq!((outcome.leader, outcome.leaderships), (Some(NodeId(1)), 1), "seed {seed}");
        assert_eq!(outcome.violations, [], "seed {seed}");
        let outcome = scenario.run::<Raft>(&Options { pre_vote: false, ..Options::default() });
        assert!(
            outcome.agreed && outcome.leaderships > 1,
            "seed {seed}: {} leaderships",
            outcome.leaderships
        );
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}

/// Thesis, 6.2. The leader and one other server are cut off. Within two checks of the quorum both believe in no leader,
/// and the majority has another in a later term. Without check-quorum the old leader goes on believing in itself.
#[test]
fn a_leader_without_a_majority_steps_down() {
    for seed in 0..200 {
        let mut scenario = group(5);
        scenario.seed = seed;
        scenario.plan = vec![(time(30), Fault::Cut(1, cut(5, &[1, 2])))];
        let mut world = scenario.world::<Raft>(&Options::default());
        world.run(time(30 + 2 * 20 + 1));
        assert!(!world.facts().leads(0), "seed {seed}");
        world.run(time(400));
        assert_eq!((world.facts().belief(0), world.facts().belief(1)), (None, None), "seed {seed}");
        let new = world.facts().belief(2).expect("three of five elect");
        assert!(new.leader.0 > 2 && leaderships(&world).len() >= 2, "seed {seed}");
        world.finish();
        assert_eq!(world.ledger().violations, [], "seed {seed}");

        let mut world = scenario.world::<Raft>(&Options { check_quorum: false, ..Options::default() });
        world.run(time(400));
        assert!(world.facts().leads(0), "seed {seed}");
    }
}

/// 5.2: the leader crashes, and another is elected within a few time-outs.
#[test]
fn a_crashed_leader_is_replaced_while_a_majority_is_live() {
    for seed in 0..200 {
        let mut scenario = group(5);
        scenario.seed = seed;
        let (dies, back) = (Fault::Crash, |slot| Fault::Recover { slot, disk: true });
        scenario.plan = vec![(time(30), dies(0)), (time(32), dies(1))];
        let outcome = scenario.run::<Raft>(&Options::default());
        assert!(outcome.agreed && outcome.decided < 200.0, "seed {seed}: {}", outcome.decided);
        scenario.plan.extend([(time(34), dies(2)), (time(200), back(0))]);
        let mut world = scenario.world::<Raft>(&Options::default());
        world.run(time(200));
        assert!((0..5).all(|slot| !world.facts().leads(slot)), "two of five, seed {seed}");
        world.run(time(400));
        world.finish();
        assert_eq!(
            (world.ledger().violations.as_slice(), leaderships(&world).len()),
            (&[][..], 2),
            "seed {seed}"
        );
    }
}

/// Thesis, 3.10, while a healthy leader is heard by all.
#[test]
fn leadership_is_transferred_and_resigned() {
    let scenario = group(5);
    let mut world = scenario.world::<Raft>(&Options::default());
    world.command(time(31), 0, Command::Transfer(NodeId(4)));
    world.command(time(100), 3, Command::Resign);
    world.run(time(90));
    // One delay for TimeoutNow, two for the votes.
    assert_eq!(leaderships(&world), [(NodeId(1), time(4)), (NodeId(4), time(34))]);
    assert!((0..5).all(|slot| world.facts().belief(slot).unwrap().leader == NodeId(4)));
    world.run(time(400));
    let all = leaderships(&world);
    assert!(all.len() == 3 && all[2].0 != NodeId(4), "{all:?}");
    world.finish();
    assert_eq!(world.ledger().violations, []);
}

/// A server saves its state at its first start, so a server that crashed before its first vote may vote after recovery.
#[test]
fn a_server_saves_its_state_before_its_first_vote() {
    let mut recorder = suffrage_core::Recorder::<Raft>::new(0);
    let roster = Roster::numbered(3);
    let mut server = Raft::new(NodeId(2), &Options::default());
    use suffrage_core::Process as _;
    server.on_start(&mut recorder.context(Time::ZERO, roster.view(1), Span::UNIT), Start::Fresh);
    assert!(recorder.take().iter().any(|effect| matches!(effect, suffrage_core::Effect::Save(_))));
}
