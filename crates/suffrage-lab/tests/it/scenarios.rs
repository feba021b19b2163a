//! The golden scenarios: every file of `crates/suffrage-sim/tests/scenarios` is run and compared.
//!
//! A file is a text to read: `#` lines say why, with their source; a line `$ suffrage-lab …` is a
//! command, and what follows, up to the next command or comment, is what it prints, with a last line
//! `exit 2` if that is its exit code.

use std::fs;

use crate::support::{HOW_TO_BLESS, blessing, difference, path, run};

const SCENARIOS: &str = "crates/suffrage-sim/tests/scenarios";

/// The file as it should be: the same text and commands, with what the commands print now.
fn rewritten(text: &str) -> String {
    let mut fresh = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            fresh += &format!("{line}\n");
            continue;
        };
        while lines.next_if(|line| !line.starts_with("$ ") && !line.starts_with('#')).is_some() {}
        let ran = run(command);
        let exit = if ran.code == 0 { String::new() } else { format!("exit {}\n", ran.code) };
        fresh += &format!("{line}\n{}{}{exit}\n", ran.out, ran.err);
    }
    format!("{}\n", fresh.trim_end())
}

fn files() -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(path(SCENARIOS))
        .expect("the scenarios are there")
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "txt"))
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            (file.file_name().unwrap().to_str().unwrap().to_string(), text)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn scenarios_end_as_written() {
    let mut complaints = String::new();
    for (name, text) in files() {
        let fresh = rewritten(&text);
        if fresh == text {
            continue;
        }
        if blessing() {
            fs::write(path(SCENARIOS).join(&name), fresh).unwrap();
        } else {
            complaints += &format!("{SCENARIOS}/{name}\n{}\n", difference(&text, &fresh));
        }
    }
    assert!(complaints.is_empty(), "\n{complaints}{HOW_TO_BLESS}\n");
}

#[test]
fn every_scenario_says_why_and_splits_are_shown_for_every_algorithm_that_may_split() {
    let files = files();
    for (name, text) in &files {
        assert!(text.starts_with('#'), "{name} does not say why");
        assert!(text.contains("\n$ suffrage-lab "), "{name} has no command");
    }
    let (_, splits) = files.iter().find(|(name, _)| name == "split-brain.txt").expect("it is there");
    // As it is now, whether or not the file is being rewritten meanwhile.
    let splits = rewritten(splits);
    for contract in suffrage_algorithms::catalog::CONTRACTS {
        if contract.safety != suffrage_core::Safety::Eventual {
            continue;
        }
        let command = format!("$ suffrage-lab simulate {} ", contract.name);
        let shown = splits.split(&command).nth(1).unwrap_or_else(|| panic!("no split of {}", contract.name));
        let shown = shown.split("\n$ ").next().unwrap();
        assert!(shown.contains("more than one for"), "{} does not split", contract.name);
        assert!(shown.contains("promises  kept"), "{} does not merge", contract.name);
    }
}

#[test]
fn a_rewritten_file_keeps_its_text_and_its_commands() {
    let text = "# why\n$ suffrage-lab simulate bully --nodes 0\nold\n\n# more\n$ suffrage-lab --version\n";
    let fresh = rewritten(text);
    assert_eq!(fresh, rewritten(&fresh));
    assert!(fresh.starts_with("# why\n$ suffrage-lab simulate bully --nodes 0\nerror: --nodes: "), "{fresh}");
    assert!(fresh.contains("exit 2\n\n# more\n$ suffrage-lab --version\nsuffrage-lab "), "{fresh}");
    assert!(!fresh.contains("old"));
}

#[test]
fn a_difference_shows_what_differs_and_nothing_else() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\nc\nd\n"), "    2 - b\n    2 + x\n    4 + d\n");
    assert_eq!(difference("a\n", "a\n"), "");
}
