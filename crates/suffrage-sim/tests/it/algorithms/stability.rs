//! Stable leader election: a healthy leader stays whatever happens to the others (Aguilera et al. 2001), few links carry
//! messages, and lost messages are tolerated.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::stable_leader::{Options, StableLeader};
use suffrage_core::{Algorithm, Attribute, Command, NodeId, Rng, Roster, Span, Term, Time};
use suffrage_sim::invariants::Stability;
use suffrage_sim::{
    Cut, Detector, Fault, Latency, Observer, Ranking, Scenario, Storm, TraceEvent, World, storm,
};

/// The number of storms; each has its own seed, which a failure names.
const SEEDS: u64 = 2_000;

/// The settling time in message delays: more than an `Ok` takes to reach all processes, and their answers.
const SETTLING: u64 = 20;

/// A scenario with a storm, and no faults after it. The seed decides the members, delays, ranks and faults.
fn storm_scenario(seed: u64) -> Scenario {
    let members = 2 + (seed % 7) as usize;
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.ranking = Ranking::Random;
    scenario.latency = match seed % 3 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.3)),
    };
    scenario.drift = if seed.is_multiple_of(2) { 0.0 } else { 0.01 };
    scenario.initiators = (0..members).collect();
    scenario.detector = Detector::Parametric { delay: Span::from_millis(3), false_rate: 0.01 };
    let (from, to) = (Time::ZERO, Time::ZERO + Span::from_millis(300));
    scenario.plan = storm(seed, Storm { members, from, to, lossy: true, shortest_cut: Span::ZERO });
    // All faults end but the wrong suspicions, including the last cut of some storms.
    scenario.plan.retain(|(_, fault)| !matches!(fault, Fault::HealAll | Fault::Cut(0, _)));
    scenario.plan.extend([(to, Fault::Loss(0.0)), (to, Fault::Duplicate(0.0))]);
    scenario.plan.extend((1..4).map(|name| (to, Fault::Heal(name))));
    scenario
}

/// Schedules faults of all processes but the leader in the given span: crashes, recoveries with and without the disk,
/// pauses, cuts between them, duplicated messages, new ranks, campaigns. Wrong suspicions go on.
fn fault_followers<A: Algorithm>(world: &mut World<A>, rng: &mut Rng, leader: usize, length: Span) {
    let members = world.roster().len();
    let others: Vec<usize> = (0..members).filter(|&slot| slot != leader).collect();
    let begin = world.now();
    let moment = |rng: &mut Rng| begin + length.scale(rng.unit());
    for name in 0..12 {
        let (one, other) = (moment(rng), moment(rng));
        let slot = *rng.pick(&others).expect("there are others");
        let disk = rng.chance(0.5);
        match rng.below(6) {
            0 | 1 => {
                world.schedule_fault(one.min(other), Fault::Crash(slot));
                world.schedule_fault(one.max(other), Fault::Recover { slot, disk });
            }
            2 => world.schedule_fault(one.min(other), Fault::Pause(slot, one.max(other))),
            3 => {
                let mut sides = [Vec::new(), Vec::new()];
                others.iter().for_each(|&slot| sides[rng.below(2) as usize].push(slot));
                let cut = Cut::new(members, &sides, rng.chance(0.5));
                world.schedule_fault(one.min(other), Fault::Cut(100 + name, cut));
                world.schedule_fault(one.max(other), Fault::Heal(100 + name));
            }
            4 => world.schedule_fault(
                one,
                Fault::Rank(rng.below(members as u64) as usize, rng.bits() as Attribute),
            ),
            _ => world.command(one, slot, Command::Campaign),
        }
    }
    world.schedule_fault(begin, Fault::Duplicate(rng.unit() * 0.3));
    world.schedule_fault(begin + length, Fault::HealAll);
}

/// A group that has agreed on a leader after a storm, and the leader. None if no process is live, or without agreement.
fn settled<A: Algorithm>(seed: u64) -> Option<(World<A>, usize)> {
    let scenario = storm_scenario(seed);
    let bound = scenario.latency.bound();
    let mut world = scenario.world::<A>(&A::Options::default());
    world.run(Time::ZERO + Span::from_millis(300) + bound * 400);
    // From here on no message is lost. A cut that separates nobody is a change of connectivity, which makes the
    // invariant check the state.
    world.check(Box::new(Stability::after(bound * SETTLING)));
    world.schedule_fault(world.now(), Fault::Cut(9, Cut::new(world.roster().len(), &[], false)));
    world.run(world.now() + bound * SETTLING);
    let facts = world.facts();
    let leader = facts.up().find(|&slot| facts.leads(slot))?;
    let believes = |slot| facts.belief(slot).is_some_and(|belief| belief.leader == facts.roster().id(leader));
    let unanimous = facts.up().all(believes);
    unanimous.then_some((world, leader))
}

