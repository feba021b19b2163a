//! What goes wrong with leases in PostgreSQL elsewhere.

use std::process::Command;
use std::time::Duration;

use suffrage_engines::{Clock as _, Engine, Error};
use suffrage_servers::postgres::{Postgres, start_with};
use suffrage_servers::{Server, Servers as _};
use tokio::time::{sleep, timeout};

use super::{TTL, start};
use crate::conformance::{lead, until, within};
use crate::support::BootClock;

fn engine(servers: &Postgres) -> Engine {
    Engine::connect(&servers.url(&servers.addresses()), BootClock).unwrap()
}

/// A session of psql that keeps the row of an election locked until it is dropped.
fn lock_row(servers: &Postgres, name: &str) -> suffrage_servers::Foreign {
    let mut session = suffrage_servers::Foreign::start(&mut servers.psql());
    session.say("BEGIN;");
    session.say(&format!("SELECT 'locked' FROM suffrage_election WHERE name = '{name}' FOR UPDATE;"));
    assert_eq!(session.hear(), "locked");
    session
}

/// A row that another session has locked delays no other election, and the lease of its own ends in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_delays_no_other_election() {
    let servers = start().await;
    let (engine, ttl) = (engine(&servers), TTL * 3);
    let blocked = lead(&engine, "blocked", ttl, "me").await;
    let free = lead(&engine, "free", ttl, "me").await;
    let sessions = || servers.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'suffrage'");
    let before = sessions();
    let mut session = lock_row(&servers, "blocked");
    within("the loss", blocked.lost()).await;
    until("the end", async || (!blocked.is_valid()).then_some(())).await;
    let other = lead(&engine, "other", ttl, "me").await;
    assert!(free.is_valid() && other.is_valid());
    assert_eq!(sessions(), before, "a request has failed for all elections");
    // The row is free again: the election goes on.
    let token = blocked.token();
    drop(blocked);
    session.say("ROLLBACK;");
    let next = lead(&engine, "blocked", ttl, "next").await;
    assert!(next.token() > token);
}

/// A resignation wakes the next candidate: many hand-overs of long leases take no time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resignation_is_pushed() {
    let servers = start().await;
    let (one, two) = (engine(&servers), engine(&servers));
    crate::conformance::many_hand_overs(&one, &two).await;
}

/// A short lock costs no leadership.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_lock_is_ridden_out() {
    let servers = start().await;
    let engine = engine(&servers);
    let leader = lead(&engine, "x", TTL, "me").await;
    let mut session = lock_row(&servers, "x");
    sleep(TTL / 2).await;
    session.say("COMMIT;");
    let start = BootClock.now();
    until("two ttl", async || (BootClock.now() > start + TTL * 2).then_some(())).await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
}

/// The server executes a request late, after the candidate has given up: the lease is not taken by a phantom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_takes_no_lease() {
    let servers = start().await;
    let engine = engine(&servers);
    lead(&engine, "late", TTL, "warm-up").await.resign().await;
    let pid = servers.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'suffrage'");
    let signal = |what: &str| assert!(Command::new("kill").args([what, &pid]).status().unwrap().success());
    signal("-STOP");
    // The request is in the socket of the paused process, and has no reply.
    let election = engine.election("late").ttl(Duration::from_secs(20)).identity("phantom").join().unwrap();
    assert!(timeout(Duration::from_secs(1), election.lead()).await.is_err());
    // The candidate withdraws, over a new session.
    within("the candidate is withdrawn", election.withdrawn()).await;
    let row = || servers.sql("SELECT identity, holder FROM suffrage_election WHERE name = 'late'");
    assert_eq!(row(), "warm-up|");
    signal("-CONT");
    until("the paused process ends", async || {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        (servers.sql(&sql) == "0").then_some(())
    })
    .await;
    assert_eq!(row(), "warm-up|", "a phantom has the lease");
}

/// The session is ended by an operator: the leader goes on with another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_session_is_replaced() {
    let servers = start().await;
    let engine = engine(&servers);
    let leader = lead(&engine, "x", TTL, "me").await;
    for _ in 0..3 {
        servers.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'suffrage'",
        );
        let start = BootClock.now();
        until("a ttl", async || (BootClock.now() > start + TTL).then_some(())).await;
        assert!(leader.is_valid(), "{:?}", leader.loss());
    }
    // Waiting candidates are woken by notifications of the new session.
    let other = engine.clone();
    let next = tokio::spawn(async move { lead(&other, "x", Duration::from_secs(60), "next").await });
    sleep(TTL / 4).await;
    leader.resign().await;
    within("the next", next).await.unwrap().resign().await;
}

