//! Those who take part in one election through this node, over HTTP: one leads, the others wait in line.
//!
//! Without I/O: inputs are the methods that take `now`, a moment on the node's clock.
//!
//! **What a client is promised.** A client counts its lease from the moment just before it sent its request,
//! which is the only moment that it and the node can agree on. Let that be the true moment `s`. The node reads
//! its clock when the request has come: `r`, at the true moment `s` or later. It answers with a span `v`, and
//! must not hand over before the client has ceased to lead by its own clock. The node's lease ends when its
//! clock shows `L`, and the session that it keeps for the client when it shows `S`; so whatever happens, it
//! leads until its clock shows `e = min(L, S)`, unless the client itself resigns. A node's clock that is fast
//! shows `e` at `s + (e - r) / (1 + drift)` at the earliest. A client's clock that is slow takes
//! `v / (1 - drift)` to get from `s` to the end of `v`. So `v <= (e - r) (1 - drift) / (1 + drift)`, which is
//! [`Drift::validity`] of `e - r`, rounded down to what is said in the answer.
//!
//! A client that has waited for `w` before it came to lead counts from before it began to wait, and `w` is part
//! of its `v`. That costs it `2 drift w`: hence [`longest_wait`].
//!
//! **What follows.** From the answer until `e` the leadership is the client's. Nobody else's wish ends it
//! earlier: an operator's, or the end of the daemon, *recalls* it. The client is told when it next renews, and
//! the node hands over when the client resigns, or when `e` has passed.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use suffrage_core::{Attribute, NodeId, Span, Time};
use suffrage_lease::Drift;

/// How many wait for one election at one node.
pub(super) const MOST_CLIENTS: usize = 1_000;
const SECOND: Span = Span::from_millis(1_000);
/// Nobody is kept waiting for an answer for longer.
const LONGEST_WAIT: Span = Span::from_millis(60_000);

/// What a client is known by. Whoever has it can renew and resign, so it is hard to guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Session(pub(super) u128);

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Enough to tell one from another, and too little to use.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session(..{:02x})", self.0 as u8)
    }
}

impl FromStr for Session {
    type Err = ();

    fn from_str(text: &str) -> Result<Session, ()> {
        let whole = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        whole.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(Session).ok_or(())
    }
}

/// How a client wants to take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) ttl: Span,
    pub(super) rank: Attribute,
}

/// The node's lease: its token, and until when it stands by the node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) token: u64,
    pub(super) until: Time,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It leads, for so long from just before it sent its request.
    Leads { token: u64, valid_for: Span },
    /// It does not yet, is in this place, and must ask again within this time.
    Waits { place: usize, keep: Span },
    /// Somebody has asked again in its name.
    Superseded,
    /// The daemon stops.
    Stopping,
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not lead, and does not wait.
    Lost,
    /// It has to give up what it leads.
    Recalled,
    /// Too many wait.
    Full,
    /// The daemon stops.
    Stopping,
}

/// What is to be done about the node's own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Rest,
    /// The first in line can have it: secure it, then [`grant`](Line::grant).
    Offer(Wish),
    /// Hand over: to that node, if there is one.
    Release(Option<NodeId>),
}

struct Client {
    session: Session,
    wish: Wish,
    /// When it asked, and when it must have an answer; none between two questions.
    poll: Option<(Time, Time)>,
    /// Until when its place is kept between two questions.
    keep_until: Time,
    /// How often it was answered. Before the first time it does not know its session, and cannot come back.
    answers: u32,
}

struct Holder {
    session: Session,
    ttl: Span,
    /// How often it was answered before it came to lead.
    answers: u32,
    /// Until when the session is kept unless it is renewed.
    until: Time,
    /// Until when it may believe to lead.
    promised: Time,
    /// That it was told to hand over, or will be.
    recalled: Option<Option<NodeId>>,
    /// That it has resigned.
    resigned: Option<Option<NodeId>>,
}

