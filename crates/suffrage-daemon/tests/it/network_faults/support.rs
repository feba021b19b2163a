//! Clusters of `suffrage node`, each on a host of its own, with clients and registers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
pub(crate) use suffrage_testbed::until;
use suffrage_testbed::{Folder, Host, Network};

use crate::network_faults::history::{Acknowledged, Deed, verify};
use crate::network_faults::register::{PORT, Registers, WRITER};

/// The program `suffrage`.
const BINARY: &str = env!("CARGO_BIN_EXE_suffrage");
/// The lease of writers: long enough for a busy machine.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// The election of writers.
pub(crate) const NAME: &str = "register";

/// A process that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn id(&self) -> i32 {
        self.0.id() as i32
    }

    pub(crate) fn signal(&self, sent: Signal) {
        signal(self.id(), sent);
    }

    /// Waits for the exit code.
    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        until("it ends", || self.0.try_wait().unwrap()).code().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Sends an HTTP request; returns the status and the body.
fn ask(url: &str, said: Option<String>) -> Option<(u16, Value)> {
    let timeout = Some(Duration::from_secs(45));
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(timeout);
    let agent: ureq::Agent = config.build().into();
    let answer = match said {
        None => agent.get(url).call(),
        Some(said) => agent.post(url).header("Content-Type", "application/json").send(said),
    };
    let mut answer = answer.ok()?;
    let body = answer.body_mut().read_to_string().ok()?;
    Some((answer.status().as_u16(), serde_json::from_str(&body).unwrap_or(Value::String(body))))
}

/// A leader and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) host: usize,
    pub(crate) token: u64,
}

/// Voters on hosts from 1 on, and the registers on the last host. All of them end when this value is dropped.
pub(crate) struct Cluster {
    pub(crate) network: Network,
    pub(crate) folder: Folder,
    pub(crate) size: usize,
    /// The hosts whose voters found the cluster, and that all nodes are started with.
    founders: Vec<usize>,
    registers: Registers,
    nodes: Vec<Option<Process>>,
    /// The candidates, one per host, if there are any.
    pub(crate) candidates: Vec<Option<Process>>,
    /// A lock: these tests load the machine, and run one at a time.
    _turn: File,
}

impl Cluster {
    /// Running voters without candidates.
    pub(crate) fn start(size: usize, seed: u64) -> Cluster {
        let mut cluster = Cluster::prepare(size, seed);
        for host in 1..=size {
            cluster.start_node(host, &["--new"]);
        }
        (1..=size).for_each(|host| cluster.await_answer(host));
        cluster
    }

    /// Running voters, and on every host a `suffrage run` whose command writes to the registers.
    pub(crate) fn with_writers(size: usize, seed: u64) -> Cluster {
        let mut cluster = Cluster::start(size, seed);
        for host in 1..=size {
            cluster.candidates.push(Some(cluster.run(host, &cluster.keys(host))));
        }
        cluster
    }

    /// A node on every host, of which these found the cluster.
    pub(crate) fn founded_by(founders: &[usize], size: usize, seed: u64) -> Cluster {
        let mut cluster = Cluster::prepare(size, seed);
        cluster.founders = founders.to_vec();
        for host in 1..=size {
            let new: &[&str] = if founders.contains(&host) { &["--new"] } else { &[] };
            cluster.start_node(host, new);
        }
        (1..=size).for_each(|host| cluster.await_answer(host));
        cluster
    }

    /// Hosts, keys and configurations, without running processes.
    pub(crate) fn prepare(size: usize, seed: u64) -> Cluster {
        let turn = File::create(std::env::temp_dir().join("suffrage-faults.lock")).unwrap();
        flock(&turn, FlockOperation::LockExclusive).unwrap();
        let network = Network::new(size + 1, seed).unwrap();
        let folder = Folder::new().unwrap();
        let registers = Registers::serve(network.host(size + 1));
        let nodes = (0..size).map(|_| None).collect();
        let (founders, candidates) = ((1..=size).collect(), Vec::new());
        let cluster = Cluster { network, folder, size, founders, registers, nodes, candidates, _turn: turn };
        for host in 1..=size {
            fs::create_dir(cluster.place(host)).unwrap();
        }
        assert!(cluster.keygen(1, &[]), "there is no key yet");
        (2..=size).for_each(|host| cluster.copy_keys(1, host));
        cluster
    }

