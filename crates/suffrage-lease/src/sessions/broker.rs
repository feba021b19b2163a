//! The clients of all elections of a node. The broker drives the node's candidates on behalf of the waiting clients.

use std::collections::{BTreeMap, BTreeSet};

use suffrage_core::{Attribute, NodeId, Span, Time};

use super::connection::ConnectionEnd;
use super::queue::{NodeLease, QueueAction, SessionQueue};
use super::{
    Arrival, CampaignRequest, RequestId, SessionConfig, SessionError, SessionOutcome, SessionReply,
    SessionRequest,
};
use crate::{Bug, CandidateConfig, Name, Value};

/// The greatest number of elections that clients take part in at one node.
pub const MAX_ELECTIONS: usize = 100_000;

/// The interface of a [`SessionBroker`] to the node's candidates. Every call takes effect at once:
/// [`lease`](LeaseControl::lease) then returns the new state. The broker learns of a lease that begins or ends
/// within a call by [`SessionBroker::on_lease_change`], after the call.
pub trait LeaseControl {
    /// The lease that the node holds in this election, if it is valid at this moment.
    fn lease(&self, name: Name) -> Option<NodeLease>;

    /// Joins an election. False if the node cannot.
    fn join(&mut self, name: &str, config: CandidateConfig) -> bool;

    /// Stands until the end of one leadership.
    fn campaign(&mut self, name: Name);

    /// Changes the rank of the node's candidate.
    fn set_rank(&mut self, name: Name, rank: Attribute);

    /// Sets the value that the node has as the leader.
    fn set_value(&mut self, name: Name, value: Option<&Value>);

    /// Stops to stand. If the node leads, it releases the lease.
    fn withdraw(&mut self, name: Name);

    /// Releases the lease in favour of another node, and stops to stand. In favour of the node itself it is the same as
    /// [`withdraw`](LeaseControl::withdraw).
    fn transfer(&mut self, name: Name, to: NodeId);

    /// Pins the lease that the node holds, so that claims of better candidates are refused, and returns the lease.
    fn pin(&mut self, name: Name) -> Option<NodeLease>;

    /// Leaves an election that the node has joined. If the node leads, it releases the lease.
    fn leave(&mut self, name: Name);
}

/// The clients of one election, and what the node's candidate does for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ElectionSessions {
    text: Box<str>,
    queue: SessionQueue,
    /// The ttl with which the node has joined.
    joined: Option<Span>,
    /// Since when no client has led or waited; none while one does.
    idle_since: Option<Time>,
    /// The moment of the entry in the broker's `due`.
    due: Option<Time>,
}

/// The clients of all elections of a node.
///
/// Inputs: [`on_request`](SessionBroker::on_request), [`on_hang_up`](SessionBroker::on_hang_up),
/// [`on_reply_undelivered`](SessionBroker::on_reply_undelivered), [`stop`](SessionBroker::stop),
/// [`on_connection_end`](SessionBroker::on_connection_end), [`on_lease_change`](SessionBroker::on_lease_change) whenever
/// the node has begun or ceased to hold a lease, [`on_renewal`](SessionBroker::on_renewal) when it has renewed one, and
/// [`on_due`](SessionBroker::on_due) when the moment of [`next_due`](SessionBroker::next_due) has come. `now` is a
/// moment on the node's clock that never goes back.
///
/// Outputs: the calls of [`LeaseControl`], and the replies, which [`take_replies`](SessionBroker::take_replies) hands
/// out. A reply must not be sent before everything is durable that the node had to save by then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionBroker {
    config: SessionConfig,
    elections: BTreeMap<Name, Box<ElectionSessions>>,
    due: BTreeSet<(Time, Name)>,
    replies: Vec<(RequestId, SessionOutcome)>,
    stopping: bool,
}

impl SessionBroker {
    /// A broker without clients.
    pub fn new(config: SessionConfig) -> SessionBroker {
        SessionBroker {
            config,
            elections: BTreeMap::new(),
            due: BTreeSet::new(),
            replies: Vec::new(),
            stopping: false,
        }
    }

