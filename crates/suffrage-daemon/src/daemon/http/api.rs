//! Elections: who leads them, and taking part in them.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;
use suffrage_core::{NodeId, Span, Time};
use tokio::time::timeout;

use super::{App, Problem, check_name, in_time, within};
use crate::daemon::serve::OverflowConnection;
use crate::daemon::watches::Watched;
use suffrage_lease::sessions::{
    CampaignRequest, LeaseRequest, SessionError, SessionId, SessionOutcome, SessionReply, SessionRequest,
    longest_wait,
};
use suffrage_node::lease::{CandidateConfig, Status};

/// How long a client waits for an answer if it does not say.
const WAIT: Span = Span::from_millis(30_000);

/// What is told of an election.
#[derive(Serialize)]
pub(super) struct Told {
    election: String,
    /// This node.
    node: u64,
    leader: Option<u64>,
    token: Option<u64>,
    /// How long it has been so, as far as this node knows.
    since_ms: u64,
    /// If this node leads.
    lease_remaining_ms: Option<u64>,
    /// Why this node leads or does not.
    why: String,
}

impl Told {
    pub(super) fn new(node: NodeId, now: Time, status: &Status) -> Told {
        Told {
            election: status.name.clone(),
            node: node.0,
            leader: status.leader.map(|(leader, _)| leader.0),
            token: status.leader.map(|(_, token)| token.number()),
            since_ms: millis(now.since(status.since)),
            lease_remaining_ms: status.lease.map(|lease| millis(lease.valid_until.since(now))),
            why: status.why.to_string(),
        }
    }
}

/// Whole milliseconds, and never one too many.
pub(super) fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}

/// What this node knows of an election. If it has only just begun to follow it, the voters are given the time
/// to answer.
pub(super) async fn status(app: &App, name: &str) -> Result<Status, Problem> {
    check_name(name)?;
    let mut watched = watch(app, name).await?;
    let belief = &mut watched.belief;
    let grace = app.node.settings().delay * 4;
    let known = app.node.clock().now().since(belief.borrow().since);
    if belief.borrow().leader.is_none() && known < grace {
        let left = std::time::Duration::from_nanos((grace - known).as_nanos());
        // Either it is known by then who leads, or nobody does.
        _ = timeout(left, belief.wait_for(|belief| belief.leader.is_some())).await;
    }
    let status = in_time(&app.node, app.node.status(name)).await?;
    status.ok_or_else(|| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "this node stops: ask another node"))
}

pub(super) async fn watch(app: &App, name: &str) -> Result<Watched, Problem> {
    in_time(&app.node, app.watches.watch(name)).await
}

/// `GET /elections`
pub(super) async fn elections(State(app): State<App>) -> Result<Response, Problem> {
    let all = super::elections(&app.node).await?;
    let now = app.node.clock().now();
    let told: Vec<Told> = all.iter().map(|status| Told::new(app.node.id(), now, status)).collect();
    Ok(Json(json!({ "elections": told })).into_response())
}

/// `GET /elections/{name}`
pub(super) async fn election(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Told>, Problem> {
    let status = status(&app, &name).await?;
    Ok(Json(Told::new(app.node.id(), app.node.clock().now(), &status)))
}

/// `GET /elections/{name}/history`
pub(super) async fn history(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Problem> {
    check_name(&name)?;
    let records = in_time(&app.node, app.node.history(Some(&name))).await?;
    let now = app.node.clock().now();
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let (leader, token) = record.leader.map(|(leader, token)| (leader.0, token.number())).unzip();
            json!({ "leader": leader, "token": token, "age_ms": millis(now.since(record.at)) })
        })
        .collect();
    Ok(Json(json!({ "election": name, "node": app.node.id().0, "history": told })).into_response())
}

/// What is said with a wish to lead.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Campaign {
    session: Option<String>,
    ttl: Option<String>,
    wait: Option<String>,
    rank: i64,
}

