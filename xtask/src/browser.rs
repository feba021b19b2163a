//! The tests of the pages, in a real headless Chromium: `browser`.

use std::fs;

use crate::command::program;
use crate::programs::{Kind, Programs};
use crate::{root, tools};

/// Builds the programs and runs the tests of the pages.
pub(crate) fn browser(files: &[&str]) -> Result<(), String> {
    check(files, &Programs::build(&["build", "--package", "suffrage-daemon", "--package", "suffrage-lab"])?)
}

/// Runs these files of tests, or all, with programs that are built.
pub(crate) fn check(files: &[&str], programs: &Programs) -> Result<(), String> {
    let all = all()?;
    if let Some(unknown) = files.iter().find(|name| !all.contains(&test_file(name))) {
        let names: Vec<&str> = all.iter().filter_map(|file| file.strip_suffix(SUFFIX)).collect();
        return Err(format!("there are no tests `{unknown}`; tests: {}", names.join(", ")));
    }
    tools::ensure_browser()?;
    let path = |name| programs.path(Kind::Binary, name).map(|path| path.to_string_lossy().into_owned());
    let (suffrage, lab) = (path("suffrage")?, path("suffrage-lab")?);
    // The lock file pins the versions.
    program(&["npm", "--prefix", "browser", "ci", "--no-audit", "--no-fund", "--loglevel", "error"]).run()?;
    let chosen =
        all.iter().filter(|file| files.is_empty() || files.iter().any(|name| test_file(name) == **file));
    let chosen: Vec<String> = chosen.map(|file| format!("browser/{file}")).collect();
    let mut line = vec!["node", "--test", "--test-concurrency=1", "--test-reporter=spec"];
    line.extend(chosen.iter().map(String::as_str));
    program(&line).env("SUFFRAGE", &suffrage).env("SUFFRAGE_LAB", &lab).run()
}

/// The ending of files of tests.
const SUFFIX: &str = ".test.js";

fn test_file(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// The files of tests.
fn all() -> Result<Vec<String>, String> {
    let entries = fs::read_dir(root().join("browser")).map_err(|error| format!("browser: {error}"))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = names.filter(|name| name.ends_with(SUFFIX)).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_and_unknown_ones_are_named() {
        assert!(all().unwrap().contains(&test_file("cluster")));
        let error = check(&["gopher"], &Programs::default()).unwrap_err();
        assert!(error.contains("`gopher`") && error.contains("cluster"), "{error}");
    }
}