/// Those who take part in one election through this node.
pub(super) struct Line {
    drift: Drift,
    queue: VecDeque<Client>,
    holder: Option<Holder>,
    stopping: bool,
}

/// How long a place in line is kept for one that does not ask.
pub(super) fn keep(ttl: Span) -> Span {
    ttl.clamp(SECOND, SECOND * 10)
}

/// How long a client waits for an answer at most: such that it does not cost it more than a quarter of a lease.
pub(super) fn longest_wait(drift: Drift, ttl: Span) -> Span {
    match drift.fraction() {
        0.0 => LONGEST_WAIT,
        fraction => LONGEST_WAIT.min(ttl.scale(1.0 / (8.0 * fraction))),
    }
}

impl Line {
    pub(super) fn new(drift: Drift) -> Line {
        Line { drift, queue: VecDeque::new(), holder: None, stopping: false }
    }

    /// Somebody asks to lead: who came at `received`, and wants an answer within `wait`. One that says that it
    /// has asked before must still be in line.
    pub(super) fn campaign(
        &mut self,
        now: Time,
        received: Time,
        (session, returns): (Session, bool),
        wish: Wish,
        wait: Span,
    ) -> Result<(), Refusal> {
        if self.stopping {
            return Err(Refusal::Stopping);
        }
        if let Some(client) = self.queue.iter_mut().find(|client| client.session == session) {
            // What it said of its lease at first still holds.
            client.poll = Some((received, now + wait.min(longest_wait(self.drift, client.wish.ttl))));
            return Ok(());
        }
        if returns {
            return Err(Refusal::Lost);
        }
        if self.queue.len() >= MOST_CLIENTS {
            return Err(Refusal::Full);
        }
        let poll = Some((received, now + wait));
        self.queue.push_back(Client { session, wish, poll, keep_until: now, answers: 0 });
        Ok(())
    }

    /// The leader wants to lead for longer, and asked at `received`.
    pub(super) fn renew(
        &mut self,
        now: Time,
        received: Time,
        session: Session,
        lease: Option<Held>,
    ) -> Result<Answer, Refusal> {
        let drift = self.drift;
        let holder = self.holder.as_mut().filter(|holder| holder.session == session);
        let (Some(holder), Some(lease)) = (holder, lease) else { return Err(Refusal::Lost) };
        if now >= holder.until || holder.resigned.is_some() {
            return Err(Refusal::Lost);
        }
        if holder.recalled.is_some() {
            return Err(Refusal::Recalled);
        }
        holder.until = now + holder.ttl;
        Ok(holder.promise(drift, received, lease))
    }

    /// A client has stopped to lead, or does not want to any more.
    pub(super) fn resign(&mut self, session: Session, to: Option<NodeId>) -> Result<(), Refusal> {
        if let Some(holder) = self.holder.as_mut().filter(|holder| holder.session == session) {
            // What an operator wished for goes before.
            holder.resigned = Some(holder.recalled.flatten().or(to));
            return Ok(());
        }
        let before = self.queue.len();
        self.queue.retain(|client| client.session != session);
        if self.queue.len() < before { Ok(()) } else { Err(Refusal::Lost) }
    }

    /// Somebody else wants the node to hand over: how long that takes at most; none if no client leads.
    pub(super) fn recall(&mut self, now: Time, to: Option<NodeId>) -> Option<Span> {
        let holder = self.holder.as_mut()?;
        holder.recalled = Some(to);
        Some(holder.promised.since(now))
    }

    /// The daemon is to stop: nobody comes to lead any more.
    pub(super) fn stop(&mut self, now: Time, answers: &mut Vec<(Session, Answer)>) {
        self.stopping = true;
        self.recall(now, None);
        answers.extend(self.queue.drain(..).map(|client| (client.session, Answer::Stopping)));
    }

