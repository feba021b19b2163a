//! Requests and responses of the endpoints.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Problem;
use crate::daemon::local::LocalPeer;
use crate::daemon::serve::Origin;

/// The longest body of a request in bytes: any value of a leader fits into it, also if all its characters are escaped.
const LONGEST_BODY: usize = 32 * 1024;
/// The time for the body of a request, from its head.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A response.
pub(in crate::daemon) type Response = hyper::Response<Body>;

/// The result of a handler.
pub(super) type Answer = Result<Response, Problem>;

/// The body of a response.
#[derive(Debug)]
pub(in crate::daemon) enum Body {
    /// Everything at once. None when it is sent.
    Whole(Option<Bytes>),
    /// Parts as they come.
    Parts(mpsc::Receiver<String>),
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Body {
        Body::Whole(Some(bytes.into()))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Parts(parts) => {
                parts.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.as_ref().is_none_or(|bytes| bytes.is_empty()),
            Body::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::Parts(_) => SizeHint::default(),
        }
    }
}

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).expect("values of this program have keys of text");
    response(status, "application/json", body.into())
}

/// A response with this body.
pub(super) fn response(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A response whose parts come one by one, and are not to be stored by caches.
pub(super) fn stream(kind: &'static str, cache: &'static str, parts: mpsc::Receiver<String>) -> Response {
    let mut response = response(StatusCode::OK, kind, Body::Parts(parts));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

/// A request to an endpoint, with its whole body.
#[derive(Debug, Default)]
pub(super) struct Request {
    /// The name of the election in the path. Empty if the endpoint has none.
    pub(super) name: String,
    /// The query, encoded.
    pub(super) query: String,
    /// Whether the request came on an overflow connection: it is answered without waiting.
    pub(super) overflow: bool,
    /// The client, if it is on this machine and has used the Unix socket.
    pub(super) peer: Option<LocalPeer>,
    /// Whether the client may campaign, hold and read, but may not do what an operator does.
    pub(super) is_client_only: bool,
    /// Whether the body may be JSON.
    pub(super) is_json: bool,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads the body.
    pub(super) async fn read(
        name: String,
        head: &Parts,
        body: Incoming,
        origin: Origin,
        is_client_only: bool,
    ) -> Result<Request, Problem> {
        let query = head.uri.query().unwrap_or_default().to_string();
        // The bodies of the Unix socket are JSON, whatever they are declared as: no browser can send them, so that the
        // declared type protects from nothing.
        let is_json = origin.peer.is_some() || declares_json(&head.headers);
        let Origin { overflow, peer } = origin;
        // Nobody can hold a connection by a body that never comes: only requests that change something have one.
        let body = match head.method {
            Method::POST => timeout(BODY_TIMEOUT, read(body)).await.unwrap_or_else(|_| Err(too_slow()))?,
            _ => Vec::new(),
        };
        Ok(Request { name, query, overflow, peer, is_client_only, is_json, body })
    }

    /// Checks that the client may do what an operator does.
    pub(super) fn check_operator(&self) -> Result<(), Problem> {
        if !self.is_client_only {
            return Ok(());
        }
        let error = "this needs the rights of an operator: send the token of this node's http-token file, as \
                     Authorization: Bearer TOKEN, or use the socket as root or as the user of the node; to resign a lease \
                     of your own, send its `session`";
        Err(Problem::new(StatusCode::FORBIDDEN, error))
    }

    /// The members of the body, which must be a JSON object.
    pub(super) fn members(&self) -> Result<Members, Problem> {
        if !self.is_json {
            let error =
                "a request that changes something needs `Content-Type: application/json` (curl: --json '{}')";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(members)) => Ok(Members(members)),
            Ok(_) => Err(unprocessable("the body of the request must be a JSON object, such as {}")),
            Err(error) => {
                let error = format!("the body of the request is not JSON: {error}");
                Err(Problem::new(StatusCode::BAD_REQUEST, error))
            }
        }
    }

    /// A parameter of the query. An error if it is there twice.
    pub(super) fn parameter(&self, key: &str) -> Result<Option<String>, Problem> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut values = pairs.filter(|(it, _)| *it == key).map(|(_, value)| value);
        let value = values.next().map(|value| decoded(&value.replace('+', " "))).transpose()?;
        match values.next() {
            None => Ok(value),
            Some(_) => Err(Problem::new(StatusCode::BAD_REQUEST, format!("{key}: is in the query twice"))),
        }
    }
}

fn too_slow() -> Problem {
    let error = format!("the body of the request has not come within {} s", BODY_TIMEOUT.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, error)
}

fn unprocessable(error: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error)
}

/// Whether the declared type of the body is JSON.
fn declares_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, Problem> {
    let mut data = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let broken = |error| {
            Problem::new(StatusCode::BAD_REQUEST, format!("the body of the request is broken: {error}"))
        };
        let Ok(part) = frame.map_err(broken)?.into_data() else { continue };
        if data.len() + part.len() > LONGEST_BODY {
            let error = format!("the body of a request has at most {LONGEST_BODY} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error));
        }
        data.extend_from_slice(&part);
    }
    Ok(data)
}

