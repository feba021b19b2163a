//! The phi accrual detector: how strange is this silence, by what has been heard so far?
//!
//! Source: Hayashibara, Défago, Yared and Katayama, "The phi accrual failure detector", 2004.
//!
//! ```text
//!   p ── Heartbeat {number} ──▶ everybody, each period
//!   q: keeps the last inter-arrival times of p's heartbeats, takes them for normally distributed,
//!      and computes how likely a heartbeat comes even later than now:
//!      phi(t) = -log10 P_later(t),   t since the last heartbeat
//!      phi above the threshold: suspect p;   a Heartbeat from p: restore p
//! ```
//!
//! The threshold says how often one is ready to err: at PHI, about one silence between two heartbeats
//! in 10^PHI is suspected wrongly, if the times are as normal as assumed. Where delays vary more, the
//! detector waits longer by itself.
//!
//! Cost: N - 1 messages per process and period; up to [`WINDOW`] inter-arrival times per peer.
//!
//! Detection: for a fixed threshold, phi passes it `mean + z * deviation` after the last heartbeat,
//! where z depends on the threshold alone. So nothing is polled: that moment is the peer's deadline,
//! and a crash is noticed between that less a period, and that, plus a delay.
//!
//! Readings, where the paper is silent:
//! - The deviation is taken to be at least a tenth of the period, or a network without any jitter
//!   would make the first jitter a failure.
//! - Before there is anything to learn from, two times are assumed: a quarter below the period, and a
//!   quarter above it (as Akka does). The very first heartbeat may take a delay longer.
//! - A silence of more than [`OUTAGE`] periods was a crash, a cut or a pause: it says nothing about the
//!   network and is not learnt from. Nor is one during which the process itself was held up, or its clock
//!   jumped.
//! - After that there may be a backlog: heartbeats that were waiting come all at once, and the times between
//!   them are those of the long silence, which was left out, so that they are left out too. It is through when
//!   half a period goes by without a heartbeat.
//! - Heartbeats are numbered, and only a number that rises is a heartbeat: one that was doubled
//!   or overtaken is neither a sign of life nor learnt from. The time since the one before is learnt
//!   undivided, even if numbers are missing: where heartbeats are lost, the detector should wait longer.
//!   Numbers count from the start of the process, as in [`super::gossip`]; those of another start, whichever
//!   is greater, are news, and the silence between the two is not learnt from.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use super::gossip::Beat;
use super::peers::Peers;
use super::{Message, Saved, Timer, parse_period};
use crate::{Command, Context, NodeId, Process, Span, Start, Time};

/// How many inter-arrival times are remembered (WS of the paper, section 5.3).
pub const WINDOW: usize = 1000;

/// How many periods of silence are no longer the network's doing.
pub const OUTAGE: u64 = 20;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The threshold, as bits, so that it can be compared and hashed.
    threshold: u64,
    /// How often a process shows that it lives; each delay bound, if not said.
    period: Option<Span>,
}

impl Options {
    /// Suspects when phi passes the threshold.
    pub fn new(threshold: f64, period: Option<Span>) -> Options {
        Options { threshold: threshold.to_bits(), period }
    }

    /// The phi above which a peer is suspected.
    pub fn threshold(self) -> f64 {
        f64::from_bits(self.threshold)
    }

    pub(super) fn period(self, delay_bound: Span) -> Span {
        self.period.unwrap_or(delay_bound.max(Span::from_nanos(1)))
    }

    /// How long a peer may be silent that nothing is known of.
    pub(super) fn first_allowance(self, delay_bound: Span) -> Span {
        let period = self.period(delay_bound);
        Arrivals::expected(period).allowance(reach(self.threshold()), period)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.period {
            None => write!(f, "{}", self.threshold()),
            Some(period) => write!(f, "{},{period}", self.threshold()),
        }
    }
}

impl FromStr for Options {
    type Err = String;

