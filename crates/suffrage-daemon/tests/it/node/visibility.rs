//! Elections that no client of a node takes part in, and the reasons of refusals: what operators see of them.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Cluster, soon};

/// `suffrage run`, which is killed in the end.
struct Supervisor(Child);

impl Supervisor {
    /// Holds the election `bank` with the id 77.
    fn start(cluster: &Cluster) -> Supervisor {
        let file = fs::read_to_string(cluster.folder.join("1.toml")).unwrap();
        let voters = file.lines().find_map(|line| line.strip_prefix("voters = ")).unwrap().trim_matches('"');
        let process = Command::new(env!("CARGO_BIN_EXE_suffrage"))
            .args(["run", "--name", "bank", "--id", "77", "--ttl", "2s", "--quiet", "--cluster", voters])
            .arg("--keys")
            .arg(cluster.folder.join("key"))
            .args(["--", "/bin/sh", "-c", "exec sleep 1000"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Supervisor(process)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Cluster {
    fn get(&self, place: usize, path: &str) -> String {
        let answer = ureq::get(format!("http://{}{path}", self.http[place])).call().unwrap();
        answer.into_body().read_to_string().unwrap()
    }

    /// The election `bank` in the list of that node.
    fn bank(&self, place: usize) -> Option<Value> {
        let list: Value = serde_json::from_str(&self.get(place, "/elections")).unwrap();
        list["elections"].as_array().unwrap().iter().find(|it| it["election"] == "bank").cloned()
    }

    pub(super) fn log_lines(&self, id: usize, word: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.log(id)).unwrap();
        let lines = log.lines().filter(|line| line.contains(word));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn every_node_shows_the_election_of_a_suffrage_run() {
    let cluster = Cluster::start("visible");
    let mut supervisor = Supervisor::start(&cluster);
    let mut token = 0;
    for place in 0..3 {
        let bank = soon(|| cluster.bank(place).filter(|bank| bank["leader"] == 77));
        assert_eq!(
            (bank["known_by"].as_str(), bank["node"].as_u64()),
            (Some("grant"), Some(place as u64 + 1))
        );
        let remaining = bank["grant_remaining_ms"].as_u64().unwrap();
        assert!(remaining <= 2_000 && bank["lease_remaining_ms"].is_null(), "{bank}");
        assert!(bank["why"].as_str().unwrap().contains("granted the lease to node 77"), "{bank}");
        token = bank["token"].as_u64().unwrap();
        let page = cluster.get(place, "/metrics");
        for line in [
            format!("suffrage_token{{election=\"bank\"}} {token}\n"),
            "suffrage_is_leader{election=\"bank\"} 0\n".to_string(),
            "suffrage_grant_remaining_seconds{election=\"bank\"} ".to_string(),
            "suffrage_granted_elections 1\n".to_string(),
            "suffrage_leader_transitions_total 1\n".to_string(),
        ] {
            assert!(page.contains(&line), "{line} is missing in {page}");
        }
        let granted = soon(|| cluster.log_lines(place + 1, "this voter has granted the lease").pop());
        assert_eq!((&granted["election"], &granted["leader"]), (&json!("bank"), &json!(77)));
        assert_eq!(granted["token"].as_u64(), Some(token));
    }
    let listed = cluster.ask(1, "elections").out;
    assert!(listed.contains("bank") && listed.contains("the grant of its voter"), "{listed}");
    let history = cluster.get(2, "/elections/bank/history");
    assert!(history.contains("\"leader\":77"), "{history}");
    // A query asks a majority of the voters, and so does a candidate, which is refused. The leader has led since the voter
    // granted the lease.
    let age = |election: &Value| election["since_ms"].as_u64().unwrap();
    let granted = age(&cluster.bank(0).unwrap());
    let observed: Value = serde_json::from_str(&cluster.get(0, "/elections/bank")).unwrap();
    assert!(observed["leader"] == 77 && age(&observed) >= granted && granted > 0, "{granted}: {observed}");
    let leader = cluster.ask(0, "leader bank");
    let sentence = format!("node 77 leads bank, with token {token}, for ");
    assert!(leader.code == 0 && leader.out.starts_with(&sentence), "{}", leader.out);
    assert_eq!(cluster.post(0, "bank/campaign", &json!({ "ttl": "2s", "wait": "100ms" })).0, 202);
    let refused = soon(|| cluster.log_lines(1, "the campaign of this node is refused").pop());
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("has granted the lease to node 77 for another "), "{message}");
    // One leader is logged once, however the node knows it.
    let named = |text: &str| cluster.log_lines(1, text).iter().filter(|line| line["leader"] == 77).count();
    assert_eq!((named("this voter has granted the lease"), named("new leader")), (1, 0));
    // The supervisor hands over, and node 1, whose client waits, takes the lease.
    kill_process(Pid::from_child(&supervisor.0), Signal::TERM).unwrap();
    supervisor.0.wait().unwrap();
    soon(|| cluster.log_lines(3, "the lease that this voter granted has ended").pop());
}

/// Two of three voters are killed while they have granted a long lease: they are silent after their restart, and say so.
#[test]
fn why_says_that_voters_are_silent_after_their_restart() {
    let mut cluster = Cluster::start("silent");
    cluster.campaign(0, "x", "50s");
    for place in [1, 2] {
        // A client leads when a majority has granted the lease: the third voter may not have it yet.
        soon(|| cluster.get(place, "/elections").contains("\"leader\":1,").then_some(()));
        let mut process = cluster.processes[place].take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        cluster.processes[place] = Some(cluster.spawn(place + 1, &[]));
    }
    let why = soon(|| {
        let why = cluster.ask(0, "why y").out;
        why.contains("voter 2 is silent for another ").then_some(why)
    });
    assert!(why.starts_with("node 1: no majority of voters answers: 2 and 3 do not; "), "{why}");
    assert!(why.contains("s after its restart; voter 3 is silent for another "), "{why}");
    soon(|| cluster.log_lines(1, "voter 2 does not answer: voter 2 is silent for another ").pop());
    // The voter knows it of itself.
    let own = cluster.ask(1, "why y").out;
    assert!(own.contains("voter 2 is silent for another "), "{own}");
}

/// Every node shows what a `suffrage run` and a client say about themselves, and a new value. A client that is not known to a
/// node cannot set a value.
#[test]
fn every_node_shows_the_value_of_the_leader() {
    let cluster = Cluster::start("values");
    let supervisor = Supervisor::start(&cluster);
    let process = format!("-{}", supervisor.0.id());
    for place in 0..3 {
        let value = soon(|| cluster.bank(place)?["value"].as_str().map(str::to_string));
        assert!(value.ends_with(&process), "the process id is {process}: {value}");
        let said = soon(|| Some(cluster.ask(place, "leader bank").out).filter(|said| said.contains(&value)));
        assert!(said.starts_with("node 77 leads bank, with token "), "{said}");
    }
    let long = "ä".repeat(2_000);
    let said = json!({ "ttl": "2s", "wait": "30s", "value": "10.0.0.1:80" });
    let (status, body) = cluster.post(0, "x/campaign", &said);
    assert_eq!(status, 200, "{body}");
    let session = body["session"].as_str().unwrap().to_string();
    let election = |place| -> Value { serde_json::from_str(&cluster.get(place, "/elections/x")).unwrap() };
    let renew = || assert_eq!(cluster.post(0, "x/renew", &json!({ "session": session })).0, 200);
    for place in 0..3 {
        soon(|| {
            renew();
            (election(place)["value"] == "10.0.0.1:80").then_some(())
        });
    }
    let before = election(1)["value_version"].as_u64().unwrap();
    let set = |session: &str, value: &str| {
        cluster.post(0, "x/value", &json!({ "session": session, "value": value }))
    };
    assert_eq!(set(&session, &long).0, 200);
    for place in 0..3 {
        let shown = soon(|| {
            renew();
            Some(election(place)).filter(|election| election["value"] == *long)
        });
        assert!(shown["value_version"].as_u64().unwrap() > before, "{}", shown["value_version"]);
    }
    let (status, body) = set(&session, &"x".repeat(4_097));
    assert_eq!(
        (status, body["error"].as_str().unwrap().contains("a value of 4097 bytes")),
        (400, true),
        "{body}"
    );
    assert_eq!(set("00000000000000000000000000000000", "x").0, 409);
    assert_eq!(set(&session, "").0, 200);
    soon(|| {
        renew();
        election(2)["value"].is_null().then_some(())
    });
    assert!(!cluster.get(0, "/metrics").contains("10.0.0.1:80"), "no label has a value of a leader");
}
