//! A cluster of three nodes: real processes of the program `suffrage`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use suffrage::{Keyring, Node, NodeBuilder};

use crate::http::Connection;
use crate::processes::{Folder, Process, Usage};

/// The time-out for the start of a node.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Three nodes with a temporary folder.
pub(crate) struct Cluster {
    /// Dropped before the folder: the processes end before their files are removed.
    nodes: Vec<Option<Process>>,
    folder: Folder,
    binary: PathBuf,
    keyring: Keyring,
    voters: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
}

/// The path of the program, in the folder of this program.
pub(crate) fn binary() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = own.with_file_name("suffrage");
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("{} does not exist; run `cargo xtask bench cluster`", binary.display())),
    }
}

impl Cluster {
    /// Starts three processes.
    pub(crate) async fn start() -> Result<Cluster, String> {
        let mut cluster = Cluster::prepare()?;
        cluster.launch_all(3).await?;
        Ok(cluster)
    }

    /// Starts two processes, and the third node in this process, as a program with the library does.
    pub(crate) async fn embedded() -> Result<(Cluster, Node), String> {
        let mut cluster = Cluster::prepare()?;
        let builder =
            cluster.builder(3).listen(cluster.voters[2]).new_data(cluster.folder.path().join("node-2"));
        let node = builder.start().await.map_err(|error| error.to_string())?;
        cluster.launch_all(2).await?;
        Ok((cluster, node))
    }

    fn prepare() -> Result<Cluster, String> {
        let folder = Folder::create("cluster")?;
        let keyring = Keyring::generate().map_err(|error| error.to_string())?;
        keyring.create(folder.path().join("keys")).map_err(|error| error.to_string())?;
        let addresses = [(); 6].map(|()| suffrage_testbed::address());
        let (voters, http) = (addresses[..3].to_vec(), addresses[3..].to_vec());
        let nodes = vec![None, None, None];
        Ok(Cluster { nodes, folder, binary: binary()?, keyring, voters, http })
    }

    async fn launch_all(&mut self, count: usize) -> Result<(), String> {
        for index in 0..count {
            self.launch(index, true)?;
        }
        for index in 0..count {
            self.wait_for(index).await?;
        }
        Ok(())
    }

    fn launch(&mut self, index: usize, new: bool) -> Result<(), String> {
        let voter = |(address, id): (&SocketAddr, usize)| format!("{id}={address}");
        let voters: Vec<String> = self.voters.iter().zip(1..).map(voter).collect();
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut arguments: Vec<String> = ["node", "--id"].map(String::from).into();
        arguments.push((index + 1).to_string());
        arguments.extend(["--voters".to_string(), voters.join(",")]);
        arguments.extend(["--keys".to_string(), path("keys")]);
        arguments.extend(["--data".to_string(), path(&format!("node-{index}"))]);
        arguments.extend(["--http".to_string(), self.http[index].to_string()]);
        arguments.extend(["--socket".to_string(), self.socket(index).display().to_string()]);
        arguments.extend(["--log".to_string(), "warn".to_string()]);
        arguments.extend(new.then(|| "--new".to_string()));
        let log = self.folder.path().join(format!("log-{index}"));
        self.nodes[index] = Some(Process::start(&self.binary, &arguments, &log)?);
        Ok(())
    }

    /// Waits until a node is ready: it hears from a majority.
    async fn wait_for(&mut self, index: usize) -> Result<(), String> {
        let start = Instant::now();
        loop {
            if let Ok(mut node) = Connection::open(self.http[index]).await
                && node.get("/readiness").await.is_ok_and(|answer| answer.status == 200)
            {
                return Ok(());
            }
            let ended = self.nodes[index].as_mut().is_none_or(Process::has_ended);
            if ended || start.elapsed() > START_TIMEOUT {
                let log = self.folder.last_log_line(&format!("log-{index}"));
                return Err(format!("node {} is not ready: {log}", index + 1));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills a node with SIGKILL.
    pub(crate) fn kill(&mut self, index: usize) {
        self.nodes[index] = None;
    }

    /// Restarts a killed node. Its voter is silent at first, for the length of the longest lease.
    pub(crate) async fn restart(&mut self, index: usize) -> Result<(), String> {
        self.launch(index, false)?;
        self.wait_for(index).await
    }

    /// The HTTP address of a node.
    pub(crate) fn http(&self, index: usize) -> SocketAddr {
        self.http[index]
    }

    /// The Unix socket of a node.
    pub(crate) fn socket(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("socket-{index}"))
    }

    fn builder(&self, id: u64) -> NodeBuilder {
        let builder = Node::builder(id).key(self.keyring.clone()).voters([1, 2, 3]);
        let voters = self.voters.iter().zip(1..);
        voters.fold(builder, |builder, (address, id)| builder.member(id, *address))
    }

    /// Starts a non-voting node of the cluster in this process.
    pub(crate) async fn member(&self, id: u64) -> Result<Node, String> {
        let builder = self.builder(id).listen(([127, 0, 0, 1], 0).into()).in_memory();
        builder.start().await.map_err(|error| error.to_string())
    }

    /// The resource usage of all nodes.
    pub(crate) fn usage(&self) -> Usage {
        Usage::sum(self.nodes.iter().flatten().map(Process::usage))
    }
}

/// The session of a client that leads.
pub(crate) struct Session {
    pub(crate) name: String,
    session: String,
}

/// An HTTP client of one node.
pub(crate) struct Client(Connection);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Client, String> {
        Connection::open(address).await.map(Client).map_err(|error| error.to_string())
    }

    /// Connects to the Unix socket of a node.
    pub(crate) async fn connect_local(socket: &Path) -> Result<Client, String> {
        Connection::open_local(socket).await.map(Client).map_err(|error| error.to_string())
    }

    /// Campaigns until the client leads.
    pub(crate) async fn campaign(&mut self, name: &str, ttl: Duration) -> Result<Session, String> {
        let mut request = json!({ "ttl": format!("{}ms", ttl.as_millis()), "wait": "30s" });
        loop {
            let path = format!("/elections/{name}/campaign");
            let answer = self.0.post(&path, &request.to_string()).await.map_err(|error| error.to_string())?;
            let session = |body: &Value| body["session"].as_str().unwrap_or_default().to_string();
            if answer.status == 202 {
                let body = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                request["session"] = session(&body).into();
                continue;
            }
            let session = session(&answer.success()?);
            return Ok(Session { name: name.to_string(), session });
        }
    }

    pub(crate) async fn renew(&mut self, session: &Session) -> Result<(), String> {
        self.send("renew", session).await
    }

    pub(crate) async fn resign(&mut self, session: &Session) -> Result<(), String> {
        self.send("resign", session).await
    }

    async fn send(&mut self, action: &str, session: &Session) -> Result<(), String> {
        let path = format!("/elections/{}/{action}", session.name);
        let body = format!("{{\"session\":\"{}\"}}", session.session);
        let answer = self.0.post(&path, &body).await.map_err(|error| error.to_string())?;
        answer.success().map(drop)
    }
}
