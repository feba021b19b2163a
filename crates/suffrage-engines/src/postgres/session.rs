//! Sessions of PostgreSQL: connections that are set up, watched and opened again.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Row, SimpleQueryMessage, Statement};

use super::settings::{Host, Settings};
use super::tls::Encrypted;
use crate::Error;
use crate::waiting::Changes;

/// The name of the engine in errors.
const ENGINE: &str = "PostgreSQL";
/// How long a new session waits for the end of the one before.
const PREDECESSOR: Duration = Duration::from_millis(250);

pub(super) fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { engine: ENGINE, reason: reason.into() }
}

pub(super) fn refused(reason: impl Into<String>) -> Error {
    Error::Refused { engine: ENGINE, reason: reason.into() }
}

pub(super) fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: ENGINE, reason: reason.into() }
}

/// A connection, before TLS.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The kernel has the bytes.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// What an error of the server means for a candidate.
pub(super) fn explain(error: &tokio_postgres::Error, settings: &Settings) -> Error {
    let Some(db) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let text = format!("{error}{cause}");
        // What the server and this program disagree about does not mend itself.
        let mend = [
            ("password missing", "give one in the URL, in a password file, or in PGPASSWORD"),
            ("authentication error", "the server wants a method that this program does not know"),
            ("invalid peer certificate", "check sslmode and sslrootcert"),
            ("does not support TLS", "check sslmode, and the setting ssl of the server"),
        ];
        let mend = mend.iter().find(|(what, _)| text.contains(what));
        return mend
            .map_or_else(|| unavailable(text.clone()), |(_, mend)| refused(format!("{text}: {mend}")));
    };
    let (code, message) = (db.code(), db.message());
    let mend = match code {
        code if code.code().starts_with("28") => "check user, password and pg_hba.conf",
        &SqlState::INVALID_CATALOG_NAME => "name an existing database in the URL",
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            return refused(format!(
                "{message}: let the owner of the database run `{}; GRANT SELECT, INSERT, UPDATE ON {} TO …`",
                create_table(&settings.table),
                settings.table
            ));
        }
        &SqlState::UNDEFINED_COLUMN | &SqlState::DATATYPE_MISMATCH | &SqlState::WRONG_OBJECT_TYPE => {
            "the table is none of suffrage: name another with `table=`"
        }
        _ => return unavailable(format!("{message} (SQLSTATE {})", code.code())),
    };
    refused(format!("{message}: {mend}"))
}

/// The statement that creates the table. Its pages have room for the next version of each row, so that renewals do not
/// change the index.
pub(super) fn create_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (name text PRIMARY KEY, identity text NOT NULL, token bigint NOT NULL, \
         holder text NOT NULL, expires timestamptz NOT NULL) WITH (fillfactor = 50)"
    )
}

/// Wakes tasks by notifications of the server.
#[derive(Default)]
pub(super) struct Wakeups {
    names: Mutex<BTreeMap<String, watch::Sender<Changes>>>,
}

impl Wakeups {
    pub(super) fn subscribe(&self, name: &str) -> watch::Receiver<Changes> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = names.get(name) {
            return sender.subscribe();
        }
        names.retain(|_, sender| sender.receiver_count() > 0);
        let sender = watch::Sender::default();
        let receiver = sender.subscribe();
        names.insert(name.to_string(), sender);
        receiver
    }

    /// Hears of a notification: `acquired NAME` or `released NAME`.
    fn notify(&self, payload: &str) {
        let (what, name) = payload.split_once(' ').unwrap_or(("", payload));
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = names.get(name) {
            sender.send_modify(|known| known.count(what != "acquired"));
        }
    }

    /// Wakes everybody: notifications may have been missed.
    fn wake_all(&self) {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values().for_each(|sender| sender.send_modify(|known| known.count(true)));
    }
}

/// The process of the server that serves a session.
#[derive(Clone, Debug)]
struct Backend {
    host: usize,
    pid: i32,
    start: String,
}