/// Runs a settled group with faults of all processes but the leader, and then without faults.
fn run_with_faulty_followers<A: Algorithm>(seed: u64, (mut world, leader): (World<A>, usize)) -> World<A> {
    let bound = storm_scenario(seed).latency.bound();
    fault_followers(&mut world, &mut Rng::new(seed ^ 0x5eed), leader, bound * 400);
    world.run(world.now() + bound * 700);
    world.finish();
    world
}

/// "Once a leader is elected, it remains the leader for as long as it does not crash and its links have
/// been behaving well, irrespective of the behavior of other processes and links."
#[test]
fn a_healthy_leader_survives_all_faults_of_the_others() {
    let mut tried = 0;
    for seed in 0..SEEDS {
        let Some((world, leader)) = settled::<StableLeader>(seed) else {
            let mut world = storm_scenario(seed).world::<StableLeader>(&Options::default());
            world.run(Time::ZERO + Span::from_millis(301));
            assert_eq!(world.facts().up().count(), 0, "seed {seed}: nobody was elected");
            continue;
        };
        let before = world.now();
        let world = run_with_faulty_followers(seed, (world, leader));
        assert_eq!(world.ledger().violations, [], "seed {seed}");
        let later = world.ledger().leaderships.iter().filter(|period| period.to.is_none_or(|to| to > before));
        let leaders: Vec<NodeId> = later.map(|period| period.leader).collect();
        assert_eq!(leaders, [world.roster().id(leader)], "seed {seed}");
        tried += 1;
    }
    assert!(tried > SEEDS * 9 / 10, "{tried} of {SEEDS} groups survived the storm");
}

/// The counterpart: the same faults replace a healthy leader of an algorithm that is not stable. A better process that
/// recovers, or rises in rank, takes over, and so does one with a wrong suspicion.
#[test]
fn a_healthy_leader_of_the_bully_algorithm_is_replaced() {
    let unstable = (0..200).filter(|&seed| {
        let Some(group) = settled::<Bully>(seed) else { return false };
        let world = run_with_faulty_followers(seed, group);
        world.ledger().violations.iter().any(|violation| violation.invariant == "stability")
    });
    let unstable = unstable.count();
    assert!(unstable > 100, "{unstable} of 200");
}

/// The pairs of sender and receiver since some time.
struct Links {
    since: Time,
    seen: Rc<RefCell<BTreeSet<(NodeId, NodeId)>>>,
}

impl Observer for Links {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        if let TraceEvent::Sent { from, to, .. } | TraceEvent::Dropped { from, to, .. } = event
            && at >= self.since
        {
            self.seen.borrow_mut().insert((from, to));
        }
    }
}

/// "They eventually use only n links to carry messages": here, those from the leader to the others.
#[test]
fn after_stabilisation_only_the_links_from_the_leader_carry_messages() {
    for seed in 0..SEEDS {
        let mut scenario = storm_scenario(seed);
        let since = Time::ZERO + Span::from_millis(300) + scenario.latency.bound() * 400;
        scenario.until = Some(since + scenario.latency.bound() * 100);
        let seen = Rc::new(RefCell::new(BTreeSet::new()));
        let observer = Box::new(Links { since, seen: seen.clone() });
        let outcome = scenario.run_observed::<StableLeader>(&Options::default(), observer);
        let leader = outcome.leader.unwrap_or_else(|| panic!("seed {seed}: nobody leads"));
        let links = scenario.roster.iter().filter(|&to| to != leader).map(|to| (leader, to)).collect();
        assert_eq!(*seen.borrow(), links, "seed {seed}");
    }
}

/// Five processes that all follow 1 in round 0; messages are lost from the 25th time unit on.
fn lossy(seed: u64, loss: f64, periods: u64) -> World<StableLeader> {
    let mut scenario = Scenario::new(Roster::numbered(5));
    scenario.seed = seed;
    scenario.plan = vec![(Time::ZERO + Span::from_units(22.5), Fault::Loss(loss))];
    let mut world = scenario.world::<StableLeader>(&Options::default());
    // After the time-out of a process that misses the last `Ok`, and before the next one: `Ok` is sent at 25, 30, …
    world.run(Time::ZERO + Span::from_millis(25 + 5 * (periods - 1) + 4));
    world
}

