//! A program that is paused for longer than its lease.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{Cluster, soon, until};

const TTL: Duration = Duration::from_millis(300);

/// The whole runtime of the leader is paused, as by SIGSTOP. The leadership turns invalid by the clock before another
/// candidate leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_leadership_is_invalid_before_another_is_valid() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", TTL).await;
    let candidate = cluster.member(9);
    let (hand, leaderships) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let program = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let node = candidate.start().await.unwrap();
            let election = node.election("x").ttl(TTL).join().await.unwrap();
            let leadership = std::sync::Arc::new(election.lead().await.unwrap());
            hand.send(std::sync::Arc::clone(&leadership)).unwrap();
            // Blocks the runtime's only thread.
            resumed.recv().unwrap();
            // The leadership is invalid at once after the pause.
            assert!(!leadership.is_valid());
            leadership.lost().await;
        });
    });
    let leadership = tokio::task::spawn_blocking(move || leaderships.recv().unwrap()).await.unwrap();
    let waiting = tokio::spawn({
        let election = elections[0].clone();
        async move { election.lead().await.unwrap() }
    });
    let next = soon(waiting).await.unwrap();
    assert!(!leadership.is_valid(), "two lead at once");
    assert!(next.is_valid() && next.token() > leadership.token());
    // The old leader was paused all the time.
    resume.send(()).unwrap();
    tokio::task::spawn_blocking(move || program.join().unwrap()).await.unwrap();
}

/// A leader without voters learns early enough to stop its work.
#[tokio::test]
async fn lost_returns_before_the_lease_ends() {
    let cluster = Cluster::start().await;
    let candidate = cluster.member(9).start().await.unwrap();
    // Longer than a busy machine keeps a task waiting.
    let margin = Duration::from_secs(2);
    let join = candidate.election("x").ttl(Duration::from_secs(5)).stop_margin(margin);
    let election = join.join().await.unwrap();
    let leadership = soon(election.lead()).await.unwrap();
    cluster.nodes.iter().for_each(suffrage::Node::abort);
    soon(leadership.lost()).await;
    let left = leadership.valid_for();
    assert!(left > Duration::ZERO && left <= margin, "{left:?}");
    until(async || !leadership.is_valid()).await;
}
