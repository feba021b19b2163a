//! One connection to one server, in the text protocol of NATS.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{interval, timeout};
use tokio_rustls::TlsConnector;

use super::credentials::Credentials;
use super::{Config, refused, unavailable};
use crate::Error;
use crate::transport::Connection;

/// The longest payload that is read: what servers allow by default, and a little more.
const LONGEST: usize = 2 << 20;

/// The number of the subscription that all replies come by. Others have the numbers of requests, from 1 on.
const REPLIES: u64 = 0;

/// A message from a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The subject that the message was stored under, if it comes from a consumer.
    pub(super) subject: String,
    pub(super) reply: String,
    /// The status line of the headers: "503", "100 Idle Heartbeat". Empty: an ordinary message.
    pub(super) status: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) payload: Vec<u8>,
}

/// Splits the headers of a message into its status and its fields. Names are in lower case.
pub(super) fn parse_headers(bytes: &[u8]) -> (String, BTreeMap<String, String>) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("NATS/1.0")).unwrap_or_default().trim();
    let fields = lines.filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_string()));
    (status.to_string(), fields.collect())
}

/// Who waits for messages: requests once, a subscription always.
#[derive(Default)]
struct Waiting {
    requests: BTreeMap<u64, oneshot::Sender<Message>>,
    subscriptions: BTreeMap<u64, mpsc::UnboundedSender<Message>>,
    next: u64,
    ended: bool,
}

/// A connection. Requests are pipelined.
pub(super) struct Link {
    /// Whether the server is one of several.
    pub(super) clustered: bool,
    server: String,
    /// The subject that replies are sent to, up to the number of the request.
    inbox: String,
    waiting: Arc<Mutex<Waiting>>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    end: Arc<watch::Sender<bool>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end.send_replace(true);
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages to a subject of this connection.
pub(super) struct Subscription {
    pub(super) subject: String,
    pub(super) messages: mpsc::UnboundedReceiver<Message>,
    number: u64,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        _ = self.outgoing.send(format!("UNSUB {}\r\n", self.number).into_bytes());
    }
}

impl Link {
    /// Connects and authenticates. Each step takes at most `step`. Pings go every `step` as well.
    pub(super) async fn open(config: &Config, server: usize, step: Duration) -> Result<Link, Error> {
        let (host, port) = &config.hosts[server % config.hosts.len()];
        let server = format!("{host}:{port}");
        let stream = Connection::open(host, *port, None, step).await.map_err(unavailable)?;
        let connecting = async {
            let (stream, info) = greet(stream, host, config).await?;
            let inbox = format!("_INBOX.{}", super::random_hex(11)?);
            let mut stream = BufReader::new(stream);
            let options = connect_options(config.credentials.as_ref(), &info)?;
            let hello = format!("CONNECT {options}\r\nSUB {inbox}.* {REPLIES}\r\nPING\r\n");
            stream.get_mut().write_all(hello.as_bytes()).await.map_err(|error| error.to_string())?;
            stream.get_mut().flush().await.map_err(|error| error.to_string())?;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await.map_err(|error| error.to_string())?;
                match line.trim_end() {
                    "PONG" => return Ok((stream, inbox, info)),
                    "" => return Err("it has closed the connection".to_string()),
                    line if line.starts_with("-ERR") => return Err(line.to_string()),
                    _ => {}
                }
            }
        };
        let connected = timeout(step * 2, connecting).await;
        let connected = connected.map_err(|_| unavailable(format!("{server}: does not answer")))?;
        let (stream, inbox, info) = connected.map_err(|reason: String| {
            let reason = format!("{server}: {reason}");
            let wrong = reason.contains("Authorization") || reason.contains("Authentication");
            if wrong { refused(format!("{reason}: check the credentials")) } else { unavailable(reason) }
        })?;
        // What was read beyond the greeting stays in the reader's buffer.
        let (reader, writer) = tokio::io::split(stream);
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (end, waiting) = (Arc::new(watch::Sender::new(false)), Arc::new(Mutex::new(Waiting::default())));
        let pong = Arc::new(AtomicBool::new(true));
        tokio::spawn(write(writer, queue, Arc::clone(&end), Arc::clone(&pong), step));
        let reader = Reader {
            stream: BufReader::new(reader),
            inbox: inbox.len() + 1,
            waiting: Arc::clone(&waiting),
            outgoing: outgoing.clone(),
            pong,
        };
        tokio::spawn(read(reader, Arc::clone(&end)));
        let clustered = info["cluster"].as_str().is_some_and(|name| !name.is_empty());
        Ok(Link { clustered, server, inbox, waiting, outgoing, end })
    }

    /// Publishes a message and waits for its reply.
    pub(super) async fn request(
        &self,
        subject: &str,
        headers: &[(&str, String)],
        payload: &[u8],
        within: Duration,
    ) -> Result<Message, Error> {
        let lost = || unavailable(format!("{}: the connection has ended", self.server));
        let (sender, reply) = oneshot::channel();
        let number = {
            let mut waiting = lock(&self.waiting);
            if waiting.ended {
                return Err(lost());
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.requests.insert(number, sender);
            number
        };
        // Forgets the request also when this future is dropped.
        let _forget = Forget { waiting: &self.waiting, number };
        let reply_to = format!("{}.{number}", self.inbox);
        self.outgoing.send(publish(subject, &reply_to, headers, payload)).map_err(|_| lost())?;
        let reply = timeout(within, reply).await;
        let reply = reply.map_err(|_| unavailable(format!("{}: no reply within {within:?}", self.server)))?;
        let reply = reply.map_err(|_| lost())?;
        if reply.status.starts_with("503") {
            return Err(unavailable(format!(
                "{}: nobody answers to {subject}: is JetStream enabled?",
                self.server
            )));
        }
        Ok(reply)
    }

    /// A request to the API of JetStream. Errors are in the reply.
    pub(super) async fn api(&self, verb: &str, body: &Value, within: Duration) -> Result<Value, Error> {
        let subject = format!("$JS.API.{verb}");
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let reply = self.request(&subject, &[], &body, within).await?;
        serde_json::from_slice(&reply.payload)
            .map_err(|error| unavailable(format!("{}: {verb}: {error}", self.server)))
    }

    /// A subject whose messages come here.
    pub(super) fn subscribe(&self) -> Subscription {
        let (sender, messages) = mpsc::unbounded_channel();
        let mut waiting = lock(&self.waiting);
        waiting.next += 1;
        let number = waiting.next;
        let subject = format!("{}-watch.{number}", self.inbox);
        if !waiting.ended {
            waiting.subscriptions.retain(|_, sender| !sender.is_closed());
            waiting.subscriptions.insert(number, sender);
            _ = self.outgoing.send(format!("SUB {subject} {number}\r\n").into_bytes());
        }
        Subscription { subject, messages, number, outgoing: self.outgoing.clone() }
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.end.borrow()
    }
}

