//! The endpoints of elections.

use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use suffrage_core::{NodeId, Span};
use tokio::time::{sleep, timeout};

use super::exchange::{Answer, Request, json};
use super::{App, Problem, check_name, hold, in_time, within};
use crate::daemon::directory::{MOST_OF_PAGE, PageRequest};
use crate::daemon::watches::Watched;
use suffrage_lease::sessions::{
    CampaignRequest, ClientValue, LONGEST_WAIT, LeaseRequest, SessionError, SessionId, SessionOutcome,
    SessionReply, SessionRequest,
};
use suffrage_node::lease::{
    Belief, CandidateConfig, GrantedElection, KnownElection, Leader, LeaderValue, Name, Status,
    Value as LeaseValue,
};

/// The number of elections of a page, unless the query has another.
const DEFAULT_LIMIT: usize = 100;
/// The longest wait for a reply, and the default of a campaign.
const WAIT: Span = Span::from_millis(30_000);
/// The interval at which a node looks whether a leader that it has asked has handed over.
const MOVE_LOOK: Duration = Duration::from_millis(20);
/// The number of looks after which the node asks again.
const MOVE_RETRY: u32 = 15;
/// The time beyond the end of the lease for which the node waits.
const MOVE_SLACK: Duration = Duration::from_millis(500);

/// The JSON object of an election.
#[derive(Serialize)]
pub(super) struct ElectionBody {
    /// None if only the hash is known.
    election: Option<String>,
    /// The hash of the name.
    hash: String,
    /// The id of this node.
    node: u64,
    leader: Option<u64>,
    token: Option<u64>,
    /// What the leader says about itself.
    value: Option<String>,
    /// Of two values with one token, the later has the greater version.
    value_version: Option<u32>,
    /// The time since the leader last changed at this node.
    since_ms: u64,
    /// Only if this node leads.
    lease_remaining_ms: Option<u64>,
    /// The time until the lease ends that this node's voter has granted.
    grant_remaining_ms: Option<u64>,
    /// The candidates that wait at this node's voter.
    queue: Vec<u64>,
    /// `participation`, or `grant`: this node takes no part, and its voter has granted the lease.
    known_by: &'static str,
    /// The reason why this node leads or does not lead.
    why: String,
}

impl ElectionBody {
    pub(super) fn new(node: NodeId, status: &Status) -> ElectionBody {
        ElectionBody {
            election: Some(status.name.clone()),
            hash: Name::of(&status.name).to_string(),
            node: node.0,
            leader: status.leader.map(|leader| leader.node.0),
            token: status.leader.map(|leader| leader.token.number()),
            value: status.value.as_ref().map(|value| value.as_str().to_string()),
            value_version: status.value.as_ref().map(LeaderValue::version),
            since_ms: whole(status.leader_age),
            lease_remaining_ms: status.lease_remaining.map(whole),
            grant_remaining_ms: status.grant_remaining.map(whole),
            queue: status.queue.iter().map(|node| node.0).collect(),
            known_by: "participation",
            why: status.explanation(),
        }
    }

    /// The object of an election that this node knows only as a voter.
    fn of_granted(node: NodeId, granted: &GrantedElection) -> ElectionBody {
        let (leader, token) = leader_and_token(granted.leader);
        let takes_no_part = "this node takes no part in this election";
        let why = match leader {
            Some(leader) => format!(
                "{takes_no_part}; as a voter it has granted the lease to node {leader}, which is one vote: \
                 `suffrage leader NAME` asks a majority"
            ),
            None => format!("{takes_no_part}; at its voter nobody holds the lease, and candidates wait"),
        };
        ElectionBody {
            election: granted.name.clone(),
            hash: granted.hash.clone(),
            node: node.0,
            leader,
            token,
            value: granted.value.as_ref().map(|value| value.as_str().to_string()),
            value_version: granted.value.as_ref().map(LeaderValue::version),
            since_ms: whole(granted.leader_age),
            lease_remaining_ms: None,
            grant_remaining_ms: granted.grant_remaining.map(whole),
            queue: granted.queue.iter().map(|node| node.0).collect(),
            known_by: "grant",
            why,
        }
    }
}

fn whole(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// Whole milliseconds, rounded down.
pub(super) fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}

