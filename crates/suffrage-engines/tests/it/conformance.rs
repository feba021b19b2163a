//! What every engine must show, with real servers.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine, Error, Leadership, Loss};
use suffrage_servers::{Mode, PATIENCE, Proxy, Servers};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{BootClock, CandidateProcess};

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

/// Polls until the condition holds.
pub(crate) async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            match poll().await {
                Some(found) => return found,
                None => sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

fn engine(servers: &dyn Servers) -> Engine {
    Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap()
}

pub(crate) async fn lead(engine: &Engine, name: &str, ttl: Duration, identity: &str) -> Leadership {
    let election = engine.election(name).ttl(ttl).identity(identity).join().unwrap();
    let led = timeout(PATIENCE, election.lead()).await;
    led.unwrap_or_else(|_| panic!("a leadership: not in time: {:?}", election.obstacle())).unwrap()
}

/// A candidate leads, is seen by others with its token, and has a valid lease that is renewed.
pub(crate) async fn cold_start(servers: &mut dyn Servers) {
    let engine = engine(servers);
    assert_eq!(engine.status("cold").await.unwrap().leader, None);
    let mut watch = engine.watch("cold");
    let first = lead(&engine, "cold", servers.ttl(), "me").await;
    assert!(first.is_valid() && first.valid_for() <= servers.ttl() && first.token() > 0);
    let leader = within("the watch", watch.changed()).await.unwrap().expect("a leader");
    assert_eq!((leader.identity.as_str(), leader.token), ("me", first.token()));
    assert_eq!(engine.status("cold").await.unwrap().leader, Some(leader));
    let start = BootClock.now();
    // Renewed: valid for longer than one ttl.
    until("a renewal", async || (BootClock.now() > start + servers.ttl() + servers.ttl() / 2).then_some(()))
        .await;
    assert!(first.is_valid(), "{:?}", first.loss());
    first.resign().await;
    within("the watch", async { while watch.changed().await.unwrap().is_some() {} }).await;
    assert_eq!(engine.status("cold").await.unwrap().leader, None);
}

/// Candidates lead one after the other, with growing tokens, and a waiting one is woken by the resignation.
pub(crate) async fn handover(servers: &mut dyn Servers) {
    let engine = engine(servers);
    let mut token = 0;
    let mut leader = lead(&engine, "handover", servers.ttl(), "candidate 0").await;
    for round in 1..=5 {
        let (other, ttl) = (engine.clone(), servers.ttl());
        let next = tokio::spawn(async move {
            let next = lead(&other, "handover", ttl, &format!("candidate {round}")).await;
            (BootClock.now(), next)
        });
        until("the next waits", async || {
            let status = engine.status("handover").await.unwrap();
            // Engines without a queue do not know who waits.
            (!status.waiting.is_empty() || status.leader.is_some()).then_some(())
        })
        .await;
        assert!(leader.token() > token, "{} after {token}", leader.token());
        token = leader.token();
        let before = BootClock.now();
        leader.resign().await;
        let (since, next) = within("a hand-over", next).await.unwrap();
        assert!(since >= before, "nobody leads before the leader has resigned");
        leader = next;
    }
    // A future that is dropped leaves no candidate behind.
    let waiting = engine.election("handover").ttl(servers.ttl()).identity("gone").join().unwrap();
    assert!(timeout(Duration::from_millis(500), waiting.lead()).await.is_err());
    until("the candidate is withdrawn", async || {
        let status = engine.status("handover").await.unwrap();
        (!status.waiting.contains(&"gone".to_string())).then_some(())
    })
    .await;
    leader.resign().await;
}

/// Hand-overs of long leases between two engines. Without a push, each would last until the engine is asked again.
#[allow(dead_code, reason = "not every engine can push")]
pub(crate) async fn many_hand_overs(one: &Engine, two: &Engine) {
    let ttl = PATIENCE;
    within("all hand-overs", async {
        let mut leader = lead(one, "pushed", ttl, "first").await;
        for round in 0..20 {
            let other = if round % 2 == 0 { two.clone() } else { one.clone() };
            let next = tokio::spawn(async move { lead(&other, "pushed", ttl, "next").await });
            // The next one waits by then, or finds the resignation.
            sleep(Duration::from_millis(100)).await;
            leader.resign().await;
            leader = next.await.unwrap();
        }
        leader.resign().await;
    })
    .await;
}

/// A leader is killed: the next leads after the lease has ended, with a greater token.
pub(crate) async fn killed(servers: &mut dyn Servers) {
    replaced(servers, "killed", Signal::KILL).await;
}

/// A leader is paused beyond its ttl: its validity ends before the next leads, and it knows when it goes on.
pub(crate) async fn paused(servers: &mut dyn Servers) {
    replaced(servers, "paused", Signal::STOP).await;
}

async fn replaced(servers: &mut dyn Servers, name: &str, signal: Signal) {
    let (url, ttl) = (servers.url(&servers.addresses()), servers.ttl());
    let mut leader = CandidateProcess::start(&url, name, ttl, "first");
    leader.leads();
    let mut next = CandidateProcess::start(&url, name, ttl, "second");
    let engine = engine(servers);
    // Both candidates stand, and the leader has renewed at least once.
    while leader.drain().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(engine.status(name).await.unwrap().leader.unwrap().identity, "first");
    leader.process.signal(signal);
    let (token, since) = tokio::task::block_in_place(|| next.leads());
    // Whatever the leader has printed before the signal.
    leader.drain();
    assert!(since >= leader.until, "the next leads {:?} before the lease has ended", leader.until - since);
    assert!(token > leader.token, "{token} after {}", leader.token);
    if signal == Signal::STOP {
        leader.process.signal(Signal::CONT);
        tokio::task::block_in_place(|| leader.lost());
        next.resign();
        let (again, _) = tokio::task::block_in_place(|| leader.leads());
        assert!(again > token, "{again} after {token}");
    }
}

/// The connection of the leader is cut for longer than the ttl: its validity ends before the next leads. It stands again by
/// itself when the connection is back.
pub(crate) async fn cut(servers: &mut dyn Servers) {
    for mode in [Mode::Cut, Mode::Silent] {
        let mut proxies = Vec::new();
        for address in servers.addresses() {
            proxies.push(Proxy::start(address).await);
        }
        let addresses: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).collect();
        let name = format!("cut-{mode:?}").to_lowercase();
        let ours = Engine::connect(&servers.url(&addresses), BootClock).unwrap();
        let leader = lead(&ours, &name, servers.ttl(), "cut off").await;
        proxies.iter().for_each(|proxy| proxy.set(mode));
        let other = engine(servers);
        let next = lead(&other, &name, servers.ttl(), "other").await;
        assert!(!leader.is_valid(), "the next leads while the leader is valid");
        assert!(next.token() > leader.token());
        within("the loss", leader.lost()).await;
        drop(leader);
        let again = ours.election(&name).ttl(servers.ttl()).identity("back").join().unwrap();
        let again = tokio::spawn(async move { again.lead().await });
        sleep(Duration::from_millis(200)).await;
        proxies.iter().for_each(|proxy| proxy.set(Mode::Pass));
        let before = next.token();
        next.resign().await;
        let again = within("the candidate is back", again).await.unwrap().unwrap();
        assert!(again.token() > before);
        again.resign().await;
    }
}

