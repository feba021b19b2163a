//! Supervisors in this process, with real commands. A guard is this executable, started again: it has a `main` of its
//! own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]

#[cfg(target_os = "linux")]
mod supervised;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    suffrage::Supervisor::guard_main().unwrap_or_else(supervised::run_tests)
}

#[cfg(not(target_os = "linux"))]
fn main() {}
