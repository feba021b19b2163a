//! A well-behaved client of a node. Simulated clients run it, and client libraries follow it.
//!
//! ```text
//!            campaign                 Leading                 validity over, Expired
//!   idle ─────────────▶ campaigning ───────────▶ leading ─────────────────────────────▶ campaigning
//!    ▲                     │   ▲ no reply: asks again, and after a while another node
//!    │ resign              └───┘ Waiting, YourTurn: asks again │ renews, again and again until a reply comes
//!    └──────────────────────────────────────────────────┘ resign, Revoked: stops first, then tells the node
//! ```
//!
//! Safety depends on these rules:
//!
//! 1. A client counts the validity of a reply from the moment just before it sent *that* request.
//! 2. At the end of the validity the client stops leading, whatever replies come later.
//! 3. A client that resigns stops leading first. After that no reply to an earlier request makes it lead.

use serde::{Deserialize, Serialize};
use suffrage_core::{Attribute, NodeId, Span, Time};

use super::{
    CampaignRequest, ClientValue, LeaseRequest, SessionError, SessionId, SessionOutcome, SessionReply,
    SessionRequest,
};
use crate::{Bug, Value};

/// The greatest number of requests in flight. Beyond it the second oldest is forgotten. The oldest is kept, because its
/// reply comes first.
const MAX_IN_FLIGHT: usize = 8;
/// How many requests without a reply make a client switch to another node.
const ATTEMPTS: u32 = 2;

/// The configuration of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientConfig {
    /// The lease.
    pub lease: LeaseRequest,
    /// How long the node may wait before it answers a campaign: a long poll.
    pub wait: Span,
    /// How long the client waits for a reply, besides `wait`, before it treats the request as lost. It is a first
    /// guess: a client that gets no reply waits longer the next time.
    pub timeout: Span,
    /// The number of nodes.
    pub nodes: usize,
    /// A deliberate bug.
    pub bug: Option<Bug>,
}

/// The lease of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientLease {
    /// The fencing token.
    pub token: u64,
    /// Until when the client leads, by its own clock.
    pub until: Time,
}

/// An action of a client, which the driver carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAction {
    /// Send a request to a node, by its place in the list of nodes.
    Send {
        /// The node.
        node: usize,
        /// The number of the request, which the reply quotes.
        number: u64,
        /// The request.
        request: SessionRequest,
    },
    /// Close the connection of a request: nobody reads the reply any more.
    HangUp {
        /// The node.
        node: usize,
        /// The number of the request.
        number: u64,
    },
    /// The client leads, or leads for longer.
    Lead(ClientLease),
    /// The client leads no more.
    StepDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Does not want to lead.
    Idle,
    /// Waits before it asks again.
    Pausing { until: Time },
    /// Waits for the reply to a campaign.
    Campaigning { retry_at: Time },
    /// Leads.
    Leading { lease: ClientLease, renew_at: Time },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InFlight {
    number: u64,
    sent: Time,
}

/// A session that the client has abandoned. The node may not have been told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Resigning {
    node: usize,
    session: SessionId,
    /// The node that is to lead next, if the client names one.
    to: Option<NodeId>,
    /// The number of the request. Repetitions have the same, so that a reply to any of them counts.
    number: u64,
    retry_at: Time,
    /// When the session has expired at the node, so that the client need not repeat the request.
    give_up_at: Time,
}

/// A client of one election.
///
/// Inputs: [`campaign`](SessionClient::campaign), [`resign`](SessionClient::resign),
/// [`on_reply`](SessionClient::on_reply), and [`on_due`](SessionClient::on_due) when the moment of
/// [`next_due`](SessionClient::next_due) has come. Outputs: the actions that each of them adds, to be carried out in
/// order. `now` is a moment on the client's own clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionClient {
    config: ClientConfig,
    /// Which node the client asks.
    node: usize,
    stage: Stage,
    session: Option<SessionId>,
    in_flight: Vec<InFlight>,
    resigning: Option<Resigning>,
    next_number: u64,
    attempts: u32,
    /// How long the client waits for a reply at present. It begins at the configured timeout and doubles up to a ttl. A
    /// lease whose reply takes longer is over on arrival.
    reply_timeout: Span,
    /// The value of the client as the leader.
    value: ClientValue,
    /// The number of the last request to set the value, until it is answered.
    unset_value: Option<u64>,
}

