//! Traces: every line fits the schema, messages have numbers, and the formats of other viewers are theirs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use suffrage_algorithms::catalog::CONTRACTS;

use crate::support::{path, run, succeed};

/// Flags with every kind of event: each kind of fault, a detector that errs, a rank that changes.
const FAULTS: &str = "--crash 5@10 --recover 5@40 --pause 4@12..19 --partition '1,2|3,4,5@50..70' --jump 2@30+3 \
                      --rerank 3=9@80 --loss 0.1 --duplicate 0.1 --latency uniform:0.5,1.5 --detector ideal:2 \
                      --heal-all-at 90 --until 120 --trace -";

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// The part of JSON Schema that `docs/trace-format.schema.json` uses.
fn violation(schema: &Value, root: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.strip_prefix('#').unwrap()).expect("a reference has a target");
        return violation(target, root, value);
    }
    if let Some(wanted) = schema.get("const")
        && wanted != value
    {
        return Some(format!("{value} is not {wanted}"));
    }
    if let Some(allowed) = schema.get("enum")
        && !allowed.as_array().unwrap().contains(value)
    {
        return Some(format!("{value} is none of {allowed}"));
    }
    let fits = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some(other) => panic!("the test does not know the type {other}"),
    };
    if !fits {
        return Some(format!("{value} is not of type {}", schema["type"]));
    }
    if let Some(least) = schema["minimum"].as_f64()
        && value.as_f64().is_some_and(|number| number < least)
    {
        return Some(format!("{value} is below {least}"));
    }
    if let Some(all) = value.as_array()
        && let Some(reason) = all.iter().find_map(|item| violation(schema.get("items")?, root, item))
    {
        return Some(reason);
    }
    let fields = value.as_object()?;
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(missing) = required.iter().find(|name| !fields.contains_key(name.as_str().unwrap())) {
        return Some(format!("{missing} is missing"));
    }
    fields.iter().find_map(|(name, field)| {
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(schema), _) => violation(schema, root, field),
            (None, Value::Bool(false)) => Some(format!("{name} is unknown")),
            (None, other) if other.is_object() => violation(other, root, field),
            _ => None,
        }
        .map(|reason| format!("{name}: {reason}"))
    })
}

