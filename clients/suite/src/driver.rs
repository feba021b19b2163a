//! Driver programs of clients.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use suffrage_testbed::Process;

/// The longest wait for an event: shorter than a lease of [`crate::behaviours::LONG_MS`], so that a hand-over is none by
/// expiry, and long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// The number of lines of stderr that a failure prints.
const STDERR_LINES: usize = 20;

/// The driver program of a client.
#[derive(Debug)]
pub(crate) struct DriverProgram {
    /// `python`, or `python-asyncio`.
    pub(crate) name: String,
    path: PathBuf,
}

impl DriverProgram {
    /// An example of this client. A client with several drivers has its examples once, with the driver that is called
    /// `driver`.
    pub(crate) fn example(&self, name: &str) -> Option<PathBuf> {
        let folder = self.path.parent().filter(|_| self.path.ends_with("driver"))?.join("examples");
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.map(|file| file.path()).find(|path| path.file_stem().is_some_and(|stem| stem == name))
    }
}

/// The folder `clients`.
fn clients() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the suite is in the folder `clients`")
}

/// The drivers with these names, or all. A name of a folder means all drivers in it.
pub(crate) fn find(names: &[String]) -> Result<Vec<DriverProgram>, String> {
    let mut all = Vec::new();
    for folder in fs::read_dir(clients()).into_iter().flatten().flatten() {
        let language = folder.file_name().to_string_lossy().into_owned();
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = match file.file_name().to_string_lossy().strip_prefix("driver") {
                Some("") => language.clone(),
                Some(api) if api.starts_with('-') => format!("{language}{api}"),
                _ => continue,
            };
            all.push(DriverProgram { name, path: file.path() });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let wanted = |name: &String, driver: &DriverProgram| {
        driver.name == *name
            || driver.name.strip_prefix(name.as_str()).is_some_and(|api| api.starts_with('-'))
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|driver| wanted(name, driver))) {
        let known: Vec<_> = all.iter().map(|driver| driver.name.as_str()).collect();
        return Err(format!("there is no client `{unknown}`; clients: {}", known.join(", ")));
    }
    all.retain(|driver| names.is_empty() || names.iter().any(|name| wanted(name, driver)));
    Ok(all)
}

/// A line that a driver printed.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    /// The line itself.
    #[serde(skip)]
    pub(crate) line: String,
    pub(crate) event: String,
    pub(crate) id: u64,
    pub(crate) token: u64,
    pub(crate) at_ns: u64,
    pub(crate) valid: bool,
    pub(crate) reason: String,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) accepted: bool,
    pub(crate) clock: String,
    pub(crate) election: String,
    pub(crate) value: Option<String>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// The current moment of CLOCK_BOOTTIME.
pub(crate) fn now_ns() -> u64 {
    moment(ClockId::Boottime)
}

fn moment(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    closed: bool,
    /// The last lines of stderr.
    stderr: VecDeque<String>,
}

/// A running driver.
pub(crate) struct Driver {
    process: Process,
    stdin: Option<ChildStdin>,
    log: Arc<(Mutex<Log>, Condvar)>,
    next_id: u64,
    /// The moment just before the process was killed.
    killed_ns: Option<u64>,
}

/// The settings of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) endpoints: Vec<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn of(endpoints: impl IntoIterator<Item = String>) -> Settings {
        Settings { endpoints: endpoints.into_iter().collect(), ..Settings::default() }
    }

    /// A command about an election, for a client with these settings.
    fn command(&self, op: &str, election: &str) -> Value {
        let mut command = json!({ "op": op, "election": election, "endpoints": self.endpoints });
        for (key, file) in [("token_file", &self.token_file), ("ca_file", &self.ca_file)] {
            if let Some(file) = file {
                command[key] = json!(file);
            }
        }
        command
    }
}

