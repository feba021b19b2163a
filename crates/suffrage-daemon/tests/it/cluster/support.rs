//! Clusters of real processes, and commands in them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use suffrage::{Keyring, Node, NodeBuilder};
pub(crate) use suffrage_testbed::{Process, alone, until};

/// The program `suffrage`.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_suffrage");

/// A voter and its output.
pub(crate) struct Voter {
    pub(crate) process: Process,
    lines: BufReader<ChildStdout>,
}

impl Voter {
    /// The next line of output, without its time.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.split_once(' ').map(|(_, told)| told.trim_end().to_string()).expect("it still runs")
    }
}

/// Three voters, and a folder that is removed with them.
pub(crate) struct Cluster {
    pub(crate) folder: PathBuf,
    addresses: String,
    longest_ttl: &'static str,
    pub(crate) voters: Vec<Option<Voter>>,
}

impl Cluster {
    /// Three voters that are not candidates.
    pub(crate) fn start(longest_ttl: &'static str) -> Cluster {
        let mut cluster = Cluster::prepare(longest_ttl);
        for place in 0..3 {
            cluster.start_voter(place, &["--new"]);
        }
        cluster
    }

    /// A cluster without running voters.
    pub(crate) fn prepare(longest_ttl: &'static str) -> Cluster {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("suffrage-test-{}-{count}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let addresses: Vec<String> =
            (1..=3).map(|id| format!("{id}={}", suffrage_testbed::address())).collect();
        Keyring::generate().unwrap().create(folder.join("keys")).unwrap();
        Cluster {
            folder,
            addresses: addresses.join(","),
            longest_ttl,
            voters: (0..3).map(|_| None).collect(),
        }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(BINARY);
        command.args([name, "--cluster", &self.addresses, "--longest-ttl", self.longest_ttl, "--keys"]);
        command.arg(self.folder.join("keys"));
        command
            .env("TEST_MARK", self.mark())
            .env("LOG", self.log_file())
            .env("LOCK", self.folder.join("lock"));
        command
    }

    /// Starts a voter, and waits until it listens.
    pub(crate) fn start_voter(&mut self, place: usize, more: &[&str]) {
        let data = self.folder.join(format!("voter-{place}"));
        let mut child = self
            .command("demo-node")
            .args(["--ttl", "500ms", "--id", &(place + 1).to_string(), "--data"])
            .arg(data)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut voter = Voter { process: Process(child), lines };
        assert_eq!(voter.line(), "ready");
        self.voters[place] = Some(voter);
    }

    pub(crate) fn kill_voter(&mut self, place: usize) {
        self.voters[place] = None;
    }

    /// A node in this process that does not vote.
    pub(crate) fn node(&self, id: u64) -> NodeBuilder {
        let keyring = Keyring::load(self.folder.join("keys")).unwrap();
        let builder = Node::builder(id).key(keyring).longest_ttl(Duration::from_secs(3));
        self.addresses
            .split(',')
            .filter_map(|member| member.split_once('='))
            .fold(builder, |builder, (id, address)| builder.member(id.parse::<u64>().unwrap(), address))
    }

    /// `suffrage run` with these flags, without a command.
    pub(crate) fn command_for(&self, flags: &str) -> Command {
        let mut command = self.command("run");
        command.args(["--name", "test"]).args(flags.split_whitespace());
        command
    }

    /// `suffrage run` with these flags and this script.
    pub(crate) fn run(&self, flags: &str, script: &str) -> Process {
        let child = self.command_for(flags).args(["--", "/bin/sh", "-c", script]).spawn();
        Process(child.unwrap())
    }

    /// `suffrage run` with these flags and [`WORK`], which has printed that it waits to lead.
    pub(crate) fn run_second(&self, flags: &str) -> Process {
        let said = self.folder.join("said");
        let mut command = self.command_for(flags);
        command.stderr(fs::File::create(&said).unwrap());
        let process = Process(command.args(["--", "/bin/sh", "-c", WORK]).spawn().unwrap());
        until("it waits", || fs::read_to_string(&said).unwrap().contains("waits to lead").then_some(()));
        process
    }

    /// The output file of scripts.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The output of scripts, as lines of words.
    pub(crate) fn log(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        text.lines().map(|line| line.split(' ').map(str::to_string).collect()).collect()
    }

    /// Waits for the line with this first word after the given number of such lines.
    #[track_caller]
    pub(crate) fn wait_for(&self, word: &str, before: usize) -> Vec<String> {
        until(&format!("line {before} of {word}"), || {
            self.log().into_iter().filter(|line| line[0] == word).nth(before)
        })
    }

    /// The last line with this first word. There must be one.
    pub(crate) fn last(&self, word: &str) -> Vec<String> {
        self.log().into_iter().rfind(|line| line[0] == word).expect("there is one")
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        self.log().iter().filter(|line| line[0] == word).count()
    }

    fn mark(&self) -> String {
        self.folder.file_name().unwrap().to_str().unwrap().to_string()
    }

    /// All processes of this test that are scripts or their children, without voters and `suffrage` itself.
    pub(crate) fn commands(&self) -> Vec<i32> {
        self.processes(|program| !program.ends_with("suffrage"))
    }

    fn processes(&self, which: impl Fn(&Path) -> bool) -> Vec<i32> {
        let mark = format!("TEST_MARK={}", self.mark());
        let folders = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        folders
            .filter_map(|folder| {
                let pid = folder.file_name()?.to_str()?.parse().ok()?;
                let environment = fs::read(folder.join("environ")).ok()?;
                let ours = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
                (ours && which(&fs::read_link(folder.join("exe")).ok()?)).then_some(pid)
            })
            .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.voters.clear();
        for _ in 0..100 {
            let left = self.processes(|_| true);
            for pid in &left {
                _ = Pid::from_raw(*pid).map(|pid| kill_process(pid, Signal::KILL));
            }
            if left.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// A script that holds a lock with all its children, so that the kernel shows whether processes of a former leader are
/// left, and that prints its start and heartbeats by CLOCK_BOOTTIME.
pub(crate) const WORK: &str = r#"
exec 9>>"$LOCK"; flock -n 9 || echo "overlap $SUFFRAGE_TOKEN" >>"$LOG"
read -r up _ </proc/uptime; echo "start $SUFFRAGE_TOKEN $up $$" >>"$LOG"
while :; do read -r up _ </proc/uptime; echo "beat $SUFFRAGE_TOKEN $up" >>"$LOG"; sleep 0.02; done
"#;

/// The same script, which ignores SIGTERM.
pub(crate) fn stubborn() -> String {
    format!("trap '' TERM\n{WORK}")
}
