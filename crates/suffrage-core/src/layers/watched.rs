//! A failure detector in front of an algorithm.

use serde::{Deserialize, Serialize};

use super::{Concatenation, KindLists};
use crate::forward_effects;
use crate::{Context, Effects, Kind, Message, NodeId, Process, Span, Start, Time, Timer, View};

/// A failure detector in front of an algorithm.
///
/// The detector and the algorithm each get their own messages and timers. When the detector suspects or restores a
/// peer, the algorithm gets the suspicion at once, before the detector's next effect, and so does the driver.
/// Suspicions from outside also reach the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watched<D: Process, A: Process> {
    detector: D,
    algorithm: A,
    saved: SavedParts<D::Saved, A::Saved>,
}

impl<D: Process, A: Process> Watched<D, A> {
    /// The algorithm with this detector.
    pub fn new(detector: D, algorithm: A) -> Self {
        Watched { detector, algorithm, saved: SavedParts { detector: None, algorithm: None } }
    }

    /// The detector.
    pub fn detector(&self) -> &D {
        &self.detector
    }

    /// The algorithm.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }
}

/// A message of the detector or of the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layered<D, A> {
    /// A message of the detector.
    Detector(D),
    /// A message of the algorithm.
    Algorithm(A),
}

impl<D: Message, A: Message> KindLists for Layered<D, A> {
    const FIRST: &'static [Kind] = D::KINDS;
    const SECOND: &'static [Kind] = A::KINDS;
}

impl<D: Message, A: Message> Message for Layered<D, A> {
    const KINDS: &'static [Kind] = Concatenation::<Self>::KINDS;

    fn kind(&self) -> usize {
        match self {
            Layered::Detector(message) => message.kind(),
            Layered::Algorithm(message) => D::KINDS.len() + message.kind(),
        }
    }
}

/// A timer of the detector or of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayeredTimer<D, A> {
    /// A timer of the detector.
    Detector(D),
    /// A timer of the algorithm.
    Algorithm(A),
}

impl<D: Timer, A: Timer> Timer for LayeredTimer<D, A> {
    const COUNT: usize = D::COUNT + A::COUNT;

    fn index(self) -> usize {
        match self {
            LayeredTimer::Detector(timer) => timer.index(),
            LayeredTimer::Algorithm(timer) => D::COUNT + timer.index(),
        }
    }
}

/// The last saved state of each part.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SavedParts<D, A> {
    /// The state of the detector.
    pub detector: Option<D>,
    /// The state of the algorithm.
    pub algorithm: Option<A>,
}

/// Maps effects of the algorithm to effects of the composition.
struct AlgorithmEffects<'a, D: Process, A: Process> {
    saved: &'a mut SavedParts<D::Saved, A::Saved>,
    outer: &'a mut (dyn Effects<Watched<D, A>> + 'a),
}

impl<D: Process, A: Process> Effects<A> for AlgorithmEffects<'_, D, A> {
    fn send(&mut self, to: NodeId, message: A::Message) {
        self.outer.send(to, Layered::Algorithm(message));
    }
    fn multicast(&mut self, message: A::Message) {
        self.outer.multicast(Layered::Algorithm(message));
    }
    fn set_timer(&mut self, timer: A::Timer, after: Span) {
        self.outer.set_timer(LayeredTimer::Algorithm(timer), after);
    }
    fn cancel_timer(&mut self, timer: A::Timer) {
        self.outer.cancel_timer(LayeredTimer::Algorithm(timer));
    }
    fn save(&mut self, state: A::Saved) {
        self.saved.algorithm = Some(state);
        self.outer.save(self.saved.clone());
    }
    forward_effects!(outer: rng, announce, lead_until, announce_in, lead_until_in, suspect, restore);
}

/// Maps effects of the detector to effects of the composition, and passes suspicions to the algorithm.
struct DetectorEffects<'a, D: Process, A: Process> {
    algorithm: &'a mut A,
    saved: &'a mut SavedParts<D::Saved, A::Saved>,
    outer: &'a mut (dyn Effects<Watched<D, A>> + 'a),
    now: Time,
    view: View<'a>,
    bound: Span,
}