impl SessionClient {
    /// An idle client, which asks this node first. The numbers of its requests begin with `first_number`. A client that
    /// restarts must not reuse numbers.
    pub fn new(config: ClientConfig, node: usize, first_number: u64) -> SessionClient {
        SessionClient {
            node: node % config.nodes.max(1),
            config,
            stage: Stage::Idle,
            session: None,
            in_flight: Vec::new(),
            resigning: None,
            next_number: first_number,
            attempts: 0,
            reply_timeout: config.timeout,
            value: ClientValue::default(),
            unset_value: None,
        }
    }

    /// The lease of the client. The caller must compare `until` with the client's clock.
    pub fn lease(&self) -> Option<ClientLease> {
        match self.stage {
            Stage::Leading { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// Whether the client wants to lead, or does.
    pub fn is_active(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Starts to campaign, and campaigns again after every loss.
    pub fn campaign(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        self.lapse(now, actions);
        if matches!(self.stage, Stage::Idle | Stage::Pausing { .. }) {
            self.ask(now, actions);
        }
    }

    /// Stops to lead and to wait, in favour of that node if one is named. Campaigns again after `again_after`, if it is
    /// given.
    pub fn resign(
        &mut self,
        now: Time,
        to: Option<NodeId>,
        again_after: Option<Span>,
        actions: &mut Vec<ClientAction>,
    ) {
        self.abandon_session_for(now, to, actions);
        self.stage = match again_after {
            Some(pause) => Stage::Pausing { until: now + pause },
            None => Stage::Idle,
        };
    }

    /// Asks for this rank from the next session on.
    pub fn set_rank(&mut self, rank: Attribute) {
        self.config.lease.rank = rank;
    }

    /// The value of the client as the leader.
    pub fn value(&self) -> Option<&Value> {
        self.value.value.as_ref()
    }

    /// Whether the node has not confirmed the value of the client yet.
    pub fn is_value_unset(&self) -> bool {
        self.unset_value.is_some()
    }

    /// Changes the value of the client: at once if it leads, and otherwise when it begins to lead.
    pub fn set_value(&mut self, now: Time, value: Option<Value>, actions: &mut Vec<ClientAction>) {
        self.lapse(now, actions);
        self.value = ClientValue { order: self.value.order + 1, value };
        self.unset_value = Some(self.number());
        self.send_value(actions);
    }

    /// Tells the node the value, if the client leads and the node has not confirmed it. Repeated with every renewal.
    fn send_value(&mut self, actions: &mut Vec<ClientAction>) {
        if let (Stage::Leading { .. }, Some(session), Some(_)) = (self.stage, self.session, self.unset_value)
        {
            let number = self.number();
            self.unset_value = Some(number);
            let request = SessionRequest::SetValue { session, value: self.value.clone() };
            actions.push(ClientAction::Send { node: self.node, number, request });
        }
    }

    /// Switches to another node, unless the client leads.
    pub fn switch_node(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        self.lapse(now, actions);
        match self.stage {
            Stage::Leading { .. } => {}
            Stage::Idle => self.next_node(),
            Stage::Pausing { .. } | Stage::Campaigning { .. } => {
                self.abandon_session(now, actions);
                self.next_node();
                self.ask(now, actions);
            }
        }
    }

    /// When [`on_due`](SessionClient::on_due) is to be called next.
    pub fn next_due(&self) -> Time {
        let stage = match self.stage {
            Stage::Idle => Time::MAX,
            Stage::Pausing { until } => until,
            Stage::Campaigning { retry_at } => retry_at,
            Stage::Leading { lease, renew_at } => lease.until.min(renew_at),
        };
        self.resigning.map_or(stage, |resigning| stage.min(resigning.retry_at))
    }

    /// Does what is due.
    pub fn on_due(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        self.lapse(now, actions);
        if let Some(resigning) = self.resigning.filter(|resigning| resigning.retry_at <= now) {
            self.send_resign(now, resigning, actions);
        }
        match self.stage {
            Stage::Pausing { until } if until <= now => self.ask(now, actions),
            Stage::Campaigning { retry_at } if retry_at <= now => {
                // The request or the reply is lost, or the node is gone.
                self.hang_up(actions);
                self.reply_timeout =
                    (self.reply_timeout * 2).min(self.config.lease.ttl.max(self.config.timeout));
                self.attempts += 1;
                if self.attempts >= ATTEMPTS {
                    self.abandon_session(now, actions);
                    self.next_node();
                }
                self.ask(now, actions);
            }
            Stage::Leading { lease, renew_at } if renew_at <= now => {
                let Some(session) = self.session else { return };
                let renew_at = now + self.config.timeout;
                self.stage = Stage::Leading { lease, renew_at };
                self.send(now, SessionRequest::Renew { session }, actions);
                self.send_value(actions);
            }
            _ => {}
        }
    }

    /// The reply to a request has come. A reply to a request that the client has forgotten changes nothing.
    pub fn on_reply(
        &mut self,
        now: Time,
        number: u64,
        outcome: SessionOutcome,
        actions: &mut Vec<ClientAction>,
    ) {
        self.lapse(now, actions);
        if self.resigning.is_some_and(|resigning| resigning.number == number) {
            self.resigning = None;
            return;
        }
        if self.unset_value == Some(number) {
            // A session that has expired is noticed by its renewal.
            self.unset_value.take_if(|_| outcome == Ok(SessionReply::ValueSet));
            return;
        }
        let Some(position) = self.in_flight.iter().position(|request| request.number == number) else {
            return;
        };
        if outcome == Ok(SessionReply::Superseded) {
            // The answer comes to another request of the client, or to a repetition of this one.
            return;
        }
        let InFlight { sent, .. } = self.in_flight.remove(position);
        if now.since(sent) * 4 <= self.reply_timeout {
            self.reply_timeout = Span::from_nanos(self.reply_timeout.as_nanos() / 2).max(self.config.timeout);
        }
        match outcome {
            Ok(SessionReply::Leading { session, token, valid_for, .. }) => {
                self.on_leading(now, sent, session, token, valid_for, actions);
            }
            Ok(SessionReply::Waiting { session, .. }) => {
                if let Stage::Campaigning { .. } = self.stage {
                    self.session = Some(session);
                    self.attempts = 0;
                    // Limits the request rate at a node that replies at once.
                    let until = sent + self.config.timeout;
                    if until <= now {
                        self.ask(now, actions);
                    } else {
                        self.stage = Stage::Pausing { until };
                    }
                }
            }
            Ok(SessionReply::YourTurn { session, .. }) => {
                if let Stage::Campaigning { .. } = self.stage {
                    self.session = Some(session);
                    self.attempts = 0;
                    self.ask(now, actions);
                }
            }
            Ok(
                SessionReply::Superseded
                | SessionReply::ValueSet
                | SessionReply::Resigned
                | SessionReply::Revoking { .. }
                | SessionReply::Connection(_),
            ) => {}
            Err(SessionError::Revoked) => {
                // The work has to stop. After that the node may hand over, and the client yields to others.
                self.abandon_session(now, actions);
                self.stage = Stage::Pausing { until: now + self.config.lease.ttl };
            }
            Err(SessionError::Expired) => {
                self.session = None;
                self.step_down(actions);
                self.in_flight.clear();
                self.stage = Stage::Pausing { until: now + self.config.timeout };
            }
            Err(
                SessionError::QueueFull
                | SessionError::TooManyElections
                | SessionError::CannotJoin
                | SessionError::NotLeading
                | SessionError::Stopping,
            ) => {
                self.abandon_session(now, actions);
                self.next_node();
                self.stage = Stage::Pausing { until: now + self.config.timeout };
            }
        }
    }

    /// The node says that the client leads for `valid_for`, from just before the request was sent.
    fn on_leading(
        &mut self,
        now: Time,
        sent: Time,
        session: SessionId,
        token: u64,
        valid_for: Span,
        actions: &mut Vec<ClientAction>,
    ) {
        let sent = if self.config.bug == Some(Bug::SessionValidityFromReply) { now } else { sent };
        let until = sent + valid_for;
        match self.stage {
            Stage::Leading { lease, .. } => {
                // An overtaken reply does not shorten the lease: the node keeps its promises.
                let lease = ClientLease { token: lease.token.max(token), until: lease.until.max(until) };
                self.lead(now, lease, now.since(sent), actions);
            }
            Stage::Campaigning { .. } => {
                self.session = Some(session);
                self.attempts = 0;
                if until <= now {
                    // The reply took too long: the session leads, so a campaign with it is a renewal.
                    return self.ask(now, actions);
                }
                // The node may have waited before it answered: that says nothing about the round trip.
                self.lead(now, ClientLease { token, until }, Span::ZERO, actions);
            }
            Stage::Idle | Stage::Pausing { .. } => {}
        }
    }

    /// Leads until the lease is over. Renews after a third of the remaining time, or earlier if the last round trip
    /// took so long that two more would not fit into the rest.
    fn lead(&mut self, now: Time, lease: ClientLease, took: Span, actions: &mut Vec<ClientAction>) {
        let left = lease.until.since(now).as_nanos();
        let renew_in = (left / 3).min(left.saturating_sub(2 * took.as_nanos()));
        let renew_at = now + Span::from_nanos(renew_in);
        self.stage = Stage::Leading { lease, renew_at };
        actions.push(ClientAction::Lead(lease));
    }

    /// Ends an expired lease, by the client's own clock. Called first at every input.
    fn lapse(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        if self.lease().is_some_and(|lease| lease.until <= now) {
            self.abandon_session(now, actions);
            self.ask(now, actions);
        }
    }

    fn step_down(&mut self, actions: &mut Vec<ClientAction>) {
        if self.lease().is_some() {
            self.stage = Stage::Idle;
            actions.push(ClientAction::StepDown);
        }
    }

    /// Abandons the session: steps down, forgets all requests, and then tells the node.
    fn abandon_session(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        self.abandon_session_for(now, None, actions);
    }

    fn abandon_session_for(&mut self, now: Time, to: Option<NodeId>, actions: &mut Vec<ClientAction>) {
        self.step_down(actions);
        self.hang_up(actions);
        self.attempts = 0;
        self.stage = Stage::Idle;
        if let Some(session) = self.session.take() {
            let give_up_at = now + self.config.lease.ttl * 2;
            let number = self.number();
            let resigning = Resigning { node: self.node, session, to, number, retry_at: now, give_up_at };
            self.send_resign(now, resigning, actions);
        }
    }

    fn hang_up(&mut self, actions: &mut Vec<ClientAction>) {
        let node = self.node;
        let requests = self.in_flight.drain(..);
        actions.extend(requests.map(|request| ClientAction::HangUp { node, number: request.number }));
    }

    fn next_node(&mut self) {
        self.node = (self.node + 1) % self.config.nodes.max(1);
        self.attempts = 0;
    }

    /// Campaigns, with the session if the client has one.
    fn ask(&mut self, now: Time, actions: &mut Vec<ClientAction>) {
        let ClientConfig { lease, wait, .. } = self.config;
        self.stage = Stage::Campaigning { retry_at: now + wait + self.reply_timeout };
        let value = (self.value.order > 0).then(|| self.value.clone());
        let campaign = CampaignRequest { session: self.session, lease, wait, value };
        self.send(now, SessionRequest::Campaign(campaign), actions);
    }

    /// Notes the clock, then sends.
    fn send(&mut self, now: Time, request: SessionRequest, actions: &mut Vec<ClientAction>) {
        let number = self.number();
        if self.in_flight.len() == MAX_IN_FLIGHT {
            let InFlight { number, .. } = self.in_flight.remove(1);
            actions.push(ClientAction::HangUp { node: self.node, number });
        }
        self.in_flight.push(InFlight { number, sent: now });
        actions.push(ClientAction::Send { node: self.node, number, request });
    }

    fn send_resign(&mut self, now: Time, resigning: Resigning, actions: &mut Vec<ClientAction>) {
        if now >= resigning.give_up_at {
            self.resigning = None;
            return;
        }
        let Resigning { node, session, to, number, .. } = resigning;
        self.resigning = Some(Resigning { retry_at: now + self.config.timeout, ..resigning });
        actions.push(ClientAction::Send { node, number, request: SessionRequest::Resign { session, to } });
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}

#[cfg(test)]
mod tests;
