//! What clients, operators, probes and Prometheus ask of a daemon.
//!
//! HTTP is served on loopback, or with TLS anywhere. If a token is set, whoever asks must bear it, but for the
//! health checks, which tell no more than a status code does and begin nothing. If none is set, requests must be
//! addressed to `localhost` or to an address: a page in a browser of this machine, which can have a name of its own lead to
//! loopback, is refused. And what changes something must be JSON by its content type, which such a page cannot
//! send to another site without asking.

mod api;
mod health;
mod metrics;
mod observe;
mod openapi;

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

use super::credentials::{Credentials, Token};
use super::watches::Watches;
use suffrage_lease::sessions::SessionError;
use suffrage_net::transport::udp::Udp;
use suffrage_node::Error;
use suffrage_node::lease::{Node, Status};

/// No request has more to say.
const LONGEST_BODY: usize = 16 * 1024;
/// A node that stands still is not waited for any longer by whoever only wants to know something.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the handlers have.
#[derive(Clone)]
pub(super) struct App {
    pub(super) node: Node,
    pub(super) transport: Arc<Udp>,
    pub(super) watches: Watches,
    /// The lease of those who do not say.
    pub(super) ttl: Span,
    /// What requests are measured by.
    pub(super) credentials: watch::Receiver<Arc<Credentials>>,
}

/// Something that can be asked.
pub(super) struct Route {
    pub(super) path: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the description is compared with these"))]
    pub(super) methods: &'static [&'static str],
    /// Whether it is asked without a token.
    open: bool,
    handler: MethodRouter<App>,
}

/// All that can be asked: one list for the router and for the test of the description.
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
    let (mut open, mut closed) = (Router::new(), Router::new());
    for route in routes() {
        let router = if route.open { &mut open } else { &mut closed };
        *router = std::mem::take(router).route(route.path, route.handler);
    }
    let closed = closed.route_layer(middleware::from_fn_with_state(app.clone(), admit));
    let nothing = || async {
        Problem::new(StatusCode::NOT_FOUND, "there is nothing here; GET /openapi.json says what there is")
    };
    let dismissed = middleware::from_fn_with_state(app.clone(), dismiss);
    open.merge(closed)
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::map_response(as_object))
        .layer(dismissed)
        .with_state(app)
}

/// What is said in plain words, by whatever reads a path or a query, is said as all other problems are.
async fn as_object(response: Response) -> Response {
    let plain = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|it| it.as_bytes().starts_with(b"text/plain"));
    if !plain || !response.status().is_client_error() {
        return response;
    }
    let (status, said) = (response.status(), to_bytes(response.into_body(), LONGEST_BODY).await);
    Problem::new(status, String::from_utf8_lossy(&said.unwrap_or_default())).into_response()
}

/// Where a token is set, whoever does not bear it has one answer and no connection: there are only so many.
async fn dismiss(State(app): State<App>, request: Request, next: Next) -> Response {
    let stranger = app.credentials.borrow().token.as_ref().is_some_and(|token| !bears(&request, token));
    let mut response = next.run(request).await;
    if stranger {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Lets in whoever may ask.
async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    let credentials = Arc::clone(&app.credentials.borrow());
    match &credentials.token {
        Some(token) if !bears(&request, token) => {
            let problem = Problem::new(
                StatusCode::UNAUTHORIZED,
                "bear the token of this node's http-token file: Authorization: Bearer ..",
            );
            ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response()
        }
        None if !is_for_us(&request) => Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "ask for localhost or for an address; any other name needs http-token to be set",
        )
        .into_response(),
        _ => next.run(request).await,
    }
}

fn bears(request: &Request, token: &Token) -> bool {
    bearer(request).is_some_and(|said| token.is(said))
}

