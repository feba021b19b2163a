//! `suffrage node` as real processes on loopback, and the commands that query them.

mod connections;
mod documents;
mod library;
mod moves;
mod tls;
mod visibility;
mod voters;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::run;

/// A lease that does not end while a test waits: the next leader got the lease by a handover.
const LONG: &str = "50s";

/// Three voters, each a process.
struct Cluster {
    folder: PathBuf,
    processes: Vec<Option<Child>>,
    http: Vec<String>,
}

impl Cluster {
    fn start(name: &str) -> Cluster {
        Cluster::start_with(name, "")
    }

    /// Starts a cluster with more lines in the configuration of each node.
    fn start_with(name: &str, lines: &str) -> Cluster {
        let folder = folder(name);
        let key = folder.join("key");
        assert_eq!(run(&format!("suffrage keygen {}", key.display())).code, 0);
        let voters = (1..=3).map(|id| format!("{id}={}", suffrage_testbed::address()));
        let voters = voters.collect::<Vec<_>>().join(",");
        let http = (0..3).map(|_| suffrage_testbed::address().to_string()).collect();
        let mut cluster = Cluster { folder, processes: Vec::new(), http };
        for place in 0..3 {
            let (id, address) = (place + 1, &cluster.http[place]);
            let file = cluster.folder.join(format!("{id}.toml"));
            let data = cluster.folder.join(format!("data-{id}"));
            let socket = cluster.socket(place);
            let text = format!(
                "id = {id}\nvoters = \"{voters}\"\nkeys = {key:?}\ndata = {data:?}\nhttp = \"{address}\"\n\
                 delay = \"10ms\"\nlog-format = \"json\"\nsocket = {socket:?}\n{lines}\n"
            );
            fs::write(&file, text).unwrap();
            let process = cluster.spawn(id, &["--new"]);
            cluster.processes.push(Some(process));
        }
        for place in 0..3 {
            cluster.await_answer(place);
        }
        cluster
    }

