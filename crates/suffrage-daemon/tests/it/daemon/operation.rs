//! Health checks, metrics, starts and stops.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use suffrage_daemon::daemon::Daemon;
use suffrage_net::Keyring;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::daemon::{Client, Cluster, LONG, WAIT, soon, start_again, until};

#[tokio::test]
async fn health_checks_answer_get_head_and_options_with_status_codes() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.client(1).get("/leader").await.status, 503, "there is nothing to lead");
    cluster.client(1).campaign("x", LONG, WAIT).await.leads();
    // A query with a mistyped name does not count as an election of this node.
    cluster.client(1).get("/elections/xx").await;
    cluster.client(2).get("/elections/x").await;
    let codes = [
        (1, "/leader", 200),
        (1, "/primary", 200),
        (1, "/leader?election=x", 200),
        (1, "/replica", 503),
        (2, "/leader", 503),
        (2, "/primary", 503),
        (2, "/replica", 200),
        (3, "/leader?election=x", 503),
        (3, "/replica?election=x", 200),
        (1, "/liveness", 200),
    ];
    for (node, path, code) in codes {
        for method in ["GET", "HEAD", "OPTIONS"] {
            let answer = cluster.client(node).ask(method, path, "").await;
            assert_eq!(answer.status, code, "{method} {path} at {node}: {answer:?}");
            assert_eq!(answer.body.is_empty(), method == "HEAD");
        }
    }
    // All nodes are ready when a majority has answered, whether they lead or not.
    for node in 1..=3 {
        until(async || cluster.client(node).get("/readiness").await.status == 200).await;
        assert_eq!(cluster.client(node).ask("HEAD", "/health", "").await.status, 200);
    }
    // Health checks change nothing: they need no token.
    for path in ["/leader?election=fresh", "/primary?election=fresh", "/replica?election=fresh"] {
        let answer = cluster.client(1).get(path).await;
        assert_eq!(answer.json(), json!({ "leads": false }), "and nothing else is told");
    }
    // The node observes an election without a leader for a few seconds after a query.
    cluster.client(1).get("/elections/xx").await;
    let known = cluster.client(1).get("/elections").await.json();
    assert_eq!(known["elections"].as_array().unwrap().len(), 2, "x, and xx: {known}");
    let metrics = cluster.client(1).get("/metrics").await.body;
    assert!(metrics.contains("suffrage_is_leader{election=\"x\"} 1\n"), "{metrics}");
    assert!(
        !metrics.contains("election=\"xx\""),
        "it would look like an election without a leader: {metrics}"
    );
    cluster.client(1).campaign("y", LONG, WAIT).await.leads();
    let which = cluster.client(1).get("/leader").await;
    assert!(which.status == 400 && which.body.contains("?election="), "there are two now: {which:?}");
    assert_eq!(cluster.client(1).get("/leader?election=y").await.status, 200);
}

#[tokio::test]
async fn a_node_without_a_majority_is_alive_but_not_ready() {
    let mut cluster = Cluster::start().await;
    // Without clients, each node still polls the others periodically.
    for id in 1..=3 {
        for other in [1, 2, 3] {
            let node = cluster.daemon(id).node();
            let age = async || node.metrics().await.unwrap().voters[other - 1].reply_age;
            let (mut before, mut times) = (None, 0);
            until(async || {
                let age = age().await;
                times += u32::from(age < before);
                before = age;
                other == id || times >= 2
            })
            .await;
        }
        assert_eq!(cluster.client(id).get("/readiness").await.status, 200);
    }
    cluster.daemons[1].take().unwrap().stop().await;
    cluster.daemons[2].take().unwrap().stop().await;
    until(async || {
        let answer = cluster.client(1).get("/readiness").await;
        answer.status == 503 && {
            let why = answer.json()["why"].as_str().unwrap().to_string();
            assert!(why.contains("of 3 voters answer this node, but 2 must"), "{why}");
            true
        }
    })
    .await;
    assert_eq!(cluster.client(1).get("/liveness").await.status, 200);
    assert_eq!(cluster.client(1).get("/health").await.status, 503);
}

