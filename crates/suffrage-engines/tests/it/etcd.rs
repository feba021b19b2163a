//! Elections on etcd: three real servers, `etcdctl elect` and `etcdctl lock` as candidates beside ours.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine, Error, Leadership, Loss};
use suffrage_servers::etcd::{Etcd, PREFIX};
use suffrage_servers::{Mode, PATIENCE, Proxy, Server, Servers as _};
use suffrage_testbed::Folder;
use tokio::time::{sleep, timeout};

use crate::conformance::conformance;
use crate::support::{BootClock, CandidateProcess};

async fn start() -> Etcd {
    tokio::task::block_in_place(|| Etcd::start(3, "http", |_| Vec::new()))
}

async fn eventually<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let start = BootClock.now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(BootClock.now() < start + PATIENCE, "{what}: not in time");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Clients of the servers.
trait Clients {
    fn engine(&self) -> Engine;
    /// A candidate or observer of another implementation.
    fn foreign(&self, arguments: &[&str]) -> Foreign;
}

impl Clients for Etcd {
    fn engine(&self) -> Engine {
        Engine::connect(&self.url(&self.clients), BootClock).unwrap()
    }

    fn foreign(&self, arguments: &[&str]) -> Foreign {
        let mut child = self.etcdctl(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Foreign { process: Server(child), lines }
    }
}

conformance!(start);

/// A candidate or observer of another implementation: `etcdctl`.
struct Foreign {
    process: Server,
    lines: mpsc::Receiver<String>,
}

impl Foreign {
    /// Waits for a line.
    fn line(&self) -> String {
        tokio::task::block_in_place(|| self.lines.recv_timeout(PATIENCE)).expect("a line of etcdctl")
    }

    /// Whether it has printed nothing.
    fn is_silent(&self) -> bool {
        self.lines.try_recv() == Err(mpsc::TryRecvError::Empty)
    }

    /// Makes it resign or unlock.
    fn interrupt(&self) {
        self.process.signal(Signal::INT);
    }
}

fn path(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

/// A ttl that no test uses up.
const LONG: Duration = Duration::from_secs(20);

async fn lead(engine: &Engine, name: &str, ttl: Duration, identity: &str) -> Leadership {
    let election = engine.election(name).ttl(ttl).identity(identity).join().unwrap();
    timeout(PATIENCE, election.lead()).await.expect("a leadership in time").unwrap()
}

fn stand(
    engine: &Engine,
    name: &'static str,
    ttl: Duration,
    identity: &'static str,
) -> tokio::task::JoinHandle<Leadership> {
    let engine = engine.clone();
    tokio::spawn(async move { lead(&engine, name, ttl, identity).await })
}

/// Waits until exactly these wait.
async fn waiting(engine: &Engine, name: &str, expected: &[&str]) {
    eventually(&format!("{expected:?} wait"), async || {
        let status = engine.status(name).await.ok()?;
        (status.waiting == expected).then_some(())
    })
    .await;
}

/// `etcdctl elect` and our candidates lead in turn, and each waits for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_elect_takes_part() {
    let servers = start().await;
    let engine = servers.engine();
    let first = lead(&engine, "foreign", LONG, "ours").await;
    // Their observer names our leader.
    let observer = servers.foreign(&["elect", "-l", &path("foreign")]);
    assert_eq!((observer.line(), observer.line()), (servers.keys("foreign")[0].clone(), "ours".to_string()));
    // They wait for us.
    let theirs = servers.foreign(&["elect", &path("foreign"), "theirs"]);
    waiting(&engine, "foreign", &["theirs"]).await;
    assert!(theirs.is_silent());
    let token = first.token();
    first.resign().await;
    let their_key = theirs.line();
    assert_eq!((vec![their_key.clone()], theirs.line().as_str()), (servers.keys("foreign"), "theirs"));
    // We wait for them, and our observer names them.
    let leader = engine.status("foreign").await.unwrap().leader.unwrap();
    assert!(leader.identity == "theirs" && leader.token > token, "{leader:?}");
    assert_eq!(engine.watch("foreign").changed().await.unwrap(), Some(leader.clone()));
    let next = stand(&engine, "foreign", LONG, "ours again");
    waiting(&engine, "foreign", &["ours again"]).await;
    assert!(!next.is_finished());
    theirs.interrupt();
    let next = next.await.unwrap();
    assert!(next.is_valid() && next.token() > leader.token);
    assert_eq!((observer.line(), observer.line().as_str()), (their_key, "theirs"));
    assert_eq!((vec![observer.line()], observer.line().as_str()), (servers.keys("foreign"), "ours again"));
    next.resign().await;
}

/// `etcdctl lock` excludes our candidates, and they exclude it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_lock_excludes() {
    let servers = start().await;
    let engine = servers.engine();
    let lock = servers.foreign(&["lock", &path("locked")]);
    assert_eq!(vec![lock.line()], servers.keys("locked"));
    let ours = stand(&engine, "locked", LONG, "ours");
    waiting(&engine, "locked", &["ours"]).await;
    assert!(!ours.is_finished());
    lock.interrupt();
    let ours = ours.await.unwrap();
    let lock = servers.foreign(&["lock", &path("locked")]);
    waiting(&engine, "locked", &[""]).await;
    assert!(lock.is_silent() && ours.is_valid());
    ours.resign().await;
    assert_eq!(vec![lock.line()], servers.keys("locked"));
}

