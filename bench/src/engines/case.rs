//! The engines of the benchmark: their servers, and their own clients.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use suffrage_servers::consul::{self, Consul};
use suffrage_servers::etcd::Etcd;
use suffrage_servers::kubernetes::{self, Kubernetes};
use suffrage_servers::nats::{self, Nats};
use suffrage_servers::programs::{program, python};
use suffrage_servers::zookeeper::{self, ZooKeeper};
use suffrage_servers::{Foreign, PATIENCE, Protocol, Servers, postgres, redis};

use crate::processes::Folder;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Etcd,
    Postgres,
    Kubernetes,
    Consul,
    ZooKeeper,
    Nats,
    Redis,
}

/// All engines, in the order of the documents.
pub(crate) const KINDS: [Kind; 7] =
    [Kind::Etcd, Kind::Postgres, Kind::Kubernetes, Kind::Consul, Kind::ZooKeeper, Kind::Nats, Kind::Redis];

/// The variables that name the programs of Kubernetes: no registry has them ready-made.
const API_SERVER: &str = "SUFFRAGE_KUBE_APISERVER";
const CLIENT_GO: &str = "SUFFRAGE_CLIENT_GO";

impl Kind {
    /// The scheme of its URLs.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd",
            Kind::Postgres => "postgres",
            Kind::Kubernetes => "kubernetes",
            Kind::Consul => "consul",
            Kind::ZooKeeper => "zookeeper",
            Kind::Nats => "nats",
            Kind::Redis => "redis",
        }
    }

    /// Its name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd",
            Kind::Postgres => "PostgreSQL",
            Kind::Kubernetes => "Kubernetes",
            Kind::Consul => "Consul",
            Kind::ZooKeeper => "ZooKeeper",
            Kind::Nats => "NATS",
            Kind::Redis => "Redis",
        }
    }

    /// Whether its servers are here or can be installed. An error says what to do.
    pub(crate) fn check_available(self) -> Result<(), String> {
        match self == Kind::Kubernetes && std::env::var_os(API_SERVER).is_none() {
            true => Err(format!(
                "kubernetes is left out: no registry has its server ready-made; {API_SERVER} must name a kube-apiserver, \
                 and {CLIENT_GO} the leader-election example of client-go"
            )),
            false => Ok(()),
        }
    }

    /// The ttl of fail-overs: the shortest that the engine grants with usual settings.
    pub(crate) fn failover_ttl(self) -> Duration {
        Duration::from_millis(match self {
            Kind::Etcd => 2_000,
            Kind::Postgres => 500,
            // client-go's example has it built in.
            Kind::Kubernetes => 60_000,
            Kind::Consul => 10_000,
            // Two ticks of 2 s are the default of the servers.
            Kind::ZooKeeper => 4_000,
            Kind::Nats => 1_000,
            Kind::Redis => 200,
        })
    }

    /// The protocol whose requests a proxy counts. None: the connections are encrypted, and the server counts.
    pub(crate) fn protocol(self) -> Option<Protocol> {
        match self {
            Kind::Etcd => Some(Protocol::Grpc),
            Kind::Postgres => Some(Protocol::Postgres),
            Kind::Kubernetes => None,
            Kind::Consul => Some(Protocol::Http),
            Kind::ZooKeeper => Some(Protocol::ZooKeeper),
            Kind::Nats => Some(Protocol::Nats),
            Kind::Redis => Some(Protocol::Redis),
        }
    }

    /// The engine's own client, and what it does.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Kind::Etcd => {
                "the calls of etcd's Go client over gRPC, by a process in Rust: Campaign and Resign of the election API \
                 for hand-overs, the three requests of concurrency.Election for acquisitions, a lease for each held \
                 election; fail-over by `etcdctl lock --ttl`"
            }
            Kind::Postgres => {
                "psycopg 3 with a lease row: an upsert, an update, LISTEN and NOTIFY, and a wait for the end of the lease"
            }
            Kind::Kubernetes => {
                "the leader-election example of client-go: leases of 60 s, renewed and tried every 5 s; it can neither \
                 acquire in a loop nor hold many elections"
            }
            Kind::Consul => {
                "py-consul with the steps of `consul lock`: a session for each lock, a blocking query, an acquisition; \
                 the lock-delay is the ttl, as ours"
            }
            Kind::ZooKeeper => {
                "Apache Curator's LeaderLatch, on a Java virtual machine that is warmed up first"
            }
            Kind::Nats => {
                "nats-py with a key of a KV bucket: create, update, delete, a watch; a key that expires is found by trying \
                 every 200 ms"
            }
            Kind::Redis => {
                "redlock-ng with one server: it waits by trying every 100 to 300 ms, which is its default"
            }
        }
    }

    /// The program that prints the version of the servers.
    fn version(self) -> Command {
        let (program, argument) = match self {
            Kind::Etcd => (program("etcd", "etcd-server", &[]), "--version"),
            Kind::Postgres => {
                (program("postgres", "postgresql", &["/usr/lib/postgresql/15/bin"]), "--version")
            }
            Kind::Kubernetes => (kubernetes::given(API_SERVER), "--version"),
            Kind::Consul => (consul::consul().to_path_buf(), "version"),
            Kind::ZooKeeper => (PathBuf::from("dpkg-query"), "-W"),
            Kind::Nats => (program("nats-server", "nats-server", &[]), "--version"),
            Kind::Redis => (program("redis-server", "redis-server", &[]), "--version"),
        };
        let mut command = Command::new(program);
        command.arg(argument).args((self == Kind::ZooKeeper).then_some("zookeeper"));
        command
    }
}

