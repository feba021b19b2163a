//! The programs of this workspace: cargo builds them once and reports their paths.
//!
//! Tasks run programs by their path and not by `cargo run --package …`: cargo chooses the features of dependencies
//! by the selected packages, and would compile most of the workspace a second time.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::background::Jobs;
use crate::command::{Job, cargo, program};

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A program that is installed.
    Binary,
    /// An example.
    Example,
    /// A program of tests in a folder `tests`.
    Tests,
}

/// A program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The folder of the package, in which cargo runs tests.
    pub(crate) folder: PathBuf,
}

/// The programs of one build.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<Program>);

impl Programs {
    /// Builds every program, test program and example of the workspace, in the profile of tests.
    pub(crate) fn build_all() -> Result<Programs, String> {
        Programs::build(&["test", "--workspace", "--no-run"])
    }

    /// Builds the programs that users run and the examples, in the profile of tests. `--examples` has cargo choose the
    /// same features as for tests, so that both share what is compiled.
    pub(crate) fn build_for_users() -> Result<Programs, String> {
        Programs::build(&["build", "--workspace", "--bins", "--examples"])
    }

    /// Runs a cargo command that builds, and collects the programs that cargo reports.
    pub(crate) fn build(arguments: &[&str]) -> Result<Programs, String> {
        Programs::build_with(arguments, |job| job)
    }

    /// The same, but only while no other program needs the processor, and as one of these jobs.
    pub(crate) fn build_nicely(arguments: &[&str], jobs: &Jobs) -> Result<Programs, String> {
        Programs::build_with(arguments, |job| job.nice().among(jobs))
    }

    fn build_with(arguments: &[&str], how: impl FnOnce(Job) -> Job) -> Result<Programs, String> {
        let format = ["--quiet", "--message-format=json-render-diagnostics"];
        let report = how(cargo(&[arguments, &format].concat())).report()?;
        Ok(Programs::from_report(&report))
    }

    fn from_report(report: &str) -> Programs {
        let messages = report.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Programs(messages.filter_map(|message| Program::from_message(&message)).collect())
    }

    /// The path of a program.
    pub(crate) fn path(&self, kind: Kind, name: &str) -> Result<&Path, String> {
        let found = self.0.iter().find(|program| program.kind == kind && program.name == name);
        found
            .map(|program| program.path.as_path())
            .ok_or_else(|| format!("cargo has built no {kind:?} `{name}`"))
    }

    /// The command `suffrage-lab` with these arguments.
    pub(crate) fn lab(&self, arguments: &[&str]) -> Result<Job, String> {
        let path = self.path(Kind::Binary, "suffrage-lab")?.to_string_lossy();
        Ok(program(&[&[&*path], arguments].concat()))
    }

    /// Runs the tests of all programs `it` whose names contain this text, so many at a time. An error if there is none.
    pub(crate) fn run_tests(&self, filter: &str, threads: u32) -> Result<(), String> {
        let mut count = 0;
        for tests in self.tests().filter(|tests| tests.name == "it") {
            let (path, threads) = (tests.path.to_string_lossy(), threads.to_string());
            let list =
                program(&[&*path, filter, "--list", "--format", "terse"]).within(&tests.folder).output()?;
            let found = list.lines().filter(|line| line.ends_with(": test")).count();
            if found > 0 {
                program(&[&*path, filter, "--quiet", "--test-threads", &threads])
                    .within(&tests.folder)
                    .run()?;
            }
            count += found;
        }
        if count == 0 { Err(format!("no test is called `{filter}`")) } else { Ok(()) }
    }

    /// All programs of tests.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &Program> {
        self.0.iter().filter(|program| program.kind == Kind::Tests)
    }
}

impl Program {
    /// The program of a message of cargo; none if the message is not about one, or about the tests inside of a library.
    fn from_message(message: &Value) -> Option<Program> {
        let (path, target) = (message["executable"].as_str()?, &message["target"]);
        let kind = match (target["kind"][0].as_str()?, message["profile"]["test"].as_bool()?) {
            ("bin", false) => Kind::Binary,
            ("example", false) => Kind::Example,
            ("test", true) => Kind::Tests,
            _ => return None,
        };
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        let package = folder.file_name()?.to_str()?.to_string();
        let (name, path) = (target["name"].as_str()?.to_string(), PathBuf::from(path));
        Some(Program { kind, package, name, path, folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, test: bool, name: &str, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/x/crates/suffrage-lab/Cargo.toml","executable":{executable},"profile":{{"test":{test}}},"target":{{"kind":["{kind}"],"name":"{name}"}}}}"#
        )
    }

    #[test]
    fn programs_are_found_in_what_cargo_reports() {
        let report = [
            message("lib", false, "suffrage_lab", "null"),
            message("lib", true, "suffrage_lab", r#""/t/unit""#),
            message("bin", true, "suffrage-lab", r#""/t/unit-of-bin""#),
            message("bin", false, "suffrage-lab", r#""/t/suffrage-lab""#),
            message("test", true, "it", r#""/t/it-1""#),
            message("example", false, "roll_call", r#""/t/roll_call""#),
            r#"{"reason":"build-finished","success":true}"#.to_string(),
            "not JSON".to_string(),
        ];
        let programs = Programs::from_report(&report.join("\n"));
        assert_eq!(programs.path(Kind::Binary, "suffrage-lab").unwrap(), Path::new("/t/suffrage-lab"));
        assert_eq!(programs.path(Kind::Example, "roll_call").unwrap(), Path::new("/t/roll_call"));
        assert!(programs.path(Kind::Binary, "suffrage").unwrap_err().contains("no Binary `suffrage`"));
        let tests: Vec<&Program> = programs.tests().collect();
        assert_eq!((tests.len(), tests[0].package.as_str()), (1, "suffrage-lab"));
    }
}
