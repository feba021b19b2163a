//! The invitation algorithm in a simulated world: what the book says of it, what it costs, and that
//! whatever happens, once it stops every component ends as one group.

use election::algorithms::invitation::{First, Invitation, Options};
use election::{Algorithm, Command, NodeId, Rng, Roster, Span, Time};
use simulator::{Detector, End, Fault, Latency, Outcome, Plan, Ranking, Scenario, Storm, storm};

fn at(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

/// The run until beliefs have settled: what comes after is upkeep.
fn settle(scenario: &Scenario, options: &Options) -> Outcome {
    let settled = scenario.run::<Invitation>(options).decided;
    let until = Some(Time::ZERO + Span::from_units(settled));
    let outcome = Scenario { until, ..scenario.clone() }.run::<Invitation>(options);
    assert_eq!(outcome.violations, [], "seed {}", scenario.seed);
    outcome
}

const STORM: u64 = 300;
const CALM: u64 = 400;

/// A storm in which everything goes wrong that can, and commands come at any time.
fn stormy(seed: u64) -> (Scenario, Vec<(Time, usize, Command)>) {
    let members = 2 + (seed % 8) as usize;
    let chance = &mut Rng::new(seed);
    let mut order: Vec<NodeId> = (1..=members as u64).map(NodeId).collect();
    chance.shuffle(&mut order);
    let mut scenario = Scenario::new(Roster::listed(order).expect("ids are unique"));
    scenario.seed = seed;
    scenario.ranking = if chance.chance(0.5) { Ranking::Id } else { Ranking::Random };
    scenario.drift = if chance.chance(0.5) { 0.0 } else { 0.05 };
    scenario.latency = match seed % 3 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.3)),
    };
    // Whatever the distribution says: what takes longer is late.
    scenario.delay_bound = Some(Span::UNIT);
    scenario.detector = match chance.below(3) {
        0 => Detector::None,
        1 => Detector::Ideal { delay: Span::from_millis(3) },
        _ => Detector::Parametric { delay: Span::from_millis(3), false_rate: 0.01 },
    };
    let lossy = chance.chance(0.7);
    let weather = Storm { members, from: at(0), to: at(STORM), lossy, shortest_cut: Span::ZERO };
    scenario.plan = storm(seed, weather);
    for _ in 0..chance.below(3) {
        let rank = Fault::Rank(chance.below(members as u64) as usize, chance.bits() as i64);
        scenario.plan.push((at(chance.below(STORM)), rank));
    }
    scenario.until = Some(at(STORM + CALM));
    let command = |chance: &mut Rng| {
        let (when, slot) = (at(chance.below(STORM)), chance.below(members as u64) as usize);
        let command = match chance.below(4) {
            0 => Command::Resign,
            1 => Command::Transfer(NodeId(1 + chance.below(members as u64))),
            _ => Command::Campaign,
        };
        (when, slot, command)
    };
    let commands = (0..chance.below(8)).map(|_| command(chance)).collect();
    (scenario, commands)
}

/// How many storms there are: `SUFFRAGE_SEEDS`, or enough for every day.
#[allow(clippy::disallowed_methods, reason = "a longer watch is asked for from outside")]
fn seeds() -> u64 {
    std::env::var("SUFFRAGE_SEEDS").map_or(3_000, |seeds| seeds.parse().expect("SUFFRAGE_SEEDS is a number"))
}

/// The bound that the algorithm's file states: 400 message delays for at most nine processes.
#[test]
fn after_any_storm_each_component_is_one_group() {
    let (mut failures, mut longest) = (Vec::new(), 0.0_f64);
    for seed in 0..seeds() {
        let (scenario, commands) = stormy(seed);
        let mut world = scenario.world::<Invitation>(&Options::default());
        commands.into_iter().for_each(|(when, slot, command)| world.command(when, slot, command));
        assert_eq!(world.run(scenario.horizon()), End::Horizon, "members go on asking");
        world.finish();
        longest = longest.max(world.ledger().decided.as_units() - STORM as f64);
        if let Some(violation) = world.ledger().violations.first() {
            failures.push(format!("seed {seed}: {violation:?}"));
        }
    }
    println!("the longest merging took {longest} message delays after the storm");
    assert!(failures.is_empty(), "{} of them:\n{}", failures.len(), failures.join("\n"));
}
