//! Clients of the HTTP interface, without faults.

use crate::cluster::{Cluster, TOKEN};
use crate::driver::{Driver, DriverProgram, Settings, now_ns};
use crate::history;

use super::{LONG_MS, SHORT_MS};

/// A client leads, resigns, and leads again with a greater token. It resigns when it exits.
pub(super) fn lead_and_resign(program: &DriverProgram) {
    let cluster = Cluster::start();
    let settings = Settings::of(cluster.endpoints([0, 1, 2]));
    let mut driver = Driver::start(program);
    for _ in 0..3 {
        let id = driver.lead(&settings, "x", LONG_MS);
        driver.leading(id);
        assert!(driver.check(id).valid);
        assert_eq!(driver.resign(id).reason, "resigned");
        assert!(!driver.check(id).valid);
    }
    assert_eq!(history::check(&[&driver]), 3);
    // The name is percent-encoded.
    let id = driver.lead(&settings, "a b/ü?", LONG_MS);
    driver.leading(id);
    driver.exit();
    let mut next = Driver::start(program);
    let id = next.lead(&settings, "a b/ü?", LONG_MS);
    next.leading(id);
}

/// Of two clients one leads and the other waits, at the same node and at another.
pub(super) fn hand_over_to_the_next(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (mut first, mut second, mut third) =
        (Driver::start(program), Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of(cluster.endpoints([0])), "x", LONG_MS);
    first.leading(leader);
    let here = second.lead(&Settings::of(cluster.endpoints([0])), "x", LONG_MS);
    let there = third.lead(&Settings::of(cluster.endpoints([1])), "x", LONG_MS);
    cluster.await_candidate(1, "x");
    assert!(!second.check(here).valid && !third.check(there).valid);
    first.resign(leader);
    // The two may lead in any order.
    let both = [&second, &third];
    let ids = [here, there];
    suffrage_testbed::until("one of both leads", || {
        both.iter().zip(ids).any(|(driver, id)| driver.has("leading", id)).then_some(())
    });
    if second.has("leading", here) {
        second.resign(here);
        third.leading(there);
    } else {
        third.resign(there);
        second.leading(here);
    }
    assert_eq!(history::check(&[&first, &second, &third]), 3);
}

/// A client that waits stops to wait. The others do not wait for it.
pub(super) fn cancelled_while_waiting(program: &DriverProgram) {
    let cluster = Cluster::start();
    let settings = Settings::of(cluster.endpoints([0]));
    let (mut first, mut second, mut third) =
        (Driver::start(program), Driver::start(program), Driver::start(program));
    let leader = first.lead(&settings, "x", LONG_MS);
    first.leading(leader);
    let cancelled = second.lead(&settings, "x", LONG_MS);
    assert!(!second.check(cancelled).valid);
    assert_eq!(second.resign(cancelled).reason, "cancelled");
    let next = third.lead(&settings, "x", LONG_MS);
    first.resign(leader);
    third.leading(next);
    assert!(!second.has("leading", cancelled));
    // The client can campaign again.
    let again = second.lead(&settings, "x", LONG_MS);
    third.resign(next);
    second.leading(again);
    assert_eq!(history::check(&[&first, &second, &third]), 3);
}

/// One client object leads an election once at a time.
pub(super) fn one_leadership_at_a_time(program: &DriverProgram) {
    let cluster = Cluster::start();
    let settings = Settings::of(cluster.endpoints([0, 1, 2]));
    let mut driver = Driver::start(program);
    let first = driver.lead(&settings, "x", LONG_MS);
    let second = driver.lead(&settings, "x", LONG_MS);
    assert_eq!(driver.error(second).kind, "in_use");
    driver.leading(first);
    let third = driver.lead(&settings, "x", LONG_MS);
    assert_eq!(driver.error(third).kind, "in_use");
    assert!(driver.check(first).valid);
    driver.resign(first);
    let fourth = driver.lead(&settings, "x", LONG_MS);
    driver.leading(fourth);
    // Another election of the same client is another matter.
    let other = driver.lead(&settings, "y", LONG_MS);
    driver.leading(other);
    assert!(driver.check(fourth).valid);
}