/// The first version number in the output of a program.
fn version_in(text: &str) -> Option<&str> {
    let words = text.split(|at: char| at.is_whitespace() || at == '=');
    let mut numbers = words.map(|word| word.trim_start_matches('v'));
    let number =
        numbers.find(|word| word.contains('.') && word.starts_with(|at: char| at.is_ascii_digit()))?;
    let end = number.find(|at: char| !at.is_ascii_digit() && at != '.').unwrap_or(number.len());
    Some(number[..end].trim_end_matches('.'))
}

/// The running servers of an engine, and its clients.
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) servers: Box<dyn Servers + Sync>,
    /// The programs of its own client.
    folder: Folder,
    /// The version of the servers.
    pub(crate) version: Option<String>,
    /// The server that leads the others, where clients are the faster for it and the server tells.
    leading: usize,
    /// The API server of Kubernetes.
    kubernetes: Option<Arc<kubernetes::Cluster>>,
}

impl Case {
    /// Installs and starts the servers. Blocks, and panics if that fails.
    pub(crate) fn start(kind: Kind) -> Result<Case, String> {
        let folder = Folder::create(kind.scheme())?;
        let output = kind.version().stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        // A server that was built without its version says 0.0.0.
        let version = version_in(&text).filter(|version| *version != "0.0.0").map(str::to_string);
        let (mut leading, mut api_server) = (0, None);
        let servers: Box<dyn Servers + Sync> = match kind {
            Kind::Etcd => {
                let servers = Etcd::start(3, "http", |_| Vec::new());
                leading = servers.leading_server().unwrap_or(0);
                Box::new(servers)
            }
            Kind::Postgres => Box::new(postgres::start()),
            Kind::Kubernetes => {
                let cluster = Arc::new(kubernetes::Cluster::start());
                api_server = Some(Arc::clone(&cluster));
                Box::new(Kubernetes::new(cluster))
            }
            Kind::Consul => {
                let cluster = consul::Cluster::start(consul::Settings::default());
                Box::new(Consul::new(cluster.into()))
            }
            Kind::ZooKeeper => Box::new(ZooKeeper::new("")),
            Kind::Nats => Box::new(Nats::three()),
            Kind::Redis => Box::new(redis::start()),
        };
        let case = Case { kind, servers, folder, version, leading, kubernetes: api_server };
        case.write_client()?;
        Ok(case)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the programs of the engine's own client.
    fn write_client(&self) -> Result<(), String> {
        let write = |name: &str, text: &str| {
            std::fs::write(self.path(name), text).map_err(|error| format!("cannot write {name}: {error}"))
        };
        let script = match self.kind {
            Kind::Etcd | Kind::Kubernetes => return Ok(()),
            Kind::ZooKeeper => {
                write("Curator.java", include_str!("clients/Curator.java"))?;
                let mut command = Command::new("javac");
                command.args(["-cp", &zookeeper::curator(), "-d"]).arg(self.folder.path());
                let output =
                    command.arg(self.path("Curator.java")).output().map_err(|error| error.to_string())?;
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                return if output.status.success() { Ok(()) } else { Err(format!("javac: {text}")) };
            }
            Kind::Postgres => include_str!("clients/postgres.py"),
            Kind::Consul => include_str!("clients/consul.py"),
            Kind::Nats => include_str!("clients/nats.py"),
            Kind::Redis => include_str!("clients/redis.py"),
        };
        write("driver.py", include_str!("clients/driver.py"))?;
        // Not by the name of the engine: the script would hide the library of the same name.
        write("client.py", script)
    }

    /// The one server that both sides speak to where latency counts: a request to another one may be forwarded.
    pub(crate) fn one_server(&self) -> Vec<SocketAddr> {
        vec![self.servers.addresses()[self.leading]]
    }

    /// The requests that the API server of Kubernetes has counted, if this is it.
    pub(crate) fn requests_of_leases(&self) -> Option<u64> {
        let (_, text) = self.kubernetes.as_ref()?.curl("GET", "/metrics", None);
        Some(requests_of_leases(&String::from_utf8_lossy(&text)))
    }

    /// The URL for our candidates. Buckets of NATS have one ttl.
    pub(crate) fn url(&self, addresses: &[SocketAddr], ttl: Duration) -> String {
        let url = self.servers.url(addresses);
        match self.kind {
            Kind::Nats => url.replace("/test", &format!("/ours-{}", ttl.as_millis())),
            _ => url,
        }
    }

    /// Starts the engine's own client, which reads the commands of `clients/driver.py`. None if there is no such client.
    pub(crate) fn client(&self, addresses: &[SocketAddr], ttl: Duration) -> Result<Option<Client>, String> {
        let mut command = match self.kind {
            Kind::Kubernetes => return Ok(None),
            Kind::Etcd => own_program("etcd-client")?,
            Kind::ZooKeeper => {
                let mut command = Command::new("java");
                let classes = format!("{}:{}", self.folder.path().display(), zookeeper::curator());
                command.args(["-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m", "-cp", &classes, "Curator"]);
                command
            }
            Kind::Postgres => self.script(postgres::CLIENT),
            Kind::Consul => self.script(consul::CLIENT),
            Kind::Nats => self.script(nats::CLIENT),
            Kind::Redis => self.script(redis::CLIENT),
        };
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        command.arg(hosts.join(",")).arg(ttl.as_millis().to_string());
        Client::start(command, self.path("client.log"), "").map(Some)
    }

    fn script(&self, packages: &[&str]) -> Command {
        let mut command = Command::new(python(packages));
        command.arg(self.path("client.py"));
        command
    }

    /// Starts a candidate of the engine's own client. None if there is no such client.
    pub(crate) fn their_candidate(&self, name: &str, ttl: Duration) -> Result<Option<Client>, String> {
        match self.kind {
            Kind::Etcd => {
                let addresses = self.servers.addresses();
                let endpoints: Vec<String> =
                    addresses.iter().map(|address| format!("http://{address}")).collect();
                let mut command = Command::new(program("etcdctl", "etcd-client", &[]));
                command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", endpoints.join(",")));
                command.args(["lock", "--ttl", &ttl.as_secs().to_string(), name]);
                Client::start(command, self.path("client.log"), "").map(Some)
            }
            Kind::Kubernetes => self.client_go(name),
            _ => {
                let Some(mut client) = self.client(&self.servers.addresses(), ttl)? else { return Ok(None) };
                client.say(&format!("lead {name}"));
                Ok(Some(client))
            }
        }
    }

    /// Starts client-go's example, if it is here. It logs to standard error.
    fn client_go(&self, name: &str) -> Result<Option<Client>, String> {
        let (Some(program), Some(cluster)) = (std::env::var_os(CLIENT_GO), &self.kubernetes) else {
            return Ok(None);
        };
        let kubeconfig = cluster.kubeconfig(cluster.address, &serde_json::json!({ "token": "admin-token" }));
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(program).arg("-kubeconfig").arg(kubeconfig);
        command.args(["-lease-lock-namespace", "default", "-lease-lock-name", name]);
        Client::start(command, self.path("client.log"), "uccessfully acquired lease").map(Some)
    }

    /// Starts a candidate of ours, which prints a line when it leads.
    pub(crate) fn our_candidate(&self, name: &str, ttl: Duration) -> Result<Client, String> {
        let mut command = own_program("candidate")?;
        command.arg(self.url(&self.servers.addresses(), ttl)).arg(ttl.as_millis().to_string()).arg(name);
        Client::start(command, self.path("candidate.log"), "")
    }
}

/// This program as a process of its own, with one of the parts of `engines.rs`.
fn own_program(part: &str) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.args(["engines", part]);
    Ok(command)
}

