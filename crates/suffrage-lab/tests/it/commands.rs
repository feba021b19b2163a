//! Tests of the command line.

use std::collections::BTreeSet;

use crate::support::{json, run, succeed};
use serde_json::Value;
use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Choice, NodeId};
use suffrage_lab::Console;

/// Invalid flags of `simulate bully`, and a part of the error message.
const BAD_INPUT: &[(&str, &str)] = &[
    ("--nodes 0", "--nodes"),
    ("--nodes 10000001", "--nodes"),
    ("--nodes -3", "--nodes"),
    ("--nodes", "--nodes"),
    ("--ids 1,2,1", "--ids"),
    ("--ids 1,x", "--ids"),
    ("--ids 1,2 --nodes 2", "--nodes"),
    ("--ids 9223372036854775808", "--ids"),
    ("--rank best", "--rank"),
    ("--rank 9=1", "--rank"),
    ("--rerank 5=1", "--rerank"),
    ("--rerank 9=1@3", "--rerank"),
    ("--initiator 9", "--initiator"),
    ("--initiator 1,1", "--initiator"),
    ("--initiator nobody", "--initiator"),
    ("--initiator 3 --crashed 3", "--initiator"),
    ("--crashed 9", "--crashed"),
    ("--crashed 3,3", "--crashed"),
    ("--crashed 1,2,3,4,5", "--crashed"),
    ("--crashed 1,2,3,4,5 --initiator all", "--crashed"),
    ("--crashed 1,2,3,4,5 --initiator 3", "--crashed"),
    ("--crashed 1,2,3,4,5 --initiator none", "--crashed"),
    ("--crash 5", "--crash"),
    ("--crash 5@-1", "--crash"),
    ("--crash 9@1", "--crash"),
    ("--crash 5@1 5@2", "--crash"),
    ("--crashed 5 --crash 5@2", "--crash"),
    ("--recover 5@1", "--recover"),
    ("--recover 5@1 --crash 5@2", "--recover"),
    ("--pause 5@3", "--pause"),
    ("--pause 5@10..5", "--pause: `5@10..5` ends before it begins"),
    ("--pause 5@10..1e30", "--pause: `1e30` is not a time"),
    ("--pause 9@3..4", "--pause"),
    ("--pause 5@3..4 --crashed 5", "--pause"),
    ("--partition '1,2|3,9@1..2'", "--partition"),
    ("--partition '1,2|2,3'", "--partition"),
    ("--partition '1,2@3'", "--partition"),
    ("--partition '1|2@5..2'", "--partition: `1|2@5..2` ends before it begins"),
    ("--one-way", "--one-way"),
    ("--heal-all-at 20 --crash 5@30", "--heal-all-at: all faults end at 20, but --crash begins at 30"),
    ("--heal-all-at 20 --crash 5@10 --recover 5@30", "--heal-all-at"),
    ("--heal-all-at 20 --pause 5@30..40", "--heal-all-at"),
    ("--heal-all-at 20 --partition '1|2@30'", "--heal-all-at"),
    ("--latency 1", "--latency"),
    ("--latency const:0", "--latency"),
    ("--delay-bound 0", "--delay-bound"),
    ("--delay-bound soon", "--delay-bound"),
    ("--loss 1.1", "--loss"),
    ("--loss -0.1", "--loss"),
    ("--loss nan", "--loss"),
    ("--duplicate 2", "--duplicate"),
    ("--drift 91%", "--drift"),
    ("--drift 0.01", "write 1% for the fraction 0.01, or 0.01%"),
    ("--detector ideal", "--detector"),
    ("--detector parametric:1,2", "--detector"),
    ("--detector heartbeat:1", "--detector: `1` lacks a value; the form is heartbeat:PERIOD,TIMEOUT"),
    ("--detector heartbeat:0,3", "--detector: a period of 0 is invalid"),
    ("--detector heartbeat:3,3", "--detector: 3 is not more than the period, 3"),
    ("--detector phi:0.1", "--detector: `0.1` is not a threshold"),
    ("--detector gossip:2,x", "--detector: `x` is not a time"),
    ("--multicast reliable", "--multicast: `reliable` is not a multicast"),
    ("--multicast ideal:2", "--multicast: `2` is not a probability"),
    ("--multicast bimodal:2", "--multicast: `2` is not a fan-out and a number of rounds"),
    ("--seed x", "--seed"),
    ("--seed 1 --seed 2", "--seed"),
    ("--seed 18446744073709551615 --runs 2", "--seed"),
    ("--runs 0", "--runs"),
    ("--jobs 0", "--jobs"),
    ("--until never", "--until"),
    ("--until 20 --crash 5@30", "--until: the run ends at 20, but --crash is at 30"),
    ("--until 20 --rerank 5=1@30", "--until"),
    ("--until 20 --partition '1|2@30..40'", "--until"),
    ("--until 20 --heal-all-at 30", "--until"),
    ("--diagram --runs 2", "--diagram"),
    ("--diagram --json", "--diagram"),
    ("--diagram --nodes 17", "--diagram"),
    ("--trace x.jsonl --runs 2", "--trace"),
    ("--trace - --json", "--trace"),
    ("--answer-timeout 0", "--answer-timeout"),
    ("--json=yes", "--json"),
    ("--node 3", "--node"),
];

