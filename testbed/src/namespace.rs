//! A network namespace. Dropping the value removes it and kills its processes.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::leftovers::is_left_over;

/// The folder in which `ip` keeps namespaces.
const FOLDER: &str = "/run/netns";

#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    pub(crate) fn create(name: String) -> Result<Namespace> {
        ip(&["netns", "add", &name], "")?;
        Ok(Namespace { name })
    }

    /// Runs `ip` commands in the namespace, one per line.
    pub(crate) fn set_up(&self, lines: &str) -> Result<()> {
        ip(&["-n", &self.name, "-batch", "-"], lines)
    }

    /// Runs a closure in this network, in a new thread, because a network namespace belongs to a thread.
    pub(crate) fn enter<R: Send>(&self, run: impl FnOnce() -> R + Send) -> Result<R> {
        let file = File::open(Path::new(FOLDER).join(&self.name))?;
        let inside = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(run())
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes the namespaces of killed tests.
pub(crate) fn remove_leftovers() {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|name| is_left_over(name)) {
            remove(name);
        }
    }
}

/// Kills the processes of a namespace and removes it. Failures are ignored: the name is not reused.
fn remove(name: &str) {
    for _ in 0..100 {
        let pids = Command::new("ip").args(["netns", "pids", name]).stderr(Stdio::null()).output();
        let pids =
            pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let pids: Vec<i32> = pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        thread::sleep(Duration::from_millis(10));
    }
    _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
}

fn ip(arguments: &[&str], input: &str) -> Result<()> {
    let command = || format!("`ip {}`", arguments.join(" "));
    let spawned = Command::new("ip").args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::new(error.kind(), "`ip` is missing; install iproute2"),
        kind => Error::new(kind, format!("{}: {error}", command())),
    })?;
    child.stdin.take().expect("standard input is piped").write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let hint = if rustix::process::geteuid().is_root() { "" } else { "; run as root" };
    Err(Error::other(format!("{}: {reason}{hint}", command())))
}
