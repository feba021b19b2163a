//! The clients of one election at one node: one holds the lease, the others wait in the order in which they came.
//!
//! The [parent module](super) says what a client is promised, and why that holds.

use std::collections::VecDeque;

use suffrage_core::{NodeId, Span, Time};

use super::connection::{ConnectionEnd, ConnectionState, LossReason};
use super::{
    Arrival, CampaignRequest, ClientValue, LeaseRequest, RequestId, SessionConfig, SessionError, SessionId,
    SessionOutcome, SessionReply,
};
use crate::{Bug, Value};

/// The greatest number of clients that wait for one election at one node.
pub const MAX_CLIENTS: usize = 1_000;
/// The longest time that a request waits for its reply.
pub const LONGEST_WAIT: Span = Span::from_millis(60_000);

/// The node's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeLease {
    /// The fencing token.
    pub token: u64,
    /// Until when the node leads, by the node's clock.
    pub until: Time,
}

/// What the caller must do about the node's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// Nothing.
    None,
    /// Pin the lease for the first client, then [`grant`](SessionQueue::grant) it.
    Offer(LeaseRequest),
    /// Release the lease: to that node, if one is named.
    Release(Option<NodeId>),
}

/// A request that waits for its reply: a long poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Poll {
    request: RequestId,
    /// The moment at which the request began to wait: when the node handled it. What a slow node needs before that is no
    /// wait, because it needs as long for the next request.
    since: Time,
    answer_by: Time,
}

/// An open connection of a client that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Connected {
    request: RequestId,
    /// The place in the queue that the client was told.
    told: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    session: SessionId,
    lease: LeaseRequest,
    value: ClientValue,
    /// When the client came.
    since: Time,
    /// None between two requests of the client.
    poll: Option<Poll>,
    /// Set for a client by connection.
    connection: Option<Connected>,
    /// Until when the place is kept between two requests.
    keep_until: Time,
    /// The request whose reply told the client its session. Without that reply the client cannot come back.
    introduced_by: Option<RequestId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    session: SessionId,
    lease: LeaseRequest,
    value: ClientValue,
    /// When the client came, and how long it had waited when it was given the lease.
    since: Time,
    waited: Span,
    introduced_by: Option<RequestId>,
    /// The request whose reply told the client that it leads; none once it has renewed.
    granted_by: Option<RequestId>,
    /// Until when the session is kept unless the client renews it.
    until: Time,
    /// Until when the client may believe that it leads.
    promised: Time,
    /// Set if the lease is to be handed over: to that node, if one is named.
    revoked: Option<Option<NodeId>>,
    /// Set if the client has resigned: in favour of that node, if one is named.
    resigned: Option<Option<NodeId>>,
    /// Set for a client by connection.
    connection: Option<HolderConnection>,
}

/// The connection of a client that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HolderConnection {
    Open {
        request: RequestId,
        /// Whether the client was told that the lease is to be handed over.
        hand_over: bool,
    },
    /// The client may rely on what it was told.
    Broken,
}

/// The clients of one election at one node.
///
/// Inputs are the methods that take `now`, a moment on the node's clock. After each of them
/// [`reconcile`](SessionQueue::reconcile) is to be called, and when the moment of
/// [`next_due`](SessionQueue::next_due) has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionQueue {
    config: SessionConfig,
    waiters: VecDeque<Waiter>,
    holder: Option<Holder>,
    /// The client that the node's lease with this token is for. No other client gets that lease.
    lease_for: Option<(u64, SessionId)>,
    stopping: bool,
}

impl SessionQueue {
    /// A queue without clients.
    pub fn new(config: SessionConfig) -> SessionQueue {
        SessionQueue { config, waiters: VecDeque::new(), holder: None, lease_for: None, stopping: false }
    }