/// A restarted voter does not vote while its old grants may be in use: a rolling update must wait.
#[tokio::test]
async fn a_restarted_voter_is_ready_when_it_votes() {
    let mut cluster = Cluster::start().await;
    let silence = Duration::from_secs(4);
    for restarted in [vec![1], vec![1, 2, 3]] {
        let (_, session) = cluster.client(1).campaign("x", "4s", WAIT).await.leads();
        // A majority is enough to lead. The disk of the third voter may be slower.
        for id in 1..=3 {
            until(async || cluster.daemon(id).node().holder("x").await.unwrap().is_some()).await;
        }
        assert_eq!(cluster.client(1).say("x", "resign", &session).await.status, 200);
        // Each voter has saved that it granted a lease of this length, and the lease could be valid still.
        for id in &restarted {
            soon(cluster.daemons[id - 1].take().unwrap().stop()).await;
        }
        let began = Instant::now();
        for id in &restarted {
            let config = cluster.config(*id as u64, &[]);
            cluster.daemons[id - 1] = Some(Daemon::start(&config, false).await.unwrap());
        }
        for id in restarted {
            let client = cluster.client(id);
            until(async || {
                let answer = client.get("/readiness").await;
                if began.elapsed() < silence {
                    assert!(answer.body.contains("does not vote for another "), "{answer:?}");
                }
                answer.status == 200
            })
            .await;
            // Not earlier. Later is allowed.
            assert!(began.elapsed() >= silence, "node {id} after {:?}", began.elapsed());
        }
    }
}

/// Idle connections are closed; streams of events are not.
#[tokio::test]
async fn idle_connections_are_closed() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let mut events = client.observe("x").await;
    events.next().await.unwrap();
    let (mut silent, mut slow) = (client.connect().await.unwrap(), client.connect().await.unwrap());
    slow.write_all(b"GET /liveness HTTP/1.1\r\nHost: local").await.unwrap();
    for stream in [&mut silent, &mut slow] {
        assert_eq!(soon(stream.read(&mut [0; 1])).await.unwrap_or(0), 0, "it is closed");
    }
    client.campaign("x", "3s", WAIT).await.leads();
    assert_eq!(events.next().await.unwrap()["leader"], 1);
}

/// A body that never comes holds no connection: a request that has none is answered without it, and another one is refused
/// after some seconds.
#[tokio::test]
async fn a_body_that_never_comes_holds_no_connection() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    for (line, status) in [("GET /liveness", "200"), ("POST /elections/x/campaign", "408")] {
        let mut stream = client.connect().await.unwrap();
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        soon(stream.read_to_end(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
    }
}

/// The lines of the text format: a name, optional labels, and a number.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let name = series.split('{').next().unwrap();
            assert!(name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'), "{line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            (series.to_string(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
        })
        .collect()
}

