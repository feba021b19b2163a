//! Measures the detection time and the mistakes of a failure detector.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use suffrage_core::detectors::{self, Any};
use suffrage_core::{Hash, NodeId, Rng, Roster, Span, Time};

use crate::{Fault, Latency, Observer, TraceEvent, World};

/// A world of detectors without an algorithm, in which one process crashes at a random moment.
#[derive(Clone, Debug)]
pub struct DetectionTrial {
    /// The detector.
    pub detector: detectors::Options,
    /// The number of processes.
    pub nodes: usize,
    /// The delay of messages.
    pub latency: Latency,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The probability that a message is duplicated.
    pub duplicate: f64,
    /// The greatest deviation of a clock's rate, as a fraction.
    pub drift: f64,
    /// The time before the measurement begins.
    pub warm_up: Span,
    /// The length of the watch: the time before the crash in which mistakes are counted.
    pub watch: Span,
    /// The seed of every random decision.
    pub seed: u64,
}

/// The result of a [`DetectionTrial`]. Times are in time units.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The detection time of each observer.
    pub detection_times: Vec<DetectionTime>,
    /// The number of wrong suspicions that began during the watch.
    pub mistakes: usize,
    /// The durations of the mistakes that ended before the end of the run, and for the victim before the crash.
    pub durations: Vec<f64>,
    /// The share of all pairs' time during the watch in which the one suspected the other, whenever the suspicion began
    /// and whether or not it ended. One minus this share is the query accuracy probability of Chen, Toueg and Aguilera
    /// 2002.
    pub suspected_share: f64,
    /// The length of the watch.
    pub watched: f64,
    /// Messages to one addressee each, during the watch.
    pub messages: u64,
}

/// The time at which an observer began to suspect the victim for good. If that was before the crash, Chen, Toueg and
/// Aguilera 2002 define the detection time as 0. Here it has no value, because a mistake is not a fast detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DetectionTime {
    /// Before the crash: a mistake that was not corrected in time.
    BeforeCrash,
    /// This time after the crash.
    After(f64),
    /// The observer trusted the victim at the end of the run.
    Never,
}

impl DetectionTime {
    /// The time after the crash, if the suspicion began after it.
    pub fn time(self) -> Option<f64> {
        match self {
            DetectionTime::After(time) => Some(time),
            DetectionTime::BeforeCrash | DetectionTime::Never => None,
        }
    }
}

impl DetectionTrial {
    /// A trial in a network without faults, with a warm-up and a watch of 200 time units each.
    pub fn new(detector: detectors::Options, nodes: usize) -> DetectionTrial {
        DetectionTrial {
            detector,
            nodes,
            latency: Latency::Const(Span::UNIT),
            loss: 0.0,
            duplicate: 0.0,
            drift: 0.0,
            warm_up: Span::from_millis(200),
            watch: Span::from_millis(200),
            seed: 0,
        }
    }

    /// Runs the trial.
    pub fn run(&self) -> Detection {
        let rng = &mut Rng::new(Hash::new(self.seed).word(4));
        let period = self.detector.period(self.latency.bound());
        let subject = rng.below(self.nodes as u64) as usize;
        let start = Time::ZERO + self.warm_up;
        // Up to a period later, so that the crash comes at any moment between two messages.
        let crash = start + self.watch + period.scale(rng.unit());
        let changes = SuspicionChanges::default();
        let mut world = self.world();
        world.set_observer(Box::new(changes.clone()));
        world.schedule_fault(crash, Fault::Crash(subject));
        let sent = |world: &World<Any>| world.ledger().traffic().messages;
        world.run(start);
        let before = sent(&world);
        world.run(crash);
        let messages = sent(&world) - before;
        // Long enough for a suspicion that is withdrawn to begin again.
        world.run(crash + self.detector.max_detection_time(self.latency.bound()) * 4 + period * 10);
        let victim = world.roster().id(subject);
        changes.summary(world.roster(), victim, start..crash, messages)
    }

    fn world(&self) -> World<Any> {
        let detector = self.detector;
        let roster = Roster::numbered(self.nodes);
        let mut world = World::new(roster, self.seed, self.latency, move |_| Any::new(Some(detector)));
        world.set_loss(self.loss);
        world.set_duplicate(self.duplicate);
        world.set_drift(self.drift);
        world
    }
}

/// The changes of suspicion in a run.
#[derive(Clone, Default)]
struct SuspicionChanges(Rc<RefCell<Vec<SuspicionChange>>>);

struct SuspicionChange {
    at: Time,
    who: NodeId,
    peer: NodeId,
    suspected: bool,
}

impl Observer for SuspicionChanges {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        let (who, peer, suspected) = match event {
            TraceEvent::Suspected { who, peer } => (who, peer, true),
            TraceEvent::Restored { who, peer } => (who, peer, false),
            _ => return,
        };
        self.0.borrow_mut().push(SuspicionChange { at, who, peer, suspected });
    }
}

impl SuspicionChanges {
    fn summary(&self, roster: &Roster, victim: NodeId, watch: Range<Time>, messages: u64) -> Detection {
        let mut open: BTreeMap<(NodeId, NodeId), Time> = BTreeMap::new();
        let (mut mistakes, mut durations, mut suspected_share) = (0, Vec::new(), 0.0);
        // No process is dead before the end of the watch, so all suspicions in it are wrong.
        let watched = |from: Time, to: Time| to.min(watch.end).since(from.max(watch.start)).as_units();
        for &SuspicionChange { at, who, peer, suspected } in self.0.borrow().iter() {
            if suspected {
                open.insert((who, peer), at);
                mistakes += usize::from(watch.contains(&at));
            } else if let Some(began) = open.remove(&(who, peer)) {
                suspected_share += watched(began, at);
                if watch.contains(&began) && (peer != victim || at < watch.end) {
                    durations.push(at.since(began).as_units());
                }
            }
        }
        suspected_share += open.values().map(|&began| watched(began, watch.end)).sum::<f64>();
        let detection_times = |who| match open.get(&(who, victim)) {
            None => DetectionTime::Never,
            Some(&began) if began < watch.end => DetectionTime::BeforeCrash,
            Some(began) => DetectionTime::After(began.since(watch.end).as_units()),
        };
        let (nodes, watched) = (roster.len() as f64, watched(watch.start, watch.end));
        Detection {
            detection_times: roster.iter().filter(|&id| id != victim).map(detection_times).collect(),
            mistakes,
            durations,
            suspected_share: suspected_share / (nodes * (nodes - 1.0) * watched),
            watched,
            messages,
        }
    }
}
