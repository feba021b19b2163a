//! Clients that lead for as long as their connection to the Unix socket of a node stays open.

mod history;
mod holder;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use self::holder::HolderProcess;
use super::{Cluster, LONG, soon};

/// Longer than any step on a busy machine, and shorter than a lease of [`LONG`]: the next leader got a released lease.
const PATIENCE: Duration = Duration::from_secs(30);

/// CLOCK_BOOTTIME, in nanoseconds.
fn boottime() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A connection of this process, on which it leads or waits.
struct Connection {
    lines: BufReader<UnixStream>,
}

impl Connection {
    fn open(socket: &Path, election: &str, body: &Value) -> Connection {
        let stream = soon(|| UnixStream::connect(socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut connection = Connection { lines: BufReader::new(stream) };
        connection.send(election, body);
        connection
    }

    fn hold(socket: &Path, election: &str, ttl: &str) -> Connection {
        Connection::open(socket, election, &json!({ "hold": "connection", "ttl": ttl }))
    }

    fn send(&mut self, election: &str, body: &Value) {
        let body = body.to_string();
        // The type is that of `curl -d`.
        let head = format!(
            "POST /elections/{election}/campaign HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.lines.get_mut().write_all((head + &body).as_bytes()).unwrap();
    }

    fn stream(&self) -> &UnixStream {
        self.lines.get_ref()
    }

    /// The next event; none at the end of the connection. Skips the head and the sizes of chunks.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).unwrap());
            }
        }
    }

    /// The next event of this kind.
    fn await_event(&mut self, event: &str) -> Value {
        loop {
            let next = self.next().unwrap_or_else(|| panic!("the connection ends before {event}"));
            if next["event"] == event {
                return next;
            }
        }
    }

    /// Whether no event has arrived that was not read.
    fn is_quiet(&self) -> bool {
        let mut data = [0; 4_096];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let count = recv(self.stream(), &mut data, flags).map_or(0, |(count, _)| count);
        !self.lines.buffer().contains(&b'{') && !data[..count].contains(&b'{')
    }

    /// The body of an error.
    fn refusal(mut self) -> Value {
        let mut answer = Vec::new();
        self.lines.read_until(b'}', &mut answer).unwrap();
        let begin = answer.iter().position(|&byte| byte == b'{').unwrap();
        serde_json::from_slice(&answer[begin..]).unwrap()
    }
}

/// One client leads at the first node, and another waits at the second.
fn one_leads_another_waits(cluster: &Cluster, ttl: &str) -> (Connection, Value, Connection) {
    let mut first = Connection::hold(&cluster.socket(0), "x", ttl);
    let leading = first.await_event("leading");
    let mut second = Connection::hold(&cluster.socket(1), "x", ttl);
    assert_eq!(second.next().unwrap(), json!({ "event": "waiting", "queue_position": 0 }));
    cluster.await_follower(1, 1);
    (first, leading, second)
}

#[test]
fn the_next_client_leads_when_the_process_of_the_leader_is_killed() {
    let cluster = Cluster::start("kill");
    let mut first = HolderProcess::start(&cluster.socket(0), "x", LONG, &[]);
    let leading = first.await_event("leading");
    assert_eq!(leading["watched"], "process");
    assert!(leading["now_ns"].as_u64() < leading["deadline_ns"].as_u64());
    let mut second = Connection::hold(&cluster.socket(1), "x", LONG);
    assert_eq!(second.await_event("waiting")["queue_position"], 0);
    cluster.await_follower(1, 1);
    // The lease lasts far longer than this test: it is released.
    first.kill();
    assert!(second.await_event("leading")["token"].as_u64() > leading["token"].as_u64());
}

/// A process that ends with the test, though its parent has ended before.
struct Orphan(Pid);

impl Drop for Orphan {
    fn drop(&mut self) {
        _ = kill_process(self.0, Signal::KILL);
    }
}

