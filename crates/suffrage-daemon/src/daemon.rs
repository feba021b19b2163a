//! A node as a service of its own: from a configuration to a process that is started, asked and stopped.
//!
//! ```text
//!   Config ─▶ Daemon ─┬─ lease::Node   votes, stands, observes: over UDP, sealed
//!                     ├─ Node::session_request   clients that lead, or wait to, through this node
//!                     └─ http          what clients, operators, probes and Prometheus ask
//! ```
//!
//! - [`Daemon::start`] and [`Daemon::stop`] are all there is to it; [`run`] adds what a process has: signals,
//!   logs, and a word to the service manager.
//! - To stop is to hand over first. Where a client leads over HTTP, it keeps what it was promised: it is told at
//!   its next renewal, and the daemon waits until it has resigned, or until its lease is over.

mod certificate;
mod credentials;
mod http;
mod log;
mod notify;
mod serve;
mod tls;
mod watches;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_lease::Saved;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use self::credentials::Credentials;
use self::http::App;
use self::serve::{Limits, serve};
use self::tls::Tls;
use self::watches::Watches;
use suffrage_net::Keyring;
use suffrage_net::transport::udp::{Socket, Udp};
use suffrage_net::transport::{self, Sealed};
use suffrage_node::Error;
use suffrage_node::clock::BootClock;
use suffrage_node::config::Config;
use suffrage_node::lease::{Node, NodeState, Settings};
use suffrage_node::storage::{DataFolder, MemoryDisk};

/// An election in which nobody stands. The daemon looks at it every now and then, so that it hears the voters
/// even if nobody wants anything of it. Clients cannot say its name.
const PULSE: &str = "\0pulse";
/// How often.
const PULSE_PERIOD: Duration = Duration::from_secs(3);
/// How long requests that go on are waited for once the node has stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A node that runs as its configuration says, and its HTTP server: until it is stopped or aborted, also if this
/// is dropped.
#[derive(Debug)]
pub struct Daemon {
    config: Config,
    node: Node,
    transport: Arc<Udp>,
    http: Option<Http>,
    /// Keeps it locked.
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
    /// Starts a node, in the tokio runtime this is called in. A voter must find its state, unless it is `new`:
    /// one that has voted before and forgotten it could vote twice.
    pub async fn start(config: &Config, new: bool) -> Result<Daemon, Error> {
        let keyring = Keyring::load(&config.keys).map_err(config.at("keys"))?;
        let credentials = Credentials::load(config)?;
        let addresses = resolve(config).await?;
        let folder = match &config.data {
            Some(path) if new => Some(DataFolder::create(path, config.id)),
            Some(path) if config.votes() => Some(DataFolder::open(path, config.id)),
            Some(path) => Some(DataFolder::open_or_create(path, config.id)),
            None => None,
        };
        let folder = folder.transpose().map_err(config.at("data"))?;
        let mut wire = transport::Config::new(config.id, keyring)?;
        if let Some(folder) = &folder {
            wire.boot = folder.boot()?;
        }
        let socket = Socket::bind(listen(config, &addresses)).await?;
        // Before anybody hears of the node: who cannot be asked must not stand.
        let listener = match config.http {
            Some(address) => Some(
                TcpListener::bind(address)
                    .await
                    .map_err(|source| Error::System { doing: format!("serve HTTP on {address}"), source })?,
            ),
            None => None,
        };
        wire.peers = addresses;
        wire.peers.remove(&config.id);
        let transport: Arc<Udp> = Arc::new(Sealed::new(socket, wire)?);
        let node = match folder.as_ref().filter(|_| config.votes()) {
            Some(folder) => {
                let disk = folder.file::<Saved>("voter");
                Node::start(Arc::clone(&transport), BootClock, disk, settings(config))?
            }
            None => {
                let disk = MemoryDisk::<Saved>::default();
                Node::start(Arc::clone(&transport), BootClock, disk, settings(config))?
            }
        };
        tokio::spawn(feel_pulse(node.clone()));
        tokio::spawn(log::leaders(node.leader_changes()));
        tokio::spawn(log::troubles(node.clone()));
        tokio::spawn(log::disenfranchised(node.clone()));
        tokio::spawn(log::refusals(node.clone(), Arc::clone(&transport)));
        let http = match listener {
            Some(listener) => Some(Http::start(listener, &node, &transport, config, credentials)?),
            None => None,
        };
        let config = config.clone();
        Ok(Daemon { config, node, transport, http, _folder: folder })
    }

    /// Where it listens for datagrams.
    pub fn address(&self) -> SocketAddr {
        self.transport.wire().local_address()
    }

