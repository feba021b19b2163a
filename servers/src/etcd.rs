//! Servers of etcd.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use suffrage_testbed::Folder;

use crate::Servers;
use crate::programs::{Server, program};

/// The prefix of all elections on these servers.
pub const PREFIX: &str = "tests/engines";

/// Running servers.
pub struct Etcd {
    /// Dropped before the folder.
    servers: Vec<Server>,
    /// The folder of their data.
    pub folder: Folder,
    peers: Vec<SocketAddr>,
    /// The addresses for clients.
    pub clients: Vec<SocketAddr>,
    /// Further flags of the servers.
    flags: Vec<String>,
    /// `https` if the flags say so.
    scheme: &'static str,
    /// The flags of `etcdctl`, after `--endpoints`.
    pub client_flags: Vec<String>,
}

impl Etcd {
    /// Starts this many servers with further flags, which may need files in their folder.
    pub fn start(count: usize, scheme: &'static str, flags: impl FnOnce(&Folder) -> Vec<String>) -> Etcd {
        let addresses = || (0..count).map(|_| suffrage_testbed::address()).collect();
        let folder = Folder::new().unwrap();
        let flags = flags(&folder);
        let (servers, client_flags) = (Vec::new(), Vec::new());
        let mut etcd =
            Etcd { servers, folder, peers: addresses(), clients: addresses(), flags, scheme, client_flags };
        etcd.servers = (0..count).map(|index| etcd.start_server(index)).collect();
        if scheme == "http" {
            suffrage_testbed::until("a leading server", || etcd.leading_server());
        }
        etcd
    }

    fn start_server(&self, index: usize) -> Server {
        let scheme = self.scheme;
        let (peer, client) = (self.peers[index], self.clients[index]);
        let all: Vec<String> =
            self.peers.iter().enumerate().map(|(index, peer)| format!("s{index}=http://{peer}")).collect();
        let mut command = Command::new(program("etcd", "etcd-server", &[]));
        command
            .arg(format!("--name=s{index}"))
            .arg(format!("--data-dir={}", self.folder.path().join(format!("s{index}")).display()))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--listen-client-urls={scheme}://{client}"))
            .arg(format!("--advertise-client-urls={scheme}://{client}"))
            .arg(format!("--initial-cluster={}", all.join(",")))
            .args(["--logger=zap", "--log-level=error"])
            .args(&self.flags);
        Server::start(&mut command, &self.folder.path().join(format!("log-{index}")))
    }

    /// A command of etcd's own client.
    pub fn etcdctl(&self, arguments: &[&str]) -> Command {
        let endpoints: Vec<String> =
            self.clients.iter().map(|client| format!("{}://{client}", self.scheme)).collect();
        let mut command = Command::new(program("etcdctl", "etcd-client", &[]));
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", endpoints.join(",")));
        command.args(&self.client_flags).args(arguments).stdin(Stdio::null());
        command
    }

    /// The output of a command that succeeds.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let output = self.etcdctl(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The index of the leading server.
    pub fn leading_server(&self) -> Option<usize> {
        let output = self.etcdctl(&["endpoint", "status", "-w", "simple"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let leads =
            |line: &&str| line.split(", ").nth(4) == Some("true") && line.split(", ").nth(6) != Some("0");
        let line = text.lines().find(leads)?;
        self.clients.iter().position(|client| line.contains(&client.to_string()))
    }

    /// The keys of an election, the leader's first.
    pub fn keys(&self, name: &str) -> Vec<String> {
        let prefix = format!("{PREFIX}/{name}/");
        let text =
            self.ask(&["get", "--prefix", &prefix, "--sort-by=CREATE", "--order=ASCEND", "--keys-only"]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_string).collect()
    }
}

impl Servers for Etcd {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.clients.clone()
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        format!("etcd://{}/{PREFIX}", hosts.join(","))
    }

    /// Twice the shortest: other tests load the machine.
    fn ttl(&self) -> Duration {
        Duration::from_secs(4)
    }

    fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::id).collect()
    }

    fn kill_leading_server(&mut self) -> bool {
        let leading = self.leading_server().expect("a leading server");
        self.servers[leading].kill();
        true
    }

    fn restart_all(&mut self) {
        self.servers.iter_mut().for_each(Server::kill);
        self.servers = (0..self.clients.len()).map(|index| self.start_server(index)).collect();
    }

    fn delete_entry(&self, name: &str) {
        let key = self.keys(name).into_iter().next().expect("a leader");
        assert_eq!(self.ask(&["del", &key]).trim(), "1");
    }
}
