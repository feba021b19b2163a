//! `suffrage group`: a member of a large group, and queries of it.
#![allow(clippy::disallowed_methods, reason = "reads the environment")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use suffrage_cli::{Console, Error, cluster};
use suffrage_core::{NodeId, Span};
use suffrage_node::config::{Config, KEYS, Origin};
use suffrage_node::resolver::check_address;

use crate::client;
use crate::daemon::group::{GroupOptions, run};
use crate::daemon::hooks::HookCommands;

const ABOUT: &str = "Runs a member of a large group until it is stopped, or asks a running member.

THIS IS NOT THE QUORUM LEASE: TWO MEMBERS CAN LEAD AT THE SAME TIME. In a partition each side has a leader, and a leader that \
is paused or cut off believes in itself until it hears of its successor. Terms are no fencing tokens. Use `suffrage run` or \
`suffrage node` where two leaders do harm.

A group has up to some ten thousand members and no voters. Members find each other by gossip from the members of --join, \
detect failures, and follow one leader: of the live members, one with the greatest rank is elected, and stays when a better \
one joins. The leader of a group without partitions is replaced about 2 seconds after its death.

SIGTERM and SIGINT stop the member: it leaves the group, and others know at once. A second signal ends it without waiting for \
hooks. SIGHUP reloads the keys, the HTTP token and the HTTP certificate. The member logs to standard error, and notifies \
systemd when it runs (Type=notify).";

const EXAMPLES: &str = "Examples:
  suffrage keygen group.key
      creates the key of the group; copy it to every member
  suffrage group --name telemetry --keys group.key --listen 10.0.0.1:7500
      the first member: the others join it
  suffrage group --join seed.example:7500 --name telemetry --keys group.key
      joins the group of a member
  suffrage group --join a.example:7500,b.example:7500 --name telemetry --keys group.key --rank 5 --on-elected ./lead
      several seeds, a rank, and a command that runs when this member begins to lead
  suffrage group status
      what the member on this machine believes

Hooks are shell commands. One runs at a time; after it, the hook of the latest state runs. --on-elected runs when this member
begins to lead; --on-follow when it follows another leader, when it no longer leads, and when it stops while it leads. The
environment has SUFFRAGE_GROUP, SUFFRAGE_MEMBER, SUFFRAGE_LEADER, SUFFRAGE_LEADER_ADDRESS and SUFFRAGE_TERM; the last three are
empty without a leader. All processes of a hook end at --hook-limit, and when the member ends.

HTTP has /leader (200 if this member leads, 503 otherwise), /status, /members, /observe, /metrics, /liveness, /readiness, and
POST /rank and /resign.

Exit codes: 0 stopped by a signal, 1 failed, 2 the command line is wrong.";

/// The keys of the configuration of a node that a member has.
const MEMBER_KEYS: &[&str] =
    &["keys", "listen", "http", "http-token", "http-cert", "http-key", "http-plain", "log", "log-format"];

