//! The keys of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use suffrage_core::{NodeId, Span};

use super::{Config, LocalSocket, LogFormat, LogLevel, Peer};
use crate::resolver::check_address;

/// A key of the configuration.
pub struct Key {
    /// The name in the file, and on the command line after two dashes.
    pub name: &'static str,
    /// The placeholder of the value in help texts.
    pub value: &'static str,
    /// The meaning of the value.
    pub help: &'static str,
    /// Whether the key must be set.
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

    /// The name of the environment variable.
    pub fn variable(&self) -> String {
        format!("SUFFRAGE_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// All keys, in the order of help texts.
pub const KEYS: &[Key] = &[
    Key::new("id", "ID", "the id of this node, a whole number from 1", |config, text| {
        config.id = id(text)?;
        Ok(())
    })
    .required(),
    Key::new(
        "voters",
        "ID=HOST:PORT,..",
        "the voters that found the cluster, and their addresses; a later node asks them for the present voters",
        |config, text| {
            config.voters = voters(text)?;
            Ok(())
        },
    )
    .required(),
    Key::new("keys", "FILE", "the key file of the cluster; `suffrage keygen` writes one", |config, text| {
        config.keys = path(text)?;
        Ok(())
    })
    .required(),
    Key::new(
        "on",
        "URL",
        "the engine that elections are held on in place of a cluster, like etcd://10.0.0.1:2379; not for nodes",
        |config, text| {
            config.on = Some(text.to_string());
            Ok(())
        },
    ),
    Key::new("data", "FOLDER", "the data folder of a voter", |config, text| {
        config.data = Some(path(text)?);
        Ok(())
    }),
    Key::new(
        "listen",
        "ADDRESS:PORT",
        "the UDP address to listen on [default: a voter's own address, any free port for other nodes]",
        |config, text| {
            config.listen = Some(socket(text)?);
            Ok(())
        },
    ),
    Key::new(
        "ttl",
        "TIME",
        "the ttl of leases of clients that do not set one [default: 3s]",
        |config, text| {
            config.ttl = span(text, Span::from_millis(10), DAY)?;
            Ok(())
        },
    ),
    Key::new(
        "longest-ttl",
        "TIME",
        "the longest lease that a voter grants; a restarted voter is silent for as long [default: 60s]",
        |config, text| {
            config.longest_ttl = span(text, Span::from_millis(10), DAY)?;
            Ok(())
        },
    ),
    Key::new(
        "delay",
        "TIME",
        "the expected upper bound of the delay of a message; later messages cost time, not safety \
         [default: 25ms]",
        |config, text| {
            config.delay = span(text, Span::from_nanos(1), Span::from_millis(60_000))?;
            Ok(())
        },
    ),
    Key::new(
        "drift",
        "DRIFT",
        "the greatest drift of clocks, like 1% or 100ppm, the same on all nodes; two leaders are possible if \
         a clock drifts more [default: 1%]",
        |config, text| {
            config.drift = text.parse()?;
            Ok(())
        },
    ),
    Key::new(
        "tokens-above",
        "N",
        "a voter that starts for the first time grants only tokens above this: set it at all voters of a cluster \
         that is founded anew after all voters were lost [default: 0]",
        |config, text| {
            config.tokens_above = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
            Ok(())
        },
    ),
    Key::new(
        "http",
        "ADDRESS:PORT|off",
        "the HTTP address to listen on; other addresses than loopback need a token and a certificate \
         [default: 127.0.0.1:7480]",
        |config, text| {
            config.http = if text == "off" { None } else { Some(socket(text)?) };
            Ok(())
        },
    ),
    Key::new("http-token", "FILE", "the file with the bearer token of HTTP requests", |config, text| {
        config.http_token = Some(path(text)?);
        Ok(())
    }),
    Key::new(
        "http-cert",
        "FILE",
        "the file with the TLS certificate of the HTTP server and its chain, in PEM",
        |config, text| {
            config.http_cert = Some(path(text)?);
            Ok(())
        },
    ),
    Key::new(
        "http-key",
        "FILE",
        "the file with the private key of the certificate, in PEM",
        |config, text| {
            config.http_key = Some(path(text)?);
            Ok(())
        },
    ),
    Key::new(
        "http-plain",
        "true|false",
        "whether HTTP without TLS is allowed on other addresses than loopback, because a proxy or tunnel \
         encrypts [default: false]",
        |config, text| {
            config.http_plain = match text {
                "true" => true,
                "false" => false,
                _ => return Err(format!("`{text}` is not true or false")),
            };
            Ok(())
        },
    ),
    Key::new(
        "socket",
        "PATH|off",
        "the Unix socket for clients of this machine, which can lead for as long as their connection stays open \
         [default: /run/suffrage/suffrage.sock if that folder exists]",
        |config, text| {
            config.socket = if text == "off" { LocalSocket::Off } else { LocalSocket::At(path(text)?) };
            Ok(())
        },
    ),
    Key::new(
        "socket-mode",
        "MODE",
        "the permissions of the Unix socket, in octal digits: who can write to it can lead and hand over \
         [default: 660]",
        |config, text| {
            config.socket_mode = match u32::from_str_radix(text, 8) {
                Ok(mode @ 0..=0o777) => mode,
                _ => return Err(format!("`{text}` is not a mode of three octal digits, like 660")),
            };
            Ok(())
        },
    ),
    Key::new(
        "socket-group",
        "GROUP",
        "the group of the Unix socket: a name in /etc/group, or a number [default: the group of the node]",
        |config, text| {
            config.socket_group = Some(text.to_string()).filter(|text| !text.is_empty());
            Ok(())
        },
    ),
    Key::new("log", "LEVEL", "the log level: error, warn, info or debug [default: info]", |config, text| {
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
        "the log format: text, or json for one object per line [default: text]",
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
        _ => Err(format!("`{text}` is not an id; an id is a whole number from 1")),
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty; set it to a path".to_string()) } else { Ok(PathBuf::from(text)) }
}

fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port, like 127.0.0.1:7400"))
}

fn span(text: &str, least: Span, most: Span) -> Result<Span, String> {
    match Span::parse_duration(text)? {
        span if span < least => {
            Err(format!("{text} is too short; set it to {} at least", least.format_duration()))
        }
        span if span > most => {
            Err(format!("{text} is too long; set it to {} at most", most.format_duration()))
        }
        span => Ok(span),
    }
}

fn voters(text: &str) -> Result<Vec<Peer>, String> {
    let peer = |text: &str| -> Result<Peer, String> {
        let (number, address) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` is not a voter; a voter is an id and an address, like 1=10.0.0.1:7400")
        })?;
        check_address(address)?;
        Ok(Peer { id: id(number.trim())?, address: address.to_string() })
    };
    let voters: Vec<Peer> = text.split(',').map(|text| peer(text.trim())).collect::<Result<_, _>>()?;
    for (place, voter) in voters.iter().enumerate() {
        if voters[..place].iter().any(|other| other.id == voter.id) {
            return Err(format!("voter {} is listed twice; list it once", voter.id));
        }
        if let Some(other) = voters[..place].iter().find(|other| other.address == voter.address) {
            let (one, two, address) = (other.id, voter.id, &voter.address);
            return Err(format!("voters {one} and {two} have the same address, {address}; correct one"));
        }
    }
    match voters.len() {
        0..=9 => Ok(voters),
        count => Err(format!("{count} voters are too many; list at most 9, usually 3 or 5")),
    }
}