#[tokio::test]
async fn metrics_have_the_format_of_prometheus() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", "3s", WAIT).await.leads();
    until(async || {
        assert_eq!(client.say("x", "renew", &session).await.leads().0, token);
        parse(&client.get("/metrics").await.body)["suffrage_renew_seconds_count"] >= 1.0
    })
    .await;
    let answer = client.get("/metrics").await;
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    for line in answer.body.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(["gauge", "counter", "histogram"].iter().any(|kind| line.ends_with(kind)), "{line}");
    }
    let metrics = parse(&answer.body);
    assert_eq!(metrics["suffrage_is_leader{election=\"x\"}"], 1.0);
    assert_eq!(metrics["suffrage_token{election=\"x\"}"], token as f64);
    assert_eq!(metrics["suffrage_elections"], 1.0, "the daemon's own is not counted");
    assert_eq!(metrics["suffrage_elections_led"], 1.0);
    assert_eq!((metrics["suffrage_up"], metrics["suffrage_storage_failing"]), (1.0, 0.0));
    assert_eq!(metrics["suffrage_voters"], 3.0);
    assert!(metrics["suffrage_voters_reachable"] >= 2.0, "a majority has granted the lease");
    let left = metrics["suffrage_lease_remaining_seconds{election=\"x\"}"];
    assert!(left > 0.0 && left < 3.0, "{left}");
    assert!(metrics["suffrage_leader_transitions_total"] >= 1.0);
    assert!(metrics["suffrage_renew_seconds_count"] >= 1.0);
    let all = metrics["suffrage_renew_seconds_bucket{le=\"+Inf\"}"];
    assert_eq!(all, metrics["suffrage_renew_seconds_count"]);
    assert!(metrics["suffrage_datagrams_total{direction=\"sent\"}"] > 0.0);
    assert!(metrics["suffrage_datagrams_total{direction=\"received\"}"] > 0.0);
    assert_eq!(metrics["suffrage_datagrams_dropped_total{reason=\"replayed\"}"], 0.0);
    assert!(metrics.contains_key("suffrage_failover_seconds_sum"));
    client.say("x", "resign", &session).await;
    client.campaign("y", LONG, WAIT).await.leads();
    let metrics = parse(&client.get("/metrics").await.body);
    assert_eq!(
        metrics["suffrage_failover_seconds_count"], 0.0,
        "there is no candidate of x at this node any more"
    );
    let (_, session) = cluster.client(2).campaign("x", LONG, WAIT).await.leads();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.campaign("x", LONG, WAIT).await }
    });
    until(async || client.get("/elections/x").await.body.contains("node 2 leads and renews")).await;
    cluster.client(2).say("x", "resign", &session).await;
    soon(waiting).await.unwrap().leads();
    let metrics = parse(&client.get("/metrics").await.body);
    assert_eq!(metrics["suffrage_failover_seconds_count"], 1.0, "from the one leader to the next");
}

#[tokio::test]
async fn the_openapi_description_is_served_and_unknown_paths_are_not_found() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let document = client.get("/openapi.json").await;
    assert_eq!(document.json()["openapi"], "3.1.0");
    let nowhere = client.get("/nowhere").await;
    assert!(nowhere.status == 404 && nowhere.body.contains("/openapi.json"));
    let long = format!("/elections/{}", "x".repeat(256));
    assert_eq!(client.get(&long).await.status, 400);
    assert_eq!(client.get("/elections/%00probe").await.status, 400, "the daemon's own");
    for path in ["/elections/%ff", "/leader?election=a&election=b"] {
        let answer = client.get(path).await;
        assert!(answer.status == 400 && answer.json()["error"].is_string(), "{answer:?}");
    }
    let named = client.get("/elections/a%2Fb%20c").await;
    assert_eq!(named.json()["election"], "a/b c");
    let all = client.get("/elections").await.json();
    assert_eq!(all["elections"].as_array().unwrap().len(), 1, "{all}");
    for (body, word) in [
        (json!({ "ttl": "3x" }), "3x"),
        (json!({ "ttl": "5ms" }), "ttl"),
        (json!({ "ttl": "2h" }), "at most 1m"),
        (json!({ "tll": "3s" }), "tll"),
        (json!({ "wait": 3 }), "wait"),
    ] {
        let refused = client.post("/elections/x/campaign", body).await;
        assert!((400..=422).contains(&refused.status) && refused.body.contains(word), "{refused:?}");
    }
    let plain = client.ask("POST", "/elections/x/campaign", "").await;
    assert!(plain.status == 415 && plain.body.contains("--json"), "{plain:?}");
    assert_eq!(client.post("/elections/x/renew", json!({})).await.status, 400);
    for body in [json!([]), json!(["", "3s"]), json!(null), json!(3)] {
        let refused = client.post("/elections/x/campaign", body).await;
        assert!(refused.status == 422 && refused.body.contains("must be a JSON object"), "{refused:?}");
    }
    let wrong = client.get("/elections/x/campaign").await;
    assert!(wrong.status == 405 && wrong.head.contains("allow: post"), "{wrong:?}");
    assert!(wrong.json()["error"].as_str().unwrap().contains("Allow lists its methods"), "{wrong:?}");
}

