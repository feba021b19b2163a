//! A voter whose disk is full, and one whose state is damaged.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;
use suffrage_testbed::SmallDisk;

use crate::network_faults::support::{Cluster, until};

/// A disk for the voter of host 1.
fn small_disk(cluster: &Cluster) -> SmallDisk {
    let disk = SmallDisk::new(64).unwrap();
    fs::create_dir(disk.path().join("data")).unwrap();
    symlink(disk.path().join("data"), cluster.data(1)).unwrap();
    disk
}

fn state(cluster: &Cluster) -> PathBuf {
    cluster.data(1).join("voter.state")
}

/// Whether a client of node 2 leads within this time.
fn campaign(cluster: &Cluster, name: &str, ttl: &str, wait: &str) -> bool {
    let path = format!("elections/{name}/campaign");
    let (status, said) = cluster.post(2, &path, &json!({ "ttl": ttl, "wait": wait })).unwrap();
    assert!(status == 200 || status == 202, "{said}");
    status == 200
}

#[test]
fn a_voter_with_a_full_disk_logs_it_grants_nothing_and_continues_when_there_is_room() {
    let mut cluster = Cluster::prepare(3, 9);
    let disk = small_disk(&cluster);
    (1..=3).for_each(|host| cluster.start_node(host, &["--new"]));
    (1..=3).for_each(|host| cluster.await_answer(host));
    assert!(campaign(&cluster, "before", "1s", "30s"));
    until("its state is saved", || state(&cluster).exists().then_some(()));
    disk.fill().unwrap();
    let (saved, from) = (fs::read(state(&cluster)).unwrap(), cluster.log(1).len());
    // A voter must save the length of a longer lease before it grants it. The other two voters are enough.
    assert!(campaign(&cluster, "while", "10s", "30s"));
    let said = cluster.await_log(1, from, "ERROR");
    for what in ["is suspended until it can save its state", "voter.state", "No space left on device"] {
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(cluster.get(1, "liveness").unwrap().0, 200, "to restart it would not help");
    let (status, ready) = cluster.get(1, "readiness").unwrap();
    assert!(status == 503 && ready["why"].as_str().unwrap().contains("No space left"), "{ready}");
    // The voter and one other are no majority: without a save there is no grant.
    cluster.node(3).signal(Signal::STOP);
    assert!(!campaign(&cluster, "without", "10s", "3s"), "it was granted without being saved");
    assert_eq!(fs::read(state(&cluster)).unwrap(), saved);
    assert!(!state(&cluster).with_extension("state.new").exists(), "half a state is left");
    disk.free().unwrap();
    cluster.await_log(1, from, "this node continues");
    until("two of three elect", || campaign(&cluster, "after", "10s", "10s").then_some(()));
    assert_ne!(fs::read(state(&cluster)).unwrap(), saved);
    until("it is ready", || cluster.get(1, "readiness").filter(|(status, _)| *status == 200));
    cluster.node(3).signal(Signal::CONT);
    until("node 3 is back", || cluster.get(3, "readiness").filter(|(status, _)| *status == 200));
}

#[test]
fn a_voter_that_is_restarted_on_a_full_disk_waits_and_continues_when_there_is_room() {
    let mut cluster = Cluster::prepare(3, 11);
    let disk = small_disk(&cluster);
    (1..=3).for_each(|host| cluster.start_node(host, &["--new"]));
    (1..=3).for_each(|host| cluster.await_answer(host));
    assert!(campaign(&cluster, "before", "1s", "30s"));
    until("its state is saved", || state(&cluster).exists().then_some(()));
    cluster.kill_node(1);
    disk.fill().unwrap();
    let from = cluster.log(1).len();
    cluster.start_node(1, &[]);
    cluster.await_answer(1);
    let said = cluster.await_log(1, from, "ERROR");
    for what in ["is suspended until it can save its state", "boot.state", "No space left on device"] {
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(cluster.get(1, "liveness").unwrap().0, 200, "to restart it would not help");
    let (status, ready) = cluster.get(1, "readiness").unwrap();
    assert!(status == 503 && ready["why"].as_str().unwrap().contains("No space left"), "{ready}");
    assert!(campaign(&cluster, "while", "1s", "30s"), "the other two are enough");
    disk.free().unwrap();
    cluster.await_log(1, from, "this node continues");
    until("it is ready", || cluster.get(1, "readiness").filter(|(status, _)| *status == 200));
}

#[test]
fn a_new_voter_does_not_start_if_it_cannot_save_nor_a_voter_whose_state_is_damaged() {
    let mut cluster = Cluster::prepare(3, 10);
    let disk = small_disk(&cluster);
    disk.fill().unwrap();
    cluster.start_node(1, &["--new"]);
    assert_eq!(cluster.node(1).code(), 1);
    let said = cluster.log(1);
    assert!(said.contains("cannot write") && said.contains("No space left on device"), "{said}");
    // The failed start leaves nothing that prevents the next one.
    disk.free().unwrap();
    (1..=3).for_each(|host| cluster.start_node(host, &["--new"]));
    (1..=3).for_each(|host| cluster.await_answer(host));
    assert!(campaign(&cluster, "before", "1s", "30s"));
    until("its state is saved", || state(&cluster).exists().then_some(()));
    cluster.kill_node(1);
    let mut content = fs::read(state(&cluster)).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(state(&cluster), &content).unwrap();
    let from = cluster.log(1).len();
    cluster.start_node(1, &[]);
    assert_eq!(cluster.node(1).code(), 1);
    let said = cluster.log(1)[from..].to_string();
    for what in [
        "voter.state is damaged: its checksum is wrong",
        "Restore it if you have its latest version",
        "otherwise remove it",
    ] {
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(fs::read(state(&cluster)).unwrap(), content, "the file is unchanged");
    // An operator without the latest state follows the message and removes the file: the voter does not vote any more.
    fs::remove_file(state(&cluster)).unwrap();
    cluster.start_node(1, &[]);
    cluster.await_answer(1);
    let (status, ready) = cluster.get(1, "readiness").unwrap();
    assert!(status == 503 && ready["why"].as_str().unwrap().contains("remove it from the voters"), "{ready}");
    assert!(campaign(&cluster, "after", "1s", "30s"), "the other two are enough");
    cluster.kill_node(3);
    assert!(!campaign(&cluster, "without", "1s", "3s"), "it votes although it has forgotten its votes");
}
