//! Passwords, permissions and TLS.

use std::path::Path;

use suffrage_engines::{Engine, Error};
use suffrage_servers::postgres::{Postgres, start_with};

use super::{TTL, start};
use crate::conformance::{lead, within};
use crate::support::BootClock;

fn connect(servers: &Postgres, user: &str, query: &str) -> Result<Engine, Error> {
    Engine::connect(&format!("postgres://{user}@{}/postgres?{query}", servers.address), BootClock)
}

/// Everybody needs a password, and what else the line of pg_hba.conf says.
fn require(servers: &Postgres, kind: &str, method: &str) {
    let path = servers.data().join("pg_hba.conf");
    std::fs::write(path, format!("host all postgres 0.0.0.0/0 trust\n{kind} all all 0.0.0.0/0 {method}\n"))
        .unwrap();
    servers.sql("SELECT pg_reload_conf()");
}

async fn error(engine: &Engine) -> Error {
    let election = engine.election("x").ttl(TTL).join().unwrap();
    within("an answer", election.lead()).await.expect_err("refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_sent_and_never_shown() {
    let servers = start().await;
    servers.sql("CREATE ROLE app LOGIN PASSWORD 'se:cret'");
    servers.sql("GRANT CREATE ON SCHEMA public TO app");
    require(&servers, "host", "scram-sha-256");
    let right = connect(&servers, "app:se%3Acret", "").unwrap();
    lead(&right, "x", TTL, "me").await.resign().await;
    let shown = format!("{right} {right:?} {:?}", right.election("x"));
    assert!(!shown.contains("se:cret") && !shown.contains("se%3Acret"), "{shown}");
    for wrong in ["app:wrong", "app", "nobody:x"] {
        let refused = error(&connect(&servers, wrong, "").unwrap()).await;
        let text = refused.to_string();
        assert!(matches!(refused, Error::Refused { .. }), "{text}");
        assert!(!text.contains("wrong"), "{text}");
    }
    let folder = suffrage_testbed::Folder::new().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "se:cret\n").unwrap();
    let by_file = connect(&servers, "app", &format!("password-file={}", path.display())).unwrap();
    lead(&by_file, "x", TTL, "me").await.resign().await;
}

/// A user who may not create the table is told what to do, and leads when it was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_permission_is_explained() {
    let servers = start().await;
    servers.sql("CREATE ROLE app LOGIN");
    let engine = connect(&servers, "app", "table=leases").unwrap();
    let refused = error(&engine).await.to_string();
    assert!(refused.contains("CREATE TABLE IF NOT EXISTS \"leases\""), "{refused}");
    let create = refused.split('`').nth(1).unwrap().replace('…', "app");
    servers.sql(&create);
    lead(&engine, "x", TTL, "me").await.resign().await;
    // A table of something else.
    servers.sql("CREATE TABLE strange (x int)");
    let refused = error(&connect(&servers, "postgres", "table=strange").unwrap()).await;
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("table="), "{refused}");
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// TLS with an authority of our own: verified as sslmode says, with a certificate of the client where the server wants one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_verified_as_sslmode_says() {
    let servers = start_with(&[]);
    let (data, ip) = (servers.data(), servers.address.ip().to_string());
    let folder = suffrage_testbed::Folder::new().unwrap();
    let file = |name: &str| folder.path().join(name);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = authority.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, key);
    write(&file("root.crt"), &root);
    write(&data.join("root.crt"), &root);
    let issue = |names: Vec<String>, user: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, user);
        (parameters.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    let (certificate, key) = issue(vec!["elsewhere".to_string()], "server");
    let install = |certificate: &str, key: &str| {
        write(&data.join("server.crt"), certificate);
        write(&data.join("server.key"), key);
        let script = "chown postgres: server.key server.crt root.crt; chmod 600 server.key";
        std::process::Command::new("sh").args(["-c", script]).current_dir(&data).status().unwrap();
        servers.sql("SELECT pg_reload_conf()");
    };
    install(&certificate, &key);
    servers.sql("ALTER SYSTEM SET ssl = on");
    servers.sql("ALTER SYSTEM SET ssl_ca_file = 'root.crt'");
    servers.sql("CREATE ROLE app LOGIN");
    servers.sql("GRANT CREATE ON SCHEMA public TO app");
    require(&servers, "hostssl", "trust");
    let root = format!("sslrootcert={}", file("root.crt").display());
    let works = async |query: &str| {
        let engine = connect(&servers, "app", query).unwrap();
        lead(&engine, "x", TTL, "me").await.resign().await;
    };
    let fails = async |query: &str, reason: &str| {
        let engine = connect(&servers, "app", query).unwrap();
        let text = engine.status("x").await.unwrap_err().to_string();
        assert!(text.contains(reason), "{query}: {text}");
    };
    works("sslmode=prefer").await;
    works("sslmode=require").await;
    works(&format!("sslmode=verify-ca&{root}")).await;
    fails("sslmode=disable", "pg_hba.conf").await;
    fails(&format!("sslmode=verify-full&{root}"), "certificate not valid for name").await;
    let (stranger, _) = {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut other = rcgen::CertificateParams::new(Vec::new()).unwrap();
        other.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        (other.self_signed(&key).unwrap().pem(), key)
    };
    write(&file("stranger.crt"), &stranger);
    let wrong = format!("sslrootcert={}", file("stranger.crt").display());
    for mode in ["require", "verify-ca", "verify-full"] {
        fails(&format!("sslmode={mode}&{wrong}"), "invalid peer certificate").await;
    }
    let (certificate, key) = issue(vec![ip], "server");
    install(&certificate, &key);
    works(&format!("sslmode=verify-full&{root}")).await;
    // The server wants a certificate of the client.
    require(&servers, "hostssl", "cert");
    fails(&format!("sslmode=verify-full&{root}"), "certificate").await;
    let (certificate, key) = issue(Vec::new(), "app");
    write(&file("client.crt"), &certificate);
    write(&file("client.key"), &key);
    let (certificate, key) = (file("client.crt"), file("client.key"));
    let own = format!("sslcert={}&sslkey={}", certificate.display(), key.display());
    works(&format!("sslmode=verify-full&{root}&{own}")).await;
}
