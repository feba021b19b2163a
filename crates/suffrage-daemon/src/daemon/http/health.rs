//! Health, the way load balancers and orchestrators ask for it: by status codes, with GET, HEAD or OPTIONS.
//!
//! - `/leader`, `/primary`: 200 where the election is led, 503 elsewhere. `/replica`: the other way round.
//! - `/liveness`: 503 if the node has not come round to anything for a while: restart it. Not if it waits for a
//!   disk that refuses, which a restart does not mend.
//! - `/readiness`: 200 if the node has been answered by a majority of voters, and, if it is one, votes itself: can
//!   save, and is not silent after a restart. That ends by itself, whatever the others do. Whether it leads is of
//!   no account: if only leaders were ready, a rolling update would wait for ever for the second one.
//! - `/health`: 200 if it is both.
//!
//! Whoever can connect can ask, and bears no token. So nothing is begun for them: an election that the node does
//! not take part in is one that it does not lead, and that is all they hear.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use serde::Deserialize;
use serde_json::json;
use suffrage_core::Span;

use super::{App, Problem, check_name, checked, elections, in_time};
use suffrage_node::lease::{Node, Status};

/// Who has not been heard for so long is not there: the daemon asks the voters three times as often at least (see
/// `feel_pulse`).
pub(super) const SILENCE: Span = Span::from_millis(10_000);

/// A node comes round every second. One that has not for so long is stuck, however busy the machine is.
pub(super) const STALE: Span = Span::from_millis(10_000);

/// Of no more elections than this is one looked for that is meant.
const MOST_LISTED: usize = 64;

/// The health checks.
pub(super) fn checks() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        ("/leader", checked(leader)),
        ("/primary", checked(leader)),
        ("/replica", checked(replica)),
        ("/liveness", checked(liveness)),
        ("/readiness", checked(readiness)),
        ("/health", checked(health)),
    ]
}

/// Which election is meant.
#[derive(Deserialize)]
pub(super) struct Asked {
    election: Option<String>,
}

/// Whether this node leads the election that is meant.
async fn leads(app: &App, asked: Asked) -> Result<bool, Problem> {
    let status = match asked.election {
        Some(name) => {
            check_name(&name)?;
            in_time(&app.node, app.node.status(&name)).await?
        }
        None => only_election(&app.node).await?,
    };
    Ok(status.is_some_and(|status| status.lease.is_some()))
}

