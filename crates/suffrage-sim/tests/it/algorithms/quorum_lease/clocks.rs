//! The clock assumptions of safety: rates within the drift bound, and no jumps. Clocks within the bound are safe, and
//! clocks outside of it break safety.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Command, NodeId, Roster, Span};
use suffrage_sim::{Cut, Fault, Outcome, Scenario};

use crate::algorithms::quorum_lease::storm_scenarios::{drift, storm_scenario, time};
use crate::algorithms::seeds;

fn two_at_once(outcome: &Outcome) -> bool {
    outcome.violations.iter().any(|violation| violation.invariant == "at-most-one-leader")
}

/// Leaders are cut off from the voters, and others take over as soon as they can: leases are used up to the last moment,
/// by clocks of all rates within the drift.
fn succession(seed: u64, clocks: f64) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(7));
    scenario.seed = seed;
    scenario.drift = clocks;
    // Short delays: little time passes between the end of one lease and the beginning of the next.
    scenario.latency = suffrage_sim::Latency::Const(Span::from_units(0.01));
    scenario.delay_bound = Some(Span::UNIT);
    scenario.initiators = vec![5];
    let cut =
        |slot: usize| Cut::new(7, &[vec![slot], (0..7).filter(|&other| other != slot).collect()], false);
    scenario.plan = vec![
        (time(40), Fault::Cut(1, cut(5))),
        (time(100), Fault::Heal(1)),
        (time(120), Fault::Cut(2, cut(6))),
        (time(180), Fault::Heal(2)),
    ];
    scenario.until = Some(time(300));
    scenario
}

#[test]
fn drift_up_to_the_bound_is_safe() {
    for seed in 0..seeds() {
        for (clocks, bound) in [(0.01, "1%"), (0.1, "10%"), (0.2, "20%")] {
            let options = Options { voters: 3, drift: drift(bound), ..Options::default() };
            let outcome = succession(seed, clocks).run::<QuorumLease>(&options);
            assert_eq!(outcome.violations, [], "seed {seed} {bound}");
        }
    }
}

/// With a drift bound of 0 and clocks that drift, the checker finds two leaders.
#[test]
fn drift_beyond_the_bound_makes_two_leaders() {
    let options = Options { voters: 3, drift: drift("0%"), ..Options::default() };
    let count = |clocks| {
        (0..500).filter(|&seed| two_at_once(&succession(seed, clocks).run::<QuorumLease>(&options))).count()
    };
    let counts = [0.0, 0.05, 0.1, 0.2].map(count);
    println!("two leaders in {counts:?} of 500 for clocks that drift 0, 5, 10 and 20% and a bound of 0");
    assert_eq!(counts[0], 0);
    assert!(counts[3] >= 50, "{counts:?}");
}

/// 6 leads and is cut off at 40. Then the clock in `slot` jumps (of a voter, also a second voter's), and 7 campaigns.
fn jump(slot: usize, by: u64, back: bool) -> Outcome {
    let mut scenario = succession(1, 0.0);
    scenario.plan.truncate(2);
    scenario.plan.push((time(42), Fault::Jump { slot, by: Span::from_millis(by), back }));
    if slot < 3 {
        scenario.plan.push((time(42), Fault::Jump { slot: (slot + 1) % 3, by: Span::from_millis(by), back }));
    }
    scenario.commands = (43..80).map(|at| (time(at), 6, Command::Campaign.to_string())).collect();
    scenario.run::<QuorumLease>(&Options { voters: 3, ..Options::default() })
}

/// A node's clock never jumps, so jumps are outside of the assumptions. A leader's clock that jumps forward only shortens
/// its lease. But a majority of voters whose clocks jump forward forget their grants, and a leader whose clock jumps
/// back takes its lease for longer than it is.
#[test]
fn clocks_that_jump_break_it_forward_at_voters_and_backward_at_leaders() {
    assert_eq!(jump(5, 100, false).violations, []);
    assert_eq!(jump(0, 100, true).violations.iter().filter(|it| it.invariant.contains("leader")).count(), 0);
    assert!(two_at_once(&jump(0, 100, false)), "voters");
    assert!(two_at_once(&jump(5, 30, true)), "the leader");
}

/// A leader's clock may jump forward at any moment of any storm.
#[test]
fn forward_jumps_of_candidates_are_safe() {
    for seed in 0..seeds() {
        let (mut scenario, options) = storm_scenario(seed);
        let members = scenario.roster.len();
        let candidates = options.voters.min(members)..members;
        for (place, slot) in candidates.enumerate() {
            let at = time((seed * 37 + 80 * place as u64) % 280);
            scenario.plan.push((at, Fault::Jump { slot, by: Span::from_millis(5 + seed % 90), back: false }));
        }
        let outcome = scenario.run::<QuorumLease>(&options);
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}

/// On a suspended machine the process does not run, and its clock goes on. After the resume the leader knows at once that
/// its lease has expired.
#[test]
fn a_suspended_leader_knows_that_time_has_passed() {
    let mut scenario = Scenario::new(Roster::numbered(5));
    scenario.initiators = vec![4];
    scenario.plan = vec![(time(20), Fault::Pause(4, time(100)))];
    let mut world = scenario.world::<QuorumLease>(&Options::default());
    world.run(time(30));
    assert!(world.facts().leads(4));
    world.run(time(99));
    assert_eq!(
        world.facts().belief(4).map(|belief| belief.leader),
        Some(NodeId(5)),
        "the process has not read its clock yet"
    );
    assert!(!world.facts().leads(4), "by its clock the lease has expired");
    world.run(time(100));
    assert_eq!(world.facts().belief(4), None);
    let leaderships = &world.ledger().leaderships;
    assert_eq!(leaderships.len(), 2);
    assert!(leaderships[0].to.unwrap() < leaderships[1].from, "{leaderships:?}");
}