/// A daemon that stops revokes the lease at the next renewal of its client, and hands over when the client has resigned,
/// long before the lease ends.
#[tokio::test]
async fn a_daemon_that_stops_hands_over_first() {
    let mut cluster = Cluster::start().await;
    let one = cluster.client(1);
    let (token, session) = one.campaign("x", LONG, WAIT).await.leads();
    let mut events = one.observe("x").await;
    events.next().await.unwrap();
    let next = tokio::spawn({
        let client = cluster.client(2);
        async move { client.campaign("x", LONG, WAIT).await }
    });
    cluster.queued("x", [2]).await;
    let stopping = tokio::spawn(cluster.daemons[0].take().unwrap().stop());
    until(async || one.say("x", "renew", &session).await.status != 200).await;
    assert!(!stopping.is_finished() && !next.is_finished(), "the client is still promised to lead");
    assert_eq!(one.campaign("y", "3s", "1s").await.status, 503, "nothing new is begun");
    assert_eq!(one.say("x", "resign", &session).await.status, 200);
    assert!(soon(next).await.unwrap().leads().0 > token);
    soon(stopping).await.unwrap();
    soon(async { while events.next().await.is_some() {} }).await;
}

/// A client that does not answer may lead until its lease ends.
#[tokio::test]
async fn a_silent_client_keeps_its_lease_when_the_daemon_stops() {
    let mut cluster = Cluster::start().await;
    let sent = Instant::now();
    let led = cluster.client(1).campaign("x", "2s", "10s").await;
    let promised = Duration::from_millis(led.json()["valid_for_ms"].as_u64().unwrap());
    let next = tokio::spawn({
        let client = cluster.client(2);
        async move { client.campaign("x", "2s", "20s").await }
    });
    cluster.queued("x", [2]).await;
    soon(cluster.daemons[0].take().unwrap().stop()).await;
    // Not earlier. Later is allowed.
    assert!(sent.elapsed() > promised, "{:?}", sent.elapsed());
    soon(next).await.unwrap().leads();
}

/// The steps of a key rotation, as documented at `Keyring`. After every step each node leads another election once, which
/// takes messages between all nodes.
#[tokio::test]
async fn keys_are_rotated_without_interruption() {
    let cluster = Cluster::start().await;
    let client = cluster.client(1);
    let (token, session) = client.campaign("x", LONG, WAIT).await.leads();
    let old = Keyring::load(&cluster.keys(1)).unwrap().keys()[0].clone();
    let new = Keyring::generate().unwrap().keys()[0].clone();
    for keys in [vec![old.clone(), new.clone()], vec![new.clone(), old], vec![new]] {
        for id in 1..=3 {
            fs::remove_file(cluster.keys(id)).unwrap();
            Keyring::new(keys.clone()).unwrap().create(&cluster.keys(id)).unwrap();
            cluster.daemon(id as usize).secrets().rekey().unwrap();
            for other in 1..=3 {
                let (_, session) = cluster.client(other).campaign("y", LONG, WAIT).await.leads();
                assert_eq!(cluster.client(other).say("y", "resign", &session).await.status, 200);
            }
            assert_eq!(client.say("x", "renew", &session).await.leads().0, token);
        }
    }
    let dropped = parse(&client.get("/metrics").await.body);
    assert_eq!(dropped["suffrage_datagrams_dropped_total{reason=\"unauthenticated\"}"], 0.0);
    // An unreadable key file is not used.
    fs::write(cluster.keys(1), "rubbish").unwrap();
    assert!(cluster.daemon(1).secrets().rekey().is_err());
    assert_eq!(client.say("x", "renew", &session).await.leads().0, token);
}

