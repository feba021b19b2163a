//! Sessions: clients that lead an election through a node, over HTTP or a socket, without I/O.
//!
//! ```text
//!   SessionClient ──SessionRequest──▶ SessionBroker ──LeaseControl──▶ the node's candidate in that election
//!                 ◀──SessionReply────   one SessionQueue for each election
//! ```
//!
//! A node has one candidate in each election, and its clients share that candidate, one after the other. Between
//! two clients the node releases the lease, so that candidates of other nodes can have it, and campaigns again:
//! each client leads with a token of its own.
//!
//! **The promise to a client.** A client counts its lease from the moment just before it sent its request,
//! which is the only moment that client and node can agree on. Let `s` be that moment in true time. The node reads
//! its clock when the request has arrived: `r`, at the true moment `s` or later. The node answers with a span `v`,
//! and must not release before the client has ceased to lead by the client's own clock. The node's lease ends when
//! the node's clock shows `L`, and the session that the node keeps for the client ends when the clock shows `S`. So
//! the node leads until its clock shows `e = min(L, S)`, whatever happens, unless the client itself resigns. A
//! node's clock that is fast shows `e` at `s + (e - r) / (1 + drift)` at the earliest. A client's clock that is slow
//! takes `v / (1 - drift)` to get from `s` to the end of `v`. So `v <= (e - r) (1 - drift) / (1 + drift)`, which is
//! [`Drift::validity`](crate::Drift::validity) of `e - r`.
//!
//! **Waiting is no part of `v`.** A client that waits in a long poll would count from before it began to wait. So its lease
//! begins with a second, short exchange. A request that has waited for longer than [`SessionConfig::longest_direct_wait`]
//! is answered with [`SessionReply::YourTurn`], which promises nothing. The node keeps its lease for that client for
//! [`SessionConfig::turn`], and the client campaigns again, with its session. That request is answered at once. If no
//! request comes in time, or the client leaves, the node releases the lease and campaigns for the next client: a lease is
//! for one client, with its ttl and its rank. So a client that does not come costs clients of other nodes one turn, not a turn
//! for each client that waits here.
//!
//! The node counts `v` from its *reply*, so `e - r` above is never less than what it uses, and takes off
//! [`SessionConfig::round_trip_margin`]. A client that counts from the receipt of the reply, against the rule, is
//! therefore still right if the reply has taken less time than the margin.
//!
//! **Consequences.** From the reply until `e` the leadership is the client's, and nobody else ends it earlier. An
//! operator, or the end of the daemon, *revokes* it: the client is told at its next renewal, and the node releases
//! when the client resigns or when `e` has passed. A better candidate of another node does not get the lease
//! either: the node pins the lease ([`LeaseControl::pin`]) before it tells a client that it leads.
//!
//! **After a restart** a node knows no session, but clients may still count on promises of the node's previous
//! boot. A grant belongs to a node and its boot, so voters do not let the node have that lease before it has expired.
//!
//! **Clients by connection** share the queue, and renew nothing: see [`connection`].
//!
//! **Values.** The value of the client that leads is the value of the node as the leader. While no client leads, it is that
//! of the client for which the node campaigns, so that the first proposal has its version.
//!
//! **A reply that nobody reads.** A reply counts as received unless the driver knows that nobody will ever read
//! it ([`SessionBroker::on_reply_undelivered`]). A lost reply therefore costs time, never safety: the session stays
//! until its ttl is over.

mod broker;
mod client;
pub mod connection;
mod engine;
mod queue;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use suffrage_core::{Attribute, NodeId, Span, Time};

pub use self::broker::{LeaseControl, MAX_ELECTIONS, SessionBroker};
pub use self::client::{ClientAction, ClientConfig, ClientLease, SessionClient};
use self::connection::ConnectionState;
pub use self::engine::{MembershipChange, SessionEngine};
pub use self::queue::{LONGEST_WAIT, MAX_CLIENTS, NodeLease, QueueAction, SessionQueue};
use crate::{Bug, Drift, Value};

/// The id of a client's session. Anyone who knows the id can renew and resign, so ids are random and hard to guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Shows the last byte: enough to tell sessions apart in a log, too little to use one.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId(..{:02x})", self.0 as u8)
    }
}

impl FromStr for SessionId {
    type Err = ();

    fn from_str(text: &str) -> Result<SessionId, ()> {
        let whole = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        whole.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(SessionId).ok_or(())
    }
}

/// One request at one node: the driver numbers the requests that it hands to the broker, and never uses a number
/// twice while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// The configuration of a node's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionConfig {
    /// The bound on the clock drift of the node and of its clients.
    pub drift: Drift,
    /// The shortest time for which a client keeps its place in a queue between two requests.
    pub shortest_retry: Span,
    /// The fail-back delay: how long a node's candidate must have stood for a client before it asks a leader of lower
    /// rank to hand over; none if it never asks.
    pub failback: Option<Span>,
    /// How long a node stays in an election without clients. A client that comes back within this time need not wait
    /// until the node has learned the state of the election.
    pub linger: Span,
    /// A deliberate bug.
    pub bug: Option<Bug>,
}

/// The longest time for which a client keeps its place in a queue between two requests.
const LONGEST_RETRY: Span = Span::from_millis(10_000);

impl SessionConfig {
    /// The default configuration, for clients on a real network.
    pub fn new(drift: Drift) -> SessionConfig {
        let (shortest_retry, linger) = (Span::from_millis(1_000), Span::from_millis(60_000));
        SessionConfig { drift, shortest_retry, failback: None, linger, bug: None }
    }

