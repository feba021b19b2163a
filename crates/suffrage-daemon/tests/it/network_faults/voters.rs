//! The voters change while commands and HTTP clients lead: from one machine to five, and to other machines altogether.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use suffrage_testbed::LinkConditions;

use crate::network_faults::support::{Cluster, until};

const MS: Duration = Duration::from_millis(1);

/// The ids of the voters, as the node of this host knows them.
fn voters(cluster: &Cluster, host: usize) -> Vec<u64> {
    let Some((_, body)) = cluster.get(host, "voters") else { return Vec::new() };
    let voters = body["voters"].as_array().into_iter().flatten();
    voters.filter_map(|voter| voter["id"].as_u64()).collect()
}

/// Changes the voters; the command must succeed.
#[track_caller]
fn change(cluster: &Cluster, host: usize, words: &[&str]) {
    let (code, text) = cluster.change_voters(host, words);
    assert_eq!(code, 0, "voters {words:?} at {host}: {text}");
}

#[track_caller]
fn add(cluster: &Cluster, host: usize, new: usize) {
    change(cluster, host, &["add", &format!("{new}={}", cluster.address(new))]);
}

/// An HTTP client that renews its lease until it is dropped.
struct Client {
    lost: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Client {
    fn renew(cluster: &Cluster, host: usize, session: &Value) -> Client {
        let client = Client { lost: Arc::default(), stop: Arc::default() };
        let renew = cluster.renewer(host, "elections/client/renew", &json!({ "session": session }));
        let (lost, stop) = (Arc::clone(&client.lost), Arc::clone(&client.stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                lost.fetch_or(renew().0 != 200, Ordering::Relaxed);
                thread::sleep(200 * MS);
            }
        });
        client
    }

    #[track_caller]
    fn leads(&self) {
        assert!(!self.lost.load(Ordering::Relaxed), "the client has lost its lease");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn one_voter_becomes_five_while_one_command_and_one_client_lead() {
    let mut cluster = Cluster::founded_by(&[1], 5, 11);
    for host in 1..=2 {
        cluster.candidates.push(Some(cluster.run(host, &cluster.keys(host))));
    }
    let leader = cluster.leader_after(0);
    let campaign = json!({ "ttl": "3s", "wait": "30s" });
    let (status, body) = cluster.post(3, "elections/client/campaign", &campaign).unwrap();
    assert_eq!(status, 200, "{body}");
    let client = Client::renew(&cluster, 3, &body["session"]);
    for (host, new) in [(1, 2), (1, 3), (2, 4), (5, 5)] {
        add(&cluster, host, new);
        client.leads();
        cluster.writes_on(leader, 3);
    }
    until("all nodes know the voters", || {
        (1..=5).all(|host| voters(&cluster, host) == [1, 2, 3, 4, 5]).then_some(())
    });
    // Two of five voters die, one of them that founded the cluster.
    cluster.kill_node(1);
    cluster.kill_node(4);
    cluster.writes_on(leader, 20);
    client.leads();
    change(&cluster, 2, &["remove", "1"]);
    change(&cluster, 3, &["remove", "4"]);
    client.leads();
    cluster.writes_on(leader, 3);
    cluster.verify_fenced();
    cluster.verify_trusting().unwrap();
}

/// Every machine is replaced, while messages are lost, doubled and late, and nodes are killed. Commands that fail in between
/// are run again.
#[test]
fn all_machines_are_replaced_under_faults() {
    let mut cluster = Cluster::founded_by(&[1, 2, 3], 6, 12);
    for host in 4..=6 {
        while cluster.candidates.len() < host - 1 {
            cluster.candidates.push(None);
        }
        cluster.candidates.push(Some(cluster.run(host, &cluster.keys(host))));
    }
    let first = cluster.leader_after(0);
    let bad = LinkConditions { loss: 0.1, delay: 2 * MS, jitter: 40 * MS, duplication: 0.2 };
    cluster.network.set_conditions_everywhere(bad);
    for (old, new) in [(1_u32, 4), (2, 5), (3, 6)] {
        let words =
            ["replace", &old.to_string(), &format!("{new}={}", cluster.address(new)), "--timeout", "10s"];
        // The new voter and the command are killed in the middle of the change.
        let command = cluster.begin_change(5, &words);
        thread::sleep(100 * MS * old);
        cluster.kill_node(new);
        drop(command);
        cluster.start_node(new, &[]);
        cluster.await_answer(new);
        until(&format!("{old} is replaced"), || {
            let (code, text) = cluster.change_voters(5, &words);
            println!("{text}");
            (code == 0).then_some(())
        });
        cluster.verify_fenced();
    }
    for old in [1, 2, 3] {
        cluster.kill_node(old);
    }
    cluster.network.heal();
    until("the new voters know each other", || {
        (4..=6).all(|host| voters(&cluster, host) == [4, 5, 6]).then_some(())
    });
    let last = until("a leader that writes", || {
        let leader = cluster.last_leader()?;
        cluster.keeps_writing(leader, 20).then_some(leader)
    });
    assert!(last.token >= first.token);
    cluster.verify_fenced();
    let listed: Value = cluster.get(4, "voters").unwrap().1;
    assert!(listed["version"].as_u64().is_some_and(|version| version >= 7), "{listed}");
}
