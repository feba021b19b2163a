//! The trials match their descriptions, with any algorithm.

use std::collections::BTreeSet;

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_core::{Algorithm, NodeId, Time};
use suffrage_sim::{Detector, Fault, Outcome, TRIALS, Trial, TrialRun};

use crate::world::probes::{span, time};

fn draw<A: Algorithm>(name: &str, nodes: usize, seed: u64) -> TrialRun {
    let trial = Trial::named(name).expect("there is such a trial");
    trial.draw(&A::CONTRACT, nodes, seed, Detector::Ideal { delay: span(3.0) })
}

/// Runs the trial. Returns the events, a line each, and the outcome.
fn watch<A: Algorithm>(run: &TrialRun) -> (Vec<String>, Outcome) {
    let seen = std::rc::Rc::default();
    let watcher = crate::world::probes::Watcher(std::rc::Rc::clone(&seen));
    let outcome = run.scenario.run_observed::<A>(&A::Options::default(), Box::new(watcher));
    let seen = seen.borrow().clone();
    (seen, outcome)
}

/// The processes that crashed or recovered, in order.
fn events_of(seen: &[String], fate: &str) -> Vec<NodeId> {
    let who = |line: &String| line.strip_suffix(fate)?.split(' ').nth(1)?.parse().ok();
    seen.iter().filter_map(who).collect()
}

/// The leader that all believed in just before a moment.
fn leader_before(outcome: &Outcome, at: Time) -> Option<NodeId> {
    let holds = |agreement: &&suffrage_sim::AgreementPeriod| {
        agreement.from < at && agreement.to.is_none_or(|to| to >= at)
    };
    outcome.agreements.iter().find(holds).map(|agreement| agreement.leader)
}

#[test]
fn a_run_is_decided_by_its_seed_and_its_window_begins_with_the_first_fault() {
    let mut runs = BTreeSet::new();
    for trial in TRIALS {
        for seed in 0..20 {
            let one = draw::<Bully>(trial.name, 9, seed);
            let same = draw::<Bully>(trial.name, 9, seed);
            assert_eq!((&one.scenario.plan, one.clock_start), (&same.scenario.plan, same.clock_start));
            assert!(one.scenario.roster.iter().eq(same.scenario.roster.iter()));
            let first = one.scenario.plan.first().map_or(Time::ZERO, |(at, _)| *at);
            assert_eq!(one.scenario.window, Some(first), "{}", trial.name);
            let last = one.scenario.plan.last().map_or(Time::ZERO, |(at, _)| *at);
            assert_eq!((one.clock_start, one.scenario.horizon()), (last, last + span(680.0)));
            let order: Vec<NodeId> = one.scenario.roster.iter().collect();
            runs.insert((trial.name, order, first));
        }
    }
    assert_eq!(runs.len(), 20 * TRIALS.len(), "seeds matter");
}

#[test]
fn the_leader_crashes_and_another_process_leads() {
    fn check<A: Algorithm>(seed: u64) {
        let run = draw::<A>("leader-crash", 9, seed);
        let (seen, outcome) = watch::<A>(&run);
        let leader = leader_before(&outcome, run.clock_start);
        assert_eq!(leader, Some(NodeId(9)), "seed {seed}");
        assert_eq!(events_of(&seen, " crashed"), [NodeId(9)], "seed {seed}");
        assert_eq!(outcome.leader, Some(NodeId(8)), "seed {seed}");
        let window = outcome.window.expect("a trial has one");
        let wait = run.time_to_leader(&outcome).expect("they agree");
        // The detector reports the crash after 3 units, and nobody leads before that.
        assert!(window.leaderless >= 3.0 && wait >= window.leaderless, "{wait} {window:?}");
        assert_eq!((window.leaderships, outcome.leaderships), (1, 2), "seed {seed}");
        assert_eq!(run.first_agreement(&outcome).expect("they agree").0, wait);
    }
    (0..20).for_each(check::<Bully>);
    (0..20).for_each(check::<ChangRoberts>);
}

#[test]
fn two_sides_of_a_cut_have_leaders_of_their_own_until_it_heals() {
    for seed in 0..20 {
        let run = draw::<Bully>("partition-heal", 10, seed);
        let [(cut, Fault::Cut(_, sides)), (healed, Fault::Heal(_))] = run.scenario.plan.as_slice() else {
            panic!("a cut and its end");
        };
        assert_eq!(sides.groups().0.iter().map(Vec::len).collect::<Vec<_>>(), [4, 6]);
        let outcome = watch::<Bully>(&run).1;
        let window = outcome.window.expect("a trial has one");
        let wait = run.time_to_leader(&outcome).expect("they agree");
        let apart = healed.since(*cut).as_units();
        // Up to 5 units to detect the cut, and a few units to agree again after it heals.
        assert!((apart - 5.0..apart + wait).contains(&window.split), "{apart} {window:?}");
        assert!(wait > 0.0 && wait < 20.0 && outcome.leader == Some(NodeId(10)), "{wait}");
    }
}

#[test]
fn the_leader_crashes_and_recovers_five_times() {
    for seed in 0..20 {
        let run = draw::<Bully>("flapping-leader", 9, seed);
        let (seen, outcome) = watch::<Bully>(&run);
        assert_eq!(events_of(&seen, " crashed"), [NodeId(9); 5], "seed {seed}");
        assert_eq!(events_of(&seen, " recovered"), [NodeId(9); 5], "seed {seed}");
        assert_eq!(outcome.leader, Some(NodeId(9)));
        assert!(outcome.window.expect("a trial has one").leaderships >= 10, "each time 8, and 9 again");
    }
}

#[test]
fn a_fifth_of_the_messages_is_lost() {
    let run = draw::<Bully>("lossy", 30, 1);
    assert_eq!(run.scenario.loss, 0.2);
    let trial = Trial::named("lossy").unwrap();
    assert_eq!(trial.settings(&Bully::CONTRACT), Bully::CONTRACT.under_loss);
    assert!(
        TRIALS
            .iter()
            .filter(|trial| trial.loss == 0.0)
            .all(|trial| trial.settings(&Bully::CONTRACT).is_empty())
    );
    let outcome = watch::<Bully>(&run).1;
    assert!(outcome.messages.undelivered > 0);
}

#[test]
fn an_agreement_from_before_the_clock_start_takes_no_time() {
    let mut run = draw::<Bully>("cold-start", 5, 1);
    run.clock_start = time(50.0);
    let outcome = watch::<Bully>(&run).1;
    assert_eq!(run.time_to_leader(&outcome), Some(0.0));
    let (first, sent) = run.first_agreement(&outcome).expect("they agree");
    assert_eq!((first, sent.messages), (0.0, 0));
}
