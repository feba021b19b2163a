//! Tests of the program `suffrage-lab`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of real processes")]

mod check;
mod commands;
mod compare;
mod determinism;
mod many_sockets;
mod members;
mod papers;
mod pictures;
mod scenarios;
mod torture;
mod traces;
mod validate;

/// Runs commands without starting processes.
mod support {
    use std::path::PathBuf;

    use serde_json::Value;
    pub(crate) use suffrage_cli::testing::{HOW_TO_BLESS, Ran, blessing, difference};

    pub(crate) fn run(line: &str) -> Ran {
        suffrage_cli::testing::run(suffrage_lab::run, line)
    }

    pub(crate) fn succeed(line: &str) -> String {
        suffrage_cli::testing::succeed(suffrage_lab::run, line)
    }

    pub(crate) fn json(line: &str) -> Value {
        suffrage_cli::testing::json(suffrage_lab::run, line)
    }

    /// A path in the repository.
    pub(crate) fn path(relative: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
    }
}