impl<D: Process, A: Process> DetectorEffects<'_, D, A> {
    /// Passes an input to the algorithm.
    fn run_algorithm(&mut self, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let mut effects = AlgorithmEffects { saved: self.saved, outer: self.outer };
        input(self.algorithm, &mut Context::new(self.now, self.view, self.bound, &mut effects));
    }
}

impl<D: Process, A: Process> Effects<D> for DetectorEffects<'_, D, A> {
    fn send(&mut self, to: NodeId, message: D::Message) {
        self.outer.send(to, Layered::Detector(message));
    }
    fn multicast(&mut self, message: D::Message) {
        self.outer.multicast(Layered::Detector(message));
    }
    fn set_timer(&mut self, timer: D::Timer, after: Span) {
        self.outer.set_timer(LayeredTimer::Detector(timer), after);
    }
    fn cancel_timer(&mut self, timer: D::Timer) {
        self.outer.cancel_timer(LayeredTimer::Detector(timer));
    }
    fn save(&mut self, state: D::Saved) {
        self.saved.detector = Some(state);
        self.outer.save(self.saved.clone());
    }
    forward_effects!(outer: rng, announce, lead_until, announce_in, lead_until_in);
    fn suspect(&mut self, peer: NodeId) {
        self.outer.suspect(peer);
        self.run_algorithm(|algorithm, cx| algorithm.on_suspect(cx, peer));
    }
    fn restore(&mut self, peer: NodeId) {
        self.outer.restore(peer);
        self.run_algorithm(|algorithm, cx| algorithm.on_restore(cx, peer));
    }
}

impl<D: Process, A: Process> Watched<D, A> {
    /// Passes an input to the detector.
    fn run_detector(&mut self, cx: &mut Context<'_, Self>, input: impl FnOnce(&mut D, &mut Context<'_, D>)) {
        let (now, view, bound) = (cx.now(), cx.view(), cx.delay_bound());
        let Watched { detector, algorithm, saved } = self;
        let mut effects = DetectorEffects { algorithm, saved, outer: cx.effects(), now, view, bound };
        input(detector, &mut Context::new(now, view, bound, &mut effects));
    }

    /// Passes an input to the algorithm.
    fn run_algorithm(&mut self, cx: &mut Context<'_, Self>, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let (now, view, bound) = (cx.now(), cx.view(), cx.delay_bound());
        let mut effects = AlgorithmEffects { saved: &mut self.saved, outer: cx.effects() };
        input(&mut self.algorithm, &mut Context::new(now, view, bound, &mut effects));
    }
}

impl<D: Process, A: Process> Process for Watched<D, A> {
    type Message = Layered<D::Message, A::Message>;
    type Timer = LayeredTimer<D::Timer, A::Timer>;
    type Saved = SavedParts<D::Saved, A::Saved>;
    type Command = A::Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Self::Saved>) {
        let (detector, algorithm) = match start {
            Start::Fresh => (Start::Fresh, Start::Fresh),
            Start::Recovered(None) => (Start::Recovered(None), Start::Recovered(None)),
            Start::Recovered(Some(saved)) => {
                self.saved = saved.clone();
                (Start::Recovered(saved.detector), Start::Recovered(saved.algorithm))
            }
        };
        // The detector starts first: its heartbeat must go out before any message that expects one.
        self.run_detector(cx, |part, cx| part.on_start(cx, detector));
        self.run_algorithm(cx, |part, cx| part.on_start(cx, algorithm));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message) {
        match message {
            Layered::Detector(message) => {
                self.run_detector(cx, |part, cx| part.on_message(cx, from, message))
            }
            Layered::Algorithm(message) => {
                self.run_algorithm(cx, |part, cx| part.on_message(cx, from, message))
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Self::Timer) {
        match timer {
            LayeredTimer::Detector(timer) => self.run_detector(cx, |part, cx| part.on_timer(cx, timer)),
            LayeredTimer::Algorithm(timer) => self.run_algorithm(cx, |part, cx| part.on_timer(cx, timer)),
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.run_algorithm(cx, |part, cx| part.on_suspect(cx, peer));
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.run_algorithm(cx, |part, cx| part.on_restore(cx, peer));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.run_detector(cx, |part, cx| part.on_view_change(cx));
        self.run_algorithm(cx, |part, cx| part.on_view_change(cx));
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: A::Command) {
        self.run_algorithm(cx, |part, cx| part.on_command(cx, command));
    }
}