    /// Where it serves HTTP, if it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|http| http.address)
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Reads the keys again, and uses them from now on. If they cannot be read, the old ones stay in use.
    pub fn rekey(&self) -> Result<(), Error> {
        let keyring = Keyring::load(&self.config.keys)?;
        self.transport.rekey(&keyring);
        let keys: Vec<String> = keyring.keys().iter().map(|key| key.id().to_string()).collect();
        info!(keys = keys.join(" "), "keys read; the first seals");
        Ok(())
    }

    /// Reads the token of HTTP again, and uses it from now on. If it cannot be read, the old one stays in use.
    pub fn renew_token(&self) -> Result<(), Error> {
        let Some(http) = self.http.as_ref().filter(|_| self.config.http_token.is_some()) else {
            return Ok(());
        };
        let token = Credentials::load_token(&self.config)?;
        http.renew(|old| Credentials { token, ..old });
        info!("HTTP's token read");
        Ok(())
    }

    /// Reads the certificate of HTTP again, and uses it from now on. If it cannot be read, or is not valid now, the
    /// old one stays in use.
    pub fn renew_certificate(&self) -> Result<(), Error> {
        let Some(http) = self.http.as_ref().filter(|_| self.config.http_cert.is_some()) else {
            return Ok(());
        };
        let certificate = Credentials::load_certificate(&self.config)?;
        Credentials { token: None, certificate: certificate.clone() }.check(&self.config)?;
        http.renew(|old| Credentials { certificate, ..old });
        info!("HTTP's certificate read");
        Ok(())
    }

    /// Reads again whatever can be replaced while it runs, each for itself.
    fn reload(&self) {
        notify::tell(&notify::reloading());
        if let Err(error) = self.rekey() {
            error!("the old keys stay in use: {error}");
        }
        if let Err(error) = self.renew_token() {
            error!("the old token of HTTP stays in use: {error}");
        }
        if let Err(error) = self.renew_certificate() {
            error!("the old certificate of HTTP stays in use: {error}");
        }
        notify::tell("READY=1");
    }

    /// Hands over whatever it leads, and stops. Clients that lead keep what they were promised: it waits until
    /// they have resigned, or until their leases are over.
    pub async fn stop(self) {
        if self.http.is_some() {
            // No promise is for longer; a node that cannot save does not come round to ending them.
            let longest = Duration::from_nanos(self.node.settings().longest_ttl.as_nanos());
            _ = tokio::time::timeout(longest, self.node.stop_sessions()).await;
        }
        self.node.stop().await;
        if let Some(http) = self.http {
            // An error means that the server is gone.
            _ = http.shut_down.send(true);
            let abort = http.server.abort_handle();
            if tokio::time::timeout(LAST_WORDS, http.server).await.is_err() {
                abort.abort();
            }
        }
    }

    /// Stops at once, as a crash would: what it leads is nobody's until the leases are over.
    pub fn abort(self) {
        self.node.abort();
        if let Some(http) = self.http {
            http.server.abort();
        }
    }
}

impl Http {
    fn start(
        listener: TcpListener,
        node: &Node,
        transport: &Arc<Udp>,
        config: &Config,
        credentials: Credentials,
    ) -> Result<Http, Error> {
        let failed = |source| Error::System { doing: "serve HTTP".to_string(), source };
        let address = listener.local_addr().map_err(failed)?;
        if let Err(error) = credentials.check(config) {
            error!("clients will refuse to ask this node: {error}");
        }
        let encrypted = credentials.certificate.is_some();
        if !encrypted && !address.ip().is_loopback() {
            warn!("HTTP is served without TLS, as http-plain says: whoever listens in has the token");
        }
        let (credentials, in_use) = watch::channel(Arc::new(credentials));
        let app = App {
            node: node.clone(),
            transport: Arc::clone(transport),
            watches: Watches::new(node.clone()),
            ttl: config.ttl,
            credentials: in_use.clone(),
        };
        let (limits, (shut_down, told)) = (Limits::of_this_process(), watch::channel(false));
        let server = match encrypted {
            true => tokio::spawn(serve(Tls::new(listener, in_use), http::router(app), limits, told)),
            false => tokio::spawn(serve(listener, http::router(app), limits, told)),
        };
        Ok(Http { address, credentials, shut_down, server })
    }

    /// Replaces some of what protects it.
    fn renew(&self, change: impl FnOnce(Credentials) -> Credentials) {
        self.credentials.send_modify(|in_use| *in_use = Arc::new(change((**in_use).clone())));
    }
}

