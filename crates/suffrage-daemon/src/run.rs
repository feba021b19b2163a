//! `suffrage run`: a command that runs only while leading.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use suffrage::{Keyring, Node, NodeState, Supervisor, engines};
use suffrage_core::{NodeId, Span};
use suffrage_node::config::{Config, Origin};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::cluster;
use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Runs a command only while leading.

Of all candidates with the same --name in a cluster, one runs its command, and the others wait. When the lease cannot \
be renewed, the command is stopped before another candidate can lead: SIGTERM to its process group, and after the \
grace SIGKILL to all remaining processes, including background processes. A guard process does that also if this \
process is killed or paused. If the guard is killed, this process kills the command and all its processes. The lease is \
handed over only after they have ended.

The environment of the command has SUFFRAGE_TOKEN, the fencing token, which is greater than the tokens of all leaders \
before and belongs to every write; SUFFRAGE_NAME; and SUFFRAGE_LEADER, the id of this candidate. The standard input of \
the command is empty.";

const EXAMPLES: &str = "Examples:
  suffrage run --name reports --cluster 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 --keys cluster.keys -- ./reports
      one of all candidates that are started like this runs ./reports
  suffrage run --name reports --on etcd://10.0.0.1:2379,10.0.0.2:2379/jobs -- ./reports
      the same on an etcd that you run already; `suffrage engines` lists the engines
  suffrage run --name vip --config suffrage.toml --on-acquire 'ip addr add 10.0.0.9/24 dev eth0' \\
      --on-loss 'ip addr del 10.0.0.9/24 dev eth0' -- sleep infinity
      a virtual IP address

Signals: SIGTERM and SIGINT are passed on to the command and end this program, after the grace at the latest. SIGHUP,
SIGUSR1 and SIGUSR2 are passed on, and end this program if the command dies of them.

If the command exits by itself, the lease is released, and this candidate campaigns again after a backoff: 1, 2, 4 up
to 30 seconds, and 1 second again after a command that ran for 10 seconds. With --once, this program ends instead.

The commands of --on-acquire and --on-loss are stopped like the command. The command of --on-loss does not run if this
program is killed. While the command runs, this candidate does not hand over to a candidate of greater rank. It hands over
on SIGTERM, and when an operator asks any node (`suffrage resign NAME`, `suffrage transfer NAME --to ID`): the command is
stopped first.

What remains: if this program and its guard are killed at the same moment (kill -9), or the guard while this program is
paused, the kernel kills the command, but not its background processes. A process in uninterruptible sleep (state D)
survives SIGKILL until it wakes. Use the fencing token, and run this program as a systemd service or in a container,
which end with all their processes.

On an engine (--on), --rank must be 0. While the engine cannot be reached, the command runs on as long as the lease is
valid. If somebody deletes the entry of this candidate at the engine, the command is killed without a grace. Write
passwords into a file (?password-file=PATH) or the environment (?password-env=NAME), not into the command line.

With --config, the file may belong to a node on the same machine: its `listen` and `data` do not apply. This program
listens on any free port, or on the address of --listen or SUFFRAGE_LISTEN.

This program reloads the file of --keys within a second after it changes, so that keys can be rotated without
interruption: see `suffrage keygen --help`.

Exit codes: the exit code of the command; 128 and the number of the signal that killed it; 126 or 127 if it could not
be run; 1 if this program failed, and 2 if the command line is wrong.";

const KEYS: &[&str] = &["config", "on", "voters", "keys", "listen", "ttl", "longest-ttl", "delay", "drift"];
const SIGNALS: [(&str, i32); 8] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("WINCH", 28),
];

pub(crate) fn command() -> Command {
    let text = |name: &'static str, value, help| Arg::new(name).long(name).value_name(value).help(help);
    Command::new("run")
        .about("Runs a command only while leading")
        .long_about(ABOUT)
        .arg(text("name", "NAME", "The name of the election").required(true))
        .arg(
            text("stop-grace", "TIME", "The time from the stop signal to SIGKILL")
                .default_value("500ms")
                .value_parser(span),
        )
        .arg(
            text("kill-time", "TIME", "The time that SIGKILL needs to end all processes")
                .default_value("100ms")
                .value_parser(span),
        )
        .arg(
            text("stop-signal", "SIGNAL", "The stop signal")
                .default_value("TERM")
                .value_parser(signal_number),
        )
        .arg(text(
            "on-acquire",
            "CMD",
            "A shell command that runs before the command; if it fails, the lease is released",
        ))
        .arg(text("on-loss", "CMD", "A shell command that runs after the command, within another grace"))
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Ends when the command has ended, for any reason"),
        )
        .arg(
            text(
                "rank",
                "N",
                "The rank of this candidate; of the waiting candidates, the greatest rank is next",
            )
            .default_value("0")
            .value_parser(value_parser!(i64))
            .allow_negative_numbers(true),
        )
        .arg(text(
            "value",
            "TEXT",
            "What `suffrage leader` shows of this candidate while it leads, up to 4096 bytes [default: host name and process id]",
        ))
        .arg(
            text("id", "ID", "The id of this candidate, a number that no other node has [default: random]")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(text(
            "identity",
            "TEXT",
            "With --on, the name of this candidate at the engine [default: host name and process id]",
        ))
        .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("Logs nothing"))
        .args(cluster::flags(KEYS))
        .arg(cluster::file())
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .required(true)
                .num_args(1..)
                .last(true)
                .value_parser(value_parser!(OsString))
                .help("The command and its arguments"),
        )
        .after_help(EXAMPLES)
}

