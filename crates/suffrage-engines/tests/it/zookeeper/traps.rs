//! What goes wrong on ZooKeeper with a client that does not know it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suffrage_engines::{Clock as _, Engine, Error};
use suffrage_servers::zookeeper::{configure, mode, start_server};
use suffrage_servers::{Protocol, Proxy, Server, Servers as _};
use suffrage_testbed::{Folder, Network};
use tokio::task::block_in_place;

use super::foreign::foreign;
use super::{TTL, ZooKeeper};
use crate::certificates::Certificates;
use crate::conformance::{lead, until, within};
use crate::support::{BootClock, CandidateProcess, Event};

fn connect(servers: &ZooKeeper, query: &str) -> Engine {
    let url = servers.url(&servers.addresses());
    let url = url.split('?').next().unwrap_or_default().to_string();
    Engine::connect(&format!("{url}{query}"), BootClock).unwrap()
}

/// A LeaderLatch of Curator that waits takes a change of data for the end of the node before its own, and then never
/// leads. So a renewal must not write to the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_do_not_change_the_node() {
    let servers = block_in_place(|| ZooKeeper::new(""));
    let engine = connect(&servers, "");
    let leader = lead(&engine, "data", TTL, "ours").await;
    let mut latch = foreign(&servers, "latch", "data", "latch");
    let end = until("the latch waits", async || {
        let waits = !engine.status("data").await.unwrap().waiting.is_empty();
        waits.then(|| BootClock.now() + TTL * 2)
    })
    .await;
    until("renewals", async || (BootClock.now() > end).then_some(())).await;
    let children = servers.children("/suffrage/test/data");
    let ours = children.iter().min_by_key(|child| child.rsplit('-').next().map(str::to_string)).unwrap();
    let stat = servers.tool(&["stat", &format!("/suffrage/test/data/{ours}")]);
    assert!(stat.contains("dataVersion = 0"), "{stat}");
    assert!(leader.is_valid() && latch.is_silent());
    leader.resign().await;
    block_in_place(|| latch.says("leads"));
    latch.say("resign");
    block_in_place(|| latch.says("lost"));
}

/// Clients of different recipes do not see each other: a child of another one makes a candidate refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_child_is_refused() {
    let servers = block_in_place(|| ZooKeeper::new(""));
    let (latch, kazoo) = (connect(&servers, ""), connect(&servers, "?recipe=kazoo"));
    let first = lead(&kazoo, "mixed", TTL, "kazoo").await;
    let election = latch.election("mixed").ttl(TTL).identity("latch").join().unwrap();
    let error = within("the refusal", election.lead()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains("__lock__"), "{error}");
    let status = latch.status("mixed").await.unwrap();
    assert!(status.remarks.iter().any(|remark| remark.contains("__lock__")), "{status:?}");
    // The refused one has left nothing that the other one would refuse.
    let status = kazoo.status("mixed").await.unwrap();
    assert_eq!((status.remarks.len(), status.waiting.len()), (0, 0), "{status:?}");
    assert!(first.is_valid());
    // A candidate that waits refuses when its turn comes.
    let other = kazoo.clone();
    let waiting = tokio::spawn(async move {
        let election = other.election("mixed").ttl(TTL).identity("waiting").join().unwrap();
        election.lead().await.map(|leadership| leadership.token())
    });
    until("it waits", async || (kazoo.status("mixed").await.unwrap().waiting == ["waiting"]).then_some(()))
        .await;
    servers.tool(&["create", "/suffrage/test/mixed/nonsense"]);
    first.resign().await;
    let error = within("the refusal", waiting).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
    servers.tool(&["delete", "/suffrage/test/mixed/nonsense"]);
    lead(&latch, "mixed", TTL, "latch").await.resign().await;
}