/// The lease of a waiting candidate is revoked while the candidate is paused, and the leader ahead resigns: the candidate
/// sees only that nobody is ahead, and its lease would last by its clock. The Go client leads then, without a key (etcd pull
/// request 22387). Ours stands again behind the true leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_lease_is_no_leadership() {
    let servers = start().await;
    let engine = servers.engine();
    let ahead = lead(&engine, "phantom", LONG, "ahead").await;
    let mut paused =
        CandidateProcess::start(&servers.url(&servers.clients), "phantom", Duration::from_secs(60), "paused");
    waiting(&engine, "phantom", &["paused"]).await;
    // It waits for the key ahead: its second watch has started.
    sleep(Duration::from_millis(300)).await;
    paused.process.signal(Signal::STOP);
    let key = servers.keys("phantom").remove(1);
    let lease = key.rsplit('/').next().unwrap();
    servers.ask(&["lease", "revoke", lease]);
    let theirs = servers.foreign(&["elect", &path("phantom"), "theirs"]);
    waiting(&engine, "phantom", &["theirs"]).await;
    ahead.resign().await;
    assert_eq!((theirs.line(), theirs.line().as_str()), (servers.keys("phantom")[0].clone(), "theirs"));
    paused.process.signal(Signal::CONT);
    waiting(&engine, "phantom", &["paused"]).await;
    assert_eq!(paused.drain(), []);
    assert_eq!(engine.status("phantom").await.unwrap().leader.unwrap().identity, "theirs");
    theirs.interrupt();
    let (token, _) = tokio::task::block_in_place(|| paused.leads());
    assert_eq!(engine.status("phantom").await.unwrap().leader.unwrap().token, token);
}

/// The lease of the leader is revoked: the leader is told at once, long before its lease would end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_is_told_that_its_lease_was_revoked() {
    let servers = start().await;
    let engine = servers.engine();
    let ttl = PATIENCE * 4;
    let leader = lead(&engine, "revoked", ttl, "me").await;
    let key = servers.keys("revoked").remove(0);
    servers.ask(&["lease", "revoke", key.rsplit('/').next().unwrap()]);
    timeout(PATIENCE, leader.lost()).await.expect("the loss in time");
    assert!(matches!(leader.loss(), Some(Loss::Ended(Error::Ended { .. }))), "{:?}", leader.loss());
    // The next token is greater.
    assert!(lead(&engine, "revoked", LONG, "next").await.token() > leader.token());
}

/// The key of the leader is overwritten without its lease: it would stay for ever. The leader steps down and removes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_without_its_lease_is_removed() {
    let servers = start().await;
    let engine = servers.engine();
    let leader = lead(&engine, "detached", servers.ttl(), "me").await;
    let key = servers.keys("detached").remove(0);
    servers.ask(&["put", &key, "mine"]);
    let status = engine.status("detached").await.unwrap();
    assert!(status.remarks.iter().any(|remark| remark.contains("bound to no lease")), "{status:?}");
    timeout(PATIENCE, leader.lost()).await.expect("the loss in time");
    assert!(matches!(leader.loss(), Some(Loss::Ended(Error::Ended { .. }))), "{:?}", leader.loss());
    eventually("the key is removed", async || servers.keys("detached").is_empty().then_some(())).await;
    lead(&engine, "detached", servers.ttl(), "next").await.resign().await;
}

