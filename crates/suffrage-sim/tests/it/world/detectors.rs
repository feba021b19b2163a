//! The simulated failure detectors.

use suffrage_core::Roster;
use suffrage_sim::{Cut, Detector, Fault};

use crate::world::probe::Action::Send;
use crate::world::probes::{ONE, ProbeWorld, span, time};

fn ideal(count: usize) -> ProbeWorld {
    ProbeWorld::detected(count, Detector::Ideal { delay: span(2.0) })
}

#[test]
fn a_crash_is_suspected_exactly_after_the_delay_and_so_is_the_recovery() {
    let mut probes = ideal(3);
    probes.crash(10.0, 3);
    probes.recover(20.0, 3, true);
    probes.run_out();
    for id in 1..=2 {
        assert_eq!(probes.log(id), ["12 suspects 3", "22 trusts 3"]);
    }
    assert_eq!(probes.log(3), ["20 recovered with nothing, ranks 3"]);
    assert_eq!(probes.world.ledger().wrong_suspicions, 0);
}

#[test]
fn a_pause_is_suspected_like_a_crash_and_a_paused_process_suspects_nobody() {
    let mut probes = ideal(3);
    probes.pause(10.0, 20.0, 3);
    probes.run_out();
    for id in 1..=2 {
        assert_eq!(probes.log(id), ["12 suspects 3", "22 trusts 3"]);
    }
    assert_eq!(probes.log(3), [""; 0]);
}

#[test]
fn a_cut_makes_its_sides_suspect_each_other() {
    let mut probes = ideal(4);
    probes.cut(10.0, 20.0, &[&[1], &[2, 3]]);
    probes.run_out();
    assert_eq!(probes.log(1), ["12 suspects 2", "12 suspects 3", "22 trusts 2", "22 trusts 3"]);
    assert_eq!(probes.log(2), ["12 suspects 1", "22 trusts 1"]);
    assert_eq!(probes.log(3), ["12 suspects 1", "22 trusts 1"]);
    assert_eq!(probes.log(4), [""; 0], "it is on no side");
}

#[test]
fn after_a_one_way_cut_only_the_side_without_messages_suspects() {
    let mut probes = ideal(2);
    probes.cut_one_way(10.0, 20.0, &[&[1], &[2]]);
    probes.run_out();
    assert_eq!(probes.log(1), [""; 0]);
    assert_eq!(probes.log(2), ["12 suspects 1", "22 trusts 1"]);
}

#[test]
fn a_silence_shorter_than_the_delay_goes_unnoticed() {
    let mut probes = ideal(4);
    probes.crash(10.0, 2);
    probes.recover(11.5, 2, true);
    probes.pause(20.0, 21.5, 3);
    probes.cut(30.0, 31.5, &[&[1], &[4]]);
    probes.run_out();
    assert_eq!((probes.log(1), probes.log(3), probes.log(4)), (&[][..], &[][..], &[][..]));
}

#[test]
fn a_recovery_shorter_than_the_delay_goes_unnoticed() {
    let mut probes = ideal(2);
    probes.crash(10.0, 2);
    probes.recover(20.0, 2, true);
    probes.crash(21.5, 2);
    probes.run_out();
    assert_eq!(probes.log(1), ["12 suspects 2"]);
}

#[test]
fn a_silence_with_two_causes_is_reported_once_and_ends_with_the_second() {
    let mut probes = ideal(2);
    probes.crash(10.0, 2);
    probes.cut(11.0, 30.0, &[&[1], &[2]]);
    probes.recover(20.0, 2, true);
    probes.run_out();
    assert_eq!(probes.log(1), ["12 suspects 2", "32 trusts 2"]);
}

#[test]
fn an_observer_that_recovers_learns_anew_who_is_silent() {
    let mut probes = ideal(3);
    probes.crash(10.0, 3);
    probes.crash(20.0, 1);
    probes.recover(30.0, 1, true);
    probes.recover(40.0, 3, true);
    probes.run_out();
    assert_eq!(probes.log(1), ["30 recovered with nothing, ranks 1", "32 suspects 3", "42 trusts 3"]);
    assert_eq!(probes.log(2), ["12 suspects 3", "22 suspects 1", "32 trusts 1", "42 trusts 3"]);
}

#[test]
fn an_observer_that_was_paused_during_a_crash_suspects_after_it_resumes() {
    let mut probes = ideal(3);
    probes.pause(5.0, 20.0, 1);
    probes.crash(10.0, 3);
    probes.run_out();
    assert_eq!(probes.log(1), ["22 suspects 3"]);
}

#[test]
fn processes_dead_from_the_start_are_suspected_after_the_delay() {
    let mut probes = ideal(2);
    probes.world.kill(1);
    probes.run_out();
    assert_eq!(probes.log(1), ["2 suspects 2"]);
}

