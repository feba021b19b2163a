//! Multicasts. The network has a fast path for multicasts that reach all addressees at once, which must not change the
//! behaviour.

use suffrage_core::{NodeId, Roster, Span};
use suffrage_sim::{Fault, Latency, Scenario};

use crate::world::probe::Action::{Multicast, Send};
use crate::world::probe::Probe;
use crate::world::probes::{CHANCE_ONE, ONE, ProbeWorld, span};

/// Runs the same script with a constant latency and with a uniform one of zero width. Both runs must be equal. Returns
/// the world of the first.
fn with_both_latencies(roster: &Roster, script: impl Fn(&mut ProbeWorld)) -> ProbeWorld {
    let [constant, random] = [ONE, CHANCE_ONE].map(|latency| {
        let mut probes = ProbeWorld::with(roster.clone(), 1, latency);
        script(&mut probes);
        probes.run_out();
        probes
    });
    assert_eq!(constant.logs(), random.logs());
    assert_eq!(constant.counts(), random.counts());
    assert_eq!(constant.world.ledger().trace_hash(), random.world.ledger().trace_hash());
    constant
}

#[test]
fn a_multicast_reaches_all_but_its_sender() {
    let probes = with_both_latencies(&Roster::numbered(4), |probes| probes.at(5.0, 2, Multicast(7)));
    let heard: &[String] = &["6 heard 7 from 2".into()];
    assert_eq!(probes.logs(), [heard, &[], heard, heard]);
}

#[test]
fn a_multicast_reaches_the_whole_group_whatever_the_view_of_its_sender() {
    let roster = Roster::numbered(40).with_partial_views(3, 0.4);
    let probes = with_both_latencies(&roster, |probes| probes.at(5.0, 2, Multicast(7)));
    let missed = roster.iter().filter(|id| probes.log(id.0).is_empty());
    assert!(missed.eq([NodeId(2)]));
    let known = roster.view(1).peers().count();
    assert!((5..35).contains(&known), "the view is partial: {known}");
}

#[test]
fn a_multicast_keeps_its_place_among_other_messages() {
    let probes = with_both_latencies(&Roster::numbered(3), |probes| {
        probes.at(5.0, 1, Send(2, 1));
        probes.at(5.0, 3, Multicast(2));
        probes.at(5.0, 1, Send(2, 3));
        probes.at(5.5, 1, Multicast(4));
    });
    let heard = ["6 heard 1 from 1", "6 heard 2 from 3", "6 heard 3 from 1", "6.5 heard 4 from 1"];
    assert_eq!(probes.log(2), heard);
}

#[test]
fn a_multicast_misses_dead_processes_and_waits_for_paused_ones() {
    let probes = with_both_latencies(&Roster::numbered(5), |probes| {
        probes.crash(1.0, 2);
        probes.crash(5.5, 3);
        probes.pause(5.5, 8.0, 4);
        probes.at(5.0, 1, Multicast(7));
    });
    assert_eq!(probes.counts(), [0, 0, 2, 0, 0]);
    assert_eq!(probes.log(4), ["8 heard 7 from 1"]);
    assert_eq!(probes.log(5), ["6 heard 7 from 1"]);
}

#[test]
fn cuts_stop_a_multicast_on_sending_and_on_arrival_like_any_message() {
    let probes = with_both_latencies(&Roster::numbered(5), |probes| {
        probes.cut(4.0, 5.5, &[&[1], &[2]]);
        probes.cut(5.4, 9.0, &[&[1], &[3]]);
        probes.cut(5.2, 5.8, &[&[1], &[4]]);
        probes.at(5.0, 1, Multicast(7));
    });
    let heard: &[String] = &["6 heard 7 from 1".into()];
    assert_eq!(probes.logs(), [&[], &[], &[], heard, heard]);
    assert_eq!(probes.counts(), [0, 2, 0, 0, 0]);
}

/// 2,000 addressees. The bounds are six standard deviations; two seeds in a thousand million fail.
#[test]
fn a_multicast_is_lost_and_duplicated_for_each_addressee_independently() {
    let (addressees, loss, duplicate) = (2_000.0, 0.3, 0.4);
    for latency in [ONE, CHANCE_ONE, Latency::Uniform(Span::ZERO, span(2.0))] {
        for doubling in [0.0, duplicate] {
            let mut probes = ProbeWorld::with(Roster::numbered(2_001), 1, latency);
            probes.world.set_loss(loss);
            probes.world.set_duplicate(doubling);
            probes.at(5.0, 1, Multicast(7));
            probes.run_out();
            let heard = |times: usize| {
                (1..2_001).filter(|&slot| probes.world.process(slot).log.len() == times).count() as f64
            };
            let [lost, cut, dead, duplicated, unknown_receiver] = probes.counts();
            assert_eq!((cut, dead, unknown_receiver), (0, 0, 0));
            assert_eq!((heard(0), heard(2)), (lost as f64, duplicated as f64), "{latency} {doubling}");
            assert_eq!(heard(0) + heard(1) + heard(2), addressees);
            let near = |count: f64, share: f64| {
                let deviation = (addressees * share * (1.0 - share)).sqrt();
                (count - addressees * share).abs() <= 6.0 * deviation
            };
            assert!(near(heard(0), loss) && near(heard(2), (1.0 - loss) * doubling), "{latency} {doubling}");
        }
    }
}

/// The moment of sending decides, as for every message.
#[test]
fn duplication_that_begins_while_a_multicast_is_in_flight_does_not_affect_it() {
    let probes = with_both_latencies(&Roster::numbered(3), |probes| {
        probes.at(5.0, 1, Multicast(7));
        probes.schedule_fault(5.5, Fault::Duplicate(1.0));
    });
    assert_eq!(probes.log(3), ["6 heard 7 from 1"]);
    assert_eq!(probes.counts(), [0; 5]);
}

#[test]
fn a_multicast_counts_once_even_if_it_is_lost() {
    let mut scenario = Scenario::new(Roster::numbered(10));
    scenario.initiators = vec![0, 4];
    scenario.crashed = vec![7, 8];
    for latency in [ONE, Latency::Uniform(Span::ZERO, span(2.0))] {
        for loss in [0.0, 1.0] {
            let scenario = Scenario { latency, loss, duplicate: 0.0, ..scenario.clone() };
            let messages = scenario.run::<Probe>(&Some(7)).messages;
            assert_eq!((messages.multicasts, messages.total), (2, 0), "{latency} {loss}");
            assert_eq!(messages.undelivered, if loss == 0.0 { 4 } else { 18 }, "{latency} {loss}");
        }
    }
}

#[test]
fn a_multicast_of_a_single_process_reaches_nobody() {
    let probes = with_both_latencies(&Roster::numbered(1), |probes| probes.at(5.0, 1, Multicast(7)));
    assert_eq!(probes.log(1), [""; 0]);
}

/// Loss belongs to the moment of sending, whether the multicast is one entry in the queue or many.
#[test]
fn loss_that_begins_while_a_multicast_is_in_flight_does_not_affect_it() {
    let probes = with_both_latencies(&Roster::numbered(3), |probes| {
        probes.at(5.0, 2, Multicast(7));
        probes.schedule_fault(5.5, Fault::Loss(1.0));
        probes.at(7.0, 2, Multicast(8));
    });
    assert_eq!(probes.log(1), ["6 heard 7 from 2"]);
    assert_eq!(probes.log(3), ["6 heard 7 from 2"]);
}
