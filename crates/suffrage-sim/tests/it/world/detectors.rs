//! The failure detectors that the simulator plays.

use suffrage_core::Roster;
use suffrage_sim::{Cut, Detector, Fault};

use crate::world::probe::Act::Say;
use crate::world::stage::{ONE, Stage, span, time};

fn ideal(count: usize) -> Stage {
    Stage::detected(count, Detector::Ideal { delay: span(2.0) })
}

#[test]
fn a_crash_is_suspected_exactly_after_the_delay_and_so_is_the_recovery() {
    let mut stage = ideal(3);
    stage.crash(10.0, 3);
    stage.recover(20.0, 3, true);
    stage.run_out();
    for id in 1..=2 {
        assert_eq!(stage.diary(id), ["12 suspects 3", "22 trusts 3"]);
    }
    assert_eq!(stage.diary(3), ["20 recovered with nothing, ranks 3"]);
    assert_eq!(stage.world.ledger().wrong_suspicions, 0);
}

#[test]
fn a_pause_is_suspected_like_a_crash_and_the_paused_suspects_nobody() {
    let mut stage = ideal(3);
    stage.pause(10.0, 20.0, 3);
    stage.run_out();
    for id in 1..=2 {
        assert_eq!(stage.diary(id), ["12 suspects 3", "22 trusts 3"]);
    }
    assert_eq!(stage.diary(3), [""; 0]);
}

#[test]
fn a_cut_makes_its_sides_suspect_each_other() {
    let mut stage = ideal(4);
    stage.cut(10.0, 20.0, &[&[1], &[2, 3]]);
    stage.run_out();
    assert_eq!(stage.diary(1), ["12 suspects 2", "12 suspects 3", "22 trusts 2", "22 trusts 3"]);
    assert_eq!(stage.diary(2), ["12 suspects 1", "22 trusts 1"]);
    assert_eq!(stage.diary(3), ["12 suspects 1", "22 trusts 1"]);
    assert_eq!(stage.diary(4), [""; 0], "it is on no side");
}

#[test]
fn after_a_one_way_cut_only_those_suspect_who_no_longer_hear() {
    let mut stage = ideal(2);
    stage.cut_one_way(10.0, 20.0, &[&[1], &[2]]);
    stage.run_out();
    assert_eq!(stage.diary(1), [""; 0]);
    assert_eq!(stage.diary(2), ["12 suspects 1", "22 trusts 1"]);
}

#[test]
fn a_silence_shorter_than_the_delay_goes_unnoticed() {
    let mut stage = ideal(4);
    stage.crash(10.0, 2);
    stage.recover(11.5, 2, true);
    stage.pause(20.0, 21.5, 3);
    stage.cut(30.0, 31.5, &[&[1], &[4]]);
    stage.run_out();
    assert_eq!((stage.diary(1), stage.diary(3), stage.diary(4)), (&[][..], &[][..], &[][..]));
}

#[test]
fn a_voice_that_lasts_shorter_than_the_delay_goes_unnoticed() {
    let mut stage = ideal(2);
    stage.crash(10.0, 2);
    stage.recover(20.0, 2, true);
    stage.crash(21.5, 2);
    stage.run_out();
    assert_eq!(stage.diary(1), ["12 suspects 2"]);
}

#[test]
fn a_silence_that_has_two_reasons_is_reported_once_and_ends_with_the_second() {
    let mut stage = ideal(2);
    stage.crash(10.0, 2);
    stage.cut(11.0, 30.0, &[&[1], &[2]]);
    stage.recover(20.0, 2, true);
    stage.run_out();
    assert_eq!(stage.diary(1), ["12 suspects 2", "32 trusts 2"]);
}

#[test]
fn an_observer_that_recovers_learns_anew_who_is_silent() {
    let mut stage = ideal(3);
    stage.crash(10.0, 3);
    stage.crash(20.0, 1);
    stage.recover(30.0, 1, true);
    stage.recover(40.0, 3, true);
    stage.run_out();
    assert_eq!(stage.diary(1), ["30 recovered with nothing, ranks 1", "32 suspects 3", "42 trusts 3"]);
    assert_eq!(stage.diary(2), ["12 suspects 3", "22 suspects 1", "32 trusts 1", "42 trusts 3"]);
}

#[test]
fn an_observer_that_slept_through_it_learns_after_it_wakes() {
    let mut stage = ideal(3);
    stage.pause(5.0, 20.0, 1);
    stage.crash(10.0, 3);
    stage.run_out();
    assert_eq!(stage.diary(1), ["22 suspects 3"]);
}

#[test]
fn the_dead_from_the_start_are_suspected_after_the_delay() {
    let mut stage = ideal(2);
    stage.world.kill(1);
    stage.run_out();
    assert_eq!(stage.diary(1), ["2 suspects 2"]);
}

