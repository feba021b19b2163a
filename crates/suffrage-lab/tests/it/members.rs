//! Every algorithm as a cluster of real processes: tests of `suffrage-lab member` and of the demo.

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

/// The path of the program.
const BINARY: &str = env!("CARGO_BIN_EXE_suffrage-lab");

/// The time after which a failed election is called again, if the algorithm does not retry.
const RETRY: Duration = Duration::from_secs(10);

/// The belief of a member: whether it is ready, and its leader, which may be the member itself.
#[derive(Clone, Copy, Debug, Default)]
struct Belief {
    ready: bool,
    leader: Option<u64>,
}

struct Member {
    process: Process,
    belief: Arc<Mutex<Belief>>,
}

/// The members of one cluster, and their folder.
struct Members {
    contract: &'static Contract,
    addresses: String,
    /// Dropped before the folder: the processes end before their files are removed.
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

    /// Starts a new cluster, waits until all members are ready, and tells all to campaign.
    fn start(algorithm: &str, count: u64) -> Members {
        let mut members = Members::prepare(algorithm, count);
        for id in 1..=count {
            members.start_member(id, &["--new", "--wait"]);
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

    fn start_member(&mut self, id: u64, more: &[&str]) {
        let mut child = self.command(id).args(more).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let belief = Arc::new(Mutex::new(Belief::default()));
        let reported = Arc::clone(&belief);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let object: Value = serde_json::from_str(&line).expect("every line is an object");
                let mut belief = reported.lock().unwrap();
                match object["event"].as_str().unwrap() {
                    "ready" => belief.ready = true,
                    "leads" => belief.leader = Some(id),
                    "follows" => belief.leader = object["leader"].as_u64(),
                    "steps-down" | "undecided" => belief.leader = None,
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

    /// The running leader that all members believe in. With high-probability safety, more than half of the members
    /// must believe in it, and none in another.
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
            if !self.contract.retries && called.elapsed() > RETRY {
                called = Instant::now();
                self.campaign();
            }
            self.agreed()
        })
    }

    fn can_elect(&self, count: u64) -> bool {
        let runner = suffrage_lab::member_runner::runner(self.contract.name, &[]).unwrap().unwrap();
        let present: Vec<bool> = (1..=count).map(|id| self.running.contains_key(&id)).collect();
        runner.can_elect(&Roster::numbered(present.len()), &present)
    }
}

/// Elects a leader, kills it, and elects the next if the remaining members can.
fn elect_twice(algorithm: &str, count: u64) {
    let mut members = Members::start(algorithm, count);
    let first = members.agreement("a leader");
    // Drop kills the process with SIGKILL.
    drop(members.running.remove(&first));
    if members.can_elect(count) {
        let second = members.agreement("the next leader");
        assert_ne!(first, second, "{algorithm}");
    }
}

/// Four algorithms at a time, each with three processes.
#[test]
fn every_algorithm_elects_again_after_its_leader_is_killed() {
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
fn a_restarted_bully_takes_over() {
    let mut members = Members::start("bully", 3);
    assert_eq!(members.agreement("the best leads"), 3);
    drop(members.running.remove(&3));
    assert_eq!(members.agreement("the next leads"), 2);
    members.start_member(3, &[]);
    until("the best leads again", || (members.agreed() == Some(3)).then_some(()));
}

/// The contract allows a split brain: a suspended leader still believes that it leads when it resumes. In the end
/// there is one leader.
#[test]
fn a_suspended_leader_and_its_successor_end_with_one_leader() {
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

/// Raft stores its votes: all members are killed and restart with their state.
#[test]
fn a_killed_raft_cluster_elects_again_after_a_restart() {
    let mut members = Members::start("raft", 3);
    members.agreement("a leader");
    members.running.clear();
    let state = |id: u64| members.folder.path().join(id.to_string()).join("raft.state");
    assert!((1..=3).all(|id| state(id).exists()));
    for id in 1..=3 {
        members.start_member(id, &[]);
    }
    members.agreement("a leader again");
}

#[test]
fn a_leader_resigns_on_sigterm() {
    let mut members = Members::start("raft", 3);
    let first = members.agreement("a leader");
    let mut leader = members.running.remove(&first).unwrap();
    leader.process.signal(Signal::TERM);
    assert_eq!(leader.process.code(), 0);
    assert_ne!(
        leader.belief.lock().unwrap().leader,
        Some(first),
        "the member reported that it no longer leads"
    );
    assert_ne!(members.agreement("the next leader"), first);
}

#[test]
fn invalid_flags_of_a_member_are_named() {
    let members = Members::prepare("bully", 3);
    let error = |id: u64, more: &[&str]| {
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
        let (found, text) = error(id, more);
        assert!(found == code && text.contains(word), "{id} {more:?}: {found} {text}");
    }
}

/// Runs a demo and checks its text: the killed leader and the next one.
fn demo(algorithm: &str) {
    let arguments = ["demo", "--once", "--algorithm", algorithm];
    let child = Command::new(BINARY).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(output.status.success(), "{algorithm}\n{text}");
    let (before, after) = text.split_once(", is killed with SIGKILL\n").expect("the leader is killed");
    let last = before.lines().last().unwrap();
    let killed = last.split_once("node ").unwrap().1.split_once(',').unwrap().0;
    assert!(before.contains(&format!("follow node {killed}, ")), "{algorithm}\n{text}");
    let next =
        after.split(" follow node ").nth(1).expect("another node is followed").split_once(',').unwrap().0;
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

/// One of two nodes of raft is no majority: the demo says so instead of waiting for ever.
#[test]
fn the_demo_says_when_too_few_are_left() {
    let arguments = ["demo", "--once", "--algorithm", "raft", "--nodes", "2"];
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("too few to elect a leader"), "{text}");
}
