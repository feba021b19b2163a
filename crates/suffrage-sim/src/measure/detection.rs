//! How soon a failure detector notices a crash, and how often it errs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use suffrage_core::detectors::{self, Any};
use suffrage_core::{Hash, NodeId, Rng, Roster, Span, Time};

use crate::{Fault, Latency, Observer, TraceEvent, World};

/// A world of nothing but detectors, in which one process crashes at a random moment.
#[derive(Clone, Debug)]
pub struct DetectionTrial {
    /// Which detector.
    pub detector: detectors::Options,
    /// How many processes.
    pub nodes: usize,
    /// How long messages take.
    pub latency: Latency,
    /// How likely a message is lost.
    pub loss: f64,
    /// How likely a message is doubled.
    pub duplicate: f64,
    /// How much clocks run fast or slow, as a fraction.
    pub drift: f64,
    /// How long the detectors run before anything is counted.
    pub warm_up: Span,
    /// For how long mistakes are counted, before the crash.
    pub watch: Span,
    /// Decides everything that is left to chance.
    pub seed: u64,
}

/// What came of it. Times are in time units.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// By observer.
    pub detection_times: Vec<DetectionTime>,
    /// How many wrong suspicions began while they were counted.
    pub mistakes: usize,
    /// How long each of them lasted that ended before the run did, and of the victim before the crash.
    pub durations: Vec<f64>,
    /// While mistakes were counted, the share of all pairs' time in which the one suspected the other,
    /// whenever that began and whether or not it ended. One minus it is the query accuracy probability
    /// of Chen, Toueg and Aguilera 2002.
    pub suspected_share: f64,
    /// For how long they were counted.
    pub watched: f64,
    /// Messages to one addressee each, while mistakes were counted.
    pub messages: u64,
}

/// When an observer began to suspect the victim for good. Chen, Toueg and Aguilera 2002 call that a
/// detection time of 0 if it was before the crash; here it is none, since luck is no speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DetectionTime {
    /// Before the crash: it erred, and did not find out in time.
    BeforeCrash,
    /// So long after the crash.
    After(f64),
    /// It trusted the victim when the run was over.
    Never,
}

impl DetectionTime {
    /// How long after the crash, if it was after it.
    pub fn time(self) -> Option<f64> {
        match self {
            DetectionTime::After(time) => Some(time),
            DetectionTime::BeforeCrash | DetectionTime::Never => None,
        }
    }
}

impl DetectionTrial {
    /// In a flawless network; long enough for a detector to have settled, and to err now and then.
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

    /// Runs it.
    pub fn run(&self) -> Detection {
        let rng = &mut Rng::new(Hash::new(self.seed).word(4));
        let period = self.detector.period(self.latency.bound());
        let subject = rng.below(self.nodes as u64) as usize;
        let start = Time::ZERO + self.warm_up;
        // A period more or less, so that the crash comes at any moment between two messages.
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
        // What has been forgotten may come back; it has had the time when this is over.
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

/// Who came to which opinion of whom, and when.
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
        // Nobody is dead before the watch is over, so that all suspicions in it are wrong.
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