/// The schema, and the name of the event of each of its alternatives.
fn schema() -> Value {
    let text = std::fs::read_to_string(path("docs/trace-format.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The reason why a line does not fit the schema. Exactly one alternative has the line's event.
fn misfit(schema: &Value, line: &Value) -> Option<String> {
    let of_event = |one: &&Value| one["properties"]["event"]["const"] == line["event"];
    let alternatives: Vec<&Value> = schema["oneOf"].as_array().unwrap().iter().filter(of_event).collect();
    match alternatives.as_slice() {
        [one] => violation(one, schema, line),
        other => Some(format!("{} alternatives", other.len())),
    }
}

#[test]
fn every_line_of_every_algorithm_fits_the_schema() {
    let schema = schema();
    let mut seen = BTreeSet::new();
    let lease = "suffrage-lab simulate quorum-lease --slow 2@20 --late 0.5:3@35 --slow-disk 1@20 --until 120";
    let stepped_down = "suffrage-lab simulate raft --partition '1,2|3,4,5@20..60' --until 90 --trace -";
    let violated = "suffrage-lab simulate raft --loss 0.3 --until 100 --seed 4 --trace -";
    let mut commands: Vec<String> = CONTRACTS
        .iter()
        .map(|contract| format!("suffrage-lab simulate {} {FAULTS}", contract.name))
        .collect();
    commands.extend([
        format!("{lease} --trace - --vector-clocks"),
        violated.to_string(),
        stepped_down.to_string(),
    ]);
    for command in commands {
        for line in lines(&succeed(&command)) {
            assert_eq!(misfit(&schema, &line), None, "{command}\n{line}");
            seen.insert(line["event"].as_str().unwrap().to_string());
        }
    }
    // Every alternative is in some trace, so none is dead.
    let alternatives = schema["oneOf"].as_array().unwrap().iter();
    let all: BTreeSet<String> =
        alternatives.map(|one| one["properties"]["event"]["const"].as_str().unwrap().to_string()).collect();
    assert_eq!(all.difference(&seen).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn the_schema_refuses_what_does_not_fit() {
    let schema = schema();
    let good = r#"{"at":1.0,"event":"suspected","node":1,"peer":2}"#;
    assert_eq!(misfit(&schema, &serde_json::from_str(good).unwrap()), None);
    for bad in [
        r#"{"at":1.0,"event":"suspected","node":1}"#,
        r#"{"at":1.0,"event":"suspected","node":1,"peer":"2"}"#,
        r#"{"at":-1.0,"event":"suspected","node":1,"peer":2}"#,
        r#"{"at":1.0,"event":"suspected","node":1,"peer":2,"more":0}"#,
        r#"{"at":1.0,"event":"doubted","node":1,"peer":2}"#,
        r#"{"at":1.0,"event":"cut","groups":[[1],["2"]],"one_way":false}"#,
    ] {
        assert!(misfit(&schema, &serde_json::from_str(bad).unwrap()).is_some(), "{bad}");
    }
}

/// Each message is delivered or dropped at most once (a multicast: once at each receiver), after it was sent, between the
/// same processes, and not before it can arrive.
#[test]
fn messages_are_numbered_from_their_sending_to_their_end() {
    for contract in CONTRACTS {
        // Multicasts are sent as one event where all receivers are reached at the same time.
        let on_time = FAULTS.replace("--duplicate 0.1 --latency uniform:0.5,1.5", "");
        assert_ne!(on_time, FAULTS);
        for flags in [FAULTS.to_string(), on_time] {
            let command = format!("suffrage-lab simulate {} {flags}", contract.name);
            let mut sent: BTreeMap<u64, Value> = BTreeMap::new();
            let mut ended = BTreeSet::new();
            let mut delivered = 0;
            for line in lines(&succeed(&command)) {
                let Some(message) = line["message"].as_u64() else {
                    let event = line["event"].as_str().unwrap();
                    assert!(
                        !["sent", "multicast", "delivered", "dropped"].contains(&event),
                        "{command}\n{line}"
                    );
                    continue;
                };
                if let Some(multicast) = line["multicast"].as_u64() {
                    let start = &sent[&multicast];
                    let whole = (&start["event"], &start["from"], &start["kind"]);
                    assert_eq!(
                        whole,
                        (&"multicast".into(), &line["from"], &line["kind"]),
                        "{command}\n{line}"
                    );
                    assert!(
                        !line.get("content").is_some_and(|content| *content != start["content"]),
                        "{line}"
                    );
                }
                if line.get("content").is_some() {
                    assert_eq!(message, sent.len() as u64 + 1, "{command}: numbers count\n{line}");
                    assert!(sent.insert(message, line.clone()).is_none(), "{command}\n{line}");
                    if line["event"] != "dropped" {
                        continue;
                    }
                }
                let start = sent.get(&message).unwrap_or_else(|| panic!("{command}\n{line}"));
                delivered += u64::from(line["event"] == "delivered");
                assert_eq!(
                    (&line["from"], &line["kind"]),
                    (&start["from"], &start["kind"]),
                    "{command}\n{line}"
                );
                let to = if start["event"] == "multicast" { Value::Null } else { line["to"].clone() };
                assert_eq!(to, start["to"], "{command}\n{line}");
                assert!(ended.insert((message, line["to"].to_string())), "{command}: twice\n{line}");
                if let Some(arrives) = start["arrives"].as_f64() {
                    let at = line["at"].as_f64().unwrap();
                    assert!(at >= arrives, "{command}\n{line}");
                    // Only a paused process handles a message later.
                    assert!(at == arrives || line["to"] == 4, "{command}\n{line}");
                }
            }
            assert!(delivered > 3, "{command}: {delivered}");
        }
    }
}

#[test]
fn contents_are_structured() {
    let trace = succeed("suffrage-lab simulate raft --nodes 3 --initiator 2 --until 10 --trace -");
    let lines = lines(&trace);
    let vote = lines.iter().find(|line| line["kind"] == "RequestVote").unwrap();
    assert!(vote["content"]["RequestVote"]["term"].is_number(), "{vote}");
    assert!(!trace.contains("Term("), "no text of a Rust debugger");
}

/// A log for ShiViz: the expression, an empty line, and events whose host counts its own events one by one, and knows of
/// another host only what exists.
fn check_shiviz(command: &str) -> BTreeMap<String, u64> {
    let log = succeed(command);
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some(r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"));
    assert_eq!(lines.next(), Some(""));
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    let mut clocks: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    while let Some(stamp) = lines.next() {
        let event = lines.next().expect("an event has two lines");
        assert!(!event.is_empty() && !event.contains("} "), "{event}");
        let (host, clock) = stamp.split_once(' ').unwrap();
        let clock: BTreeMap<String, u64> = serde_json::from_str(clock).unwrap();
        let own = hosts.entry(host.to_string()).or_default();
        *own += 1;
        assert_eq!(clock.get(host), Some(&*own), "{stamp}");
        for (other, count) in &clock {
            assert!(*count >= 1 && hosts.get(other).is_some_and(|known| count <= known), "{stamp}");
        }
        // A host forgets nothing.
        let before = clocks.insert(host.to_string(), clock.clone()).unwrap_or_default();
        assert!(before.iter().all(|(other, count)| clock.get(other) >= Some(count)), "{stamp}");
    }
    hosts
}

#[test]
fn logs_for_shiviz_have_its_grammar_and_true_vector_clocks() {
    let hosts = check_shiviz("suffrage-lab simulate bully --nodes 3 --initiator 1 --trace - --format shiviz");
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["p1", "p2", "p3"]);
    for contract in CONTRACTS {
        check_shiviz(&format!("suffrage-lab simulate {} {FAULTS} --format shiviz", contract.name));
    }
    // 1 sends to 2 and 3, which is in the clock of what 3 does next.
    let log = succeed("suffrage-lab simulate bully --nodes 3 --initiator 1 --trace - --format shiviz");
    let heard =
        log.lines().zip(log.lines().skip(1)).find(|(_, event)| event.starts_with("gets Election from 1"));
    assert_eq!(heard.unwrap().0, r#"p2 {"p1": 2, "p2": 1}"#);
}

/// The documented fields of the Trace Event Format, by phase.
#[test]
fn traces_for_perfetto_have_the_documented_fields() {
    for name in ["bully", "quorum-lease", "announce", "raft"] {
        let text = succeed(&format!("suffrage-lab simulate {name} {FAULTS} --format perfetto"));
        let trace: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(trace["displayTimeUnit"], "ms");
        assert_eq!(trace["otherData"]["algorithm"], name);
        let (mut depth, mut open, mut flows) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut last = 0.0;
        for event in trace["traceEvents"].as_array().unwrap() {
            let phase = event["ph"].as_str().unwrap();
            assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
            if phase == "M" {
                assert!(["process_name", "thread_name"].contains(&event["name"].as_str().unwrap()));
                assert!(event["args"]["name"].is_string());
                continue;
            }
            let at = event["ts"].as_f64().unwrap();
            assert!(at >= last, "{event}");
            last = at;
            let thread = (event["pid"].to_string(), event["tid"].to_string());
            let id = (event["cat"].to_string(), event["id"].to_string());
            match phase {
                "X" => assert!(event["dur"].as_f64().unwrap() > 0.0),
                "i" => assert_eq!(event["s"], "g"),
                "B" => assert_eq!(depth.insert(thread, 1), None, "{event}"),
                "E" => assert_eq!(depth.remove(&thread), Some(1), "{event}"),
                "b" => assert!(open.insert(id), "{event}"),
                "e" => assert!(open.remove(&id), "{event}"),
                "s" => assert!(flows.insert(id), "{event}"),
                "f" => assert!(event["bp"] == "e" && flows.contains(&id), "{event}"),
                other => panic!("{other}: {event}"),
            }
        }
        assert!(depth.is_empty() && open.is_empty(), "{name}: everything ends");
        assert!(flows.len() > 3);
    }
}

#[test]
fn a_recorded_trace_is_read_and_converted() {
    let folder = std::env::temp_dir().join(format!("suffrage-convert-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("run.jsonl");
    let simulate = "suffrage-lab simulate bully --nodes 3 --crash 3@10 --detector ideal:2 --trace";
    succeed(&format!("{simulate} {}", file.display()));
    let recorded = std::fs::read_to_string(&file).unwrap();
    assert_eq!(succeed(&format!("suffrage-lab convert {}", file.display())), recorded);
    for format in ["shiviz", "perfetto"] {
        let direct = succeed(&format!("{simulate} - --format {format}"));
        let out = folder.join(format);
        let command = format!("suffrage-lab convert {} --format {format}", file.display());
        assert_eq!(succeed(&command), direct);
        succeed(&format!("{command} --out {}", out.display()));
        assert_eq!(std::fs::read_to_string(out).unwrap(), direct);
    }
    let itself = run(&format!("suffrage-lab convert {0} --out {0}", file.display()));
    assert_eq!(itself.code, 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), recorded, "the trace is as it was");
    let lines: Vec<&str> = recorded.lines().collect();
    let newer = lines[0].replace("\"version\":1", "\"version\":2");
    for (text, reason) in [
        ("".to_string(), "the file is empty"),
        ("time  1  2\n".to_string(), "line 1: this is not the header of a trace; record a trace with"),
        (format!("{newer}\n"), "line 1: the trace has version 2, and this program reads up to 1"),
        (format!("{}\n{{\"at\":1}}\n", lines[0]), "line 2 is not an event of a trace: missing field `event`"),
        (format!("{}\n{}\n{}\n", lines[0], lines[lines.len() - 1], lines[1]), "line 3: the time 0 is before"),
        (format!("{recorded}{recorded}"), "a second trace begins; split the file"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = run(&format!("suffrage-lab convert {}", file.display()));
        assert_eq!(ran.code, 1, "{reason}");
        assert!(ran.err.starts_with("error: cannot read ") && ran.err.contains(reason), "{}", ran.err);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
