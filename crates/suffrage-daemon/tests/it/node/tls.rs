//! A node that serves HTTP with TLS, the commands that query it, and its notifications of the service manager.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use suffrage_cli::testing::Ran;
use suffrage_testbed::{Authority, secret};

use crate::node::{folder, soon};
use crate::run;

/// A cluster of one voter, and its notifications of the service manager.
struct Served {
    folder: PathBuf,
    port: u16,
    manager: UnixDatagram,
    process: Child,
}

impl Served {
    fn start(name: &str, authority: &Authority) -> Served {
        let folder = folder(name);
        let path = |name: &str| folder.join(name);
        assert_eq!(run(&format!("suffrage keygen {}", path("key").display())).code, 0);
        authority.sign(&path("node.pem"), &path("node.key"), 2090);
        fs::write(path("ca.pem"), authority.pem()).unwrap();
        secret(&path("token"), "correct-horse-battery\n");
        let udp = suffrage_testbed::address();
        let text = format!(
            "id = 1\nvoters = \"1={udp}\"\nkeys = {:?}\ndata = {:?}\nhttp = \"127.0.0.1:0\"\n\
             http-token = {:?}\nhttp-cert = {:?}\nhttp-key = {:?}\n",
            path("key"),
            path("data"),
            path("token"),
            path("node.pem"),
            path("node.key"),
        );
        let file = path("suffrage.toml");
        fs::write(&file, text).unwrap();
        assert_eq!(run(&format!("suffrage node --config {} --init", file.display())).code, 0);
        let manager = UnixDatagram::bind(path("manager")).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_suffrage"))
            .args(["node", "--config"])
            .arg(&file)
            .env("NOTIFY_SOCKET", path("manager"))
            .env("WATCHDOG_USEC", "200000")
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        let mut served = Served { folder, port: 0, manager, process };
        // The node binds port 0, and logs the address.
        served.port = soon(|| {
            let log = served.log();
            let (_, rest) = log.split_once("https://127.0.0.1:")?;
            rest.split_once(|letter: char| !letter.is_ascii_digit())?.0.parse().ok()
        });
        served
    }

    /// The next notification, without those of the watchdog.
    fn told(&self) -> String {
        loop {
            let mut word = [0; 200];
            let length = self.manager.recv(&mut word).unwrap();
            let word = str::from_utf8(&word[..length]).unwrap();
            if word != "WATCHDOG=1" {
                return word.to_string();
            }
        }
    }

    fn ask(&self, line: &str, scheme: &str, authority: &str) -> Ran {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let ca = if authority.is_empty() { String::new() } else { format!("--ca {}", file(authority)) };
        let (port, token) = (self.port, file("token"));
        run(&format!("suffrage {line} --node {scheme}://127.0.0.1:{port} {ca} --token-file {token}"))
    }

    fn hang_up(&self) {
        kill_process(Pid::from_child(&self.process), Signal::HUP).unwrap();
        let reloading = self.told();
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        assert_eq!(self.told(), "READY=1");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
        _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn commands_use_tls_with_the_given_authorities() {
    let served = Served::start("https", &Authority::new("ours"));
    assert_eq!(served.told(), "READY=1");
    let nobody = served.ask("leader x", "https", "ca.pem");
    assert_eq!((nobody.code, nobody.out.as_str()), (1, "x has no leader\n"), "{}", nobody.err);
    fs::write(served.folder.join("other.pem"), Authority::new("another's").pem()).unwrap();
    let stranger = served.ask("leader x", "https", "other.pem");
    assert_eq!(stranger.code, 3, "{}", stranger.err);
    assert!(stranger.err.contains("no authority in the file of --ca has signed"), "{}", stranger.err);
    let missing = served.ask("leader x", "https", "");
    assert!(missing.code == 2 && missing.err.contains("--ca: is missing"), "{}", missing.err);
    let plain = served.ask("leader x", "http", "");
    assert!(plain.code != 0 && plain.err.contains("use https:// instead"), "{}", plain.err);
    assert!(!plain.err.contains("NAME"), "{}", plain.err);
    let rubbish = served.ask("leader x", "https", "token");
    assert!(rubbish.code == 2 && rubbish.err.contains("contains no certificate"), "{}", rubbish.err);
    // A stream delivers an event at once.
    let mut watch = Command::new(env!("CARGO_BIN_EXE_suffrage"))
        .args(["watch", "x"])
        .env("SUFFRAGE_NODE", format!("https://localhost:{}", served.port))
        .env("SUFFRAGE_CA", served.folder.join("ca.pem"))
        .env("SUFFRAGE_TOKEN_FILE", served.folder.join("token"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "x has no leader\n");
    kill_process(Pid::from_child(&served.process), Signal::TERM).unwrap();
    assert_eq!(served.told(), "STOPPING=1");
    assert_eq!(watch.wait().unwrap().code(), Some(3), "there is nobody to be asked any more");
}

#[test]
fn sighup_reloads_certificate_and_token() {
    let served = Served::start("rotate", &Authority::new("old"));
    assert_eq!(served.told(), "READY=1");
    let path = |name: &str| served.folder.join(name);
    let next = Authority::new("next");
    next.sign(&path("node.pem"), &path("node.key"), 2090);
    fs::write(path("next.pem"), next.pem()).unwrap();
    secret(&path("token"), "another-horse-battery\n");
    assert_eq!(
        served.ask("elections", "https", "ca.pem").code,
        2,
        "the old certificate, and a token too new"
    );
    served.hang_up();
    assert_eq!(served.ask("elections", "https", "ca.pem").code, 3);
    assert_eq!(served.ask("elections", "https", "next.pem").code, 0);
    // An unusable file is logged, and changes nothing.
    next.sign(&path("node.pem"), &path("node.key"), 2021);
    served.hang_up();
    soon(|| served.log().contains("node.pem expired ").then_some(()));
    let check = run(&format!("suffrage config check --config {}", path("suffrage.toml").display()));
    assert!(check.code == 1 && check.err.contains("node.pem expired "), "{}", check.err);
    assert!(check.err.contains("suffrage.toml:7: http-cert: "), "{}", check.err);
    fs::write(path("node.pem"), "rubbish").unwrap();
    served.hang_up();
    soon(|| served.log().contains("node.pem contains no certificate").then_some(()));
    assert_eq!(served.ask("elections", "https", "next.pem").code, 0);
    // The new token is used nevertheless.
    secret(&path("token"), "a-third-horse-battery\n");
    served.hang_up();
    assert_eq!(served.ask("elections", "https", "next.pem").code, 0, "the new one is known");
    soon(|| served.log().contains("the old HTTP certificate stays in use").then_some(()));
    fs::write(path("token"), "short").unwrap();
    served.hang_up();
    soon(|| served.log().contains("the old HTTP token stays in use").then_some(()));
    assert!(!served.log().contains("horse"), "secrets are not logged");
}

#[test]
fn the_service_manager_is_notified() {
    let served = Served::start("watchdog", &Authority::new("ours"));
    let mut word = [0; 200];
    let mut words = Vec::new();
    soon(|| {
        let length = served.manager.recv(&mut word).unwrap();
        words.push(str::from_utf8(&word[..length]).unwrap().to_string());
        (words.iter().filter(|word| *word == "WATCHDOG=1").count() == 3).then_some(())
    });
    assert_eq!(words[0], "READY=1", "first of all: {words:?}");
}
