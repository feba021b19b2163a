//! Connections to Redis. Requests of many elections share one.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::resp::{self, Value};
use crate::Error;
use crate::transport::{Connection, tls_config};
use crate::url::{Secret, Url};

/// The name of the engine in errors.
const ENGINE: &str = "Redis";
/// The parameters of the URL.
const PARAMETERS: [&str; 6] = ["cacert", "cert", "key", "password-env", "password-file", "prefix"];

pub(super) fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { engine: ENGINE, reason: reason.into() }
}

pub(super) fn refused(reason: impl Into<String>) -> Error {
    Error::Refused { engine: ENGINE, reason: reason.into() }
}

pub(super) fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: ENGINE, reason: reason.into() }
}

/// What an error of the server means for a candidate.
fn explain(error: &str) -> Error {
    let mend = match error.split(' ').next().unwrap_or_default() {
        "NOAUTH" | "WRONGPASS" => "check user and password",
        "NOPERM" => {
            "let the user of the URL run AUTH, SELECT, INFO, CLIENT, CONFIG, EVAL, GET, SET, PEXPIRE, PTTL, DEL, TIME, PUBLISH"
        }
        "WRONGTYPE" => "the key is no lock: name another election, or set `prefix`",
        // Not in the words of the server: it may repeat the password.
        "ERR" if error.contains("AUTH") || error.contains("DB index") => {
            return refused(
                "the server refuses to log in: check password and database of the URL".to_string(),
            );
        }
        // MOVED and ASK: a cluster. LOADING, MASTERDOWN, READONLY, BUSY, MISCONF, OOM: later.
        "MOVED" | "ASK" => "a cluster of Redis is not supported: name one server",
        _ => return unavailable(error),
    };
    refused(format!("{error}: {mend}"))
}

/// The settings of connections.
pub(super) struct Settings {
    pub(super) hosts: Vec<(String, u16)>,
    tls: Option<Arc<ClientConfig>>,
    user: Option<String>,
    password: Option<Secret>,
    pub(super) database: u32,
    pub(super) prefix: String,
}

impl Settings {
    pub(super) fn parse(mut url: Url) -> Result<Settings, Error> {
        let mut path = |key: &str| url.take(key).map(PathBuf::from);
        let (authority, certificate, key) = (path("cacert"), path("cert"), path("key"));
        let invalid = |reason: String| Error::InvalidUrl(reason);
        let own = match (&certificate, &key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
            _ => return Err(invalid("cert and key need each other".to_string())),
        };
        let tls = match url.scheme() {
            "rediss" => Some(tls_config(authority.as_deref(), own)?),
            _ if authority.is_some() || own.is_some() => {
                return Err(invalid("cacert, cert and key need rediss://".to_string()));
            }
            _ => None,
        };
        let database = match url.path() {
            "" => 0,
            text => text.parse().map_err(|_| invalid(format!("`{text}` is no number of a database")))?,
        };
        let settings = Settings {
            hosts: url.hosts("localhost", 6379),
            tls,
            user: url.user().map(Into::into),
            password: url.take_password("REDISCLI_AUTH")?,
            database,
            prefix: url.take("prefix").unwrap_or_default(),
        };
        url.finish(&PARAMETERS)?;
        Ok(settings)
    }
}

/// What a connection has learnt of its server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerInfo(BTreeMap<String, String>);

