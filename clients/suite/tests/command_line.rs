//! The command line of the suite.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_suffrage-clients")).args(arguments).output().expect("the suite runs")
}

#[test]
fn behaviours_are_listed_once() {
    let listed = String::from_utf8(run(&["--list"]).stdout).expect("text");
    let mut names: Vec<&str> = listed.lines().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == count && names.contains(&"client_suspended"), "{listed}");
}

#[test]
fn wrong_arguments_are_errors() {
    for (arguments, reason) in [
        (["--client", "cobol"], "there is no client `cobol`"),
        (["--client", "pyth"], "there is no client `pyth`"),
        (["--jobs", "many"], "--jobs: must be a number"),
        (["--client", "--list"], "there is no client `--list`"),
        (["no-such", "behaviour"], "no behaviour contains no-such or behaviour"),
    ] {
        let output = run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(reason), "{arguments:?}: {told}");
    }
}
