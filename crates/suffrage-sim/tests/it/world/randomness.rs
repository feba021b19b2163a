//! Random behaviour: loss, duplication, drift. Seeds are fixed.

use suffrage_core::Roster;
use suffrage_sim::{Detector, End, Fault};

use crate::world::probe::Action::{Multicast, Send, Set};
use crate::world::probe::Alarm;
use crate::world::probes::{ONE, ProbeWorld, span};

const MESSAGES: u64 = 20_000;

/// One process sends very many messages to another, 100 in each time unit.
fn send_many(probes: &mut ProbeWorld) {
    for word in 0..MESSAGES {
        probes.at((word / 100) as f64 + 10.0, 1, Send(2, word));
    }
    probes.run_out();
}

/// True within six standard deviations of a binomial count: two seeds in a thousand million fall outside.
fn likely(trials: u64, probability: f64, count: u64) -> bool {
    let expected = trials as f64 * probability;
    (count as f64 - expected).abs() < 6.0 * (expected * (1.0 - probability)).sqrt()
}

#[test]
fn messages_are_lost_with_the_given_probability_and_counted() {
    for probability in [0.01, 0.3, 0.9] {
        let mut probes = ProbeWorld::new(2);
        probes.world.set_loss(probability);
        send_many(&mut probes);
        let [lost, ..] = probes.counts();
        assert!(likely(MESSAGES, probability, lost), "{lost} at {probability}");
        assert_eq!(probes.log(2).len() as u64, MESSAGES - lost);
        assert_eq!(probes.counts(), [lost, 0, 0, 0, 0]);
    }
}

#[test]
fn messages_are_duplicated_with_the_given_probability_and_counted() {
    for probability in [0.01, 0.3, 0.9] {
        let mut probes = ProbeWorld::new(2);
        probes.world.set_duplicate(probability);
        send_many(&mut probes);
        let duplicated = probes.counts()[3];
        assert!(likely(MESSAGES, probability, duplicated), "{duplicated} at {probability}");
        assert_eq!(probes.log(2).len() as u64, MESSAGES + duplicated);
        assert_eq!(probes.counts(), [0, 0, 0, duplicated, 0]);
        let mut words = probes.log(2).to_vec();
        words.dedup();
        assert_eq!(words.len() as u64, MESSAGES, "no message arrives three times");
    }
}

#[test]
fn a_lost_message_is_not_duplicated() {
    let mut probes = ProbeWorld::new(2);
    probes.world.set_loss(0.3);
    probes.world.set_duplicate(0.2);
    send_many(&mut probes);
    let [lost, _, _, duplicated, _] = probes.counts();
    assert!(likely(MESSAGES, 0.3, lost), "{lost}");
    assert!(likely(MESSAGES - lost, 0.2, duplicated), "{duplicated}");
    assert_eq!(probes.log(2).len() as u64, MESSAGES - lost + duplicated);
}

#[test]
fn loss_and_duplication_can_begin_and_end_during_a_run() {
    let mut probes = ProbeWorld::new(2);
    probes.schedule_fault(2.0, Fault::Loss(1.0));
    probes.schedule_fault(4.0, Fault::Loss(0.0));
    probes.schedule_fault(6.0, Fault::Duplicate(1.0));
    probes.schedule_fault(8.0, Fault::Duplicate(0.0));
    for (at, word) in [(1.5, 1), (3.0, 2), (5.0, 3), (7.0, 4), (9.0, 5)] {
        probes.at(at, 1, Send(2, word));
    }
    probes.run_out();
    let heard = [
        "2.5 heard 1 from 1",
        "6 heard 3 from 1",
        "8 heard 4 from 1",
        "8 heard 4 from 1",
        "10 heard 5 from 1",
    ];
    assert_eq!(probes.log(2), heard);
    assert_eq!(probes.counts(), [1, 0, 0, 1, 0]);
}

