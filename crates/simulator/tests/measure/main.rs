//! Detectors and multicasts by themselves, measured against what their sources say of them.
//!
//! Bounds on what is left to chance are at least four standard errors wide, so that over all seeds
//! fewer than one in ten thousand would fail; the seeds are fixed.

mod bimodal;
mod gossip;
mod heartbeat;
mod phi;

use election::detectors::{self, Any};
use election::{Roster, Span, Time};
use simulator::measure::{Detection, DetectionTrial, Noticed};
use simulator::{Fault, Latency, World};

/// A process that was paused finds what the others have sent meanwhile, and suspects nobody; the others
/// are right to suspect it.
#[test]
fn one_that_was_paused_does_not_blame_the_others() {
    for detector in ["heartbeat:1,3.5", "phi:8,1", "gossip:1,12"] {
        let options: detectors::Options = detector.parse().unwrap();
        let make = move |_| Any::new(Some(options));
        let mut world = World::new(Roster::numbered(5), 1, Latency::Const(Span::UNIT), make);
        let time = |units: u64| Time::ZERO + Span::from_millis(units);
        world.befall(time(30), Fault::Pause(2, time(80)));
        world.befall(time(110), Fault::Pause(2, time(112)));
        world.run(time(200));
        assert_eq!(world.ledger().wrong_suspicions, 0, "{detector}");
    }
}

/// The same trial with many seeds.
fn run(trial: &DetectionTrial, seeds: u64) -> Vec<Detection> {
    (0..seeds).map(|seed| DetectionTrial { seed, ..trial.clone() }.run()).collect()
}

fn trial(detector: &str, nodes: usize, latency: &str) -> DetectionTrial {
    let latency = latency.parse().unwrap();
    DetectionTrial { latency, ..DetectionTrial::new(detector.parse().unwrap(), nodes) }
}

fn mistakes(results: &[Detection]) -> f64 {
    results.iter().map(|result| result.mistakes as f64).sum()
}

fn watched(results: &[Detection]) -> f64 {
    results.iter().map(|result| result.watched).sum()
}

/// When the crash was noticed, by run and observer.
fn opinions(results: &[Detection]) -> Vec<Noticed> {
    results.iter().flat_map(|result| result.noticed.iter().copied()).collect()
}

/// How long after the crash it was noticed, by all that did not suspect the victim already; nobody missed
/// it.
fn noticed(results: &[Detection]) -> Vec<f64> {
    let opinions = opinions(results);
    assert!(!opinions.contains(&Noticed::Missed));
    opinions.into_iter().filter_map(Noticed::time).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn units(units: f64) -> Span {
    Span::from_units(units)
}

/// The slope of the straight line through the points by least squares, and how far the furthest of
/// them is from it.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let (x, y) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum::<f64>();
    let off = |p: &(f64, f64)| (p.1 - y - slope * (p.0 - x)).abs();
    (slope, points.iter().map(off).fold(0.0, f64::max))
}
