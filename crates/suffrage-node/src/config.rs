//! What a node is told about itself and its cluster: by flags, by the environment and by a file.
//!
//! One list of [`Key`]s serves all three: `longest-ttl` in the file is `--longest-ttl` on the command line and
//! `SUFFRAGE_LONGEST_TTL` in the environment. A flag wins over the environment, that over the file, and that
//! over what is assumed. Everything that is wrong is said at once, each with where it was said.

mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use suffrage_core::{DRIFT_BOUND, NodeId, Span};
use suffrage_lease::Drift;
use toml::de::{DeTable, DeValue};

pub use self::keys::{KEYS, Key};

/// A cluster member that votes, and where it is reached: a name or an address, with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which one.
    pub id: NodeId,
    /// Where it is reached.
    pub address: String,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say what they are")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// What a node is told. As it stands before anybody has said anything; [`read`](Config::read) fills it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this node is. Required.
    pub id: NodeId,
    /// Who votes. Required.
    pub voters: Vec<Peer>,
    /// Where it listens for datagrams; otherwise, a voter at its own address, and others at any free port.
    pub listen: Option<SocketAddr>,
    /// The folder of a voter's state.
    pub data: Option<PathBuf>,
    /// The file of the cluster's keys. Required.
    pub keys: PathBuf,
    /// How long a message takes at most, as a rule.
    pub delay: Span,
    /// How much clocks run fast or slow at most.
    pub drift: Drift,
    /// The longest lease that a voter grants.
    pub longest_ttl: Span,
    /// The lease of those who do not say.
    pub ttl: Span,
    /// Where HTTP is served; none if it is not.
    pub http: Option<SocketAddr>,
    /// The file of the token that HTTP requests must bear.
    pub http_token: Option<PathBuf>,
    /// The file of the certificate by which HTTP is served with TLS.
    pub http_cert: Option<PathBuf>,
    /// The file of its key.
    pub http_key: Option<PathBuf>,
    /// Whether HTTP without TLS may be reached from elsewhere.
    pub http_plain: bool,
    /// How much is logged.
    pub log: LogLevel,
    /// How it is written.
    pub log_format: LogFormat,
    origins: BTreeMap<&'static str, Origin>,
}

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In this file, in that line.
    File(PathBuf, usize),
    /// In the environment.
    Environment(String),
    /// On the command line.
    Flag(&'static str),
    /// Nowhere.
    Assumed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::Flag(key) => write!(f, "--{key}"),
            Origin::Assumed => f.write_str("configuration"),
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was said.
    pub origin: Origin,
    /// What it is about.
    pub key: String,
    /// What is wrong, and what would be right.
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

/// All that is wrong.
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
    fn assumed() -> Config {
        Config {
            id: NodeId(0),
            voters: Vec::new(),
            listen: None,
            data: None,
            keys: PathBuf::new(),
            delay: Span::from_millis(25),
            drift: Drift::millionths((DRIFT_BOUND * 1e6) as u32).expect("it is small"),
            longest_ttl: Span::from_millis(60_000),
            ttl: Span::from_millis(3_000),
            http: Some(SocketAddr::from(([127, 0, 0, 1], 7480))),
            http_token: None,
            http_cert: None,
            http_key: None,
            http_plain: false,
            log: LogLevel::Info,
            log_format: LogFormat::Text,
            origins: BTreeMap::new(),
        }
    }

    /// Reads the file, if there is one, then the environment, then the flags, each a key and its value.
    pub fn read(
        file: Option<(&Path, &str)>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &[(&'static str, String)],
    ) -> Result<Config, Problems> {
        let (mut config, mut problems) = (Config::assumed(), Vec::new());
        if let Some((path, text)) = file {
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
            config.check(&mut problems);
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
            let told = KEYS.iter().find(|key| key.name == name).ok_or_else(|| no_such_key(&name));
            match told.and_then(|key| Ok((key, scalar(value.get_ref())?))) {
                Ok((key, value)) => self.set(key, &value, origin, problems),
                Err(reason) => problems.push(Problem { origin, key: name.into_owned(), reason }),
            }
        }
        // The table is in the order of its names, and people read files from the top.
        problems.sort_by_key(|problem| match problem.origin {
            Origin::File(_, line) => line,
            _ => 0,
        });
    }

    /// Whether this node votes.
    pub fn votes(&self) -> bool {
        self.voters.iter().any(|voter| voter.id == self.id)
    }

    /// Where this was said.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Assumed)
    }

    /// That what this key names is not as it should be, and where it is named.
    pub fn at<E: Into<crate::Error>>(&self, key: &str) -> impl Fn(E) -> crate::Error + use<E> {
        let (origin, key) = (self.origin(key), key.to_string());
        move |error| {
            let (origin, key, reason) = (origin.clone(), key.clone(), error.into().to_string());
            crate::Error::Configured(Problem { origin, key, reason })
        }
    }

    /// What can only be told of several values together.
    fn check(&self, problems: &mut Vec<Problem>) {
        let mut complain = |key: &str, reason: &str| {
            let (origin, key, reason) = (self.origin(key), key.to_string(), reason.to_string());
            problems.push(Problem { origin, key, reason });
        };
        for key in KEYS.iter().filter(|key| key.required && !self.origins.contains_key(key.name)) {
            complain(key.name, &format!("is missing: {}", key.help));
        }
        if self.votes() && self.data.is_none() {
            complain("data", "is missing: this node votes, and must keep what it has promised");
        }
        if self.ttl > self.longest_ttl {
            complain("ttl", "is longer than longest-ttl, and voters would not grant it");
        }
        match (&self.http_cert, &self.http_key) {
            (Some(_), None) => complain("http-key", "is missing: http-cert is of no use without its key"),
            (None, Some(_)) => complain("http-cert", "is missing: http-key is of no use without it"),
            _ => {}
        }
        let Some(http) = self.http.filter(|http| !http.ip().is_loopback()) else { return };
        let elsewhere = format!("{http} can be reached from elsewhere");
        if self.http_token.is_none() {
            let reason = format!("{elsewhere}, by anybody: set http-token, or use 127.0.0.1");
            complain("http", &reason);
        }
        if self.http_cert.is_none() && self.http_key.is_none() && !self.http_plain {
            let reason = format!("{elsewhere}, and HTTP is not encrypted: set http-cert and http-key, ")
                + "or http-plain = true if something else encrypts it";
            complain("http", &reason);
        }
    }
}

fn no_such_key(name: &str) -> String {
    let closest = KEYS.iter().map(|key| key.name).min_by_key(|key| distance(key, name));
    match closest.filter(|key| distance(key, name) <= 3) {
        Some(key) => format!("there is no such key; is it {key}?"),
        None => {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            format!("there is no such key; there are {}", names.join(", "))
        }
    }
}

/// How many letters must be put in, taken out or changed to get from one word to the other (Levenshtein).
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

/// A value of the file as the command line would have it.
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
            Err("takes a text, a number or a list, not a table or a date".to_string())
        }
    }
}

#[cfg(test)]
mod tests;