/// A client in a process of its own. It is killed when this value is dropped.
pub(crate) struct Client {
    process: Foreign,
    log: PathBuf,
    /// What is in the line by which a candidate says that it leads.
    sign: &'static str,
}

impl Client {
    fn start(mut command: Command, log: PathBuf, sign: &'static str) -> Result<Client, String> {
        let file = std::fs::File::options().create(true).append(true).open(&log);
        let file = file.map_err(|error| format!("cannot open {}: {error}", log.display()))?;
        Ok(Client { process: Foreign::start(command.stderr(file)), log, sign })
    }

    /// Sends a command.
    pub(crate) fn say(&mut self, line: &str) {
        self.process.say(line);
    }

    /// The next line, and when it was printed.
    pub(crate) fn hear(&self) -> Result<(String, Duration), String> {
        self.process
            .line(PATIENCE)
            .ok_or_else(|| format!("a client ended or hangs: {}", last_error(&self.log)))
    }

    /// Waits until a candidate leads, and returns since when.
    pub(crate) fn leads(&self) -> Result<Duration, String> {
        loop {
            let (line, at) = self.hear()?;
            if line.contains(self.sign) {
                return Ok(at);
            }
        }
    }

    /// Whether a candidate leads already.
    pub(crate) fn leads_already(&self) -> bool {
        let lines = std::iter::from_fn(|| self.process.line(Duration::ZERO));
        lines.into_iter().any(|(line, _)| line.contains(self.sign))
    }

