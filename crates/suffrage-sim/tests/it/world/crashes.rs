//! Crashes, recoveries, and the state that survives them.

use crate::world::probe::Action::{Save, Send};
use crate::world::probes::ProbeWorld;

#[test]
fn a_crash_loses_memory_and_keeps_the_last_save() {
    let mut probes = ProbeWorld::new(2);
    probes.at(1.0, 1, Send(2, 7));
    probes.at(1.0, 2, Save(41));
    probes.at(3.0, 2, Save(42));
    probes.crash(4.0, 2);
    probes.recover(6.0, 2, true);
    probes.run(5.0);
    assert_eq!(probes.log(2), ["2 heard 7 from 1"]);
    probes.run_out();
    assert_eq!(probes.log(2), ["6 recovered with 42, ranks 2"]);
}

#[test]
fn a_recovery_without_the_disk_has_no_saved_state() {
    let mut probes = ProbeWorld::new(1);
    probes.at(1.0, 1, Save(42));
    probes.crash(4.0, 1);
    probes.recover(6.0, 1, false);
    probes.run_out();
    assert_eq!(probes.log(1), ["6 recovered with nothing, ranks 1"]);
}

#[test]
fn a_disk_that_is_lost_stays_lost() {
    let mut probes = ProbeWorld::new(1);
    probes.at(1.0, 1, Save(42));
    for (crash, disk) in [(4.0, false), (8.0, true)] {
        probes.crash(crash, 1);
        probes.recover(crash + 2.0, 1, disk);
    }
    probes.run_out();
    assert_eq!(probes.log(1), ["10 recovered with nothing, ranks 1"]);
}

#[test]
fn disks_outlive_several_crashes_and_are_nobody_elses() {
    let mut probes = ProbeWorld::new(2);
    probes.at(1.0, 1, Save(42));
    for crash in [4.0, 8.0] {
        probes.crash(crash, 1);
        probes.crash(crash, 2);
        probes.recover(crash + 2.0, 1, true);
        probes.recover(crash + 2.0, 2, true);
    }
    probes.run_out();
    assert_eq!(probes.log(1), ["10 recovered with 42, ranks 1"]);
    assert_eq!(probes.log(2), ["10 recovered with nothing, ranks 2"]);
}

#[test]
fn the_dead_cannot_die_and_the_living_cannot_recover() {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    probes.at(1.0, 1, Send(2, 7));
    probes.recover(3.0, 2, true);
    probes.crash(4.0, 1);
    probes.crash(5.0, 1);
    probes.run_out();
    assert_eq!(probes.log(2), ["2 heard 7 from 1"]);
    assert_eq!(seen.borrow().iter().filter(|line| line.ends_with("crashed")).count(), 1);
    assert!(!seen.borrow().iter().any(|line| line.ends_with("recovered")));
}

#[test]
fn messages_to_the_dead_are_dropped_and_counted() {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    probes.at(3.5, 1, Send(2, 1));
    probes.crash(4.0, 2);
    probes.at(5.0, 1, Send(2, 2));
    probes.recover(8.0, 2, true);
    probes.run_out();
    assert_eq!(probes.log(2), ["8 recovered with nothing, ranks 2"]);
    assert_eq!(probes.counts(), [0, 0, 2, 0, 0]);
    let dropped: Vec<String> =
        seen.borrow().iter().filter(|line| line.contains("ReceiverDead")).cloned().collect();
    assert_eq!(dropped, ["4.5 1 to 2: ReceiverDead", "6 1 to 2: ReceiverDead"]);
}

#[test]
fn a_message_reaches_a_process_that_recovers_before_its_arrival() {
    let mut probes = ProbeWorld::new(2);
    probes.crash(4.0, 2);
    probes.at(5.0, 1, Send(2, 2));
    probes.recover(5.5, 2, true);
    probes.run_out();
    assert_eq!(probes.log(2)[1..], ["6 heard 2 from 1"]);
    assert_eq!(probes.counts(), [0; 5]);
}

#[test]
fn a_message_outlives_its_sender() {
    let mut probes = ProbeWorld::new(2);
    probes.at(5.0, 1, Send(2, 7));
    probes.crash(5.5, 1);
    probes.run_out();
    assert_eq!(probes.log(2), ["6 heard 7 from 1"]);
}

#[test]
fn a_dead_process_gets_no_commands() {
    let mut probes = ProbeWorld::new(2);
    probes.crash(1.0, 1);
    probes.at(2.0, 1, Send(2, 7));
    probes.run_out();
    assert_eq!(probes.log(2), [""; 0]);
}

#[test]
fn a_process_dead_from_the_start_never_starts_and_can_recover() {
    let mut probes = ProbeWorld::new(2);
    probes.world.kill(1);
    probes.at(1.0, 1, Send(2, 7));
    probes.run(5.0);
    assert_eq!(probes.world.process(1), &Default::default());
    assert!(!probes.world.facts().is_up(1));
    assert_eq!(probes.counts(), [0, 0, 1, 0, 0]);
    probes.recover(6.0, 2, true);
    probes.run_out();
    assert_eq!(probes.log(2), ["6 recovered with nothing, ranks 2"]);
}
