//! The gossip detector: processes count their heartbeats and spread the counters by gossip.
//!
//! Source: van Renesse, Minsky and Hayden, "A gossip-style failure detection service", 1998.
//!
//! ```text
//!   p: each period adds one to its own counter and sends all counters it knows to one random member
//!      p ── Gossip [p: 17, q: 15, r: 16] ──▶ q
//!   q: takes the greater of each pair; no increase of p's for T_fail: suspect p
//!      an increase: restore p;   2 T_fail without one: forget p's counter
//! ```
//!
//! Model: loss, delays and clock differences matter little, since a counter arrives by many paths.
//!
//! Cost: one message per process and period, with a counter for each member, and up to one more where members are
//! suspected, in proportion to their share. A counter takes O(log N) periods to reach all members. For a constant
//! share of false suspicions, T_fail must therefore grow with log N.
//!
//! Detection: T_fail after the last increase that reached the observer. That increase may have spread for O(log N)
//! periods.
//!
//! Not promised: that a peer which is not suspected is reachable. Gossip goes round a partition that is one-way or
//! leaves a common neighbour. Messages that hit such a partition are lost without a suspicion; configure algorithms
//! as for a network that loses messages. False suspicions never stop: at any moment a counter has not increased for
//! t periods with a probability of about exp(-t).
//!
//! Interpretations, where the paper leaves the behaviour open:
//! - The counter of a suspected member is no longer gossiped. Otherwise a process that has forgotten the member
//!   would learn it again from a process that has not. T_cleanup = 2 T_fail serves that purpose (section 2).
//! - Gossip goes to any member, suspected or not, so that a partition is overcome once it heals. If the chosen
//!   member is suspected, gossip also goes to a member that is not suspected. Otherwise a few survivors among many
//!   crashed members would rarely receive gossip from each other.
//! - A counter starts with the generation, the number of starts, which is persistent: a restarted process counts
//!   above its former counter. If the disk is lost, the clock replaces the generation, so the clock must not have
//!   gone back. If the clock has gone back, the other members restore the process once they have forgotten its old
//!   counter.
//! - The first gossip is sent at a random moment of the first period, since real processes do not start
//!   simultaneously.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::peers::Peers;
use super::{Message, Saved, Timer, parse_period_and_limit};
use crate::{Command, Context, NodeId, Process, Span, Start, Time};

/// The options of the gossip detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The gossip period (T_gossip).
    pub period: Span,
    /// The time without an increase of a counter after which its owner is suspected (T_fail).
    pub fail: Span,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.period, self.fail)
    }
}

impl FromStr for Options {
    type Err = String;

    fn from_str(text: &str) -> Result<Options, String> {
        let (period, fail) = parse_period_and_limit(text, "gossip:PERIOD,T_FAIL")?;
        Ok(Options { period, fail })
    }
}

/// A heartbeat counter, which also numbers the heartbeats of [`super::phi`]. A greater counter is later. The least
/// counter belongs to no process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Beat {
    /// The number of the owner's start that the counter counts from.
    pub generation: u64,
    /// The number of the owner's periods since that start.
    pub count: u64,
}

impl Beat {
    /// The counter of a starting process: above all counters of its former starts.
    pub(super) fn start<P: Process<Saved = Saved>>(cx: &mut Context<'_, P>, start: Start<Saved>) -> Beat {
        let generation = match start {
            Start::Fresh => 1,
            Start::Recovered(Some(generation)) => generation.saturating_add(1),
            Start::Recovered(None) => cx.now().as_nanos().max(2),
        };
        cx.save(generation);
        Beat { generation, count: 0 }
    }

    /// The counter one period later.
    pub(super) fn next(self) -> Beat {
        Beat { count: self.count.saturating_add(1), ..self }
    }
}

/// The gossip detector of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gossip {
    options: Options,
    own: Beat,
    /// The greatest known counter of each peer.
    peers: Peers<Beat>,
}

impl Gossip {
    /// A detector with these options.
    pub fn new(options: Options) -> Gossip {
        Gossip { options, own: Beat::default(), peers: Peers::default() }
    }

    /// This process's own counter.
    pub fn own(&self) -> Beat {
        self.own
    }

