//! Clients of the node of this machine, over its Unix socket: a program that leads without keys, ports and voters.
//!
//! ```text
//!   ClientParticipation ──commands──▶ task ──hold──▶ node        one connection while it waits or leads
//!                       ◀──belief────      ◀─states─
//!                                     task ──observe──▶ node     another one: who leads
//! ```
//!
//! The program leads for as long as its connection stays open: see [`suffrage_lease::sessions::connection`], whose
//! [`ConnectionClient`](suffrage_lease::sessions::connection::ConnectionClient) decides here when the program leads.
//! Deadlines are moments of CLOCK_BOOTTIME ([`boottime`](crate::clock::boottime)).

mod hold;
mod http;
mod participation;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use suffrage_core::NodeId;
use suffrage_lease::{Token, ValueVersion};
use tokio::net::UnixStream;

pub use self::hold::{HoldEvent, HoldRequest, HoldStream};
use self::http::Exchange;
pub use self::participation::{ClientConfig, ClientParticipation};
use crate::Error;
use crate::lease::{Leader, LeaderValue, Status, Value as LeaseValue, Why};

/// The scheme of the URL of a socket.
pub const SCHEME: &str = "unix:";

/// A node of this machine, by the path of its socket.
#[derive(Clone, PartialEq, Eq)]
pub struct LocalNode {
    path: Arc<Path>,
}

impl fmt::Debug for LocalNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalNode({})", self.path.display())
    }
}

/// Shows the URL.
impl fmt::Display for LocalNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.path.display())
    }
}

impl LocalNode {
    /// The node with the socket at this path.
    pub fn new(path: impl Into<PathBuf>) -> LocalNode {
        LocalNode { path: path.into().into() }
    }

    /// The node of a URL, `unix:/run/suffrage/suffrage.sock`. The path must be absolute. The error says what is wrong.
    pub fn parse(url: &str) -> Result<LocalNode, String> {
        let wrong = |reason: &str| {
            format!(
                "`{url}` {reason}; the URL of a local node is that of its socket, {SCHEME}/run/suffrage/suffrage.sock"
            )
        };
        let path = url.strip_prefix(SCHEME).ok_or_else(|| wrong("does not begin with `unix:`"))?;
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.starts_with('/') {
            return Err(wrong("has no absolute path"));
        }
        Ok(LocalNode::new(path))
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a connection. The node knows this process as the one that has opened it.
    pub async fn connect(&self) -> Result<UnixStream, Error> {
        UnixStream::connect(&self.path).await.map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, source: io::Error) -> Error {
        Error::Unreachable { path: self.path.to_path_buf(), source }
    }

    /// Sends a request, and returns the exchange if the node accepts.
    async fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Exchange, Error> {
        let stream = self.connect().await?;
        self.exchange_over(stream, method, path, body).await
    }

    async fn exchange_over(
        &self,
        stream: UnixStream,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Exchange, Error> {
        let io = |error| self.unreachable(error);
        let mut exchange = Exchange::begin(stream, method, path, body).await.map_err(io)?;
        if exchange.status() < 400 {
            return Ok(exchange);
        }
        let status = exchange.status();
        let answer = exchange.rest().await.map_err(io)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let reason = answer["error"].as_str().map_or_else(|| format!("status {status}"), str::to_string);
        if status >= 500 || status == 429 {
            return Err(self.unreachable(io::Error::other(reason)));
        }
        Err(Error::RefusedByNode { path: self.path.to_path_buf(), reason })
    }

    async fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let mut exchange = self.exchange(method, path, body).await?;
        let answer = exchange.rest().await.map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&answer).map_err(|error| self.unreachable(error.into()))
    }

    /// Resigns the session of a client that leads by connection: nobody relies on the lease any more. In favour of a
    /// node, or of the next candidate.
    pub async fn resign(&self, name: &str, session: &str, to: Option<NodeId>) -> Result<(), Error> {
        let (verb, body) = match to {
            Some(to) => ("transfer", json!({ "session": session, "to": to.0 })),
            None => ("resign", json!({ "session": session })),
        };
        self.json("POST", &election(name, verb), Some(&body)).await.map(drop)
    }

    /// Changes the value of a client that leads or waits. The node ignores a smaller `order` than that of an earlier change.
    pub async fn set_value(
        &self,
        name: &str,
        session: &str,
        value: Option<&LeaseValue>,
        order: u64,
    ) -> Result<(), Error> {
        let value = value.map_or("", LeaseValue::as_str);
        let body = json!({ "session": session, "value": value, "order": order });
        self.json("POST", &election(name, "value"), Some(&body)).await.map(drop)
    }

    /// The status of an election, as the node knows it.
    pub async fn status(&self, name: &str) -> Result<Status, Error> {
        let body = self.json("GET", &election(name, ""), None).await?;
        let millis = |key: &str| body[key].as_u64().map(Duration::from_millis);
        let mut status = Status::new(name);
        status.leader = leader(&body);
        status.value = value(&body);
        status.leader_age = millis("since_ms").unwrap_or_default();
        status.lease_remaining = millis("lease_remaining_ms");
        status.grant_remaining = millis("grant_remaining_ms");
        let queue = body["queue"].as_array().into_iter().flatten();
        status.queue = queue.filter_map(|id| id.as_u64().map(NodeId)).collect();
        status.why = Why::Reported(body["why"].as_str().unwrap_or_default().to_string());
        Ok(status)
    }
}

/// The leader that a JSON object of the node names.
fn leader(body: &Value) -> Option<Leader> {
    let (node, token) = (body["leader"].as_u64()?, body["token"].as_u64()?);
    Some(Leader { node: NodeId(node), token: Token::after(token.checked_sub(1)?) })
}

/// The value of the leader that a JSON object of the node names.
fn value(body: &Value) -> Option<LeaderValue> {
    let version = u32::try_from(body["value_version"].as_u64()?).ok()?;
    LeaseValue::new(body["value"].as_str()?)
        .ok()
        .map(|value| LeaderValue::new((ValueVersion(version), &value)))
}

/// The path of an endpoint of an election.
fn election(name: &str, verb: &str) -> String {
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    if verb.is_empty() { format!("/elections/{encoded}") } else { format!("/elections/{encoded}/{verb}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_sockets_are_parsed() {
        for url in ["unix:/run/suffrage/suffrage.sock", "unix:///run/suffrage/suffrage.sock"] {
            let node = LocalNode::parse(url).unwrap();
            assert_eq!(node.path(), Path::new("/run/suffrage/suffrage.sock"));
            assert_eq!(node.to_string(), "unix:/run/suffrage/suffrage.sock");
        }
        for (url, reason) in [
            ("unix:run.sock", "no absolute path"),
            ("unix:", "no absolute path"),
            ("unix://run.sock", "no absolute path"),
            ("http://127.0.0.1:7480", "does not begin"),
        ] {
            let error = LocalNode::parse(url).unwrap_err();
            assert!(error.contains(reason) && error.contains(url), "{error}");
        }
    }

    #[test]
    fn names_of_elections_are_encoded() {
        assert_eq!(election("a b/ü", "resign"), "/elections/a%20b%2F%C3%BC/resign");
        assert_eq!(election("x-1._~", ""), "/elections/x-1._~");
    }
}
