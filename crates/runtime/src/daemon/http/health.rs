//! Health, the way load balancers and orchestrators ask for it: by status codes, with GET, HEAD or OPTIONS.
//!
//! - `/leader`, `/primary`: 200 where the election is led, 503 elsewhere. `/replica`: the other way round.
//! - `/liveness`: 503 if the node does not come round to answering: restart it. Not if it waits for its disk,
//!   which a restart does not mend.
//! - `/readiness`: 200 if the node hears a majority of voters, and can save if it votes itself. Whether it leads
//!   is of no account: if only leaders were ready, a rolling update would wait for ever for the second one.
//! - `/health`: 200 if it is both.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use election::Span;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{App, PATIENCE, Problem, api, checked, elections, in_time};
use crate::lease::Node;

/// Who has not been heard for so long is not there: the daemon asks the voters three times as often at least (see
/// `feel_pulse`).
const SILENCE: Span = Span::from_millis(10_000);

/// The health checks.
pub(super) fn checks() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        ("/leader", checked(leader)),
        ("/primary", checked(leader)),
        ("/replica", checked(replica)),
        ("/liveness", checked(liveness)),
        ("/readiness", checked(readiness)),
        ("/health", checked(health)),
    ]
}

/// Which election is meant.
#[derive(Deserialize)]
pub(super) struct Asked {
    election: Option<String>,
}

/// Whether this node leads the election that is meant.
async fn leads(app: &App, asked: Asked) -> Result<(bool, Response), Problem> {
    let name = match asked.election {
        Some(name) => name,
        None => {
            let mut all = elections(&app.node).await?;
            let (Some(only), true) = (all.pop(), all.is_empty()) else {
                let error = "which election? Say ?election=NAME: this node takes part in none, or in several";
                return Err(Problem::new(StatusCode::BAD_REQUEST, error));
            };
            only.name
        }
    };
    let status = api::status(app, &name).await?;
    let told = api::Told::new(app.node.id(), app.node.clock().now(), &status);
    Ok((status.lease.is_some(), Json(told).into_response()))
}

fn code(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn leader(State(app): State<App>, Query(asked): Query<Asked>) -> Result<Response, Problem> {
    let (leads, told) = leads(&app, asked).await?;
    Ok((code(leads), told).into_response())
}

async fn replica(State(app): State<App>, Query(asked): Query<Asked>) -> Result<Response, Problem> {
    let (leads, told) = leads(&app, asked).await?;
    Ok((code(!leads), told).into_response())
}

/// Whether the node comes round to things, or at least says why it does not.
pub(in crate::daemon) async fn is_alive(node: &Node) -> bool {
    match timeout(PATIENCE, node.figures()).await {
        // To be answered is to be come round to.
        Ok(answered) => answered.is_ok(),
        Err(_) => node.condition().borrow().trouble.is_some(),
    }
}

async fn liveness(State(app): State<App>) -> Response {
    let alive = is_alive(&app.node).await;
    (code(alive), Json(json!({ "alive": alive }))).into_response()
}

/// Why the node is not ready, if it is not.
async fn unready(node: &Node) -> Result<Option<String>, Problem> {
    if let Some(trouble) = &node.condition().borrow().trouble {
        return Ok(Some(format!("it cannot save its state: {trouble}")));
    }
    let figures = in_time(node, node.figures()).await?;
    if figures.voter.is_some_and(|voter| !voter.votes) {
        return Ok(Some("it has lost the state of its votes: it must come back with another id".to_string()));
    }
    let voters = node.settings().voters.len();
    let heard = figures.heard.iter().filter(|(_, ago)| ago.is_some_and(|ago| ago < SILENCE)).count();
    let majority = voters / 2 + 1;
    Ok((heard < majority)
        .then(|| format!("it hears {heard} of {voters} voters, and {majority} have to answer")))
}

async fn readiness(State(app): State<App>) -> Result<Response, Problem> {
    let unready = unready(&app.node).await?;
    Ok((code(unready.is_none()), Json(json!({ "ready": unready.is_none(), "why": unready }))).into_response())
}

async fn health(State(app): State<App>) -> Result<Response, Problem> {
    if !is_alive(&app.node).await {
        return Ok((code(false), Json(json!({ "alive": false }))).into_response());
    }
    readiness(State(app)).await
}
