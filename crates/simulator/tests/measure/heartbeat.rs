//! The heartbeat detector against the bounds that its file derives.

use crate::{mistakes, noticed, run, trial, watched};
use simulator::measure::DetectionTrial;

/// "noticed after `timeout - period + d` at the earliest and `timeout + D` at the latest", and no
/// mistake while `timeout` is more than `period + D - d`.
#[test]
fn detection_keeps_to_its_bounds_and_comes_close_to_them() {
    let results = run(&trial("heartbeat:2,7", 6, "uniform:0.5,1.5"), 200);
    let times = noticed(&results);
    let (least, most) =
        (times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max));
    assert!((5.5..5.9).contains(&least), "{least}");
    assert!((8.1..=8.5).contains(&most), "{most}");
    assert_eq!(mistakes(&results), 0.0);
    // One that watches only just long enough does not err either, and one that does not, does.
    assert_eq!(mistakes(&run(&trial("heartbeat:2,3.001", 6, "uniform:0.5,1.5"), 50)), 0.0);
    assert!(mistakes(&run(&trial("heartbeat:2,2.9", 6, "uniform:0.5,1.5"), 50)) > 0.0);
}

/// Clocks that run up to a tenth fast or slow stretch the bounds accordingly.
#[test]
fn clocks_within_bounds_cause_no_mistakes() {
    let drifting = DetectionTrial { drift: 0.1, ..trial("heartbeat:2,7", 6, "uniform:0.5,1.5") };
    let results = run(&drifting, 100);
    assert_eq!(mistakes(&results), 0.0);
    for time in noticed(&results) {
        assert!((7.0 / 1.1 - 2.0 / 0.9 + 0.5..=7.0 / 0.9 + 1.5).contains(&time), "{time}");
    }
}

/// Where k heartbeats are due within the time-out, a mistake is a run of k losses after a heartbeat that
/// came: (1 - p) p^k per heartbeat and pair. Mistakes are rare and nearly independent, so that their
/// number is nearly Poisson (or less scattered); the bound is five of its standard deviations, and half
/// a percent for the heartbeats at the edges of the time watched.
#[test]
fn mistakes_under_loss_are_runs_of_losses() {
    let loss: f64 = 0.2;
    for k in 1..=4 {
        let lossy = DetectionTrial { loss, ..trial(&format!("heartbeat:1,{k}.5"), 6, "const:1") };
        let results = run(&lossy, 60);
        let expected = watched(&results) * 30.0 * (1.0 - loss) * loss.powi(k);
        let found = mistakes(&results);
        let bound = 5.0 * expected.sqrt() + 0.005 * expected;
        assert!((found - expected).abs() < bound, "k = {k}: {found}, not {expected} +- {bound}");
    }
}

#[test]
fn each_period_costs_a_message_to_everybody() {
    for result in run(&trial("heartbeat:4,9", 7, "const:1"), 5) {
        let expected = result.watched / 4.0 * 7.0 * 6.0;
        assert!((result.messages as f64 - expected).abs() <= 7.0 * 6.0, "{} {expected}", result.messages);
    }
}
