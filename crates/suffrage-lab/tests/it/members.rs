//! Every algorithm as a cluster of real processes: `suffrage-lab member`, and the demo that is made of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::{Contract, Roster, Safety};
use suffrage_net::Keyring;
use suffrage_testbed::Folder;

use suffrage_testbed::{Process, alone, until};

/// The program as users have it.
const BINARY: &str = env!("CARGO_BIN_EXE_suffrage-lab");

/// An election that does not persist, and has failed, is called again after this long.
const ANOTHER: Duration = Duration::from_secs(10);

/// What a member believes: whether it is ready, and whom it takes for the leader, itself perhaps.
#[derive(Clone, Copy, Debug, Default)]
struct Belief {
    ready: bool,
    leader: Option<u64>,
}

struct Member {
    process: Process,
    belief: Arc<Mutex<Belief>>,
}

/// Members of one cluster, and a folder that ends with them.
struct Members {
    contract: &'static Contract,
    addresses: String,
    /// They end before their folder does.
    running: BTreeMap<u64, Member>,
    folder: Folder,
}

impl Members {
    fn prepare(algorithm: &str, count: u64) -> Members {
        let folder = Folder::new().unwrap();
        Keyring::generate().unwrap().create(&folder.path().join("keys")).unwrap();
        let addresses: Vec<String> =
            (1..=count).map(|id| format!("{id}={}", suffrage_testbed::address())).collect();
        let contract = CONTRACTS.iter().find(|contract| contract.name == algorithm).unwrap();
        Members { contract, addresses: addresses.join(","), running: BTreeMap::new(), folder }
    }

    /// A new cluster, all of which are ready; then all are told to campaign, as whoever starts a cluster does.
    fn start(algorithm: &str, count: u64) -> Members {
        let mut members = Members::prepare(algorithm, count);
        for id in 1..=count {
            members.begin(id, &["--new", "--wait"]);
        }
        until("all are ready", || {
            let ready = |member: &Member| member.belief.lock().unwrap().ready;
            members.running.values().all(ready).then_some(())
        });
        members.campaign();
        members
    }

    fn command(&self, id: u64) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(["member", "--algorithm", self.contract.name, "--json", "--delay", "50ms", "--input"])
            .args(["--id", &id.to_string(), "--cluster", &self.addresses, "--keys"])
            .arg(self.folder.path().join("keys"))
            .arg("--data")
            .arg(self.folder.path().join(id.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn begin(&mut self, id: u64, more: &[&str]) {
        let mut child = self.command(id).args(more).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let belief = Arc::new(Mutex::new(Belief::default()));
        let told = Arc::clone(&belief);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let object: Value = serde_json::from_str(&line).expect("an object a line");
                let mut belief = told.lock().unwrap();
                match object["event"].as_str().unwrap() {
                    "ready" => belief.ready = true,
                    "leads" => belief.leader = Some(id),
                    "follows" => belief.leader = object["leader"].as_u64(),
                    "steps-down" | "knows-nobody" => belief.leader = None,
                    "suspects" | "restores" => assert!(object["peer"].is_u64()),
                    other => panic!("{other}"),
                }
            }
        });
        self.running.insert(id, Member { process: Process(child), belief });
    }

    fn campaign(&mut self) {
        for member in self.running.values_mut() {
            member.process.0.stdin.as_mut().unwrap().write_all(b"campaign\n").unwrap();
        }
    }

    /// Whom all that run believe in, and it itself; where that is only likely, more than half, and none in another.
    fn agreed(&self) -> Option<u64> {
        let believed = self.running.values().map(|member| member.belief.lock().unwrap().leader);
        let believed: Vec<Option<u64>> = believed.collect();
        let leader = believed.iter().copied().flatten().next()?;
        let believers = believed.iter().filter(|&&other| other == Some(leader)).count();
        let others = believed.iter().flatten().count() - believers;
        let enough = match self.contract.safety {
            Safety::WithHighProbability => believers > believed.len() / 2 && others == 0,
            _ => believers == believed.len(),
        };
        (enough && self.running.contains_key(&leader)).then_some(leader)
    }

    #[track_caller]
    fn agreement(&mut self, what: &str) -> u64 {
        let mut called = Instant::now();
        until(&format!("{}: {what}", self.contract.name), || {
            if !self.contract.retries && called.elapsed() > ANOTHER {
                called = Instant::now();
                self.campaign();
            }
            self.agreed()
        })
    }

    fn suffices(&self, count: u64) -> bool {
        let runner = suffrage_lab::member_runner::runner(self.contract.name, &[]).unwrap().unwrap();
        let present: Vec<bool> = (1..=count).map(|id| self.running.contains_key(&id)).collect();
        runner.suffices(&Roster::numbered(present.len()), &present)
    }
}

/// Elects; the leader is killed; those that are left elect, if they are enough.
fn elect_twice(algorithm: &str, count: u64) {
    let mut members = Members::start(algorithm, count);
    let first = members.agreement("a leader");
    // Dropped, it is killed with SIGKILL.
    drop(members.running.remove(&first));
    if members.suffices(count) {
        let second = members.agreement("the next leader");
        assert_ne!(first, second, "{algorithm}");
    }
}