/// The node of a candidate that waits is deleted by hand: the candidate stands again, and leads by a node that exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_whose_node_is_deleted_stands_again() {
    let servers = block_in_place(|| ZooKeeper::new(""));
    let engine = connect(&servers, "");
    let leader = lead(&engine, "phantom", TTL, "first").await;
    let other = engine.clone();
    let waiting = tokio::spawn(async move { lead(&other, "phantom", TTL, "second").await });
    let waits = async || (engine.status("phantom").await.unwrap().waiting == ["second"]).then_some(());
    until("it waits", waits).await;
    let mut children = servers.children("/suffrage/test/phantom");
    children.sort_by_key(|child| child.rsplit('-').next().map(str::to_string));
    servers.tool(&["delete", &format!("/suffrage/test/phantom/{}", children[1])]);
    until("it waits again", waits).await;
    let again = servers.children("/suffrage/test/phantom");
    assert!(again.contains(&children[0]) && !again.contains(&children[1]), "{again:?} after {children:?}");
    leader.resign().await;
    let second = within("a hand-over", waiting).await.unwrap();
    let seen = engine.status("phantom").await.unwrap().leader.expect("a leader");
    assert_eq!((seen.identity.as_str(), seen.token), ("second", second.token()));
    second.resign().await;
}

/// The servers grant other sessions than the ttl: that is said, and not worked around.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_that_the_servers_do_not_grant_is_refused() {
    let servers = block_in_place(|| ZooKeeper::new(""));
    let engine = connect(&servers, "");
    for ttl in [Duration::from_millis(600), Duration::from_secs(90)] {
        let election = engine.election("ttl").ttl(ttl).join().unwrap();
        let error = within("the refusal", election.lead()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("SessionTimeout"), "{error}");
    }
}

/// With a user, nodes belong to that user, and nobody else can read, delete or stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_owns_its_nodes() {
    let servers = block_in_place(|| ZooKeeper::new(""));
    let url = servers.url(&servers.addresses());
    let with = |user: &str, query: &str| {
        let url = url.replace("zookeeper://", &format!("zookeeper://{user}@")) + query;
        Engine::connect(&url, BootClock).unwrap()
    };
    let mine = with("me:secret", "");
    assert!(!format!("{mine:?} {mine}").contains("secret"));
    let leader = lead(&mine, "owned", TTL, "me").await;
    assert_eq!(mine.status("owned").await.unwrap().leader.unwrap().identity, "me");
    for stranger in [connect(&servers, ""), with("me:wrong", "")] {
        let election = stranger.election("owned").ttl(TTL).join().unwrap();
        let error = within("the refusal", election.lead()).await.unwrap_err();
        assert!(
            matches!(error, Error::Refused { .. }) && error.to_string().contains("permission"),
            "{error}"
        );
        assert!(!error.to_string().contains("wrong"), "{error}");
        assert!(stranger.depose("owned").await.is_err());
    }
    assert!(leader.is_valid());
    leader.resign().await;
    // Open nodes: everybody takes part.
    let open = with("me:secret", "?acl=open");
    let leader = lead(&open, "open", TTL, "me").await;
    assert_eq!(connect(&servers, "").status("open").await.unwrap().leader.unwrap().identity, "me");
    leader.resign().await;
}

/// TLS, with certificates of both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls() {
    let certificates = Certificates::new();
    let (folder, client, secure) =
        (Folder::new().unwrap(), suffrage_testbed::address(), suffrage_testbed::address());
    // The server wants its certificate and its key in one file.
    let both = folder.path().join("both.pem");
    let read = |path| std::fs::read_to_string(path).unwrap();
    std::fs::write(&both, read(&certificates.server_key) + &read(&certificates.server)).unwrap();
    let settings = format!(
        "secureClientPort={}\nsecureClientPortAddress={}\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.trustStore.location={}\n",
        secure.port(),
        secure.ip(),
        both.display(),
        certificates.root.display(),
    );
    configure(folder.path(), 1, client, &settings, Duration::from_millis(500));
    let _server = start_server(folder.path(), 1);
    block_in_place(|| suffrage_testbed::until("the server serves", || mode(client)));
    let url = |query: &str| format!("zookeeper://{secure}/tls{query}");
    let both_sides = url(&format!("?tls=true&{}", certificates.query(true)));
    let engine = Engine::connect(&both_sides, BootClock).unwrap();
    let leader = lead(&engine, "tls", TTL, "me").await;
    let other = engine.clone();
    let next = tokio::spawn(async move { lead(&other, "tls", TTL, "next").await });
    until("it waits", async || (engine.status("tls").await.unwrap().waiting == ["next"]).then_some(())).await;
    leader.resign().await;
    let next = within("a hand-over", next).await.unwrap();
    let start = BootClock.now();
    until("renewals", async || (BootClock.now() > start + TTL * 2).then_some(())).await;
    assert!(next.is_valid(), "{:?}", next.loss());
    for wrong in [url(""), url(&format!("?tls=true&{}", certificates.query(false)))] {
        let engine = Engine::connect(&wrong, BootClock).unwrap();
        assert!(matches!(engine.status("tls").await, Err(Error::Unavailable { .. })), "{wrong}");
    }
}

