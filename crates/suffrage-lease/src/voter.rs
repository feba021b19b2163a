//! A voter: grants leases for many elections, and keeps no more of each than it must.
//!
//! What it must never do: promise a token twice, or a smaller one after a greater; grant a lease while
//! another's that it granted may still be believed in. A crash must not make it. But a write to the disk for
//! every promise would be slow, so it saves only a *ceiling*, in chunks, before it promises above it, and
//! the longest lease it has granted, before it grants it. After a restart it knows of nothing, takes every
//! token up to the ceiling for promised, and is silent until the longest lease must have run out.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message::{Ask, Grant, Name, Reply, Request, Token};
use super::queue::Queue;
use super::timings::{Bug, Timings};
use super::watchers::Watchers;
use suffrage_core::{Attribute, NodeId, Span, Start, Time};

/// By how much the ceiling is raised above what is to be promised.
pub const CHUNK: u64 = 1_000;

/// What outlives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// No greater token has been promised, of any election.
    pub ceiling: u64,
    /// No longer lease has been granted.
    pub longest: Span,
    /// False once it has lost its disk.
    pub voter: bool,
}

/// Carries out what a voter does.
pub trait Effects {
    /// Replaces what outlives a crash, durably, before anything else happens.
    fn save(&mut self, saved: Saved);
    /// Sends to a candidate.
    fn reply(&mut self, to: NodeId, name: Name, reply: Reply);
}

/// What a voter knows of one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Election {
    /// The greatest token that it promised or accepted.
    promised: u64,
    grant: Option<Grant>,
    /// When the grant expires. Without one: when the next one is woken, or all is forgotten.
    due: Time,
}

/// The memory that one held election takes at a voter at most, in bytes, without those who wait: its entries
/// in the two trees, whose nodes have room for eleven and hold five at least.
pub const MEMORY: usize = per_entry(size_of::<(Name, Election)>()) + per_entry(size_of::<(Time, Name)>());

/// An entry's share of a tree with the fewest entries its nodes can hold: six leaves of five entries, each
/// with a header of two words, for each inner node, which has as many and twelve children besides.
pub(crate) const fn per_entry(size: usize) -> usize {
    let leaf = 11 * size + 16;
    let inner = leaf + 12 * size_of::<usize>();
    (6 * leaf + inner).div_ceil(6 * 5 + 5)
}

/// A voter. Inputs: [`start`](Voter::start) once, then [`on_ask`](Voter::on_ask) and, when the moment of
/// [`next_due`](Voter::next_due) has come, [`on_due`](Voter::on_due).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Voter {
    timings: Timings,
    saved: Saved,
    /// Of every election it knows nothing of, all tokens up to this count as promised.
    floor: u64,
    /// Before this, it says nothing.
    silent_until: Time,
    elections: BTreeMap<Name, Election>,
    /// Who waits, where anybody does: only for elections it knows.
    queues: BTreeMap<Name, Queue>,
    /// Who is to be told of changes: only of elections it knows.
    watchers: Watchers,
    /// Elections whose promised token its holder has released: only elections it knows and that nobody holds. After a
    /// restart this is forgotten, which costs time and not safety.
    released: BTreeSet<Name>,
    /// The one timer for all: what is due, and when; an entry for each election.
    agenda: BTreeSet<(Time, Name)>,
}

impl Voter {
    /// A voter that begins to exist, or exists again.
    pub fn start(timings: Timings, fx: &mut impl Effects, now: Time, start: Start<Saved>) -> Voter {
        let blank = Saved { ceiling: 0, longest: Span::ZERO, voter: true };
        let (saved, floor, silence) = match start {
            Start::Fresh => (blank, 0, Span::ZERO),
            Start::Recovered(Some(saved)) => (saved, saved.ceiling, saved.longest),
            Start::Recovered(None) if timings.bug == Some(Bug::TrustEmptyDisk) => (blank, 0, Span::ZERO),
            // It saved something when it first started. What it promised is lost with its disk, and so is
            // the right to promise anything as the one it was.
            Start::Recovered(None) => (Saved { voter: false, ..blank }, 0, Span::ZERO),
        };
        let floor = if timings.bug == Some(Bug::ForgetCeiling) { 0 } else { floor };
        let silence = if timings.bug == Some(Bug::SkipSilence) { Span::ZERO } else { silence };
        fx.save(saved);
        Voter {
            timings,
            saved,
            floor,
            silent_until: now + silence,
            elections: BTreeMap::new(),
            queues: BTreeMap::new(),
            watchers: Watchers::default(),
            released: BTreeSet::new(),
            agenda: BTreeSet::new(),
        }
    }

    /// When [`on_due`](Voter::on_due) is to be called next.
    pub fn next_due(&self) -> Option<Time> {
        self.agenda.first().map(|&(due, _)| due)
    }

    /// How many elections it keeps anything of.
    pub fn len(&self) -> usize {
        self.elections.len()
    }

    /// Whether it keeps nothing of any election.
    pub fn is_empty(&self) -> bool {
        self.elections.is_empty()
    }

