//! How a leader of the bully family keeps its followers, and how long its word is fresh.

use super::Outlook;
use suffrage_core::{Context, NodeId, Process, Span, Term, Time};

/// When the leader was last heard of, and what is done about its silence.
///
/// The sources assume that no message is lost. For networks that lose some, a leader may repeat its
/// announcement periodically; a follower that misses it for three periods takes it for dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenure<T> {
    /// In message delays; none if announcements are not repeated.
    period: Option<u64>,
    /// Runs out when a leader is to repeat its announcement.
    reaffirm: T,
    /// Runs out when a follower has missed the leader's word.
    silence: T,
    /// Who announced itself last, or was announced, and when.
    heard: Option<(NodeId, Time)>,
}

impl<T: Copy> Tenure<T> {
    pub(crate) fn new(period: Option<u64>, reaffirm: T, silence: T) -> Tenure<T> {
        Tenure { period, reaffirm, silence, heard: None }
    }

    /// This process leads and has just said so: it will again.
    pub(crate) fn lead<P: Process<Timer = T>>(&mut self, cx: &mut Context<'_, P>) {
        self.hear(cx, cx.me());
        if let Some(period) = self.period {
            cx.cancel_timer(self.silence);
            cx.set_timer(self.reaffirm, cx.delay_bound() * period);
        }
    }

    /// This process follows, or is ready to: it expects to hear the leader's word again.
    pub(crate) fn follow<P: Process<Timer = T>>(&mut self, cx: &mut Context<'_, P>) {
        if let Some(period) = self.period {
            cx.cancel_timer(self.reaffirm);
            cx.set_timer(self.silence, cx.delay_bound() * (3 * period));
        }
    }

    /// Takes note of an announcement, believed or not.
    pub(crate) fn hear<P: Process>(&mut self, cx: &Context<'_, P>, leader: NodeId) {
        self.heard = Some((leader, cx.now()));
    }

    /// Whether this process has announced itself so lately that not everybody need have heard it.
    pub(crate) fn is_announcing<P: Process>(&self, cx: &Context<'_, P>, outlook: &Outlook) -> bool {
        outlook.leads(cx) && self.is_fresh(cx, outlook)
    }

    /// Whether the leader believed in, perhaps this process, was announced so lately that not everybody
    /// need have heard it: whoever asks for a leader now is about to.
    pub(crate) fn is_fresh<P: Process>(&self, cx: &Context<'_, P>, outlook: &Outlook) -> bool {
        let round_trip = cx.delay_bound() * 2;
        let news = |(leader, at)| outlook.leader() == Some(leader) && is_within(cx, at, round_trip);
        self.heard.is_some_and(news)
    }

    /// Whether the announcement of `leader` may be older than that of a better one, which overtook it:
    /// its term is no later, or it comes too soon.
    ///
    /// A better one that announces itself is heard by everybody within a message delay. Whoever speaks
    /// for a worse one gives way by then, or asks for the announcement to be repeated, which is not
    /// done within a round trip; and what it has said before takes at most another delay.
    pub(crate) fn doubts<P: Process>(
        &self,
        cx: &Context<'_, P>,
        outlook: &Outlook,
        leader: NodeId,
        term: Term,
    ) -> bool {
        self.heard.is_some_and(|(better, at)| {
            let too_soon = is_within(cx, at, cx.delay_bound() * 3);
            let contested = cx.view().outranks(better, leader) && !outlook.suspects(better);
            contested && (too_soon || term <= outlook.term())
        })
    }
}

/// Whether it happened no longer ago than that. If the clock has jumped back since, nobody knows: it did not.
fn is_within<P: Process>(cx: &Context<'_, P>, at: Time, span: Span) -> bool {
    at <= cx.now() && cx.now().since(at) <= span
}
