//! `GET /elections/{name}/observe`: the leader and its changes, as server-sent events.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use suffrage_core::Time;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::api::{self, millis};
use super::exchange::{Answer, Request, stream};
use super::{App, Problem};
use crate::daemon::watches::Watched;
use suffrage_node::lease::{Belief, NodeClock};

/// The interval of keep-alive comments: clients notice broken connections, and proxies do not time out.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn observe(app: &App, Request { name, overflow, .. }: Request) -> Answer {
    if overflow {
        let error = "this node has too many connections for another stream of events: use another node";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    // The first event then has the answers of the voters.
    api::status(app, &name).await?;
    let watched = api::watch(app, &name).await?;
    let (events, body) = mpsc::channel(1);
    // A stream does not keep the node running.
    suffrage_node::spawn(tell(name, app.node.id().0, app.node.clock().clone(), watched, events));
    Ok(stream("text/event-stream", "no-cache", body))
}

/// Sends an event for each belief, until the client is gone or the node has stopped.
async fn tell(name: String, node: u64, clock: NodeClock, mut watched: Watched, events: mpsc::Sender<String>) {
    loop {
        let Ok(room) = events.reserve().await else { return };
        room.send(event(&name, node, clock.now(), &watched.belief.borrow_and_update()));
        loop {
            let changed = tokio::select! {
                () = events.closed() => return,
                changed = timeout(KEEP_ALIVE, watched.belief.changed()) => changed,
            };
            match changed {
                Ok(Ok(())) => break,
                // The node has stopped: the stream ends.
                Ok(Err(_)) => return,
                // An event that the client has not read yet does as well.
                Err(_) => _ = events.try_send(":\n\n".to_string()),
            }
        }
    }
}

fn event(name: &str, node: u64, now: Time, belief: &Belief) -> String {
    let (leader, token) = api::leader_and_token(belief.leader);
    let since = millis(now.since(belief.since));
    let value = belief.value.as_ref();
    let body = json!({
        "election": name, "node": node, "leader": leader, "token": token, "since_ms": since,
        "value": value.map(|value| value.as_str()), "value_version": value.map(|value| value.version()),
    });
    format!("event: leader\ndata: {body}\n\n")
}
