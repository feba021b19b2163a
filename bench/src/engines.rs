//! Benchmark of elections on engines, beside the engines' own clients: `cargo xtask bench engines`.

mod case;
mod etcd_client;
mod measure;
mod ours;
mod quorum;
mod report;
mod wire;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::case::{Case, KINDS, Kind};
use self::measure::{HELD, HELD_TTL, Sides};
use self::quorum::Quorum;
use self::report::{EngineReport, Report, Row};
use crate::benchmark::{Progress, machine};
use crate::interruptible;
use crate::report::Unit;
use crate::times::{Times, millis};

const USAGE: &str = "\
usage: cargo xtask bench engines [--quick] [--json] [--only ENGINE]..

Runs elections through suffrage on real servers of etcd, PostgreSQL, Consul, ZooKeeper, NATS and Redis, three servers where
the engine clusters, and beside it the engine's own client, which does the same: hand-over by resignation, acquisitions per
second, fail-over by SIGKILL, and the load of held elections on the servers. Three nodes of `suffrage node` do the same.
Installs servers and clients that are missing (root, apt-get and pip). Takes about fifteen minutes.

  --quick        five minutes: fewer repetitions
  --json         prints the result as JSON
  --only ENGINE  measures only this engine: etcd, postgres, consul, zookeeper, nats or redis; can be repeated

Kubernetes is left out: client-go's example program, the only client of it that can be had ready-made, has fixed timings.

Exit codes: 0 all measured targets are met, 1 a target is missed or the benchmark failed, 2 the command line is wrong.";

/// The repetitions and durations of all measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    handovers: usize,
    /// The numbers of names that are acquired at once.
    names: [usize; 2],
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
    names: [1, 16],
    span: Duration::from_secs(6),
    rounds: 4,
    kills: 6,
    observed: Duration::from_secs(20),
};

const QUICK: Plan = Plan {
    handovers: 20,
    names: [1, 16],
    span: Duration::from_secs(2),
    rounds: 1,
    kills: 2,
    observed: Duration::from_secs(7),
};

struct Flags {
    plan: Plan,
    json: bool,
    kinds: Vec<Kind>,
}

impl Flags {
    fn parse(arguments: &[String]) -> Result<Flags, String> {
        let mut flags = Flags { plan: FULL, json: false, kinds: Vec::new() };
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
                other => return Err(format!("there is no flag `{other}`")),
            }
        }
        if flags.kinds.is_empty() {
            flags.kinds = KINDS.to_vec();
        }
        Ok(flags)
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
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
    let plan = flags.plan;
    let mut report = Report { setting: setting(), ..Report::default() };
    progress.print("quorum lease: hand-over, acquisitions, held elections");
    let mut quorum = Quorum::measure_traffic(&plan).await?;
    for &kind in &flags.kinds {
        let ttl = kind.shortest_ttl();
        progress.print(&format!("quorum lease: fail-over at ttl {ttl:?}"));
        quorum.measure_failover(ttl, plan.kills).await?;
        report.engines.push(measure_engine(kind, plan, &progress, &quorum).await);
    }
    report.notes = notes();
    Ok(report)
}

fn setting() -> String {
    let (version, profile) =
        (env!("CARGO_PKG_VERSION"), if cfg!(debug_assertions) { "debug" } else { "release" });
    format!("suffrage {version} ({profile}), real servers on loopback, {}", machine())
}

fn notes() -> Vec<String> {
    let kubernetes = match std::env::var_os("SUFFRAGE_KUBE_APISERVER") {
        _ => "kubernetes is left out",
    };
    vec![kubernetes.to_string(), format!("held: {HELD} elections at ttl {HELD_TTL:?}")]
}

