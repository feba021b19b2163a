//! An observer of an election: voters notify it of every change of the leader, so that it need not poll.
//!
//! ```text
//!   o ──Watch──▶ 1, 2, 3          asks who holds the lease, and subscribes to changes
//!   o ◀──Watched── 1, 2, 3        a majority read: the holder of a majority's grants leads at this moment
//!   o ◀──Changed── 1, 2, 3        one delay after a grant, a release or an expiry
//!   o ──Watch──▶ 1, 2, 3          every `poll`, because voters drop silent watchers
//! ```
//!
//! The observed leader is what a majority of voters said last, so it may be out of date by one message delay. Work that
//! must not be done by an old leader needs fencing tokens. Cost for each observer: `2V` messages every `poll`, and `V`
//! messages for each grant and each end of a grant. Waiting candidates are not notified in this way, so that the cost
//! of a hand-over does not grow with their number.

use super::message::{Ask, Grant, Reply, Request};
use super::timings::Timings;
use suffrage_core::{Announcement, NodeId, Time};

/// The effects of an observer.
pub trait Effects {
    /// Sends to a voter.
    fn ask(&mut self, voter: NodeId, ask: Ask);
    /// Announces the leader.
    fn announce(&mut self, announcement: Announcement);
}

/// The last reply of one voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LastReply {
    grant: Option<Grant>,
    /// The number of the voter's last change.
    number: u64,
    /// When the reply arrived.
    received: Time,
    /// Whether this is a notice that arrived after the last `Watch` was sent. A `Watched` with a smaller number is then
    /// older than the notice.
    since_watch: bool,
}

/// An observer of one election. Inputs: [`new`](Observer::new) once, then [`on_reply`](Observer::on_reply) and,
/// when the moment of [`next_due`](Observer::next_due) has come, [`on_due`](Observer::on_due).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observer {
    timings: Timings,
    voters: Vec<NodeId>,
    last_replies: Vec<Option<LastReply>>,
    request: Request,
    /// The leader that was announced last.
    leader: Option<Grant>,
    next: Time,
}

impl Observer {
    /// An observer of the election of these voters. The ids of its requests begin with `first`, which must not have
    /// been used before.
    pub fn new(
        voters: Vec<NodeId>,
        timings: Timings,
        first: Request,
        fx: &mut impl Effects,
        now: Time,
    ) -> Observer {
        let last_replies = vec![None; voters.len()];
        let mut observer =
            Observer { timings, voters, last_replies, request: first, leader: None, next: now };
        observer.watch(fx, now);
        observer
    }

    /// When [`on_due`](Observer::on_due) is to be called next.
    pub fn next_due(&self) -> Time {
        self.next
    }

    /// The leader according to a majority of the voters.
    pub fn leader(&self) -> Option<Grant> {
        self.leader
    }

    fn watch(&mut self, fx: &mut impl Effects, now: Time) {
        self.request = Request(self.request.0.wrapping_add(1));
        self.last_replies.iter_mut().flatten().for_each(|last| last.since_watch = false);
        // If too few voters have replied, the observer asks again soon: requests or replies may be lost.
        let received = self.last_replies.iter().flatten().count();
        let pause = if received > self.voters.len() / 2 { self.timings.poll } else { self.timings.round };
        self.next = now + pause;
        for &voter in &self.voters {
            fx.ask(voter, Ask::Watch { request: self.request });
        }
    }

    /// The moment of [`next_due`](Observer::next_due) has come.
    pub fn on_due(&mut self, fx: &mut impl Effects, now: Time) {
        if now < self.next {
            return;
        }
        // A voter that has been silent for so long may be dead, and its last reply out of date.
        let stale_after = self.timings.stale_after;
        for last in &mut self.last_replies {
            *last = last.filter(|last| now.since(last.received) <= stale_after);
        }
        self.update_leader(fx);
        self.watch(fx, now);
    }

    /// A reply or a notice of a voter has arrived.
    pub fn on_reply(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, reply: Reply) {
        let Some(index) = self.voters.iter().position(|&voter| voter == from) else { return };
        let known = self.last_replies[index];
        let (number, grant, since_watch) = match reply {
            // A restarted voter counts its changes from 0 again. So a reply is accepted whatever its number is, unless
            // a notice of a later change has arrived since the request was sent.
            Reply::Watched { request, number, grant } if request == self.request => {
                if known.is_some_and(|last| last.since_watch && last.number > number) {
                    return;
                }
                (number, grant, known.is_some_and(|last| last.since_watch))
            }
            Reply::Changed { number, grant } => {
                if known.is_some_and(|last| last.number >= number) {
                    return;
                }
                (number, grant, true)
            }
            _ => return,
        };
        self.last_replies[index] = Some(LastReply { grant, number, received: now, since_watch });
        self.update_leader(fx);
    }

    /// Announces the leader if it has changed.
    fn update_leader(&mut self, fx: &mut impl Effects) {
        let grants: Vec<Grant> = self.last_replies.iter().flatten().filter_map(|last| last.grant).collect();
        let holders = |holder| grants.iter().filter(|grant| grant.holder == holder).count();
        let elected = grants.iter().filter(|grant| holders(grant.holder) > self.voters.len() / 2);
        let elected = elected.max_by_key(|grant| grant.token).copied();
        let news = |grant: Option<Grant>| grant.map(|grant| (grant.holder, grant.token));
        if news(std::mem::replace(&mut self.leader, elected)) != news(elected) {
            fx.announce(match elected {
                Some(grant) => Announcement::Elected { leader: grant.holder, term: grant.token.into() },
                None => Announcement::Undecided,
            });
        }
    }
}

#[cfg(test)]
mod tests;