    /// A client asks to lead. A client that has a session must lead or wait still.
    pub fn campaign(
        &mut self,
        now: Time,
        arrival: Arrival,
        campaign: CampaignRequest,
        held: Option<NodeLease>,
        replies: &mut Vec<(RequestId, SessionOutcome)>,
    ) {
        let Arrival { request, received, new_session } = arrival;
        let CampaignRequest { session, lease, wait, value } = campaign;
        if let (Some(session), Some(value)) = (session, &value) {
            self.set_value(session, value.clone());
        }
        if let Some(session) = session.filter(|&session| self.is_held_by(session)) {
            // The client leads already: the reply that said so may have been lost.
            return replies.push((request, self.renew(now, session, held)));
        }
        if self.stopping {
            return replies.push((request, Err(SessionError::Stopping)));
        }
        if let (Some(Bug::SharedLease), Some(_), Some(held)) = (self.config.bug, &self.holder, held) {
            let valid_for = self.config.drift.validity(held.until.since(now));
            let (session, token, waited) = (new_session, held.token, Span::ZERO);
            return replies.push((request, Ok(SessionReply::Leading { session, token, valid_for, waited })));
        }
        if let Some(session) = session {
            let waits = |waiter: &&mut Waiter| waiter.session == session && waiter.connection.is_none();
            let Some(waiter) = self.waiters.iter_mut().find(waits) else {
                return replies.push((request, Err(SessionError::Expired)));
            };
            // The ttl and the rank of the client's first request still hold.
            let answer_by = now + wait.min(LONGEST_WAIT);
            if let Some(earlier) = waiter.poll.replace(Poll { request, since: now, answer_by }) {
                replies.push((earlier.request, Ok(SessionReply::Superseded)));
            }
            return;
        }
        if self.waiters.len() >= MAX_CLIENTS {
            return replies.push((request, Err(SessionError::QueueFull)));
        }
        let answer_by = now + wait.min(LONGEST_WAIT);
        self.waiters.push_back(Waiter {
            session: new_session,
            lease,
            value: value.unwrap_or_default(),
            since: received,
            poll: Some(Poll { request, since: now, answer_by }),
            connection: None,
            keep_until: now,
            introduced_by: None,
        });
    }

    /// A client asks to lead for as long as its connection stays open.
    pub fn hold(
        &mut self,
        arrival: Arrival,
        (lease, value): (LeaseRequest, Option<Value>),
        replies: &mut Vec<(RequestId, SessionOutcome)>,
    ) {
        let Arrival { request, received: since, new_session: session } = arrival;
        if self.stopping {
            return replies.push((request, Err(SessionError::Stopping)));
        }
        if self.waiters.len() >= MAX_CLIENTS {
            return replies.push((request, Err(SessionError::QueueFull)));
        }
        self.waiters.push_back(Waiter {
            session,
            lease,
            value: ClientValue { order: 0, value },
            since,
            poll: None,
            connection: Some(Connected { request, told: None }),
            keep_until: Time::MAX,
            introduced_by: None,
        });
    }

