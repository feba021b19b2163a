//! The tests of elections on real servers.

use std::path::PathBuf;

use crate::command::{cargo, program};

/// The engines whose servers are packages of Debian or can be unpacked from them.
const INSTALLABLE: &[&str] = &["etcd", "postgres", "consul", "zookeeper", "nats", "redis"];
/// All engines, for the command line.
const ALL: &[&str] = &["etcd", "postgres", "kubernetes", "consul", "zookeeper", "nats", "redis"];
/// Most tests wait for a lease to end. More of them would load the servers so much that leases are lost.
const TEST_THREADS: &str = "6";

/// Runs the conformance suite of every engine whose servers can be installed. Other steps compile only the engines of the
/// default program: the lints of all of them are here.
pub(crate) fn test() -> Result<(), String> {
    let lints = ["clippy", "--quiet", "--package", "suffrage-engines", "--all-features", "--all-targets"];
    cargo(&[&lints[..], &["--", "-D", "warnings"]].concat()).run()?;
    run(INSTALLABLE)
}

/// Runs the conformance suite of these engines.
pub(crate) fn conformance(engines: &[&str]) -> Result<(), String> {
    let engines = if engines.is_empty() { INSTALLABLE } else { engines };
    if let Some(unknown) = engines.iter().find(|engine| !ALL.contains(engine)) {
        return Err(format!("there is no engine `{unknown}`; engines: {}", ALL.join(", ")));
    }
    run(engines)
}

fn run(engines: &[&str]) -> Result<(), String> {
    if engines.contains(&"kubernetes") {
        for variable in ["SUFFRAGE_KUBE_APISERVER", "SUFFRAGE_CLIENT_GO"] {
            let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
            path.ok_or_else(|| {
                format!(
                    "{variable} must name a program: no registry has it ready-made; build kube-apiserver from Debian's \
                     source package `kubernetes`, and client-go's leader-election example with Go"
                )
            })?;
        }
    }
    if program(&["id", "-u"]).output()?.trim() != "0" {
        return Err("the servers are installed by apt-get: run as root".to_string());
    }
    let mut features = vec!["server-tests"];
    features.extend(engines);
    if engines.contains(&"kubernetes") {
        features.push("kubernetes-server-tests");
    }
    let features = features.join(",");
    let package = ["--quiet", "--package", "suffrage-engines", "--features", &features];
    cargo(&[&["build"], &package[..], &["--example", "candidate"]].concat()).run()?;
    let filters: Vec<String> = engines.iter().map(|engine| format!("{engine}::")).collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let tests =
        [&["test"], &package[..], &["--no-fail-fast", "--lib", "--test", "it", "--"], &filters].concat();
    cargo(&tests).env("RUST_TEST_THREADS", TEST_THREADS).run()
}
