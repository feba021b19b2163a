//! The heartbeat detector against the bounds that its file derives.

use crate::measure::{detection_times, mean, mistakes, run, times_after_crash, trial, units, watched};
use suffrage_sim::measure::{Detection, DetectionTime, DetectionTrial};

/// "noticed after `timeout - period + d` at the earliest and `timeout + D` at the latest", and no
/// mistake while `timeout` is more than `period + D - d`.
#[test]
fn detection_keeps_to_its_bounds_and_comes_close_to_them() {
    let results = run(&trial("heartbeat:2,7", 6, "uniform:0.5,1.5"), 200);
    let times = times_after_crash(&results);
    let (least, most) =
        (times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max));
    assert!((5.5..5.9).contains(&least), "{least}");
    assert!((8.1..=8.5).contains(&most), "{most}");
    assert_eq!(mistakes(&results), 0.0);
    // A time-out just above the limit makes no mistakes either, and one below it does.
    assert_eq!(mistakes(&run(&trial("heartbeat:2,3.001", 6, "uniform:0.5,1.5"), 50)), 0.0);
    assert!(mistakes(&run(&trial("heartbeat:2,2.9", 6, "uniform:0.5,1.5"), 50)) > 0.0);
}

/// Clocks that run up to a tenth fast or slow stretch the bounds accordingly.
#[test]
fn clocks_within_bounds_cause_no_mistakes() {
    let drifting = DetectionTrial { drift: 0.1, ..trial("heartbeat:2,7", 6, "uniform:0.5,1.5") };
    let results = run(&drifting, 100);
    assert_eq!(mistakes(&results), 0.0);
    for time in times_after_crash(&results) {
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

/// The share of all pairs' time with a wrong suspicion.
fn wrong(results: &[Detection]) -> f64 {
    results.iter().map(|result| result.suspected_share * result.watched).sum::<f64>() / watched(results)
}

/// If nothing arrives, all processes suspect all others from the first time-out on, always wrongly.
#[test]
fn a_detector_that_hears_nothing_is_wrong_all_the_time() {
    let deaf = DetectionTrial { loss: 1.0, ..trial("heartbeat:1,3.5", 5, "const:1") };
    let settled = run(&deaf, 3);
    for result in &settled {
        assert_eq!((result.mistakes, result.durations.len()), (0, 0), "they began before the watch");
        assert_eq!(result.detection_times, [DetectionTime::BeforeCrash; 4]);
        assert!((result.suspected_share - 1.0).abs() < 1e-9, "{}", result.suspected_share);
    }
    // Mistakes that begin during the watch and never end count until its end.
    for result in run(&DetectionTrial { warm_up: units(0.0), ..deaf }, 3) {
        assert_eq!((result.mistakes, result.durations.len()), (20, 0));
        assert_eq!(result.detection_times, [DetectionTime::BeforeCrash; 4]);
        let expected = 1.0 - 3.5 / result.watched;
        assert!((result.suspected_share - expected).abs() < 1e-9, "{} {expected}", result.suspected_share);
    }
}

/// A time-out of 2.5 is less than the period of 2 and delays that differ by up to 2. At a random moment a
/// heartbeat was sent v ago, v uniform up to 2, and the one before it v + 2 ago. There is suspicion if
/// neither has arrived within the last 2.5: the later is under way with probability 1 - v/2, and the
/// earlier came before with probability (v - 0.5)/2, or 0. The mean over v is 9/128. The standard error
/// is below 0.0005: 100 runs of 30 pairs and 100 heartbeats, each with 0.14 of suspicion on average, and
/// never more than 1.5.
#[test]
fn a_time_out_below_period_and_delay_is_wrong_as_often_as_it_must_be() {
    let results = run(&trial("heartbeat:2,2.5", 6, "uniform:0,2"), 100);
    let found = wrong(&results);
    assert!((found - 9.0 / 128.0).abs() < 0.003, "{found}");
    let lasted = results.iter().flat_map(|result| &result.durations).sum::<f64>();
    let share = lasted / (watched(&results) * 30.0);
    assert!((share / found - 1.0).abs() < 0.01, "all of it are mistakes that end: {share} {found}");
}

/// With loss p and a time-out of 1.5 periods: the moment is wrong if the last heartbeat due was lost and it
/// was due half a period ago, or the one before was lost, too: p/2 + p^2/2 (per k: p^k (1 + p) / 2).
///
/// At the crash, v after the last heartbeat was sent, that one is under way. Counted from it, i are lost
/// before one that arrives, and suspicion for good begins 2.5 - i - v after the crash. That is before the
/// crash where i = 2 and v > 0.5, or i > 2: p^2 (1 + p) / 2. The others' mean time is what is left.
///
/// 2000 runs of 5 observers and 30 pairs: standard errors of 0.0006, 0.0025 and 0.011.
#[test]
fn an_observer_with_a_mistake_at_the_crash_has_no_detection_time() {
    let p = 0.3;
    let (warm_up, watch) = (units(20.0), units(20.0));
    let results =
        run(&DetectionTrial { loss: p, warm_up, watch, ..trial("heartbeat:1,1.5", 6, "const:1") }, 2000);
    let found = wrong(&results);
    let expected = p * (1.0 + p) / 2.0;
    assert!((found - expected).abs() < 0.003, "{found} {expected}");
    let detection_times = detection_times(&results);
    let errs = detection_times.iter().filter(|&&it| it == DetectionTime::BeforeCrash).count() as f64
        / detection_times.len() as f64;
    let expected = p * p * (1.0 + p) / 2.0;
    assert!((errs - expected).abs() < 0.0125, "{errs} {expected}");
    let found = mean(&times_after_crash(&results));
    let expected = (1.0 - p) * (2.0 + p + p * p / 8.0) / (1.0 - expected);
    assert!((found - expected).abs() < 0.055, "{found} {expected}");
}
