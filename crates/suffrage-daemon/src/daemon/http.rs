//! The HTTP server of a daemon, for clients, operators, probes and Prometheus.
//!
//! HTTP is served on loopback, or with TLS on any address. If a token is set, requests must carry it, except for the
//! health checks, which return little more than a status code and change nothing, and the files of the cluster's page,
//! which contain nothing of the cluster. Without a token, the server guards against DNS rebinding (Host must be
//! `localhost` or an IP address) and CSRF (requests that change state must be `application/json`).
//!
//! The permissions of the Unix socket decide who may use it. Its requests need no token, and are not of a browser. If a token
//! is set, only root, the user of the node, and requests with the token may do what an operator does: change the voters, and
//! end leaderships without their session.

mod api;
mod exchange;
mod group;
mod health;
mod hold;
mod live;
mod metrics;
mod observe;
mod openapi;
mod page;
mod suspended;
mod voters;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::json;
use suffrage_core::Span;
use tokio::sync::watch;

#[cfg(test)]
pub(super) use self::exchange::Body;
pub(super) use self::exchange::Response;
pub(super) use self::group::GroupApp;
pub(super) use self::health::is_alive;

use self::exchange::{Answer, Request, decoded, json};
use super::credentials::{Credentials, Token};
use super::directory::Directory;
use super::live::Changes;
use super::serve::{Handlers, Origin, Responding};
use super::watches::Watches;
use suffrage_lease::sessions::SessionError;
use suffrage_net::transport::udp::Udp;
use suffrage_node::Error;
use suffrage_node::lease::{GrantedElection, JoinError, Node, Status};
use suffrage_node::resolver::PeerNames;

/// The timeout of a query to the node.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reason of every 503 of a node that is stopping or has stopped.
const STOPPING: &str = "this node is stopping: use another node";

/// Where the endpoints of a node are listed.
const LIST: &str = "GET /openapi.json lists all endpoints";

/// The credentials in use.
pub(super) type CredentialsInUse = watch::Receiver<Arc<Credentials>>;

/// The state of the handlers of a node.
pub(super) struct App {
    pub(super) node: Node,
    pub(super) transport: Arc<Udp>,
    /// The addresses of peers.
    pub(super) peers: PeerNames,
    pub(super) watches: Watches,
    pub(super) directory: Directory,
    pub(super) changes: Changes,
    /// The ttl of clients that do not set one.
    pub(super) ttl: Span,
    pub(super) credentials: CredentialsInUse,
}

/// A handler of requests.
type Handler<A> = for<'a> fn(&'a A, Request) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// An endpoint. `A` is the state of the handlers: [`App`] or [`GroupApp`].
struct Route<A: 'static> {
    /// The path. `{name}` stands for one segment, the name of an election; `{file}` for the rest of the path.
    path: &'static str,
    methods: &'static [(Method, Handler<A>)],
    /// Whether the endpoint needs no token.
    open: bool,
}

/// The handler of this function.
macro_rules! handler {
    ($function:path) => {
        |app, request| Box::pin($function(app, request))
    };
}

/// An endpoint that needs the token: its path, and its methods with their handlers.
macro_rules! closed {
    ($path:literal, $($method:ident $function:path),+) => {
        Route { path: $path, methods: &[$((Method::$method, handler!($function))),+], open: false }
    };
}

/// An endpoint that needs no token.
macro_rules! open {
    ($path:literal, $method:ident $function:path) => {
        Route { path: $path, methods: &[(Method::$method, handler!($function))], open: true }
    };
}

/// A health check: GET, HEAD and OPTIONS have the same handler, because load balancers use all of them.
macro_rules! check {
    ($path:literal, $function:path) => {
        Route {
            path: $path,
            methods: &[
                (Method::GET, handler!($function)),
                (Method::HEAD, handler!($function)),
                (Method::OPTIONS, handler!($function)),
            ],
            open: true,
        }
    };
}

use {check, closed, handler};

/// All endpoints of a node.
static ROUTES: &[Route<App>] = &[
    closed!("/elections/{name}/campaign", POST api::campaign),
    closed!("/elections/{name}/renew", POST api::renew),
    closed!("/elections/{name}/value", POST api::value),
    closed!("/elections/{name}/resign", POST api::resign),
    closed!("/elections/{name}/transfer", POST api::transfer),
    closed!("/elections/{name}/history", GET api::history),
    closed!("/elections/{name}/observe", GET observe::observe),
    closed!("/elections/{name}", GET api::election),
    closed!("/elections", GET api::elections),
    closed!("/voters", GET voters::voters, POST voters::change),
    closed!("/live", GET live::live),
    closed!("/metrics", GET metrics::metrics),
    closed!("/openapi.json", GET openapi::document),
    check!("/leader", health::leader),
    check!("/primary", health::leader),
    check!("/replica", health::replica),
    check!("/liveness", health::liveness),
    check!("/readiness", health::readiness),
    check!("/health", health::health),
    open!("/", GET page::document),
    open!("/page/{file}", GET page::file),
];

