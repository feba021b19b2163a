//! The endpoints of a node that is started on a full disk. The node waits for space, and does not take part in elections.
//! Its answers are those of a node that runs and cannot save.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use serde_json::json;
use tokio::sync::watch;

use super::{CredentialsInUse, Problem, checked, health, metrics, openapi, routes, with_guards};

/// The state of the handlers.
#[derive(Clone)]
struct SuspendedApp {
    failure: watch::Receiver<String>,
    credentials: CredentialsInUse,
}

/// The router of a suspended node. `failure` is the failure to save.
pub(in crate::daemon) fn suspended_router(
    failure: watch::Receiver<String>,
    credentials: CredentialsInUse,
) -> Router {
    let handler = |path: &str| -> MethodRouter<SuspendedApp> {
        match path {
            "/liveness" => checked(liveness),
            "/readiness" | "/health" => checked(readiness),
            "/metrics" => get(page),
            "/openapi.json" => get(openapi::document),
            _ => any(unavailable),
        }
    };
    let routes = routes().into_iter().map(|route| (route.path, route.open, handler(route.path)));
    with_guards(routes, credentials.clone()).with_state(SuspendedApp { failure, credentials })
}

/// A restart would not help.
async fn liveness() -> Response {
    Json(json!({ "alive": true })).into_response()
}

async fn readiness(State(app): State<SuspendedApp>) -> Response {
    let why = health::cannot_save(&app.failure.borrow());
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false, "why": why }))).into_response()
}

async fn page(State(app): State<SuspendedApp>) -> Response {
    metrics::suspended(app.credentials.borrow().certificate.as_ref().map(|it| it.end()))
}

async fn unavailable(State(app): State<SuspendedApp>) -> Problem {
    Problem::suspended(&app.failure.borrow())
}
