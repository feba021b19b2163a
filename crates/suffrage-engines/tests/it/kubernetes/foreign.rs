//! client-go's leader election in the same elections: it writes leases of 60 s, and tries every 5 s.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::json;
use suffrage_engines::{Clock as _, Engine, Leadership};
use suffrage_servers::kubernetes::given;
use suffrage_servers::{Mode, Proxy, Server, Servers as _};
use tokio::time::sleep;

use super::wire::Message;
use super::{Kubernetes, Leases as _, start};
use crate::conformance::within;
use crate::support::{BootClock, CandidateProcess};

/// The program of client-go's examples.
struct ClientGo {
    process: Server,
    log: PathBuf,
}

impl ClientGo {
    fn start(servers: &Kubernetes, name: &str, identity: &str) -> ClientGo {
        let cluster = &servers.cluster;
        let kubeconfig = cluster.kubeconfig(cluster.address, &json!({ "token": "admin-token" }));
        let log = cluster.path(&format!("{}-{identity}.log", servers.namespace));
        let mut command = Command::new(given("SUFFRAGE_CLIENT_GO"));
        command.arg("-kubeconfig").arg(kubeconfig);
        command.args([
            "-lease-lock-namespace",
            &servers.namespace,
            "-lease-lock-name",
            name,
            "-id",
            identity,
        ]);
        ClientGo { process: Server::start(&mut command, &log), log }
    }

