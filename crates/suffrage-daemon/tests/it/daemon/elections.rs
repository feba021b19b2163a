//! Sessions of HTTP clients.

use std::time::{Duration, Instant};

use serde_json::json;
use suffrage_core::{NodeId, Span};
use suffrage_daemon::daemon::Daemon;
use suffrage_node::lease::CandidateConfig;

use crate::daemon::{Cluster, LONG, WAIT, soon, start_again, until};

#[tokio::test]
async fn two_clients_of_one_daemon_lead_one_after_the_other_each_with_a_token_of_its_own() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", LONG, WAIT).await.leads();
    let (waiting, place) = client.queue("x", LONG).await;
    assert_eq!(place, 0);
    let second = tokio::spawn({
        let (client, waiting) = (client.clone(), waiting.clone());
        async move { client.wait_in_line("x", &waiting, WAIT).await }
    });
    let renewed = client.say("x", "renew", &session).await;
    assert_eq!(renewed.leads(), (token, session.clone()));
    let valid = renewed.json()["valid_for_ms"].as_u64().unwrap();
    assert!((1..49_000).contains(&valid), "98% of 98% of the ttl at most, and not nothing: {valid}");
    assert!(!second.is_finished(), "one leads at a time");
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    let (next, other) = second.await.unwrap().leads();
    assert!(next > token && other == waiting && other != session);
    let late = client.say("x", "renew", &session).await;
    assert_eq!((late.status, late.json()["reason"].as_str()), (409, Some("expired")));
}

#[tokio::test]
async fn a_session_that_is_not_renewed_expires() {
    let cluster = Cluster::start().await;
    let (one, two) = (cluster.client(1), cluster.client(2));
    let (token, session) = one.campaign("x", "500ms", WAIT).await.leads();
    let (next, other) = two.campaign("x", LONG, WAIT).await.leads();
    assert!(next > token);
    let late = one.say("x", "renew", &session).await;
    assert_eq!((late.status, late.json()["reason"].as_str()), (409, Some("expired")));
    assert_eq!(two.say("x", "renew", &other).await.leads().0, next);
}

#[tokio::test]
async fn a_waiting_session_polls_and_keeps_its_queue_position() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", LONG, WAIT).await.leads();
    let waits = client.campaign("x", LONG, "50ms").await;
    assert_eq!(waits.status, 202, "{waits:?}");
    let place = waits.json();
    let waiting = place["session"].as_str().unwrap();
    assert!(place["queue_position"] == 0 && place["retry_before_ms"].as_u64().unwrap() >= 1_000, "{place}");
    assert_eq!(client.queue("x", LONG).await.1, 1);
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    let (next, _) = client.wait_in_line("x", waiting, WAIT).await.leads();
    assert!(next > token);
    // A client that missed the reply repeats the request, and continues to lead.
    let body = json!({ "session": waiting, "wait": WAIT });
    assert_eq!(client.post("/elections/x/campaign", body).await.leads(), (next, waiting.to_string()));
    let unknown = json!({ "session": "0".repeat(32) });
    assert_eq!(client.post("/elections/x/campaign", unknown).await.status, 409);
}

/// The time of waiting is no part of the lease: the client is told its turn, and leads by a second request.
#[tokio::test]
async fn a_client_that_has_waited_is_told_its_turn_first() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", LONG, WAIT).await.leads();
    let waiting = tokio::spawn({
        let client = client.clone();
        // An eighth of this ttl is a wait.
        async move { client.post("/elections/x/campaign", json!({ "ttl": "1s", "wait": WAIT })).await }
    });
    // It is in the queue when another client is behind it.
    until(async || client.queue("x", "1s").await.1 > 0).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    let turn = soon(waiting).await.unwrap();
    let told = turn.json();
    assert!(turn.status == 202 && told["your_turn"] == true && told["queue_position"] == 0, "{told}");
    assert!(told["waited_ms"].as_u64() > Some(125) && told["retry_before_ms"] == 1_000, "{told}");
    assert!(told["token"].is_null() && told["valid_for_ms"].is_null(), "nothing is promised yet: {told}");
    let leads = client.wait_in_line("x", told["session"].as_str().unwrap(), WAIT).await;
    assert!(leads.leads().0 > token, "{leads:?}");
    assert!(leads.json()["waited_ms"].as_u64() >= told["waited_ms"].as_u64(), "{leads:?}");
    assert!(leads.json()["valid_for_ms"].as_u64() < Some(1_000 - 62), "{leads:?}");
}