/// The leader is the process that has opened the connection. A child that has the socket too does not keep the lease.
#[test]
fn a_child_that_has_inherited_the_socket_does_not_keep_the_lease() {
    let cluster = Cluster::start("fork");
    let mut first = HolderProcess::start(&cluster.socket(0), "x", LONG, &["child"]);
    let child = first.await_event("child")["pid"].as_i64().unwrap();
    let child = Orphan(Pid::from_raw(child as i32).unwrap());
    first.await_event("leading");
    let mut second = Connection::hold(&cluster.socket(1), "x", LONG);
    second.await_event("waiting");
    first.kill();
    second.await_event("leading");
    rustix::process::test_kill_process(child.0).expect("the child has lived all the time");
}

/// A half-closed connection may be the end of the request only. The client reads on, and leads on.
#[test]
fn a_half_closed_connection_is_no_resignation() {
    let cluster = Cluster::start("half");
    let (mut first, leading, mut second) = one_leads_another_waits(&cluster, "2s");
    first.stream().shutdown(Shutdown::Write).unwrap();
    let mut deadline = leading["deadline_ns"].as_u64().unwrap();
    let told = deadline;
    while deadline < told + 4_000_000_000 {
        let renewed = first.next().unwrap();
        assert_eq!((&renewed["event"], &renewed["token"]), (&json!("renewed"), &leading["token"]));
        deadline = renewed["deadline_ns"].as_u64().unwrap();
    }
    assert!(second.is_quiet(), "the lease was held all the time");
    // The other direction is the client's own act: it cannot be told any more that it leads.
    first.stream().shutdown(Shutdown::Read).unwrap();
    second.await_event("leading");
}

#[test]
fn closing_a_connection_is_a_resignation_also_with_unread_events() {
    let cluster = Cluster::start("reset");
    let (first, leading, mut second) = one_leads_another_waits(&cluster, LONG);
    drop(first);
    let next = second.await_event("leading");
    assert!(next["token"].as_u64() > leading["token"].as_u64());
    // Nothing of the answer is read: the kernel resets the connection.
    let third = Connection::hold(&cluster.socket(2), "y", LONG);
    let mut fourth = Connection::hold(&cluster.socket(0), "y", LONG);
    soon(|| (!third.is_quiet()).then_some(()));
    drop(third);
    fourth.await_event("leading");
}

/// A stopped process is alive: the node renews its lease, and it leads on when it continues.
#[test]
fn a_stopped_process_keeps_the_lease() {
    let cluster = Cluster::start("sigstop");
    let mut first = HolderProcess::start(&cluster.socket(0), "x", "1s", &[]);
    let leading = first.await_event("leading");
    let mut second = Connection::hold(&cluster.socket(1), "x", "1s");
    second.await_event("waiting");
    first.signal(Signal::STOP);
    let over = leading["deadline_ns"].as_u64().unwrap() + 2_000_000_000;
    soon(|| (boottime() > over).then_some(()));
    first.signal(Signal::CONT);
    let renewed = loop {
        let renewed = first.await_event("renewed");
        if renewed["now_ns"].as_u64() > Some(over) {
            break renewed;
        }
    };
    assert_eq!(renewed["token"], leading["token"]);
    assert!(second.is_quiet());
}

/// Nobody releases the lease of a node that is dead: the next leader comes after every deadline of the last one.
#[test]
fn the_deadline_passes_before_the_next_leads_when_the_node_is_killed() {
    let mut cluster = Cluster::start("node-killed");
    let mut first = HolderProcess::start(&cluster.socket(0), "x", "1s", &[]);
    first.await_event("renewed");
    let mut second = Connection::hold(&cluster.socket(1), "x", "1s");
    second.await_event("waiting");
    cluster.await_follower(1, 1);
    let mut node = cluster.processes[0].take().unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    let next = second.await_event("leading");
    first.await_end();
    assert!(first.last_deadline() <= next["now_ns"].as_u64(), "{:?} {next}", first.last_deadline());
    // The socket of the dead node is replaced.
    assert!(cluster.socket(0).exists());
    let process = cluster.spawn(1, &[]);
    cluster.processes[0] = Some(process);
    let mut third = Connection::hold(&cluster.socket(0), "y", "1s");
    third.await_event("leading");
}

