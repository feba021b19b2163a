//! The suite of the clients: behaviours that every client has, checked with real clusters of `suffrage node`.
//!
//! - `behaviours` is the list of behaviours.
//! - `cluster` starts nodes, and `proxy` holds back what they answer.
//! - `driver` starts the driver program of a client: `README.md` has the protocol.
//! - `history` judges who led when.
//! - `runner` runs behaviours, several at a time.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "runs programs and measures time")]

mod behaviours;
mod cluster;
mod driver;
mod history;
mod proxy;
mod runner;

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const USAGE: &str = "\
usage: suffrage-clients [--client NAME].. [--jobs N] [--list] [TEXT..]

  --client NAME   a driver: the folder in clients/, or FOLDER-API (python-asyncio); default: all
  --jobs N        how many behaviours run at a time [default: 6]
  --list          prints the behaviours
  TEXT            runs only behaviours whose names contain one of the texts";

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("suffrage-clients: {reason}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Lets this program and those that it starts open as many files as they may: a node uses a part of them for connections.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails, a behaviour says what it needs.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Runs what the arguments say. Returns whether every behaviour is as it must be.
fn run(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut names, mut texts, mut jobs) = (Vec::new(), Vec::new(), 6);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing"));
        match argument.as_str() {
            "--client" => names.push(value()?),
            "--jobs" => jobs = value()?.parse().map_err(|_| "--jobs: must be a number".to_string())?,
            "--list" => {
                behaviours::ALL.iter().for_each(|behaviour| println!("{}", behaviour.name));
                return Ok(true);
            }
            flag if flag.starts_with('-') => return Err(format!("there is no flag {flag}")),
            text => texts.push(text.to_string()),
        }
    }
    raise_file_limit();
    let drivers = driver::find(&names)?;
    let chosen: Vec<_> = behaviours::ALL
        .iter()
        .filter(|it| texts.is_empty() || texts.iter().any(|text| it.name.contains(text.as_str())))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no behaviour contains {}", texts.join(" or ")));
    }
    Ok(runner::run(&drivers, &chosen, jobs))
}
