//! A member of a large group as a service: the member, its hooks and its HTTP server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_net::Keyring;
use suffrage_node::Error;
use suffrage_node::config::Config;
use suffrage_node::group::{GroupConfig, GroupLeader, GroupMember};
use suffrage_node::spawn;
use tokio::net::UdpSocket;
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::credentials::Credentials;
use super::hooks::{HookCommands, Hooks};
use super::http::{Api, GroupApp};
use super::{Http, Secrets, Signals, block_on, http_url, listen, listen_to, log, notify, reload};

/// The contract, wherever a user meets it.
pub(crate) const CONTRACT: &str = "this is not the quorum lease: two members can lead at the same time; use `suffrage run` \
                                   or `suffrage node` where that does harm";

/// The interval of attempts to find the address of this machine.
const RETRY: Duration = Duration::from_secs(2);
/// The interval at which conflicts of ids are looked for.
const CONFLICTS: Duration = Duration::from_secs(10);

/// The settings of a member.
#[derive(Debug)]
pub(crate) struct GroupOptions {
    /// Keys, HTTP and the log, as a node has them.
    pub(crate) config: Config,
    pub(crate) name: String,
    pub(crate) seeds: Vec<String>,
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: Option<SocketAddr>,
    pub(crate) id: Option<NodeId>,
    pub(crate) rank: i64,
    pub(crate) stands: bool,
    pub(crate) hooks: HookCommands,
}

/// Runs a member until SIGTERM or SIGINT: then it leaves the group. A second signal ends it at once. SIGHUP reloads keys,
/// token and certificate.
pub(crate) fn run(options: &GroupOptions) -> Result<(), Error> {
    block_on(&options.config, run_until_signal(options))
}

async fn run_until_signal(options: &GroupOptions) -> Result<(), Error> {
    let config = &options.config;
    // The handlers are installed first: no signal is missed, and none kills the process.
    let (mut signals, mut hang_up) = (Signals::new()?, listen_to(SignalKind::hangup())?);
    let keyring = Keyring::load(&config.keys).map_err(config.at("keys"))?;
    let credentials = Credentials::load(config)?;
    let listener = listen(config).await?;
    let advertise = tokio::select! {
        advertise = advertised(options) => advertise,
        () = signals.stop() => {
            info!("stopped before the member could start");
            return Ok(());
        }
    };
    let member = GroupMember::join(GroupConfig {
        name: options.name.clone(),
        listen: options.listen,
        advertise,
        id: options.id,
        seeds: options.seeds.clone(),
        keyring,
        rank: options.rank,
        stands: options.stands,
    })
    .await?;
    if let Some(listener) = &listener {
        Http::warn_about(config, &credentials, listener);
    }
    let (credentials, in_use) = watch::channel(Arc::new(credentials));
    let app = GroupApp { name: options.name.clone(), member: member.clone(), credentials: in_use };
    let serve = |listener| Http::start(listener, credentials, Api::of_group(app));
    let http = listener.map(serve).transpose()?;
    let secrets = Secrets {
        config: config.clone(),
        rekey: rekey(member.clone()),
        credentials: http.as_ref().map(|http| http.credentials.clone()),
    };
    info!(
        group = options.name,
        member = member.id().0,
        udp = %member.address(),
        http = http_url(config, http.as_ref().map(|http| http.address)),
        rank = options.rank,
        version = env!("CARGO_PKG_VERSION"),
        "started; {CONTRACT}"
    );
    if member.address().ip().is_loopback() && !options.listen.ip().is_loopback() {
        warn!(
            "other machines cannot reach {}: set --advertise to an address of this machine",
            member.address()
        );
    }
    notify::notify("READY=1");
    spawn(leaders(member.id(), member.watch()));
    spawn(conflicts(member.clone()));
    spawn({
        let member = member.clone();
        log::summarize_drops(move || {
            let member = member.clone();
            async move { Some((member.status().await?.traffic, None)) }
        })
    });
    let mut hooks = Hooks::new(options.hooks.clone(), &options.name, member.clone());
    let mut watchdog = tokio::time::interval(notify::watchdog().unwrap_or(Duration::from_secs(3_600)));
    {
        let mut run_hooks = std::pin::pin!(hooks.run(member.watch()));
        loop {
            tokio::select! {
                () = signals.stop() => break,
                _ = hang_up.recv() => reload(&secrets).await,
                // A stuck member does not feed the watchdog.
                _ = watchdog.tick() => if member.status().await.is_some() {
                    notify::notify("WATCHDOG=1");
                },
                () = member.ended() => {
                    return Err(Error::Failed("the task of the member has ended".to_string()));
                }
                () = &mut run_hooks => {}
            }
        }
    }
    info!("stopping: leaving the group");
    notify::notify("STOPPING=1");
    let stop = async {
        member.leave().await;
        member.ended().await;
        hooks.finish().await;
        if let Some(http) = http {
            http.stop().await;
        }
    };
    tokio::select! {
        () = stop => info!("stopped"),
        // The hook is dropped, which kills it.
        () = signals.stop() => warn!("stopped without waiting for the hook"),
    }
    Ok(())
}

