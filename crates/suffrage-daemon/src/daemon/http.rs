//! The HTTP server of a daemon, for clients, operators, probes and Prometheus.
//!
//! HTTP is served on loopback, or with TLS on any address. If a token is set, requests must carry it, except for the
//! health checks, which return little more than a status code and change nothing. Without a token, the server guards
//! against DNS rebinding (Host must be `localhost` or an IP address) and CSRF (requests that change state must be
//! `application/json`).
//!
//! The permissions of the Unix socket decide who may use it. Its requests need no token, and are not of a browser.

mod api;
mod health;
mod hold;
mod metrics;
mod observe;
mod openapi;
mod suspended;
mod voters;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde_json::json;
use suffrage_core::Span;
use tokio::sync::watch;

pub(super) use self::health::is_alive;
pub(super) use self::suspended::suspended_router;

use super::credentials::{Credentials, Token};
use super::local::LocalPeer;
use super::watches::Watches;
use suffrage_lease::sessions::SessionError;
use suffrage_net::transport::udp::Udp;
use suffrage_node::Error;
use suffrage_node::lease::{GrantedElection, JoinError, Node, Status};
use suffrage_node::resolver::PeerNames;

/// The longest body of a request in bytes.
const LONGEST_BODY: usize = 16 * 1024;
/// The timeout of a query to the node.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reason of every 503 of a node that is stopping or has stopped.
const STOPPING: &str = "this node is stopping: use another node";

/// The credentials in use.
pub(super) type CredentialsInUse = watch::Receiver<Arc<Credentials>>;

/// The state of the handlers.
#[derive(Clone)]
pub(super) struct App {
    pub(super) node: Node,
    pub(super) transport: Arc<Udp>,
    /// The addresses of peers.
    pub(super) peers: PeerNames,
    pub(super) watches: Watches,
    /// The ttl of clients that do not set one.
    pub(super) ttl: Span,
    pub(super) credentials: CredentialsInUse,
}

/// An endpoint.
pub(super) struct Route {
    pub(super) path: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the description is compared with these"))]
    pub(super) methods: &'static [&'static str],
    /// Whether the endpoint needs no token.
    open: bool,
    handler: MethodRouter<App>,
}

/// All endpoints: one list for the router and for the test of the OpenAPI description.
pub(super) fn routes() -> Vec<Route> {
    const GET: &[&str] = &["get"];
    const POST: &[&str] = &["post"];
    let closed = |path, methods, handler| Route { path, methods, open: false, handler };
    let mut routes = vec![
        closed("/elections", GET, get(api::elections)),
        closed("/elections/{name}", GET, get(api::election)),
        closed("/elections/{name}/history", GET, get(api::history)),
        closed("/elections/{name}/observe", GET, get(observe::observe)),
        closed("/elections/{name}/campaign", POST, post(api::campaign)),
        closed("/elections/{name}/renew", POST, post(api::renew)),
        closed("/elections/{name}/resign", POST, post(api::resign)),
        closed("/elections/{name}/transfer", POST, post(api::transfer)),
        closed("/voters", &["get", "post"], get(voters::voters).post(voters::change)),
        closed("/metrics", GET, get(metrics::metrics)),
        closed("/openapi.json", GET, get(openapi::document)),
    ];
    let checks = health::checks().into_iter().map(|(path, handler)| Route {
        path,
        methods: &["get", "head", "options"],
        open: true,
        handler,
    });
    routes.extend(checks);
    routes
}

pub(super) fn router(app: App) -> Router {
    let routes = routes().into_iter().map(|route| (route.path, route.open, route.handler));
    with_guards(routes, app.credentials.clone()).with_state(app)
}

/// The router of these endpoints, each with its path and whether it needs no token.
fn with_guards<S: Clone + Send + Sync + 'static>(
    routes: impl Iterator<Item = (&'static str, bool, MethodRouter<S>)>,
    credentials: CredentialsInUse,
) -> Router<S> {
    let (mut open, mut closed) = (Router::new(), Router::new());
    for (path, is_open, handler) in routes {
        let router = if is_open { &mut open } else { &mut closed };
        *router = std::mem::take(router).route(path, handler);
    }
    let closed = closed.route_layer(middleware::from_fn_with_state(credentials.clone(), authorize));
    let not_found = || async {
        Problem::new(
            StatusCode::NOT_FOUND,
            "there is no such endpoint; GET /openapi.json lists all endpoints",
        )
    };
    let closing = middleware::from_fn_with_state(credentials, close_unauthenticated);
    open.merge(closed)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::map_response(as_object))
        .layer(closing)
}

