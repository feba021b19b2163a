//! The voters of a cluster of real processes: different lists, and changes while a leader leads.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use suffrage_cli::testing::Ran;

use super::{folder, soon};
use crate::run;

/// Nodes, each a process with a data folder, that vote or do not.
struct Nodes {
    folder: PathBuf,
    udp: BTreeMap<u64, String>,
    http: BTreeMap<u64, String>,
    processes: BTreeMap<u64, Child>,
}

impl Nodes {
    fn new(name: &str) -> Nodes {
        let folder = folder(name);
        assert_eq!(run(&format!("suffrage keygen {}", folder.join("key").display())).code, 0);
        let addresses = || (1..10).map(|id| (id, suffrage_testbed::address().to_string())).collect();
        Nodes { folder, udp: addresses(), http: addresses(), processes: BTreeMap::new() }
    }

    /// A cluster that these voters have founded.
    fn founded(name: &str, voters: &[u64]) -> Nodes {
        let mut nodes = Nodes::new(name);
        for &id in voters {
            nodes.start(id, voters, &["--new"]);
        }
        nodes
    }

    fn configure(&self, id: u64, voters: &[u64]) {
        let list: Vec<String> = voters.iter().map(|voter| format!("{voter}={}", self.udp[voter])).collect();
        let (key, data) = (self.folder.join("key"), self.folder.join(format!("data-{id}")));
        let text = format!(
            "id = {id}\nvoters = \"{}\"\nlisten = \"{}\"\nkeys = {key:?}\ndata = {data:?}\nhttp = \"{}\"\n\
             delay = \"10ms\"\nlog-format = \"json\"\n",
            list.join(","),
            self.udp[&id],
            self.http[&id]
        );
        fs::write(self.folder.join(format!("{id}.toml")), text).unwrap();
    }

    fn start(&mut self, id: u64, voters: &[u64], flags: &[&str]) {
        self.configure(id, voters);
        let log = fs::File::options().create(true).append(true).open(self.folder.join(format!("log-{id}")));
        let process = Command::new(env!("CARGO_BIN_EXE_suffrage"))
            .args(["node", "--config"])
            .arg(self.folder.join(format!("{id}.toml")))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.processes.insert(id, process);
        soon(|| ureq::get(format!("http://{}/liveness", self.http[&id])).call().is_ok().then_some(()));
    }