    /// Sets the value of a client that leads or waits. False if there is no such client.
    pub fn set_value(&mut self, session: SessionId, value: ClientValue) -> bool {
        let holder = self.holder.as_mut().filter(|holder| holder.session == session);
        let own = holder.map(|holder| &mut holder.value);
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.session == session);
        let Some(own) = own.or(waiter.map(|waiter| &mut waiter.value)) else { return false };
        if value.order >= own.order {
            *own = value;
        }
        true
    }

    /// The value of the client that leads, or of the first that waits.
    pub fn value(&self) -> Option<&Value> {
        match &self.holder {
            Some(holder) => holder.value.value.as_ref(),
            None => self.waiters.front()?.value.value.as_ref(),
        }
    }

    /// The connection of a client has ended.
    pub fn on_connection_end(&mut self, now: Time, request: RequestId, end: ConnectionEnd) {
        self.waiters.retain(|waiter| waiter.connection.is_none_or(|it| it.request != request));
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.is_connected_by(request)) else {
            return;
        };
        match (end, self.config.bug) {
            (ConnectionEnd::HolderGone, Some(Bug::KeepDeadHolder)) => {}
            (ConnectionEnd::Broken, Some(Bug::ReleaseWhenBroken)) | (ConnectionEnd::HolderGone, _) => {
                holder.connection = Some(HolderConnection::Broken);
                holder.resigned = holder.resigned.or(Some(holder.revoked.flatten()));
                holder.promised = now;
            }
            (ConnectionEnd::Broken, _) => {
                holder.connection = Some(HolderConnection::Broken);
                holder.until = holder.promised;
            }
        }
    }

    /// The client that leads wants to lead for longer.
    pub fn renew(&mut self, now: Time, session: SessionId, held: Option<NodeLease>) -> SessionOutcome {
        let config = self.config;
        let holder = self.holder.as_mut().filter(|holder| holder.session == session);
        let (Some(holder), Some(held)) = (holder, held) else { return Err(SessionError::Expired) };
        // A client by connection does not renew: its leadership ends with the connection.
        if now >= holder.until || holder.resigned.is_some() || holder.connection.is_some() {
            return Err(SessionError::Expired);
        }
        if holder.revoked.is_some() {
            return Err(SessionError::Revoked);
        }
        holder.until = now + holder.lease.ttl;
        holder.granted_by = None;
        Ok(holder.promise(now, &config, held))
    }

    /// A client has stopped leading, or does not want to lead any more.
    pub fn resign(
        &mut self,
        session: SessionId,
        to: Option<NodeId>,
        replies: &mut Vec<(RequestId, SessionOutcome)>,
    ) -> SessionOutcome {
        if let Some(holder) = self.holder.as_mut().filter(|holder| holder.session == session) {
            // The node that an operator has named goes first.
            holder.resigned = Some(holder.revoked.flatten().or(to));
            return Ok(SessionReply::Resigned);
        }
        let position = self.waiters.iter().position(|waiter| waiter.session == session);
        let Some(waiter) = position.and_then(|position| self.waiters.remove(position)) else {
            return Err(SessionError::Expired);
        };
        replies.extend(waiter.poll.map(|poll| (poll.request, Ok(SessionReply::Superseded))));
        let ended = SessionReply::Connection(ConnectionState::Ended(LossReason::Resigned));
        replies.extend(waiter.connection.map(|connection| (connection.request, Ok(ended))));
        Ok(SessionReply::Resigned)
    }

    /// Asks the client that leads to hand over. Returns how long that takes at most; none if no client leads.
    pub fn revoke(&mut self, now: Time, to: Option<NodeId>) -> Option<Span> {
        let holder = self.holder.as_mut()?;
        holder.revoked = Some(to);
        if self.config.bug == Some(Bug::RevokeAtOnce) {
            holder.promised = now;
        }
        Some(holder.promised.since(now))
    }

    /// Stops the queue: no client starts to lead any more, and the client that leads is told to stop.
    pub fn stop(&mut self, now: Time, replies: &mut Vec<(RequestId, SessionOutcome)>) {
        self.stopping = true;
        self.revoke(now, None);
        self.fail_all(SessionError::Stopping, replies);
    }

    /// Refuses all waiting clients.
    pub fn fail_all(&mut self, error: SessionError, replies: &mut Vec<(RequestId, SessionOutcome)>) {
        let requests = self.waiters.drain(..).filter_map(|waiter| {
            let poll = waiter.poll.map(|poll| poll.request);
            poll.or(waiter.connection.map(|connection| connection.request))
        });
        replies.extend(requests.map(|request| (request, Err(error))));
    }

    /// Called after every change and when due. Returns what to do about the lease, and answers requests that have
    /// waited long enough.
    pub fn reconcile(
        &mut self,
        now: Time,
        held: Option<NodeLease>,
        replies: &mut Vec<(RequestId, SessionOutcome)>,
    ) -> QueueAction {
        self.waiters.retain(|waiter| waiter.is_present() || now < waiter.keep_until);
        let offered = held.is_some() && self.holder.is_none();
        for (queue_position, waiter) in self.waiters.iter_mut().enumerate() {
            // The first client gets the lease that the node holds, however short its wait is.
            if queue_position == 0 && offered {
                continue;
            }
            if let Some(Poll { request, .. }) = waiter.poll.take_if(|poll| poll.answer_by <= now) {
                let retry_before = self.config.retry_before(waiter.lease.ttl);
                waiter.keep_until = now + retry_before;
                waiter.introduced_by.get_or_insert(request);
                let session = waiter.session;
                replies.push((request, Ok(SessionReply::Waiting { session, queue_position, retry_before })));
            }
            if let Some(connected) = waiter.connection.as_mut().filter(|it| it.told != Some(queue_position)) {
                connected.told = Some(queue_position);
                let waiting = ConnectionState::Waiting { queue_position };
                replies.push((connected.request, Ok(SessionReply::Connection(waiting))));
            }
        }
        let Some(held) = held else {
            // A late renewal of the node's lease must not bring it back: the next client needs a token of its own.
            let Some(holder) = self.holder.take() else { return QueueAction::None };
            holder.tell_end(LossReason::Expired, replies);
            return QueueAction::Release(None);
        };
        if let Some(mut holder) = self.holder.take() {
            if let Some(to) = holder.ended(now) {
                let resigned = holder.resigned.is_some();
                let reason = if resigned { LossReason::Resigned } else { LossReason::HandedOver };
                holder.tell_end(reason, replies);
                return QueueAction::Release(to);
            }
            holder.tell_changes(held, self.config.bug, replies);
            self.holder = Some(holder);
            return QueueAction::None;
        }
        let Some(first) = self.waiters.front() else { return QueueAction::Release(None) };
        let known = self.lease_for.filter(|(token, _)| *token == held.token);
        let (_, session) = *self.lease_for.insert(known.unwrap_or((held.token, first.session)));
        if session != first.session {
            // The client has left. Candidates of other nodes have their chance before the next client.
            return QueueAction::Release(None);
        }
        // A client that is not present is expected to ask again. No other client has been told this token.
        if first.is_present() { QueueAction::Offer(first.lease) } else { QueueAction::None }
    }

    /// Tells the first client its turn, if its request has waited for too long to begin a lease. False if it has not: the
    /// client can be [given](SessionQueue::grant) the lease.
    pub fn tell_turn(&mut self, now: Time, replies: &mut Vec<(RequestId, SessionOutcome)>) -> bool {
        let Some(waiter) = self.waiters.front_mut() else { return false };
        let longest = self.config.longest_direct_wait(waiter.lease.ttl);
        let Some(Poll { request, .. }) = waiter.poll.take_if(|poll| now.since(poll.since) > longest) else {
            return false;
        };
        let retry_before = self.config.turn(waiter.lease.ttl);
        let endless = self.config.bug == Some(Bug::EndlessTurn);
        waiter.keep_until = if endless { Time::MAX } else { now + retry_before };
        waiter.introduced_by.get_or_insert(request);
        let (session, waited) = (waiter.session, now.since(waiter.since));
        replies.push((request, Ok(SessionReply::YourTurn { session, retry_before, waited })));
        true
    }

    /// Gives this pinned lease to the first client. Only its expiry ends it before the client is told to stop.
    pub fn grant(&mut self, now: Time, held: NodeLease, replies: &mut Vec<(RequestId, SessionOutcome)>) {
        if !self.waiters.front().is_some_and(Waiter::is_present) {
            return;
        }
        let Some(waiter) = self.waiters.pop_front() else { return };
        let Waiter { session, lease, value, since, poll, connection, introduced_by, .. } = waiter;
        let waited = now.since(since);
        if let Some(Connected { request, .. }) = connection {
            let mut holder = Holder {
                session,
                lease,
                value,
                since,
                waited,
                introduced_by: None,
                granted_by: None,
                until: Time::MAX,
                promised: now,
                revoked: None,
                resigned: None,
                connection: Some(HolderConnection::Open { request, hand_over: false }),
            };
            holder.tell_changes(held, self.config.bug, replies);
            self.holder = Some(holder);
            return;
        }
        let Some(Poll { request, .. }) = poll else { return };
        let mut holder = Holder {
            session,
            lease,
            value,
            since,
            waited,
            introduced_by: introduced_by.or(Some(request)),
            granted_by: Some(request),
            until: now + lease.ttl,
            promised: now,
            revoked: None,
            resigned: None,
            connection: None,
        };
        let reply = holder.promise(now, &self.config, held);
        self.holder = Some(holder);
        replies.push((request, Ok(reply)));
    }

    /// Nobody has read the reply to this request, and nobody ever will. A client that knows its session from an
    /// earlier reply keeps its place for a while; a client that does not cannot come back.
    pub fn on_reply_undelivered(&mut self, now: Time, request: RequestId) {
        self.on_hang_up(now, request);
        self.waiters.retain(|waiter| waiter.introduced_by != Some(request));
        let Some(holder) = self.holder.take_if(|holder| holder.granted_by == Some(request)) else { return };
        if holder.introduced_by != Some(request) && !self.stopping {
            let Holder { session, lease, ref value, since, introduced_by, .. } = holder;
            let keep_until = now + self.config.retry_before(lease.ttl);
            let (poll, connection) = (None, None);
            self.waiters.push_front(Waiter {
                session,
                lease,
                value: value.clone(),
                since,
                poll,
                connection,
                keep_until,
                introduced_by,
            });
        }
        if holder.revoked.is_some() {
            // The operator was told that the node hands over.
            self.holder = Some(Holder { resigned: holder.revoked, ..holder });
        }
    }

    /// The client does not wait for the answer to this request any more. If the request is answered already, the
    /// client may have read the reply, and nothing changes.
    pub fn on_hang_up(&mut self, now: Time, request: RequestId) {
        if self.config.bug == Some(Bug::UndoAfterReply) {
            self.holder.take_if(|holder| holder.granted_by == Some(request));
        }
        for waiter in &mut self.waiters {
            if waiter.poll.take_if(|poll| poll.request == request).is_some() {
                let known = waiter.introduced_by.is_some();
                waiter.keep_until =
                    if known { now + self.config.retry_before(waiter.lease.ttl) } else { now };
            }
        }
    }

    /// The lease that the node is to campaign for, if any.
    pub fn wanted(&self) -> Option<LeaseRequest> {
        let first = self.waiters.front().filter(|_| self.holder.is_none());
        first.map(|waiter| waiter.lease)
    }

    /// Whether this client leads.
    pub fn is_held_by(&self, session: SessionId) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.session == session)
    }

    /// Whether a client leads whose connection is open: it is to be told every renewal of the node's lease.
    pub fn is_held_by_connection(&self) -> bool {
        let connection = self.holder.as_ref().and_then(|holder| holder.connection);
        matches!(connection, Some(HolderConnection::Open { .. }))
    }

    /// Whether a client leads.
    pub fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// Whether no client leads or waits.
    pub fn is_empty(&self) -> bool {
        self.holder.is_none() && self.waiters.is_empty()
    }

    /// When [`reconcile`](SessionQueue::reconcile) is to be called, if nothing happens before.
    pub fn next_due(&self) -> Time {
        let holder = self.holder.as_ref().map(Holder::ends_at);
        let waiters = self.waiters.iter().map(|it| it.poll.map_or(it.keep_until, |poll| poll.answer_by));
        holder.into_iter().chain(waiters).min().unwrap_or(Time::MAX)
    }
}

