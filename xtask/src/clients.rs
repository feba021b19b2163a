//! The clients of other languages: their tools, static checks, packages, and the suite of behaviours.
//!
//! A client is a folder in `clients` with a script `check`: `clients/suite/README.md`.

use std::fs;

use crate::command::program;
use crate::programs::{Kind, Programs};
use crate::{root, tools};

/// Checks these clients, or all.
pub(crate) fn clients(names: &[&str]) -> Result<(), String> {
    let packages = ["build", "--package", "suffrage-daemon", "--package", "suffrage-clients"];
    check(names, &Programs::build(&packages)?)
}

/// Checks these clients, or all, with programs that are built.
pub(crate) fn check(names: &[&str], programs: &Programs) -> Result<(), String> {
    let all = all()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|client| client == *name)) {
        return Err(format!("there is no client `{unknown}`; clients: {}", all.join(", ")));
    }
    let chosen = all.iter().filter(|client| names.is_empty() || names.contains(&client.as_str()));
    let chosen: Vec<&str> = chosen.map(String::as_str).collect();
    for client in &chosen {
        tools::ensure_for_client(client)?;
        println!("{client}: static checks, unit tests and package");
        program(&[&format!("clients/{client}/check")]).run()?;
    }
    let suite = programs.path(Kind::Binary, "suffrage-clients")?.to_string_lossy();
    let arguments = chosen.iter().flat_map(|client| ["--client", client]);
    program(&std::iter::once(&*suite).chain(arguments).collect::<Vec<_>>()).run()
}

/// The names of all clients.
fn all() -> Result<Vec<String>, String> {
    let entries = fs::read_dir(root().join("clients")).map_err(|error| format!("clients: {error}"))?;
    let is_client = |entry: &fs::DirEntry| entry.path().join("check").is_file();
    let found = entries.flatten().filter(is_client).map(|entry| entry.file_name().to_string_lossy().into());
    let mut found: Vec<String> = found.collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_found_and_unknown_ones_are_named() {
        let all = all().unwrap();
        assert!(all.contains(&"python".to_string()) && !all.contains(&"suite".to_string()), "{all:?}");
        let error = check(&["cobol"], &Programs::default()).unwrap_err();
        assert!(error.contains("`cobol`") && error.contains("python"), "{error}");
    }
}
