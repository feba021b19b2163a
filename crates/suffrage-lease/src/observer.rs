//! One that only wants to know who leads: told of every change by the voters, without asking again and again.
//!
//! ```text
//!   o ──Watch──▶ 1, 2, 3          "who holds it? And tell me when that changes"
//!   o ◀──Watched── 1, 2, 3        a majority read: whoever holds the leases of a majority leads, as of now
//!   o ◀──Changed── 1, 2, 3        one delay after the voters granted, were released, or saw it expire
//!   o ──Watch──▶ 1, 2, 3          now and then, since voters forget those they do not hear from
//! ```
//!
//! What it says is what a majority of voters said last, and so it may be late by a message's delay; for what must
//! not be late there are tokens. Cost: `2V` messages every `poll`, and `V` for each grant and each end of one, for
//! every observer: those who wait to lead are not told this way, so that a handover
//! costs the same however many they are.

use super::message::{Ask, Grant, Reply, Request};
use super::timings::Timings;
use suffrage_core::{Announcement, NodeId, Time};

/// Carries out what an observer does.
pub trait Effects {
    /// Sends to a voter.
    fn ask(&mut self, voter: NodeId, ask: Ask);
    /// Tells whoever wants to know.
    fn announce(&mut self, announcement: Announcement);
}

/// What one voter said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word {
    grant: Option<Grant>,
    /// Which change it told of.
    number: u64,
    /// When it was heard.
    heard: Time,
    /// Whether that was after the last question: it was not overtaken by the answer then.
    recent: bool,
}

/// An observer of one election. Inputs: [`new`](Observer::new) once, then [`on_reply`](Observer::on_reply) and,
/// when the moment of [`next_due`](Observer::next_due) has come, [`on_due`](Observer::on_due).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observer {
    timings: Timings,
    voters: Vec<NodeId>,
    words: Vec<Option<Word>>,
    request: Request,
    /// Who leads, as far as it has said.
    leader: Option<Grant>,
    next: Time,
}

impl Observer {
    /// An observer of what these voters elect; its questions are counted from `first` on, which should not have
    /// been used before.
    pub fn new(
        voters: Vec<NodeId>,
        timings: Timings,
        first: Request,
        fx: &mut impl Effects,
        now: Time,
    ) -> Observer {
        let words = vec![None; voters.len()];
        let mut observer = Observer { timings, voters, words, request: first, leader: None, next: now };
        observer.watch(fx, now);
        observer
    }

    /// When [`on_due`](Observer::on_due) is to be called next.
    pub fn next_due(&self) -> Time {
        self.next
    }

    /// Who leads, according to a majority of the voters.
    pub fn leader(&self) -> Option<Grant> {
        self.leader
    }

    fn watch(&mut self, fx: &mut impl Effects, now: Time) {
        self.request = Request(self.request.0.wrapping_add(1));
        self.words.iter_mut().flatten().for_each(|word| word.recent = false);
        // Soon again where too few have said anything: what they were asked may be lost.
        let heard = self.words.iter().flatten().count();
        let pause = if heard > self.voters.len() / 2 { self.timings.poll } else { self.timings.round };
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
        // One that has not answered for so long may be dead, and what it said may be long past.
        let patience = self.timings.patience;
        for word in &mut self.words {
            *word = word.filter(|word| now.since(word.heard) <= patience);
        }
        self.conclude(fx);
        self.watch(fx, now);
    }

    /// A voter answers, or tells of a change.
    pub fn on_reply(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, reply: Reply) {
        let Some(place) = self.voters.iter().position(|&voter| voter == from) else { return };
        let known = self.words[place];
        let (number, grant, recent) = match reply {
            // A voter that has restarted counts anew. So an answer counts whatever its number is, unless the
            // voter has told of a later change since it was asked.
            Reply::Watched { request, number, grant } if request == self.request => {
                if known.is_some_and(|word| word.recent && word.number > number) {
                    return;
                }
                (number, grant, known.is_some_and(|word| word.recent))
            }
            Reply::Changed { number, grant } => {
                if known.is_some_and(|word| word.number >= number) {
                    return;
                }
                (number, grant, true)
            }
            _ => return,
        };
        self.words[place] = Some(Word { grant, number, heard: now, recent });
        self.conclude(fx);
    }

    /// Says who leads, if that is news.
    fn conclude(&mut self, fx: &mut impl Effects) {
        let grants: Vec<Grant> = self.words.iter().flatten().filter_map(|word| word.grant).collect();
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
