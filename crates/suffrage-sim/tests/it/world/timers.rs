//! Timers.

use suffrage_core::Span;
use suffrage_sim::Fault;

use crate::world::probe::Action::{Cancel, Set};
use crate::world::probe::Alarm;
use crate::world::probes::ProbeWorld;

#[test]
fn a_timer_fires_once_after_its_time() {
    let mut probes = ProbeWorld::new(2);
    probes.at(5.0, 1, Set(Alarm(0), 2.5));
    probes.run_out();
    assert_eq!(probes.log(1), ["7.5 alarm 0"]);
    assert_eq!(probes.log(2), [""; 0]);
}

#[test]
fn a_timer_that_is_set_again_replaces_the_pending_one() {
    for after in [1.0, 4.0, 9.0] {
        let mut probes = ProbeWorld::new(1);
        probes.at(5.0, 1, Set(Alarm(0), 5.0));
        probes.at(6.0, 1, Set(Alarm(2), after));
        probes.run_out();
        assert_eq!(probes.log(1), [format!("{} alarm 2", 6.0 + after)]);
    }
}

#[test]
fn timers_of_different_indices_and_processes_are_independent() {
    let mut probes = ProbeWorld::new(2);
    probes.at(5.0, 1, Set(Alarm(0), 5.0));
    probes.at(6.0, 1, Set(Alarm(1), 1.0));
    probes.at(6.0, 2, Set(Alarm(0), 2.0));
    probes.at(6.5, 2, Cancel(Alarm(1)));
    probes.run_out();
    assert_eq!(probes.log(1), ["7 alarm 1", "10 alarm 0"]);
    assert_eq!(probes.log(2), ["8 alarm 0"]);
}

#[test]
fn a_cancelled_timer_never_fires() {
    let mut probes = ProbeWorld::new(1);
    probes.at(5.0, 1, Set(Alarm(0), 5.0));
    probes.at(9.0, 1, Cancel(Alarm(2)));
    probes.at(20.0, 1, Set(Alarm(0), 5.0));
    probes.at(21.0, 1, Cancel(Alarm(0)));
    probes.at(22.0, 1, Set(Alarm(0), 1.0));
    probes.run_out();
    assert_eq!(probes.log(1), ["23 alarm 0"]);
}

#[test]
fn cancelling_a_timer_that_is_not_set_has_no_effect() {
    let mut probes = ProbeWorld::new(1);
    probes.at(1.0, 1, Cancel(Alarm(0)));
    probes.at(2.0, 1, Set(Alarm(0), 1.0));
    probes.at(4.0, 1, Cancel(Alarm(0)));
    probes.run_out();
    assert_eq!(probes.log(1), ["3 alarm 0"]);
}

#[test]
fn a_crash_cancels_timers() {
    let mut probes = ProbeWorld::new(1);
    probes.at(5.0, 1, Set(Alarm(0), 5.0));
    probes.at(5.0, 1, Set(Alarm(1), 5.0));
    probes.crash(6.0, 1);
    probes.recover(7.0, 1, true);
    probes.run_out();
    assert_eq!(probes.log(1), ["7 recovered with nothing, ranks 1"]);
}

#[test]
fn a_recovered_process_gets_only_timers_set_after_the_recovery() {
    let mut probes = ProbeWorld::new(1);
    probes.at(5.0, 1, Set(Alarm(0), 5.0));
    probes.crash(6.0, 1);
    probes.recover(7.0, 1, true);
    probes.at(8.0, 1, Set(Alarm(0), 4.0));
    probes.run_out();
    assert_eq!(probes.log(1)[1..], ["12 alarm 0"]);
}

#[test]
fn a_jump_changes_the_clock_and_no_timer() {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    let jump = |units: f64, back| Fault::Jump { slot: 0, by: Span::from_units(units), back };
    probes.schedule_fault(2.0, jump(30.0, false));
    probes.schedule_fault(6.0, jump(31.5, true));
    probes.schedule_fault(8.0, jump(100.0, true));
    for (id, alarm) in [(1, 0), (2, 0)] {
        probes.at(1.0, id, Set(Alarm(alarm), 3.0));
        probes.at(4.5, id, Set(Alarm(alarm), 3.0));
        probes.at(7.75, id, Set(Alarm(alarm), 3.0));
    }
    probes.run_out();
    assert_eq!(probes.log(1), ["34 alarm 0", "6 alarm 0", "2.75 alarm 0"], "a clock does not go below zero");
    assert_eq!(probes.log(2), ["4 alarm 0", "7.5 alarm 0", "10.75 alarm 0"]);
    assert!(seen.borrow().iter().any(|line| line == "6 1 jumps -31.5"));
}
