//! The stream of a client that leads by connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use serde_json::{Value, json};
use suffrage_core::{Span, Time};

use super::http::Exchange;
use super::{LocalNode, election};
use crate::Error;
use crate::lease::Value as LeaseValue;

/// What a client by connection asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// The name of the election.
    pub name: String,
    /// The length of the node's lease.
    pub ttl: Span,
    /// The rank of the client.
    pub rank: i64,
    /// The value of the client as the leader.
    pub value: Option<LeaseValue>,
}

/// An event of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldEvent {
    /// The client waits.
    Waiting,
    /// The client leads.
    Leading {
        /// The session, which the first event of a leadership names.
        session: Option<String>,
        /// The fencing token.
        token: u64,
        /// The node's reading of CLOCK_BOOTTIME.
        told: Time,
        /// The deadline by CLOCK_BOOTTIME.
        deadline: Time,
        /// Whether the client is asked to stop by the deadline.
        hand_over: bool,
    },
    /// The client neither leads nor waits, for this reason.
    Lost(String),
}

/// A connection by which this process waits or leads. Dropping it closes the connection: the node releases the lease.
#[derive(Debug)]
pub struct HoldStream {
    exchange: Exchange,
    node: LocalNode,
}

impl LocalNode {
    /// Asks to lead for as long as the returned connection stays open.
    pub async fn hold(&self, request: &HoldRequest) -> Result<HoldStream, Error> {
        let HoldRequest { name, ttl, rank, value } = request;
        let mut body = json!({ "hold": "connection", "ttl": format!("{}ns", ttl.as_nanos()), "rank": rank });
        if let Some(value) = value {
            body["value"] = json!(value.as_str());
        }
        let exchange = self.exchange("POST", &election(name, "campaign"), Some(&body)).await?;
        Ok(HoldStream { exchange, node: self.clone() })
    }
}

impl HoldStream {
    /// The next event. An error if the connection has ended. Cancel-safe.
    pub async fn next(&mut self) -> Result<HoldEvent, Error> {
        let line = self.exchange.line().await.map_err(|error| self.node.unreachable(error))?;
        let closed = || self.node.unreachable(io::Error::other("the node has closed the connection"));
        let event: Value = serde_json::from_str(&line.ok_or_else(closed)?).unwrap_or_default();
        let malformed = || self.node.unreachable(io::Error::other("the node has sent an unknown event"));
        parse(&event).ok_or_else(malformed)
    }
}

impl AsFd for HoldStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.exchange.stream().as_fd()
    }
}

fn parse(event: &Value) -> Option<HoldEvent> {
    let kind = event["event"].as_str()?;
    let number = |key: &str| event[key].as_u64();
    Some(match kind {
        "waiting" => HoldEvent::Waiting,
        "leading" | "renewed" | "hand_over_wanted" => HoldEvent::Leading {
            session: event["session"].as_str().map(str::to_string),
            token: number("token").filter(|token| *token > 0)?,
            told: Time::from_nanos(number("now_ns")?),
            deadline: Time::from_nanos(number("deadline_ns")?),
            hand_over: kind == "hand_over_wanted",
        },
        "lost" => HoldEvent::Lost(event["reason"].as_str().unwrap_or_default().to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed() {
        let event =
            json!({ "event": "leading", "token": 7, "deadline_ns": 20, "now_ns": 10, "session": "ab" });
        let leading = |session: Option<&str>, hand_over| {
            let (told, deadline) = (Time::from_nanos(10), Time::from_nanos(20));
            let session = session.map(str::to_string);
            Some(HoldEvent::Leading { session, token: 7, told, deadline, hand_over })
        };
        assert_eq!(parse(&event), leading(Some("ab"), false));
        let event = json!({ "event": "hand_over_wanted", "token": 7, "deadline_ns": 20, "now_ns": 10 });
        assert_eq!(parse(&event), leading(None, true));
        let event = json!({ "event": "waiting", "queue_position": 2 });
        assert_eq!(parse(&event), Some(HoldEvent::Waiting));
        let event = json!({ "event": "lost", "reason": "expired" });
        assert_eq!(parse(&event), Some(HoldEvent::Lost("expired".to_string())));
        for broken in [
            json!({ "event": "leading", "token": 0, "deadline_ns": 20, "now_ns": 10 }),
            json!({ "event": "renewed", "token": 1, "deadline_ns": 20 }),
            json!({ "event": "else" }),
            Value::Null,
        ] {
            assert_eq!(parse(&broken), None, "{broken}");
        }
    }
}