#[test]
fn without_a_detector_nobody_is_told_anything() {
    let mut stage = Stage::new(2);
    stage.crash(1.0, 2);
    stage.recover(5.0, 2, true);
    stage.cut(10.0, 20.0, &[&[1], &[2]]);
    stage.run_out();
    assert_eq!(stage.diary(1), [""; 0]);
}

/// The lines of everybody's diary as time, verb and object.
fn remarks(stage: &Stage, id: u64) -> Vec<(f64, &str, u64)> {
    let remark = |line: &'_ String| {
        let mut words = line.split(' ').map(str::to_owned);
        let at = words.next().unwrap().parse().unwrap();
        let verb = if words.next().unwrap() == "suspects" { "suspects" } else { "trusts" };
        (at, verb, words.next().unwrap().parse().unwrap())
    };
    stage.diary(id).iter().map(remark).collect()
}

/// Each process errs 250 times in 25,000 units on average. Counts of a Poisson process: six standard
/// deviations of all of them together, about two seeds in a thousand million would fail. One mistake
/// in 200 falls on a suspicion that stands and is none, a small part of the bound.
#[test]
fn every_process_suspects_wrongly_at_the_given_rate_and_is_put_right_after_the_delay() {
    for count in [2, 5] {
        let delay = 0.5;
        let detector = Detector::Parametric { delay: span(delay), false_rate: 0.01 };
        let mut stage = Stage::detected(count, detector);
        stage.run(25_000.0);
        let expected = 250.0 * count as f64;
        let mut wrong = 0;
        for id in 1..=count as u64 {
            let remarks = remarks(&stage, id);
            wrong += remarks.iter().filter(|remark| remark.1 == "suspects").count() as u64;
            for (at, verb, peer) in &remarks {
                assert_ne!(*peer, id);
                let after = remarks.iter().find(|(then, _, other)| then > at && other == peer);
                match (*verb, after) {
                    ("suspects", Some((then, "trusts", _))) => {
                        assert!((then - at - delay).abs() < 1e-5, "{id}: {peer} from {at} to {then}");
                    }
                    ("suspects", _) => assert!(*at > 24_999.0, "{id} suspects {peer} at {at}, for good"),
                    _ => {}
                }
            }
            let own = remarks.len() as f64 / 2.0;
            assert!((own - 250.0).abs() < 6.0 * 250f64.sqrt(), "{id} of {count}: {own}");
            let share = 250.0 / (count as f64 - 1.0);
            for peer in (1..=count as u64).filter(|&peer| peer != id) {
                let of = remarks.iter().filter(|remark| remark.2 == peer).count() as f64 / 2.0;
                assert!((of - share).abs() < 6.0 * share.sqrt(), "{id} of {peer}: {of}");
            }
        }
        assert!((wrong as f64 - expected).abs() < 6.0 * expected.sqrt(), "{wrong} of {expected}");
        assert_eq!(wrong, stage.world.ledger().wrong_suspicions);
    }
}

#[test]
fn only_new_suspicions_of_those_who_can_be_heard_count_as_wrong() {
    let mut stage = Stage::detected(2, Detector::Parametric { delay: span(10.0), false_rate: 0.5 });
    stage.run(1_000.0);
    let suspicions = |stage: &Stage| {
        (1..=2).flat_map(|id| stage.diary(id)).filter(|line| line.contains("suspects")).count() as u64
    };
    let wrong = stage.world.ledger().wrong_suspicions;
    assert!(wrong > 20);
    assert_eq!(wrong, suspicions(&stage));

    let mut stage = Stage::detected(2, Detector::Parametric { delay: span(10.0), false_rate: 0.5 });
    stage.schedule_fault(0.0, Fault::Cut(0, Cut::new(2, &[vec![0], vec![1]], false)));
    stage.run(1_000.0);
    assert_eq!((stage.world.ledger().wrong_suspicions, suspicions(&stage)), (0, 2));
}

#[test]
fn one_that_is_alone_has_nobody_to_suspect() {
    let mut stage = Stage::detected(1, Detector::Parametric { delay: span(1.0), false_rate: 1.0 });
    stage.run(1_000.0);
    assert_eq!(stage.diary(1), [""; 0]);
}

#[test]
fn a_detector_that_errs_still_reports_silence() {
    let detector = Detector::Parametric { delay: span(2.0), false_rate: 0.0 };
    let mut stage = Stage::detected(2, detector);
    stage.crash(10.0, 2);
    stage.run_out();
    assert_eq!(stage.diary(1), ["12 suspects 2"]);
}

#[test]
fn suspicion_is_no_obstacle_to_messages() {
    let mut stage = Stage::with(Roster::numbered(2), 1, ONE);
    stage.world.set_detector(Detector::Ideal { delay: span(2.0) });
    stage.pause(10.0, 20.0, 2);
    stage.at(15.0, 1, Say(2, 7));
    stage.world.run(time(21.0));
    assert_eq!(stage.diary(2), ["20 heard 7 from 1"]);
}