/// The events that a watch missed while its connection was cut are compacted: the leader leads on, and is still told when
/// its key is deleted. A waiting candidate leads all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_go_on_after_a_compaction() {
    let servers = start().await;
    let mut proxies = Vec::new();
    for address in servers.addresses() {
        proxies.push(Proxy::start(address).await);
    }
    let addresses: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).collect();
    let engine = Engine::connect(&servers.url(&addresses), BootClock).unwrap();
    let ttl = PATIENCE * 4;
    let leader = lead(&engine, "compacted", ttl, "leader").await;
    let next = stand(&engine, "compacted", ttl, "next");
    waiting(&servers.engine(), "compacted", &["next"]).await;
    for number in 0..5 {
        servers.ask(&["put", "other", &number.to_string()]);
    }
    proxies.iter().for_each(|proxy| proxy.set(Mode::Cut));
    let text = servers.ask(&["get", "other", "-w", "fields"]);
    let revision = text.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap();
    servers.ask(&["compaction", revision]);
    proxies.iter().for_each(|proxy| proxy.set(Mode::Pass));
    // The watches are there again: this one was started after them, on the same stream.
    let mut watch = engine.watch("probe");
    let told = tokio::spawn(async move { watch.changed().await });
    eventually("the watch is back", async || {
        servers.ask(&["put", &path("probe/1"), "x"]);
        told.is_finished().then_some(())
    })
    .await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
    servers.delete_entry("compacted");
    timeout(PATIENCE, leader.lost()).await.expect("the loss in time");
    let next = timeout(PATIENCE, next).await.expect("the next in time").unwrap();
    assert!(next.token() > leader.token());
}

/// One server after the other is silent: the leader moves to the next one in time, and so do the watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_costs_no_leadership() {
    let servers = start().await;
    let mut proxies = Vec::new();
    for address in servers.addresses() {
        proxies.push(Proxy::start(address).await);
    }
    let addresses: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.address).collect();
    let engine = Engine::connect(&servers.url(&addresses), BootClock).unwrap();
    let ttl = Duration::from_secs(9);
    let leader = lead(&engine, "silent", ttl, "me").await;
    // An observer of its own connection, which nothing but watches uses.
    let observer = Engine::connect(&servers.url(&addresses), BootClock).unwrap();
    let mut watch = observer.watch("silent");
    assert_eq!(watch.changed().await.unwrap().unwrap().identity, "me");
    let told = tokio::spawn(async move {
        loop {
            match watch.changed().await {
                Err(Error::Unavailable { .. }) => {}
                told => return told,
            }
        }
    });
    for proxy in &proxies {
        proxy.set(Mode::Silent);
        let start = BootClock.now();
        eventually("a ttl", async || (BootClock.now() > start + ttl).then_some(())).await;
        assert!(leader.is_valid(), "{:?}", leader.loss());
        proxy.set(Mode::Pass);
    }
    assert!(!told.is_finished());
    proxies[0].set(Mode::Silent);
    leader.resign().await;
    let told = timeout(PATIENCE, told).await.expect("the observer is told").unwrap();
    assert_eq!(told.unwrap(), None);
}

/// The name of one election continues that of another: etcd's recipe counts both. Nobody leads twice, and status says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_below_another_name_is_remarked() {
    let servers = start().await;
    let engine = servers.engine();
    let below = lead(&engine, "name/below", LONG, "below").await;
    let above = stand(&engine, "name", LONG, "above");
    waiting(&engine, "name", &["above"]).await;
    let status = engine.status("name").await.unwrap();
    assert!(status.remarks.iter().any(|remark| remark.contains("counts as a candidate here")), "{status:?}");
    below.resign().await;
    above.await.unwrap().resign().await;
}

/// Users `me`, who may use the elections of the tests, and `stranger`, who may not.
fn enable_authentication(servers: &Etcd) {
    for command in [
        "user add root:topsecret",
        "user grant-role root root",
        "role add elections",
        "role grant-permission elections --prefix readwrite tests/engines/",
        "user add me:topsecret",
        "user grant-role me elections",
        "user add stranger:topsecret",
        "auth enable",
    ] {
        servers.ask(&command.split(' ').collect::<Vec<&str>>());
    }
}