    /// The greatest known counter of a peer; `None` for a non-member and for a peer whose counter is unknown.
    pub fn beat(&self, peer: NodeId) -> Option<Beat> {
        let beat = self.peers.get(self.peers.index_of(peer, 0)?).record;
        (beat > Beat::default()).then_some(beat)
    }

    /// The time since the last increase of a peer's counter; `None` for a non-member.
    pub fn silence(&self, peer: NodeId, now: Time) -> Option<Span> {
        let deadline = self.peers.get(self.peers.index_of(peer, 0)?).deadline;
        Some(self.options.fail - deadline.since(now) + now.since(deadline))
    }

    fn gossip(&mut self, cx: &mut Context<'_, Self>) {
        self.own = self.own.next();
        let view = cx.view();
        if let Some(to) = view.random_peer(cx.rng()) {
            self.send_counters(cx, to);
            if self.suspects(to) {
                let trusted: Vec<NodeId> =
                    self.peers.iter().filter(|peer| !peer.suspected).map(|peer| peer.id).collect();
                if let Some(&to) = cx.rng().pick(&trusted) {
                    self.send_counters(cx, to);
                }
            }
        }
        cx.set_timer(Timer::Period, self.options.period);
    }

    fn suspects(&self, peer: NodeId) -> bool {
        self.peers.index_of(peer, 0).is_some_and(|index| self.peers.get(index).suspected)
    }

    /// Sends the counters of all peers that are not suspected, and its own.
    fn send_counters(&self, cx: &mut Context<'_, Self>, to: NodeId) {
        let known = self.peers.iter().filter(|peer| !peer.suspected && peer.record > Beat::default());
        let counters = known.map(|peer| (peer.id, peer.record)).chain([(cx.me(), self.own)]);
        cx.send(to, Message::Gossip(counters.collect()));
    }

    /// Updates a peer's counter if the received counter is greater, or if the known counter is old enough to be
    /// forgotten.
    fn update_counter(&mut self, cx: &mut Context<'_, Self>, index: usize, received: Beat) {
        let peer = self.peers.get(index);
        let forgotten = peer.suspected && cx.now() >= peer.deadline + self.options.fail;
        if forgotten || received > peer.record {
            *self.peers.record(index) = received;
            self.peers.record_sign_of_life(cx, index, self.options.fail);
        }
    }
}

