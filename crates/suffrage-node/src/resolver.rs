//! The addresses of peers that are configured by host name.
//!
//! A peer may come back at another address, and its name may not be known to the name service yet when this node starts.
//! A [`Resolver`] therefore looks a name up again while its peer is not heard. An authenticated peer that is heard is
//! answered where it is, whatever its name says (see [`Sealed`]).

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Weak};
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_net::transport::{Sealed, Wire};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::lease::NodeState;
use crate::lease::membership::Configuration;

/// The interval between two lookups of a name whose peer is not heard. A peer that was heard within this time is not
/// looked up.
pub const REFRESH: Duration = Duration::from_secs(10);
/// The first pause after a failed lookup. It doubles up to [`REFRESH`].
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest wait of a starting node for the addresses of its peers.
const START_WAIT: Duration = Duration::from_secs(1);
/// The maximum length of a host name, in bytes.
const LONGEST_HOST: usize = 253;
/// The maximum length of a label of a host name, in bytes.
const LONGEST_LABEL: usize = 63;

/// The result of a lookup: an address, or the reason why there is none.
pub type Lookup = Result<SocketAddr, String>;

/// Checks that a text is an IP address and a port, or a host name and a port.
pub fn check_address(text: &str) -> Result<(), String> {
    let malformed = || format!("`{text}` is not a host and a port, like 10.0.0.1:7400");
    if let Ok(address) = text.parse::<SocketAddr>() {
        return if address.port() > 0 { Ok(()) } else { Err(malformed()) };
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
    let host = host.strip_suffix('.').unwrap_or(host);
    let label = |label: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(known)
    };
    // A name whose last label is a number is a mistyped IP address.
    let numeric = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    let valid = host.len() <= LONGEST_HOST && host.split('.').all(label) && !numeric;
    match port.parse::<u16>() {
        Ok(1..) if valid => Ok(()),
        _ => Err(malformed()),
    }
}

/// A name service.
pub trait NameService: Clone + Send + Sync + 'static {
    /// The addresses of a host name and port, the preferred address first.
    fn lookup(&self, name: &str) -> impl Future<Output = Result<Vec<SocketAddr>, String>> + Send;
}

/// The name service of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl NameService for SystemNames {
    /// Uses a thread of its own: a name service that does not answer must not delay the end of the runtime, which waits
    /// for its blocking threads.
    async fn lookup(&self, name: &str) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let (reply, answer) = oneshot::channel();
        let name = name.to_string();
        let resolve = move || {
            let found = name.to_socket_addrs().map(Iterator::collect);
            // The caller may be gone.
            _ = reply.send(found.map_err(|error| error.to_string()));
        };
        std::thread::Builder::new().name("resolve".to_string()).spawn(resolve).map_err(|e| e.to_string())?;
        answer.await.unwrap_or_else(|_| Err("the lookup has failed".to_string()))
    }
}

/// Chooses an address. An IPv4 socket cannot send to IPv6 addresses: for it, an IPv4 address is preferred.
fn choose(found: Result<Vec<SocketAddr>, String>, ipv4: bool) -> Lookup {
    let found = found?;
    let preferred = found.iter().find(|address| ipv4 && address.is_ipv4()).or(found.first());
    preferred.copied().ok_or_else(|| "the name has no address".to_string())
}

/// Looks up one name, for an address that is needed at once. Waits for the name service.
pub async fn lookup_once(name: &str) -> Lookup {
    choose(SystemNames.lookup(name).await, false)
}

/// Resolves the names of peers, again and again while they are not heard.
#[derive(Clone, Debug)]
pub struct Resolver<N = SystemNames> {
    service: N,
    names: BTreeMap<NodeId, String>,
    /// The result of each name whose first lookup has ended.
    known: BTreeMap<NodeId, Result<Vec<SocketAddr>, String>>,
}