/// Puts new keys into use. The reload runs on a thread for blocking work.
fn rekey(member: GroupMember) -> Arc<dyn Fn(&Keyring) + Send + Sync> {
    let runtime = tokio::runtime::Handle::current();
    Arc::new(move |keyring| runtime.block_on(member.rekey(keyring.clone())))
}

/// The address at which others reach this member, if `--listen` does not say it: the address that this machine uses for
/// datagrams to a seed. Waits until a seed has an address. None without seeds.
async fn advertised(options: &GroupOptions) -> Option<SocketAddr> {
    let GroupOptions { listen, advertise, seeds, .. } = options;
    if advertise.is_some() || !listen.ip().is_unspecified() || seeds.is_empty() || listen.port() == 0 {
        return *advertise;
    }
    let mut logged = false;
    loop {
        let mut found: Option<IpAddr> = None;
        for seed in seeds {
            let local = local_address(seed).await;
            // Other machines cannot reach a loopback address, which the name of this machine often has.
            if let Some(local) = local.filter(|local| found.is_none() || !local.is_loopback()) {
                found = Some(local);
            }
            if found.is_some_and(|found| !found.is_loopback()) {
                break;
            }
        }
        if let Some(found) = found {
            return Some(SocketAddr::new(found, listen.port()));
        }
        if !logged {
            error!("no seed has an address that this machine can reach, retrying: {}", seeds.join(", "));
            logged = true;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The address of this machine for datagrams to a host. Nothing is sent.
async fn local_address(host: &str) -> Option<IpAddr> {
    for address in tokio::net::lookup_host(host).await.ok()? {
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let Ok(socket) = UdpSocket::bind(any).await else { continue };
        if socket.connect(address).await.is_ok()
            && let Ok(local) = socket.local_addr()
        {
            return Some(local.ip());
        }
    }
    None
}

/// Logs each leader that the member believes in, until the member has left.
async fn leaders(me: NodeId, mut leader: watch::Receiver<Option<GroupLeader>>) {
    while leader.changed().await.is_ok() {
        match *leader.borrow_and_update() {
            Some(GroupLeader { id, term, .. }) if id == me => {
                info!(leader = id.0, term, "this member believes that it leads");
            }
            Some(GroupLeader { id, term, address }) => info!(leader = id.0, term, %address, "new leader"),
            None => info!("no leader"),
        }
    }
}

/// Logs when another member has the id of this one.
async fn conflicts(member: GroupMember) {
    let mut known = 0;
    while let Some(status) = member.status().await {
        let conflicts = status.counters.conflicts;
        if conflicts > known {
            let id = member.id();
            error!(
                "another member has the id {id} too: they declare each other dead; start one with another --id"
            );
        }
        known = conflicts;
        tokio::time::sleep(CONFLICTS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address for datagrams to a seed is found without sending anything.
    #[tokio::test]
    async fn a_member_that_listens_everywhere_advertises_its_address_towards_a_seed() {
        let options = |listen: &str, seeds: &[&str]| GroupOptions {
            config: Config::read_member(|_| None, &[("keys", "keys".to_string())]).unwrap(),
            name: "telemetry".to_string(),
            seeds: seeds.iter().map(ToString::to_string).collect(),
            listen: listen.parse().unwrap(),
            advertise: None,
            id: None,
            rank: 0,
            stands: true,
            hooks: HookCommands { on_elected: None, on_follow: None, limit: Duration::from_secs(1) },
        };
        let expected = Some("127.0.0.1:7500".parse().unwrap());
        assert_eq!(advertised(&options("0.0.0.0:7500", &["127.0.0.1:7501"])).await, expected);
        assert_eq!(advertised(&options("127.0.0.2:7500", &["127.0.0.1:7501"])).await, None, "it is known");
        assert_eq!(advertised(&options("0.0.0.0:7500", &[])).await, None);
        let chosen = GroupOptions { advertise: expected, ..options("0.0.0.0:7500", &["nowhere.invalid:1"]) };
        assert_eq!(advertised(&chosen).await, expected);
    }
}
