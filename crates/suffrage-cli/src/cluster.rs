//! The flags that name a cluster, for all commands that take part in one.

use std::path::PathBuf;

use clap::{Arg, ArgMatches};
use suffrage_node::config::{Config, KEYS, Origin};

use crate::Error;

/// Flags for these keys of the configuration. The flag of `voters` is `--cluster`.
pub fn flags(names: &'static [&'static str]) -> impl Iterator<Item = Arg> {
    let keys = KEYS.iter().filter(|key| names.contains(&key.name));
    keys.map(|key| {
        let long = if key.name == "voters" { "cluster" } else { key.name };
        Arg::new(key.name)
            .long(long)
            .value_name(key.value)
            .help(format!("{} (or {})", upper(key.help), key.variable()))
            .help_heading("Cluster")
    })
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The flag for a configuration file with the same keys.
pub fn file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help(
            "The configuration file of a node; its `listen` and `data` do not apply [also: SUFFRAGE_CONFIG]",
        )
        .help_heading("Cluster")
}

/// The configuration from flags, environment and file. A file is read if `config` is one of the names. `id` overrides the
/// id of the node.
#[allow(clippy::disallowed_methods, reason = "reads the environment")]
pub fn read(names: &'static [&'static str], matches: &ArgMatches, id: Option<u64>) -> Result<Config, Error> {
    let path = if names.contains(&"config") {
        let said = matches.get_one::<PathBuf>("config").cloned();
        said.or_else(|| std::env::var_os("SUFFRAGE_CONFIG").map(PathBuf::from))
    } else {
        None
    };
    let text = match &path {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.map_err(|error| Error::flag("config", format!("{}: {error}", path.display())))?)
        }
        None => None,
    };
    let mut given: Vec<(&'static str, String)> = Vec::new();
    for key in KEYS.iter().filter(|key| names.contains(&key.name)) {
        given.extend(matches.get_one::<String>(key.name).map(|value| (key.name, value.clone())));
    }
    if let Some(id) = id {
        given.retain(|(name, _)| *name != "id");
        given.push(("id", id.to_string()));
    }
    let environment = |name: &str| {
        let ours = KEYS.iter().any(|key| names.contains(&key.name) && key.variable() == name);
        ours.then(|| std::env::var(name).ok()).flatten()
    };
    let file = path.as_deref().zip(text.as_deref());
    Config::read(file, environment, &given).map_err(|problems| {
        let said = problems.0.iter().map(|problem| match (&problem.origin, problem.key.as_str()) {
            (Origin::Flag("voters"), _) => format!("--cluster: {}", problem.reason),
            (Origin::Default, "voters") => {
                "--cluster is missing: set it to the voters, like 1=10.0.0.1:7400,..".to_string()
            }
            (Origin::Default, key) => format!("--{key} {}", problem.reason),
            _ => problem.to_string(),
        });
        Error::Usage(said.collect::<Vec<_>>().join("\n       "))
    })
}