impl Resolver {
    /// Resolves these names with the name service of the system. Looks them all up, and waits a second at most.
    pub async fn new(names: BTreeMap<NodeId, String>) -> Resolver {
        Resolver::with_service(SystemNames, names).await
    }
}

impl<N: NameService> Resolver<N> {
    /// Resolves these names with this name service. Looks them all up, and waits a second at most.
    pub async fn with_service(service: N, names: BTreeMap<NodeId, String>) -> Resolver<N> {
        let mut known = BTreeMap::new();
        let mut lookups = tokio::task::JoinSet::new();
        for (id, name) in names.clone() {
            let service = service.clone();
            lookups.spawn(async move { (id, service.lookup(&name).await) });
        }
        let all = async {
            while let Some(Ok((id, found))) = lookups.join_next().await {
                known.insert(id, found);
            }
        };
        // The lookups that take longer are repeated in the background.
        _ = tokio::time::timeout(START_WAIT, all).await;
        Resolver { service, names, known }
    }

    /// The preferred addresses that are known so far.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.known.values().flatten().filter_map(|found| found.first().copied())
    }

    /// Whether all names have an address.
    pub fn is_complete(&self) -> bool {
        self.addresses().count() == self.names.len()
    }

    /// Sets the known addresses as the configured addresses of the transport.
    pub fn configure<W: Wire<Address = SocketAddr>>(&self, transport: &Sealed<W>, local: SocketAddr) {
        for &id in self.names.keys() {
            if let Some(Ok(address)) = self.known(id, local) {
                transport.set_peer(id, address);
            }
        }
    }

    fn known(&self, id: NodeId, local: SocketAddr) -> Option<Lookup> {
        self.known.get(&id).map(|found| choose(found.clone(), local.is_ipv4()))
    }

    /// Keeps the configured addresses of the transport up to date in the background, until the node of this state has
    /// stopped. Reports each name whose first lookup has failed, and then each change: another address, no address any
    /// more, an address again. Other names can be set later.
    pub fn start<W: Wire<Address = SocketAddr>>(
        self,
        transport: &Arc<Sealed<W>>,
        local: SocketAddr,
        state: &watch::Receiver<NodeState>,
        report: impl Fn(NodeId, &str, &Lookup) + Send + Sync + 'static,
    ) -> PeerNames {
        let mut peers = Peers {
            ipv4: local.is_ipv4(),
            service: self.service.clone(),
            transport: Arc::downgrade(transport),
            state: state.clone(),
            report: Arc::new(report),
            names: BTreeMap::new(),
        };
        for (&id, name) in &self.names {
            peers.set(id, name, self.known(id, local));
        }
        let (names, mut changes) = mpsc::unbounded_channel::<(NodeId, String)>();
        let mut state = state.clone();
        crate::spawn(async move {
            loop {
                tokio::select! {
                    change = changes.recv() => match change {
                        Some((id, name)) => peers.set(id, &name, None),
                        None => return,
                    },
                    // An error means that the task of the node is gone.
                    _ = state.wait_for(NodeState::is_stopped) => return,
                }
            }
        });
        PeerNames { names }
    }
}

/// Sets the names and addresses of peers while the node runs.
#[derive(Clone, Debug)]
pub struct PeerNames {
    names: mpsc::UnboundedSender<(NodeId, String)>,
}

impl PeerNames {
    /// Sets the host name or IP address of a peer, with its port.
    pub fn set(&self, id: NodeId, name: &str) {
        // Without its task, the node has stopped.
        _ = self.names.send((id, name.to_string()));
    }

    /// Sets the names of the voters to those of the cluster's configuration, in the background, whenever it changes.
    pub fn follow(&self, me: NodeId, mut configuration: watch::Receiver<Arc<Configuration>>) {
        let names = self.clone();
        crate::spawn(async move {
            while configuration.changed().await.is_ok() {
                let configuration = Arc::clone(&configuration.borrow_and_update());
                let others = configuration.voters().iter().filter(|voter| voter.id != me);
                others.filter(|it| !it.address.is_empty()).for_each(|it| names.set(it.id, &it.address));
            }
        });
    }
}

