//! The measurements, their order and their repetitions.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::etcd::{self, Etcd};
use crate::measure::acquire::Way;
use crate::measure::connections::{self, Holders};
use crate::measure::held::{Cost, HeldElections, HeldKeys};
use crate::measure::{acquire, failover, handover, kill};
use crate::processes::Usage;
use crate::report::{Report, Unit};
use crate::times::{Times, millis};

/// The parts that can be measured alone.
pub(crate) const PARTS: &[&str] =
    &["failover", "kill", "handover", "acquire", "held", "connections", MILLION];
/// The part that is measured only if it is named.
const MILLION: &str = "million";

/// The repetitions and durations of all measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    failovers: [(Duration, failover::Effort); 3],
    /// The number of failovers of etcd at each ttl.
    etcd_failovers: usize,
    /// The number of killed processes that lead by connection.
    kills: usize,
    handovers: usize,
    /// The time for which acquisitions are counted.
    span: Duration,
    /// Numbers of elections, with the ttl and the time of observation.
    held: &'static [(usize, Duration, Duration)],
    /// The time for which connections that lead are observed.
    connected: Duration,
}

/// The number of clients that lead by connection.
const CONNECTIONS: usize = 10_000;
/// The number of elections of the part [`MILLION`], and their ttl: the longest that nodes grant by default.
const ONE_MILLION: usize = 1_000_000;
const MILLION_TTL: Duration = Duration::from_secs(60);

const fn effort(clusters: usize, kills: usize) -> failover::Effort {
    failover::Effort { clusters, kills }
}

const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) const FULL: Plan = Plan {
    failovers: [(SHORT, effort(2, 50)), (SECOND, effort(4, 8)), (Duration::from_secs(3), effort(8, 4))],
    etcd_failovers: 32,
    kills: 300,
    handovers: 100,
    span: Duration::from_secs(5),
    held: &[
        (1_000, Duration::from_secs(10), Duration::from_secs(15)),
        (10_000, Duration::from_secs(10), Duration::from_secs(20)),
        (100_000, Duration::from_secs(30), Duration::from_secs(30)),
    ],
    connected: Duration::from_secs(20),
};

pub(crate) const QUICK: Plan = Plan {
    failovers: [(SHORT, effort(1, 15)), (SECOND, effort(3, 2)), (Duration::from_secs(3), effort(4, 1))],
    etcd_failovers: 8,
    kills: 60,
    handovers: 30,
    span: Duration::from_secs(2),
    held: &[
        (1_000, Duration::from_secs(10), Duration::from_secs(5)),
        (10_000, Duration::from_secs(10), Duration::from_secs(7)),
    ],
    connected: Duration::from_secs(7),
};

/// The time-out for etcd to grant a hundred thousand leases.
const ETCD_GRANT_TIMEOUT: Duration = Duration::from_secs(150);

/// The configuration of a benchmark.
#[derive(Clone, Debug)]
pub(crate) struct BenchConfig {
    pub(crate) plan: Plan,
    /// The parts to measure. Empty means all parts.
    pub(crate) parts: Vec<String>,
    pub(crate) etcd: bool,
    /// The time for which a million elections are held.
    pub(crate) minutes: u32,
}

/// Prints progress on standard error.
pub(crate) struct Progress(pub(crate) Instant);

impl Progress {
    pub(crate) fn print(&self, what: &str) {
        eprintln!("[{:>4} s] {what}", self.0.elapsed().as_secs());
    }
}

/// A running benchmark. etcd is measured only if its program is given.
struct Bench {
    plan: Plan,
    etcd: Option<PathBuf>,
    report: Report,
    progress: Progress,
}

impl BenchConfig {
    pub(crate) async fn run(&self) -> Result<Report, String> {
        let progress = Progress(Instant::now());
        let binary = if self.etcd {
            progress.print("finding or installing etcd");
            Some(etcd::install()?)
        } else {
            None
        };
        let mut bench = Bench { plan: self.plan, etcd: binary, report: Report::default(), progress };
        bench.describe();
        let wanted = |part: &str| self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part);
        if wanted("failover") {
            bench.failover().await?;
        }
        if wanted("kill") {
            bench.kill().await?;
        }
        if wanted("handover") || wanted("acquire") {
            bench.traffic(wanted("handover"), wanted("acquire")).await?;
        }
        if wanted("held") {
            bench.held().await?;
        }
        if wanted("connections") {
            bench.connections().await?;
        }
        if self.parts.iter().any(|part| part == MILLION) {
            bench.million(self.minutes).await?;
        }
        Ok(bench.report)
    }
}