/// A server that has become read-only is left for one that can be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_that_can_be_written_is_found() {
    let primary = start().await;
    let mut standby = primary.standby("standby", &[]);
    standby.launch();
    let (one, two) = (standby.address, primary.address);
    let url = format!("postgresql://postgres@{one},{two}/postgres?target_session_attrs=read-write");
    let engine = Engine::connect(&url, BootClock).unwrap();
    lead(&engine, "x", TTL, "me").await.resign().await;
    let remarks = engine.status("x").await.unwrap().remarks.join("; ");
    assert!(remarks.contains("asynchronous (standby)"), "{remarks}");
    // Only the standby: the error says so.
    let only = Engine::connect(&format!("postgres://postgres@{one}/postgres"), BootClock).unwrap();
    let error = only.status("x").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("standby"), "{error}");
}

/// The weakness of an asynchronous standby: the server crashes before the standby has the lease, the standby is promoted,
/// and two lead. The token of the second is greater all the same: it follows the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_standby_loses_the_lease() {
    let mut primary = start().await;
    let mut standby = primary.standby("standby", &[]);
    let (one, two) = (primary.address, standby.address);
    let url = format!("postgres://postgres@{one},{two}/postgres");
    let ttl = Duration::from_secs(60);
    // The standby is behind: it is not even started.
    let first = lead(&Engine::connect(&url, BootClock).unwrap(), "x", ttl, "first").await;
    primary.crash();
    standby.launch();
    standby.promote();
    let second = lead(&Engine::connect(&url, BootClock).unwrap(), "x", ttl, "second").await;
    assert!(first.is_valid() && second.is_valid(), "two lead");
    assert!(second.token() > first.token(), "{} after {}", second.token(), first.token());
}

/// From now on, commits wait for a standby, which is not there.
async fn require_standby(servers: &Postgres, name: &str) {
    servers.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
    servers.sql("SELECT pg_reload_conf()");
    // The processes of the server read the setting one after the other.
    let mut number = 0;
    until("a commit waits", async || {
        number += 1;
        let create = format!("CREATE TABLE probe_{number} ()");
        let mut psql = servers.psql();
        let mut probe =
            Server(psql.args(["-c", "SET synchronous_commit = on", "-c", &create]).spawn().unwrap());
        while matches!(probe.0.try_wait(), Ok(None)) {
            if servers.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0" {
                return Some(());
            }
        }
        None
    })
    .await;
}

/// A synchronous standby has the lease: nobody else leads before it has ended, and the leader goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_keeps_the_lease() {
    // The transactions of the session are synchronous also where the default is not.
    let mut primary = start_with(&["synchronous_commit=off"]);
    let mut standby = primary.standby("standby", &["synchronous_standby_names="]);
    require_standby(&primary, "standby").await;
    standby.launch();
    until("the standby is synchronous", async || {
        (primary.sql("SELECT sync_state FROM pg_stat_replication") == "sync").then_some(())
    })
    .await;
    let (one, two) = (primary.address, standby.address);
    let url = format!("postgres://postgres@{one},{two}/postgres");
    let ttl = Duration::from_secs(20);
    let (ours, others) =
        (Engine::connect(&url, BootClock).unwrap(), Engine::connect(&url, BootClock).unwrap());
    let first = lead(&ours, "x", ttl, "first").await;
    primary.crash();
    standby.promote();
    let status = until("an answer", async || others.status("x").await.ok()).await;
    assert_eq!(status.leader.expect("a leader").token, first.token());
    let second = others.election("x").ttl(ttl).identity("second").join().unwrap();
    assert!(timeout(ttl / 4, second.lead()).await.is_err(), "the second leads");
    assert!(first.is_valid(), "{:?}", first.loss());
    first.resign().await;
    within("the second leads", second.lead()).await.unwrap().resign().await;
}

/// A synchronous standby that is gone: nobody leads by a commit that has not reached it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_leads_while_the_synchronous_standby_is_gone() {
    // The transactions of the session are synchronous also where the default is not.
    let servers = start_with(&["synchronous_commit=off"]);
    let engine = engine(&servers);
    lead(&engine, "x", TTL, "warm-up").await.resign().await;
    require_standby(&servers, "gone").await;
    let election = engine.election("x").ttl(TTL).identity("me").join().unwrap();
    assert!(timeout(TTL * 2, election.lead()).await.is_err(), "leads by a commit that is not replicated");
}