    fn spawn(&self, id: usize, flags: &[&str]) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.log(id)).unwrap();
        Command::new(env!("CARGO_BIN_EXE_suffrage"))
            .arg("node")
            .arg("--config")
            .arg(self.folder.join(format!("{id}.toml")))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn socket(&self, place: usize) -> PathBuf {
        self.folder.join(format!("{}.sock", place + 1))
    }

    fn log(&self, id: usize) -> PathBuf {
        self.folder.join(format!("log-{id}"))
    }

    fn await_answer(&self, place: usize) {
        soon(|| ureq::get(format!("http://{}/liveness", self.http[place])).call().is_ok().then_some(()));
    }

    /// Posts. A client whose turn it is campaigns again.
    fn post(&self, place: usize, path: &str, said: &Value) -> (u16, Value) {
        let mut said = said.clone();
        loop {
            let (status, body) = self.post_once(place, path, &said);
            if status != 202 || body["your_turn"] != true {
                return (status, body);
            }
            said["session"] = body["session"].clone();
        }
    }

    fn post_once(&self, place: usize, path: &str, said: &Value) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let url = format!("http://{}/elections/{path}", self.http[place]);
        let sent = agent.post(url).header("Content-Type", "application/json").send(said.to_string());
        let mut answer = sent.unwrap();
        let body = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), serde_json::from_str(&body).unwrap())
    }

    fn campaign(&self, place: usize, name: &str, ttl: &str) -> (u64, String) {
        let (status, body) =
            self.post(place, &format!("{name}/campaign"), &json!({ "ttl": ttl, "wait": "30s" }));
        assert_eq!(status, 200, "{body}");
        (body["token"].as_u64().unwrap(), body["session"].as_str().unwrap().to_string())
    }

    /// Waits until that node is a candidate and follows this leader.
    fn await_follower(&self, place: usize, leader: u64) {
        let sentence = format!("node {leader} leads and renews its lease");
        soon(|| self.ask(place, "why x").out.contains(&sentence).then_some(()));
    }

    /// Waits until the lease of the client there is revoked.
    fn await_recall(&self, place: usize, session: &str) {
        let renew = || self.post(place, "x/renew", &json!({ "session": session }));
        let refused = soon(|| Some(renew()).filter(|(status, _)| *status != 200));
        assert_eq!((refused.0, refused.1["reason"].as_str()), (409, Some("revoked")));
    }

    fn signal(&self, place: usize, signal: Signal) {
        let process = self.processes[place].as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Runs a command line against that node.
    fn ask(&self, place: usize, line: &str) -> suffrage_cli::testing::Ran {
        run(&format!("suffrage {line} --node http://{}", self.http[place]))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            _ = process.kill();
            _ = process.wait();
        }
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("suffrage-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Polls until there is a result, for a minute at most.
fn soon<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it takes far too long");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_that_gets_sigterm_hands_over_first() {
    let mut cluster = Cluster::start("stop");
    let (token, session) = cluster.campaign(0, "x", LONG);
    thread::scope(|scope| {
        let next = scope.spawn(|| cluster.campaign(1, "x", LONG));
        cluster.await_follower(1, 1);
        cluster.signal(0, Signal::TERM);
        // The client learns of the revocation when it renews, stops its work, and resigns.
        cluster.await_recall(0, &session);
        assert!(!next.is_finished());
        assert_eq!(cluster.post(0, "x/resign", &json!({ "session": session })).0, 200);
        // The node waits for less time than the rest of the lease.
        let (greater, _) = next.join().unwrap();
        assert!(greater > token);
    });
    let ended = cluster.processes[0].take().unwrap().wait().unwrap();
    assert_eq!(ended.code(), Some(0));
    let log = fs::read_to_string(cluster.log(1)).unwrap();
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    }
    for word in ["\"started\"", "\"new leader\"", "handing over first", "\"stopped\""] {
        assert!(log.contains(word), "{word} is missing in {log}");
    }
    let key = fs::read_to_string(cluster.folder.join("key")).unwrap();
    let secret = key.lines().find(|line| !line.starts_with('#')).unwrap();
    assert!(!log.contains(secret) && !log.contains(&session), "secrets are not logged");
}