/// The token that a request bears.
fn bearer(request: &Request) -> Option<&[u8]> {
    request.headers().get(header::AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")
}

/// Whether it was addressed to localhost or to an address, by somebody who meant it.
fn is_for_us(request: &Request) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else { return true };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Why something is not done, in a sentence.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    error: String,
    /// A word for programs, where one status can mean several things.
    reason: Option<&'static str>,
}

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>) -> Problem {
        Problem { status, error: error.into(), reason: None }
    }

    fn because(self, reason: &'static str) -> Problem {
        Problem { reason: Some(reason), ..self }
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
            Error::InvalidConfig(_) | Error::Join(_) => StatusCode::BAD_REQUEST,
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
                "this session does not lead, and does not wait: stop, and campaign anew",
            )
            .because("lost"),
            SessionError::Revoked => Problem::new(
                StatusCode::CONFLICT,
                "this node is to hand over: stop, and resign; otherwise it does when the lease is over",
            )
            .because("recalled"),
            SessionError::NotLeading => {
                Problem::new(StatusCode::CONFLICT, "this node does not lead: ask the one that does")
                    .because("not-leader")
            }
            SessionError::QueueFull => {
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many wait here already: ask another node")
            }
            SessionError::TooManyElections => {
                Error::TooManyElections(suffrage_lease::sessions::MOST_ELECTIONS).into()
            }
            SessionError::CannotJoin => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the program of this node takes part in this election itself: ask another node",
            ),
            SessionError::Stopping => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "this node stops: ask another node")
            }
        }
    }
}

/// What a node answers, or why it does not. One that stands still is not even asked: what nobody comes round to
/// would pile up.
async fn in_time<R>(node: &Node, answer: impl Future<Output = Result<R, Error>>) -> Result<R, Problem> {
    within(node, Span::ZERO, answer).await
}

/// The same, for an answer that may take so long.
async fn within<R>(
    node: &Node,
    wait: Span,
    answer: impl Future<Output = Result<R, Error>>,
) -> Result<R, Problem> {
    let stands_still = node.state().borrow().storage_failure().is_some() || !is_alive(node);
    let patience = PATIENCE + Duration::from_nanos(wait.as_nanos());
    if !stands_still && let Ok(answer) = tokio::time::timeout(patience, answer).await {
        return Ok(answer?);
    }
    let trouble = node.state().borrow().storage_failure().map(str::to_string);
    let why = trouble.map_or("it does not come round to answering".to_string(), |trouble| {
        format!("it cannot save its state: {trouble}")
    });
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("this node stands still: {why}")))
}

/// The elections that this node takes part in, in the order of their names. Not the daemon's own.
async fn elections(node: &Node) -> Result<Vec<Status>, Problem> {
    let mut all = in_time(node, node.elections()).await?;
    all.retain(|status| status.name != super::PULSE);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Names in addresses can be any text but for what nobody can read.
fn check_name(name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
        let error = "the name of an election has 1 to 255 bytes, and no control characters";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    Ok(())
}

/// GET and HEAD and OPTIONS alike, as load balancers ask.
fn checked<H, T>(handler: H) -> MethodRouter<App>
where
    H: axum::handler::Handler<T, App> + Clone,
    T: 'static,
{
    get(handler.clone())
        .on(axum::routing::MethodFilter::try_from(Method::OPTIONS).expect("it is one"), handler)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn asked(header: &str, value: &str) -> Request {
        Request::builder().header(header, value).body(Body::empty()).unwrap()
    }

    #[test]
    fn names_that_lead_here_from_elsewhere_are_refused() {
        for host in ["localhost", "LOCALHOST:7480", "127.0.0.1:7480", "[::1]:7480", "[::1]", "10.0.0.1"] {
            assert!(is_for_us(&asked("host", host)), "{host}");
        }
        for host in ["evil.example", "evil.example:7480", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert!(!is_for_us(&asked("host", host)), "{host}");
        }
    }

    #[test]
    fn a_token_is_borne_as_rfc_6750_has_it() {
        assert_eq!(bearer(&asked("authorization", "Bearer correct-horse")), Some(&b"correct-horse"[..]));
        for other in ["Basic correct-horse", "Bearer", "correct-horse", ""] {
            assert_eq!(bearer(&asked("authorization", other)), None, "{other}");
        }
    }
}