impl ServerInfo {
    fn parse(text: &str) -> ServerInfo {
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        ServerInfo(pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    pub(super) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }
}

/// A connection. It closes when it is dropped.
pub(super) struct Client {
    requests: mpsc::UnboundedSender<(Vec<u8>, oneshot::Sender<Value>)>,
    tasks: [JoinHandle<()>; 2],
    closed: Arc<AtomicBool>,
    /// The number of the connection at the server, and the name of the server's run.
    identity: (i64, String),
    pub(super) info: ServerInfo,
    /// Whether the server keeps every write over a crash.
    pub(super) durable: bool,
    /// When the information was read.
    pub(super) since: Instant,
    /// When this program has first seen the server as it is, if the server may lack the last locks of another one.
    pub(super) doubted_since: Option<Instant>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

type Waiting = Arc<Mutex<VecDeque<oneshot::Sender<Value>>>>;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write_requests(
    mut stream: WriteHalf<Connection>,
    mut requests: mpsc::UnboundedReceiver<(Vec<u8>, oneshot::Sender<Value>)>,
    waiting: Waiting,
    closed: Arc<AtomicBool>,
) {
    while let Some((mut bytes, reply)) = requests.recv().await {
        lock(&waiting).push_back(reply);
        // Whatever waits travels together.
        while let Ok((more, reply)) = requests.try_recv() {
            bytes.extend_from_slice(&more);
            lock(&waiting).push_back(reply);
        }
        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
            break;
        }
    }
    closed.store(true, Ordering::SeqCst);
    lock(&waiting).clear();
}

/// Reads replies until the connection ends or `handle` returns false.
pub(super) async fn read_replies(stream: &mut ReadHalf<Connection>, mut handle: impl FnMut(Value) -> bool) {
    let mut buffer = Vec::new();
    loop {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut read = 0;
        loop {
            match resp::parse(&buffer[read..]) {
                Ok(Some((value, length))) => {
                    read += length;
                    if !handle(value) {
                        return;
                    }
                }
                Ok(None) => break,
                Err(resp::Malformed) => return,
            }
        }
        buffer.drain(..read);
    }
}

impl Client {
    /// Starts the tasks of a connection.
    fn start(connection: Connection) -> Client {
        let (mut reader, writer) = tokio::io::split(connection);
        let (requests, receiver) = mpsc::unbounded_channel();
        let (waiting, closed) = (Waiting::default(), Arc::new(AtomicBool::new(false)));
        let write = write_requests(writer, receiver, Arc::clone(&waiting), Arc::clone(&closed));
        let ended = Arc::clone(&closed);
        let read = async move {
            read_replies(&mut reader, |value| {
                let Some(reply) = lock(&waiting).pop_front() else { return false };
                // An error: nobody waits any more.
                _ = reply.send(value);
                true
            })
            .await;
            ended.store(true, Ordering::SeqCst);
            // Dropped: whoever waits has an error.
            lock(&waiting).clear();
        };
        Client {
            requests,
            tasks: [tokio::spawn(write), tokio::spawn(read)],
            closed,
            identity: (0, String::new()),
            info: ServerInfo::default(),
            durable: false,
            since: Instant::now(),
            doubted_since: None,
        }
    }

    /// The age of the server when the connection was opened, in whole seconds.
    pub(super) fn uptime(&self) -> Duration {
        Duration::from_secs(self.info.get("uptime_in_seconds").parse().unwrap_or(0))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// A request without a bound in time.
    async fn send(&self, words: &[&str]) -> Result<Value, Error> {
        let lost = || unavailable("the connection was closed");
        let (reply, value) = oneshot::channel();
        if self.is_closed() || self.requests.send((resp::request(words), reply)).is_err() {
            return Err(lost());
        }
        match value.await {
            Ok(Value::Error(error)) => Err(explain(&error)),
            Ok(value) => Ok(value),
            Err(_) => Err(lost()),
        }
    }
}

/// The connection that all elections share.
pub(super) struct Link {
    pub(super) settings: Settings,
    state: tokio::sync::Mutex<LinkState>,
    /// The host that was used last.
    pub(super) host: AtomicUsize,
}

#[derive(Default)]
struct LinkState {
    /// Whether the last attempt to connect has failed.
    failed: bool,
    client: Option<Arc<Client>>,
    /// The connection before, of which the server may still read a late request.
    predecessor: Option<(i64, String)>,
    /// The server of the last connection.
    server: Option<Seen>,
}

/// A server in one of its roles.
#[derive(Clone, Debug)]
struct Seen {
    host: usize,
    /// The name of the history of its data. A replica that is promoted starts a new one.
    history: String,
    doubted_since: Option<Instant>,
}

impl LinkState {
    /// When this program has first seen the server of a new connection, if that server may lack locks: it is a promoted
    /// replica, or another one than before.
    fn recognize(&mut self, client: &Client, host: usize) -> Option<Instant> {
        let history = client.info.get("master_replid").to_string();
        if let Some(seen) = &self.server
            && seen.history == history
            && seen.host == host
        {
            return seen.doubted_since;
        }
        let was_replica = client.info.get("master_replid2").bytes().any(|digit| digit != b'0');
        let is_other = self.server.as_ref().is_some_and(|seen| seen.host != host);
        let doubted_since = (was_replica || is_other).then_some(client.since);
        self.server = Some(Seen { host, history, doubted_since });
        doubted_since
    }
}

impl Link {
    pub(super) fn new(settings: Settings) -> Link {
        Link { settings, state: tokio::sync::Mutex::default(), host: AtomicUsize::new(0) }
    }

    /// A connection to a host, with user and database.
    pub(super) async fn open(&self, index: usize) -> Result<Connection, Error> {
        let (settings, (host, port)) = (&self.settings, &self.settings.hosts[index]);
        let connection = Connection::open(host, *port, settings.tls.as_ref(), Duration::MAX).await;
        connection.map_err(unavailable)
    }

    /// The requests that every connection starts with.
    pub(super) fn greeting(&self) -> Vec<Vec<&str>> {
        let settings = &self.settings;
        let mut greeting = Vec::new();
        if let Some(password) = &settings.password {
            greeting.push(match &settings.user {
                Some(user) => vec!["AUTH", user, password.reveal()],
                None => vec!["AUTH", password.reveal()],
            });
        }
        greeting
    }

