//! The safety argument of the quorum lease as an inductive invariant, which a solver checks.
//!
//! The models are in `proof/`; `proof/README.md` explains them.

mod model;
mod query;
mod sexpr;
mod solver;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use self::model::{About, Bug, Code, Model};
use self::query::{CONSEQUENCE, Expected, INITIAL, LEMMA, Obligation, POSSIBLE, SAFETY};
use self::solver::Answer;
use crate::tools;

/// The models: folders of `proof/`.
const MODELS: &[&str] = &["lease", "membership", "keep-tokens", "choice"];

const HELP: &str = "\
usage: cargo xtask prove [--only STEP] [--model NAME] [--no-bugs | --bugs] [--seconds N] [--json]
       cargo xtask prove --print STEP/CONJUNCT [--model NAME]

Checks the safety argument of the quorum lease with an SMT solver (Debian's z3, which it installs if it is missing):
for any number of voters, candidates and names, any schedule of messages, restarts, and all clocks within the drift
bound. The models are the folders of proof/; proof/README.md explains how to read and change them.

An invariant is a list of statements about a state (conjuncts). It holds in every state that can be reached if
  - it holds in the initial states, and
  - every action (a step of a voter, of a candidate, or of time) keeps every conjunct.
Each of these is an obligation: a question to the solver of its own, `initial/heart` or `restart/heart`. The promises
to users (`safety/...`) follow from the invariant. Every action has an example (`restart/possible`), so that nothing
holds for want of one. Every action names the functions that it stands for; a function that is gone is a failure.
Every deliberate bug must make exactly those obligations fail that the model names, each with an example in a small
world; the deliberate bugs of the code (suffrage_lease::Bug) are among them.

  --only STEP         obligations of one action, or of initial, consequence, safety, lemma or possible; no bugs
  --bugs              only the deliberate bugs
  --no-bugs           everything else
  --model NAME        one model only
  --seconds N         how long the solver may look for an answer in each of four ways (10); an obligation without an
                      answer counts as failed
  --print STEP/CONJUNCT
                      prints the question in SMT-LIB 2, of the first model that has it, and does not ask the solver
  --json              prints every obligation and bug as JSON

exit code: 0 if everything is as it should be, 1 if not";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    only: Option<String>,
    print: Option<String>,
    model: Option<String>,
    proof: bool,
    bugs: bool,
    seconds: u32,
    json: bool,
    help: bool,
}

impl Options {
    fn parse(flags: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            only: None,
            print: None,
            model: None,
            proof: true,
            bugs: true,
            seconds: 10,
            json: false,
            help: false,
        };
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            let mut value =
                || flags.next().map(|value| value.to_string()).ok_or(format!("{flag} needs a value"));
            match *flag {
                "--only" => options.only = Some(value()?),
                "--print" => options.print = Some(value()?),
                "--model" => options.model = Some(value()?),
                "--seconds" => {
                    let seconds = value()?;
                    let parsed = seconds.parse().ok().filter(|&seconds| seconds > 0);
                    options.seconds =
                        parsed.ok_or(format!("--seconds {seconds}: not a number above zero"))?;
                }
                "--bugs" => options.proof = false,
                "--no-bugs" => options.bugs = false,
                "--json" => options.json = true,
                "--help" | "-h" => options.help = true,
                _ => return Err(format!("prove: unknown flag `{flag}`; see cargo xtask prove --help")),
            }
        }
        if !options.proof && (!options.bugs || options.only.is_some()) {
            return Err("prove: --bugs goes neither with --no-bugs nor with --only".to_string());
        }
        options.bugs &= options.only.is_none();
        Ok(options)
    }

    fn models(&self) -> Result<Vec<&str>, String> {
        let Some(name) = &self.model else { return Ok(MODELS.to_vec()) };
        let known = MODELS.iter().find(|known| *known == name);
        known.map(|known| vec![*known]).ok_or(format!("--model {name}: there are {}", MODELS.join(", ")))
    }
}