    /// The folder of a host.
    pub(crate) fn place(&self, host: usize) -> PathBuf {
        self.folder.path().join(host.to_string())
    }

    pub(crate) fn keys(&self, host: usize) -> PathBuf {
        self.place(host).join("keys")
    }

    /// The data folder of its voter. It may be a link.
    pub(crate) fn data(&self, host: usize) -> PathBuf {
        self.place(host).join("data")
    }

    /// `suffrage keygen` with the keys of this host.
    pub(crate) fn keygen(&self, host: usize, flags: &[&str]) -> bool {
        let mut command = Command::new(BINARY);
        command.arg("keygen").arg(self.keys(host)).args(flags).stdout(Stdio::null());
        command.status().unwrap().success()
    }

    /// Installs a key file as an operator does: atomically and with mode 600.
    pub(crate) fn copy_keys(&self, from: usize, to: usize) {
        let copy = self.place(to).join("keys.copy");
        fs::copy(self.keys(from), &copy).unwrap();
        fs::rename(copy, self.keys(to)).unwrap();
    }

    pub(crate) fn hosts(&self) -> Vec<usize> {
        (1..=self.size).collect()
    }

    fn host(&self, host: usize) -> &Host {
        self.network.host(host)
    }

    /// The UDP address of the node of a host.
    pub(crate) fn address(&self, host: usize) -> String {
        format!("{}:7400", self.host(host).address())
    }