/// Whether a daemon could be started with the files that its configuration names. Touches no data folder.
pub fn check(config: &Config) -> Result<(), Error> {
    Keyring::load(&config.keys).map_err(config.at("keys"))?;
    Credentials::load(config)?.check(config)?;
    settings(config).check()?;
    Ok(())
}

/// Makes the data folder of a voter that has never voted, and starts nothing: from then on it is started as one
/// that was here before. Where it is.
pub fn prepare(config: &Config) -> Result<Option<PathBuf>, Error> {
    let made = config.data.as_ref().map(|path| DataFolder::create(path, config.id).map(|_| path.clone()));
    made.transpose().map_err(config.at("data"))
}

/// Looks the voters up. It may take a while, and asks whoever the machine asks.
async fn resolve(config: &Config) -> Result<BTreeMap<NodeId, SocketAddr>, Error> {
    let voters = config.voters.clone();
    let looked_up = tokio::task::spawn_blocking(move || {
        voters.iter().map(|voter| voter.resolve().map(|address| (voter.id, address))).collect()
    });
    looked_up.await.unwrap_or_else(|error| Err(error.to_string())).map_err(Error::Unresolved)
}

/// Where the node listens: as it is told; a voter at its own address; others at any port, of the kind of
/// addresses that the voters have.
fn listen(config: &Config, addresses: &BTreeMap<NodeId, SocketAddr>) -> SocketAddr {
    let own = || addresses.get(&config.id).copied();
    config.listen.or_else(own).unwrap_or_else(|| match addresses.values().any(SocketAddr::is_ipv6) {
        true => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    })
}

/// Has the voters answer every now and then, until the node stops.
async fn feel_pulse(node: Node) {
    // The time for a question and its answers.
    let moment = Duration::from_nanos((node.settings().delay * 4).as_nanos());
    while let Ok(look) = node.observe(PULSE).await {
        tokio::time::sleep(moment).await;
        drop(look);
        tokio::time::sleep(PULSE_PERIOD).await;
    }
}

fn settings(config: &Config) -> Settings {
    let voters = config.voters.iter().map(|voter| voter.id);
    let (delay, drift, longest_ttl) = (config.delay, config.drift, config.longest_ttl);
    Settings { delay, drift, longest_ttl, ..Settings::new(voters) }
}

fn listen_to(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|source| Error::System { doing: "listen to signals".to_string(), source })
}

/// What tells a process to stop.
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

/// Runs a node as a process, until it is told to stop: SIGTERM or SIGINT, and a second one not to wait for
/// clients that lead. SIGHUP reads the keys, the token and the certificate again.
pub fn run(config: &Config, new: bool) -> Result<(), Error> {
    log::start(config);
    let failed = |source| Error::System { doing: "start".to_string(), source };
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let ended = tokio.block_on(live(config, new));
    // Nothing is left that is worth waiting for.
    tokio.shutdown_timeout(LAST_WORDS);
    ended
}

/// From the start to the signal that ends it.
async fn live(config: &Config, new: bool) -> Result<(), Error> {
    // Before anything else: none is missed, and none ends the process by surprise.
    let (mut signals, mut hang_up) = (Signals::new()?, listen_to(SignalKind::hangup())?);
    let daemon = Daemon::start(config, new).await?;
    let scheme = if config.http_cert.is_some() { "https" } else { "http" };
    let http = daemon.http_address().map_or("off".to_string(), |address| format!("{scheme}://{address}"));
    let voters: Vec<String> = config.voters.iter().map(|voter| voter.id.to_string()).collect();
    info!(
        node = config.id.0,
        votes = config.votes(),
        voters = voters.join(","),
        udp = %daemon.address(),
        http,
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    notify::tell("READY=1");
    let mut state = daemon.node.state();
    let mut watchdog = tokio::time::interval(notify::watchdog().unwrap_or(Duration::from_secs(3_600)));
    loop {
        tokio::select! {
            () = signals.stop() => break,
            _ = hang_up.recv() => daemon.reload(),
            // Only of a node that comes round to things.
            _ = watchdog.tick() => if http::is_alive(&daemon.node) {
                notify::tell("WATCHDOG=1");
            },
            Ok(stopped) = state.wait_for(NodeState::is_stopped) => {
                let NodeState::Stopped { cause: reason } = stopped.clone() else { break };
                return Err(Error::Failed(reason.unwrap_or_else(|| "nobody told it to".to_string())));
            }
        }
    }
    info!("stopping: handing over first");
    notify::tell("STOPPING=1");
    let node = daemon.node.clone();
    tokio::select! {
        () = daemon.stop() => info!("stopped"),
        () = signals.stop() => {
            warn!("stopped without waiting for clients that lead: others can after their leases");
            node.abort();
        }
    }
    Ok(())
}
