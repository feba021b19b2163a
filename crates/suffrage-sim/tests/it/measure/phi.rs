//! The phi accrual detector against Hayashibara et al. 2004.

use crate::measure::{detection_times, mean, mistakes, run, times_after_crash, trial, units, watched};
use suffrage_sim::measure::{DetectionTime, DetectionTrial};

/// "the likeliness that the monitor will make a mistake [...] is about 10% for phi = 1, 1% for phi = 2,
/// 0.1% for phi = 3, and so on" (section 3.2): per silence between two heartbeats, where those are
/// nearly normal. Differences of log-normal delays of spread 0.05 are (excess kurtosis 0.02), and the
/// window is full when counting begins. At phi = 3 some 600 mistakes are expected, with a standard
/// deviation of 25; kurtosis and the error of the estimated deviation add up to a tenth. The bound is
/// five deviations and that tenth.
#[test]
fn mistakes_are_as_rare_as_the_threshold_says() {
    for (phi, bound) in [(1, 0.10), (2, 0.15), (3, 0.35)] {
        let patient = DetectionTrial {
            warm_up: units(10_500.0),
            watch: units(20_000.0),
            ..trial(&format!("phi:{phi},10"), 6, "lognormal:30,0.05")
        };
        let results = run(&patient, 10);
        let silences = watched(&results) / 10.0 * 30.0;
        let ratio = mistakes(&results) / silences / 0.1f64.powi(phi);
        assert!((ratio - 1.0).abs() < bound, "phi = {phi}: {ratio}");
    }
}

/// The higher the threshold, the later everybody notices: on one seed all messages are the same, so
/// that this holds for every observer, and one that errs when the crash comes errs at lower thresholds, too.
/// Times are compared where none of them errs.
#[test]
fn detection_takes_longer_the_higher_the_threshold() {
    let run = |phi| detection_times(&run(&trial(&format!("phi:{phi},10"), 6, "lognormal:10,0.1"), 30));
    let (mut low, mut middle, mut high) = (Vec::new(), Vec::new(), Vec::new());
    for ((least, more), most) in run(1).into_iter().zip(run(3)).zip(run(8)) {
        match (least, more, most) {
            (DetectionTime::After(least), DetectionTime::After(more), DetectionTime::After(most)) => {
                assert!(least <= more && more < most, "{least} {more} {most}");
                low.push(least);
                middle.push(more);
                high.push(most);
            }
            (
                DetectionTime::BeforeCrash,
                DetectionTime::BeforeCrash | DetectionTime::After(_),
                DetectionTime::After(_),
            ) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(low.len() > 100, "{}", low.len());
    // From the tables of the normal distribution, in deviations of sqrt(2) * 1 unit: 1.28, 3.09, 5.61.
    let step = (mean(&high) - mean(&middle)) / (mean(&middle) - mean(&low));
    let expected = (5.612 - 3.090) / (3.090 - 1.282);
    assert!((step / expected - 1.0).abs() < 0.3, "{step} {expected}");
}

/// "adapts to changing network conditions" (section 1): where delays vary more, the same threshold waits
/// longer and errs about as seldom; a time-out that is as fast in the calm network errs all the time.
#[test]
fn the_same_threshold_fits_two_networks() {
    let (calm, rough) = ("lognormal:10,0.1", "lognormal:10,0.3");
    let watch = |detector, latency| {
        let trial =
            DetectionTrial { warm_up: units(5_000.0), watch: units(5_000.0), ..trial(detector, 6, latency) };
        run(&trial, 10)
    };
    let rate = |results: &[_]| mistakes(results) / (watched(results) / 10.0 * 30.0);
    let (phi_calm, phi_rough) = (watch("phi:3,10", calm), watch("phi:3,10", rough));
    let (fixed_calm, fixed_rough) = (watch("heartbeat:10,14.5", calm), watch("heartbeat:10,14.5", rough));
    let (fast, slow) = (mean(&times_after_crash(&phi_calm)), mean(&times_after_crash(&phi_rough)));
    assert!(slow > fast + 4.0, "three times the deviation, 1.4: {fast} {slow}");
    let same = mean(&times_after_crash(&fixed_calm));
    assert!((same - fast).abs() < 0.5, "the time-out is the one phi arrives at: {same} {fast}");
    assert!(rate(&phi_calm) < 0.003 && rate(&fixed_calm) < 0.003);
    // Delays that are not normal cost a factor, and not a hundred.
    assert!(rate(&phi_rough) < 0.01, "{}", rate(&phi_rough));
    assert!(rate(&fixed_rough) > 0.1, "{}", rate(&fixed_rough));
}