    /// Sends a command, and returns the numbers of the answer, which begins with this word.
    pub(crate) fn ask(&mut self, command: &str, word: &str) -> Result<Vec<f64>, String> {
        self.say(command);
        let (line, _) = self.hear()?;
        let numbers = line.strip_prefix(word).map(|rest| rest.split_whitespace().map(str::parse::<f64>));
        let numbers = numbers.and_then(|numbers| numbers.collect::<Result<Vec<f64>, _>>().ok());
        numbers.ok_or_else(|| format!("the client answers `{line}` to `{command}`"))
    }

    /// Asks the client to end, by SIGTERM.
    pub(crate) fn terminate(&self) {
        self.process.process.signal(rustix::process::Signal::TERM);
    }

    /// Kills the client with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.process.kill();
    }
}

/// The requests for Leases in the metrics of an API server. Requests that watch count when they end.
fn requests_of_leases(metrics: &str) -> u64 {
    let of_leases =
        |line: &&str| line.starts_with("apiserver_request_total{") && line.contains("resource=\"leases\"");
    let counts =
        metrics.lines().filter(of_leases).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

/// The last line of a log that names an error, or the last line.
fn last_error(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // What the interpreter of Python complains of when it ends is no cause.
    let is_error = |line: &&str| line.contains("Error: ") && !line.contains("Event loop is closed");
    let error = text.lines().rev().find(is_error);
    error.or(text.lines().last()).unwrap_or("it has printed no error").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_leases_are_found_in_metrics() {
        let metrics = "# HELP apiserver_request_total x\n\
            apiserver_request_total{code=\"200\",resource=\"leases\",verb=\"PUT\"} 12\n\
            apiserver_request_total{code=\"200\",resource=\"pods\",verb=\"PUT\"} 7\n\
            apiserver_request_total{code=\"201\",resource=\"leases\",verb=\"POST\"} 1.5e+03\n";
        assert_eq!((requests_of_leases(metrics), requests_of_leases("")), (1_512, 0));
    }

    #[test]
    fn versions_are_found() {
        for (text, version) in [
            ("etcd Version: 3.4.23\nGit SHA: Not", "3.4.23"),
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", "15.14"),
            ("Consul v1.8.7\nRevision x", "1.8.7"),
            ("zookeeper\t3.8.0-11+deb12u2", "3.8.0"),
            ("nats-server: v2.9.10", "2.9.10"),
            ("Kubernetes v1.20.2", "1.20.2"),
            ("Redis server v=7.0.15 sha=00000000:0", "7.0.15"),
        ] {
            assert_eq!(version_in(text), Some(version), "{text}");
        }
        assert_eq!(version_in("nothing"), None);
    }
}
