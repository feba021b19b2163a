//! Clients of the HTTP interface, with faults of clients, nodes and networks.

use std::net::TcpListener;

use suffrage_testbed::until;

use crate::cluster::{Cluster, nobody};
use crate::driver::{Driver, DriverProgram, Settings};
use crate::history;
use crate::proxy::Proxy;

use super::{LONG_MS, SHORT_MS};

/// The client that leads is killed. The other leads with a greater token.
pub(super) fn client_killed(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of(cluster.endpoints([0, 1, 2])), "x", SHORT_MS);
    let leading = first.leading(leader);
    let next = second.lead(&Settings::of(cluster.endpoints([1, 2, 0])), "x", SHORT_MS);
    cluster.await_candidate(1, "x");
    first.kill();
    assert!(second.leading(next).token > leading.token);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// The node of the leader is killed. The client's leadership ends by its deadline, the next leads, and the client goes
/// on at another node.
pub(super) fn node_killed_under_the_leader(program: &DriverProgram) {
    let mut cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let settings = Settings::of(cluster.endpoints([0, 1, 2]));
    let leader = first.lead(&settings, "x", SHORT_MS);
    first.leading(leader);
    let next = second.lead(&Settings::of(cluster.endpoints([1, 2, 0])), "x", SHORT_MS);
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

/// The node of a client that waits is killed. The client goes on waiting at another node.
pub(super) fn node_killed_under_a_waiter(program: &DriverProgram) {
    let mut cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of(cluster.endpoints([0])), "x", LONG_MS);
    first.leading(leader);
    let waiter = second.lead(&Settings::of(cluster.endpoints([1, 2])), "x", LONG_MS);
    cluster.await_candidate(1, "x");
    cluster.kill(1);
    cluster.await_candidate(2, "x");
    assert!(!second.check(waiter).valid);
    first.resign(leader);
    second.leading(waiter);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// The client that leads is suspended for longer than its lease. The next leads after the end of the lease. The first
/// check after the suspension fails, and nothing revives the leadership.
pub(super) fn client_suspended(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of(cluster.endpoints([0, 1, 2])), "x", SHORT_MS);
    first.leading(leader);
    let next = second.lead(&Settings::of(cluster.endpoints([1, 2, 0])), "x", SHORT_MS);
    cluster.await_candidate(1, "x");
    first.suspend();
    second.leading(next);
    let before = first.send_check(leader);
    first.resume();
    assert!(!first.checked(leader, before).valid);
    let ended = first.ended(leader);
    assert!(["expired", "lost"].contains(&ended.reason.as_str()), "{ended:?}");
    assert!(!first.check(leader).valid);
    assert!(second.check(next).valid);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// Without a majority of voters the leadership ends by its deadline. The work is told to stop before. The client leads
/// again when there is a majority.
pub(super) fn no_majority(program: &DriverProgram) {
    let mut cluster = Cluster::start();
    let mut driver = Driver::start(program);
    let settings = Settings::of(cluster.endpoints([0]));
    let leader = driver.lead(&settings, "x", SHORT_MS);
    driver.leading(leader);
    cluster.kill(1);
    cluster.kill(2);
    let ended = driver.ended(leader);
    assert!(["expired", "lost"].contains(&ended.reason.as_str()), "{ended:?}");
    let events = driver.events();
    let place = |name: &str| events.iter().position(|event| event.event == name && event.id == leader);
    assert!(place("stop").is_some_and(|stop| place("ended") > Some(stop)), "{events:#?}");
    assert!(!driver.check(leader).valid);
    let again = driver.lead(&settings, "x", SHORT_MS);
    cluster.restart(1);
    driver.leading(again);
    assert_eq!(history::check(&[&driver]), 2);
}

/// Answers to renewals are held back until the next leads. They revive nothing.
pub(super) fn answers_held_back(program: &DriverProgram) {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.address(0));
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let leader = first.lead(&Settings::of([proxy.endpoint()]), "x", SHORT_MS);
    first.leading(leader);
    let next = second.lead(&Settings::of(cluster.endpoints([1])), "x", SHORT_MS);
    cluster.await_candidate(1, "x");
    proxy.hold_back();
    // The client asks again and again, and the node goes on renewing, until the client gives up.
    assert_eq!(first.ended(leader).reason, "expired");
    assert!(!first.check(leader).valid);
    second.leading(next);
    proxy.let_pass();
    assert!(!first.check(leader).valid);
    let again = first.lead(&Settings::of([proxy.endpoint()]), "x", SHORT_MS);
    assert!(!first.check(leader).valid);
    second.resign(next);
    first.leading(again);
    assert_eq!(history::check(&[&first, &second]), 3);
}

/// The answer to a campaign is held back until the lease is over and another client leads. It counts from before the
/// campaign, and so for nothing.
pub(super) fn first_answer_held_back(program: &DriverProgram) {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.address(0));
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    proxy.hold_back();
    let late = first.lead(&Settings::of([proxy.endpoint()]), "x", SHORT_MS);
    until("the answer is held back", || (proxy.held_back() > 0).then_some(()));
    let next = second.lead(&Settings::of(cluster.endpoints([1])), "x", LONG_MS);
    second.leading(next);
    proxy.let_pass();
    assert!(!first.check(late).valid);
    assert!(second.check(next).valid);
    second.resign(next);
    first.leading(late);
    assert_eq!(history::check(&[&first, &second]), 2);
}

/// Nobody listens at the first endpoint, and the second never answers.
pub(super) fn silent_endpoint(program: &DriverProgram) {
    let cluster = Cluster::start();
    let silent = suffrage_testbed::address();
    let _listener = TcpListener::bind(silent).expect("the address is free");
    let mut driver = Driver::start(program);
    let settings = Settings::of([nobody(), format!("http://{silent}"), cluster.endpoint(0)]);
    let id = driver.lead(&settings, "x", SHORT_MS);
    driver.leading(id);
    assert!(driver.check(id).valid);
    driver.exit();
}