/// A server that is cut off from the others answers pings of its clients by itself, until it notices. The validity of a
/// leader there ends before the next one leads. The same for the server that leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_partitioned_server() {
    block_in_place(partitioned_server);
}

fn partitioned_server() {
    // Servers on hosts 1 to 3, candidates on hosts 4 and 5.
    let network = Network::new(5, 1).unwrap();
    let folder = Folder::new().unwrap();
    let address = |host: usize| SocketAddr::from((network.host(host).address(), 2181));
    let peers: String =
        (1..=3).map(|host| format!("server.{host}={}:2888:3888\n", network.host(host).address())).collect();
    let _servers: Vec<Server> = (1..=3)
        .map(|host| {
            // A long tick: the cut-off server stays in office for longer than a session lasts.
            configure(folder.path(), host, address(host), &peers, Duration::from_secs(1));
            network.host(host).enter(|| start_server(folder.path(), host))
        })
        .collect();
    let role = |host: usize| network.host(4).enter(|| mode(address(host)));
    for cut_off in ["follower", "leader"] {
        let server = suffrage_testbed::until("all serve", || {
            let roles: Vec<Option<String>> = (1..=3).map(role).collect();
            let found = roles.iter().position(|role| role.as_deref() == Some(cut_off))? + 1;
            roles.iter().all(Option::is_some).then_some(found)
        });
        let others: Vec<usize> = (1..=3).filter(|host| *host != server).collect();
        let url = |hosts: &[usize]| {
            let hosts: Vec<String> = hosts.iter().map(|host| address(*host).to_string()).collect();
            format!("zookeeper://{}/{cut_off}", hosts.join(","))
        };
        let start = |host: usize, hosts: &[usize], identity: &str| {
            let url = url(hosts);
            network.host(host).enter(|| CandidateProcess::start(&url, "partition", TTL, identity))
        };
        let mut leader = start(4, &[server], "cut off");
        let (token, _) = leader.leads();
        let mut next = start(5, &others, "next");
        // Both stand, and the leader renews.
        let renewed =
            |leader: &mut CandidateProcess| matches!(leader.next(TTL * 5), Some(Event::Renewed(..)));
        assert!((0..8).all(|_| renewed(&mut leader)));
        network.cut(&[server], &others);
        let (after, since) = next.leads();
        let lost = leader.drain().into_iter().any(|event| matches!(event, Event::Lost(_)));
        assert!(since >= leader.until, "{cut_off}: the next leads {:?} too early", leader.until - since);
        assert!(after > token, "{after} after {token}");
        assert!(lost, "{cut_off}: the next leads, and the leader does not know");
        network.heal();
        next.resign();
        let (again, _) = leader.leads();
        assert!(again > after, "{again} after {after}");
    }
}

/// An acquisition that nobody contests costs few requests: the children, the own node and the children again, its deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_costs_few_requests() {
    let servers = block_in_place(|| ZooKeeper::new(""));
    let requests = Arc::<AtomicU64>::default();
    let proxy = Proxy::counting(servers.addresses()[0], Protocol::ZooKeeper, &requests).await;
    let engine = Engine::connect(&servers.url(&[proxy.address]), BootClock).unwrap();
    // Long, so that few rounds of the session come in between.
    let ttl = Duration::from_secs(40);
    lead(&engine, "cost", ttl, "me").await.resign().await;
    let before = requests.load(Ordering::Relaxed);
    for _ in 0..100 {
        lead(&engine, "cost", ttl, "me").await.resign().await;
    }
    let cost = requests.load(Ordering::Relaxed) - before;
    assert!(cost < 500, "{cost} requests for 100 acquisitions");
}