/// Reports the result of a lookup of a peer's name.
type Report = Arc<dyn Fn(NodeId, &str, &Lookup) + Send + Sync>;

/// All peers with names.
struct Peers<N, W: Wire> {
    ipv4: bool,
    service: N,
    transport: Weak<Sealed<W>>,
    state: watch::Receiver<NodeState>,
    report: Report,
    /// The name of each peer, and the task that resolves it. An IP address needs no task.
    names: BTreeMap<NodeId, (String, Option<AbortHandle>)>,
}

impl<N, W> Peers<N, W>
where
    N: NameService,
    W: Wire<Address = SocketAddr>,
{
    fn set(&mut self, id: NodeId, name: &str, known: Option<Lookup>) {
        if self.names.get(&id).is_some_and(|(current, _)| current == name) {
            return;
        }
        let task = match name.parse::<SocketAddr>() {
            Ok(address) => {
                if let Some(transport) = self.transport.upgrade() {
                    transport.set_peer(id, address);
                }
                None
            }
            Err(_) => Some(self.resolve(id, name, known)),
        };
        if let Some((_, Some(earlier))) = self.names.insert(id, (name.to_string(), task)) {
            earlier.abort();
        }
    }

    fn resolve(&self, id: NodeId, name: &str, known: Option<Lookup>) -> AbortHandle {
        if let Some(failed @ Err(_)) = &known {
            (self.report)(id, name, failed);
        }
        let (service, transport) = (self.service.clone(), self.transport.clone());
        let (ipv4, report, mut state) = (self.ipv4, self.report.clone(), self.state.clone());
        let peer = Peer { id, name: name.to_string(), known, ipv4, service, transport, report };
        let task = crate::spawn(async move {
            tokio::select! {
                () = peer.keep_resolved() => {}
                // An error means that the task of the node is gone.
                _ = state.wait_for(NodeState::is_stopped) => {}
            }
        });
        task.abort_handle()
    }
}

/// One peer with a name.
struct Peer<N, W: Wire> {
    id: NodeId,
    name: String,
    known: Option<Lookup>,
    /// Whether the socket of this node is an IPv4 socket.
    ipv4: bool,
    service: N,
    /// Does not keep the address of the node bound.
    transport: Weak<Sealed<W>>,
    report: Report,
}

impl<N, W> Peer<N, W>
where
    N: NameService,
    W: Wire<Address = SocketAddr>,
{
    /// Looks the name up until the transport is gone.
    async fn keep_resolved(mut self) {
        let mut retry = FIRST_RETRY;
        loop {
            let pause = match &self.known {
                Some(Ok(_)) => REFRESH,
                Some(Err(_)) => retry,
                None => Duration::ZERO,
            };
            tokio::time::sleep(pause).await;
            let Some(heard) = self.transport.upgrade().map(|transport| transport.last_heard(self.id)) else {
                return;
            };
            if heard.is_some_and(|age| age < REFRESH) && self.known.as_ref().is_some_and(Result::is_ok) {
                continue;
            }
            let found = choose(self.service.lookup(&self.name).await, self.ipv4);
            retry = if found.is_err() { (retry * 2).min(REFRESH) } else { FIRST_RETRY };
            self.update(found);
        }
    }

    fn update(&mut self, found: Lookup) {
        let changed = match (&self.known, &found) {
            (Some(Err(_)), Err(_)) => false,
            (None, Ok(_)) => false,
            (known, _) => known.as_ref() != Some(&found),
        };
        if let (Ok(address), Some(transport)) = (&found, self.transport.upgrade()) {
            // While the name has no address, the last known address stays in use.
            transport.set_peer(self.id, *address);
        }
        if changed {
            (self.report)(self.id, &self.name, &found);
        }
        self.known = Some(found);
    }
}

#[cfg(test)]
mod tests;