#[tokio::test]
async fn requests_need_the_token_if_one_is_set() {
    let cluster = Cluster::start().await;
    let path = cluster.folder().join("token");
    fs::write(&path, "correct-horse-battery").unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // A node that does not vote needs no data folder.
    fs::copy(cluster.keys(1), cluster.keys(4)).unwrap();
    let config = cluster.config(4, &[("http-token", path.to_str().unwrap())]);
    let daemon = suffrage_daemon::daemon::Daemon::start(&config, false).await.unwrap();
    let client = crate::daemon::Client::new(daemon.http_address().unwrap());
    let refused = client.get("/elections").await;
    assert!(refused.status == 401 && refused.head.contains("www-authenticate: bearer"), "{refused:?}");
    assert!(!refused.body.contains("correct"));
    assert_eq!(client.campaign("x", "3s", "1s").await.status, 401);
    assert_eq!(client.get("/metrics").await.status, 401);
    assert_eq!(client.get("/liveness").await.status, 200, "probes bear none");
    // Unauthenticated clients get `Connection: close`.
    let probe = "GET /liveness HTTP/1.1\r\nHost: x\r\n";
    let bear = "Authorization: Bearer correct-horse-battery\r\n";
    for (headers, answers) in [("", 1), (bear, 2)] {
        let mut stream = client.connect().await.unwrap();
        let last = format!("{probe}{headers}Connection: close\r\n\r\n");
        stream.write_all(format!("{probe}{headers}\r\n{last}").as_bytes()).await.unwrap();
        let mut text = String::new();
        // A connection that is closed with unread data is reset.
        _ = soon(stream.read_to_string(&mut text)).await;
        assert_eq!(text.matches("HTTP/1.1 200").count(), answers, "{text}");
    }
    let bearer = client.with("Host: anything\r\nAuthorization: Bearer correct-horse-battery\r\n");
    assert_eq!(bearer.get("/elections").await.status, 200);
    bearer.campaign("x", "3s", WAIT).await.leads();
    let wrong = client.with("Host: x\r\nAuthorization: Bearer correct-horse-batterx\r\n");
    assert_eq!(wrong.get("/elections").await.status, 401);
    // A new token is used after a reload.
    fs::write(&path, "another-horse-battery").unwrap();
    assert_eq!(bearer.get("/elections").await.status, 200);
    daemon.secrets().reload_token().unwrap();
    assert_eq!(bearer.get("/elections").await.status, 401);
    let renewed = client.with("Host: x\r\nAuthorization: Bearer another-horse-battery\r\n");
    assert_eq!(renewed.get("/elections").await.status, 200);
    fs::write(&path, "short").unwrap();
    let kept = daemon.secrets().reload_token().unwrap_err().to_string();
    assert!(kept.contains("contains no token") && renewed.get("/elections").await.status == 200, "{kept}");
    // Without a token, only localhost and IP addresses are accepted as Host.
    let rebound = cluster.client(1).with("Host: evil.example\r\n");
    assert_eq!(rebound.get("/elections").await.status, 421);
    soon(daemon.stop()).await;
}

#[tokio::test]
async fn a_stopping_daemon_is_not_ready_while_a_client_leads() {
    let mut cluster = Cluster::start().await;
    let client = cluster.client(2);
    let (_, session) = client.campaign("x", LONG, WAIT).await.leads();
    until(async || client.get("/readiness").await.status == 200).await;
    let stopping = tokio::spawn(cluster.daemons[1].take().unwrap().stop());
    until(async || client.get("/readiness").await.status == 503).await;
    let why = client.get("/readiness").await.json();
    assert!(why["why"].as_str().is_some_and(|why| why.contains("is stopping")), "{why}");
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    soon(stopping).await.unwrap();
}