struct Forget<'a> {
    waiting: &'a Mutex<Waiting>,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.waiting).requests.remove(&self.number);
    }
}

/// Reads the server's INFO, and goes on with TLS if either side wants it.
async fn greet(mut stream: Connection, host: &str, config: &Config) -> Result<(Connection, Value), String> {
    // Byte by byte: what comes after the line belongs to TLS.
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(stream.read_u8().await.map_err(|error| error.to_string())?);
        if line.len() > 64 << 10 {
            return Err("is no NATS server".to_string());
        }
    }
    let info = line.strip_prefix(b"INFO ").ok_or("is no NATS server")?;
    let info: Value = serde_json::from_slice(info).map_err(|error| format!("INFO: {error}"))?;
    let wanted = info["tls_required"].as_bool() == Some(true) || config.tls.is_some();
    let Connection::Plain(plain) = stream else { return Ok((stream, info)) };
    if !wanted {
        return Ok((Connection::Plain(plain), info));
    }
    if info["tls_required"].as_bool() != Some(true) && info["tls_available"].as_bool() != Some(true) {
        return Err("has no TLS".to_string());
    }
    let tls = match &config.tls {
        Some(tls) => Arc::clone(tls),
        None => crate::transport::tls_config(None, None).map_err(|error| error.to_string())?,
    };
    let name = ServerName::try_from(host.to_string()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(tls).connect(name, plain).await.map_err(|error| error.to_string())?;
    Ok((Connection::Tls(Box::new(stream)), info))
}

