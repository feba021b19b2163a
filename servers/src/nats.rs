//! Servers of NATS, with JetStream.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use suffrage_testbed::Folder;

use crate::Servers;
use crate::programs::{Server, program, python};

/// The ttl of the tests. NATS grants shorter ones, but the machine of the tests may be slow.
pub const TTL: Duration = Duration::from_secs(4);
/// The official client, for tools and as a foreign candidate.
pub const CLIENT: &[&str] = &["nats-py==2.16.0"];

/// Three servers, or one.
pub struct Nats {
    program: PathBuf,
    /// The folder of their data.
    pub folder: Folder,
    clients: Vec<SocketAddr>,
    servers: Vec<Option<Server>>,
    /// User, password or token in the URL, with its `@`.
    user: &'static str,
}

impl Nats {
    /// `settings` are further settings of all servers.
    pub fn new(program: PathBuf, count: usize, settings: &str, user: &'static str) -> Nats {
        let servers = Nats::unready(program, count, settings, user);
        servers.tool(&["ready"]);
        servers
    }

    /// Servers that listen, and may not yet serve.
    pub fn unready(program: PathBuf, count: usize, settings: &str, user: &'static str) -> Nats {
        let folder = Folder::new().unwrap();
        let clients: Vec<SocketAddr> = (0..count).map(|_| suffrage_testbed::address()).collect();
        let peers: Vec<SocketAddr> = (0..count).map(|_| suffrage_testbed::address()).collect();
        let routes: Vec<String> = peers.iter().map(|peer| format!("nats-route://{peer}")).collect();
        for (number, (client, peer)) in clients.iter().zip(&peers).enumerate() {
            let data = folder.path().join(format!("data-{number}"));
            let mut config = format!(
                "server_name: server-{number}\nlisten: \"{client}\"\njetstream {{ store_dir: \"{}\" }}\n{settings}\n",
                data.display()
            );
            if count > 1 {
                let routes = routes.join(", ");
                writeln!(config, "cluster {{ name: test, listen: \"{peer}\", routes: [{routes}] }}").unwrap();
            }
            std::fs::write(folder.path().join(format!("{number}.conf")), config).unwrap();
        }
        let servers = (0..count).map(|_| None).collect();
        let mut all = Nats { program, folder, clients, servers, user };
        all.start();
        all
    }

    /// Three servers of Debian's package.
    pub fn three() -> Nats {
        Nats::new(program("nats-server", "nats-server", &[]), 3, "", "")
    }

    fn start(&mut self) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            let path = |suffix: &str| self.folder.path().join(format!("{number}.{suffix}"));
            let mut command = Command::new(&self.program);
            *server = Some(Server::start(command.arg("-c").arg(path("conf")), &path("log")));
        }
        for client in &self.clients {
            suffrage_testbed::until("a server listens", || std::net::TcpStream::connect(client).ok());
        }
    }

    /// The servers, as other clients name them.
    fn hosts(&self) -> String {
        let hosts: Vec<String> =
            self.clients.iter().map(|client| format!("nats://{}{client}", self.user)).collect();
        hosts.join(",")
    }

    /// A command that runs a script with the official client, with the servers as its first argument.
    pub fn script(&self, name: &str, text: &str) -> Command {
        let script = self.folder.path().join(name);
        std::fs::write(&script, text).unwrap();
        let mut command = Command::new(python(CLIENT));
        command.arg(script).arg(self.hosts());
        command
    }

    /// Runs a command of `tool.py`.
    pub fn tool(&self, arguments: &[&str]) -> String {
        let output =
            self.script("tool.py", include_str!("nats_tool.py")).args(arguments).output().expect("python");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Servers for Nats {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.clients.clone()
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("nats://{}{}/test", self.user, hosts.join(","))
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn pids(&self) -> Vec<u32> {
        self.servers.iter().flatten().map(Server::id).collect()
    }

    fn kill_leading_server(&mut self) -> bool {
        let leader = self.tool(&["leader", "test"]);
        let number: usize =
            leader.strip_prefix("server-").and_then(|number| number.parse().ok()).expect("a number");
        self.servers[number].take().expect("it runs").kill();
        true
    }

    fn restart_all(&mut self) {
        self.servers.iter_mut().flatten().for_each(Server::kill);
        self.start();
        self.tool(&["ready"]);
    }

    fn delete_entry(&self, name: &str) {
        self.tool(&["delete", "test", name]);
    }
}
