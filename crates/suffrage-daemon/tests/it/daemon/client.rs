//! An HTTP client for tests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::daemon::soon;

/// A client of one daemon.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    headers: String,
    /// The TLS connector and the server name, for TLS.
    tls: Option<(Arc<ClientConfig>, String)>,
}

/// A connection with or without TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A response.
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

    /// The token and the session of a leading client.
    pub(crate) fn leads(&self) -> (u64, String) {
        assert_eq!(self.status, 200, "{self:?}");
        let json = self.json();
        (json["token"].as_u64().unwrap(), json["session"].as_str().unwrap().to_string())
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { address, headers: format!("Host: {address}\r\n"), tls: None }
    }

    /// Replaces the headers.
    pub(crate) fn with(&self, headers: &str) -> Client {
        Client { headers: headers.to_string(), ..self.clone() }
    }

    /// Uses TLS, and trusts this authority.
    pub(crate) fn trusting(&self, authority: &str) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        Client { tls: Some((Arc::new(config), "localhost".to_string())), ..self.clone() }
    }

    /// Uses another server name.
    pub(crate) fn named(&self, name: &str) -> Client {
        let tls = self.tls.clone().map(|(config, _)| (config, name.to_string()));
        Client { tls, ..self.clone() }
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address).await?;
        let Some((config, name)) = self.tls.clone() else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(name).unwrap();
        Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> Box<dyn Stream> {
        let mut stream = self.connect().await.unwrap();
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

    /// Campaigns. A client whose turn it is asks again.
    async fn campaign_with(&self, name: &str, mut body: Value) -> Answer {
        loop {
            let answer = self.post(&format!("/elections/{name}/campaign"), body.clone()).await;
            if answer.status != 202 || answer.json()["your_turn"] != true {
                return answer;
            }
            body["session"] = answer.json()["session"].clone();
        }
    }

    pub(crate) async fn campaign(&self, name: &str, ttl: &str, wait: &str) -> Answer {
        self.campaign_with(name, json!({ "ttl": ttl, "wait": wait })).await
    }

    /// Joins the queue; returns the session and its queue position.
    pub(crate) async fn queue(&self, name: &str, ttl: &str) -> (String, u64) {
        let waits = self.campaign(name, ttl, "1ms").await;
        assert_eq!(waits.status, 202, "{waits:?}");
        let place = waits.json();
        (place["session"].as_str().unwrap().to_string(), place["queue_position"].as_u64().unwrap())
    }

    /// Waits to lead with a session that is in the queue.
    pub(crate) async fn wait_in_line(&self, name: &str, session: &str, wait: &str) -> Answer {
        self.campaign_with(name, json!({ "session": session, "wait": wait })).await
    }

    /// Sends a request with only the session.
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
    stream: Box<dyn Stream>,
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