#[test]
fn without_a_detector_nobody_is_told_anything() {
    let mut probes = ProbeWorld::new(2);
    probes.crash(1.0, 2);
    probes.recover(5.0, 2, true);
    probes.cut(10.0, 20.0, &[&[1], &[2]]);
    probes.run_out();
    assert_eq!(probes.log(1), [""; 0]);
}

/// The lines of a process's log as time, verb and object.
fn suspicion_log(probes: &ProbeWorld, id: u64) -> Vec<(f64, &str, u64)> {
    let entry = |line: &'_ String| {
        let mut words = line.split(' ').map(str::to_owned);
        let at = words.next().unwrap().parse().unwrap();
        let verb = if words.next().unwrap() == "suspects" { "suspects" } else { "trusts" };
        (at, verb, words.next().unwrap().parse().unwrap())
    };
    probes.log(id).iter().map(entry).collect()
}

/// Each process makes 250 mistakes in 25,000 units on average: counts of a Poisson process. The bounds are six standard
/// deviations; about two seeds in a thousand million fail. One mistake in 200 falls into an existing suspicion and does
/// not count, which is a small part of the bound.
#[test]
fn every_process_suspects_wrongly_at_the_given_rate_and_corrects_it_after_the_delay() {
    for count in [2, 5] {
        let delay = 0.5;
        let detector = Detector::Parametric { delay: span(delay), false_rate: 0.01 };
        let mut probes = ProbeWorld::detected(count, detector);
        probes.run(25_000.0);
        let expected = 250.0 * count as f64;
        let mut wrong = 0;
        for id in 1..=count as u64 {
            let suspicion_log = suspicion_log(&probes, id);
            wrong += suspicion_log.iter().filter(|entry| entry.1 == "suspects").count() as u64;
            for (at, verb, peer) in &suspicion_log {
                assert_ne!(*peer, id);
                let after = suspicion_log.iter().find(|(then, _, other)| then > at && other == peer);
                match (*verb, after) {
                    ("suspects", Some((then, "trusts", _))) => {
                        assert!((then - at - delay).abs() < 1e-5, "{id}: {peer} from {at} to {then}");
                    }
                    ("suspects", _) => assert!(*at > 24_999.0, "{id} suspects {peer} at {at}, for good"),
                    _ => {}
                }
            }
            let own = suspicion_log.len() as f64 / 2.0;
            assert!((own - 250.0).abs() < 6.0 * 250f64.sqrt(), "{id} of {count}: {own}");
            let share = 250.0 / (count as f64 - 1.0);
            for peer in (1..=count as u64).filter(|&peer| peer != id) {
                let of = suspicion_log.iter().filter(|entry| entry.2 == peer).count() as f64 / 2.0;
                assert!((of - share).abs() < 6.0 * share.sqrt(), "{id} of {peer}: {of}");
            }
        }
        assert!((wrong as f64 - expected).abs() < 6.0 * expected.sqrt(), "{wrong} of {expected}");
        assert_eq!(wrong, probes.world.ledger().wrong_suspicions);
    }
}

#[test]
fn only_new_suspicions_of_reachable_processes_count_as_wrong() {
    let mut probes = ProbeWorld::detected(2, Detector::Parametric { delay: span(10.0), false_rate: 0.5 });
    probes.run(1_000.0);
    let suspicions = |probes: &ProbeWorld| {
        (1..=2).flat_map(|id| probes.log(id)).filter(|line| line.contains("suspects")).count() as u64
    };
    let wrong = probes.world.ledger().wrong_suspicions;
    assert!(wrong > 20);
    assert_eq!(wrong, suspicions(&probes));

    let mut probes = ProbeWorld::detected(2, Detector::Parametric { delay: span(10.0), false_rate: 0.5 });
    probes.schedule_fault(0.0, Fault::Cut(0, Cut::new(2, &[vec![0], vec![1]], false)));
    probes.run(1_000.0);
    assert_eq!((probes.world.ledger().wrong_suspicions, suspicions(&probes)), (0, 2));
}

#[test]
fn a_single_process_suspects_nobody() {
    let mut probes = ProbeWorld::detected(1, Detector::Parametric { delay: span(1.0), false_rate: 1.0 });
    probes.run(1_000.0);
    assert_eq!(probes.log(1), [""; 0]);
}

#[test]
fn a_parametric_detector_reports_crashes() {
    let detector = Detector::Parametric { delay: span(2.0), false_rate: 0.0 };
    let mut probes = ProbeWorld::detected(2, detector);
    probes.crash(10.0, 2);
    probes.run_out();
    assert_eq!(probes.log(1), ["12 suspects 2"]);
}

#[test]
fn a_suspicion_does_not_stop_messages() {
    let mut probes = ProbeWorld::with(Roster::numbered(2), 1, ONE);
    probes.world.set_detector(Detector::Ideal { delay: span(2.0) });
    probes.pause(10.0, 20.0, 2);
    probes.at(15.0, 1, Send(2, 7));
    probes.world.run(time(21.0));
    assert_eq!(probes.log(2), ["20 heard 7 from 1"]);
}