fn connect_options(credentials: Option<&Credentials>, info: &Value) -> Result<Value, String> {
    let mut options = json!({
        "verbose": false, "pedantic": false, "echo": true, "headers": true, "no_responders": true, "protocol": 1,
        "lang": "rust", "name": "suffrage", "version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(credentials) = credentials {
        credentials.add_to(&mut options, info["nonce"].as_str().unwrap_or_default())?;
    }
    Ok(options)
}

/// A message to the server.
fn publish(subject: &str, reply: &str, headers: &[(&str, String)], payload: &[u8]) -> Vec<u8> {
    let mut message;
    if headers.is_empty() {
        message = format!("PUB {subject} {reply} {}\r\n", payload.len()).into_bytes();
    } else {
        let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let fields = format!("NATS/1.0\r\n{fields}\r\n");
        let total = fields.len() + payload.len();
        message = format!("HPUB {subject} {reply} {} {total}\r\n{fields}", fields.len()).into_bytes();
    }
    message.extend(payload);
    message.extend(b"\r\n");
    message
}

async fn write(
    mut stream: WriteHalf<BufReader<Connection>>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    end: Arc<watch::Sender<bool>>,
    pong: Arc<AtomicBool>,
    period: Duration,
) {
    let mut ended = end.subscribe();
    let mut timer = interval(period);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer.tick().await;
    loop {
        let mut bytes = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => message,
                None => break,
            },
            _ = ended.wait_for(|ended| *ended) => break,
            _ = timer.tick() => {
                if !pong.swap(false, Ordering::SeqCst) {
                    // The last ping had no answer.
                    break;
                }
                b"PING\r\n".to_vec()
            }
        };
        while let Ok(mut more) = queue.try_recv() {
            bytes.append(&mut more);
        }
        let written = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        tokio::select! {
            written = written => if written.is_err() { break },
            _ = ended.wait_for(|ended| *ended) => break,
        }
    }
    end.send_replace(true);
    _ = timeout(period, stream.shutdown()).await;
}

struct Reader {
    stream: BufReader<ReadHalf<BufReader<Connection>>>,
    /// The length of the inbox's name, with its dot.
    inbox: usize,
    waiting: Arc<Mutex<Waiting>>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    pong: Arc<AtomicBool>,
}

async fn read(mut reader: Reader, end: Arc<watch::Sender<bool>>) {
    let mut ended = end.subscribe();
    tokio::select! {
        () = async { while reader.read_one().await.is_some() {} } => {}
        _ = ended.wait_for(|ended| *ended) => {}
    }
    end.send_replace(true);
    let mut waiting = lock(&reader.waiting);
    // Those who wait see that the connection has ended.
    (waiting.requests, waiting.subscriptions, waiting.ended) = (BTreeMap::new(), BTreeMap::new(), true);
}

impl Reader {
    /// Reads and hands on one message. `None`: the connection has ended.
    async fn read_one(&mut self) -> Option<()> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (subject, subscription, reply, header_length, length) = match *words.as_slice() {
            ["PING"] => return self.outgoing.send(b"PONG\r\n".to_vec()).ok(),
            ["PONG"] => {
                self.pong.store(true, Ordering::SeqCst);
                return Some(());
            }
            ["MSG", subject, number, length] => (subject, number, "", "0", length),
            ["MSG", subject, number, reply, length] => (subject, number, reply, "0", length),
            ["HMSG", subject, number, header, length] => (subject, number, "", header, length),
            ["HMSG", subject, number, reply, header, length] => (subject, number, reply, header, length),
            // Some errors leave the connection open: a subject that is not permitted. The request has no reply then.
            ["INFO" | "+OK" | "-ERR", ..] => return Some(()),
            _ => return None,
        };
        let (header_length, length): (usize, usize) = (header_length.parse().ok()?, length.parse().ok()?);
        if length > LONGEST || header_length > length {
            return None;
        }
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).await.ok()?;
        bytes.truncate(length);
        let payload = bytes.split_off(header_length);
        let (status, headers) = parse_headers(&bytes);
        let subscription: u64 = subscription.parse().ok()?;
        let mut waiting = lock(&self.waiting);
        // A reply's subject is the inbox and the number of its request. A consumer's messages have the subjects that they
        // were stored under.
        let number = match subscription {
            REPLIES => subject.get(self.inbox..)?.parse().ok()?,
            other => other,
        };
        let message =
            Message { subject: subject.to_string(), reply: reply.to_string(), status, headers, payload };
        if subscription != REPLIES {
            if let Some(sender) = waiting.subscriptions.get(&number) {
                _ = sender.send(message);
            }
        } else if let Some(sender) = waiting.requests.remove(&number) {
            _ = sender.send(message);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_a_status_and_fields() {
        let (status, fields) = parse_headers(b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n");
        assert_eq!((status.as_str(), fields["nats-last-consumer"].as_str()), ("100 Idle Heartbeat", "7"));
        let (status, fields) = parse_headers(b"NATS/1.0\r\nKV-Operation:DEL\r\n\r\n");
        assert_eq!((status.as_str(), fields["kv-operation"].as_str()), ("", "DEL"));
        assert_eq!(parse_headers(b""), (String::new(), BTreeMap::new()));
    }

    #[test]
    fn a_message_has_the_lengths_of_its_parts() {
        assert_eq!(publish("a", "b", &[], b"xy"), b"PUB a b 2\r\nxy\r\n");
        let with = publish("a", "b", &[("K", "v".to_string())], b"xy");
        assert_eq!(with, b"HPUB a b 18 20\r\nNATS/1.0\r\nK: v\r\n\r\nxy\r\n");
    }
}
