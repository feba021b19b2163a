//! The clock, programs and folders of the tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use suffrage_engines::{Clock, Moment};
use suffrage_node::clock::Clock as _;

/// How long a test waits for a condition before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The clock of the machine, as production uses it.
#[derive(Clone, Copy)]
pub(crate) struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        Duration::from_nanos(suffrage_node::clock::BootClock.now().as_nanos())
    }
}

/// Finds a program in PATH and in the folders where Debian hides servers. Installs its package if it is missing.
pub(crate) fn program(name: &str, package: &str, folders: &[&str]) -> PathBuf {
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
pub(crate) fn install(package: &str) {
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
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Starts a server, with its output in a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Server {
        let file = std::fs::File::options().create(true).append(true).open(log).expect("a log");
        let other = file.try_clone().expect("a log");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(other).spawn();
        Server(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).expect("the process runs");
    }

    pub(crate) fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An event of a candidate process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It leads with this token, and has printed so at this moment. The lease ends at the second moment.
    Leads(u64, Moment, Moment),
    /// The lease has a new end.
    Renewed(u64, Moment, Moment),
    /// It does not lead any more.
    Lost(Moment),
}

/// A candidate process: `examples/candidate.rs`.
pub(crate) struct CandidateProcess {
    pub(crate) process: Server,
    input: ChildStdin,
    events: mpsc::Receiver<Event>,
    /// The end of the lease that the process has printed last.
    pub(crate) until: Moment,
    pub(crate) token: u64,
}

impl CandidateProcess {
    pub(crate) fn start(url: &str, name: &str, ttl: Duration, identity: &str) -> CandidateProcess {
        let program = std::env::current_exe().expect("a path");
        let folder = program.parent().and_then(Path::parent).expect("target/debug");
        let mut command = Command::new(folder.join("examples/candidate"));
        command.args([url, name, &ttl.as_millis().to_string(), identity]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.unwrap_or_else(|error| panic!("{command:?}: {error}: `cargo build --examples` makes it"));
        let (sender, events) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(parse(&line)).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().expect("a pipe");
        CandidateProcess { process: Server(child), input, events, until: Duration::ZERO, token: 0 }
    }

    /// The next event, if there is one within this time.
    pub(crate) fn next(&mut self, within: Duration) -> Option<Event> {
        let event = self.events.recv_timeout(within).ok()?;
        if let Event::Leads(token, _, until) | Event::Renewed(token, _, until) = event {
            (self.token, self.until) = (token, until);
        }
        Some(event)
    }

    /// Waits until the process leads. Returns its token and the moment.
    pub(crate) fn leads(&mut self) -> (u64, Moment) {
        loop {
            match self.next(PATIENCE).expect("the process leads in time") {
                Event::Leads(token, now, _) => return (token, now),
                Event::Renewed(..) | Event::Lost(_) => {}
            }
        }
    }

    /// Makes another process resign until this one leads: the other one stands again, and may be faster. Returns the token.
    pub(crate) fn leads_after(&mut self, other: &mut CandidateProcess, ttl: Duration) -> u64 {
        let start = BootClock.now();
        while BootClock.now() < start + PATIENCE {
            other.resign();
            if let Some(Event::Leads(token, ..)) = self.next(ttl) {
                return token;
            }
        }
        panic!("the process does not lead in time");
    }

    /// Waits until the process has noticed that it does not lead any more.
    pub(crate) fn lost(&mut self) -> Moment {
        loop {
            if let Event::Lost(now) = self.next(PATIENCE).expect("the process loses in time") {
                return now;
            }
        }
    }

    /// Reads all events that have arrived.
    pub(crate) fn drain(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next(Duration::ZERO)).collect()
    }

    /// Makes the process resign.
    pub(crate) fn resign(&mut self) {
        writeln!(self.input).expect("the process runs");
    }
}

fn parse(line: &str) -> Event {
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    match kind {
        "leads" => Event::Leads(number(), Duration::from_nanos(number()), Duration::from_nanos(number())),
        "renewed" => Event::Renewed(number(), Duration::from_nanos(number()), Duration::from_nanos(number())),
        "lost" => Event::Lost(Duration::from_nanos(number())),
        _ => panic!("a candidate printed `{line}`"),
    }
}

/// A folder in the cache of the user, which tests fill once. One process at a time has it.
#[allow(dead_code, reason = "not every engine needs something that is not installed")]
pub(crate) struct Cache {
    path: PathBuf,
    /// The lock ends with the file.
    _lock: std::fs::File,
}

impl Cache {
    #[allow(dead_code, reason = "not every engine needs something that is not installed")]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of this name in the cache.
#[allow(dead_code, reason = "not every engine needs something that is not installed")]
pub(crate) fn cache(name: &str) -> Cache {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let path = cache.unwrap_or_else(std::env::temp_dir).join("suffrage-tests").join(name);
    std::fs::create_dir_all(&path).expect("a cache");
    let lock = std::fs::File::create(path.join("lock")).expect("a file");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    Cache { path, _lock: lock }
}

/// The interpreter of a Python environment with these packages, in the cache of the user. Makes it if it is missing.
#[allow(dead_code, reason = "not every engine has a client in Python")]
pub(crate) fn python(packages: &[&str]) -> PathBuf {
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
#[allow(dead_code, reason = "not every engine has a client of this kind")]
pub(crate) struct Foreign {
    pub(crate) process: Server,
    input: ChildStdin,
    lines: mpsc::Receiver<(String, Moment)>,
}

#[allow(dead_code, reason = "not every engine has a client of this kind")]
impl Foreign {
    pub(crate) fn start(command: &mut Command) -> Foreign {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send((line, BootClock.now())).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().expect("a pipe");
        Foreign { process: Server(child), input, lines }
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the process runs");
    }

    /// Waits for the next line.
    pub(crate) fn hear(&mut self) -> String {
        let line = tokio::task::block_in_place(|| self.lines.recv_timeout(PATIENCE));
        line.expect("a line in time").0
    }

    /// Waits for this line, and returns when it was printed.
    #[track_caller]
    pub(crate) fn says(&self, expected: &str) -> Moment {
        let (line, now) =
            self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line `{expected}`"));
        assert_eq!(line, expected);
        now
    }

    /// Whether there is no line yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.lines.try_recv().is_err()
    }
}