    /// Changes the voters by a command on this host; returns the exit code and the output.
    pub(crate) fn change_voters(&self, host: usize, words: &[&str]) -> (i32, String) {
        let mut command = Command::new(BINARY);
        command.arg("voters").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.host(host).enter(|| command.spawn()).unwrap().wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).to_string())
    }

    /// Begins to change the voters by a command on this host.
    pub(crate) fn begin_change(&self, host: usize, words: &[&str]) -> Process {
        let mut command = Command::new(BINARY);
        command.arg("voters").args(words).stdout(Stdio::null()).stderr(Stdio::null());
        Process(self.host(host).enter(|| command.spawn()).unwrap())
    }

    fn command(&self, host: usize, name: &str, keys: &Path) -> Command {
        let voters: Vec<String> =
            self.founders.iter().map(|&id| format!("{id}={}", self.address(id))).collect();
        let flag = if name == "run" { "--cluster" } else { "--voters" };
        let mut command = Command::new(BINARY);
        command.args([name, flag, &voters.join(","), "--longest-ttl", "20s", "--delay", "50ms"]);
        command.arg("--keys").arg(keys);
        let log = File::options().create(true).append(true).open(self.place(host).join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command
    }

    /// Starts the voter of this host.
    pub(crate) fn start_node(&mut self, host: usize, flags: &[&str]) {
        let mut command = self.command(host, "node", &self.keys(host));
        command.args(["--id", &host.to_string(), "--data"]).arg(self.data(host)).args(flags);
        command.args(["--listen", &self.address(host)]);
        self.nodes[host - 1] = Some(Process(self.host(host).enter(|| command.spawn()).unwrap()));
    }

    pub(crate) fn node(&mut self, host: usize) -> &mut Process {
        self.nodes[host - 1].as_mut().expect("it was started")
    }

    pub(crate) fn kill_node(&mut self, host: usize) {
        self.nodes[host - 1] = None;
    }

    /// `suffrage run` on this host, with these keys. Its id is ten more than the host's number.
    pub(crate) fn run(&self, host: usize, keys: &Path) -> Process {
        let register = format!("{}/{PORT}", self.host(self.size + 1).address());
        let mut command = self.command(host, "run", keys);
        command
            .args(["--name", NAME, "--id", &(host + 10).to_string(), "--stop-grace", "300ms", "--ttl"])
            .arg(format!("{}ms", TTL.as_millis()))
            .args(["--", "bash", "-c", WRITER])
            .env("REGISTER", register)
            .env("NOTES", self.notes());
        Process(self.host(host).enter(|| command.spawn()).unwrap())
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    /// The log of writers, as lines of words.
    fn noted(&self, word: &str) -> Vec<Vec<u64>> {
        let text = fs::read_to_string(self.notes()).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        lines.map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect()
    }

    /// The id of the process that writes with this token.
    pub(crate) fn writer(&self, leader: Leader) -> i32 {
        let started = self.noted("start").into_iter().find(|words| words[0] == leader.token);
        started.expect("it has begun")[2] as i32
    }

    // Queries to nodes.

    /// Sends a request to the daemon of this host over its loopback; returns the status and the body.
    pub(crate) fn get(&self, host: usize, path: &str) -> Option<(u16, Value)> {
        self.http(host, path, None)
    }

    /// Posts. A client whose turn it is campaigns again.
    pub(crate) fn post(&self, host: usize, path: &str, said: &Value) -> Option<(u16, Value)> {
        let mut said = said.clone();
        loop {
            let (status, body) = self.http(host, path, Some(said.to_string()))?;
            if status != 202 || body["your_turn"] != true {
                return Some((status, body));
            }
            said["session"] = body["session"].clone();
        }
    }

    fn http(&self, host: usize, path: &str, said: Option<String>) -> Option<(u16, Value)> {
        let url = format!("http://127.0.0.1:7480/{path}");
        self.host(host).enter(|| ask(&url, said))
    }

    /// A client on this host that repeats a request. It has a thread of its own, and needs nothing else of the cluster.
    pub(crate) fn renewer(
        &self,
        host: usize,
        path: &str,
        said: &Value,
    ) -> impl Fn() -> (u16, Value) + Send + use<> {
        let url = format!("http://127.0.0.1:7480/{path}");
        let (questions, asked) = mpsc::channel::<()>();
        let (answered, answers) = mpsc::channel();
        let said = said.to_string();
        self.host(host).enter(move || {
            // A process is in the network namespace of the thread that starts it.
            thread::spawn(move || {
                while asked.recv().is_ok() && answered.send(ask(&url, Some(said.clone()))).is_ok() {}
            });
        });
        move || {
            questions.send(()).unwrap();
            answers.recv().unwrap().expect("the node answers")
        }
    }

    #[track_caller]
    pub(crate) fn await_answer(&self, host: usize) {
        until(&format!("node {host} answers"), || {
            self.get(host, "liveness").filter(|(status, _)| *status == 200)
        });
    }

    /// The leader, as the node of this host knows it.
    pub(crate) fn believed(&self, host: usize) -> Option<Leader> {
        let (_, said) = self.get(host, &format!("elections/{NAME}"))?;
        Some(Leader { host: said["leader"].as_u64()? as usize - 10, token: said["token"].as_u64()? })
    }

    /// The number of datagrams that this node has dropped as unauthenticated.
    pub(crate) fn strangers(&self, host: usize) -> u64 {
        let (_, said) = self.get(host, "metrics").expect("it answers");
        let name = "suffrage_datagrams_dropped_total{reason=\"unauthenticated\"} ";
        let mut lines = said.as_str().unwrap().lines();
        lines.find_map(|line| line.strip_prefix(name)).expect("it is counted").parse().unwrap()
    }

    pub(crate) fn log(&self, host: usize) -> String {
        fs::read_to_string(self.place(host).join("log")).unwrap_or_default()
    }

    /// Waits for a line of this host's log with this text, after the given number of bytes.
    #[track_caller]
    pub(crate) fn await_log(&self, host: usize, from: usize, what: &str) -> String {
        until(&format!("node {host} logs `{what}`"), || {
            let log = self.log(host);
            log[from..].lines().find(|line| line.contains(what)).map(str::to_string)
        })
    }

    // Queries to registers.

    /// The last leader that began at the register with a fence.
    pub(crate) fn last_leader(&self) -> Option<Leader> {
        let history = self.registers.fenced();
        let begun = history.iter().rfind(|event| event.deed == Deed::Begin && event.taken)?;
        Some(Leader { host: begun.writer as usize - 10, token: begun.token })
    }

    /// The number of accepted writes with this token.
    fn written(&self, token: u64) -> usize {
        let history = self.registers.fenced();
        history.iter().filter(|it| it.taken && it.token == token && it.deed != Deed::Begin).count()
    }

    /// The value of the register with a fence.
    pub(crate) fn number(&self) -> u64 {
        let history = self.registers.fenced();
        let written = history.iter().rev().filter(|event| event.taken);
        written
            .filter_map(|event| match event.deed {
                Deed::Write(number) => Some(number),
                Deed::Begin => None,
            })
            .next()
            .unwrap_or(0)
    }

    /// The number of refusals of this token.
    pub(crate) fn refusals(&self, token: u64) -> usize {
        self.registers.fenced().iter().filter(|event| event.token == token && !event.taken).count()
    }

    /// Waits until a leader with a greater token writes.
    #[track_caller]
    pub(crate) fn leader_after(&self, token: u64) -> Leader {
        until(&format!("a leader after token {token} that writes"), || {
            self.last_leader().filter(|leader| leader.token > token && self.written(leader.token) >= 3)
        })
    }

    /// Waits for more writes with this token. The leader must not change meanwhile.
    #[track_caller]
    pub(crate) fn writes_on(&self, leader: Leader, more: usize) {
        let kept = self.keeps_writing(leader, more);
        assert!(kept, "{leader:?} was deposed by {:?}", self.last_leader());
    }

    /// Waits for more writes with this token, or for another leader. False if another leader came first.
    #[track_caller]
    pub(crate) fn keeps_writing(&self, leader: Leader, more: usize) -> bool {
        let before = self.written(leader.token);
        until(&format!("{leader:?} keeps writing or is deposed"), || {
            let deposed = self.last_leader() != Some(leader);
            (deposed || self.written(leader.token) >= before + more).then_some(!deposed)
        })
    }

    /// The leader's host with the given number of others, and the rest.
    pub(crate) fn sides(&self, leader: Leader, others: usize) -> (Vec<usize>, Vec<usize>) {
        let mut hosts = self.hosts();
        hosts.rotate_left(leader.host - 1);
        let rest = hosts.split_off(others + 1);
        (hosts, rest)
    }

    /// Waits until all nodes agree on a leader.
    #[track_caller]
    pub(crate) fn agreed(&self) -> Leader {
        until("all nodes agree on who leads", || {
            let first = self.believed(1)?;
            (2..=self.size).all(|host| self.believed(host) == Some(first)).then_some(first)
        })
    }

    /// Waits until all nodes know a leader, which must be this one. Its token may be greater by now: voters that have
    /// promised a greater token to others grant the lease with a still greater one, while the command keeps its first
    /// token.
    #[track_caller]
    pub(crate) fn agreed_on(&self, leader: Leader) {
        let agreed = self.agreed();
        assert!(
            agreed.host == leader.host && agreed.token >= leader.token,
            "{agreed:?} leads, not {leader:?}"
        );
    }

    /// Waits until all nodes agree on a leader, and its command has begun; returns the token of the command.
    #[track_caller]
    pub(crate) fn settled(&self) -> Leader {
        until("the leader's command runs", || {
            let agreed = self.agreed();
            self.last_leader().filter(|begun| begun.host == agreed.host && begun.token <= agreed.token)
        })
    }

    /// Checks the history of the register with a fence.
    #[track_caller]
    pub(crate) fn verify_fenced(&self) {
        // The acknowledged writes are read first: later ones are not checked.
        let told = self.acknowledged("fenced");
        match verify(&self.registers.fenced(), &told) {
            Ok(account) => println!("{account:?}; frames: {:?}", self.network.tally()),
            Err(wrong) => panic!("{wrong}"),
        }
    }

    /// Checks the history of the register without a fence: leases alone are enough.
    pub(crate) fn verify_trusting(&self) -> Result<(), crate::network_faults::history::Wrong> {
        let told = self.acknowledged("trusting");
        verify(&self.registers.trusting(), &told).map(drop)
    }

    /// The acknowledged writes.
    fn acknowledged(&self, register: &str) -> Vec<Acknowledged> {
        let noted = self.noted(register);
        noted.iter().map(|it| Acknowledged { token: it[0], writer: it[1], number: it[2] }).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.candidates.clear();
        self.nodes.clear();
        if thread::panicking() {
            for host in self.hosts() {
                println!("host {host} said:\n{}", self.log(host));
            }
        }
    }
}
