//! Three servers of etcd: installed if need be, with folders and ports of their own, and clients for them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::grpc::{Answers, Channel, Message, Questions, number, within};
use crate::http::{Connection, base64};
use crate::processes::{Folder, Process, Usage};

/// How long the servers may take to elect one of them.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the servers hear from the one that leads them, and how long they wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    heartbeat: u32,
    election: u32,
}

/// As etcd comes. Its shortest lease is 2 s.
pub(crate) const DEFAULT: Pace = Pace { heartbeat: 100, election: 1_000 };
/// As fast as it gets on loopback: its shortest lease is 1 s, and one that has ended is found sooner.
pub(crate) const FAST: Pace = Pace { heartbeat: 10, election: 100 };

/// Three servers, in a folder of their own.
pub(crate) struct Etcd {
    /// They end before their folder does.
    servers: Vec<Process>,
    folder: Folder,
    clients: Vec<SocketAddr>,
}

/// Where etcd is, if anywhere.
fn find() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').map(|folder| Path::new(folder).join("etcd")).find(|program| program.exists())
}

/// Finds etcd, or installs it.
pub(crate) fn install() -> Result<PathBuf, String> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let hint = "install etcd 3.4 or later so that `etcd` is found, or say --without-etcd";
    for arguments in [&["update"] as &[&str], &["install", "-y", "etcd-server"]] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(format!("`apt-get {}` failed: {hint}", arguments.join(" ")));
        }
    }
    find().ok_or_else(|| format!("there is no etcd after its installation: {hint}"))
}

/// What it calls itself.
pub(crate) fn version(binary: &Path) -> String {
    let output = Command::new(binary).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("etcd of an unknown version").replace("etcd Version: ", "etcd ")
}

impl Etcd {
    pub(crate) async fn start(binary: &Path, pace: Pace) -> Result<Etcd, String> {
        let folder = Folder::create("etcd")?;
        let addresses = [(); 6].map(|()| suffrage_testbed::address());
        let (peers, clients) = (&addresses[..3], addresses[3..].to_vec());
        let all: Vec<String> =
            peers.iter().enumerate().map(|(place, peer)| format!("s{place}=http://{peer}")).collect();
        let mut servers = Vec::new();
        for (place, (peer, client)) in peers.iter().zip(&clients).enumerate() {
            let flags = [
                ("name", format!("s{place}")),
                ("data-dir", folder.path().join(format!("s{place}")).display().to_string()),
                ("listen-peer-urls", format!("http://{peer}")),
                ("initial-advertise-peer-urls", format!("http://{peer}")),
                ("listen-client-urls", format!("http://{client}")),
                ("advertise-client-urls", format!("http://{client}")),
                ("initial-cluster", all.join(",")),
                ("heartbeat-interval", pace.heartbeat.to_string()),
                ("election-timeout", pace.election.to_string()),
                ("logger", "zap".to_string()),
                ("log-level", "error".to_string()),
                // Room for a hundred thousand leases.
                ("quota-backend-bytes", (4u64 << 30).to_string()),
            ];
            let arguments: Vec<String> = flags.map(|(name, value)| format!("--{name}={value}")).into();
            let log = folder.path().join(format!("log-{place}"));
            servers.push(Process::start(binary, &arguments, &log)?);
        }
        let mut etcd = Etcd { servers, folder, clients };
        etcd.put_leader_first().await?;
        Ok(etcd)
    }

