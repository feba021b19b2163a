//! Servers of Redis.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use suffrage_testbed::Folder;

use crate::programs::{Server, program};
use crate::{PATIENCE, Servers};

/// The ttl of the tests. Redis grants shorter ones, but the machine of the tests may be slow.
pub const TTL: Duration = Duration::from_secs(3);

/// The client in Python that takes part in tests and benchmarks.
pub const CLIENT: &[&str] = &["redlock-ng==2.0.4"];

/// A server with its data.
pub struct Redis {
    /// The address for clients.
    pub address: SocketAddr,
    folder: Folder,
    server: Option<Server>,
    settings: Vec<String>,
    /// Arguments of redis-cli beyond the address.
    client: Vec<String>,
}

/// The settings of a server that keeps every write.
pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Starts a server that keeps every write.
pub fn start() -> Redis {
    start_with(&DURABLE, &[])
}

/// Starts a server with these settings, and with arguments for redis-cli.
pub fn start_with(settings: &[&str], client: &[&str]) -> Redis {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let (folder, address) = (Folder::new().expect("a folder"), suffrage_testbed::address());
    let mut redis = Redis { address, folder, server: None, settings: owned(settings), client: owned(client) };
    redis.launch();
    redis
}

impl Redis {
    /// The folder of the data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server, and waits until it answers.
    pub fn launch(&mut self) {
        let mut command = Command::new(program("redis-server", "redis-server", &[]));
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        if !self.settings.iter().any(|setting| setting == "--tls-port") {
            command.args(["--port", &port]);
        }
        command
            .args(["--bind", &host, "--save", "", "--protected-mode", "no", "--dir"])
            .arg(self.folder.path());
        self.server = Some(Server::start(command.args(&self.settings), &self.folder.path().join("log")));
        let start = Instant::now();
        while self.try_command(&["PING"]).as_deref() != Some("PONG") {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let start_of_log = || log().lines().take(30).collect::<Vec<_>>().join("\n");
            assert!(start.elapsed() < PATIENCE, "the server does not start: {}", start_of_log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the server.
    pub fn crash(&mut self) {
        drop(self.server.take());
    }

    fn try_command(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new(program("redis-cli", "redis-tools", &[]));
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        command.args(["-h", &host, "-p", &port, "--no-auth-warning"]).args(&self.client).args(words);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().expect("redis-cli");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    /// Executes a command.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).unwrap_or_else(|| panic!("{words:?} fails"))
    }
}

impl Servers for Redis {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("redis://{}/1", hosts.join(","))
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn pids(&self) -> Vec<u32> {
        self.server.iter().map(Server::id).collect()
    }

    /// Redis has one server that can be written. The tests of suffrage-engines show what a fail-over to a replica loses.
    fn kill_leading_server(&mut self) -> bool {
        false
    }

    fn restart_all(&mut self) {
        self.crash();
        self.launch();
    }

    fn delete_entry(&self, name: &str) {
        assert_eq!(self.command(&["-n", "1", "DEL", name]), "1");
    }
}