    fn kill(&mut self, id: u64) {
        let mut process = self.processes.remove(&id).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn log(&self, id: u64) -> String {
        fs::read_to_string(self.folder.join(format!("log-{id}"))).unwrap()
    }

    /// Runs a command line against a node.
    fn ask(&self, id: u64, line: &str) -> Ran {
        run(&format!("suffrage {line} --node http://{}", self.http[&id]))
    }

    /// Runs a change of the voters that succeeds.
    fn change(&self, id: u64, line: &str) {
        let ran = self.ask(id, &format!("voters {line}"));
        assert_eq!(ran.code, 0, "voters {line}: {} {}", ran.out, ran.err);
    }

    fn add(&self, id: u64, new: u64) {
        self.change(id, &format!("add {new}={}", self.udp[&new]));
    }

    fn voters(&self, id: u64) -> Value {
        let listed = self.ask(id, "voters list --json");
        assert_eq!(listed.code, 0, "{}", listed.err);
        serde_json::from_str(&listed.out).unwrap()
    }

    /// The ids of the voters, as a node knows them.
    fn ids(&self, id: u64) -> Vec<u64> {
        let body = self.voters(id);
        body["voters"].as_array().unwrap().iter().map(|voter| voter["id"].as_u64().unwrap()).collect()
    }

    /// Posts. A client whose turn it is campaigns again.
    fn post(&self, id: u64, path: &str, said: &Value) -> (u16, Value) {
        let mut said = said.clone();
        loop {
            let (status, body) = self.post_once(id, path, &said);
            if status != 202 || body["your_turn"] != true {
                return (status, body);
            }
            said["session"] = body["session"].clone();
        }
    }

    fn post_once(&self, id: u64, path: &str, body: &Value) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let url = format!("http://{}/elections/{path}", self.http[&id]);
        let mut answer =
            agent.post(url).header("Content-Type", "application/json").send(body.to_string()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            _ = process.kill();
            _ = process.wait();
        }
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// A client that leads `x` through a node and renews until it is told to stop. Panics if it ever loses the lease.
fn lead(nodes: &Nodes, id: u64, stop: &AtomicBool) {
    let (status, body) = nodes.post(id, "x/campaign", &json!({ "ttl": "2s", "wait": "30s" }));
    assert_eq!(status, 200, "{body}");
    let (session, mut token) = (body["session"].clone(), body["token"].as_u64().unwrap());
    while !stop.load(Ordering::Relaxed) {
        let (status, body) = nodes.post(id, "x/renew", &json!({ "session": session }));
        assert_eq!(status, 200, "the leader has lost its lease: {body}");
        let next = body["token"].as_u64().unwrap();
        assert!(next >= token, "{next} after {token}");
        token = next;
        thread::sleep(Duration::from_millis(50));
    }
}

/// Stops the client when it is dropped, also by a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// From one voter to three to five to three others: the machines of the beginning are all gone at the end. One client leads
/// throughout.
#[test]
fn all_voters_are_replaced_while_one_leader_leads() {
    let mut nodes = Nodes::founded("voters-move", &[1]);
    for id in [2, 3, 9] {
        nodes.start(id, &[1], &[]);
    }
    for id in [4, 5, 6] {
        nodes.start(id, &[1, 2, 3], &[]);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let leader = scope.spawn(|| lead(&nodes, 9, &stop));
        let stopped = Stop(&stop);
        soon(|| (nodes.ask(1, "leader x").code == 0).then_some(()));
        for new in [2, 3, 4, 5] {
            nodes.add(1, new);
            assert!(!leader.is_finished());
        }
        soon(|| (nodes.ids(9) == [1, 2, 3, 4, 5]).then_some(()));
        nodes.change(2, &format!("replace 1 6={}", nodes.udp[&6]));
        for old in [2, 3] {
            // Any node coordinates, also one that does not vote.
            nodes.change(9, &format!("remove {old}"));
        }
        soon(|| (nodes.ids(9) == [4, 5, 6]).then_some(()));
        drop(stopped);
        leader.join().unwrap();
    });
    for old in [1, 2, 3] {
        nodes.kill(old);
    }
    let (status, body) = nodes.post(4, "y/campaign", &json!({ "ttl": "2s", "wait": "30s" }));
    assert_eq!(status, 200, "{body}");
    // The list in its file is that of the founding, and its data folder has the present one.
    nodes.kill(4);
    nodes.start(4, &[1, 2, 3], &[]);
    soon(|| (nodes.ids(4) == [4, 5, 6]).then_some(()));
    let log = nodes.log(9);
    assert!(log.contains("configuration of the cluster") && log.contains("\"4, 5, 6\""), "{log}");
}

/// Nodes whose lists are wrong in different ways: none of them makes a second leader.
#[test]
fn candidates_with_other_lists_of_voters_learn_the_right_one() {
    let mut nodes = Nodes::founded("voters-lists", &[1, 2, 3]);
    let (status, body) = nodes.post(1, "x/campaign", &json!({ "ttl": "50s", "wait": "30s" }));
    assert_eq!(status, 200, "{body}");
    nodes.start(8, &[3], &[]);
    nodes.start(9, &[2, 3, 7], &[]);
    for id in [8, 9] {
        soon(|| (nodes.ids(id) == [1, 2, 3]).then_some(()));
        let (status, body) = nodes.post(id, "x/campaign", &json!({ "ttl": "50s", "wait": "100ms" }));
        assert_eq!(status, 202, "node {id}: {body}");
        soon(|| nodes.ask(id, "why x").out.contains("node 1 leads").then_some(()));
    }
}

#[test]
fn a_voter_does_not_start_with_another_list_than_that_of_its_data_folder() {
    let mut nodes = Nodes::founded("voters-list", &[1, 2, 3]);
    // A voter that is killed before its first save has sent nothing, and may be founded with any list.
    soon(|| nodes.folder.join("data-3/voter.started").exists().then_some(()));
    nodes.kill(3);
    nodes.configure(3, &[3]);
    let refused = run(&format!("suffrage node --config {}", nodes.folder.join("3.toml").display()));
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("voters 1, 2, 3, and the configuration has 3"), "{}", refused.err);
}

