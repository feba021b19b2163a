//! Failures during an election. After the end of the faults every component that can elect a leader ends with exactly
//! one, its best live member if the contract promises it. Promises about the time before that hold all along.

use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Attribute, Choice, Contract, Detection, NodeId, Rng, Roster, Span, Time};
use suffrage_sim::invariants::{Agreement, Termination};
use suffrage_sim::{Detector, Fault, Latency, Outcome, Ranking, Scenario, Storm, keep_disks, storm};

use crate::algorithms::seeds;

/// The support that processes have in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    /// A failure detector reports every silence that can cost a message, and its end.
    Detector,
    /// The same, and the detector makes mistakes while the storm lasts.
    ErringDetector,
    /// Messages are lost and duplicated, there is no detector, and the contract's settings for loss are used: leaders
    /// reaffirm themselves.
    Reaffirm,
    /// All of it at once.
    Both,
}

const STORM_END: u64 = 300;

fn storm_scenario(seed: u64, setup: Setup) -> Scenario {
    let members = 2 + (seed % 7) as usize;
    let mut order: Vec<NodeId> = (1..=members as u64).map(NodeId).collect();
    let chance = &mut Rng::new(seed);
    chance.shuffle(&mut order);
    let mut scenario = Scenario::new(Roster::listed(order).expect("ids are unique"));
    scenario.seed = seed;
    scenario.ranking = if chance.chance(0.5) { Ranking::Id } else { Ranking::Random };
    scenario.drift = if chance.chance(0.5) { 0.0 } else { 0.01 };
    scenario.latency = match seed % 3 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.3)),
    };
    // All processes call an election: one that never had a leader and gets no command does not start one.
    scenario.initiators = (0..members).collect();
    let delay = Span::from_units(2.0 + (seed % 5) as f64);
    scenario.detector = match setup {
        Setup::Reaffirm => Detector::None,
        Setup::Detector => Detector::Ideal { delay },
        Setup::ErringDetector | Setup::Both => Detector::Parametric { delay, false_rate: 0.01 },
    };
    let (from, to) = (Time::ZERO, Time::ZERO + Span::from_millis(STORM_END));
    let lossy = matches!(setup, Setup::Reaffirm | Setup::Both);
    // A cut that no detector notices is a lost message, which only reaffirmation repairs.
    let shortest_cut = if lossy { Span::ZERO } else { delay + Span::UNIT };
    scenario.plan = storm(seed, Storm { members, from, to, lossy, shortest_cut });
    if chance.chance(0.3) {
        let rank = Fault::Rank(chance.below(members as u64) as usize, chance.bits() as Attribute);
        scenario.plan.push((from + (to.since(from)).scale(chance.unit()), rank));
    }
    scenario.until = Some(to + Span::from_millis(6_000));
    scenario
}

/// The storm scenario within the claims of a contract: disks are kept if safety depends on them. Algorithms that never
/// fall quiet run for 1,000 delays after the storm.
fn storm_scenario_for(contract: &Contract, seed: u64, setup: Setup) -> Scenario {
    let mut scenario = storm_scenario(seed, setup);
    if contract.needs_disk {
        keep_disks(&mut scenario.plan);
    }
    if contract.detection == Detection::Timeout {
        return running_for(scenario, 1_000);
    }
    scenario
}

/// The same scenario, ending this number of message delays after the storm.
fn running_for(scenario: Scenario, delays: u64) -> Scenario {
    let after = scenario.latency.bound() * delays;
    Scenario { until: Some(Time::ZERO + Span::from_millis(STORM_END) + after), ..scenario }
}

struct RunScenario {
    scenario: Scenario,
    settings: &'static [(&'static str, &'static str)],
}

impl Visitor for RunScenario {
    type Output = Outcome;

    fn visit<A: Algorithm>(self) -> Outcome {
        let mut options = A::Options::default();
        for (name, value) in self.settings {
            A::set(&mut options, name, value).expect("it takes that value");
        }
        self.scenario.run::<A>(&options)
    }
}

/// True if a run ends with a component without exactly one leader. A promise with a probability allows this in a single
/// run.
struct Disagreement(Scenario);

impl Visitor for Disagreement {
    type Output = bool;

    fn visit<A: Algorithm>(self) -> bool {
        let options = A::Options::default();
        let mut world = self.0.world::<A>(&options);
        world.check(Box::new(Agreement));
        world.check(Box::new(Termination::of(A::electorate(&options))));
        world.run(self.0.horizon());
        world.finish();
        !world.ledger().violations.is_empty()
    }
}

