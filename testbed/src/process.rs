//! Processes that end with the test, and tests that run one at a time.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::until;

/// Waits until no other test with a guard runs: tests that measure time must not run in parallel.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that is killed when the value is dropped.
#[derive(Debug)]
pub struct Process(pub Child);

impl Process {
    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("the process has not been waited for");
    }

    /// Kills the process, and waits for its end.
    pub fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }

    /// Waits for the end of the process, and returns the exit code as a shell does: 128 + N after signal N.
    #[track_caller]
    pub fn code(&mut self) -> i32 {
        let status = until("the process ends", || self.0.try_wait().expect("the process is a child"));
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
