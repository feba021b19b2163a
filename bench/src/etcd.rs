//! Three servers of etcd, which is installed if it is missing, and clients for them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use suffrage_engines::grpc::{Answers, Channel, Message, Requests, number, within};
use tokio::net::TcpStream;

use crate::http::{Connection, base64};
use crate::processes::{Folder, Process, Usage};

/// The time-out for the first election among the servers.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The heartbeat interval and the election time-out of the servers, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaftTimings {
    heartbeat: u32,
    election: u32,
}

/// The defaults of etcd. The shortest lease is 2 s.
pub(crate) const DEFAULT: RaftTimings = RaftTimings { heartbeat: 100, election: 1_000 };
/// The fastest timings on loopback. The shortest lease is 1 s, and an expired lease is noticed sooner.
pub(crate) const FAST: RaftTimings = RaftTimings { heartbeat: 10, election: 100 };

/// Three servers with a temporary folder.
pub(crate) struct Etcd {
    /// Dropped before the folder: the processes end before their files are removed.
    servers: Vec<Process>,
    folder: Folder,
    clients: Vec<SocketAddr>,
}

/// Searches etcd in PATH.
fn find() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').map(|folder| Path::new(folder).join("etcd")).find(|program| program.exists())
}

/// Finds etcd, or installs it with apt-get.
pub(crate) fn install() -> Result<PathBuf, String> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let hint = "install etcd 3.4 or later, or add --without-etcd";
    for arguments in [&["update"] as &[&str], &["install", "-y", "etcd-server"]] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`apt-get {}` failed: {hint}", arguments.join(" ")));
        }
    }
    find().ok_or_else(|| format!("etcd is not in PATH after its installation: {hint}"))
}

/// The version of etcd.
pub(crate) fn version(binary: &Path) -> String {
    let output = Command::new(binary).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("etcd of an unknown version").replace("etcd Version: ", "etcd ")
}

impl Etcd {
    pub(crate) async fn start(binary: &Path, timings: RaftTimings) -> Result<Etcd, String> {
        let folder = Folder::create("etcd")?;
        let addresses = [(); 6].map(|()| suffrage_testbed::address());
        let (peers, clients) = (&addresses[..3], addresses[3..].to_vec());
        let all: Vec<String> =
            peers.iter().enumerate().map(|(index, peer)| format!("s{index}=http://{peer}")).collect();
        let mut servers = Vec::new();
        for (index, (peer, client)) in peers.iter().zip(&clients).enumerate() {
            let flags = [
                ("name", format!("s{index}")),
                ("data-dir", folder.path().join(format!("s{index}")).display().to_string()),
                ("listen-peer-urls", format!("http://{peer}")),
                ("initial-advertise-peer-urls", format!("http://{peer}")),
                ("listen-client-urls", format!("http://{client}")),
                ("advertise-client-urls", format!("http://{client}")),
                ("initial-cluster", all.join(",")),
                ("heartbeat-interval", timings.heartbeat.to_string()),
                ("election-timeout", timings.election.to_string()),
                ("logger", "zap".to_string()),
                ("log-level", "error".to_string()),
                // Enough for a hundred thousand leases.
                ("quota-backend-bytes", (4u64 << 30).to_string()),
            ];
            let arguments: Vec<String> = flags.map(|(name, value)| format!("--{name}={value}")).into();
            let log = folder.path().join(format!("log-{index}"));
            servers.push(Process::start(binary, &arguments, &log)?);
        }
        let mut etcd = Etcd { servers, folder, clients };
        etcd.put_leader_first().await?;
        Ok(etcd)
    }