impl<A> Route<A> {
    /// The endpoint of a path, and the name in it, which is still encoded.
    fn find<'p>(routes: &'static [Route<A>], path: &'p str) -> Option<(&'static Route<A>, &'p str)> {
        routes.iter().find_map(|route| Some((route, route.name_in(path)?)))
    }

    /// The name in a path of this endpoint, or an empty text if its paths have none.
    fn name_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        if let Some(before) = self.path.strip_suffix("{file}") {
            return path.strip_prefix(before).filter(|file| !file.is_empty());
        }
        let Some((before, after)) = self.path.split_once("{name}") else {
            return (path == self.path).then_some("");
        };
        let name = path.strip_prefix(before)?.strip_suffix(after)?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }

    /// The handler of a method. Every endpoint with GET has HEAD too: the server leaves the body out.
    fn handler(&self, method: &Method) -> Option<Handler<A>> {
        let of =
            |method: &Method| self.methods.iter().find(|(it, _)| it == method).map(|(_, handler)| *handler);
        of(method).or_else(|| if *method == Method::HEAD { of(&Method::GET) } else { None })
    }

    /// The methods of the endpoint, for the header Allow.
    fn allowed(&self) -> String {
        let mut methods: Vec<&str> = self.methods.iter().map(|(method, _)| method.as_str()).collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        methods.join(",")
    }
}

/// The state behind the endpoints.
enum State<A> {
    Running(A),
    /// The node waits for space on its disk. The text is the failure to save.
    Suspended(watch::Receiver<String>),
}

/// The endpoints of a node, or of a member of a group.
pub(super) struct Api<A: 'static> {
    state: State<A>,
    routes: &'static [Route<A>],
    /// Says where the endpoints are listed.
    list: &'static str,
    credentials: CredentialsInUse,
}

impl Api<App> {
    /// The endpoints of a node that runs.
    pub(super) fn new(app: App) -> Arc<Api<App>> {
        let credentials = app.credentials.clone();
        Arc::new(Api { state: State::Running(app), routes: ROUTES, list: LIST, credentials })
    }

    /// The endpoints of a node that waits for space on its disk. `failure` is the failure to save.
    pub(super) fn suspended(
        failure: watch::Receiver<String>,
        credentials: CredentialsInUse,
    ) -> Arc<Api<App>> {
        Arc::new(Api { state: State::Suspended(failure), routes: ROUTES, list: LIST, credentials })
    }
}

impl Api<GroupApp> {
    /// The endpoints of a member of a group.
    pub(super) fn of_group(app: GroupApp) -> Arc<Api<GroupApp>> {
        let credentials = app.credentials.clone();
        let (routes, list) = (group::ROUTES, group::LIST);
        Arc::new(Api { state: State::Running(app), routes, list, credentials })
    }
}

impl<A: Send + Sync> Api<A> {
    /// Whether a client may not do what an operator does: it has used the Unix socket of a node that has a token, is
    /// neither root nor the user of the node, and has not sent the token.
    fn is_client_only(&self, headers: &HeaderMap, origin: &Origin) -> bool {
        let credentials = self.credentials.borrow();
        let (Some(peer), Some(token)) = (&origin.peer, &credentials.token) else { return false };
        !peer.is_operator() && !is_authenticated(headers, token)
    }

    /// Checks the request and passes it to its handler.
    async fn answer(&self, head: hyper::http::request::Parts, body: Incoming, origin: Origin) -> Answer {
        let Some((route, name)) = Route::find(self.routes, head.uri.path()) else {
            let error = format!("there is no such endpoint; {}", self.list);
            return Err(Problem::new(StatusCode::NOT_FOUND, error));
        };
        if !route.open && origin.peer.is_none() {
            authorize(&self.credentials, &head.headers)?;
        }
        let app = match &self.state {
            State::Running(app) => app,
            State::Suspended(failure) => {
                let failure = failure.borrow().clone();
                return suspended::answer((route.path, name), &failure, &self.credentials);
            }
        };
        let Some(handler) = route.handler(&head.method) else {
            let error = "this endpoint does not have this method: the header Allow lists its methods";
            let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, error).into_response();
            let allowed = HeaderValue::from_str(&route.allowed()).expect("methods are ASCII");
            response.headers_mut().insert(header::ALLOW, allowed);
            return Ok(response);
        };
        let is_client_only = self.is_client_only(&head.headers, &origin);
        let request = Request::read(decoded(name)?, &head, body, origin, is_client_only).await?;
        handler(app, request).await
    }
}