/// The status of an election. If this node has just begun to observe the election, the voters get time to answer.
pub(super) async fn status(app: &App, name: &str) -> Result<Status, Problem> {
    check_name(name)?;
    let mut watched = watch(app, name).await?;
    let belief = &mut watched.belief;
    let grace = app.node.settings().delay * 4;
    let known = app.node.clock().now().since(belief.borrow().since);
    if belief.borrow().leader.is_none() && known < grace {
        let left = Duration::from_nanos((grace - known).as_nanos());
        // After that time, an election without a known leader has none.
        _ = timeout(left, belief.wait_for(|belief| belief.leader.is_some())).await;
    }
    // A node leaves its elections when it stops.
    let status = in_time(&app.node, app.node.status(name)).await?.ok_or_else(Problem::stopping)?;
    if !status.value_pending {
        return Ok(status);
    }
    // The leader has been asked for its value, or will be with its next renewal.
    belief.borrow_and_update();
    _ = timeout(Duration::from_nanos(grace.as_nanos()), belief.changed()).await;
    in_time(&app.node, app.node.status(name)).await?.ok_or_else(Problem::stopping)
}

pub(super) async fn watch(app: &App, name: &str) -> Result<Watched, Problem> {
    in_time(&app.node, app.watches.watch(name)).await
}

/// The page of the list that a query asks for. None if the query asks for all elections.
fn page_of(request: &Request) -> Result<Option<PageRequest>, Problem> {
    let refused = |error: String| Problem::new(StatusCode::BAD_REQUEST, error);
    let number = |key: &str| {
        let parsed =
            |text: String| text.parse().map_err(|_| refused(format!("{key}: {text:?} is no number")));
        request.parameter(key)?.map(parsed).transpose()
    };
    let (search, leader) = (request.parameter("search")?, request.parameter("leader")?);
    let (from, limit): (Option<usize>, Option<usize>) = (number("from")?, number("limit")?);
    if search.is_none() && leader.is_none() && from.is_none() && limit.is_none() {
        return Ok(None);
    }
    let leader = match leader.as_deref() {
        None => None,
        Some("none") => Some(None),
        Some(id) => {
            let wrong = |_| refused(format!("leader: {id:?} is neither the id of a node nor `none`"));
            Some(Some(NodeId(id.parse().map_err(wrong)?)))
        }
    };
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MOST_OF_PAGE).contains(&limit) {
        return Err(refused(format!("limit: must be 1 to {MOST_OF_PAGE}, not {limit}")));
    }
    Ok(Some(PageRequest { search: search.unwrap_or_default(), leader, from: from.unwrap_or(0), limit }))
}

/// A page of the list of elections.
async fn page(app: &App, request: PageRequest) -> Answer {
    let (node, from) = (app.node.id(), request.from);
    let page = in_time(&app.node, app.directory.page(request)).await?;
    let elections = page.elections.iter().map(|election| match election {
        KnownElection::Joined(status) => ElectionBody::new(node, status),
        KnownElection::Granted(granted) => ElectionBody::of_granted(node, granted),
    });
    let leaders = page.leaders.iter().map(|(leader, elections)| {
        let leader = leader.map(|leader| leader.0);
        json!({ "leader": leader, "elections": elections })
    });
    let body = json!({
        "elections": elections.collect::<Vec<_>>(),
        "from": from,
        "matching": page.matching,
        "total": page.total,
        "leaders": leaders.collect::<Vec<_>>(),
    });
    Ok(json(StatusCode::OK, &body))
}

/// `GET /elections`
pub(super) async fn elections(app: &App, request: Request) -> Answer {
    if let Some(request) = page_of(&request)? {
        return page(app, request).await;
    }
    let (node, all) = (app.node.id(), super::elections(&app.node).await?);
    let granted = super::granted(&app.node).await?;
    let joined = all.iter().map(|status| ElectionBody::new(node, status));
    let granted = granted.iter().map(|granted| ElectionBody::of_granted(node, granted));
    let mut bodies: Vec<ElectionBody> = joined.chain(granted).collect();
    bodies.sort_by(|a, b| a.election.cmp(&b.election));
    Ok(json(StatusCode::OK, &json!({ "elections": bodies })))
}

/// `GET /elections/{name}`
pub(super) async fn election(app: &App, request: Request) -> Answer {
    let status = status(app, &request.name).await?;
    Ok(json(StatusCode::OK, &ElectionBody::new(app.node.id(), &status)))
}

