//! A candidate and an agent that takes its time.

use serde_json::{Value, json};

use super::*;
use crate::http::testing::{TestClock, serve};

/// An agent with one key. Every write takes two seconds of the candidate's clock.
#[derive(Default)]
struct Agent {
    index: u64,
    sessions: Vec<String>,
    /// The session that has locked the key, and the index of that.
    locked: Option<(String, u64)>,
    /// The path of the writes whose replies are lost.
    loses: Option<&'static str>,
    writes: Vec<String>,
}

impl Agent {
    fn handle(&mut self, method: &str, path: &str, body: &[u8], clock: &TestClock) -> (u16, Vec<u8>) {
        let (path, query) = path.split_once('?').unwrap();
        if method == "GET" {
            // The blocking query fails: the tests read the key.
            return match &self.locked {
                _ if query.contains("index") => (500, Vec::new()),
                None => (404, Vec::new()),
                Some((session, index)) => {
                    let key = json!([{
                        "Flags": 0x2ddc_cbc0_58a5_0c18_u64, "Value": "bWU=", "Session": session, "ModifyIndex": index,
                    }]);
                    (200, key.to_string().into())
                }
            };
        }
        self.index += 1;
        clock.advance(2);
        let last = path.rsplit('/').next().unwrap().to_string();
        let kind = path.split('/').nth(3).unwrap_or("txn").to_string();
        let reply = match kind.as_str() {
            "create" => {
                let session = format!("session-{}", self.index);
                self.sessions.push(session.clone());
                (200, json!({ "ID": session }))
            }
            "renew" if self.sessions.contains(&last) => (200, json!([])),
            "renew" => (404, json!("gone")),
            "destroy" => {
                self.sessions.retain(|session| *session != last);
                (200, json!(true))
            }
            "txn" => {
                let operation: Value = serde_json::from_slice(body).unwrap();
                let session = operation[0]["KV"]["Session"].as_str().unwrap().to_string();
                let error = |what: &str| (409, json!({ "Errors": [{ "What": what }] }));
                match &self.locked {
                    Some((other, _)) if *other != session => {
                        error("failed to lock key, lock is already held")
                    }
                    _ if !self.sessions.contains(&session) => error("invalid session"),
                    _ => {
                        self.locked = Some((session, self.index));
                        (200, json!({ "Results": [{ "KV": { "ModifyIndex": self.index } }] }))
                    }
                }
            }
            _ => {
                let session = query.strip_prefix("release=").unwrap().split('&').next().unwrap();
                self.locked = self.locked.take().filter(|(locked, _)| locked != session);
                (200, json!(true))
            }
        };
        self.writes.push(kind.clone());
        if self.loses == Some(kind.as_str()) {
            return (500, Vec::new());
        }
        (reply.0, reply.1.to_string().into())
    }
}

async fn engine(agent: &Arc<Mutex<Agent>>, clock: &TestClock) -> Consul {
    let (agent, clock) = (Arc::clone(agent), clock.clone());
    let address =
        serve(move |method, path, body| agent.lock().unwrap().handle(method, path, body, &clock)).await;
    Consul::new(Url::parse(&format!("consul://{address}/p")).unwrap()).unwrap()
}

fn seconds(seconds: f64) -> Moment {
    Duration::from_secs_f64(seconds)
}

#[tokio::test]
async fn validity_counts_from_before_the_renewal() {
    let (agent, clock): (Arc<Mutex<Agent>>, _) = (Arc::default(), TestClock::default());
    let consul = engine(&agent, &clock).await;
    clock.advance(100);
    let mut candidate = consul.candidate(clock.wish(30));
    // The session is created from 100 to 102, the key locked from 102 to 104, and the session renewed from 104 to 106.
    let grant = candidate.campaign().await.unwrap();
    assert_eq!(grant, Grant { token: 2, valid_until: seconds(104.0 + 27.0) });
    assert_eq!(agent.lock().unwrap().writes, ["create", "txn", "renew"]);
    clock.advance(8);
    let grant = candidate.renew().await.unwrap();
    assert_eq!(grant, Grant { token: 2, valid_until: seconds(114.0 + 27.0) });
    candidate.withdraw().await.unwrap();
    let agent = agent.lock().unwrap();
    assert!(agent.locked.is_none() && agent.sessions.is_empty());
}

/// Consul has no lock-delay above 60 s: a session that was destroyed would let the next lead before our validity ends.
#[tokio::test]
async fn validity_is_never_longer_than_the_longest_lock_delay() {
    let (agent, clock): (Arc<Mutex<Agent>>, _) = (Arc::default(), TestClock::default());
    let consul = engine(&agent, &clock).await;
    let mut candidate = consul.candidate(clock.wish(300));
    let grant = candidate.campaign().await.unwrap();
    assert!(grant.valid_until <= seconds(4.0 + 54.0), "{grant:?}");
    assert_eq!(candidate.renewal_interval(Duration::from_secs(300)), Duration::from_secs(20));
}

#[tokio::test]
async fn a_lock_without_a_reply_is_found_and_removed() {
    let (agent, clock): (Arc<Mutex<Agent>>, _) = (Arc::default(), TestClock::default());
    let consul = engine(&agent, &clock).await;
    let mut candidate = consul.candidate(clock.wish(30));
    agent.lock().unwrap().loses = Some("txn");
    assert!(candidate.campaign().await.unwrap_err().is_transient());
    assert!(agent.lock().unwrap().locked.is_some(), "it was stored");
    candidate.withdraw().await.unwrap();
    assert!(agent.lock().unwrap().locked.is_none() && agent.lock().unwrap().sessions.is_empty());
    // The same, but the candidate tries again.
    let mut candidate = consul.candidate(clock.wish(30));
    assert!(candidate.campaign().await.is_err());
    agent.lock().unwrap().loses = None;
    let grant = candidate.campaign().await.unwrap();
    assert_eq!(Some(grant.token), agent.lock().unwrap().locked.as_ref().map(|(_, index)| *index));
    agent.lock().unwrap().loses = Some("renew");
    assert!(candidate.renew().await.unwrap_err().is_transient());
    agent.lock().unwrap().loses = None;
    assert_eq!(candidate.renew().await.unwrap().token, grant.token);
}

/// A session that is alive is not enough: the key may have been deleted, or locked by another.
#[tokio::test]
async fn a_renewal_checks_the_key() {
    let (agent, clock): (Arc<Mutex<Agent>>, _) = (Arc::default(), TestClock::default());
    let consul = engine(&agent, &clock).await;
    let mut candidate = consul.candidate(clock.wish(30));
    candidate.campaign().await.unwrap();
    let locked = agent.lock().unwrap().locked.take();
    let ended = candidate.renew().await.unwrap_err();
    assert!(matches!(&ended, Error::Ended { reason, .. } if reason.contains("deleted")), "{ended}");
    agent.lock().unwrap().locked = Some(("other".to_string(), 99));
    let ended = candidate.renew().await.unwrap_err();
    assert!(matches!(&ended, Error::Ended { reason, .. } if reason.contains("another session")), "{ended}");
    agent.lock().unwrap().locked = locked;
    agent.lock().unwrap().sessions.clear();
    let ended = candidate.renew().await.unwrap_err();
    assert!(matches!(&ended, Error::Ended { reason, .. } if reason.contains("expired")), "{ended}");
}
