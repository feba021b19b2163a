//! Taking part over HTTP.

use std::time::{Duration, Instant};

use serde_json::json;
use suffrage_core::Span;
use suffrage_daemon::daemon::Daemon;
use suffrage_node::lease::CandidateConfig;

use crate::daemon::{Cluster, soon};

#[tokio::test]
async fn two_clients_of_one_daemon_lead_one_after_the_other_each_with_a_token_of_its_own() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", "10s", "30s").await.leads();
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.campaign("x", "10s", "30s").await }
    });
    // Both renewals and the wait go on.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!second.is_finished(), "one leads at a time");
    let renewed = client.say("x", "renew", &session).await;
    assert_eq!(renewed.leads(), (token, session.clone()));
    let valid = renewed.json()["valid_for_ms"].as_u64().unwrap();
    assert!((5_000..9_800).contains(&valid), "98% of 98% of the ttl at most, and not nothing: {valid}");
    let began = Instant::now();
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    let (next, other) = second.await.unwrap().leads();
    assert!(next > token && other != session);
    assert!(began.elapsed() < Duration::from_secs(5), "not by waiting for the lease to end");
    let late = client.say("x", "renew", &session).await;
    assert_eq!((late.status, late.json()["reason"].as_str()), (409, Some("lost")));
}

#[tokio::test]
async fn a_session_that_is_not_renewed_is_lost_to_the_next() {
    let cluster = Cluster::start().await;
    let (one, two) = (cluster.client(1), cluster.client(2));
    let (token, session) = one.campaign("x", "500ms", "30s").await.leads();
    let began = Instant::now();
    let (next, other) = loop {
        // Five hundredths of a clock that drifts by one: it waits in several turns, and keeps its place.
        let answer = two.campaign("x", "10s", "20s").await;
        if answer.status == 200 {
            break answer.leads();
        }
        assert_eq!(answer.status, 202, "{answer:?}");
    };
    assert!(next > token);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let late = one.say("x", "renew", &session).await;
    assert_eq!((late.status, late.json()["reason"].as_str()), (409, Some("lost")));
    assert_eq!(two.say("x", "renew", &other).await.leads().0, next);
}

#[tokio::test]
async fn who_waits_asks_again_and_keeps_its_place() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", "20s", "30s").await.leads();
    let waits = client.campaign("x", "20s", "50ms").await;
    assert_eq!(waits.status, 202, "{waits:?}");
    let place = waits.json();
    let waiting = place["session"].as_str().unwrap();
    assert!(place["queue_position"] == 0 && place["retry_before_ms"].as_u64().unwrap() >= 1_000, "{place}");
    let behind = client.campaign("x", "20s", "50ms").await;
    assert_eq!((behind.status, behind.json()["queue_position"].as_u64()), (202, Some(1)));
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    let body = json!({ "session": waiting, "wait": "30s" });
    let (next, _) = client.post("/elections/x/campaign", body.clone()).await.leads();
    assert!(next > token);
    // Whose answer was lost asks again, and leads on.
    assert_eq!(client.post("/elections/x/campaign", body).await.leads(), (next, waiting.to_string()));
    let unknown = json!({ "session": "0".repeat(32) });
    assert_eq!(client.post("/elections/x/campaign", unknown).await.status, 409);
}

#[tokio::test]
async fn one_that_leads_can_choose_the_node_that_leads_next() {
    let cluster = Cluster::start().await;
    let (_, session) = cluster.client(1).campaign("x", "10s", "30s").await.leads();
    let waiting = [2, 3].map(|id| {
        let client = cluster.client(id);
        tokio::spawn(async move { client.campaign("x", "10s", "30s").await })
    });
    // Until the voters know of both.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let body = json!({ "session": session, "to": 3 });
    let handed = cluster.client(1).post("/elections/x/transfer", body).await;
    assert_eq!(handed.status, 200, "{handed:?}");
    let [two, three] = waiting;
    soon(three).await.unwrap().leads();
    assert!(!two.is_finished());
    two.abort();
    let told = cluster.client(3).get("/elections/x").await.json();
    assert_eq!((told["leader"].as_u64(), told["node"].as_u64()), (Some(3), Some(3)));
    let bad = cluster.client(3).post("/elections/x/transfer", json!({ "to": 3 })).await;
    assert_eq!(bad.status, 400);
    let elsewhere = cluster.client(1).post("/elections/x/transfer", json!({ "to": 2 })).await;
    assert_eq!((elsewhere.status, elsewhere.json()["reason"].as_str()), (409, Some("not-leader")));
}

#[tokio::test]
async fn observers_see_the_present_state_first_and_then_every_change() {
    let cluster = Cluster::start().await;
    let mut events = cluster.client(2).observe("x").await;
    let first = events.next().await.unwrap();
    assert!(first["leader"].is_null() && first["election"] == "x", "{first}");
    let (token, session) = cluster.client(1).campaign("x", "10s", "30s").await.leads();
    let led = events.next().await.unwrap();
    assert_eq!((led["leader"].as_u64(), led["token"].as_u64()), (Some(1), Some(token)));
    // Who comes later sees that first.
    let first = cluster.client(3).observe("x").await.next().await.unwrap();
    assert_eq!((first["leader"].as_u64(), first["token"].as_u64()), (Some(1), Some(token)));
    cluster.client(1).say("x", "resign", &session).await;
    let over = events.next().await.unwrap();
    assert!(over["leader"].is_null(), "{over}");
    let history = cluster.client(1).get("/elections/x/history").await.json();
    let leaders: Vec<_> =
        history["history"].as_array().unwrap().iter().map(|it| it["leader"].as_u64()).collect();
    assert_eq!(leaders, [Some(1), None], "{history}");
}