    /// Waits until one of the servers leads, and puts it first: whoever asks it is answered soonest.
    async fn put_leader_first(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            for place in 0..3 {
                if leads(self.clients[place]).await.unwrap_or(false) {
                    self.clients.swap(0, place);
                    return Ok(());
                }
            }
            if self.servers.iter_mut().any(Process::has_ended) || start.elapsed() > PATIENCE {
                return Err(format!("etcd does not start: {}", self.folder.last_words("log-0")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where the server that leads the others listens.
    pub(crate) fn leader(&self) -> SocketAddr {
        self.clients[0]
    }

    /// Where one of the three listens; the first leads the others.
    pub(crate) fn server(&self, place: usize) -> SocketAddr {
        self.clients[place]
    }

    /// What the servers have used together.
    pub(crate) fn usage(&self) -> Usage {
        Usage::sum(self.servers.iter().map(Process::usage))
    }
}

async fn leads(address: SocketAddr) -> Option<bool> {
    let mut server = Connection::open(address).await.ok()?;
    let status = server.post("/v3/maintenance/status", "{}").await.ok()?.good().ok()?;
    let leader = status["leader"].as_str()?;
    Some(leader == status["header"]["member_id"].as_str()?)
}

/// A client that speaks what etcd's own clients speak. Clones share a connection.
#[derive(Clone)]
pub(crate) struct Client(Channel);

/// What a client must show to resign.
pub(crate) struct LeaderKey(Bytes);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Client, String> {
        Channel::open(address).await.map(Client)
    }

    /// A lease of so many seconds, or as long as the server makes it: its number, and how long it is.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<(i64, i64), String> {
        let answer = self.0.call("/etcdserverpb.Lease/LeaseGrant", Message::new().number(1, seconds)).await?;
        Ok((number(&answer, 2), number(&answer, 3)))
    }

    pub(crate) async fn put(&self, key: &str, lease: i64) -> Result<(), String> {
        let message = Message::new().bytes(1, key.as_bytes()).bytes(2, b"x").number(3, lease);
        self.0.call("/etcdserverpb.KV/Put", message).await.map(drop)
    }

    /// Leads an election and resigns, as etcd's own client does it (`concurrency.Election`) where nobody else stands: a
    /// transaction that puts the candidate's key, a search for whoever came before, a transaction that deletes it.
    pub(crate) async fn lead_once(&self, name: &str, lease: i64) -> Result<(), String> {
        let key = format!("{name}/{lease:x}");
        let revision = self.acquire(&key, lease).await?;
        // Of the keys with this prefix that were created before, the last created.
        let end = format!("{name}0");
        let before = Message::new().bytes(1, format!("{name}/").as_bytes()).bytes(2, end.as_bytes());
        let before = before.number(3, 1).number(5, 2).number(6, 2).number(13, revision - 1);
        let found = self.0.call("/etcdserverpb.KV/Range", before).await?;
        if within(&found, 2).is_some() {
            return Err(format!("somebody else stands for {name}"));
        }
        let compare = Message::new().number(1, 0).number(2, 1).bytes(3, key.as_bytes()).number(5, revision);
        let delete = Message::new().message(3, &Message::new().bytes(1, key.as_bytes()));
        let transaction = Message::new().message(1, &compare).message(2, &delete);
        let answer = self.0.call("/etcdserverpb.KV/Txn", transaction).await?;
        if number(&answer, 2) == 1 { Ok(()) } else { Err(format!("{key} was gone")) }
    }

    /// The least that acquires a name: puts a key, with the lease, that must not have been there. Returns its revision.
    pub(crate) async fn acquire(&self, key: &str, lease: i64) -> Result<i64, String> {
        let compare = Message::new().number(1, 0).number(2, 1).bytes(3, key.as_bytes()).number(5, 0);
        let put = Message::new().bytes(1, key.as_bytes()).bytes(2, b"x").number(3, lease);
        let transaction = Message::new().message(1, &compare).message(2, &Message::new().message(2, &put));
        let answer = self.0.call("/etcdserverpb.KV/Txn", transaction).await?;
        let revision = within(&answer, 1).map_or(0, |header| number(header, 3));
        if number(&answer, 2) == 1 { Ok(revision) } else { Err(format!("{key} was held")) }
    }

    pub(crate) async fn release(&self, key: &str) -> Result<(), String> {
        let message = Message::new().bytes(1, key.as_bytes());
        self.0.call("/etcdserverpb.KV/DeleteRange", message).await.map(drop)
    }

    /// Asks to lead, until it does.
    pub(crate) async fn campaign(&self, name: &str, lease: i64) -> Result<LeaderKey, String> {
        let message = Message::new().bytes(1, name.as_bytes()).number(2, lease).bytes(3, b"x");
        let answer = self.0.call("/v3electionpb.Election/Campaign", message).await?;
        let key = within(&answer, 2).map(Bytes::copy_from_slice);
        key.map(LeaderKey).ok_or_else(|| "a leader without a key".to_string())
    }

    pub(crate) async fn resign(&self, key: &LeaderKey) -> Result<(), String> {
        let message = Message::new().bytes(1, &key.0);
        self.0.call("/v3electionpb.Election/Resign", message).await.map(drop)
    }

    /// One stream for the renewals of all leases of this client, as etcd's own clients have it.
    pub(crate) async fn keep_alive(&self) -> Result<(Renewals, Renewed), String> {
        let (questions, response) = self.0.stream("/etcdserverpb.Lease/LeaseKeepAlive").await?;
        Ok((Renewals(questions), Renewed { response: Some(response), answers: None }))
    }
}

/// Renewals on their way to a server.
pub(crate) struct Renewals(Questions);

impl Renewals {
    pub(crate) fn send(&mut self, leases: impl IntoIterator<Item = i64>) -> Result<(), String> {
        self.0.send(leases.into_iter().map(|lease| Message::new().number(1, lease)))
    }
}

/// What becomes of them.
pub(crate) struct Renewed {
    response: Option<h2::client::ResponseFuture>,
    answers: Option<Answers>,
}

impl Renewed {
    /// Which lease was renewed, or was not there any more; none once the server says no more.
    pub(crate) async fn next(&mut self) -> Result<Option<(i64, bool)>, String> {
        // It may be given up while it waits, and called again.
        if let Some(response) = &mut self.response {
            self.answers = Some(Answers::begin(response).await?);
            self.response = None;
        }
        let Some(answers) = &mut self.answers else { return Ok(None) };
        Ok(answers.next().await?.map(|answer| (number(&answer, 2), number(&answer, 3) > 0)))
    }
}

/// A client over HTTP, through the gateway that is part of every server.
pub(crate) struct GatewayClient(Connection);

impl GatewayClient {
    pub(crate) async fn connect(address: SocketAddr) -> Result<GatewayClient, String> {
        Connection::open(address).await.map(GatewayClient).map_err(|error| error.to_string())
    }

    async fn ask(&mut self, path: &str, said: &Value) -> Result<Value, String> {
        self.0.post(path, &said.to_string()).await.map_err(|error| format!("{path}: {error}"))?.good()
    }

    pub(crate) async fn acquire(&mut self, key: &str, lease: i64) -> Result<(), String> {
        let (key, value) = (base64(key.as_bytes()), base64(b"x"));
        let said = json!({
            "compare": [{ "result": "EQUAL", "target": "CREATE", "key": key, "create_revision": "0" }],
            "success": [{ "request_put": { "key": key, "value": value, "lease": lease.to_string() } }],
        });
        let answer = self.ask("/v3/kv/txn", &said).await?;
        if answer["succeeded"] == true { Ok(()) } else { Err(format!("the key was held: {answer}")) }
    }

    pub(crate) async fn release(&mut self, key: &str) -> Result<(), String> {
        self.ask("/v3/kv/deleterange", &json!({ "key": base64(key.as_bytes()) })).await.map(drop)
    }

    pub(crate) async fn campaign(&mut self, name: &str, lease: i64) -> Result<Value, String> {
        let name = base64(name.as_bytes());
        let said = json!({ "name": name, "lease": lease.to_string(), "value": base64(b"x") });
        Ok(self.ask("/v3/election/campaign", &said).await?["leader"].take())
    }

    pub(crate) async fn resign(&mut self, leader: &Value) -> Result<(), String> {
        self.ask("/v3/election/resign", &json!({ "leader": leader })).await.map(drop)
    }
}
