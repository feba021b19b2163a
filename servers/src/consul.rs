//! Servers of Consul.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use suffrage_testbed::Folder;

use crate::programs::{Server, cache, program};
use crate::{PATIENCE, Servers};

/// The token that may do everything, where tokens are needed.
pub const MASTER: &str = "11111111-2222-3333-4444-555555555555";

/// The client in Python that takes part in benchmarks.
pub const CLIENT: &[&str] = &["py-consul==1.8.0"];

/// The program of Debian bullseye: bookworm has none. Downloaded once.
pub fn consul() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let cache = cache("consul");
        let program = cache.path().join("root/usr/bin/consul");
        if !program.exists() {
            let parts = cache.path().join("sources");
            std::fs::create_dir_all(&parts).unwrap();
            std::fs::create_dir_all(cache.path().join("lists/partial")).unwrap();
            std::fs::write(parts.join("bullseye.sources"), bullseye_sources()).unwrap();
            let option = |key: &str, value: &Path| format!("-oDir::{key}={}", value.display());
            let options = [
                option("Etc::sourcelist", Path::new("/dev/null")),
                option("Etc::sourceparts", &parts),
                option("State::lists", &cache.path().join("lists")),
            ];
            let run = |command: &mut Command| {
                let output = command.stdin(Stdio::null()).current_dir(cache.path()).output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{command:?}: {text}");
            };
            run(Command::new("apt-get").args(&options).arg("update"));
            run(Command::new("apt-get").args(&options).args(["download", "consul"]));
            let package = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path());
            let package = package.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb"));
            run(Command::new("dpkg").arg("-x").arg(package.expect("a package")).arg("root"));
        }
        program
    })
}

/// The sources of this machine, of another suite.
fn bullseye_sources() -> String {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir("/etc/apt/sources.list.d").unwrap().flatten() {
        if entry.path().extension().is_some_and(|end| end == "sources") {
            texts.push(std::fs::read_to_string(entry.path()).unwrap());
        }
    }
    let stanzas =
        texts.iter().flat_map(|text| text.split("\n\n")).filter(|stanza| stanza.contains("/debian\n"));
    let stanza = stanzas.into_iter().next().expect("a source of Debian in /etc/apt/sources.list.d");
    let lines = stanza.lines().map(|line| match line.starts_with("Suites:") {
        true => "Suites: bullseye\n".to_string(),
        false => format!("{line}\n"),
    });
    lines.collect()
}

/// The settings of a cluster.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// Requests need a token.
    pub tokens: bool,
    /// TLS, with certificates of clients.
    pub tls: bool,
}

struct Node {
    name: String,
    http: SocketAddr,
    serf: SocketAddr,
    rpc: SocketAddr,
}

