//! Detectors and multicasts by themselves, measured against the claims of their sources.
//!
//! Statistical bounds are at least four standard errors wide, so that fewer than one seed in ten thousand fails; the
//! seeds are fixed.

use std::cell::Cell;
use std::rc::Rc;

mod bimodal;
mod gossip;
mod heartbeat;
mod phi;

use suffrage_core::detectors::{self, Any};
use suffrage_core::{NodeId, Roster, Span, Time};
use suffrage_sim::measure::{Detection, DetectionTime, DetectionTrial};
use suffrage_sim::statistics::fit_line;
use suffrage_sim::{Fault, Latency, Observer, Plan, TraceEvent, World};

/// A process that was paused gets the messages of the pause, and suspects nobody; the others suspect it rightly.
#[test]
fn a_process_that_was_paused_does_not_suspect_the_others() {
    for detector in ["heartbeat:1,3.5", "phi:8,1", "gossip:1,12"] {
        let options: detectors::Options = detector.parse().unwrap();
        let make = move |_| Any::new(Some(options));
        let mut world = World::new(Roster::numbered(5), 1, Latency::Const(Span::UNIT), make);
        let time = |units: u64| Time::ZERO + Span::from_millis(units);
        world.schedule_fault(time(30), Fault::Pause(2, time(80)));
        world.schedule_fault(time(110), Fault::Pause(2, time(112)));
        world.run(time(200));
        assert_eq!(world.ledger().wrong_suspicions, 0, "{detector}");
    }
}

/// The suspicions of process 1.
#[derive(Clone, Default)]
struct SuspicionRecord {
    /// The time at which it suspected 3 for good.
    of_3: Rc<Cell<Option<f64>>>,
    /// The number of suspicions of 2.
    of_2: Rc<Cell<usize>>,
}

impl Observer for SuspicionRecord {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        match event {
            TraceEvent::Suspected { who: NodeId(1), peer: NodeId(2) } => self.of_2.set(self.of_2.get() + 1),
            TraceEvent::Suspected { who: NodeId(1), peer: NodeId(3) } => self.of_3.set(Some(at.as_units())),
            TraceEvent::Restored { who: NodeId(1), peer: NodeId(3) } => self.of_3.set(None),
            _ => {}
        }
    }
}

/// Runs three processes with a delay of 1. Returns the time at which the first suspected the last for good, and the
/// number of its suspicions of the second.
fn suspicions(detector: &str, plan: Plan, until: f64) -> (Option<f64>, usize) {
    let options: detectors::Options = detector.parse().unwrap();
    let latency = Latency::Const(Span::UNIT);
    let mut world = World::new(Roster::numbered(3), 1, latency, move |_| Any::new(Some(options)));
    let suspicions = SuspicionRecord::default();
    world.set_observer(Box::new(suspicions.clone()));
    plan.into_iter().for_each(|(at, fault)| world.schedule_fault(at, fault));
    world.run(at(until));
    (suspicions.of_3.get(), suspicions.of_2.get())
}

fn at(units: f64) -> Time {
    Time::ZERO + Span::from_units(units)
}

/// The messages of a pause arrive all at once at its end. Heartbeats are regular here, so only the pause makes them
/// late.
#[test]
fn phi_learns_nothing_from_its_own_pause() {
    for detector in ["phi:1,1", "phi:3,1", "phi:8,1"] {
        for pause in [1.2, 2.0, 5.5, 15.0, 19.0, 21.3, 50.0, 200.0, 1300.0, 2000.0] {
            let plan = vec![(at(20.0), Fault::Pause(0, at(20.0 + pause)))];
            let (_, wrong) = suspicions(detector, plan.clone(), 120.0 + pause);
            assert_eq!(wrong, 0, "{detector}, paused for {pause}");
            // The detection time does not grow either, unless the pause looks like a late heartbeat.
            if pause < 3.0 {
                continue;
            }
            let crash = 60.0 + pause;
            let crashed = [plan, vec![(at(crash + 0.5), Fault::Crash(2))]].concat();
            let (suspected, wrong) = suspicions(detector, crashed, 200.0 + pause);
            let usual = suspicions(detector, vec![(at(crash + 0.5), Fault::Crash(2))], 200.0 + pause).0;
            let (suspected, usual) =
                (suspected.expect("times_after_crash"), usual.expect("times_after_crash"));
            assert!((suspected - usual).abs() < 0.1, "{detector}, {pause}: {suspected} {usual}");
            assert_eq!(wrong, 0);
        }
    }
}

