//! A node as a service.
//!
//! ```text
//!   Config ─▶ Daemon ─┬─ lease::Node   votes, campaigns, observes: sealed datagrams over UDP
//!                     ├─ Node::session_request   sessions of HTTP clients
//!                     └─ http, local   the API for clients, operators, probes and Prometheus: TCP and a Unix socket
//! ```
//!
//! - [`Daemon::start`] and [`Daemon::stop`] run the node; [`run`] adds signals, the log and the notification of the
//!   service manager.
//! - A daemon that stops hands over first. A client that leads over HTTP keeps its lease: its next renewal is refused as
//!   revoked, and the daemon waits until the client has resigned or its lease has ended.

mod certificate;
mod credentials;
mod directory;
pub(crate) mod group;
pub(crate) mod hooks;
mod http;
mod live;
mod local;
mod log;
mod notify;
mod secrets;
mod serve;
mod stream;
mod suspension;
mod tls;
mod watches;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::Span;
use suffrage_lease::Saved;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use self::credentials::Credentials;
use self::directory::Directory;
use self::http::{Api, App};
use self::live::Changes;
use self::local::Local;
pub use self::secrets::Secrets;
use self::serve::{Handlers, Limits, serve};
use self::stream::Listener;
use self::suspension::Suspension;
use self::tls::Tls;
use self::watches::Watches;
use suffrage_net::Keyring;
use suffrage_net::seal::Boot;
use suffrage_net::transport::udp::{Socket, Udp};
use suffrage_net::transport::{self, Sealed};
use suffrage_node::Error;
use suffrage_node::clock::{BootClock, Clock};
use suffrage_node::config::Config;
use suffrage_node::lease::{Node, NodeState, Settings};
use suffrage_node::resolver::{self, Resolver};
use suffrage_node::spawn;
use suffrage_node::storage::{DataFolder, MemoryDisk, Storage};

/// An election without candidates. The daemon observes it periodically to poll the voters, also without clients. Clients
/// cannot use its name.
const PROBE_ELECTION: &str = "\0probe";
/// The interval of the polls.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The time for open requests after the node has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running node and its HTTP server. Both run until they are stopped or aborted, also if this value is dropped.
#[derive(Debug)]
pub struct Daemon {
    node: Node,
    transport: Arc<Udp>,
    secrets: Secrets,
    http: Option<Http>,
    local: Option<Local>,
    /// Holds the lock of the folder.
    _folder: Option<DataFolder>,
}

struct Http {
    address: SocketAddr,
    credentials: watch::Sender<Arc<Credentials>>,
    shut_down: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http({})", self.address)
    }
}

impl Daemon {
    /// Starts a daemon in the current tokio runtime. A voter needs its saved state unless it is `new`: a voter without
    /// its state could vote twice.
    ///
    /// If the disk is full, this function waits for space, logs that, and answers HTTP requests as a node that cannot
    /// save. A `new` node fails instead, and leaves nothing behind that prevents the next start.
    pub async fn start(config: &Config, new: bool) -> Result<Daemon, Error> {
        let keyring = Keyring::load(&config.keys).map_err(config.at("keys"))?;
        let credentials = Credentials::load(config)?;
        let own = own_address(config).await?;
        let peers = config.voters.iter().filter(|voter| voter.id != config.id);
        let resolver = Resolver::new(peers.map(|voter| (voter.id, voter.address.clone())).collect()).await;
        let mut suspension = None;
        let (folder, boot) = loop {
            match open_data(config, new) {
                Ok(opened) => break opened.unzip(),
                // An operator is present at the first start.
                Err(error) if error.is_disk_full() && !new => {
                    Suspension::retry(&mut suspension, config, &credentials, error.to_string()).await?;
                }
                Err(error) => return Err(config.at("data")(error)),
            }
        };
        let mut wire = transport::Config::new(config.id, keyring)?;
        wire.boot = boot.unwrap_or(wire.boot);
        let socket = bind(own, &resolver).await?;
        // The listener is bound before the node starts: a node that serves no HTTP must not campaign.
        let listener = match suspension {
            Some(suspension) => suspension.end().await?,
            None => listen(config).await?,
        };
        let bound = Local::bind(config)?;
        let transport: Arc<Udp> = Arc::new(Sealed::new(socket, wire)?);
        resolver.configure(&transport, transport.wire().local_address());
        let mut settings = settings(config);
        settings.can_vote = folder.is_some();
        let disk: Box<dyn Storage<Saved>> = match &folder {
            Some(folder) => Box::new(folder.file::<Saved>("voter")),
            None => Box::new(MemoryDisk::<Saved>::default()),
        };
        let node = Node::start_udp(Arc::clone(&transport), disk, settings)?;
        let local = transport.wire().local_address();
        let peers = resolver.start(&transport, local, &node.state(), log::resolved);
        peers.follow(node.id(), node.configuration());
        spawn(poll_voters(node.clone()));
        let changes = Changes::new();
        spawn(log::events(node.events(), changes.clone()));
        spawn(log::configurations(node.configuration()));
        spawn(log::voters(node.clone()));
        spawn(log::storage_failures(node.clone()));
        spawn(log::warn_cannot_vote(node.clone()));
        spawn(log::dropped_datagrams(node.clone(), Arc::clone(&transport)));
        if let Some(listener) = &listener {
            Http::warn_about(config, &credentials, listener);
        }
        let (credentials, in_use) = watch::channel(Arc::new(credentials));
        let api = (listener.is_some() || bound.is_some()).then(|| {
            let (node, transport) = (node.clone(), Arc::clone(&transport));
            let (watches, directory) = (Watches::new(node.clone()), Directory::new(node.clone()));
            Api::new(App {
                node,
                transport,
                peers,
                watches,
                directory,
                changes,
                ttl: config.ttl,
                credentials: in_use,
            })
        });
        let served = listener.zip(api.clone());
        let http = served.map(|(listener, api)| Http::start(listener, credentials, api)).transpose()?;
        let local = bound.zip(api).map(|(bound, api)| Local::start(bound, api));
        let secrets = Secrets {
            config: config.clone(),
            rekey: Arc::new({
                let transport = Arc::clone(&transport);
                move |keyring| transport.rekey(keyring)
            }),
            credentials: http.as_ref().map(|http| http.credentials.clone()),
        };
        Ok(Daemon { node, transport, secrets, http, local, _folder: folder })
    }

