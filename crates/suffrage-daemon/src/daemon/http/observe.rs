//! `GET /elections/{name}/observe`: the leader and its changes, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::stream::{Stream, unfold};
use serde_json::json;
use suffrage_core::Time;

use super::api::{self, millis};
use super::{App, Problem};
use crate::daemon::serve::OverflowConnection;
use crate::daemon::watches::Watched;
use suffrage_node::lease::Belief;

/// The interval of keep-alive comments: clients notice broken connections, and proxies do not time out.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn observe(
    State(app): State<App>,
    Path(name): Path<String>,
    overflow: Option<Extension<OverflowConnection>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    if overflow.is_some() {
        let error = "this node has too many connections for another stream of events: use another node";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    // The first event then has the answers of the voters.
    api::status(&app, &name).await?;
    let watched = api::watch(&app, &name).await?;
    let node = app.node.id().0;
    let clock = app.node.clock().clone();
    // A stream does not keep the node running.
    drop(app);
    let events = unfold((watched, true), move |(mut watched, first): (Watched, bool)| {
        let (name, clock) = (name.clone(), clock.clone());
        async move {
            if !first {
                // An error means that the node has stopped: the stream ends.
                watched.belief.changed().await.ok()?;
            }
            let event = event(&name, node, clock.now(), &watched.belief.borrow_and_update());
            Some((Ok(event), (watched, false)))
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn event(name: &str, node: u64, now: Time, belief: &Belief) -> Event {
    let (leader, token) = api::leader_and_token(belief.leader);
    let since = millis(now.since(belief.since));
    let body = json!({ "election": name, "node": node, "leader": leader, "token": token, "since_ms": since });
    Event::default().event("leader").data(body.to_string())
}
