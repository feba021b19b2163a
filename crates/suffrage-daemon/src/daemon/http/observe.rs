//! `GET /elections/{name}/observe`: the leader and its changes, as server-sent events.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use suffrage_core::Time;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::api::{self, millis};
use super::exchange::{Answer, Request, stream};
use super::{App, Problem};
use suffrage_node::lease::Belief;

/// The interval of keep-alive comments: clients notice broken connections, and proxies do not time out.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn observe(app: &App, Request { name, overflow, .. }: Request) -> Answer {
    check_room(overflow)?;
    // The first event then has the answers of the voters.
    api::status(app, &name).await?;
    let watched = api::watch(app, &name).await?;
    let (events, body) = mpsc::channel(1);
    // A stream does not keep the node running.
    let (node, clock) = (app.node.id().0, app.node.clock().clone());
    suffrage_node::spawn(async move {
        let describe = |belief: &Belief| event(&name, node, clock.now(), belief);
        tell(watched.belief.clone(), events, describe).await;
        drop(watched);
    });
    Ok(stream("text/event-stream", "no-cache", body))
}

/// Refuses a stream on an overflow connection.
pub(super) fn check_room(overflow: bool) -> Result<(), Problem> {
    if !overflow {
        return Ok(());
    }
    let error = "this node has too many connections for another stream of events: use another node";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error))
}

/// Sends an event for each state, until the client is gone or the sender of states has ended.
pub(super) async fn tell<T>(
    mut states: watch::Receiver<T>,
    events: mpsc::Sender<String>,
    describe: impl Fn(&T) -> String,
) {
    loop {
        let Ok(room) = events.reserve().await else { return };
        room.send(describe(&states.borrow_and_update()));
        loop {
            let changed = tokio::select! {
                () = events.closed() => return,
                changed = timeout(KEEP_ALIVE, states.changed()) => changed,
            };
            match changed {
                Ok(Ok(())) => break,
                // The node or the member has stopped: the stream ends.
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
