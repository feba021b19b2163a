//! A candidate and an API server that takes its time.

use std::sync::Mutex;

use super::wire::{Message, seal, unseal};
use super::*;
use crate::http::testing::{TestClock, serve};

/// An API server with one Lease. Every write takes two seconds of the candidate's clock.
#[derive(Default)]
struct Server {
    lease: Option<Message>,
    version: u64,
    writes: u64,
    /// Replies of writes are lost.
    loses: bool,
}

impl Server {
    fn store(&mut self, body: &[u8]) -> Vec<u8> {
        let mut lease = unseal(body).unwrap();
        self.version += 1;
        self.writes += 1;
        let mut metadata = lease.message(1);
        metadata.set_text(6, &self.version.to_string());
        lease.set_message(1, &metadata);
        self.lease = Some(lease.clone());
        seal("coordination.k8s.io/v1", "Lease", &lease)
    }

    fn handle(&mut self, method: &str, path: &str, body: &[u8], clock: &TestClock) -> (u16, Vec<u8>) {
        let known = self.lease.as_ref().map(|lease| lease.message(1).text(6).to_string());
        let reply = match (method, &self.lease) {
            // The watch fails: the tests read the Lease.
            ("GET", _) if !path.ends_with("/x") => return (500, Vec::new()),
            ("GET", Some(lease)) => return (200, seal("coordination.k8s.io/v1", "Lease", lease)),
            ("GET", None) => return (404, Vec::new()),
            ("POST", Some(_)) => return (409, Vec::new()),
            ("POST", None) => self.store(body),
            _ if Some(unseal(body).unwrap().message(1).text(6)) != known.as_deref() => {
                return (409, Vec::new());
            }
            _ => self.store(body),
        };
        clock.advance(2);
        (if self.loses { 504 } else { 200 }, reply)
    }
}

async fn engine(server: &Arc<Mutex<Server>>, clock: &TestClock, parameters: &str) -> Kubernetes {
    let (server, clock) = (Arc::clone(server), clock.clone());
    let address =
        serve(move |method, path, body| server.lock().unwrap().handle(method, path, body, &clock)).await;
    let folder = suffrage_testbed::Folder::new().unwrap();
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]"
    );
    std::fs::write(&path, text).unwrap();
    let url = format!("kubernetes://default?kubeconfig={}{parameters}", path.display());
    Kubernetes::new(Url::parse(&url).unwrap()).unwrap()
}

fn seconds(seconds: f64) -> Moment {
    Duration::from_secs_f64(seconds)
}

#[tokio::test]
async fn validity_counts_from_before_the_request() {
    let (server, clock) = (Arc::default(), TestClock::default());
    let kubernetes = engine(&server, &clock, "").await;
    clock.advance(100);
    let mut candidate = kubernetes.candidate(clock.wish(20));
    // The write takes from 100 to 102, and the drift is a tenth.
    let grant = candidate.campaign().await.unwrap();
    assert_eq!(grant, Grant { token: 1, valid_until: seconds(118.0) });
    clock.advance(8);
    let grant = candidate.renew().await.unwrap();
    assert_eq!(grant, Grant { token: 1, valid_until: seconds(128.0) });
    candidate.withdraw().await.unwrap();
    assert_eq!(kubernetes.status("x").await.unwrap().leader, None);
}

#[tokio::test]
async fn validity_is_never_longer_than_the_shortest_duration_of_other_clients() {
    let (server, clock) = (Arc::default(), TestClock::default());
    let kubernetes = engine(&server, &clock, "&shortest-duration=10s").await;
    let mut candidate = kubernetes.candidate(clock.wish(20));
    assert_eq!(candidate.campaign().await.unwrap().valid_until, seconds(9.0));
    assert_eq!(candidate.renewal_interval(Duration::from_secs(20)), Duration::from_secs(10) / 3);
    assert_eq!(server.lock().unwrap().lease.as_ref().unwrap().message(2).number(2), Some(20));
}

