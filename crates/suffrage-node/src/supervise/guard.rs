//! The guard process: starts a command, and stops it when its deadline is not extended in time.
//!
//! One thread waits for the end of the command, an order, or a deadline. Orders are lines on the socket that is the
//! standard input:
//!
//! ```text
//!   lease STOP KILL   new deadlines, in nanoseconds of BootClock
//!   signal N          send this signal to the process group of the command
//!   stop N            stop the command now, with this signal and the grace
//!   ◀ started PID
//!   ◀ ended exit N | ended signal N     when every process of the command has ended
//! ```

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use suffrage_core::{Span, Time};

use super::{ENTRY, tree};
use crate::clock::{BootClock, Clock, nap};

/// The interval of checks while processes end.
const SWEEP: Span = Span::from_millis(1);
/// The exit codes of shells for a command that cannot be run and for one that is not found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The `main` of a program whose first argument is [`ENTRY`]. `arguments` are those after it. Returns the exit code.
pub fn main(arguments: &[OsString]) -> u8 {
    let (role, rest) =
        arguments.split_first().map_or((None, arguments), |(role, rest)| (role.to_str(), rest));
    let done = match role {
        Some("watch") => watch(rest),
        Some("become") => Err(become_command(rest)),
        _ => Err(io::Error::other("this subcommand is internal")),
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
        // The guard may have died before the death signal was set.
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
        if parent.map(|parent| parent.to_string().into()) != Some(guard.clone()) {
            return io::Error::other("the guard has ended");
        }
    }
    Command::new(program).args(rest).exec()
}

fn number(word: &OsString) -> io::Result<u64> {
    word.to_str()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::other("this subcommand is internal"))
}

/// Runs the guard of a command.
fn watch(arguments: &[OsString]) -> io::Result<()> {
    let [signal, grace, stop_at, kill_at, command @ ..] = arguments else {
        return Err(io::Error::other("this subcommand is internal"));
    };
    // A session of its own: signals to the session of the program do not reach the guard.
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
    guard.report(&format!("started {}", guard.command.pid.as_raw_nonzero()));
    guard.run()
}

/// The command, the leader of a process group.
struct GroupLeader {
    pid: Pid,
    /// A pidfd: readable when the process has ended.
    end: OwnedFd,
}

fn start(command: &[OsString]) -> io::Result<GroupLeader> {
    let me = std::process::id().to_string();
    // The running program, also if its file has been replaced since.
    let child = Command::new("/proc/self/exe")
        .args([ENTRY, "become", &me])
        .args(command)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()?;
    let pid = Pid::from_child(&child);
    let end = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    Ok(GroupLeader { pid, end })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// The stop signal is sent. SIGKILL follows at this time.
    Stopping(Time),
    Killing,
}

struct Guard {
    control: UnixStream,
    /// Whether the program still holds the other end.
    connected: bool,
    heard: Vec<u8>,
    command: GroupLeader,
    /// The exit status of the command, if it has ended.
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
            if self.reap() {
                let status = self.status.clone().unwrap_or_default();
                self.report(&format!("ended {status}"));
                return Ok(());
            }
            let now = BootClock.now();
            match self.phase {
                // Background processes end with the command.
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

    /// Reaps the processes that have ended. True if no child is left.
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
                // ECHILD. The guard is a subreaper: every descendant would be its child.
                Err(_) => return true,
            }
        }
    }

    fn stop(&mut self, signal: Signal) {
        if self.phase == Phase::Running {
            self.signal(signal);
            // A stopped process handles the signal only after SIGCONT.
            self.signal(Signal::CONT);
            self.phase = Phase::Stopping((BootClock.now() + self.grace).min(self.kill_at));
        }
    }

    /// Sends a signal to the process group, and to descendants that have left it.
    fn signal(&self, signal: Signal) {
        // After the command is reaped, its process id may be reused.
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
            Phase::Running => self.stop_at.since(now),
            // The command has ended; its descendants have no descriptor to wait for.
            Phase::Stopping(until) if self.status.is_some() => until.since(now).min(SWEEP),
            Phase::Stopping(until) => until.since(now).min(SWEEP * 10),
            Phase::Killing => SWEEP,
        };
        let next = nap(next);
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
            self.on_order(str::from_utf8(&line).unwrap_or_default().trim_end());
        }
        if !self.connected {
            self.stop(self.stop_signal);
        }
    }

    fn on_order(&mut self, line: &str) {
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

    fn report(&mut self, line: &str) {
        // The program may be gone.
        _ = self.control.write_all(format!("{line}\n").as_bytes());
    }
}
