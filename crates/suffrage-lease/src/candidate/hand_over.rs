//! Voluntary hand-overs of a leader: the application gets its stop margin first.
//!
//! ```text
//!              hand_over, or a claim of a better candidate           release, or the end
//!   renews ───────────────────────────────────────────────▶ waits ──────────────────────▶ Release to the voters
//!              valid_until := min(valid_until, now + margin)
//! ```
//!
//! The candidate does not renew the lease any more, and ignores late replies that would lengthen it. Its application
//! stops the work within the margin, and says so by [`release`](Candidate::release). The voters learn nothing before: no
//! other candidate leads while the application works.
//!
//! A pinned lease is not released at the end of the margin, but expires. It is for work that other processes do, which rely
//! on the lease as it was granted: a paused leader could not tell them that the lease has become shorter. The same holds
//! if the leader notices the end of the margin late, because its process was paused.

use suffrage_core::{Attribute, NodeId, Span, Time};

use super::{Candidate, Effects, Round};
use crate::message::{Ask, Token};
use crate::timings::Bug;

/// A leader that is late by more than this part of the stop margin was paused, and with it perhaps its application.
pub const NOTICE_SLACK: u64 = 8;

/// A hand-over that has begun. The lease is released at its end, or earlier when the application's work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOver {
    /// The candidate that is to lead next; none for the next in the queue.
    pub to: Option<NodeId>,
    /// When the lease is released, by the leader's own clock. The lease does not last longer.
    pub until: Time,
    /// A greater token that voters may have granted in place of the lease's. It is released at the end, too.
    proposed: Option<Token>,
}

impl Candidate {
    /// The hand-over that has begun, if there is one.
    pub fn pending_hand_over(&self) -> Option<HandOver> {
        self.hand_over.as_deref().copied()
    }

    /// Hands over to this candidate, or to the next one: at once without a stop margin, and otherwise when the margin is
    /// over. If a hand-over has begun already, only its target changes. If the target does not take over, the voters
    /// wake the next candidate.
    pub fn hand_over(&mut self, fx: &mut impl Effects, now: Time, to: Option<NodeId>) {
        if to == Some(self.me) {
            return;
        }
        self.lapse(fx, now);
        if let Some(begun) = &mut self.hand_over {
            begun.to = to.or(begun.to);
            return;
        }
        let margin = self.timings.stop_margin;
        if margin.is_zero() || self.timings.bug == Some(Bug::SkipNotice) {
            return self.release(fx, now, to);
        }
        let proposed = self.proposed();
        let Some(lease) = &mut self.lease else { return };
        let until = lease.valid_until.min(now + margin);
        lease.valid_until = until;
        self.hand_over = Some(Box::new(HandOver { to, until, proposed }));
        if self.timings.bug != Some(Bug::LengthenAfterNotice) {
            (self.round, self.won) = (Round::None, None);
        }
        self.next = until;
        fx.lead_until(until);
    }

    /// Hands over at once, because the application does not work. Yields to others for the length of a lease. Without a
    /// target the target of the hand-over that has begun stays.
    pub fn release(&mut self, fx: &mut impl Effects, now: Time, to: Option<NodeId>) {
        self.lapse(fx, now);
        self.release_now(fx, now, to);
    }

    fn release_now(&mut self, fx: &mut impl Effects, now: Time, to: Option<NodeId>) {
        let begun = self.pending_hand_over();
        let to = to.filter(|&to| to != self.me).or(begun.and_then(|begun| begun.to));
        let proposed = begun.and_then(|begun| begun.proposed).or(self.proposed());
        let renewal = (self.timings.bug == Some(Bug::ReviveLease)).then(|| self.round.clone());
        // The order matters for safety: the candidate steps down before it sends `Release`.
        let Some(token) = self.step_down(fx, now) else { return };
        if let Some(renewal) = renewal {
            self.round = renewal;
        }
        self.ask_all(fx, Ask::Release { token, to });
        // Voters may have granted a greater token instead, with which the candidate has never led.
        if let Some(token) = proposed.filter(|&proposed| proposed != token) {
            self.ask_all(fx, Ask::Release { token, to });
        }
        self.yield_until = now + self.timings.ttl;
        self.next = now + self.timings.gap;
    }

    /// The stop margin is over, and the application has not said that its work has ended. The lease is released, unless
    /// the application may have had less time: a pinned lease expires, and so does the lease of a process that was paused.
    pub(super) fn end_notice(&mut self, fx: &mut impl Effects, now: Time) {
        let until = self.hand_over.as_ref().map_or(now, |begun| begun.until);
        let slack = Span::from_nanos(self.timings.stop_margin.as_nanos() / NOTICE_SLACK);
        if !self.pinned && now.since(until) <= slack {
            return self.release_now(fx, now, None);
        }
        self.step_down(fx, now);
        self.yield_until = now + self.timings.ttl;
        self.next = now;
    }

    /// Pins the lease, or unpins it: see [`Action::Pin`](crate::Action::Pin).
    pub fn set_pinned(&mut self, pinned: bool) {
        self.pinned = pinned && self.lease.is_some();
    }

    /// Whether the lease is pinned.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// The token of the proposal in flight.
    fn proposed(&self) -> Option<Token> {
        match self.round {
            Round::Proposal { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Whether the candidate only waits for the end of its lease, because a hand-over has begun.
    pub(super) fn waits_for_end(&mut self) -> bool {
        let Some(begun) = &self.hand_over else { return false };
        self.next = begun.until;
        self.timings.bug != Some(Bug::LengthenAfterNotice)
    }

    /// Sets the health of the application. An unhealthy candidate hands over, and does not stand. A hand-over that has
    /// begun goes on when the application is healthy again.
    pub fn set_healthy(&mut self, fx: &mut impl Effects, now: Time, healthy: bool) {
        if healthy == std::mem::replace(&mut self.healthy, healthy) {
            return;
        }
        (self.stood_since, self.claimed, self.failed_claims) = (now, false, 0);
        if healthy {
            self.yield_until = now;
            self.next = self.next.min(now);
            return;
        }
        self.hand_over(fx, now, None);
        if self.lease.is_none() && self.is_contending() {
            self.lose(fx, now);
        }
    }

    /// A candidate of another node asks this leader to hand over. A hand-over that has begun keeps its target.
    pub fn on_claim(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, attribute: Attribute) {
        if attribute > self.attribute && self.hand_over.is_none() {
            self.hand_over(fx, now, Some(from));
        }
    }
}