/// A part of a path or query without its percent-encoding.
pub(super) fn decoded(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |place: usize| after.get(place).and_then(|digit| char::from(*digit).to_digit(16));
        rest = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                &after[2..]
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    String::from_utf8(bytes).map_err(|_| {
        Problem::new(StatusCode::BAD_REQUEST, format!("`{text}` is not UTF-8 when it is decoded"))
    })
}

/// The members of a JSON object. Each method takes one out; a member that is null is absent.
#[derive(Debug)]
pub(super) struct Members(Map<String, Value>);

impl Members {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| !value.is_null())
    }

    /// A text.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, Problem> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(unprocessable(format!("{key}: must be a string, not {other}"))),
        }
    }

    /// An integer.
    pub(super) fn integer(&mut self, key: &str) -> Result<Option<i64>, Problem> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let error = || unprocessable(format!("{key}: must be an integer of 64 bits, not {value}"));
        value.as_i64().map(Some).ok_or_else(error)
    }

    /// The id of a node.
    pub(super) fn id(&mut self, key: &str) -> Result<Option<u64>, Problem> {
        self.take(key).map(|value| id(key, &value)).transpose()
    }

    /// A list of ids of nodes.
    pub(super) fn ids(&mut self, key: &str) -> Result<Vec<u64>, Problem> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.iter().map(|value| id(key, value)).collect(),
            Some(other) => Err(unprocessable(format!("{key}: must be a list of ids of nodes, not {other}"))),
        }
    }

    /// The only member, whose value must be an object: its key, and its members.
    pub(super) fn only(self, expected: &str) -> Result<(String, Members), Problem> {
        let count = self.0.len();
        match self.0.into_iter().next() {
            Some((key, Value::Object(members))) if count == 1 => Ok((key, Members(members))),
            _ => Err(unprocessable(format!("the body must have exactly one member, an object: {expected}"))),
        }
    }

    /// Refuses members that no method has taken.
    pub(super) fn end(self, expected: &str) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(unprocessable(format!("{key}: is unknown here; {expected}"))),
        }
    }
}

fn id(key: &str, value: &Value) -> Result<u64, Problem> {
    value
        .as_u64()
        .ok_or_else(|| unprocessable(format!("{key}: must be the id of a node, a number, not {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str) -> Request {
        Request { body: body.into(), is_json: true, ..Request::default() }
    }

    #[test]
    fn encoded_parts_of_a_path_are_decoded() {
        assert_eq!(decoded("a%2Fb%20c%C3%a9").unwrap(), "a/b cé");
        assert_eq!(decoded("100%").unwrap(), "100%");
        assert_eq!(decoded("%zz%4").unwrap(), "%zz%4");
        assert_eq!(decoded("%ff").unwrap_err().status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_parameter_is_in_the_query_once() {
        let request = |query: &str| Request { query: query.to_string(), ..Request::default() };
        assert_eq!(request("").parameter("election").unwrap(), None);
        let query = request("other=1&election=a+b%26c");
        assert_eq!(query.parameter("election").unwrap().as_deref(), Some("a b&c"));
        assert!(request("election=a&election=b").parameter("election").is_err());
    }

    #[test]
    fn only_declared_json_is_json() {
        let kinds = |kind| HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
            assert!(declares_json(&kinds(kind)), "{kind}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            assert!(!declares_json(&kinds(kind)), "{kind}");
        }
        assert!(!declares_json(&HeaderMap::new()));
    }

    #[test]
    fn a_wrong_body_is_refused_with_the_name_of_its_member() {
        let status = |body: &str| request(body).members().unwrap_err().status;
        assert_eq!(status("{"), StatusCode::BAD_REQUEST);
        assert_eq!(status("[]"), StatusCode::UNPROCESSABLE_ENTITY);
        let undeclared = Request { is_json: false, ..request("{}") };
        assert_eq!(undeclared.members().unwrap_err().status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let members = || request(r#"{"a":1,"b":"x","c":null,"d":[1,2],"e":-1}"#).members().unwrap();
        assert_eq!(members().text("b").unwrap().as_deref(), Some("x"));
        assert_eq!(members().text("c").unwrap(), None);
        assert_eq!(members().id("a").unwrap(), Some(1));
        assert_eq!(members().ids("d").unwrap(), [1, 2]);
        assert_eq!(members().integer("e").unwrap(), Some(-1));
        for refused in [
            members().text("a").unwrap_err(),
            members().integer("b").unwrap_err(),
            members().id("e").unwrap_err(),
            members().ids("a").unwrap_err(),
        ] {
            assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
            assert!(refused.error.contains(": must be "), "{}", refused.error);
        }
        let unknown = members().end("expected are x and y").unwrap_err();
        assert!(unknown.error.starts_with("a: is unknown here; expected"), "{}", unknown.error);
    }
}