/// On one seed the two runs differ only by the duplicates.
#[test]
fn phi_learns_nothing_from_duplicates() {
    for detector in ["phi:1,1", "phi:3,1", "phi:8,1"] {
        let once = trial(detector, 4, "const:1");
        let twice = DetectionTrial { duplicate: 1.0, ..once.clone() };
        let (once, twice) = (run(&once, 5), run(&twice, 5));
        assert_eq!(
            (times_after_crash(&once), mistakes(&once)),
            (times_after_crash(&twice), 0.0),
            "{detector}"
        );
        assert_eq!(mistakes(&twice), 0.0, "{detector}");
    }
}

/// A peer crashes just before or during a pause of the process. It is suspected a time-out and a delay of grace after the
/// pause, whether or not its last heartbeats were deferred.
#[test]
fn a_crash_during_a_pause_is_detected_soon_after_it() {
    for (detector, patience) in [("heartbeat:1,3.5", 3.5), ("phi:8,1", 2.5), ("gossip:1,15", 15.0)] {
        for half in 0..7 {
            let pause = 20.0 + f64::from(half) / 2.0;
            for crash in [19.1, 20.6, 21.1, 21.6, 22.1, 22.6, 23.1, 100.0] {
                let plan = vec![(at(pause), Fault::Pause(0, at(320.0))), (at(crash), Fault::Crash(2))];
                let (suspected, wrong) = suspicions(detector, plan, 1000.0);
                let case = format!("{detector}, pause {pause}, crash {crash}: {suspected:?}");
                assert!(suspected.is_some_and(|at| at <= 320.0 + patience + 1.0), "{case}");
                assert_eq!(wrong, 0, "{case}");
            }
        }
    }
}

/// The clock jumps about when a peer dies. Back: the time since the last heartbeat of anybody, a period at
/// most if somebody else lives, is counted anew, or the jump, if it is shorter. Ahead: so is that, or the jump, if it is shorter than the time-out and a delay, and
/// a delay of grace.
#[test]
fn a_clock_jump_does_not_disable_detection() {
    let timeout = 3.5;
    for by in [0.3, 0.7, 1.5, 3.0, 4.4, 10.0, 300.0] {
        for tenth in 0..30 {
            for back in [true, false] {
                let jump = Fault::Jump { slot: 0, by: Span::from_units(by), back };
                let when = 318.0 + f64::from(tenth) / 10.0;
                let plan = vec![(at(when), jump.clone()), (at(319.05), Fault::Crash(2))];
                let (suspected, wrong) = suspicions("heartbeat:1,3.5", plan, 1000.0);
                let case = format!("jump at {when} by {by}, back: {back}: {suspected:?}");
                let more = if back { 1.0 } else { 1.0 + f64::max(1.0, by.min(timeout + 1.0)) };
                let window = 319.05 + timeout - 1.0..=320.05 + timeout + more;
                assert!(suspected.is_some_and(|at| window.contains(&at)), "{case}, not in {window:?}");
                assert_eq!(wrong, 0, "{case}");
                // With nobody else to hear of, the timer tells how far the clock has gone back, if that is
                // before the last heartbeat.
                let more = if by < timeout { f64::max(more, by) } else { more };
                let alone =
                    vec![(at(when), jump), (at(250.05), Fault::Crash(1)), (at(317.05), Fault::Crash(2))];
                let (suspected, _) = suspicions("heartbeat:1,3.5", alone, 1000.0);
                let window = 317.05 + timeout - 1.0..=318.05 + timeout + more;
                assert!(suspected.is_some_and(|at| window.contains(&at)), "{case}, alone: {suspected:?}");
            }
        }
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

/// The detection times, by run and observer.
fn detection_times(results: &[Detection]) -> Vec<DetectionTime> {
    results.iter().flat_map(|result| result.detection_times.iter().copied()).collect()
}

/// The detection times after the crash, without observers that suspected the victim before. No observer missed the crash.
fn times_after_crash(results: &[Detection]) -> Vec<f64> {
    let detection_times = detection_times(results);
    assert!(!detection_times.contains(&DetectionTime::Never));
    detection_times.into_iter().filter_map(DetectionTime::time).collect()
}

fn mean(values: &[f64]) -> f64 {
    suffrage_sim::mean(values).mean
}

fn units(units: f64) -> Span {
    Span::from_units(units)
}

/// The slope of the straight line through the points by least squares, and how far the furthest of
/// them is from it.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let line = fit_line(points).expect("there are three points");
    let off = |p: &(f64, f64)| (p.1 - line.intercept - line.slope.mean * p.0).abs();
    (line.slope.mean, points.iter().map(off).fold(0.0, f64::max))
}
