//! Operators move a leader that runs under `suffrage run`, at any node.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{Cluster, soon};

/// A `suffrage run`, which is killed when the test ends.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Needs some time to stop, longer than a hand-over without notice takes.
const SCRIPT: &str = r#"trap 'sleep 0.5; echo "ended $SUFFRAGE_LEADER" >>"$LOG"; exit 0' TERM
echo "started $SUFFRAGE_LEADER" >>"$LOG"
while :; do sleep 0.01; done"#;

impl Cluster {
    fn work_log(&self) -> PathBuf {
        self.folder.join("work")
    }

    fn work(&self) -> Vec<String> {
        let text = fs::read_to_string(self.work_log()).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// A supervised command with this id.
    fn run(&self, id: u64) -> Run {
        let configuration = fs::read_to_string(self.folder.join("1.toml")).unwrap();
        let voters = configuration.split("voters = \"").nth(1).unwrap().split('"').next().unwrap();
        let said = fs::File::create(self.said(id)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_suffrage"))
            .args(["run", "--name", "x", "--ttl", "20s", "--stop-grace", "5s", "--id", &id.to_string()])
            .args(["--cluster", voters, "--keys"])
            .arg(self.folder.join("key"))
            .args(["--", "/bin/sh", "-c", SCRIPT])
            .env("LOG", self.work_log())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn();
        Run(child.unwrap())
    }

    fn said(&self, id: u64) -> PathBuf {
        self.folder.join(format!("said-{id}"))
    }

    /// Waits until a candidate waits there, as all voters know. A transfer to a node where none waits changes nothing, and
    /// names those that wait. The last voter to grant the lease may not know the leader yet.
    fn await_candidate(&self, id: u64) {
        for place in 0..3 {
            soon(|| {
                let refused = self.ask(place, "transfer x --to 99");
                let nobody_waits =
                    refused.out.starts_with("x is not handed over: no candidate waits at node 99");
                let nobody_leads = refused.out.starts_with("no node leads x, as far as");
                assert!(refused.code == 1 && (nobody_waits || nobody_leads), "{}", refused.out);
                (nobody_waits && refused.out.contains(&format!("{id}"))).then_some(())
            });
        }
    }
}

#[test]
fn a_leader_under_suffrage_run_is_moved_after_its_command_has_ended() {
    let cluster = Cluster::start("moves");
    let _first = cluster.run(71);
    soon(|| (cluster.work() == ["started 71"]).then_some(()));
    let _second = cluster.run(72);
    cluster.await_candidate(72);
    assert_eq!(cluster.work(), ["started 71"]);
    let moved = cluster.ask(1, "resign x");
    assert!(moved.code == 0 && moved.out.starts_with("x is handed over: node 72 leads"), "{}", moved.out);
    soon(|| (cluster.work().len() == 3).then_some(()));
    assert_eq!(cluster.work(), ["started 71", "ended 71", "started 72"]);
    let said = fs::read_to_string(cluster.said(71)).unwrap();
    assert!(said.contains("hands over, and stops the command: node 2 has asked this one to"), "{said}");
    let asks = cluster.log_lines(2, "asks the leader to hand over to the next candidate");
    assert!(asks.len() == 1 && asks[0]["election"] == "x" && asks[0]["leader"] == 71, "{asks:?}");
    // The first yields for the length of a lease: the target is another one.
    let _third = cluster.run(73);
    let _fourth = cluster.run(74);
    cluster.await_candidate(73);
    cluster.await_candidate(74);
    let moved = cluster.ask(2, "transfer x --to 74");
    assert!(moved.code == 0 && moved.out.starts_with("x is handed over: node 74 leads"), "{}", moved.out);
    soon(|| (cluster.work().len() == 5).then_some(()));
    assert_eq!(cluster.work()[3..], ["ended 72", "started 74"]);
    let asks = cluster.log_lines(3, "asks the leader to hand over to a node");
    assert!(asks.len() == 1 && asks[0]["leader"] == 72 && asks[0]["to"] == 74, "{asks:?}");
}

#[test]
fn a_node_that_is_asked_to_hand_over_logs_which_node_asks() {
    let cluster = Cluster::start("asked");
    let (_, session) = cluster.campaign(0, "x", super::LONG);
    // The voter of node 3 may be the last to grant the lease.
    let resign = || cluster.post(2, "x/resign", &serde_json::json!({ "wait": "0s" })).0;
    soon(|| (resign() == 202).then_some(()));
    let line = soon(|| cluster.log_lines(1, "is asked to hand over to the next candidate").pop());
    assert!(line["election"] == "x" && line["by"] == 3 && line["level"] == "INFO", "{line}");
    let line = soon(|| cluster.log_lines(3, "asks the leader to hand over to the next candidate").pop());
    assert!(line["election"] == "x" && line["leader"] == 1, "{line}");
    cluster.await_recall(0, &session);
}
