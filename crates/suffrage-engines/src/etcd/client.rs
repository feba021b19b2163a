//! The connection that all elections of an engine share. It moves to the next server when its server fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::api;
use crate::Error;
use crate::grpc::{Answers, Channel, Message, Requests, Status};
use crate::transport::Connection;
use crate::url::Secret;

/// The time for a connection to one server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// If a server has not answered for this time, the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(150);

/// The codes of gRPC.
const CANCELLED: u32 = 1;
const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const FAILED_PRECONDITION: u32 = 9;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// The engine does not answer now.
pub(super) fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { engine: "etcd", reason: reason.into() }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Refused { engine: "etcd", reason: reason.into() }
}

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    LeaseNotFound,
    LeaseExists,
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let ended = |reason: &str| Error::Ended { engine: "etcd", reason: reason.to_string() };
        match failure {
            Failure::LeaseNotFound => ended("the lease has expired or was revoked"),
            Failure::LeaseExists => ended("the lease exists already"),
            Failure::Other(error) => error,
        }
    }
}

/// What a status of a server means.
fn meaning(status: &Status) -> Failure {
    let text = status.message.as_str();
    if text.contains("requested lease not found") {
        return Failure::LeaseNotFound;
    }
    if text.contains("lease already exists") {
        return Failure::LeaseExists;
    }
    let error = match status.code {
        // Tokens end, also when the permissions of anybody are changed.
        _ if is_stale_token(status) => unavailable(text),
        PERMISSION_DENIED => refused(format!(
            "{text}: the user of the URL or of the certificate needs a role: \
             `etcdctl role grant-permission ROLE --prefix readwrite PREFIX`"
        )),
        INVALID_ARGUMENT if text.contains("user name is empty") => {
            refused(format!("{text}: authentication is enabled: write etcd://USER:PASSWORD@…"))
        }
        INVALID_ARGUMENT | NOT_FOUND | FAILED_PRECONDITION | UNIMPLEMENTED | UNAUTHENTICATED => refused(text),
        _ => unavailable(status.to_string()),
    };
    Failure::Other(error)
}

fn is_stale_token(status: &Status) -> bool {
    let text = status.message.as_str();
    let stale = ["invalid auth token", "revision in header is old", "revision of auth store is old"];
    stale.iter().any(|reason| text.contains(reason))
}

/// The servers, and who asks.
pub(super) struct Settings {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) credentials: Option<(String, Secret)>,
    /// A key that this client may read.
    pub(super) probe_key: Vec<u8>,
}

/// A connection to one server.
pub(super) struct Link {
    channel: Channel,
    host: usize,
    /// How many calls this server has answered.
    answers: AtomicU64,
}

impl Link {
    /// Opens a stream. The server ends it when it does not know a leading server any more.
    pub(super) async fn stream(&self, path: &str) -> Result<(Requests, Answers), Status> {
        self.channel.clone().with("hasleader", "true")?.stream(path).await
    }

    pub(super) fn is_open(&self) -> bool {
        self.channel.is_open()
    }

    /// How many calls the server has answered: compare it later by [`suspect`](Link::suspect).
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    pub(super) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::SeqCst);
    }

    /// Closes the connection if its server has answered nothing since: a slow server keeps its clients, and a dead or
    /// isolated one does not. All streams and calls of the connection fail at once, and move to the next server.
    pub(super) fn suspect(&self, answers_before: u64) {
        if self.answers() == answers_before {
            self.channel.close();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.channel.close();
    }
}

#[derive(Default)]
struct Slot {
    link: Option<Arc<Link>>,
    next: usize,
}

/// The client that all elections of an engine share.
pub(super) struct Client {
    settings: Arc<Settings>,
    slot: Mutex<Slot>,
}

impl Client {
    pub(super) fn new(settings: Settings) -> Client {
        // Clients spread over the servers.
        let mut random = [0; 4];
        _ = getrandom::fill(&mut random);
        let next = u32::from_ne_bytes(random) as usize % settings.hosts.len();
        Client { settings: Arc::new(settings), slot: Mutex::new(Slot { link: None, next }) }
    }

    /// The connection, which is opened if there is none.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Error> {
        let mut slot = self.slot.lock().await;
        if let Some(link) = slot.link.as_ref().filter(|link| link.is_open()) {
            return Ok(Arc::clone(link));
        }
        if let Some(link) = slot.link.take() {
            slot.next = (link.host + 1) % self.settings.hosts.len();
        }
        let link = Arc::new(connect(&self.settings, slot.next).await?);
        slot.link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// A unary call within this time, including the time for a new connection.
    pub(super) async fn call(
        &self,
        path: &str,
        message: &Message,
        within: Duration,
    ) -> Result<Bytes, Failure> {
        self.call_until(path, message, Instant::now() + within).await
    }

