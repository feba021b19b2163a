//! Clients of the Unix socket of a node, which lead for as long as their connection is open.

use rustix::process::{Resource, getrlimit};

use crate::cluster::Cluster;
use crate::driver::{Driver, DriverProgram, Settings};
use crate::history;

use super::{LONG_MS, SHORT_MS, remote};

/// A client leads, resigns, and leads again with a greater token. The next leads when it exits.
pub(super) fn lead_and_resign(program: &DriverProgram) {
    let cluster = Cluster::start();
    let settings = Settings::of([cluster.socket(0)]);
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    for _ in 0..3 {
        let id = first.lead(&settings, "x", LONG_MS);
        first.leading(id);
        assert!(first.check(id).valid);
        assert_eq!(first.resign(id).reason, "resigned");
        assert!(!first.check(id).valid);
    }
    let leader = first.lead(&settings, "x", LONG_MS);
    first.leading(leader);
    let double = first.lead(&settings, "x", LONG_MS);
    assert_eq!(first.error(double).kind, "in_use");
    // A client of another node waits, and a client of the same node stops to wait.
    let other = second.lead(&settings, "x", LONG_MS);
    assert_eq!(second.resign(other).reason, "cancelled");
    let next = second.lead(&Settings::of([cluster.socket(1)]), "x", LONG_MS);
    cluster.await_candidate(1, "x");
    first.resign(leader);
    second.leading(next);
    assert_eq!(history::check(&[&first, &second]), 5);
    second.exit();
    let last = first.lead(&settings, "x", LONG_MS);
    first.leading(last);
}

/// The client that leads is killed. The next leads at once, although the lease is long.
pub(super) fn client_killed(program: &DriverProgram) {
    let cluster = Cluster::start();
    for place in [0, 1] {
        let election = format!("x-{place}");
        let (mut first, mut second) = (Driver::start(program), Driver::start(program));
        let leader = first.lead(&Settings::of([cluster.socket(0)]), &election, LONG_MS);
        first.leading(leader);
        let next = second.lead(&Settings::of([cluster.socket(place)]), &election, LONG_MS);
        if place == 1 {
            cluster.await_candidate(1, &election);
        }
        first.kill();
        second.leading(next);
        assert_eq!(history::check(&[&first, &second]), 2);
    }
}

/// The node of the leader is killed. The leadership ends, and the client goes on at another endpoint.
pub(super) fn node_killed(program: &DriverProgram) {
    let mut cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let settings = Settings::of([cluster.socket(0), cluster.endpoint(2)]);
    let leader = first.lead(&settings, "x", SHORT_MS);
    first.leading(leader);
    let next = second.lead(&Settings::of([cluster.socket(1)]), "x", SHORT_MS);
    cluster.await_candidate(1, "x");
    cluster.kill(0);
    let ended = first.ended(leader);
    assert!(["expired", "lost"].contains(&ended.reason.as_str()), "{ended:?}");
    assert!(!first.check(leader).valid);
    second.leading(next);
    let again = first.lead(&settings, "x", SHORT_MS);
    second.resign(next);
    first.leading(again);
    assert_eq!(history::check(&[&first, &second]), 3);
}

/// The client that leads is suspended for longer than its lease. The node renews for it, but the client has not read
/// that: it has ceased to lead by its own clock, and no event that it reads later revives the leadership.
pub(super) fn client_suspended(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of([cluster.socket(0)]), "x", SHORT_MS);
    let leading = first.leading(leader);
    let next = second.lead(&Settings::of([cluster.socket(0)]), "x", SHORT_MS);
    first.suspend();
    suffrage_testbed::until("the lease that the client knows is over", || {
        (crate::driver::now_ns() > leading.at_ns + 2 * SHORT_MS * 1_000_000).then_some(())
    });
    let before = first.send_check(leader);
    first.resume();
    assert!(!first.checked(leader, before).valid);
    first.ended(leader);
    second.leading(next);
    assert!(!first.check(leader).valid);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// An operator resigns the election. The client is told at once, and resigns; the lease is long.
pub(super) fn operator_resigns(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of([cluster.socket(0)]), "x", LONG_MS);
    first.leading(leader);
    let next = second.lead(&Settings::of([cluster.socket(1)]), "x", LONG_MS);
    cluster.await_candidate(1, "x");
    cluster.resign(0, "x");
    assert_eq!(first.told_to_stop(leader).event, "hand_over_wanted");
    assert!(first.check(leader).valid);
    first.resign(leader);
    second.leading(next);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// One client leads 1,000 elections by as many connections.
pub(super) fn thousand_elections(program: &DriverProgram) {
    // A node uses a quarter of its files for these connections, three for each, and some are left for others.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    assert!(files >= 16_000, "the limit of open files is {files}: ulimit -n 16000");
    let cluster = Cluster::start();
    remote::thousand(program, &Settings::of([cluster.socket(0)]));
}
