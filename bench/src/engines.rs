//! Benchmark of elections on engines, beside the engines' own clients: `cargo xtask bench engines`.

mod case;
mod etcd_client;
mod measure;
mod ours;
mod quorum;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::case::{Case, KINDS, Kind};
use self::measure::{HELD, Load, Sides};
use self::quorum::Quorum;
use self::report::{EngineReport, Report, Row};
use crate::benchmark::{Progress, machine};
use crate::interruptible;
use crate::report::Unit;
use crate::times::{Times, millis};

const USAGE: &str = "\
usage: cargo xtask bench engines [--quick] [--json] [--only ENGINE].. [--part PART]..

Runs elections through suffrage on real servers of etcd, PostgreSQL, Consul, ZooKeeper, NATS and Redis, three servers where
the engine clusters, and beside it the engine's own client, which does the same: hand-over by resignation, acquisitions per
second, fail-over by SIGKILL, and the load of held elections on the servers. Three nodes of `suffrage node` do the same.
Installs servers and clients that are missing (root, apt-get and pip). Takes about twenty minutes.

  --quick        ten minutes: fewer repetitions
  --json         prints the result as JSON
  --only ENGINE  measures only this engine: etcd, postgres, kubernetes, consul, zookeeper, nats or redis; can be repeated
  --part PART    measures only this part: handover, acquire, failover or held; can be repeated

Kubernetes is measured if SUFFRAGE_KUBE_APISERVER names a kube-apiserver, which no registry has ready-made. Its own client
is the leader-election example of client-go, if SUFFRAGE_CLIENT_GO names it.

Exit codes: 0 all measured targets are met, 1 a target is missed or the benchmark failed, 2 the command line is wrong.";

/// The parts that can be measured alone.
const PARTS: &[&str] = &["handover", "acquire", "failover", "held"];
/// The numbers of names that are acquired at once.
const NAMES: [usize; 2] = [1, 16];
/// The longest ttl at which fail-overs of the quorum lease are measured.
const LONGEST_OF_QUORUM: Duration = Duration::from_secs(10);

const NOTES: &[&str] = &[
    "hand-over: the time from the resignation of a leader until the next one, which has waited for 120 ms, leads. Both are in \
     one process, with a connection each to the same server",
    "acquired: elections acquired and released per second. Ours share one connection. A client in Python has a connection \
     and a thread for each name, and one interpreter lock for all: the language decides the row of many names",
    "fail-over: the time from SIGKILL of the process that leads until the next process leads. The processes of both sides \
     run at the same time, and are killed at different times between two renewals",
    "requests: 100 elections, held at ttl 10 s by one process. A proxy counts what the client sends: messages of gRPC, round \
     trips of PostgreSQL, HTTP requests, packets of ZooKeeper, published messages of NATS, commands of Redis; the \
     API server of Kubernetes counts itself. Of the quorum lease: messages of the holder to its three voters",
    "CPU: of all servers, with those 100 elections, beyond that of the same servers without clients",
    "quorum lease: three processes of `suffrage node`. Hand-over and acquisitions are by the library. A fail-over kills a \
     node with its voter",
    "not worse: at least 0.9 times as good, because two runs on one machine differ by as much",
];

/// The repetitions and durations of all measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    handovers: usize,
    /// The time for which acquisitions are counted.
    span: Duration,
    /// The rounds of fail-overs. Each kills three leaders on each side.
    rounds: usize,
    /// The kills of nodes of the quorum lease at each ttl.
    kills: usize,
    /// The time for which held elections are observed.
    observed: Duration,
}

const FULL: Plan = Plan {
    handovers: 60,
    span: Duration::from_secs(6),
    rounds: 3,
    kills: 4,
    // A multiple of the time between two renewals, a third of the ttl.
    observed: Duration::from_secs(20),
};

const QUICK: Plan = Plan {
    handovers: 20,
    span: Duration::from_secs(2),
    rounds: 1,
    kills: 2,
    observed: Duration::from_secs(10),
};

struct Flags {
    plan: Plan,
    json: bool,
    kinds: Vec<Kind>,
    /// The parts to measure. Empty means all parts.
    parts: Vec<String>,
    /// Why an engine is left out.
    left_out: Option<String>,
}

