//! The heartbeat detector: who is silent for too long is suspected.
//!
//! Source: folklore; analysed as the common algorithm in Chen, Toueg and Aguilera 2002.
//!
//! ```text
//!   p ── Heartbeat ──▶ everybody, each period
//!   q: no Heartbeat from p for `timeout` after the last: suspect p
//!      a Heartbeat from p: restore p
//! ```
//!
//! Model: anything may be lost or late; the opinion is then wrong for a while.
//!
//! Cost: N - 1 messages per process and period; a record per peer.
//!
//! Detection: with delays between d and D, the last heartbeat before a crash was sent less than a
//! period before it, so that the crash is noticed after `timeout - period + d` at the earliest and
//! `timeout + D` at the latest. The deadline of each peer is met exactly; nothing is polled.
//!
//! Mistakes: none while `timeout` is more than `period + D - d` and nothing is lost. Where messages
//! are lost with probability p, and k heartbeats are due within the time-out, one is made for each
//! run of k losses: with probability (1 - p) p^k per heartbeat.
//!
//! Reading: everybody is taken to have been heard at the start.

use std::fmt;
use std::str::FromStr;

use super::peers::Peers;
use super::{Message, Saved, Timer, parse_period_and_limit};
use crate::{Command, Context, NodeId, Process, Span, Start};

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How often a process shows that it lives.
    pub period: Span,
    /// How long a peer may be silent.
    pub timeout: Span,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.period, self.timeout)
    }
}

impl FromStr for Options {
    type Err = String;

    fn from_str(text: &str) -> Result<Options, String> {
        let (period, timeout) = parse_period_and_limit(text, "heartbeat:PERIOD,TIMEOUT")?;
        Ok(Options { period, timeout })
    }
}

/// The heartbeat detector of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    options: Options,
    peers: Peers<()>,
}

impl Heartbeat {
    /// A detector that is set so.
    pub fn new(options: Options) -> Heartbeat {
        Heartbeat { options, peers: Peers::default() }
    }

    fn beat(&self, cx: &mut Context<'_, Self>) {
        cx.multicast(Message::Heartbeat);
        cx.set_timer(Timer::Period, self.options.period);
    }
}

impl Process for Heartbeat {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<Saved>) {
        self.beat(cx);
        self.peers.watch(cx, &(), self.options.timeout);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if let (Message::Heartbeat, Some(place)) = (message, self.peers.place(from, 0)) {
            self.peers.settle(cx);
            self.peers.hear(cx, place, self.options.timeout);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.beat(cx),
            Timer::Overdue => _ = self.peers.judge(cx),
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.peers.watch(cx, &(), self.options.timeout);
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}