    /// A request has arrived about the election of this name.
    pub fn on_request(
        &mut self,
        now: Time,
        arrival: Arrival,
        text: &str,
        request: SessionRequest,
        control: &mut impl LeaseControl,
    ) {
        let name = Name::of(text);
        if let Err(error) = self.ensure_election(name, text, &request) {
            return self.replies.push((arrival.request, Err(error)));
        }
        let Some(election) = self.elections.get_mut(&name) else { return };
        let (queue, replies) = (&mut election.queue, &mut self.replies);
        match request {
            SessionRequest::Campaign(campaign) => {
                queue.campaign(now, arrival, campaign, control.lease(name), replies);
            }
            SessionRequest::Hold { lease, value } => queue.hold(arrival, (lease, value), replies),
            SessionRequest::SetValue { session, value } => {
                let set = queue.set_value(session, value);
                replies.push((
                    arrival.request,
                    if set { Ok(SessionReply::ValueSet) } else { Err(SessionError::Expired) },
                ));
            }
            SessionRequest::Renew { session } => {
                let renewed = queue.renew(now, session, control.lease(name));
                replies.push((arrival.request, renewed));
            }
            SessionRequest::Resign { session, to } => {
                let resigned = queue.resign(session, to, replies);
                replies.push((arrival.request, resigned));
            }
            SessionRequest::Revoke { to } => {
                let within = match (queue.revoke(now, to), control.lease(name)) {
                    // The node leads, and no client has been told.
                    (None, Some(_)) => {
                        release(name, to, control);
                        Some(Span::ZERO)
                    }
                    (within, _) => within,
                };
                let revoking = within.map(|within| SessionReply::Revoking { within });
                replies.push((arrival.request, revoking.ok_or(SessionError::NotLeading)));
            }
        }
        self.reconcile(now, name, control);
    }

    /// The client of a request does not wait for the reply any more. Must be called even if the reply may have been
    /// sent meanwhile.
    pub fn on_hang_up(&mut self, now: Time, name: Name, request: RequestId, control: &mut impl LeaseControl) {
        if let Some(election) = self.elections.get_mut(&name) {
            election.queue.on_hang_up(now, request);
            self.reconcile(now, name, control);
        }
    }

    /// The reply to a request was not delivered, and it is certain that nobody will ever read it.
    pub fn on_reply_undelivered(
        &mut self,
        now: Time,
        name: Name,
        request: RequestId,
        control: &mut impl LeaseControl,
    ) {
        if let Some(election) = self.elections.get_mut(&name) {
            election.queue.on_reply_undelivered(now, request);
            self.reconcile(now, name, control);
        }
    }

    /// The connection of a client that leads or waits has ended.
    pub fn on_connection_end(
        &mut self,
        now: Time,
        name: Name,
        request: RequestId,
        end: ConnectionEnd,
        control: &mut impl LeaseControl,
    ) {
        if let Some(election) = self.elections.get_mut(&name) {
            election.queue.on_connection_end(now, request, end);
            self.reconcile(now, name, control);
        }
    }

    /// The node has renewed the lease of this election. Only a client by connection must be told.
    pub fn on_renewal(&mut self, now: Time, name: Name, control: &mut impl LeaseControl) {
        if self.elections.get(&name).is_some_and(|election| election.queue.is_held_by_connection()) {
            self.reconcile(now, name, control);
        }
    }

    /// The node has begun to hold the lease of this election, or has ceased to.
    pub fn on_lease_change(&mut self, now: Time, name: Name, control: &mut impl LeaseControl) {
        if self.elections.contains_key(&name) {
            self.reconcile(now, name, control);
        }
    }