/// A session. Its connection closes when the session is dropped.
pub(super) struct Session {
    client: Client,
    backend: Backend,
    /// The statements that the server has parsed already, by their text.
    prepared: Mutex<BTreeMap<String, Statement>>,
    /// Whether the table existed when the session was opened.
    has_table: bool,
    closed: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits for the rows of a query within this time.
async fn limited(
    query: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
    within: Duration,
    settings: &Settings,
) -> Result<Vec<Row>, Error> {
    match timeout(within, query).await {
        Ok(rows) => rows.map_err(|error| explain(&error, settings)),
        Err(_) => Err(unavailable(format!("no answer within {within:?}"))),
    }
}

pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Session {
    /// A query within this time.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        within: Duration,
        settings: &Settings,
    ) -> Result<Vec<Row>, Error> {
        limited(self.client.query_typed(sql, parameters), within, settings).await
    }

    /// A query within this time, by a statement that the server keeps until the session ends. For queries that are sent
    /// again and again: the server parses them once, and plans them again only if that is worth it.
    pub(super) async fn query_prepared(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        within: Duration,
        settings: &Settings,
    ) -> Result<Vec<Row>, Error> {
        let query = async {
            let statement = self.prepare(sql, parameters).await?;
            let values = parameters.iter().map(|(value, _)| *value).collect::<Vec<_>>();
            self.client.query(&statement, &values).await
        };
        limited(query, within, settings).await
    }

    async fn prepare(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Statement, tokio_postgres::Error> {
        let prepared = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = prepared().get(sql) {
            return Ok(statement.clone());
        }
        let types: Vec<Type> = parameters.iter().map(|(_, r#type)| r#type.clone()).collect();
        let statement = self.client.prepare_typed(sql, &types).await?;
        prepared().insert(sql.to_string(), statement.clone());
        Ok(statement)
    }

    /// Statements without parameters, in one request.
    async fn simple(&self, sql: &str, settings: &Settings) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.client.simple_query(sql).await.map_err(|error| explain(&error, settings))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// The number of the server's process.
    pub(super) fn pid(&self) -> i32 {
        self.backend.pid
    }

    /// Turns true, or loses its sender, when the connection closes.
    pub(super) fn closed(&self) -> watch::Receiver<bool> {
        self.closed.clone()
    }
}

/// Runs a connection, and passes its notifications on.
async fn drive(
    mut connection: Connection<Socket, Encrypted>,
    wakeups: Arc<Wakeups>,
    closed: watch::Sender<bool>,
) {
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message {
            wakeups.notify(notification.payload());
        }
    }
    closed.send_replace(true);
    wakeups.wake_all();
}

async fn open_socket(host: &Host, settings: &Settings) -> io::Result<Socket> {
    if host.name.starts_with('/') {
        let path = format!("{}/.s.PGSQL.{}", host.name, host.port);
        return Ok(Socket::Unix(UnixStream::connect(path).await?));
    }
    let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
    stream.set_nodelay(true)?;
    let (tcp, socket) = (settings.tcp, SockRef::from(&stream));
    if tcp.keepalive {
        let keepalive = TcpKeepalive::new().with_time(tcp.idle).with_interval(tcp.interval);
        socket.set_tcp_keepalive(&keepalive.with_retries(tcp.count))?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(tcp.user_timeout).filter(|timeout| !timeout.is_zero()))?;
    Ok(Socket::Tcp(stream))
}

/// What a session is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// The rows of all elections, and notifications.
    Rows,
    /// An advisory lock of one candidate, which ends with the session. The server ends a session that is silent for the
    /// ttl.
    Lock { identity: &'a str, ttl: Duration },
}

impl Purpose<'_> {
    /// The statements that set a session up. `set_config` of a missing setting would be an error: old servers lack some.
    fn setup(self, table: &str) -> String {
        let common = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') <> 'remote_apply'";
        let check = format!(
            "SELECT current_setting('transaction_read_only'), pg_backend_pid(), \
             (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()), to_regclass('{table}')"
        );
        let own = match self {
            Purpose::Rows => "SET statement_timeout = 5000; SET lock_timeout = 100".to_string(),
            Purpose::Lock { ttl, .. } => {
                let (millis, seconds) = (ttl.as_millis().max(1), ttl.as_secs().max(1));
                format!(
                    "SET statement_timeout = 0; SET lock_timeout = {}; \
                     SELECT set_config(name, value, false) FROM (VALUES ('idle_session_timeout', '{millis}'), \
                     ('client_connection_check_interval', '{millis}'), ('tcp_user_timeout', '{millis}'), \
                     ('tcp_keepalives_idle', '{seconds}'), ('tcp_keepalives_interval', '1'), \
                     ('tcp_keepalives_count', '3')) AS wanted (name, value) JOIN pg_settings USING (name)",
                    LOCK_PATIENCE.as_millis()
                )
            }
        };
        format!("{common}; {own}; {check}")
    }
}

/// How long one request waits for an advisory lock. The next request follows.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// The servers.
pub(super) struct Servers {
    pub(super) settings: Settings,
    pub(super) wakeups: Arc<Wakeups>,
    /// The host that was used last.
    host: AtomicUsize,
}

impl Servers {
    pub(super) fn new(settings: Settings) -> Servers {
        Servers { settings, wakeups: Arc::default(), host: AtomicUsize::new(0) }
    }