    /// Waits until one of the servers leads, and puts it first: it answers fastest.
    async fn put_leader_first(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            for index in 0..3 {
                if leads(self.clients[index]).await.unwrap_or(false) {
                    self.clients.swap(0, index);
                    return Ok(());
                }
            }
            if self.servers.iter_mut().any(Process::has_ended) || start.elapsed() > START_TIMEOUT {
                return Err(format!("etcd does not start: {}", self.folder.last_log_line("log-0")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The address of the leading server.
    pub(crate) fn leader(&self) -> SocketAddr {
        self.clients[0]
    }

    /// The address of a server. The first one leads.
    pub(crate) fn server(&self, index: usize) -> SocketAddr {
        self.clients[index]
    }

    /// The resource usage of all servers.
    pub(crate) fn usage(&self) -> Usage {
        Usage::sum(self.servers.iter().map(Process::usage))
    }
}

async fn leads(address: SocketAddr) -> Option<bool> {
    let mut server = Connection::open(address).await.ok()?;
    let status = server.post("/v3/maintenance/status", "{}").await.ok()?.success().ok()?;
    let leader = status["leader"].as_str()?;
    Some(leader == status["header"]["member_id"].as_str()?)
}

/// A gRPC client, like etcd's own clients. Clones share a connection.
#[derive(Clone)]
pub(crate) struct Client(Channel);

/// The key of a leader, which it needs to resign.
pub(crate) struct LeaderKey(Bytes);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Client, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Client(Channel::open(stream, &format!("http://{address}")).await?))
    }

    /// Requests a lease of this length in seconds. Returns its id and the granted length.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<(i64, i64), String> {
        let answer =
            self.0.call("/etcdserverpb.Lease/LeaseGrant", &Message::new().number(1, seconds)).await?;
        Ok((number(&answer, 2), number(&answer, 3)))
    }

    pub(crate) async fn put(&self, key: &str, lease: i64) -> Result<(), String> {
        let message = Message::new().bytes(1, key.as_bytes()).bytes(2, b"x").number(3, lease);
        Ok(self.0.call("/etcdserverpb.KV/Put", &message).await.map(drop)?)
    }

    /// Leads an election and resigns, with the calls of etcd's own client (`concurrency.Election`) without contention: a
    /// transaction that puts the key of the candidate, a range request for earlier candidates, and a transaction that
    /// deletes the key.
    pub(crate) async fn lead_once(&self, name: &str, lease: i64) -> Result<(), String> {
        let key = format!("{name}/{lease:x}");
        let revision = self.acquire(&key, lease).await?;
        // The newest key with this prefix that was created before.
        let end = format!("{name}0");
        let before = Message::new().bytes(1, format!("{name}/").as_bytes()).bytes(2, end.as_bytes());
        let before = before.number(3, 1).number(5, 2).number(6, 2).number(13, revision - 1);
        let found = self.0.call("/etcdserverpb.KV/Range", &before).await?;
        if within(&found, 2).is_some() {
            return Err(format!("{name} has another candidate"));
        }
        let compare = Message::new().number(1, 0).number(2, 1).bytes(3, key.as_bytes()).number(5, revision);
        let delete = Message::new().message(3, &Message::new().bytes(1, key.as_bytes()));
        let transaction = Message::new().message(1, &compare).message(2, &delete);
        let answer = self.0.call("/etcdserverpb.KV/Txn", &transaction).await?;
        if number(&answer, 2) == 1 { Ok(()) } else { Err(format!("{key} was already deleted")) }
    }

    /// Acquires a name with the least work: a transaction that puts an absent key with the lease. Returns its revision.
    pub(crate) async fn acquire(&self, key: &str, lease: i64) -> Result<i64, String> {
        let compare = Message::new().number(1, 0).number(2, 1).bytes(3, key.as_bytes()).number(5, 0);
        let put = Message::new().bytes(1, key.as_bytes()).bytes(2, b"x").number(3, lease);
        let transaction = Message::new().message(1, &compare).message(2, &Message::new().message(2, &put));
        let answer = self.0.call("/etcdserverpb.KV/Txn", &transaction).await?;
        let revision = within(&answer, 1).map_or(0, |header| number(header, 3));
        if number(&answer, 2) == 1 { Ok(revision) } else { Err(format!("{key} is already held")) }
    }