    fn from_str(text: &str) -> Result<Options, String> {
        let (threshold, period) = text.split_once(',').map_or((text, None), |(t, p)| (t, Some(p)));
        match threshold.parse() {
            Ok(threshold) if (0.5..=100.0).contains(&threshold) => {
                Ok(Options::new(threshold, period.map(parse_period).transpose()?))
            }
            _ => Err(format!(
                "`{threshold}` is not a threshold from 0.5 to 100; 1 errs in one silence of ten, 8 in one \
                 of 10^8; the form is phi:THRESHOLD[,PERIOD]"
            )),
        }
    }
}

/// -log10 of the chance that a heartbeat comes later than `elapsed` after the one before, if such
/// times are normal with this mean and deviation.
pub fn phi(elapsed: f64, mean: f64, deviation: f64) -> f64 {
    let later = 0.5 * libm::erfc((elapsed - mean) / deviation * std::f64::consts::FRAC_1_SQRT_2);
    -libm::log10(later)
}

/// How many deviations above the mean phi passes the threshold, in millionths.
fn reach(threshold: f64) -> u32 {
    // phi of 100 is passed at 21.3 deviations.
    let (mut below, mut above) = (0, 30_000_000);
    while above - below > 1 {
        let middle = (below + above) / 2;
        match phi(f64::from(middle) / 1e6, 0.0, 1.0) > threshold {
            true => above = middle,
            false => below = middle,
        }
    }
    above
}

/// The inter-arrival times of one peer's heartbeats, in nanoseconds, with their sums. Whole numbers:
/// what is added is taken away again without a rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Arrivals {
    times: VecDeque<u64>,
    sum: u128,
    squares: u128,
}

impl Arrivals {
    fn expected(period: Span) -> Arrivals {
        let mut arrivals = Arrivals::default();
        arrivals.add(period.scale(0.75));
        arrivals.add(period.scale(1.25));
        arrivals
    }

    fn add(&mut self, time: Span) {
        if self.times.len() == WINDOW
            && let Some(oldest) = self.times.pop_front().map(u128::from)
        {
            self.sum -= oldest;
            self.squares -= oldest * oldest;
        }
        // Longer than any time that can be set; so that no sum overflows.
        let time = time.as_nanos().min(1_000_000_000_000_000);
        self.times.push_back(time);
        self.sum += u128::from(time);
        self.squares += u128::from(time) * u128::from(time);
    }

    /// Mean and standard deviation, in nanoseconds.
    fn moments(&self) -> (f64, f64) {
        let count = self.times.len() as u128;
        let scatter = count * self.squares - self.sum * self.sum;
        (self.sum as f64 / count as f64, libm::sqrt(scatter as f64) / count as f64)
    }

    /// The mean, and a deviation that is never nothing.
    fn assumed(&self, period: Span) -> (f64, f64) {
        let (mean, deviation) = self.moments();
        (mean, deviation.max(period.as_nanos() as f64 / 10.0))
    }

    /// How long after a heartbeat phi passes the threshold.
    fn allowance(&self, reach: u32, period: Span) -> Span {
        let (mean, deviation) = self.assumed(period);
        Span::from_nanos((mean + deviation * f64::from(reach) / 1e6) as u64)
    }
}

/// What is known of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    /// The number of the last heartbeat; the least before the first.
    beat: Beat,
    /// When it came, or when the process went on after it had been held up; none before the first.
    heard: Option<Time>,
    /// Whether heartbeats come that have been waiting.
    backlog: bool,
    arrivals: Arrivals,
}

impl Record {
    /// A heartbeat has come; whether it is a new one.
    fn hear(&mut self, beat: Beat, now: Time, period: Span) -> bool {
        let restarted = beat.generation != self.beat.generation;
        if !restarted && beat <= self.beat {
            return false;
        }
        self.beat = beat;
        if let Some(silence) = self.heard.replace(now).map(|heard| now.since(heard)) {
            if restarted || silence > period * OUTAGE {
                self.backlog = true;
            } else if self.backlog {
                self.backlog = silence * 2 < period;
            } else {
                self.arrivals.add(silence);
            }
        }
        true
    }
}

