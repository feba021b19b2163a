//! `suffrage-lab algorithms`: what the contracts say.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::{Choice, Contract, Cost, Detection, Electorate, Safety, Synchrony, Topology};

use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const EXAMPLES: &str = "Examples:
  suffrage-lab algorithms
      all of them, a line each
  suffrage-lab algorithms bully
      one of them in full
  suffrage-lab algorithms --json
      everything, for programs";

pub(crate) fn command() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("algorithms")
        .about("Lists the algorithms: where they come from, what they assume, promise and cost")
        .arg(Arg::new("name").value_name("NAME").value_parser(contract).help("Tells everything about one"))
        .arg(flag("json", "Prints the contracts as JSON"))
        .arg(flag("markdown", "Prints the table of the README"))
        .group(ArgGroup::new("format").args(["json", "markdown"]))
        .after_help(EXAMPLES)
}

/// The contract of that name, or a sentence with the nearest name.
pub(crate) fn contract(name: &str) -> Result<&'static Contract, String> {
    CONTRACTS.iter().find(|contract| contract.name == name).ok_or_else(|| no_such(name))
}

/// What to say to somebody who names an algorithm that does not exist.
pub(crate) fn no_such(name: &str) -> String {
    let names: Vec<&str> = CONTRACTS.iter().map(|contract| contract.name).collect();
    format!("there is no algorithm `{name}`; there are {}", names.join(", "))
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let one = matches.get_one::<&'static Contract>("name").copied();
    let text = match (one, matches.get_flag("json"), matches.get_flag("markdown")) {
        (Some(contract), true, _) => json(contract),
        (None, true, _) => json(CONTRACTS),
        (Some(contract), _, true) => markdown(std::slice::from_ref(contract)),
        (None, _, true) => markdown(CONTRACTS),
        (Some(contract), ..) => details(contract),
        (None, ..) => table(),
    };
    Ok(console.out.write_all(text.as_bytes())?)
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(value).expect("contracts are plain data") + "\n"
}

fn range(cost: Cost) -> String {
    if cost.best.text == cost.worst.text {
        return cost.best.text.to_string();
    }
    format!("{} to {}", cost.best.text, cost.worst.text)
}