impl Bench {
    fn describe(&mut self) {
        let other = self.etcd.as_deref().map_or("no etcd".to_string(), etcd::version);
        let (version, profile) =
            (env!("CARGO_PKG_VERSION"), if cfg!(debug_assertions) { "debug" } else { "release" });
        self.report.setting.push(format!(
            "three nodes of suffrage {version} ({profile}) and three servers of {other}, on loopback, {}",
            machine()
        ));
        if profile == "debug" {
            self.report.notes.push("this is a debug build: its results are not valid".to_string());
        }
    }

    fn note(&mut self, note: &str) {
        self.report.notes.push(note.to_string());
    }

    fn times(&mut self, key: &str, what: &str, ours: &Times, theirs: Option<&Times>) {
        let mut add = |name: &str, of: fn(&Times) -> Duration| {
            let (ours, theirs) = (Some(millis(of(ours))), theirs.map(|theirs| millis(of(theirs))));
            self.report.add(format!("{key}-{name}"), format!("{what}, {name}"), Unit::Millis, ours, theirs);
        };
        add("median", |times| times.median);
        add("p99", |times| times.p99);
        add("longest", |times| times.longest);
    }

    async fn failover(&mut self) -> Result<(), String> {
        let servers = match &self.etcd {
            Some(binary) => Some(Etcd::start(binary, etcd::FAST).await?),
            None => None,
        };
        let mut granted = Vec::new();
        for (ttl, effort) in self.plan.failovers {
            self.progress
                .print(&format!("failover at ttl {ttl:?}: {} of suffrage", effort.clusters * effort.kills));
            let ours = failover::suffrage(ttl, effort).await?;
            let theirs = match &servers {
                Some(servers) => {
                    let count = self.plan.etcd_failovers;
                    self.progress.print(&format!("failover at ttl {ttl:?}: {count} of etcd"));
                    let (theirs, seconds) = failover::etcd(servers, ttl, count).await?;
                    granted.push(format!(
                        "{} kills at {ttl:?}, etcd {} at {seconds} s",
                        ours.count, theirs.count
                    ));
                    Some(theirs)
                }
                None => None,
            };
            let key = format!("failover-{}ms", ttl.as_millis());
            self.times(&key, &format!("failover, ttl {ttl:?}"), &ours, theirs.as_ref());
        }
        self.note(
            "failover: the time from SIGKILL of the node whose client leads, which also kills its voter, until a client \
             of another node has its answer over HTTP. The kills are spread evenly between two renewals",
        );
        if servers.is_some() {
            self.note(&format!(
                "failover of etcd: the time from the last renewal of a client, as if it were killed, until the next \
                 client has its answer to Campaign over gRPC. All servers stay alive. Leases of etcd are whole seconds \
                 and at least 1.5 election time-outs. Its servers run with 10 ms heartbeats and 100 ms time-outs, so \
                 the shortest lease is 1 s ({})",
                granted.join("; ")
            ));
        }
        Ok(())
    }

    async fn kill(&mut self) -> Result<(), String> {
        let (ttl, count) = (Duration::from_secs(3), self.plan.kills);
        self.progress.print(&format!("{count} killed processes that lead by connection, ttl {ttl:?}"));
        let cluster = Cluster::start().await?;
        let ours = kill::suffrage(&cluster, ttl, count).await?;
        drop(cluster);
        let theirs = match &self.etcd {
            Some(binary) => {
                let count = self.plan.etcd_failovers;
                self.progress.print(&format!("{count} holders of etcd at its shortest lease"));
                let servers = Etcd::start(binary, etcd::FAST).await?;
                Some(failover::etcd(&servers, SECOND, count).await?.0)
            }
            None => None,
        };
        self.times("kill", "killed process to next leader", &ours, theirs.as_ref());
        self.note(
            "killed process: the time from SIGKILL of the process that leads by connection, with a ttl of 3 s, until a \
             client that waits by connection at another node has read that it leads. All nodes stay alive. etcd: a client \
             that stops renewing its lease, which is the shortest that etcd grants; its servers stay alive too",
        );
        Ok(())
    }