/// The phi accrual detector of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Phi {
    options: Options,
    /// See [`reach`].
    reach: u32,
    own: Beat,
    peers: Peers<Record>,
}

impl Phi {
    /// A detector that is set so.
    pub fn new(options: Options) -> Phi {
        Phi { options, reach: reach(options.threshold()), own: Beat::default(), peers: Peers::default() }
    }

    /// How strange a peer's silence is by now; none of a stranger, and of one not heard yet.
    pub fn phi(&self, peer: NodeId, now: Time, delay_bound: Span) -> Option<f64> {
        let Record { heard, arrivals, .. } = &self.peers.get(self.peers.place(peer, 0)?).record;
        let (mean, deviation) = arrivals.assumed(self.options.period(delay_bound));
        Some(phi(now.since((*heard)?).as_nanos() as f64, mean, deviation))
    }

    fn beat(&mut self, cx: &mut Context<'_, Self>) {
        self.own = self.own.next();
        cx.multicast(Message::Numbered(self.own));
        cx.set_timer(Timer::Period, self.options.period(cx.delay_bound()));
    }

    /// The process was held up: the silence of the others begins now, and what has been waiting comes first.
    fn go_on(&mut self, now: Time) {
        for record in self.peers.records() {
            record.heard = record.heard.map(|_| now);
            record.backlog = true;
        }
    }

    fn watch(&mut self, cx: &mut Context<'_, Self>) {
        let bound = cx.delay_bound();
        let arrivals = Arrivals::expected(self.options.period(bound));
        let record = Record { beat: Beat::default(), heard: None, backlog: false, arrivals };
        self.peers.watch(cx, &record, self.options.first_allowance(bound) + bound);
    }
}

