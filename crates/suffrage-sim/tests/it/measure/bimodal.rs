//! The bimodal multicast against Birman et al. 1999.

use suffrage_sim::measure::{Delivery, DeliveryTrial};

fn run(trial: &DeliveryTrial, seeds: u64) -> Vec<Delivery> {
    (0..seeds).map(|seed| DeliveryTrial { seed, ..trial.clone() }.run()).collect()
}

fn trial(multicast: &str, nodes: usize, loss: f64) -> DeliveryTrial {
    DeliveryTrial { loss, ..DeliveryTrial::new(multicast.parse().unwrap(), nodes) }
}

fn reached(results: &[Delivery]) -> f64 {
    results.iter().map(|result| result.fraction).sum::<f64>() / results.len() as f64
}

fn share(results: &[Delivery], wanted: impl Fn(f64) -> bool) -> f64 {
    results.iter().filter(|result| wanted(result.fraction)).count() as f64 / results.len() as f64
}

/// 200 runs with 49 addressees: the mean share has a standard error of 0.0046 and less.
#[test]
fn a_broadcast_reaches_the_expected_share() {
    for latency in ["const:1", "uniform:0,1"] {
        let latency = latency.parse().unwrap();
        for (multicast, loss, expected) in
            [("broadcast", 0.3, 0.7), ("ideal:0.7", 1.0, 0.7), ("ideal:1", 0.5, 1.0)]
        {
            let results = run(&DeliveryTrial { latency, ..trial(multicast, 50, loss) }, 200);
            assert!(
                (reached(&results) - expected).abs() < 0.02,
                "{multicast} {latency}: {}",
                reached(&results)
            );
            assert!(results.iter().all(|result| result.messages == 49.0 / 50.0));
        }
    }
}

/// Fan-out and rounds raise the share that is reached, and loss lowers it. Each step is more than 0.02,
/// with standard errors of 0.004 and less.
#[test]
fn more_gossip_reaches_more() {
    let reached = |multicast, loss| reached(&run(&trial(multicast, 50, loss), 200));
    let rounds = ["broadcast", "bimodal:1,1", "bimodal:1,3", "bimodal:1,6"].map(|it| reached(it, 0.4));
    assert!(rounds.is_sorted_by(|less, more| less + 0.02 < *more), "{rounds:?}");
    let fanout = ["bimodal:1,2", "bimodal:2,2", "bimodal:4,2"].map(|it| reached(it, 0.4));
    assert!(fanout.is_sorted_by(|less, more| less + 0.02 < *more), "{fanout:?}");
    let loss = [0.6, 0.4, 0.2].map(|loss| reached("bimodal:1,3", loss));
    assert!(loss.is_sorted_by(|less, more| less + 0.02 < *more), "{loss:?}");
    // Once nearly all have it, 3 * 0.6 digests arrive per round at one that misses it. It asks once in a
    // round, and gets it if two messages arrive. In lock-step it asks with probability 1 - exp(-1.8); with
    // rounds that begin at any time, once in a round and the 1/1.8 rounds until it is told anew. Those that
    // were repaired are out of step, so that the truth lies between; the standard error is 0.0006.
    let left = |asks: f64| 0.4 * (1.0 - asks * 0.6 * 0.6).powi(15);
    let (least, most) = (left(1.0 - libm::exp(-1.8)), left(1.0 / (1.0 + 1.0 / 1.8)));
    let missed = 1.0 - reached("bimodal:3,15", 0.4);
    assert!((least - 0.002..most + 0.002).contains(&missed), "{least} {missed} {most}");
}

/// After one round with fan-out 1: who has the message, the share 1 - p, tells one other. A digest
/// reaches one that misses it from each holder with probability (1 - p) / 199, so that all but
/// exp(-(1 - p)^2) of them are told; they ask the first that tells them, and get it if two more messages
/// arrive. 300 runs with 199 addressees: the standard error is 0.0017.
#[test]
fn one_round_repairs_what_it_should() {
    let loss: f64 = 0.2;
    let found = reached(&run(&trial("bimodal:1,1", 200, loss), 300));
    let told = (1.0 - loss) * (1.0 - loss);
    let repaired = (1.0 - libm::exp(-told)) * (1.0 - loss) * (1.0 - loss);
    let expected = 1.0 - loss + loss * repaired;
    assert!((found - expected).abs() < 0.007, "{found} {expected}");
}

/// The two modes (section 1: "almost all or almost none"): the broadcast reaches 1.5 of 49 on average and
/// the sender dies. If it reached nobody, with probability 0.97^49 = 0.225, that is the end of it; else
/// gossip brings it to almost all. 1000 runs, so that the standard error of that share is 0.013.
#[test]
fn gossip_reaches_almost_all_or_almost_none() {
    let unlucky =
        DeliveryTrial { broadcast_loss: Some(0.97), sender_crashes: true, ..trial("bimodal:2,12", 50, 0.05) };
    let results = run(&unlucky, 1000);
    let none = share(&results, |fraction| fraction == 0.0);
    assert!((none - 0.2248).abs() < 0.055, "{none}");
    assert!(share(&results, |fraction| 0.1 < fraction && fraction < 0.9) < 0.01);
    assert!(share(&results, |fraction| fraction >= 0.9) > 0.7);
    // With the sender alive and gossiping, and with rounds for it, nobody is left out.
    let lucky = DeliveryTrial { sender_crashes: false, ..unlucky.clone() };
    assert!(share(&run(&lucky, 300), |fraction| fraction >= 0.9) > 0.98);
    // What makes the modes is the gossip: the broadcast alone lies near one.
    let plain = DeliveryTrial { multicast: "broadcast".parse().unwrap(), ..unlucky };
    assert!(share(&run(&plain, 300), |fraction| fraction > 0.2) < 0.01);
}

/// A broadcast is over when its slowest message arrives. Gossip delivers later, and goes on after the last delivery.
#[test]
fn the_last_delivery_comes_before_all_is_quiet() {
    for result in run(&trial("broadcast", 50, 0.3), 20) {
        assert_eq!((result.last, result.quiet), (Some(1.0), 1.0));
    }
    for result in run(&trial("bimodal:2,5", 50, 0.0), 20) {
        assert_eq!(result.last, Some(1.0), "the broadcast has reached everybody");
        assert!(result.quiet > 5.0, "{}", result.quiet);
    }
    let (mut late, mut none) = (0, 0);
    for result in run(&trial("bimodal:2,5", 50, 0.3), 100) {
        // A digest, a request and the message take three delays at least after the broadcast's one.
        let last = result.last.expect("somebody is reached");
        assert!(last == 1.0 || last >= 4.0 && last <= result.quiet, "{last}");
        late += usize::from(last >= 4.0);
    }
    // 15 or so miss the broadcast, and each is repaired in seven runs of eight.
    assert_eq!(late, 100);
    for result in run(&trial("bimodal:2,5", 3, 1.0), 5) {
        none += usize::from(result.last.is_none() && result.reached == 0);
    }
    assert_eq!(none, 5);
}