    /// The UDP address of the node.
    pub fn address(&self) -> SocketAddr {
        self.transport.wire().local_address()
    }

    /// The address of the HTTP server, if there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|http| http.address)
    }

    /// The path of the Unix socket, if there is one.
    pub fn socket(&self) -> Option<&Path> {
        self.local.as_ref().map(Local::path)
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The keys, the HTTP token and the certificate, which can be reloaded.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Hands over all leases and stops. Clients that lead keep their leases: the daemon waits until they have resigned or
    /// their leases have ended.
    pub async fn stop(self) {
        if self.http.is_some() || self.local.is_some() {
            // No lease is longer. A suspended node does not end the leases itself.
            let longest = self.node.settings().longest_ttl;
            wait_at_most(&BootClock, longest, self.node.stop_sessions()).await;
        }
        self.node.stop().await;
        if let Some(http) = self.http {
            http.stop().await;
        }
        if let Some(local) = self.local {
            local.stop().await;
        }
    }

    /// Stops the node at once, as a crash would. Its leases run until they expire.
    pub fn abort(self) {
        self.node.abort();
        if let Some(http) = self.http {
            http.server.abort();
        }
        if let Some(local) = self.local {
            local.abort();
        }
    }
}

impl Http {
    /// Serves these handlers.
    fn start(
        listener: TcpListener,
        credentials: watch::Sender<Arc<Credentials>>,
        api: Arc<dyn Handlers>,
    ) -> Result<Http, Error> {
        let failed = |source| Error::System { doing: "serve HTTP".to_string(), source };
        let address = listener.local_addr().map_err(failed)?;
        let in_use = credentials.subscribe();
        let encrypted = in_use.borrow().certificate.is_some();
        let (limits, (shut_down, shutdown)) = (Limits::of_this_process(), watch::channel(false));
        let listener = match encrypted {
            true => Listener::Tls(Tls::new(listener, in_use)),
            false => Listener::Plain(listener),
        };
        let server = spawn(serve(listener, api, limits, shutdown));
        Ok(Http { address, credentials, shut_down, server })
    }

    /// Logs what clients may reject, and what they send unencrypted.
    fn warn_about(config: &Config, credentials: &Credentials, listener: &TcpListener) {
        if let Err(error) = credentials.check(config) {
            error!("clients will reject the certificate of this node: {error}");
        }
        let local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        if credentials.certificate.is_none() && !local {
            warn!("HTTP is served without TLS because of http-plain: the token is sent unencrypted");
        }
    }

    /// Finishes the open requests, within a limit of time.
    async fn stop(self) {
        // An error means that the server is gone.
        _ = self.shut_down.send(true);
        let abort = self.server.abort_handle();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.server).await.is_err() {
            abort.abort();
        }
    }
}

/// Checks the files that the configuration names, and the timings. Does not open the data folder.
pub fn check(config: &Config) -> Result<(), Error> {
    Keyring::load(&config.keys).map_err(config.at("keys"))?;
    Credentials::load(config)?.check(config)?;
    settings(config).check()?;
    Ok(())
}

