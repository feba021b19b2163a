//! NATS: three servers of Debian's package, with JetStream.

mod traps;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine};
use suffrage_servers::nats::{Nats, TTL};
use suffrage_servers::{Foreign, Servers as _};
use tokio::task::block_in_place;

use crate::conformance::{conformance, lead, until, within};
use crate::support::{BootClock, CandidateProcess};

/// A client that is not ours, as a candidate.
fn foreign(servers: &Nats, key: &str, identity: &str) -> Foreign {
    let mut command = servers.script("foreign.py", include_str!("nats/foreign.py"));
    command.args(["test", key, identity, &TTL.as_millis().to_string()]);
    let log = std::fs::File::create(servers.folder.path().join(format!("{identity}.log"))).unwrap();
    Foreign::start(command.stderr(log))
}

async fn start() -> Nats {
    block_in_place(Nats::three)
}

conformance!(start);

/// nats-py and ours: each waits for the other, and leads when the other has resigned or died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_py() {
    let servers = start().await;
    let url = servers.url(&servers.addresses());
    let engine = Engine::connect(&url, BootClock).unwrap();
    // Ours leads, and the other waits and names it.
    let ours = lead(&engine, "mixed", TTL, "ours").await;
    let mut watch = engine.watch("mixed");
    let seen = within("the watch", watch.changed()).await.unwrap().expect("a leader");
    assert_eq!((seen.identity.as_str(), seen.token), ("ours", ours.token()));
    let mut other = foreign(&servers, "mixed", "theirs");
    block_in_place(|| other.says("waits"));
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
    let start = BootClock.now();
    until("renewals", async || (BootClock.now() > start + TTL * 2).then_some(())).await;
    assert!(!waiting.is_finished() && other.is_silent());
    let token = engine.status("mixed").await.unwrap().leader.expect("a leader").token;
    other.say("resign");
    block_in_place(|| other.says("lost"));
    let ours = within("a hand-over", waiting).await.unwrap().unwrap();
    assert!(ours.token() > token, "{} after {token}", ours.token());
    ours.resign().await;
    drop(other);
    // Ours is paused: the other leads only after the lease has ended.
    let mut paused = CandidateProcess::start(&url, "mixed", TTL, "paused");
    block_in_place(|| paused.leads());
    let third = foreign(&servers, "mixed", "third");
    block_in_place(|| third.says("waits"));
    paused.process.signal(Signal::STOP);
    let since = block_in_place(|| third.says("leads"));
    paused.drain();
    assert!(since >= paused.until, "theirs leads {:?} before ours has ended", paused.until - since);
    paused.process.signal(Signal::CONT);
    block_in_place(|| paused.lost());
    // The other is killed: ours leads when its entry has expired.
    let token = engine.status("mixed").await.unwrap().leader.expect("a leader").token;
    drop(third);
    let (next, _) = block_in_place(|| paused.leads());
    assert!(next > token, "{next} after {token}");
}
