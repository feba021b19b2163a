//! What goes wrong with locks in Redis.

use std::time::Duration;

use suffrage_engines::{Engine, Error};
use suffrage_servers::redis::{DURABLE, Redis, start_with};
use suffrage_servers::{Mode, Proxy, Servers as _};

use super::{TTL, start};
use crate::conformance::{lead, until, within};
use crate::support::BootClock;

fn engine(servers: &Redis) -> Engine {
    Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap()
}

/// A master, and a replica that does not hear of the last lock and is promoted. Returns an engine that knows both.
async fn fail_over(master: &Redis, replica: &Redis) -> (Proxy, Engine) {
    let link = Proxy::start(master.address).await;
    replica.command(&["REPLICAOF", &link.address.ip().to_string(), &link.address.port().to_string()]);
    let replication = |what: &str| replica.command(&["INFO", "replication"]).contains(what);
    until("the replica follows", async || replication("master_link_status:up").then_some(())).await;
    let engine =
        Engine::connect(&format!("redis://{},{}/1", replica.address, master.address), BootClock).unwrap();
    let earlier = lead(&engine, "x", TTL, "earlier").await;
    let exists = || replica.command(&["-n", "1", "EXISTS", "x"]);
    until("the replica has the lock", async || (exists() == "1").then_some(())).await;
    let remarks = engine.status("x").await.unwrap().remarks.join("; ");
    assert!(remarks.contains("fail-over"), "{remarks}");
    earlier.resign().await;
    until("the replica follows", async || (exists() == "0").then_some(())).await;
    link.set(Mode::Silent);
    (link, engine)
}

/// The weakness of Redis: a master is cut off from its replica, the replica is promoted, and two lead. The counter of the
/// tokens is lost as well: the second token is greater only because it follows the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_makes_two_leaders_if_the_old_master_goes_on() {
    let (master, replica) = (start().await, start_with(&DURABLE, &[]));
    let (_link, _) = fail_over(&master, &replica).await;
    let counter = replica.command(&["-n", "1", "GET", "{x}:token"]);
    let first = lead(&engine(&master), "x", TTL, "first").await;
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(replica.command(&["-n", "1", "GET", "{x}:token"]), counter, "the replica lacks a token");
    let second = lead(&engine(&replica), "x", TTL, "second").await;
    assert!(first.is_valid() && second.is_valid(), "two lead");
    assert!(second.token() > first.token(), "{} after {}", second.token(), first.token());
}

/// The master crashes, and its replica lacks the lock: candidates wait until the lease of the leader is over, those that
/// know the old master and those that do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_after_a_crash_waits_for_the_lease() {
    let (mut master, replica) = (start().await, start_with(&DURABLE, &[]));
    let (_link, knows_both) = fail_over(&master, &replica).await;
    let ttl = TTL * 3;
    // A leader that does not know the replica. One that does hears of its loss when it connects there.
    let first = lead(&engine(&master), "x", ttl, "first").await;
    master.crash();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(engine(&replica).status("x").await.unwrap().leader, None, "the lock is lost");
    assert!(first.is_valid());
    for engine in [knows_both, engine(&replica)] {
        let second = lead(&engine, "x", ttl, "second").await;
        assert!(!first.is_valid(), "the second leads while the first is valid for {:?}", first.valid_for());
        assert!(second.token() > first.token(), "{} after {}", second.token(), first.token());
        second.resign().await;
    }
}

/// A server without a disk restarts and has lost the lock: nobody leads before the lease of the leader has ended, also if
/// that leader does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_a_disk_makes_no_second_leader() {
    for settings in [&["--appendonly", "no"], &["--appendonly", "yes"]] {
        let mut servers = start_with(settings, &[]);
        let proxy = Proxy::start(servers.address).await;
        let ttl = Duration::from_secs(4);
        let cut_off = Engine::connect(&servers.url(&[proxy.address]), BootClock).unwrap();
        let first = lead(&cut_off, "x", ttl, "first").await;
        proxy.set(Mode::Silent);
        let token = first.token();
        servers.crash();
        if settings[1] == "yes" {
            // The last second before the crash is lost: as if nothing had been written.
            std::fs::remove_dir_all(servers.folder().join("appendonlydir")).unwrap();
        }
        servers.launch();
        let other = engine(&servers);
        let status = other.status("x").await.unwrap();
        assert!(status.leader.is_none() && first.is_valid(), "the lock is lost");
        assert!(status.remarks.join("; ").contains("may have lost locks"), "{status:?}");
        let second = lead(&other, "x", ttl, "second").await;
        assert!(!first.is_valid(), "the second leads while the first is valid for {:?}", first.valid_for());
        assert!(second.token() > token);
    }
}