/// The hidden subcommand by which this program starts itself as a guard.
pub(crate) fn guard_command() -> Command {
    Command::new(suffrage_node::supervise::ENTRY).hide(true).disable_help_flag(true).arg(
        Arg::new("arguments")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(value_parser!(OsString)),
    )
}

pub(crate) fn guard(matches: &ArgMatches) -> u8 {
    let arguments = matches.get_many::<OsString>("arguments").into_iter().flatten();
    suffrage_node::supervise::main(&arguments.cloned().collect::<Vec<_>>())
}

fn span(text: &str) -> Result<Duration, String> {
    Span::parse_duration(text).map(duration)
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

fn signal_number(text: &str) -> Result<i32, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let found = SIGNALS.iter().find(|(known, number)| *known == name || number.to_string() == name);
    let names = SIGNALS.map(|(name, _)| name).join(", ");
    found.map(|(_, number)| *number).ok_or_else(|| format!("`{text}` is not a signal; there are {names}"))
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    // 40 bits: short enough to read, long enough to be unique.
    let random = getrandom::u64().map_err(|error| Error::Failed(format!("no random number: {error}")))?;
    let random = random >> 24 | 1 << 39;
    let id = matches.get_one::<u64>("id").copied().unwrap_or(random);
    let mut config = cluster::read(KEYS, matches, Some(random))?;
    config.id = NodeId(id);
    let supervisor = supervisor(matches, duration(config.ttl));
    if let Some(url) = &config.on {
        return execute_on(url, &config, supervisor, matches, console);
    }
    // The file may belong to a node on this machine, which uses this address and this folder itself.
    if let Origin::File(..) = config.origin("listen") {
        config.listen = None;
    }
    config.data = None;
    if config.votes() {
        let reason = format!("{id} is the id of a voter; choose another id, or none for a random one");
        return Err(Error::flag("id", reason));
    }
    if supervisor.value.len() > suffrage_lease::MAX_VALUE {
        let reason = suffrage_lease::InvalidValue(supervisor.value.len());
        return Err(Error::flag("value", reason.to_string()));
    }
    if matches.contains_id("identity") {
        return Err(Error::flag("identity", "names a candidate at an engine: set --on, or use --id"));
    }
    // The version of the key file is read before its content: no change is missed.
    let keys = KeyFile::new(config.keys.clone());
    let builder = cluster::builder(&config)?;
    supervisor.check(&builder).map_err(|error| Error::flag("stop-grace", error.to_string()))?;
    if let Some(code) = refuse(&supervisor, console) {
        return Ok(code);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(supervise(supervisor, builder, keys, matches.get_flag("quiet"), NodeId(id)))
}

/// The supervisor that the flags describe.
fn supervisor(matches: &ArgMatches, ttl: Duration) -> Supervisor {
    let get = |name: &str| *matches.get_one::<Duration>(name).expect("it has a default");
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let command: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
    let mut supervisor = Supervisor::new(text("name").expect("it is required"), command);
    supervisor.ttl = ttl;
    supervisor.rank = *matches.get_one("rank").expect("it has a default");
    supervisor.value = text("value").unwrap_or_else(own_identity);
    supervisor.grace = get("stop-grace");
    supervisor.kill = get("kill-time");
    supervisor.stop_signal = *matches.get_one("stop-signal").expect("it has a default");
    supervisor.on_acquire = text("on-acquire");
    supervisor.on_loss = text("on-loss");
    supervisor.once = matches.get_flag("once");
    // This program starts guards and nothing else.
    supervisor.adopt_orphans = true;
    supervisor
}

/// Says why the command cannot be run, and returns the exit code.
fn refuse(supervisor: &Supervisor, console: &mut Console<'_>) -> Option<u8> {
    let (code, reason) = cannot_be_run(&supervisor.command[0])?;
    let program = supervisor.command[0].to_string_lossy();
    _ = writeln!(console.err, "error: {program}: {reason}");
    Some(code)
}

/// Runs the command while this program leads on an engine.
fn execute_on(
    url: &str,
    config: &Config,
    mut supervisor: Supervisor,
    matches: &ArgMatches,
    console: &mut Console<'_>,
) -> Result<u8, Error> {
    let wrong = |error: suffrage::Error| Error::Usage(error.to_string());
    let engine = engines::connect(url).map_err(|error| Error::flag("on", error.to_string()))?;
    for flag in ["voters", "keys", "listen", "longest-ttl", "delay"] {
        if let Origin::Flag(_) = config.origin(flag) {
            let flag = if flag == "voters" { "cluster" } else { flag };
            return Err(Error::flag(
                flag,
                "is about a cluster, and not about an engine: leave out --on, or this",
            ));
        }
    }
    if config.origin("ttl") == Origin::Default {
        let wrong = |error: engines::Error| Error::Usage(error.to_string());
        supervisor.ttl = engine.election(&supervisor.name).join().map_err(wrong)?.ttl();
    }
    supervisor.engine_drift = config.drift.fraction();
    let identity = matches.get_one::<String>("identity").cloned().unwrap_or_else(own_identity);
    supervisor.check_engine(&engine, &identity).map_err(wrong)?;
    if let Some(code) = refuse(&supervisor, console) {
        return Ok(code);
    }
    let quiet = matches.get_flag("quiet");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let on_event = |event| {
            if !quiet {
                say(&format!("{identity} on {engine}, election `{}`: {event}", supervisor.name));
            }
        };
        let code = supervisor.run_on(&engine, &identity, signals()?, &on_event).await;
        code.map_err(|error| Error::Failed(error.to_string()))
    })
}