/// A voter that was founded with another list is another cluster. Both sides say so.
#[test]
fn a_voter_of_another_cluster_is_ignored_and_reported() {
    let mut nodes = Nodes::new("voters-other");
    for id in [1, 2] {
        nodes.start(id, &[1, 2, 3], &["--new"]);
    }
    nodes.start(3, &[3], &["--new"]);
    soon(|| nodes.log(1).contains("the messages of node 3 are ignored").then_some(()));
    soon(|| nodes.log(3).contains("the messages of node 1 are ignored").then_some(()));
    let why = nodes.ask(1, "why x");
    assert!(why.out.starts_with("node 1: node 3 is ignored: it belongs to another cluster"), "{}", why.out);
    let page = ureq::get(format!("http://{}/metrics", nodes.http[&1])).call().unwrap();
    let page = page.into_body().read_to_string().unwrap();
    assert!(page.contains("suffrage_mismatched_nodes 1\n"), "{page}");
    assert!(!page.contains("suffrage_mismatched_messages_total 0\n"), "{page}");
    let other = nodes.ask(1, &format!("voters add 3={}", nodes.udp[&3]));
    // Node 3 is in the founding list: the cluster cannot adopt a configuration without an answer of its own voter.
    assert_eq!((other.code, nodes.voters(1)["version"].as_u64()), (1, Some(0)), "{}", other.out);
}

#[test]
fn a_change_that_cannot_succeed_changes_nothing() {
    let nodes = Nodes::founded("voters-refused", &[1]);
    let last = nodes.ask(1, "voters remove 1");
    assert!(last.code == 1 && last.out.contains("the last voter cannot be removed"), "{}", last.out);
    let silent = nodes.ask(1, "voters add 7=127.0.0.1:9 --timeout 300ms");
    assert!(silent.code == 1 && silent.out.contains("waits for an answer of 7"), "{}", silent.out);
    assert!(silent.out.ends_with("this node has stopped coordinating it\n"), "{}", silent.out);
    let body = nodes.voters(1);
    assert_eq!((nodes.ids(1), &body["version"], &body["change"]), (vec![1], &json!(0), &Value::Null));
    for line in ["voters", "voters add 7", "voters add 7=nowhere", "voters remove x", "voters replace 1"] {
        assert_eq!(run(&format!("suffrage {line}")).code, 2, "{line}");
    }
}

/// A cluster that is founded anew, as `tokens-above` says.
#[test]
fn tokens_of_a_new_cluster_begin_above_the_configured_number() {
    let mut nodes = Nodes::new("voters-anew");
    nodes.start(1, &[1], &["--new", "--tokens-above", "7000"]);
    let (status, body) = nodes.post(1, "x/campaign", &json!({ "ttl": "2s", "wait": "30s" }));
    assert!(status == 200 && body["token"].as_u64() == Some(7_001), "{body}");
}

/// A node that is no voter found the cluster at version 0, and is started again with another list.
#[test]
fn a_node_that_does_not_vote_starts_again_with_any_list() {
    let mut nodes = Nodes::founded("voters-again", &[1, 2]);
    nodes.start(9, &[1], &[]);
    soon(|| (nodes.voters(9)["certain"] == true).then_some(()));
    nodes.kill(9);
    nodes.start(9, &[2], &[]);
    soon(|| (nodes.ids(9) == [1, 2]).then_some(()));
}

/// The command is killed at some moment, and run again.
#[test]
fn a_killed_command_is_completed_by_the_next() {
    let mut nodes = Nodes::founded("voters-killed", &[1]);
    nodes.start(2, &[1], &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_suffrage"))
        .args([
            "voters",
            "add",
            &format!("2={}", nodes.udp[&2]),
            "--node",
            &format!("http://{}", nodes.http[&1]),
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    soon(|| (nodes.voters(1)["change"] != Value::Null).then_some(()));
    command.kill().unwrap();
    command.wait().unwrap();
    nodes.add(2, 2);
    assert_eq!((nodes.ids(1), nodes.ids(2)), (vec![1, 2], vec![1, 2]));
}

/// A voter that comes back without its data folder does not vote, and is removed and added like a new one.
#[test]
fn a_voter_that_lost_its_data_folder_is_removed_and_added_again() {
    let mut nodes = Nodes::founded("voters-lost", &[1, 2, 3]);
    nodes.change(1, "adopt");
    let disk = |nodes: &Nodes| nodes.voters(1)["voters"][2]["disk"].clone();
    let before = disk(&nodes);
    nodes.kill(3);
    fs::remove_dir_all(nodes.folder.join("data-3")).unwrap();
    nodes.start(3, &[1, 2, 3], &["--new"]);
    // It learns the configuration, which has its id with another disk.
    soon(|| (nodes.voters(3)["version"] == 1).then_some(()));
    nodes.change(1, "remove 3");
    assert_eq!(nodes.ids(2), [1, 2]);
    nodes.add(1, 3);
    assert!(disk(&nodes) != before && disk(&nodes).is_string());
    // Two voters and the new one: without voter 1 they elect a leader.
    nodes.kill(1);
    let (status, body) = nodes.post(3, "x/campaign", &json!({ "ttl": "2s", "wait": "30s" }));
    assert_eq!(status, 200, "{body}");
}