impl Driver {
    /// Starts a driver, and waits until it reads commands.
    pub(crate) fn start(program: &DriverProgram) -> Driver {
        let mut command = Command::new(&program.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        // The settings of the machine are not those of the test.
        ["SUFFRAGE_NODE", "SUFFRAGE_TOKEN_FILE", "SUFFRAGE_CA"].iter().for_each(|key| {
            command.env_remove(key);
        });
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {:?}: {error}", program.path));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("stdout is a pipe"));
        let log = Arc::new((Mutex::new(Log::default()), Condvar::new()));
        let writer = Arc::clone(&log);
        thread::spawn(move || read(stdout, &writer));
        let (stderr, writer) = (child.stderr.take().expect("stderr is a pipe"), Arc::clone(&log));
        thread::spawn(move || read_stderr(stderr, &writer));
        let driver = Driver { process: Process(child), stdin, log, next_id: 1, killed_ns: None };
        driver.wait("ready", |event| event.event == "ready");
        driver
    }

    fn tell(&mut self, command: &Value) {
        let stdin = self.stdin.as_mut().expect("the driver has not been told to exit");
        writeln!(stdin, "{command}").expect("the driver reads its commands");
    }

    /// Tells the driver to lead, and returns the number of the leadership.
    pub(crate) fn lead(&mut self, settings: &Settings, election: &str, ttl_ms: u64) -> u64 {
        self.lead_with(settings, election, ttl_ms, None)
    }

    /// Tells the driver to lead with a value.
    pub(crate) fn lead_with(
        &mut self,
        settings: &Settings,
        election: &str,
        ttl_ms: u64,
        value: Option<&str>,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut command = settings.command("lead", election);
        command["id"] = json!(id);
        command["ttl_ms"] = json!(ttl_ms);
        if let Some(value) = value {
            command["value"] = json!(value);
        }
        self.tell(&command);
        id
    }

    /// Tells the driver to change the value of a leadership, and returns whether it is set.
    pub(crate) fn set_value(&mut self, id: u64, value: Option<&str>) -> bool {
        let answers = ["value_set", "value_refused"];
        let before = self.events().iter().filter(|it| it.id == id && is_any(it, &answers)).count();
        self.tell(&json!({ "op": "value", "id": id, "value": value }));
        let answer = self.find(&format!("value of {id}"), |log| {
            log.iter().filter(|it| it.id == id && is_any(it, &answers)).nth(before).cloned()
        });
        answer.event == "value_set"
    }

    /// Asks who leads. The answer has no token if nobody does, or if no node answers.
    pub(crate) fn leader(&mut self, settings: &Settings, election: &str) -> Event {
        let answers = ["leader", "leader_unknown"];
        let of = |it: &&Event| it.election == election && is_any(it, &answers);
        let before = self.events().iter().filter(of).count();
        self.tell(&settings.command("leader", election));
        self.find(&format!("leader of {election}"), |log| log.iter().filter(of).nth(before).cloned())
    }

    /// Tells the driver to resign, and waits until the leadership or campaign is over.
    #[track_caller]
    pub(crate) fn resign(&mut self, id: u64) -> Event {
        self.tell(&json!({ "op": "resign", "id": id }));
        self.ended(id)
    }

    /// Asks whether the leadership is valid.
    pub(crate) fn check(&mut self, id: u64) -> Event {
        let before = self.send_check(id);
        self.checked(id, before)
    }

    /// Sends the question, and returns how many were answered before.
    pub(crate) fn send_check(&mut self, id: u64) -> usize {
        let before = self.events().iter().filter(|event| is(event, "checked", id)).count();
        self.tell(&json!({ "op": "check", "id": id }));
        before
    }

    /// The answer to a question.
    pub(crate) fn checked(&self, id: u64, before: usize) -> Event {
        self.find("checked", |log| log.iter().filter(|event| is(event, "checked", id)).nth(before).cloned())
    }

    /// Asks a fence.
    pub(crate) fn fence(&mut self, fence: &str, token: u64) -> bool {
        let before = self.events().iter().filter(|event| event.event == "fenced").count();
        self.tell(&json!({ "op": "fence", "fence": fence, "token": token }));
        let fenced = |log: &[Event]| log.iter().filter(|event| event.event == "fenced").nth(before).cloned();
        self.find("fenced", fenced).accepted
    }

    /// Waits until the client leads.
    #[track_caller]
    pub(crate) fn leading(&self, id: u64) -> Event {
        let event = self
            .wait(&format!("leading {id}"), |event| event.id == id && is_any(event, &["leading", "error"]));
        assert_eq!(event.event, "leading", "{event:?}");
        event
    }

    /// Waits until the leadership or campaign is over.
    #[track_caller]
    pub(crate) fn ended(&self, id: u64) -> Event {
        self.wait(&format!("ended {id}"), |event| is(event, "ended", id))
    }

    /// Waits for the error of a campaign.
    #[track_caller]
    pub(crate) fn error(&self, id: u64) -> Event {
        let event =
            self.wait(&format!("error {id}"), |event| event.id == id && is_any(event, &["leading", "error"]));
        assert_eq!(event.event, "error", "{event:?}");
        event
    }

    /// Waits until the client is told to stop, and returns the first event that says so.
    #[track_caller]
    pub(crate) fn told_to_stop(&self, id: u64) -> Event {
        self.wait(&format!("told to stop {id}"), |event| {
            event.id == id && is_any(event, &["hand_over_wanted", "ended"])
        })
    }

    pub(crate) fn has(&self, event: &str, id: u64) -> bool {
        self.events().iter().any(|found| is(found, event, id))
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        lock(&self.log).events.clone()
    }

    #[track_caller]
    fn wait(&self, what: &str, wanted: impl Fn(&Event) -> bool) -> Event {
        self.find(what, |log| log.iter().find(|event| wanted(event)).cloned())
    }

    #[track_caller]
    fn find(&self, what: &str, mut look: impl FnMut(&[Event]) -> Option<Event>) -> Event {
        let until = Instant::now() + PATIENCE;
        let mut log = lock(&self.log);
        loop {
            if let Some(found) = look(&log.events) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            let last = log.events.len().saturating_sub(20);
            assert!(!log.closed, "{what}: the driver has closed its output: {:#?}", &log.events[last..]);
            assert!(!left.is_zero(), "{what}: timed out after {PATIENCE:?}: {:#?}", &log.events[last..]);
            log = self.log.1.wait_timeout(log, left).expect("no reader panics").0;
        }
    }

    pub(crate) fn kill(&mut self) {
        self.killed_ns = Some(now_ns());
        self.process.kill();
    }

    pub(crate) fn killed_ns(&self) -> Option<u64> {
        self.killed_ns
    }

    pub(crate) fn suspend(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Tells the driver to exit, which must succeed.
    #[track_caller]
    pub(crate) fn exit(mut self) {
        self.tell(&json!({ "op": "exit" }));
        assert_eq!(self.process.code(), 0, "the exit code of the driver");
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = lock(&self.log);
            let count = |event: &str| log.events.iter().filter(|found| found.event == event).count();
            eprintln!(
                "a driver has led {} times, which has ended {} times",
                count("leading"),
                count("ended")
            );
            log.stderr.iter().for_each(|line| eprintln!("driver: {line}"));
        }
    }
}

/// Keeps the last lines that the driver writes for people.
fn read_stderr(stderr: ChildStderr, log: &(Mutex<Log>, Condvar)) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        let lines = &mut lock(log).stderr;
        if lines.len() == STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// The log. A behaviour that has failed may have panicked with the lock.
fn lock(log: &(Mutex<Log>, Condvar)) -> MutexGuard<'_, Log> {
    log.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is(found: &Event, event: &str, id: u64) -> bool {
    found.event == event && found.id == id
}

fn is_any(found: &Event, events: &[&str]) -> bool {
    events.contains(&found.event.as_str())
}

/// Reads the events of a driver, with all moments on CLOCK_BOOTTIME.
fn read(stdout: ChildStdout, log: &(Mutex<Log>, Condvar)) {
    let mut ahead = 0;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let event = serde_json::from_str::<Event>(&line);
        let mut event = event.unwrap_or_else(|error| Event {
            event: "malformed".to_string(),
            message: format!("{error}: {line}"),
            ..Event::default()
        });
        if event.clock == "monotonic" {
            ahead = moment(ClockId::Boottime) - moment(ClockId::Monotonic);
        }
        event.at_ns += ahead;
        event.line = line;
        lock(log).events.push(event);
        log.1.notify_all();
    }
    lock(log).closed = true;
    log.1.notify_all();
}
