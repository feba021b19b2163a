//! What only Consul has: LockIndex, lock-delay, keys of other recipes, tokens and TLS.

use std::time::Duration;

use suffrage_engines::{Clock as _, Engine, Error, Loss};
use suffrage_servers::Servers as _;
use suffrage_servers::consul::{MASTER, Settings};
use tokio::time::sleep;

use super::{start, start_with};
use crate::conformance::{lead, within};
use crate::support::BootClock;

/// `consul lock` deletes the key: its LockIndex starts again, and our token does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_grows_although_the_lock_index_starts_again() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let (mut token, mut lock_indexes) = (0, Vec::new());
    for round in 0..4 {
        let leader = lead(&engine, "index", servers.ttl(), "me").await;
        assert!(leader.token() > token, "{} after {token}", leader.token());
        token = leader.token();
        let entry = servers.entry("index").expect("a key");
        assert_eq!(entry["ModifyIndex"], token);
        lock_indexes.push(entry["LockIndex"].as_u64().unwrap());
        leader.resign().await;
        if round == 1 {
            servers.delete_entry("index");
        }
    }
    assert_eq!(lock_indexes, [1, 2, 1, 2], "the trap");
}

/// The session is destroyed by hand: the leader notices at once, and the next leads after the lock-delay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destroyed_session_ends_the_leadership_and_delays_the_next() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let leader = lead(&engine, "destroyed", servers.ttl(), "first").await;
    let session = servers.entry("destroyed").unwrap()["Session"].as_str().unwrap().to_string();
    let info = servers.request("GET", &format!("/v1/session/info/{session}"), None)[0].clone();
    assert_eq!((&info["TTL"], &info["LockDelay"]), (&"10s".into(), &10_000_000_000_u64.into()));
    assert_eq!(info["NodeChecks"].as_array().map(Vec::len).unwrap_or(0), 0, "{info}");
    let before = BootClock.now();
    servers.request("PUT", &format!("/v1/session/destroy/{session}"), None);
    within("the loss", leader.lost()).await;
    assert!(matches!(leader.loss(), Some(Loss::Ended(_))), "{:?}", leader.loss());
    let status = engine.status("destroyed").await.unwrap();
    assert_eq!(status.leader, None);
    assert!(status.remarks.iter().any(|remark| remark.contains("lock-delay")), "{status:?}");
    let next = lead(&engine, "destroyed", servers.ttl(), "second").await;
    assert!(BootClock.now() >= before + servers.ttl(), "the lock-delay is at least the ttl");
    assert!(next.token() > leader.token());
    assert_eq!(engine.status("destroyed").await.unwrap().remarks, Vec::<String>::new());
    next.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_recipe_is_refused() {
    let servers = start().await;
    let engine = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    servers.request("PUT", &format!("/v1/kv/{}", servers.key("data")), Some("data"));
    let election = engine.election("data").ttl(servers.ttl()).join().unwrap();
    let refused = within("a refusal", election.lead()).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { .. }), "{refused}");
    assert!(engine.status("data").await.unwrap().remarks[0].contains("something else"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_and_certificates_are_used() {
    let servers = start_with(Settings { tokens: true, tls: true });
    let path = |name: &str| servers.cluster.path(name).display().to_string();
    std::fs::write(servers.cluster.path("token"), format!("{MASTER}\n")).unwrap();
    let tls = format!(
        "?ca-file={}&client-cert={}&client-key={}",
        path("ca.crt"),
        path("client.crt"),
        path("client.key")
    );
    let url = format!("{}{tls}&token-file={}", servers.url(&servers.addresses()), path("token"));
    let engine = Engine::connect(&url, BootClock).unwrap();
    assert!(!format!("{engine:?} {engine}").contains(MASTER));
    let leader = lead(&engine, "secure", servers.ttl(), "me").await;
    sleep(Duration::from_secs(5)).await;
    assert!(leader.is_valid());
    leader.resign().await;
    // A token that may do nothing.
    let wrong = format!("{}{tls}", servers.url(&servers.addresses()).replace("://", "://:no-such-token@"));
    let wrong = Engine::connect(&wrong, BootClock).unwrap();
    let election = wrong.election("secure").ttl(servers.ttl()).join().unwrap();
    let refused = within("a refusal", election.lead()).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { .. }), "{refused}");
    assert!(!refused.to_string().contains("no-such-token"), "{refused}");
    // Without a certificate of the client.
    let without = format!("{}?ca-file={}", servers.url(&servers.addresses()), path("ca.crt"));
    let without = Engine::connect(&without, BootClock).unwrap().status("secure").await;
    assert!(matches!(without, Err(Error::Unavailable { .. })), "{without:?}");
}
