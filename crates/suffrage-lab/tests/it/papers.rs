//! Tests of `suffrage-lab reproduce` and `suffrage-lab plan`.

use std::fs;
use std::path::PathBuf;

use crate::support::{json, run, succeed};

/// A temporary folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("suffrage-papers-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn read(&self, name: &str) -> String {
        self.read_of("gupta2000", name)
    }

    fn read_of(&self, paper: &str, name: &str) -> String {
        let path = self.0.join(paper).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_figure_does_not_depend_on_the_number_of_jobs() {
    let folders = [Folder::new("one"), Folder::new("three")];
    let outputs = [1, 3].map(|jobs| {
        let folder = &folders[usize::from(jobs == 3)];
        let line = format!(
            "suffrage-lab reproduce gupta2000 --figure 4 --runs 3 --jobs {jobs} --out {}",
            folder.0.display()
        );
        succeed(&line).replace(&folder.0.display().to_string(), "")
    });
    assert_eq!(outputs[0], outputs[1]);
    assert!(outputs[0].contains("The product of the bounds appears to peak at 0.6"), "{}", outputs[0]);
    for name in ["index.html", "figure-4.svg", "figure-4.csv", "figure-4-rounds.csv"] {
        assert_eq!(folders[0].read(name), folders[1].read(name), "{name}");
    }
    let page = folders[0].read("index.html");
    for text in ["<svg ", "Theorem 1", "suffrage-lab reproduce gupta2000 --figure 4 --runs 3 --seed 0"] {
        assert!(page.contains(text), "{text}");
    }
}

/// The command of a point makes the first of its runs.
#[test]
fn the_command_of_a_point_runs_it() {
    let folder = Folder::new("points");
    let report = json(&format!(
        "suffrage-lab reproduce gupta2000 --figure 4 --runs 1 --seed 5 --out {}",
        folder.0.display()
    ));
    let point = &report["points"]["rows"][1];
    assert_eq!(point[0], "Figure 4, K = 10");
    let run = json(point[3].as_str().unwrap());
    let measured = &report["exhibits"][0]["tables"][0]["rows"][1];
    assert_eq!(measured[0], "10");
    let relay = run["figures"]["first_relay_members"].as_f64().unwrap();
    assert_eq!(measured[3], suffrage_papers::report::number(relay), "{point}");
}

#[test]
fn results_are_printed_as_json() {
    let folder = Folder::new("json");
    let report =
        json(&format!("suffrage-lab reproduce gupta2000 --figure 4 --runs 2 --out {}", folder.0.display()));
    assert_eq!(report["name"], "gupta2000");
    assert_eq!(report["provenance"]["runs"], 2);
    let claims = report["exhibits"][0]["claims"].as_array().unwrap();
    assert!(
        claims
            .iter()
            .all(|claim| ["held", "did-not-hold", "unclear"].contains(&claim["verdict"].as_str().unwrap()))
    );
}

#[test]
fn the_randomized_election_does_not_depend_on_the_number_of_jobs() {
    let folders = [Folder::new("one-more"), Folder::new("two-more")];
    let outputs = [1, 2].map(|jobs| {
        let folder = &folders[jobs - 1];
        let line = format!(
            "suffrage-lab reproduce ramanathan2007 --nodes 100 --runs 2 --jobs {jobs} --out {}",
            folder.0.display()
        );
        succeed(&line).replace(&folder.0.display().to_string(), "")
    });
    assert_eq!(outputs[0], outputs[1]);
    for text in ["Table 1", "Figure 9", "Section 7.2", "Lemma 1", "Theorem 8", "Theorem 12"] {
        assert!(outputs[0].contains(text), "{text}: {}", outputs[0]);
    }
    for name in ["index.html", "figure-9.svg", "figure-9.csv", "section-7-2.csv", "table-1.csv"] {
        let [one, two] = [0, 1].map(|place| folders[place].read_of("ramanathan2007", name));
        assert_eq!(one, two, "{name}");
    }
    let page = folders[0].read_of("ramanathan2007", "index.html");
    assert!(page.contains("suffrage-lab reproduce ramanathan2007 --nodes 100 --runs 2 --seed 0"));
}

#[test]
fn figure_9_can_be_reproduced_alone() {
    let folder = Folder::new("figure-9");
    let report = json(&format!(
        "suffrage-lab reproduce ramanathan2007 --figure 9 --nodes 100 --runs 300 --out {}",
        folder.0.display()
    ));
    assert_eq!(report["exhibits"].as_array().unwrap().len(), 1);
    assert_eq!(report["exhibits"][0]["name"], "figure-9");
    let command = report["provenance"]["command"].as_str().unwrap();
    assert_eq!(command, "suffrage-lab reproduce ramanathan2007 --figure 9 --nodes 100 --runs 300 --seed 0");
    folder.read_of("ramanathan2007", "figure-9.svg");
}

#[test]
fn a_plan_of_the_randomized_election_names_rounds_and_mediators() {
    let line =
        "suffrage-lab plan --algorithm randomized --nodes 500 --contenders 0.5 --target 0.95 --runs 300";
    let text = succeed(line);
    for part in
        ["rounds", "mediators", "with the announcement", "two winners", "Checked by simulation", "gupta"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let answer = json(line);
    let plan = &answer["plan"];
    assert!(plan["success"].as_f64().unwrap() >= 0.95, "{answer}");
    assert_eq!(plan["mediators"].as_array().unwrap().len() as u64, plan["rounds"].as_u64().unwrap());
    // Section 3.1: the square root of n ln n.
    assert_eq!(plan["quorum"], 56);
    assert_eq!(plan["contenders"], 250.0);
    let cheaper = answer["cheaper"].as_str().unwrap();
    let (own, other) = (answer["sent"].as_f64().unwrap(), answer["gupta"]["sent"].as_f64().unwrap());
    assert_eq!(cheaper, if own <= other { "randomized" } else { "gupta" });
}

/// Quorums of a small group are disjoint too often for any number of rounds.
#[test]
fn a_target_that_quorums_cannot_reach_exits_with_1() {
    let line = "suffrage-lab plan --algorithm randomized --nodes 100 --mode sync --target 0.9999 --runs 100";
    let ran = run(line);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.contains("cannot be reached"), "{}", ran.out);
}

#[test]
fn a_plan_names_k_messages_and_time_outs() {
    let line = "suffrage-lab plan --nodes 300 --view-prob 0.5 --ucast-loss 0.01 --mcast-loss 0.01 --target 0.9 --runs 500";
    let text = succeed(line);
    for part in ["by the bound", "by simulation", "difference", "unicasts", "Time_Out_2", "With one round"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let plan = json(&format!("{line} --ucast-delay 2 --mcast-delay 10"));
    let one = &plan["plans"][0];
    let (bound, found) = (&one["by_bound"], &one["by_simulation"]);
    assert!(found["success"]["mean"].as_f64().unwrap() >= 0.9, "{found}");
    let k = found["strategy"]["first_k"].as_f64().unwrap();
    assert!(k <= bound["strategy"]["first_k"].as_f64().unwrap() || bound["reaches"] == false, "{plan}");
    // Section 3.2: Time_Out_2 is 3K/2 longest unicasts, Time_Out_1 a multicast more.
    let (_, time_outs) = (&one["time_outs"][0][0], &one["time_outs"][0][1]);
    assert_eq!(time_outs["time_out_2"].as_f64().unwrap(), 1.5 * k * 2.0);
    assert_eq!(time_outs["time_out_1"].as_f64().unwrap(), 1.5 * k * 2.0 + 10.0);
}

/// One member in five crashes in a round, and so does the elected leader.
#[test]
fn an_unreachable_target_exits_with_1() {
    let ran = run("suffrage-lab plan --nodes 100 --fail 0.2 --target 0.99 --runs 500");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(
        ran.out.contains("no K reaches the target") && ran.out.contains("failure detector"),
        "{}",
        ran.out
    );
}

#[test]
fn bad_input_is_named() {
    for (line, reason) in [
        ("suffrage-lab reproduce gupta2000 --figure 3", "--figure: figure `3` is not measured"),
        ("suffrage-lab reproduce gupta2000 --runs 0", "--runs: `0` is not a number of runs"),
        ("suffrage-lab plan --nodes 10 --target 1", "--target: `1` is not a probability above 0 and below 1"),
        (
            "suffrage-lab plan --nodes 10 --max-rounds 9",
            "--max-rounds: `9` is not a number of rounds from 1 to 5",
        ),
        ("suffrage-lab plan", "--nodes <N> is missing"),
        ("suffrage-lab plan --nodes 10 --contenders 3", "--contenders: applies only to randomized"),
        (
            "suffrage-lab plan --algorithm randomized --nodes 10 --view-prob 0.5",
            "--view-prob: applies only to gupta",
        ),
        ("suffrage-lab plan --algorithm bully --nodes 10", "--algorithm"),
        ("suffrage-lab reproduce ramanathan2007 --nodes 3", "--nodes: `3` is not a number of processes"),
        ("suffrage-lab reproduce ramanathan2007 --figure 5", "--figure: figure `5` is not measured"),
        ("suffrage-lab reproduce nobody1999", "there is no paper `nobody1999`"),
    ] {
        let ran = run(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.out);
        assert!(ran.err.contains(reason), "{line}: {}", ran.err);
    }
}