    /// Waits until the program has logged this.
    async fn says(&self, text: &str) {
        let logged = || std::fs::read_to_string(&self.log).unwrap_or_default();
        within(&format!("client-go says `{text}`"), async {
            while !logged().contains(text) {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

async fn lead(engine: &Engine, name: &str, ttl: Duration) -> Leadership {
    let election = engine.election(name).ttl(ttl).identity("ours").join().unwrap();
    within("a leadership", election.lead()).await.unwrap()
}

/// A time of a Lease, in seconds since 1970.
fn seconds(time: &Message) -> f64 {
    let duration =
        Duration::new(time.number(1).unwrap_or(0), u32::try_from(time.number(2).unwrap_or(0)).unwrap());
    duration.as_secs_f64()
}

fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_go_waits_for_us_and_we_wait_for_client_go() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let first = lead(&engine, "both", servers.ttl()).await;
    let token = first.token();
    let foreign = ClientGo::start(&servers, "both", "theirs");
    foreign.says("new leader elected: ours").await;
    // It looks several times, and does not take the Lease.
    sleep(Duration::from_secs(12)).await;
    assert!(first.is_valid(), "{:?}", first.loss());
    assert_eq!(engine.status("both").await.unwrap().leader.unwrap().identity, "ours");
    let mut watch = engine.watch("both");
    assert_eq!(watch.changed().await.unwrap().unwrap().token, token);
    first.resign().await;
    foreign.says("uccessfully acquired lease").await;
    let leader = within("the watch names client-go", async {
        loop {
            match watch.changed().await.unwrap() {
                Some(leader) if leader.identity == "theirs" => return leader,
                _ => {}
            }
        }
    })
    .await;
    assert!(leader.token > token);
    assert_eq!(servers.spec("both"), ("theirs".to_string(), 60, 1));
    let next = {
        let (engine, ttl) = (engine.clone(), servers.ttl());
        tokio::spawn(async move { lead(&engine, "both", ttl).await })
    };
    // client-go renews every 5 s: its token is the same, and we still wait.
    assert!(tokio::time::timeout(Duration::from_secs(12), watch.changed()).await.is_err());
    assert!(!next.is_finished());
    let released = BootClock.now();
    // The program releases the Lease when it is told to end.
    foreign.process.signal(Signal::TERM);
    let next = within("we lead after the release", next).await.unwrap();
    assert!(BootClock.now() - released < Duration::from_secs(30), "released, not expired");
    assert!(next.token() > leader.token);
    assert_eq!(servers.spec("both"), ("ours".to_string(), servers.ttl().as_secs(), 2));
    next.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_client_go_holds_the_lease_for_its_own_duration() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let mut foreign = ClientGo::start(&servers, "unequal", "theirs");
    foreign.says("uccessfully acquired lease").await;
    let next = {
        let (engine, ttl) = (engine.clone(), servers.ttl());
        tokio::spawn(async move { lead(&engine, "unequal", ttl).await })
    };
    sleep(Duration::from_millis(500)).await;
    foreign.process.kill();
    assert_eq!(servers.spec("unequal").1, 60, "the record has another duration than we have");
    let renewed = seconds(&servers.lease("unequal").message(2).message(4));
    let next = within("we lead after 60 s", next).await.unwrap();
    let waited = wall() - renewed;
    assert!(waited >= 60.0, "we lead {waited} s after the last renewal");
    next.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_leader_is_invalid_before_client_go_leads() {
    let servers = start().await;
    let url = servers.url(&servers.addresses());
    let mut ours = CandidateProcess::start(&url, "paused-ours", servers.ttl(), "ours");
    tokio::task::block_in_place(|| ours.leads());
    let foreign = ClientGo::start(&servers, "paused-ours", "theirs");
    foreign.says("new leader elected: ours").await;
    ours.process.signal(Signal::STOP);
    foreign.says("uccessfully acquired lease").await;
    ours.drain();
    let acquired = seconds(&servers.lease("paused-ours").message(2).message(3));
    let acquired = BootClock.now().as_secs_f64() - (wall() - acquired);
    let until = ours.until.as_secs_f64();
    assert!(until <= acquired, "valid until {until}, and client-go leads from {acquired} on");
    ours.process.signal(Signal::CONT);
    tokio::task::block_in_place(|| ours.lost());
    let token = ours.token;
    foreign.process.signal(Signal::TERM);
    let (again, _) = tokio::task::block_in_place(|| ours.leads());
    assert!(again > token);
}

/// A client that waits for a duration of its own, like client-go before 1.33: with `shortest-duration` we are invalid before
/// it leads, although our ttl is longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_shorter_duration_of_its_own_leads_after_us() {
    let servers = start().await;
    let proxy = Proxy::start(servers.addresses()[0]).await;
    let url = format!("{}&shortest-duration=5s", servers.url(&[proxy.address]));
    let engine = Engine::connect(&url, BootClock).unwrap();
    let leader = lead(&engine, "shorter", Duration::from_secs(20)).await;
    assert!(leader.valid_for() <= Duration::from_secs(5));
    let version = || servers.lease("shorter").message(1).text(6).to_string();
    assert_eq!(servers.spec("shorter").1, 20);
    // It is renewed in time for that.
    sleep(Duration::from_secs(12)).await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
    proxy.set(Mode::Cut);
    let (mut known, mut seen) = (version(), BootClock.now());
    while BootClock.now() < seen + Duration::from_secs(5) {
        let now = version();
        if now != known {
            (known, seen) = (now, BootClock.now());
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert!(!leader.is_valid(), "valid for {:?} more", leader.valid_for());
}

/// A candidate that has seen a holder with a shorter duration counts with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_duration_of_a_holder_before_us_is_remembered() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let object = json!({
        "metadata": { "name": "remembered" },
        "spec": { "holderIdentity": "theirs", "leaseDurationSeconds": 3, "leaseTransitions": 7 },
    });
    let start = BootClock.now();
    servers.cluster.create(&servers.path(), &object);
    let leader = lead(&engine, "remembered", Duration::from_secs(30)).await;
    assert!(
        BootClock.now() >= start + Duration::from_secs(4),
        "a fraction may have been cut off its duration"
    );
    assert!(leader.valid_for() <= Duration::from_secs(3));
    assert_eq!(servers.spec("remembered"), ("ours".to_string(), 30, 8));
    sleep(Duration::from_secs(7)).await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
    leader.resign().await;
}