#[test]
fn bad_input_is_one_sentence_that_names_the_flag() {
    for (flags, named) in BAD_INPUT {
        let ran = run(&format!("suffrage-lab simulate bully {flags}"));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags}");
        let lines: Vec<&str> = ran.err.lines().collect();
        assert_eq!(lines.len(), 2, "{flags}: {}", ran.err);
        assert!(lines[0].starts_with("error: ") && lines[0].contains(named), "{flags}: {}", lines[0]);
        assert_eq!(lines[1], "hint: `suffrage-lab simulate bully --help` explains every flag");
    }
}

/// Invalid measurements, and a part of the error message.
#[test]
fn invalid_measurements_are_refused() {
    for (line, words) in [
        ("simulate-detector", "<DETECTOR>... is missing"),
        ("simulate-detector ideal:2", "`ideal:2` is not a detector"),
        ("simulate-detector phi:8 --nodes 1", "--nodes"),
        (
            "simulate-detector phi:8 --nodes 1001",
            "--nodes: `1001` is not a number of processes from 2 to 1000",
        ),
        (
            "simulate-detector phi:8 --runs 1000001",
            "--runs: `1000001` is not a number of runs from 1 to 1000000",
        ),
        ("simulate-detector phi:8 --watch 0", "--watch"),
        ("simulate-detector phi:8 --latency const:0", "--latency"),
        ("simulate-detector phi:8 --seed 18446744073709551615", "--seed"),
        ("simulate-multicast", "<MULTICAST>... is missing"),
        ("simulate-multicast bimodal", "fan-out"),
        ("simulate-multicast broadcast --nodes 1", "--nodes"),
        ("simulate-multicast ideal:0.9 --broadcast-loss 0.1", "--broadcast-loss"),
        ("simulate-multicast broadcast --nodes 10000000", "is not a number of processes from 2 to 1000"),
        ("simulate-multicast broadcast --runs 0", "--runs"),
        ("simulate-multicast broadcast --runs 1000000000", "is not a number of runs from 1 to 1000000"),
    ] {
        let ran = run(&format!("suffrage-lab {line}"));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}");
        let lines: Vec<&str> = ran.err.lines().collect();
        assert!(lines.len() == 2 && lines[0].contains(words), "{line}: {}", ran.err);
    }
}

#[test]
fn measurements_of_detectors_do_not_depend_on_jobs() {
    let line =
        "suffrage-lab simulate-detector heartbeat:1,2.5 phi:4 gossip:1,9 --loss 0.1 --runs 30 --drift 1%";
    let result = json(&format!("{line} --jobs 1"));
    assert_eq!(result, json(&format!("{line} --jobs 3")));
    let [heartbeat, phi, gossip] = result.as_array().unwrap().as_slice() else { panic!("{result}") };
    for detector in [heartbeat, phi, gossip] {
        let value = |key: &str, part: &str| detector[key][part].as_f64().unwrap();
        assert!(value("detection", "median") <= value("detection", "p99"));
        assert!(value("mistake_rate", "lo") <= value("mistake_rate", "hi"));
    }
    assert!(gossip["messages"]["mean"].as_f64().unwrap() < 1.1);
    assert!(heartbeat["messages"]["mean"].as_f64().unwrap() > 3.9);
    let table = succeed(line);
    for detector in ["heartbeat:1,2.5", "phi:4", "gossip:1,9"] {
        assert_eq!(table.matches(&format!("\n  {detector} ")).count(), 1, "{table}");
    }
}