#[tokio::test]
async fn a_write_without_a_reply_is_found_and_removed() {
    let (server, clock): (Arc<Mutex<Server>>, _) = (Arc::default(), TestClock::default());
    let kubernetes = engine(&server, &clock, "").await;
    let mut candidate = kubernetes.candidate(clock.wish(20));
    server.lock().unwrap().loses = true;
    assert!(candidate.campaign().await.unwrap_err().is_transient());
    assert_eq!(kubernetes.status("x").await.unwrap().leader.unwrap().identity, "me", "it was stored");
    // The next attempt finds it, and counts anew.
    server.lock().unwrap().loses = false;
    let grant = candidate.campaign().await.unwrap();
    assert_eq!(grant, Grant { token: 2, valid_until: seconds(2.0 + 18.0) });
    server.lock().unwrap().loses = true;
    assert!(candidate.renew().await.unwrap_err().is_transient());
    server.lock().unwrap().loses = false;
    assert_eq!(candidate.renew().await.unwrap().token, 2);
    server.lock().unwrap().loses = true;
    assert!(candidate.withdraw().await.unwrap_err().is_transient());
    server.lock().unwrap().loses = false;
    candidate.withdraw().await.unwrap();
    assert_eq!(kubernetes.status("x").await.unwrap().leader, None);
}

/// A create whose reply was lost may arrive later still: withdrawing makes it fail.
#[tokio::test]
async fn a_write_that_arrives_late_is_refused_after_the_withdrawal() {
    let (server, clock): (Arc<Mutex<Server>>, _) = (Arc::default(), TestClock::default());
    let kubernetes = engine(&server, &clock, "").await;
    let mut candidate = kubernetes.candidate(clock.wish(20));
    server.lock().unwrap().loses = true;
    assert!(candidate.campaign().await.is_err());
    // It has not arrived yet.
    let late = {
        let mut server = server.lock().unwrap();
        server.loses = false;
        server.lease.take().unwrap()
    };
    candidate.withdraw().await.unwrap();
    let late = seal("coordination.k8s.io/v1", "Lease", &late);
    assert_eq!(server.lock().unwrap().handle("POST", "/", &late, &clock).0, 409);
    assert_eq!(kubernetes.status("x").await.unwrap().leader, None);
}

#[tokio::test]
async fn a_lease_that_another_holds_ends_the_leadership() {
    let (server, clock): (Arc<Mutex<Server>>, _) = (Arc::default(), TestClock::default());
    let kubernetes = engine(&server, &clock, "").await;
    let mut candidate = kubernetes.candidate(clock.wish(20));
    candidate.campaign().await.unwrap();
    kubernetes.depose("x").await.unwrap().expect("a leader");
    let ended = candidate.renew().await.unwrap_err();
    assert!(matches!(&ended, Error::Ended { reason, .. } if reason.contains("released")), "{ended}");
    let mut other = kubernetes.candidate(clock.wish(20));
    let token = other.campaign().await.unwrap().token;
    let writes = server.lock().unwrap().writes;
    // The former leader leaves the Lease of the other alone.
    candidate.withdraw().await.unwrap();
    assert_eq!(server.lock().unwrap().writes, writes);
    assert_eq!(kubernetes.status("x").await.unwrap().leader.unwrap().token, token);
    server.lock().unwrap().lease = None;
    let ended = other.renew().await.unwrap_err();
    assert!(matches!(&ended, Error::Ended { reason, .. } if reason.contains("deleted")), "{ended}");
}

/// A lease is valid for `shortest-duration` at most: a stop margin must leave half of that.
#[test]
fn a_stop_margin_leaves_half_of_the_shortest_duration() {
    let folder = suffrage_testbed::Folder::new().unwrap();
    let path = folder.path().join("config");
    let config = "current-context: x\nclusters:\n- {name: x, cluster: {server: 'http://127.0.0.1:1'}}\n\
                  contexts:\n- {name: x, context: {cluster: x}}\n";
    std::fs::write(&path, config).unwrap();
    let url = format!("kubernetes://x?kubeconfig={}&shortest-duration=4s", path.display());
    let engine = crate::Engine::connect(&url, TestClock::default()).unwrap();
    let election = || engine.election("x").ttl(Duration::from_secs(60));
    assert!(election().join().is_ok(), "the default is a tenth of the validity");
    assert!(election().stop_margin(Duration::from_secs(2)).join().is_ok());
    let error = election().stop_margin(Duration::from_secs(3)).join().unwrap_err();
    assert!(error.to_string().contains("above half of 4s"), "{error}");
}
