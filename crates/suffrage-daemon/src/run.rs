//! `suffrage run`: a command that runs only while leading.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use suffrage::{Keyring, Node, NodeState, Settings, Supervisor};
use suffrage_core::{NodeId, Span};
use suffrage_node::config::Origin;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::cluster;
use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Runs a command only while leading.

Of all that are started with the same --name in the same cluster, one runs its command, and the others wait. When \
its lease cannot be renewed, the command is stopped before anybody else can lead: SIGTERM to its process group, \
and SIGKILL to all that is left after the grace, also to what it has left in the background. A guard, which is a \
process of its own, does that even if this one is killed or stands still. When the lease is handed over, that is \
done only after the command is gone.

The command finds in its environment SUFFRAGE_TOKEN, which is greater than that of every leader before and should \
go with everything it writes; SUFFRAGE_NAME; and SUFFRAGE_LEADER, the id of this candidate. Its standard input is \
empty.";

const EXAMPLES: &str = "Examples:
  suffrage run --name reports --cluster 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 --keys cluster.keys -- ./reports
      one of all that are started like this runs ./reports
  suffrage run --name vip --config suffrage.toml --on-acquire 'ip addr add 10.0.0.9/24 dev eth0' \\
      --on-loss 'ip addr del 10.0.0.9/24 dev eth0' -- sleep infinity
      an address that moves

Signals: SIGTERM and SIGINT are passed on and end this program, after the grace at the latest; SIGHUP, SIGUSR1 and
SIGUSR2 are only passed on, and end it if the command dies of them.

If the command ends by itself, the lease is handed over, and this one stands again after 1 second, then 2, 4, up to
30, and again 1 when a command has run for 10 seconds. With --once, this program ends then.

What --on-acquire and --on-loss say is stopped like the command; --on-loss is not done if this program is killed.
While a command runs, its candidate does not hand over to a better one.

With --config, the file may be that of a node on the same machine: what it says of `listen` is not for this program,
which listens at any free port, or where --listen or SUFFRAGE_LISTEN say.

When the file of --keys changes, it is read again within a second: keys are replaced without a break, step by step,
as `suffrage keygen --help` tells.

Exit codes: the command's; 128 and the signal's number if it died of one; 126 or 127 if it could not be run; 1 if
this program failed, and 2 if the command line is wrong.";

const KEYS: &[&str] = &["config", "voters", "keys", "listen", "ttl", "longest-ttl", "delay", "drift"];
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
        .arg(text("name", "NAME", "Which election").required(true))
        .arg(
            text("stop-grace", "TIME", "How long the command may take to end once it is told to")
                .default_value("500ms")
                .value_parser(span),
        )
        .arg(
            text("kill-time", "TIME", "How long it takes at most to kill what is left after that")
                .default_value("100ms")
                .value_parser(span),
        )
        .arg(
            text("stop-signal", "SIGNAL", "By which signal it is told to")
                .default_value("TERM")
                .value_parser(signal_number),
        )
        .arg(text("on-acquire", "CMD", "What a shell does before the command; if it fails, it hands over"))
        .arg(text("on-loss", "CMD", "What a shell does after the command, within the grace again"))
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Ends with the command, whatever the reason, and does not stand again"),
        )
        .arg(
            text("rank", "N", "Of those who wait, the greatest is next")
                .default_value("0")
                .value_parser(value_parser!(i64))
                .allow_negative_numbers(true),
        )
        .arg(
            text("id", "ID", "Who this candidate is, a number that no other node has [default: random]")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("Says nothing of what it does"))
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

