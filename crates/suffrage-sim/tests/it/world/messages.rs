//! Messages without faults.

use suffrage_core::{Roster, Span};
use suffrage_sim::Latency;

use crate::world::probe::Action::{Send, Set};
use crate::world::probe::Alarm;
use crate::world::probes::{ONE, ProbeWorld, span};

#[test]
fn a_message_arrives_after_the_latency() {
    let mut probes = ProbeWorld::with(Roster::numbered(2), 1, Latency::Const(span(2.5)));
    probes.at(5.0, 1, Send(2, 7));
    probes.run_out();
    assert_eq!(probes.log(2), ["7.5 heard 7 from 1"]);
    assert_eq!(probes.log(1), [""; 0]);
}

#[test]
fn a_message_to_the_sender_itself_has_a_delay_too() {
    let mut probes = ProbeWorld::new(1);
    probes.at(5.0, 1, Send(1, 7));
    probes.run_out();
    assert_eq!(probes.log(1), ["6 heard 7 from 1"]);
}

#[test]
fn messages_of_equal_arrival_keep_the_order_of_sending() {
    let mut probes = ProbeWorld::new(4);
    for (from, word) in [(3, 1), (1, 2), (2, 3), (1, 4), (3, 5)] {
        probes.at(5.0, from, Send(4, word));
    }
    probes.run_out();
    let heard =
        ["6 heard 1 from 3", "6 heard 2 from 1", "6 heard 3 from 2", "6 heard 4 from 1", "6 heard 5 from 3"];
    assert_eq!(probes.log(4), heard);
}

#[test]
fn messages_and_timers_of_equal_time_come_in_the_order_of_scheduling() {
    let mut probes = ProbeWorld::new(2);
    probes.at(5.0, 1, Send(2, 1));
    probes.at(5.25, 2, Set(Alarm(0), 0.75));
    probes.at(3.0, 2, Set(Alarm(1), 3.0));
    probes.run_out();
    assert_eq!(probes.log(2), ["6 alarm 1", "6 heard 1 from 1", "6 alarm 0"]);
}

#[test]
fn without_latency_a_message_arrives_at_once_but_after_earlier_events() {
    let mut probes = ProbeWorld::with(Roster::numbered(2), 1, Latency::Const(Span::ZERO));
    probes.at(5.0, 1, Send(2, 1));
    probes.at(5.0, 2, Send(2, 2));
    probes.at(5.0, 2, Set(Alarm(0), 0.0));
    probes.run_out();
    assert_eq!(probes.log(2), ["5 heard 1 from 1", "5 heard 2 from 2", "5 alarm 0"]);
}

#[test]
fn with_random_latency_messages_overtake_each_other_and_arrive_when_they_are_due() {
    let mut probes = ProbeWorld::with(Roster::numbered(2), 1, Latency::Uniform(span(2.0), span(5.0)));
    let seen = probes.watch();
    for word in 0..200 {
        probes.at(10.0, 1, Send(2, word));
    }
    probes.run_out();
    let heard = &probes.world.process(1).times;
    assert!(heard.is_sorted() && heard.len() == 200);
    let (first, last) = (heard[0].as_units(), heard[199].as_units());
    // The probability that none of 200 falls into one of the outer tenths is below 10^-8.
    assert!((12.0..12.3).contains(&first) && (14.7..=15.0).contains(&last), "{first} to {last}");
    let words = probes.log(2).iter().map(|line| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap());
    assert!(!words.is_sorted());
    let seen = seen.borrow();
    let mut due: Vec<f64> =
        seen.iter().filter_map(|line| line.split_once("due ")).map(|(_, due)| due.parse().unwrap()).collect();
    due.sort_by(f64::total_cmp);
    assert!(due.into_iter().eq(heard.iter().map(|time| time.as_units())));
}

#[test]
fn a_message_to_an_unknown_receiver_is_dropped_and_counted() {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    probes.at(1.0, 1, Send(3, 7));
    probes.at(1.0, 1, Send(0, 7));
    probes.run_out();
    assert_eq!(probes.logs(), [[""; 0]; 2]);
    assert_eq!(probes.counts(), [0, 0, 0, 0, 2]);
    let seen = seen.borrow();
    assert_eq!(seen[1], "1 1 to 3: UnknownReceiver");
}

#[test]
fn the_delay_bound_is_that_of_the_latency_or_the_one_that_is_set() {
    let bound = |probes: &mut ProbeWorld| {
        probes.run_out();
        probes.world.process(0).delay_bound
    };
    assert_eq!(bound(&mut ProbeWorld::new(1)), Span::UNIT);
    let latency = Latency::Uniform(span(2.0), span(5.0));
    assert_eq!(bound(&mut ProbeWorld::with(Roster::numbered(1), 1, latency)), span(5.0));
    let mut probes = ProbeWorld::with(Roster::numbered(1), 1, ONE);
    probes.world.set_delay_bound(span(9.0));
    assert_eq!(bound(&mut probes), span(9.0));
}

#[test]
fn processes_of_a_listed_group_are_reached_by_their_ids() {
    let roster = Roster::listed([30, 10, 20].map(suffrage_core::NodeId).to_vec()).unwrap();
    let mut probes = ProbeWorld::with(roster, 1, ONE);
    probes.at(1.0, 30, Send(10, 1));
    probes.at(1.0, 10, Send(20, 2));
    probes.run_out();
    assert_eq!(probes.log(10), ["2 heard 1 from 30"]);
    assert_eq!(probes.log(20), ["2 heard 2 from 10"]);
}
