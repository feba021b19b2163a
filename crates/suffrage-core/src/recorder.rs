//! Effects as data: a context that records the effects of a process.

use std::fmt;

use crate::{Announcement, Context, Effects, NodeId, Process, Rng, Span, Time, View};

/// An effect of a process.
pub enum Effect<P: Process> {
    /// A message to one peer.
    Send {
        /// The addressee.
        to: NodeId,
        /// The message.
        message: P::Message,
    },
    /// A message to all other members of the group.
    Multicast {
        /// The message.
        message: P::Message,
    },
    /// A timer was set.
    SetTimer {
        /// The timer.
        timer: P::Timer,
        /// The time until it expires.
        after: Span,
    },
    /// A timer was cancelled.
    CancelTimer {
        /// The timer.
        timer: P::Timer,
    },
    /// New persistent state.
    Save(P::Saved),
    /// A new belief about the leader.
    Announce(Announcement),
    /// A new end of the process's leadership.
    LeadUntil(Time),
    /// A failure detector reports the peer as failed.
    Suspect(NodeId),
    /// A failure detector reports the peer as alive after all.
    Restore(NodeId),
}

impl<P: Process> Clone for Effect<P> {
    fn clone(&self) -> Self {
        match self {
            Effect::Send { to, message } => Effect::Send { to: *to, message: message.clone() },
            Effect::Multicast { message } => Effect::Multicast { message: message.clone() },
            Effect::SetTimer { timer, after } => Effect::SetTimer { timer: *timer, after: *after },
            Effect::CancelTimer { timer } => Effect::CancelTimer { timer: *timer },
            Effect::Save(state) => Effect::Save(state.clone()),
            Effect::Announce(announcement) => Effect::Announce(*announcement),
            Effect::LeadUntil(end) => Effect::LeadUntil(*end),
            Effect::Suspect(peer) => Effect::Suspect(*peer),
            Effect::Restore(peer) => Effect::Restore(*peer),
        }
    }
}

impl<P: Process> PartialEq for Effect<P> {
    fn eq(&self, other: &Self) -> bool {
        use Effect::*;
        match (self, other) {
            (Send { to: a, message: x }, Send { to: b, message: y }) => a == b && x == y,
            (Multicast { message: x }, Multicast { message: y }) => x == y,
            (SetTimer { timer: a, after: x }, SetTimer { timer: b, after: y }) => a == b && x == y,
            (CancelTimer { timer: a }, CancelTimer { timer: b }) => a == b,
            (Save(a), Save(b)) => a == b,
            (Announce(a), Announce(b)) => a == b,
            (LeadUntil(a), LeadUntil(b)) => a == b,
            (Suspect(a), Suspect(b)) | (Restore(a), Restore(b)) => a == b,
            _ => false,
        }
    }
}

impl<P: Process> fmt::Debug for Effect<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Send { to, message } => write!(f, "Send {{ {to} <- {message:?} }}"),
            Effect::Multicast { message } => write!(f, "Multicast {{ {message:?} }}"),
            Effect::SetTimer { timer, after } => write!(f, "SetTimer {{ {timer:?} in {after} }}"),
            Effect::CancelTimer { timer } => write!(f, "CancelTimer {{ {timer:?} }}"),
            Effect::Save(state) => write!(f, "Save {{ {state:?} }}"),
            Effect::Announce(announcement) => announcement.fmt(f),
            Effect::LeadUntil(end) => write!(f, "LeadUntil {{ {end} }}"),
            Effect::Suspect(peer) => write!(f, "Suspect {{ {peer} }}"),
            Effect::Restore(peer) => write!(f, "Restore {{ {peer} }}"),
        }
    }
}

/// Records effects instead of carrying them out: for model checkers, network drivers, and tests of
/// single transitions.
///
/// Hand its [`context`](Recorder::context) to one `on_…` method at a time, then carry out what
/// [`take`](Recorder::take) returns, in order.
#[derive(Debug)]
pub struct Recorder<P: Process> {
    effects: Vec<Effect<P>>,
    rng: Rng,
}

impl<P: Process> Recorder<P> {
    /// A recorder without effects, whose random draws follow from `seed`.
    pub fn new(seed: u64) -> Recorder<P> {
        Recorder { effects: Vec::new(), rng: Rng::new(seed) }
    }

    /// A context for one input of the process that owns `view`, at `now` by its clock.
    pub fn context<'v>(&'v mut self, now: Time, view: View<'v>, delay_bound: Span) -> Context<'v, P> {
        Context::new(now, view, delay_bound, self)
    }

    /// The effects since the last call, in order.
    pub fn take(&mut self) -> Vec<Effect<P>> {
        std::mem::take(&mut self.effects)
    }
}

impl<P: Process> Effects<P> for Recorder<P> {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
    fn send(&mut self, to: NodeId, message: P::Message) {
        self.effects.push(Effect::Send { to, message });
    }
    fn multicast(&mut self, message: P::Message) {
        self.effects.push(Effect::Multicast { message });
    }
    fn set_timer(&mut self, timer: P::Timer, after: Span) {
        self.effects.push(Effect::SetTimer { timer, after });
    }
    fn cancel_timer(&mut self, timer: P::Timer) {
        self.effects.push(Effect::CancelTimer { timer });
    }
    fn save(&mut self, state: P::Saved) {
        self.effects.push(Effect::Save(state));
    }
    fn announce(&mut self, announcement: Announcement) {
        self.effects.push(Effect::Announce(announcement));
    }
    fn lead_until(&mut self, end: Time) {
        self.effects.push(Effect::LeadUntil(end));
    }
    fn suspect(&mut self, peer: NodeId) {
        self.effects.push(Effect::Suspect(peer));
    }
    fn restore(&mut self, peer: NodeId) {
        self.effects.push(Effect::Restore(peer));
    }
}
