//! The public API of the crate `suffrage` names no type of another crate of the workspace.
//!
//! rustdoc links every type and trait of a signature. A type that the facade re-exports links to a page of `suffrage`;
//! any other type of the workspace links to a page of its own crate. So a link to another crate is a leak: a user could
//! not name the type without that crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::cargo;
use crate::root;

/// The crates whose types could leak. They must be documented before the facade, so that rustdoc links to them.
const INTERNAL: &[&str] =
    &["suffrage-core", "suffrage-lease", "suffrage-group", "suffrage-net", "suffrage-node"];

/// Builds the documentation and checks its links.
pub(crate) fn check() -> Result<(), String> {
    let mut internal = vec!["doc", "--quiet", "--no-deps"];
    internal.extend(INTERNAL.iter().flat_map(|name| ["--package", name]));
    cargo(&internal).env("RUSTDOCFLAGS", "-D warnings").run()?;
    // rustdoc links only to pages that exist already. Other flags make cargo write the pages of the facade again.
    let facade = ["doc", "--quiet", "--no-deps", "--package", "suffrage"];
    cargo(&facade).env("RUSTDOCFLAGS", "-D warnings --cfg facade").run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut pages = Vec::new();
    collect(&target.join("doc/suffrage"), &mut pages)?;
    if pages.is_empty() {
        return Err("the documentation of suffrage has no pages".to_string());
    }
    let mut leaks = BTreeSet::new();
    for page in &pages {
        let text = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        leaks.extend(leaks_of(&text).into_iter().map(|leak| format!("{name} names {leak}")));
    }
    if leaks.is_empty() {
        println!("{} pages of the facade name no internal type", pages.len());
        return Ok(());
    }
    let leaks: Vec<String> = leaks.into_iter().collect();
    Err(format!("internal types in the public API of suffrage:\n{}", leaks.join("\n")))
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

/// The pages of other crates of the workspace that a page links to. Links to source code are no leaks.
fn leaks_of(page: &str) -> BTreeSet<String> {
    let targets = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let paths = targets.map(|target| target.trim_start_matches("../"));
    paths.filter(|path| path.starts_with("suffrage_")).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_an_internal_crate_is_a_leak() {
        let page = r#"<a class="struct" href="../suffrage_core/struct.Span.html">Span</a>
            <a href="struct.Node.html">Node</a> <a href="../src/suffrage_core/rank.rs.html#7">source</a>
            <a href="https://docs.rs/tokio/latest/tokio/index.html">tokio</a>"#;
        assert_eq!(leaks_of(page), BTreeSet::from(["suffrage_core/struct.Span.html".to_string()]));
    }
}
