//! NATS: three servers of Debian's package, with JetStream.

mod traps;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine};
use suffrage_testbed::Folder;
use tokio::task::block_in_place;

use crate::conformance::{Servers, conformance, lead, until, within};
use crate::support::{BootClock, CandidateProcess, Foreign, Server, program, python};

const TTL: Duration = Duration::from_secs(4);
/// The official client, for tools and as a foreign candidate.
const CLIENT: &[&str] = &["nats-py==2.16.0"];

/// Three servers, or one.
pub(crate) struct Nats {
    program: PathBuf,
    folder: Folder,
    clients: Vec<SocketAddr>,
    servers: Vec<Option<Server>>,
    /// User, password or token in the URL, with its `@`.
    user: &'static str,
}

impl Nats {
    /// `settings` are further settings of all servers.
    fn new(program: PathBuf, count: usize, settings: &str, user: &'static str) -> Nats {
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

    fn three() -> Nats {
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
        self.tool(&["ready"]);
    }

    /// The servers, as other clients name them.
    fn hosts(&self) -> String {
        let hosts: Vec<String> =
            self.clients.iter().map(|client| format!("nats://{}{client}", self.user)).collect();
        hosts.join(",")
    }

    fn script(&self, name: &str, text: &str) -> Command {
        let script = self.folder.path().join(name);
        std::fs::write(&script, text).unwrap();
        let mut command = Command::new(python(CLIENT));
        command.arg(script).arg(self.hosts());
        command
    }

    /// Runs a command of `tool.py`.
    fn tool(&self, arguments: &[&str]) -> String {
        let output =
            self.script("tool.py", include_str!("nats/tool.py")).args(arguments).output().expect("python");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// A client that is not ours, as a candidate.
    fn foreign(&self, key: &str, identity: &str) -> Foreign {
        let mut command = self.script("foreign.py", include_str!("nats/foreign.py"));
        command.args(["test", key, identity, &TTL.as_millis().to_string()]);
        let log = std::fs::File::create(self.folder.path().join(format!("{identity}.log"))).unwrap();
        Foreign::start(command.stderr(log))
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
    }

    fn delete_entry(&self, name: &str) {
        self.tool(&["delete", "test", name]);
    }
}

async fn start() -> Nats {
    block_in_place(Nats::three)
}

conformance!(start);

/// nats-py and ours: each waits for the other, and leads when the other has resigned or died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_py() {
    let servers = start().await;
    let url = servers.url(&servers.addresses());
    let engine = Engine::connect(&url, BootClock).unwrap();
    // Ours leads, and the other waits and names it.
    let ours = lead(&engine, "mixed", TTL, "ours").await;
    let mut watch = engine.watch("mixed");
    let seen = within("the watch", watch.changed()).await.unwrap().expect("a leader");
    assert_eq!((seen.identity.as_str(), seen.token), ("ours", ours.token()));
    let mut other = servers.foreign("mixed", "theirs");
    block_in_place(|| other.says("waits"));
    other.say("leader");
    block_in_place(|| other.says("leader ours"));
    // Several renewals later.
    let start = BootClock.now();
    until("renewals", async || (BootClock.now() > start + TTL).then_some(())).await;
    assert!(ours.is_valid() && other.is_silent());
    let token = ours.token();
    ours.resign().await;
    block_in_place(|| other.says("leads"));
    let seen = within("the watch", async {
        loop {
            // Nobody may lead for a moment.
            if let Some(leader) = watch.changed().await.unwrap() {
                return leader;
            }
        }
    })
    .await;
    assert_eq!(seen.identity, "theirs");
    assert!(seen.token > token, "{} after {token}", seen.token);
    // The other leads, and ours waits.
    let waiting = engine.election("mixed").ttl(TTL).identity("ours again").join().unwrap();
    let waiting = tokio::spawn(async move { waiting.lead().await });
    let start = BootClock.now();
    until("renewals", async || (BootClock.now() > start + TTL * 2).then_some(())).await;
    assert!(!waiting.is_finished() && other.is_silent());
    let token = engine.status("mixed").await.unwrap().leader.expect("a leader").token;
    other.say("resign");
    block_in_place(|| other.says("lost"));
    let ours = within("a hand-over", waiting).await.unwrap().unwrap();
    assert!(ours.token() > token, "{} after {token}", ours.token());
    ours.resign().await;
    drop(other);
    // Ours is paused: the other leads only after the lease has ended.
    let mut paused = CandidateProcess::start(&url, "mixed", TTL, "paused");
    block_in_place(|| paused.leads());
    let third = servers.foreign("mixed", "third");
    block_in_place(|| third.says("waits"));
    paused.process.signal(Signal::STOP);
    let since = block_in_place(|| third.says("leads"));
    paused.drain();
    assert!(since >= paused.until, "theirs leads {:?} before ours has ended", paused.until - since);
    paused.process.signal(Signal::CONT);
    block_in_place(|| paused.lost());
    // The other is killed: ours leads when its entry has expired.
    let token = engine.status("mixed").await.unwrap().leader.expect("a leader").token;
    drop(third);
    let (next, _) = block_in_place(|| paused.leads());
    assert!(next > token, "{next} after {token}");
}
