//! Whole groups that elect by a row and a column: no deadlock, `O(N sqrt N)` messages, one leader a term.

use election::algorithms::grid_quorum::{GridQuorum, Options};
use election::{Algorithm, Command, Grid, NodeId, Rng, Roster, Span, Time};
use simulator::{Detector, Fault, Latency, Ranking, Scenario, Storm, storm};

fn time(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

fn latency(seed: u64) -> Latency {
    match seed % 4 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        2 => Latency::Exponential(Span::from_units(0.2)),
        _ => Latency::Uniform(Span::from_units(0.9), Span::UNIT),
    }
}

/// Everybody contends at once.
fn contended(members: usize, seed: u64) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.latency = latency(seed);
    scenario.delay_bound = Some(Span::UNIT);
    scenario.ranking = if seed % 8 < 4 { Ranking::Id } else { Ranking::Random };
    scenario.initiators = (0..members).collect();
    scenario
}

/// Maekawa 1985, sections 4 and 5: no deadlock, and 3 to 7 messages for each member of a quorum when
/// requests collide. It is his rules that end the contention, not anybody's patience: the term is the first.
#[test]
fn all_that_contend_at_once_elect_one_in_the_first_term_within_seven_messages_a_lock() {
    let mut most = 0.0f64;
    let mut slowest = 0.0f64;
    for members in 2..=49 {
        for seed in 0..40 {
            let scenario = contended(members, seed);
            let mut world = scenario.world::<GridQuorum>(&Options::default());
            world.run(scenario.horizon());
            world.finish();
            assert_eq!(world.ledger().violations, [], "{members} members, seed {seed}");
            let belief = world.facts().belief(0).expect("it terminates");
            assert_eq!(
                (belief.term.0, world.ledger().reigns.len()),
                (1, 1),
                "{members} members, seed {seed}"
            );
            let outcome = scenario.run::<GridQuorum>(&Options::default());
            assert!(outcome.agreed && outcome.quiet, "{members} members, seed {seed}");
            let bound = (GridQuorum::CONTRACT.messages.worst.of)(members as u64);
            assert!(
                outcome.messages.total <= bound,
                "{members} members, seed {seed}: {:?}",
                outcome.messages
            );
            most = most.max(outcome.messages.total as f64 / (members as f64).powf(1.5));
            slowest =
                slowest.max(outcome.decided / (GridQuorum::CONTRACT.time.worst.of)(members as u64) as f64);
        }
    }
    println!("at most {most:.2} N sqrt N messages; at most {slowest:.2} of the time stated");
    assert!(slowest <= 1.0);
}

/// Ramanathan et al. 2007, section 8: "a direct application of this result for leader election results in
/// O(n sqrt n) messages". From 25 to 400 members that is a factor of 64, and N^2 one of 256.
#[test]
fn messages_grow_as_n_sqrt_n() {
    let messages = |members| {
        let total =
            |seed: u64| contended(members, 4 * seed).run::<GridQuorum>(&Options::default()).messages.total;
        (0..10).map(total).sum::<u64>() as f64 / 10.0
    };
    let (small, large) = (messages(25), messages(400));
    println!("25: {small}, 400: {large}, factor {:.1}", large / small);
    assert!(large / small < 100.0);
}

/// One that contends alone: its quorum asked and locked, everybody told.
#[test]
fn one_alone_takes_two_messages_a_voter_and_the_announcement() {
    for members in 1..=60usize {
        let grid = Grid::of(members);
        for caller in 0..members {
            let mut scenario = Scenario::new(Roster::numbered(members));
            scenario.initiators = vec![caller];
            let outcome = scenario.run::<GridQuorum>(&Options::default());
            let (row, column) = grid.place(caller);
            let others = grid.quorum(row, column).len() as u64 - 1;
            let messages = &outcome.messages;
            assert_eq!((messages.of("Request"), messages.of("Locked")), (others, others));
            assert_eq!(messages.of("Elected"), members as u64 - 1);
            assert_eq!(messages.total, 2 * others + members as u64 - 1);
            assert_eq!(outcome.leader, Some(NodeId(caller as u64 + 1)));
            assert!(members < 2 || outcome.time == 3.0 && outcome.quiet && outcome.violations.is_empty());
        }
    }
}

