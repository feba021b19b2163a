//! Commands and new ranks at any moment of a storm, for algorithms with time-outs: they agree on a leader after it.

use suffrage_algorithms::announce::Announce;
use suffrage_algorithms::soft_state::AnnouncementTiming;
use suffrage_algorithms::stable_leader::{self, StableLeader};
use suffrage_algorithms::suppress::{self, Suppress, Wake};
use suffrage_core::{Algorithm, Attribute, Command, NodeId, Rng, Roster, Span, Time};
use suffrage_sim::{Detector, Fault, Latency, Scenario, Storm, storm};

const SEEDS: u64 = 2_000;
const STORM_END: u64 = 300;

/// A storm for each seed, and commands and new ranks at any moment of it.
fn survive<A: Algorithm>(options: &A::Options) {
    for seed in 0..SEEDS {
        let members = 1 + (seed % 9) as usize;
        let rng = &mut Rng::new(seed ^ 0xca11);
        let mut scenario = Scenario::new(Roster::numbered(members));
        scenario.seed = seed;
        scenario.drift = 0.02;
        scenario.latency = if rng.chance(0.5) {
            Latency::Uniform(Span::ZERO, Span::UNIT)
        } else {
            Latency::LogNormal(Span::from_units(0.3), 0.5)
        };
        let detectors =
            [Detector::None, Detector::Parametric { delay: Span::from_millis(3), false_rate: 0.02 }];
        scenario.detector = *rng.pick(&detectors).expect("there are two");
        let (from, to) = (Time::ZERO, Time::ZERO + Span::from_millis(STORM_END));
        scenario.plan = storm(seed, Storm { members, from, to, lossy: true, shortest_cut: Span::ZERO });
        let moment = |rng: &mut Rng| from + Span::from_millis(STORM_END).scale(rng.unit());
        for _ in 0..4 {
            let rank = Fault::Rank(rng.below(members as u64) as usize, rng.below(20) as Attribute);
            scenario.plan.push((moment(rng), rank));
        }
        scenario.until = Some(to + scenario.latency.bound() * 400);
        let mut world = scenario.world::<A>(options);
        for _ in 0..30 {
            let command = match rng.below(3) {
                0 => Command::Campaign,
                1 => Command::Resign,
                _ => Command::Transfer(NodeId(1 + rng.below(members as u64 + 1))),
            };
            world.command(moment(rng), rng.below(members as u64) as usize, command);
        }
        world.run(scenario.horizon());
        world.finish();
        assert_eq!(world.ledger().violations, [], "{} seed {seed}", A::CONTRACT.name);
    }
}

#[test]
fn stable_leaders_settle() {
    survive::<StableLeader>(&stable_leader::Options::default());
}

#[test]
fn announced_leaders_settle() {
    survive::<Announce>(&AnnouncementTiming::default());
}

#[test]
fn suppressing_leaders_settle() {
    for wake in [Wake::Random, Wake::Rank] {
        survive::<Suppress>(&suppress::Options { wake, ..Default::default() });
    }
}

/// A stable leader resigns on command. Commands to followers do not affect it.
#[test]
fn a_stable_leader_resigns_and_hands_over() {
    let mut scenario = Scenario::new(Roster::numbered(5));
    scenario.until = Some(Time::ZERO + Span::from_millis(100));
    let leader_after = |slot, command| {
        let mut world = scenario.world::<StableLeader>(&stable_leader::Options::default());
        world.command(Time::ZERO + Span::from_millis(20), slot, command);
        world.run(scenario.horizon());
        world.finish();
        assert_eq!(world.ledger().violations, []);
        world.facts().belief(0).map(|belief| belief.leader.0)
    };
    assert_eq!(leader_after(0, Command::Resign), Some(2));
    assert_eq!(leader_after(0, Command::Transfer(NodeId(4))), Some(4));
    for command in [Command::Campaign, Command::Resign, Command::Transfer(NodeId(4))] {
        assert_eq!(leader_after(2, command), Some(1), "{command:?} of a follower");
    }
}