/// `GET /elections/{name}/history`
pub(super) async fn history(app: &App, Request { name, .. }: Request) -> Answer {
    check_name(&name)?;
    let entries = in_time(&app.node, app.node.history(Some(&name))).await?;
    let bodies: Vec<_> = entries
        .iter()
        .map(|entry| {
            let (leader, token) = leader_and_token(entry.leader);
            json!({ "leader": leader, "token": token, "age_ms": entry.age.as_millis() as u64 })
        })
        .collect();
    let body = json!({ "election": name, "node": app.node.id().0, "history": bodies });
    Ok(json(StatusCode::OK, &body))
}

/// The members `leader` and `token` of a JSON object.
pub(super) fn leader_and_token(leader: Option<Leader>) -> (Option<u64>, Option<u64>) {
    leader.map(|leader| (leader.node.0, leader.token.number())).unzip()
}

/// The body of a resignation or transfer. An operator sends no session.
#[derive(Default)]
struct HandoverBody {
    session: Option<String>,
    to: Option<u64>,
    wait: Option<String>,
}

impl HandoverBody {
    fn of(request: &Request) -> Result<HandoverBody, Problem> {
        let mut members = request.members()?;
        let (session, wait) = (members.text("session")?, members.text("wait")?);
        let body = HandoverBody { session, to: members.id("to")?, wait };
        members.end("expected are session, to and wait")?;
        Ok(body)
    }
}

fn span(key: &str, text: Option<&str>, otherwise: Span) -> Result<Span, Problem> {
    let Some(text) = text else { return Ok(otherwise) };
    Span::parse_duration(text)
        .map_err(|reason| Problem::new(StatusCode::BAD_REQUEST, format!("{key}: {reason}")))
}

fn session(text: &str) -> Result<SessionId, Problem> {
    // A text that is not a session id is the id of no session.
    text.parse().map_err(|()| SessionError::Expired.into())
}

/// `POST /elections/{name}/campaign`
pub(super) async fn campaign(app: &App, request: Request) -> Answer {
    // The clock is read first: the client measures the validity from before it sent the request.
    let received = app.node.clock().now();
    let mut members = request.members()?;
    let (session_text, ttl) = (members.text("session")?, members.text("ttl")?);
    let (wait, hold) = (members.text("wait")?, members.text("hold")?);
    let value_text = members.text("value")?;
    let rank = members.integer("rank")?.unwrap_or(0);
    members.end("expected are session, ttl, wait, rank, hold and value")?;
    let Request { name, overflow, peer, .. } = request;
    check_name(&name)?;
    let lease = LeaseRequest { ttl: span("ttl", ttl.as_deref(), app.ttl)?, rank };
    let settings = app.node.settings();
    let config = CandidateConfig { ttl: lease.ttl, ..CandidateConfig::default() };
    let refused = |invalid| Problem::new(StatusCode::BAD_REQUEST, format!("ttl: {invalid}"));
    config.check(&settings.engine()).map_err(refused)?;
    if lease.rank == i64::MAX {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "rank: must be below 9223372036854775807"));
    }
    let value = leader_value(value_text.as_deref())?;
    if let Some(held_by) = hold.as_deref() {
        let peer = hold::check(held_by, session_text.is_some(), overflow, peer)?;
        return hold::hold(app, &name, (lease, value), peer).await;
    }
    let value = value_text.is_some().then_some(ClientValue { order: 0, value });
    let wait = span("wait", wait.as_deref(), WAIT)?.min(LONGEST_WAIT);
    // An overflow connection does not wait. Its session is in the queue, and the client polls.
    let wait = if overflow { Span::ZERO } else { wait };
    let session = session_text.as_deref().map(session).transpose()?;
    let request = SessionRequest::Campaign(CampaignRequest { session, lease, wait, value });
    let answer = within(&app.node, wait, app.node.session_request(&name, request, received));
    let answer = match peer {
        // An answer that nobody can read must not count as received.
        Some(peer) => peer.while_open(answer).await.ok_or_else(|| {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "the client has closed the connection")
        })?,
        // The server of TCP connections drops this future when its client has hung up.
        None => answer.await,
    };
    reply(answer?)
}

/// `POST /elections/{name}/renew`
pub(super) async fn renew(app: &App, request: Request) -> Answer {
    let received = app.node.clock().now();
    let mut members = request.members()?;
    let text = members.text("session")?;
    members.end("expected is session")?;
    check_name(&request.name)?;
    let session = session(text.as_deref().ok_or_else(no_session)?)?;
    let renewal = app.node.session_request(&request.name, SessionRequest::Renew { session }, received);
    reply(in_time(&app.node, renewal).await?)
}