#[tokio::test]
async fn a_leading_client_can_choose_the_next_node() {
    let cluster = Cluster::start().await;
    let (_, session) = cluster.client(1).campaign("x", LONG, WAIT).await.leads();
    let waiting = [2, 3].map(|id| {
        let client = cluster.client(id);
        tokio::spawn(async move { client.campaign("x", LONG, WAIT).await })
    });
    cluster.queued("x", [2, 3]).await;
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
    // Node 1 asks the leader, if a candidate waits there.
    let nobody = cluster.client(1).post("/elections/x/transfer", json!({ "to": 99 })).await;
    assert_eq!((nobody.status, nobody.json()["reason"].as_str()), (409, Some("not_waiting")));
}

/// A transfer to a node where no candidate waits changes nothing.
#[tokio::test]
async fn a_transfer_to_a_node_without_a_waiting_candidate_is_refused() {
    let cluster = Cluster::start().await;
    let one = cluster.client(1);
    let (token, session) = one.campaign("x", LONG, WAIT).await.leads();
    let waiting = tokio::spawn({
        let two = cluster.client(2);
        async move { two.campaign("x", LONG, WAIT).await }
    });
    cluster.queued("x", [2]).await;
    for to in [3, 99] {
        for body in [json!({ "to": to }), json!({ "to": to, "session": session })] {
            let refused = one.post("/elections/x/transfer", body).await;
            let told = refused.json();
            assert_eq!((refused.status, told["reason"].as_str()), (409, Some("not_waiting")), "{told}");
            let error = told["error"].as_str().unwrap();
            assert!(error.contains(&format!("node {to};")) && error.contains("waiting: 2"), "{error}");
        }
        assert!(cluster.daemon(1).node().transfer("x", NodeId(to)).await.is_err());
    }
    assert_eq!(one.say("x", "renew", &session).await.leads().0, token, "the lease is not revoked");
    assert!(!waiting.is_finished());
    // A node that does not vote knows no queue.
    std::fs::copy(cluster.keys(1), cluster.keys(4)).unwrap();
    let outside = Daemon::start(&cluster.config(4, &[]), false).await.unwrap();
    let four = crate::daemon::Client::new(outside.http_address().unwrap());
    let (token, session) = four.campaign("y", LONG, WAIT).await.leads();
    let unknown = four.post("/elections/y/transfer", json!({ "to": 2 })).await;
    assert_eq!(
        (unknown.status, unknown.json()["reason"].as_str()),
        (409, Some("unknown_queue")),
        "{unknown:?}"
    );
    assert_eq!(four.say("y", "renew", &session).await.leads().0, token);
    outside.abort();
}

/// A node that starts to stand while another node leads knows the leader all the time.
#[tokio::test]
async fn a_node_that_starts_to_stand_does_not_report_a_moment_without_a_leader() {
    let cluster = Cluster::start().await;
    let (token, leading) = cluster.client(1).campaign("x", LONG, WAIT).await.leads();
    let two = cluster.client(2);
    let mut events = two.observe("x").await;
    assert_eq!(events.next().await.unwrap()["leader"], 1);
    let followed = async || cluster.daemon(2).node().metrics().await.unwrap().counters.leaders_followed;
    let before = followed().await;
    // Each campaign replaces the observer of the node by a candidate; each resignation does the reverse.
    for ttl in [LONG, "40s", "30s"] {
        let (session, _) = two.queue("x", ttl).await;
        assert_eq!(two.get("/elections/x").await.json()["leader"], 1);
        cluster.queued("x", [2]).await;
        assert_eq!(two.say("x", "resign", &session).await.status, 200);
    }
    let history = two.get("/elections/x/history").await.json();
    let leaders: Vec<_> =
        history["history"].as_array().unwrap().iter().map(|it| it["leader"].as_u64()).collect();
    assert_eq!(leaders, [Some(1)], "{history}");
    assert_eq!(followed().await, before, "the leader has not changed");
    let told = two.get("/elections/x").await.json();
    assert_eq!((told["leader"].as_u64(), told["token"].as_u64()), (Some(1), Some(token)));
    // The next event of the stream is the next change.
    assert_eq!(cluster.client(1).say("x", "resign", &leading).await.status, 200);
    assert!(events.next().await.unwrap()["leader"].is_null());
}

