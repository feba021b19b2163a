//! The phi accrual detector: the level of suspicion grows with the time since the last heartbeat, relative to past
//! inter-arrival times.
//!
//! Source: Hayashibara, Défago, Yared and Katayama, "The phi accrual failure detector", 2004.
//!
//! ```text
//!   p ── Heartbeat {number} ──▶ all members, each period
//!   q: keeps the last inter-arrival times of p's heartbeats, takes them for normally distributed,
//!      and computes how likely a heartbeat comes even later than now:
//!      phi(t) = -log10 P_later(t),   t since the last heartbeat
//!      phi above the threshold: suspect p;   a Heartbeat from p: restore p
//! ```
//!
//! The threshold sets the accepted rate of false suspicions: at PHI, about one interval between two heartbeats in
//! 10^PHI causes a false suspicion, if the intervals are as normal as assumed. Where delays vary more, the detector
//! waits longer by itself.
//!
//! Cost: N - 1 messages per process and period; up to [`WINDOW`] inter-arrival times per peer.
//!
//! Detection: for a fixed threshold, phi exceeds it `mean + z * deviation` after the last heartbeat, where z depends
//! on the threshold alone. That moment is the peer's deadline, so there is no polling. A crash is detected between
//! the deadline less a period and the deadline, plus a message delay.
//!
//! Interpretations, where the paper leaves the behaviour open:
//! - The deviation is at least a tenth of the period. Otherwise the first jitter in a network without jitter would
//!   be a failure.
//! - Before any measurement, two inter-arrival times are assumed: a quarter below the period, and a quarter above it
//!   (as Akka does). The first heartbeat may take one delay bound longer.
//! - A silence of more than [`OUTAGE`] periods is a crash, a partition or a pause. It says nothing about the
//!   network, so the estimator ignores it. The estimator also ignores a silence during which this process was paused
//!   or its clock jumped.
//! - After such a silence there may be a backlog: queued heartbeats arrive all at once. The times between them
//!   belong to the ignored silence, so the estimator ignores them too. The backlog ends when half a period passes
//!   without a heartbeat.
//! - Heartbeats are numbered, and only a greater number counts as a heartbeat: a duplicated or reordered heartbeat
//!   is neither a sign of life nor a measurement. The time since the heartbeat before is measured undivided, even if
//!   numbers are missing: where heartbeats are lost, the detector should wait longer. Numbers count from the start
//!   of the process, as in [`super::gossip`]. A heartbeat of another start is always new, whichever generation is
//!   greater, and the silence between the two starts is ignored.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use super::gossip::Beat;
use super::peers::Peers;
use super::{Message, Saved, Timer, parse_period};
use crate::{Command, Context, NodeId, Process, Span, Start, Time};

/// The number of stored inter-arrival times (WS of the paper, section 5.3).
pub const WINDOW: usize = 1000;

/// The number of silent periods beyond which a silence is an outage, not network jitter.
pub const OUTAGE: u64 = 20;

/// The options of the phi accrual detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The threshold as bits, which can be compared and hashed.
    threshold: u64,
    /// The period of heartbeats; the delay bound if `None`.
    period: Option<Span>,
}

impl Options {
    /// Options with this threshold and this period.
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

    /// The time-out of a peer without measurements.
    pub(super) fn initial_timeout(self, delay_bound: Span) -> Span {
        let period = self.period(delay_bound);
        InterArrivals::assumed_at_start(period).timeout(deviations_at(self.threshold()), period)
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
                "`{threshold}` is not a threshold from 0.5 to 100; 1 means one false suspicion in 10 heartbeats, 8 \
                 one in 10^8; the form is phi:THRESHOLD[,PERIOD]"
            )),
        }
    }
}

/// The suspicion level: -log10 of the probability that a heartbeat arrives later than `elapsed` after the one
/// before, if such times are normally distributed with this mean and deviation.
pub fn phi(elapsed: f64, mean: f64, deviation: f64) -> f64 {
    let later = 0.5 * libm::erfc((elapsed - mean) / deviation * std::f64::consts::FRAC_1_SQRT_2);
    -libm::log10(later)
}