/// The chore: checks the models.
pub(crate) fn prove(root: &Path, flags: &[&str]) -> Result<(), String> {
    let options = Options::parse(flags)?;
    if options.help {
        println!("{HELP}");
        return Ok(());
    }
    let mut failures = Vec::new();
    let mut reports = Vec::new();
    for name in options.models()? {
        let model = Model::load(&root.join("proof").join(name))?;
        if let Some(wanted) = &options.print {
            if let Some(question) = question(&model, wanted) {
                println!("{question}");
                return Ok(());
            }
            continue;
        }
        if options.only.as_ref().is_some_and(|only| !has_step(&model, only)) {
            continue;
        }
        tools::ensure_solver()?;
        let report = check(root, name, &model, &options)?;
        if !options.json {
            report.print(&model);
        }
        failures.extend(report.failures().into_iter().map(|failure| format!("{name}: {failure}")));
        reports.push(report.json(&model));
    }
    if let Some(wanted) = options.print.as_ref().or(options.only.as_ref().filter(|_| reports.is_empty())) {
        return Err(format!("no model has `{wanted}`"));
    }
    if options.json {
        println!("{}", json!(reports));
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("not proven:\n  {}", failures.join("\n  "))) }
}

fn has_step(model: &Model, step: &str) -> bool {
    [INITIAL, CONSEQUENCE, SAFETY, LEMMA, POSSIBLE].contains(&step) || model.action(step).is_some()
}

/// The question of an obligation in SMT-LIB, with the expected answer as a comment.
fn question(model: &Model, wanted: &str) -> Option<String> {
    let all = model.obligations();
    let obligation =
        all.iter().find(|obligation| format!("{}/{}", obligation.step, obligation.about) == wanted)?;
    let expected = if obligation.expected == Expected::Sat { "sat" } else { "unsat" };
    Some(format!("; {wanted}: {expected} is expected\n{}", obligation.question))
}

/// What came of checking a model.
struct Report {
    name: String,
    complaints: Vec<String>,
    proof: Vec<(Obligation, Answer)>,
    bugs: Vec<(Bug, Vec<(Obligation, Answer)>)>,
    took: Duration,
}

fn check(root: &Path, name: &str, model: &Model, options: &Options) -> Result<Report, String> {
    let start = Instant::now();
    // The deliberate bugs of the code belong to the first model.
    let complaints = source::complaints(root, model, name == MODELS[0]);
    let mut obligations = if options.proof { model.obligations() } else { Vec::new() };
    if let Some(only) = &options.only {
        obligations.retain(|obligation| obligation.step == *only);
    }
    let answers = solver::ask_all(&format!("{name}: obligations"), &obligations, options.seconds)?;
    let proof = obligations.into_iter().zip(answers).collect();
    let mut bugs = Vec::new();
    for bug in model.bugs.iter().filter(|_| options.bugs) {
        let obligations = with_bug(model, bug)?;
        let answers = solver::ask_all(&format!("{name}: bug {}", bug.name), &obligations, options.seconds)?;
        bugs.push((bug.clone(), obligations.into_iter().zip(answers).collect()));
    }
    Ok(Report { name: name.to_string(), complaints, proof, bugs, took: start.elapsed() })
}

/// The obligations that a bug may break: those that it is said to break must fail, and all others hold.
fn with_bug(model: &Model, bug: &Bug) -> Result<Vec<Obligation>, String> {
    let wrong = model.with_bug(bug)?;
    let breaks = |step: &str, about: &str| bug.breaks.iter().any(|(s, a)| s == step && a == about);
    let mut obligations = Vec::new();
    for name in bug.actions() {
        let action = wrong.action(name).ok_or(format!("bug {}: no action {name}", bug.name))?;
        for conjunct in &wrong.invariants {
            obligations.extend(match breaks(name, &conjunct.name) {
                true => wrong.is_broken(action, conjunct),
                false => wrong.is_kept(action, conjunct),
            });
        }
    }
    if bug.is_about(About::Axioms) {
        let statements = wrong.consequences.iter().map(|statement| (CONSEQUENCE, statement));
        let statements = statements.chain(wrong.safety.iter().map(|statement| (SAFETY, statement)));
        let broken = statements.filter(|(step, statement)| breaks(step, &statement.name));
        obligations.extend(broken.map(|(step, statement)| wrong.does_not_follow(step, statement)));
    }
    if bug.is_about(About::Lemmas) {
        obligations.extend(wrong.lemma_obligations().into_iter().map(|obligation| Obligation {
            expected: if breaks(LEMMA, &obligation.about) { Expected::Sat } else { Expected::Unsat },
            ..obligation
        }));
    }
    let asked = |step: &str, about: &str| obligations.iter().any(|o| o.step == step && o.about == about);
    match bug.breaks.iter().find(|(step, about)| !asked(step, about)) {
        Some((step, about)) => Err(format!("bug {}: it cannot break {step}/{about}", bug.name)),
        None => Ok(obligations),
    }
}

