//! HTTP with TLS: real handshakes, with certificates of the test.

use std::fs;
use std::path::PathBuf;

use suffrage_daemon::daemon::{Daemon, check};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::daemon::client::Client;
use crate::daemon::{Cluster, soon};
use suffrage_testbed::{Authority, secret};

const TOKEN: &str = "correct-horse-battery";

/// A daemon that does not vote and serves TLS.
struct Served {
    cluster: Cluster,
    authority: Authority,
    daemon: Daemon,
}

impl Served {
    async fn start() -> Served {
        let cluster = Cluster::start().await;
        let authority = Authority::new("ours");
        let (certificate, key, token) = Served::files(&cluster);
        authority.sign(&certificate, &key, 2090);
        secret(&token, TOKEN);
        fs::copy(cluster.keys(1), cluster.keys(4)).unwrap();
        let daemon = Daemon::start(&Served::config(&cluster), false).await.unwrap();
        Served { cluster, authority, daemon }
    }

    fn files(cluster: &Cluster) -> (PathBuf, PathBuf, PathBuf) {
        let path = |name: &str| cluster.folder().join(name);
        (path("http.pem"), path("http.key"), path("token"))
    }

    fn config(cluster: &Cluster) -> suffrage_node::config::Config {
        let (certificate, key, token) = Served::files(cluster);
        let [certificate, key, token] = [certificate, key, token].map(|path| path.display().to_string());
        cluster.config(4, &[("http-cert", &certificate), ("http-key", &key), ("http-token", &token)])
    }

    /// A client that trusts this authority.
    fn client(&self, authority: &Authority, token: &str) -> Client {
        let headers = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n");
        Client::new(self.daemon.http_address().unwrap()).with(&headers).trusting(&authority.pem())
    }
}

#[tokio::test]
async fn clients_accept_only_certificates_of_trusted_authorities() {
    let served = Served::start().await;
    let client = served.client(&served.authority, TOKEN);
    let (token, session) = client.campaign("x", "10s", "30s").await.leads();
    assert_eq!(client.say("x", "renew", &session).await.leads().0, token);
    let seen = client.observe("x").await.next().await.unwrap();
    assert_eq!(seen["token"].as_u64(), Some(token));
    let metrics = client.get("/metrics").await.body;
    // `date -u -d 2090-12-31 +%s`
    assert!(
        metrics.contains("suffrage_http_certificate_expiration_timestamp_seconds 3818361600\n"),
        "{metrics}"
    );
    let stranger = served.client(&Authority::new("another's"), TOKEN);
    let refused = stranger.connect().await.err().unwrap().to_string();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    let named = client.named("elsewhere.example").connect().await.err().unwrap().to_string();
    assert!(named.contains("not valid for name"), "{named}");
    assert_eq!(served.client(&served.authority, "wrong").get("/elections").await.status, 401);
    soon(served.daemon.stop()).await;
}

#[tokio::test]
async fn plain_http_gets_only_a_hint_to_use_tls() {
    let served = Served::start().await;
    let headers = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n");
    let plain = Client::new(served.daemon.http_address().unwrap()).with(&headers);
    let refused = plain.get("/elections").await;
    assert!(refused.status == 400 && refused.body.contains("use https:// instead"), "{refused:?}");
    assert_eq!(plain.get("/liveness").await.status, 400);
    assert_eq!(plain.campaign("x", "3s", "1s").await.status, 400);
    let known = served.client(&served.authority, TOKEN).get("/elections").await.json();
    assert_eq!(known["elections"].as_array().unwrap().len(), 0, "{known}");
}

/// Clients that send nothing or garbage do not block others, and are disconnected.
#[tokio::test]
async fn silent_clients_do_not_block_others() {
    let served = Served::start().await;
    let address = served.daemon.http_address().unwrap();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let client = served.client(&served.authority, TOKEN);
    // In sequence, their timeouts would take 300 s.
    assert_eq!(soon(client.get("/elections")).await.status, 200);
    for mut stream in silent {
        assert_eq!(soon(stream.read(&mut [0; 1])).await.unwrap_or(0), 0, "it is closed");
    }
}

