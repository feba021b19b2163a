//! The lease of a supervisor whose future is dropped, whose runtime is shut down, or whose node is stopped, is released
//! only after the command and its descendants have ended.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use suffrage::{Error, Keyring, Leadership, Node, NodeBuilder, NodeId, Supervisor, Why};
use suffrage_testbed::Folder;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Much longer than a test: the next leader got the lease by a handover.
const TTL: Duration = Duration::from_secs(50);
/// The command ignores the stop signal, and so runs this long after it.
const GRACE: Duration = Duration::from_secs(1);
const NAME: &str = "x";

/// Runs the tests of this binary, one at a time. Takes a filter and `--skip` as other test binaries do.
pub(crate) fn run_tests() -> ExitCode {
    let tests: [(&str, fn()); 6] = [
        ("an_aborted_run_releases_the_lease_after_the_command", aborted),
        ("a_shutdown_of_the_runtime_of_run_releases_the_lease_after_the_command", runtime_shut_down),
        ("the_command_on_loss_runs_after_an_aborted_run", hook_after_abort),
        ("a_stopping_node_stops_the_command_first", node_stopped),
        ("a_node_that_is_stopped_after_an_aborted_run_waits_for_the_command", node_stopped_after_abort),
        ("a_node_that_resigns_stops_the_command_first", resigned),
    ];
    let (mut filter, mut skipped) = (String::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" => skipped.extend(arguments.next()),
            "--test-threads" => _ = arguments.next(),
            flag if flag.starts_with('-') => {}
            _ => filter = argument,
        }
    }
    for (name, test) in tests {
        if name.contains(&filter) && !skipped.iter().any(|skip| name.contains(skip.as_str())) {
            println!("test {name}");
            // A failed test panics, and with it this process.
            test();
        }
    }
    ExitCode::SUCCESS
}

/// A voter, a supervisor whose command runs, and a candidate that waits for the lease.
struct Scene {
    folder: Folder,
    node: Node,
    run: JoinHandle<Result<u8, Error>>,
    rival: JoinHandle<Leadership>,
    /// Kept running.
    _others: [Node; 2],
    /// The command gets no signals.
    _signals: mpsc::Sender<i32>,
}

impl Scene {
    /// Starts the supervisor in this runtime. The command holds a lock with all its descendants. It leads until the
    /// test ends it: the other candidate waits in the queue of the voter.
    async fn start(runtime: &Runtime, configure: impl FnOnce(&mut Supervisor, &Folder)) -> Scene {
        let folder = Folder::new().unwrap();
        let (address, keyring) = (suffrage_testbed::address(), Keyring::generate().unwrap());
        let builder = |id: u64| -> NodeBuilder {
            Node::builder(id).key(keyring.clone()).member(1, address).delay(Duration::from_millis(5))
        };
        let voter = builder(1).in_memory().start().await.unwrap();
        let _observed = voter.observe(NAME).await.unwrap();
        let node = builder(2).start().await.unwrap();
        let other = builder(3).start().await.unwrap();
        let (lock, started) = (folder.path().join("lock"), folder.path().join("started"));
        let script = format!(
            "trap '' TERM; exec 9>{}; flock -n 9 || exit 1; setsid sleep 1000 & echo >{}; while :; do sleep 0.01; done",
            lock.display(),
            started.display()
        );
        let mut supervisor = Supervisor::new(NAME, ["/bin/sh", "-c", &script]);
        (supervisor.ttl, supervisor.grace) = (TTL, GRACE);
        configure(&mut supervisor, &folder);
        let (sender, signals) = mpsc::channel(1);
        let supervised = node.clone();
        let run = runtime.spawn(async move { supervisor.run(&supervised, signals, &|_| {}).await });
        until(|| started.exists()).await;
        let election = other.election(NAME).ttl(TTL).join().await.unwrap();
        let rival = tokio::spawn(async move { election.lead().await.unwrap() });
        soon(async {
            while voter.status(NAME).await.unwrap().unwrap().queue != [NodeId(3)] {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let scene = Scene { folder, node, run, rival, _others: [voter, other], _signals: sender };
        assert!(!scene.has_ended(), "the command holds its lock");
        scene
    }

    fn lock(&self) -> PathBuf {
        self.folder.path().join("lock")
    }

    /// Whether the command and its descendants have ended: they hold a lock.
    fn has_ended(&self) -> bool {
        flock(File::open(self.lock()).unwrap(), FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Waits until the other candidate leads: the command must have ended then.
    async fn handed_over(&mut self) {
        let leadership = soon(&mut self.rival).await.unwrap();
        assert!(self.has_ended(), "the command runs beside the next leader");
        assert!(leadership.is_valid());
    }
}

/// Fails after 30 s: shorter than a lease.
async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes far too long")
}

async fn until(is_so: impl Fn() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn aborted() {
    let runtime = runtime();
    runtime.block_on(async {
        let mut scene = Scene::start(&runtime, |_, _| {}).await;
        scene.run.abort();
        assert!(soon(&mut scene.run).await.unwrap_err().is_cancelled());
        scene.handed_over().await;
    });
}

/// The node is in another runtime, and goes on.
fn runtime_shut_down() {
    let (runtime, other) = (runtime(), runtime());
    runtime.block_on(async {
        let mut scene = Scene::start(&other, |_, _| {}).await;
        other.shutdown_background();
        scene.handed_over().await;
    });
}

fn hook_after_abort() {
    let runtime = runtime();
    runtime.block_on(async {
        let mut scene = Scene::start(&runtime, |supervisor, folder| {
            let folder = folder.path().display();
            supervisor.on_loss =
                Some(format!("exec 9>>{folder}/lock; flock -n 9 && echo free >{folder}/hook"));
        })
        .await;
        scene.run.abort();
        scene.handed_over().await;
        let hook = fs::read_to_string(scene.folder.path().join("hook"));
        assert_eq!(hook.unwrap(), "free\n", "it ran after the command and before the next leader");
    });
}

fn node_stopped() {
    let runtime = runtime();
    runtime.block_on(async {
        let mut scene = Scene::start(&runtime, |_, _| {}).await;
        let stopping = tokio::spawn({
            let node = scene.node.clone();
            async move { node.stop().await }
        });
        scene.handed_over().await;
        soon(stopping).await.unwrap();
        assert!(matches!(soon(&mut scene.run).await.unwrap(), Err(Error::Stopped)));
    });
}

/// A program that selects between `run` and a signal of its own.
fn node_stopped_after_abort() {
    let runtime = runtime();
    runtime.block_on(async {
        let mut scene = Scene::start(&runtime, |_, _| {}).await;
        scene.run.abort();
        soon(scene.node.stop()).await;
        assert!(scene.has_ended(), "the node stopped first");
        scene.handed_over().await;
    });
}

fn resigned() {
    let runtime = runtime();
    runtime.block_on(async {
        let mut scene = Scene::start(&runtime, |_, _| {}).await;
        assert!(scene.node.resign(NAME).await.unwrap());
        let why = scene.node.status(NAME).await.unwrap().unwrap().why;
        assert!(matches!(why, Why::HandingOver { to: None, .. }), "{why}");
        scene.handed_over().await;
    });
}
