//! Failure detectors as processes: what they do is to [`suspect`](crate::Context::suspect) and to
//! [`restore`](crate::Context::restore) peers.
//!
//! A detector stands in front of an algorithm ([`layers::Watched`](crate::layers::Watched)) or runs
//! alone, to be measured. All of them speak one language of messages and timers, so that [`Any`] is
//! one type for all, and an algorithm behind it is compiled once.
//!
//! Only a detector's own messages are signs of life to it. An algorithm's messages would be too, but
//! they come in bursts: they would spoil the inter-arrival times that [`phi`] learns from, and what is
//! measured of a detector alone would no longer hold in front of an algorithm.

pub mod gossip;
pub mod heartbeat;
mod peers;
pub mod phi;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::macros::forward_effects;
use crate::{Command, Context, Effects, NodeId, Process, Span, Start};

/// What detectors say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// The sender lives.
    Heartbeat,
    /// Whose heart the sender knows to have beaten, and how often.
    Gossip(Vec<(NodeId, gossip::Beat)>),
    /// The sender lives, and has said so this often.
    Numbered(gossip::Beat),
}

crate::message_kinds!(Message {
    Heartbeat: apart = Message::Heartbeat | Message::Numbered(_),
    Gossip: apart,
});

/// What a detector waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// To speak again.
    Period,
    /// The moment the first peer is overdue.
    Overdue,
}

crate::timer_indices!(Timer { Period, Overdue });

/// What of a detector outlives a crash: how often it has started.
pub type Saved = u64;

/// Which detector, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Options {
    /// A time-out on heartbeats.
    Heartbeat(heartbeat::Options),
    /// A suspicion that accrues.
    Phi(phi::Options),
    /// Counters that spread by gossip.
    Gossip(gossip::Options),
}

impl Options {
    /// How often a process speaks.
    pub fn period(self, delay_bound: Span) -> Span {
        match self {
            Options::Heartbeat(options) => options.period,
            Options::Phi(options) => options.period(delay_bound),
            Options::Gossip(options) => options.period,
        }
    }

    /// How long a crash goes unnoticed at most, about, where messages take up to `delay_bound` and
    /// none is lost.
    pub fn patience(self, delay_bound: Span) -> Span {
        match self {
            Options::Heartbeat(options) => options.timeout + delay_bound,
            // The deviation cannot be known beforehand; that of the first heartbeats is generous.
            Options::Phi(options) => options.first_allowance(delay_bound) + delay_bound,
            // A counter may still be spreading when its owner dies.
            Options::Gossip(options) => options.fail * 2,
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Options::Heartbeat(options) => write!(f, "heartbeat:{options}"),
            Options::Phi(options) => write!(f, "phi:{options}"),
            Options::Gossip(options) => write!(f, "gossip:{options}"),
        }
    }
}

impl FromStr for Options {
    type Err = String;

    /// Reads `heartbeat:PERIOD,TIMEOUT`, `phi:THRESHOLD[,PERIOD]` or `gossip:PERIOD,T_FAIL`.
    fn from_str(text: &str) -> Result<Options, String> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "heartbeat" => values.parse().map(Options::Heartbeat),
            "phi" => values.parse().map(Options::Phi),
            "gossip" => values.parse().map(Options::Gossip),
            _ => Err(format!(
                "`{text}` is not a detector; it is heartbeat:PERIOD,TIMEOUT, phi:THRESHOLD[,PERIOD] or \
                 gossip:PERIOD,T_FAIL"
            )),
        }
    }
}

/// Reads two spans, the second longer than the first, which is longer than nothing.
fn parse_period_and_limit(text: &str, form: &str) -> Result<(Span, Span), String> {
    let (period, limit) =
        text.split_once(',').ok_or_else(|| format!("`{text}` lacks a value; the form is {form}"))?;
    let (period, limit) = (parse_period(period)?, limit.parse()?);
    if limit <= period {
        return Err(format!(
            "{limit} is not more than the period, {period}: everybody would be suspected all the time"
        ));
    }
    Ok((period, limit))
}

