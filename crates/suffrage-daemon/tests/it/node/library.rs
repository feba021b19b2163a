//! Programs that lead through the node of their machine, by the library.

use std::time::Duration;

use suffrage::{Election, Error, Leadership};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{Cluster, soon};

/// A lease that does not end while a test waits: the next leader got a released lease.
const LONG: Duration = Duration::from_secs(50);
const SHORT: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

impl Cluster {
    fn url(&self, place: usize) -> String {
        format!("unix:{}", self.socket(place).display())
    }

    async fn join(&self, place: usize, name: &str, ttl: Duration) -> Election {
        let cluster = suffrage::Cluster::connect(&self.url(place)).await.unwrap();
        cluster.election(name).ttl(ttl).join().await.unwrap()
    }
}

/// Two programs: the first leads at the first node, the second waits at the second.
async fn one_leads_another_waits(
    cluster: &Cluster,
    ttl: Duration,
) -> (Election, Leadership, impl Future<Output = Leadership>) {
    let first = cluster.join(0, "x", ttl).await;
    let leadership = first.lead().await.unwrap();
    let second = cluster.join(1, "x", ttl).await;
    let waiting = tokio::spawn(async move { second.lead().await.unwrap() });
    loop {
        let status = cluster.join(1, "x", ttl).await.status().await.unwrap();
        if status.why.to_string() == "node 1 leads and renews its lease" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (first, leadership, async { waiting.await.unwrap() })
}

#[test]
fn a_program_leads_through_the_node_of_its_machine_without_keys() {
    let cluster = Cluster::start("library");
    runtime().block_on(async {
        let (first, leadership, waiting) = one_leads_another_waits(&cluster, LONG).await;
        assert!(leadership.is_valid() && leadership.valid_for() > SHORT && !leadership.hands_over());
        let mut watch = first.watch();
        assert_eq!(watch.led().await.unwrap().token, leadership.token());
        let status = first.status().await.unwrap();
        assert_eq!((status.name.as_str(), status.leads()), ("x", true));
        assert_eq!(status.leader.map(|leader| (leader.node.0, leader.token)), Some((1, leadership.token())));
        assert!(status.explanation().contains("this node leads"), "{}", status.explanation());
        // The lease lasts far longer than this test: it is released.
        let token = leadership.token();
        leadership.resign();
        let next = waiting.await;
        assert!(next.token() > token);
        let changed = loop {
            if let Some(leader) = watch.changed().await.unwrap().filter(|leader| leader.node.0 == 2) {
                break leader;
            }
        };
        assert_eq!(changed.token, next.token());
        // The first program asks again, and gives up: it leaves the queue.
        assert!(timeout(Duration::from_millis(50), first.lead()).await.is_err());
        drop(next);
        let third = cluster.join(2, "x", LONG).await.lead().await.unwrap();
        assert!(third.is_valid());
    });
}

/// The kernel, not the ttl: the runtime of a program ends, and so does its leadership, before the node can know.
#[test]
fn a_leadership_ends_with_the_runtime_of_its_program() {
    let cluster = Cluster::start("library-runtime");
    let outer = runtime();
    let leadership = outer.block_on(async { cluster.join(0, "x", LONG).await.lead().await.unwrap() });
    assert!(leadership.is_valid());
    drop(outer);
    assert!(!leadership.is_valid(), "the connection is closed, and another may lead");
    let next = runtime().block_on(async { cluster.join(1, "x", LONG).await.lead().await.unwrap().token() });
    assert!(next > leadership.token());
}

#[test]
fn a_program_that_is_asked_to_hand_over_has_its_time() {
    let cluster = Cluster::start("library-hand-over");
    runtime().block_on(async {
        let (first, leadership, waiting) = one_leads_another_waits(&cluster, LONG).await;
        let (status, body) = cluster.post(0, "x/resign", &serde_json::json!({}));
        assert_eq!(status, 202, "{body}");
        leadership.lost().await;
        assert!(leadership.hands_over() && leadership.is_valid());
        drop(leadership);
        let second = waiting.await;
        // An unhealthy program neither leads nor waits.
        let third = tokio::spawn(async move {
            let leadership = first.lead().await.unwrap();
            first.set_healthy(false);
            leadership.lost().await;
            (first, leadership)
        });
        drop(second);
        let (first, leadership) = third.await.unwrap();
        assert!(leadership.hands_over() && leadership.is_valid(), "the work has its margin");
        drop(leadership);
        assert!(timeout(Duration::from_millis(100), first.lead()).await.is_err(), "it is unhealthy");
        first.set_healthy(true);
        first.set_rank(7);
        let again = first.lead().await.unwrap();
        // A transfer to a node at which a program waits.
        let third = cluster.join(2, "x", LONG).await;
        let waiting = tokio::spawn(async move { third.lead().await.map(|leadership| (third, leadership)) });
        loop {
            let status = first.status().await.unwrap();
            if status.queue.iter().any(|node| node.0 == 3) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        again.transfer(3);
        let (third, leadership) = waiting.await.unwrap().unwrap();
        assert_eq!(third.watch().led().await.unwrap().token, leadership.token());
    });
}

/// Nobody releases the lease of a dead node: its clients end at once, and lead again when the node is back.
#[test]
fn a_program_leads_again_when_its_node_is_back() {
    let mut cluster = Cluster::start_with("library-restart", "longest-ttl = \"1s\"\nttl = \"1s\"");
    let runtime = runtime();
    runtime.block_on(async {
        let election = cluster.join(0, "x", SHORT).await;
        let leadership = election.lead().await.unwrap();
        let mut node = cluster.processes[0].take().unwrap();
        node.kill().unwrap();
        node.wait().unwrap();
        leadership.lost().await;
        assert!(!leadership.is_valid());
        assert!(matches!(election.status().await, Err(Error::Unreachable(_))));
        let again = tokio::spawn(async move { election.lead().await.unwrap().token() });
        tokio::task::yield_now().await;
        let process = cluster.spawn(1, &[]);
        cluster.processes[0] = Some(process);
        assert!(again.await.unwrap() > leadership.token());
    });
    soon(|| cluster.socket(0).exists().then_some(()));
}

#[test]
fn what_a_local_node_cannot_do_is_said() {
    let cluster = Cluster::start("library-errors");
    runtime().block_on(async {
        let error = suffrage::Cluster::connect("unix:/nowhere/suffrage.sock").await.unwrap_err();
        assert!(matches!(error, Error::Unreachable(_)), "{error}");
        assert!(error.to_string().contains("/nowhere/suffrage.sock"), "{error}");
        let error = suffrage::Cluster::connect("tcp://127.0.0.1:1").await.unwrap_err();
        assert!(matches!(error, Error::InvalidConfig(_)), "{error}");
        let at = suffrage::Cluster::connect(&cluster.url(0)).await.unwrap();
        for election in
            [at.election("x").failback(SHORT), at.election(""), at.election("x").stop_margin(LONG)]
        {
            assert!(matches!(election.join().await, Err(Error::InvalidConfig(_))));
        }
        // What the node refuses, it refuses for good.
        for (name, ttl, word) in [("x", Duration::from_millis(1), "ttl"), ("n", LONG * 20, "ttl")] {
            let election = at.election(name).ttl(ttl).join().await.unwrap();
            for _ in 0..2 {
                let error = election.lead().await.unwrap_err();
                assert!(
                    matches!(error, Error::Refused(_)) && error.to_string().contains(word),
                    "{name:?} {error}"
                );
            }
        }
    });
}
