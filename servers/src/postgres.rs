//! Servers of PostgreSQL.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_testbed::Folder;

use crate::programs::{Server, program};
use crate::{PATIENCE, Servers};

/// The ttl of the tests. PostgreSQL grants shorter ones, but the machine of the tests may be slow.
pub const TTL: Duration = Duration::from_secs(3);

/// The client in Python that takes part in tests and benchmarks.
pub const CLIENT: &[&str] = &["psycopg[binary]==3.3.8"];

/// A server with its data. It shuts down when it is dropped.
pub struct Postgres {
    /// The address for clients.
    pub address: SocketAddr,
    folder: Folder,
    server: Option<Server>,
    /// Settings beyond those of all servers.
    settings: Vec<String>,
}

fn tool(name: &str) -> PathBuf {
    program(name, "postgresql", &["/usr/lib/postgresql/15/bin"])
}

/// PostgreSQL refuses to run as root: its programs run as the user of the package.
fn as_user(command: &mut Command) -> &mut Command {
    if !rustix::process::geteuid().is_root() {
        return command;
    }
    let number = |flag: &str| {
        let output = Command::new("id").args([flag, "postgres"]).output().expect("id");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().expect("the user postgres")
    };
    command.uid(number("-u")).gid(number("-g")).current_dir("/")
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// A folder that the user of the servers may write.
fn folder() -> Folder {
    let folder = Folder::new().expect("a folder");
    if rustix::process::geteuid().is_root() {
        run(Command::new("chown").arg("postgres:postgres").arg(folder.path()));
    }
    folder
}

/// New data, which every test copies. The next test run removes it.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<Folder> = OnceLock::new();
    let made = TEMPLATE.get_or_init(|| {
        let (initdb, folder) = (tool("initdb"), folder());
        let data = folder.path().join("data");
        run(as_user(
            Command::new(initdb).args(["-U", "postgres", "--auth=trust", "--no-sync"]).arg("-D").arg(&data),
        ));
        folder
    });
    made.path()
}

/// Starts a server.
pub fn start() -> Postgres {
    start_with(&[])
}

/// Starts a server with these settings.
pub fn start_with(settings: &[&str]) -> Postgres {
    let postgres = create(settings);
    run(as_user(Command::new("cp").arg("-a").arg(template().join("data")).arg(postgres.folder.path())));
    let mut postgres = postgres;
    postgres.launch();
    postgres
}

/// A server without data.
fn create(settings: &[&str]) -> Postgres {
    let settings = settings.iter().map(ToString::to_string).collect();
    Postgres { address: suffrage_testbed::address(), folder: folder(), server: None, settings }
}

impl Postgres {
    /// Copies a running server as its standby, which is not started.
    pub fn standby(&self, name: &str, settings: &[&str]) -> Postgres {
        let standby = create(settings);
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let mut command = Command::new(tool("pg_basebackup"));
        command.args(["-h", &host, "-p", &port, "-U", "postgres", "-c", "fast", "-R", "--no-sync", "-D"]);
        run(as_user(command.arg(standby.data())));
        let connection = format!("host={host} port={port} user=postgres application_name={name}");
        let mut file =
            std::fs::File::options().append(true).open(standby.data().join("postgresql.auto.conf"));
        std::io::Write::write_all(
            file.as_mut().expect("a file"),
            format!("primary_conninfo = '{connection}'\n").as_bytes(),
        )
        .expect("a file");
        standby
    }

    /// The folder of the data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the server, and waits until it answers.
    pub fn launch(&mut self) {
        let log = self.folder.path().join("log");
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let start = std::time::Instant::now();
        loop {
            let running = self.server.as_mut().is_some_and(|server| matches!(server.0.try_wait(), Ok(None)));
            if !running {
                // After a crash, the server does not start before the processes of the last one have ended.
                let mut command = Command::new(tool("postgres"));
                command
                    .arg("-D")
                    .arg(self.data())
                    .args(["-h", &host, "-p", &port, "-k"])
                    .arg(self.folder.path());
                for setting in &self.settings {
                    command.args(["-c", setting]);
                }
                self.server = Some(Server::start(as_user(&mut command), &log));
            }
            let mut ready = Command::new(tool("pg_isready"));
            ready.args(["-q", "-t", "1", "-h", &host, "-p", &port]);
            if ready.status().expect("pg_isready").success() {
                return;
            }
            let text = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "the server does not start: {}", text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the server.
    pub fn crash(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
    }

    /// Stops the server in order.
    pub fn stop(&mut self, signal: Signal) {
        if let Some(mut server) = self.server.take() {
            server.signal(signal);
            _ = server.0.wait();
        }
    }

    /// The standby becomes a server that can be written.
    pub fn promote(&self) {
        run(as_user(Command::new(tool("pg_ctl")).args(["promote", "-w", "-D"]).arg(self.data())));
    }

    /// A command of psql to this server.
    pub fn psql(&self) -> Command {
        let mut command = Command::new(tool("psql"));
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        command.args([
            "-h",
            &host,
            "-p",
            &port,
            "-U",
            "postgres",
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        command
    }

    /// Executes a statement.
    pub fn sql(&self, statement: &str) -> String {
        run(self.psql().args(["-c", statement]))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown: the server removes its shared memory.
        self.stop(Signal::QUIT);
    }
}

impl Servers for Postgres {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("postgres://postgres@{}/postgres", hosts.join(","))
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn pids(&self) -> Vec<u32> {
        self.server.iter().map(Server::id).collect()
    }

    /// PostgreSQL has one server that can be written.
    fn kill_leading_server(&mut self) -> bool {
        false
    }

    fn restart_all(&mut self) {
        self.crash();
        self.launch();
    }

    fn delete_entry(&self, name: &str) {
        self.sql(&format!("DELETE FROM suffrage_election WHERE name = '{name}'"));
    }
}
