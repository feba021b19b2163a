//! Clusters of three nodes, each a process of `suffrage node`.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use suffrage_testbed::{Authority, Folder, Process, address, secret, until};

/// The bearer token of a cluster with credentials.
pub(crate) const TOKEN: &str = "correct-horse-battery-staple";

/// The number of lines of a node's log that a failure prints.
const LOG_LINES: usize = 8;

/// Three nodes. All vote.
pub(crate) struct Cluster {
    folder: Folder,
    nodes: Vec<Option<Process>>,
    http: Vec<SocketAddr>,
    has_credentials: bool,
}

/// The program `suffrage`, which cargo puts beside this program.
fn program() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    let path = this.with_file_name("suffrage");
    assert!(path.exists(), "{} does not exist: cargo build -p suffrage-daemon", path.display());
    path
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        Cluster::start_with(false)
    }

    /// Nodes with TLS, and with the token [`TOKEN`].
    pub(crate) fn start_with_credentials() -> Cluster {
        Cluster::start_with(true)
    }

    fn start_with(has_credentials: bool) -> Cluster {
        // A node that waits for a disk of a busy machine loses the leases of its clients.
        let folder = Folder::in_memory().expect("a folder");
        let key = folder.path().join("cluster.key");
        let made = Command::new(program()).arg("keygen").arg(&key).output().expect("keygen runs");
        assert!(made.status.success(), "keygen: {made:?}");
        let http: Vec<SocketAddr> = (0..3).map(|_| address()).collect();
        let mut cluster = Cluster { folder, nodes: (0..3).map(|_| None).collect(), http, has_credentials };
        let credentials = if has_credentials { cluster.make_credentials() } else { String::new() };
        let voters: Vec<String> = (1..=3).map(|id| format!("{id}={}", address())).collect();
        let voters = voters.join(",");
        for place in 0..3 {
            let (id, http) = (place + 1, cluster.http[place]);
            let (data, socket) = (cluster.path(&format!("data-{id}")), cluster.path(&format!("{id}.sock")));
            let text = format!(
                "id = {id}\nvoters = \"{voters}\"\nkeys = {key:?}\ndata = {data:?}\nhttp = \"{http}\"\n\
                 socket = {socket:?}\ndelay = \"10ms\"\nlongest-ttl = \"3m\"\n{credentials}"
            );
            fs::write(cluster.path(&format!("{id}.toml")), text).expect("the configuration is written");
            cluster.spawn(place, &["--new"]);
        }
        (0..3).for_each(|place| cluster.await_listener(place));
        cluster
    }

    /// A certificate of an authority for all nodes, and the token. Returns the lines of the configuration.
    fn make_credentials(&self) -> String {
        let authority = Authority::new("ours");
        let (certificate, key) = (self.path("node.pem"), self.path("node.key"));
        let host = self.http[0].ip().to_string();
        authority.sign_for(&[&host], &certificate, &key, 2090);
        fs::write(self.path("ca.pem"), authority.pem()).expect("the certificate is written");
        fs::write(self.path("stranger.pem"), Authority::new("stranger").pem()).expect("it is written");
        let token = self.token_file(TOKEN);
        format!("http-token = {token:?}\nhttp-cert = {certificate:?}\nhttp-key = {key:?}\n")
    }

    /// A file with this token.
    pub(crate) fn token_file(&self, token: &str) -> PathBuf {
        let path = self.path(&format!("token-{token}"));
        // A client may be reading the file.
        if path.exists() { path } else { secret(&path, token) }
    }

    /// A file in the folder of the cluster.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn spawn(&mut self, place: usize, flags: &[&str]) {
        let id = place + 1;
        let log = self.path(&format!("log-{id}"));
        let log = fs::File::options().create(true).append(true).open(log).expect("the log is opened");
        let child = Command::new(program())
            .arg("node")
            .arg("--config")
            .arg(self.path(&format!("{id}.toml")))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.nodes[place] = Some(Process(child.expect("the node starts")));
    }

    fn await_listener(&mut self, place: usize) {
        let (address, log) = (self.http[place], self.path(&format!("log-{}", place + 1)));
        let node = self.nodes[place].as_mut().expect("the node runs");
        until("the node listens", || {
            let exited = node.0.try_wait().expect("the node is a child");
            assert!(
                exited.is_none(),
                "the node has exited: {}",
                fs::read_to_string(&log).unwrap_or_default()
            );
            TcpStream::connect(address).ok().map(drop)
        });
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, place: usize) {
        self.nodes[place] = None;
    }

    /// Starts a node that was killed.
    pub(crate) fn restart(&mut self, place: usize) {
        self.spawn(place, &[]);
        self.await_listener(place);
    }

    pub(crate) fn address(&self, place: usize) -> SocketAddr {
        self.http[place]
    }

    /// The endpoint of a node.
    pub(crate) fn endpoint(&self, place: usize) -> String {
        let scheme = if self.has_credentials { "https" } else { "http" };
        format!("{scheme}://{}", self.http[place])
    }

    /// The endpoint of the socket of a node.
    pub(crate) fn socket(&self, place: usize) -> String {
        format!("unix:{}", self.path(&format!("{}.sock", place + 1)).display())
    }

    /// The endpoints of these nodes.
    pub(crate) fn endpoints<const N: usize>(&self, places: [usize; N]) -> [String; N] {
        places.map(|place| self.endpoint(place))
    }

    /// Waits until that node is a candidate in the election, for a client that waits there.
    pub(crate) fn await_candidate(&self, place: usize, election: &str) {
        let id = place as u64 + 1;
        let running = (0..3).find(|place| self.nodes[*place].is_some()).expect("a node runs");
        let url = format!("{}/elections/{election}", self.endpoint(running));
        until("the node is a candidate", || {
            let text = ureq::get(&url).call().ok()?.body_mut().read_to_string().ok()?;
            let body: Value = serde_json::from_str(&text).ok()?;
            body["queue"].as_array()?.iter().any(|waits| waits.as_u64() == Some(id)).then_some(())
        });
    }

    /// An operator resigns the election.
    pub(crate) fn resign(&self, place: usize, election: &str) {
        let node = self.endpoint(place);
        let told = Command::new(program()).args(["resign", election, "--node", &node]).output();
        let told = told.expect("`suffrage resign` runs");
        assert!(told.status.success(), "suffrage resign: {}", String::from_utf8_lossy(&told.stderr));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for id in 1..=3 {
                let log = fs::read_to_string(self.path(&format!("log-{id}"))).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines.len().saturating_sub(LOG_LINES);
                lines[last..].iter().for_each(|line| eprintln!("node {id}: {line}"));
            }
        }
    }
}

/// An endpoint at which nobody listens.
pub(crate) fn nobody() -> String {
    format!("http://{}", address())
}