/// The election that is meant if none is named: the one that somebody stands in here. What others only ask about,
/// be it by a slip of the pen, is none.
async fn only_election(node: &Node) -> Result<Option<Status>, Problem> {
    // If there are many, they are not listed for anybody who asks.
    let few = in_time(node, node.metrics()).await?.elections <= MOST_LISTED;
    let mut all = if few { elections(node).await? } else { Vec::new() };
    all.retain(|status| status.stands);
    if !few || all.len() > 1 {
        let error = "which election? Say ?election=NAME: this node takes part in several";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    Ok(all.pop())
}

fn code(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn leader(State(app): State<App>, Query(asked): Query<Asked>) -> Result<Response, Problem> {
    let leads = leads(&app, asked).await?;
    Ok((code(leads), Json(json!({ "leads": leads }))).into_response())
}

async fn replica(State(app): State<App>, Query(asked): Query<Asked>) -> Result<Response, Problem> {
    let leads = leads(&app, asked).await?;
    Ok((code(!leads), Json(json!({ "leads": leads }))).into_response())
}

/// Whether the node comes round to things, or at least says why it does not.
pub(in crate::daemon) fn is_alive(node: &Node) -> bool {
    let state = node.state();
    // Nobody is left to change it.
    if state.has_changed().is_err() || state.borrow().is_stopped() {
        return false;
    }
    state.borrow().storage_failure().is_some() || node.clock().now().since(node.last_turn()) < STALE
}

async fn liveness(State(app): State<App>) -> Response {
    let alive = is_alive(&app.node);
    (code(alive), Json(json!({ "alive": alive }))).into_response()
}

/// Why the node is not ready, if it is not.
async fn unready(App { node, .. }: &App) -> Result<Option<String>, Problem> {
    if node.sessions_are_stopping() {
        return Ok(Some("it is about to stop, and hands over".to_string()));
    }
    if let Some(trouble) = node.state().borrow().storage_failure() {
        return Ok(Some(format!("it cannot save its state: {trouble}")));
    }
    let figures = in_time(node, node.metrics()).await?;
    if let Some(voter) = figures.voter {
        if !voter.votes {
            let lost = "it has lost the state of its votes: it must come back with another id";
            return Ok(Some(lost.to_string()));
        }
        if !voter.silence.is_zero() {
            let left = voter.silence.as_nanos().div_ceil(1_000_000);
            return Ok(Some(format!(
                "it has restarted, and does not vote for another {left} ms: until then what it granted may be in use"
            )));
        }
    }
    let voters = node.settings().voters.len();
    let heard = figures.heard.iter().filter(|(_, ago)| ago.is_some_and(|ago| ago < SILENCE)).count();
    let majority = voters / 2 + 1;
    Ok((heard < majority)
        .then(|| format!("it hears {heard} of {voters} voters, and {majority} have to answer")))
}

async fn readiness(State(app): State<App>) -> Result<Response, Problem> {
    let unready = unready(&app).await?;
    Ok((code(unready.is_none()), Json(json!({ "ready": unready.is_none(), "why": unready }))).into_response())
}

async fn health(State(app): State<App>) -> Result<Response, Problem> {
    if !is_alive(&app.node) {
        return Ok((code(false), Json(json!({ "alive": false }))).into_response());
    }
    readiness(State(app)).await
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use suffrage_core::{NodeId, Start};
    use tokio::sync::watch;

    use super::*;
    use crate::daemon::credentials::Credentials;
    use crate::daemon::watches::Watches;
    use suffrage_net::Keyring;
    use suffrage_net::transport::udp::{Socket, Udp};
    use suffrage_net::transport::{Config, Sealed};
    use suffrage_node::Error;
    use suffrage_node::clock::ManualClock;
    use suffrage_node::lease::{Saved, Settings};
    use suffrage_node::storage::Storage;

    pub(crate) enum Disk {
        Good,
        /// Takes until it is told to write.
        Slow(mpsc::Receiver<Result<(), Error>>),
        /// Has the state of a voter that has granted a lease this long.
        Used(Span),
    }

    impl Storage<Saved> for Disk {
        fn start(&mut self) -> Result<Start<Saved>, Error> {
            match self {
                Disk::Used(longest) => {
                    Ok(Start::Recovered(Some(Saved { ceiling: 9, longest: *longest, voter: true })))
                }
                _ => Ok(Start::Fresh),
            }
        }

        fn save(&mut self, _: &Saved) -> Result<(), Error> {
            match self {
                Disk::Slow(told) => told.recv().unwrap_or(Ok(())),
                _ => Ok(()),
            }
        }

        fn mark_started(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    pub(crate) async fn app(clock: &ManualClock, disk: Disk, voters: u64) -> App {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let wire = Config::new(NodeId(1), Keyring::generate().unwrap()).unwrap();
        let transport: Arc<Udp> = Arc::new(Sealed::new(socket, wire).unwrap());
        let settings = Settings::new((1..=voters).map(NodeId));
        let node = Node::start(Arc::clone(&transport), clock.clone(), disk, settings).unwrap();
        let watches = Watches::new(node.clone());
        let (_, credentials) = watch::channel(Arc::new(Credentials { token: None, certificate: None }));
        App { node, transport, watches, ttl: Span::from_millis(1_000), credentials }
    }

    async fn until(app: &App, status: u16) {
        let soon = tokio::time::timeout(Duration::from_secs(60), async {
            while liveness(State(app.clone())).await.status() != status {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        soon.await.unwrap_or_else(|_| panic!("not {status} in time"));
    }

    /// The disk neither writes nor refuses: the loop waits for it, and for nothing else.
    #[tokio::test]
    async fn a_loop_that_stands_still_is_not_alive_until_it_goes_on() {
        let (clock, (disk, told)) = (ManualClock::new(), mpsc::channel());
        let app = app(&clock, Disk::Slow(told), 1).await;
        clock.advance(STALE - Span::from_nanos(1));
        assert_eq!(liveness(State(app.clone())).await.status(), 200);
        clock.advance(Span::from_nanos(1));
        assert_eq!(liveness(State(app.clone())).await.status(), 503);
        let asked = || Query(Asked { election: Some("x".to_string()) });
        let refused = leader(State(app.clone()), asked()).await.unwrap_err();
        assert!(refused.error.contains("does not come round"), "at once: {}", refused.error);
        disk.send(Ok(())).unwrap();
        until(&app, 200).await;
        assert_eq!(
            leader(State(app.clone()), asked()).await.unwrap().status(),
            503,
            "it goes on, and follows"
        );
        app.node.stop().await;
        assert_eq!(liveness(State(app.clone())).await.status(), 503, "it has stopped");
    }

    #[tokio::test]
    async fn one_whose_disk_refuses_is_alive_and_not_ready() {
        let (clock, (disk, told)) = (ManualClock::new(), mpsc::channel());
        let app = app(&clock, Disk::Slow(told), 1).await;
        clock.advance(STALE * 2);
        until(&app, 503).await;
        disk.send(Err(Error::Failed("no space".to_string()))).unwrap();
        until(&app, 200).await;
        let ready = readiness(State(app.clone())).await.unwrap();
        assert_eq!(ready.status(), 503);
        app.node.abort();
        until(&app, 503).await;
    }

    #[tokio::test]
    async fn one_that_is_silent_after_a_restart_is_not_ready_and_says_for_how_long() {
        let clock = ManualClock::new();
        let app = app(&clock, Disk::Used(Span::from_millis(3_000)), 1).await;
        let why = unready(&app).await.unwrap().unwrap();
        assert!(why.contains("does not vote for another 3000 ms"), "{why}");
        clock.advance(Span::from_millis(3_000) - Span::from_nanos(1));
        let why = unready(&app).await.unwrap().unwrap();
        assert!(why.contains("does not vote for another 1 ms"), "{why}");
        assert_eq!(readiness(State(app.clone())).await.unwrap().status(), 503);
        clock.advance(Span::from_nanos(1));
        assert_eq!(readiness(State(app)).await.unwrap().status(), 200, "by itself");
    }
}