/// The probability of a run of `length` losses among `count` messages.
fn chance_of_a_run(loss: f64, length: usize, count: u64) -> f64 {
    let mut missed = vec![0.0; length + 1];
    missed[0] = 1.0;
    for _ in 0..count {
        let mut next = vec![0.0; length + 1];
        next[length] = missed[length];
        for (run, chance) in missed[..length].iter().enumerate() {
            next[run + 1] += chance * loss;
            next[0] += chance * (1.0 - loss);
        }
        missed = next;
    }
    missed[length]
}

/// Loss replaces a leader only if one of its followers misses four `Ok` in a row, since the time-out is 22 delays and
/// the period 5. The probability over 200 periods is 7% at a loss of 10%, and 64% at 20%. Measured in 2,000 runs, within
/// five standard deviations of a binomial distribution: wrong for one set of seeds in a million; the seeds are fixed.
#[test]
fn under_permanent_loss_a_leader_is_replaced_as_seldom_as_computed() {
    for loss in [0.1, 0.2] {
        let expected = 1.0 - (1.0 - chance_of_a_run(loss, 4, 200)).powi(4);
        let fell = |seed: &u64| {
            let world = lossy(*seed, loss, 200);
            let belief = |slot| world.facts().belief(slot).map(|belief| (belief.leader, belief.term));
            (0..5).any(|slot| belief(slot) != Some((NodeId(1), Term(0))))
        };
        let fallen = (0..SEEDS).filter(fell).count() as f64;
        let (mean, runs) = (expected * SEEDS as f64, SEEDS as f64);
        let deviation = (runs * expected * (1.0 - expected)).sqrt();
        println!("loss {loss}: {fallen} of {runs} leaders fell, {mean:.1} expected, +- {deviation:.1}");
        assert!((fallen - mean).abs() < 5.0 * deviation, "loss {loss}: {fallen} fell, expected {mean}");
    }
}

/// "Its links have been behaving well" is needed: a follower that is cut from the leader, and not from the others,
/// replaces it. The paper does not promise otherwise.
#[test]
fn a_leader_that_one_follower_cannot_hear_is_replaced() {
    let mut scenario = Scenario::new(Roster::numbered(4));
    scenario.plan =
        vec![(Time::ZERO + Span::from_millis(50), Fault::Cut(1, Cut::new(4, &[vec![0], vec![3]], false)))];
    scenario.until = Some(Time::ZERO + Span::from_millis(500));
    let outcome = scenario.run::<StableLeader>(&Options::default());
    assert_eq!((outcome.leader, outcome.violations), (Some(NodeId(2)), vec![]));
}

/// "They are robust, i.e., they work in systems where only the links to/from some correct process are
/// required to be eventually timely": of all links, only those of one process work, and it ends up leading.
#[test]
fn one_process_with_good_links_is_enough_and_leads() {
    for members in 3..=9 {
        for centre in 0..members {
            let mut scenario = Scenario::new(Roster::numbered(members));
            let sides: Vec<Vec<usize>> =
                (0..members).filter(|&slot| slot != centre).map(|slot| vec![slot]).collect();
            scenario.plan = vec![(Time::ZERO, Fault::Cut(1, Cut::new(members, &sides, false)))];
            let outcome = scenario.run::<StableLeader>(&Options::default());
            assert_eq!(outcome.leader, Some(scenario.roster.id(centre)), "{members} members");
        }
    }
}

/// Each dead leader on the way costs a time-out, unless a detector has reported it.
#[test]
fn suspicions_skip_dead_leaders_once_the_time_out_has_expired() {
    let decided = |detector| {
        let mut scenario = Scenario::new(Roster::numbered(9));
        scenario.crashed = (0..7).collect();
        scenario.detector = detector;
        let outcome = scenario.run::<StableLeader>(&Options::default());
        assert_eq!((outcome.leader, outcome.violations), (Some(NodeId(8)), vec![]));
        outcome.decided
    };
    assert_eq!(decided(Detector::None), 7.0 * 22.0 + 6.0);
    assert_eq!(decided(Detector::Ideal { delay: Span::from_millis(2) }), 22.0 + 6.0);
}