    /// Opens a session on the first server that can be written, from the one that was used last. Asks all of them.
    pub(super) async fn open(&self, purpose: Purpose<'_>, within: Duration) -> Result<Session, Error> {
        let hosts = &self.settings.hosts;
        let first = self.host.load(Ordering::Relaxed);
        let share = within / u32::try_from(hosts.len()).unwrap_or(1);
        let share = self.settings.connect_timeout.unwrap_or(share);
        let mut errors = Vec::new();
        for step in 0..hosts.len() {
            let index = (first + step) % hosts.len();
            // Also if this future is dropped, the next attempt starts there.
            self.host.store(index + 1, Ordering::Relaxed);
            let host = &hosts[index];
            let error = match timeout(share, self.open_on(index, purpose)).await {
                Ok(Ok(session)) => {
                    self.host.store(index, Ordering::Relaxed);
                    return Ok(session);
                }
                Ok(Err(error)) => error,
                Err(_) => unavailable(format!("no session within {share:?}")),
            };
            let shown = format!("{}:{}", host.name, host.port);
            errors.push((shown, error));
        }
        // Something to mend is said only if no server may work later.
        let transient = errors.iter().any(|(_, error)| error.is_transient());
        let reasons: Vec<String> = errors
            .into_iter()
            .map(|(shown, error)| match error {
                Error::Unavailable { reason, .. } | Error::Refused { reason, .. } => {
                    format!("{shown}: {reason}")
                }
                other => format!("{shown}: {other}"),
            })
            .collect();
        Err(if transient { unavailable(reasons.join("; ")) } else { refused(reasons.join("; ")) })
    }