impl Waiter {
    /// Whether the client can be given a lease now.
    fn is_present(&self) -> bool {
        self.poll.is_some() || self.connection.is_some()
    }
}

impl Holder {
    fn is_connected_by(&self, request: RequestId) -> bool {
        matches!(self.connection, Some(HolderConnection::Open { request: it, .. }) if it == request)
    }

    /// Tells a client by connection that the node's lease was renewed, or that it is to be handed over. Nothing is
    /// promised any more after that.
    fn tell_changes(
        &mut self,
        held: NodeLease,
        bug: Option<Bug>,
        replies: &mut Vec<(RequestId, SessionOutcome)>,
    ) {
        let Some(HolderConnection::Open { request, hand_over }) = &mut self.connection else { return };
        let wanted = self.revoked.is_some();
        if *hand_over == wanted && (wanted || held.until <= self.promised) {
            return;
        }
        *hand_over = wanted;
        if !wanted {
            self.promised = held.until;
        }
        let beyond = if bug == Some(Bug::DeadlineBeyondLease) { self.lease.ttl } else { Span::ZERO };
        let (session, token, until) = (self.session, held.token, self.promised + beyond);
        let leading = ConnectionState::Leading { session, token, until, hand_over: wanted };
        replies.push((*request, Ok(SessionReply::Connection(leading))));
    }

