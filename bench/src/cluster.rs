//! Three nodes of ours: real processes, of the program that users have.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use suffrage::{Keyring, Node, NodeBuilder};

use crate::http::Connection;
use crate::processes::{Folder, Process, Usage};

/// How long a node may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three nodes, in a folder of their own.
pub(crate) struct Cluster {
    /// They end before their folder does.
    nodes: Vec<Option<Process>>,
    folder: Folder,
    binary: PathBuf,
    keyring: Keyring,
    voters: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
}

/// The program, which stands beside this one.
pub(crate) fn binary() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = own.with_file_name("suffrage");
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("there is no {}: run `cargo xtask bench cluster`", binary.display())),
    }
}

impl Cluster {
    /// Three processes.
    pub(crate) async fn start() -> Result<Cluster, String> {
        let mut cluster = Cluster::prepare()?;
        cluster.launch_all(3).await?;
        Ok(cluster)
    }

    /// Two processes, and the third node in this one: how a program takes part that has the library.
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
        for place in 0..count {
            self.launch(place, true)?;
        }
        for place in 0..count {
            self.wait_for(place).await?;
        }
        Ok(())
    }

    fn launch(&mut self, place: usize, new: bool) -> Result<(), String> {
        let voter = |(address, id): (&SocketAddr, usize)| format!("{id}={address}");
        let voters: Vec<String> = self.voters.iter().zip(1..).map(voter).collect();
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut arguments: Vec<String> = ["node", "--id"].map(String::from).into();
        arguments.push((place + 1).to_string());
        arguments.extend(["--voters".to_string(), voters.join(",")]);
        arguments.extend(["--keys".to_string(), path("keys")]);
        arguments.extend(["--data".to_string(), path(&format!("node-{place}"))]);
        arguments.extend(["--http".to_string(), self.http[place].to_string()]);
        arguments.extend(["--log".to_string(), "warn".to_string()]);
        arguments.extend(new.then(|| "--new".to_string()));
        let log = self.folder.path().join(format!("log-{place}"));
        self.nodes[place] = Some(Process::start(&self.binary, &arguments, &log)?);
        Ok(())
    }

    /// Waits until a node hears a majority.
    async fn wait_for(&mut self, place: usize) -> Result<(), String> {
        let start = Instant::now();
        loop {
            if let Ok(mut node) = Connection::open(self.http[place]).await
                && node.get("/readiness").await.is_ok_and(|answer| answer.status == 200)
            {
                return Ok(());
            }
            let ended = self.nodes[place].as_mut().is_none_or(Process::has_ended);
            if ended || start.elapsed() > PATIENCE {
                let said = self.folder.last_words(&format!("log-{place}"));
                return Err(format!("node {} is not ready: {said}", place + 1));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, place: usize) {
        self.nodes[place] = None;
    }

    /// Starts a node again that was killed. It is silent for the length of the longest lease at first.
    pub(crate) async fn restart(&mut self, place: usize) -> Result<(), String> {
        self.launch(place, false)?;
        self.wait_for(place).await
    }

    /// Where each node serves HTTP.
    pub(crate) fn http(&self, place: usize) -> SocketAddr {
        self.http[place]
    }

    fn builder(&self, id: u64) -> NodeBuilder {
        let builder = Node::builder(id).key(self.keyring.clone()).voters([1, 2, 3]);
        let voters = self.voters.iter().zip(1..);
        voters.fold(builder, |builder, (address, id)| builder.member(id, *address))
    }

    /// A node of the same cluster in this process, which does not vote.
    pub(crate) async fn member(&self, id: u64) -> Result<Node, String> {
        let builder = self.builder(id).listen(([127, 0, 0, 1], 0).into()).in_memory();
        builder.start().await.map_err(|error| error.to_string())
    }

    /// What the nodes have used together.
    pub(crate) fn usage(&self) -> Usage {
        Usage::sum(self.nodes.iter().flatten().map(Process::usage))
    }
}

/// A client that leads.
pub(crate) struct Session {
    pub(crate) name: String,
    session: String,
}

/// A client of one node, over HTTP.
pub(crate) struct Client(Connection);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Client, String> {
        Connection::open(address).await.map(Client).map_err(|error| error.to_string())
    }

    /// Asks to lead, until it does.
    pub(crate) async fn campaign(&mut self, name: &str, ttl: Duration) -> Result<Session, String> {
        let mut said = json!({ "ttl": format!("{}ms", ttl.as_millis()), "wait": "30s" });
        loop {
            let path = format!("/elections/{name}/campaign");
            let answer = self.0.post(&path, &said.to_string()).await.map_err(|error| error.to_string())?;
            let session = |body: &Value| body["session"].as_str().unwrap_or_default().to_string();
            if answer.status == 202 {
                let body = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                said["session"] = session(&body).into();
                continue;
            }
            let session = session(&answer.good()?);
            return Ok(Session { name: name.to_string(), session });
        }
    }

    pub(crate) async fn renew(&mut self, session: &Session) -> Result<(), String> {
        self.say("renew", session).await
    }

    pub(crate) async fn resign(&mut self, session: &Session) -> Result<(), String> {
        self.say("resign", session).await
    }

    async fn say(&mut self, what: &str, session: &Session) -> Result<(), String> {
        let path = format!("/elections/{}/{what}", session.name);
        let body = format!("{{\"session\":\"{}\"}}", session.session);
        let answer = self.0.post(&path, &body).await.map_err(|error| error.to_string())?;
        answer.good().map(drop)
    }
}
