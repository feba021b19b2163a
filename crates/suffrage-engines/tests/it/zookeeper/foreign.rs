//! Clients of others in the same election: Apache Curator and kazoo.

use std::process::Command;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine};
use suffrage_servers::programs::python;
use suffrage_servers::zookeeper::{curator, java};
use suffrage_servers::{Foreign, Servers as _};
use tokio::task::block_in_place;

use super::{TTL, ZooKeeper};
use crate::conformance::{lead, until, within};
use crate::support::{BootClock, CandidateProcess};

/// Starts a client that is not ours, as a candidate of the election `name`.
pub(super) fn foreign(servers: &ZooKeeper, recipe: &str, name: &str, identity: &str) -> Foreign {
    let hosts: Vec<String> = servers.addresses().iter().map(ToString::to_string).collect();
    let (hosts, path) = (hosts.join(","), format!("/suffrage/test/{name}"));
    let session = TTL.as_millis().to_string();
    let mut command = if recipe == "kazoo" {
        let script = servers.folder.path().join("foreign.py");
        std::fs::write(&script, include_str!("foreign.py")).unwrap();
        let mut command = Command::new(python(&["kazoo==2.11.0"]));
        command.arg(script).args([&hosts, &path, identity, &session]);
        command
    } else {
        let source = servers.folder.path().join("Foreign.java");
        std::fs::write(&source, include_str!("Foreign.java")).unwrap();
        let mut command = java(&curator());
        command.arg(source).args([&hosts, recipe, &path, identity, &session]);
        command
    };
    let log = std::fs::File::create(servers.folder.path().join(format!("{identity}.log"))).unwrap();
    Foreign::start(command.stderr(log))
}

/// Each waits for the other, and leads when the other has resigned or died.
async fn both_ways(recipe: &str, query: &'static str) {
    let servers = block_in_place(|| ZooKeeper::new(query));
    let url = servers.url(&servers.addresses());
    let engine = Engine::connect(&url, BootClock).unwrap();
    let waits = async |identity: &str| {
        until("it waits", async || {
            engine.status("mixed").await.unwrap().waiting.contains(&identity.to_string()).then_some(())
        })
        .await;
    };
    // Ours leads, and the other waits and names it.
    let ours = lead(&engine, "mixed", TTL, "ours").await;
    let mut watch = engine.watch("mixed");
    let seen = within("the watch", watch.changed()).await.unwrap().expect("a leader");
    assert_eq!((seen.identity.as_str(), seen.token), ("ours", ours.token()));
    let mut other = foreign(&servers, recipe, "mixed", "theirs");
    waits("theirs").await;
    other.say("leader");
    block_in_place(|| other.says("leader ours"));
    // Several renewals later.
    let start = BootClock.now();
    until("renewals", async || (BootClock.now() > start + TTL).then_some(())).await;
    assert!(ours.is_valid() && other.is_silent());
    let token = ours.token();
    ours.resign().await;
    block_in_place(|| other.says("leads"));
    let seen = within("the watch", async {
        loop {
            // Nobody may lead for a moment.
            if let Some(leader) = watch.changed().await.unwrap() {
                return leader;
            }
        }
    })
    .await;
    assert_eq!(seen.identity, "theirs");
    assert!(seen.token > token, "{} after {token}", seen.token);
    // The other leads, and ours waits.
    let waiting = engine.election("mixed").ttl(TTL).identity("ours again").join().unwrap();
    let waiting = tokio::spawn(async move { waiting.lead().await });
    waits("ours again").await;
    other.say("resign");
    block_in_place(|| other.says("lost"));
    let ours = within("a hand-over", waiting).await.unwrap().unwrap();
    assert!(ours.token() > seen.token, "{} after {}", ours.token(), seen.token);
    ours.resign().await;
    drop(other);
    // Ours is paused: the other leads only after the lease has ended.
    let mut paused = CandidateProcess::start(&url, "mixed", TTL, "paused");
    block_in_place(|| paused.leads());
    let third = foreign(&servers, recipe, "mixed", "third");
    waits("third").await;
    paused.process.signal(Signal::STOP);
    let since = block_in_place(|| third.says("leads"));
    paused.drain();
    assert!(since >= paused.until, "theirs leads {:?} before ours has ended", paused.until - since);
    // The other is killed: ours leads.
    paused.process.signal(Signal::CONT);
    block_in_place(|| paused.lost());
    let token = engine.status("mixed").await.unwrap().leader.expect("a leader").token;
    drop(third);
    let (next, _) = block_in_place(|| paused.leads());
    assert!(next > token, "{next} after {token}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_leader_latch() {
    both_ways("latch", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_leader_selector() {
    both_ways("selector", "?recipe=selector").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_election() {
    both_ways("kazoo", "?recipe=kazoo").await;
}