/// Turns plain-text rejections of the path and query extractors, and rejections of methods, into JSON problems.
async fn as_object(response: Response) -> Response {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        // The router adds the header to the response.
        let error = "this endpoint does not have this method: the header Allow lists its methods";
        return Problem::new(response.status(), error).into_response();
    }
    let plain = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|it| it.as_bytes().starts_with(b"text/plain"));
    if !plain || !response.status().is_client_error() {
        return response;
    }
    let (status, text) = (response.status(), to_bytes(response.into_body(), LONGEST_BODY).await);
    Problem::new(status, String::from_utf8_lossy(&text.unwrap_or_default())).into_response()
}

/// Unauthenticated clients get `Connection: close`, so that they cannot exhaust the connection limit.
async fn close_unauthenticated(
    State(credentials): State<CredentialsInUse>,
    request: Request,
    next: Next,
) -> Response {
    let unauthenticated = !is_local(&request)
        && credentials.borrow().token.as_ref().is_some_and(|token| !is_authenticated(&request, token));
    let mut response = next.run(request).await;
    if unauthenticated {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Rejects requests without the token, and requests with a foreign Host if no token is set.
async fn authorize(State(credentials): State<CredentialsInUse>, request: Request, next: Next) -> Response {
    let credentials = Arc::clone(&credentials.borrow());
    match &credentials.token {
        _ if is_local(&request) => next.run(request).await,
        Some(token) if !is_authenticated(&request, token) => {
            let problem = Problem::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: send the token of this node's http-token file, as \
                 Authorization: Bearer TOKEN",
            );
            ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response()
        }
        None if !is_local_host(&request) => Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "Host is neither localhost nor an IP address: use one of these, or set http-token at this node",
        )
        .into_response(),
        _ => next.run(request).await,
    }
}

/// Whether a request came over the Unix socket.
fn is_local(request: &Request) -> bool {
    request.extensions().get::<LocalPeer>().is_some()
}

fn is_authenticated(request: &Request, token: &Token) -> bool {
    bearer(request).is_some_and(|presented| token.is(presented))
}

/// The bearer token of a request.
fn bearer(request: &Request) -> Option<&[u8]> {
    request.headers().get(header::AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")
}

/// Whether Host is `localhost` or an IP address. A page in a browser that resolves its own name to loopback (DNS
/// rebinding) sends that name.
fn is_local_host(request: &Request) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else { return true };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// An error response.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    error: String,
    /// A code for programs where one status has several causes.
    reason: Option<&'static str>,
}

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>) -> Problem {
        Problem { status, error: error.into(), reason: None }
    }

    fn because(self, reason: &'static str) -> Problem {
        Problem { reason: Some(reason), ..self }
    }

    fn stopping() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, STOPPING)
    }

    fn suspended(failure: &str) -> Problem {
        let error = format!("this node is suspended because it cannot save its state: {failure}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = match self.reason {
            Some(reason) => json!({ "error": self.error, "reason": reason }),
            None => json!({ "error": self.error }),
        };
        (self.status, Json(body)).into_response()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match &error {
            Error::NotWaiting { .. } => {
                return Problem::new(StatusCode::CONFLICT, error.to_string()).because("not_waiting");
            }
            Error::UnknownQueue { .. } => {
                return Problem::new(StatusCode::CONFLICT, error.to_string()).because("unknown_queue");
            }
            Error::UnknownCluster => {
                return Problem::new(StatusCode::CONFLICT, error.to_string()).because("unknown_cluster");
            }
            Error::Stopped => return Problem::stopping(),
            Error::InvalidConfig(_) | Error::Join(JoinError::Invalid(_)) => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem::new(status, error.to_string())
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Problem {
        match error {
            SessionError::Expired => Problem::new(
                StatusCode::CONFLICT,
                "this session has expired or never existed: stop the work, and campaign without a session",
            )
            .because("expired"),
            SessionError::Revoked => Problem::new(
                StatusCode::CONFLICT,
                "this lease is revoked: stop the work and resign; otherwise the node hands over when the lease ends",
            )
            .because("revoked"),
            SessionError::NotLeading => {
                Problem::new(StatusCode::CONFLICT, "this node does not lead: send the request to the leader")
                    .because("not_leader")
            }
            SessionError::QueueFull => {
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "the queue of this node is full: use another node")
            }
            SessionError::TooManyElections => {
                Error::TooManyElections(suffrage_lease::sessions::MAX_ELECTIONS).into()
            }
            SessionError::CannotJoin => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the program of this node takes part in this election itself: use another node",
            ),
            SessionError::Stopping => Problem::stopping(),
        }
    }
}

