//! Pauses: events for a paused process wait until it resumes.

use suffrage_core::{Command, Roster};
use suffrage_sim::{Fault, Latency};

use crate::world::probe::Action::{Cancel, Follow, Send, Set};
use crate::world::probe::Alarm;
use crate::world::probes::{ProbeWorld, span, time};

#[test]
fn messages_and_timers_wait_for_the_end_of_the_pause_and_keep_their_order() {
    let mut probes = ProbeWorld::new(3);
    probes.at(9.0, 2, Set(Alarm(0), 5.0));
    probes.at(9.0, 2, Set(Alarm(1), 3.0));
    probes.pause(10.0, 20.0, 2);
    probes.at(12.5, 1, Send(2, 1));
    probes.at(15.0, 3, Send(2, 2));
    probes.run_out();
    let late = ["20 alarm 1", "20 heard 1 from 1", "20 alarm 0", "20 heard 2 from 3"];
    assert_eq!(probes.log(2), late);
}

#[test]
fn before_and_after_a_pause_messages_arrive_as_usual() {
    let mut probes = ProbeWorld::new(2);
    probes.at(8.5, 1, Send(2, 1));
    probes.pause(10.0, 20.0, 2);
    probes.at(19.5, 1, Send(2, 2));
    probes.run_out();
    assert_eq!(probes.log(2), ["9.5 heard 1 from 1", "20.5 heard 2 from 1"]);
}

/// With a latency of 5, the messages that arrive at 20 are sent while the one that arrives at 18 is in flight.
#[test]
fn events_at_the_end_of_a_pause_come_after_events_during_it() {
    let mut probes = ProbeWorld::with(Roster::numbered(2), 1, Latency::Const(span(5.0)));
    probes.at(9.0, 2, Set(Alarm(0), 11.0));
    probes.pause(10.0, 20.0, 2);
    probes.at(13.0, 1, Send(2, 1));
    probes.at(15.0, 1, Send(2, 2));
    probes.at(15.0, 1, Send(2, 3));
    probes.run_out();
    let late = ["20 heard 1 from 1", "20 alarm 0", "20 heard 2 from 1", "20 heard 3 from 1"];
    assert_eq!(probes.log(2), late);
}

#[test]
fn a_timer_that_fired_in_the_pause_can_still_be_cancelled_by_an_earlier_event() {
    let mut probes = ProbeWorld::new(1);
    probes.at(5.0, 1, Set(Alarm(0), 10.0));
    probes.pause(10.0, 20.0, 1);
    probes.at(12.0, 1, Cancel(Alarm(0)));
    probes.run_out();
    assert_eq!(probes.log(1), [""; 0]);
}

#[test]
fn events_deferred_in_a_pause_are_lost_in_a_crash() {
    let mut probes = ProbeWorld::new(2);
    probes.at(9.0, 2, Set(Alarm(0), 2.0));
    probes.pause(10.0, 20.0, 2);
    probes.at(11.0, 1, Send(2, 1));
    probes.crash(14.0, 2);
    probes.recover(16.0, 2, true);
    probes.at(17.0, 1, Send(2, 2));
    probes.run_out();
    assert_eq!(probes.log(2), ["16 recovered with nothing, ranks 2", "18 heard 2 from 1"]);
    assert_eq!(probes.counts(), [0, 0, 1, 0, 0], "the deferred message is dropped");
}

#[test]
fn the_end_of_a_pause_before_a_crash_does_not_end_the_next_pause() {
    let mut probes = ProbeWorld::new(2);
    probes.pause(10.0, 20.0, 2);
    probes.crash(12.0, 2);
    probes.recover(14.0, 2, true);
    probes.pause(15.0, 30.0, 2);
    probes.at(18.0, 1, Send(2, 1));
    probes.at(22.0, 1, Send(2, 2));
    probes.run_out();
    assert_eq!(probes.log(2)[1..], ["30 heard 1 from 1", "30 heard 2 from 1"]);
}

#[test]
fn of_two_overlapping_pauses_the_later_end_counts() {
    for (first, second) in [((10.0, 20.0), (15.0, 30.0)), ((10.0, 30.0), (15.0, 20.0))] {
        let mut probes = ProbeWorld::new(2);
        let seen = probes.watch();
        probes.pause(first.0, first.1, 2);
        probes.pause(second.0, second.1, 2);
        probes.at(12.0, 1, Send(2, 1));
        probes.at(23.0, 1, Send(2, 2));
        probes.run_out();
        assert_eq!(probes.log(2), ["30 heard 1 from 1", "30 heard 2 from 1"]);
        assert_eq!(seen.borrow().iter().filter(|line| line.ends_with("paused")).count(), 1);
        assert_eq!(seen.borrow().iter().filter(|line| line.ends_with("resumed")).count(), 1);
    }
}

#[test]
fn cuts_stop_messages_on_arrival_at_a_paused_process_but_not_deferred_ones() {
    let mut probes = ProbeWorld::new(2);
    probes.pause(10.0, 20.0, 2);
    probes.at(10.5, 1, Send(2, 1));
    probes.at(11.5, 1, Send(2, 2));
    probes.cut(12.0, 13.0, &[&[1], &[2]]);
    probes.at(14.0, 1, Send(2, 3));
    probes.cut(16.0, 25.0, &[&[1], &[2]]);
    probes.run_out();
    assert_eq!(probes.log(2), ["20 heard 1 from 1", "20 heard 3 from 1"]);
    assert_eq!(probes.counts(), [0, 1, 0, 0, 0]);
}

#[test]
fn commands_and_changes_of_rank_are_deferred_too() {
    let mut probes = ProbeWorld::new(3);
    probes.pause(10.0, 20.0, 2);
    probes.schedule_fault(12.0, Fault::Rank(0, 99));
    probes.world.command(time(13.0), 1, Command::Resign);
    probes.at(13.5, 3, Send(2, 7));
    probes.run_out();
    let late = ["20 sees 1 as the best", "20 is told Resign", "20 heard 7 from 3"];
    assert_eq!(probes.log(2), late);
    assert_eq!(probes.log(3), ["12 sees 1 as the best"]);
}

#[test]
fn a_paused_process_is_live_and_still_leads() {
    let mut probes = ProbeWorld::new(1);
    probes.at(1.0, 1, Follow(1, 1));
    probes.pause(10.0, 20.0, 1);
    probes.run(15.0);
    assert!(probes.world.facts().is_up(0) && probes.world.facts().leads(0));
    probes.run_out();
    assert_eq!(probes.world.ledger().leaderships.len(), 1);
    assert_eq!(probes.world.ledger().leaderships[0].to, None);
}

#[test]
fn a_dead_process_is_not_paused() {
    let mut probes = ProbeWorld::new(2);
    probes.crash(5.0, 2);
    probes.pause(10.0, 20.0, 2);
    probes.recover(15.0, 2, true);
    probes.at(15.0, 1, Send(2, 1));
    probes.run_out();
    assert_eq!(probes.log(2)[1..], ["16 heard 1 from 1"]);
}
