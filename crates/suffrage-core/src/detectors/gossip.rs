//! The gossip detector: heartbeats are counted, and the counts are passed on at random.
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
//! Model: loss, delays and clocks matter little, since news come by many ways.
//!
//! Cost: one message per process and period, with a counter for each member, and up to one more where
//! members are suspected, in proportion to their share. A counter takes
//! O(log N) periods to reach everybody, so T_fail must grow with log N for the same share of mistakes.
//!
//! Detection: T_fail after the last increase that reached the observer, which may have been on its way
//! for O(log N) periods.
//!
//! Not promised: that a peer which is not suspected can be reached. News goes round a cut that is one way
//! or leaves somebody in between, and the messages that meet the cut are lost without a suspicion; set
//! algorithms as for a network that loses messages. Mistakes never end by themselves: at any moment a
//! counter has stood still for t periods with a probability of about exp(-t).
//!
//! Readings, where the paper is silent:
//! - One that is suspected is no longer gossiped about: else who has forgotten it would learn of it
//!   anew from who has not. That is what T_cleanup = 2 T_fail is for (section 2).
//! - Gossip goes to any member, suspected or not, so that a partition ends when it is healed. If the member
//!   is suspected, it goes to one that is not as well: otherwise the few that are left of many would
//!   hardly hear of each other.
//! - Counters begin with the number of the start, which is saved: one that comes back is above what it
//!   was. If the disk is gone, its clock stands in for that number, so the clock must not have gone
//!   back; if it has, the others welcome it once they have forgotten it.
//! - The first gossip comes at a random moment of the first period: real processes do not start at once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::peers::Peers;
use super::{Message, Saved, Timer, parse_period_and_limit};
use crate::{Command, Context, NodeId, Process, Span, Start, Time};

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How often a process gossips (T_gossip).
    pub period: Span,
    /// How long a counter may stand still (T_fail).
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

/// A heartbeat counter, which heartbeats are numbered by as well ([`super::phi`]). Greater is later; the least
/// is nobody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Beat {
    /// Which start of its owner it counts from.
    pub generation: u64,
    /// How many periods its owner has lived through since.
    pub count: u64,
}

impl Beat {
    /// The counter of a process that starts: above all it has had before.
    pub(super) fn start<P: Process<Saved = Saved>>(cx: &mut Context<'_, P>, start: Start<Saved>) -> Beat {
        let generation = match start {
            Start::Fresh => 1,
            Start::Recovered(Some(generation)) => generation.saturating_add(1),
            Start::Recovered(None) => cx.now().as_nanos().max(2),
        };
        cx.save(generation);
        Beat { generation, count: 0 }
    }

    /// The counter a period later.
    pub(super) fn next(self) -> Beat {
        Beat { count: self.count.saturating_add(1), ..self }
    }
}

/// The gossip detector of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gossip {
    options: Options,
    own: Beat,
    /// The greatest counter known of each.
    peers: Peers<Beat>,
}

impl Gossip {
    /// A detector that is set so.
    pub fn new(options: Options) -> Gossip {
        Gossip { options, own: Beat::default(), peers: Peers::default() }
    }

    /// This process's own counter.
    pub fn own(&self) -> Beat {
        self.own
    }

    /// The greatest counter known of a peer; none of a stranger and of one not heard of.
    pub fn beat(&self, peer: NodeId) -> Option<Beat> {
        let beat = self.peers.get(self.peers.place(peer, 0)?).record;
        (beat > Beat::default()).then_some(beat)
    }

    /// How long a peer's counter has not increased; none of a stranger.
    pub fn silence(&self, peer: NodeId, now: Time) -> Option<Span> {
        let deadline = self.peers.get(self.peers.place(peer, 0)?).deadline;
        Some(self.options.fail - deadline.since(now) + now.since(deadline))
    }

    fn gossip(&mut self, cx: &mut Context<'_, Self>) {
        self.own = self.own.next();
        let view = cx.view();
        if let Some(to) = view.random_peer(cx.rng()) {
            self.tell(cx, to);
            if self.suspects(to) {
                let trusted: Vec<NodeId> =
                    self.peers.iter().filter(|peer| !peer.suspected).map(|peer| peer.id).collect();
                if let Some(&to) = cx.rng().pick(&trusted) {
                    self.tell(cx, to);
                }
            }
        }
        cx.set_timer(Timer::Period, self.options.period);
    }

    fn suspects(&self, peer: NodeId) -> bool {
        self.peers.place(peer, 0).is_some_and(|place| self.peers.get(place).suspected)
    }

    /// Sends all counters of those it trusts, its own included.
    fn tell(&self, cx: &mut Context<'_, Self>, to: NodeId) {
        let known = self.peers.iter().filter(|peer| !peer.suspected && peer.record > Beat::default());
        let counters = known.map(|peer| (peer.id, peer.record)).chain([(cx.me(), self.own)]);
        cx.send(to, Message::Gossip(counters.collect()));
    }

