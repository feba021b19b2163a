//! The work of an application while its node leads, in one election.
//!
//! ```text
//!   Elected ──▶ works ──the lease gets shorter──▶ stops its work ──▶ `release`, or the end of the lease
//! ```
//!
//! An application that is asked to stop needs up to the stop margin. It works on for that long also if its node steps down
//! without notice, but not beyond the end of the lease as it last knew it. The world believes that a node leads while its
//! application works: two applications that work at the same moment are two leaders.

use suffrage_core::{Announcement, Context, Span, Time};

use super::QuorumLease;

/// The work of an application in one election. Without a stop margin it ends with the leadership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Work {
    margin: Span,
    /// The end of the lease, as the application knows it; none while it does not work.
    until: Option<Time>,
    /// When the application has stopped its work; none if it was not asked to stop, or takes as long as it may.
    done_at: Option<Time>,
    /// The belief of a node that has stepped down while the application works on.
    stepped_down: Option<(Announcement, Option<Announcement>)>,
}

impl Work {
    pub(super) fn set_margin(&mut self, margin: Span) {
        self.margin = margin;
    }

    /// When the application has stopped its work.
    pub(super) fn due(&self) -> Option<Time> {
        self.done_at
    }

    /// The application works no more.
    pub(super) fn end(&mut self) {
        (self.until, self.done_at) = (None, None);
    }

    /// The node has a lease until this moment. A lease that gets shorter asks the application to stop.
    pub(super) fn on_lease(&mut self, cx: &mut Context<'_, QuorumLease>, election: usize, end: Time) {
        let asked_to_stop = self.until.is_some_and(|until| end < until);
        if !self.margin.is_zero() {
            self.until = Some(end);
            // Some applications take the whole margin, and the others any part of it.
            if asked_to_stop && cx.rng().chance(0.6) {
                let rest = end.since(cx.now());
                self.done_at = Some(cx.now() + rest.scale(cx.rng().unit()));
            }
        }
        if self.stepped_down.is_none() {
            cx.lead_until_in(election, end);
        }
    }

    pub(super) fn on_announcement(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: usize,
        announcement: Announcement,
    ) {
        let now = cx.now();
        if let Some((_, last)) = &mut self.stepped_down {
            *last = Some(announcement);
            return;
        }
        if announcement == Announcement::SteppedDown {
            let until = self.until.take().filter(|&until| now < until);
            self.done_at = None;
            if let Some(until) = until {
                // No notice was given: the application works on.
                let until = until.min(now + self.margin);
                (self.stepped_down, self.done_at) = (Some((announcement, None)), Some(until));
                return cx.lead_until_in(election, until);
            }
        }
        cx.announce_in(election, announcement);
    }

    /// Ends the work if it is done at this moment. True if the node is to release the lease.
    pub(super) fn finish(&mut self, cx: &mut Context<'_, QuorumLease>, election: usize) -> bool {
        if self.done_at.take_if(|due| *due <= cx.now()).is_none() {
            return false;
        }
        self.until = None;
        let Some((stepped_down, last)) = self.stepped_down.take() else { return true };
        cx.announce_in(election, stepped_down);
        if let Some(last) = last {
            cx.announce_in(election, last);
        }
        false
    }
}
