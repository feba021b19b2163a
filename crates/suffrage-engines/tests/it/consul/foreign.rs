//! `consul lock` in the same elections.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine};
use suffrage_servers::{Server, Servers as _};
use tokio::time::sleep;

use super::{Consul, start};
use crate::conformance::{lead, within};
use crate::support::{BootClock, CandidateProcess};

/// `consul lock PREFIX command`: the command writes a file when it starts, and waits.
struct ConsulLock {
    process: Server,
    file: PathBuf,
}

impl ConsulLock {
    fn start(servers: &Consul, name: &str) -> ConsulLock {
        let file = servers.cluster.path(&format!("{}-{name}", servers.prefix.replace('/', "-")));
        let prefix = format!("{}/{name}", servers.prefix);
        let child = format!("echo leads > {}; exec sleep 1000", file.display());
        let mut command = servers.cluster.command(&["lock", "-name=theirs", &prefix, &child]);
        let log = file.with_extension("log");
        ConsulLock { process: Server::start(&mut command, &log), file }
    }

    fn leads(&self) -> bool {
        self.file.exists()
    }

    async fn wait(&self) {
        within("consul lock leads", async {
            while !self.leads() {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consul_lock_waits_for_us_and_we_wait_for_consul_lock() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let first = lead(&engine, "both", servers.ttl(), "ours").await;
    let token = first.token();
    let foreign = ConsulLock::start(&servers, "both");
    // It waits: it has a session, and its command does not run.
    sleep(Duration::from_secs(3)).await;
    assert!(!foreign.leads() && first.is_valid());
    let mut watch = engine.watch("both");
    assert_eq!(watch.changed().await.unwrap().unwrap().identity, "ours");
    let resigned = BootClock.now();
    first.resign().await;
    foreign.wait().await;
    assert!(BootClock.now() - resigned < servers.ttl(), "released, not expired");
    let leader = within("the watch names consul lock", async {
        loop {
            match watch.changed().await.unwrap() {
                Some(leader) if leader.identity != "ours" => return leader,
                _ => {}
            }
        }
    })
    .await;
    assert!(leader.identity.contains("theirs"), "{leader:?}");
    assert!(leader.token > token);
    assert_eq!(engine.status("both").await.unwrap().leader, Some(leader.clone()));
    let next = {
        let (engine, ttl) = (engine.clone(), servers.ttl());
        tokio::spawn(async move { lead(&engine, "both", ttl, "ours").await })
    };
    sleep(Duration::from_secs(2)).await;
    assert!(!next.is_finished());
    // It releases the key and deletes it: LockIndex starts again, and the token grows.
    foreign.process.signal(Signal::INT);
    let next = within("we lead after the release", next).await.unwrap();
    assert!(next.token() > leader.token, "{} after {}", next.token(), leader.token);
    next.resign().await;
}

/// A leader of ours is paused: `consul lock` leads after the end of its validity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_leader_is_invalid_before_consul_lock_leads() {
    let servers = start().await;
    let url = servers.url(&servers.addresses());
    let mut ours = CandidateProcess::start(&url, "paused-ours", servers.ttl(), "ours");
    tokio::task::block_in_place(|| ours.leads());
    let foreign = ConsulLock::start(&servers, "paused-ours");
    sleep(Duration::from_secs(2)).await;
    ours.process.signal(Signal::STOP);
    foreign.wait().await;
    let since = BootClock.now();
    ours.drain();
    assert!(ours.until <= since, "valid for {:?} while consul lock leads", ours.until - since);
    ours.process.signal(Signal::CONT);
    tokio::task::block_in_place(|| ours.lost());
    let token = ours.token;
    foreign.process.signal(Signal::INT);
    let (again, _) = tokio::task::block_in_place(|| ours.leads());
    assert!(again > token);
}

/// `consul lock` is killed: we lead after the end of its session and its lock-delay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_lead_after_consul_lock_was_killed() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let mut foreign = ConsulLock::start(&servers, "killed-theirs");
    foreign.wait().await;
    let token = engine.status("killed-theirs").await.unwrap().leader.unwrap().token;
    foreign.process.kill();
    let next = lead(&engine, "killed-theirs", servers.ttl(), "ours").await;
    assert!(next.token() > token);
    next.resign().await;
}