#[test]
fn commands_query_nodes_and_sighup_reloads_keys() {
    let cluster = Cluster::start("ask");
    let nobody = cluster.ask(1, "leader x");
    assert_eq!((nobody.code, nobody.out.as_str()), (1, "x has no leader\n"));
    let (token, session) = cluster.campaign(0, "x", LONG);
    let leader = soon(|| Some(cluster.ask(1, "leader x")).filter(|ran| ran.code == 0));
    assert!(leader.out.starts_with(&format!("node 1 leads x, with token {token}, for ")), "{}", leader.out);
    let told: Value = serde_json::from_str(&cluster.ask(1, "leader x --json").out).unwrap();
    assert_eq!((told["leader"].as_u64(), told["token"].as_u64()), (Some(1), Some(token)));
    let why = cluster.ask(0, "why x");
    assert!(why.code == 0 && why.out.starts_with("node 1: this node leads"), "{}", why.out);
    let why = cluster.ask(1, "why x");
    assert_eq!(
        (why.code, why.out.as_str()),
        (1, "node 2: this node is not a candidate: no client of it asks to lead\n")
    );
    let status = cluster.ask(0, "status x --history").out;
    assert!(
        status.lines().count() == 3 && status.contains(&format!("ago: node 1, with token {token}")),
        "{status}"
    );
    let elections = cluster.ask(0, "elections").out;
    assert!(elections.contains("election") && elections.lines().count() == 2, "{elections}");
    let nobody = cluster.ask(1, "resign y");
    assert!(nobody.code == 1 && nobody.out.starts_with("no node leads y"), "{}", nobody.out);
    for to in [3, 99] {
        let refused = cluster.ask(0, &format!("transfer x --to {to}"));
        let sentence = format!("x is not handed over: no candidate waits at node {to}");
        assert!(refused.code == 1 && refused.out.starts_with(&sentence), "{}", refused.out);
    }
    assert_eq!(cluster.post(0, "x/renew", &json!({ "session": session })).0, 200, "nothing has changed");
    // The next candidate waits at node 2, and the operator gets the new leader.
    thread::scope(|scope| {
        let next = scope.spawn(|| cluster.campaign(1, "x", LONG));
        cluster.await_follower(1, 1);
        let waits = scope.spawn(|| cluster.ask(0, "transfer x --to 2"));
        cluster.await_recall(0, &session);
        assert_eq!(cluster.post(0, "x/resign", &json!({ "session": session })).0, 200);
        let (token, _) = next.join().unwrap();
        let told = waits.join().unwrap();
        let sentence = format!("x is handed over: node 2 leads, with token {token}, after ");
        assert!(
            told.code == 0 && told.out.starts_with(&sentence) && told.out.ends_with("s\n"),
            "{}",
            told.out
        );
    });
    // The client does not resign, and the wait of the operator is limited.
    let revoked = cluster.ask(1, "resign x");
    assert!(revoked.code == 0 && revoked.out.contains("when its client has resigned"), "{}", revoked.out);
    let long = cluster.ask(0, &format!("leader {}", "x".repeat(300)));
    assert!(long.code == 2 && long.err.starts_with("error: NAME: "), "{}", long.err);
    let itself = cluster.ask(1, "transfer x --to 2");
    assert!(
        itself.code == 2 && itself.err.starts_with("error: --to: 2 is this node itself"),
        "{}",
        itself.err
    );
    cluster.signal(0, Signal::HUP);
    soon(|| fs::read_to_string(cluster.log(1)).unwrap().contains("keys reloaded").then_some(()));
    fs::write(cluster.folder.join("key"), "rubbish").unwrap();
    cluster.signal(0, Signal::HUP);
    soon(|| fs::read_to_string(cluster.log(1)).unwrap().contains("the old keys stay in use").then_some(()));
    cluster.campaign(0, "y", "3s");
}

