//! `suffrage group status`, `leader`, `members`, `watch`, `rank` and `resign`: queries and commands for a running member.

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use suffrage_cli::{Console, Error, text};

use super::http::Answer;
use super::{Session, Target, plain, query};

const MEMBER: Target =
    Target { flag: "member", variable: "SUFFRAGE_MEMBER", usual: "http://127.0.0.1:7580", what: "member" };

const CODES: &str = "Exit codes: 0 success, 1 the member knows no leader or does not lead, 2 the command line is wrong, 3 \
the member cannot be reached or does not answer.";

/// The subcommands, in the order of the help text.
pub(crate) fn commands() -> Vec<Command> {
    let command = |name, about, example: &str| {
        let help = format!("Examples:\n  {example}\n\n{}\n\n{CODES}", MEMBER.settings());
        query(name, about, &MEMBER).after_help(help)
    };
    let rank = Arg::new("rank")
        .value_name("N")
        .required(true)
        .value_parser(value_parser!(i64))
        .allow_negative_numbers(true)
        .help("The rank: of the live members, one with the greatest rank is elected next");
    vec![
        command("status", "Prints what a member believes, and its counters", "suffrage group status"),
        command("leader", "Prints the leader that a member believes in", "suffrage group leader --json"),
        command("members", "Lists the members that a member believes alive", "suffrage group members"),
        command(
            "watch",
            "Prints the leader that a member believes in and its changes",
            "suffrage group watch",
        ),
        command("rank", "Changes the rank of a member; the leader stays", "suffrage group rank 5").arg(rank),
        command("resign", "Ends the leadership of a member; another one is elected", "suffrage group resign"),
    ]
}

pub(crate) fn execute(name: &str, matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let mut session = Session::new(&MEMBER, matches, console)?;
    match name {
        "status" => session.group_status(),
        "leader" => session.group_leader(),
        "members" => session.group_members(),
        "watch" => session.group_watch(),
        "rank" => session.change_rank(*matches.get_one("rank").expect("it is required")),
        "resign" => session.group_resign(),
        _ => unreachable!("it is one of the subcommands"),
    }
}

/// A sentence about the leader.
fn leader(body: &Value) -> String {
    let group = plain(&body["group"]);
    let leader = &body["leader"];
    match leader["id"].as_str() {
        Some(id) => {
            let (address, term) = (plain(&leader["address"]), &leader["term"]);
            let me = if body["leads"] == true { " (the member that answers)" } else { "" };
            format!("member {id}{me} leads {group}, at {address}, term {term}")
        }
        None => format!("{group} has no leader"),
    }
}

impl Session<'_, '_> {
    fn group_status(&mut self) -> Result<u8, Error> {
        let body = self.node.get("/status")?.good()?;
        let (counters, datagrams) = (&body["counters"], &body["datagrams"]);
        let text = format!(
            "{}\nmember {} at {}, rank {}{}\n{} members are alive, {} of them suspected; {} are remembered as dead\n\
             {} changes of the leader, {} suspicions, {} deaths declared, {} refutations, {} conflicts of ids\n\
             {} datagrams sent, {} received, {} dropped\n{}",
            leader(&body),
            plain(&body["member"]),
            plain(&body["address"]),
            body["rank"],
            if body["stands"] == true { "" } else { ", does not stand" },
            body["members"],
            body["suspected"],
            body["dead"],
            counters["leader_changes"],
            counters["suspicions"],
            counters["deaths_declared"],
            counters["refutations"],
            counters["conflicts"],
            datagrams["sent"],
            datagrams["received"],
            datagrams["dropped"],
            plain(&body["contract"]),
        );
        self.print(&body, &text)?;
        Ok(u8::from(body["leader"].is_null()))
    }

    fn group_leader(&mut self) -> Result<u8, Error> {
        let body = self.node.get("/status")?.good()?;
        let shown = json!({
            "group": body["group"], "member": body["member"], "leads": body["leads"], "leader": body["leader"],
        });
        self.print(&shown, &leader(&body))?;
        Ok(u8::from(body["leader"].is_null()))
    }

    /// Prints the members page by page. With `--json`, each page is a line.
    fn group_members(&mut self) -> Result<u8, Error> {
        let mut path = "/members".to_string();
        let mut rows = vec![["member", "address", "rank", "state"].map(String::from).to_vec()];
        loop {
            let body = self.node.get(&path)?.good()?;
            if self.json {
                self.print(&body, "")?;
            }
            for member in body["members"].as_array().into_iter().flatten() {
                let state = match (&member["suspected"], &member["stands"]) {
                    (Value::Bool(true), _) => "suspected",
                    (_, Value::Bool(false)) => "does not stand",
                    _ => "alive",
                };
                rows.push(vec![
                    plain(&member["id"]),
                    plain(&member["address"]),
                    member["rank"].to_string(),
                    state.to_string(),
                ]);
            }
            match body["next"].as_str() {
                Some(next) => path = format!("/members?from={next}"),
                None => break,
            }
        }
        if !self.json {
            self.print(&Value::Null, text::columns(&rows).trim_end())?;
        }
        Ok(0)
    }

    /// Prints events until the member stops or the output is closed.
    fn group_watch(&mut self) -> Result<u8, Error> {
        for event in self.node.events("/observe")? {
            let event = event?;
            self.print(&event, &leader(&event))?;
        }
        Err(Error::Unreachable("the member has closed the stream of events".to_string()))
    }

    fn change_rank(&mut self, rank: i64) -> Result<u8, Error> {
        let body = self.node.post("/rank", &json!({ "rank": rank }))?.good()?;
        self.print(&body, &format!("the rank is {}; the leader stays", body["rank"]))?;
        Ok(0)
    }

    fn group_resign(&mut self) -> Result<u8, Error> {
        let Answer { status, body } = self.node.post("/resign", &json!({}))?;
        if status == 409 {
            let text = plain(&body["error"]);
            self.print(&body, &text)?;
            return Ok(1);
        }
        let body = Answer { status, body }.good()?;
        let group = plain(&body["group"]);
        self.print(&body, &format!("the member no longer leads {group}, and does not stand for 10 s"))?;
        Ok(0)
    }
}
