//! `suffrage voters`: shows the voters of a cluster, and changes them one by one while elections go on.

use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use suffrage_cli::{Error, text};
use suffrage_core::Span;
use suffrage_node::resolver::check_address;

use super::http::Answer;
use super::{Session, duration, plain};

/// The interval at which the progress of a change is read.
const POLL: Duration = Duration::from_millis(100);

const ABOUT: &str = "Shows the voters of a cluster, and changes them while elections go on.

One voter is added or removed at a time. A leader keeps its lease meanwhile; its token may grow. Between two changes the \
voters wait until leases from before the first have expired, the longest ttl of these at most.

A change names what is wanted: to repeat a command that was interrupted is always right.";

const NEW_VOTER: &str = "A new voter is started first, with an empty data folder, the key of the cluster, and with the \
present voters as its `voters`, without itself:
  suffrage node --id 4 --voters 1=10.0.0.1:7400,2=10.0.0.2:7400 --listen 10.0.0.4:7400 --data data-4 --keys cluster.key";

const CODES: &str = "Exit codes: 0 success, 1 the change is impossible or was not made in time, 2 the command line is wrong, \
3 the node cannot be reached or does not answer.";

/// A new voter: `4=10.0.0.4:7400`.
#[derive(Clone, Debug)]
struct NewVoter {
    id: u64,
    address: String,
}

fn new_voter(text: &str) -> Result<NewVoter, String> {
    let malformed = || format!("`{text}` is not an id and an address, like 4=10.0.0.4:7400");
    let (id, address) = text.split_once('=').ok_or_else(malformed)?;
    check_address(address)?;
    Ok(NewVoter { id: id.parse().map_err(|_| malformed())?, address: address.to_string() })
}

pub(super) fn command() -> Command {
    let timeout = Arg::new("timeout")
        .long("timeout")
        .value_name("DURATION")
        .value_parser(Span::parse_duration)
        .default_value("60s")
        .help("Gives up after this time. What a majority has accepted is completed by the next change");
    let new = |name: &'static str| {
        Arg::new(name)
            .value_name("ID=ADDRESS")
            .required(true)
            .value_parser(new_voter)
            .help("The new voter: its id, and its host and port as other nodes reach it")
    };
    let old = Arg::new("old").value_name("ID").required(true).value_parser(value_parser!(u64));
    let sub = |name: &'static str, about: &'static str, example: &'static str| {
        super::command(name, about, example)
            .after_help(format!("Example:\n  {example}\n\n{}\n\n{CODES}", super::NODE.settings()))
    };
    let list = sub(
        "list",
        "Prints the voters and the version of the cluster's configuration",
        "suffrage voters list",
    );
    let adopt = sub(
        "adopt",
        "Gives a cluster of version 0 its first stored configuration, with the same voters. `add` and `remove` do that, too",
        "suffrage voters adopt",
    )
    .arg(
        Arg::new("without")
            .long("without")
            .value_name("IDS")
            .value_delimiter(',')
            .value_parser(value_parser!(u64))
            .help("Voters that are gone and need not answer: remove them afterwards. They do not vote any more"),
    );
    let add = sub("add", "Adds a voter", "suffrage voters add 4=10.0.0.4:7400").arg(new("new"));
    let remove = sub("remove", "Removes a voter, which may be down", "suffrage voters remove 3")
        .arg(old.clone().help("The voter that is removed"));
    let replace = sub(
        "replace",
        "Replaces a voter: adds the new one first if the old one answers, and otherwise removes the old one first",
        "suffrage voters replace 3 4=10.0.0.4:7400",
    )
    .arg(old.help("The voter that is replaced"))
    .arg(new("new"));
    let changes = [adopt, add, remove, replace].map(|command| command.arg(timeout.clone()));
    Command::new("voters")
        .about("Shows the voters of a cluster, and changes them while elections go on")
        .long_about(ABOUT)
        .after_help(format!("{NEW_VOTER}\n\n{CODES}"))
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommand(list)
        .subcommands(changes)
}

pub(super) fn execute(name: &str, matches: &ArgMatches, session: &mut Session<'_, '_>) -> Result<u8, Error> {
    if name == "list" {
        return session.list_voters();
    }
    let timeout = *matches.get_one::<Span>("timeout").expect("it has a default");
    let deadline = Instant::now() + Duration::from_nanos(timeout.as_nanos());
    let add = || {
        let NewVoter { id, address } = matches.get_one::<NewVoter>("new").expect("it is required");
        json!({ "add": { "id": id, "address": address } })
    };
    let remove = || json!({ "remove": { "id": matches.get_one::<u64>("old").expect("it is required") } });
    let changes = match name {
        "adopt" => {
            let without: Vec<u64> = matches.get_many("without").into_iter().flatten().copied().collect();
            vec![json!({ "adopt": { "without": without } })]
        }
        "add" => vec![add()],
        "remove" => vec![remove()],
        "replace" => {
            let old = matches.get_one::<u64>("old").expect("it is required");
            let body = session.node.get("/voters")?.good()?;
            let answers = voters(&body).any(|voter| voter["id"] == *old && voter["answers"] == true);
            // A voter that does not answer would count for the majority of the greater cluster.
            if answers { vec![add(), remove()] } else { vec![remove(), add()] }
        }
        _ => unreachable!("clap demands one of the subcommands"),
    };
    let mut body = Value::Null;
    for change in &changes {
        match session.change_voters(change, deadline)? {
            Ok(made) => body = made,
            Err(body) => {
                if session.json {
                    session.print(&body, "")?;
                }
                return Ok(1);
            }
        }
    }
    session.print(&body, &summary(&body))?;
    Ok(0)
}