/// A short outage costs no leadership.
pub(crate) async fn rides_out(servers: &mut dyn Servers) {
    let mut proxies = Vec::new();
    for address in servers.addresses() {
        proxies.push(Proxy::start(address).await);
    }
    let addresses: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).collect();
    let ours = Engine::connect(&servers.url(&addresses), BootClock).unwrap();
    let leader = lead(&ours, "outage", servers.ttl(), "me").await;
    let token = leader.token();
    for mode in [Mode::Cut, Mode::Silent] {
        proxies.iter().for_each(|proxy| proxy.set(mode));
        sleep(servers.ttl() / 4).await;
        proxies.iter().for_each(|proxy| proxy.set(Mode::Pass));
        let start = BootClock.now();
        until("two ttl", async || (BootClock.now() > start + servers.ttl() * 2).then_some(())).await;
        assert!(leader.is_valid() && leader.token() == token, "{mode:?}: {:?}", leader.loss());
    }
    leader.resign().await;
}

/// The leading server is killed: the leadership survives, or ends before the next begins.
pub(crate) async fn server_killed(servers: &mut dyn Servers) {
    let engine = engine(servers);
    let leader = lead(&engine, "server", servers.ttl(), "before").await;
    if !servers.kill_leading_server() {
        return;
    }
    let token = leader.token();
    let (other, ttl) = (engine.clone(), servers.ttl());
    let next = tokio::spawn(async move { lead(&other, "server", ttl, "after").await });
    sleep(servers.ttl()).await;
    if leader.is_valid() {
        leader.resign().await;
    }
    let next = within("the next leader", next).await.unwrap();
    assert!(next.token() > token);
    next.resign().await;
}