    pub(crate) async fn release(&self, key: &str) -> Result<(), String> {
        let message = Message::new().bytes(1, key.as_bytes());
        Ok(self.0.call("/etcdserverpb.KV/DeleteRange", &message).await.map(drop)?)
    }

    /// Campaigns until the client leads.
    pub(crate) async fn campaign(&self, name: &str, lease: i64) -> Result<LeaderKey, String> {
        let message = Message::new().bytes(1, name.as_bytes()).number(2, lease).bytes(3, b"x");
        let answer = self.0.call("/v3electionpb.Election/Campaign", &message).await?;
        let key = within(&answer, 2).map(Bytes::copy_from_slice);
        key.map(LeaderKey).ok_or_else(|| "the answer to Campaign has no key".to_string())
    }

    pub(crate) async fn resign(&self, key: &LeaderKey) -> Result<(), String> {
        let message = Message::new().bytes(1, &key.0);
        Ok(self.0.call("/v3electionpb.Election/Resign", &message).await.map(drop)?)
    }

    /// Opens one stream for the renewals of all leases of this client, as etcd's own clients do.
    pub(crate) async fn keep_alive(&self) -> Result<(Renewals, RenewalAnswers), String> {
        let (requests, answers) = self.0.stream("/etcdserverpb.Lease/LeaseKeepAlive").await?;
        Ok((Renewals(requests), RenewalAnswers(answers)))
    }
}

/// The sending side of a stream of renewals.
pub(crate) struct Renewals(Requests);

impl Renewals {
    pub(crate) fn send(&mut self, leases: impl IntoIterator<Item = i64>) -> Result<(), String> {
        Ok(self.0.send(leases.into_iter().map(|lease| Message::new().number(1, lease)))?)
    }
}

/// The receiving side of a stream of renewals.
pub(crate) struct RenewalAnswers(Answers);

impl RenewalAnswers {
    /// The next lease, and whether it was renewed or has expired. None at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<(i64, bool)>, String> {
        Ok(self.0.next().await?.map(|answer| (number(&answer, 2), number(&answer, 3) > 0)))
    }
}

/// An HTTP client, through the gateway of every server.
pub(crate) struct GatewayClient(Connection);

impl GatewayClient {
    pub(crate) async fn connect(address: SocketAddr) -> Result<GatewayClient, String> {
        Connection::open(address).await.map(GatewayClient).map_err(|error| error.to_string())
    }

    async fn ask(&mut self, path: &str, request: &Value) -> Result<Value, String> {
        self.0.post(path, &request.to_string()).await.map_err(|error| format!("{path}: {error}"))?.success()
    }

    pub(crate) async fn acquire(&mut self, key: &str, lease: i64) -> Result<(), String> {
        let (key, value) = (base64(key.as_bytes()), base64(b"x"));
        let request = json!({
            "compare": [{ "result": "EQUAL", "target": "CREATE", "key": key, "create_revision": "0" }],
            "success": [{ "request_put": { "key": key, "value": value, "lease": lease.to_string() } }],
        });
        let answer = self.ask("/v3/kv/txn", &request).await?;
        if answer["succeeded"] == true { Ok(()) } else { Err(format!("the key is already held: {answer}")) }
    }

    pub(crate) async fn release(&mut self, key: &str) -> Result<(), String> {
        self.ask("/v3/kv/deleterange", &json!({ "key": base64(key.as_bytes()) })).await.map(drop)
    }

    pub(crate) async fn campaign(&mut self, name: &str, lease: i64) -> Result<Value, String> {
        let name = base64(name.as_bytes());
        let request = json!({ "name": name, "lease": lease.to_string(), "value": base64(b"x") });
        Ok(self.ask("/v3/election/campaign", &request).await?["leader"].take())
    }

    pub(crate) async fn resign(&mut self, leader: &Value) -> Result<(), String> {
        self.ask("/v3/election/resign", &json!({ "leader": leader })).await.map(drop)
    }
}
