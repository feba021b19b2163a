//! Elections with an advisory lock, which clients in Python take as well.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use suffrage_engines::{Clock as _, Engine, Error, Leadership, Loss};
use suffrage_servers::programs::python;
use suffrage_servers::{Foreign, Mode, Proxy, Servers as _};
use tokio::time::timeout;

use super::{Postgres, TTL, start};
use crate::conformance::within;
use crate::support::{BootClock, CandidateProcess};

/// A client that knows nothing of suffrage: `lock` takes the advisory lock, `unlock` releases it, `who` names the
/// application that has it.
const CLIENT: &str = r#"
import sys, time, psycopg
dsn, call = sys.argv[1], sys.argv[2]
connection = psycopg.connect(dsn, autocommit=True)
def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
for line in sys.stdin:
    command = line.strip()
    if command == "lock":
        connection.execute(f"SELECT pg_advisory_lock({call})")
        print("locked", now(), flush=True)
    elif command == "unlock":
        print("unlocking", now(), flush=True)
        connection.execute(f"SELECT pg_advisory_unlock({call})")
    elif command == "who":
        row = connection.execute(
            "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE locktype = 'advisory' AND granted").fetchone()
        print("holder", row and row[0], flush=True)
"#;

fn foreign(servers: &Postgres, call: &str) -> Foreign {
    let (host, port) = (servers.address.ip(), servers.address.port());
    let dsn = format!("host={host} port={port} user=postgres dbname=postgres application_name=psycopg");
    Foreign::start(Command::new(python(suffrage_servers::postgres::CLIENT)).args(["-c", CLIENT, &dsn, call]))
}

fn engine(servers: &Postgres, advisory: &str) -> Engine {
    let url = servers.url(&servers.addresses());
    Engine::connect(&format!("{url}?advisory={advisory}"), BootClock).unwrap()
}

async fn lead(engine: &Engine, identity: &str) -> Leadership {
    let election = engine.election("mixed").ttl(TTL).identity(identity).join().unwrap();
    within("a leadership", election.lead()).await.unwrap()
}

/// The moment in a line of the client, by the clock of the tests, which starts elsewhere.
fn moment(line: &str) -> Duration {
    let nanos = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let since_boot = Duration::from_nanos(nanos.unwrap_or_else(|| panic!("no moment in `{line}`")));
    // The clock is read first: the moment is at most a reading too early.
    let now = BootClock.now();
    let boot = Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap();
    since_boot + (now - boot)
}

async fn waiting(engine: &Engine, count: usize) {
    crate::conformance::until("they wait", async || {
        (engine.status("mixed").await.unwrap().waiting.len() == count).then_some(())
    })
    .await;
}

/// A client in Python and a candidate of ours hand over to each other, and each sees the other.
async fn hand_over(advisory: &str, call: &str) {
    let servers = start().await;
    let (engine, mut python) = (engine(&servers, advisory), foreign(&servers, call));
    let mut token = 0;
    for round in 0..3 {
        python.say("lock");
        let locked = python.hear();
        assert!(locked.starts_with("locked"), "{locked}");
        let leader = engine.status("mixed").await.unwrap().leader.expect("a leader");
        assert_eq!((leader.identity.as_str(), leader.token), ("psycopg", 0), "round {round}");
        let other = engine.clone();
        let ours = tokio::spawn(async move { lead(&other, "ours").await });
        waiting(&engine, 1).await;
        assert!(!ours.is_finished());
        python.say("unlock");
        assert!(python.hear().starts_with("unlocking"));
        let ours = within("our turn", ours).await.unwrap();
        assert!(ours.token() > token, "{} after {token}", ours.token());
        token = ours.token();
        python.say("who");
        assert_eq!(python.hear(), "holder ours");
        let leader = engine.status("mixed").await.unwrap().leader.expect("a leader");
        assert_eq!((leader.identity.as_str(), leader.token), ("ours", token));
        python.say("lock");
        waiting(&engine, 1).await;
        assert!(python.is_silent() && ours.is_valid());
        ours.resign().await;
        assert!(python.hear().starts_with("locked"));
        python.say("unlock");
        python.hear();
    }
    // A client that is killed gives way.
    python.say("lock");
    python.hear();
    let other = engine.clone();
    let ours = tokio::spawn(async move { lead(&other, "ours").await });
    waiting(&engine, 1).await;
    python.process.kill();
    let ours = within("our turn", ours).await.unwrap();
    assert!(ours.token() > token);
    ours.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_and_ours_hand_over() {
    hand_over("42", "42").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_and_ours_hand_over_with_a_pair_of_keys_and_a_hashed_name() {
    hand_over("-7,9", "-7, 9").await;
    hand_over("hashtext", "hashtext('mixed')").await;
}

/// A watch tells of leaders that are other clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_sees_python() {
    let servers = start().await;
    let (engine, mut python) = (engine(&servers, "42"), foreign(&servers, "42"));
    let mut watch = engine.watch("mixed");
    python.say("lock");
    python.hear();
    let leader = within("the watch", watch.changed()).await.unwrap().expect("a leader");
    assert_eq!(leader.identity, "psycopg");
    python.say("unlock");
    python.hear();
    assert_eq!(within("the watch", watch.changed()).await.unwrap(), None);
}

/// Our leader is killed, or paused for longer than its ttl: the client gets the lock, after our validity has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_takes_over_from_a_paused_leader_after_its_lease() {
    for signal in [Signal::STOP, Signal::KILL] {
        let servers = start().await;
        let url = format!("{}?advisory=42", servers.url(&servers.addresses()));
        let mut ours = CandidateProcess::start(&url, "mixed", TTL, "ours");
        tokio::task::block_in_place(|| ours.leads());
        let mut python = foreign(&servers, "42");
        python.say("lock");
        waiting(&engine(&servers, "42"), 1).await;
        ours.process.signal(signal);
        let locked = moment(&python.hear());
        ours.drain();
        if signal == Signal::KILL {
            // A process that is dead does no work: the lock is free at once.
            continue;
        }
        assert!(
            locked >= ours.until,
            "the client leads {:?} before the lease has ended",
            ours.until - locked
        );
        ours.process.signal(Signal::CONT);
        tokio::task::block_in_place(|| ours.lost());
        python.say("unlock");
        tokio::task::block_in_place(|| ours.leads());
    }
}

