//! Servers of ZooKeeper.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use suffrage_testbed::Folder;

use crate::Servers;
use crate::programs::{Server, install};

/// Where Debian has the classes of ZooKeeper. The jar names those that it needs.
const JAR: &str = "/usr/share/java/zookeeper.jar";
/// The tick of the servers. Sessions last two ticks at least.
const TICK: Duration = Duration::from_millis(500);
/// The ttl of the tests.
pub const TTL: Duration = Duration::from_secs(4);

/// A call of Java that starts fast and needs little memory.
pub fn java(classes: &str) -> Command {
    if !Path::new(JAR).exists() {
        install("zookeeper");
    }
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx96m", "-cp", classes]);
    command
}

/// The class path of Apache Curator. Installs it, and the compiler of Java, if they are missing.
pub fn curator() -> String {
    let jar = "/usr/share/java/curator-recipes.jar";
    if !Path::new(jar).exists() {
        install("libcurator-recipes-java");
    }
    if !Path::new("/usr/bin/javac").exists() {
        install("default-jdk-headless");
    }
    // The client of ZooKeeper wants a logger.
    format!("{jar}:/usr/share/java/slf4j-nop.jar")
}

/// A server in its folder.
pub fn start_server(folder: &Path, number: usize) -> Server {
    let folder = folder.join(number.to_string());
    // Debian's jar does not name all that TLS needs.
    let netty = ["codec", "resolver"].map(|part| format!(":/usr/share/java/netty-{part}.jar")).concat();
    let mut command = java(&format!("{JAR}{netty}"));
    // Small files, and no fsync: processes are killed, and not the machine.
    command.args([
        "-Dzookeeper.preAllocSize=64",
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.admin.enableServer=false",
    ]);
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(folder.join("zoo.cfg"));
    Server::start(&mut command, &folder.join("log"))
}

/// Writes the settings of a server. `peers` are its `server.N` lines.
pub fn configure(folder: &Path, number: usize, client: SocketAddr, peers: &str, tick: Duration) {
    let folder = folder.join(number.to_string());
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("myid"), number.to_string()).unwrap();
    let settings = format!(
        "tickTime={}\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n\
         4lw.commands.whitelist=srvr\ndataDir={}\nclientPort={}\nclientPortAddress={}\n{peers}",
        tick.as_millis(),
        data.display(),
        client.port(),
        client.ip(),
    );
    std::fs::write(folder.join("zoo.cfg"), settings).unwrap();
}

/// The role of a server, or `None` if it does not serve.
pub fn mode(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"srvr").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_string)
}

/// Three servers.
pub struct ZooKeeper {
    /// The folder of their data.
    pub folder: Folder,
    clients: Vec<SocketAddr>,
    servers: Vec<Option<Server>>,
    /// The parameters of the URL.
    query: &'static str,
}

impl ZooKeeper {
    /// Three servers, and the parameters of their URL.
    pub fn new(query: &'static str) -> ZooKeeper {
        let folder = Folder::new().unwrap();
        let clients: Vec<SocketAddr> = (0..3).map(|_| suffrage_testbed::address()).collect();
        let peers: String = (1..=3)
            .map(|number| {
                let (quorum, election) = (suffrage_testbed::address(), suffrage_testbed::address());
                format!("server.{number}={quorum}:{}\n", election.port())
            })
            .collect();
        for (number, client) in (1..).zip(&clients) {
            configure(folder.path(), number, *client, &peers, TICK);
        }
        let mut all = ZooKeeper { folder, clients, servers: vec![None, None, None], query };
        all.start();
        all
    }

    fn start(&mut self) {
        for (number, server) in (1..).zip(&mut self.servers) {
            *server = Some(start_server(self.folder.path(), number));
        }
        suffrage_testbed::until("the servers serve", || {
            self.clients.iter().all(|client| mode(*client).is_some()).then_some(())
        });
    }

    /// Runs ZooKeeper's own tool.
    pub fn tool(&self, arguments: &[&str]) -> String {
        let servers: Vec<String> = self.clients.iter().map(ToString::to_string).collect();
        let mut command = java(JAR);
        command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &servers.join(",")]).args(arguments);
        let output = command.output().expect("java");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {out}{error}");
        out
    }

    /// The children of a node, by ZooKeeper's own tool.
    pub fn children(&self, path: &str) -> Vec<String> {
        let output = self.tool(&["ls", path]);
        let list =
            output.lines().find_map(|line| line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')));
        let list = list.unwrap_or_else(|| panic!("no list in {output}"));
        list.split(", ").filter(|child| !child.is_empty()).map(str::to_string).collect()
    }
}

impl Servers for ZooKeeper {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.clients.clone()
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("zookeeper://{}/suffrage/test{}", hosts.join(","), self.query)
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn pids(&self) -> Vec<u32> {
        self.servers.iter().flatten().map(Server::id).collect()
    }

    fn kill_leading_server(&mut self) -> bool {
        let leading = self.clients.iter().position(|client| mode(*client).as_deref() == Some("leader"));
        self.servers[leading.expect("a leading server")].take().expect("it runs").kill();
        true
    }

    fn restart_all(&mut self) {
        self.servers.iter_mut().flatten().for_each(Server::kill);
        self.start();
    }

    fn delete_entry(&self, name: &str) {
        let folder = format!("/suffrage/test/{name}");
        let children = self.children(&folder);
        assert_eq!(children.len(), 1, "{children:?}");
        self.tool(&["delete", &format!("{folder}/{}", children[0])]);
    }
}
