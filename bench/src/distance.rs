//! Benchmark of three nodes far from each other: `cargo xtask bench distance`.
//!
//! Each node has a network namespace of its own, and a switch delays every frame. One HTTP client on each host contends
//! for one election. The first part founds clusters anew and measures the time until somebody leads. The second part
//! lets the last cluster run, and counts how often the leader changes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use suffrage::Keyring;
use suffrage_testbed::{Folder, LinkConditions, Network, Process};

use crate::cluster::{self, Client};
use crate::times::millis;

const USAGE: &str = "\
usage: cargo xtask bench distance [--minutes N] [--cold-starts N] [--rtt-ms N] [--json]

Runs three nodes of `suffrage node` with default timings in three network namespaces, with a switch between them that
delays every frame. Measures the time from the start of the last node until a client leads, for several new clusters.
Then counts the changes of leader in the last cluster. Needs root, `ip` of iproute2 and /dev/net/tun.

  --minutes N      the time for which changes of leader are counted [default: 10]
  --cold-starts N  the number of new clusters [default: 10]
  --rtt-ms N       the round trip between two nodes, in milliseconds [default: 200]
  --json           prints the result as JSON

Exit codes: 0 both targets are met, 1 a target is missed or the benchmark failed, 2 the command line is wrong.";

const NODES: usize = 3;
/// The lease of the clients: the default of nodes.
const TTL: Duration = Duration::from_secs(3);
/// The election.
const NAME: &str = "distance";
/// The longest time until somebody leads, and the number of changes of leader, that are targets.
const TARGET: (Duration, usize) = (Duration::from_millis(1_500), 0);
/// The time-out for the first leader.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The flags of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flags {
    minutes: u32,
    cold_starts: u32,
    rtt: Duration,
    json: bool,
}

impl Flags {
    fn parse(arguments: &[String]) -> Result<Flags, String> {
        let mut flags = Flags { minutes: 10, cold_starts: 10, rtt: Duration::from_millis(200), json: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().and_then(|value| value.parse::<u32>().ok());
                value.ok_or_else(|| format!("{argument}: needs a whole number"))
            };
            match argument.as_str() {
                "--minutes" => flags.minutes = number()?,
                "--cold-starts" => flags.cold_starts = number()?.max(1),
                "--rtt-ms" => flags.rtt = Duration::from_millis(number()?.into()),
                "--json" => flags.json = true,
                other => return Err(format!("there is no flag `{other}`")),
            }
        }
        Ok(flags)
    }
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Figures {
    rtt: Duration,
    /// The time from the start of the last node until somebody leads, of each cluster.
    cold_starts: Vec<Duration>,
    /// The time for which the last cluster was observed.
    observed: Duration,
    /// How often another leadership began in that time.
    changes: usize,
}

impl Figures {
    fn worst(&self) -> Duration {
        self.cold_starts.iter().max().copied().unwrap_or_default()
    }