/// All servers are killed and started again: tokens go on growing.
pub(crate) async fn all_restarted(servers: &mut dyn Servers) {
    let engine = engine(servers);
    let leader = lead(&engine, "restart", servers.ttl(), "before").await;
    let token = leader.token();
    servers.restart_all();
    let next = if leader.is_valid() {
        // It may ride out the restart, or not.
        let start = BootClock.now();
        until("a ttl", async || (BootClock.now() > start + servers.ttl() * 2).then_some(())).await;
        let survived = leader.is_valid();
        drop(leader);
        let next = lead(&engine, "restart", servers.ttl(), "after").await;
        assert!(next.token() > token, "survived: {survived}; {} after {token}", next.token());
        next
    } else {
        drop(leader);
        lead(&engine, "restart", servers.ttl(), "after").await
    };
    assert!(next.token() > token, "{} after {token}", next.token());
    next.resign().await;
}

/// The reply to the first request of a campaign is lost: the candidate leads all the same, once, and leaves nothing behind.
pub(crate) async fn reply_lost(servers: &mut dyn Servers) {
    let mut proxies = Vec::new();
    for address in servers.addresses() {
        proxies.push(Proxy::start(address).await);
    }
    let set = |mode| proxies.iter().for_each(|proxy| proxy.set(mode));
    let addresses: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).collect();
    let (ours, direct, ttl) =
        (Engine::connect(&servers.url(&addresses), BootClock).unwrap(), engine(servers), servers.ttl());
    // The connection works.
    lead(&ours, "lost", ttl, "me").await.resign().await;
    let mut token = 0;
    for pause in [0, 1, 3, 10, 50] {
        // Acquire.
        let candidate = ours.clone();
        let leader = tokio::spawn(async move { lead(&candidate, "lost", ttl, "me").await });
        sleep(Duration::from_millis(pause)).await;
        set(Mode::LoseReplies);
        sleep(ttl / 5).await;
        set(Mode::Cut);
        set(Mode::Pass);
        let leader = within("a leadership", leader).await.unwrap();
        assert!(leader.token() > token, "{} after {token}", leader.token());
        token = leader.token();
        let status = direct.status("lost").await.unwrap();
        let named = status.leader.as_ref().map(|leader| (leader.identity.as_str(), leader.token));
        assert_eq!(named, Some(("me", token)), "{status:?}");
        assert!(status.waiting.is_empty(), "{status:?}");
        // Renew.
        set(Mode::LoseReplies);
        sleep(ttl / 2).await;
        set(Mode::Cut);
        set(Mode::Pass);
        let start = BootClock.now();
        until("a ttl", async || (BootClock.now() > start + ttl).then_some(())).await;
        assert!(leader.is_valid(), "{:?}", leader.loss());
        token = leader.token();
        // Resign.
        set(Mode::LoseReplies);
        let resigned = tokio::spawn(leader.resign());
        sleep(ttl / 10).await;
        set(Mode::Cut);
        set(Mode::Pass);
        within("a resignation", resigned).await.unwrap();
        until("nobody leads", async || direct.status("lost").await.unwrap().leader.is_none().then_some(()))
            .await;
    }
}

/// Replies are slow: a lease counts from before its request was sent, and not from its reply.
pub(crate) async fn slow_replies(servers: &mut dyn Servers) {
    let (ttl, delay) = (servers.ttl(), servers.ttl() / 12);
    let mut proxies = Vec::new();
    for address in servers.addresses() {
        proxies.push(Proxy::start(address).await);
    }
    proxies.iter().for_each(|proxy| proxy.set(Mode::Slow(delay)));
    let addresses: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).collect();
    let ours = Engine::connect(&servers.url(&addresses), BootClock).unwrap();
    let leader = lead(&ours, "slow", ttl, "me").await;
    let start = BootClock.now();
    until("renewals", async || {
        let left = leader.valid_for();
        assert!(left <= ttl - delay, "valid for {left:?} of {ttl:?} after a reply that took {delay:?}");
        (BootClock.now() > start + ttl * 2).then_some(())
    })
    .await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
    leader.resign().await;
}