/// A few at a time: each is three processes.
#[test]
fn every_algorithm_elects_and_survives_its_leader() {
    let _alone = alone();
    for contracts in CONTRACTS.chunks(4) {
        thread::scope(|scope| {
            for contract in contracts {
                scope.spawn(|| elect_twice(contract.name, 3));
            }
        });
    }
}

/// "When a crashed process reboots, it holds an election": the best takes over again.
#[test]
fn a_bully_that_comes_back_takes_over() {
    let mut members = Members::start("bully", 3);
    assert_eq!(members.agreement("the best leads"), 3);
    drop(members.running.remove(&3));
    assert_eq!(members.agreement("the next leads"), 2);
    members.begin(3, &[]);
    until("the best leads again", || (members.agreed() == Some(3)).then_some(()));
}

/// What the contract does not promise: one that stands still still believes to lead when it goes on; in the end
/// there is one leader.
#[test]
fn a_leader_that_stood_still_and_another_become_one() {
    let mut members = Members::start("bully", 3);
    assert_eq!(members.agreement("the best leads"), 3);
    let best = &members.running[&3];
    best.process.signal(Signal::STOP);
    let others = || [1, 2].map(|id| members.running[&id].belief.lock().unwrap().leader);
    until("the next leads", || (others() == [Some(2); 2]).then_some(()));
    assert_eq!(best.belief.lock().unwrap().leader, Some(3), "split brain");
    best.process.signal(Signal::CONT);
    until("one leads", || (members.agreed() == Some(3)).then_some(()));
}

/// Raft keeps its votes: all are killed, and come back with what they had.
#[test]
fn a_raft_cluster_that_was_killed_goes_on_in_a_later_term() {
    let mut members = Members::start("raft", 3);
    members.agreement("a leader");
    members.running.clear();
    let state = |id: u64| members.folder.path().join(id.to_string()).join("raft.state");
    assert!((1..=3).all(|id| state(id).exists()));
    for id in 1..=3 {
        members.begin(id, &[]);
    }
    members.agreement("a leader again");
}

#[test]
fn a_leader_that_is_told_to_end_hands_over() {
    let mut members = Members::start("raft", 3);
    let first = members.agreement("a leader");
    let mut leader = members.running.remove(&first).unwrap();
    leader.process.signal(Signal::TERM);
    assert_eq!(leader.process.code(), 0);
    assert_ne!(leader.belief.lock().unwrap().leader, Some(first), "it has said that it leads no more");
    assert_ne!(members.agreement("the next leader"), first);
}

#[test]
fn what_a_member_is_told_wrongly_is_said() {
    let members = Members::prepare("bully", 3);
    let complaint = |id: u64, more: &[&str]| {
        let output = members.command(id).args(more).stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for (id, more, code, word) in [
        (7, &["--new"][..], 2, "--id: 7 is not one of --cluster"),
        (1, &["--new", "--set", "reafirm=1"], 2, "no parameter `reafirm`"),
        (1, &["--new", "--set", "reaffirm"], 2, "like reaffirm=10"),
        (1, &["--new", "--listen", "here"], 2, "here"),
        (1, &[], 1, "is not the data folder of a node"),
    ] {
        let (found, text) = complaint(id, more);
        assert!(found == code && text.contains(word), "{id} {more:?}: {found} {text}");
    }
}

/// The leader, who was killed, and who led after it, as a demo tells.
fn demo(algorithm: &str) {
    let arguments = ["demo", "--once", "--algorithm", algorithm];
    let child = Command::new(BINARY).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(output.status.success(), "{algorithm}\n{text}");
    let (before, after) = text.split_once(", is killed with SIGKILL\n").expect("it is killed");
    let last = before.lines().last().unwrap();
    let killed = last.split_once("node ").unwrap().1.split_once(',').unwrap().0;
    assert!(before.contains(&format!("follow node {killed}, ")), "{algorithm}\n{text}");
    let next = after.split(" follow node ").nth(1).expect("another is followed").split_once(',').unwrap().0;
    assert_ne!(killed, next, "{algorithm}\n{text}");
    assert!(after.contains(&format!("node {next} leads in term ")), "{algorithm}\n{text}");
    assert!(after.contains(" after the kill"), "{algorithm}\n{text}");
    let contract = CONTRACTS.iter().find(|contract| contract.name == algorithm).unwrap();
    assert!(text.contains("Not promised: ") && text.contains(contract.name), "{text}");
}

#[test]
fn the_demo_shows_other_algorithms() {
    let _alone = alone();
    for algorithms in [&["bully", "chang-roberts", "raft"][..], &["gupta", "invitation"]] {
        thread::scope(|scope| {
            for algorithm in algorithms {
                scope.spawn(|| demo(algorithm));
            }
        });
    }
}

/// Two of raft: one is no majority, and the demo says so instead of waiting for ever.
#[test]
fn the_demo_says_when_too_few_are_left() {
    let arguments = ["demo", "--once", "--algorithm", "raft", "--nodes", "2"];
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("too few to elect a leader"), "{text}");
}