impl Process for Phi {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        self.own = Beat::start(cx, start);
        self.beat(cx);
        self.watch(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let (Message::Numbered(beat), Some(place)) = (message, self.peers.place(from, 0)) else { return };
        if self.peers.settle(cx) {
            self.go_on(cx.now());
        }
        let period = self.options.period(cx.delay_bound());
        let record = self.peers.record(place);
        if record.hear(beat, cx.now(), period) {
            let allowance = record.arrivals.allowance(self.reach, period);
            self.peers.hear(cx, place, allowance);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.beat(cx),
            Timer::Overdue => {
                if self.peers.judge(cx) {
                    self.go_on(cx.now());
                }
            }
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.peers.settle(cx) {
            self.go_on(cx.now());
        }
        self.watch(cx);
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, Roster};

    /// The normal distribution's tail, from tables: 0.1 lies above 1.2816 deviations, 0.001 above
    /// 3.0902, 10^-8 above 5.6120.
    #[test]
    fn the_threshold_is_passed_where_the_tables_say() {
        for (threshold, deviations) in [(1.0, 1.281_552), (3.0, 3.090_232), (8.0, 5.612_001)] {
            let found = f64::from(reach(threshold)) / 1e6;
            assert!((found - deviations).abs() < 2e-6, "{threshold}: {found}");
            assert!((phi(10.0 + 2.0 * deviations, 10.0, 2.0) - threshold).abs() < 1e-5);
        }
        assert!((phi(10.0, 10.0, 2.0) - libm::log10(2.0)).abs() < 1e-12, "at the mean it is a coin toss");
        assert!(reach(100.0) < 30_000_000);
    }

    /// Heartbeats like clockwork: the mean is the period, 10, and the deviation the least there is, 1.
    #[test]
    fn phi_accrues_with_silence_and_suspicion_follows_the_threshold() {
        let roster = Roster::numbered(2);
        let mut recorder: Recorder<Phi> = Recorder::new(1);
        let mut detector = Phi::new("3,10".parse().unwrap());
        let at = |units: f64| Time::ZERO + Span::from_units(units);
        let cx = &mut recorder.context(at(0.0), roster.view(0), Span::UNIT);
        detector.on_start(cx, Start::Fresh);
        assert_eq!(detector.phi(NodeId(2), at(1.0), Span::UNIT), None, "not heard yet");
        for beat in 0..=2 * WINDOW {
            let cx = &mut recorder.context(at(10.0 * beat as f64), roster.view(0), Span::UNIT);
            let count = beat as u64 + 1;
            detector.on_message(cx, NodeId(2), Message::Numbered(Beat { generation: 1, count }));
            detector.on_timer(cx, Timer::Overdue);
        }
        let heard = 20.0 * WINDOW as f64;
        for (silence, phi) in [(10.0, std::f64::consts::LOG10_2), (11.281_552, 1.0), (13.090_232, 3.0)] {
            let found = detector.phi(NodeId(2), at(heard + silence), Span::UNIT).unwrap();
            assert!((found - phi).abs() < 1e-5, "{silence}: {found}");
        }
        let deadline = detector.peers.get(0).deadline;
        assert!((deadline.as_units() - heard - 13.090_232).abs() < 1e-4, "{deadline}");
        let cx = &mut recorder.context(deadline, roster.view(0), Span::UNIT);
        detector.on_timer(cx, Timer::Overdue);
        assert!(detector.peers.get(0).suspected);
    }

    /// Numbers that do not rise are no sign of life; a restart is one, and not learnt from.
    #[test]
    fn only_a_number_that_rises_is_a_heartbeat() {
        let period = Span::UNIT;
        let at = |units: f64| Time::ZERO + Span::from_units(units);
        let arrivals = Arrivals::expected(period);
        let mut record = Record { beat: Beat::default(), heard: None, backlog: false, arrivals };
        let mut hear = |generation, count, units| {
            let before = record.arrivals.times.len();
            let new = record.hear(Beat { generation, count }, at(units), period);
            (new, record.arrivals.times.len() - before)
        };
        assert_eq!(hear(1, 1, 1.0), (true, 0), "the first");
        assert_eq!(hear(1, 2, 2.0), (true, 1));
        assert_eq!(hear(1, 2, 2.0), (false, 0), "doubled");
        assert_eq!(hear(1, 4, 4.1), (true, 1), "3 is lost or late");
        assert_eq!(hear(1, 3, 4.2), (false, 0), "overtaken");
        assert_eq!(hear(2, 1, 5.5), (true, 0), "restarted");
        assert_eq!(hear(2, 2, 6.5), (true, 0), "not the backlog's");
        assert_eq!(hear(2, 3, 7.5), (true, 1));
        let long = 8.0 + OUTAGE as f64;
        assert_eq!(hear(2, 4, long), (true, 0), "an outage");
        assert_eq!(
            [hear(2, 5, long), hear(2, 6, long), hear(2, 7, long + 0.4)],
            [(true, 0); 3],
            "its backlog"
        );
        assert_eq!(hear(2, 8, long + 1.4), (true, 0), "the backlog is through");
        assert_eq!(hear(2, 9, long + 2.4), (true, 1));
        assert_eq!(hear(1, 9, long + 3.0), (true, 0), "back to a clock that was behind");
    }

    #[test]
    fn the_window_forgets_without_a_rest() {
        let mut arrivals = Arrivals::default();
        for time in 0..5 * WINDOW as u64 {
            arrivals.add(Span::from_nanos(time * time % 1_000_003));
        }
        let mut fresh = Arrivals::default();
        arrivals.times.iter().for_each(|&time| fresh.add(Span::from_nanos(time)));
        assert_eq!((arrivals.times.len(), &arrivals), (WINDOW, &fresh));
        let mut two = Arrivals::default();
        [2, 6].into_iter().for_each(|time| two.add(Span::from_nanos(time)));
        assert_eq!(two.moments(), (4.0, 2.0));
    }
}