impl Process for Gossip {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        self.own = Beat::start(cx, start);
        let phase = cx.rng().unit();
        cx.set_timer(Timer::Period, self.options.period.scale(phase));
        self.peers.monitor(cx, &Beat::default(), self.options.fail);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Message) {
        let Message::Gossip(counters) = message else { return };
        self.peers.adjust_for_pause(cx);
        let mut guess = 0;
        for (member, beat) in counters {
            if let Some(index) = self.peers.index_of(member, guess) {
                self.update_counter(cx, index, beat);
                guess = index + 1;
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.gossip(cx),
            Timer::Overdue => _ = self.peers.suspect_overdue(cx),
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.peers.monitor(cx, &Beat::default(), self.options.fail);
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, Recorder, Roster};

    struct Bench {
        detector: Gossip,
        recorder: Recorder<Gossip>,
        roster: Roster,
    }

    impl Bench {
        fn new(start: Start<Saved>, at: u64) -> Bench {
            let options = "1,10".parse().unwrap();
            let mut bench = Bench {
                detector: Gossip::new(options),
                recorder: Recorder::new(1),
                roster: Roster::numbered(3),
            };
            bench.input(at, |detector, cx| detector.on_start(cx, start));
            bench
        }

        fn input(
            &mut self,
            at: u64,
            handle: impl FnOnce(&mut Gossip, &mut Context<'_, Gossip>),
        ) -> Vec<Effect<Gossip>> {
            let now = Time::ZERO + Span::from_millis(at);
            handle(&mut self.detector, &mut self.recorder.context(now, self.roster.view(0), Span::UNIT));
            self.recorder.take()
        }

        /// Delivers a gossip of 3 with the counter of 2. Returns the suspicions and restorations.
        fn receive_counter_of_2(&mut self, at: u64, count: u64) -> Vec<Effect<Gossip>> {
            let message = Message::Gossip(vec![(NodeId(2), Beat { generation: 1, count })]);
            let effects = self.input(at, |detector, cx| detector.on_message(cx, NodeId(3), message));
            suspicions(effects)
        }

        fn overdue(&mut self, at: u64) -> Vec<Effect<Gossip>> {
            suspicions(self.input(at, |detector, cx| detector.on_timer(cx, Timer::Overdue)))
        }
    }

    fn suspicions(effects: Vec<Effect<Gossip>>) -> Vec<Effect<Gossip>> {
        let is_suspicion = |effect: &Effect<_>| matches!(effect, Effect::Suspect(_) | Effect::Restore(_));
        effects.into_iter().filter(is_suspicion).collect()
    }

    /// "If the heartbeat counter has not increased for more than T_fail seconds, then the member is
    /// considered failed", and "T_cleanup" after it, forgotten (section 2).
    #[test]
    fn an_old_counter_restores_a_peer_only_after_t_cleanup() {
        let mut bench = Bench::new(Start::Fresh, 0);
        assert_eq!(bench.receive_counter_of_2(5, 7), []);
        assert_eq!(bench.overdue(10), [Effect::Suspect(NodeId(3))], "2 is not due before 15");
        assert_eq!(bench.overdue(15), [Effect::Suspect(NodeId(2))]);
        assert_eq!(bench.receive_counter_of_2(16, 7), [], "no increase");
        assert_eq!(bench.receive_counter_of_2(24, 6), []);
        assert_eq!(
            bench.receive_counter_of_2(25, 6),
            [Effect::Restore(NodeId(2))],
            "forgotten after 2 T_fail"
        );
        assert_eq!(bench.overdue(35), [Effect::Suspect(NodeId(2))]);
        assert_eq!(bench.receive_counter_of_2(36, 8), [Effect::Restore(NodeId(2))], "an increase");
    }

    #[test]
    fn counters_of_suspected_peers_are_not_gossiped() {
        let mut bench = Bench::new(Start::Fresh, 0);
        bench.receive_counter_of_2(5, 7);
        let gossiped = |bench: &mut Bench, at| {
            let effects = bench.input(at, |detector, cx| detector.on_timer(cx, Timer::Period));
            match &effects[0] {
                Effect::Send { message: Message::Gossip(counters), .. } => {
                    counters.iter().map(|(member, _)| member.0).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(gossiped(&mut bench, 6), [2, 1], "the counter of 3 is unknown");
        bench.overdue(10);
        bench.overdue(15);
        assert_eq!(gossiped(&mut bench, 16), [1]);
    }

    /// Member 3 of 3 is suspected: whenever gossip goes to 3, it also goes to 2.
    #[test]
    fn gossip_reaches_an_unsuspected_peer_every_period() {
        let mut bench = Bench::new(Start::Fresh, 0);
        bench.receive_counter_of_2(5, 7);
        assert_eq!(bench.overdue(10), [Effect::Suspect(NodeId(3))]);
        let addressees = |effects: Vec<Effect<Gossip>>| -> Vec<u64> {
            let to = |effect: &Effect<Gossip>| match effect {
                Effect::Send { to, .. } => Some(to.0),
                _ => None,
            };
            effects.iter().filter_map(to).collect()
        };
        let mut repeated = 0;
        for _ in 0..40 {
            let gossiped = addressees(bench.input(11, |detector, cx| detector.on_timer(cx, Timer::Period)));
            assert!(gossiped == [2] || gossiped == [3, 2], "{gossiped:?}");
            repeated += usize::from(gossiped.len() == 2);
        }
        assert!(
            (5..35).contains(&repeated),
            "about half of the gossips go to the suspected peer: {repeated}"
        );
    }

    #[test]
    fn a_restarted_process_counts_above_its_former_counter() {
        let before = Bench::new(Start::Fresh, 0).detector.own();
        let disk = Bench::new(Start::Recovered(Some(before.generation)), 50).detector.own();
        let none = Bench::new(Start::Recovered(None), 50).detector.own();
        let later = Bench::new(Start::Recovered(None), 51).detector.own();
        assert!(before < disk && disk < none && none < later);
    }
}
