//! The parts of documents that are printed by commands or copied from source.
//!
//! A part stands between `<!-- output of: suffrage … -->` and `<!-- end of output -->`; the command's
//! output is put there as it is if it is Markdown, and in a fence otherwise. `source of: path` in place
//! of `output of: suffrage …` puts that file there, and `output of example: name` what an example of
//! `election` prints.

use std::fs;
use std::path::Path;

use crate::command::cargo;

const COMMAND: &str = "<!-- output of: suffrage ";
const EXAMPLE: &str = "<!-- output of example: ";
const SOURCE: &str = "<!-- source of: ";
const END: &str = "<!-- end of output -->";
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/compare.md",
    "docs/detectors.md",
    "docs/quorum-lease.md",
];

/// Compares the generated parts with what the commands print, or rewrites them.
pub(crate) fn docs(root: &Path, bless: bool) -> Result<(), String> {
    for document in DOCUMENTS {
        let path = root.join(document);
        let text = fs::read_to_string(&path).map_err(|error| format!("{document}: {error}"))?;
        let folder = path.parent().unwrap_or(root);
        check_names(&text, &|code| fs::read_to_string(folder.join(code)).ok())
            .map_err(|reason| format!("{document}: {reason}"))?;
        let source = |path: &str| {
            let code = fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
            Ok(format!("```rust\n{code}```\n"))
        };
        let fresh = regenerate(&text, COMMAND, &output)
            .and_then(|text| regenerate(&text, EXAMPLE, &example))
            .and_then(|text| regenerate(&text, SOURCE, &source))
            .map_err(|reason| format!("{document}: {reason}"))?;
        if fresh == text {
            continue;
        }
        if !bless {
            return Err(format!(
                "{document} is out of date; run `cargo xtask docs --bless` and read the diff"
            ));
        }
        fs::write(&path, fresh).map_err(|error| format!("{document}: {error}"))?;
        println!("rewrote {document}");
    }
    println!("documents are up to date");
    Ok(())
}

fn output(arguments: &str) -> Result<String, String> {
    let fixed = ["run", "--quiet", "--release", "--package", "cli", "--"];
    let words = split(arguments);
    let words: Vec<&str> = fixed.into_iter().chain(words.iter().map(String::as_str)).collect();
    let output = cargo(&words).output()?;
    let is_markdown = arguments.contains("--markdown");
    Ok(if is_markdown { output } else { format!("```text\n$ suffrage {arguments}\n{output}```\n") })
}

fn example(name: &str) -> Result<String, String> {
    let arguments = ["run", "--quiet", "--release", "--package", "election", "--example", name];
    let output = cargo(&arguments).output()?;
    Ok(format!("```text\n$ cargo run --release --package election --example {name}\n{output}```\n"))
}

/// Splits a command line at spaces, except within single quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in line.split('\'').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_string());
        } else {
            words.extend(part.split_whitespace().map(str::to_string));
        }
    }
    words
}

/// Checks that what a document names exists where it says: in the file of a link like
/// ``[`Voter::wake`](voter.rs)`` there is the word `wake`.
fn check_names(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    for link in text.split("[`").skip(1) {
        let Some((name, rest)) = link.split_once("`](") else { continue };
        let Some((path, _)) = rest.split_once(')') else { continue };
        if name.contains('`') || !path.ends_with(".rs") {
            continue;
        }
        let code =
            read(path).ok_or_else(|| format!("there is no file {path}, in which `{name}` would be"))?;
        let last = name.trim_end_matches("()").rsplit("::").next().unwrap_or(name);
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        // A path may stand for a file, as in [`bully.rs`](bully.rs).
        if !last.contains('.') && !code.split(|letter| !is_part(letter)).any(|word| word == last) {
            return Err(format!("there is no `{name}` in {path}"));
        }
    }
    Ok(())
}

/// Replaces what stands between the markers that begin so.
fn regenerate(
    text: &str,
    begin: &str,
    make: &dyn Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut fresh = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(begin) {
        let line_end = start + rest[start..].find('\n').ok_or("a document ends within a marker")?;
        let marker = &rest[start..line_end];
        let what =
            marker[begin.len()..].strip_suffix(" -->").ok_or_else(|| format!("`{marker}` is not closed"))?;
        let end = line_end + rest[line_end..].find(END).ok_or_else(|| format!("`{marker}` has no end"))?;
        fresh.push_str(&rest[..=line_end]);
        fresh.push_str(&make(what)?);
        rest = &rest[end..];
    }
    fresh.push_str(rest);
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stale_is_replaced_and_the_rest_is_kept() {
        let make = |arguments: &str| Ok(format!("ran {arguments}\n"));
        let text = "a\n<!-- output of: suffrage simulate x -->\nold\n<!-- end of output -->\nb\n";
        let fresh = regenerate(text, COMMAND, &make).unwrap();
        let expected =
            "a\n<!-- output of: suffrage simulate x -->\nran simulate x\n<!-- end of output -->\nb\n";
        assert_eq!(fresh, expected);
        assert_eq!(regenerate(&fresh, COMMAND, &make).unwrap(), fresh);
    }

    #[test]
    fn a_marker_without_end_is_an_error() {
        let make = |_: &str| Ok(String::new());
        assert!(regenerate("<!-- output of: suffrage x -->\n", COMMAND, &make).is_err());
        assert!(regenerate("<!-- output of: suffrage x\n<!-- end of output -->", COMMAND, &make).is_err());
    }

    #[test]
    fn names_that_are_gone_are_found() {
        let read = |path: &str| (path == "a.rs").then(|| "impl Voter { fn wake_up(&self) {} }".to_string());
        let check = |text| check_names(text, &read);
        assert_eq!(check("[`Voter`](a.rs), [`Voter::wake_up()`](a.rs) and `wake` in [text](b.rs)"), Ok(()));
        assert_eq!(check("a [`wake`](a.rs)"), Err("there is no `wake` in a.rs".to_string()));
        assert!(check("[`Voter`](a.rs) [`Voter`](b.rs)").unwrap_err().contains("no file b.rs"));
    }

    #[test]
    fn every_document_names_what_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for document in DOCUMENTS {
            let path = root.join(document);
            let folder = path.parent().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let checked = check_names(&text, &|code| fs::read_to_string(folder.join(code)).ok());
            assert_eq!(checked, Ok(()), "{document}");
        }
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(split("simulate --partition '1,2|3 4' -x"), ["simulate", "--partition", "1,2|3 4", "-x"]);
    }
}