/// A user is needed, and its permissions can be changed while it leads: that ends all tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_without_tls() {
    let mut servers = start().await;
    enable_authentication(&servers);
    let hosts = servers.url(&servers.clients);
    let nobody = Engine::connect(&hosts, BootClock).unwrap();
    let error = nobody.election("users").join().unwrap().lead().await.unwrap_err();
    assert!(
        matches!(error, Error::Refused { .. }) && error.to_string().contains("USER:PASSWORD@"),
        "{error}"
    );
    let folder = Folder::new().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "topsecret\n").unwrap();
    let url = format!("{}?password-file={}", hosts.replace("//", "//me@"), file.display());
    let engine = Engine::connect(&url, BootClock).unwrap();
    let leader = lead(&engine, "users", LONG, "me").await;
    let next = stand(&engine, "users", LONG, "next");
    servers.client_flags.push("--user=root:topsecret".to_string());
    servers.ask(&["user", "add", "another:topsecret"]);
    waiting(&engine, "users", &["next"]).await;
    let token = leader.token();
    leader.resign().await;
    assert!(timeout(PATIENCE, next).await.expect("the next in time").unwrap().token() > token);
}

/// TLS with a certificate of the client, and a user with a password. Tokens that the servers have forgotten are renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_and_users() {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let issue = |names: Vec<String>| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let mut servers = Etcd::start(1, "https", |folder| {
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let ip = suffrage_testbed::address().ip().to_string();
        let (server, client) = (issue(vec![ip]), issue(vec!["client".to_string()]));
        write("client.pem", &client.0);
        write("client.key", &client.1);
        vec![
            format!("--trusted-ca-file={}", write("ca.pem", &authority_certificate.pem())),
            format!("--cert-file={}", write("server.pem", &server.0)),
            format!("--key-file={}", write("server.key", &server.1)),
            "--client-cert-auth".to_string(),
        ]
    });
    let file = |name: &str| servers.folder.path().join(name).display().to_string();
    let (cacert, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let tls = [format!("--cacert={cacert}"), format!("--cert={cert}"), format!("--key={key}")];
    servers.client_flags = tls.to_vec();
    eventually("a leading server", async || servers.leading_server()).await;
    for command in [
        "user add root:topsecret",
        "user grant-role root root",
        "role add elections",
        "role grant-permission elections --prefix readwrite tests/engines/",
        "user add me:topsecret",
        "user grant-role me elections",
        "user add stranger:topsecret",
        "auth enable",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        eventually(command, async || {
            servers.etcdctl(&words).output().unwrap().status.success().then_some(())
        })
        .await;
    }
    servers.client_flags.push("--user=me:topsecret".to_string());
    let address = servers.clients[0];
    let connect = |user: &str, parameters: &str| {
        Engine::connect(&format!("etcd://{user}{address}/{PREFIX}?{parameters}"), BootClock).unwrap()
    };
    let parameters = format!("cacert={cacert}&cert={cert}&key={key}");
    // Refused, and the secret is in no text.
    for (user, parameters, reason) in [
        ("me:wrongsecret@", parameters.as_str(), "authentication failed"),
        // The certificate names no user.
        ("", parameters.as_str(), "permission denied"),
        ("stranger:topsecret@", parameters.as_str(), "permission denied"),
    ] {
        let engine = connect(user, parameters);
        let election = engine.election("secured").ttl(servers.ttl()).join().unwrap();
        let error = timeout(PATIENCE, election.lead()).await.expect(reason).unwrap_err();
        let text = format!("{error} {error:?} {engine} {engine:?} {election:?}");
        assert!(matches!(error, Error::Refused { .. }) && text.contains(reason), "{text}");
        assert!(
            !text.contains("secret@") && !text.contains("wrong") && !text.contains("topsecret"),
            "{text}"
        );
    }
    // Without TLS, without a certificate of the client, and with other authorities: nothing works.
    for parameters in ["tls=false", &format!("cacert={cacert}"), &format!("cert={cert}&key={key}")] {
        let engine = connect("me:topsecret@", parameters);
        let error = engine.status("secured").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{parameters}: {error}");
    }
    let engine = connect("me:topsecret@", &parameters);
    let leader = lead(&engine, "secured", LONG, "me").await;
    let next = stand(&engine, "secured", LONG, "next");
    waiting(&engine, "secured", &["next"]).await;
    // The restarted server does not know the token any more.
    servers.restart_all();
    let start = BootClock.now();
    eventually("a ttl", async || (BootClock.now() > start + LONG).then_some(())).await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
    let token = leader.token();
    leader.resign().await;
    assert!(timeout(PATIENCE, next).await.expect("the next in time").unwrap().token() > token);
}
