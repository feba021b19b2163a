//! The endpoints of a node that is started on a full disk. The node waits for space, and does not take part in elections.
//! Its answers are those of a node that runs and cannot save.

use hyper::StatusCode;
use serde_json::json;

use super::exchange::{Answer, json};
use super::{CredentialsInUse, Problem, health, metrics, openapi, page};

/// The answer of an endpoint, with the name in its path. `failure` is the failure to save.
pub(super) fn answer((path, name): (&str, &str), failure: &str, credentials: &CredentialsInUse) -> Answer {
    match path {
        // A restart would not help.
        "/liveness" => Ok(json(StatusCode::OK, &json!({ "alive": true }))),
        "/readiness" | "/health" => {
            let why = health::cannot_save(failure);
            Ok(json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "ready": false, "why": why })))
        }
        "/metrics" => Ok(metrics::suspended(
            credentials.borrow().certificate.as_ref().map(|certificate| certificate.end()),
        )),
        "/openapi.json" => Ok(openapi::answer()),
        // The page shows the answers of the other endpoints.
        "/" | "/page/{file}" => page::answer(name),
        _ => Err(Problem::suspended(failure)),
    }
}