/// Three servers.
pub struct Cluster {
    folder: Folder,
    nodes: Vec<Node>,
    settings: Settings,
    processes: Mutex<Vec<Option<Server>>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Before the folder is removed.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Cluster {
    /// Starts three servers, and waits until one leads.
    pub fn start(settings: Settings) -> Cluster {
        let folder = Folder::new().unwrap();
        let address = suffrage_testbed::address;
        let nodes = (1..=3)
            .map(|number| Node {
                name: format!("node-{number}"),
                http: address(),
                serf: address(),
                rpc: address(),
            })
            .collect();
        let cluster = Cluster { folder, nodes, settings, processes: Mutex::default() };
        if settings.tls {
            cluster.make_certificates();
        }
        cluster.start_processes();
        cluster
    }

    /// A path in the folder of the servers.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make_certificates(&self) {
        use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(self.path("ca.crt"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let names = vec!["consul".to_string(), self.nodes[0].http.ip().to_string()];
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
            std::fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
            std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
    }

    fn start_processes(&self) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.clear();
        for node in &self.nodes {
            let mut config = json!({
                "server": true,
                "bootstrap_expect": 3,
                "node_name": node.name,
                "data_dir": self.path(&node.name),
                "bind_addr": node.http.ip(),
                "client_addr": node.http.ip(),
                "retry_join": self.nodes.iter().map(|node| node.serf).collect::<Vec<_>>(),
                "retry_interval": "100ms",
                "performance": { "raft_multiplier": 1 },
                "ports": {
                    "dns": -1, "grpc": -1, "serf_wan": -1, "http": -1, "https": -1,
                    "serf_lan": node.serf.port(), "server": node.rpc.port(),
                },
                "leave_on_terminate": false,
                "disable_update_check": true,
            });
            config["ports"][if self.settings.tls { "https" } else { "http" }] = node.http.port().into();
            if self.settings.tls {
                config["ca_file"] = self.path("ca.crt").display().to_string().into();
                config["cert_file"] = self.path("server.crt").display().to_string().into();
                config["key_file"] = self.path("server.key").display().to_string().into();
                config["verify_incoming_https"] = true.into();
            }
            if self.settings.tokens {
                config["acl"] = json!({
                    "enabled": true, "default_policy": "deny", "tokens": { "master": MASTER, "agent": MASTER },
                });
                config["primary_datacenter"] = "dc1".into();
            }
            let file = self.path(&format!("{}.json", node.name));
            std::fs::write(&file, config.to_string()).unwrap();
            let mut command = Command::new(consul());
            command.arg("agent").arg("-config-file").arg(&file);
            processes.push(Some(Server::start(&mut command, &self.path(&format!("{}.log", node.name)))));
        }
        drop(processes);
        let start = std::time::Instant::now();
        // A leader, and a key that can be written.
        while self.curl("PUT", "/v1/kv/ready", Some("x")) != Some(json!(true)) {
            let log = std::fs::read_to_string(self.path("node-1.log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "Consul has no leader: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A request by curl to a server that runs. None if it has failed.
    fn curl(&self, method: &str, path: &str, body: Option<&str>) -> Option<Value> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = self.nodes.iter().zip(processes.iter()).find(|(_, process)| process.is_some());
        let address = alive.map_or(self.nodes[0].http, |(node, _)| node.http);
        drop(processes);
        let mut command = Command::new(program("curl", "curl", &[]));
        command.args(["-s", "-f", "-X", method]);
        let mut scheme = "http";
        if self.settings.tls {
            scheme = "https";
            command.arg("--cacert").arg(self.path("ca.crt")).arg("--cert").arg(self.path("client.crt"));
            command.arg("--key").arg(self.path("client.key"));
        }
        if self.settings.tokens {
            command.args(["-H", &format!("X-Consul-Token: {MASTER}")]);
        }
        if let Some(body) = body {
            command.args(["-d", body]);
        }
        let output =
            command.arg(format!("{scheme}://{address}{path}")).stdin(Stdio::null()).output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// The command `consul`, for the first server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(consul());
        command.args(arguments).env("CONSUL_HTTP_ADDR", format!("http://{}", self.nodes[0].http));
        command
    }

    fn kill_leader(&self) {
        let leader = self.curl("GET", "/v1/status/leader", None).expect("a leader");
        let leader = leader.as_str().expect("an address").to_string();
        let index = self.nodes.iter().position(|node| node.rpc.to_string() == leader).expect("a node");
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)[index] = None;
    }
}

/// A prefix of the keys of a cluster. Tests share a cluster, unless they stop its servers.
pub struct Consul {
    /// The servers.
    pub cluster: Arc<Cluster>,
    /// The prefix.
    pub prefix: String,
}

impl Consul {
    /// A prefix that nobody else uses.
    pub fn new(cluster: Arc<Cluster>) -> Consul {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Consul { cluster, prefix: format!("service/test-{}", NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    /// The key of an election.
    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}/.lock", self.prefix)
    }

    /// The key of an election, as the server shows it.
    pub fn entry(&self, name: &str) -> Option<Value> {
        let path = format!("/v1/kv/{}", self.key(name));
        tokio::task::block_in_place(|| self.cluster.curl("GET", &path, None)).map(|found| found[0].clone())
    }

    /// A request that must succeed.
    pub fn request(&self, method: &str, path: &str, body: Option<&str>) -> Value {
        let reply = tokio::task::block_in_place(|| self.cluster.curl(method, path, body));
        reply.unwrap_or_else(|| panic!("{method} {path} failed"))
    }
}

impl Servers for Consul {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.cluster.nodes.iter().map(|node| node.http).collect()
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        format!("consul://{}/{}", hosts.join(","), self.prefix)
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn pids(&self) -> Vec<u32> {
        let processes = self.cluster.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().flatten().map(Server::id).collect()
    }

    fn kill_leading_server(&mut self) -> bool {
        tokio::task::block_in_place(|| self.cluster.kill_leader());
        true
    }

    fn restart_all(&mut self) {
        tokio::task::block_in_place(|| self.cluster.start_processes());
    }

    fn delete_entry(&self, name: &str) {
        let mut command = self.cluster.command(&["kv", "delete", &self.key(name)]);
        let output = tokio::task::block_in_place(|| command.output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
