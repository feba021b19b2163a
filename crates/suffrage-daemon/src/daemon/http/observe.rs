//! `GET /elections/{name}/observe`: who leads, now and whenever that changes, as server-sent events.

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

/// Whoever is cut off without knowing learns of it, and proxies do not lose patience.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn observe(
    State(app): State<App>,
    Path(name): Path<String>,
    overflow: Option<Extension<OverflowConnection>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    if overflow.is_some() {
        let error = "too many are connected here to tell another one of every change: ask another node";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    // So that the first state is one that the voters had the time to tell.
    api::status(&app, &name).await?;
    let watched = api::watch(&app, &name).await?;
    let node = app.node.id().0;
    let clock = app.node.clock().clone();
    // What goes on for long does not keep the node alive.
    drop(app);
    let events = unfold((watched, true), move |(mut watched, first): (Watched, bool)| {
        let (name, clock) = (name.clone(), clock.clone());
        async move {
            if !first {
                // An error means that the node has stopped: so does the stream.
                watched.belief.changed().await.ok()?;
            }
            let event = event(&name, node, clock.now(), &watched.belief.borrow_and_update());
            Some((Ok(event), (watched, false)))
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn event(name: &str, node: u64, now: Time, belief: &Belief) -> Event {
    let (leader, token) = belief.leader.map(|(leader, token)| (leader.0, token.number())).unzip();
    let since = millis(now.since(belief.since));
    let told = json!({ "election": name, "node": node, "leader": leader, "token": token, "since_ms": since });
    Event::default().event("leader").data(told.to_string())
}