/// The leader's entry is deleted by hand: the leader notices, and the next token is greater.
pub(crate) async fn entry_deleted(servers: &mut dyn Servers) {
    let engine = engine(servers);
    let leader = lead(&engine, "deleted", servers.ttl(), "first").await;
    servers.delete_entry("deleted");
    within("the loss", leader.lost()).await;
    let token = leader.token();
    until("the end", async || (!leader.is_valid()).then_some(())).await;
    assert_ne!(leader.loss(), Some(Loss::Resigned));
    drop(leader);
    let next = lead(&engine, "deleted", servers.ttl(), "second").await;
    assert!(next.token() > token, "{} after {token}", next.token());
    // The same by the engine that deposes.
    let deposed = engine.depose("deleted").await.unwrap().expect("a leader");
    assert_eq!((deposed.identity.as_str(), deposed.token), ("second", next.token()));
    within("the loss", next.lost()).await;
    assert_eq!(engine.depose("nobody").await.unwrap(), None);
}

/// Fifty candidates: each leads once, one at a time, with growing tokens.
pub(crate) async fn fifty_candidates(servers: &mut dyn Servers) {
    let (mut tasks, ttl) = (JoinSet::new(), servers.ttl());
    let engine = engine(servers);
    for number in 0..50 {
        let engine = engine.clone();
        tasks.spawn(async move {
            let leadership = lead(&engine, "fifty", ttl, &format!("candidate {number}")).await;
            let (token, from) = (leadership.token(), BootClock.now());
            assert!(leadership.is_valid());
            let to = BootClock.now();
            leadership.resign().await;
            (token, from, to)
        });
    }
    let mut led = Vec::new();
    while let Some(one) = within("all lead", tasks.join_next()).await {
        led.push(one.unwrap());
    }
    led.sort_unstable();
    for pair in led.windows(2) {
        let ((token, _, to), (next, from, _)) = (pair[0], pair[1]);
        assert!(next > token && from >= to, "{pair:?}");
    }
    assert_eq!(led.len(), 50);
}

/// One process leads a thousand elections and holds them.
pub(crate) async fn thousand_names(servers: &mut dyn Servers) {
    let (mut tasks, ttl) = (JoinSet::new(), servers.ttl().max(Duration::from_secs(10)));
    let engine = engine(servers);
    for number in 0..1_000 {
        let engine = engine.clone();
        tasks.spawn(async move { lead(&engine, &format!("name-{number}"), ttl, "me").await });
    }
    let mut held = Vec::new();
    while let Some(one) = within("all lead", tasks.join_next()).await {
        held.push(one.unwrap());
    }
    let start = BootClock.now();
    until("renewals", async || (BootClock.now() > start + ttl + ttl / 2).then_some(())).await;
    let lost = held.iter().filter(|leadership| !leadership.is_valid()).count();
    assert_eq!(lost, 0);
}

/// Bad input is refused with a reason.
pub(crate) async fn bad_input(servers: &mut dyn Servers) {
    let engine = engine(servers);
    let short = engine.facts().shortest_ttl / 2;
    assert!(matches!(engine.election("x").ttl(short).join(), Err(Error::Unsupported { .. })));
    assert!(matches!(engine.election("").join(), Err(Error::Unsupported { .. })));
    let url = servers.url(&servers.addresses());
    let separator = if url.contains('?') { '&' } else { '?' };
    let wrong = Engine::connect(&format!("{url}{separator}no-such-parameter=1"), BootClock).unwrap_err();
    assert!(wrong.to_string().contains("no-such-parameter"), "{wrong}");
}

/// One test per property, for the engine whose servers the function starts.
macro_rules! conformance {
    ($start:path: $($property:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $property() {
            let mut servers = $start().await;
            crate::conformance::$property(&mut servers).await;
        }
    )*};
    ($start:path) => {
        crate::conformance::conformance!(
            $start: cold_start, handover, killed, paused, cut, rides_out, server_killed, all_restarted, reply_lost,
            slow_replies, entry_deleted, fifty_candidates, thousand_names, bad_input,
        );
    };
}
pub(crate) use conformance;
