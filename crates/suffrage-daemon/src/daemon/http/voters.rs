//! `GET /voters` and `POST /voters`: the voters of the cluster, and changes of them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use suffrage_core::NodeId;
use suffrage_node::lease::MembershipStatus;
use suffrage_node::lease::membership::{Change, ChangeProgress, VoterEntry};
use suffrage_node::resolver::check_address;

use super::api::{Body, parsed};
use super::{App, Problem, in_time};

/// The body of a change: exactly one member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum ChangeBody {
    /// Adds a voter.
    Add { id: u64, address: String },
    /// Removes a voter.
    Remove { id: u64 },
    /// Gives a cluster that still runs with its founding list its first versioned configuration.
    Adopt {
        /// The voters that need not answer, and that do not vote from then on.
        #[serde(default)]
        without: Vec<u64>,
    },
    /// Stops the change that this node coordinates.
    Stop {},
}

/// `GET /voters`
pub(super) async fn voters(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let membership = in_time(&app.node, app.node.membership()).await?;
    body(&app, &membership).await
}

/// `POST /voters`
pub(super) async fn change(State(app): State<App>, request: Body) -> Result<Json<Value>, Problem> {
    let refused = |error: String| Problem::new(StatusCode::BAD_REQUEST, error);
    let change = match parsed(request)? {
        ChangeBody::Add { id, address } => {
            check_address(&address).map_err(|reason| refused(format!("address: {reason}")))?;
            Some(Change::Add(NodeId(id), address))
        }
        ChangeBody::Remove { id } => Some(Change::Remove(NodeId(id))),
        ChangeBody::Adopt { without } => {
            Some(Change::Adopt { without: without.into_iter().map(NodeId).collect() })
        }
        ChangeBody::Stop {} => None,
    };
    match change {
        Some(change) => {
            in_time(&app.node, app.node.change_voters(change.clone())).await?;
            // The addresses of voters are those of the configuration.
            if let Change::Add(id, address) = change
                && app.node.configuration().borrow().voter(id).is_none()
            {
                app.peers.set(id, &address);
            }
        }
        None => app.node.stop_change(),
    }
    let membership = in_time(&app.node, app.node.membership()).await?;
    if let Some((_, ChangeProgress::Impossible(reason))) = &membership.change {
        return Err(Problem::new(StatusCode::CONFLICT, reason.to_string()).because("impossible"));
    }
    body(&app, &membership).await
}

async fn body(app: &App, membership: &MembershipStatus) -> Result<Json<Value>, Problem> {
    let metrics = in_time(&app.node, app.node.metrics()).await?;
    let configuration = &membership.configuration;
    let voter = |voter: &VoterEntry| {
        let contact = metrics.voters.iter().find(|contact| contact.voter == voter.id);
        let reply_age = contact.and_then(|contact| contact.reply_age).map(|age| age.as_millis() as u64);
        json!({
            "id": voter.id.0,
            "address": voter.address,
            "disk": voter.disk.map(|disk| disk.to_string()),
            "answers": contact.is_some_and(|contact| contact.answers()),
            "reply_age_ms": reply_age,
        })
    };
    let change = membership.change.as_ref().map(|(change, progress)| {
        let (change, text) = (change.to_string(), progress.to_string());
        json!({ "change": change, "state": progress.code(), "progress": text })
    });
    let mismatches: Vec<Value> = membership
        .mismatches
        .iter()
        .map(|(node, mismatch)| json!({ "node": node.0, "reason": mismatch.to_string() }))
        .collect();
    Ok(Json(json!({
        "node": app.node.id().0,
        "cluster": configuration.cluster().to_string(),
        "version": configuration.version(),
        "certain": membership.certain,
        "voters": configuration.voters().iter().map(voter).collect::<Vec<_>>(),
        "drained_in_ms": membership.drained_in.map(|left| left.as_millis() as u64),
        "change": change,
        "mismatches": mismatches,
    })))
}
