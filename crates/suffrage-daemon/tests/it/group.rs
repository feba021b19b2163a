//! Members of large groups as real processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use suffrage::Keyring;
use suffrage_testbed::{Folder, Process, until};

use crate::cluster::support::BINARY;
use crate::{run, succeed};

/// A member, which has started.
struct Member {
    process: Process,
    log: PathBuf,
    hooks: PathBuf,
    udp: String,
    http: String,
}

/// What a hook prints.
const HOOK: &str = r#"echo "$0 $SUFFRAGE_GROUP $SUFFRAGE_LEADER $SUFFRAGE_LEADER_ADDRESS" >>"$HOOKS""#;

impl Member {
    /// Starts a member whose hooks print into a file. `place` is a name for its files.
    fn start(folder: &Path, place: &str, name: &str, keys: &Path, flags: &[&str]) -> Member {
        let (log, hooks) = (folder.join(format!("log-{place}")), folder.join(format!("hooks-{place}")));
        let hook = |name: &str| HOOK.replace("$0", name);
        let child = Command::new(BINARY)
            .args(["group", "--name", name, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--log-format", "json", "--keys", keys.to_str().unwrap()])
            .args(["--on-elected", &hook("elected"), "--on-follow", &hook("follow")])
            .args(flags)
            .env("HOOKS", &hooks)
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut member =
            Member { process: Process(child), log, hooks, udp: String::new(), http: String::new() };
        let started =
            until("the member starts", || member.lines().into_iter().find(|line| line["http"].is_string()));
        let message = started["message"].as_str().unwrap();
        assert!(
            message.contains("not the quorum lease") && message.contains("two members can lead"),
            "{message}"
        );
        let text = |key: &str| started[key].as_str().unwrap().to_string();
        (member.udp, member.http) = (text("udp"), text("http"));
        member
    }

    /// The whole lines of the log.
    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for a line of the log with this text.
    fn wait_for_log(&self, text: &str) {
        until(text, || {
            let has = |line: &Value| line["message"].as_str().is_some_and(|message| message.contains(text));
            self.lines().iter().any(has).then_some(())
        });
    }

    fn status(&self) -> Value {
        let ran = run(&format!("suffrage group status --json --member {}", self.http));
        assert!(ran.code <= 1, "{}", ran.err);
        let status: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(ran.code == 1, status["leader"].is_null());
        status
    }

    /// The number of members and the address of the leader.
    fn view(&self) -> (u64, Option<String>) {
        let status = self.status();
        let leader = status["leader"]["address"].as_str().map(str::to_string);
        (status["members"].as_u64().unwrap(), leader)
    }

    /// The value of a metric, by the beginning of its line.
    fn metric(&self, series: &str) -> u64 {
        let page = ureq::get(format!("{}/metrics", self.http)).call().unwrap().body_mut().read_to_string();
        let page = page.unwrap();
        let line = page.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until a hook has printed a line with these words.
    fn wait_for_hook(&self, line: &str) {
        until(line, || {
            fs::read_to_string(&self.hooks)
                .unwrap_or_default()
                .lines()
                .any(|it| it.trim_end() == line)
                .then_some(())
        });
    }
}

/// Waits until all members have lists of this length and follow one leader among them, and returns its place.
fn agree(members: &[&Member], count: u64) -> usize {
    until("the members agree", || {
        let views: Vec<_> = members.iter().map(|member| member.view()).collect();
        let leader = views[0].1.clone()?;
        let place = members.iter().position(|member| member.udp == leader)?;
        let agreed = views.iter().all(|view| *view == (count, Some(leader.clone())));
        agreed.then_some(place)
    })
}

fn key(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    Keyring::generate().unwrap().create(&path).unwrap();
    path
}

/// Members of the group `telemetry`. The first one is the seed of the others.
fn start_group(folder: &Folder, keys: &Path, count: usize) -> Vec<Member> {
    let mut members = vec![Member::start(folder.path(), "0", "telemetry", keys, &[])];
    while members.len() < count {
        let (place, seed) = (members.len().to_string(), members[0].udp.clone());
        members.push(Member::start(folder.path(), &place, "telemetry", keys, &["--join", &seed]));
    }
    members
}

#[test]
fn a_killed_leader_is_replaced_and_hooks_run() {
    let folder = Folder::new().unwrap();
    let keys = key(&folder, "keys");
    let mut members = start_group(&folder, &keys, 3);
    let place = agree(&members.iter().collect::<Vec<_>>(), 3);
    let mut leader = members.remove(place);
    let id = leader.status()["member"].as_str().unwrap().to_string();
    leader.wait_for_hook(&format!("elected telemetry {id} {}", leader.udp));
    for member in &members {
        member.wait_for_hook(&format!("follow telemetry {id} {}", leader.udp));
    }
    let watch = Command::new(BINARY)
        .args(["group", "watch", "--json", "--member", &members[0].http])
        .stdout(File::create(folder.path().join("watch")).unwrap())
        .stderr(Stdio::null())
        .spawn();
    let _watch = Process(watch.unwrap());
    let watched = |address: &str| {
        until("the watch tells the leader", || {
            fs::read_to_string(folder.path().join("watch")).unwrap().contains(address).then_some(())
        });
    };
    watched(&leader.udp);
    leader.process.kill();
    let next = agree(&members.iter().collect::<Vec<_>>(), 2);
    watched(&members[next].udp);
    let id = members[next].status()["member"].as_str().unwrap().to_string();
    members[next].wait_for_hook(&format!("elected telemetry {id} {}", members[next].udp));
    members[1 - next].wait_for_hook(&format!("follow telemetry {id} {}", members[next].udp));
    assert_eq!(members[next].metric("suffrage_group_is_leader"), 1);
    assert_eq!(members[next].metric("suffrage_group_members"), 2);
    assert!(members[next].metric("suffrage_group_leader_changes_total") >= 2);
    // The leader stops cleanly: it leaves, and its hook of followers runs.
    members[next].process.signal(Signal::TERM);
    assert_eq!(members[next].process.code(), 0);
    members[next].wait_for_hook("follow telemetry");
    assert_eq!(agree(&[&members[1 - next]], 1), 0);
    assert_eq!(members[1 - next].status()["dead"], 1, "the killed one, not the one that left");
}

#[test]
fn ranks_change_and_a_leader_resigns() {
    let folder = Folder::new().unwrap();
    let keys = key(&folder, "keys");
    let members = start_group(&folder, &keys, 3);
    let place = agree(&members.iter().collect::<Vec<_>>(), 3);
    let (leader, best, other) = (&members[place], &members[(place + 1) % 3], &members[(place + 2) % 3]);
    assert_eq!(run(&format!("suffrage group resign --member {}", best.http)).code, 1, "it does not lead");
    succeed(&format!("suffrage group rank 7 --member {}", best.http));
    let list = || succeed(&format!("suffrage group members --json --member {}", leader.http));
    until("the leader knows the rank", || list().contains("\"rank\":7").then_some(()));
    assert!(leader.view().1.is_some_and(|address| address == leader.udp), "the leader stays");
    succeed(&format!("suffrage group resign --member {}", leader.http));
    until("the best member leads", || {
        [best, other, leader].iter().all(|it| it.view().1 == Some(best.udp.clone())).then_some(())
    });
    let code = |member: &Member, path: &str| {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        agent.get(format!("{}{path}", member.http)).call().unwrap().status().as_u16()
    };
    assert_eq!((code(best, "/leader"), code(other, "/leader")), (200, 503));
    assert_eq!((code(best, "/liveness"), code(best, "/readiness")), (200, 200));
    assert_eq!(
        (code(best, "/members?limit=0"), code(best, "/members?from=x"), code(best, "/x")),
        (400, 400, 404)
    );
    let text = succeed(&format!("suffrage group leader --member {}", best.http));
    assert!(text.contains(&best.udp), "{text}");
}

#[test]
fn other_keys_and_other_names_do_not_meet_and_are_counted() {
    let folder = Folder::new().unwrap();
    let (keys, other_keys) = (key(&folder, "keys"), key(&folder, "other-keys"));
    let members = start_group(&folder, &keys, 2);
    let join = ["--join", members[0].udp.as_str()];
    let stranger = Member::start(folder.path(), "key", "telemetry", &other_keys, &join);
    let other_name = Member::start(folder.path(), "name", "billing", &keys, &join);
    let dropped = "suffrage_datagrams_dropped_total{reason=\"unauthenticated\"}";
    until("both are dropped and counted", || (members[0].metric(dropped) >= 4).then_some(()));
    assert_eq!(agree(&[&stranger], 1), 0);
    assert_eq!(agree(&[&other_name], 1), 0);
    agree(&members.iter().collect::<Vec<_>>(), 2);
    members[0].wait_for_log("unauthenticated (another key?)");
    // With the keys of the group, the member joins without a restart.
    fs::copy(&keys, &other_keys).unwrap();
    stranger.process.signal(Signal::HUP);
    agree(&[&members[0], &members[1], &stranger], 3);
    assert_eq!(other_name.view().0, 1);
}

/// A hook that does not end is killed with its processes when the member stops.
#[test]
fn a_hook_ends_with_the_member() {
    let folder = Folder::new().unwrap();
    let (keys, pids) = (key(&folder, "keys"), folder.path().join("pids"));
    let hook = format!("setsid sleep 1000 & echo $! $$ >{0}.new; mv {0}.new {0}; wait", pids.display());
    let child = Command::new(BINARY)
        .args(["group", "--name", "x", "--listen", "127.0.0.1:0", "--http", "off", "--on-elected", &hook])
        .args(["--keys", keys.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn();
    let mut member = Process(child.unwrap());
    let pids = until("the hook runs", || fs::read_to_string(&pids).ok());
    member.signal(Signal::TERM);
    assert_eq!(member.code(), 0);
    for pid in pids.split_whitespace() {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }
}

#[test]
fn wrong_input_is_refused_with_a_reason() {
    let folder = Folder::new().unwrap();
    let keys = key(&folder, "keys").display().to_string();
    for (flags, reason) in [
        ("--join seed:7500", "--name"),
        ("--name x --listen 127.0.0.1:0", "--keys is missing"),
        ("--name x --keys KEYS", "others cannot reach 0.0.0.0:7500"),
        ("--name x --keys KEYS --join seed", "`seed` is not a host and a port"),
        ("--name x --keys KEYS --join seed:7500 --listen 0.0.0.0:0", "is not known before the start"),
        ("--name x --keys KEYS --join seed:7500 --advertise 0.0.0.0:7500", "not an address of a machine"),
        ("--name x --keys KEYS --listen here", "`here` is not an address"),
        ("--name x --keys KEYS --listen 127.0.0.1:0 --http 0.0.0.0:0", "set http-token"),
        ("--name x --keys KEYS --listen 127.0.0.1:0 --rank high", "rank"),
        ("--name x --keys KEYS --listen 127.0.0.1:0 --id 9223372036854775808", "id"),
        ("--name x --keys KEYS --listen 127.0.0.1:0 --hook-limit 0s", "too short"),
        ("--name '' --keys KEYS --listen 127.0.0.1:0", "name"),
        ("status --member nowhere", "is not the address of a node"),
        ("rank high", "rank"),
    ] {
        let line = format!("suffrage group {}", flags.replace("KEYS", &keys));
        let ran = run(&line);
        assert_eq!(ran.code, 2, "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(reason), "{line}: {}", ran.err);
    }
    let missing = Command::new(BINARY)
        .args([
            "group",
            "--name",
            "x",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "off",
            "--keys",
            "/nonexistent/keys",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(1) && text.contains("--keys: "), "{text}");
    assert_eq!(run("suffrage group status --member http://127.0.0.1:1").code, 3);
}