/// Creates the data folder of a voter that has never voted, and returns its path. The voter is then started without
/// `new`.
pub fn prepare(config: &Config) -> Result<Option<PathBuf>, Error> {
    let made = config.data.as_ref().map(|path| DataFolder::create(path, config.id).map(|_| path.clone()));
    made.transpose().map_err(config.at("data"))
}

/// Opens the data folder, if there is one, and begins a boot in it. The boot must be saved before the first datagram.
fn open_data(config: &Config, new: bool) -> Result<Option<(DataFolder, Boot)>, Error> {
    let Some(path) = &config.data else { return Ok(None) };
    let folder = if new {
        DataFolder::create(path, config.id)?
    } else if config.votes() {
        DataFolder::open(path, config.id)?
    } else {
        DataFolder::open_or_create(path, config.id)?
    };
    let boot = folder.boot()?;
    Ok(Some((folder, boot)))
}

/// Binds the address of HTTP, if there is one.
async fn listen(config: &Config) -> Result<Option<TcpListener>, Error> {
    let Some(address) = config.http else { return Ok(None) };
    let failed = |source| Error::System { doing: format!("serve HTTP on {address}"), source };
    TcpListener::bind(address).await.map(Some).map_err(failed)
}

/// The address to listen on: `listen`, or a voter's own address. None for any port.
async fn own_address(config: &Config) -> Result<Option<SocketAddr>, Error> {
    let own = config.voters.iter().find(|voter| voter.id == config.id);
    let (None, Some(own)) = (config.listen, own) else { return Ok(config.listen) };
    let unresolved = |reason| Error::Unresolved(format!("voter {} at {}: {reason}", own.id, own.address));
    resolver::lookup_once(&own.address).await.map(Some).map_err(unresolved)
}

/// Binds this address, or any port of the address family of the voters. While the address of a voter is unknown, that is
/// IPv6 if the machine has it: an IPv6 socket reaches both families.
async fn bind(own: Option<SocketAddr>, resolver: &Resolver) -> Result<Socket, Error> {
    let ipv6 = resolver.addresses().any(|address| address.is_ipv6());
    let any = |ipv6| match ipv6 {
        true => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    };
    if own.is_none()
        && !resolver.is_complete()
        && let Ok(socket) = Socket::bind(any(true)).await
    {
        return Ok(socket);
    }
    Ok(Socket::bind(own.unwrap_or_else(|| any(ipv6))).await?)
}

/// Polls the voters periodically until the node stops.
async fn poll_voters(node: Node) {
    // The time for a request and its replies.
    let round = Duration::from_nanos((node.settings().delay * 4).as_nanos());
    let ask_voters = || {
        let node = node.clone();
        async move {
            let observed = node.observe(PROBE_ELECTION).await?;
            tokio::time::sleep(round).await;
            drop(observed);
            Ok(())
        }
    };
    poll(PROBE_INTERVAL, ask_voters).await;
}

/// Repeats a poll until the node has stopped. Other errors do not end the polls: the node would never be ready again.
/// They are logged, once per sequence of equal errors.
async fn poll<F: Future<Output = Result<(), Error>>>(interval: Duration, mut ask_voters: impl FnMut() -> F) {
    let mut logged = String::new();
    loop {
        match ask_voters().await {
            Ok(()) => logged.clear(),
            Err(Error::Stopped | Error::Failed(_)) => return,
            Err(error) => {
                let error = error.to_string();
                if error != logged {
                    warn!("this node cannot poll the voters and retries: {error}");
                    logged = error;
                }
            }
        }
        tokio::time::sleep(interval).await;
    }
}

fn settings(config: &Config) -> Settings {
    let mut settings = Settings::new(config.voters.iter().map(|voter| voter.id));
    (settings.delay, settings.drift, settings.longest_ttl) = (config.delay, config.drift, config.longest_ttl);
    settings.addresses = config.voters.iter().map(|voter| (voter.id, voter.address.clone())).collect();
    settings.tokens_above = config.tokens_above;
    settings
}

fn listen_to(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|source| Error::System { doing: "listen to signals".to_string(), source })
}

