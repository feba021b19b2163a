//! The generated parts of documents: output of commands, and copies of source.
//!
//! A part is between a marker and `<!-- end of output -->`. The markers are:
//!
//! - `<!-- output of: suffrage … -->` and `<!-- output of: suffrage-lab … -->`: the output of the command, as it is if
//!   it is Markdown, and in a fence otherwise;
//! - `<!-- output of example: name -->`: the output of an example of `suffrage-sim`;
//! - `<!-- source of: path -->`: the file;
//! - `<!-- doctest of: path -->`: the lines of the file's first doctest between the hidden lines `# // README begins`
//!   and `# // README ends`.

use std::fs;
use std::path::Path;

use crate::command::program;
use crate::programs::{Kind, Programs};

const COMMAND: &str = "<!-- output of: ";
const EXAMPLE: &str = "<!-- output of example: ";
const SOURCE: &str = "<!-- source of: ";
const DOCTEST: &str = "<!-- doctest of: ";
const DOCTEST_BEGIN: &str = "//! # // README begins\n";
const DOCTEST_END: &str = "//! # // README ends\n";
const END: &str = "<!-- end of output -->";
/// The folders of the checked documents.
const FOLDERS: &[&str] = &["", "docs"];

/// The documents of the repository, as paths from its root.
fn documents(root: &Path) -> Result<Vec<String>, String> {
    let mut documents = Vec::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().to_string());
        let here = names.filter(|name| name.ends_with(".md"));
        documents.extend(here.map(|name| Path::new(folder).join(name).display().to_string()));
    }
    documents.sort();
    Ok(documents)
}

/// Compares the generated parts with the output of the commands, or rewrites them.
pub(crate) fn docs(root: &Path, programs: &Programs, bless: bool) -> Result<(), String> {
    for document in documents(root)? {
        let path = root.join(&document);
        let text = fs::read_to_string(&path).map_err(|error| format!("{document}: {error}"))?;
        let folder = path.parent().unwrap_or(root);
        check_names(&text, &|code| fs::read_to_string(folder.join(code)).ok())
            .map_err(|reason| format!("{document}: {reason}"))?;
        let read =
            |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
        let source = |path: &str| Ok(format!("```rust\n{}```\n", read(path)?));
        let doctest =
            |path: &str| doctest(&read(path)?).ok_or_else(|| format!("{path}: no doctest for README"));
        let fresh = regenerate(&text, COMMAND, &|line| output(programs, line))
            .and_then(|text| regenerate(&text, EXAMPLE, &|name| example(programs, name)))
            .and_then(|text| regenerate(&text, SOURCE, &source))
            .and_then(|text| regenerate(&text, DOCTEST, &doctest))
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

/// The output of a command line. Its first word is one of the two programs.
fn output(programs: &Programs, line: &str) -> Result<String, String> {
    let words = split(line);
    let (name, arguments) = words.split_first().ok_or("a marker names no program")?;
    let path = programs.path(Kind::Binary, name)?.to_string_lossy();
    let words: Vec<&str> = std::iter::once(&*path).chain(arguments.iter().map(String::as_str)).collect();
    let output = program(&words).output()?;
    let is_markdown = line.contains("--markdown");
    Ok(if is_markdown { output } else { format!("```text\n$ {line}\n{output}```\n") })
}

fn example(programs: &Programs, name: &str) -> Result<String, String> {
    let output = program(&[&*programs.path(Kind::Example, name)?.to_string_lossy()]).output()?;
    Ok(format!("```text\n$ cargo run --release --package suffrage-sim --example {name}\n{output}```\n"))
}

/// The lines of a doctest for README.md: those between the hidden marker lines, without hidden lines.
fn doctest(code: &str) -> Option<String> {
    let lines = code.split_once(DOCTEST_BEGIN)?.1.split_once(DOCTEST_END)?.0.lines();
    let lines = lines.map(|line| line.strip_prefix("//!").unwrap_or(line));
    let lines =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).filter(|line| !line.starts_with("# "));
    Some(format!("```rust\n{}\n```\n", lines.collect::<Vec<_>>().join("\n")))
}

/// Splits a command line at spaces, except within single quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_string());
        } else {
            words.extend(part.split_whitespace().map(str::to_string));
        }
    }
    words
}

/// Checks that the names in links exist: the file of a link like ``[`Voter::wake`](voter.rs)`` has the word `wake`.
fn check_names(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    for link in text.split("[`").skip(1) {
        let Some((name, rest)) = link.split_once("`](") else { continue };
        let Some((path, _)) = rest.split_once(')') else { continue };
        if name.contains('`') || !path.ends_with(".rs") {
            continue;
        }
        let code = read(path).ok_or_else(|| format!("there is no file {path} for `{name}`"))?;
        let last = name.trim_end_matches("()").rsplit("::").next().unwrap_or(name);
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        // A path may stand for a file, as in [`bully.rs`](bully.rs).
        if !last.contains('.') && !code.split(|letter| !is_part(letter)).any(|word| word == last) {
            return Err(format!("there is no `{name}` in {path}"));
        }
    }
    Ok(())
}

/// Replaces the text between the markers that begin with `begin` and their ends.
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
    fn stale_parts_are_replaced_and_the_rest_is_kept() {
        let make = |arguments: &str| Ok(format!("ran {arguments}\n"));
        let text = "a\n<!-- output of: suffrage run x -->\nold\n<!-- end of output -->\nb\n";
        let fresh = regenerate(text, COMMAND, &make).unwrap();
        let expected =
            "a\n<!-- output of: suffrage run x -->\nran suffrage run x\n<!-- end of output -->\nb\n";
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
    fn missing_names_are_found() {
        let read = |path: &str| (path == "a.rs").then(|| "impl Voter { fn wake_up(&self) {} }".to_string());
        let check = |text| check_names(text, &read);
        assert_eq!(check("[`Voter`](a.rs), [`Voter::wake_up()`](a.rs) and `wake` in [text](b.rs)"), Ok(()));
        assert_eq!(check("a [`wake`](a.rs)"), Err("there is no `wake` in a.rs".to_string()));
        assert!(check("[`Voter`](a.rs) [`Voter`](b.rs)").unwrap_err().contains("no file b.rs"));
    }

    #[test]
    fn all_names_in_documents_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for document in documents(&root).unwrap() {
            let path = root.join(&document);
            let folder = path.parent().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let checked = check_names(&text, &|code| fs::read_to_string(folder.join(code)).ok());
            assert_eq!(checked, Ok(()), "{document}");
        }
    }

    #[test]
    fn a_doctest_is_shown_without_its_hidden_lines() {
        let code = "//! ```\n//! use x;\n//! # // README begins\n//! a();\n//! # hidden();\n//!\n//! b();\n\
                    //! # // README ends\n//! c();\n//! ```\n";
        assert_eq!(doctest(code).unwrap(), "```rust\na();\n\nb();\n```\n");
        assert_eq!(doctest("//! ```\n//! a();\n//! ```\n"), None);
    }

    #[test]
    fn only_programs_of_this_repository_are_run() {
        let refused = output(&Programs::default(), "rm -r x").unwrap_err();
        assert!(refused.contains("no Binary `rm`"), "{refused}");
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(split("simulate --partition '1,2|3 4' -x"), ["simulate", "--partition", "1,2|3 4", "-x"]);
    }
}