/// A restarted voter whose disk is full waits for space and reports that, as a running voter does.
#[tokio::test]
async fn a_daemon_that_is_started_on_a_full_disk_waits_for_space() {
    let mut cluster = Cluster::start().await;
    let http = suffrage_testbed::address();
    let config = cluster.config(3, &[("http", &http.to_string())]);
    soon(cluster.daemons[2].take().unwrap().stop()).await;
    // Writes to /dev/full fail as those to a full disk. A failed save removes the link: it is made again before the next
    // attempt, a second later.
    let full = Arc::new(AtomicBool::new(true));
    let temporary = cluster.folder().join("data-3").join("boot.state.new");
    symlink("/dev/full", &temporary).unwrap();
    let fill = std::thread::spawn({
        let full = Arc::clone(&full);
        move || {
            while full.load(Ordering::Relaxed) {
                _ = symlink("/dev/full", &temporary);
                std::thread::sleep(Duration::from_millis(5));
            }
            _ = fs::remove_file(&temporary);
        }
    });
    let starting = tokio::spawn(async move { Daemon::start(&config, false).await });
    let client = Client::new(http);
    until(async || starting.is_finished() || client.connect().await.is_ok()).await;
    assert!(!starting.is_finished(), "{:?}", starting.await);
    assert_eq!(client.get("/liveness").await.status, 200, "to restart it would not help");
    for path in ["/readiness", "/health"] {
        let ready = client.get(path).await;
        assert!(ready.status == 503 && ready.body.contains("No space left on device"), "{ready:?}");
    }
    let metrics = parse(&client.get("/metrics").await.body);
    assert_eq!((metrics["suffrage_storage_failing"], metrics["suffrage_up"]), (1.0, 0.0));
    for path in ["/elections", "/elections/x", "/leader?election=x", "/replica?election=x"] {
        let refused = client.get(path).await;
        assert!(refused.status == 503 && refused.body.contains("this node is suspended"), "{refused:?}");
    }
    let refused = client.campaign("x", "3s", "1s").await;
    assert!(refused.status == 503 && refused.body.contains("boot.state"), "{refused:?}");
    // The other two voters are a majority.
    cluster.client(1).campaign("x", LONG, WAIT).await.leads();
    assert!(!starting.is_finished(), "it started without a saved boot");
    full.store(false, Ordering::Relaxed);
    fill.join().unwrap();
    let daemon = soon(starting).await.unwrap().unwrap();
    until(async || client.get("/readiness").await.status == 200).await;
    soon(daemon.stop()).await;
}

/// Observers ask for no lease: a node whose voters grant only leases below the default ttl observes, campaigns and
/// becomes ready like any other.
#[tokio::test]
async fn a_longest_ttl_below_the_default_ttl_serves_every_endpoint() {
    let cluster = Cluster::start_with(&[("longest-ttl", "900ms"), ("ttl", "800ms")]).await;
    let client = cluster.client(1);
    let fresh = client.get("/elections/x").await;
    assert_eq!((fresh.status, &fresh.json()["leader"]), (200, &serde_json::Value::Null), "{fresh:?}");
    let mut events = cluster.client(2).observe("x").await;
    assert!(events.next().await.unwrap()["leader"].is_null());
    for id in 1..=3 {
        until(async || cluster.client(id).get("/readiness").await.status == 200).await;
    }
    let campaign = client.campaign("x", "800ms", WAIT).await;
    let (token, session) = campaign.leads();
    assert_eq!(events.next().await.unwrap()["token"].as_u64(), Some(token));
    assert_eq!(client.say("x", "resign", &session).await.status, 200);
    for path in ["/elections", "/elections/x/history", "/metrics", "/leader?election=x"] {
        let answer = client.get(path).await;
        assert!(!answer.body.contains("stopped"), "{path}: {answer:?}");
    }
    let long = client.campaign("x", "3s", WAIT).await;
    assert!(long.status == 400 && long.body.contains("at most 900ms"), "an error is no stop: {long:?}");
}

/// As in a Kubernetes headless service, voter 3 has no name before it runs.
#[tokio::test]
async fn a_daemon_starts_while_the_name_of_another_voter_is_unknown() {
    let mut cluster = Cluster::start().await;
    let known = cluster.voters.split(',').take(2).map(str::to_string);
    cluster.voters = known.chain(["3=three.invalid:7400".to_string()]).collect::<Vec<_>>().join(",");
    for id in 1..=3 {
        cluster.daemons[id - 1].take().unwrap().stop().await;
    }
    for id in 1..=2 {
        cluster.daemons[id - 1] = Some(start_again(&cluster.config(id as u64, &[])).await);
    }
    cluster.client(1).campaign("x", LONG, WAIT).await.leads();
    let unknown = Daemon::start(&cluster.config(3, &[]), false).await.unwrap_err().to_string();
    assert!(unknown.contains("cannot resolve voter 3 at three.invalid:7400"), "{unknown}");
    let listen = suffrage_testbed::address().to_string();
    cluster.daemons[2] = Some(start_again(&cluster.config(3, &[("listen", &listen)])).await);
    // The others learn the address of voter 3 from its datagrams.
    for id in 1..=3 {
        until(async || {
            let voters = cluster.daemon(id).node().metrics().await.unwrap().voters;
            voters.len() == 3 && voters.iter().all(|voter| voter.reply_age.is_some())
        })
        .await;
    }
}
