//! A process that leads by connection: this very program, which starts itself with one test.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use serde_json::{Value, json};
use suffrage_testbed::Process;

use super::boottime;

const SOCKET: &str = "SUFFRAGE_TEST_SOCKET";

/// A process that leads or waits, and prints the events that it reads.
pub(super) struct HolderProcess {
    process: Process,
    events: BufReader<ChildStdout>,
    last_deadline: Option<u64>,
}

impl HolderProcess {
    pub(super) fn start(socket: &Path, election: &str, ttl: &str, extras: &[&str]) -> HolderProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node::connections::holder::hold_in_this_process", "--ignored", "--nocapture"])
            .env(SOCKET, socket)
            .env("SUFFRAGE_TEST_ELECTION", election)
            .env("SUFFRAGE_TEST_TTL", ttl)
            .env("SUFFRAGE_TEST_EXTRAS", extras.join(","))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        HolderProcess { process: Process(child), events, last_deadline: None }
    }

    /// The next event; none if the process has ended.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.events.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if line.starts_with('{') {
                let event: Value = serde_json::from_str(&line).unwrap();
                self.last_deadline = event["deadline_ns"].as_u64().or(self.last_deadline);
                return Some(event);
            }
        }
    }

    pub(super) fn await_event(&mut self, event: &str) -> Value {
        loop {
            let next = self.next().unwrap_or_else(|| panic!("the process ends before {event}"));
            if next["event"] == event {
                return next;
            }
        }
    }

    /// Reads the events until the process has ended.
    pub(super) fn await_end(&mut self) {
        while self.next().is_some() {}
    }

    pub(super) fn last_deadline(&self) -> Option<u64> {
        self.last_deadline
    }

    pub(super) fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

/// The process. With `child` among the extras a child inherits the socket. With `record=FILE` the process appends its token
/// and the time to the file as long as it leads, as a worker would.
#[test]
#[ignore = "a process that other tests start"]
#[expect(clippy::zombie_processes, reason = "the child is to live longer than this process")]
fn hold_in_this_process() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let [election, ttl, extras] =
        ["ELECTION", "TTL", "EXTRAS"].map(|name| std::env::var(format!("SUFFRAGE_TEST_{name}")).unwrap());
    // The test harness has begun a line.
    println!();
    let mut record: Option<File> = None;
    let mut stream = UnixStream::connect(socket).unwrap();
    for extra in extras.split(',') {
        if extra == "child" {
            fcntl_setfd(&stream, FdFlags::empty()).unwrap();
            let child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
            println!("{}", json!({ "event": "child", "pid": child.id() }));
        }
        if let Some(path) = extra.strip_prefix("record=") {
            record = Some(OpenOptions::new().append(true).create(true).open(path).unwrap());
        }
    }
    let body = json!({ "hold": "connection", "ttl": ttl }).to_string();
    let head = format!(
        "POST /elections/{election}/campaign HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    if record.is_some() {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    let (mut data, mut buffer, mut lease) = (Vec::new(), [0; 4_096], None);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => data.extend_from_slice(&buffer[..count]),
            // A read with a timeout is interrupted when a stopped process continues.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => return,
        }
        while let Some(end) = data.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = data.drain(..=end).collect();
            let Some(event) = serde_json::from_slice::<Value>(&line).ok().filter(Value::is_object) else {
                continue;
            };
            println!("{event}");
            if event["event"] == "lost" {
                return;
            }
            if let (Some(token), Some(deadline)) = (event["token"].as_u64(), event["deadline_ns"].as_u64()) {
                lease = Some((token, deadline));
            }
        }
        if let (Some((token, deadline)), Some(file)) = (lease, &mut record) {
            let now = boottime();
            if now < deadline {
                // One write: lines of several processes do not mix.
                file.write_all(format!("{now} {token} {}\n", std::process::id()).as_bytes()).unwrap();
            }
        }
    }
}
