//! Health checks for load balancers and orchestrators: status codes for GET, HEAD or OPTIONS.
//!
//! - `/leader`, `/primary`: 200 if this node leads the election, 503 otherwise. `/replica`: the reverse.
//! - `/liveness`: 503 if the node is stuck and must be restarted. A node that cannot save is alive: a restart does not
//!   repair a disk.
//! - `/readiness`: 200 if a majority of voters has answered the node lately and, if the node is a voter, it votes: it can
//!   save, no write to its disk takes longer than a ttl, and it is not silent after a restart. Leadership does not matter: if only leaders were ready, a rolling update
//!   would wait for the second node forever.
//! - `/health`: 200 if the node is alive and ready.
//!
//! Health checks need no token. They therefore change nothing: an election that the node takes no part in is an election
//! that the node does not lead.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use suffrage_core::Span;

use super::exchange::{Answer, Request, json};
use super::{App, Problem, STOPPING, check_name, elections, in_time, is_stopping};
use suffrage_node::lease::{Node, Status, VoterContact, slow_save};

/// The age of the last turn from which a node counts as stuck. A node has a turn every second.
pub(super) const STALE: Span = Span::from_millis(10_000);

/// The most elections among which a health check without a name looks for the only one.
const MOST_LISTED: usize = 64;

/// Whether this node leads the election of the query.
async fn leads(app: &App, request: &Request) -> Result<bool, Problem> {
    let status = match request.parameter("election")? {
        Some(name) => {
            check_name(&name)?;
            in_time(&app.node, app.node.status(&name)).await?
        }
        None => only_election(&app.node).await?,
    };
    Ok(status.is_some_and(|status| status.leads()))
}