/// A detector that suspects every process has no detection time: its observers suspected the process already.
#[test]
fn a_useless_detector_does_not_look_perfect() {
    let line = "suffrage-lab simulate-detector heartbeat:1,3.5 heartbeat:1,3.6 --loss 1 --runs 3";
    for detector in json(line).as_array().unwrap() {
        assert_eq!((&detector["observers"], &detector["already"]), (&12.into(), &12.into()));
        assert_eq!(detector["missed"], 0);
        assert!(detector["mean_detection"].is_null() && detector["detection"]["median"].is_null());
        assert!((detector["wrong"]["mean"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    }
    let table = succeed(line);
    let row = table.lines().find(|line| line.contains("heartbeat:1,3.5")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..10], ["heartbeat:1,3.5", "-", "-", "-", "-", "12", "0", "0", "-", "1"], "{table}");
}

/// T_fail is below the time that a counter needs to reach all. Missed crashes are counted per detector.
#[test]
fn each_detector_has_its_own_missed_crashes() {
    let result = json("suffrage-lab simulate-detector gossip:1,4 gossip:1,30 --nodes 16 --runs 3");
    assert!(result[0]["missed"].as_u64().unwrap() > 0, "{result}");
    assert_eq!(result[1]["missed"], 0, "{result}");
}

#[test]
fn measurements_of_multicasts_do_not_depend_on_jobs() {
    let line =
        "suffrage-lab simulate-multicast broadcast ideal:0.9 bimodal:2,8 --loss 0.3 --runs 200 --nodes 20";
    let result = json(&format!("{line} --jobs 1"));
    assert_eq!(result, json(&format!("{line} --jobs 3")));
    let mean = |place: usize, key: &str| result[place][key]["mean"].as_f64().unwrap();
    assert!(mean(0, "fraction") < mean(1, "fraction") && mean(1, "fraction") < mean(2, "fraction"));
    for place in 0..3 {
        let histogram = result[place]["histogram"].as_array().unwrap();
        assert_eq!(histogram.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 200);
    }
    assert_eq!((mean(0, "last"), mean(0, "quiet")), (1.0, 1.0));
    assert!(mean(2, "last") > 4.0 && mean(2, "last") < mean(2, "quiet"));
    assert!(succeed(line).contains("\n  runs that reached   broadcast   ideal:0.9   bimodal:2,8\n"));
    assert!(json("suffrage-lab simulate-multicast broadcast --loss 1 --runs 2")[0]["last"].is_null());
}

#[test]
fn errors_about_unknown_names_have_a_suggestion() {
    for (line, word) in [
        ("suffrage-lab simulate buly", "`bully`"),
        ("suffrage-lab simulat", "`simulate`"),
        ("suffrage-lab simulate", "suffrage-lab algorithms"),
        ("suffrage-lab algorithms buly", "bully"),
        ("suffrage-lab demo --algorithm buly", "bully"),
        ("suffrage-lab simulate bully --node 3", "`--nodes`"),
        ("suffrage-lab simulate next-in-line --alternatives 9", "--alternatives"),
    ] {
        let ran = run(line);
        assert_eq!(ran.code, 2, "{line}");
        assert!(ran.err.lines().next().unwrap().contains(word), "{line}: {}", ran.err);
    }
}

#[test]
fn lists_can_be_given_in_every_way() {
    let base = "suffrage-lab simulate bully --detector ideal:2 --json";
    for (one, other) in [
        ("--crash 5@10,4@20", "--crash 5@10 --crash 4@20"),
        ("--crash 5@10,4@20", "--crash 5@10 4@20"),
        ("--crashed 4,5", "--crashed 4 5"),
        ("--pause 5@10..20,4@15..25", "--pause 5@10..20 --pause 4@15..25"),
        ("--partition '1,2|3,4,5@10..50' '1|2@60'", "--partition '1,2|3,4,5@10..50' --partition '1|2@60'"),
    ] {
        let (one, other) = (succeed(&format!("{base} {one}")), succeed(&format!("{base} {other}")));
        assert_eq!(one, other);
        assert_ne!(one, succeed(base));
    }
}

#[test]
fn one_run_has_the_promised_keys() {
    let result = json("suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 1");
    assert_eq!(result["algorithm"], "bully");
    assert_eq!((result["nodes"].as_u64(), result["seed"].as_u64()), (Some(6), Some(0)));
    assert_eq!((&result["leader"], &result["agreed"]), (&Value::from(5), &Value::from(true)));
    assert_eq!(result["leaders"], Value::from(vec![5]));
    assert_eq!(result["messages"]["total"], 29);
    assert_eq!(result["messages"]["by_kind"]["Election"], 15);
    assert_eq!(result["trace_hash"].as_str().unwrap().len(), 16);
    assert_eq!(result["violations"], Value::from(Vec::<u8>::new()));
    assert!(result["time"].is_number());
}

#[test]
fn many_runs_have_the_promised_keys_and_do_not_depend_on_jobs() {
    let line = "suffrage-lab simulate bully --latency exp:1 --loss 0.05 --runs 1500 --until 200 --seed 3";
    let result = json(&format!("{line} --jobs 1"));
    assert_eq!(result, json(&format!("{line} --jobs 4")));
    assert_eq!(result, json(line));
    assert_eq!((result["runs"].as_u64(), result["seed"].as_u64()), (Some(1500), Some(3)));
    let metrics = [
        "messages",
        "time",
        "decided",
        "agreed",
        "leaderships",
        "leaderless",
        "split",
        "events",
        "violations",
    ];
    let kinds = ["Election", "Answer", "Coordinator"].map(|kind| &result["by_kind"][kind]);
    for metric in metrics.iter().map(|metric| &result[metric]).chain(kinds) {
        let value = |key: &str| metric[key].as_f64().unwrap();
        assert!(value("lo") <= value("mean") && value("mean") <= value("hi"), "{metric}");
    }
    let agreed = result["agreed"]["mean"].as_f64().unwrap();
    assert!(0.0 < agreed && agreed < 1.0, "loss makes some runs disagree: {agreed}");
}

#[test]
fn many_runs_are_tabled_in_the_order_of_the_protocol_and_can_be_replayed() {
    let line = "suffrage-lab simulate bully --nodes 4 --latency uniform:0.5,1 --seed 3 --runs 20";
    let table = succeed(line);
    let place =
        |kind: &str| table.find(&format!("\n    {kind} ")).unwrap_or_else(|| panic!("{kind}: {table}"));
    assert!(place("Election") < place("Answer") && place("Answer") < place("Coordinator"), "{table}");
    assert!(!table.contains("uncounted"), "all messages are counted: {table}");
    let printed = succeed(&format!("{line} --json"));
    let key = |kind: &str| printed.find(&format!("\"{kind}\": {{")).unwrap();
    assert!(key("Election") < key("Answer") && key("Answer") < key("Coordinator"), "{printed}");
    let last = table.lines().last().unwrap().trim().strip_prefix("replay").expect("it ends with a replay");
    assert!(last.ends_with(" --seed 3"), "{last}");
    assert_eq!(succeed(last.trim()), succeed(&line.replace(" --runs 20", "")));
}

#[test]
fn uncounted_messages_are_listed_separately() {
    let table =
        succeed("suffrage-lab simulate chang-roberts --nodes 5 --crash 5@20 --detector ideal:2 --runs 3");
    let (counted, uncounted) = table.split_once("  uncounted by the source\n").expect(&table);
    assert!(counted.contains("\n    Election ") && !counted.contains("Ack"), "{table}");
    assert!(uncounted.contains("    Ack "), "{table}");
}

#[test]
fn a_single_run_has_no_interval() {
    let line = "suffrage-lab simulate bully --runs 1";
    let table = succeed(line);
    assert!(table.contains("\n1 run, seed 0\n"), "{table}");
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(".000")).collect();
    // A share of one run has an interval.
    let (shares, means): (Vec<&str>, Vec<&str>) =
        rows.iter().partition(|row| row.contains("agreed") || row.contains("promise broken"));
    assert!(means.len() > 5 && means.iter().all(|row| row.ends_with("   ±?")), "{table}");
    assert!(shares[0].ends_with("1.000   0.025 to 1.000"), "{table}");
    assert!(shares[1].ends_with("0.000   0.000 to 0.975"), "{table}");
    let messages = &json(line)["messages"];
    assert!(messages["mean"].is_number());
    assert_eq!((&messages["lo"], &messages["hi"]), (&Value::Null, &Value::Null));
    let help = succeed("suffrage-lab simulate bully --help");
    assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains("an interval needs at least two"));
}