/// After `kill -9` of two of three voters, the third says within seconds what is wrong: in `why`, `/metrics` and the log.
#[test]
fn a_lost_majority_is_reported_and_so_is_its_return() {
    let mut cluster = Cluster::start("majority");
    let reachable = |cluster: &Cluster| {
        let page = ureq::get(format!("http://{}/metrics", cluster.http[0])).call().unwrap();
        let page = page.into_body().read_to_string().unwrap();
        let line =
            page.lines().find(|line| line.starts_with("suffrage_voters_reachable ")).unwrap().to_string();
        line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    soon(|| (reachable(&cluster) == 3).then_some(()));
    for place in [1, 2] {
        let mut process = cluster.processes[place].take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let began = Instant::now();
    soon(|| (reachable(&cluster) == 1).then_some(()));
    // Twice what it takes on an idle machine.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    // No client of this node asks to lead, and the name is new.
    let why = cluster.ask(0, "why never-heard-of");
    let start = "node 1: no majority of voters answers: 2 and 3 do not; voter 2 last answered ";
    assert!(why.code == 1 && why.out.starts_with(start), "{}", why.out);
    let log = || fs::read_to_string(cluster.log(1)).unwrap();
    let lines = |word: &str| log().lines().filter(|line| line.contains(word)).count();
    soon(|| (lines("no majority of voters answers") == 1).then_some(()));
    assert_eq!(lines("\"WARN\",\"message\":\"voter 2 does not answer"), 1, "{}", log());
    for place in [1, 2] {
        let process = cluster.spawn(place + 1, &[]);
        cluster.processes[place] = Some(process);
    }
    let log = || fs::read_to_string(cluster.log(1)).unwrap();
    let lines = |word: &str| log().lines().filter(|line| line.contains(word)).count();
    soon(|| (lines("voter 2 answers again") == 1 && lines("voter 3 answers again") == 1).then_some(()));
    soon(|| (lines("a majority of voters answers again") == 1).then_some(()));
    assert_eq!(lines("does not answer"), 2, "once per change: {}", log());
    assert_eq!(reachable(&cluster), 3);
}

#[test]
fn watch_prints_changes_as_they_happen() {
    use std::io::{BufRead as _, BufReader};
    let cluster = Cluster::start("watch");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_suffrage"))
        .args(["watch", "x", "--json", "--node", &format!("http://{}", cluster.http[1])])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert!(next()["leader"].is_null());
    let (token, _) = cluster.campaign(0, "x", "3s");
    assert_eq!(next()["token"].as_u64(), Some(token));
    cluster.signal(1, Signal::TERM);
    assert_eq!(watch.wait().unwrap().code(), Some(3), "there is nobody to be asked any more");
}

#[test]
fn a_node_that_cannot_be_reached_is_exit_3_and_bad_usage_2() {
    let free = suffrage_testbed::address();
    let ran = run(&format!("suffrage leader x --node http://{free}"));
    assert_eq!(ran.code, 3);
    assert!(ran.err.starts_with(&format!("error: cannot reach the node at http://{free}: ")), "{}", ran.err);
    for line in ["leader", "leader x --node 127.0.0.1", "transfer x", "transfer x --to nobody", "keygen"] {
        assert_eq!(run(&format!("suffrage {line}")).code, 2, "{line}");
    }
    assert_eq!(run("suffrage leader x --token-file /nowhere/at/all").code, 2);
    for line in ["validate --ttl -3s", "run --name x --cluster 1=127.0.0.1:7400 --ttl -3s -- true"] {
        let negative = run(&format!("suffrage {line}"));
        assert!(negative.code == 2 && negative.err.contains("`-3s` is not a time"), "{}", negative.err);
    }
    let help = run("suffrage help transfer");
    assert!(help.code == 0 && help.out.contains("--to <ID>"), "{} {}", help.out, help.err);
    let incomplete = run("suffrage config");
    assert!(incomplete.code == 2 && incomplete.err.contains("`suffrage config check`"), "{}", incomplete.err);
}

/// Bash itself completes with the script.
#[test]
fn bash_completes_commands_and_flags() {
    let script = run("suffrage completions bash");
    assert_eq!((script.code, script.err.as_str()), (0, ""));
    let complete = |words: &str| {
        let count = words.split(' ').count();
        let (last, before) = (words.rsplit(' ').next().unwrap(), words.rsplit(' ').nth(1).unwrap());
        let call = format!(
            "{}\nCOMP_WORDS=({words}) COMP_CWORD={}\n_suffrage suffrage '{last}' {before}\necho \"${{COMPREPLY[@]}}\"",
            script.out,
            count - 1
        );
        let ran = std::process::Command::new("bash").args(["--norc", "-c", &call]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_string()
    };
    assert_eq!(complete("suffrage tra"), "transfer");
    assert_eq!(complete("suffrage transfer --t"), "--token-file --to");
    // Hidden commands are for the program itself.
    assert_eq!(complete("suffrage run"), "run");
    let unknown = run("suffrage completions tcsh");
    assert!(unknown.code == 2 && unknown.err.contains("`tcsh` is none of bash, elvish,"), "{}", unknown.err);
    assert_eq!(run("suffrage completions").code, 2);
}

/// On Linux, a connection to 0.0.0.0 reaches this machine, although the address is not loopback.
#[test]
fn a_token_is_not_sent_unencrypted_without_plain() {
    let folder = folder("clear");
    let token = folder.join("token");
    fs::write(&token, "correct-horse-battery").unwrap();
    // A port that no other process uses.
    let port = suffrage_testbed::address().port();
    let heard = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    heard.set_nonblocking(true).unwrap();
    let ask = |flags: &str| run(&format!("suffrage leader x --node http://0.0.0.0:{port} {flags}"));
    let bearing = format!("--token-file {}", token.display());
    let refused = ask(&bearing);
    assert_eq!(refused.code, 2, "{}", refused.err);
    for word in ["--node: ", "without encryption", "https://", "--plain"] {
        assert!(refused.err.contains(word) && !refused.err.contains("horse"), "{}", refused.err);
    }
    assert!(heard.accept().is_err(), "no request was sent");
    drop(heard);
    for flags in ["", &format!("{bearing} --plain")] {
        let asked = ask(flags);
        assert_eq!(asked.code, 3, "nobody is there: {}", asked.err);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn bad_configuration_is_refused_with_the_line_and_the_reason() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder("config");
    let (file, key) = (folder.join("suffrage.toml"), folder.join("key"));
    let made = run(&format!("suffrage keygen {}", key.display()));
    assert!(made.code == 0 && made.out.contains("seals and opens"), "{}", made.out);
    let again = run(&format!("suffrage keygen {}", key.display()));
    assert!(again.code == 1 && again.err.contains("cannot create"), "{}", again.err);
    let good = format!(
        "id = 1\nvoters = [\"1=127.0.0.1:7400\", \"2=127.0.0.1:7401\", \"3=127.0.0.1:7402\"]\nkeys = {key:?}\n\
         data = {folder:?}\n"
    );
    fs::write(&file, format!("{good}ttl = \"3x\"\nhttp = \"0.0.0.0:7480\"\n")).unwrap();
    let path = file.display();
    for command in ["node", "config check"] {
        let ran = run(&format!("suffrage {command} --config {path} --delay never"));
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(&format!("{path}:5: ttl: `3x` is not a time")), "{}", ran.err);
        assert!(ran.err.contains("--delay: `never` is not a time"), "{}", ran.err);
    }
    fs::write(&file, format!("{good}http = \"0.0.0.0:7480\"\n")).unwrap();
    let open = run(&format!("suffrage config check --config {path}"));
    let reason = format!("{path}:5: http: 0.0.0.0:7480 accepts requests of other machines");
    assert!(open.code == 2 && open.err.contains(&reason), "{}", open.err);
    for drift in ["0.01", "\"0.01\""] {
        fs::write(&file, format!("{good}drift = {drift}\n")).unwrap();
        let unclear = run(&format!("suffrage config check --config {path}"));
        let reason = format!("{path}:5: drift: `0.01` has no unit: write 1% for the fraction 0.01, or 0.01%");
        assert!(unclear.code == 2 && unclear.err.contains(&reason), "{}", unclear.err);
    }
    fs::write(&file, good).unwrap();
    let fine = run(&format!("suffrage config check --config {path}"));
    assert_eq!(
        (fine.code, fine.out.as_str()),
        (0, "valid: node 1 votes; voters 1, 2, 3; drift 1%; HTTP http://127.0.0.1:7480\n")
    );
    assert_eq!(run(&format!("suffrage node --config {path} --init --new")).code, 2);
    let stateless = run(&format!("suffrage node --config {path}"));
    assert!(
        stateless.code == 1 && stateless.err.contains("is not the data folder of a node"),
        "{}",
        stateless.err
    );
    assert!(stateless.err.contains("--new") && stateless.err.contains("--init"), "{}", stateless.err);
    let made = run(&format!("suffrage node --config {path} --init"));
    let sentence = format!("{} is the data folder of node 1\n", folder.display());
    assert_eq!((made.code, made.out), (0, sentence));
    let again = run(&format!("suffrage node --config {path} --init"));
    assert!(again.code == 1 && again.err.contains("is the data folder of a node already"), "{}", again.err);
    assert!(again.err.contains("start without --new"), "{}", again.err);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = run(&format!("suffrage config check --config {path}"));
    let place = format!("error: {path}:3: keys: {} can be read by others", key.display());
    assert!(exposed.code == 1 && exposed.err.starts_with(&place), "{}", exposed.err);
    assert!(exposed.err.contains("chmod 600"), "{}", exposed.err);
    fs::remove_dir_all(folder).unwrap();
}