    /// Whether it may vote at all: not once it has lost its disk.
    pub fn votes(&self) -> bool {
        self.saved.voter
    }

    /// Before this, it says nothing: what it granted before it restarted may still be believed in.
    pub fn silent_until(&self) -> Time {
        self.silent_until
    }

    /// To whom it has granted this election, and until when.
    pub fn grant(&self, now: Time, name: Name) -> Option<(Grant, Time)> {
        self.live_grant(now, name).map(|grant| (grant, self.elections[&name].due))
    }

    /// Who is in the queue for this election, and how good a leader each would be.
    pub fn waiters(&self, name: Name) -> impl Iterator<Item = (NodeId, Attribute)> {
        self.queues.get(&name).into_iter().flat_map(Queue::iter)
    }

    /// A candidate says something.
    pub fn on_ask(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, name: Name, ask: Ask) {
        if !self.saved.voter || now < self.silent_until {
            return;
        }
        match ask {
            Ask::Prepare { request, token, attribute } => {
                let reply = self.on_prepare(fx, now, from, name, (request, token, attribute));
                fx.reply(from, name, reply);
            }
            // A lease that long is nobody's wish, and would have to be waited for after a restart.
            Ask::Propose { ttl, .. } if ttl.is_zero() || ttl > self.timings.longest_ttl => {}
            Ask::Propose { request, token, ttl, attribute, renewal } => {
                let grant = Grant { token, holder: from, attribute };
                let reply = self.on_propose(fx, now, name, (request, grant, ttl, renewal));
                fx.reply(from, name, reply);
            }
            Ask::Release { token, to } => self.on_release(fx, now, from, name, (token, to)),
            Ask::Enquire { request, standing } => {
                if let Some(attribute) = standing {
                    self.queue(now, name, from, attribute);
                }
                let grant = self.live_grant(now, name);
                fx.reply(from, name, Reply::Status { request, promised: self.promised(name), grant });
            }
            Ask::Watch { request } => {
                self.know(name, now + self.timings.gap);
                let number = self.watchers.join(name, from, now + self.timings.patience);
                let grant = self.live_grant(now, name);
                fx.reply(from, name, Reply::Watched { request, number, grant });
            }
        }
    }

    /// The election has changed hands: tells those who watch it.
    fn tell(&mut self, fx: &mut impl Effects, now: Time, name: Name, grant: Option<Grant>) {
        let (number, watchers) = self.watchers.on_change(name, now);
        for watcher in watchers {
            fx.reply(watcher, name, Reply::Changed { number, grant });
        }
    }

    /// The grant that has not expired.
    fn live_grant(&self, now: Time, name: Name) -> Option<Grant> {
        self.elections.get(&name).filter(|election| now < election.due)?.grant
    }

    /// What it answers to one who asks for what another holds. Nothing else changes but the queue: one that
    /// waits can never cost a leader its lease.
    fn held(
        &mut self,
        now: Time,
        name: Name,
        from: NodeId,
        request: Request,
        attribute: Attribute,
    ) -> Option<Reply> {
        let grant = self.live_grant(now, name).filter(|grant| grant.holder != from)?;
        self.queue(now, name, from, attribute);
        let remaining = self.elections[&name].due.since(now);
        Some(Reply::Held { request, grant, remaining })
    }

    /// The greatest token that counts as promised.
    fn promised(&self, name: Name) -> u64 {
        self.elections.get(&name).map_or(self.floor, |election| election.promised)
    }

    fn on_prepare(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: NodeId,
        name: Name,
        (request, token, attribute): (Request, Token, Attribute),
    ) -> Reply {
        let promised = self.promised(name);
        if let Some(held) = self.held(now, name, from, request, attribute) {
            if self.timings.bug == Some(Bug::BumpWhileHeld) && token.number() > promised {
                self.raise_ceiling(fx, token);
                self.elections.get_mut(&name).expect("it is held").promised = token.number();
            }
            return held;
        }
        let equal = self.timings.bug == Some(Bug::EqualTokens) && token.number() == promised;
        if token.number() <= promised && !equal {
            return Reply::Rejected { request, promised };
        }
        self.raise_ceiling(fx, token);
        self.released.remove(&name);
        // The candidate's own grant, if it has one, stays as it is.
        let live = self.live_grant(now, name).is_some();
        let soon = now + self.timings.gap;
        let election = self.know(name, soon);
        election.promised = token.number();
        if !live {
            let expired = election.grant.take().is_some();
            self.reschedule(name, soon);
            if expired {
                self.tell(fx, now, name, None);
            }
        }
        self.leave_queue(name, from);
        Reply::Promised { request }
    }