    /// When [`on_due`](SessionBroker::on_due) is to be called next.
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|&(due, _)| due)
    }

    /// Does what is due.
    pub fn on_due(&mut self, now: Time, control: &mut impl LeaseControl) {
        let due: Vec<Name> =
            self.due.iter().take_while(|&&(due, _)| due <= now).map(|&(_, name)| name).collect();
        for name in due {
            self.reconcile(now, name, control);
        }
    }

    /// Stops the sessions: no client starts to lead any more, and clients that lead are told to stop.
    pub fn stop(&mut self, now: Time, control: &mut impl LeaseControl) {
        self.stopping = true;
        let names: Vec<Name> = self.elections.keys().copied().collect();
        for name in names {
            if let Some(election) = self.elections.get_mut(&name) {
                election.queue.stop(now, &mut self.replies);
                self.reconcile(now, name, control);
            }
        }
    }

    /// Accepts clients again, if no client leads any more.
    pub fn resume(&mut self) {
        if self.is_stopped() {
            self.stopping = false;
        }
    }

    /// Whether the sessions stop: no client starts to lead here any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether [`stop`](SessionBroker::stop) was called, and all promises to clients are over.
    pub fn is_stopped(&self) -> bool {
        self.stopping && self.elections.is_empty()
    }

    /// Whether the node takes part in this election for clients.
    pub fn has_joined(&self, name: Name) -> bool {
        self.elections.get(&name).is_some_and(|election| election.joined.is_some())
    }

    /// Whether a client leads this election through this node.
    pub fn is_held(&self, name: Name) -> bool {
        self.elections.get(&name).is_some_and(|election| election.queue.is_held())
    }

    /// The number of elections that clients take part in, or did a short while ago.
    pub fn len(&self) -> usize {
        self.elections.len()
    }

    /// Whether clients take part in no election.
    pub fn is_empty(&self) -> bool {
        self.elections.is_empty()
    }

    /// Whether there are replies to be sent.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The replies that are to be sent, in order.
    pub fn take_replies(&mut self) -> Vec<(RequestId, SessionOutcome)> {
        std::mem::take(&mut self.replies)
    }

    /// Creates the entry of an election if there is none. Refuses requests that need an existing entry.
    fn ensure_election(
        &mut self,
        name: Name,
        text: &str,
        request: &SessionRequest,
    ) -> Result<(), SessionError> {
        if self.elections.contains_key(&name) {
            return Ok(());
        }
        match request {
            SessionRequest::Campaign(_) | SessionRequest::Hold { .. } if self.stopping => {
                return Err(SessionError::Stopping);
            }
            SessionRequest::Campaign(CampaignRequest { session: Some(_), .. })
            | SessionRequest::Renew { .. }
            | SessionRequest::SetValue { .. }
            | SessionRequest::Resign { .. } => return Err(SessionError::Expired),
            SessionRequest::Revoke { .. } => return Err(SessionError::NotLeading),
            SessionRequest::Campaign(_) | SessionRequest::Hold { .. }
                if self.elections.len() >= MAX_ELECTIONS =>
            {
                return Err(SessionError::TooManyElections);
            }
            SessionRequest::Campaign(_) | SessionRequest::Hold { .. } => {}
        }
        let queue = SessionQueue::new(self.config);
        let election =
            ElectionSessions { text: text.into(), queue, joined: None, idle_since: None, due: None };
        self.elections.insert(name, Box::new(election));
        Ok(())
    }

    /// Reconciles the node's candidate with the queue.
    fn reconcile(&mut self, now: Time, name: Name, control: &mut impl LeaseControl) {
        let Some(election) = self.elections.get_mut(&name) else { return };
        loop {
            match election.queue.reconcile(now, control.lease(name), &mut self.replies) {
                QueueAction::None => break,
                QueueAction::Release(to) => release(name, to, control),
                // A lease of another length was for a client that has left the queue.
                QueueAction::Offer(lease) if election.joined != Some(lease.ttl) => {
                    release(name, None, control)
                }
                QueueAction::Offer(_) if election.queue.tell_turn(now, &mut self.replies) => {}
                QueueAction::Offer(_) => {
                    let pinned = match self.config.bug {
                        Some(Bug::SkipPin) => control.lease(name),
                        _ => control.pin(name),
                    };
                    let Some(held) = pinned else { break };
                    election.queue.grant(now, held, &mut self.replies);
                }
            }
        }
        if !election.campaign(name, &self.config, control) {
            election.queue.fail_all(SessionError::CannotJoin, &mut self.replies);
        }
        if let Some(due) = election.due.take() {
            self.due.remove(&(due, name));
        }
        let due = election.next_due(now, if self.stopping { Span::ZERO } else { self.config.linger });
        if election.queue.is_empty() && due <= now {
            if election.joined.is_some() {
                control.leave(name);
            }
            self.elections.remove(&name);
            return;
        }
        // Connections that stay open are never due.
        if due < Time::MAX {
            election.due = Some(due);
            self.due.insert((due, name));
        }
    }
}

impl ElectionSessions {
    /// When the queue is due, or when the node leaves the election.
    fn next_due(&mut self, now: Time, linger: Span) -> Time {
        if !self.queue.is_empty() {
            self.idle_since = None;
            return self.queue.next_due();
        }
        *self.idle_since.get_or_insert(now) + self.joined.map_or(Span::ZERO, |_| linger)
    }

    /// Stands for the first client in the queue; withdraws if there is none. False if the node cannot join.
    fn campaign(&mut self, name: Name, sessions: &SessionConfig, control: &mut impl LeaseControl) -> bool {
        let Some(lease) = self.queue.wanted() else {
            if self.queue.is_held() {
                control.set_value(name, self.queue.value());
            } else if self.joined.is_some() {
                control.withdraw(name);
            }
            return true;
        };
        if self.joined != Some(lease.ttl) {
            if self.joined.take().is_some() {
                control.leave(name);
            }
            let config = CandidateConfig {
                ttl: lease.ttl,
                attribute: lease.rank,
                failback: sessions.failback,
                standing: false,
                // Clients have their own notice: the lease of a session.
                stop_margin: Span::ZERO,
            };
            if !control.join(&self.text, config) {
                return false;
            }
            self.joined = Some(lease.ttl);
        }
        if control.lease(name).is_none() {
            control.set_rank(name, lease.rank);
            control.set_value(name, self.queue.value());
            control.campaign(name);
        }
        true
    }
}

/// Releases the lease. No client relies on it any more.
fn release(name: Name, to: Option<NodeId>, control: &mut impl LeaseControl) {
    match to {
        Some(to) => control.transfer(name, to),
        None => control.withdraw(name),
    }
}

#[cfg(test)]
mod tests;
