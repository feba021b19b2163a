//! `suffrage leader`, `status`, `why`, `watch` and `resign` on an engine, and `suffrage engines`.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};
use suffrage::engines::{self, Engine, FACTS, Leader, Status};
use suffrage_cli::{Console, Error};
use suffrage_core::Span;

const ABOUT: &str = "Lists the engines that elections can be held on.

`suffrage run --on URL` and the library hold elections on servers that you run already, by the engine's own recipe: \
clients of other languages take part in the same elections. This command prints what each engine promises. None of them \
has ranks, fail-back or hand-over to a named candidate; the quorum lease of `suffrage node` has.";

const EXAMPLES: &str = "Examples:
  suffrage engines
  suffrage engines --json
  suffrage run --name reports --on postgres://app@db/orders -- ./reports
  suffrage leader reports --on postgres://app@db/orders

docs/engines.md explains which one to use when, and every parameter of the URLs.";

/// The subcommands that take `--on`.
pub(super) const NAMES: [&str; 5] = ["leader", "status", "why", "watch", "resign"];

/// The flag for the URL of an engine.
pub(super) fn flag() -> Arg {
    Arg::new("on")
        .long("on")
        .value_name("URL")
        .conflicts_with_all(["node", "ca", "token-file", "plain"])
        .help("Asks an engine in place of a node, like etcd://10.0.0.1:2379 [also: SUFFRAGE_ON]")
}

pub(crate) fn command() -> Command {
    Command::new("engines")
        .about("Lists the engines that elections can be held on")
        .long_about(ABOUT)
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints the table as JSON"))
        .after_help(EXAMPLES)
}

/// Prints the table of engines.
pub(crate) fn list(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let show = |ttl: std::time::Duration| Span::from_nanos(ttl.as_nanos() as u64).format_duration();
    if matches.get_flag("json") {
        let rows = FACTS.iter().map(|facts| {
            json!({
                "engine": facts.name, "scheme": facts.scheme, "built_in": facts.compiled, "recipe": facts.recipe,
                "token": facts.token, "validity": facts.validity, "failover_can_lose": facts.failover,
                "shortest_ttl_ms": facts.shortest_ttl.as_millis() as u64, "load": facts.load,
                "rank": false, "failback": false, "transfer": false,
            })
        });
        writeln!(console.out, "{}", Value::from(rows.collect::<Vec<_>>()))?;
        return Ok(0);
    }
    for facts in FACTS {
        let built = if facts.compiled { "" } else { " (not in this build)" };
        writeln!(console.out, "{} {}://{built}", facts.name, facts.scheme)?;
        for (what, said) in [
            ("recipe", facts.recipe),
            ("token", facts.token),
            ("valid", facts.validity),
            ("shortest ttl", &show(facts.shortest_ttl)),
            ("fail-over can lose", facts.failover),
            ("load", facts.load),
        ] {
            writeln!(console.out, "  {what:<20}{said}")?;
        }
    }
    Ok(0)
}

/// The URL of the flag or of the environment. A flag that names a node comes before the variable.
#[allow(clippy::disallowed_methods, reason = "reads the environment")]
pub(super) fn url(matches: &ArgMatches) -> Option<String> {
    let said = matches.try_get_one::<String>("on").ok().flatten().cloned();
    let names_node = matches.contains_id("node");
    said.or_else(|| std::env::var("SUFFRAGE_ON").ok().filter(|_| !names_node))
}

/// Executes a query or a command on an engine.
pub(super) fn execute(
    name: &str,
    url: &str,
    matches: &ArgMatches,
    console: &mut Console<'_>,
) -> Result<u8, Error> {
    let engine = engines::connect(url).map_err(|error| Error::flag("on", error.to_string()))?;
    let election = matches.get_one::<String>("name").expect("it is required");
    let mut session = Session { engine, election, json: matches.get_flag("json"), console };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match name {
            "watch" => session.watch().await,
            "resign" => session.resign().await,
            _ => session.ask(name).await,
        }
    })
}

/// An engine that refuses is a wrong command line or a wrong permission; all else is an engine that does not answer.
fn failed(error: engines::Error) -> Error {
    match error {
        error @ (engines::Error::InvalidUrl(_) | engines::Error::Unsupported { .. }) => {
            Error::Usage(error.to_string())
        }
        error => Error::Unreachable(error.to_string()),
    }
}

struct Session<'a, 'c> {
    engine: Engine,
    election: &'a str,
    json: bool,
    console: &'a mut Console<'c>,
}

impl Session<'_, '_> {
    fn print(&mut self, body: &Value, text: &str) -> Result<(), Error> {
        let text = if self.json { body.to_string() } else { text.to_string() };
        writeln!(self.console.out, "{text}")?;
        Ok(self.console.out.flush()?)
    }

    fn sentence(&self, leader: Option<&Leader>) -> String {
        match leader {
            Some(leader) => {
                format!("{} leads {}, with token {}", leader.identity, self.election, leader.token)
            }
            None => format!("{} has no leader", self.election),
        }
    }

    fn body(&self, leader: Option<&Leader>) -> Value {
        json!({
            "election": self.election,
            "engine": self.engine.facts().name,
            "leader": leader.map(|leader| &leader.identity),
            "token": leader.map(|leader| leader.token),
        })
    }

    /// `leader`, `status` and `why`.
    async fn ask(&mut self, name: &str) -> Result<u8, Error> {
        let status = self.engine.status(self.election).await.map_err(failed)?;
        let Status { leader, waiting, remarks, .. } = &status;
        let mut body = self.body(leader.as_ref());
        let mut lines = vec![self.sentence(leader.as_ref())];
        if name != "leader" {
            body["waiting"] = waiting.clone().into();
            body["remarks"] = remarks.clone().into();
            if !waiting.is_empty() {
                lines.push(format!("waiting, the next one first: {}", waiting.join(", ")));
            }
            if name == "why" && leader.is_none() {
                lines.push(match waiting.len() {
                    0 => "no candidate stands".to_string(),
                    _ => "candidates wait, and the lease of the last leader has not ended yet".to_string(),
                });
            }
            lines.extend(remarks.iter().cloned());
        }
        self.print(&body, &lines.join("\n"))?;
        Ok(u8::from(leader.is_none()))
    }

    /// Prints the leader and its changes until the output is closed.
    async fn watch(&mut self) -> Result<u8, Error> {
        let first = self.engine.status(self.election).await.map_err(failed)?.leader;
        if first.is_none() {
            self.print(&self.body(None), &self.sentence(None))?;
        }
        let mut watch = self.engine.watch(self.election);
        loop {
            let leader = watch.changed().await.map_err(failed)?;
            self.print(&self.body(leader.as_ref()), &self.sentence(leader.as_ref()))?;
        }
    }

    async fn resign(&mut self) -> Result<u8, Error> {
        let Some(deposed) = self.engine.depose(self.election).await.map_err(failed)? else {
            self.print(&self.body(None), &self.sentence(None))?;
            return Ok(1);
        };
        let mut body = self.body(None);
        body["deposed"] = deposed.identity.clone().into();
        let text = format!(
            "{} is deposed: its entry with token {} is removed from {}. It stops when it notices; until then its work may \
             overlap the next leader's, and only the token protects",
            deposed.identity,
            deposed.token,
            self.engine.facts().name
        );
        self.print(&body, &text)?;
        Ok(0)
    }
}
