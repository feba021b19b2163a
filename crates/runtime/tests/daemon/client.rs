//! HTTP as it is on the wire.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::soon;

/// What is asked of one daemon.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    headers: String,
}

/// What it answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The token and the session of one that leads.
    pub(crate) fn leads(&self) -> (u64, String) {
        assert_eq!(self.status, 200, "{self:?}");
        let json = self.json();
        (json["token"].as_u64().unwrap(), json["session"].as_str().unwrap().to_string())
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { address, headers: format!("Host: {address}\r\n") }
    }

    /// With other headers instead.
    pub(crate) fn with(&self, headers: &str) -> Client {
        Client { address: self.address, headers: headers.to_string() }
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let (headers, length) = (&self.headers, body.len());
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let text = format!(
            "{method} {path} HTTP/1.1\r\n{headers}{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut text = String::new();
        soon(self.send(method, path, body).await.read_to_string(&mut text)).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_string() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, &body.to_string()).await
    }

    pub(crate) async fn campaign(&self, name: &str, ttl: &str, wait: &str) -> Answer {
        self.post(&format!("/elections/{name}/campaign"), json!({ "ttl": ttl, "wait": wait })).await
    }

    /// Says this with the session, and nothing else.
    pub(crate) async fn say(&self, name: &str, verb: &str, session: &str) -> Answer {
        self.post(&format!("/elections/{name}/{verb}"), json!({ "session": session })).await
    }

    pub(crate) async fn observe(&self, name: &str) -> Events {
        let stream = self.send("GET", &format!("/elections/{name}/observe"), "").await;
        Events { stream, text: String::new() }
    }
}

/// A stream of events.
pub(crate) struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    /// The data of the next event; none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((_, rest)) = self.text.split_once("data: ")
                && let Some((data, rest)) = rest.split_once('\n')
            {
                let data = serde_json::from_str(data.trim()).unwrap();
                self.text = rest.to_string();
                return Some(data);
            }
            let mut buffer = [0; 4_096];
            let length = soon(self.stream.read(&mut buffer)).await.unwrap();
            if length == 0 {
                return None;
            }
            self.text.push_str(str::from_utf8(&buffer[..length]).unwrap());
        }
    }
}