    fn median(&self) -> Duration {
        let mut sorted = self.cold_starts.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    fn met(&self) -> [bool; 2] {
        [self.worst() <= TARGET.0, self.changes <= TARGET.1]
    }

    fn text(&self) -> String {
        let verdict = |met: bool| if met { "met" } else { "MISSED" };
        let [start, changes] = self.met().map(verdict);
        format!(
            "three nodes, round trip {:?}, ttl {TTL:?}, default timings\n\n\
             from the start of the last node to the first leader, {} new clusters:\n\
             {:>8.0} ms  median\n\
             {:>8.0} ms  longest; {:.0} ms at most: {start}\n\
             changes of leader in {} s:\n\
             {:>8}     {} at most: {changes}",
            self.rtt,
            self.cold_starts.len(),
            millis(self.median()),
            millis(self.worst()),
            millis(TARGET.0),
            self.observed.as_secs(),
            self.changes,
            TARGET.1,
        )
    }

    fn json(&self) -> Value {
        let [start, changes] = self.met();
        let each: Vec<f64> = self.cold_starts.iter().copied().map(millis).collect();
        json!({
            "rtt_ms": millis(self.rtt), "ttl_ms": millis(TTL), "cold_starts_ms": each,
            "cold_start_median_ms": millis(self.median()), "cold_start_longest_ms": millis(self.worst()),
            "cold_start_target_ms": millis(TARGET.0), "cold_start_met": start,
            "observed_s": self.observed.as_secs(), "leader_changes": self.changes, "leader_changes_met": changes,
        })
    }
}

/// Runs the benchmark with these arguments.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let flags = match Flags::parse(arguments) {
        Ok(flags) => flags,
        Err(reason) => {
            eprintln!("bench: {reason}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match measure(flags) {
        Ok(figures) => {
            println!("{}", if flags.json { figures.json().to_string() } else { figures.text() });
            if figures.met() == [true, true] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            eprintln!("bench: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn measure(flags: Flags) -> Result<Figures, String> {
    let network = Network::new(NODES, 1).map_err(|error| error.to_string())?;
    network.set_conditions_everywhere(LinkConditions { delay: flags.rtt / 2, ..LinkConditions::default() });
    let (mut cold_starts, mut changes) = (Vec::new(), 0);
    let minutes = Duration::from_secs(60) * flags.minutes;
    for number in 1..=flags.cold_starts {
        let observed = if number == flags.cold_starts { minutes } else { Duration::ZERO };
        let (took, more) = found_cluster(&network, observed)?;
        eprintln!("cluster {number}: somebody leads after {:.0} ms", millis(took));
        cold_starts.push(took);
        changes = more;
    }
    Ok(Figures { rtt: flags.rtt, cold_starts, observed: minutes, changes })
}

/// Founds a cluster. Returns the time until somebody leads, and the number of changes of leader in the time after that.
fn found_cluster(network: &Network, observed: Duration) -> Result<(Duration, usize), String> {
    let folder = Folder::new().map_err(|error| error.to_string())?;
    let keyring = Keyring::generate().map_err(|error| error.to_string())?;
    keyring.create(folder.path().join("keys")).map_err(|error| error.to_string())?;
    let mut nodes = Vec::new();
    for host in 1..=NODES {
        nodes.push(start_node(network, folder.path().to_path_buf(), host)?);
    }
    let start = Instant::now();
    let stop = AtomicBool::new(false);
    let (sender, leaders) = channel();
    thread::scope(|scope| {
        for host in 1..=NODES {
            let (sender, stop) = (sender.clone(), &stop);
            scope.spawn(move || network.host(host).enter(|| contend(host, sender, stop)));
        }
        let result = observe(&leaders, start, observed);
        stop.store(true, Ordering::SeqCst);
        // The clients end with their connections.
        drop(nodes);
        result
    })
    .map_err(|reason| {
        let logs = (1..=NODES).map(|host| fs::read_to_string(folder.path().join(format!("log-{host}"))));
        format!("{reason}\n{}", logs.map(Result::unwrap_or_default).collect::<String>())
    })
}

fn start_node(network: &Network, folder: PathBuf, host: usize) -> Result<Process, String> {
    let voters: Vec<String> =
        (1..=NODES).map(|id| format!("{id}={}:7400", network.host(id).address())).collect();
    let log = fs::File::create(folder.join(format!("log-{host}"))).map_err(|error| error.to_string())?;
    let mut command = Command::new(cluster::binary()?);
    command.args(["node", "--new", "--log", "warn", "--http", "127.0.0.1:7480"]);
    command.args(["--id", &host.to_string(), "--voters", &voters.join(",")]);
    command.arg("--keys").arg(folder.join("keys")).arg("--data").arg(folder.join(format!("node-{host}")));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = network.host(host).enter(|| command.spawn());
    child.map(Process).map_err(|error| format!("cannot start node {host}: {error}"))
}

/// Waits for the first leader, and counts those that follow.
fn observe(
    leaders: &Receiver<(usize, Instant)>,
    start: Instant,
    observed: Duration,
) -> Result<(Duration, usize), String> {
    let first = leaders.recv_timeout(TIMEOUT);
    let (_, first) = first.map_err(|_| format!("nobody leads after {TIMEOUT:?}"))?;
    let (end, mut changes) = (first + observed, 0);
    loop {
        match leaders.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((host, at)) => {
                eprintln!("after {:?} the client of host {host} leads", at.duration_since(first));
                changes += 1;
            }
            Err(RecvTimeoutError::Timeout) => return Ok((first - start, changes)),
            Err(RecvTimeoutError::Disconnected) => return Err("all clients have ended".to_string()),
        }
    }
}

/// Runs the client of a host: it campaigns, reports when it leads, renews as long as it can, and campaigns again.
fn contend(host: usize, sender: Sender<(usize, Instant)>, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime needs only memory and file descriptors").block_on(async {
        while !stop.load(Ordering::SeqCst) {
            // The node may not have started yet.
            if let Ok(mut client) = Client::connect(([127, 0, 0, 1], 7480).into()).await
                && let Ok(session) = client.campaign(NAME, TTL).await
            {
                if sender.send((host, Instant::now())).is_err() {
                    return;
                }
                while !stop.load(Ordering::SeqCst) && client.renew(&session).await.is_ok() {
                    tokio::time::sleep(TTL / 3).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(worst: u64, changes: usize) -> Figures {
        let cold_starts = [700, worst, 600].map(Duration::from_millis).to_vec();
        let (rtt, observed) = (Duration::from_millis(200), Duration::from_secs(60));
        Figures { rtt, cold_starts, observed, changes }
    }

    #[test]
    fn the_longest_cold_start_and_any_change_of_leader_count() {
        assert_eq!(figures(1_500, 0).met(), [true, true]);
        assert_eq!(figures(1_501, 0).met(), [false, true]);
        assert_eq!(figures(900, 1).met(), [true, false]);
        let text = figures(1_501, 0).text();
        assert!(text.contains("1501 ms  longest; 1500 ms at most: MISSED"), "{text}");
        assert!(text.contains("0 at most: met"), "{text}");
        let json = figures(900, 2).json();
        assert_eq!(
            (&json["cold_start_median_ms"], &json["leader_changes_met"]),
            (&json!(700.0), &json!(false))
        );
    }

    #[test]
    fn flags_have_defaults_and_wrong_ones_are_refused() {
        let parse = |text: &str| Flags::parse(&text.split(' ').map(String::from).collect::<Vec<_>>());
        let flags = Flags::parse(&[]).unwrap();
        assert_eq!((flags.minutes, flags.cold_starts, flags.rtt), (10, 10, Duration::from_millis(200)));
        assert_eq!(parse("--minutes 1 --json"), Ok(Flags { minutes: 1, json: true, ..flags }));
        assert!(parse("--minutes").is_err() && parse("--minutes x").is_err() && parse("--x").is_err());
    }
}
