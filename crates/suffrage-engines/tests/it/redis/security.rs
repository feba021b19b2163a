//! Passwords, permissions and TLS.

use std::path::Path;

use suffrage_engines::{Engine, Error};
use suffrage_servers::redis::{Redis, start_with};

use super::{TTL, start};
use crate::conformance::{lead, within};
use crate::support::BootClock;

fn connect(servers: &Redis, user: &str, rest: &str) -> Engine {
    Engine::connect(&format!("redis://{user}{}{rest}", servers.address), BootClock).unwrap()
}

async fn refused(engine: &Engine) -> String {
    let election = engine.election("x").ttl(TTL).join().unwrap();
    let error = within("an answer", election.lead()).await.expect_err("refused");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_sent_and_never_shown() {
    let servers = start().await;
    let rules =
        "+@connection +info +config|get +eval +get +set +pexpire +pttl +del +time +publish +subscribe +ping";
    let user = ["ACL", "SETUSER", "app", "on", ">se:cret", "~*", "&*"];
    servers.command(&[&user[..], &rules.split(' ').collect::<Vec<_>>()].concat());
    servers.command(&["ACL", "SETUSER", "weak", "on", ">weak", "~*", "&*", "+@connection", "+info"]);
    servers.command(&["CONFIG", "SET", "requirepass", "top"]);
    let engine = connect(&servers, "app:se%3Acret@", "/2");
    let leader = lead(&engine, "x", TTL, "me").await;
    let shown = format!("{engine} {engine:?}");
    assert!(!shown.contains("cret"), "{shown}");
    leader.resign().await;
    lead(&connect(&servers, ":top@", ""), "x", TTL, "me").await.resign().await;
    assert!(refused(&connect(&servers, "app:wrong@", "")).await.contains("check user and password"));
    assert!(refused(&connect(&servers, "", "")).await.contains("check user and password"));
    assert!(refused(&connect(&servers, "weak:weak@", "")).await.contains("EVAL"));
    let folder = suffrage_testbed::Folder::new().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "se:cret\n").unwrap();
    let by_file = connect(&servers, "app@", &format!("?password-file={}", path.display()));
    lead(&by_file, "x", TTL, "me").await.resign().await;
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_certificate_of_the_client() {
    let folder = suffrage_testbed::Folder::new().unwrap();
    let file = |name: &str, text: &str| write(&folder.path().join(name), text);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = file("root", &authority.self_signed(&key).unwrap().pem());
    let issuer = rcgen::Issuer::new(authority, key);
    let issue = |names: Vec<String>| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(names).unwrap();
        // OpenSSL takes a certificate with the name of its authority for one that signs itself.
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "leaf");
        (parameters.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    // All tests of this process have the same IP address.
    let (certificate, key) = issue(vec![suffrage_testbed::address().ip().to_string()]);
    let (certificate, key) = (file("server", &certificate), file("server-key", &key));
    let (own, own_key) = issue(Vec::new());
    let (own, own_key) = (file("client", &own), file("client-key", &own_key));
    let port = suffrage_testbed::address().port().to_string();
    let mut servers = start_with_tls(&port, &certificate, &key, &root, &own, &own_key);
    servers.address.set_port(port.parse().unwrap());
    let url = format!("rediss://{}/0?cacert={root}", servers.address);
    let engine = Engine::connect(&format!("{url}&cert={own}&key={own_key}"), BootClock).unwrap();
    let leader = lead(&engine, "x", TTL, "me").await;
    let next = tokio::spawn(async move { lead(&engine, "x", TTL, "next").await });
    leader.resign().await;
    within("a hand-over", next).await.unwrap().resign().await;
    for wrong in [url, format!("redis://{}", servers.address)] {
        let engine = Engine::connect(&wrong, BootClock).unwrap();
        assert!(matches!(engine.status("x").await, Err(Error::Unavailable { .. })), "{wrong}");
    }
}

fn start_with_tls(port: &str, certificate: &str, key: &str, root: &str, own: &str, own_key: &str) -> Redis {
    let settings = [
        "--port",
        "0",
        "--tls-port",
        port,
        "--tls-cert-file",
        certificate,
        "--tls-key-file",
        key,
        "--tls-ca-cert-file",
        root,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    start_with(&settings, &["-p", port, "--tls", "--cacert", root, "--cert", own, "--key", own_key])
}