#[test]
fn heal_all_ends_all_faults_but_crashes() {
    let mut probes = ProbeWorld::detected(4, Detector::Parametric { delay: span(2.0), false_rate: 1.0 });
    probes.world.set_loss(1.0);
    probes.world.set_duplicate(1.0);
    probes.crash(1.0, 4);
    probes.cut(5.0, 1_000.0, &[&[1], &[2, 3]]);
    probes.cut_one_way(6.0, 1_000.0, &[&[2], &[3]]);
    probes.schedule_fault(50.0, Fault::HealAll);
    probes.run(52.0);
    let wrong = probes.world.ledger().wrong_suspicions;
    assert!(wrong > 0);
    probes.at(60.0, 1, Send(2, 1));
    probes.at(60.0, 2, Send(3, 2));
    probes.at(60.0, 3, Multicast(3));
    assert_eq!(probes.run(500.0), End::TimeUp, "the ends of the cuts are still in the queue");
    let since = |id: u64| {
        let log = probes.log(id).iter();
        let late = log.filter(|line| line.split(' ').next().unwrap().parse::<f64>().unwrap() > 52.0);
        late.cloned().collect::<Vec<_>>()
    };
    assert_eq!(since(1), ["61 heard 3 from 3"]);
    assert_eq!(since(2), ["61 heard 1 from 1", "61 heard 3 from 3"]);
    assert_eq!(since(3), ["61 heard 2 from 2"]);
    assert_eq!(probes.world.ledger().wrong_suspicions, wrong);
    assert!(!probes.world.facts().is_up(3));
    for id in 1..=3u64 {
        let suspects = |peer: u64| {
            let last = probes.log(id).iter().rfind(|line| line.ends_with(&format!("s {peer}")));
            last.is_some_and(|line| line.contains("suspects"))
        };
        assert!((1..=3).all(|peer| !suspects(peer)) && suspects(4), "{id} suspects only the dead process");
    }
}

const DRIFT: f64 = 0.1;

/// 200 processes whose clocks drift. Each sets an alarm and sends messages to itself.
fn drifting(seed: u64) -> ProbeWorld {
    let mut probes = ProbeWorld::with(Roster::numbered(200), seed, ONE);
    probes.world.set_drift(DRIFT);
    for id in 1..=200 {
        probes.at(999.0, id, Send(id, 1));
        probes.at(1_999.0, id, Send(id, 2));
        probes.at(1_999.0, id, Set(Alarm(0), 500.0));
    }
    probes
}

/// A rate outside the outer tenths among 200 is missing with a probability below 10^-8.
#[test]
fn each_clock_has_a_constant_rate_within_the_drift_bound() {
    let mut probes = drifting(1);
    probes.run_out();
    let rates: Vec<f64> =
        (0..200).map(|slot| probes.world.process(slot).times[0].as_units() / 1_000.0).collect();
    assert!(rates.iter().all(|rate| (rate - 1.0).abs() <= DRIFT), "{rates:?}");
    assert!(rates.iter().any(|rate| *rate < 0.92) && rates.iter().any(|rate| *rate > 1.08), "{rates:?}");
    for (slot, rate) in rates.iter().enumerate() {
        let later = probes.world.process(slot).times[1].as_units();
        assert!((later - 2_000.0 * rate).abs() < 1e-5, "constant: {later} at {rate}");
    }
}

#[test]
fn timers_use_the_clock_of_their_process() {
    let mut probes = drifting(1);
    let seen = probes.watch();
    probes.run_out();
    let seen = seen.borrow();
    for slot in 0..200 {
        let process = probes.world.process(slot);
        let rate = process.times[0].as_units() / 1_000.0;
        let rang = format!("{}: Alarm(0)", slot + 1);
        let rang = seen.iter().find_map(|line| line.strip_suffix(&format!(" {rang}"))).expect("it rang");
        let waited = rang.parse::<f64>().unwrap() - 1_999.0;
        assert!((waited * rate - 500.0).abs() < 1e-5, "{waited} at {rate}");
        let shown = process.times[2].as_units() - 1_999.0 * rate;
        assert!((shown - 500.0).abs() < 1e-5, "its own clock shows {shown}");
    }
}

#[test]
fn the_rate_of_a_clock_depends_on_the_seed_and_survives_a_crash() {
    let reading = |seed, crash| {
        let mut probes = drifting(seed);
        if crash {
            probes.crash(500.0, 7);
            probes.recover(600.0, 7, true);
        }
        probes.run_out();
        let process = probes.world.process(6);
        process.times[process.times.len() - 3]
    };
    assert_eq!(reading(1, false), reading(1, true));
    assert_ne!(reading(1, false), reading(2, false));
}

#[test]
fn without_drift_every_clock_shows_the_true_time() {
    let mut probes = drifting(1);
    probes.world.set_drift(0.0);
    probes.run_out();
    for id in 1..=200 {
        let heard = [1_000, 2_000].map(|at| format!("{at} heard {} from {id}", at / 1_000));
        assert_eq!(probes.log(id)[..2], heard);
        assert_eq!(probes.log(id)[2], "2499 alarm 0");
    }
}
