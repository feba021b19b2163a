//! Failure detectors as processes. Their effects are to [`suspect`](crate::Context::suspect) and to
//! [`restore`](crate::Context::restore) peers.
//!
//! A detector runs in front of an algorithm ([`layers::Watched`](crate::layers::Watched)), or alone for
//! measurements. All detectors share one type of messages and one type of timers, so that [`Any`] is one type for
//! all detectors, and an algorithm behind it is compiled once.
//!
//! Only a detector's own messages count as heartbeats. The algorithm's messages also show that their sender is
//! alive, but they come in bursts: they would distort the inter-arrival times that [`phi`] estimates, and
//! measurements of a detector alone would no longer apply to a detector in front of an algorithm.

pub mod gossip;
pub mod heartbeat;
mod peers;
pub mod phi;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::forward_effects;
use crate::{Command, Context, Effects, NodeId, Process, Span, Start};

/// The messages between detectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// The sender is alive.
    Heartbeat,
    /// The heartbeat counters that the sender knows.
    Gossip(Vec<(NodeId, gossip::Beat)>),
    /// The sender is alive. The number orders its heartbeats.
    Numbered(gossip::Beat),
}

crate::message_kinds!(Message {
    Heartbeat: uncounted = Message::Heartbeat | Message::Numbered(_),
    Gossip: uncounted,
});

/// The timers of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The next heartbeat or gossip is due.
    Period,
    /// The deadline of a peer has passed.
    Overdue,
}

crate::timer_indices!(Timer { Period, Overdue });

/// The persistent state of a detector: the number of its starts.
pub type Saved = u64;

/// A kind of detector and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Options {
    /// The heartbeat detector, with a fixed time-out.
    Heartbeat(heartbeat::Options),
    /// The phi accrual detector.
    Phi(phi::Options),
    /// The gossip detector.
    Gossip(gossip::Options),
}

impl Options {
    /// The period of heartbeats or gossip.
    pub fn period(self, delay_bound: Span) -> Span {
        match self {
            Options::Heartbeat(options) => options.period,
            Options::Phi(options) => options.period(delay_bound),
            Options::Gossip(options) => options.period,
        }
    }

    /// The approximate upper bound of the detection time, where messages take up to `delay_bound` and no message is
    /// lost.
    pub fn max_detection_time(self, delay_bound: Span) -> Span {
        match self {
            Options::Heartbeat(options) => options.timeout + delay_bound,
            // The measured deviation is unknown here; the initially assumed deviation is large.
            Options::Phi(options) => options.initial_timeout(delay_bound) + delay_bound,
            // The last counter may still spread after its owner has crashed.
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

    /// Parses `heartbeat:PERIOD,TIMEOUT`, `phi:THRESHOLD[,PERIOD]` or `gossip:PERIOD,T_FAIL`.
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

/// Parses a period and a limit. The period must be more than zero, and the limit more than the period.
fn parse_period_and_limit(text: &str, form: &str) -> Result<(Span, Span), String> {
    let (period, limit) =
        text.split_once(',').ok_or_else(|| format!("`{text}` lacks a value; the form is {form}"))?;
    let (period, limit) = (parse_period(period)?, limit.parse()?);
    if limit <= period {
        return Err(format!(
            "{limit} is not more than the period, {period}: every peer would always be suspected; raise {limit}"
        ));
    }
    Ok((period, limit))
}

fn parse_period(text: &str) -> Result<Span, String> {
    match text.parse::<Span>()? {
        Span::ZERO => {
            Err("a period of 0 is invalid: messages would be sent without end; it must be more than 0"
                .to_string())
        }
        period => Ok(period),
    }
}

/// Any of the detectors, or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Any {
    /// No detector: suspects no peer.
    Off,
    /// The heartbeat detector, see [`heartbeat`].
    Heartbeat(heartbeat::Heartbeat),
    /// The phi accrual detector, see [`phi`].
    Phi(phi::Phi),
    /// The gossip detector, see [`gossip`].
    Gossip(gossip::Gossip),
}

impl Any {
    /// The detector with these options; [`Any::Off`] without options.
    pub fn new(options: Option<Options>) -> Any {
        match options {
            None => Any::Off,
            Some(Options::Heartbeat(options)) => Any::Heartbeat(heartbeat::Heartbeat::new(options)),
            Some(Options::Phi(options)) => Any::Phi(phi::Phi::new(options)),
            Some(Options::Gossip(options)) => Any::Gossip(gossip::Gossip::new(options)),
        }
    }
}

/// Forwards the effects of a detector as effects of [`Any`].
struct Forward<'a>(&'a mut (dyn Effects<Any> + 'a));

impl<P> Effects<P> for Forward<'_>
where
    P: Process<Message = Message, Timer = Timer, Saved = Saved>,
{
    forward_effects!(0: rng, send(Message), multicast(Message), set_timer(Timer), cancel_timer(Timer));
    forward_effects!(0: save(Saved), announce, lead_until, suspect, restore);
}

/// Passes an input to the detector inside an [`Any`].
macro_rules! delegate {
    (to $detector:expr, $input:ident($cx:expr $(, $value:expr)*)) => {{
        let (now, view, bound) = ($cx.now(), $cx.view(), $cx.delay_bound());
        let mut forward = Forward($cx.effects());
        $detector.$input(&mut Context::new(now, view, bound, &mut forward) $(, $value)*)
    }};
    ($any:expr, $input:ident($cx:expr $(, $value:expr)*)) => {
        match $any {
            Any::Off => {}
            Any::Heartbeat(detector) => delegate!(to detector, $input($cx $(, $value)*)),
            Any::Phi(detector) => delegate!(to detector, $input($cx $(, $value)*)),
            Any::Gossip(detector) => delegate!(to detector, $input($cx $(, $value)*)),
        }
    };
}

impl Process for Any {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        delegate!(self, on_start(cx, start));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        delegate!(self, on_message(cx, from, message));
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        delegate!(self, on_timer(cx, timer));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        delegate!(self, on_view_change(cx));
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detector_options_parse_as_they_print() {
        for text in ["heartbeat:1,3.5", "phi:8", "phi:0.5,10", "gossip:1,12"] {
            assert_eq!(text.parse::<Options>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_options_are_rejected_with_the_reason() {
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