/// `POST /elections/{name}/value`
pub(super) async fn value(app: &App, request: Request) -> Answer {
    let mut members = request.members()?;
    let (session_text, text) = (members.text("session")?, members.text("value")?);
    let order = members.integer("order")?.unwrap_or(0);
    members.end("expected are session, value and order")?;
    check_name(&request.name)?;
    let below_zero = |_| Problem::new(StatusCode::BAD_REQUEST, "order: must not be negative");
    let order = u64::try_from(order).map_err(below_zero)?;
    let value = ClientValue { order, value: leader_value(text.as_deref())? };
    let session = session(session_text.as_deref().ok_or_else(no_session)?)?;
    let change = SessionRequest::SetValue { session, value };
    let received = app.node.clock().now();
    reply(in_time(&app.node, app.node.session_request(&request.name, change, received)).await?)
}

/// The value of a leader. An empty text is none.
fn leader_value(text: Option<&str>) -> Result<Option<LeaseValue>, Problem> {
    let wrong = |invalid| Problem::new(StatusCode::BAD_REQUEST, format!("value: {invalid}"));
    text.filter(|text| !text.is_empty()).map(|text| LeaseValue::new(text).map_err(wrong)).transpose()
}

fn no_session() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "session: is missing; `campaign` returns one")
}

/// The response to a request of a session.
fn reply(outcome: SessionOutcome) -> Answer {
    match outcome? {
        SessionReply::Leading { session, token, valid_for, waited } => {
            let body = json!({
                "session": session.to_string(),
                "token": token,
                "valid_for_ms": millis(valid_for),
                "waited_ms": millis(waited),
            });
            Ok(json(StatusCode::OK, &body))
        }
        // Clients that do not know of turns campaign again after any answer of this status.
        SessionReply::YourTurn { session, retry_before, waited } => {
            let body = json!({
                "session": session.to_string(),
                "queue_position": 0,
                "your_turn": true,
                "retry_before_ms": millis(retry_before),
                "waited_ms": millis(waited),
            });
            Ok(json(StatusCode::ACCEPTED, &body))
        }
        SessionReply::Waiting { session, queue_position, retry_before } => {
            let body = json!({
                "session": session.to_string(),
                "queue_position": queue_position,
                "your_turn": false,
                "retry_before_ms": millis(retry_before),
            });
            Ok(json(StatusCode::ACCEPTED, &body))
        }
        SessionReply::Superseded => {
            let error =
                "a later request of this session replaced this one: wait for the reply to that request";
            Err(Problem::new(StatusCode::CONFLICT, error).because("superseded"))
        }
        SessionReply::ValueSet => Ok(json(StatusCode::OK, &json!({}))),
        // A client by connection has another endpoint.
        SessionReply::Resigned | SessionReply::Connection(_) => {
            Ok(json(StatusCode::OK, &json!({ "within_ms": 0 })))
        }
        SessionReply::Revoking { within } => {
            Ok(json(StatusCode::OK, &json!({ "within_ms": millis(within) })))
        }
    }
}