impl<A: Send + Sync> Handlers for Api<A> {
    fn respond(self: Arc<Self>, request: hyper::Request<Incoming>, origin: Origin) -> Responding {
        let (head, body) = request.into_parts();
        // Unauthenticated clients get `Connection: close`, so that they cannot exhaust the connection limit.
        let closes = origin.peer.is_none() && {
            let credentials = self.credentials.borrow();
            credentials.token.as_ref().is_some_and(|token| !is_authenticated(&head.headers, token))
        };
        Box::pin(async move {
            let answer = self.answer(head, body, origin).await;
            let mut response = answer.unwrap_or_else(Problem::into_response);
            if closes {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

/// Rejects requests without the token, and requests with a foreign Host if no token is set.
fn authorize(credentials: &CredentialsInUse, headers: &HeaderMap) -> Result<(), Problem> {
    match &credentials.borrow().token {
        Some(token) if !is_authenticated(headers, token) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong: send the token of this node's http-token file, as \
             Authorization: Bearer TOKEN",
        )),
        None if !is_local_host(headers) => Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "Host is neither localhost nor an IP address: use one of these, or set http-token at this node",
        )),
        _ => Ok(()),
    }
}

fn is_authenticated(headers: &HeaderMap, token: &Token) -> bool {
    bearer(headers).is_some_and(|presented| token.is(presented))
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(header::AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")
}

/// Whether Host is `localhost` or an IP address. A page in a browser that resolves its own name to loopback (DNS
/// rebinding) sends that name.
fn is_local_host(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
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

    fn into_response(self) -> Response {
        let body = match self.reason {
            Some(reason) => json!({ "error": self.error, "reason": reason }),
            None => json!({ "error": self.error }),
        };
        let mut response = json(self.status, &body);
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn stopping() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, STOPPING)
    }

    fn suspended(failure: &str) -> Problem {
        let error = format!("this node is suspended because it cannot save its state: {failure}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error)
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
    let patience = PATIENCE + Duration::from_nanos(wait.as_nanos());
    if !is_blocked(node)
        && let Ok(answer) = tokio::time::timeout(patience, answer).await
    {
        return Ok(answer?);
    }
    Err(unanswered(node))
}

/// Whether the node is suspended or stuck.
fn is_blocked(node: &Node) -> bool {
    node.state().borrow().storage_failure().is_some() || !is_alive(node)
}

/// The reason why the node does not answer.
fn unanswered(node: &Node) -> Problem {
    if is_stopping(node) {
        return Problem::stopping();
    }
    match node.state().borrow().storage_failure() {
        Some(failure) => Problem::suspended(failure),
        None => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "this node is stuck and does not answer: use another node, and restart this one",
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(header: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::HeaderName::from_static(header), HeaderValue::from_static(value))])
    }

    #[test]
    fn a_path_has_one_endpoint_and_its_name_is_one_segment() {
        let found = |path| Route::find(ROUTES, path).map(|(route, name)| (route.path, name));
        assert_eq!(found("/elections/a%2Fb/campaign"), Some(("/elections/{name}/campaign", "a%2Fb")));
        assert_eq!(found("/elections/campaign"), Some(("/elections/{name}", "campaign")));
        assert_eq!(found("/elections"), Some(("/elections", "")));
        assert_eq!(found("/page/shared/base.css"), Some(("/page/{file}", "shared/base.css")));
        for other in
            ["/elections/", "/page/", "/elections//campaign", "/elections/a/b", "/elections/a/", "/leader/"]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn only_localhost_and_ip_addresses_are_accepted_as_host() {
        for host in ["localhost", "LOCALHOST:7480", "127.0.0.1:7480", "[::1]:7480", "[::1]", "10.0.0.1"] {
            assert!(is_local_host(&headers("host", host)), "{host}");
        }
        for host in ["evil.example", "evil.example:7480", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert!(!is_local_host(&headers("host", host)), "{host}");
        }
    }

    #[test]
    fn the_bearer_token_has_the_form_of_rfc_6750() {
        assert_eq!(bearer(&headers("authorization", "Bearer correct-horse")), Some(&b"correct-horse"[..]));
        for other in ["Basic correct-horse", "Bearer", "correct-horse", ""] {
            assert_eq!(bearer(&headers("authorization", other)), None, "{other}");
        }
    }
}