/// An operator resigns the election. The client is told, and the next leads.
pub(super) fn operator_resigns(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    // The client is told at its next renewal.
    let leader = first.lead(&Settings::of(cluster.endpoints([0])), "x", 4 * SHORT_MS);
    first.leading(leader);
    let next = second.lead(&Settings::of(cluster.endpoints([1])), "x", LONG_MS);
    cluster.await_candidate(1, "x");
    cluster.resign(0, "x");
    if first.told_to_stop(leader).event == "hand_over_wanted" {
        first.resign(leader);
    }
    first.ended(leader);
    assert!(first.has("stop", leader));
    second.leading(next);
    assert!(!first.check(leader).valid);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// A wrong token, and no token, are clear errors. A certificate of a stranger is no connection.
pub(super) fn token_and_tls(program: &DriverProgram) {
    let cluster = Cluster::start_with_credentials();
    let settings = |token: Option<&str>, authority: &str| Settings {
        endpoints: cluster.endpoints([0, 1, 2]).to_vec(),
        token_file: token.map(|token| cluster.token_file(token)),
        ca_file: Some(cluster.path(authority)),
    };
    let mut driver = Driver::start(program);
    for token in [Some("wrong-horse-battery-staple"), None] {
        let id = driver.lead(&settings(token, "ca.pem"), "x", LONG_MS);
        let error = driver.error(id);
        assert_eq!(error.kind, "unauthorized", "{error:?}");
        assert!(error.message.contains("token"), "{error:?}");
    }
    let stranger = driver.lead(&settings(Some(TOKEN), "stranger.pem"), "x", SHORT_MS);
    let id = driver.lead(&settings(Some(TOKEN), "ca.pem"), "x", SHORT_MS);
    driver.leading(id);
    driver.resign(id);
    let again = driver.lead(&settings(Some(TOKEN), "ca.pem"), "x", SHORT_MS);
    let leading = driver.leading(again);
    // The lease is renewed.
    suffrage_testbed::until("the first lease is over", || {
        (now_ns() > leading.at_ns + SHORT_MS * 1_000_000).then_some(())
    });
    assert!(driver.check(again).valid);
    assert_eq!(driver.resign(stranger).reason, "cancelled");
    assert!(!driver.has("leading", stranger));
    driver.exit();
}

/// A request that no node accepts is an error, and not tried again.
pub(super) fn refused_for_good(program: &DriverProgram) {
    let cluster = Cluster::start();
    let settings = Settings::of(cluster.endpoints([0, 1, 2]));
    let mut driver = Driver::start(program);
    let long_name = "x".repeat(256);
    for (election, ttl_ms) in [("x", 1), (long_name.as_str(), LONG_MS)] {
        let id = driver.lead(&settings, election, ttl_ms);
        let error = driver.error(id);
        assert!(error.kind == "invalid" && !error.message.is_empty(), "{error:?}");
    }
    let id = driver.lead(&Settings::of(["ftp://127.0.0.1:1".to_string()]), "x", LONG_MS);
    assert_eq!(driver.error(id).kind, "invalid");
    // The same client goes on.
    let id = driver.lead(&settings, "x", LONG_MS);
    driver.leading(id);
}

/// One client leads 1,000 elections for longer than their leases last.
pub(super) fn thousand_elections(program: &DriverProgram) {
    let cluster = Cluster::start();
    thousand(program, &Settings::of(cluster.endpoints([0, 1, 2])));
}

/// Leads 1,000 elections with one client, and keeps them for longer than their leases last.
pub(super) fn thousand(program: &DriverProgram, settings: &Settings) {
    const TTL_MS: u64 = 12_000;
    let mut driver = Driver::start(program);
    let ids: Vec<u64> =
        (0..1_000).map(|number| driver.lead(settings, &format!("x-{number}"), TTL_MS)).collect();
    let last_ns = ids.iter().map(|id| driver.leading(*id).at_ns).max().expect("there are 1,000");
    suffrage_testbed::until("the first leases are over", || {
        (now_ns() > last_ns + TTL_MS * 1_000_000).then_some(())
    });
    let ended: Vec<_> = driver.events().into_iter().filter(|event| event.event == "ended").collect();
    assert!(ended.is_empty(), "{} have ended, the first of them: {:?}", ended.len(), ended[0]);
    for id in &ids {
        assert!(driver.check(*id).valid, "{id}");
    }
    driver.exit();
}

/// A fence refuses smaller tokens than the greatest that it has seen.
pub(super) fn fence(program: &DriverProgram) {
    let mut driver = Driver::start(program);
    for (fence, token, accepted) in [
        ("orders", 5, true),
        ("orders", 5, true),
        ("orders", 4, false),
        ("orders", 5, true),
        ("other", 4, true),
        // Greater than the greatest integer of a double-precision number.
        ("orders", (1 << 53) + 1, true),
        ("orders", 1 << 53, false),
    ] {
        assert_eq!(driver.fence(fence, token), accepted, "{fence} {token}");
    }
    driver.exit();
}
