//! The program's handle to a guarded command.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
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
    /// Whether this process adopts the processes that a guard leaves behind when it is killed, and kills them. Only for a
    /// program that starts no other child processes than guards.
    pub adopt_orphans: bool,
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

/// The interval of checks while processes end.
const SWEEP: Duration = Duration::from_millis(1);
/// The longest wait of [`GuardHandle::force`] for processes that do not die.
const PATIENCE: Span = Span::from_millis(1_000);

/// The process ids of the running guards of this process.
static GUARDS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn guards() -> MutexGuard<'static, BTreeSet<i32>> {
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command that runs under a guard. Dropping the handle before the command has ended kills the command, and waits for
/// its end.
#[derive(Debug)]
pub struct GuardHandle {
    guard: Child,
    /// Whether every process of the command is gone, and the guard is reaped.
    finished: bool,
    adopt_orphans: bool,
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
        let control = UnixStream::from_std(ours)?;
        #[cfg(target_os = "linux")]
        if spec.adopt_orphans {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        let numbers = [
            spec.stop_signal as u64,
            spec.grace.as_nanos(),
            limits.stop_at.as_nanos(),
            limits.kill_at.as_nanos(),
        ];
        // No other handle takes the new guard for an orphan.
        let mut guards = guards();
        let guard = Command::new("/proc/self/exe")
            .args([ENTRY, "watch"])
            .args(numbers.map(|number| number.to_string()))
            .args(&spec.command)
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        guards.insert(guard.id() as i32);
        let (finished, adopt_orphans) = (false, spec.adopt_orphans);
        Ok(GuardHandle {
            guard,
            finished,
            adopt_orphans,
            control,
            heard: VecDeque::new(),
            group: None,
            limits,
        })
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

    /// Waits until every process of the command is gone, and kills them at this time by [`BootClock`].
    pub async fn ended_by(&mut self, latest: Time) -> CommandExit {
        tokio::select! {
            // After a pause of this process, both are ready: the end of the command comes first.
            biased;
            ended = self.ended() => return ended,
            () = BootClock.sleep_until(latest) => {}
        }
        self.force()
    }

    fn line(&mut self) -> Option<String> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn finish(&mut self, ended: CommandExit) -> CommandExit {
        // The guard has nothing more to do, and may be stopped (SIGSTOP).
        _ = self.guard.kill();
        self.reap_guard();
        ended
    }

    /// Waits for the end of the guard, and returns its exit code.
    fn reap_guard(&mut self) -> Option<i32> {
        // No other handle starts a guard with the same process id before it is removed.
        let mut guards = guards();
        let status = self.guard.wait();
        guards.remove(&(self.guard.id() as i32));
        self.finished = true;
        status.ok()?.code()
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
            std::thread::sleep(SWEEP);
        }
        // The kernel has given the orphans to this process when the guard can be waited for.
        let status = self.reap_guard();
        while self.adopt_orphans && !kill_orphans() {
            std::thread::sleep(SWEEP);
        }
        status.map_or(CommandExit::Killed(9), |code| CommandExit::Exited(code as u8))
    }

    /// Kills the command's processes and then the guard: for a guard that has not acted by the deadline.
    pub fn force(&mut self) -> CommandExit {
        let guard = self.guard.id() as i32;
        let patience = BootClock.now() + PATIENCE;
        loop {
            let left = tree::descendants(guard);
            if left.is_empty() || BootClock.now() > patience {
                break;
            }
            left.iter().for_each(|entry| tree::send(entry.pid, Signal::KILL));
            std::thread::sleep(SWEEP);
        }
        let ended = self.finish(CommandExit::Killed(9));
        while self.adopt_orphans && !kill_orphans() && BootClock.now() <= patience {
            std::thread::sleep(SWEEP);
        }
        ended
    }
}

impl Drop for GuardHandle {
    fn drop(&mut self) {
        if !self.finished {
            self.force();
        }
    }
}

/// Kills and reaps the children of this process that are no guards, and kills their descendants. True if there is none.
fn kill_orphans() -> bool {
    // Guards of other handles neither start nor end meanwhile.
    let guards = guards();
    let (me, processes) = (std::process::id() as i32, tree::processes());
    let orphans = processes.iter().filter(|entry| entry.parent == me && !guards.contains(&entry.pid));
    let mut none = true;
    for orphan in orphans {
        none = false;
        for entry in tree::below(orphan.pid, &processes) {
            tree::send(entry.pid, Signal::KILL);
        }
        tree::send(orphan.pid, Signal::KILL);
        // The next round reaps a child that has not died yet.
        _ = waitpid(Pid::from_raw(orphan.pid), WaitOptions::NOHANG);
    }
    none
}