/// Measures one engine. A failure ends its measurements, and is part of the report.
async fn measure_engine(kind: Kind, plan: Plan, progress: &Progress, quorum: &Quorum) -> EngineReport {
    let mut report = EngineReport {
        scheme: kind.scheme(),
        title: kind.name().to_string(),
        client: kind.client(),
        rows: Vec::new(),
        notes: Vec::new(),
        failure: None,
    };
    report.failure = measure_parts(kind, plan, progress, quorum, &mut report).await.err();
    if let Some(reason) = &report.failure {
        progress.print(&format!("{}: failed: {reason}", kind.scheme()));
    }
    report
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

async fn measure_parts(
    kind: Kind,
    plan: Plan,
    progress: &Progress,
    quorum: &Quorum,
    report: &mut EngineReport,
) -> Result<(), String> {
    let say = |what: &str| progress.print(&format!("{}: {what}", kind.scheme()));
    say("installs and starts servers");
    let case = guarded(async move { tokio::task::block_in_place(|| Case::start(kind)) }).await?;
    let case = std::sync::Arc::new(case);
    let servers = match case.servers.addresses().len() {
        1 => "1 server".to_string(),
        count => format!("{count} servers"),
    };
    report.title = format!("{} {}, {servers}", kind.name(), case.version);
    say("hand-over");
    let part = std::sync::Arc::clone(&case);
    let handovers = guarded(async move { measure::handover(&part, plan.handovers).await }).await?;
    report.add_times(
        ("handover-median", "hand-over, median"),
        handovers,
        quorum.handover,
        |times| times.median,
        true,
    );
    report.add_times(
        ("handover-p99", "hand-over, p99"),
        handovers,
        quorum.handover,
        |times| times.p99,
        false,
    );
    for names in plan.names {
        say(&format!("acquisitions, {names} at once"));
        let part = std::sync::Arc::clone(&case);
        let rates = guarded(async move { measure::acquire(&part, names, plan.span).await }).await?;
        let (key, what) = if names == 1 {
            ("acquire-1", "acquired, 1 client".to_string())
        } else {
            ("acquire-many", format!("acquired, {names} names at once"))
        };
        report.add((key, what), Unit::PerSecond, rates, quorum.acquired.get(&names).copied(), true);
    }
    let ttl = kind.shortest_ttl();
    say(&format!("fail-over at ttl {ttl:?}"));
    let part = std::sync::Arc::clone(&case);
    let failovers = guarded(async move { measure::failover(&part, ttl, plan.rounds).await }).await?;
    let (times, of_quorum) = (failovers.times, quorum.failovers.get(&ttl).copied());
    let what = format!("fail-over, ttl {ttl:?}, median");
    report.add_times(("failover-median", &what), times, of_quorum, |times| times.median, true);
    let what = format!("fail-over, ttl {ttl:?}, longest");
    report.add_times(("failover-longest", &what), times, of_quorum, |times| times.longest, false);
    let Sides { ours, theirs } = failovers.discarded;
    if ours + theirs > 0 {
        report.notes.push(format!(
            "{ours} fail-overs of ours and {theirs} of theirs do not count: a lease was lost without a kill"
        ));
    }
    say(&format!("{HELD} held elections"));
    let part = std::sync::Arc::clone(&case);
    let loads = guarded(async move { measure::held(&part, plan.observed).await }).await?;
    let figures = |figure: fn(measure::Load) -> f64| {
        (Sides { ours: figure(loads.ours), theirs: figure(loads.theirs) }, quorum.held.map(figure))
    };
    let (requests, of_quorum) = figures(|load| load.requests);
    report.add(
        ("held-requests", "requests per held election".to_string()),
        Unit::Requests,
        requests,
        of_quorum,
        true,
    );
    let (cpu, of_quorum) = figures(|load| 100.0 * load.cpu);
    report.add(("held-cpu", format!("{HELD} held, CPU of the servers")), Unit::Cpu, cpu, of_quorum, false);
    Ok(())
}

impl EngineReport {
    fn add(
        &mut self,
        (key, what): (&'static str, String),
        unit: Unit,
        figures: Sides<f64>,
        quorum: Option<f64>,
        is_target: bool,
    ) {
        let Sides { ours, theirs } = figures;
        self.rows.push(Row { key, what, unit, ours, theirs: Some(theirs), quorum, is_target });
    }

    fn add_times(
        &mut self,
        (key, what): (&'static str, &str),
        times: Sides<Times>,
        quorum: Option<Times>,
        of: fn(&Times) -> Duration,
        is_target: bool,
    ) {
        let figures = Sides { ours: millis(of(&times.ours)), theirs: millis(of(&times.theirs)) };
        let quorum = quorum.map(|times| millis(of(&times)));
        self.add((key, what.to_string()), Unit::Millis, figures, quorum, is_target);
    }
}
