//! Runs described as data.

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_core::{Figure, NodeId, Roster, Time};
use suffrage_sim::{Cut, Detector, Fault, Outcome, Ranking, Scenario};

use crate::world::probe::Probe;
use crate::world::probes::{span, time};

fn bully(scenario: &Scenario) -> Outcome {
    scenario.run::<Bully>(&Default::default())
}

fn called(count: usize) -> Scenario {
    Scenario { initiators: vec![0], ..Scenario::new(Roster::numbered(count)) }
}

#[test]
fn the_ranking_decides_who_is_the_best() {
    let leader = |ranking| {
        let outcome = bully(&Scenario { ranking, ..called(5) });
        assert!(outcome.agreed && outcome.violations.is_empty());
        outcome.leader
    };
    assert_eq!(leader(Ranking::Id), Some(NodeId(5)));
    assert_eq!(leader(Ranking::LowestId), Some(NodeId(1)));
    assert_eq!(leader(Ranking::Quality), Some(NodeId(5)));
    assert_eq!(leader("2=9,5=-1".parse().unwrap()), Some(NodeId(2)));
    assert_eq!(leader("5=-1".parse().unwrap()), Some(NodeId(4)), "the others keep their ids");
}

/// The probability that none of 40 seeds makes a given one of five processes the best is 0.0001.
#[test]
fn a_random_ranking_is_uniform_and_decided_by_the_seed() {
    let leader = |seed| bully(&Scenario { seed, ranking: Ranking::Random, ..called(5) }).leader;
    let mut leaders: Vec<_> = (0..40).map(leader).collect();
    assert!((0..40).map(leader).eq(leaders.iter().copied()));
    leaders.sort_unstable();
    leaders.dedup();
    assert_eq!(leaders, [1, 2, 3, 4, 5].map(|id| Some(NodeId(id))));
}

#[test]
fn the_crashed_are_dead_from_the_start() {
    let outcome = bully(&Scenario { crashed: vec![4, 1], ..called(5) });
    assert_eq!(outcome.leader, Some(NodeId(4)));
    assert_eq!((outcome.nodes, outcome.undecided), (5, 0));
    assert!(outcome.messages.undelivered > 0);
    let detector = Detector::Ideal { delay: span(3.0) };
    let world = Scenario { crashed: vec![1], detector, ..Scenario::new(Roster::numbered(2)) };
    let mut world = world.world::<Probe>(&None);
    world.run(Time::MAX);
    assert_eq!(world.process(0).log, ["3 suspects 2"]);
}

#[test]
fn the_initiators_call_at_time_zero_and_nobody_else_does() {
    let scenario = Scenario { initiators: vec![2, 0], ..Scenario::new(Roster::numbered(3)) };
    let mut world = scenario.world::<Probe>(&None);
    world.run(Time::MAX);
    let log = |slot: usize| world.process(slot).log.as_slice();
    assert_eq!((log(0), log(2)), (&["0 is told Campaign".into()][..], &["0 is told Campaign".into()][..]));
    assert_eq!(log(1), [""; 0]);
    let nobody = Scenario::new(Roster::numbered(3));
    let outcome = bully(&nobody);
    assert_eq!((outcome.leader, outcome.undecided, outcome.messages.total), (None, 3, 0));
    let dead = Scenario { initiators: vec![1], crashed: vec![1], ..nobody };
    assert_eq!(bully(&dead).messages.total, 0, "a dead process calls no election");
}

#[test]
fn the_roster_is_the_ring() {
    let roster = Roster::listed([3, 32, 5, 80, 6, 12].map(NodeId).to_vec()).unwrap();
    let scenario = Scenario { initiators: vec![2], ..Scenario::new(roster) };
    let outcome = scenario.run::<ChangRoberts>(&Default::default());
    assert_eq!(outcome.leader, Some(NodeId(80)));
}

#[test]
fn a_run_stops_at_its_horizon_and_is_quiet_only_without_events() {
    let outcome = bully(&called(5));
    assert!(outcome.quiet && outcome.agreed);
    let short = Scenario { until: Some(time(1.5)), ..called(5) };
    assert_eq!(short.horizon(), time(1.5));
    let outcome = bully(&short);
    assert!(!outcome.quiet && !outcome.agreed);
    assert!(outcome.time <= 1.5);
}

#[test]
fn the_horizon_lies_long_after_the_last_fault_and_grows_with_the_group_and_the_delay() {
    let calm = called(10);
    assert_eq!(calm.horizon(), time(1_200.0));
    let faulty = Scenario {
        plan: vec![(time(9.0), Fault::Crash(0)), (time(5.0), Fault::Pause(1, time(50.0)))],
        ..calm.clone()
    };
    assert_eq!(faulty.horizon(), time(1_250.0));
    assert_eq!(Scenario { delay_bound: Some(span(2.0)), ..calm }.horizon(), time(2_400.0));
    assert_eq!(called(20).horizon(), time(1_400.0));
}

#[test]
fn everything_the_scenario_sets_reaches_the_world() {
    let all = Scenario { initiators: (0..10).collect(), ..Scenario::new(Roster::numbered(10)) };
    let outcome = |scenario: Scenario| scenario.run::<Probe>(&Some(7));
    assert_eq!(outcome(Scenario { loss: 1.0, ..all.clone() }).messages.undelivered, 90);
    assert_eq!(outcome(Scenario { duplicate: 1.0, ..all.clone() }).events, 10 + 180);
    assert_eq!(outcome(all.clone()).events, 10 + 90);
    let world = |scenario: Scenario| {
        let mut world = scenario.world::<Probe>(&Some(7));
        world.run(Time::MAX);
        world
    };
    let slow = world(Scenario { latency: "const:4".parse().unwrap(), ..all.clone() });
    assert_eq!(slow.process(0).times[1], time(4.0));
    assert_eq!(slow.process(0).delay_bound, span(4.0));
    let told = world(Scenario { delay_bound: Some(span(9.0)), ..all.clone() });
    assert_eq!(told.process(0).delay_bound, span(9.0));
    let drifting = world(Scenario { drift: 0.1, ..all.clone() });
    assert_ne!(drifting.process(0).times[1], time(1.0));
    let planned = world(Scenario { plan: vec![(time(5.0), Fault::Crash(3))], ..all });
    assert!(!planned.facts().is_up(3) && planned.facts().up().count() == 9);
}

