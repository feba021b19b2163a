//! Watching a run as it happens: traces and diagrams.

use std::fmt;

use suffrage_core::{Announcement, Attribute, NodeId, Span, Time};

/// Something that happened.
#[derive(Clone, Copy)]
pub enum TraceEvent<'a> {
    /// A message left; it will arrive then, if nothing comes in between.
    Sent {
        /// The sender.
        from: NodeId,
        /// The addressee.
        to: NodeId,
        /// The message.
        message: TracedMessage<'a>,
        /// When it is due.
        arrives: Time,
    },
    /// A message to everybody left.
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
    /// A message came to nothing.
    Dropped {
        /// The sender.
        from: NodeId,
        /// The addressee.
        to: NodeId,
        /// The message.
        message: TracedMessage<'a>,
        /// Why.
        reason: DropReason,
    },
    /// A timer ran out.
    Expired {
        /// Whose.
        who: NodeId,
        /// Which.
        timer: &'a dyn fmt::Debug,
    },
    /// A process said what it believes.
    Announced {
        /// Who.
        who: NodeId,
        /// What.
        announcement: Announcement,
    },
    /// A process was asked for something.
    Commanded {
        /// Who.
        who: NodeId,
        /// What, in the text form.
        command: &'a str,
    },
    /// A process began to suspect another.
    Suspected {
        /// Who.
        who: NodeId,
        /// Whom.
        peer: NodeId,
    },
    /// A process ceased to suspect another.
    Restored {
        /// Who.
        who: NodeId,
        /// Whom.
        peer: NodeId,
    },
    /// A process died.
    Crashed {
        /// Who.
        who: NodeId,
    },
    /// A process came back.
    Recovered {
        /// Who.
        who: NodeId,
    },
    /// A process stopped for a while.
    Paused {
        /// Who.
        who: NodeId,
    },
    /// A process went on.
    Resumed {
        /// Who.
        who: NodeId,
    },
    /// A process's clock jumped.
    Jumped {
        /// Whose.
        who: NodeId,
        /// How far.
        by: Span,
        /// Whether backwards.
        back: bool,
    },
    /// A process's attribute changed.
    Ranked {
        /// Who.
        who: NodeId,
        /// How good a leader it would be now.
        attribute: Attribute,
    },
    /// The network was cut.
    Cut,
    /// A cut was healed.
    Healed,
    /// Everything that was wrong ended.
    HealedAll,
}

/// A message, without its type.
#[derive(Clone, Copy)]
pub struct TracedMessage<'a> {
    /// Its kind's name.
    pub kind: &'static str,
    /// False if it is counted apart.
    pub counted: bool,
    /// All of it.
    pub content: &'a dyn fmt::Debug,
}

/// Why a message came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The network lost it.
    Lost,
    /// The way was cut.
    Cut,
    /// The addressee was dead.
    ReceiverDead,
    /// There is nobody of that name.
    UnknownReceiver,
}

/// Watches a run.
pub trait Observer {
    /// Something happened.
    fn observe(&mut self, at: Time, event: TraceEvent<'_>);
}
