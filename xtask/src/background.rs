//! Jobs that run while other steps do, and that end when a step fails.

use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval at which it is seen whether a job has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A thread that runs jobs, one after the other. When this value is dropped, the running job ends with all its
/// descendants, no other begins, and the thread ends.
pub(crate) struct Background<T> {
    jobs: Jobs,
    thread: Option<JoinHandle<T>>,
}

/// The jobs of one thread.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    ended: bool,
    running: Option<Child>,
}

impl<T: Send + 'static> Background<T> {
    /// Runs jobs in a thread.
    pub(crate) fn start(run: impl FnOnce(&Jobs) -> T + Send + 'static) -> Background<T> {
        let jobs = Jobs::default();
        let own = jobs.clone();
        Background { jobs, thread: Some(thread::spawn(move || run(&own))) }
    }

    /// Waits until all jobs have ended, and returns the result.
    pub(crate) fn join(mut self) -> Result<T, String> {
        let thread = self.thread.take().expect("it is taken once");
        thread.join().map_err(|_| "a thread has panicked".to_string())
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.jobs.end();
            // A panic was printed.
            _ = thread.join();
        }
    }
}

impl Jobs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command, unless the jobs have ended. Returns what it has printed to a piped standard output.
    pub(crate) fn run(&self, command: &mut Command) -> io::Result<(ExitStatus, Vec<u8>)> {
        let stdout = {
            let mut state = self.state();
            if state.ended {
                return Err(io::Error::other("another step has failed"));
            }
            state.running.insert(command.spawn()?).stdout.take()
        };
        let mut printed = Vec::new();
        if let Some(mut stdout) = stdout {
            stdout.read_to_end(&mut printed)?;
        }
        loop {
            let mut state = self.state();
            let running = state.running.as_mut().expect("one job runs at a time");
            if let Some(status) = running.try_wait()? {
                state.running = None;
                return Ok((status, printed));
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }

    /// Kills the running job and its descendants, by their ids: cargo does not kill its compilers.
    fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        if let Some(job) = &mut state.running {
            let descendants = descendants(job.id());
            // The job may have ended by itself.
            _ = job.kill();
            if !descendants.is_empty() {
                let ids = descendants.iter().map(u32::to_string);
                _ = Command::new("kill").arg("-KILL").args(ids).status();
            }
        }
    }
}

/// The ids of the children of a process, their children and so on.
fn descendants(of: u32) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((id, parent(id)?))
        })
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id));
        next += 1;
    }
    found.split_off(1)
}

/// The parent of a process. None if the process has ended.
fn parent(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program stands in parentheses and may have any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::program;
    use std::time::Instant;

    /// The job starts a child, and waits for it.
    #[test]
    fn jobs_and_their_descendants_end_with_the_background_and_no_other_begins() {
        let file = std::env::temp_dir().join(format!("xtask-background-{}", std::process::id()));
        let (path, second) = (file.display().to_string(), file.with_extension("second"));
        let touched = second.display().to_string();
        let background = Background::start(move |jobs| {
            let script = format!("sleep 100 & echo $! > {path}.new; mv {path}.new {path}; wait");
            let first = program(&["/bin/sh", "-c", &script]).among(jobs).run();
            (first, program(&["touch", &touched]).among(jobs).run())
        });
        let began = Instant::now();
        let child: u32 = loop {
            assert!(began.elapsed() < Duration::from_secs(60), "the job does not start");
            if let Ok(id) = std::fs::read_to_string(&file) {
                break id.trim().parse().unwrap();
            }
            thread::sleep(LOOK);
        };
        assert!(parent(child).is_some());
        drop(background);
        while parent(child).is_some() {
            assert!(began.elapsed() < Duration::from_secs(60), "the child of the job runs on");
            thread::sleep(LOOK);
        }
        assert!(!second.exists(), "the next job has begun");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn the_results_of_jobs_are_returned() {
        let background = Background::start(|jobs| {
            let failed = program(&["false"]).among(jobs).run();
            (failed, program(&["echo", "x"]).nice().among(jobs).report())
        });
        let (failed, printed) = background.join().unwrap();
        assert_eq!((failed, printed), (Err("`false ` failed".to_string()), Ok("x\n".to_string())));
    }
}