    async fn traffic(&mut self, handovers: bool, acquisitions: bool) -> Result<(), String> {
        let cluster = Cluster::start().await?;
        let servers = match &self.etcd {
            Some(binary) => Some(Etcd::start(binary, etcd::DEFAULT).await?),
            None => None,
        };
        if handovers {
            self.handovers(&cluster, servers.as_ref()).await?;
        }
        if acquisitions {
            self.acquisitions(&cluster, servers.as_ref()).await?;
        }
        Ok(())
    }

    async fn handovers(&mut self, cluster: &Cluster, servers: Option<&Etcd>) -> Result<(), String> {
        let rounds = self.plan.handovers;
        self.progress.print(&format!("handover on resign: {rounds} of each"));
        let ours = handover::library(cluster, rounds).await?;
        let theirs = match servers {
            Some(servers) => Some(handover::etcd_grpc(servers, rounds).await?),
            None => None,
        };
        self.times("handover-native", "resign to next, library and gRPC", &ours, theirs.as_ref());
        let ours = handover::over_http(cluster, rounds).await?;
        let theirs = match servers {
            Some(servers) => Some(handover::etcd_http(servers, rounds).await?),
            None => None,
        };
        self.times("handover-http", "resign to next, both over HTTP", &ours, theirs.as_ref());
        self.note(
            "handover: the time from the resignation of a client until the next client, which has waited for 120 ms, has \
             its answer. etcd: Campaign and Resign of its election API, at the leading server",
        );
        Ok(())
    }

    async fn acquisitions(&mut self, cluster: &Cluster, servers: Option<&Etcd>) -> Result<(), String> {
        let span = self.plan.span;
        for names in [1, 64] {
            let effort = acquire::Effort { names, span };
            let clients = if names == 1 { "1 client".to_string() } else { format!("{names} names") };
            self.progress.print(&format!("acquisitions, {clients}: ten times {span:?}"));
            let (embedded, node) = Cluster::embedded().await?;
            let ours = acquire::library(&node, effort).await?;
            node.stop().await;
            drop(embedded);
            let node = cluster.member(200 + names as u64).await?;
            let without_vote = acquire::library(&node, effort).await?;
            node.stop().await;
            let over_http = acquire::over_http(cluster, effort, Way::Tcp).await?;
            let over_socket = acquire::over_http(cluster, effort, Way::Socket).await?;
            let mut theirs = [None; 4];
            if let Some(servers) = servers {
                theirs[0] = Some(acquire::etcd_grpc(servers, effort, false).await?);
                theirs[1] = Some(acquire::etcd_grpc(servers, effort, true).await?);
                theirs[2] = Some(acquire::etcd_http(servers, effort, false).await?);
                theirs[3] = Some(acquire::etcd_http(servers, effort, true).await?);
            }
            let rows = [
                ("native", "library and gRPC", ours, theirs[0]),
                ("native-least", "library, and gRPC doing the least", ours, theirs[1]),
                ("no-vote", "library without a vote, and gRPC", without_vote, theirs[0]),
                ("socket", "Unix socket, and gRPC", over_socket, theirs[0]),
                ("http", "both over HTTP", over_http, theirs[2]),
                ("http-least", "HTTP, and etcd doing the least", over_http, theirs[3]),
            ];
            for (key, kind, ours, theirs) in rows {
                let what = format!("acquired, {clients}, {kind}");
                self.report.add(format!("acquire-{key}-{names}"), what, Unit::PerSecond, Some(ours), theirs);
            }
        }
        self.note(
            "acquisitions: a name is acquired and released, by clients with one name each and without contention. \
             Library: the program is one of the three nodes; without a vote, it is a fourth node beside three voters. gRPC: one connection to the leading server, with the calls \
             of etcd's own client (concurrency.Election): a transaction, a range request, a transaction, with a lease \
             granted before. HTTP: one connection per client, with the same client code for both. suffrage: the three \
             nodes in turn. Unix socket: the same requests and client code, on the sockets of the three nodes. etcd: its election API at the leading server or at the three in turn, whichever is faster. \
             The least that etcd can do: a transaction that puts an absent key, and its deletion; no client can wait for \
             such a key",
        );
        Ok(())
    }