/// A partition that `--heal-all-at` has ended is not reported as healed again.
#[test]
fn heal_all_at_ends_a_partition_once() {
    let line =
        "suffrage-lab simulate bully --partition '1,2|3,4,5@10..90' --heal-all-at 50 --detector ideal:2";
    for (flags, all_healed, healed) in [
        ("", "all faults end", "healed"),
        ("--diagram", "all faults end", "healed:"),
        ("--trace -", "\"healed_all\"", "\"healed\""),
    ] {
        let out = succeed(&format!("{line} {flags}"));
        assert!(out.contains(all_healed) && !out.contains(healed), "{flags}: {out}");
    }
    let reranked = succeed(&format!("{line} --rerank 2=9@60"));
    assert!(reranked.contains("60  2 has attribute 9 from now on"), "{reranked}");
}

#[test]
fn a_run_without_a_call_says_so() {
    let note = "  note      no process was told to call an election\n";
    for flags in ["", "--diagram", "--pause 5@1..2"] {
        let out = succeed(&format!("suffrage-lab simulate bully --initiator none {flags}"));
        assert!(out.contains(note) && !out.contains("\n\n\n"), "{flags}: {out}");
    }
    for flags in
        ["--initiator 1", "--initiator none --reaffirm 20", "--initiator none --crashed 5 --recover 5@3"]
    {
        let out = succeed(&format!("suffrage-lab simulate bully {flags}"));
        assert!(!out.contains(note), "{flags}: {out}");
    }
}