    async fn open_on(&self, index: usize, purpose: Purpose<'_>) -> Result<Session, Error> {
        let (settings, host) = (&self.settings, &self.settings.hosts[index]);
        let socket = open_socket(host, settings).await.map_err(|error| unavailable(error.to_string()))?;
        let local = host.name.starts_with('/');
        let mut config = Config::new();
        config.ssl_mode(settings.ssl_mode);
        config.application_name(match purpose {
            Purpose::Rows => &settings.application_name,
            Purpose::Lock { identity, .. } => identity,
        });
        settings.user.as_ref().map(|user| config.user(user));
        settings.database.as_ref().map(|name| config.dbname(name));
        host.password.as_ref().map(|password| config.password(password.reveal()));
        let (sender, closed) = watch::channel(false);
        let wakeups = Arc::clone(&self.wakeups);
        let failed = |error: tokio_postgres::Error| explain(&error, settings);
        let tls = settings.tls.as_ref().filter(|_| !local).map(|tls| tls.to(&host.name));
        let tls = tls.transpose().map_err(refused)?;
        if tls.is_none() {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        }
        let (client, connection) = config.connect_raw(socket, tls).await.map_err(failed)?;
        let task = crate::tasks::spawn(drive(connection, wakeups, sender));
        let backend = Backend { host: index, pid: 0, start: String::new() };
        let mut session =
            Session { client, backend, prepared: Mutex::default(), has_table: false, closed, task };
        // The requests travel together. A standby refuses to listen.
        let (setup, listen) = (purpose.setup(&settings.table), format!("LISTEN \"{}\"", settings.channel));
        let listen = async {
            match purpose {
                Purpose::Rows => session.simple(&listen, settings).await.map(|_| ()),
                Purpose::Lock { .. } => Ok(()),
            }
        };
        let (replies, listening) = tokio::join!(session.simple(&setup, settings), listen);
        let replies = replies?;
        let rows = replies.iter().filter_map(|reply| match reply {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = rows.last().ok_or_else(|| unavailable("the server has not answered"))?;
        if row.get(0) == Some("on") {
            return Err(unavailable("the server is a standby, or its transactions are read-only"));
        }
        session.backend.pid = row.get(1).and_then(|pid| pid.parse().ok()).unwrap_or(0);
        session.backend.start = row.get(2).unwrap_or_default().to_string();
        session.has_table = row.get(3).is_some();
        listening?;
        Ok(session)
    }
}

/// Whether there is a row in replies.
fn is_found(replies: &[SimpleQueryMessage]) -> bool {
    replies.iter().any(|reply| matches!(reply, SimpleQueryMessage::Row(_)))
}

/// The session of the rows, which all elections share.
pub(super) struct Link {
    pub(super) servers: Arc<Servers>,
    state: tokio::sync::Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    /// Whether the last attempt to connect has failed.
    failed: bool,
    session: Option<Arc<Session>>,
    /// The server's process of the session before, which may still execute a late request.
    predecessor: Option<Backend>,
}

impl Link {
    pub(super) fn new(servers: Arc<Servers>) -> Link {
        Link { servers, state: tokio::sync::Mutex::default() }
    }

    /// The session. Opens one if there is none.
    pub(super) async fn session(&self, within: Duration) -> Result<Arc<Session>, Error> {
        let mut state = self.state.lock().await;
        if let Some(session) = state.session.as_ref().filter(|session| !session.is_closed()) {
            return Ok(Arc::clone(session));
        }
        if let Some(old) = state.session.take() {
            state.predecessor = Some(old.backend.clone());
        }
        // The first attempt is short, so that a second one fits into the lease. Those after it are not: the way to the
        // server may be long. Also an attempt that is dropped has failed.
        let within = if std::mem::replace(&mut state.failed, true) { within } else { within / 2 };
        let session = self.servers.open(Purpose::Rows, within).await?;
        if let Some(backend) = &state.predecessor {
            self.end_predecessor(&session, backend).await;
        }
        if !session.has_table {
            let create = timeout(within, self.create_table(&session)).await;
            create.map_err(|_| unavailable(format!("no answer within {within:?}")))??;
        }
        (state.predecessor, state.failed) = (None, false);
        let session = Arc::new(session);
        state.session = Some(Arc::clone(&session));
        // Notifications of the time without a session are lost.
        self.servers.wakeups.wake_all();
        Ok(session)
    }

    /// Gives a session up that has not answered.
    pub(super) async fn discard(&self, session: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if state.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session)) {
            state.predecessor = Some(session.backend.clone());
            state.session = None;
        }
        session.task.abort();
    }

    /// Ends the server's process of the session before: a request that is still on its way must not take a lease that
    /// nobody knows of. The server knows the process also if it has not noticed that the connection is gone.
    async fn end_predecessor(&self, session: &Session, backend: &Backend) {
        if backend.host != session.backend.host || backend.start.is_empty() {
            return;
        }
        let settings = &self.servers.settings;
        let start = backend.start.replace('\'', "''");
        let which =
            format!("FROM pg_stat_activity WHERE pid = {} AND backend_start = '{start}'", backend.pid);
        let end = async {
            // A server that does not permit it ends the process when it notices that the connection is gone.
            let mut sql = format!("SELECT pg_terminate_backend(pid) {which}");
            while is_found(&session.simple(&sql, settings).await?) {
                sql = format!("SELECT 1 {which}");
                sleep(Duration::from_millis(2)).await;
            }
            Ok::<(), Error>(())
        };
        // The process executes nothing after it has received the signal, even if it needs longer to end.
        _ = timeout(PREDECESSOR, end).await;
    }

    async fn create_table(&self, session: &Session) -> Result<(), Error> {
        let settings = &self.servers.settings;
        let created = session.simple(&create_table(&settings.table), settings).await;
        if created.is_err() {
            // Two clients that create a table at once disturb each other.
            let sql = format!("SELECT 1 WHERE to_regclass('{}') IS NOT NULL", settings.table);
            let replies = session.simple(&sql, settings).await?;
            if !is_found(&replies) {
                created?;
            }
        }
        Ok(())
    }
}
