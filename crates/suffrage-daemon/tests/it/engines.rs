//! `suffrage run` and queries on an etcd in place of a cluster. What every engine must show is in the tests of
//! suffrage-engines; these tests show that the program uses it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use suffrage_testbed::{Folder, Process, until};

use crate::run;

/// One server of etcd, in its own folder.
struct Etcd {
    /// Dropped before the folder.
    _server: Process,
    folder: Folder,
    url: String,
}

impl Etcd {
    fn start() -> Etcd {
        let folder = Folder::new().unwrap();
        let [peer, client] = [(); 2].map(|()| suffrage_testbed::address());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let server = Command::new("etcd")
            .arg(format!("--data-dir={}", folder.path().join("data").display()))
            .args([
                format!("--listen-peer-urls=http://{peer}"),
                format!("--listen-client-urls=http://{client}"),
            ])
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--initial-cluster=default=http://{peer}"))
            .arg(format!("--advertise-client-urls=http://{client}"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("etcd: `cargo xtask test` installs it");
        let etcd = Etcd { _server: Process(server), folder, url: format!("etcd://{client}/jobs") };
        until("etcd answers", || (run(&etcd.line("leader nobody")).code == 1).then_some(()));
        etcd
    }

    fn line(&self, words: &str) -> String {
        format!("suffrage {words} --on {}", self.url)
    }

    fn work_log(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn work(&self) -> Vec<String> {
        let text = fs::read_to_string(self.work_log()).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// Waits until the log of the work has this many lines.
    fn await_work(&self, lines: usize) -> Vec<String> {
        until("the work goes on", || Some(self.work()).filter(|work| work.len() >= lines))
    }

    fn supervise(&self, identity: &str, ttl: &str) -> Process {
        let said = fs::File::create(self.folder.path().join(format!("said-{identity}"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_suffrage"))
            .args(["run", "--name", "reports", "--ttl", ttl, "--identity", identity, "--on", &self.url])
            .args(["--stop-grace", "400ms", "--", "/bin/sh", "-c", SCRIPT])
            .env("LOG", self.work_log())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn();
        Process(child.unwrap())
    }

    fn said(&self, identity: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("said-{identity}"))).unwrap()
    }
}

/// A command that logs its start with the token, and its end.
const SCRIPT: &str = r#"trap 'echo "ended $SUFFRAGE_LEADER" >>"$LOG"; exit 0' TERM
echo "started $SUFFRAGE_LEADER $SUFFRAGE_TOKEN" >>"$LOG"
while :; do sleep 0.01; done"#;

fn token(line: &str) -> u64 {
    line.split(' ')
        .nth(2)
        .and_then(|token| token.parse().ok())
        .unwrap_or_else(|| panic!("{line} has no token"))
}

#[test]
fn a_command_runs_where_it_leads_on_an_engine_and_moves_when_its_supervisor_ends() {
    let etcd = Etcd::start();
    let mut first = etcd.supervise("first", "30s");
    let started = token(&etcd.await_work(1)[0]);
    let _second = etcd.supervise("second", "30s");
    until("the second waits", || {
        let status: Value = serde_json::from_str(&run(&etcd.line("status reports --json")).out).unwrap();
        (status["waiting"] == serde_json::json!(["second"])).then_some(())
    });
    let leader = run(&etcd.line("leader reports"));
    assert_eq!((leader.code, leader.out.trim()), (0, &*format!("first leads reports, with token {started}")));
    first.signal(Signal::TERM);
    assert_eq!(first.code(), 0, "the command has ended by itself: {}", etcd.said("first"));
    let work = etcd.await_work(3);
    // The lease of 30 s was released, after the command had ended.
    assert_eq!((&*work[1], work[2].starts_with("started second ")), ("ended first", true), "{work:?}");
    assert!(token(&work[2]) > started);
    let why = run(&etcd.line("why nobody"));
    assert!(why.code == 1 && why.out.contains("no candidate stands"), "{}", why.out);
}

#[test]
fn a_killed_supervisor_and_a_deposed_one_do_not_go_on() {
    let etcd = Etcd::start();
    let mut first = etcd.supervise("first", "3s");
    etcd.await_work(1);
    let _second = etcd.supervise("second", "3s");
    first.kill();
    let work = etcd.await_work(3);
    // The guard has stopped the command before the second could lead.
    assert_eq!((&*work[1], work[2].starts_with("started second ")), ("ended first", true), "{work:?}");
    let deposed = run(&etcd.line("resign reports"));
    assert!(deposed.code == 0 && deposed.out.starts_with("second is deposed: "), "{}", deposed.out);
    // It notices, kills its command, and stands again by itself.
    let again =
        until("it leads again", || etcd.work().into_iter().skip(3).find(|line| line.starts_with("started")));
    assert!(token(&again) > token(&work[2]), "{again}");
    assert!(
        etcd.said("second").contains("cannot renew the lease, and stops the command"),
        "{}",
        etcd.said("second")
    );
}

#[test]
fn wrong_urls_and_unreachable_engines_are_said() {
    let nobody = suffrage_testbed::address();
    for (line, code, reason) in [
        ("suffrage leader x --on mysql://db".to_string(), 2, "there is no engine `mysql`"),
        ("suffrage leader x --on etcd".to_string(), 2, "no `://`"),
        (format!("suffrage leader x --on etcd://{nobody}"), 3, "etcd cannot be reached"),
        (format!("suffrage run --name x --on etcd://{nobody} --rank 3 -- true"), 2, "cannot rank candidates"),
        (format!("suffrage run --name x --on etcd://{nobody} --keys k -- true"), 2, "is about a cluster"),
        (format!("suffrage run --name x --on etcd://{nobody} --ttl 1s -- true"), 2, "the shortest is 2s"),
        (
            format!("suffrage run --name x --on etcd://{nobody} --stop-grace 2s -- true"),
            2,
            "a ttl of at least",
        ),
        ("suffrage leader x --on etcd://a --node http://b".to_string(), 2, "cannot be combined with --node"),
    ] {
        let ran = run(&line);
        assert!(ran.code == code && ran.err.contains(reason), "{line}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn the_table_of_engines_names_them_all() {
    let table = run("suffrage engines");
    for facts in suffrage::engines::FACTS {
        assert!(table.out.contains(facts.name) && table.out.contains(facts.token), "{}", table.out);
    }
    let json: Vec<Value> = serde_json::from_str(&run("suffrage engines --json").out).unwrap();
    assert_eq!(json.len(), suffrage::engines::FACTS.len());
    assert!(json.iter().all(|engine| engine["shortest_ttl_ms"].as_u64() > Some(0)));
}