#[test]
fn crashes_that_lower_the_rank_are_shown() {
    let line = "suffrage-lab simulate bully --crash 5@20 --recover 5@40 --detector ideal:2 --rank quality";
    let out = succeed(&format!("{line} --rerank 4=-9@60"));
    assert!(out.contains("5 has crashed 1 time"), "{out}");
    assert!(out.contains("4 has attribute -9 from now on"), "{out}");
}

#[test]
fn a_process_without_a_candidate_is_reported_once() {
    let line = "suffrage-lab simulate candidate-ordinary --candidates 5 --crashed 5";
    for line in [line.to_string(), format!("{line} --diagram")] {
        let out = succeed(&line);
        assert_eq!(out.matches("1 finds no process that may lead").count(), 1, "{out}");
    }
}

#[test]
fn strict_turns_a_broken_promise_into_an_exit_code() {
    let broken = "suffrage-lab simulate bully --loss 1 --until 50";
    assert_eq!(run(broken).code, 0);
    assert!(run(broken).out.contains("BROKEN    "));
    assert_eq!(run(&format!("{broken} --strict")).code, 1);
    assert_eq!(run(&format!("{broken} --strict --runs 3")).code, 1);
    assert_eq!(run("suffrage-lab simulate bully --strict").code, 0);
}

/// The printed command replays the run that broke a promise.
#[test]
fn a_printed_replay_replays() {
    let many = succeed("suffrage-lab simulate bully --nodes 4 --loss 0.3 --runs 50 --until 100 --rank 2=9");
    let replay = many.lines().find_map(|line| line.trim().strip_prefix("replay")).unwrap().trim();
    assert!(replay.contains("--loss 0.3 --until 100 --seed "), "{replay}");
    let broken = many.lines().find(|line| line.contains("BROKEN")).unwrap();
    let again = succeed(replay);
    let detail = broken.rsplit(": ").next().unwrap();
    assert!(again.contains(detail), "{broken}\n{again}");
    let itself = again.lines().find_map(|line| line.trim().strip_prefix("replay")).unwrap().trim();
    assert_eq!(itself, replay);
}

#[test]
fn traces_are_json_lines() {
    let file = std::env::temp_dir().join(format!("suffrage-trace-{}.jsonl", std::process::id()));
    let flags = "--crash 5@10 --partition '1|2@20..30' --detector ideal:2";
    let line = format!("suffrage-lab simulate bully {flags} --trace");
    let text = succeed(&format!("{line} {}", file.display()));
    assert!(text.contains("4 leads"));
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(succeed(&format!("{line} -")), written);
    let events: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["members"], Value::from(vec![1, 2, 3, 4, 5]));
    let kinds: BTreeSet<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    for kind in ["sent", "delivered", "dropped", "elected", "crashed", "cut", "healed", "suspected"] {
        assert!(kinds.contains(kind), "{kind} of {kinds:?}");
    }
    let times: Vec<f64> = events.iter().map(|event| event["at"].as_f64().unwrap()).collect();
    assert!(times.is_sorted());
    let cut = events.iter().find(|event| event["event"] == "cut").unwrap();
    assert_eq!(cut["groups"], serde_json::json!([[1], [2]]));
}

