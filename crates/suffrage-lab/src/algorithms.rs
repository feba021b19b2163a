//! `suffrage-lab algorithms`: prints the contracts of the algorithms.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::{Choice, Contract, Cost, Detection, Electorate, Safety, Synchrony, Topology};

use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const EXAMPLES: &str = "Examples:
  suffrage-lab algorithms
      all algorithms, one line each
  suffrage-lab algorithms bully
      the whole contract of one algorithm
  suffrage-lab algorithms --json
      all contracts as JSON";

pub(crate) fn command() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("algorithms")
        .about("Lists the algorithms: where they come from, what they assume, promise and cost")
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .value_parser(contract)
                .help("The algorithm whose whole contract is printed"),
        )
        .arg(flag("json", "Prints the contracts as JSON"))
        .arg(flag("markdown", "Prints the table of the README"))
        .group(ArgGroup::new("format").args(["json", "markdown"]))
        .after_help(EXAMPLES)
}

/// The contract of that name, or an error that lists the names.
pub(crate) fn contract(name: &str) -> Result<&'static Contract, String> {
    CONTRACTS.iter().find(|contract| contract.name == name).ok_or_else(|| unknown_algorithm(name))
}

/// The error for an unknown name of an algorithm.
pub(crate) fn unknown_algorithm(name: &str) -> String {
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
    text += "\nThe costs are those of one election without failures, best to worst, with N processes. Times are in \
             message delays.\n`suffrage-lab algorithms NAME` prints the whole contract, \
             `suffrage-lab simulate NAME` runs the algorithm.\n";
    text
}

/// The facts of a contract: name and text of each.
pub(crate) fn facts(contract: &Contract) -> Vec<(&'static str, String)> {
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
    facts.into_iter().chain(upkeep).collect()
}

/// The whole contract, as help texts show it.
pub(crate) fn details(contract: &Contract) -> String {
    let mut text = format!("{}\n{}\n\n", contract.name, text::wrap(contract.summary, 90, 0));
    for (name, fact) in facts(contract) {
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
        Safety::AtMostOnePerTerm => {
            "never two in one term; one of an earlier term may still believe that it leads"
        }
        Safety::WithHighProbability => "one, with a known probability",
        Safety::Eventual => "one in the end; several while faults last",
    }
}

/// What the contract does not promise, as the end of a sentence.
pub(crate) fn not_promised(contract: &Contract) -> String {
    let leaders = match contract.safety {
        Safety::AtMostOne => None,
        Safety::AtMostOnePerComponent => {
            Some("one leader while parts of the network cannot reach each other")
        }
        Safety::AtMostOnePerTerm => {
            Some("that only one believes that it leads (a leader of an earlier term may, for a while)")
        }
        Safety::WithHighProbability => {
            Some("one leader that all know for certain (only with a known probability)")
        }
        Safety::Eventual => Some("one leader while faults last (several may lead: split brain)"),
    };
    let quorum = match contract.electorate {
        Electorate::Anybody => None,
        Electorate::Majority => Some("a leader without a majority of the group"),
        Electorate::Voters(_) => Some("a leader without a majority of the voters"),
        Electorate::Grid => Some("a leader without a complete row and column of the grid"),
    };
    let timing = match contract.synchrony {
        Synchrony::Synchronous => Some("the right leader while messages take longer than the delay bound"),
        Synchrony::BoundedDrift => Some("anything while clocks drift beyond the bound or jump"),
        Synchrony::PartiallySynchronous | Synchrony::Asynchronous => None,
    };
    let retries =
        (!contract.retries).then_some("a new election after a failed one, unless it is called again");
    let parts: Vec<&str> = [leaders, quorum, timing, retries].into_iter().flatten().collect();
    parts.join("; ")
}

fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Best => "the best-ranked live process that may lead",
        Choice::Any => "any live process that may lead",
    }
}

fn topology(topology: Topology) -> &'static str {
    match topology {
        Topology::Complete => "complete: every process can send to every other",
        Topology::Ring => "ring: each process sends to its successor",
        Topology::Multicast => "multicast: each process sends to all others at once",
    }
}

fn detection(detection: Detection) -> &'static str {
    match detection {
        Detection::Detector => "a failure detector or the application reports that the leader has failed",
        Detection::Timeout => "time-outs of the algorithm itself",
    }
}

fn electorate(electorate: Electorate) -> &'static str {
    match electorate {
        Electorate::Anybody => "any live processes",
        Electorate::Majority => "more than half of the group must be alive",
        Electorate::Voters(_) => "more than half of the voters must be alive",
        Electorate::Grid => "a complete row and a complete column of the grid must be alive",
    }
}

fn synchrony(synchrony: Synchrony) -> &'static str {
    match synchrony {
        Synchrony::Synchronous => "synchronous: message delays have a known bound",
        Synchrony::PartiallySynchronous => "partially synchronous: always safe, live when delays are bounded",
        Synchrony::BoundedDrift => {
            "clocks drift within a bound and never jump: then always safe, live when delays are bounded"
        }
        Synchrony::Asynchronous => "asynchronous: no bound on delays",
    }
}

fn handover(handover: bool) -> &'static str {
    if handover {
        "supports resign and transfer"
    } else {
        "none: a leader steps down only when its rank falls"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contract_lists_what_it_does_not_promise() {
        for contract in CONTRACTS {
            assert!(not_promised(contract).len() > 20, "{}", contract.name);
        }
        let of = |name: &str| not_promised(contract(name).unwrap());
        assert!(of("bully").contains("split brain"));
        assert!(of("raft").contains("earlier term") && of("raft").contains("majority of the group"));
        assert!(!of("quorum-lease").contains("one leader"));
    }
}
