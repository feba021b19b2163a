//! The texts of the gallery, compared with the runs that they describe.
//!
//! Beside each text stand its facts, and each fact is looked up in the run. A text may name no number that is neither in
//! its facts nor in the flags of the run. Facts are separated by semicolons:
//!
//! - `processes N`, `calls ID`, `crashed ID`, `recovered ID`, `cut off N` (a part of a cut has N processes);
//! - `ID sends KIND to ID [at TIME]`, `ID multicasts KIND`, `ID leads [in term T] [at TIME]`;
//! - `messages N`, `multicasts N`, `figure NAME VALUE`: as the report counts;
//! - `leader ID` or `nobody leads`: in the end; `together N`: the most leaders at one time;
//! - `no leader between TIME and TIME`; `steps N`: of a schedule of the model checker.

use std::collections::BTreeSet;

use serde_json::Value;
use suffrage_core::NodeId;

use super::entries::{By, ENTRIES};
use crate::picture::Intervals;
use crate::trace::{self, Header, Line, Sink};

/// A run of the simulator or a schedule of the model checker.
#[derive(Default)]
struct Run {
    members: Vec<NodeId>,
    crashed: Vec<NodeId>,
    lines: Vec<Line>,
    intervals: Intervals,
    report: Value,
    /// The leaders of a schedule, and their terms if the schedule shows them.
    schedule_leaders: BTreeSet<(u64, Option<u64>)>,
    steps: Option<usize>,
}

impl Sink for Run {
    fn open(&mut self, header: &Header) -> std::io::Result<()> {
        (self.members, self.crashed) = (header.members.clone(), header.crashed.clone());
        self.intervals = Intervals::new(&header.crashed);
        Ok(())
    }

    fn line(&mut self, line: &Line) -> std::io::Result<()> {
        self.intervals.line(line);
        self.lines.push(line.clone());
        Ok(())
    }

    fn close(&mut self) -> std::io::Result<()> {
        self.intervals.close();
        Ok(())
    }
}

fn json(words: &str) -> Value {
    serde_json::from_slice(&super::output(words).unwrap()).unwrap()
}

fn simulated(words: &str) -> Run {
    let mut run = Run::default();
    let recorded = super::output(&format!("simulate {words} --trace -")).unwrap();
    trace::read(recorded.as_slice(), &mut run).unwrap();
    run.close().unwrap();
    run.report = json(&format!("simulate {words} --json"));
    run
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}

/// The process that takes a step: `the timer Hop of 2 fires; …`, `2 is told …`, `Ack from 1 reaches 2; …`.
fn actor(step: &str) -> u64 {
    let action = step.split(';').next().unwrap();
    numbers(action).last().unwrap_or_else(|| panic!("{step}: nobody acts"))
}