#[test]
fn a_file_that_cannot_be_written_is_exit_1() {
    let ran = run("suffrage-lab simulate bully --trace /there/is/no/such/folder/x.jsonl");
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: cannot write /there/is/no/such/folder/x.jsonl: "), "{}", ran.err);
}

/// Lifelines are below the names of their processes.
#[test]
fn diagrams_are_aligned() {
    for contract in CONTRACTS {
        let name = contract.name;
        let out = succeed(&format!(
            "suffrage-lab simulate {name} --ids 7,123,45,6,89 --crash 123@20 --recover 123@60 --detector ideal:2 \
             --pause 6@90..95 --latency uniform:0.5,1 --diagram"
        ));
        let mut lines = out.lines().skip_while(|line| !line.trim_start().starts_with("time"));
        let heading = lines.next().unwrap();
        let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(rows.len() > 10, "{name}");
        // 7 is alive all the time, and nothing else is drawn in its column.
        let column = heading.find('7').unwrap();
        for row in rows {
            let cell = row.chars().nth(column).unwrap();
            assert!("│├┤●★☆○?!◦±╪".contains(cell), "{name}: {row}");
        }
    }
}

#[test]
fn algorithms_lists_all_algorithms() {
    let (table, markdown) =
        (succeed("suffrage-lab algorithms"), succeed("suffrage-lab algorithms --markdown"));
    let contracts = json("suffrage-lab algorithms");
    assert_eq!(contracts.as_array().unwrap().len(), CONTRACTS.len());
    for (contract, json) in CONTRACTS.iter().zip(contracts.as_array().unwrap()) {
        assert!(table.contains(&format!("\n{} ", contract.name)));
        assert!(markdown.contains(&format!("| `{}` |", contract.name)));
        assert_eq!(json["name"], contract.name);
        assert_eq!(json["messages"]["worst"], contract.messages.worst.text);
        let one = succeed(&format!("suffrage-lab algorithms {}", contract.name));
        for fact in [contract.summary, contract.messages.best.text, contract.time.worst.text] {
            assert!(one.contains(fact), "{}: {fact}", contract.name);
        }
    }
}

struct Options;
impl Visitor for Options {
    type Output = Vec<(&'static str, &'static str)>;
    fn visit<A: Algorithm>(self) -> Self::Output {
        A::PARAMETERS.iter().map(|parameter| (parameter.name, parameter.value)).collect()
    }
}

#[test]
fn help_lists_the_options_of_every_algorithm() {
    for contract in CONTRACTS {
        let help = succeed(&format!("suffrage-lab simulate {} --help", contract.name));
        for fact in [contract.summary, contract.source, "Exit codes", "--partition <GROUPS@FROM..TO>"] {
            assert!(help.contains(fact), "{}: {fact}", contract.name);
        }
        for (name, value) in catalog::visit(contract.name, Options).unwrap() {
            let shown = match value {
                suffrage_core::SWITCH => format!("--{name} [<{value}>]"),
                _ => format!("--{name} <{value}>"),
            };
            assert!(help.contains(&shown), "{}: --{name}", contract.name);
        }
    }
}

/// `--forget-votes` and `--forget-votes on` are the same run; `off` is accepted too.
#[test]
fn a_switch_without_a_value_is_on() {
    let hash =
        |line: &str| json(&format!("suffrage-lab simulate raft --until 90 {line}"))["trace_hash"].clone();
    assert_eq!(hash("--pre-vote"), hash("--pre-vote on"));
    assert_eq!(hash("--pre-vote --check-quorum"), hash(""));
    assert_ne!(hash("--pre-vote off"), hash(""));
    assert!(succeed("suffrage-lab simulate raft --forget-votes").contains("--forget-votes on --seed 0"));
    let ran = run("suffrage-lab simulate raft --pre-vote perhaps");
    assert_eq!((ran.code, ran.err.contains("neither `on` nor `off`")), (2, true), "{}", ran.err);
}