/// The answer of the node, within [`PATIENCE`]. A suspended or stuck node gets no queries: they would accumulate in its
/// queue.
async fn in_time<R>(node: &Node, answer: impl Future<Output = Result<R, Error>>) -> Result<R, Problem> {
    within(node, Span::ZERO, answer).await
}

/// The answer of the node, within a wait and [`PATIENCE`].
async fn within<R>(
    node: &Node,
    wait: Span,
    answer: impl Future<Output = Result<R, Error>>,
) -> Result<R, Problem> {
    let blocked = node.state().borrow().storage_failure().is_some() || !is_alive(node);
    let patience = PATIENCE + Duration::from_nanos(wait.as_nanos());
    if !blocked && let Ok(answer) = tokio::time::timeout(patience, answer).await {
        return Ok(answer?);
    }
    if is_stopping(node) {
        return Err(Problem::stopping());
    }
    Err(match node.state().borrow().storage_failure() {
        Some(failure) => Problem::suspended(failure),
        None => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "this node is stuck and does not answer: use another node, and restart this one",
        ),
    })
}

/// Whether the node is stopping or has stopped.
fn is_stopping(node: &Node) -> bool {
    let state = node.state();
    // The sender of the state ends with the task.
    node.sessions_are_stopping() || state.has_changed().is_err() || state.borrow().is_stopped()
}

/// The elections that this node takes part in, in the order of their names, without the daemon's own probe election.
async fn elections(node: &Node) -> Result<Vec<Status>, Problem> {
    let mut all = in_time(node, node.elections()).await?;
    all.retain(|status| status.name != super::PROBE_ELECTION);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The elections that this node knows only as a voter, in the order of their names.
async fn granted(node: &Node) -> Result<Vec<GrantedElection>, Problem> {
    let mut all = in_time(node, node.granted()).await?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Checks the name of an election.
fn check_name(name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
        let error = "the name of an election must have 1 to 255 bytes and no control characters";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    Ok(())
}

/// A health check: GET, HEAD and OPTIONS have the same handler, because load balancers use all of them.
fn checked<H, T, S>(handler: H) -> MethodRouter<S>
where
    H: axum::handler::Handler<T, S> + Clone,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    get(handler.clone())
        .on(axum::routing::MethodFilter::try_from(Method::OPTIONS).expect("it is one"), handler)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(header: &str, value: &str) -> Request {
        Request::builder().header(header, value).body(Body::empty()).unwrap()
    }

    #[test]
    fn only_localhost_and_ip_addresses_are_accepted_as_host() {
        for host in ["localhost", "LOCALHOST:7480", "127.0.0.1:7480", "[::1]:7480", "[::1]", "10.0.0.1"] {
            assert!(is_local_host(&request("host", host)), "{host}");
        }
        for host in ["evil.example", "evil.example:7480", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert!(!is_local_host(&request("host", host)), "{host}");
        }
    }

    #[test]
    fn the_bearer_token_has_the_form_of_rfc_6750() {
        assert_eq!(bearer(&request("authorization", "Bearer correct-horse")), Some(&b"correct-horse"[..]));
        for other in ["Basic correct-horse", "Bearer", "correct-horse", ""] {
            assert_eq!(bearer(&request("authorization", other)), None, "{other}");
        }
    }
}