/// The number of standard deviations above the mean at which phi exceeds the threshold, in millionths.
fn deviations_at(threshold: f64) -> u32 {
    // phi exceeds 100 at 21.3 deviations.
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

/// The inter-arrival times of one peer's heartbeats, in nanoseconds, with their sums. The sums are integers, so that
/// subtracting an old time leaves no rounding error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct InterArrivals {
    times: VecDeque<u64>,
    sum: u128,
    squares: u128,
}

impl InterArrivals {
    fn assumed_at_start(period: Span) -> InterArrivals {
        let mut arrivals = InterArrivals::default();
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
        // The cap exceeds any configurable time and keeps the sums from overflowing.
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

    /// Mean and standard deviation, where the deviation is at least a tenth of the period.
    fn moments_with_floor(&self, period: Span) -> (f64, f64) {
        let (mean, deviation) = self.moments();
        (mean, deviation.max(period.as_nanos() as f64 / 10.0))
    }

    /// The time after a heartbeat at which phi exceeds the threshold.
    fn timeout(&self, deviations_at: u32, period: Span) -> Span {
        let (mean, deviation) = self.moments_with_floor(period);
        Span::from_nanos((mean + deviation * f64::from(deviations_at) / 1e6) as u64)
    }
}

/// The data about a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    /// The number of the last heartbeat; the least number before the first heartbeat.
    beat: Beat,
    /// The time of the last heartbeat, or of this process's resumption after a pause; `None` before the first
    /// heartbeat.
    heard: Option<Time>,
    /// True if queued heartbeats of an outage are arriving.
    backlog: bool,
    arrivals: InterArrivals,
}

impl Record {
    /// Records a heartbeat. Returns whether the heartbeat is new.
    fn record_heartbeat(&mut self, beat: Beat, now: Time, period: Span) -> bool {
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
    /// The deadline in standard deviations, see [`deviations_at`].
    deviations_at: u32,
    own: Beat,
    peers: Peers<Record>,
}

impl Phi {
    /// A detector with these options.
    pub fn new(options: Options) -> Phi {
        Phi {
            options,
            deviations_at: deviations_at(options.threshold()),
            own: Beat::default(),
            peers: Peers::default(),
        }
    }

    /// The suspicion level of a peer; `None` for a non-member and before the first heartbeat.
    pub fn phi(&self, peer: NodeId, now: Time, delay_bound: Span) -> Option<f64> {
        let Record { heard, arrivals, .. } = &self.peers.get(self.peers.index_of(peer, 0)?).record;
        let (mean, deviation) = arrivals.moments_with_floor(self.options.period(delay_bound));
        Some(phi(now.since((*heard)?).as_nanos() as f64, mean, deviation))
    }

    fn send_heartbeat(&mut self, cx: &mut Context<'_, Self>) {
        self.own = self.own.next();
        cx.multicast(Message::Numbered(self.own));
        cx.set_timer(Timer::Period, self.options.period(cx.delay_bound()));
    }

    /// Restarts the measurement of silences after a pause of this process: queued heartbeats arrive first.
    fn resume_after_pause(&mut self, now: Time) {
        for record in self.peers.records() {
            record.heard = record.heard.map(|_| now);
            record.backlog = true;
        }
    }

