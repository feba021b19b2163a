//! Commands of the application: campaign, resign, transfer, and the commands of single algorithms.

use std::fmt;
use std::str::FromStr;

use suffrage_core::{Command, NodeId, Time};

use super::values::{Timed, add, show, slot};
use super::{Arity, At, Flag, FlagError, Section};
use crate::Scenario;

/// The values of the flags of commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commands {
    /// The calls for an election.
    pub campaign: Vec<At<NodeId>>,
    /// The resignations.
    pub resign: Vec<At<NodeId>>,
    /// The transfers of leadership.
    pub transfer: Vec<At<Transfer>>,
    /// Commands that only some algorithms know, in their text form.
    pub command: Vec<At<AlgorithmCommand>>,
}

pub(super) const SECTION: Section = Section {
    heading: "Commands of the application (repeatable)",
    flags: &[
        Flag {
            name: "campaign",
            value: "ID@TIME",
            arity: Arity::List,
            help: "A process is told to call an election, like 3@10",
            parse_value: |spec, text| add(&mut spec.commands.campaign, text),
            print_values: |spec| show(&spec.commands.campaign),
            ..Flag::NEW
        },
        Flag {
            name: "resign",
            value: "ID@TIME",
            arity: Arity::List,
            help: "A process is told to resign, like 5@10",
            parse_value: |spec, text| add(&mut spec.commands.resign, text),
            print_values: |spec| show(&spec.commands.resign),
            ..Flag::NEW
        },
        Flag {
            name: "transfer",
            value: "ID>ID@TIME",
            arity: Arity::List,
            help: "A process is told to hand its leadership over to another, like '5>3@10'",
            parse_value: |spec, text| add(&mut spec.commands.transfer, text),
            print_values: |spec| show(&spec.commands.transfer),
            ..Flag::NEW
        },
        Flag {
            name: "command",
            value: "ID:COMMAND@TIME",
            arity: Arity::Repeat,
            help: "A process gets a command of its own algorithm, like '5:health off@10' or '3:leave in 2@7'",
            parse_value: |spec, text| add(&mut spec.commands.command, text),
            print_values: |spec| show(&spec.commands.command),
            ..Flag::NEW
        },
    ],
};

impl Commands {
    /// The moment of each command, with its flag.
    pub(super) fn times(&self) -> impl Iterator<Item = (&'static str, Time)> {
        let campaigns = self.campaign.iter().map(|campaign| ("campaign", campaign.at));
        let resignations = self.resign.iter().map(|resignation| ("resign", resignation.at));
        let transfers = self.transfer.iter().map(|transfer| ("transfer", transfer.at));
        let others = self.command.iter().map(|command| ("command", command.at));
        campaigns.chain(resignations).chain(transfers).chain(others)
    }

    pub(super) fn apply(&self, scenario: &mut Scenario) -> Result<(), FlagError> {
        let roster = &scenario.roster;
        let mut commands = Vec::new();
        for &At { value: id, at } in &self.campaign {
            commands.push((at, slot("campaign", roster, id)?, Command::Campaign.to_string()));
        }
        for &At { value: id, at } in &self.resign {
            commands.push((at, slot("resign", roster, id)?, Command::Resign.to_string()));
        }
        for &At { value: Transfer { from, to }, at } in &self.transfer {
            slot("transfer", roster, to)?;
            commands.push((at, slot("transfer", roster, from)?, Command::Transfer(to).to_string()));
        }
        for At { value: AlgorithmCommand { to, text }, at } in &self.command {
            commands.push((*at, slot("command", roster, *to)?, text.clone()));
        }
        commands.sort();
        scenario.commands = commands;
        Ok(())
    }

    pub(super) fn of(scenario: &Scenario) -> Commands {
        let mut commands = Commands::default();
        for (at, slot, text) in &scenario.commands {
            let (at, id) = (*at, scenario.roster.id(*slot));
            match text.parse() {
                Ok(Command::Campaign) => commands.campaign.push(At { value: id, at }),
                Ok(Command::Resign) => commands.resign.push(At { value: id, at }),
                Ok(Command::Transfer(to)) => {
                    commands.transfer.push(At { value: Transfer { from: id, to }, at });
                }
                Err(_) => {
                    commands.command.push(At { value: AlgorithmCommand { to: id, text: text.clone() }, at })
                }
            }
        }
        commands
    }
}

/// A transfer of leadership: `5>3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The process that is asked to stop leading.
    pub from: NodeId,
    /// The process that is to lead instead.
    pub to: NodeId,
}

impl Timed for Transfer {
    const EXAMPLE: &'static str = "5>3";
}

impl FromStr for Transfer {
    type Err = String;

    fn from_str(text: &str) -> Result<Transfer, String> {
        let (from, to) =
            text.split_once('>').ok_or_else(|| format!("`{text}` does not have the form 5>3"))?;
        Ok(Transfer { from: from.parse()?, to: to.parse()? })
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}", self.from, self.to)
    }
}

/// A command of an algorithm's own to a process: `5:health off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmCommand {
    /// The process.
    pub to: NodeId,
    /// The command in its text form.
    pub text: String,
}

impl Timed for AlgorithmCommand {
    const EXAMPLE: &'static str = "5:health off";
}

impl FromStr for AlgorithmCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<AlgorithmCommand, String> {
        let (to, command) =
            text.split_once(':').ok_or_else(|| format!("`{text}` does not have the form 5:health off"))?;
        Ok(AlgorithmCommand { to: to.parse()?, text: command.to_string() })
    }
}

impl fmt::Display for AlgorithmCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.to, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_an_algorithm_are_parsed_as_they_are_printed() {
        let request: At<AlgorithmCommand> = "5:health off in 2@30".parse().unwrap();
        assert_eq!(request.value, AlgorithmCommand { to: NodeId(5), text: "health off in 2".to_string() });
        assert_eq!(request.to_string(), "5:health off in 2@30");
        for text in ["5:pin", "5@3", "x:pin@3"] {
            assert!(text.parse::<At<AlgorithmCommand>>().is_err(), "{text}");
        }
    }

    #[test]
    fn transfers_are_parsed_as_they_are_printed() {
        let transfer: At<Transfer> = "5>3@30".parse().unwrap();
        assert_eq!(transfer.value, Transfer { from: NodeId(5), to: NodeId(3) });
        assert_eq!(transfer.to_string(), "5>3@30");
        for text in ["5>3", "5@3", ">3@3", "5>@3"] {
            assert!(text.parse::<At<Transfer>>().is_err(), "{text}");
        }
    }
}
