//! Rules about documents: paths in ARCHITECTURE.md and CONTRIBUTING.md exist, crates depend only on what the table of
//! ARCHITECTURE.md allows, and README.md stays short.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The documents whose paths are checked.
const DOCUMENTS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];
/// The folders with which a path in inline code begins.
const FOLDERS: [&str; 9] =
    ["crates", "bench", "clients", "deploy", "docs", "fuzz", "proof", "testbed", "xtask"];
/// The most lines of README.md.
const README_LINES: usize = 200;

/// Checks the documents, and returns the errors.
pub(crate) fn document_errors(root: &Path) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let mut errors = Vec::new();
    for document in DOCUMENTS {
        let missing = paths(&read(document)).into_iter().filter(|path| !root.join(path).exists());
        errors.extend(missing.map(|path| format!("{document}: {path} does not exist")));
    }
    errors.extend(layer_errors(&read(DOCUMENTS[0]), &dependencies(root)));
    let lines = read("README.md").lines().count();
    if lines > README_LINES {
        errors.push(format!("README.md has {lines} lines; move details to docs/ ({README_LINES} at most)"));
    }
    errors
}

/// The paths that a document names: in inline code and as targets of links, outside of fenced blocks.
fn paths(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let prose: String = text.split("```").step_by(2).collect();
    for code in prose.split('`').skip(1).step_by(2) {
        let is_path = code.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first));
        if is_path && !code.contains(char::is_whitespace) {
            found.insert(code.to_string());
        }
    }
    for link in prose.split("](").skip(1) {
        let target = link.split([')', '#']).next().unwrap_or_default();
        if !target.is_empty() && !target.contains("://") {
            found.insert(target.to_string());
        }
    }
    found
}

/// Compares the dependencies of each crate with the table of crates: its rows begin with the crate's path, and
/// their last cells list what the crate may depend on.
fn layer_errors(table: &str, crates: &[(String, Vec<String>)]) -> Vec<String> {
    let rows = table.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `crates/")?.split_once('`')?;
        let allowed = rest.trim_end_matches([' ', '|']).rsplit('|').next()?.trim();
        Some((
            name,
            allowed.split(", ").filter(|short| *short != "nothing").map(full_name).collect::<Vec<_>>(),
        ))
    });
    let rows: Vec<(&str, Vec<String>)> = rows.collect();
    let mut errors = Vec::new();
    for (index, (name, allowed)) in rows.iter().enumerate() {
        let above = |other: &String| rows[..index].iter().any(|(name, _)| name == other);
        let wrong = allowed.iter().filter(|other| !above(other));
        errors
            .extend(wrong.map(|other| format!("ARCHITECTURE.md: {other} is not above {name} in the table")));
    }
    for (name, dependencies) in crates {
        let Some((_, allowed)) = rows.iter().find(|(row, _)| row == name) else {
            errors.push(format!("ARCHITECTURE.md: {name} is missing in the table of crates"));
            continue;
        };
        let wrong = dependencies.iter().filter(|dependency| !allowed.contains(dependency));
        errors.extend(
            wrong.map(|other| format!("{name} depends on {other}, which ARCHITECTURE.md does not allow")),
        );
    }
    errors
}

/// The name of a crate that the table calls by a short name.
fn full_name(short: &str) -> String {
    if short == "suffrage" { short.to_string() } else { format!("suffrage-{short}") }
}

/// Every crate with the crates of this workspace that it depends on, except for tests.
fn dependencies(root: &Path) -> Vec<(String, Vec<String>)> {
    let mut crates = Vec::new();
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap_or_default();
        crates.push((entry.file_name().to_string_lossy().to_string(), own_dependencies(&manifest)));
    }
    crates.sort();
    crates
}

/// The crates of this workspace in the section `[dependencies]` of a manifest.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| *name == "suffrage" || name.starts_with("suffrage-")).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_code_and_links_but_not_in_blocks() {
        let text = "`crates/a/src/b.rs`, `/readiness`, `a/b`, `cargo run crates/x`\n```sh\n`docs/no`\n```\n\
                    [c](docs/c.md#part) [web](https://example.org/x) [here](#part)";
        assert_eq!(paths(text).into_iter().collect::<Vec<_>>(), ["crates/a/src/b.rs", "docs/c.md"]);
    }

    #[test]
    fn a_dependency_that_the_table_does_not_allow_is_found() {
        let table = "| crate | purpose | may depend on |\n|---|---|---|\n\
                     | `crates/suffrage-core` | core | nothing |\n\
                     | `crates/suffrage` | facade | core |\n";
        let crates = |facade: &[&str]| {
            let facade = facade.iter().map(|name| name.to_string()).collect();
            vec![("suffrage".to_string(), facade), ("suffrage-core".to_string(), Vec::new())]
        };
        assert!(layer_errors(table, &crates(&["suffrage-core"])).is_empty());
        let errors = layer_errors(table, &crates(&["suffrage-sim"]));
        assert!(errors.len() == 1 && errors[0].contains("depends on suffrage-sim"), "{errors:?}");
        let upward = table.replace("nothing", "suffrage");
        let errors = layer_errors(&upward, &crates(&["suffrage-core"]));
        assert!(errors.len() == 1 && errors[0].contains("is not above"), "{errors:?}");
        let unknown = vec![("suffrage-new".to_string(), Vec::new())];
        assert!(layer_errors(table, &unknown)[0].contains("suffrage-new is missing"));
    }

    #[test]
    fn dependencies_for_tests_do_not_count() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nserde.workspace = true\nsuffrage.workspace = true\n\
                        suffrage-core = { path = \"y\" }\n\n[dev-dependencies]\nsuffrage-sim.workspace = true\n";
        assert_eq!(own_dependencies(manifest), ["suffrage", "suffrage-core"]);
    }

    #[test]
    fn the_documents_of_this_repository_have_no_errors() {
        let errors = document_errors(crate::root());
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}