#[test]
fn an_operator_asks_the_client_to_hand_over() {
    let cluster = Cluster::start("hand-over");
    let (mut first, leading, mut second) = one_leads_another_waits(&cluster, LONG);
    let (status, body) = cluster.post(0, "x/resign", &json!({}));
    assert!(status == 202 && body["within_ms"].as_u64() > Some(1_000), "{status} {body}");
    let wanted = first.await_event("hand_over_wanted");
    // No renewal has come between.
    assert_eq!(wanted["token"], leading["token"]);
    assert!(second.is_quiet(), "the client has its time");
    drop(first);
    second.await_event("leading");
}

#[test]
fn a_client_that_resigns_by_its_session_is_told_the_end_and_can_ask_again() {
    let cluster = Cluster::start("resigned");
    let (mut first, leading, mut second) = one_leads_another_waits(&cluster, LONG);
    assert_eq!(cluster.post(0, "x/renew", &json!({ "session": leading["session"] })).0, 409);
    assert_eq!(cluster.post(0, "x/resign", &json!({ "session": leading["session"] })).0, 200);
    assert_eq!(first.next().unwrap(), json!({ "event": "lost", "reason": "resigned" }));
    second.await_event("leading");
    first.send("x", &json!({ "hold": "connection", "ttl": LONG }));
    assert_eq!(first.await_event("waiting")["queue_position"], 0);
    drop(second);
    first.await_event("leading");
}

/// A client that waits by a long poll gets no lease after it has closed its connection.
#[test]
fn a_long_poll_ends_with_its_connection() {
    let cluster = Cluster::start("long-poll");
    let mut first = Connection::hold(&cluster.socket(0), "x", LONG);
    first.await_event("leading");
    let poll = Connection::open(&cluster.socket(0), "x", &json!({ "ttl": LONG, "wait": "30s" }));
    // Behind the poll in the queue.
    let mut last = soon(|| {
        let mut last = Connection::hold(&cluster.socket(0), "x", LONG);
        (last.await_event("waiting")["queue_position"] == 1).then_some(last)
    });
    let closed = boottime();
    drop(poll);
    assert_eq!(last.await_event("waiting")["queue_position"], 0);
    drop(first);
    let leading = last.await_event("leading");
    assert!(leading["now_ns"].as_u64() < Some(closed + 20_000_000_000), "the poll has led or waited");
}

#[test]
fn a_node_that_stops_asks_its_clients_to_hand_over_and_removes_its_socket() {
    let mut cluster = Cluster::start("sigterm");
    let (mut first, _, mut second) = one_leads_another_waits(&cluster, LONG);
    cluster.signal(0, Signal::TERM);
    first.await_event("hand_over_wanted");
    assert!(second.is_quiet());
    drop(first);
    second.await_event("leading");
    assert_eq!(cluster.processes[0].take().unwrap().wait().unwrap().code(), Some(0));
    assert!(!cluster.socket(0).exists());
}

