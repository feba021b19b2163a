//! Observers of a run, for traces and diagrams.

use std::fmt;

use serde::Serialize;
use suffrage_core::{Announcement, Attribute, NodeId, Span, Time};

/// An event of a run.
#[derive(Clone, Copy)]
pub enum TraceEvent<'a> {
    /// A message was sent.
    Sent {
        /// The sender.
        from: NodeId,
        /// The addressee.
        to: NodeId,
        /// The message.
        message: TracedMessage<'a>,
        /// The time of arrival, if no fault prevents it.
        arrives: Time,
    },
    /// A multicast was sent.
    Multicast {
        /// The sender.
        from: NodeId,
        /// The message.
        message: TracedMessage<'a>,
    },
    /// A message was handled.
    Delivered {
        /// The sender.
        from: NodeId,
        /// The addressee.
        to: NodeId,
        /// The message.
        message: TracedMessage<'a>,
    },
    /// A message was dropped.
    Dropped {
        /// The sender.
        from: NodeId,
        /// The addressee.
        to: NodeId,
        /// The message.
        message: TracedMessage<'a>,
        /// The reason.
        reason: DropReason,
        /// True if the message was dropped when it was sent. No [`Sent`](TraceEvent::Sent) came before.
        on_send: bool,
    },
    /// A timer fired.
    Expired {
        /// The process.
        who: NodeId,
        /// The timer.
        timer: &'a dyn fmt::Debug,
    },
    /// A process announced its belief.
    Announced {
        /// The process.
        who: NodeId,
        /// The announcement.
        announcement: Announcement,
    },
    /// A process that leads, or is about to announce it, has a lease.
    Leased {
        /// The process.
        who: NodeId,
        /// The end of the lease by true time, as the process's clock runs now.
        until: Time,
    },
    /// A process got a command.
    Commanded {
        /// The process.
        who: NodeId,
        /// The command in its text form.
        command: &'a str,
    },
    /// A process began to suspect another.
    Suspected {
        /// The process.
        who: NodeId,
        /// The suspected process.
        peer: NodeId,
    },
    /// A process ceased to suspect another.
    Restored {
        /// The process.
        who: NodeId,
        /// The suspected process.
        peer: NodeId,
    },
    /// A process crashed.
    Crashed {
        /// The process.
        who: NodeId,
    },
    /// A process recovered.
    Recovered {
        /// The process.
        who: NodeId,
    },
    /// A process was paused.
    Paused {
        /// The process.
        who: NodeId,
    },
    /// A process resumed.
    Resumed {
        /// The process.
        who: NodeId,
    },
    /// A process's clock jumped.
    Jumped {
        /// The process.
        who: NodeId,
        /// The distance.
        by: Span,
        /// True if the clock jumped backwards.
        back: bool,
    },
    /// A process's attribute changed.
    Ranked {
        /// The process.
        who: NodeId,
        /// The new attribute.
        attribute: Attribute,
    },
    /// A condition of all messages or disks changed.
    Conditions {
        /// The name of the condition.
        condition: &'static str,
        /// The new value: a probability, a factor, or time units.
        value: f64,
    },
    /// A promise of the contract was broken.
    Violated {
        /// The name of the invariant.
        invariant: &'static str,
        /// The reason.
        detail: &'a str,
    },
    /// The network was cut.
    Cut,
    /// A cut was healed.
    Healed,
    /// All faults but crashes ended.
    HealedAll,
}

/// A message, without its type.
#[derive(Clone, Copy)]
pub struct TracedMessage<'a> {
    /// The name of its kind.
    pub kind: &'static str,
    /// False if the source does not count messages of this kind.
    pub counted: bool,
    /// The whole message.
    pub content: &'a dyn Content,
}

/// The content of a message, without its type. Serialisation is compiled with the world of the algorithm, once.
pub trait Content: fmt::Debug {
    /// The content as JSON text.
    fn json(&self) -> String;
}

impl<M: fmt::Debug + Serialize> Content for M {
    fn json(&self) -> String {
        serde_json::to_string(self).expect("messages are plain data")
    }
}

/// The reason why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The network lost it.
    Lost,
    /// A cut separated sender and receiver.
    Cut,
    /// The receiver was dead.
    ReceiverDead,
    /// The receiver's id is not in the group.
    UnknownReceiver,
}

/// An observer of a run.
pub trait Observer {
    /// Handles an event of the run.
    fn observe(&mut self, at: Time, event: TraceEvent<'_>);
}