    /// A unary call that fails at this moment.
    pub(super) async fn call_until(
        &self,
        path: &str,
        message: &Message,
        deadline: Instant,
    ) -> Result<Bytes, Failure> {
        let link =
            timeout_at(deadline, self.link()).await.map_err(|_| unavailable("no server answers"))??;
        let answers = link.answers();
        match timeout_at(deadline, link.channel.call(path, message)).await {
            Ok(Ok(answer)) => {
                link.answered();
                Ok(answer)
            }
            Ok(Err(status)) => Err(self.judge(&link, &status, answers)),
            Err(_) => {
                link.suspect(answers);
                Err(unavailable(format!("{} does not answer", self.shown(&link))).into())
            }
        }
    }

    /// What a failed call means, for the connection as well.
    pub(super) fn judge(&self, link: &Link, status: &Status, answers_before: u64) -> Failure {
        let failure = meaning(status);
        if is_stale_token(status) {
            // The next connection authenticates again.
            link.channel.close();
        } else if matches!(failure, Failure::Other(Error::Unavailable { .. })) && status.code != CANCELLED {
            link.suspect(answers_before);
        }
        failure
    }

    fn shown(&self, link: &Link) -> String {
        let (host, port) = &self.settings.hosts[link.host];
        format!("{host}:{port}")
    }

    /// Asks whether the server reaches a majority, if it has answered nothing since. If it does not, the connection ends.
    pub(super) async fn probe(&self, within: Duration) {
        _ = self.call(api::RANGE, &api::probe(&self.settings.probe_key), within).await;
    }
}

/// Connects to the first server that answers, starting with this one. A server that does not answer delays neither the
/// attempts at the others nor, if it was cut off for a moment, the next attempt at itself.
async fn connect(settings: &Arc<Settings>, first: usize) -> Result<Link, Error> {
    let count = settings.hosts.len();
    let mut attempts = JoinSet::new();
    let mut reasons = Vec::new();
    let mut pause = STAGGER;
    let mut step = 0;
    loop {
        let (settings, host) = (Arc::clone(settings), (first + step) % count);
        attempts.spawn(async move { open(&settings, host).await });
        let is_round_over = step + 1 >= count;
        let next = sleep(pause);
        tokio::pin!(next);
        // A server that fails gives way to the next one at once, in the first round.
        loop {
            let ended = tokio::select! {
                () = &mut next => break,
                ended = attempts.join_next() => ended,
            };
            match ended {
                Some(Ok(Ok(link))) => return Ok(link),
                Some(Ok(Err(Error::Unavailable { reason, .. }))) => reasons.push(reason),
                Some(Ok(Err(error))) => return Err(error),
                Some(Err(_)) => {}
                None => return Err(unavailable(reasons.join("; "))),
            }
            if !is_round_over {
                break;
            }
        }
        pause *= if is_round_over { 2 } else { 1 };
        step += 1;
    }
}

/// Connects to one server, authenticates, and sees that the server reaches a majority.
async fn open(settings: &Settings, host: usize) -> Result<Link, Error> {
    let (name, port) = &settings.hosts[host];
    let connection = Connection::open(name, *port, settings.tls.as_ref(), CONNECT_TIMEOUT).await;
    let connection = connection.map_err(unavailable)?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let bracketed = if name.contains(':') { format!("[{name}]") } else { name.clone() };
    let failed = |status: Status| match meaning(&status) {
        Failure::Other(Error::Unavailable { reason, .. }) => unavailable(format!("{name}:{port}: {reason}")),
        other => other.into(),
    };
    let channel = Channel::open(connection, &format!("{scheme}://{bracketed}:{port}")).await;
    let mut link = Link { channel: channel.map_err(failed)?, host, answers: AtomicU64::new(0) };
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let late = |_| unavailable(format!("{name}:{port}: no answer within {CONNECT_TIMEOUT:?}"));
    if let Some((user, password)) = &settings.credentials {
        let message = api::authenticate(user, password.reveal());
        match timeout_at(deadline, link.channel.call(api::AUTHENTICATE, &message)).await.map_err(late)? {
            Ok(answer) => {
                let token = Secret::new(api::text(&answer));
                link.channel = link.channel.clone().with("token", token.reveal()).map_err(failed)?;
            }
            // A user may be given before it is needed.
            Err(status) if status.message.contains("authentication is not enabled") => {}
            Err(status) => return Err(failed(status)),
        }
    }
    let probe = api::probe(&settings.probe_key);
    match timeout_at(deadline, link.channel.call(api::RANGE, &probe)).await.map_err(late)? {
        Ok(_) => Ok(link),
        // The server answers. The names of elections may be below another prefix, which this user may read.
        Err(status) if status.code == PERMISSION_DENIED => Ok(link),
        Err(status) => Err(failed(status)),
    }
}
