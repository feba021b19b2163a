//! The guard: starts a command, and stops it when it has not been told in time that it may go on.
//!
//! It is one thread that waits for the first of: the command's end, an order, the moment to act. Orders come
//! in lines, over the socket that is its standard input:
//!
//! ```text
//!   lease STOP KILL   it may run until then, by the machine's clock, in nanoseconds
//!   signal N          to the command's group
//!   stop N            stop it now, with this signal, and in the grace
//!   ◀ started PID
//!   ◀ ended exit N | ended signal N     when all is gone
//! ```

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use suffrage_core::{Span, Time};

use super::{ENTRY, tree};
use crate::clock::{BootClock, Clock};

/// While the last are dying, they are looked after so often.
const SWEEP: Span = Span::from_millis(1);
/// A poll's clock stands still while the machine sleeps, so no poll is long.
const NAP: Span = Span::from_millis(500);
/// Cannot be run, and is not there: as shells have it.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What a program does that is called with [`ENTRY`]; the arguments are those after it. The exit code.
pub fn main(arguments: &[OsString]) -> u8 {
    let (role, rest) =
        arguments.split_first().map_or((None, arguments), |(role, rest)| (role.to_str(), rest));
    let done = match role {
        Some("watch") => watch(rest),
        Some("become") => Err(become_command(rest)),
        _ => Err(io::Error::other("this is not for people")),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            let program = rest.last().map(|program| program.to_string_lossy()).unwrap_or_default();
            let program = if role == Some("become") { rest[1].to_string_lossy() } else { program };
            eprintln!("suffrage: {program}: {error}");
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
        }
    }
}

/// Turns this process, which the guard has started, into the command; returns only if that fails.
fn become_command(arguments: &[OsString]) -> io::Error {
    let [guard, program, rest @ ..] = arguments else { return io::Error::other("there is no command") };
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getppid, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
            return error.into();
        }
        // It may have died before it was asked for.
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
        if parent.map(|parent| parent.to_string().into()) != Some(guard.clone()) {
            return io::Error::other("its guard is gone");
        }
    }
    Command::new(program).args(rest).exec()
}

fn number(word: &OsString) -> io::Result<u64> {
    word.to_str().and_then(|word| word.parse().ok()).ok_or_else(|| io::Error::other("this is not for people"))
}

/// What a guard is told at the start.
fn watch(arguments: &[OsString]) -> io::Result<()> {
    let [signal, grace, stop_at, kill_at, command @ ..] = arguments else {
        return Err(io::Error::other("this is not for people"));
    };
    // In a session of its own: what stops or ends the program's does not reach it.
    _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    control.set_nonblocking(true)?;
    let mut guard = Guard {
        stop_signal: Signal::from_named_raw(number(signal)? as i32).unwrap_or(Signal::TERM),
        grace: Span::from_nanos(number(grace)?),
        stop_at: Time::from_nanos(number(stop_at)?),
        kill_at: Time::from_nanos(number(kill_at)?),
        command: start(command)?,
        status: None,
        phase: Phase::Running,
        heard: Vec::new(),
        connected: true,
        control,
    };
    guard.say(&format!("started {}", guard.command.pid.as_raw_nonzero()));
    guard.run()
}

/// The command, which leads a process group.
struct Leader {
    pid: Pid,
    /// Becomes readable when it has ended.
    end: OwnedFd,
}

fn start(command: &[OsString]) -> io::Result<Leader> {
    let me = std::process::id().to_string();
    // The program as it was when it was started, also if its file has been replaced since.
    let child = Command::new("/proc/self/exe")
        .args([ENTRY, "become", &me])
        .args(command)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()?;
    let pid = Pid::from_child(&child);
    let end = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    Ok(Leader { pid, end })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// It has been told to end, and is killed at this moment.
    Stopping(Time),
    Killing,
}