/// What is said by one that leads on.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Renewal {
    session: Option<String>,
}

/// What is said by one that leads no longer, or by an operator, who has no session.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Farewell {
    session: Option<String>,
    to: Option<u64>,
    wait: Option<String>,
}

type Said<T> = Result<Json<T>, JsonRejection>;

fn understood<T>(said: Said<T>) -> Result<T, Problem> {
    said.map(|Json(said)| said).map_err(|rejection| {
        let hint = match rejection {
            JsonRejection::MissingJsonContentType(_) => " (curl: --json '{}')",
            _ => "",
        };
        Problem::new(rejection.status(), format!("{}{hint}", rejection.body_text()))
    })
}

fn span(key: &str, text: Option<&str>, otherwise: Span) -> Result<Span, Problem> {
    let Some(text) = text else { return Ok(otherwise) };
    Span::parse_duration(text)
        .map_err(|reason| Problem::new(StatusCode::BAD_REQUEST, format!("{key}: {reason}")))
}

fn session(text: &str) -> Result<SessionId, Problem> {
    // A text that is no session id is not the id of a session that leads or waits.
    text.parse().map_err(|()| SessionError::Expired.into())
}

/// `POST /elections/{name}/campaign`
pub(super) async fn campaign(
    State(app): State<App>,
    Path(name): Path<String>,
    overflow: Option<Extension<OverflowConnection>>,
    said: Said<Campaign>,
) -> Result<Response, Problem> {
    // First of all: the client counts from before this.
    let received = app.node.clock().now();
    let said = understood(said)?;
    check_name(&name)?;
    let lease = LeaseRequest { ttl: span("ttl", said.ttl.as_deref(), app.ttl)?, rank: said.rank };
    let settings = app.node.settings();
    let config = CandidateConfig { ttl: lease.ttl, ..CandidateConfig::default() };
    let refused = |invalid| Problem::new(StatusCode::BAD_REQUEST, format!("ttl: {invalid}"));
    config.check(&settings.engine()).map_err(refused)?;
    if lease.rank == i64::MAX {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "rank: must be below 9223372036854775807"));
    }
    let wait = span("wait", said.wait.as_deref(), WAIT)?.min(longest_wait(settings.drift, lease.ttl));
    // It is in line all the same, and asks again.
    let wait = if overflow.is_some() { Span::ZERO } else { wait };
    let session = said.session.as_deref().map(session).transpose()?;
    let request = SessionRequest::Campaign(CampaignRequest { session, lease, wait });
    told(within(&app.node, wait, app.node.session_request(&name, request, received)).await?)
}

/// `POST /elections/{name}/renew`
pub(super) async fn renew(
    State(app): State<App>,
    Path(name): Path<String>,
    said: Said<Renewal>,
) -> Result<Response, Problem> {
    let received = app.node.clock().now();
    let said = understood(said)?;
    check_name(&name)?;
    let missing = || Problem::new(StatusCode::BAD_REQUEST, "session: is missing; campaign gives one");
    let session = session(said.session.as_deref().ok_or_else(missing)?)?;
    let asked = app.node.session_request(&name, SessionRequest::Renew { session }, received);
    told(in_time(&app.node, asked).await?)
}

