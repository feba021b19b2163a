//! Programs of others: how they are found, installed, started and spoken to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, now};

/// Finds a program in PATH and in the folders where Debian hides servers. Installs its package if it is missing.
pub fn program(name: &str, package: &str, folders: &[&str]) -> PathBuf {
    let find = || {
        let path = std::env::var("PATH").unwrap_or_default();
        let all =
            path.split(':').chain(folders.iter().copied()).chain(["/usr/sbin", "/usr/lib/postgresql/15/bin"]);
        all.map(|folder| Path::new(folder).join(name)).find(|program| program.exists())
    };
    find()
        .or_else(|| {
            install(package);
            find()
        })
        .unwrap_or_else(|| panic!("`{name}` is missing after `apt-get install {package}`"))
}

/// Installs a package of Debian. Only one test installs at a time.
pub fn install(package: &str) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for arguments in [&["update"] as &[&str], &["install", "-y", "--no-install-recommends", package]] {
        let mut command = Command::new("apt-get");
        // The service of the package must not start: tests start servers of their own.
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        let output = command.stdin(Stdio::null()).output().expect("apt-get");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "apt-get {}: {text}", arguments.join(" "));
    }
}

/// A running program. It is killed when this value is dropped.
pub struct Server(pub Child);

impl Server {
    /// Starts a server, with its output in a file.
    pub fn start(command: &mut Command, log: &Path) -> Server {
        let file = std::fs::File::options().create(true).append(true).open(log).expect("a log");
        let other = file.try_clone().expect("a log");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(other).spawn();
        Server(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).expect("the process runs");
    }

    /// Kills the process, and waits for its end.
    pub fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A folder in the cache of the user, which tests fill once. One process at a time has it.
pub struct Cache {
    path: PathBuf,
    /// The lock ends with the file.
    _lock: std::fs::File,
}

impl Cache {
    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of this name in the cache.
pub fn cache(name: &str) -> Cache {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let path = cache.unwrap_or_else(std::env::temp_dir).join("suffrage-tests").join(name);
    std::fs::create_dir_all(&path).expect("a cache");
    let lock = std::fs::File::create(path.join("lock")).expect("a file");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    Cache { path, _lock: lock }
}

/// The interpreter of a Python environment with these packages, in the cache of the user. Makes it if it is missing.
pub fn python(packages: &[&str]) -> PathBuf {
    let cache = cache("python");
    let name = packages.join("+").replace(['=', '[', ']', '/'], "-");
    let folder = cache.path().join(name);
    let (interpreter, ready) = (folder.join("bin/python"), folder.join("ready"));
    if ready.exists() {
        return interpreter;
    }
    _ = std::fs::remove_dir_all(&folder);
    let run = |command: &mut Command| {
        let output =
            command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command:?}: {text}");
    };
    if !Path::new("/usr/bin/python3").exists() || !Path::new("/usr/share/doc/python3-venv").exists() {
        install("python3-venv");
    }
    run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&folder));
    run(Command::new(&interpreter).args(["-m", "pip", "install", "--quiet"]).args(packages));
    std::fs::write(ready, "").expect("a file");
    interpreter
}

/// A program of another client that reads commands and prints events, one per line.
pub struct Foreign {
    /// The process.
    pub process: Server,
    input: ChildStdin,
    lines: mpsc::Receiver<(String, Duration)>,
}

impl Foreign {
    /// Starts the program.
    pub fn start(command: &mut Command) -> Foreign {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send((line, now())).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().expect("a pipe");
        Foreign { process: Server(child), input, lines }
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the process runs");
    }

    /// Waits for the next line.
    pub fn hear(&mut self) -> String {
        let line = tokio::task::block_in_place(|| self.lines.recv_timeout(PATIENCE));
        line.expect("a line in time").0
    }

    /// Waits for the next line for this long, and returns it and when it was printed. None if the program has ended.
    pub fn line(&self, within: Duration) -> Option<(String, Duration)> {
        tokio::task::block_in_place(|| self.lines.recv_timeout(within)).ok()
    }

    /// Waits for this line, and returns when it was printed.
    #[track_caller]
    pub fn says(&self, expected: &str) -> Duration {
        let (line, now) =
            self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line `{expected}`"));
        assert_eq!(line, expected);
        now
    }

    /// Whether there is no line yet.
    pub fn is_silent(&self) -> bool {
        self.lines.try_recv().is_err()
    }
}