fn parse_period(text: &str) -> Result<Span, String> {
    match text.parse::<Span>()? {
        Span::ZERO => Err("a period of 0 has no end of messages; it must be more".to_string()),
        period => Ok(period),
    }
}

/// Whichever detector is wanted, or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Any {
    /// Watches nobody.
    Off,
    /// See [`heartbeat`].
    Heartbeat(heartbeat::Heartbeat),
    /// See [`phi`].
    Phi(phi::Phi),
    /// See [`gossip`].
    Gossip(gossip::Gossip),
}

impl Any {
    /// The detector that is set so; none watches nobody.
    pub fn new(options: Option<Options>) -> Any {
        match options {
            None => Any::Off,
            Some(Options::Heartbeat(options)) => Any::Heartbeat(heartbeat::Heartbeat::new(options)),
            Some(Options::Phi(options)) => Any::Phi(phi::Phi::new(options)),
            Some(Options::Gossip(options)) => Any::Gossip(gossip::Gossip::new(options)),
        }
    }
}

/// What any detector does is what [`Any`] does.
struct Same<'a>(&'a mut (dyn Effects<Any> + 'a));

impl<P> Effects<P> for Same<'_>
where
    P: Process<Message = Message, Timer = Timer, Saved = Saved>,
{
    fn send(&mut self, to: NodeId, message: Message) {
        self.0.send(to, message);
    }
    fn multicast(&mut self, message: Message) {
        self.0.multicast(message);
    }
    fn set_timer(&mut self, timer: Timer, after: Span) {
        self.0.set_timer(timer, after);
    }
    fn cancel_timer(&mut self, timer: Timer) {
        self.0.cancel_timer(timer);
    }
    fn save(&mut self, state: Saved) {
        self.0.save(state);
    }
    forward_effects!(0: rng, announce, lead_until, suspect, restore);
}

/// Hands an input to whichever detector it is.
macro_rules! hand_on {
    (to $detector:expr, $input:ident($cx:expr $(, $value:expr)*)) => {{
        let (now, view, bound) = ($cx.now(), $cx.view(), $cx.delay_bound());
        let mut same = Same($cx.effects());
        $detector.$input(&mut Context::new(now, view, bound, &mut same) $(, $value)*)
    }};
    ($any:expr, $input:ident($cx:expr $(, $value:expr)*)) => {
        match $any {
            Any::Off => {}
            Any::Heartbeat(detector) => hand_on!(to detector, $input($cx $(, $value)*)),
            Any::Phi(detector) => hand_on!(to detector, $input($cx $(, $value)*)),
            Any::Gossip(detector) => hand_on!(to detector, $input($cx $(, $value)*)),
        }
    };
}

impl Process for Any {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        hand_on!(self, on_start(cx, start));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        hand_on!(self, on_message(cx, from, message));
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        hand_on!(self, on_timer(cx, timer));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        hand_on!(self, on_view_change(cx));
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detectors_are_read_as_they_are_shown() {
        for text in ["heartbeat:1,3.5", "phi:8", "phi:0.5,10", "gossip:1,12"] {
            assert_eq!(text.parse::<Options>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_in_a_sentence() {
        for (text, word) in [
            ("ping", "`ping` is not a detector"),
            ("heartbeat", "heartbeat:PERIOD,TIMEOUT"),
            ("heartbeat:1", "heartbeat:PERIOD,TIMEOUT"),
            ("heartbeat:0,3", "period of 0"),
            ("heartbeat:3,3", "not more than the period"),
            ("heartbeat:x,3", "`x` is not a time"),
            ("phi:", "not a threshold"),
            ("phi:0.4", "not a threshold"),
            ("phi:101", "not a threshold"),
            ("phi:nan", "not a threshold"),
            ("phi:8,0", "period of 0"),
            ("gossip:5", "gossip:PERIOD,T_FAIL"),
            ("gossip:5,4", "not more than the period"),
        ] {
            let error = text.parse::<Options>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