/// The only election in which this node is a candidate. Elections that clients only observe do not count.
async fn only_election(node: &Node) -> Result<Option<Status>, Problem> {
    // Listing many elections is too expensive for an unauthenticated request.
    let few = in_time(node, node.overview()).await?.elections <= MOST_LISTED;
    let mut all = if few { elections(node).await? } else { Vec::new() };
    all.retain(|status| status.candidate);
    if !few || all.len() > 1 {
        let error = "this node takes part in several elections: add ?election=NAME";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    Ok(all.pop())
}

pub(super) fn code(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `/leader`, `/primary`
pub(super) async fn leader(app: &App, request: Request) -> Answer {
    let leads = leads(app, &request).await?;
    Ok(json(code(leads), &json!({ "leads": leads })))
}

/// `/replica`
pub(super) async fn replica(app: &App, request: Request) -> Answer {
    let leads = leads(app, &request).await?;
    Ok(json(code(!leads), &json!({ "leads": leads })))
}

/// Whether the node is not stuck. A node that is suspended because it cannot save is alive.
pub(in crate::daemon) fn is_alive(node: &Node) -> bool {
    let state = node.state();
    // The sender of the state ends with the task.
    if state.has_changed().is_err() || state.borrow().is_stopped() {
        return false;
    }
    state.borrow().storage_failure().is_some() || node.clock().now().since(node.last_turn()) < STALE
}

/// `/liveness`
pub(super) async fn liveness(app: &App, _: Request) -> Answer {
    let alive = is_alive(&app.node);
    Ok(json(code(alive), &json!({ "alive": alive })))
}

/// The number of voters that have answered lately.
pub(super) fn reachable_voters(voters: &[VoterContact]) -> usize {
    voters.iter().filter(|voter| voter.answers()).count()
}

/// The reason why a node that cannot save is not ready.
pub(super) fn cannot_save(failure: &str) -> String {
    format!("this node cannot save its state: {failure}")
}

/// The reason why the node is not ready, if it is not.
pub(super) async fn unready(node: &Node, ttl: Span) -> Result<Option<String>, Problem> {
    if is_stopping(node) {
        return Ok(Some(STOPPING.to_string()));
    }
    if let Some(failure) = node.state().borrow().storage_failure() {
        return Ok(Some(cannot_save(failure)));
    }
    let ttl = Duration::from_nanos(ttl.as_nanos());
    if let Some(pending) = node.save_pending().filter(|pending| *pending > ttl) {
        return Ok(Some(slow_save(pending)));
    }
    let overview = in_time(node, node.overview()).await?;
    if let Some(voter) = overview.voter {
        if !voter.votes {
            let lost = "this voter has lost its saved state: remove it from the voters, and add it again";
            return Ok(Some(lost.to_string()));
        }
        if !voter.silence_remaining.is_zero() {
            let left = Span::from_millis(voter.silence_remaining.as_nanos().div_ceil(1_000_000) as u64);
            let left = left.format_duration();
            return Ok(Some(format!(
                "this voter has restarted and does not vote for another {left}: its old grants may be in use"
            )));
        }
    }
    let (voters, reachable) = (node.settings().voters.len(), reachable_voters(&overview.voters));
    let majority = voters / 2 + 1;
    Ok((reachable < majority)
        .then(|| format!("{reachable} of {voters} voters answer this node, but {majority} must")))
}

/// `/readiness`
pub(super) async fn readiness(app: &App, _: Request) -> Answer {
    let unready = unready(&app.node, app.ttl).await?;
    Ok(json(code(unready.is_none()), &json!({ "ready": unready.is_none(), "why": unready })))
}

/// `/health`
pub(super) async fn health(app: &App, request: Request) -> Answer {
    if !is_alive(&app.node) && !is_stopping(&app.node) {
        return Ok(json(code(false), &json!({ "alive": false })));
    }
    readiness(app, request).await
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, mpsc};

    use serde_json::Value;
    use suffrage_core::{NodeId, Start};
    use suffrage_lease::sessions::SessionId;
    use tokio::sync::watch;

    use super::super::api;
    use super::super::exchange::Body;
    use super::*;
    use crate::daemon::credentials::Credentials;
    use crate::daemon::directory::Directory;
    use crate::daemon::live::Changes;
    use crate::daemon::watches::Watches;
    use std::collections::BTreeMap;
    use suffrage_lease::membership::DiskId;
    use suffrage_net::Keyring;
    use suffrage_net::transport::udp::{Socket, Udp};
    use suffrage_net::transport::{Config, Sealed};
    use suffrage_node::Error;
    use suffrage_node::clock::ManualClock;
    use suffrage_node::lease::{Saved, Settings};
    use suffrage_node::resolver::Resolver;
    use suffrage_node::storage::Storage;

    pub(crate) enum Disk {
        Good,
        /// Writes when the channel has a result.
        Slow(mpsc::Receiver<Result<(), Error>>),
        /// Holds the state of a voter that has granted a lease of this length.
        Used(Span),
    }

    impl Storage<Saved> for Disk {
        fn start(&mut self) -> Result<Start<Saved>, Error> {
            match self {
                Disk::Used(longest) => {
                    let founding = Settings::new([NodeId(1)]).founding().expect("one voter");
                    let blank = Saved::blank(DiskId(1), Arc::new(founding));
                    Ok(Start::Recovered(Some(Saved { ceiling: 9, longest: *longest, ..blank })))
                }
                _ => Ok(Start::Fresh),
            }
        }

        fn save(&mut self, _: &Saved) -> Result<(), Error> {
            match self {
                Disk::Slow(results) => results.recv().unwrap_or(Ok(())),
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
        let (resolver, local) = (Resolver::new(BTreeMap::new()).await, transport.wire().local_address());
        let peers = resolver.start(&transport, local, &node.state(), |_, _, _| {});
        let (directory, changes, ttl) =
            (Directory::new(node.clone()), Changes::new(), Span::from_millis(1_000));
        App { node, transport, peers, watches, directory, changes, ttl, credentials }
    }

    fn status_of(answer: Answer) -> u16 {
        answer.unwrap_or_else(Problem::into_response).status().as_u16()
    }

    async fn until(app: &App, status: u16) {
        let soon = tokio::time::timeout(Duration::from_secs(60), async {
            while status_of(liveness(app, Request::default()).await) != status {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        soon.await.unwrap_or_else(|_| panic!("not {status} in time"));
    }

    /// The disk neither writes nor fails: the task waits for it.
    #[tokio::test]
    async fn a_stuck_node_is_not_alive_until_it_continues() {
        let (clock, (disk, results)) = (ManualClock::new(), mpsc::channel());
        let app = app(&clock, Disk::Slow(results), 1).await;
        clock.advance(STALE - Span::from_nanos(1));
        assert_eq!(status_of(liveness(&app, Request::default()).await), 200);
        clock.advance(Span::from_nanos(1));
        assert_eq!(status_of(liveness(&app, Request::default()).await), 503);
        let query = || Request { query: "election=x".to_string(), ..Request::default() };
        let refused = leader(&app, query()).await.err().unwrap();
        assert!(refused.error.contains("this node is stuck"), "at once: {}", refused.error);
        disk.send(Ok(())).unwrap();
        until(&app, 200).await;
        assert_eq!(status_of(leader(&app, query()).await), 503, "it continues, and follows");
        app.node.stop().await;
        assert_eq!(status_of(liveness(&app, Request::default()).await), 503, "it has stopped");
    }

    #[tokio::test]
    async fn a_write_that_takes_longer_than_a_ttl_makes_a_node_unready() {
        let (clock, (disk, results)) = (ManualClock::new(), mpsc::channel());
        let app = app(&clock, Disk::Slow(results), 1).await;
        let saving = async |saves: bool| {
            while app.node.save_pending().is_some() != saves {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), saving(true)).await.unwrap();
        clock.advance(app.ttl + Span::from_millis(1));
        let why = unready(&app.node, app.ttl).await.unwrap().unwrap();
        assert!(why.starts_with("a write to the disk of this node has not ended for 1.001s: "), "{why}");
        assert_eq!(status_of(readiness(&app, Request::default()).await), 503);
        disk.send(Ok(())).unwrap();
        tokio::time::timeout(Duration::from_secs(60), saving(false)).await.unwrap();
        assert_eq!(status_of(readiness(&app, Request::default()).await), 200);
    }

    #[tokio::test]
    async fn a_node_that_cannot_save_is_alive_and_not_ready() {
        let (clock, (disk, results)) = (ManualClock::new(), mpsc::channel());
        let app = app(&clock, Disk::Slow(results), 1).await;
        clock.advance(STALE * 2);
        until(&app, 503).await;
        disk.send(Err(Error::Failed("no space".to_string()))).unwrap();
        until(&app, 200).await;
        assert_eq!(status_of(readiness(&app, Request::default()).await), 503);
        app.node.abort();
        until(&app, 503).await;
    }

    /// Every endpoint gives the same reason while the node hands over and after it has stopped.
    #[tokio::test]
    async fn a_stopping_node_gives_one_reason() {
        fn body(answer: Answer) -> Value {
            let response = answer.unwrap_or_else(Problem::into_response);
            assert_eq!(response.status(), 503);
            let Body::Whole(Some(body)) = response.into_body() else { panic!("a whole body") };
            serde_json::from_slice(&body).unwrap()
        }
        let clock = ManualClock::new();
        let app = app(&clock, Disk::Good, 1).await;
        let with = |body: Value| {
            let (name, body) = ("x".to_string(), body.to_string().into_bytes());
            Request { name, body, is_json: true, ..Request::default() }
        };
        app.node.stop_sessions().await;
        assert_eq!(body(api::campaign(&app, with(json!({}))).await)["error"], STOPPING);
        assert_eq!(body(readiness(&app, Request::default()).await)["why"], STOPPING);
        app.node.stop().await;
        let query = || Request { query: "election=x".to_string(), ..Request::default() };
        let answers = [
            api::campaign(&app, with(json!({}))).await,
            api::renew(&app, with(json!({ "session": SessionId(1).to_string() }))).await,
            api::election(&app, with(json!({}))).await,
            api::elections(&app, with(json!({}))).await,
            api::history(&app, with(json!({}))).await,
            leader(&app, query()).await,
            replica(&app, query()).await,
        ];
        for answer in answers {
            assert_eq!(body(answer)["error"], STOPPING);
        }
        assert_eq!(body(readiness(&app, Request::default()).await)["why"], STOPPING);
        assert_eq!(body(health(&app, Request::default()).await)["why"], STOPPING);
    }

    #[tokio::test]
    async fn a_voter_that_is_silent_after_a_restart_is_not_ready_and_reports_for_how_long() {
        let clock = ManualClock::new();
        let app = app(&clock, Disk::Used(Span::from_millis(3_000)), 1).await;
        let why = unready(&app.node, app.ttl).await.unwrap().unwrap();
        assert!(why.contains("does not vote for another 3s"), "{why}");
        clock.advance(Span::from_millis(3_000) - Span::from_nanos(1));
        let why = unready(&app.node, app.ttl).await.unwrap().unwrap();
        assert!(why.contains("does not vote for another 1ms"), "{why}");
        assert_eq!(status_of(readiness(&app, Request::default()).await), 503);
        clock.advance(Span::from_nanos(1));
        assert_eq!(status_of(readiness(&app, Request::default()).await), 200, "by itself");
    }
}
