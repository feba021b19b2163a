//! The golden scenarios: the commands of every file of `crates/suffrage-sim/tests/scenarios` are run, and their
//! output is compared.
//!
//! Lines with `#` explain the scenario and name its source. A line `$ suffrage-lab …` is a command. The lines up to the
//! next command or comment are its output, with a last line like `exit 2` if the exit code is not 0.

use std::fs;

use crate::support::{HOW_TO_BLESS, blessing, difference, path, run};

const SCENARIOS: &str = "crates/suffrage-sim/tests/scenarios";

/// The file with the current output of its commands.
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
        .expect("the folder exists")
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
fn the_output_of_scenarios_is_as_committed() {
    let mut differences = String::new();
    for (name, text) in files() {
        let fresh = rewritten(&text);
        if fresh == text {
            continue;
        }
        if blessing() {
            fs::write(path(SCENARIOS).join(&name), fresh).unwrap();
        } else {
            differences += &format!("{SCENARIOS}/{name}\n{}\n", difference(&text, &fresh));
        }
    }
    assert!(differences.is_empty(), "\n{differences}{HOW_TO_BLESS}\n");
}

#[test]
fn every_scenario_has_an_explanation_and_every_split_brain_is_shown() {
    let files = files();
    for (name, text) in &files {
        assert!(text.starts_with('#'), "{name} has no explanation");
        assert!(text.contains("\n$ suffrage-lab "), "{name} has no command");
    }
    let (_, splits) = files.iter().find(|(name, _)| name == "split-brain.txt").expect("the file exists");
    // The current output: another test may be rewriting the file.
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
