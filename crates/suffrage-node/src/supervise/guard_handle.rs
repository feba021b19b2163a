//! The program's handle to a guarded command.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use suffrage_core::{Span, Time};
use tokio::net::UnixStream;

use super::{ENTRY, tree};
use crate::clock::{BootClock, Clock};

/// A command to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Environment variables, in addition to those of this program.
    pub environment: Vec<(String, String)>,
    /// The number of the stop signal.
    pub stop_signal: i32,
    /// The time from the stop signal to SIGKILL.
    pub grace: Span,
}

/// The deadlines of a command, by [`BootClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time of the stop signal.
    pub stop_at: Time,
    /// The latest time of SIGKILL.
    pub kill_at: Time,
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandExit {
    /// The command exited with this code.
    Exited(u8),
    /// The command was killed by the signal of this number.
    Killed(i32),
}

impl CommandExit {
    /// The exit code as shells report it.
    pub fn code(self) -> u8 {
        match self {
            CommandExit::Exited(code) => code,
            CommandExit::Killed(signal) => 128u8.saturating_add(signal as u8),
        }
    }
}

/// A command that runs under a guard. Dropping the handle stops the command.
#[derive(Debug)]
pub struct GuardHandle {
    guard: Child,
    control: UnixStream,
    heard: VecDeque<u8>,
    /// The command's process group, as soon as it is known.
    group: Option<Pid>,
    limits: Limits,
}

impl GuardHandle {
    /// Starts the guard and the command. Needs a tokio runtime, and a program that hands [`ENTRY`] to
    /// [`main`](super::main).
    pub fn start(spec: &Spec, limits: Limits) -> io::Result<GuardHandle> {
        let (ours, theirs) = Pair::pair()?;
        ours.set_nonblocking(true)?;
        let numbers = [
            spec.stop_signal as u64,
            spec.grace.as_nanos(),
            limits.stop_at.as_nanos(),
            limits.kill_at.as_nanos(),
        ];
        let guard = Command::new("/proc/self/exe")
            .args([ENTRY, "watch"])
            .args(numbers.map(|number| number.to_string()))
            .args(&spec.command)
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let control = UnixStream::from_std(ours)?;
        Ok(GuardHandle { guard, control, heard: VecDeque::new(), group: None, limits })
    }

    /// The process id of the guard.
    pub fn guard(&self) -> u32 {
        self.guard.id()
    }

    /// The present deadlines.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Extends the deadlines.
    pub fn extend(&mut self, limits: Limits) {
        if limits != self.limits {
            self.limits = limits;
            self.order(&format!("lease {} {}", limits.stop_at.as_nanos(), limits.kill_at.as_nanos()));
        }
    }

    /// Sends a signal to the process group of the command.
    pub fn signal(&mut self, signal: i32) {
        self.order(&format!("signal {signal}"));
    }

    /// Stops the command, by this signal or by its own stop signal.
    pub fn stop(&mut self, signal: Option<i32>) {
        self.order(&format!("stop {}", signal.unwrap_or(0)));
    }

    /// Writes an order without waiting. A guard that does not read is stopped (SIGSTOP), and acts by its deadlines
    /// when it continues.
    fn order(&mut self, line: &str) {
        _ = self.control.try_write(format!("{line}\n").as_bytes());
    }

    /// Waits until every process of the command is gone. Cancel-safe.
    pub async fn ended(&mut self) -> CommandExit {
        loop {
            while let Some(line) = self.line() {
                let words: Vec<&str> = line.split(' ').collect();
                let number = |place: usize| words.get(place).and_then(|word| word.parse::<i32>().ok());
                match (words[0], words.get(1).copied(), number(1), number(2)) {
                    ("started", _, Some(pid), _) => self.group = Pid::from_raw(pid),
                    ("ended", Some("exit"), _, Some(code)) => {
                        return self.finish(CommandExit::Exited(code as u8));
                    }
                    ("ended", _, _, signal) => return self.finish(CommandExit::Killed(signal.unwrap_or(9))),
                    _ => {}
                }
            }
            let mut buffer = [0; 256];
            let read = match self.control.readable().await {
                Ok(()) => self.control.try_read(&mut buffer),
                Err(error) => Err(error),
            };
            match read {
                Ok(0) => return self.on_guard_lost(),
                Ok(read) => self.heard.extend(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return self.on_guard_lost(),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn finish(&mut self, ended: CommandExit) -> CommandExit {
        // The guard has nothing more to do, and may be stopped (SIGSTOP).
        _ = self.guard.kill();
        _ = self.guard.wait();
        ended
    }

    /// The guard ended first: it could not start the command, or was killed together with the command.
    fn on_guard_lost(&mut self) -> CommandExit {
        let session = self.guard.id() as i32;
        loop {
            if let Some(group) = self.group {
                _ = kill_process_group(group, Signal::KILL);
            }
            let mut left = tree::processes();
            left.retain(|entry| entry.session == session && entry.pid != session && !entry.dead);
            if left.is_empty() {
                break;
            }
            left.iter().for_each(|entry| tree::send(entry.pid, Signal::KILL));
            self.group = None;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let status = self.guard.wait().ok().and_then(|status| status.code());
        status.map_or(CommandExit::Killed(9), |code| CommandExit::Exited(code as u8))
    }

    /// Kills the command's processes and then the guard: for a guard that has not acted by the deadline.
    pub fn force(&mut self) -> CommandExit {
        let guard = self.guard.id() as i32;
        let patience = BootClock.now() + Span::from_millis(1_000);
        loop {
            let left = tree::descendants(guard);
            if left.is_empty() || BootClock.now() > patience {
                break;
            }
            left.iter().for_each(|entry| tree::send(entry.pid, Signal::KILL));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.finish(CommandExit::Killed(9))
    }
}