fn outcome(contract: &Contract, seed: u64, setup: Setup) -> Outcome {
    let settings = match setup {
        Setup::Detector | Setup::ErringDetector => &[],
        Setup::Reaffirm | Setup::Both => contract.under_loss,
    };
    let run = RunScenario { scenario: storm_scenario_for(contract, seed, setup), settings };
    catalog::visit(contract.name, run).expect("it is in the catalog")
}

/// True if the algorithm can work with this setup. An algorithm that relies on a detector, and whose contract names no
/// settings for loss, never learns without a detector that its leader is dead.
fn applies(setup: Setup, contract: &Contract) -> bool {
    let blind = contract.detection == Detection::Detector && contract.under_loss.is_empty();
    setup != Setup::Reaffirm || !blind
}

/// The percentage of storms that may end without exactly one leader, for promises with a probability. They do not hold
/// for storms, since lost messages are not retransmitted.
fn allowed_percent(setup: Setup) -> u64 {
    if setup == Setup::Both { 5 } else { 1 }
}

fn survive(setup: Setup) {
    let seeds = seeds();
    let mut failures = Vec::new();
    let (mut leader_changes, mut runs) = (0, 0);
    for contract in CONTRACTS.iter().filter(|contract| applies(setup, contract)) {
        let probable = !contract.is_certain() && contract.retries;
        let mut disagreements = 0;
        for seed in 0..seeds {
            let outcome = outcome(contract, seed, setup);
            leader_changes += usize::from(contract.retries && outcome.leaderships > 1);
            runs += usize::from(contract.retries);
            if probable {
                let run = Disagreement(storm_scenario_for(contract, seed, setup));
                disagreements += u64::from(catalog::visit(contract.name, run).expect("it is there"));
            }
            if let Some(violation) = outcome.violations.first() {
                failures.push(format!("{} {setup:?} seed {seed}: {violation:?}", contract.name));
            }
        }
        if disagreements > (seeds * allowed_percent(setup)).div_ceil(100) {
            failures.push(format!("{} {setup:?}: {disagreements} of {seeds} disagree", contract.name));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of them:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    // The storms have an effect: in most of them leadership changes.
    assert!(leader_changes * 2 > runs, "only {leader_changes} of {runs} runs had a change of leadership");
}

#[test]
fn with_a_detector_and_no_loss_the_best_of_each_component_leads() {
    survive(Setup::Detector);
}

#[test]
fn with_a_detector_that_errs_the_best_of_each_component_leads() {
    survive(Setup::ErringDetector);
}

#[test]
fn with_loss_and_reaffirmation_the_best_of_each_component_leads() {
    survive(Setup::Reaffirm);
}

#[test]
fn with_everything_at_once_the_best_of_each_component_leads() {
    survive(Setup::Both);
}

/// Algorithms that promise a leader only with a probability promise none in a storm. But they fall quiet, with a leader
/// or without.
#[test]
fn probabilistic_algorithms_fall_quiet_after_storms() {
    for contract in CONTRACTS.iter().filter(|contract| !contract.is_certain()) {
        for seed in 0..seeds().min(300) {
            for setup in [Setup::Detector, Setup::Reaffirm] {
                let outcome = outcome(contract, seed, setup);
                assert!(outcome.quiet, "{} {setup:?} seed {seed}", contract.name);
            }
        }
    }
}

/// Each of seven dead leaders in a row costs these algorithms one time-out at most.
#[test]
fn soft_state_and_stable_leaders_settle_within_250_delays() {
    for contract in CONTRACTS.iter().filter(|it| ["stable-leader", "announce", "suppress"].contains(&it.name))
    {
        for seed in 0..seeds() {
            let scenario = running_for(storm_scenario(seed, Setup::Reaffirm), 250);
            let run = RunScenario { scenario, settings: contract.under_loss };
            let outcome = catalog::visit(contract.name, run).expect("it is there");
            assert_eq!(outcome.violations, [], "{} seed {seed}", contract.name);
        }
    }
}

/// LE-S keeps its promises also if ranks decide which process announces itself.
#[test]
fn suppression_by_rank_ends_with_the_best_of_each_component() {
    for seed in 0..seeds() {
        let scenario = running_for(storm_scenario(seed, Setup::Both), 250);
        let run = RunScenario { scenario, settings: &[("wake", "rank")] };
        let outcome = catalog::visit("suppress", run).expect("it is there");
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}

/// The bully and ring families assume that messages are not lost. Without reaffirmation they need that assumption.
#[test]
fn without_reaffirmation_lost_messages_leave_some_without_the_right_leader() {
    for contract in CONTRACTS.iter().filter(|contract| !contract.under_loss.is_empty()) {
        let fails = |seed: &u64| {
            let run =
                RunScenario { scenario: storm_scenario_for(contract, *seed, Setup::Reaffirm), settings: &[] };
            !catalog::visit(contract.name, run).expect("it is there").violations.is_empty()
        };
        assert!((0..50).any(|seed| fails(&seed)), "{}", contract.name);
    }
}

/// Six processes in a ring; one crashes during the election that 1 has called.
fn ring_that_loses(id: u64, at: &str) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(6));
    scenario.initiators = vec![0];
    scenario.plan = vec![(at.parse().expect("a time"), Fault::Crash(id as usize - 1))];
    scenario.until = Some(Time::ZERO + Span::from_millis(5_000));
    scenario
}

/// cs425 slide 28: "Election: 80 will circulate around the ring forever => Liveness violated". For the
/// rings that end at their initiator, the crash of the initiator has the same effect.
#[test]
fn without_repair_a_ring_whose_best_member_or_initiator_crashes_loops() {
    for (name, victim, at) in
        [("chang-roberts", 6, "7"), ("collecting-ring", 1, "3"), ("maximum-ring", 1, "3")]
    {
        let run = |settings| {
            let run = RunScenario { scenario: ring_that_loses(victim, at), settings };
            catalog::visit(name, run).expect("it is in the catalog")
        };
        let looping = run(&[("repair", "none")]);
        assert!(!looping.quiet && looping.leader.is_none(), "{name}");
        assert!(looping.messages.of("Election") > 500, "{name}: {:?}", looping.messages);
        assert_eq!(looping.violations[0].invariant, "termination", "{name}");

        let repaired = run(&[]);
        assert!(repaired.quiet, "{name}");
        assert_eq!(repaired.leader.map(|leader| leader.0), Some(if victim == 6 { 5 } else { 6 }), "{name}");
    }
}

/// cs425 slides 29 and 30: each of the two repairs is enough on its own.
#[test]
fn each_repair_of_the_slides_is_enough_on_its_own() {
    for (name, victim, at) in
        [("chang-roberts", 6, "7"), ("collecting-ring", 1, "3"), ("maximum-ring", 1, "3")]
    {
        let timeout: &'static [(&str, &str)] =
            if name == "chang-roberts" { &[("repair", "predecessor")] } else { &[("repair", "timeout")] };
        for (settings, detector) in [
            (timeout, Detector::None),
            (&[("repair", "detector")] as &[(&str, &str)], Detector::Ideal { delay: Span::from_millis(2) }),
        ] {
            let mut scenario = ring_that_loses(victim, at);
            scenario.detector = detector;
            let outcome = catalog::visit(name, RunScenario { scenario, settings }).expect("it is there");
            assert_eq!(outcome.violations, [], "{name} {settings:?}");
            assert!(outcome.quiet, "{name} {settings:?}");
        }
    }
}

/// Database Internals, ch. 10: "An unstable high-ranked node proposes itself as a leader, fails shortly
/// thereafter, wins reelection, fails again"; "solved by distributing host quality metrics".
#[test]
fn an_unstable_favourite_is_re_elected_for_ever_unless_quality_counts() {
    for contract in CONTRACTS.iter().filter(|contract| contract.choice == Choice::Best) {
        let mut scenario = Scenario::new(Roster::numbered(5));
        scenario.initiators = vec![0];
        scenario.detector = Detector::Ideal { delay: Span::from_millis(2) };
        let cycles = 10;
        for cycle in 0..cycles {
            let start = Time::ZERO + Span::from_millis(200 + 400 * cycle);
            scenario.plan.push((start, Fault::Crash(4)));
            scenario.plan.push((start + Span::from_millis(200), Fault::Recover { slot: 4, disk: true }));
        }
        let run = |ranking| {
            let scenario = Scenario { ranking, ..scenario.clone() };
            catalog::visit(contract.name, RunScenario { scenario, settings: &[] }).expect("it is there")
        };
        let plain = run(Ranking::Id);
        assert_eq!(plain.leader.map(|leader| leader.0), Some(5), "{}", contract.name);
        assert!(
            plain.leaderships as u64 > 2 * cycles,
            "{}: {} leaderships",
            contract.name,
            plain.leaderships
        );
        let wiser = run(Ranking::Quality);
        assert_eq!(wiser.leader.map(|leader| leader.0), Some(4), "{}", contract.name);
        assert_eq!(wiser.leaderships, 2, "{}: first the favourite, then a stable process", contract.name);
        assert_eq!((plain.violations, wiser.violations), (vec![], vec![]), "{}", contract.name);
    }
}