fn voters(body: &Value) -> impl Iterator<Item = &Value> {
    body["voters"].as_array().into_iter().flatten()
}

/// A sentence about the configuration.
fn summary(body: &Value) -> String {
    let ids: Vec<String> = voters(body).map(|voter| voter["id"].to_string()).collect();
    let even = match ids.len() {
        count if count % 2 == 0 => {
            format!("; {count} voters tolerate no more failures than {}: add or remove one", count - 1)
        }
        _ => String::new(),
    };
    format!("version {}: voters {}{even}", body["version"], ids.join(", "))
}

impl Session<'_, '_> {
    fn list_voters(&mut self) -> Result<u8, Error> {
        let body = self.node.get("/voters")?.good()?;
        let mut rows = vec![["voter", "address", "data folder", "answers"].map(String::from).to_vec()];
        for voter in voters(&body) {
            let answers = match (voter["answers"].as_bool(), &voter["reply_age_ms"]) {
                (Some(true), _) => "yes".to_string(),
                (_, Value::Null) => "never".to_string(),
                (_, age) => format!("not since {}", duration(age)),
            };
            let disk = voter["disk"].as_str().unwrap_or("-").to_string();
            rows.push(vec![voter["id"].to_string(), plain(&voter["address"]), disk, answers]);
        }
        let state = match (body["certain"].as_bool(), body["drained_in_ms"].as_u64()) {
            (Some(false), _) => {
                "\nno voter has answered this node yet: this is the list that it was started with".to_string()
            }
            (_, Some(left @ 1..)) => format!("\nthe next change is possible in {}", duration(&json!(left))),
            _ => String::new(),
        };
        let change = match &body["change"] {
            Value::Null => String::new(),
            change => format!("\n{}: {}", plain(&change["change"]), plain(&change["progress"])),
        };
        let mismatches = body["mismatches"].as_array().into_iter().flatten();
        let mismatches: String = mismatches
            .map(|it| format!("\nmessages of node {} are ignored: {}", it["node"], plain(&it["reason"])))
            .collect();
        let heading = format!("cluster {}, version {}", plain(&body["cluster"]), body["version"]);
        let table = text::columns(&rows);
        self.print(&body, &format!("{heading}\n{}{state}{change}{mismatches}", table.trim_end()))?;
        Ok(0)
    }

    /// Has the node make a change, and prints each step. The body of the answer in which the change is made, or of that
    /// which says why it is not.
    fn change_voters(&mut self, change: &Value, deadline: Instant) -> Result<Result<Value, Value>, Error> {
        let Answer { status, body } = self.node.post("/voters", change)?;
        if status == 409 {
            self.say(&plain(&body["error"]))?;
            return Ok(Err(body));
        }
        let mut body = Answer { status, body }.good()?;
        let mut reported = Value::Null;
        loop {
            let change = &body["change"];
            // The same state is reported once: its text may have a remaining time.
            if reported != change["state"] {
                self.say(&format!("{}: {}", plain(&change["change"]), plain(&change["progress"])))?;
                reported = change["state"].clone();
            }
            match change["state"].as_str() {
                Some("made") => return Ok(Ok(body)),
                Some("impossible") | None => return Ok(Err(body)),
                Some(_) if Instant::now() < deadline => std::thread::sleep(POLL),
                Some(_) => {
                    self.node.post("/voters", &json!({ "stop": {} }))?.good()?;
                    self.say("the change was not made in time: this node has stopped coordinating it")?;
                    return Ok(Err(body));
                }
            }
            body = self.node.get("/voters")?.good()?;
        }
    }

    /// Prints a line for people.
    fn say(&mut self, line: &str) -> Result<(), Error> {
        if !self.json {
            writeln!(self.console.out, "{line}")?;
            self.console.out.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_voter_is_an_id_and_an_address() {
        let voter = new_voter("4=node-4.example:7400").unwrap();
        assert_eq!((voter.id, voter.address.as_str()), (4, "node-4.example:7400"));
        for bad in ["4", "4=", "x=10.0.0.4:7400", "4=10.0.0.4", "=10.0.0.4:7400", "-1=10.0.0.4:7400"] {
            assert!(new_voter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_even_number_of_voters_is_noted() {
        let body = |ids: &[u64]| {
            let voters: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
            json!({ "version": 3, "voters": voters })
        };
        assert_eq!(summary(&body(&[1, 2, 3])), "version 3: voters 1, 2, 3");
        assert!(summary(&body(&[1, 2, 3, 4])).contains("4 voters tolerate no more failures than 3"));
    }
}