struct Guard {
    control: UnixStream,
    /// Whether there is anybody at the other end.
    connected: bool,
    heard: Vec<u8>,
    command: Leader,
    /// How the command has ended, if it has.
    status: Option<String>,
    phase: Phase,
    stop_signal: Signal,
    grace: Span,
    stop_at: Time,
    kill_at: Time,
}

impl Guard {
    fn run(mut self) -> io::Result<()> {
        loop {
            let alone = self.reap();
            if alone {
                let status = self.status.clone().unwrap_or_default();
                self.say(&format!("ended {status}"));
                return Ok(());
            }
            let now = BootClock.now();
            match self.phase {
                // What a command leaves behind ends with it.
                Phase::Running if self.status.is_some() || now >= self.stop_at => self.stop(self.stop_signal),
                Phase::Stopping(until) if now >= until => self.phase = Phase::Killing,
                _ => {}
            }
            if self.phase == Phase::Killing {
                self.signal(Signal::KILL);
            }
            self.wait()?;
            self.listen();
        }
    }

    /// Asks how those have ended that have. True if nobody is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command.pid => {
                    let code = status.exit_status().map(|code| format!("exit {code}"));
                    let signal = status.terminating_signal().map(|signal| format!("signal {signal}"));
                    self.status = code.or(signal);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return false,
                // Whoever had descended from it would be its child by now.
                Err(_) => return true,
            }
        }
    }

    fn stop(&mut self, signal: Signal) {
        if self.phase == Phase::Running {
            self.signal(signal);
            // Who stands still does not hear.
            self.signal(Signal::CONT);
            self.phase = Phase::Stopping((BootClock.now() + self.grace).min(self.kill_at));
        }
    }

    /// To the group as a whole, and to whoever has left it.
    fn signal(&self, signal: Signal) {
        // Once the command has been asked how it ended, its number may be another's.
        let group = match self.status {
            None => kill_process_group(self.command.pid, signal).ok().map(|()| self.command.pid),
            Some(_) => None,
        };
        let group = group.map(|pid| pid.as_raw_nonzero().get());
        for entry in tree::descendants(std::process::id() as i32) {
            if Some(entry.group) != group {
                tree::send(entry.pid, signal);
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let now = BootClock.now();
        let next = match self.phase {
            Phase::Running => self.stop_at.since(now).min(NAP),
            // The command may be dead already, and others not: those have no descriptor to be waited for.
            Phase::Stopping(until) if self.status.is_some() => until.since(now).min(SWEEP),
            Phase::Stopping(until) => until.since(now).min(SWEEP * 10),
            Phase::Killing => SWEEP,
        };
        let next = Duration::from_nanos(next.as_nanos());
        let timeout = Timespec { tv_sec: next.as_secs() as i64, tv_nsec: next.subsec_nanos().into() };
        let mut fds = Vec::with_capacity(2);
        if self.connected {
            fds.push(PollFd::new(&self.control, PollFlags::IN));
        }
        if self.status.is_none() {
            fds.push(PollFd::new(&self.command.end, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        while self.connected {
            match self.control.read(&mut buffer) {
                Ok(0) => self.connected = false,
                Ok(read) => self.heard.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.connected = false,
            }
        }
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            self.obey(str::from_utf8(&line).unwrap_or_default().trim_end());
        }
        if !self.connected {
            self.stop(self.stop_signal);
        }
    }

    fn obey(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
        let signal = || number(1).and_then(|signal| Signal::from_named_raw(signal as i32));
        match (words[0], number(1), number(2)) {
            ("lease", Some(stop_at), Some(kill_at)) => {
                self.stop_at = Time::from_nanos(stop_at);
                self.kill_at = Time::from_nanos(kill_at);
            }
            ("signal", ..) => {
                if let Some(signal) = signal() {
                    self.signal(signal);
                }
            }
            ("stop", ..) => self.stop(signal().unwrap_or(self.stop_signal)),
            _ => {}
        }
    }

    fn say(&mut self, line: &str) {
        // If nobody hears it, nobody needs to.
        _ = self.control.write_all(format!("{line}\n").as_bytes());
    }
}