/// All keys are deleted: the tokens grow all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_after_all_keys_are_deleted() {
    let servers = start().await;
    let engine = engine(&servers);
    let first = lead(&engine, "x", TTL, "first").await;
    servers.command(&["FLUSHALL"]);
    within("the loss", first.lost()).await;
    let second = lead(&engine, "x", TTL, "second").await;
    assert!(second.token() > first.token(), "{} after {}", second.token(), first.token());
}

/// A request arrives late, after the candidate has led by another one and resigned: the lock is not taken by a phantom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_takes_no_lock() {
    let servers = start().await;
    let (one, two) = (Proxy::start(servers.address).await, Proxy::start(servers.address).await);
    let engine = Engine::connect(&servers.url(&[one.address, two.address]), BootClock).unwrap();
    lead(&engine, "late", TTL, "warm-up").await.resign().await;
    one.set(Mode::Silent);
    // The request is lost in the first proxy. The candidate repeats it, over the other one.
    lead(&engine, "late", TTL * 3, "phantom").await.resign().await;
    assert_eq!(servers.command(&["-n", "1", "EXISTS", "late"]), "0");
    one.set(Mode::LoseReplies);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(servers.command(&["-n", "1", "EXISTS", "late"]), "0", "a phantom has the lock");
}

/// A resignation wakes the next candidate: many hand-overs of long leases take no time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resignation_is_pushed() {
    let servers = start().await;
    let (one, two) = (engine(&servers), engine(&servers));
    crate::conformance::many_hand_overs(&one, &two).await;
}

/// A key that is no lock is not touched, and the error says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_something_else_is_refused() {
    let servers = start().await;
    let engine = engine(&servers);
    servers.command(&["-n", "1", "LPUSH", "list", "a"]);
    let election = engine.election("list").ttl(TTL).join().unwrap();
    let error = within("an answer", election.lead()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { reason, .. } if reason.contains("prefix")), "{error}");
    // With a prefix, the names are others.
    let url = format!("{}?prefix=locks:", servers.url(&servers.addresses()));
    let prefixed = Engine::connect(&url, BootClock).unwrap();
    let leader = lead(&prefixed, "list", TTL, "me").await;
    assert_eq!(servers.command(&["-n", "1", "EXISTS", "locks:list"]), "1");
    leader.resign().await;
    // A key that never expires: nobody leads until it is deleted, and the status says so.
    servers.command(&["-n", "1", "SET", "forever", "x"]);
    let remarks = engine.status("forever").await.unwrap().remarks.join("; ");
    assert!(remarks.contains("never expires"), "{remarks}");
    let waiting = tokio::spawn(async move { lead(&engine, "forever", TTL, "me").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    servers.command(&["-n", "1", "DEL", "forever"]);
    within("our turn", waiting).await.unwrap().resign().await;
}

/// The server that can be written is found, and replicas are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_that_can_be_written_is_found() {
    let (one, two) = (start().await, start().await);
    let follow = |replica: &Redis, master: &Redis| {
        let (host, port) = (master.address.ip().to_string(), master.address.port().to_string());
        replica.command(&["REPLICAOF", &host, &port]);
    };
    follow(&one, &two);
    let engine = Engine::connect(&format!("redis://{},{}/1", one.address, two.address), BootClock).unwrap();
    let first = lead(&engine, "x", TTL, "first").await;
    let token = first.token();
    until("the replica has the lock", async || {
        (one.command(&["-n", "1", "EXISTS", "x"]) == "1").then_some(())
    })
    .await;
    // The roles change.
    one.command(&["REPLICAOF", "NO", "ONE"]);
    follow(&two, &one);
    let next = engine.clone();
    let next = tokio::spawn(async move { lead(&next, "x", TTL, "second").await });
    tokio::time::sleep(TTL).await;
    first.resign().await;
    let next = within("the next", next).await.unwrap();
    assert!(next.token() > token);
    next.resign().await;
}