    fn monitor(&mut self, cx: &mut Context<'_, Self>) {
        let bound = cx.delay_bound();
        let arrivals = InterArrivals::assumed_at_start(self.options.period(bound));
        let record = Record { beat: Beat::default(), heard: None, backlog: false, arrivals };
        self.peers.monitor(cx, &record, self.options.initial_timeout(bound) + bound);
    }
}

impl Process for Phi {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        self.own = Beat::start(cx, start);
        self.send_heartbeat(cx);
        self.monitor(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let (Message::Numbered(beat), Some(index)) = (message, self.peers.index_of(from, 0)) else { return };
        if self.peers.adjust_for_pause(cx) {
            self.resume_after_pause(cx.now());
        }
        let period = self.options.period(cx.delay_bound());
        let record = self.peers.record(index);
        if record.record_heartbeat(beat, cx.now(), period) {
            let timeout = record.arrivals.timeout(self.deviations_at, period);
            self.peers.record_sign_of_life(cx, index, timeout);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.send_heartbeat(cx),
            Timer::Overdue => {
                if self.peers.suspect_overdue(cx) {
                    self.resume_after_pause(cx.now());
                }
            }
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        if self.peers.adjust_for_pause(cx) {
            self.resume_after_pause(cx.now());
        }
        self.monitor(cx);
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, Roster};

    /// The tail of the normal distribution, from tables: 0.1 lies above 1.2816 deviations, 0.001 above 3.0902, 10^-8
    /// above 5.6120.
    #[test]
    fn the_deadline_matches_tables_of_the_normal_distribution() {
        for (threshold, deviations) in [(1.0, 1.281_552), (3.0, 3.090_232), (8.0, 5.612_001)] {
            let found = f64::from(deviations_at(threshold)) / 1e6;
            assert!((found - deviations).abs() < 2e-6, "{threshold}: {found}");
            assert!((phi(10.0 + 2.0 * deviations, 10.0, 2.0) - threshold).abs() < 1e-5);
        }
        assert!(
            (phi(10.0, 10.0, 2.0) - libm::log10(2.0)).abs() < 1e-12,
            "half of the heartbeats come after the mean"
        );
        assert!(deviations_at(100.0) < 30_000_000);
    }

    /// Heartbeats without jitter: the mean is the period, 10 units, and the deviation is the minimum, 1 unit.
    #[test]
    fn phi_grows_with_silence_and_the_peer_is_suspected_at_the_threshold() {
        let roster = Roster::numbered(2);
        let mut recorder: Recorder<Phi> = Recorder::new(1);
        let mut detector = Phi::new("3,10".parse().unwrap());
        let at = |units: f64| Time::ZERO + Span::from_units(units);
        let cx = &mut recorder.context(at(0.0), roster.view(0), Span::UNIT);
        detector.on_start(cx, Start::Fresh);
        assert_eq!(detector.phi(NodeId(2), at(1.0), Span::UNIT), None, "no heartbeat yet");
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

    /// A number that is not greater is no sign of life. A restart is a sign of life, but not a measurement.
    #[test]
    fn only_a_greater_number_counts_as_a_heartbeat() {
        let period = Span::UNIT;
        let at = |units: f64| Time::ZERO + Span::from_units(units);
        let arrivals = InterArrivals::assumed_at_start(period);
        let mut record = Record { beat: Beat::default(), heard: None, backlog: false, arrivals };
        let mut hear = |generation, count, units| {
            let before = record.arrivals.times.len();
            let new = record.record_heartbeat(Beat { generation, count }, at(units), period);
            (new, record.arrivals.times.len() - before)
        };
        assert_eq!(hear(1, 1, 1.0), (true, 0), "the first heartbeat");
        assert_eq!(hear(1, 2, 2.0), (true, 1));
        assert_eq!(hear(1, 2, 2.0), (false, 0), "duplicated");
        assert_eq!(hear(1, 4, 4.1), (true, 1), "3 is lost or late");
        assert_eq!(hear(1, 3, 4.2), (false, 0), "reordered");
        assert_eq!(hear(2, 1, 5.5), (true, 0), "restarted");
        assert_eq!(hear(2, 2, 6.5), (true, 0), "the backlog ends");
        assert_eq!(hear(2, 3, 7.5), (true, 1));
        let long = 8.0 + OUTAGE as f64;
        assert_eq!(hear(2, 4, long), (true, 0), "an outage");
        assert_eq!(
            [hear(2, 5, long), hear(2, 6, long), hear(2, 7, long + 0.4)],
            [(true, 0); 3],
            "its backlog"
        );
        assert_eq!(hear(2, 8, long + 1.4), (true, 0), "the backlog ends");
        assert_eq!(hear(2, 9, long + 2.4), (true, 1));
        assert_eq!(hear(1, 9, long + 3.0), (true, 0), "a generation from a clock that was behind");
    }

    #[test]
    fn sums_of_the_window_stay_exact() {
        let mut arrivals = InterArrivals::default();
        for time in 0..5 * WINDOW as u64 {
            arrivals.add(Span::from_nanos(time * time % 1_000_003));
        }
        let mut fresh = InterArrivals::default();
        arrivals.times.iter().for_each(|&time| fresh.add(Span::from_nanos(time)));
        assert_eq!((arrivals.times.len(), &arrivals), (WINDOW, &fresh));
        let mut two = InterArrivals::default();
        [2, 6].into_iter().for_each(|time| two.add(Span::from_nanos(time)));
        assert_eq!(two.moments(), (4.0, 2.0));
    }
}