/// With more open handshakes than allowed, the oldest are dropped. The latest are still connected when another client is
/// served.
#[tokio::test]
async fn many_silent_clients_do_not_block_others() {
    let served = Served::start().await;
    let address = served.daemon.http_address().unwrap();
    let client = served.client(&served.authority, TOKEN);
    // A busy machine can be slow once; a client that waits for the timeouts is slow every time.
    for _ in 0..5 {
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert_eq!(soon(client.get("/elections")).await.status, 200);
        let last = silent.last().unwrap().try_read(&mut [0; 1]);
        assert_eq!(soon(silent[0].read(&mut [0; 1])).await.unwrap_or(0), 0, "the oldest is closed");
        if last.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            return;
        }
    }
    panic!("others are kept waiting");
}

#[tokio::test]
async fn a_new_certificate_and_a_new_token_are_used_after_a_reload() {
    let served = Served::start().await;
    let (certificate, key, token) = Served::files(&served.cluster);
    let (old, next) = (served.client(&served.authority, TOKEN), Authority::new("next"));
    let new = served.client(&next, "another-horse-battery");
    let mut events = old.observe("x").await;
    events.next().await.unwrap();
    next.sign(&certificate, &key, 2090);
    secret(&token, "another-horse-battery");
    assert_eq!(old.get("/elections").await.status, 200, "not before");
    served.daemon.secrets().reload_certificate().unwrap();
    served.daemon.secrets().reload_token().unwrap();
    assert_eq!(new.get("/elections").await.status, 200);
    assert!(old.connect().await.err().unwrap().to_string().contains("UnknownIssuer"));
    assert_eq!(served.client(&next, TOKEN).get("/elections").await.status, 401);
    // Existing connections stay open.
    new.campaign("x", "10s", "30s").await.leads();
    assert_eq!(events.next().await.unwrap()["leader"], 4);
    // An invalid certificate is not used. The new token is: revoking a token must not depend on the certificate.
    fs::write(&certificate, "rubbish").unwrap();
    secret(&token, "a-third-horse-battery");
    let refused = served.daemon.secrets().reload_certificate().unwrap_err().to_string();
    assert!(refused.contains("http.pem contains no certificate"), "{refused}");
    served.daemon.secrets().reload_token().unwrap();
    assert_eq!(new.get("/elections").await.status, 401, "served as before, and with the new token");
    let third = served.client(&next, "a-third-horse-battery");
    assert_eq!(third.get("/elections").await.status, 200);
    // An invalid token does not prevent the reload of the certificate.
    served.authority.sign(&certificate, &key, 2090);
    secret(&token, "short");
    let refused = served.daemon.secrets().reload_token().unwrap_err().to_string();
    assert!(refused.contains("contains no token"), "{refused}");
    served.daemon.secrets().reload_certificate().unwrap();
    let third = served.client(&served.authority, "a-third-horse-battery");
    assert_eq!(third.get("/elections").await.status, 200);
}

/// `config check` and a reload reject an expired certificate, because clients do. A node that is restarted with one takes
/// part in elections.
#[tokio::test]
async fn an_expired_certificate_is_refused_except_at_start() {
    let served = Served::start().await;
    let (certificate, key, _) = Served::files(&served.cluster);
    let config = Served::config(&served.cluster);
    check(&config).unwrap();
    served.authority.sign(&certificate, &key, 2021);
    for refused in [check(&config), served.daemon.secrets().reload_certificate()] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("http.pem expired ") && refused.contains(" days ago"), "{refused}");
    }
    let client = served.client(&served.authority, TOKEN);
    assert_eq!(client.get("/elections").await.status, 200);
    soon(served.daemon.stop()).await;
    let again = Daemon::start(&config, false).await.unwrap();
    let client = Client::new(again.http_address().unwrap()).trusting(&served.authority.pem());
    let refused = client.connect().await.err().unwrap().to_string();
    assert!(refused.contains("expired"), "{refused}");
    assert!(again.node().observe("x").await.is_ok());
    soon(again.stop()).await;
}