impl Flags {
    fn parse(arguments: &[String]) -> Result<Flags, String> {
        let mut flags =
            Flags { plan: FULL, json: false, kinds: Vec::new(), parts: Vec::new(), left_out: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => flags.plan = QUICK,
                "--json" => flags.json = true,
                "--only" => {
                    let scheme = arguments.next().map(String::as_str).unwrap_or_default();
                    let kind = KINDS.into_iter().find(|kind| kind.scheme() == scheme);
                    let schemes = KINDS.map(Kind::scheme).join(", ");
                    flags
                        .kinds
                        .push(kind.ok_or(format!("--only: must be one of {schemes}, not `{scheme}`"))?);
                }
                "--part" => match arguments.next().filter(|part| PARTS.contains(&part.as_str())) {
                    Some(part) => flags.parts.push(part.clone()),
                    None => return Err(format!("--part: must be one of {}", PARTS.join(", "))),
                },
                other => return Err(format!("there is no flag `{other}`")),
            }
        }
        if flags.kinds.is_empty() {
            flags.left_out = Kind::Kubernetes.check_available().err();
            flags.kinds = KINDS.into_iter().filter(|kind| kind.check_available().is_ok()).collect();
        }
        flags.kinds.iter().try_for_each(|kind| kind.check_available())?;
        Ok(flags)
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ttl = |word: &str| Duration::from_millis(word.parse().unwrap_or(0));
    // The parts that this program starts as processes of their own.
    match words.as_slice() {
        ["candidate", url, millis, name] => {
            return finish(run(ours::candidate(url, ttl(millis), name)).map(|()| true));
        }
        ["etcd-client", servers, millis] => {
            return finish(run(etcd_client::serve(servers, ttl(millis))).map(|()| true));
        }
        ["--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    match Flags::parse(arguments) {
        Err(reason) => {
            eprintln!("bench engines: {reason}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Ok(flags) => finish(run(interruptible(bench(&flags))).map(|report| {
            println!("{}", if flags.json { report.json().to_string() } else { report.text() });
            report.is_met()
        })),
    }
}

fn run<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    // One thread for all elections, as `suffrage run` has. It is of this kind of runtime because clients block.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let result = runtime.block_on(work);
    // Dropping the work has ended all processes. Other tasks are not waited for.
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

fn finish(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("bench engines: {reason}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(flags: &Flags) -> Result<Report, String> {
    let progress = Progress(Instant::now());
    let mut report = Report { setting: setting(), ..Report::default() };
    let mut quorum = Quorum::default();
    for part in PARTS.iter().filter(|part| flags.wants(part)) {
        progress.print(&format!("quorum lease: {part}"));
        quorum.measure(part, &flags.plan).await?;
    }
    for &kind in &flags.kinds {
        let ttl = kind.failover_ttl();
        if flags.wants("failover") && ttl <= LONGEST_OF_QUORUM {
            progress.print(&format!("quorum lease: fail-over at ttl {ttl:?}"));
            quorum.measure_failover(ttl, flags.plan.kills).await?;
        }
        let mut run = Run { flags, progress: &progress, quorum: &quorum, report: EngineReport::new(kind) };
        run.report.failure = run.measure(kind).await.err();
        if let Some(reason) = &run.report.failure {
            progress.print(&format!("{}: failed: {reason}", kind.scheme()));
        }
        report.engines.push(run.report);
    }
    report.notes = NOTES.iter().map(ToString::to_string).chain(flags.left_out.clone()).collect();
    Ok(report)
}

fn setting() -> String {
    let (version, profile) =
        (env!("CARGO_PKG_VERSION"), if cfg!(debug_assertions) { "debug" } else { "release" });
    format!("suffrage {version} ({profile}), real servers on loopback, {}", machine())
}

/// Runs work in a task: a panic of a server that does not start becomes an error.
async fn guarded<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let mut tasks = JoinSet::new();
    tasks.spawn(work);
    match tasks.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the task is gone".to_string()),
    }
}

/// The measurements of one engine.
struct Run<'b> {
    flags: &'b Flags,
    progress: &'b Progress,
    quorum: &'b Quorum,
    report: EngineReport,
}

