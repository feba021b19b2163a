//! Crashes, recoveries, and what outlives them.

use crate::world::probe::Act::{Save, Say};
use crate::world::stage::Stage;

#[test]
fn a_process_that_crashed_has_lost_its_memory_and_keeps_what_it_saved_last() {
    let mut stage = Stage::new(2);
    stage.at(1.0, 1, Say(2, 7));
    stage.at(1.0, 2, Save(41));
    stage.at(3.0, 2, Save(42));
    stage.crash(4.0, 2);
    stage.recover(6.0, 2, true);
    stage.run(5.0);
    assert_eq!(stage.diary(2), ["2 heard 7 from 1"]);
    stage.run_out();
    assert_eq!(stage.diary(2), ["6 recovered with 42, ranks 2"]);
}

#[test]
fn without_its_disk_it_has_nothing() {
    let mut stage = Stage::new(1);
    stage.at(1.0, 1, Save(42));
    stage.crash(4.0, 1);
    stage.recover(6.0, 1, false);
    stage.run_out();
    assert_eq!(stage.diary(1), ["6 recovered with nothing, ranks 1"]);
}

#[test]
fn a_disk_that_is_lost_stays_lost() {
    let mut stage = Stage::new(1);
    stage.at(1.0, 1, Save(42));
    for (crash, disk) in [(4.0, false), (8.0, true)] {
        stage.crash(crash, 1);
        stage.recover(crash + 2.0, 1, disk);
    }
    stage.run_out();
    assert_eq!(stage.diary(1), ["10 recovered with nothing, ranks 1"]);
}

#[test]
fn disks_outlive_several_crashes_and_are_nobody_elses() {
    let mut stage = Stage::new(2);
    stage.at(1.0, 1, Save(42));
    for crash in [4.0, 8.0] {
        stage.crash(crash, 1);
        stage.crash(crash, 2);
        stage.recover(crash + 2.0, 1, true);
        stage.recover(crash + 2.0, 2, true);
    }
    stage.run_out();
    assert_eq!(stage.diary(1), ["10 recovered with 42, ranks 1"]);
    assert_eq!(stage.diary(2), ["10 recovered with nothing, ranks 2"]);
}

#[test]
fn the_dead_cannot_die_and_the_living_cannot_recover() {
    let mut stage = Stage::new(2);
    let seen = stage.watch();
    stage.at(1.0, 1, Say(2, 7));
    stage.recover(3.0, 2, true);
    stage.crash(4.0, 1);
    stage.crash(5.0, 1);
    stage.run_out();
    assert_eq!(stage.diary(2), ["2 heard 7 from 1"]);
    assert_eq!(seen.borrow().iter().filter(|line| line.ends_with("crashed")).count(), 1);
    assert!(!seen.borrow().iter().any(|line| line.ends_with("recovered")));
}

#[test]
fn messages_to_the_dead_are_dropped_and_counted() {
    let mut stage = Stage::new(2);
    let seen = stage.watch();
    stage.at(3.5, 1, Say(2, 1));
    stage.crash(4.0, 2);
    stage.at(5.0, 1, Say(2, 2));
    stage.recover(8.0, 2, true);
    stage.run_out();
    assert_eq!(stage.diary(2), ["8 recovered with nothing, ranks 2"]);
    assert_eq!(stage.counts(), [0, 0, 2, 0, 0]);
    let dropped: Vec<String> = seen.borrow().iter().filter(|line| line.contains("Dead")).cloned().collect();
    assert_eq!(dropped, ["4.5 1 to 2: Dead", "6 1 to 2: Dead"]);
}

#[test]
fn a_message_reaches_one_that_recovers_before_it_arrives() {
    let mut stage = Stage::new(2);
    stage.crash(4.0, 2);
    stage.at(5.0, 1, Say(2, 2));
    stage.recover(5.5, 2, true);
    stage.run_out();
    assert_eq!(stage.diary(2)[1..], ["6 heard 2 from 1"]);
    assert_eq!(stage.counts(), [0; 5]);
}

#[test]
fn a_message_outlives_its_sender() {
    let mut stage = Stage::new(2);
    stage.at(5.0, 1, Say(2, 7));
    stage.crash(5.5, 1);
    stage.run_out();
    assert_eq!(stage.diary(2), ["6 heard 7 from 1"]);
}

#[test]
fn the_dead_obey_nobody() {
    let mut stage = Stage::new(2);
    stage.crash(1.0, 1);
    stage.at(2.0, 1, Say(2, 7));
    stage.run_out();
    assert_eq!(stage.diary(2), [""; 0]);
}

#[test]
fn one_that_is_dead_from_the_start_never_starts_and_can_recover() {
    let mut stage = Stage::new(2);
    stage.world.kill(1);
    stage.at(1.0, 1, Say(2, 7));
    stage.run(5.0);
    assert_eq!(stage.world.process(1), &Default::default());
    assert!(!stage.world.facts().is_up(1));
    assert_eq!(stage.counts(), [0, 0, 1, 0, 0]);
    stage.recover(6.0, 2, true);
    stage.run_out();
    assert_eq!(stage.diary(2), ["6 recovered with nothing, ranks 2"]);
}
