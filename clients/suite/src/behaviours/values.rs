//! What leaders say about themselves.

use crate::cluster::Cluster;
use crate::driver::{Driver, DriverProgram, Settings};

use super::LONG_MS;

/// Waits until this client hears of the leader with this token that it has this value.
fn await_value(driver: &mut Driver, settings: &Settings, token: u64, value: Option<&str>) {
    suffrage_testbed::until(&format!("the value is {value:?}"), || {
        let leader = driver.leader(settings, "x");
        // An empty text is no value.
        let told = leader.value.as_deref().filter(|value| !value.is_empty());
        (leader.token == token && told == value).then_some(())
    });
}

/// A client leads with a value and changes it. Clients of all nodes can read it, and the next leader has its own.
fn values(program: &DriverProgram, cluster: &Cluster, leading: &Settings, waiting: &Settings) {
    let (mut first, mut second) = (Driver::start(program), Driver::start(program));
    let nobody = second.leader(waiting, "x");
    assert_eq!((nobody.event.as_str(), nobody.token), ("leader", 0), "{nobody:?}");
    let leader = first.lead_with(leading, "x", LONG_MS, Some("10.0.0.1:80"));
    let token = first.leading(leader).token;
    for place in 0..3 {
        await_value(&mut second, &Settings::of([cluster.endpoint(place)]), token, Some("10.0.0.1:80"));
    }
    await_value(&mut first, leading, token, Some("10.0.0.1:80"));
    // JSON in JSON, and more than ASCII.
    let json = r#"{"address":"10.0.0.1:81","zone":"ä€𝄞"}"#;
    for value in [Some(json), None, Some("10.0.0.1:82")] {
        assert!(first.set_value(leader, value));
        await_value(&mut second, waiting, token, value);
    }
    assert!(!first.set_value(leader, Some(&"x".repeat(4_097))), "the node refuses a value that is too long");
    assert!(first.check(leader).valid, "and the client still leads");
    await_value(&mut second, waiting, token, Some("10.0.0.1:82"));
    let next = second.lead_with(waiting, "x", LONG_MS, Some("10.0.0.2:80"));
    cluster.await_candidate(1, "x");
    first.resign(leader);
    let after = second.leading(next).token;
    assert!(after > token);
    await_value(&mut first, leading, after, Some("10.0.0.2:80"));
    assert!(!first.set_value(leader, Some("late")), "it does not lead any more");
    await_value(&mut first, leading, after, Some("10.0.0.2:80"));
}

/// Values of clients over HTTP.
pub(super) fn remote(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (leading, waiting) = (Settings::of([cluster.endpoint(0)]), Settings::of([cluster.endpoint(1)]));
    values(program, &cluster, &leading, &waiting);
}

/// Values of clients by connection.
pub(super) fn local(program: &DriverProgram) {
    let cluster = Cluster::start();
    let (leading, waiting) = (Settings::of([cluster.socket(0)]), Settings::of([cluster.socket(1)]));
    values(program, &cluster, &leading, &waiting);
}
