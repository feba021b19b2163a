//! `GET /live`: the state of the node and the changes of leaders, as server-sent events, for the cluster's page.
//!
//! - `node`, every second: the node, the voters and who answers, round trips, numbers of elections.
//! - `leaders`, at most ten times a second: elections whose leader has changed. `lagged` says that some are missing.
//!
//! A slow client holds two events at most: the next one is made when there is room for it.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};
use suffrage_core::Span;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::api::{leader_and_token, millis};
use super::exchange::{Answer, Request, stream};
use super::{App, Problem, health, in_time, is_stopping, voters};
use crate::daemon::live::{Batch, MOST_STREAMS, Subscription};
use suffrage_node::lease::{Node, NodeState};

/// The interval of the state of the node.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two events about leaders.
const PACE: Duration = Duration::from_millis(100);

pub(super) async fn live(app: &App, request: Request) -> Answer {
    let Some(changes) = app.changes.subscribe().filter(|_| !request.overflow) else {
        let error = format!(
            "this node has too many connections, or {MOST_STREAMS} open pages already: close one, or use another node"
        );
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error));
    };
    let (events, body) = mpsc::channel(1);
    suffrage_node::spawn(tell(app.node.clone(), app.ttl, changes, events));
    Ok(stream("text/event-stream", "no-store", body))
}

/// Sends events until the client is gone or the node has stopped.
async fn tell(node: Node, ttl: Span, mut changes: Subscription, events: mpsc::Sender<String>) {
    let mut state = node.state();
    let (mut due, mut pause) = (Instant::now(), Instant::now());
    loop {
        // Room first, then the state: the client is told the latest.
        let Ok(room) = events.reserve().await else { return };
        let batch = async {
            sleep_until(pause).await;
            changes.next().await
        };
        let stopped = async { _ = state.wait_for(NodeState::is_stopped).await };
        let (event, body) = tokio::select! {
            () = events.closed() => return,
            () = stopped => return,
            () = sleep_until(due) => {
                due = Instant::now() + INTERVAL;
                ("node", describe(&node, ttl).await)
            }
            batch = batch => {
                pause = Instant::now() + PACE;
                let Some(batch) = batch else { return };
                ("leaders", leaders(&batch))
            }
        };
        room.send(format!("event: {event}\ndata: {body}\n\n"));
    }
}

fn leaders(batch: &Batch) -> Value {
    let changes = batch.changes.iter().map(|change| {
        let (leader, token) = leader_and_token(change.leader);
        json!({ "election": &*change.election, "leader": leader, "token": token })
    });
    json!({ "changes": changes.collect::<Vec<_>>(), "lagged": batch.lagged })
}

/// The state of the node. A node that does not answer has less of it, and the reason.
async fn describe(node: &Node, ttl: Span) -> Value {
    let settings = node.settings();
    let mut body = json!({
        "node": node.id().0,
        "program": env!("CARGO_PKG_VERSION"),
        "ttl_ms": millis(ttl),
        "longest_ttl_ms": millis(settings.longest_ttl),
        "delay_ms": settings.delay.as_nanos() as f64 / 1e6,
        "drift": settings.drift.to_string(),
        "save_pending_ms": node.save_pending().map(|pending| pending.as_millis() as u64),
        "stopping": is_stopping(node),
    });
    match cluster(node, ttl).await {
        Ok(cluster) => body["cluster"] = cluster,
        Err(problem) => body["error"] = json!(problem.error),
    }
    body
}

async fn cluster(node: &Node, ttl: Span) -> Result<Value, Problem> {
    let membership = in_time(node, node.membership()).await?;
    let overview = in_time(node, node.survey()).await?;
    let mut body = voters::describe(node, &membership, &overview);
    body["not_ready"] = json!(health::unready(node, ttl).await?);
    body["votes"] = json!(overview.voter.map(|voter| voter.votes && voter.silence_remaining.is_zero()));
    body["round_trip_ms"] = json!(overview.round_trip.as_nanos() as f64 / 1e6);
    let counters = &overview.counters;
    body["leader_changes"] =
        json!(counters.leaderships_started + counters.leaders_followed + counters.leaders_granted);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use suffrage_node::clock::ManualClock;

    use super::*;
    use crate::daemon::http::Body;
    use crate::daemon::http::health::tests::{Disk, app};

    async fn open(app: &App) -> mpsc::Receiver<String> {
        match live(app, Request::default()).await.unwrap().into_body() {
            Body::Parts(parts) => parts,
            Body::Whole(_) => panic!("the answer is no stream"),
        }
    }

    #[tokio::test]
    async fn a_stream_tells_the_state_of_the_node_and_ends_with_it() {
        let app = app(&ManualClock::new(), Disk::Good, 1).await;
        let mut events = open(&app).await;
        let first = events.recv().await.unwrap();
        let body = first.strip_prefix("event: node\ndata: ").unwrap();
        let body: Value = serde_json::from_str(body.trim_end()).unwrap();
        assert_eq!(body["node"], 1);
        assert_eq!(body["cluster"]["voters"][0]["id"], 1);
        app.node.stop().await;
        while events.recv().await.is_some() {}
    }

    #[tokio::test]
    async fn streams_are_limited_and_a_client_that_hangs_up_makes_room() {
        let app = app(&ManualClock::new(), Disk::Good, 1).await;
        let mut streams = Vec::new();
        for _ in 0..MOST_STREAMS {
            streams.push(open(&app).await);
        }
        let refused = live(&app, Request::default()).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        let overflow = Request { overflow: true, ..Request::default() };
        streams.pop();
        while live(&app, Request::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert!(live(&app, overflow).await.is_err(), "an overflow connection has no stream");
        app.node.abort();
    }
}
