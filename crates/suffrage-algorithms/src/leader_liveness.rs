//! Liveness of the leader in the bully family: repeated announcements, and the age of the last one.

use super::LeaderBelief;
use suffrage_core::{Context, NodeId, Process, Span, Term, Time};

/// The time of the leader's last announcement, and the timers of repeated announcements.
///
/// The sources assume that no message is lost. For networks that lose messages, a leader may repeat its announcement
/// periodically. A follower that misses the announcement for three periods takes the leader for failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaderLiveness<T> {
    /// The period of announcements in message delays; `None` if announcements are not repeated.
    period: Option<u64>,
    /// Expires when the leader is due to repeat its announcement.
    reaffirm: T,
    /// Expires when a follower has missed the leader's announcements.
    silence: T,
    /// The last announced leader, and the time of the announcement.
    last_announcement: Option<(NodeId, Time)>,
}

impl<T: Copy> LeaderLiveness<T> {
    pub(crate) fn new(period: Option<u64>, reaffirm: T, silence: T) -> LeaderLiveness<T> {
        LeaderLiveness { period, reaffirm, silence, last_announcement: None }
    }

    /// Schedules the next announcement of this process, which leads and has just announced itself.
    pub(crate) fn start_reaffirming<P: Process<Timer = T>>(&mut self, cx: &mut Context<'_, P>) {
        self.record_announcement(cx, cx.me());
        if let Some(period) = self.period {
            cx.cancel_timer(self.silence);
            cx.set_timer(self.reaffirm, cx.delay_bound() * period);
        }
    }

    /// Starts the time-out for the leader's announcement at this process, which follows or is ready to follow.
    pub(crate) fn expect_reaffirmation<P: Process<Timer = T>>(&mut self, cx: &mut Context<'_, P>) {
        if let Some(period) = self.period {
            cx.cancel_timer(self.reaffirm);
            cx.set_timer(self.silence, cx.delay_bound() * (3 * period));
        }
    }

    /// Records an announcement, whether or not this process accepts it.
    pub(crate) fn record_announcement<P: Process>(&mut self, cx: &Context<'_, P>, leader: NodeId) {
        self.last_announcement = Some((leader, cx.now()));
    }

    /// Returns whether this process leads and has announced itself so recently that the announcement may still be on
    /// its way.
    pub(crate) fn self_announced_recently<P: Process>(
        &self,
        cx: &Context<'_, P>,
        belief: &LeaderBelief,
    ) -> bool {
        belief.is_leader(cx) && self.leader_announced_recently(cx, belief)
    }

    /// Returns whether the current leader, perhaps this process, was announced so recently that the announcement may
    /// still be on its way. A process that asks for a leader now is then about to receive the announcement.
    pub(crate) fn leader_announced_recently<P: Process>(
        &self,
        cx: &Context<'_, P>,
        belief: &LeaderBelief,
    ) -> bool {
        let round_trip = cx.delay_bound() * 2;
        let recent = |(leader, at)| belief.leader() == Some(leader) && is_within(cx, at, round_trip);
        self.last_announcement.is_some_and(recent)
    }

    /// Returns whether the announcement of `leader` may be older than that of a better leader, which overtook it:
    /// its term is not greater, or it comes too soon.
    ///
    /// An announcement of a better leader reaches all members within one message delay. A process that has announced
    /// a worse leader defers to the better one by then, or asks for the announcement to be repeated, which is not
    /// done within a round trip. Its earlier announcements take at most another delay.
    pub(crate) fn may_be_superseded<P: Process>(
        &self,
        cx: &Context<'_, P>,
        belief: &LeaderBelief,
        leader: NodeId,
        term: Term,
    ) -> bool {
        self.last_announcement.is_some_and(|(better, at)| {
            let too_soon = is_within(cx, at, cx.delay_bound() * 3);
            let contested = cx.view().outranks(better, leader) && !belief.is_suspected(better);
            contested && (too_soon || term <= belief.term())
        })
    }
}

/// Returns whether `at` is at most `span` ago. If the clock has gone back since, the answer is unknown and the
/// function returns false.
fn is_within<P: Process>(cx: &Context<'_, P>, at: Time, span: Span) -> bool {
    at <= cx.now() && cx.now().since(at) <= span
}
