//! `POST /elections/{name}/campaign` with `{"hold":"connection"}`: the client leads for as long as its connection stays open.
//!
//! ```text
//!   node ──states──▶ task of the connection ──lines──▶ body of the response ──▶ client
//!                         ▲ process exits, connection closes
//! ```
//!
//! The response is a stream of JSON objects, one per line. A task of its own watches the client: it learns of the client's
//! death also while the client does not read. States that the client has not read are replaced by later ones.

use std::convert::Infallible;

use axum::Extension;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde_json::{Value, json};
use suffrage_core::Time;
use suffrage_lease::sessions::connection::{ConnectionEnd, ConnectionState, LossReason, deadline_by};
use suffrage_lease::sessions::{LeaseRequest, SessionError};
use tokio::sync::mpsc;

use super::{App, Problem, in_time};
use crate::daemon::local::{LocalPeer, Watch};
use suffrage_node::Error;
use suffrage_node::clock::boottime;
use suffrage_node::lease::{HoldState, Holding, NodeClock};

/// Checks that a request may hold by its connection.
pub(super) fn check(
    held_by: &str,
    has_session: bool,
    overflow: bool,
    peer: Option<Extension<LocalPeer>>,
) -> Result<LocalPeer, Problem> {
    let refused = |error: &str| Problem::new(StatusCode::BAD_REQUEST, error);
    if held_by != "connection" {
        return Err(refused("hold: must be \"connection\"; leave it out to renew the session by requests"));
    }
    if has_session {
        return Err(refused("session: is not for `hold`; the session ends with its connection"));
    }
    let Some(Extension(peer)) = peer else {
        return Err(refused(
            "hold: needs the Unix socket of this node (`socket` in its configuration), where the node learns when \
             the process of the client exits; over the network, renew the session by requests",
        ));
    };
    if overflow {
        let error = "this node has too many connections for another client that leads by connection";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    Ok(peer)
}

/// Leads for as long as the connection of this peer stays open.
pub(super) async fn hold(
    app: &App,
    name: &str,
    lease: LeaseRequest,
    peer: LocalPeer,
) -> Result<Response, Problem> {
    let failed = |error| {
        let error = format!("this node cannot watch the process of the client: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error)
    };
    // From here on, also before the first state, the node learns of the client's end.
    let watch = peer.watch().map_err(failed)?;
    let mut untold = Untold(Some(app.node.hold(name, lease)?));
    if let Some(Err(error)) = in_time(&app.node, untold.first_state()).await? {
        return Err(error.into());
    }
    let Some(holding) = untold.0.take() else { return Err(Problem::stopping()) };
    // One line: a client that does not read gets the latest state when it reads.
    let (lines, body) = mpsc::channel(1);
    let clock = app.node.clock().clone();
    tokio::spawn(converse(holding, watch, clock, lines));
    let body = unfold(body, |mut body: mpsc::Receiver<String>| async {
        let line = body.recv().await?;
        Some((Ok::<String, Infallible>(line), body))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    Ok((kind, Body::from_stream(body)).into_response())
}

/// A session whose client has not been told anything. If it is dropped, the client relies on nothing, also if the node
/// leads for it by now.
struct Untold(Option<Holding>);

impl Untold {
    async fn first_state(&mut self) -> Result<HoldState, Error> {
        let holding = self.0.as_mut().ok_or(Error::Stopped)?;
        let state = holding.states().wait_for(Option::is_some).await;
        Ok(*state.map_err(|_| Error::Stopped)?)
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        if let Some(holding) = self.0.take() {
            holding.end(ConnectionEnd::HolderGone);
        }
    }
}

/// Tells the client its states until one of the two has ended.
async fn converse(mut holding: Holding, watch: Watch, clock: NodeClock, lines: mpsc::Sender<String>) {
    let mut told = None;
    let end = tokio::select! {
        biased;
        () = watch.gone() => ConnectionEnd::HolderGone,
        // The connection has dropped the body: a write has failed, or its task. The client may live.
        () = lines.closed() => match watch.is_gone() {
            true => ConnectionEnd::HolderGone,
            false => ConnectionEnd::Broken,
        },
        // The session is over, and the node knows.
        () = tell(&mut holding, &watch, &clock, &lines, &mut told) => ConnectionEnd::Broken,
    };
    holding.end(end);
    if end == ConnectionEnd::HolderGone && told.is_some() {
        // A child of the client may have the socket. If it does not read, the line is dropped with the connection.
        _ = lines.try_send(line(&lost("process_exited")));
    }
}

/// Sends a line for each state until the session has ended.
async fn tell(
    holding: &mut Holding,
    watch: &Watch,
    clock: &NodeClock,
    lines: &mpsc::Sender<String>,
    told: &mut Option<ConnectionState>,
) {
    loop {
        // Room first, then the state: the client is told the latest.
        let Ok(room) = lines.reserve().await else { return std::future::pending().await };
        let state = *holding.states().borrow_and_update();
        let (event, over) = match state {
            Some(Ok(state)) => {
                (event(*told, state, watch, clock), matches!(state, ConnectionState::Ended(_)))
            }
            Some(Err(error)) => (Some(refused(error)), true),
            None => (None, false),
        };
        if let Some(event) = event {
            room.send(line(&event));
        }
        *told = state.and_then(Result::ok).or(*told);
        if over {
            return;
        }
        if holding.states().changed().await.is_err() {
            // The last state may have come before the end of the node's task.
            if holding.states().has_changed().unwrap_or(false) {
                continue;
            }
            if let Ok(room) = lines.reserve().await {
                room.send(line(&lost("node_stopped")));
            }
            return;
        }
    }
}

fn line(event: &Value) -> String {
    format!("{event}\n")
}

fn lost(reason: &str) -> Value {
    json!({ "event": "lost", "reason": reason })
}

fn refused(error: SessionError) -> Value {
    match error {
        SessionError::Stopping => lost("node_stopped"),
        _ => lost("refused"),
    }
}

/// The event of a state, if it differs from what the client was told.
fn event(
    told: Option<ConnectionState>,
    state: ConnectionState,
    watch: &Watch,
    clock: &NodeClock,
) -> Option<Value> {
    if told == Some(state) {
        return None;
    }
    let led = matches!(told, Some(ConnectionState::Leading { .. }));
    let moments = |until: Time| {
        // The order matters: see `deadline_by`.
        let boottime = boottime();
        let deadline = deadline_by(boottime, clock.now(), until, None);
        (boottime.as_nanos(), deadline.as_nanos())
    };
    Some(match state {
        ConnectionState::Waiting { queue_position } => {
            json!({ "event": "waiting", "queue_position": queue_position })
        }
        ConnectionState::Leading { session, token, until, hand_over: false } if !led => {
            let (now, deadline) = moments(until);
            let watched = if watch.watches_process() { "process" } else { "connection" };
            json!({
                "event": "leading", "token": token, "deadline_ns": deadline, "now_ns": now,
                "session": session.to_string(), "watched": watched,
            })
        }
        ConnectionState::Leading { token, until, hand_over, .. } => {
            let (now, deadline) = moments(until);
            let event = if hand_over { "hand_over_wanted" } else { "renewed" };
            json!({ "event": event, "token": token, "deadline_ns": deadline, "now_ns": now })
        }
        ConnectionState::Ended(reason) => lost(match reason {
            LossReason::Resigned => "resigned",
            LossReason::HandedOver => "handed_over",
            LossReason::Expired => "expired",
        }),
    })
}