/// `POST /elections/{name}/resign`
pub(super) async fn resign(app: &App, request: Request) -> Answer {
    let body = HandoverBody::of(&request)?;
    check_rights(&request, &body)?;
    if body.to.is_some() {
        let error = "to: is only for `transfer`; after `resign`, the next candidate in the queue leads";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    hand_over(app, &request.name, &body, request.overflow).await
}

/// `POST /elections/{name}/transfer`
pub(super) async fn transfer(app: &App, request: Request) -> Answer {
    let (body, name) = (HandoverBody::of(&request)?, &request.name);
    check_rights(&request, &body)?;
    let missing =
        || Problem::new(StatusCode::BAD_REQUEST, "to: is missing; set it to the id of the next leader");
    let to = body.to.ok_or_else(missing)?;
    let elsewhere =
        in_time(&app.node, app.node.holder(name)).await?.is_some_and(|(leader, _)| leader.node.0 != to);
    if to == app.node.id().0 && (body.session.is_some() || !elsewhere) {
        let error = format!("to: {to} is this node itself; set it to another node");
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    hand_over(app, name, &body, request.overflow).await
}

/// Only an operator may end a leadership without its session.
fn check_rights(request: &Request, body: &HandoverBody) -> Result<(), Problem> {
    if body.session.is_some() { Ok(()) } else { request.check_operator() }
}

async fn hand_over(app: &App, name: &str, body: &HandoverBody, overflow: bool) -> Answer {
    check_name(name)?;
    let began = app.node.clock().now();
    let longest = if overflow { Span::ZERO } else { WAIT };
    let wait = span("wait", body.wait.as_deref(), Span::ZERO)?.min(longest);
    let session = body.session.as_deref().map(session).transpose()?;
    // The watch begins before the request, so that it misses no change.
    let watched = if wait.is_zero() { None } else { Some(watch(app, name).await?) };
    let token = |belief: &Belief| belief.leader.map(|leader| leader.token);
    let before = watched.as_ref().and_then(|it| token(&it.belief.borrow()));
    let within = request_handover(app, name, session, body.to.map(NodeId), wait).await?;
    let mut body = json!({ "within_ms": within });
    let mut done = within == 0;
    if let Some(mut watched) = watched {
        let next = watched.belief.wait_for(|belief| token(belief) > before);
        let next = timeout(Duration::from_nanos(wait.as_nanos()), next).await;
        // None if no node took the lease in time, or if this node has stopped.
        let next = next.ok().and_then(Result::ok);
        let leader = next.as_ref().and_then(|belief| belief.leader);
        let (id, token) = leader_and_token(leader);
        body["leader"] = json!(id);
        body["token"] = json!(token);
        // With three decimals.
        let took_ms = |belief: &Belief| (belief.since.since(began).as_units() * 1e3).round() / 1e3;
        body["took_ms"] = json!(next.as_deref().map(took_ms));
        done |= leader.is_some();
    }
    let code = if done { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(json(code, &body))
}

/// Asks the node to hand over, or the node that leads. Returns the time in milliseconds after which it hands over at the
/// latest: above zero only if a client leads, until the end of the client's lease, or if the caller does not wait for
/// another node.
async fn request_handover(
    app: &App,
    name: &str,
    session: Option<SessionId>,
    to: Option<NodeId>,
    wait: Span,
) -> Result<u64, Problem> {
    if let Some(to) = to {
        // A transfer that cannot succeed changes nothing.
        in_time(&app.node, app.node.check_transfer(name, to)).await?;
    }
    let request = match session {
        Some(session) => SessionRequest::Resign { session, to },
        None => SessionRequest::Revoke { to },
    };
    let asked = app.node.session_request(name, request, app.node.clock().now());
    match in_time(&app.node, asked).await? {
        Ok(SessionReply::Revoking { within }) if !within.is_zero() => Ok(millis(within) + 1),
        Ok(_) => Ok(0),
        Err(SessionError::NotLeading) if session.is_none() => move_leader(app, name, to, wait).await,
        Err(error) => Err(error.into()),
    }
}

/// Asks the node that leads, which has no client here, to hand over, and waits until it has: its work may need its stop
/// margin. Returns the time in milliseconds after which its lease ends at the latest, or zero if it has ended.
async fn move_leader(app: &App, name: &str, to: Option<NodeId>, wait: Span) -> Result<u64, Problem> {
    let node = &app.node;
    let asked = in_time(node, node.move_leader(name, to, None)).await?;
    let held = in_time(node, node.holder(name)).await?;
    let (Some(asked), Some((_, remaining))) = (asked, held) else {
        let error = format!(
            "no node leads {name}, as far as node {} knows: there is nothing to hand over",
            node.id()
        );
        return Err(Problem::new(StatusCode::CONFLICT, error).because("not_leader"));
    };
    let within = remaining.as_millis() as u64 + 1;
    if wait.is_zero() {
        return Ok(within);
    }
    // A leader that hands over does not renew: its grant is gone by then.
    let patience = (Duration::from_nanos(wait.as_nanos()).max(remaining) + MOVE_SLACK)
        .min(Duration::from_nanos(WAIT.as_nanos()));
    let released = async {
        for look in 1u32.. {
            sleep(MOVE_LOOK).await;
            let held = in_time(node, node.holder(name)).await?;
            if held.is_none_or(|(leader, _)| leader.token != asked.token) {
                break;
            }
            // The request may be lost. The leader ignores a duplicate. The target may wait no longer, which changes
            // nothing.
            if look.is_multiple_of(MOVE_RETRY) {
                _ = in_time(node, node.move_leader(name, to, Some(asked.token))).await;
            }
        }
        Ok(0)
    };
    timeout(patience, released).await.unwrap_or_else(|_| {
        let error = format!(
            "node {} leads {name} and has not handed over within {} s: see whether node {} reaches it, and whether it is \
             of the same version",
            asked.node,
            patience.as_secs(),
            node.id()
        );
        Err(Problem::new(StatusCode::CONFLICT, error).because("not_released"))
    })
}
