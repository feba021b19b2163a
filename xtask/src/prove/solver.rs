//! The solver: Debian's `z3`, a process of its own for each question.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::query::{Expected, Obligation};

/// What came of a question.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// `sat`, `unsat`, `unknown`, `timeout`, or the solver's complaint.
    pub(super) text: String,
    pub(super) took: Duration,
}

impl Answer {
    /// Whether it is what is expected.
    pub(super) fn is(&self, expected: Expected) -> bool {
        self.text
            == match expected {
                Expected::Unsat => "unsat",
                Expected::Sat => "sat",
            }
    }
}

/// Asks every question, on all cores, and gives each `seconds` at most in each way to look for an answer. A line on a terminal shows how far it is.
pub(super) fn ask_all(what: &str, obligations: &[Obligation], seconds: u32) -> Result<Vec<Answer>, String> {
    let next = AtomicUsize::new(0);
    let progress = std::io::stderr().is_terminal();
    let work = || {
        let mut answers = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(obligation) = obligations.get(place) else { return Ok(answers) };
            if progress {
                eprint!("\r\x1b[K{what}: {} of {}, {}", place + 1, obligations.len(), obligation.step);
            }
            answers.push((place, ask(&obligation.question, seconds)?));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let answers: Result<Vec<Vec<_>>, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    if progress {
        eprint!("\r\x1b[K");
    }
    let mut answers = answers?.concat();
    answers.sort_by_key(|(place, _)| *place);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Ways of the solver to look for an answer. Whatever it finds in one of them is true; only how soon differs.
const WAYS: &[&[&str]] = &[
    &["smt.arith.solver=2"],
    &["smt.mbqi=false", "auto_config=false"],
    &["smt.random_seed=7"],
    &["smt.ematching=false"],
];

/// How long the solver looks for an answer in each way before it tries the next, at first.
const GLANCE: u32 = 2;

/// Asks in one way after the other until there is an answer, first for a short time each.
fn ask(question: &str, seconds: u32) -> Result<Answer, String> {
    let start = Instant::now();
    let mut text = String::new();
    let short = WAYS.iter().map(|way| (way, seconds.min(GLANCE)));
    for (way, seconds) in short.chain(WAYS.iter().map(|way| (way, seconds))) {
        text = ask_once(question, way, seconds)?;
        if !matches!(text.as_str(), "unknown" | "timeout") {
            break;
        }
    }
    Ok(Answer { text, took: start.elapsed() })
}

fn ask_once(question: &str, way: &[&str], seconds: u32) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("z3: {error}");
    let mut child = Command::new("z3")
        .args(["-smt2", "-in", &format!("-T:{seconds}")])
        .args(way)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // The solver reads everything before it answers, or ends with an error: then the pipe may break.
    let sent = child.stdin.take().expect("it is piped").write_all(question.as_bytes());
    let output = child.wait_with_output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    // An error is the answer, whatever the solver says after it.
    let complaint = text.lines().find(|line| line.starts_with("(error"));
    let answer = complaint.or_else(|| text.lines().next()).unwrap_or("no answer");
    match sent {
        Err(error) if complaint.is_none() => Err(failed(error)),
        _ => Ok(answer.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_answer_will_do() {
        let answer = |text: &str| Answer { text: text.to_string(), took: Duration::ZERO };
        assert!(answer("unsat").is(Expected::Unsat) && answer("sat").is(Expected::Sat));
        for text in ["sat", "unknown", "timeout", "(error \"line 1\")", "no answer"] {
            assert!(!answer(text).is(Expected::Unsat), "{text}");
        }
        for text in ["unsat", "unknown", "timeout", ""] {
            assert!(!answer(text).is(Expected::Sat), "{text}");
        }
    }
}
