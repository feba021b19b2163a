//! Tests of commands, without starting processes.
#![allow(clippy::disallowed_methods, reason = "reads the environment")]

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::Value;

use crate::Console;

/// A program, as [`crate::main`] runs it.
pub type Program = fn(Vec<OsString>, &mut Console<'_>) -> u8;

/// The output and the exit code of a command.
pub struct Ran {
    /// The exit code.
    pub code: u8,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a command line, split as a shell splits it.
pub fn run(program: Program, line: &str) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let words = words(line).into_iter().map(OsString::from).collect();
    let code = program(words, &mut Console::plain(&mut out, &mut err));
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code, out: text(out), err: text(err) }
}

/// Runs a command line that must succeed, and returns its output.
pub fn succeed(program: Program, line: &str) -> String {
    let ran = run(program, line);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line}");
    ran.out
}

/// Runs a command line with `--json`, and returns its result.
pub fn json(program: Program, line: &str) -> Value {
    serde_json::from_str(&succeed(program, &format!("{line} --json"))).expect("--json prints JSON")
}

/// The words of a command line. Single quotes are the only quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (place, part) in line.split('\'').enumerate() {
        if place % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (place, piece) in part.split(' ').enumerate() {
            if place > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A path in the repository.
pub fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
}

/// Whether expected results are rewritten instead of compared.
pub fn blessing() -> bool {
    std::env::var_os("SUFFRAGE_BLESS").is_some_and(|value| value != "0")
}

/// The instruction for rewriting expected results.
pub const HOW_TO_BLESS: &str =
    "If the new output is right, rewrite the file with SUFFRAGE_BLESS=1 (or `cargo xtask test --bless`).";

/// The lines that differ: `-` expected, `+` found.
pub fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    // common[i][j]: the length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            text += &format!("{:>5} - {}\n", i + 1, old[i]);
            i += 1;
        } else {
            text += &format!("{:>5} + {}\n", j + 1, new[j]);
            j += 1;
        }
    }
    text
}