fn checked(words: &str) -> Run {
    let report = json(&format!("check {words} --expect-violation --json"));
    let verdicts = report["verdicts"].as_array().unwrap();
    let broken = verdicts.iter().find(|verdict| verdict["outcome"] == "broken").unwrap();
    let schedule: Vec<&str> =
        broken["schedule"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut leaders: BTreeSet<(u64, Option<u64>)> = BTreeSet::new();
    for step in &schedule {
        if let Some((_, after)) = step.split_once("LEADS in term ") {
            leaders.insert((actor(step), numbers(after).next()));
        }
    }
    let explanation = broken["explanation"].as_str().unwrap();
    for id in numbers(explanation) {
        if !leaders.iter().any(|(leader, _)| *leader == id) {
            leaders.insert((id, None));
        }
    }
    Run { schedule_leaders: leaders, steps: Some(schedule.len()), ..Run::default() }
}

/// The text without ` at TIME` at its end, and the time.
fn timed(fact: &str) -> (&str, Option<f64>) {
    match fact.split_once(" at ") {
        Some((fact, at)) => (fact, Some(at.parse().unwrap())),
        None => (fact, None),
    }
}

impl Run {
    fn has(&self, event: &str, fits: impl Fn(&Line) -> bool) -> bool {
        self.lines.iter().any(|line| serde_json::to_value(line.event).unwrap() == event && fits(line))
    }

    fn sends(&self, from: u64, kind: &str, to: u64, at: Option<f64>) -> bool {
        let fits = |line: &Line| {
            line.from == Some(NodeId(from))
                && line.to == Some(NodeId(to))
                && line.kind.as_deref() == Some(kind)
                && at.is_none_or(|at| line.at == at)
        };
        self.has("sent", fits) || self.has("dropped", |line| fits(line) && line.content.is_some())
    }

    fn leads(&self, id: u64, term: Option<u64>, at: Option<f64>) -> bool {
        let in_schedule = self
            .schedule_leaders
            .iter()
            .any(|(leader, led)| *leader == id && (term.is_none() || *led == term));
        let fits = |line: &Line| {
            line.node == Some(NodeId(id))
                && line.leader == line.node
                && term.is_none_or(|term| line.term.is_some_and(|led| led.0 == term))
                && at.is_none_or(|at| line.at == at)
        };
        in_schedule || self.has("elected", fits)
    }

    /// The most leaders at one time.
    fn together(&self) -> usize {
        let led = self.schedule_leaders.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len();
        let counts = self.intervals.leader_counts();
        counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(led)
    }

    /// Whether nobody leads from a moment to another, their ends excluded.
    fn is_leaderless(&self, from: f64, to: f64) -> bool {
        let counts = self.intervals.leader_counts();
        let ends = counts.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        counts.iter().zip(ends).all(|((at, count), end)| *count == 0 || end <= from || *at >= to)
    }

    fn holds(&self, fact: &str) -> bool {
        let id = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{fact}: no id"));
        let is = |line: &Line, node: &str| line.node == Some(NodeId(id(node)));
        let (untimed, at) = timed(fact);
        let words: Vec<&str> = untimed.split_whitespace().collect();
        match words.as_slice() {
            ["processes", count] => self.members.len() as u64 == id(count),
            ["steps", count] => self.steps == Some(id(count) as usize),
            ["together", count] => self.together() as u64 == id(count),
            ["calls", node] => self.has("commanded", |line| is(line, node)),
            ["crashed", node] => {
                self.crashed.contains(&NodeId(id(node))) || self.has("crashed", |line| is(line, node))
            }
            ["recovered", node] => self.has("recovered", |line| is(line, node)),
            ["cut", "off", count] => self
                .has("cut", |line| line.groups.iter().flatten().any(|group| group.len() as u64 == id(count))),
            ["messages", count] => self.report["messages"]["total"] == id(count),
            ["multicasts", count] => self.report["messages"]["multicasts"] == id(count),
            ["figure", name, value] => self.report["figures"][name].as_f64() == Some(id(value) as f64),
            ["leader", node] => self.report["agreed"] == true && self.report["leader"] == id(node),
            ["nobody", "leads"] => self.report["leaders"].as_array().is_some_and(Vec::is_empty),
            ["no", "leader", "between", from, "and", to] => {
                self.is_leaderless(id(from) as f64, id(to) as f64)
            }
            [from, "sends", kind, "to", to] => self.sends(id(from), kind, id(to), at),
            [from, "multicasts", kind] => self.has("multicast", |line| {
                line.from == Some(NodeId(id(from))) && line.kind.as_deref() == Some(*kind)
            }),
            [node, "leads"] => self.leads(id(node), None, at),
            [node, "leads", "in", "term", term] => self.leads(id(node), Some(id(term)), at),
            _ => panic!("{fact}: unknown fact"),
        }
    }
}

/// The numbers of a text, as digits or as words.
fn numbers_of(text: &str) -> BTreeSet<String> {
    const WORDS: [&str; 9] = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let trim = |word: &str| {
        let end = |letter: char| !letter.is_alphanumeric();
        word.trim_matches(end).to_lowercase()
    };
    let of_word = |word: &str| match WORDS.iter().position(|known| *known == word) {
        Some(index) => Some((index + 2).to_string()),
        None => word.parse::<f64>().is_ok().then(|| word.to_string()),
    };
    text.split([' ', ',', '=', '|', '@', '%', '`']).filter_map(|word| of_word(&trim(word))).collect()
}

/// What is wrong with a text about a run.
fn mistakes(run: &Run, words: &str, note: &str, facts: &str) -> Vec<String> {
    let facts: Vec<&str> = facts.split("; ").collect();
    let wrong = facts.iter().filter(|fact| !run.holds(fact)).map(|fact| format!("not so: {fact}"));
    let known: BTreeSet<String> =
        facts.iter().flat_map(|fact| numbers_of(fact)).chain(numbers_of(words)).collect();
    let unknown = numbers_of(note).into_iter().filter(|number| !known.contains(number));
    wrong.chain(unknown.map(|number| format!("{number} is in no fact"))).collect()
}

#[test]
fn what_the_gallery_says_of_a_run_is_so() {
    let mut all = Vec::new();
    for entry in ENTRIES {
        let run = simulated(entry.figure);
        let found = mistakes(&run, entry.figure, entry.figure_note, entry.figure_facts);
        all.extend(found.iter().map(|mistake| format!("{}: {mistake}", entry.figure)));
        for breaks in entry.breaks {
            let run = match breaks.by {
                By::Check => checked(breaks.words),
                By::Simulate => simulated(breaks.words),
            };
            let found = mistakes(&run, breaks.words, breaks.note, breaks.facts);
            all.extend(found.iter().map(|mistake| format!("{}: {mistake}", breaks.words)));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Every algorithm that allows two leaders is seen with two.
#[test]
fn every_algorithm_that_allows_two_leaders_has_a_run_with_two() {
    for entry in ENTRIES {
        let two = entry.breaks.iter().any(|breaks| breaks.facts.contains("together "));
        assert!(two, "{}", entry.name);
    }
}

#[test]
fn wrong_texts_and_wrong_facts_are_found() {
    let words = "bully --nodes 6 --crashed 6 --initiator 3";
    let run = simulated(words);
    let found = |note: &str, facts: &str| mistakes(&run, words, note, facts);
    assert_eq!(found("6 has crashed, and 5 leads.", "crashed 6; leader 5"), Vec::<String>::new());
    assert_eq!(found("4 leads.", "crashed 6; leader 5"), ["4 is in no fact"]);
    assert_eq!(found("Ten messages.", "messages 13"), ["10 is in no fact"]);
    for fact in [
        "processes 5",
        "crashed 5",
        "recovered 6",
        "calls 4",
        "leader 4",
        "nobody leads",
        "messages 12",
        "multicasts 1",
        "together 2",
        "steps 1",
        "cut off 3",
        "3 sends Answer to 4",
        "3 sends Election to 4 at 1",
        "4 leads",
        "5 leads in term 2",
        "5 leads at 3",
        "5 multicasts Coordinator",
        "no leader between 3 and 6",
    ] {
        assert_eq!(found("", fact), [format!("not so: {fact}")]);
    }
}