    fn tell_end(&self, reason: LossReason, replies: &mut Vec<(RequestId, SessionOutcome)>) {
        if let Some(HolderConnection::Open { request, .. }) = self.connection {
            replies.push((request, Ok(SessionReply::Connection(ConnectionState::Ended(reason)))));
        }
    }

    /// Promises the client its lease, from the reply on. A client that counts from before its request promises itself less.
    fn promise(&mut self, now: Time, config: &SessionConfig, held: NodeLease) -> SessionReply {
        let end = held.until.min(self.until);
        self.promised = self.promised.max(end);
        let valid_for = config.drift.validity(end.since(now));
        let margin = config.round_trip_margin(self.lease.ttl);
        let valid_for = Span::from_nanos(valid_for.as_nanos().saturating_sub(margin.as_nanos()));
        let Holder { session, waited, .. } = *self;
        SessionReply::Leading { session, token: held.token, valid_for, waited }
    }

    fn ends_at(&self) -> Time {
        if self.revoked.is_some() { self.promised.min(self.until) } else { self.until }
    }

    /// The node that is to lead next, if one is named; none if the client still leads.
    fn ended(&self, now: Time) -> Option<Option<NodeId>> {
        self.resigned.or_else(|| (now >= self.ends_at()).then_some(self.revoked.flatten()))
    }
}

#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod tests;
