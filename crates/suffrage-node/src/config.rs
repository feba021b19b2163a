//! The configuration of a node: from flags, the environment and a file.
//!
//! One list of [`Key`]s serves all three: `longest-ttl` in the file is `--longest-ttl` on the command line and
//! `SUFFRAGE_LONGEST_TTL` in the environment. Flags override the environment, the environment overrides the file, and
//! the file overrides the defaults. All problems are reported at once, each with its origin.

mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use suffrage_core::{DRIFT_BOUND, NodeId, Span};
use suffrage_lease::Drift;
use toml::de::{DeTable, DeValue};

pub use self::keys::{KEYS, Key};

/// A voter and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The id of the voter.
    pub id: NodeId,
    /// The address of the voter: a host name or an IP address, and a port.
    pub address: String,
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the usual ones")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The Unix socket of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalSocket {
    /// The usual path, if its folder exists and no other node has it.
    Usual,
    /// None.
    Off,
    /// This path.
    At(PathBuf),
}

impl LocalSocket {
    /// The usual path. The service manager creates its folder.
    pub const USUAL: &str = "/run/suffrage/suffrage.sock";
}

/// The configuration of a node, as [`read`](Config::read) returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The id of this node. Required.
    pub id: NodeId,
    /// The voters. Required.
    pub voters: Vec<Peer>,
    /// The UDP address to listen on. Default: a voter's own address; any free port for other nodes.
    pub listen: Option<SocketAddr>,
    /// The data folder of a voter.
    pub data: Option<PathBuf>,
    /// The key file of the cluster. Required.
    pub keys: PathBuf,
    /// The URL of the engine that elections are held on in place of a cluster. Then nothing else is required.
    pub on: Option<String>,
    /// The expected upper bound of the delay of a message.
    pub delay: Span,
    /// The greatest drift of clocks.
    pub drift: Drift,
    /// The longest lease that a voter grants.
    pub longest_ttl: Span,
    /// A voter that starts for the first time grants only tokens above this one.
    pub tokens_above: u64,
    /// The ttl of clients that do not set one.
    pub ttl: Span,
    /// The HTTP address to listen on. None if HTTP is off.
    pub http: Option<SocketAddr>,
    /// The file with the bearer token of HTTP requests.
    pub http_token: Option<PathBuf>,
    /// The file with the TLS certificate of the HTTP server.
    pub http_cert: Option<PathBuf>,
    /// The file with the private key of the certificate.
    pub http_key: Option<PathBuf>,
    /// Whether HTTP without TLS is allowed on addresses other than loopback.
    pub http_plain: bool,
    /// The Unix socket for clients of this machine.
    pub socket: LocalSocket,
    /// The permissions of the Unix socket.
    pub socket_mode: u32,
    /// The group of the Unix socket: a name or a number.
    pub socket_group: Option<String>,
    /// The log level.
    pub log: LogLevel,
    /// The format of the log.
    pub log_format: LogFormat,
    file: Option<PathBuf>,
    origins: BTreeMap<&'static str, Origin>,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A line of a file.
    File(PathBuf, usize),
    /// A file as a whole.
    Path(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// The default value.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Path(path) => write!(f, "{}", path.display()),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::Flag(key) => write!(f, "--{key}"),
            Origin::Default => f.write_str("configuration"),
        }
    }
}

/// A problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The origin of the value.
    pub origin: Origin,
    /// The key. Empty for a file that cannot be read.
    pub key: String,
    /// The problem, the value, and what to do.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { origin, key, reason } = self;
        match origin {
            Origin::Flag(_) => write!(f, "{origin}: {reason}"),
            _ if key.is_empty() => write!(f, "{origin}: {reason}"),
            _ => write!(f, "{origin}: {key}: {reason}"),
        }
    }
}