/// A dead member is avoided as long as there is a row and a column without it; a dead diagonal is in all.
#[test]
fn a_live_row_and_column_elect_and_less_does_not() {
    for (dead, elects) in
        [(vec![0], true), (vec![0, 1, 3, 4], true), (vec![0, 4, 8], false), (vec![1, 5, 6], false)]
    {
        for detector in [Detector::None, Detector::Ideal { delay: Span::UNIT }] {
            for caller in (0..9).filter(|slot| !dead.contains(slot)) {
                let mut scenario = Scenario::new(Roster::numbered(9));
                scenario.crashed = dead.clone();
                scenario.initiators = vec![caller];
                scenario.detector = detector;
                let outcome = scenario.run::<GridQuorum>(&Options::default());
                assert_eq!((outcome.agreed, outcome.violations), (elects, vec![]), "{dead:?} {caller}");
            }
        }
    }
}

#[test]
fn leadership_is_transferred_and_resigned() {
    let mut scenario = Scenario::new(Roster::numbered(9));
    scenario.initiators = vec![0];
    let mut world = scenario.world::<GridQuorum>(&Options::default());
    world.command(time(10), 0, Command::Transfer(NodeId(4)));
    world.command(time(20), 3, Command::Resign);
    world.run(time(400));
    world.finish();
    let reigns: Vec<_> = world.ledger().reigns.iter().map(|reign| (reign.leader.0, reign.from)).collect();
    assert_eq!(reigns, [(1, time(2)), (4, time(13)), (9, time(23))]);
    assert_eq!(world.ledger().violations, []);
}

/// Crashes and recoveries with disks kept, cuts, pauses, loss, doubling, wrong suspicions, commands.
fn stormy(seed: u64) -> (Scenario, Options) {
    let members = 1 + (seed % 9) as usize;
    let chance = &mut Rng::new(!seed);
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.latency = latency(seed);
    scenario.drift = if chance.chance(0.5) { 0.0 } else { 0.05 };
    scenario.ranking = if chance.chance(0.5) { Ranking::Id } else { Ranking::Random };
    scenario.initiators = (0..members).collect();
    let delay = Span::from_units(2.0 + chance.unit() * 5.0);
    let lossy = chance.chance(0.6);
    scenario.detector = match lossy && chance.chance(0.5) {
        true => Detector::None,
        false => Detector::Parametric { delay, false_rate: 0.01 },
    };
    let shortest_cut = if lossy { Span::ZERO } else { delay + Span::UNIT };
    let (from, to) = (Time::ZERO, time(300));
    scenario.plan = storm(seed, Storm { members, from, to, lossy, shortest_cut });
    // Beside the storm's, crashes so short that they fall between a lock and the next.
    for _ in 0..3 * members {
        let (slot, down) = (chance.below(members as u64) as usize, time(chance.below(280)));
        scenario.plan.push((down, Fault::Crash(slot)));
        let up = down + Span::from_units(chance.unit() * 20.0);
        scenario.plan.push((up, Fault::Recover { slot, disk: true }));
    }
    scenario.plan.sort_by_key(|(at, _)| *at);
    for (_, fault) in &mut scenario.plan {
        if let Fault::Recover { disk, .. } = fault {
            *disk = true;
        }
    }
    scenario.until = Some(time(2_000));
    (scenario, Options { reaffirm: lossy.then_some(10), ..Options::default() })
}

/// How many storms: `SUFFRAGE_SEEDS`, or enough for every day.
#[allow(clippy::disallowed_methods, reason = "a longer watch is asked for from outside")]
fn seeds() -> u64 {
    std::env::var("SUFFRAGE_SEEDS").map_or(2_000, |seeds| seeds.parse().expect("SUFFRAGE_SEEDS is a number"))
}

#[test]
fn never_two_leaders_in_a_term_and_one_in_the_end() {
    let mut failures = Vec::new();
    let mut reigns = 0;
    for seed in 0..seeds() {
        let (scenario, options) = stormy(seed);
        let mut world = scenario.world::<GridQuorum>(&options);
        let chance = &mut Rng::new(seed);
        for _ in 0..chance.below(6) {
            let (at, slot) = (time(chance.below(300)), chance.below(scenario.roster.len() as u64) as usize);
            let to = NodeId(1 + chance.below(scenario.roster.len() as u64));
            let command =
                [Command::Campaign, Command::Resign, Command::Transfer(to)][chance.below(3) as usize];
            world.command(at, slot, command);
        }
        world.run(scenario.horizon());
        world.finish();
        reigns += world.ledger().reigns.len() as u64;
        failures.extend(world.ledger().violations.first().map(|violation| (seed, violation.clone())));
    }
    assert!(failures.is_empty(), "{} of them: {:?}", failures.len(), &failures[..failures.len().min(10)]);
    assert!(reigns > 2 * seeds(), "the storms change leaders: {reigns}");
}