#[test]
fn clients_by_connection_are_refused_over_tcp_and_with_wrong_bodies() {
    let cluster = Cluster::start("refused");
    let (status, body) = cluster.post(0, "x/campaign", &json!({ "hold": "connection" }));
    assert!(status == 400 && body["error"].as_str().unwrap().contains("needs the Unix socket"), "{body}");
    for (body, word) in [
        (json!({ "hold": "hands" }), "must be \"connection\""),
        (json!({ "hold": "connection", "session": "1" }), "is not for `hold`"),
        (json!({ "hold": "connection", "ttl": "1ms" }), "ttl"),
    ] {
        let answer = Connection::open(&cluster.socket(0), "x", &body).refusal();
        assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
    }
    // The whole API is there, and needs no token.
    let mode = fs::metadata(cluster.socket(0)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

/// With a token, who may use the socket may lead, and may not do what an operator does. Needs root, to be somebody else.
#[test]
fn clients_of_the_socket_are_no_operators_if_there_is_a_token() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let token = "0123456789abcdef0123456789abcdef";
    let file = super::folder("rights-token").join("token");
    fs::write(&file, token).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let cluster = Cluster::start_with("rights", &format!("http-token = {file:?}\nsocket-mode = \"666\""));
    let post = |uid: u32, path: &str, body: Value, token: Option<&str>| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-m", "30", "-w", "%{http_code}", "-o", "/dev/null", "--unix-socket"]);
        curl.arg(cluster.socket(0)).arg(format!("http://localhost{path}")).args(["-d", &body.to_string()]);
        curl.args(token.iter().flat_map(|it| ["-H".to_string(), format!("Authorization: Bearer {it}")]));
        let done = std::os::unix::process::CommandExt::uid(&mut curl, uid).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    const NOBODY: u32 = 65_534;
    let campaign = json!({ "ttl": LONG, "wait": "30s" });
    assert_eq!(post(NOBODY, "/elections/x/campaign", campaign, None), "200", "anybody may lead");
    for (path, body) in [
        ("/voters", json!({ "stop": {} })),
        ("/elections/x/resign", json!({})),
        ("/elections/x/transfer", json!({ "to": 2 })),
    ] {
        assert_eq!(post(NOBODY, path, body.clone(), None), "403", "{path}");
        assert_eq!(post(NOBODY, path, body, Some("wrong")), "403", "{path}");
    }
    // A session of its own is not a matter of rights, also if it is unknown.
    let session = json!({ "session": "00000000000000000000000000000001" });
    assert_eq!(post(NOBODY, "/elections/x/resign", session, None), "409");
    assert_eq!(post(NOBODY, "/voters", json!({ "stop": {} }), Some(token)), "200");
    assert_eq!(post(0, "/voters", json!({ "stop": {} }), None), "200", "root is an operator");
    assert_eq!(post(0, "/elections/x/resign", json!({}), None), "202");
}

/// A path belongs to one node, and whatever is there that is no abandoned socket stays.
#[test]
fn a_socket_is_not_taken_from_another_node_or_file() {
    let mut cluster = Cluster::start("paths");
    let failure = |cluster: &Cluster| {
        fs::write(cluster.log(2), "").unwrap();
        let ended = cluster.spawn(2, &[]).wait().unwrap();
        assert_eq!(ended.code(), Some(1));
        fs::read_to_string(cluster.log(2)).unwrap()
    };
    let mut node = cluster.processes[1].take().unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    let file = cluster.folder.join("2.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("2.sock", "1.sock")).unwrap();
    assert!(failure(&cluster).contains("another node listens on it"));
    Connection::hold(&cluster.socket(0), "x", LONG).await_event("leading");
    fs::write(&file, text.replace("2.sock", "key")).unwrap();
    assert!(failure(&cluster).contains("is no socket"));
    assert!(fs::read_to_string(cluster.folder.join("key")).unwrap().len() > 40);
    fs::write(&file, text.replace("2.sock", "foreign.sock")).unwrap();
    let path = cluster.folder.join("foreign.sock");
    let foreign = UnixListener::bind(&path).unwrap();
    assert!(failure(&cluster).contains("another node listens on it"));
    drop(foreign);
    // A child that another test has forked has a copy of the listener until it calls `exec`.
    soon(|| UnixStream::connect(&path).is_err().then_some(()));
    let process = cluster.spawn(2, &[]);
    cluster.processes[1] = Some(process);
    Connection::hold(&path, "y", LONG).await_event("leading");
}