    /// Takes the greater of what was known and what is heard.
    fn learn(&mut self, cx: &mut Context<'_, Self>, place: usize, heard: Beat) {
        let peer = self.peers.get(place);
        let forgotten = peer.suspected && cx.now() >= peer.deadline + self.options.fail;
        if forgotten || heard > peer.record {
            *self.peers.record(place) = heard;
            self.peers.hear(cx, place, self.options.fail);
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
        self.peers.watch(cx, &Beat::default(), self.options.fail);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Message) {
        let Message::Gossip(counters) = message else { return };
        self.peers.settle(cx);
        let mut guess = 0;
        for (member, beat) in counters {
            if let Some(place) = self.peers.place(member, guess) {
                self.learn(cx, place, beat);
                guess = place + 1;
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.gossip(cx),
            Timer::Overdue => _ = self.peers.judge(cx),
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.peers.watch(cx, &Beat::default(), self.options.fail);
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

        /// 3 tells of 2's counter; what is suspected or restored.
        fn hear_of_2(&mut self, at: u64, count: u64) -> Vec<Effect<Gossip>> {
            let message = Message::Gossip(vec![(NodeId(2), Beat { generation: 1, count })]);
            let effects = self.input(at, |detector, cx| detector.on_message(cx, NodeId(3), message));
            opinions(effects)
        }

        fn overdue(&mut self, at: u64) -> Vec<Effect<Gossip>> {
            opinions(self.input(at, |detector, cx| detector.on_timer(cx, Timer::Overdue)))
        }
    }

    fn opinions(effects: Vec<Effect<Gossip>>) -> Vec<Effect<Gossip>> {
        let is_opinion = |effect: &Effect<_>| matches!(effect, Effect::Suspect(_) | Effect::Restore(_));
        effects.into_iter().filter(is_opinion).collect()
    }

    /// "If the heartbeat counter has not increased for more than T_fail seconds, then the member is
    /// considered failed", and "T_cleanup" after it, forgotten (section 2).
    #[test]
    fn an_old_counter_revives_nobody_until_it_is_forgotten() {
        let mut bench = Bench::new(Start::Fresh, 0);
        assert_eq!(bench.hear_of_2(5, 7), []);
        assert_eq!(bench.overdue(10), [Effect::Suspect(NodeId(3))], "2 is not due before 15");
        assert_eq!(bench.overdue(15), [Effect::Suspect(NodeId(2))]);
        assert_eq!(bench.hear_of_2(16, 7), [], "no increase");
        assert_eq!(bench.hear_of_2(24, 6), []);
        assert_eq!(bench.hear_of_2(25, 6), [Effect::Restore(NodeId(2))], "forgotten after 2 T_fail");
        assert_eq!(bench.overdue(35), [Effect::Suspect(NodeId(2))]);
        assert_eq!(bench.hear_of_2(36, 8), [Effect::Restore(NodeId(2))], "an increase");
    }

    #[test]
    fn the_suspected_are_not_gossiped_about() {
        let mut bench = Bench::new(Start::Fresh, 0);
        bench.hear_of_2(5, 7);
        let told = |bench: &mut Bench, at| {
            let effects = bench.input(at, |detector, cx| detector.on_timer(cx, Timer::Period));
            match &effects[0] {
                Effect::Send { message: Message::Gossip(counters), .. } => {
                    counters.iter().map(|(member, _)| member.0).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told(&mut bench, 6), [2, 1], "3 has not been heard of");
        bench.overdue(10);
        bench.overdue(15);
        assert_eq!(told(&mut bench, 16), [1]);
    }

    /// Of 3 members, 3 is suspected: whenever gossip goes to it, it goes to 2 as well.
    #[test]
    fn those_that_are_left_hear_of_each_other_every_period() {
        let mut bench = Bench::new(Start::Fresh, 0);
        bench.hear_of_2(5, 7);
        assert_eq!(bench.overdue(10), [Effect::Suspect(NodeId(3))]);
        let addressees = |effects: Vec<Effect<Gossip>>| -> Vec<u64> {
            let to = |effect: &Effect<Gossip>| match effect {
                Effect::Send { to, .. } => Some(to.0),
                _ => None,
            };
            effects.iter().filter_map(to).collect()
        };
        let mut tried = 0;
        for _ in 0..40 {
            let told = addressees(bench.input(11, |detector, cx| detector.on_timer(cx, Timer::Period)));
            assert!(told == [2] || told == [3, 2], "{told:?}");
            tried += usize::from(told.len() == 2);
        }
        assert!((5..35).contains(&tried), "about half of the time, the suspect is tried: {tried}");
    }

    #[test]
    fn one_that_comes_back_counts_on_from_above() {
        let before = Bench::new(Start::Fresh, 0).detector.own();
        let disk = Bench::new(Start::Recovered(Some(before.generation)), 50).detector.own();
        let none = Bench::new(Start::Recovered(None), 50).detector.own();
        let later = Bench::new(Start::Recovered(None), 51).detector.own();
        assert!(before < disk && disk < none && none < later);
    }
}