/// The signals that stop the process.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Error> {
        Ok(Signals {
            interrupt: listen_to(SignalKind::interrupt())?,
            terminate: listen_to(SignalKind::terminate())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Runs a daemon until SIGTERM or SIGINT. A second signal stops it without waiting for clients that lead. SIGHUP reloads
/// keys, token and certificate.
pub fn run(config: &Config, new: bool) -> Result<(), Error> {
    block_on(config, run_until_signal(config, new))
}

/// Starts the log, and runs a daemon.
fn block_on(config: &Config, daemon: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    log::start(config);
    let failed = |source| Error::System { doing: "start".to_string(), source };
    // One thread runs the node and the HTTP server: with more, requests wake threads in turn, which costs a fifth of the
    // requests per second. Whatever may wait for a disk is a blocking task.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let ended = tokio.block_on(daemon);
    // Blocking tasks may still run; they hold nothing of value.
    tokio.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ended
}

/// Reloads the secrets. The node does not wait for the disk meanwhile.
async fn reload(secrets: &Secrets) {
    let secrets = secrets.clone();
    notify::notify(&notify::reloading());
    _ = tokio::task::spawn_blocking(move || secrets.reload()).await;
    notify::notify("READY=1");
}

/// The URL of the HTTP server, or `off`.
fn http_url(config: &Config, address: Option<SocketAddr>) -> String {
    let scheme = if config.http_cert.is_some() { "https" } else { "http" };
    address.map_or("off".to_string(), |address| format!("{scheme}://{address}"))
}

/// Runs a daemon in the current tokio runtime.
async fn run_until_signal(config: &Config, new: bool) -> Result<(), Error> {
    // The handlers are installed first: no signal is missed, and none kills the process.
    let (mut signals, mut hang_up) = (Signals::new()?, listen_to(SignalKind::hangup())?);
    let daemon = tokio::select! {
        daemon = Daemon::start(config, new) => daemon?,
        () = signals.stop() => {
            info!("stopped before the node could start");
            return Ok(());
        }
    };
    let http = http_url(config, daemon.http_address());
    let voters: Vec<String> = config.voters.iter().map(|voter| voter.id.to_string()).collect();
    info!(
        node = config.id.0,
        votes = config.votes(),
        voters = voters.join(","),
        udp = %daemon.address(),
        http,
        socket = daemon.socket().map_or("off".to_string(), |path| path.display().to_string()),
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    notify::notify("READY=1");
    let mut state = daemon.node.state();
    let mut watchdog = tokio::time::interval(notify::watchdog().unwrap_or(Duration::from_secs(3_600)));
    loop {
        tokio::select! {
            () = signals.stop() => break,
            _ = hang_up.recv() => reload(daemon.secrets()).await,
            // A stuck node does not feed the watchdog.
            _ = watchdog.tick() => if http::is_alive(&daemon.node) {
                notify::notify("WATCHDOG=1");
            },
            Ok(stopped) = state.wait_for(NodeState::is_stopped) => {
                let NodeState::Stopped { cause: reason } = stopped.clone() else { break };
                return Err(Error::Failed(reason.unwrap_or_else(|| "without a known cause".to_string())));
            }
        }
    }
    info!("stopping: handing over first");
    notify::notify("STOPPING=1");
    let node = daemon.node.clone();
    tokio::select! {
        () = daemon.stop() => info!("stopped"),
        () = signals.stop() => {
            warn!("stopped without waiting for clients that lead: others lead when their leases have ended");
            node.abort();
        }
    }
    Ok(())
}

/// Waits for an event, but not longer than this time by the clock of the leases. A timer of tokio may be early by that
/// clock, because time daemons slew its own: a client could still rely on its lease.
async fn wait_at_most<T>(clock: &impl Clock, longest: Span, event: impl Future<Output = T>) {
    tokio::select! {
        _ = event => {}
        () = clock.sleep_until(clock.now() + longest) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_node::clock::ManualClock;
    use suffrage_node::lease::JoinError;

    /// The timers of tokio are far ahead of the clock of the leases.
    #[tokio::test(start_paused = true)]
    async fn a_stopping_node_waits_for_clients_by_the_clock_of_the_leases() {
        let (clock, longest) = (ManualClock::new(), Span::from_millis(10_000));
        let waits = tokio::spawn({
            let clock = clock.clone();
            async move { wait_at_most(&clock, longest, std::future::pending::<()>()).await }
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        clock.advance(longest - Span::from_nanos(1));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!waits.is_finished());
        clock.advance(Span::from_nanos(1));
        waits.await.unwrap();
    }

    /// An error other than a stop must not end the polls: the node would never be ready again.
    #[tokio::test]
    async fn polls_of_the_voters_survive_errors_and_end_when_the_node_has_stopped() {
        let mut answers = vec![Err(Error::Stopped), Ok(()), Err(JoinError::TooMany.into())];
        answers.push(Err(JoinError::TooMany.into()));
        poll(Duration::ZERO, || std::future::ready(answers.pop().expect("no poll after the stop"))).await;
        assert!(answers.is_empty());
    }
}