impl Report {
    fn failures(&self) -> Vec<String> {
        let mut failures = self.complaints.clone();
        failures.extend(failed(&self.proof));
        for (bug, answers) in &self.bugs {
            failures.extend(failed(answers).map(|failure| format!("bug {}: {failure}", bug.name)));
        }
        failures
    }

    fn print(&self, model: &Model) {
        println!("{}: {}", self.name, model.title);
        self.print_proof(model);
        self.print_bugs();
        println!("\n{:.1} s\n", self.took.as_secs_f64());
    }

    fn print_proof(&self, model: &Model) {
        if self.proof.is_empty() {
            return;
        }
        let mut steps: Vec<&str> = Vec::new();
        for (obligation, _) in &self.proof {
            if !steps.contains(&obligation.step.as_str()) {
                steps.push(&obligation.step);
            }
        }
        let line = |name: &str, shown: usize, of: usize, time: f64, code: &str| {
            println!("  {name:<18} {shown:>4} of {of:>4} {time:>8.2} s  {code}");
        };
        println!("\n  {:<18} {:>12} {:>10}  stands for", "step", "shown", "time");
        let sum = |answers: &[&(Obligation, Answer)]| {
            let shown = answers.iter().filter(|(obligation, answer)| answer.is(obligation.expected)).count();
            (shown, answers.len(), answers.iter().map(|(_, answer)| answer.took.as_secs_f64()).sum::<f64>())
        };
        for step in steps {
            let answers: Vec<_> =
                self.proof.iter().filter(|(obligation, _)| obligation.step == step).collect();
            let (shown, of, time) = sum(&answers);
            let code = model.action(step).map(|action| {
                let file = Path::new(&action.code.path).file_name().unwrap_or_default().to_string_lossy();
                let planned = if action.code.planned { ", planned" } else { "" };
                format!("{file}: {}{planned}", action.code.functions.join(", "))
            });
            line(step, shown, of, time, code.as_deref().unwrap_or(""));
        }
        let (shown, of, time) = sum(&self.proof.iter().collect::<Vec<_>>());
        line("together", shown, of, time, "");
        println!();
        for statement in &model.safety {
            let is_it =
                |obligation: &Obligation| obligation.step == SAFETY && obligation.about == statement.name;
            if self.proof.iter().any(|(obligation, answer)| is_it(obligation) && answer.is(Expected::Unsat)) {
                println!("  follows: {} ({})", statement.words, statement.name);
            }
        }
    }

    fn print_bugs(&self) {
        if self.bugs.is_empty() {
            return;
        }
        println!("\n  {:<24} {:<10} breaks", "deliberate bug", "");
        for (bug, answers) in &self.bugs {
            let is_well = answers.iter().all(|(obligation, answer)| answer.is(obligation.expected));
            let verdict = match (is_well, bug.breaks.is_empty()) {
                (true, false) => "found",
                (true, true) => "harmless",
                (false, _) => "WRONG",
            };
            let mut broken: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (step, about) in &bug.breaks {
                broken.entry(step).or_default().push(about);
            }
            let broken: Vec<String> =
                broken.iter().map(|(step, abouts)| format!("{step}/{}", abouts.join(", "))).collect();
            println!("  {:<24} {verdict:<10} {}", bug.name, broken.join("; "));
        }
    }

    fn json(&self, model: &Model) -> serde_json::Value {
        let rows = |answers: &[(Obligation, Answer)]| -> Vec<serde_json::Value> {
            let row = |(obligation, answer): &(Obligation, Answer)| {
                json!({
                    "step": obligation.step,
                    "about": obligation.about,
                    "expected": if obligation.expected == Expected::Sat { "sat" } else { "unsat" },
                    "answer": answer.text,
                    "milliseconds": answer.took.as_millis() as u64,
                })
            };
            answers.iter().map(row).collect()
        };
        let bugs: Vec<serde_json::Value> = self
            .bugs
            .iter()
            .map(|(bug, answers)| {
                json!({ "name": bug.name, "words": bug.words, "breaks": bug.breaks, "obligations": rows(answers) })
            })
            .collect();
        let actions = model.actions.iter().map(|action| {
            let Code { path, functions, planned } = &action.code;
            let code = json!({ "path": path, "functions": functions, "planned": planned });
            json!({ "name": action.name, "words": action.words, "code": code })
        });
        json!({
            "model": self.name,
            "actions": actions.collect::<Vec<_>>(),
            "failures": self.failures(),
            "obligations": rows(&self.proof),
            "bugs": bugs,
            "seconds": self.took.as_secs_f64(),
        })
    }
}