    /// Whatever has changed, or become due: says what is to be done about the lease, and whom to answer.
    pub(super) fn settle(
        &mut self,
        now: Time,
        lease: Option<Held>,
        answers: &mut Vec<(Session, Answer)>,
    ) -> Step {
        self.queue.retain(|client| client.poll.is_some() || now < client.keep_until);
        let offered = lease.is_some() && self.holder.is_none();
        for (place, client) in self.queue.iter_mut().enumerate() {
            // The first has what it waits for, however short.
            if place == 0 && offered {
                continue;
            }
            if client.poll.take_if(|(_, until)| *until <= now).is_some() {
                let keep = keep(client.wish.ttl);
                client.keep_until = now + keep;
                client.answers += 1;
                answers.push((client.session, Answer::Waits { place, keep }));
            }
        }
        if lease.is_none() {
            // A renewal that comes too late must not bring it back: the next client needs a token of its own.
            return if self.holder.take().is_some() { Step::Release(None) } else { Step::Rest };
        }
        if let Some(holder) = &self.holder {
            return match holder.over(now) {
                Some(to) => {
                    self.holder = None;
                    Step::Release(to)
                }
                None => Step::Rest,
            };
        }
        match self.queue.front() {
            Some(client) if client.poll.is_some() => Step::Offer(client.wish),
            // It is expected back; nobody has been told of this token.
            Some(_) => Step::Rest,
            None => Step::Release(None),
        }
    }

    /// The first in line leads by this lease, which nothing but time can end before it is told to.
    pub(super) fn grant(&mut self, now: Time, lease: Held) -> Option<(Session, Answer)> {
        self.queue.front().filter(|client| client.poll.is_some())?;
        let client = self.queue.pop_front()?;
        let (received, _) = client.poll?;
        let Client { session, wish: Wish { ttl, .. }, answers, .. } = client;
        let until = now + ttl;
        let mut holder =
            Holder { session, ttl, answers, until, promised: now, recalled: None, resigned: None };
        let answer = holder.promise(self.drift, received, lease);
        self.holder = Some(holder);
        Some((session, answer))
    }

    /// The client was not there any more to be told that it leads: it has its place again, for a while, if it can
    /// come back at all.
    pub(super) fn undelivered(&mut self, now: Time, wish: Wish) {
        if let Some(Holder { session, answers, .. }) = self.holder.take()
            && answers > 0
        {
            let keep_until = now + keep(wish.ttl);
            self.queue.push_front(Client { session, wish, poll: None, keep_until, answers });
        }
    }

    /// The client was not there any more to be told that it waits: it keeps its place for a while, if it can come
    /// back at all.
    pub(super) fn unheard(&mut self, session: Session) {
        self.queue.retain(|client| client.session != session || client.answers > 1);
    }

    /// What the node is to stand for, if it is to.
    pub(super) fn wish(&self) -> Option<Wish> {
        let first = self.queue.front().filter(|_| self.holder.is_none());
        first.map(|client| client.wish)
    }

    /// Whether this client leads.
    pub(super) fn is_held_by(&self, session: Session) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.session == session)
    }

    /// Whether a client leads.
    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// Whether nobody leads or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.holder.is_none() && self.queue.is_empty()
    }

    /// When [`settle`](Line::settle) is to be called, if nothing happens before.
    pub(super) fn next_due(&self) -> Time {
        let holder = self.holder.as_ref().map(Holder::ends);
        let clients = self.queue.iter().map(|it| it.poll.map_or(it.keep_until, |(_, until)| until));
        holder.into_iter().chain(clients).min().unwrap_or(Time::MAX)
    }
}

impl Holder {
    fn promise(&mut self, drift: Drift, received: Time, lease: Held) -> Answer {
        let end = lease.until.min(self.until);
        self.promised = self.promised.max(end);
        Answer::Leads { token: lease.token, valid_for: drift.validity(end.since(received)) }
    }

    fn ends(&self) -> Time {
        if self.recalled.is_some() { self.promised.min(self.until) } else { self.until }
    }

    /// Whether it leads no longer, and who is to.
    fn over(&self, now: Time) -> Option<Option<NodeId>> {
        self.resigned.or_else(|| (now >= self.ends()).then_some(self.recalled.flatten()))
    }
}

#[cfg(test)]
mod tests;
