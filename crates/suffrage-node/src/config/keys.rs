//! The keys, one by one.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use suffrage_core::{NodeId, Span};

use super::{Config, LogFormat, LogLevel, Peer};

/// Something that can be told to a node.
pub struct Key {
    /// As in the file, and on the command line after two dashes.
    pub name: &'static str,
    /// What its value is called in help texts.
    pub value: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it must be said.
    pub required: bool,
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Key {
    const fn new(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        set: fn(&mut Config, &str) -> Result<(), String>,
    ) -> Key {
        Key { name, value, help, required: false, set }
    }

    const fn required(self) -> Key {
        Key { required: true, ..self }
    }

    /// As in the environment.
    pub fn variable(&self) -> String {
        format!("SUFFRAGE_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// All keys, in the order people are shown them.
pub const KEYS: &[Key] = &[
    Key::new("id", "ID", "who this node is, a number from 1 on", |config, text| {
        config.id = id(text)?;
        Ok(())
    })
    .required(),
    Key::new("voters", "ID=HOST:PORT,..", "who votes, and where each is reached: 3 or 5", |config, text| {
        config.voters = voters(text)?;
        Ok(())
    })
    .required(),
    Key::new("keys", "FILE", "the cluster's keys, as `suffrage keygen` writes them", |config, text| {
        config.keys = path(text)?;
        Ok(())
    })
    .required(),
    Key::new("data", "FOLDER", "where a voter keeps what it has promised", |config, text| {
        config.data = Some(path(text)?);
        Ok(())
    }),
    Key::new(
        "listen",
        "ADDRESS:PORT",
        "where this node listens for datagrams [default: a voter at its own address, others at any free port]",
        |config, text| {
            config.listen = Some(socket(text)?);
            Ok(())
        },
    ),
    Key::new("ttl", "TIME", "the lease of those who do not say [default: 3s]", |config, text| {
        config.ttl = span(text, Span::from_millis(10), DAY)?;
        Ok(())
    }),
    Key::new(
        "longest-ttl",
        "TIME",
        "the longest lease that a voter grants, and after a restart waits for \
         [default: 60s]",
        |config, text| {
            config.longest_ttl = span(text, Span::from_millis(10), DAY)?;
            Ok(())
        },
    ),
    Key::new(
        "delay",
        "TIME",
        "how long a message takes at most, as a rule; later ones cost time, never safety \
         [default: 25ms]",
        |config, text| {
            config.delay = span(text, Span::from_nanos(1), Span::from_millis(60_000))?;
            Ok(())
        },
    ),
    Key::new(
        "drift",
        "PERCENT",
        "how much clocks run fast or slow at most; the same on all nodes, and true, \
         or there can be two leaders [default: 1%]",
        |config, text| {
            config.drift = text.parse()?;
            Ok(())
        },
    ),
    Key::new(
        "http",
        "ADDRESS:PORT|off",
        "where HTTP is served; beyond loopback it needs a token and a certificate \
         [default: 127.0.0.1:7480]",
        |config, text| {
            config.http = if text == "off" { None } else { Some(socket(text)?) };
            Ok(())
        },
    ),
    Key::new("http-token", "FILE", "the token that HTTP requests must bear", |config, text| {
        config.http_token = Some(path(text)?);
        Ok(())
    }),
    Key::new(
        "http-cert",
        "FILE",
        "the certificate that HTTP is served with (TLS), in PEM; after it those that signed it",
        |config, text| {
            config.http_cert = Some(path(text)?);
            Ok(())
        },
    ),
    Key::new("http-key", "FILE", "the private key of that certificate, in PEM", |config, text| {
        config.http_key = Some(path(text)?);
        Ok(())
    }),
    Key::new(
        "http-plain",
        "true|false",
        "whether HTTP may be served without TLS beyond loopback: if something else encrypts it \
         [default: false]",
        |config, text| {
            config.http_plain = match text {
                "true" => true,
                "false" => false,
                _ => return Err(format!("`{text}` is not true or false")),
            };
            Ok(())
        },
    ),
    Key::new("log", "LEVEL", "error, warn, info or debug [default: info]", |config, text| {
        config.log = match text {
            "error" => LogLevel::Error,
            "warn" => LogLevel::Warn,
            "info" => LogLevel::Info,
            "debug" => LogLevel::Debug,
            _ => return Err(format!("`{text}` is not error, warn, info or debug")),
        };
        Ok(())
    }),
    Key::new(
        "log-format",
        "FORMAT",
        "text, or json for one object a line [default: text]",
        |config, text| {
            config.log_format = match text {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err(format!("`{text}` is not text or json")),
            };
            Ok(())
        },
    ),
];

const DAY: Span = Span::from_millis(24 * 3_600_000);

fn id(text: &str) -> Result<NodeId, String> {
    match text.parse() {
        Ok(id @ 1..) => Ok(NodeId(id)),
        _ => Err(format!("`{text}` is not an id; it is a whole number from 1 on")),
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty; it is a path".to_string()) } else { Ok(PathBuf::from(text)) }
}

fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port, like 127.0.0.1:7400"))
}

fn span(text: &str, least: Span, most: Span) -> Result<Span, String> {
    match Span::parse_duration(text)? {
        span if span < least => Err(format!("{text} is too short; {} is the least", least.format_duration())),
        span if span > most => Err(format!("{text} is too long; {} is the most", most.format_duration())),
        span => Ok(span),
    }
}

fn voters(text: &str) -> Result<Vec<Peer>, String> {
    let peer = |text: &str| {
        let (number, address) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` is not a voter; it is an id and where it is reached, like 1=10.0.0.1:7400")
        })?;
        let port = address.rsplit_once(':').and_then(|(host, port)| {
            (!host.is_empty()).then(|| port.parse::<u16>().ok().filter(|port| *port > 0)).flatten()
        });
        match port {
            Some(_) => Ok(Peer { id: id(number.trim())?, address: address.to_string() }),
            None => Err(format!("`{address}` is not a host and a port, like 10.0.0.1:7400")),
        }
    };
    let voters: Vec<Peer> = text.split(',').map(|text| peer(text.trim())).collect::<Result<_, _>>()?;
    for (place, voter) in voters.iter().enumerate() {
        if voters[..place].iter().any(|other| other.id == voter.id) {
            return Err(format!("voter {} stands twice", voter.id));
        }
        if let Some(other) = voters[..place].iter().find(|other| other.address == voter.address) {
            return Err(format!("voters {} and {} have the same address", other.id, voter.id));
        }
    }
    match voters.len() {
        0..=9 => Ok(voters),
        count => Err(format!("{count} voters are too many: 3 or 5 are usual, and more than 9 only cost")),
    }
}

impl Peer {
    /// Looks its address up.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        let found = self.address.to_socket_addrs().map_err(|error| error.to_string());
        let address = found.and_then(|mut found| found.next().ok_or("it has no address".to_string()));
        address.map_err(|error| format!("voter {} at {}: {error}", self.id, self.address))
    }
}