#[tokio::test]
async fn observers_see_the_present_state_first_and_then_every_change() {
    let cluster = Cluster::start().await;
    let mut events = cluster.client(2).observe("x").await;
    let first = events.next().await.unwrap();
    assert!(first["leader"].is_null() && first["election"] == "x", "{first}");
    let (token, session) = cluster.client(1).campaign("x", LONG, WAIT).await.leads();
    let led = events.next().await.unwrap();
    assert_eq!((led["leader"].as_u64(), led["token"].as_u64()), (Some(1), Some(token)));
    // A later observer gets the present state first.
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
async fn an_operator_revokes_a_lease_without_shortening_it() {
    let cluster = Cluster::start().await;
    let one = cluster.client(1);
    let nobody = one.post("/elections/x/resign", json!({})).await;
    assert_eq!((nobody.status, nobody.json()["reason"].as_str()), (409, Some("not_leader")));
    let (token, session) = one.campaign("x", LONG, WAIT).await.leads();
    let second = tokio::spawn({
        let client = cluster.client(2);
        async move { client.campaign("x", LONG, WAIT).await }
    });
    cluster.queued("x", [2]).await;
    let revoked = one.post("/elections/x/resign", json!({})).await;
    let within = revoked.json()["within_ms"].as_u64().unwrap();
    assert!(revoked.status == 202 && (1..=50_000).contains(&within), "{revoked:?}");
    let told = one.say("x", "renew", &session).await;
    assert_eq!((told.status, told.json()["reason"].as_str()), (409, Some("revoked")));
    assert!(!second.is_finished(), "the client has not given it up");
    assert_eq!(one.say("x", "resign", &session).await.status, 200);
    assert!(second.await.unwrap().leads().0 > token);
}

/// A handover with `wait` returns the next leader and the duration.
#[tokio::test]
async fn a_handover_with_wait_returns_its_duration() {
    let cluster = Cluster::start().await;
    let (one, two) = (cluster.client(1), cluster.client(2));
    let (token, session) = one.campaign("x", LONG, WAIT).await.leads();
    let next = tokio::spawn(async move { two.campaign("x", LONG, WAIT).await });
    cluster.queued("x", [2]).await;
    let began = Instant::now();
    let body = json!({ "session": session, "wait": WAIT });
    let handed = one.post("/elections/x/resign", body).await;
    let (all, told) = (began.elapsed(), handed.json());
    assert_eq!(handed.status, 200, "{told}");
    let (new, _) = soon(next).await.unwrap().leads();
    assert!(new > token);
    assert_eq!((told["leader"].as_u64(), told["token"].as_u64()), (Some(2), Some(new)), "{told}");
    let took = told["took_ms"].as_f64().unwrap();
    assert!(took > 0.0 && took <= all.as_secs_f64() * 1e3, "{told} of {all:?}");
    // An operator whose `wait` ends first gets the time at which the node hands over at the latest.
    let revoked = cluster.client(2).post("/elections/x/resign", json!({ "wait": "100ms" })).await;
    let told = revoked.json();
    assert!(revoked.status == 202 && told["within_ms"].as_u64() > Some(0), "{told}");
    assert!(told["leader"].is_null() && told["took_ms"].is_null(), "{told}");
}

/// A candidate of greater rank with failback claims the lease. The leader hands over at once, unless a client holds the
/// lease: the client would not know.
#[tokio::test]
async fn a_greater_rank_does_not_preempt_a_client() {
    let cluster = Cluster::start().await;
    let one = cluster.client(1);
    let (token, session) = one.campaign("x", "3s", WAIT).await.leads();
    let failback = Some(Span::from_millis(100));
    let config = CandidateConfig { attribute: 9, failback, ..CandidateConfig::default() };
    let better = cluster.daemon(2).node().join("x", config).await.unwrap();
    better.campaign();
    let renewed = async || cluster.daemon(1).node().metrics().await.unwrap().counters.renewals;
    cluster.queued("x", [2]).await;
    // The next renewal is due ten times later than the claim.
    let before = renewed().await;
    until(async || {
        assert_eq!(one.say("x", "renew", &session).await.leads().0, token);
        renewed().await >= before + 2
    })
    .await;
    assert_eq!(one.say("x", "resign", &session).await.status, 200);
    let mut belief = better.belief();
    let led = soon(belief.wait_for(|belief| belief.held.is_some())).await;
    assert!(led.is_ok(), "it did want to lead");
}

/// A client survives the crash of its daemon. Voters would grant the restarted daemon its own lease again at once,
/// although the client still holds it.
#[tokio::test]
async fn a_restarted_daemon_waits_until_leases_of_its_clients_have_ended() {
    let mut cluster = Cluster::start().await;
    let began = Instant::now();
    let first = cluster.client(1).campaign("x", "4s", WAIT).await;
    let (token, session) = first.leads();
    let valid = Duration::from_millis(first.json()["valid_for_ms"].as_u64().unwrap());
    cluster.daemons[0].take().unwrap().abort();
    cluster.daemons[0] = Some(start_again(&cluster.config(1, &[])).await);
    let client = cluster.client(1);
    let lost = client.say("x", "renew", &session).await;
    assert_eq!((lost.status, lost.json()["reason"].as_str()), (409, Some("expired")));
    let (next, _) = client.campaign("x", "4s", WAIT).await.leads();
    assert!(began.elapsed() > valid, "after {:?}, and the first had it for {valid:?}", began.elapsed());
    assert!(next > token);
}

/// A client that disconnects before its first reply does not know its session, and cannot return.
#[tokio::test]
async fn sessions_of_disconnected_clients_do_not_block_the_queue() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (_, session) = client.campaign("x", LONG, WAIT).await.leads();
    // The length of the queue, measured by a client that joins and leaves it.
    let in_line = async || {
        let (session, place) = client.queue("x", LONG).await;
        assert_eq!(client.say("x", "resign", &session).await.status, 200);
        place
    };
    let impatient = [(); 3].map(|()| {
        let client = client.clone();
        tokio::spawn(async move { client.campaign("x", LONG, WAIT).await })
    });
    until(async || in_line().await == 3).await;
    impatient.iter().for_each(|client| client.abort());
    let (waiting, _) = client.queue("x", LONG).await;
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    // The queue position of a client that can return is kept for 10 s: three of them would take longer.
    client.wait_in_line("x", &waiting, WAIT).await.leads();
}

#[tokio::test]
async fn a_query_lists_a_page_of_the_elections_and_a_wrong_one_is_refused() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    for name in ["b", "a", "c%2F%3Cimg%20src=x%3E"] {
        client.campaign(name, LONG, WAIT).await.leads();
    }
    let page = client.get("/elections?from=1&limit=1").await.json();
    assert_eq!((&page["from"], &page["matching"], &page["total"]), (&json!(1), &json!(3), &json!(3)));
    let names = |page: &serde_json::Value| -> Vec<String> {
        let elections = page["elections"].as_array().unwrap();
        elections.iter().map(|election| election["election"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&page), ["b"]);
    assert_eq!(page["leaders"], json!([{ "leader": 1, "elections": 3 }]));
    let page = client.get("/elections?search=C%2F%3Cimg&leader=1").await.json();
    assert_eq!(names(&page), ["c/<img src=x>"]);
    assert_eq!(client.get("/elections?leader=none").await.json()["matching"], 0);
    assert_eq!(client.get("/elections").await.json()["elections"].as_array().unwrap().len(), 3);
    for wrong in ["limit=0", "limit=501", "limit=x", "from=-1", "leader=x", "limit=1&limit=2"] {
        let answer = client.get(&format!("/elections?{wrong}")).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
}
