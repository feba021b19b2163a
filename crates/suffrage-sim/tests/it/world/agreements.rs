//! When all live processes believe in the same live leader: what the time to a new leader is taken from.

use suffrage_core::NodeId;
use suffrage_sim::Fault;

use crate::world::probe::Action::{Follow, Send, Undecide};
use crate::world::probes::ProbeWorld;

/// The accords: the leader, from when, and until when.
fn agreements(probes: &ProbeWorld) -> Vec<(u64, f64, Option<f64>)> {
    let agreements = probes.world.ledger().agreements.iter();
    let units = |agreement: &suffrage_sim::AgreementPeriod| {
        (agreement.leader.0, agreement.from.as_units(), agreement.to.map(|to| to.as_units()))
    };
    agreements.map(units).collect()
}

/// Everybody believes in the leader from a moment on.
fn follow(probes: &mut ProbeWorld, at: f64, who: &[u64], leader: u64, term: u64) {
    who.iter().for_each(|&id| probes.at(at, id, Follow(leader, term)));
}

#[test]
fn an_accord_begins_with_the_last_to_believe_and_ends_with_the_first_to_cease() {
    let mut probes = ProbeWorld::new(3);
    probes.at(1.0, 3, Follow(3, 1));
    probes.at(2.0, 1, Follow(3, 1));
    probes.at(3.0, 2, Follow(3, 1));
    probes.at(7.0, 1, Undecide);
    probes.at(8.0, 1, Follow(3, 1));
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 3.0, Some(7.0)), (3, 8.0, None)]);
}

#[test]
fn a_new_term_of_the_same_leader_changes_the_decision_but_not_the_accord() {
    let mut probes = ProbeWorld::new(2);
    follow(&mut probes, 1.0, &[1, 2], 2, 1);
    follow(&mut probes, 5.0, &[1, 2], 2, 7);
    probes.run_out();
    assert_eq!(agreements(&probes), [(2, 1.0, None)]);
    assert_eq!(probes.world.ledger().decided.as_units(), 5.0);
}

#[test]
fn all_believing_in_one_that_does_not_believe_in_itself_or_is_a_stranger_is_no_accord() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2], 3, 1);
    follow(&mut probes, 2.0, &[1, 2, 3], 9, 1);
    probes.run_out();
    assert_eq!(agreements(&probes), []);
}

#[test]
fn the_crash_of_the_leader_ends_an_accord_though_all_the_living_agree() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2, 3], 3, 1);
    probes.crash(4.0, 3);
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 1.0, Some(4.0))]);
    // It comes back, and has forgotten that it led; it leads again only when it says so.
    probes.recover(6.0, 3, true);
    probes.at(9.0, 3, Follow(3, 1));
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 1.0, Some(4.0)), (3, 9.0, None)]);
}

#[test]
fn the_crash_of_a_follower_leaves_the_accord_and_its_return_breaks_it() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2, 3], 3, 1);
    probes.crash(4.0, 1);
    probes.recover(6.0, 1, true);
    probes.at(8.0, 1, Follow(3, 1));
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 1.0, Some(6.0)), (3, 8.0, None)]);
}

#[test]
fn the_crash_of_the_only_one_who_disagrees_makes_an_accord() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[2, 3], 3, 1);
    probes.at(1.0, 1, Follow(1, 1));
    probes.crash(5.0, 1);
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 5.0, None)]);
    assert_eq!(probes.world.ledger().decided.as_units(), 1.0, "nobody decided anything then");
}

#[test]
fn the_dead_from_the_start_are_not_asked_and_the_paused_are() {
    let mut probes = ProbeWorld::new(3);
    probes.world.kill(0);
    probes.pause(0.5, 5.0, 2);
    follow(&mut probes, 1.0, &[2, 3], 3, 1);
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 5.0, None)]);
}

#[test]
fn an_accord_knows_what_was_sent_before() {
    let mut probes = ProbeWorld::new(2);
    probes.world.count_bytes();
    probes.at(1.0, 1, Send(2, 7));
    follow(&mut probes, 2.0, &[1, 2], 2, 1);
    probes.at(3.0, 1, Send(2, 7));
    probes.run_out();
    let sent = probes.world.ledger().agreements[0].sent;
    assert_eq!((sent.messages, sent.bytes), (1, 2));
    assert_eq!(probes.world.ledger().traffic().messages, 2);
}

#[test]
fn the_leader_that_crashes_is_the_one_that_most_believe_in_at_that_moment() {
    let mut probes = ProbeWorld::new(4);
    probes.schedule_fault(0.5, Fault::CrashLeader);
    follow(&mut probes, 1.0, &[1, 2, 4], 4, 1);
    follow(&mut probes, 1.0, &[3], 3, 1);
    probes.schedule_fault(5.0, Fault::CrashLeader);
    probes.schedule_fault(6.0, Fault::CrashLeader);
    probes.schedule_fault(7.0, Fault::CrashLeader);
    probes.schedule_fault(8.0, Fault::RecoverLeader { disk: true });
    let seen = probes.watch();
    probes.run_out();
    let events_of: Vec<String> = seen.borrow().iter().filter(|line| line.ends_with("ed")).cloned().collect();
    // At 7 the living believe in the dead 4 or in nobody, so nothing happens, nor at 8.
    assert_eq!(events_of[events_of.len() - 2..], ["5 4 crashed", "6 3 crashed"]);
    assert_eq!(events_of.iter().filter(|fate| fate.contains("crashed")).count(), 2);
    assert_eq!(probes.world.facts().leader(), None);
}

#[test]
fn the_leader_that_crashed_last_is_the_one_that_comes_back() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2, 3], 3, 1);
    probes.at(1.0, 3, crate::world::probe::Action::Save(5));
    probes.schedule_fault(4.0, Fault::CrashLeader);
    follow(&mut probes, 5.0, &[1, 2], 2, 2);
    probes.schedule_fault(8.0, Fault::RecoverLeader { disk: true });
    probes.schedule_fault(9.0, Fault::RecoverLeader { disk: true });
    probes.run_out();
    assert!(probes.log(3)[0].starts_with("8 "), "{:?}", probes.log(3));
    assert_eq!(probes.world.facts().leader().map(|slot| probes.world.roster().id(slot)), Some(NodeId(2)));
}
