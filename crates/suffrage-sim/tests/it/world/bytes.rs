//! The bytes of messages.

use suffrage_core::Roster;
use suffrage_sim::Scenario;

use crate::world::probe::Action::{Multicast, Send, SendUncounted};
use crate::world::probe::Probe;
use crate::world::probes::{CHANCE_ONE, ONE, ProbeWorld, time};

/// Sends messages to another process, to an unknown receiver and to all.
fn send_all_kinds(probes: &mut ProbeWorld) {
    probes.at(1.0, 1, Send(2, 7));
    probes.at(2.0, 1, SendUncounted(2, 200));
    probes.at(3.0, 1, Send(9, 7));
    probes.at(4.0, 1, Multicast(20_000));
}

/// Postcard takes a byte for the kind of message, and one for every seven bits of the number.
const BYTES: u64 = 2 + 3 + 2 + 3 * 4;

#[test]
fn the_bytes_of_every_copy_are_counted_in_the_wire_format() {
    for latency in [ONE, CHANCE_ONE] {
        let mut probes = ProbeWorld::with(Roster::numbered(4), 1, latency);
        probes.world.count_bytes();
        send_all_kinds(&mut probes);
        probes.run_out();
        let traffic = probes.world.ledger().traffic();
        assert_eq!((traffic.messages, traffic.bytes), (3 + 3, BYTES));
    }
}

#[test]
fn lost_and_cut_messages_count_and_duplicates_of_the_network_do_not() {
    let mut probes = ProbeWorld::new(4);
    probes.world.count_bytes();
    probes.world.set_loss(1.0);
    send_all_kinds(&mut probes);
    probes.run_out();
    assert_eq!(probes.world.ledger().traffic().bytes, BYTES);
    let mut probes = ProbeWorld::new(4);
    probes.world.count_bytes();
    probes.world.set_duplicate(1.0);
    probes.cut(0.0, 90.0, &[&[1], &[2]]);
    send_all_kinds(&mut probes);
    probes.run_out();
    assert_eq!(probes.world.ledger().traffic().bytes, BYTES);
}

#[test]
fn counting_bytes_changes_nothing_else() {
    let [weighed, unweighed] = [true, false].map(|count_bytes| {
        let mut probes = ProbeWorld::with(Roster::numbered(4), 1, CHANCE_ONE);
        if count_bytes {
            probes.world.count_bytes();
        }
        send_all_kinds(&mut probes);
        probes.run_out();
        (probes.world.ledger().trace_hash(), probes.world.ledger().bytes)
    });
    assert_eq!((weighed.0, weighed.1, unweighed.1), (unweighed.0, BYTES, 0));
}

#[test]
fn an_outcome_has_bytes_only_if_they_are_counted() {
    for (roster, copies) in [(Roster::numbered(3), 2), (Roster::numbered(1), 0)] {
        let scenario = Scenario { initiators: vec![0], ..Scenario::new(roster) };
        let light = scenario.run::<Probe>(&Some(7)).messages;
        assert_eq!((light.multicasts, light.sent, light.bytes), (1, copies, None));
        let heavy = Scenario { count_bytes: true, ..scenario }.run::<Probe>(&Some(7)).messages;
        assert_eq!((heavy.sent, heavy.bytes), (copies, Some(2 * copies)));
    }
}

#[test]
fn a_window_counts_from_its_beginning_and_changes_nothing() {
    let scenario = Scenario {
        initiators: vec![0],
        plan: vec![(time(5.0), suffrage_sim::Fault::Crash(2))],
        until: Some(time(10.0)),
        ..Scenario::new(Roster::numbered(3))
    };
    let whole = scenario.run::<Probe>(&Some(7));
    assert!(whole.window.is_none());
    for (from, messages) in [(0.0, 2), (0.000_001, 0), (5.0, 0), (10.0, 0)] {
        let outcome = Scenario { window: Some(time(from)), ..scenario.clone() }.run::<Probe>(&Some(7));
        let window = outcome.window.expect("asked for");
        assert_eq!(outcome.trace_hash, whole.trace_hash);
        assert_eq!((window.sent.messages, window.before.messages), (messages, 2 - messages), "{from}");
        assert_eq!((window.leaderless, window.split, window.agreement), (10.0 - from, 0.0, 0.0), "{from}");
    }
}
