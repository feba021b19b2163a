//! The seed alone decides a run.

use std::rc::Rc;

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_core::{Algorithm, Roster, Span, Time};
use suffrage_sim::{Detector, Fault, Latency, Ranking, Scenario, Storm, World, storm};

use crate::world::probe::Action::{Send, Set};
use crate::world::probe::Alarm;
use crate::world::probes::{ProbeWorld, Watcher, span, time};

const STORM: Storm = Storm {
    members: 6,
    from: Time::ZERO,
    to: Time::from_nanos(200 * Span::UNIT.as_nanos()),
    lossy: true,
    shortest_cut: Span::ZERO,
};

/// A scenario with faults of all kinds.
fn everything_goes_wrong(seed: u64) -> Scenario {
    Scenario {
        seed,
        latency: Latency::Uniform(span(0.1), span(1.5)),
        drift: 0.05,
        ranking: Ranking::Random,
        detector: Detector::Parametric { delay: span(3.0), false_rate: 0.01 },
        initiators: (0..STORM.members).collect(),
        plan: storm(seed, STORM),
        until: Some(time(1_000.0)),
        ..Scenario::new(Roster::numbered(STORM.members))
    }
}

/// The complete state after a run, as text.
fn full_state<A: Algorithm>(world: &World<A>) -> String {
    let processes: Vec<_> = (0..world.roster().len()).map(|slot| world.process(slot)).collect();
    format!("{} {:?} {:?}", world.now(), world.ledger(), processes)
}

fn assert_deterministic<A: Algorithm>() {
    let hash = |seed| everything_goes_wrong(seed).run::<A>(&Default::default()).trace_hash;
    let mut hashes: Vec<u64> = (0..20).map(hash).collect();
    assert!((0..20).map(hash).eq(hashes.iter().copied()), "the same seed, the same run");
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20, "another seed, another run");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    assert_deterministic::<Bully>();
    assert_deterministic::<ChangRoberts>();
}

#[test]
fn the_seed_matters_even_if_only_the_latency_is_random() {
    let hash = |seed| {
        let latency = Latency::Uniform(span(0.1), span(1.5));
        let scenario = Scenario { seed, latency, initiators: vec![0], ..Scenario::new(Roster::numbered(4)) };
        scenario.run::<Bully>(&Default::default()).trace_hash
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn an_observer_changes_nothing() {
    for seed in 0..20 {
        let seen = Rc::default();
        let watcher = Box::new(Watcher(Rc::clone(&seen)));
        let watched = everything_goes_wrong(seed).run_observed::<Bully>(&Default::default(), watcher);
        let unwatched = everything_goes_wrong(seed).run::<Bully>(&Default::default());
        assert_eq!(format!("{watched:?}"), format!("{unwatched:?}"));
        assert!(seen.borrow().len() > 100);
    }
}

#[test]
fn a_run_in_slices_is_the_run_at_once() {
    for seed in 0..20 {
        let mut whole = everything_goes_wrong(seed).world::<Bully>(&Default::default());
        whole.run(time(1_000.0));
        for slice in [0.3, 1.0, 33.3] {
            let mut sliced = everything_goes_wrong(seed).world::<Bully>(&Default::default());
            let mut until = 0.0;
            while until < 1_000.0 {
                until = f64::min(until + slice, 1_000.0);
                sliced.run(time(until));
            }
            assert_eq!(full_state(&sliced), full_state(&whole), "seed {seed}, slices of {slice}");
        }
    }
}

#[test]
fn faults_scheduled_during_a_run_happen_like_faults_scheduled_before_it() {
    for seed in 0..20 {
        let mut scenario = everything_goes_wrong(seed);
        let plan = std::mem::take(&mut scenario.plan);
        let mut before = scenario.world::<Bully>(&Default::default());
        plan.iter().for_each(|(at, fault)| before.schedule_fault(*at, fault.clone()));
        before.run(time(1_000.0));
        let mut after = scenario.world::<Bully>(&Default::default());
        for (at, fault) in plan {
            // Runs to the last moment before the fault. The fault is then the last event scheduled for its moment
            // instead of the first; with random latency there is no other event at that moment.
            after.run(Time::from_nanos(at.as_nanos().saturating_sub(1)));
            after.schedule_fault(at, fault);
        }
        after.run(time(1_000.0));
        assert_eq!(full_state(&after), full_state(&before), "seed {seed}");
    }
}

#[test]
fn an_event_scheduled_before_the_next_event_comes_first() {
    let mut probes = ProbeWorld::new(2);
    probes.at(1.0, 2, Set(Alarm(0), 1e6));
    probes.run(10.0);
    probes.at(20.0, 1, Send(2, 1));
    probes.run(30.0);
    probes.at(31.0, 1, Send(2, 2));
    probes.run_out();
    assert_eq!(probes.log(2), ["21 heard 1 from 1", "32 heard 2 from 1", "1000001 alarm 0"]);
}

#[test]
fn an_event_scheduled_in_the_past_happens_now() {
    let mut probes = ProbeWorld::new(2);
    probes.at(100.0, 2, Set(Alarm(0), 1.0));
    probes.run(50.0);
    probes.at(20.0, 1, Send(2, 1));
    probes.schedule_fault(30.0, Fault::Duplicate(1.0));
    probes.run_out();
    assert_eq!(probes.log(2), ["51 heard 1 from 1", "101 alarm 0"]);
}

#[test]
fn time_does_not_run_backwards() {
    let mut probes = ProbeWorld::new(2);
    probes.at(100.0, 1, Send(2, 1));
    probes.run(50.0);
    probes.run(20.0);
    assert_eq!(probes.world.now(), time(50.0));
}
