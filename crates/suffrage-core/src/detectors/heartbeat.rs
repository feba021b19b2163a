//! The heartbeat detector: a peer without a heartbeat for the time-out is suspected.
//!
//! Source: folklore; analysed as the common algorithm in Chen, Toueg and Aguilera 2002.
//!
//! ```text
//!   p ── Heartbeat ──▶ all members, each period
//!   q: no Heartbeat from p for `timeout` after the last: suspect p
//!      a Heartbeat from p: restore p
//! ```
//!
//! Model: messages may be lost or late; suspicions are then wrong for a while.
//!
//! Cost: N - 1 messages per process and period; a record per peer.
//!
//! Detection: with delays between d and D, the last heartbeat before a crash was sent less than a period before the
//! crash. The crash is therefore detected after `timeout - period + d` at the earliest and `timeout + D` at the
//! latest. A timer expires exactly at the first deadline; there is no polling.
//!
//! False suspicions: none while `timeout` is more than `period + D - d` and no message is lost. Where messages are
//! lost with probability p, and k heartbeats are due within the time-out, each run of k losses causes one false
//! suspicion: with probability (1 - p) p^k per heartbeat.
//!
//! Interpretation: the time-out of every peer starts at the start of the detector.

use std::fmt;
use std::str::FromStr;

use super::peers::Peers;
use super::{Message, Saved, Timer, parse_period_and_limit};
use crate::{Command, Context, NodeId, Process, Span, Start};

/// The options of the heartbeat detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The period of heartbeats.
    pub period: Span,
    /// The time without a heartbeat after which a peer is suspected.
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
    /// A detector with these options.
    pub fn new(options: Options) -> Heartbeat {
        Heartbeat { options, peers: Peers::default() }
    }

    fn send_heartbeat(&self, cx: &mut Context<'_, Self>) {
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
        self.send_heartbeat(cx);
        self.peers.monitor(cx, &(), self.options.timeout);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if let (Message::Heartbeat, Some(index)) = (message, self.peers.index_of(from, 0)) {
            self.peers.adjust_for_pause(cx);
            self.peers.record_sign_of_life(cx, index, self.options.timeout);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Period => self.send_heartbeat(cx),
            Timer::Overdue => _ = self.peers.suspect_overdue(cx),
        }
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.peers.monitor(cx, &(), self.options.timeout);
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}