/// All problems of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl Config {
    fn defaults() -> Config {
        Config {
            id: NodeId(0),
            voters: Vec::new(),
            listen: None,
            data: None,
            keys: PathBuf::new(),
            on: None,
            delay: Span::from_millis(25),
            drift: Drift::millionths((DRIFT_BOUND * 1e6) as u32).expect("it is small"),
            longest_ttl: Span::from_millis(60_000),
            tokens_above: 0,
            ttl: Span::from_millis(3_000),
            http: Some(SocketAddr::from(([127, 0, 0, 1], 7480))),
            http_token: None,
            http_cert: None,
            http_key: None,
            http_plain: false,
            socket: LocalSocket::Usual,
            socket_mode: 0o660,
            socket_group: None,
            log: LogLevel::Info,
            log_format: LogFormat::Text,
            file: None,
            origins: BTreeMap::new(),
        }
    }

    /// Reads the text of a file, if there is one, then environment variables, then flags, each a key and a value.
    pub fn read(
        file: Option<(&Path, &str)>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &[(&'static str, String)],
    ) -> Result<Config, Problems> {
        Config::defaults().complete(file, environment, flags, |key| key.required)
    }

    /// Reads the configuration of a member of a large group: environment variables, then flags. A member has neither
    /// an id among voters nor voters.
    pub fn read_member(
        environment: impl Fn(&str) -> Option<String>,
        flags: &[(&'static str, String)],
    ) -> Result<Config, Problems> {
        let http = Some(SocketAddr::from(([127, 0, 0, 1], 7580)));
        let defaults = Config { http, ..Config::defaults() };
        defaults.complete(None, environment, flags, |key| key.name == "keys")
    }

    fn complete(
        self,
        file: Option<(&Path, &str)>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &[(&'static str, String)],
        required: fn(&Key) -> bool,
    ) -> Result<Config, Problems> {
        let (mut config, mut problems) = (self, Vec::new());
        if let Some((path, text)) = file {
            config.file = Some(path.to_path_buf());
            config.read_file(path, text, &mut problems);
        }
        for key in KEYS {
            let variable = key.variable();
            if let Some(value) = environment(&variable) {
                config.set(key, &value, Origin::Environment(variable), &mut problems);
            }
        }
        for (name, value) in flags {
            let key = KEYS.iter().find(|key| key.name == *name).expect("flags are keys");
            config.set(key, value, Origin::Flag(key.name), &mut problems);
        }
        if problems.is_empty() {
            config.check(required, &mut problems);
        }
        if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
    }

    fn set(&mut self, key: &Key, value: &str, origin: Origin, problems: &mut Vec<Problem>) {
        match (key.set)(self, value) {
            Ok(()) => drop(self.origins.insert(key.name, origin)),
            Err(reason) => problems.push(Problem { origin, key: key.name.to_string(), reason }),
        }
    }

    fn read_file(&mut self, path: &Path, text: &str, problems: &mut Vec<Problem>) {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let origin = |at| Origin::File(path.to_path_buf(), line(at));
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let origin = origin(error.span().map_or(0, |span| span.start));
                let reason = error.message().to_string();
                return problems.push(Problem { origin, key: String::new(), reason });
            }
        };
        for (name, value) in table {
            let origin = origin(name.span().start);
            let name = name.into_inner();
            let known = KEYS.iter().find(|key| key.name == name).ok_or_else(|| unknown_key(&name));
            match known.and_then(|key| Ok((key, scalar(value.get_ref())?))) {
                Ok((key, value)) => self.set(key, &value, origin, problems),
                Err(reason) => problems.push(Problem { origin, key: name.into_owned(), reason }),
            }
        }
        // The parser orders the table by key; problems are reported by line.
        problems.sort_by_key(|problem| match problem.origin {
            Origin::File(_, line) => line,
            _ => 0,
        });
    }

    /// Whether this node votes.
    pub fn votes(&self) -> bool {
        self.voters.iter().any(|voter| voter.id == self.id)
    }

    /// The origin of a key's value.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The origin of a problem with a key. A key that is missing belongs to the file.
    fn blame(&self, key: &str) -> Origin {
        let file = || self.file.clone().map_or(Origin::Default, Origin::Path);
        self.origins.get(key).cloned().unwrap_or_else(file)
    }

    /// Turns an error about the file or folder that a key names into a problem of that key.
    pub fn at<E: Into<crate::Error>>(&self, key: &str) -> impl Fn(E) -> crate::Error + use<E> {
        let (origin, key) = (self.origin(key), key.to_string());
        move |error| {
            let (origin, key, reason) = (origin.clone(), key.clone(), error.into().to_string());
            crate::Error::Configured(Problem { origin, key, reason })
        }
    }

    /// Checks values that depend on each other.
    fn check(&self, required: fn(&Key) -> bool, problems: &mut Vec<Problem>) {
        let mut complain = |key: &str, reason: &str| {
            let (origin, key, reason) = (self.blame(key), key.to_string(), reason.to_string());
            problems.push(Problem { origin, key, reason });
        };
        let missing = |key: &&Key| required(key) && self.on.is_none() && !self.origins.contains_key(key.name);
        for key in KEYS.iter().filter(missing) {
            complain(key.name, &format!("is missing: set it to {}", key.help));
        }
        if self.votes() && self.data.is_none() {
            let reason =
                format!("is missing: node {} votes and stores its state; set it to a folder", self.id);
            complain("data", &reason);
        }
        if self.ttl > self.longest_ttl {
            let (ttl, longest) = (self.ttl.format_duration(), self.longest_ttl.format_duration());
            let reason =
                format!("{ttl} is longer than longest-ttl, {longest}: lower ttl or raise longest-ttl");
            complain("ttl", &reason);
        }
        match (&self.http_cert, &self.http_key) {
            (Some(_), None) => complain("http-key", "is missing: set it to the private key of http-cert"),
            (None, Some(_)) => complain("http-cert", "is missing: set it to the certificate of http-key"),
            _ => {}
        }
        let Some(http) = self.http.filter(|http| !http.ip().is_loopback()) else { return };
        if self.http_token.is_none() {
            let reason =
                format!("{http} accepts requests of other machines: set http-token, or use 127.0.0.1");
            complain("http", &reason);
        }
        if self.http_cert.is_none() && self.http_key.is_none() && !self.http_plain {
            let reason =
                format!("{http} serves other machines without encryption: set http-cert and http-key, ")
                    + "or http-plain = true if a proxy or tunnel encrypts";
            complain("http", &reason);
        }
    }
}

fn unknown_key(name: &str) -> String {
    let closest = KEYS.iter().map(|key| key.name).min_by_key(|key| distance(key, name));
    match closest.filter(|key| distance(key, name) <= 3) {
        Some(key) => format!("is not a key; did you mean {key}?"),
        None => {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            format!("is not a key; the keys are {}", names.join(", "))
        }
    }
}

/// The Levenshtein distance of two words.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// A value of the file as a flag has it.
fn scalar(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Array(values) => {
            let values: Result<Vec<String>, String> =
                values.iter().map(|value| scalar(value.get_ref())).collect();
            Ok(values?.join(","))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => {
            Err("is a table or a date; set it to a text, a number or a list".to_string())
        }
    }
}

#[cfg(test)]
mod tests;