impl Run<'_> {
    fn say(&self, what: &str) {
        self.progress.print(&format!("{}: {what}", self.report.scheme));
    }

    /// Measures all parts. What was measured before a failure is part of the report.
    async fn measure(&mut self, kind: Kind) -> Result<(), String> {
        self.say("installs and starts servers");
        let case = guarded(async move { tokio::task::block_in_place(|| Case::start(kind)) }).await?;
        let case = Arc::new(case);
        let servers = match case.servers.addresses().len() {
            1 => "1 server".to_string(),
            count => format!("{count} servers"),
        };
        let version = case.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        self.report.title = format!("{}{version}, {servers}", kind.name());
        if self.flags.wants("handover") {
            self.measure_handover(&case).await?;
        }
        if self.flags.wants("acquire") {
            self.measure_acquire(&case).await?;
        }
        if self.flags.wants("failover") {
            self.measure_failover(&case).await?;
        }
        if self.flags.wants("held") {
            self.measure_held(&case).await?;
        }
        Ok(())
    }

    async fn measure_handover(&mut self, case: &Arc<Case>) -> Result<(), String> {
        self.say("hand-over");
        let (case, rounds) = (Arc::clone(case), self.flags.plan.handovers);
        let times = guarded(async move { measure::handover(&case, rounds).await }).await?;
        let quorum = self.quorum.handover;
        self.report.add_times(
            ("handover-median", "hand-over, median"),
            times,
            quorum,
            |times| times.median,
            true,
        );
        self.report.add_times(("handover-p99", "hand-over, p99"), times, quorum, |times| times.p99, false);
        Ok(())
    }

    async fn measure_acquire(&mut self, case: &Arc<Case>) -> Result<(), String> {
        for names in NAMES {
            let (key, what) = match names {
                1 => ("acquire-1", "acquired, 1 client".to_string()),
                _ => ("acquire-many", format!("acquired, {names} names at once")),
            };
            self.say(&what);
            let (case, span) = (Arc::clone(case), self.flags.plan.span);
            let rates = guarded(async move { measure::acquire(&case, names, span).await }).await?;
            self.report.add(
                (key, what),
                Unit::PerSecond,
                rates,
                self.quorum.acquired.get(&names).copied(),
                true,
            );
        }
        Ok(())
    }

    async fn measure_failover(&mut self, case: &Arc<Case>) -> Result<(), String> {
        let ttl = case.kind.failover_ttl();
        self.say(&format!("fail-over at ttl {ttl:?}"));
        // Long leases: a round lasts minutes.
        let rounds = if ttl > LONGEST_OF_QUORUM { 1 } else { self.flags.plan.rounds };
        let case = Arc::clone(case);
        let failovers = guarded(async move { measure::failover(&case, ttl, rounds).await }).await?;
        let (times, quorum) = (failovers.times, self.quorum.failovers.get(&ttl).copied());
        let what = format!("fail-over, ttl {ttl:?}, median");
        self.report.add_times(("failover-median", &what), times, quorum, |times| times.median, true);
        let what = format!("fail-over, ttl {ttl:?}, longest");
        self.report.add_times(("failover-longest", &what), times, quorum, |times| times.longest, false);
        let [ours, theirs] = failovers.discarded;
        if ours + theirs > 0 {
            self.report.notes.push(format!(
                "{ours} fail-overs of ours and {theirs} of its own client do not count: a lease was lost without a kill"
            ));
        }
        Ok(())
    }

    async fn measure_held(&mut self, case: &Arc<Case>) -> Result<(), String> {
        self.say(&format!("{HELD} held elections"));
        let (case, span) = (Arc::clone(case), self.flags.plan.observed);
        let loads = guarded(async move { measure::held(&case, span).await }).await?;
        let figures = |figure: fn(Load) -> f64| {
            let sides = Sides { ours: figure(loads.ours), theirs: loads.theirs.map(figure) };
            (sides, self.quorum.held.map(figure))
        };
        let ((requests, of_quorum), (cpu, cpu_of_quorum)) =
            (figures(|load| load.requests), figures(|load| 100.0 * load.cpu));
        let what = "requests per held election".to_string();
        self.report.add(("held-requests", what), Unit::Requests, requests, of_quorum, false);
        let what = format!("{HELD} held, CPU of the servers");
        self.report.add(("held-cpu", what), Unit::Cpu, cpu, cpu_of_quorum, false);
        Ok(())
    }
}

impl EngineReport {
    fn new(kind: Kind) -> EngineReport {
        EngineReport {
            scheme: kind.scheme(),
            title: kind.name().to_string(),
            client: kind.client(),
            rows: Vec::new(),
            notes: Vec::new(),
            failure: None,
        }
    }

    fn add(
        &mut self,
        (key, what): (&'static str, String),
        unit: Unit,
        Sides { ours, theirs }: Sides<f64>,
        quorum: Option<f64>,
        is_target: bool,
    ) {
        self.rows.push(Row { key, what, unit, ours, theirs, quorum, is_target });
    }

    fn add_times(
        &mut self,
        (key, what): (&'static str, &str),
        times: Sides<Times>,
        quorum: Option<Times>,
        of: fn(&Times) -> Duration,
        is_target: bool,
    ) {
        let figure = |times: Times| millis(of(&times));
        let figures = Sides { ours: figure(times.ours), theirs: times.theirs.map(figure) };
        self.add((key, what.to_string()), Unit::Millis, figures, quorum.map(figure), is_target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_defaults_and_wrong_ones_are_refused() {
        let parse = |text: &str| Flags::parse(&text.split_whitespace().map(String::from).collect::<Vec<_>>());
        let flags = parse("").unwrap();
        assert!(flags.wants("held") && !flags.json && flags.kinds.contains(&Kind::Redis));
        let flags = parse("--quick --json --only nats --only etcd --part acquire").unwrap();
        assert_eq!((flags.kinds.as_slice(), flags.plan.rounds), (&[Kind::Nats, Kind::Etcd][..], 1));
        assert!(flags.json && flags.wants("acquire") && !flags.wants("held"));
        for wrong in ["--only", "--only mysql", "--part", "--part x", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
