//! Connections to Redis: requests of many elections share one, and a second one hears of changes.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::resp::{self, Value};
use crate::Error;
use crate::transport::{Connection, tls_config};
use crate::url::{Secret, Url};
use crate::waiting::Changes;

/// The name of the engine in errors.
const ENGINE: &str = "Redis";
/// The parameters of the URL.
const PARAMETERS: [&str; 6] = ["cacert", "cert", "key", "password-env", "password-file", "prefix"];
/// How long a connection may take to open, where no candidate says otherwise.
const OPEN: Duration = Duration::from_secs(1);
/// The pause before the connection of notifications is opened again.
const REOPEN: Duration = Duration::from_millis(200);
/// The pause if the server refuses to send notifications.
const REFUSED: Duration = Duration::from_secs(10);
/// A connection of notifications that is silent this long is asked.
const SILENCE: Duration = Duration::from_secs(5);

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
        "ERR" if error.contains("AUTH") || error.contains("DB index") => {
            "check password and database of the URL"
        }
        // MOVED and ASK: a cluster. LOADING, MASTERDOWN, READONLY, BUSY, MISCONF, OOM: later.
        "MOVED" | "ASK" => "a cluster of Redis is not supported: name one server",
        _ => return unavailable(error),
    };
    refused(format!("{error}: {mend}"))
}

/// The settings of connections.
pub(super) struct Settings {
    hosts: Vec<(String, u16)>,
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
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

type Waiting = Arc<Mutex<VecDeque<oneshot::Sender<Value>>>>;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
async fn read_replies(stream: &mut ReadHalf<Connection>, mut handle: impl FnMut(Value) -> bool) {
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
    host: AtomicUsize,
}

#[derive(Default)]
struct LinkState {
    /// Whether the last attempt to connect has failed.
    failed: bool,
    client: Option<Arc<Client>>,
    /// The connection before, of which the server may still read a late request.
    predecessor: Option<(i64, String)>,
}

impl Link {
    pub(super) fn new(settings: Settings) -> Link {
        Link { settings, state: tokio::sync::Mutex::default(), host: AtomicUsize::new(0) }
    }

    /// A connection to a host, with user and database.
    async fn open(&self, index: usize) -> Result<Connection, Error> {
        let (settings, (host, port)) = (&self.settings, &self.settings.hosts[index]);
        let connection = Connection::open(host, *port, settings.tls.as_ref(), Duration::MAX).await;
        connection.map_err(unavailable)
    }