/// What this program is when it calls itself: a guard, or a command to be. Not for people.
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
    // Not so many that they are hard to tell apart, and too many to meet.
    let random = getrandom::u64().map_err(|error| Error::Failed(format!("no random number: {error}")))?;
    let random = random >> 24 | 1 << 39;
    let id = matches.get_one::<u64>("id").copied().unwrap_or(random);
    let mut config = cluster::read(KEYS, matches, Some(random))?;
    config.id = NodeId(id);
    // The file is a node's, which listens there itself.
    if let Origin::File(..) = config.origin("listen") {
        config.listen = None;
    }
    if config.votes() {
        let reason = format!("{id} is one of the voters, and a candidate needs an id of its own");
        return Err(Error::flag("id", reason));
    }
    let get = |name: &str| *matches.get_one::<Duration>(name).expect("it has a default");
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let command: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
    let supervisor = Supervisor {
        name: text("name").expect("it is required"),
        command,
        ttl: duration(config.ttl),
        rank: *matches.get_one("rank").expect("it has a default"),
        grace: get("stop-grace"),
        kill: get("kill-time"),
        stop_signal: *matches.get_one("stop-signal").expect("it has a default"),
        on_acquire: text("on-acquire"),
        on_loss: text("on-loss"),
        once: matches.get_flag("once"),
    };
    let mut settings = Settings::new(config.voters.iter().map(|voter| voter.id));
    (settings.delay, settings.drift, settings.longest_ttl) = (config.delay, config.drift, config.longest_ttl);
    supervisor.check(&settings).map_err(|reason| Error::flag("stop-grace", reason))?;
    if let Some((code, reason)) = cannot_be_run(&supervisor.command[0]) {
        let program = supervisor.command[0].to_string_lossy();
        _ = writeln!(console.err, "error: {program}: {reason}");
        return Ok(code);
    }
    let keys = KeyFile::new(config.keys.clone());
    let builder = cluster::builder(&config)?;
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    threads.block_on(supervise(supervisor, builder, keys, matches.get_flag("quiet"), NodeId(id)))
}

async fn supervise(
    supervisor: Supervisor,
    builder: suffrage::NodeBuilder,
    keys: KeyFile,
    quiet: bool,
    id: NodeId,
) -> Result<u8, Error> {
    let failed = |error: suffrage::Error| Error::Failed(error.to_string());
    let (sender, signals) = mpsc::channel(16);
    for number in [1, 2, 10, 12, 15] {
        let mut arriving = signal(SignalKind::from_raw(number))?;
        let sender = sender.clone();
        tokio::spawn(
            async move { while arriving.recv().await.is_some() && sender.send(number).await.is_ok() {} },
        );
    }
    let node = builder.start().await.map_err(failed)?;
    let name = supervisor.name.clone();
    tokio::spawn(keys.follow(node.clone(), move |news| {
        if !quiet {
            say(&format!("{id} for `{name}`: {news}"));
        }
    }));
    let tell = |progress| {
        if !quiet {
            say(&format!("{id} for `{}`: {progress}", supervisor.name));
        }
    };
    let code = supervisor.run(&node, signals, &tell).await;
    // Hands over what there is to be.
    node.stop().await;
    code.map_err(failed)
}

/// Tells the operator, if anybody still reads: nothing that runs may end because nobody does.
fn say(news: &str) {
    _ = writeln!(std::io::stderr(), "suffrage: {news}");
}

/// The cluster's keys, which may be replaced while the command runs. Signals, which tell a node to read them again,
/// are the command's here.
struct KeyFile {
    path: PathBuf,
    /// As it was when it was last read.
    known: Option<Version>,
    /// It could not be read since then, and that was told.
    troubled: bool,
}

/// How often its file is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// By which a file is seen to be another than before: its number, and when it, its name or its permissions changed.
type Version = (u64, i64, i64);

impl KeyFile {
    /// To be called before the keys are read, so that no change is missed.
    fn new(path: PathBuf) -> KeyFile {
        let known = version(&path);
        KeyFile { path, known, troubled: false }
    }

    /// Has the node use the keys as they are, until it stops. If they cannot be read, the old ones stay in use.
    async fn follow(mut self, node: Node, tell: impl Fn(String)) {
        let mut state = node.state();
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = state.wait_for(NodeState::is_stopped) => return,
            }
            let now = version(&self.path);
            if now == self.known {
                continue;
            }
            match Keyring::load(&self.path) {
                Ok(keyring) => {
                    node.rekey(&keyring);
                    (self.known, self.troubled) = (now, false);
                    let keys: Vec<String> = keyring.keys().iter().map(|key| key.id().to_string()).collect();
                    tell(format!("has read its keys again; {} seals", keys[0]));
                }
                // It is tried again: somebody may be at it.
                Err(error) if !self.troubled => {
                    self.troubled = true;
                    tell(format!("the old keys stay in use: {error}"));
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

/// The exit code and the reason if this program cannot be run, so that nobody leads who cannot work.
#[allow(clippy::disallowed_methods, reason = "that is where programs are looked for")]
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
        Some((127, "there is no such command"))
    } else {
        Some((126, "it cannot be executed: is it a program, and did you `chmod +x` it?"))
    }
}
