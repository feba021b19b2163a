//! `POST /elections/{name}/campaign` with `{"hold":"connection"}`: the client leads for as long as its connection stays open.
//!
//! ```text
//!   node ──states──▶ task of the connection ──lines──▶ body of the response ──▶ client
//!                         ▲ process exits, connection closes
//! ```
//!
//! The response is a stream of JSON objects, one per line. A task of its own watches the client: it learns of the client's
//! death also while the client does not read. States that the client has not read are replaced by later ones.

use hyper::StatusCode;
use serde_json::{Value, json};
use suffrage_core::Time;
use suffrage_lease::sessions::connection::{ConnectionEnd, ConnectionState, LossReason, deadline_by};
use suffrage_lease::sessions::{LeaseRequest, SessionError};
use tokio::sync::mpsc;

use super::exchange::{Answer, stream};
use super::{App, Problem, in_time};
use crate::daemon::local::{LocalPeer, Watch};
use suffrage_node::Error;
use suffrage_node::clock::boottime;
use suffrage_node::lease::{HoldState, Holding, NodeClock, Value as LeaseValue};

/// Checks that a request may hold by its connection.
pub(super) fn check(
    held_by: &str,
    has_session: bool,
    overflow: bool,
    peer: Option<LocalPeer>,
) -> Result<LocalPeer, Problem> {
    let refused = |error: &str| Problem::new(StatusCode::BAD_REQUEST, error);
    if held_by != "connection" {
        return Err(refused("hold: must be \"connection\"; leave it out to renew the session by requests"));
    }
    if has_session {
        return Err(refused("session: is not for `hold`; the session ends with its connection"));
    }
    let Some(peer) = peer else {
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
    (lease, value): (LeaseRequest, Option<LeaseValue>),
    peer: LocalPeer,
) -> Answer {
    let failed = |error| {
        let error = format!("this node cannot watch the process of the client: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error)
    };
    // From here on, also before the first state, the node learns of the client's end.
    let watch = peer.watch().map_err(failed)?;
    let mut untold = Untold(None);
    let first = in_time(&app.node, async { untold.begin(app.node.hold(name, lease, value)?).await });
    if let Some(Err(error)) = first.await? {
        return Err(error.into());
    }
    let Some(holding) = untold.0.take() else { return Err(Problem::stopping()) };
    // One line: a client that does not read gets the latest state when it reads.
    let (lines, body) = mpsc::channel(1);
    let clock = app.node.clock().clone();
    suffrage_node::spawn(converse(holding, watch, clock, lines));
    Ok(stream("application/x-ndjson", "no-store", body))
}

/// A session whose client has not been told anything. If it is dropped, the client relies on nothing, also if the node
/// leads for it by now.
struct Untold(Option<Holding>);

impl Untold {
    /// Waits for the first state.
    async fn begin(&mut self, holding: Holding) -> Result<HoldState, Error> {
        let state = self.0.insert(holding).states().wait_for(Option::is_some).await;
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use suffrage_core::Span;
    use suffrage_node::clock::ManualClock;

    use super::*;
    use crate::daemon::http::health::STALE;
    use crate::daemon::http::health::tests::{Disk, app};

    /// What a stuck node is asked would accumulate in its queue, and it would lead for clients that were refused.
    #[tokio::test]
    async fn a_stuck_node_gets_no_clients() {
        let (clock, (disk, results)) = (ManualClock::new(), mpsc::channel());
        let app = app(&clock, Disk::Slow(results), 1).await;
        clock.advance(STALE);
        let (_client, peer) = LocalPeer::pair();
        let lease = LeaseRequest { ttl: Span::from_millis(1_000), rank: 0 };
        let refused = hold(&app, "x", (lease, None), peer).await.unwrap_err();
        assert!(refused.error.contains("this node is stuck"), "{}", refused.error);
        disk.send(Ok(())).unwrap();
        assert_eq!(app.node.metrics().await.unwrap().elections, 0);
        app.node.abort();
    }
}
