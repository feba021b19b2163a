//! Measures the death of a process: the time from SIGKILL of the process that leads by connection until the next client,
//! which waits by connection at another node, is told that it leads. All nodes stay alive.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::times::Times;

/// The first argument of this program if it is to be a holder.
pub(crate) const HOLD: &str = "hold";
/// The time for which the next client waits before the kill.
const SETTLE: Duration = Duration::from_millis(120);
/// The time-out of a step.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kills so many holders, one after the other, each of another node than the one before.
pub(crate) async fn suffrage(cluster: &Cluster, ttl: Duration, count: usize) -> Result<Times, String> {
    let sockets: Vec<_> = (0..3).map(|index| cluster.socket(index)).collect();
    let measured = tokio::task::spawn_blocking(move || {
        (0..count).map(|number| measure_kill(&sockets[number % 3], &sockets[(number + 1) % 3], ttl)).collect()
    });
    let took: Result<Vec<Duration>, String> = measured.await.map_err(|error| error.to_string())?;
    Times::of(&took?).ok_or_else(|| "no kill was measured".to_string())
}

fn measure_kill(holder: &Path, next: &Path, ttl: Duration) -> Result<Duration, String> {
    let mut holder = Holder::start(holder, ttl)?;
    let mut next = Connection::open(next, ttl)?;
    next.await_event("waiting")?;
    let next = thread::spawn(move || next.await_event("leading").map(|()| Instant::now()));
    thread::sleep(SETTLE);
    if next.is_finished() {
        return Err("the holder lost its lease without a kill: the machine is too busy".to_string());
    }
    let start = Instant::now();
    // The wait for the end of the process is not a part of what a user waits for.
    holder.0.kill().map_err(|error| error.to_string())?;
    let at = next.join().map_err(|_| "the next client has panicked".to_string())??;
    Ok(at - start)
}

/// A process that leads by connection.
struct Holder(Child);

impl Holder {
    /// Starts the process, and waits until it leads.
    fn start(socket: &Path, ttl: Duration) -> Result<Holder, String> {
        let failed = |error: std::io::Error| format!("cannot start a holder: {error}");
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(own);
        command.arg(HOLD).arg(socket).arg(ttl.as_millis().to_string());
        let mut holder = Holder(command.stdout(Stdio::piped()).spawn().map_err(failed)?);
        let stdout = holder.0.stdout.take().ok_or("a holder has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        if line.is_empty() { Err("the holder has ended".to_string()) } else { Ok(holder) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The whole life of a holder: this program as another process.
pub(crate) fn hold(arguments: &[String]) -> Result<(), String> {
    let [socket, ttl] = arguments else { return Err("usage: hold SOCKET TTL-IN-MS".to_string()) };
    let ttl = Duration::from_millis(ttl.parse().map_err(|_| "the ttl is no number".to_string())?);
    let mut connection = Connection::open(Path::new(socket), ttl)?;
    connection.await_event("leading")?;
    println!("leads");
    connection.await_event("lost")
}

/// A connection to the Unix socket of a node.
struct Connection(BufReader<UnixStream>);

impl Connection {
    fn open(socket: &Path, ttl: Duration) -> Result<Connection, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", socket.display());
        let mut stream = UnixStream::connect(socket).map_err(failed)?;
        let body = format!("{{\"hold\":\"connection\",\"ttl\":\"{}ms\"}}", ttl.as_millis());
        let head = format!(
            "POST /elections/kill/campaign HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(Connection(BufReader::new(stream)))
    }

    fn await_event(&mut self, event: &str) -> Result<(), String> {
        let (wanted, mut line) = (format!("\"event\":\"{event}\""), String::new());
        loop {
            line.clear();
            match self.0.read_line(&mut line) {
                Ok(0) => return Err(format!("the connection ends before {event}")),
                Ok(_) if line.contains(&wanted) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(format!("no event {event}: {error}")),
            }
        }
    }
}
