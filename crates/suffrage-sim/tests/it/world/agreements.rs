//! Periods of agreement: all live processes believe in the same live leader. The time to a new leader is derived from them.

use suffrage_core::NodeId;
use suffrage_sim::Fault;

use crate::world::probe::Action::{Follow, Send, Undecide};
use crate::world::probes::ProbeWorld;

/// The periods of agreement: leader, beginning, end.
fn agreements(probes: &ProbeWorld) -> Vec<(u64, f64, Option<f64>)> {
    let agreements = probes.world.ledger().agreements.iter();
    let units = |agreement: &suffrage_sim::AgreementPeriod| {
        (agreement.leader.0, agreement.from.as_units(), agreement.to.map(|to| to.as_units()))
    };
    agreements.map(units).collect()
}

/// Makes these processes believe in the leader from a moment on.
fn follow(probes: &mut ProbeWorld, at: f64, who: &[u64], leader: u64, term: u64) {
    who.iter().for_each(|&id| probes.at(at, id, Follow(leader, term)));
}

#[test]
fn an_agreement_begins_with_the_last_belief_and_ends_with_the_first_change() {
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
fn a_new_term_of_the_same_leader_is_a_decision_in_the_same_agreement() {
    let mut probes = ProbeWorld::new(2);
    follow(&mut probes, 1.0, &[1, 2], 2, 1);
    follow(&mut probes, 5.0, &[1, 2], 2, 7);
    probes.run_out();
    assert_eq!(agreements(&probes), [(2, 1.0, None)]);
    assert_eq!(probes.world.ledger().decided.as_units(), 5.0);
}

#[test]
fn a_leader_without_belief_in_itself_or_outside_of_the_group_makes_no_agreement() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2], 3, 1);
    follow(&mut probes, 2.0, &[1, 2, 3], 9, 1);
    probes.run_out();
    assert_eq!(agreements(&probes), []);
}

#[test]
fn the_crash_of_the_leader_ends_an_agreement() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2, 3], 3, 1);
    probes.crash(4.0, 3);
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 1.0, Some(4.0))]);
    // The recovered process has no belief. It leads again after its next announcement.
    probes.recover(6.0, 3, true);
    probes.at(9.0, 3, Follow(3, 1));
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 1.0, Some(4.0)), (3, 9.0, None)]);
}

#[test]
fn the_crash_of_a_follower_keeps_an_agreement_and_its_recovery_ends_it() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[1, 2, 3], 3, 1);
    probes.crash(4.0, 1);
    probes.recover(6.0, 1, true);
    probes.at(8.0, 1, Follow(3, 1));
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 1.0, Some(6.0)), (3, 8.0, None)]);
}

#[test]
fn the_crash_of_the_only_process_that_disagrees_begins_an_agreement() {
    let mut probes = ProbeWorld::new(3);
    follow(&mut probes, 1.0, &[2, 3], 3, 1);
    probes.at(1.0, 1, Follow(1, 1));
    probes.crash(5.0, 1);
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 5.0, None)]);
    assert_eq!(probes.world.ledger().decided.as_units(), 1.0, "a crash is no decision");
}

#[test]
fn processes_dead_from_the_start_do_not_count_and_paused_ones_do() {
    let mut probes = ProbeWorld::new(3);
    probes.world.kill(0);
    probes.pause(0.5, 5.0, 2);
    follow(&mut probes, 1.0, &[2, 3], 3, 1);
    probes.run_out();
    assert_eq!(agreements(&probes), [(3, 5.0, None)]);
}

#[test]
fn an_agreement_has_the_traffic_before_it() {
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
fn crash_leader_crashes_the_process_that_most_believe_in() {
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
    // At 7 the live processes believe in 4, which is dead, or in nobody, so nothing happens at 7 and 8.
    assert_eq!(events_of[events_of.len() - 2..], ["5 4 crashed", "6 3 crashed"]);
    assert_eq!(events_of.iter().filter(|fate| fate.contains("crashed")).count(), 2);
    assert_eq!(probes.world.facts().leader(), None);
}

#[test]
fn recover_leader_recovers_the_leader_that_crashed_last() {
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
