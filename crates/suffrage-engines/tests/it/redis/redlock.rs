//! Elections with a Redlock client in Python.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine};
use suffrage_servers::programs::python;
use suffrage_servers::{Foreign, Servers as _};

use super::{Redis, TTL, start};
use crate::conformance::{lead, until, within};
use crate::support::{BootClock, CandidateProcess};

/// A client that knows nothing of suffrage: `lock MILLISECONDS` takes the lock, `try` attempts to, `unlock` releases it,
/// `who` prints the value of the key.
const CLIENT: &str = r#"
import sys, time, redis
from redlock import Redlock, RedlockConfig
url = sys.argv[1]
client = Redlock(RedlockConfig(masters=[url], socket_timeout=5, socket_connect_timeout=5))
observer = redis.Redis.from_url(url)
held = None
def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
for line in sys.stdin:
    words = line.split()
    if words[0] == "lock":
        held = client.acquire("mixed", int(words[1]), blocking=True)
        print("locked", now(), flush=True)
    elif words[0] == "try":
        print("tried", client.acquire("mixed", 1000) is not None, flush=True)
    elif words[0] == "unlock":
        print("unlocking", now(), flush=True)
        client.release(held)
    elif words[0] == "who":
        print("holder", (observer.get("mixed") or b"").decode(), flush=True)
"#;

fn foreign(servers: &Redis) -> Foreign {
    let url = format!("redis://{}/1", servers.address);
    Foreign::start(Command::new(python(suffrage_servers::redis::CLIENT)).args(["-c", CLIENT, &url]))
}

fn engine(servers: &Redis) -> Engine {
    Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap()
}

/// Redlock and a candidate of ours hand over to each other, and each sees the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_and_ours_hand_over() {
    let servers = start().await;
    let (engine, mut python) = (engine(&servers), foreign(&servers));
    let mut watch = engine.watch("mixed");
    let mut token = 0;
    for _ in 0..3 {
        python.say("lock 60000");
        assert!(python.hear().starts_with("locked"));
        python.say("who");
        let value = python.hear().replace("holder ", "");
        let leader = within("the watch", watch.changed()).await.unwrap().expect("a leader");
        assert_eq!((leader.identity.as_str(), leader.token), (value.as_str(), 0));
        assert_eq!(engine.status("mixed").await.unwrap().leader, Some(leader));
        let other = engine.clone();
        let ours = tokio::spawn(async move { lead(&other, "mixed", TTL, "ours").await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!ours.is_finished());
        python.say("unlock");
        assert!(python.hear().starts_with("unlocking"));
        let ours = within("our turn", ours).await.unwrap();
        assert!(ours.token() > token, "{} after {token}", ours.token());
        token = ours.token();
        until("the watch sees us", async || {
            let leader = within("the watch", watch.changed()).await.unwrap()?;
            (leader.identity == "ours" && leader.token == token).then_some(())
        })
        .await;
        python.say("who");
        assert!(python.hear().starts_with("holder ours "));
        python.say("try");
        assert_eq!(python.hear(), "tried False");
        python.say("lock 60000");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(python.is_silent() && ours.is_valid());
        ours.resign().await;
        assert!(python.hear().starts_with("locked"));
        python.say("unlock");
        python.hear();
        until("nobody leads", async || {
            within("the watch", watch.changed()).await.unwrap().is_none().then_some(())
        })
        .await;
    }
    // A client that is killed gives way when its lock expires.
    python.say("lock 2000");
    python.hear();
    python.process.kill();
    let ours = lead(&engine, "mixed", TTL, "ours").await;
    assert!(ours.token() > token);
    ours.resign().await;
}

/// With notifications of the server about keys, a release by another client is pushed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_told_of_other_clients() {
    let servers = start().await;
    servers.command(&["CONFIG", "SET", "notify-keyspace-events", "Kg$x"]);
    let (engine, mut python) = (engine(&servers), foreign(&servers));
    for _ in 0..5 {
        python.say("lock 60000");
        python.hear();
        let other = engine.clone();
        let ours = tokio::spawn(async move { lead(&other, "mixed", TTL, "ours").await });
        python.say("unlock");
        python.hear();
        within("our turn", ours).await.unwrap().resign().await;
    }
}

/// Our leader is paused for longer than its ttl, or killed: Redlock gets the lock after our validity has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_takes_over_after_our_lease() {
    for signal in [Signal::STOP, Signal::KILL] {
        let servers = start().await;
        let mut ours = CandidateProcess::start(&servers.url(&servers.addresses()), "mixed", TTL, "ours");
        tokio::task::block_in_place(|| ours.leads());
        let mut python = foreign(&servers);
        python.say("lock 60000");
        // It has renewed at least once.
        while ours.drain().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ours.process.signal(signal);
        let line = python.hear();
        let since_boot =
            Duration::from_nanos(line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap());
        // The clock of the tests starts elsewhere. It is read first: the moment is at most a reading too early.
        let now = BootClock.now();
        let boot = Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap();
        let locked = since_boot + (now - boot);
        ours.drain();
        assert!(
            locked >= ours.until,
            "the client leads {:?} before the lease has ended",
            ours.until - locked
        );
        if signal == Signal::STOP {
            ours.process.signal(Signal::CONT);
            tokio::task::block_in_place(|| ours.lost());
            python.say("unlock");
            tokio::task::block_in_place(|| ours.leads());
        }
    }
}
