//! A failure detector in front of an algorithm.

use serde::{Deserialize, Serialize};

use super::{Concatenation, Lists};
use crate::macros::forward_effects;
use crate::{Context, Effects, Kind, Message, NodeId, Process, Span, Start, Time, Timer, View};

/// A failure detector in front of an algorithm.
///
/// Each gets its own messages and timers. When the detector suspects or restores a peer, the algorithm
/// learns it at once, before the detector's next effect, and the world sees it too. Opinions from
/// outside reach the algorithm as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watched<D: Process, A: Process> {
    detector: D,
    algorithm: A,
    saved: SavedParts<D::Saved, A::Saved>,
}

impl<D: Process, A: Process> Watched<D, A> {
    /// The algorithm, watching its peers by the detector.
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

/// A message of either part.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layered<D, A> {
    /// Of the detector.
    Detector(D),
    /// Of the algorithm.
    Algorithm(A),
}

impl<D: Message, A: Message> Lists for Layered<D, A> {
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

/// A timer of either part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayeredTimer<D, A> {
    /// Of the detector.
    Detector(D),
    /// Of the algorithm.
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

/// What either part has saved last.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SavedParts<D, A> {
    /// The detector.
    pub detector: Option<D>,
    /// The algorithm.
    pub algorithm: Option<A>,
}

/// What the algorithm does is what both do.
struct Behind<'a, D: Process, A: Process> {
    saved: &'a mut SavedParts<D::Saved, A::Saved>,
    outer: &'a mut (dyn Effects<Watched<D, A>> + 'a),
}

impl<D: Process, A: Process> Effects<A> for Behind<'_, D, A> {
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

/// What the detector does, with the algorithm within its reach.
struct InFront<'a, D: Process, A: Process> {
    algorithm: &'a mut A,
    saved: &'a mut SavedParts<D::Saved, A::Saved>,
    outer: &'a mut (dyn Effects<Watched<D, A>> + 'a),
    now: Time,
    view: View<'a>,
    bound: Span,
}

impl<D: Process, A: Process> InFront<'_, D, A> {
    /// Hands an input to the algorithm.
    fn elect(&mut self, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let mut effects = Behind { saved: self.saved, outer: self.outer };
        input(self.algorithm, &mut Context::new(self.now, self.view, self.bound, &mut effects));
    }
}

impl<D: Process, A: Process> Effects<D> for InFront<'_, D, A> {
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
        self.elect(|algorithm, cx| algorithm.on_suspect(cx, peer));
    }
    fn restore(&mut self, peer: NodeId) {
        self.outer.restore(peer);
        self.elect(|algorithm, cx| algorithm.on_restore(cx, peer));
    }
}

impl<D: Process, A: Process> Watched<D, A> {
    /// Hands an input to the detector.
    fn detect(&mut self, cx: &mut Context<'_, Self>, input: impl FnOnce(&mut D, &mut Context<'_, D>)) {
        let (now, view, bound) = (cx.now(), cx.view(), cx.delay_bound());
        let Watched { detector, algorithm, saved } = self;
        let mut effects = InFront { algorithm, saved, outer: cx.effects(), now, view, bound };
        input(detector, &mut Context::new(now, view, bound, &mut effects));
    }

    /// Hands an input to the algorithm.
    fn elect(&mut self, cx: &mut Context<'_, Self>, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let (now, view, bound) = (cx.now(), cx.view(), cx.delay_bound());
        let mut effects = Behind { saved: &mut self.saved, outer: cx.effects() };
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
        // The detector first: a sign of life is to go out before anything that asks for one.
        self.detect(cx, |part, cx| part.on_start(cx, detector));
        self.elect(cx, |part, cx| part.on_start(cx, algorithm));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message) {
        match message {
            Layered::Detector(message) => self.detect(cx, |part, cx| part.on_message(cx, from, message)),
            Layered::Algorithm(message) => self.elect(cx, |part, cx| part.on_message(cx, from, message)),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Self::Timer) {
        match timer {
            LayeredTimer::Detector(timer) => self.detect(cx, |part, cx| part.on_timer(cx, timer)),
            LayeredTimer::Algorithm(timer) => self.elect(cx, |part, cx| part.on_timer(cx, timer)),
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.elect(cx, |part, cx| part.on_suspect(cx, peer));
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.elect(cx, |part, cx| part.on_restore(cx, peer));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.detect(cx, |part, cx| part.on_view_change(cx));
        self.elect(cx, |part, cx| part.on_view_change(cx));
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: A::Command) {
        self.elect(cx, |part, cx| part.on_command(cx, command));
    }
}