#[tokio::test]
async fn an_operator_gets_it_back_without_breaking_what_the_client_was_promised() {
    let cluster = Cluster::start().await;
    let one = cluster.client(1);
    let nobody = one.post("/elections/x/resign", json!({})).await;
    assert_eq!((nobody.status, nobody.json()["reason"].as_str()), (409, Some("not-leader")));
    let (token, session) = one.campaign("x", "20s", "30s").await.leads();
    let second = tokio::spawn({
        let client = cluster.client(2);
        async move { client.campaign("x", "20s", "30s").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let recalled = one.post("/elections/x/resign", json!({})).await;
    let within = recalled.json()["within_ms"].as_u64().unwrap();
    assert!(recalled.status == 202 && (1_000..=20_000).contains(&within), "{recalled:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!second.is_finished(), "the client has not given it up");
    let told = one.say("x", "renew", &session).await;
    assert_eq!((told.status, told.json()["reason"].as_str()), (409, Some("recalled")));
    assert_eq!(one.say("x", "resign", &session).await.status, 200);
    assert!(second.await.unwrap().leads().0 > token);
}

/// Who hands over and waits is told who leads next, and how long that took.
#[tokio::test]
async fn how_long_it_took_to_hand_over_is_told_to_who_waits_for_it() {
    let cluster = Cluster::start().await;
    let (one, two) = (cluster.client(1), cluster.client(2));
    let (token, session) = one.campaign("x", "20s", "30s").await.leads();
    let next = tokio::spawn(async move { two.campaign("x", "20s", "30s").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    let body = json!({ "session": session, "wait": "30s" });
    let handed = one.post("/elections/x/resign", body).await;
    let (all, told) = (began.elapsed(), handed.json());
    assert_eq!(handed.status, 200, "{told}");
    let (new, _) = soon(next).await.unwrap().leads();
    assert!(new > token);
    assert_eq!((told["leader"].as_u64(), told["token"].as_u64()), (Some(2), Some(new)), "{told}");
    let took = told["took_ms"].as_f64().unwrap();
    assert!(took > 0.0 && took <= all.as_secs_f64() * 1e3, "{told} of {all:?}");
    // An operator who does not wait as long as the client takes hears when it is over at the latest.
    let recalled = cluster.client(2).post("/elections/x/resign", json!({ "wait": "100ms" })).await;
    let told = recalled.json();
    assert!(recalled.status == 202 && told["within_ms"].as_u64() > Some(1_000), "{told}");
    assert!(told["leader"].is_null() && told["took_ms"].is_null(), "{told}");
}

/// Whoever stands with a greater rank, and wants it back, asks the leader, which hands over at once: but not a
/// client's leadership, which the client would not know of.
#[tokio::test]
async fn a_better_node_does_not_take_it_from_a_client() {
    let cluster = Cluster::start().await;
    let one = cluster.client(1);
    let (token, session) = one.campaign("x", "3s", "30s").await.leads();
    let failback = Some(Span::from_millis(100));
    let config = CandidateConfig { attribute: 9, failback, ..CandidateConfig::default() };
    let better = cluster.daemon(2).node().join("x", config).await.unwrap();
    better.campaign();
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(one.say("x", "renew", &session).await.leads().0, token);
    }
    assert_eq!(one.say("x", "resign", &session).await.status, 200);
    let mut belief = better.belief();
    let led = soon(belief.wait_for(|belief| belief.held.is_some())).await;
    assert!(led.is_ok(), "it did want to lead");
}

/// A client does not die with its daemon. Voters would let the daemon have its own lease again at once, and it would
/// not know for whom it led.
#[tokio::test]
async fn a_daemon_that_was_killed_and_is_back_lets_nobody_lead_before_its_clients_have_ceased_to() {
    let mut cluster = Cluster::start().await;
    let began = Instant::now();
    let first = cluster.client(1).campaign("x", "4s", "30s").await;
    let (token, session) = first.leads();
    let valid = Duration::from_millis(first.json()["valid_for_ms"].as_u64().unwrap());
    cluster.daemons[0].take().unwrap().abort();
    let config = cluster.config(1, &[]);
    let back = soon(async {
        loop {
            match Daemon::start(&config, false).await {
                Ok(daemon) => break daemon,
                // Its address and its folder are free once all of it is gone.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    cluster.daemons[0] = Some(back);
    let client = cluster.client(1);
    let lost = client.say("x", "renew", &session).await;
    assert_eq!((lost.status, lost.json()["reason"].as_str()), (409, Some("lost")));
    let (next, _) = client.campaign("x", "4s", "30s").await.leads();
    assert!(began.elapsed() > valid, "after {:?}, and the first had it for {valid:?}", began.elapsed());
    assert!(next > token);
}

/// Whoever hangs up before it was ever answered does not know its session, and cannot come back.
#[tokio::test]
async fn nobody_waits_for_clients_that_gave_up_before_they_were_answered() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (_, session) = client.campaign("x", "10s", "30s").await.leads();
    for _ in 0..3 {
        let impatient = client.campaign("x", "10s", "30s");
        let given_up = tokio::time::timeout(Duration::from_millis(300), impatient).await;
        assert!(given_up.is_err(), "somebody leads");
    }
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.campaign("x", "10s", "30s").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    soon(waiting).await.unwrap().leads();
    assert!(began.elapsed() < Duration::from_secs(9), "a place is kept for 10 s: {:?}", began.elapsed());
}