/// An operator ends the session that has the lock: another client has it at once, and our leader hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_session_ends_the_leadership() {
    let servers = start().await;
    let engine = engine(&servers, "42");
    let ours = lead(&engine, "ours").await;
    let mut python = foreign(&servers, "42");
    python.say("lock");
    waiting(&engine, 1).await;
    terminate(&servers);
    assert!(python.hear().starts_with("locked"));
    within("the loss", ours.lost()).await;
    let Some(Loss::Ended(Error::Ended { reason, .. })) = ours.loss() else { panic!("{:?}", ours.loss()) };
    assert!(reason.contains("advisory lock"), "{reason}");
    assert!(!ours.is_valid());
}

/// Ends the session that has the advisory lock.
fn terminate(servers: &Postgres) {
    servers.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
}

/// The same for a leader that does not hear of it, because its network is gone: the next one of ours has the lock at once,
/// but leads only when the lease in the row has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_fences_where_the_advisory_lock_does_not() {
    let servers = start().await;
    let proxy = Proxy::start(servers.address).await;
    let url = format!("{}?advisory=42", servers.url(&[proxy.address]));
    let cut_off = Engine::connect(&url, BootClock).unwrap();
    let first = lead(&cut_off, "first").await;
    proxy.set(Mode::Silent);
    let direct = engine(&servers, "42");
    let other = direct.clone();
    let second = tokio::spawn(async move { lead(&other, "second").await });
    waiting(&direct, 1).await;
    assert!(first.is_valid());
    terminate(&servers);
    waiting(&direct, 0).await;
    let holder = servers.sql(
        "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) \
         WHERE locktype = 'advisory' AND granted",
    );
    assert_eq!(holder, "second");
    let second = within("the second leads", second).await.unwrap();
    assert!(!first.is_valid(), "the second leads while the first is valid for {:?}", first.valid_for());
    assert!(second.token() > first.token());
}

/// A candidate has the lock and waits for the row. The session of the lock ends meanwhile, and another client has it: the
/// candidate does not lead when the row is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_waits_for_the_row_checks_the_lock() {
    let servers = start().await;
    let with_lock = engine(&servers, "42");
    let without = Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap();
    let holder = lead(&without, "holder of the row").await;
    let other = with_lock.clone();
    let ours = tokio::spawn(async move { lead(&other, "ours").await });
    let mut python = foreign(&servers, "42");
    crate::conformance::until("the candidate has the lock", async || {
        let remarks = with_lock.status("mixed").await.unwrap().remarks.join("; ");
        remarks.contains("`ours` has the advisory lock").then_some(())
    })
    .await;
    python.say("lock");
    waiting(&with_lock, 1).await;
    terminate(&servers);
    assert!(python.hear().starts_with("locked"));
    holder.resign().await;
    // Nobody has the row, or a candidate that has noticed in time.
    tokio::time::sleep(TTL).await;
    assert!(!ours.is_finished(), "leads without the lock");
    python.say("unlock");
    python.hear();
    within("our turn", ours).await.unwrap().resign().await;
}

/// A candidate that gives up leaves the queue of the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_gives_up_leaves_the_queue() {
    let servers = start().await;
    let (engine, mut python) = (engine(&servers, "42"), foreign(&servers, "42"));
    python.say("lock");
    python.hear();
    let election = engine.election("mixed").ttl(TTL).identity("ours").join().unwrap();
    assert!(timeout(TTL, election.lead()).await.is_err());
    waiting(&engine, 0).await;
    python.say("unlock");
    python.hear();
    python.say("lock");
    assert!(python.hear().starts_with("locked"));
}