    /// The requests that every connection starts with.
    fn greeting(&self) -> Vec<Vec<&str>> {
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
                Ok(Ok(client)) => {
                    self.host.store(index, Ordering::Relaxed);
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
        // Half of the time: another connection can be tried while the lease is valid.
        let within = within / 2;
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

/// Wakes tasks by messages of the server, over a connection of its own.
pub(super) struct Wakeups {
    link: Arc<Link>,
    state: Mutex<WakeupState>,
}

#[derive(Default)]
struct WakeupState {
    /// The channels of keys that somebody waits for: of resignations, and of the server's notifications about keys.
    channels: BTreeMap<String, Arc<watch::Sender<Changes>>>,
    /// Channels to subscribe to. None: no connection is open.
    commands: Option<mpsc::UnboundedSender<Vec<u8>>>,
    running: bool,
}

/// The task that listens. If its runtime is shut down, the next subscription starts another.
struct Listener {
    wakeups: Arc<Wakeups>,
    finished: bool,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.finished {
            let mut state = lock(&self.wakeups.state);
            (state.running, state.commands) = (false, None);
        }
    }
}

impl Listener {
    /// Listens while somebody waits.
    async fn run(mut self) {
        loop {
            let mut pause = REOPEN;
            if let Some(connection) = self.wakeups.connect().await {
                let refused = self.wakeups.hear(connection).await;
                pause = if refused { REFUSED } else { REOPEN };
            }
            {
                let mut state = lock(&self.wakeups.state);
                state.commands = None;
                state.channels.retain(|_, sender| sender.receiver_count() > 0);
                if state.channels.is_empty() {
                    // Under the lock: nobody relies on this task any more.
                    (state.running, self.finished) = (false, true);
                    return;
                }
                // Messages were missed.
                state.channels.values().for_each(|sender| sender.send_modify(|known| known.count(true)));
            }
            sleep(pause).await;
        }
    }
}

impl Wakeups {
    pub(super) fn new(link: Arc<Link>) -> Wakeups {
        Wakeups { link, state: Mutex::default() }
    }

    /// Counts the changes of a key.
    pub(super) fn subscribe(self: &Arc<Self>, key: &str) -> watch::Receiver<Changes> {
        let channels = self.channels_of(key);
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.running, true) {
            tokio::spawn(Listener { wakeups: Arc::clone(self), finished: false }.run());
        }
        if let Some(sender) = state.channels.get(&channels[0]) {
            return sender.subscribe();
        }
        let sender = Arc::new(watch::Sender::default());
        let receiver = sender.subscribe();
        for channel in &channels {
            state.channels.insert(channel.clone(), Arc::clone(&sender));
        }
        if let Some(commands) = &state.commands {
            // An error: the connection is opened again, with all channels.
            _ = commands.send(resp::request(&["SUBSCRIBE", &channels[0], &channels[1]]));
        }
        receiver
    }

    /// The channel that candidates of ours publish to, and the one of the server's notifications.
    fn channels_of(&self, key: &str) -> [String; 2] {
        [channel(key), format!("__keyspace@{}__:{key}", self.link.settings.database)]
    }

    /// A connection to the server that serves requests.
    async fn connect(&self) -> Option<Connection> {
        self.link.client(OPEN).await.ok()?;
        let index = self.link.host.load(Ordering::Relaxed) % self.link.settings.hosts.len();
        timeout(OPEN, self.link.open(index)).await.ok()?.ok()
    }

    /// Hears messages until the connection ends. True if the server refuses to send any.
    async fn hear(&self, connection: Connection) -> bool {
        let (mut reader, mut writer) = tokio::io::split(connection);
        let (sender, mut commands) = mpsc::unbounded_channel();
        let mut hello: Vec<u8> = self.link.greeting().iter().flat_map(|words| resp::request(words)).collect();
        {
            let mut state = lock(&self.state);
            for channel in state.channels.keys() {
                hello.extend(resp::request(&["SUBSCRIBE", channel]));
            }
            state.commands = Some(sender);
        }
        let (heard, mut sign) = watch::channel(());
        let mut refused = false;
        let read = read_replies(&mut reader, |value| {
            heard.send_replace(());
            self.handle(&value);
            refused = matches!(value, Value::Error(_));
            !refused
        });
        let write = async {
            let mut bytes = hello;
            loop {
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
                bytes = match timeout(SILENCE, commands.recv()).await {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => return,
                    Err(_) => match self.tidy() {
                        Some(bytes) => bytes,
                        None => return,
                    },
                };
            }
        };
        // A silent connection is asked, and given up if it does not answer.
        let watchdog =
            async { while timeout(SILENCE * 2, sign.changed()).await.is_ok_and(|sign| sign.is_ok()) {} };
        tokio::select! {
            () = read => {}
            () = write => {}
            () = watchdog => {}
        }
        refused
    }

    /// Unsubscribes from channels that nobody waits for, and asks for a sign of life. None: there is no channel left.
    fn tidy(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        let mut bytes = resp::request(&["PING"]);
        state.channels.retain(|channel, sender| {
            let wanted = sender.receiver_count() > 0;
            if !wanted {
                bytes.extend(resp::request(&["UNSUBSCRIBE", channel]));
            }
            wanted
        });
        (!state.channels.is_empty()).then_some(bytes)
    }

    fn handle(&self, value: &Value) {
        let Value::Array(words) = value else { return };
        match words.as_slice() {
            // Renewals wake nobody. Others do: `released` of ours; `del` and `expired` of the server.
            [Value::Text(kind), Value::Text(channel), Value::Text(event)]
                if kind == "message" && !matches!(event.as_str(), "expire" | "pexpire") =>
            {
                self.wake(channel, !matches!(event.as_str(), "acquired" | "set"));
            }
            // Messages before the subscription were missed.
            [Value::Text(kind), Value::Text(channel), Value::Int(_)] if kind == "subscribe" => {
                self.wake(channel, true);
            }
            _ => {}
        }
    }

    fn wake(&self, channel: &str, released: bool) {
        if let Some(sender) = lock(&self.state).channels.get(channel) {
            sender.send_modify(|known| known.count(released));
        }
    }
}

/// The channel that scripts publish to when the holder of a key changes.
pub(super) fn channel(key: &str) -> String {
    format!("suffrage:{key}")
}