/// The obligations with another answer than expected.
fn failed(answers: &[(Obligation, Answer)]) -> impl Iterator<Item = String> {
    answers.iter().filter(|(obligation, answer)| !answer.is(obligation.expected)).map(
        |(Obligation { step, about, expected, .. }, answer)| {
            let why = match (expected, answer.text.as_str()) {
                (Expected::Unsat, "sat") => "there is a counterexample".to_string(),
                (Expected::Sat, "unsat") => "there is no example".to_string(),
                (_, other) => format!("the solver says {other}"),
            };
            format!("{step}/{about}: {why}")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    /// Without a solver: what the models name is there, and every bug is one that could break what it is said to break.
    #[test]
    fn models_are_in_step_with_the_code() {
        for name in MODELS {
            let model = Model::load(&root().join("proof").join(name)).unwrap();
            assert_eq!(source::complaints(root(), &model, *name == MODELS[0]), [""; 0], "{name}");
            for bug in &model.bugs {
                let obligations = with_bug(&model, bug).unwrap();
                let broken =
                    obligations.iter().filter(|obligation| obligation.expected == Expected::Sat).count();
                assert_eq!(broken, bug.breaks.len(), "{name}: {}", bug.name);
            }
        }
    }

    #[test]
    fn a_function_that_is_gone_and_a_bug_that_is_new_are_failures() {
        let mut model = Model::load(&root().join("proof").join(MODELS[0])).unwrap();
        model.actions[0].code.functions.push("on_nothing".to_string());
        model.outside.clear();
        let complaints = source::complaints(root(), &model, true).join("\n");
        assert!(complaints.contains("no function `on_nothing`"), "{complaints}");
        assert!(complaints.contains("bug drop-wake-up"), "{complaints}");
    }

    #[test]
    fn only_expected_answers_are_no_failures() {
        let obligation = |expected| Obligation {
            step: "step".to_string(),
            about: "conjunct".to_string(),
            expected,
            question: String::new(),
        };
        let answer = |text: &str| Answer { text: text.to_string(), took: Duration::ZERO };
        let failed =
            |expected, text| failed(&[(obligation(expected), answer(text))]).collect::<Vec<_>>().join("");
        assert_eq!(failed(Expected::Unsat, "unsat"), "");
        assert_eq!(failed(Expected::Sat, "sat"), "");
        assert_eq!(failed(Expected::Unsat, "sat"), "step/conjunct: there is a counterexample");
        assert_eq!(failed(Expected::Sat, "unsat"), "step/conjunct: there is no example");
        assert_eq!(failed(Expected::Unsat, "timeout"), "step/conjunct: the solver says timeout");
    }

    #[test]
    fn questions_are_printed_of_obligations_that_exist() {
        let model = Model::load(&root().join("proof").join(MODELS[0])).unwrap();
        let question = question(&model, "restart/heart").unwrap();
        assert!(
            question.contains("unsat is expected") && question.contains("(define-fun silent-until!"),
            "{question}"
        );
        assert!(super::question(&model, "restart/nothing").is_none());
        assert!(has_step(&model, "restart") && has_step(&model, SAFETY) && !has_step(&model, "nothing"));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        assert!(Options::parse(&["--bugs", "--no-bugs"]).is_err());
        assert!(Options::parse(&["--bugs", "--only", "win"]).is_err());
        assert!(Options::parse(&["--seconds", "0"]).is_err());
        assert!(Options::parse(&["--only"]).is_err());
        assert!(Options::parse(&["--nonsense"]).unwrap_err().contains("--help"));
        let options = Options::parse(&["--only", "win", "--json"]).unwrap();
        assert!(options.proof && !options.bugs && options.json);
    }
}
