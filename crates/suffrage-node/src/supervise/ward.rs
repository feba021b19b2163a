//! What a program has of a command that is guarded.

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

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What it finds in its environment, besides what this program has.
    pub environment: Vec<(String, String)>,
    /// The number of the signal by which it is told to end.
    pub stop_signal: i32,
    /// How long it may take to, before it is killed.
    pub grace: Span,
}

/// Until when it may run, by the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// It is told to end then.
    pub stop_at: Time,
    /// It is killed then at the latest.
    pub kill_at: Time,
}

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(u8),
    /// By a signal of this number.
    Killed(i32),
}

impl Ended {
    /// As shells have it.
    pub fn code(self) -> u8 {
        match self {
            Ended::Exited(code) => code,
            Ended::Killed(signal) => 128u8.saturating_add(signal as u8),
        }
    }
}

/// A command that runs under guard. When this is dropped, it is stopped.
#[derive(Debug)]
pub struct Ward {
    guard: Child,
    control: UnixStream,
    heard: VecDeque<u8>,
    /// The command's process group, as soon as it is known.
    group: Option<Pid>,
    limits: Limits,
}

impl Ward {
    /// Starts it. Needs a tokio runtime, and a program that hands [`ENTRY`] to [`main`](super::main).
    pub fn start(spec: &Spec, limits: Limits) -> io::Result<Ward> {
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
        Ok(Ward { guard, control, heard: VecDeque::new(), group: None, limits })
    }

    /// The number of the guard's process.
    pub fn guard(&self) -> u32 {
        self.guard.id()
    }

    /// Until when it may run.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// It may run until then.
    pub fn extend(&mut self, limits: Limits) {
        if limits != self.limits {
            self.limits = limits;
            self.order(&format!("lease {} {}", limits.stop_at.as_nanos(), limits.kill_at.as_nanos()));
        }
    }

    /// Sends a signal to all of it.
    pub fn signal(&mut self, signal: i32) {
        self.order(&format!("signal {signal}"));
    }

    /// Stops it: by this signal if one is given, otherwise by its own.
    pub fn stop(&mut self, signal: Option<i32>) {
        self.order(&format!("stop {}", signal.unwrap_or(0)));
    }

    /// A guard that does not read has stopped; what it is not told, it does by itself in time.
    fn order(&mut self, line: &str) {
        _ = self.control.try_write(format!("{line}\n").as_bytes());
    }

    /// Waits until all of it is gone. Nothing is lost if this is given up.
    pub async fn ended(&mut self) -> Ended {
        loop {
            while let Some(line) = self.line() {
                let words: Vec<&str> = line.split(' ').collect();
                let number = |place: usize| words.get(place).and_then(|word| word.parse::<i32>().ok());
                match (words[0], words.get(1).copied(), number(1), number(2)) {
                    ("started", _, Some(pid), _) => self.group = Pid::from_raw(pid),
                    ("ended", Some("exit"), _, Some(code)) => return self.bury(Ended::Exited(code as u8)),
                    ("ended", _, _, signal) => return self.bury(Ended::Killed(signal.unwrap_or(9))),
                    _ => {}
                }
            }
            let mut buffer = [0; 256];
            let read = match self.control.readable().await {
                Ok(()) => self.control.try_read(&mut buffer),
                Err(error) => Err(error),
            };
            match read {
                Ok(0) => return self.unguarded(),
                Ok(read) => self.heard.extend(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return self.unguarded(),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn bury(&mut self, ended: Ended) -> Ended {
        // It has nothing more to do, and may have been stopped on its way out.
        _ = self.guard.kill();
        _ = self.guard.wait();
        ended
    }

    /// The guard has ended first: it failed to start the command, or was killed, and the command with it.
    fn unguarded(&mut self) -> Ended {
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
        status.map_or(Ended::Killed(9), |code| Ended::Exited(code as u8))
    }

    /// Kills all of it, the guard last: for a guard that has not done so in time.
    pub fn force(&mut self) -> Ended {
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
        self.bury(Ended::Killed(9))
    }
}
