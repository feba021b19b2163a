//! Detectors and multicasts by themselves, measured against what their sources say of them.
//!
//! Bounds on what is left to chance are at least four standard errors wide, so that over all seeds
//! fewer than one in ten thousand would fail; the seeds are fixed.

mod bimodal;
mod gossip;
mod heartbeat;
mod phi;

use election::Span;
use simulator::measure::{Detection, DetectionTrial};

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

/// When the crash was noticed, by run and observer; everybody did.
fn noticed(results: &[Detection]) -> Vec<f64> {
    results.iter().flat_map(|result| result.noticed.iter().map(|time| time.expect("noticed"))).collect()
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