    /// The connection. Opens one within this time if there is none.
    pub(super) async fn client(&self, within: Duration) -> Result<Arc<Client>, Error> {
        let mut state = self.state.lock().await;
        if let Some(client) = state.client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        if let Some(old) = state.client.take() {
            state.predecessor = Some(old.identity.clone());
        }
        // The first attempt is short, so that a second one fits into the lease. Those after it are not: the way to the
        // server may be long. Also an attempt that is dropped has failed.
        let within = if std::mem::replace(&mut state.failed, true) { within } else { within / 2 };
        let hosts = self.settings.hosts.len();
        let first = self.host.load(Ordering::Relaxed);
        let share = within / u32::try_from(hosts).unwrap_or(1);
        let (mut reasons, mut transient) = (Vec::new(), false);
        for step in 0..hosts {
            let index = (first + step) % hosts;
            // Also if this future is dropped, the next attempt starts at the next host.
            self.host.store(index + 1, Ordering::Relaxed);
            let opened = timeout(share, self.open_master(index, state.predecessor.as_ref())).await;
            let error = match opened {
                Ok(Ok(mut client)) => {
                    self.host.store(index, Ordering::Relaxed);
                    client.doubted_since = state.recognize(&client, index);
                    let client = Arc::new(client);
                    state.client = Some(Arc::clone(&client));
                    (state.predecessor, state.failed) = (None, false);
                    return Ok(client);
                }
                Ok(Err(error)) => error,
                Err(_) => unavailable(format!("no connection within {share:?}")),
            };
            transient |= error.is_transient();
            let reason = match error {
                Error::Unavailable { reason, .. } | Error::Refused { reason, .. } => reason,
                other => other.to_string(),
            };
            reasons
                .push(format!("{}:{}: {reason}", self.settings.hosts[index].0, self.settings.hosts[index].1));
        }
        Err(if transient { unavailable(reasons.join("; ")) } else { refused(reasons.join("; ")) })
    }

    /// A connection to a server that is no replica.
    async fn open_master(&self, index: usize, predecessor: Option<&(i64, String)>) -> Result<Client, Error> {
        let mut client = Client::start(self.open(index).await?);
        // The requests travel together. The last ones may be refused by careful servers, which harms nobody.
        let greeting = async {
            for words in self.greeting() {
                client.send(&words).await?;
            }
            Ok(())
        };
        let database = self.settings.database.to_string();
        let select = ["SELECT", database.as_str()];
        let (greeted, selected, info, policy, number, _) = tokio::join!(
            greeting,
            client.send(&select),
            client.send(&["INFO"]),
            client.send(&["CONFIG", "GET", "appendfsync"]),
            client.send(&["CLIENT", "ID"]),
            client.send(&["CLIENT", "SETNAME", "suffrage"]),
        );
        greeted.and(selected)?;
        let Value::Text(info) = info? else { return Err(unavailable("INFO is no text")) };
        client.since = Instant::now();
        client.info = ServerInfo::parse(&info);
        if client.info.get("role") != "master" {
            return Err(unavailable("the server is a replica"));
        }
        let always =
            matches!(&policy, Ok(Value::Array(pair)) if pair.last() == Some(&Value::Text("always".into())));
        client.durable = always && client.info.get("aof_enabled") == "1";
        if let Ok(Value::Int(number)) = number {
            client.identity = (number, client.info.get("run_id").to_string());
        }
        // A request that is still on its way must not take a lock that nobody knows of: the server closes the connection
        // before, and does not read what arrives on it.
        if let Some((number, run)) = predecessor
            && *run == client.identity.1
            && *number > 0
        {
            // An error: the connection is gone, or the server does not permit it.
            _ = client.send(&["CLIENT", "KILL", "ID", &number.to_string()]).await;
        }
        Ok(client)
    }

    /// A request within this time. A connection that does not answer is given up.
    pub(super) async fn request(&self, words: &[&str], within: Duration) -> Result<Value, Error> {
        let client = timeout(within, self.client(within)).await;
        let client = client.map_err(|_| unavailable(format!("no connection within {within:?}")))??;
        self.request_on(&client, words, within).await
    }

    pub(super) async fn request_on(
        &self,
        client: &Arc<Client>,
        words: &[&str],
        within: Duration,
    ) -> Result<Value, Error> {
        // Not all of the time: another connection can be tried while the lease is valid.
        let within = within * 3 / 4;
        let reply = timeout(within, client.send(words)).await;
        let reply = reply.unwrap_or_else(|_| Err(unavailable(format!("no answer within {within:?}"))));
        if let Err(Error::Unavailable { reason, .. }) = &reply {
            // A server that has become a replica is left as well.
            let busy = ["BUSY", "OOM", "MISCONF", "LOADING"].iter().any(|code| reason.starts_with(code));
            if !busy {
                let mut state = self.state.lock().await;
                if state.client.as_ref().is_some_and(|known| Arc::ptr_eq(known, client)) {
                    state.predecessor = Some(client.identity.clone());
                    state.client = None;
                }
                client.close();
            }
        }
        reply
    }
}
