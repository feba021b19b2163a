//! Child processes, their resource usage, and temporary folders.

use std::io;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether `setpriv` exists, with which the kernel kills a child when this program ends for any reason.
static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
    let status =
        Command::new("setpriv").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
});

/// A child process that is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts a program with only PATH in its environment.
    pub(crate) fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Process, String> {
        let mut command = if *SETPRIV {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let failed = |error: io::Error| format!("cannot start {}: {error}", program.display());
        let log = std::fs::File::options().create(true).append(true).open(log).map_err(failed)?;
        command.args(arguments).env_clear().envs(std::env::vars().filter(|(name, _)| name == "PATH"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().map(Process).map_err(failed)
    }

    /// Kills the process with SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        // The process may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)))
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(&self.0.id().to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The resource usage of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Seconds of CPU since the start.
    pub(crate) cpu: f64,
    /// Resident memory in bytes (VmRSS).
    pub(crate) memory: u64,
    /// Anonymous memory in bytes (RssAnon): without the program file and the database file of etcd.
    pub(crate) anonymous: u64,
}

impl Usage {
    /// The usage of one process: `self`, or its id.
    pub(crate) fn of(process: &str) -> Usage {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        let status = read("status");
        let (memory, anonymous) = (memory(&status, "VmRSS:"), memory(&status, "RssAnon:"));
        Usage { cpu: cpu(&read("stat")), memory, anonymous }
    }

    /// The usage of processes with their descendants: a server may start a process for each connection.
    pub(crate) fn of_trees(roots: &[u32]) -> Usage {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parent = |id: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            Some((id, parent(&stat)?))
        };
        let processes = with_descendants(roots, &ids.filter_map(parent).collect::<Vec<_>>());
        Usage::sum(processes.iter().map(|id| Usage::of(&id.to_string())))
    }

    /// The sum of usages.
    pub(crate) fn sum(usages: impl IntoIterator<Item = Usage>) -> Usage {
        usages.into_iter().fold(Usage::default(), |sum, one| Usage {
            cpu: sum.cpu + one.cpu,
            memory: sum.memory + one.memory,
            anonymous: sum.anonymous + one.anonymous,
        })
    }
}

/// The fields of `/proc/../stat` after the name of the program, which is in brackets and may contain spaces and brackets.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit(')').next().unwrap_or("").split_whitespace().collect()
}

/// The parent of a process, from `/proc/../stat`.
fn parent(stat: &str) -> Option<u32> {
    fields(stat).get(1)?.parse().ok()
}

/// The roots and all processes below them, of pairs of a process and its parent.
fn with_descendants(roots: &[u32], parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = roots.to_vec();
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        let children = parents.iter().filter(|(child, parent)| *parent == process && !found.contains(child));
        let children: Vec<u32> = children.map(|(child, _)| *child).collect();
        found.extend(children);
    }
    found
}

/// Seconds of CPU from `/proc/../stat`, which has 100 ticks per second.
fn cpu(stat: &str) -> f64 {
    let fields = fields(stat);
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Bytes of memory from `/proc/../status`.
fn memory(status: &str, kind: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(kind));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn create(what: &str) -> Result<Folder, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("suffrage-bench-{}-{what}-{count}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The last line of a log file, for error messages.
    pub(crate) fn last_log_line(&self, log: &str) -> String {
        let text = std::fs::read_to_string(self.0.join(log)).unwrap_or_default();
        text.lines().last().unwrap_or("the log is empty").to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_usage_is_parsed() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 4 0 100 9 9";
        assert_eq!((cpu(stat), parent(stat), parent("")), (3.0, Some(1), None));
        let status = "Name:\tx\nVmHWM:\t  30 kB\nVmRSS:\t   20 kB\nRssAnon:\t   5 kB\n";
        assert_eq!((memory(status, "VmRSS:"), memory(status, "RssAnon:")), (20_480, 5_120));
        assert_eq!((cpu(""), memory("", "VmRSS:")), (0.0, 0), "an ended process has no usage");
        assert!(Usage::of("self").memory > 0);
    }

    #[test]
    fn descendants_are_found() {
        let parents = [(1, 0), (5, 1), (7, 5), (9, 7), (8, 1), (10, 9)];
        assert_eq!(with_descendants(&[5, 8], &parents), [5, 8, 7, 9, 10]);
        assert!(Usage::of_trees(&[std::process::id()]).memory > 0);
    }

    #[test]
    fn dropped_processes_and_folders_are_removed() {
        let folder = Folder::create("test").unwrap();
        let (path, log) = (folder.path().to_path_buf(), folder.path().join("log"));
        let sleep = ["-c".to_string(), "echo last >&2; exec sleep 60".to_string()];
        let mut process = Process::start(Path::new("/bin/sh"), &sleep, &log).unwrap();
        assert!(!process.has_ended());
        while folder.last_log_line("log") != "last" {
            std::thread::yield_now();
        }
        process.kill();
        assert!(process.has_ended());
        drop(folder);
        assert!(!path.exists());
    }
}