/// What a client is told about its session.
fn told(outcome: SessionOutcome) -> Result<Response, Problem> {
    match outcome? {
        SessionReply::Leading { session, token, valid_for } => {
            let session = session.to_string();
            let body = json!({ "session": session, "token": token, "valid_for_ms": millis(valid_for) });
            Ok(Json(body).into_response())
        }
        SessionReply::Waiting { session, queue_position, retry_before } => {
            let body = json!({
                "session": session.to_string(),
                "queue_position": queue_position,
                "retry_before_ms": millis(retry_before),
            });
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
        SessionReply::Superseded => {
            let error = "this session has asked again, elsewhere: that one is answered";
            Err(Problem::new(StatusCode::CONFLICT, error).because("superseded"))
        }
        SessionReply::Resigned => Ok(Json(json!({ "within_ms": 0 })).into_response()),
        SessionReply::Revoking { within } => Ok(Json(json!({ "within_ms": millis(within) })).into_response()),
    }
}

/// `POST /elections/{name}/resign`
pub(super) async fn resign(
    State(app): State<App>,
    Path(name): Path<String>,
    overflow: Option<Extension<OverflowConnection>>,
    said: Said<Farewell>,
) -> Result<Response, Problem> {
    let said = understood(said)?;
    if said.to.is_some() {
        let error = "to: is for transfer; whoever is next takes over from one that resigns";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    hand_over(&app, &name, &said, overflow.is_some()).await
}

/// `POST /elections/{name}/transfer`
pub(super) async fn transfer(
    State(app): State<App>,
    Path(name): Path<String>,
    overflow: Option<Extension<OverflowConnection>>,
    said: Said<Farewell>,
) -> Result<Response, Problem> {
    let said = understood(said)?;
    let missing = || Problem::new(StatusCode::BAD_REQUEST, "to: is missing: the id of the node to lead next");
    let to = said.to.ok_or_else(missing)?;
    if to == app.node.id().0 {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "to: is this node itself"));
    }
    hand_over(&app, &name, &said, overflow.is_some()).await
}

async fn hand_over(app: &App, name: &str, said: &Farewell, overflow: bool) -> Result<Response, Problem> {
    check_name(name)?;
    let began = app.node.clock().now();
    let longest = if overflow { Span::ZERO } else { WAIT };
    let wait = span("wait", said.wait.as_deref(), Span::ZERO)?.min(longest);
    let session = said.session.as_deref().map(session).transpose()?;
    // Before anything changes, so that no change is missed.
    let watched = if wait.is_zero() { None } else { Some(watch(app, name).await?) };
    let before = watched.as_ref().and_then(|it| it.belief.borrow().leader).map(|(_, token)| token);
    let within = request_handover(app, name, session, said.to.map(NodeId)).await?;
    let mut body = json!({ "within_ms": within });
    let mut done = within == 0;
    if let Some(mut watched) = watched {
        let next = watched.belief.wait_for(|it| it.leader.map(|(_, token)| token) > before);
        let next = timeout(std::time::Duration::from_nanos(wait.as_nanos()), next).await;
        // Nobody took it in time, or the node has stopped meanwhile.
        let next = next.ok().and_then(Result::ok);
        let leader = next.as_ref().and_then(|belief| belief.leader);
        body["leader"] = json!(leader.map(|(leader, _)| leader.0));
        body["token"] = json!(leader.map(|(_, token)| token.number()));
        body["took_ms"] = json!(next.map(|belief| belief.since.since(began).as_nanos() as f64 / 1e6));
        done |= leader.is_some();
    }
    let code = if done { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((code, Json(body)).into_response())
}

/// Has the node hand over: in how many milliseconds it does at the latest, which are none unless a client leads that
/// was promised to.
async fn request_handover(
    app: &App,
    name: &str,
    session: Option<SessionId>,
    to: Option<NodeId>,
) -> Result<u64, Problem> {
    let request = match session {
        Some(session) => SessionRequest::Resign { session, to },
        None => SessionRequest::Revoke { to },
    };
    let asked = app.node.session_request(name, request, app.node.clock().now());
    match in_time(&app.node, asked).await? {
        Ok(SessionReply::Revoking { within }) if !within.is_zero() => Ok(millis(within) + 1),
        Ok(_) => Ok(0),
        Err(SessionError::NotLeading) => {
            let error = format!(
                "node {} does not lead {name}: ask the one that does; a `suffrage run` hands over when it is told to \
                 end",
                app.node.id()
            );
            Err(Problem::new(StatusCode::CONFLICT, error).because("not-leader"))
        }
        Err(error) => Err(error.into()),
    }
}