    async fn held(&mut self) -> Result<(), String> {
        for (number, &(count, ttl, span)) in self.plan.held.iter().enumerate() {
            self.progress.print(&format!("{count} held elections of suffrage, ttl {ttl:?}"));
            let ours = self.held_by_suffrage(number, count, ttl, span).await?;
            let theirs = match self.etcd.clone() {
                Some(binary) => {
                    self.progress.print(&format!("{count} held elections of etcd, ttl {ttl:?}"));
                    match held_by_etcd(&binary, count, (ttl, span), false).await {
                        Ok(cost) => Some(cost),
                        Err(reason) => {
                            self.note(&format!("etcd does not hold {count} elections: {reason}"));
                            None
                        }
                    }
                }
                None => None,
            };
            let mut add = |key: &str, what: &str, unit, figure: fn(usize, &Cost) -> f64| {
                let (ours, theirs) =
                    (Some(figure(count, &ours)), theirs.as_ref().map(|cost| figure(count, cost)));
                self.report.add(
                    format!("held-{count}-{key}"),
                    format!("{count} held, {what}"),
                    unit,
                    ours,
                    theirs,
                );
            };
            add("kept", "not lost", Unit::Count, |count, cost| (count - cost.lost.min(count)) as f64);
            add("cpu", "CPU of three servers", Unit::Cpu, |_, cost| 100.0 * cost.cpu);
            add("client-cpu", "CPU of the client", Unit::Cpu, |_, cost| 100.0 * cost.client_cpu);
            add("memory", "memory of three servers", Unit::Megabytes, |_, cost| cost.memory as f64 / 1e6);
            add("anonymous", "the same, without files", Unit::Megabytes, |_, cost| {
                cost.anonymous as f64 / 1e6
            });
        }
        self.held_under_one_lease().await?;
        let leases: Vec<String> =
            self.plan.held.iter().map(|(count, ttl, _)| format!("{count} at {ttl:?}")).collect();
        self.note(&format!(
            "held: each election has its own lease ({}), renewed three times per ttl. One client process holds all of \
             them: through the library, where renewals share datagrams, and over one gRPC stream. Both clusters are new \
             for each row. CPU is user and system time. Memory is VmRSS of the servers, including the pages of the \
             program; without files, it is RssAnon",
            leases.join(", ")
        ));
        Ok(())
    }

    async fn connections(&mut self) -> Result<(), String> {
        let (ttl, span) = (Duration::from_secs(10), self.plan.connected);
        let count = connections::allow_files(CONNECTIONS);
        self.progress.print(&format!("{count} clients that lead by connection, ttl {ttl:?}"));
        let cluster = Cluster::start().await?;
        let idle = cluster.usage();
        let holders = Holders::start(&cluster, count, ttl).await?;
        tokio::time::sleep(ttl / 2).await;
        let cost = holders.cost(span).await;
        let mut add = |key: &str, what: &str, unit, figure: f64| {
            let (key, what) = (format!("connections-{key}"), format!("{count} connections held, {what}"));
            self.report.add(key, what, unit, Some(figure), None);
        };
        add("kept", "not lost", Unit::Count, holders.len().saturating_sub(cost.lost) as f64);
        add("cpu", "CPU of three nodes", Unit::Cpu, 100.0 * cost.cpu);
        add("client-cpu", "CPU of the clients", Unit::Cpu, 100.0 * cost.client_cpu);
        add("memory", "memory of three nodes", Unit::Megabytes, cost.memory as f64 / 1e6);
        let more = cost.memory.saturating_sub(idle.memory) as f64 / 1e3 / count as f64;
        self.note(&format!(
            "connections: clients of the Unix sockets of the three nodes, each with a name and a connection of its own, lead \
             with a ttl of {ttl:?}. The nodes renew, and tell each client every new deadline, which the clients read. Each \
             connection costs {more:.1} KB of memory of the nodes, with its election at three voters. {CONNECTIONS} connections \
             are made, or as many as the limit of open files allows"
        ));
        Ok(())
    }