/// The examples of all help texts succeed.
#[test]
fn the_examples_in_help_texts_run() {
    let folder = std::env::temp_dir().join(format!("suffrage-examples-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut pages = vec!["suffrage-lab".to_string()];
    let commands = ["demo", "algorithms", "simulate", "simulate-detector", "simulate-multicast", "group"];
    pages.extend(commands.map(|command| format!("suffrage-lab {command}")));
    pages.extend(CONTRACTS.iter().map(|contract| format!("suffrage-lab simulate {}", contract.name)));
    for page in pages {
        let help = succeed(&format!("{page} --help"));
        let examples: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Examples:")
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| line.starts_with("suffrage-lab "))
            .collect();
        assert!(examples.len() >= 2, "{page}");
        // Examples that start processes are tested in `members`.
        let starts = |example: &str| {
            example.starts_with("suffrage-lab run")
                || (example.starts_with("suffrage-lab demo") && !example.contains("--simulated"))
        };
        for example in examples.into_iter().filter(|example| !starts(example)) {
            let out = succeed(&example.replace(" run.", &format!(" {}/run.", folder.display())));
            assert_eq!(out.contains("BROKEN"), example.contains("--expect-violation"), "{example}\n{out}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// An engine with the timings of the wire joins no election with a shorter lease: the run would be one without a leader.
#[test]
fn leases_outside_of_the_limits_of_the_wire_are_refused() {
    for (line, part) in [
        (
            "simulate quorum-lease --renew auto --delay-bound 0.01",
            "--ttl: makes leases of 300us, because a message delay is 10us; with `--renew auto` the shortest is 10ms: \
             use at least 1000 delays",
        ),
        ("simulate quorum-lease --renew auto --ttl 9 --latency const:1", "use at least 10 delays"),
        (
            "simulate quorum-lease --renew auto --ttl 1000000 --delay-bound 20",
            "the longest is 3h: use at most 540000 delays",
        ),
        ("simulate quorum-lease --delay-bound 60001", "--delay-bound: a message delay of 60.001s is invalid"),
        // A torture divides delay bounds by at most 5 with this ttl.
        ("torture quorum-lease --renew auto --ttl 48 --seeds 0..1", "--ttl: makes leases of 9.6ms"),
        ("torture quorum-lease --renew auto --ttl 9 --seeds 0..1", "--ttl: makes leases of 9ms"),
    ] {
        let ran = run(&format!("suffrage-lab {line}"));
        assert!(ran.code == 2 && ran.err.contains(part), "{line}: {} {}", ran.code, ran.err);
    }
    let least = run(
        "suffrage-lab simulate quorum-lease --renew auto --delay-bound 0.01 --ttl 1000 --latency const:0.01",
    );
    assert!(least.code == 0 && least.out.contains("leads"), "{} {}", least.out, least.err);
}

#[test]
fn help_and_completions_are_commands() {
    assert!(succeed("suffrage-lab help simulate-detector").contains("Usage: suffrage-lab simulate-detector"));
    let script = succeed("suffrage-lab completions fish");
    assert!(script.contains("complete -c suffrage-lab") && script.contains("simulate-detector"), "{script}");
}

#[test]
fn the_demo_ends_by_itself_and_its_next_step_works() {
    for contract in CONTRACTS {
        let out =
            succeed(&format!("suffrage-lab demo --simulated --algorithm {} --nodes 4 --once", contract.name));
        let leads = |before: &str| out.split_once(before)?.1.split_once(" leads").map(|(leader, _)| leader);
        let first = leads("Step 2. ").unwrap_or_else(|| panic!("{}: no leader\n{out}", contract.name));
        let second = leads(&format!("{first} has crashed, "));
        if contract.choice == Choice::Best {
            assert_eq!((first, second), ("4", Some("3")), "{}\n{out}", contract.name);
        }
        assert!(second.is_some_and(|second| second != first), "{}\n{out}", contract.name);
        for word in ["Step 1.", &format!("{first} leads"), "Step 2.", &format!("{first} crashes"), "Step 3."]
        {
            assert!(out.contains(word), "{}: {word}\n{out}", contract.name);
        }
        let next = out.lines().map(str::trim).find(|line| line.starts_with("suffrage-lab simulate")).unwrap();
        assert!(succeed(next).contains(&format!("{first} recovers")), "{next}");
    }
    let first = succeed("suffrage-lab demo --simulated --once --algorithm bully --nodes 5");
    assert_eq!(succeed("suffrage-lab demo --simulated"), first);
    let ran = run("suffrage-lab demo --algorithm bully --seed 3");
    assert_eq!(
        (ran.code, ran.err.contains("--seed: applies only with --simulated")),
        (2, true),
        "{}",
        ran.err
    );
    let ran = run("suffrage-lab demo --nodes 10");
    assert_eq!((ran.code, ran.err.contains("up to 9 nodes")), (2, true), "{}", ran.err);
}

#[test]
fn a_closed_pipe_is_no_error() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut err = Vec::new();
    let words = ["suffrage", "simulate", "bully"];
    assert_eq!(
        suffrage_lab::run(words.iter().map(Into::into).collect(), &mut Console::plain(&mut Closed, &mut err)),
        0
    );
    assert!(err.is_empty());
}

/// Message counts from the sources.
#[test]
fn exact_counts() {
    let counts = |line: &str| {
        let result = json(&format!("suffrage-lab simulate {line}"));
        let leader = result["leader"].as_u64().map(NodeId);
        (result["messages"]["total"].as_u64().unwrap(), leader.map_or(0, |leader| leader.0))
    };
    for nodes in [3, 6, 20, 50] {
        let worst = counts(&format!("bully --nodes {nodes} --crashed {nodes} --initiator 1"));
        assert_eq!(worst, (nodes * nodes - nodes - 1, nodes - 1));
        assert_eq!(counts(&format!("bully --nodes {nodes} --initiator {nodes}")), (nodes - 1, nodes));
    }
    assert_eq!(counts("modified-bully --nodes 6 --crashed 6 --initiator 3"), (10, 5));
    assert_eq!(counts("next-in-line --nodes 6 --crashed 6 --initiator 3 --alternatives 5,4"), (6, 5));
    assert_eq!(counts("chang-roberts --nodes 1000 --initiator 1"), (2999, 1000));
    assert_eq!(counts("chang-roberts --nodes 1000 --initiator 1000"), (2000, 1000));
    assert_eq!(counts("collecting-ring --nodes 6 --crashed 6 --initiator 3"), (12, 5));
    assert_eq!(counts("maximum-ring --nodes 6 --initiator 3"), (12, 6));
    assert_eq!(counts("raft --nodes 6 --initiator 3 --until 5"), (25, 3));
}

/// Contenders are drawn from the live processes, also after random crashes, and no other process calls an election.
#[test]
fn contenders_are_alive_and_as_many_as_asked_for() {
    let line = "suffrage-lab simulate randomized --nodes 40 --contenders 8 --fail 0.5 --fail-within 0";
    for seed in 0..20 {
        let outcome = json(&format!("{line} --seed {seed}"));
        let contenders = outcome["figures"]["contenders"].as_f64().unwrap();
        assert!(contenders == 8.0, "seed {seed}: {contenders}");
    }
}

/// The JSON of a tournament, of one run and of many: winners, messages by phase and kind, contenders by round, rounds
/// and time.
#[test]
fn tournaments_are_reported_by_phases_and_rounds() {
    let line = "suffrage-lab simulate randomized --nodes 300 --contenders 0.5 --latency uniform:0,1";
    let one = json(line);
    assert_eq!(one["winners"], serde_json::json!({ "0": 0, "1": 1, "2_or_more": 0 }));
    let rounds = one["contenders_by_round"].as_array().unwrap();
    assert_eq!(rounds[0], 150.0);
    assert_eq!(one["rounds"].as_f64().unwrap(), rounds.len() as f64 + 1.0);
    assert!(one["time_tau"].as_f64().unwrap() > 4.0);
    let phases = one["messages_by_phase"].as_object().unwrap();
    let sum = |phase: &str| phases[phase].as_object().unwrap().values().map(|it| it.as_f64().unwrap()).sum();
    let (first, second): (f64, f64) = (sum("first"), sum("second"));
    assert_eq!(first + second, one["messages"]["total"].as_f64().unwrap());
    assert_eq!(phases["announcement"], serde_json::json!({ "Elected": 1.0 }));

    let many = json(&format!("{line} --runs 10"));
    let winners = &many["winners"];
    let runs: u64 = ["0", "1", "2_or_more"].iter().map(|&count| winners[count].as_u64().unwrap()).sum();
    assert_eq!(runs, 10);
    assert_eq!(many["contenders_by_round"][0]["mean"], 150.0);
    assert_eq!(many["messages_by_phase"]["second"]["REQ"], many["by_kind"]["REQ"]);
    assert!(many["rounds"]["mean"].as_f64().unwrap() > 1.0 && many["time_tau"]["lo"].is_number());
    let quorums = json("suffrage-lab simulate probabilistic-quorum --nodes 30 --contenders 3");
    assert_eq!(quorums["winners"]["1"], 1);
    assert_eq!(json("suffrage-lab simulate bully")["winners"], Value::Null);
}
