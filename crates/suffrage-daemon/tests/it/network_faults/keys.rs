//! Key rotation during a leadership.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::network_faults::support::{Cluster, TTL};

/// The steps of `suffrage keygen --help`, at one node after the other, as an operator does them.
fn replace_the_key(cluster: &mut Cluster) {
    for step in ["--add", "--promote", "--retire"] {
        for host in cluster.hosts() {
            let from = cluster.log(host).len();
            match host {
                1 => assert!(cluster.keygen(1, &[step])),
                _ => cluster.copy_keys(1, host),
            }
            cluster.node(host).signal(Signal::HUP);
            cluster.await_log(host, from, "keys reloaded; the first key seals");
            // The candidate polls its key file.
            cluster.await_log(host, from, "reloaded the keys");
            // Nodes with different key files open each other's datagrams.
            thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_key_is_rotated_at_all_nodes_while_the_leader_keeps_the_lease() {
    let mut cluster = Cluster::with_writers(3, 8);
    let old = cluster.folder.path().join("old-keys");
    fs::copy(cluster.keys(1), &old).unwrap();
    let leader = cluster.leader_after(0);
    let before = cluster.agreed();
    // A client leads another election over HTTP.
    let said = json!({ "ttl": "3s" });
    let (status, led) = cluster.post(2, "elections/other/campaign", &said).unwrap();
    assert_eq!(status, 200, "{led}");
    let done = AtomicBool::new(false);
    let renewals = thread::scope(|scope| {
        // The client has its own connection to the host: the cluster is used for the rotation.
        let renew = cluster.renewer(2, "elections/other/renew", &json!({ "session": led["session"] }));
        let (done, token) = (&done, &led["token"]);
        let client = scope.spawn(move || {
            let mut renewals = 0;
            while !done.load(Ordering::Relaxed) {
                let (status, renewed) = renew();
                assert_eq!((status, &renewed["token"]), (200, token), "{renewed}");
                renewals += 1;
                thread::sleep(Duration::from_millis(100));
            }
            renewals
        });
        replace_the_key(&mut cluster);
        done.store(true, Ordering::Relaxed);
        client.join().unwrap()
    });
    println!("{renewals} renewals, none refused; {} writes", cluster.number());
    assert!(renewals > 10);
    cluster.writes_on(leader, 10);
    assert_eq!(cluster.agreed(), before, "without interruption");
    let strangers =
        |cluster: &Cluster| cluster.hosts().iter().map(|&host| cluster.strangers(host)).sum::<u64>();
    assert_eq!(strangers(&cluster), 0, "nobody was misunderstood, at no step");
    // A key file that is readable by others is not used; the old keys stay in use.
    let from = cluster.log(3).len();
    fs::set_permissions(cluster.keys(3), fs::Permissions::from_mode(0o644)).unwrap();
    cluster.node(3).signal(Signal::HUP);
    for who in ["ERROR the old keys stay in use", "`register`: the old keys stay in use"] {
        let said = cluster.await_log(3, from, who);
        assert!(said.contains("chmod 600"), "{said}");
    }
    fs::set_permissions(cluster.keys(3), fs::Permissions::from_mode(0o600)).unwrap();
    cluster.writes_on(leader, 10);
    // An invalid key file is not used.
    let from = cluster.log(2).len();
    fs::write(cluster.keys(2), "rubbish").unwrap();
    let said = cluster.await_log(2, from, "the old keys stay in use");
    assert!(said.contains("line 1: a key is 64 hexadecimal digits") && !said.contains("rubbish"), "{said}");
    cluster.copy_keys(1, 2);
    cluster.await_log(2, from, "reloaded the keys");
    cluster.writes_on(leader, 10);
    // Datagrams sealed with the old key are dropped.
    cluster.candidates.clear();
    cluster.candidates.push(Some(cluster.run(1, &old)));
    thread::sleep(TTL * 2);
    assert_eq!(cluster.last_leader(), Some(leader), "one with the old key leads");
    assert!(strangers(&cluster) > 0, "it has asked, and was not understood");
    cluster.candidates.push(Some(cluster.run(2, &cluster.keys(2))));
    assert_eq!(cluster.leader_after(leader.token).host, 2);
    cluster.verify_fenced();
    assert_eq!(cluster.verify_trusting(), Ok(()));
}