    /// How long a client keeps its place in the queue between two requests.
    pub fn retry_before(&self, ttl: Span) -> Span {
        ttl.clamp(self.shortest_retry.min(LONGEST_RETRY), LONGEST_RETRY)
    }

    /// How long a node keeps its lease for a client that it has told its turn: a quarter of the ttl, within the limits of
    /// [`retry_before`](SessionConfig::retry_before). A client that dies in between costs the others that much.
    pub fn turn(&self, ttl: Span) -> Span {
        self.retry_before(Span::from_nanos(ttl.as_nanos() / 4))
    }

    /// How long a campaign may have waited, and still begins a lease by its own reply: an eighth of the ttl, which is what
    /// the wait costs a client that counts from before its request.
    pub fn longest_direct_wait(&self, ttl: Span) -> Span {
        Span::from_nanos(ttl.as_nanos() / 8)
    }

    /// What the validity of a reply is shortened by, for clients that count from its receipt.
    pub fn round_trip_margin(&self, ttl: Span) -> Span {
        Span::from_nanos(ttl.as_nanos() / 16)
    }
}

/// The lease that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The length of the lease, and of the session between two renewals.
    pub ttl: Span,
    /// The rank with which the node campaigns for the client.
    pub rank: Attribute,
}

/// A client's request to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CampaignRequest {
    /// The session, for a client that has one already.
    pub session: Option<SessionId>,
    /// The lease that the client wants.
    pub lease: LeaseRequest,
    /// How long the client waits for the answer.
    pub wait: Span,
    /// The value of the client as the leader. A request of a session without it leaves the earlier one.
    pub value: Option<ClientValue>,
}

/// The value of a client as the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientValue {
    /// A number that the client raises with every change: a request that arrives late does not bring an earlier value back.
    pub order: u64,
    /// The value; none to have none.
    pub value: Option<Value>,
}

/// A request of a client or an operator to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionRequest {
    /// The client asks to lead.
    Campaign(CampaignRequest),
    /// The client asks to lead for as long as its connection stays open. The reply is a sequence of
    /// [`ConnectionState`]s.
    Hold {
        /// The lease that the client wants.
        lease: LeaseRequest,
        /// The value of the client as the leader.
        value: Option<Value>,
    },
    /// The client, which leads or waits, changes its value.
    SetValue {
        /// The client's session.
        session: SessionId,
        /// The value.
        value: ClientValue,
    },
    /// The client leads, and asks to lead for longer.
    Renew {
        /// The client's session.
        session: SessionId,
    },
    /// The client has stopped leading, or does not want to lead any more.
    Resign {
        /// The client's session.
        session: SessionId,
        /// The node that is to lead next, if the client names one.
        to: Option<NodeId>,
    },
    /// An operator asks the node to hand over. The client that leads is told at its next renewal.
    Revoke {
        /// The node that is to lead next, if the operator names one.
        to: Option<NodeId>,
    },
}

/// A request's arrival at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The number of the request.
    pub request: RequestId,
    /// A moment on the node's clock between the client's sending of the request and its arrival.
    pub received: Time,
    /// The session that the client gets if it has none: random, and not used before.
    pub new_session: SessionId,
}

/// A reply to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionReply {
    /// The client leads.
    Leading {
        /// The client's session.
        session: SessionId,
        /// The fencing token.
        token: u64,
        /// How long the client leads, by its own clock, from just before it sent the request.
        valid_for: Span,
        /// How long the client had waited when its leadership began.
        waited: Span,
    },
    /// It is the client's turn: a campaign with its session is answered at once, and begins the lease. The client does not
    /// lead yet.
    YourTurn {
        /// The client's session.
        session: SessionId,
        /// Within which time the client must ask again: otherwise the turn passes to the next client.
        retry_before: Span,
        /// How long the client has waited.
        waited: Span,
    },
    /// The client does not lead yet.
    Waiting {
        /// The client's session.
        session: SessionId,
        /// How many clients are served before this one.
        queue_position: usize,
        /// Within which time the client must ask again to keep its place.
        retry_before: Span,
    },
    /// The state of a client by connection has changed. Other replies to the same request follow until the
    /// [end](ConnectionState::Ended).
    Connection(ConnectionState),
    /// Another request of the same session is answered in place of this one.
    Superseded,
    /// The value of the client is set.
    ValueSet,
    /// The client neither leads nor waits any more.
    Resigned,
    /// The node hands over within this time at the latest.
    Revoking {
        /// The time that the client that leads was promised.
        within: Span,
    },
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionError {
    /// The session does not lead, and does not wait.
    Expired,
    /// The session leads, but an operator or the end of the daemon has revoked it: the client must stop and resign.
    Revoked,
    /// [`MAX_CLIENTS`] clients wait for this election at this node.
    QueueFull,
    /// Clients take part in [`MAX_ELECTIONS`] elections at this node.
    TooManyElections,
    /// The node cannot join the election: something else in the same process has joined it.
    CannotJoin,
    /// The node does not hold the lease, so that there is nothing to revoke.
    NotLeading,
    /// The node stops: the client must ask another node.
    Stopping,
}

/// The answer to a request.
pub type SessionOutcome = Result<SessionReply, SessionError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_parse_as_they_print() {
        let session = SessionId(0xfeed);
        assert_eq!(session.to_string().parse(), Ok(session));
        for bad in ["", "feed", "+000000000000000000000000000feed", &"0".repeat(33), &"é".repeat(16)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }
}