#[test]
fn an_outcome_agrees_only_on_a_live_leader() {
    let plan = vec![(time(50.0), Fault::Crash(4))];
    let outcome = bully(&Scenario { plan, ..called(5) });
    assert_eq!((outcome.leader, outcome.agreed), (None, false));
    assert_eq!(outcome.leaders, [NodeId(5)].into());
    assert_eq!(outcome.leaderships, 1);
}

/// A permanent cut: 5 leads one side from 1 on, and 2 the other from 12 on. Both lead up to the horizon, although no
/// events are left.
#[test]
fn a_quiet_world_keeps_its_state_until_the_horizon() {
    let cut = Cut::new(5, &[vec![0, 1], vec![2, 3, 4]], false);
    let detector = Detector::Ideal { delay: span(2.0) };
    let outcome = bully(&Scenario {
        detector,
        plan: vec![(time(10.0), Fault::Cut(0, cut))],
        until: Some(time(500.0)),
        ..called(5)
    });
    assert!(outcome.quiet);
    assert_eq!((outcome.leaderless, outcome.split), (1.0, 488.0));
}

#[test]
fn the_horizon_includes_the_detection_time() {
    let scenario = called(5);
    let patient = Scenario { detector: Detector::Ideal { delay: span(900.0) }, ..scenario.clone() };
    assert_eq!(patient.horizon(), scenario.horizon() + span(900.0));
}

#[test]
fn multicasts_and_other_messages_are_lost_each_at_their_own_rate() {
    let all = Scenario { initiators: (0..10).collect(), ..Scenario::new(Roster::numbered(10)) };
    let undelivered = |loss, multicast_loss| {
        let scenario = Scenario { loss, multicast_loss, ..all.clone() };
        scenario.run::<Probe>(&Some(7)).messages.undelivered
    };
    assert_eq!(undelivered(0.0, Some(1.0)), 90, "the message of a campaign is a multicast");
    assert_eq!(undelivered(1.0, Some(0.0)), 0);
    assert_eq!(undelivered(1.0, None), 90);
}

/// A quarter of 2,000 is 500, with a standard deviation of 19. The bound is six standard deviations, on fixed seeds.
#[test]
fn processes_crash_by_themselves_with_the_given_probability_and_within_the_given_time() {
    let scenario = |seed, fail_within| Scenario {
        seed,
        crashed: vec![3],
        fail: 0.25,
        fail_within,
        ..Scenario::new(Roster::numbered(2_000))
    };
    let dead_by = |at: f64, scenario: &Scenario| {
        let mut world = scenario.world::<Probe>(&None);
        world.run(time(at));
        (0..2_000).filter(|&slot| !world.facts().is_up(slot)).collect::<Vec<_>>()
    };
    let slow = scenario(1, span(100.0));
    let (half, all) = (dead_by(50.0, &slow), dead_by(100.0, &slow));
    assert!(all.len().abs_diff(500) < 116 && all.contains(&3), "{}", all.len());
    assert!(half.len().abs_diff(250) < 90, "{}", half.len());
    assert_eq!(all, dead_by(900.0, &slow), "nobody dies later");
    assert_ne!(all, dead_by(100.0, &scenario(2, span(100.0))), "the seed decides");
    let at_once = dead_by(0.0, &scenario(1, span(0.0)));
    assert!(at_once.len().abs_diff(500) < 116, "{}", at_once.len());
    assert_eq!(slow.horizon(), Scenario { fail: 0.0, ..slow.clone() }.horizon() + span(100.0));
}

#[test]
fn views_have_the_given_probability_and_differ_by_seed() {
    let known = |seed, view_prob| {
        let scenario = Scenario { seed, view_prob, ..Scenario::new(Roster::numbered(1_000)) };
        scenario.world::<Probe>(&None).roster().view(5).peers().collect::<Vec<_>>()
    };
    assert_eq!(known(1, 1.0).len(), 999);
    // A standard deviation of 14.5, six of which are allowed.
    assert!(known(1, 0.3).len().abs_diff(300) < 90);
    assert_eq!(known(1, 0.3), known(1, 0.3));
    assert_ne!(known(1, 0.3), known(2, 0.3));
}

#[test]
fn an_outcome_has_the_figures_of_its_algorithm_with_and_without_layers() {
    let mut scenario = Scenario { crashed: vec![1, 2], ..called(4) };
    let figures = |scenario: &Scenario| scenario.run::<Probe>(&Some(7)).figures;
    let expected = |lines| {
        [Figure::share("campaign_message", true), Figure::amount("lines", lines), Figure::amount("dead", 5.0)]
    };
    assert_eq!(
        figures(&scenario),
        expected(2.0),
        "the campaign, and the message to the only other live process"
    );
    scenario.detector = "heartbeat:1,3".parse().unwrap();
    scenario.until = Some(time(10.0));
    assert_eq!(figures(&scenario), expected(6.0), "and two suspicions of two");
    let json = serde_json::to_value(scenario.run::<Probe>(&None)).unwrap();
    assert_eq!(json["figures"]["campaign_message"], false);
    assert_eq!(json["figures"]["dead"], 5.0);
}