    /// Holds a million elections, and looks every ten seconds whether one is lost.
    async fn million(&mut self, minutes: u32) -> Result<(), String> {
        let (count, ttl, span) = (ONE_MILLION, MILLION_TTL, Duration::from_secs(60) * minutes);
        self.progress.print(&format!("{count} held elections, ttl {ttl:?}, for {minutes} minutes"));
        let cluster = Cluster::start().await?;
        let mut held = HeldElections::new(&cluster, 400, ttl).await?;
        let start = Instant::now();
        held.hold(count).await?;
        self.progress.print(&format!("acquired in {:.1?}", start.elapsed()));
        let (start, before, own) = (Instant::now(), cluster.usage(), Usage::of("self"));
        let mut least = held.valid();
        while start.elapsed() < span {
            tokio::time::sleep(Duration::from_secs(10).min(span)).await;
            let valid = held.valid();
            least = least.min(valid);
            self.progress.print(&format!("{valid} valid after {:.0?}", start.elapsed()));
        }
        let (after, own_after, seconds) = (cluster.usage(), Usage::of("self"), start.elapsed().as_secs_f64());
        let mut add = |key: &str, what: &str, unit, figure: f64| {
            let (key, what) = (format!("million-{key}"), format!("{count} held, {what}"));
            self.report.add(key, what, unit, Some(figure), None);
        };
        add("kept", "not lost", Unit::Count, least as f64);
        add("cpu", "CPU of three nodes", Unit::Cpu, 100.0 * (after.cpu - before.cpu) / seconds);
        add("client-cpu", "CPU of the holder", Unit::Cpu, 100.0 * (own_after.cpu - own.cpu) / seconds);
        add("memory", "memory of three nodes", Unit::Megabytes, after.memory as f64 / 1e6);
        add("client-memory", "memory of the holder", Unit::Megabytes, own_after.memory as f64 / 1e6);
        self.note(&format!(
            "million: one program with the library, which does not vote, holds {count} elections with a ttl of {ttl:?} at \
             three nodes for {minutes} minutes; a leadership that ended once never is valid again"
        ));
        held.release().await;
        Ok(())
    }

    /// Measures a feature of etcd that suffrage does not have: many keys of one client under one lease.
    async fn held_under_one_lease(&mut self) -> Result<(), String> {
        const COUNT: usize = 10_000;
        let Some(binary) = self.etcd.clone() else { return Ok(()) };
        let Some(&(_, ttl, span)) = self.plan.held.iter().find(|(count, ..)| *count == COUNT) else {
            return Ok(());
        };
        self.progress.print(&format!("{COUNT} keys of etcd with one lease"));
        let shared = match held_by_etcd(&binary, COUNT, (ttl, span), true).await {
            Ok(shared) => shared,
            Err(reason) => {
                self.note(&format!("etcd does not hold {COUNT} keys with one lease: {reason}"));
                return Ok(());
            }
        };
        for (key, figure) in [("cpu", 100.0 * shared.cpu), ("memory", shared.memory as f64 / 1e6)] {
            let row = self.report.rows.iter().find(|row| row.key == format!("held-{COUNT}-{key}")).cloned();
            if let Some(row) = row {
                let what = format!("{COUNT} held, {key}, with one shared lease of etcd");
                self.report.add(
                    format!("held-{COUNT}-shared-{key}"),
                    what,
                    row.unit,
                    row.suffrage,
                    Some(figure),
                );
            }
        }
        Ok(())
    }

    async fn held_by_suffrage(
        &self,
        number: usize,
        count: usize,
        ttl: Duration,
        span: Duration,
    ) -> Result<Cost, String> {
        let cluster = Cluster::start().await?;
        let mut held = HeldElections::new(&cluster, 300 + number as u64, ttl).await?;
        let start = Instant::now();
        held.hold(count).await?;
        self.progress.print(&format!("acquired in {:.1?}", start.elapsed()));
        tokio::time::sleep(ttl / 2).await;
        let cost = held.cost(span).await;
        held.release().await;
        Ok(cost)
    }
}

/// The number of CPUs and the load of this machine.
pub(crate) fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("{cpus} CPUs, load {} at the start", load.split(' ').next().unwrap_or("?"))
}

/// Measures keys of etcd, each with its own lease or all with one lease.
async fn held_by_etcd(
    binary: &Path,
    count: usize,
    (ttl, span): (Duration, Duration),
    share: bool,
) -> Result<Cost, String> {
    let servers = Etcd::start(binary, etcd::DEFAULT).await?;
    let mut keys = HeldKeys::new(&servers, ttl, share).await?;
    let start = Instant::now();
    let held = keys.hold(count, ETCD_GRANT_TIMEOUT).await?;
    if held < count {
        return Err(format!("only {held} held after {:?}", start.elapsed()));
    }
    tokio::time::sleep(ttl / 2).await;
    keys.cost(span).await
}