    fn on_propose(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        name: Name,
        (request, grant, ttl, renewal): (Request, Grant, Span, bool),
    ) -> Reply {
        if let Some(held) = self.held(now, name, grant.holder, request, grant.attribute) {
            return held;
        }
        let promised = self.promised(name);
        // A renewal that its own release has overtaken must not bring the lease back.
        let released = grant.token.number() == promised && self.released.contains(&name);
        if grant.token.number() < promised || released {
            return Reply::Rejected { request, promised };
        }
        self.raise_ceiling(fx, grant.token);
        self.released.remove(&name);
        if ttl > self.saved.longest {
            self.saved.longest = ttl;
            fx.save(self.saved);
        }
        // Never earlier than it was: the holder may count on what it was granted before.
        let earlier = self.live_grant(now, name).map(|_| self.elections[&name].due);
        let expires = earlier.unwrap_or(now).max(now + ttl);
        let election = self.know(name, expires);
        election.promised = grant.token.number();
        let before = election.grant.replace(grant).map(|before| (before.holder, before.token));
        self.reschedule(name, expires);
        self.leave_queue(name, grant.holder);
        if before != Some((grant.holder, grant.token)) {
            self.tell(fx, now, name, Some(grant));
        }
        Reply::Accepted { request, renewal }
    }

    /// The holder gives back what it holds. A late word about an earlier token says nothing about this one.
    ///
    /// The release may come before the proposal. A candidate releases only tokens that a majority promised it, so that
    /// no other candidate ever proposes them.
    fn on_release(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: NodeId,
        name: Name,
        (token, to): (Token, Option<NodeId>),
    ) {
        let grant = self.live_grant(now, name).map(|grant| (grant.holder, grant.token));
        let held = grant == Some((from, token));
        let known = self.elections.get(&name).is_some_and(|election| election.promised == token.number());
        // A token is released once and for all: a candidate that contends again takes a greater one.
        if known && (held || grant.is_none()) {
            self.released.insert(name);
        }
        if held {
            self.wake(fx, now, name, to);
        }
    }

    /// Nobody holds the election any more: wakes whose turn it is. The next one's comes if it is still vacant
    /// by then: in the order of ranks, one after the other, and so there is no herd.
    fn wake(&mut self, fx: &mut impl Effects, now: Time, name: Name, preferred: Option<NodeId>) {
        let (gap, patience) = (self.timings.gap, self.timings.patience);
        let election = self.elections.get_mut(&name).expect("it is on the agenda");
        let held = election.grant.take().is_some();
        let promised = election.promised;
        self.reschedule(name, now + gap);
        if held {
            self.tell(fx, now, name, None);
        }
        let Some(queue) = self.queues.get_mut(&name) else { return };
        if let Some(next) = queue.next(preferred, now, patience) {
            fx.reply(next, name, Reply::Vacant { promised });
        }
        if queue.is_empty() {
            self.queues.remove(&name);
        }
    }

    /// What is due is done.
    pub fn on_due(&mut self, fx: &mut impl Effects, now: Time) {
        while let Some(&(due, name)) = self.agenda.first()
            && due <= now
        {
            if self.elections[&name].grant.is_some() || self.queues.contains_key(&name) {
                self.wake(fx, now, name, None);
            } else if let Some(until) = self.watchers.watched_until(name, now) {
                self.reschedule(name, until);
            } else {
                self.forget(name);
            }
        }
    }

    /// Forgets an election that nobody holds or waits for. Its token must not go backwards, and so for all
    /// that are forgotten the greatest counts.
    fn forget(&mut self, name: Name) {
        let election = self.elections.remove(&name).expect("it is on the agenda");
        self.agenda.remove(&(election.due, name));
        self.released.remove(&name);
        self.floor = self.floor.max(election.promised);
    }

    /// What it knows of an election; if that is nothing, it does so from now on, until then at least.
    fn know(&mut self, name: Name, due: Time) -> &mut Election {
        let (floor, agenda) = (self.floor, &mut self.agenda);
        self.elections.entry(name).or_insert_with(|| {
            agenda.insert((due, name));
            Election { promised: floor, grant: None, due }
        })
    }

    fn reschedule(&mut self, name: Name, due: Time) {
        let election = self.elections.get_mut(&name).expect("what is scheduled is known");
        self.agenda.remove(&(election.due, name));
        self.agenda.insert((due, name));
        election.due = due;
    }

    /// Queues a candidate. Where nobody holds the election, others have a while to queue too before the best
    /// of them is woken.
    fn queue(&mut self, now: Time, name: Name, who: NodeId, attribute: Attribute) {
        if self.live_grant(now, name).is_none_or(|grant| grant.holder != who) {
            self.know(name, now + self.timings.gap);
            self.queues.entry(name).or_default().join(who, attribute, now, self.timings.patience);
        }
    }

    fn leave_queue(&mut self, name: Name, who: NodeId) {
        if let Some(queue) = self.queues.get_mut(&name)
            && queue.leave(who)
            && queue.is_empty()
        {
            self.queues.remove(&name);
        }
    }

    /// Makes sure that a restart will not let this token be promised again.
    fn raise_ceiling(&mut self, fx: &mut impl Effects, token: Token) {
        if token.number() > self.saved.ceiling {
            self.saved.ceiling = token.number().saturating_add(CHUNK);
            fx.save(self.saved);
        }
    }
}

#[cfg(test)]
mod tests;
