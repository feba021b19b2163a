//! When all live processes believe in the same live leader: what the time to a new leader is taken from.

use suffrage_core::NodeId;
use suffrage_sim::Fault;

use crate::world::probe::Act::{Doubt, Follow, Say};
use crate::world::stage::Stage;

/// The accords: the leader, from when, and until when.
fn agreements(stage: &Stage) -> Vec<(u64, f64, Option<f64>)> {
    let agreements = stage.world.ledger().agreements.iter();
    let units = |agreement: &suffrage_sim::AgreementPeriod| {
        (agreement.leader.0, agreement.from.as_units(), agreement.to.map(|to| to.as_units()))
    };
    agreements.map(units).collect()
}

/// Everybody believes in the leader from a moment on.
fn follow(stage: &mut Stage, at: f64, who: &[u64], leader: u64, term: u64) {
    who.iter().for_each(|&id| stage.at(at, id, Follow(leader, term)));
}

#[test]
fn an_accord_begins_with_the_last_to_believe_and_ends_with_the_first_to_cease() {
    let mut stage = Stage::new(3);
    stage.at(1.0, 3, Follow(3, 1));
    stage.at(2.0, 1, Follow(3, 1));
    stage.at(3.0, 2, Follow(3, 1));
    stage.at(7.0, 1, Doubt);
    stage.at(8.0, 1, Follow(3, 1));
    stage.run_out();
    assert_eq!(agreements(&stage), [(3, 3.0, Some(7.0)), (3, 8.0, None)]);
}

#[test]
fn a_new_term_of_the_same_leader_changes_the_decision_but_not_the_accord() {
    let mut stage = Stage::new(2);
    follow(&mut stage, 1.0, &[1, 2], 2, 1);
    follow(&mut stage, 5.0, &[1, 2], 2, 7);
    stage.run_out();
    assert_eq!(agreements(&stage), [(2, 1.0, None)]);
    assert_eq!(stage.world.ledger().decided.as_units(), 5.0);
}

#[test]
fn all_believing_in_one_that_does_not_believe_in_itself_or_is_a_stranger_is_no_accord() {
    let mut stage = Stage::new(3);
    follow(&mut stage, 1.0, &[1, 2], 3, 1);
    follow(&mut stage, 2.0, &[1, 2, 3], 9, 1);
    stage.run_out();
    assert_eq!(agreements(&stage), []);
}

#[test]
fn the_crash_of_the_leader_ends_an_accord_though_all_the_living_agree() {
    let mut stage = Stage::new(3);
    follow(&mut stage, 1.0, &[1, 2, 3], 3, 1);
    stage.crash(4.0, 3);
    stage.run_out();
    assert_eq!(agreements(&stage), [(3, 1.0, Some(4.0))]);
    // It comes back, and has forgotten that it led; it leads again only when it says so.
    stage.recover(6.0, 3, true);
    stage.at(9.0, 3, Follow(3, 1));
    stage.run_out();
    assert_eq!(agreements(&stage), [(3, 1.0, Some(4.0)), (3, 9.0, None)]);
}

#[test]
fn the_crash_of_a_follower_leaves_the_accord_and_its_return_breaks_it() {
    let mut stage = Stage::new(3);
    follow(&mut stage, 1.0, &[1, 2, 3], 3, 1);
    stage.crash(4.0, 1);
    stage.recover(6.0, 1, true);
    stage.at(8.0, 1, Follow(3, 1));
    stage.run_out();
    assert_eq!(agreements(&stage), [(3, 1.0, Some(6.0)), (3, 8.0, None)]);
}

#[test]
fn the_crash_of_the_only_one_who_disagrees_makes_an_accord() {
    let mut stage = Stage::new(3);
    follow(&mut stage, 1.0, &[2, 3], 3, 1);
    stage.at(1.0, 1, Follow(1, 1));
    stage.crash(5.0, 1);
    stage.run_out();
    assert_eq!(agreements(&stage), [(3, 5.0, None)]);
    assert_eq!(stage.world.ledger().decided.as_units(), 1.0, "nobody decided anything then");
}

#[test]
fn the_dead_from_the_start_are_not_asked_and_the_paused_are() {
    let mut stage = Stage::new(3);
    stage.world.kill(0);
    stage.pause(0.5, 5.0, 2);
    follow(&mut stage, 1.0, &[2, 3], 3, 1);
    stage.run_out();
    assert_eq!(agreements(&stage), [(3, 5.0, None)]);
}

#[test]
fn an_accord_knows_what_was_sent_before() {
    let mut stage = Stage::new(2);
    stage.world.count_bytes();
    stage.at(1.0, 1, Say(2, 7));
    follow(&mut stage, 2.0, &[1, 2], 2, 1);
    stage.at(3.0, 1, Say(2, 7));
    stage.run_out();
    let sent = stage.world.ledger().agreements[0].sent;
    assert_eq!((sent.messages, sent.bytes), (1, 2));
    assert_eq!(stage.world.ledger().traffic().messages, 2);
}

#[test]
fn the_leader_that_crashes_is_the_one_that_most_believe_in_at_that_moment() {
    let mut stage = Stage::new(4);
    stage.schedule_fault(0.5, Fault::CrashLeader);
    follow(&mut stage, 1.0, &[1, 2, 4], 4, 1);
    follow(&mut stage, 1.0, &[3], 3, 1);
    stage.schedule_fault(5.0, Fault::CrashLeader);
    stage.schedule_fault(6.0, Fault::CrashLeader);
    stage.schedule_fault(7.0, Fault::CrashLeader);
    stage.schedule_fault(8.0, Fault::RecoverLeader { disk: true });
    let seen = stage.watch();
    stage.run_out();
    let fates: Vec<String> = seen.borrow().iter().filter(|line| line.ends_with("ed")).cloned().collect();
    // At 7 the living believe in the dead 4 or in nobody, so nothing happens, nor at 8.
    assert_eq!(fates[fates.len() - 2..], ["5 4 crashed", "6 3 crashed"]);
    assert_eq!(fates.iter().filter(|fate| fate.contains("crashed")).count(), 2);
    assert_eq!(stage.world.facts().leader(), None);
}

#[test]
fn the_leader_that_crashed_last_is_the_one_that_comes_back() {
    let mut stage = Stage::new(3);
    follow(&mut stage, 1.0, &[1, 2, 3], 3, 1);
    stage.at(1.0, 3, crate::world::probe::Act::Save(5));
    stage.schedule_fault(4.0, Fault::CrashLeader);
    follow(&mut stage, 5.0, &[1, 2], 2, 2);
    stage.schedule_fault(8.0, Fault::RecoverLeader { disk: true });
    stage.schedule_fault(9.0, Fault::RecoverLeader { disk: true });
    stage.run_out();
    assert!(stage.diary(3)[0].starts_with("8 "), "{:?}", stage.diary(3));
    assert_eq!(stage.world.facts().leader().map(|slot| stage.world.roster().id(slot)), Some(NodeId(2)));
}