/// The name of this machine and the number of this process.
fn own_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "host" } else { host.trim() };
    format!("{host}-{}", std::process::id())
}

/// The signals that this program handles, as they arrive.
fn signals() -> Result<mpsc::Receiver<i32>, Error> {
    let (sender, signals) = mpsc::channel(16);
    for number in [1, 2, 10, 12, 15] {
        let mut arriving = signal(SignalKind::from_raw(number))?;
        let sender = sender.clone();
        suffrage_node::spawn(async move {
            while arriving.recv().await.is_some() && sender.send(number).await.is_ok() {}
        });
    }
    Ok(signals)
}

async fn supervise(
    supervisor: Supervisor,
    builder: suffrage::NodeBuilder,
    keys: KeyFile,
    quiet: bool,
    id: NodeId,
) -> Result<u8, Error> {
    let failed = |error: suffrage::Error| Error::Failed(error.to_string());
    let signals = signals()?;
    let node = builder.start().await.map_err(failed)?;
    let name = supervisor.name.clone();
    suffrage_node::spawn(keys.follow(node.clone(), move |news| {
        if !quiet {
            say(&format!("node {id}, election `{name}`: {news}"));
        }
    }));
    let on_event = |event| {
        if !quiet {
            say(&format!("node {id}, election `{}`: {event}", supervisor.name));
        }
    };
    let code = supervisor.run(&node, signals, &on_event).await;
    node.stop().await;
    code.map_err(failed)
}

/// Logs to standard error. Errors are ignored: a closed standard error must not end the command.
fn say(news: &str) {
    _ = writeln!(std::io::stderr(), "suffrage: {news}");
}

/// The key file of the cluster, which may change while the command runs. It is polled, because SIGHUP belongs to the
/// command.
struct KeyFile {
    path: PathBuf,
    /// The version that was read last.
    known: Option<Version>,
    /// Whether a failure to read the file has been logged.
    failing: bool,
}

/// The interval of polls of the key file.
const POLL: Duration = Duration::from_millis(500);

/// The version of a file: its inode, and the time of its last change.
type Version = (u64, i64, i64);

impl KeyFile {
    /// Must be called before the keys are read, so that no change is missed.
    fn new(path: PathBuf) -> KeyFile {
        let known = version(&path);
        KeyFile { path, known, failing: false }
    }

    /// Reloads the keys whenever the file changes, until the node stops. If the file cannot be read, the old keys stay
    /// in use.
    async fn follow(mut self, node: Node, log: impl Fn(String)) {
        let mut state = node.state();
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                _ = state.wait_for(NodeState::is_stopped) => return,
            }
            let now = version(&self.path);
            if now == self.known {
                continue;
            }
            match Keyring::load(&self.path) {
                Ok(keyring) => {
                    node.rekey(&keyring);
                    (self.known, self.failing) = (now, false);
                    let sealing = keyring.keys().next().map(|key| key.id()).unwrap_or_default();
                    log(format!("reloaded the keys; key {sealing} seals"));
                }
                // The next poll retries: the file may be incomplete.
                Err(error) if !self.failing => {
                    self.failing = true;
                    log(format!("the old keys stay in use: {error}"));
                }
                Err(_) => {}
            }
        }
    }
}

fn version(path: &Path) -> Option<Version> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.ctime(), file.ctime_nsec()))
}

/// The exit code and the reason if this program cannot be run: a candidate without a command must not lead.
#[allow(clippy::disallowed_methods, reason = "PATH names the folders of programs")]
fn cannot_be_run(program: &OsString) -> Option<(u8, &'static str)> {
    let places: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join(program)).collect()
    };
    let found: Vec<Metadata> = places.iter().filter_map(|place| std::fs::metadata(place).ok()).collect();
    if found.iter().any(|file| file.is_file() && file.permissions().mode() & 0o111 != 0) {
        None
    } else if found.is_empty() {
        Some((127, "command not found"))
    } else {
        Some((126, "the file is not executable: run `chmod +x` on it if it is a program"))
    }
}