fn table() -> String {
    let mut rows = vec![["NAME", "MESSAGES", "TIME", "LEADERS"].map(String::from)];
    rows.extend(CONTRACTS.iter().map(|contract| {
        [
            contract.name.into(),
            range(contract.messages),
            range(contract.time),
            leaders(contract.safety).into(),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [name, messages, time] = [width(0), width(1), width(2)];
    let mut text: String =
        rows.iter().map(|[a, b, c, d]| format!("{a:name$}  {b:messages$}  {c:time$}  {d}\n")).collect();
    text += "\nCosts of one election without failures on the way, best to worst; N processes, time in \
             message delays.\n`suffrage-lab algorithms NAME` tells everything about one, \
             `suffrage-lab simulate NAME` runs it.\n";
    text
}

/// The contract in full, as in help texts.
pub(crate) fn details(contract: &Contract) -> String {
    let facts = [
        ("source", contract.source.to_string()),
        ("topology", topology(contract.topology).into()),
        ("synchrony", synchrony(contract.synchrony).into()),
        ("knowledge", contract.knowledge.into()),
        ("tolerates", contract.tolerates.into()),
        ("detection", detection(contract.detection).into()),
        ("electorate", electorate(contract.electorate).into()),
        ("leaders", leaders(contract.safety).into()),
        ("elects", choice(contract.choice).into()),
        ("handover", handover(contract.handover).into()),
        ("messages", range(contract.messages)),
        ("time", format!("{}, in message delays", range(contract.time))),
    ];
    let upkeep = contract.upkeep.iter().map(|expense| {
        let messages = range(expense.messages);
        ("upkeep", format!("{}: {messages}", expense.operation))
    });
    let mut text = format!("{}\n{}\n\n", contract.name, text::wrap(contract.summary, 90, 0));
    for (name, fact) in facts.into_iter().chain(upkeep) {
        text += &format!("  {name:<10} {}\n", text::wrap(&fact, 80, 13));
    }
    text
}

fn markdown(contracts: &[Contract]) -> String {
    let mut text = "| algorithm | source | messages | time | leaders | tolerates |\n".to_string();
    text += "|---|---|---|---|---|---|\n";
    for contract in contracts {
        let cells = [
            format!("`{}`", contract.name),
            contract.source.into(),
            range(contract.messages),
            range(contract.time),
            leaders(contract.safety).into(),
            contract.tolerates.into(),
        ];
        text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

fn leaders(safety: Safety) -> &'static str {
    match safety {
        Safety::AtMostOne => "never two",
        Safety::AtMostOnePerComponent => "never two that can reach each other",
        Safety::AtMostOnePerTerm => "never two in one term; an old one may linger",
        Safety::WithHighProbability => "one, with a known probability",
        Safety::Eventual => "one in the end; several while faults last",
    }
}

/// What one must not count on, as the end of a sentence.
pub(crate) fn caveats(contract: &Contract) -> String {
    let leaders = match contract.safety {
        Safety::AtMostOne => None,
        Safety::AtMostOnePerComponent => Some("that only one leads where parts cannot reach each other"),
        Safety::AtMostOnePerTerm => {
            Some("that only one believes to lead (one of an earlier term may, a while longer)")
        }
        Safety::WithHighProbability => {
            Some("one leader that all know (it is likely, with a known probability, and not certain)")
        }
        Safety::Eventual => Some("that only one leads while faults last (several may: split brain)"),
    };
    let alone = match contract.electorate {
        Electorate::Anybody => None,
        Electorate::Majority => Some("a leader where half of the group is missing"),
        Electorate::Voters(_) => Some("a leader where half of the voters is missing"),
        Electorate::Grid => Some("a leader where no row and column of the grid is complete"),
    };
    let late = match contract.synchrony {
        Synchrony::Synchronous => Some("the right leader while messages take longer than they should"),
        Synchrony::BoundedDrift => Some("anything while clocks run faster or slower than they may, or jump"),
        Synchrony::PartiallySynchronous | Synchrony::Asynchronous => None,
    };
    let failed =
        (!contract.retries).then_some("another try after an election that fails, unless it is called");
    let said: Vec<&str> = [leaders, alone, late, failed].into_iter().flatten().collect();
    said.join("; ")
}

fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Best => "the best-ranked live process that may lead",
        Choice::Any => "any live process that may lead",
    }
}

fn topology(topology: Topology) -> &'static str {
    match topology {
        Topology::Complete => "complete: anybody sends to anybody",
        Topology::Ring => "ring: each sends to its successor",
        Topology::Multicast => "multicast: each sends to everybody at once",
    }
}

fn detection(detection: Detection) -> &'static str {
    match detection {
        Detection::Detector => "a failure detector or the application says that the leader is gone",
        Detection::Timeout => "its own time-outs say that the leader is gone",
    }
}

fn electorate(electorate: Electorate) -> &'static str {
    match electorate {
        Electorate::Anybody => "whoever is there",
        Electorate::Majority => "more than half of the group must be there",
        Electorate::Voters(_) => "more than half of the voters must be there",
        Electorate::Grid => "all of a row and of a column of the group's grid must be there",
    }
}

fn synchrony(synchrony: Synchrony) -> &'static str {
    match synchrony {
        Synchrony::Synchronous => "synchronous: message delays have a known bound",
        Synchrony::PartiallySynchronous => "partially synchronous: safe always, live when delays are bounded",
        Synchrony::BoundedDrift => {
            "clocks drift within a bound and never jump: then safe always, live when delays are bounded"
        }
        Synchrony::Asynchronous => "asynchronous: no bound on delays is needed",
    }
}

fn handover(handover: bool) -> &'static str {
    if handover { "understands resign and transfer" } else { "none: a leader goes by losing rank" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contract_leaves_something_open() {
        for contract in CONTRACTS {
            assert!(caveats(contract).len() > 20, "{}", contract.name);
        }
        let of = |name: &str| caveats(contract(name).unwrap());
        assert!(of("bully").contains("split brain"));
        assert!(of("raft").contains("earlier term") && of("raft").contains("half of the group"));
        assert!(!of("quorum-lease").contains("only one"));
    }
}