pub(crate) fn command() -> Command {
    let text = |name: &'static str, value, help| Arg::new(name).long(name).value_name(value).help(help);
    let keys = cluster::flags(MEMBER_KEYS).map(|arg| {
        let help = match arg.get_id().as_str() {
            "keys" => "The key file of the group; `suffrage keygen` writes one (or SUFFRAGE_KEYS)",
            "listen" => "The UDP address to listen on (or SUFFRAGE_LISTEN) [default: 0.0.0.0:7500]",
            "http" => {
                "The HTTP address to listen on; other addresses than loopback need a token and a certificate (or \
                 SUFFRAGE_HTTP) [default: 127.0.0.1:7580]"
            }
            _ => return arg.help_heading("Service"),
        };
        arg.help(help).help_heading("Service")
    });
    Command::new("group")
        .about("Runs a member of a large group, in which two can lead at the same time; or asks one")
        .long_about(ABOUT)
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .subcommands(client::group::commands())
        .arg(text("name", "NAME", "The name of the group").required(true).value_parser(name))
        .arg(
            text("join", "HOST:PORT,..", "Members to ask; the first member of a group needs none")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .value_parser(seed),
        )
        .arg(
            text(
                "advertise",
                "ADDRESS:PORT",
                "The address at which others reach this member [default: that of --listen, or the one that this machine \
                 uses to reach --join]",
            )
            .value_parser(address),
        )
        .arg(
            text("id", "ID", "The id of this member: unique in the group, below 2^63 [default: a hash of the address]")
                .value_parser(value_parser!(u64).range(..1 << 63)),
        )
        .arg(
            text("rank", "N", "The rank of this member; `suffrage group rank` changes it")
                .default_value("0")
                .value_parser(value_parser!(i64))
                .allow_negative_numbers(true),
        )
        .arg(
            Arg::new("never-lead")
                .long("never-lead")
                .action(ArgAction::SetTrue)
                .help("This member takes part without being elected"),
        )
        .arg(text("on-elected", "CMD", "A shell command that runs when this member begins to lead"))
        .arg(text("on-follow", "CMD", "A shell command that runs when this member follows, or no longer leads"))
        .arg(
            text("hook-limit", "TIME", "The longest time of a hook; then it is killed")
                .default_value("60s")
                .value_parser(limit),
        )
        .args(keys)
        .after_help(EXAMPLES)
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
        return Err("the name of a group must have 1 to 255 bytes and no control characters".to_string());
    }
    Ok(text.to_string())
}

fn seed(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_string())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let usable = |address: &SocketAddr| address.port() > 0 && !address.ip().is_unspecified();
    text.parse()
        .ok()
        .filter(usable)
        .ok_or_else(|| format!("`{text}` is not an address of a machine with a port, like 10.0.0.1:7500"))
}

fn limit(text: &str) -> Result<Duration, String> {
    match Duration::from_nanos(Span::parse_duration(text)?.as_nanos()) {
        limit if limit.is_zero() => Err(format!("{text} is too short")),
        limit => Ok(limit),
    }
}

/// The settings that the command line describes.
fn options(matches: &ArgMatches) -> Result<GroupOptions, Error> {
    let flags: Vec<(&'static str, String)> = KEYS
        .iter()
        .filter(|key| MEMBER_KEYS.contains(&key.name))
        .filter_map(|key| Some((key.name, matches.get_one::<String>(key.name)?.clone())))
        .collect();
    let environment = |variable: &str| {
        let ours = KEYS.iter().any(|key| MEMBER_KEYS.contains(&key.name) && key.variable() == variable);
        ours.then(|| std::env::var(variable).ok()).flatten()
    };
    let config = Config::read_member(environment, &flags).map_err(|problems| {
        let said = problems.0.iter().map(|problem| match problem.origin {
            Origin::Default if problem.key == "keys" => {
                "--keys is missing: set it to the key file of the group; `suffrage keygen` writes one"
                    .to_string()
            }
            _ => problem.to_string(),
        });
        Error::Usage(said.collect::<Vec<_>>().join("\n       "))
    })?;
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let seeds: Vec<String> = matches.get_many("join").into_iter().flatten().cloned().collect();
    let listen = config.listen.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7500)));
    let advertise = matches.get_one::<SocketAddr>("advertise").copied();
    if listen.ip().is_unspecified() && advertise.is_none() {
        let remedy = "set --listen or --advertise to an address of this machine";
        if seeds.is_empty() {
            return Err(Error::flag("listen", format!("others cannot reach {listen}: {remedy}")));
        }
        if listen.port() == 0 {
            return Err(Error::flag(
                "listen",
                format!("the port of {listen} is not known before the start: {remedy}"),
            ));
        }
    }
    Ok(GroupOptions {
        name: text("name").expect("it is required"),
        seeds,
        listen,
        advertise,
        id: matches.get_one("id").copied().map(NodeId),
        rank: *matches.get_one("rank").expect("it has a default"),
        stands: !matches.get_flag("never-lead"),
        hooks: HookCommands {
            on_elected: text("on-elected"),
            on_follow: text("on-follow"),
            limit: *matches.get_one("hook-limit").expect("it has a default"),
        },
        config,
    })
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    if let Some((name, matches)) = matches.subcommand() {
        return client::group::execute(name, matches, console);
    }
    run(&options(matches)?)?;
    Ok(0)
}
