//! The grammar of scenarios: the name of every flag, the syntax of its value, parsing, printing and applying.
//!
//! [`SECTIONS`] lists the flags. A [`Spec`] holds the typed values of one command line: [`Spec::set`] parses a
//! value, `Display` prints the shortest flags that say the same, [`Spec::scenario`] applies them to a
//! [`Scenario`], and [`Spec::of`] describes a scenario by flags again. A program makes its command line of
//! [`SECTIONS`] and passes the values on; no other module describes their syntax.

mod commands;
mod faults;
mod group;
mod network;
mod run;
mod values;

use std::fmt;
use std::str::FromStr;

pub use commands::{AlgorithmCommand, Commands, Transfer};
pub use faults::{Faults, Jump, Partition, Pause, Rerank};
pub use group::{Group, Initiators, Links};
pub use network::NetworkSpec;
pub use run::RunSpec;
pub use values::{At, Probability, Target, drift, member, number, probability, seed};

use crate::Scenario;

/// A flag of a scenario.
pub struct Flag {
    /// The name, without its dashes.
    pub name: &'static str,
    /// The placeholder of the value in a help text; empty for a switch.
    pub value: &'static str,
    /// The number of values.
    pub arity: Arity,
    /// The text that explains the flag to users.
    pub help: &'static str,
    /// Flags that cannot be given together with this one.
    pub conflicts: &'static [&'static str],
    /// The flag that this one requires.
    pub requires: Option<&'static str>,
    /// Parses one value into a specification.
    parse_value: fn(&mut Spec, &str) -> Result<(), String>,
    /// Prints the values that a specification has for this flag.
    print_values: fn(&Spec) -> Vec<String>,
}

/// The number of values that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// None: the flag is a switch.
    Switch,
    /// One, and the flag is given once.
    One,
    /// Several, separated by commas or spaces; the flag may be repeated.
    List,
    /// Several, separated by spaces, since a comma is part of the value; the flag may be repeated.
    Repeat,
}

/// Flags under one heading of a help text.
pub struct Section {
    /// The heading.
    pub heading: &'static str,
    /// The flags, in the order in which they are printed.
    pub flags: &'static [Flag],
}

/// All flags of a scenario, in the order in which they are printed.
pub const SECTIONS: &[Section] =
    &[group::SECTION, faults::SECTION, commands::SECTION, network::SECTION, run::SECTION];

/// All flags of a scenario.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    SECTIONS.iter().flat_map(|section| section.flags)
}

/// The flag of this name.
pub fn flag(name: &str) -> Option<&'static Flag> {
    flags().find(|flag| flag.name == name)
}

impl Flag {
    /// An unfinished flag, for the tables.
    const NEW: Flag = Flag {
        name: "",
        value: "",
        arity: Arity::One,
        help: "",
        conflicts: &[],
        requires: None,
        parse_value: |_, _| Ok(()),
        print_values: |_| Vec::new(),
    };

    /// Checks the syntax of one value. The error quotes the value and says what is expected.
    pub fn check(&self, value: &str) -> Result<(), String> {
        (self.parse_value)(&mut Spec::default(), value)
    }

    /// The default value, if it is always the same.
    pub fn default_value(&self) -> Option<String> {
        (self.print_values)(&Spec::default()).into_iter().next().filter(|_| self.arity == Arity::One)
    }
}

/// An error of a flag: its name, and what is wrong with which value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagError {
    /// The name, without its dashes.
    pub flag: String,
    /// The value, what is wrong with it, and what is expected, as the end of a sentence.
    pub reason: String,
}

impl FlagError {
    pub(crate) fn new(flag: &str, reason: impl Into<String>) -> FlagError {
        FlagError { flag: flag.to_string(), reason: reason.into() }
    }
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.flag, self.reason)
    }
}

impl std::error::Error for FlagError {}

/// The typed values of the flags of a scenario, not yet checked against each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// The processes.
    pub group: Group,
    /// The faults.
    pub faults: Faults,
    /// The commands of the application.
    pub commands: Commands,
    /// The network, the clocks, the failure detector and the multicast.
    pub network: NetworkSpec,
    /// The end of the run, and its seed.
    pub run: RunSpec,
}

impl Spec {
    /// Parses one value of a flag; a switch has the empty value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FlagError> {
        let flag = flag(name).ok_or_else(|| FlagError::new(name, "there is no such flag"))?;
        (flag.parse_value)(self, value).map_err(|reason| FlagError::new(name, reason))
    }

    /// Parses the words of a command line: `--crash 80@12 5@20 --seed=7`.
    pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Spec, FlagError> {
        let mut spec = Spec::default();
        let mut given: Vec<&Flag> = Vec::new();
        let mut words = words.iter().map(AsRef::as_ref).peekable();
        while let Some(word) = words.next() {
            let Some(word) = word.strip_prefix("--") else {
                return Err(FlagError::new(word, format!("`{word}` is not a flag; a flag begins with --")));
            };
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let flag = flag(name).ok_or_else(|| FlagError::new(name, "there is no such flag"))?;
            let repeated = given.iter().any(|other| other.name == name);
            if repeated && matches!(flag.arity, Arity::Switch | Arity::One) {
                return Err(FlagError::new(name, "is given twice; give it once"));
            }
            given.push(flag);
            let max_values = match flag.arity {
                Arity::Switch => 0,
                Arity::One => 1,
                Arity::List | Arity::Repeat => usize::MAX,
            };
            let mut values: Vec<&str> = joined.into_iter().collect();
            while values.len() < max_values
                && let Some(value) = words.next_if(|word| !word.starts_with("--"))
            {
                values.push(value);
            }
            spec.set_all(flag, &values)?;
        }
        check_combinations(&given)?;
        Ok(spec)
    }

    fn set_all(&mut self, flag: &Flag, values: &[&str]) -> Result<(), FlagError> {
        match (flag.arity, values) {
            (Arity::Switch, []) => self.set(flag.name, ""),
            (Arity::Switch, _) => Err(FlagError::new(flag.name, "takes no value; remove it")),
            (_, []) => Err(FlagError::new(flag.name, format!("a value is missing; give {}", flag.value))),
            (Arity::List, values) => values
                .iter()
                .flat_map(|value| value.split(','))
                .try_for_each(|value| self.set(flag.name, value)),
            (_, values) => values.iter().try_for_each(|value| self.set(flag.name, value)),
        }
    }

    /// The flags that differ from their defaults, with their values.
    pub fn given(&self) -> Vec<(&'static Flag, Vec<String>)> {
        let defaults = Spec::default();
        let values = |flag: &'static Flag| (flag, (flag.print_values)(self));
        flags().map(values).filter(|(flag, values)| *values != (flag.print_values)(&defaults)).collect()
    }

    /// The scenario, if the flags fit together.
    pub fn scenario(&self) -> Result<Scenario, FlagError> {
        let mut scenario = Scenario::new(self.group.roster()?);
        self.group.apply(&mut scenario, &self.faults)?;
        self.check_times()?;
        self.network.apply(&mut scenario)?;
        self.faults.apply(&mut scenario, &self.group.crashed)?;
        self.commands.apply(&mut scenario)?;
        self.run.apply(&mut scenario);
        Ok(scenario)
    }

    /// The flags that describe a scenario, but for what is only measured about it (`count_bytes` and `window`).
    ///
    /// # Panics
    /// If the members of the group have attributes, acquaintances or an overlay that no flag gives.
    pub fn of(scenario: &Scenario) -> Spec {
        Spec {
            group: Group::of(scenario),
            faults: Faults::of(scenario),
            commands: Commands::of(scenario),
            network: NetworkSpec::of(scenario),
            run: RunSpec::of(scenario),
        }
    }

    /// Refuses faults after `--heal-all-at`, and anything after `--until`.
    fn check_times(&self) -> Result<(), FlagError> {
        let faults = self.faults.times();
        if let Some(healed) = self.faults.heal_all_at.iter().max()
            && let Some((flag, at)) = faults.iter().find(|(flag, at)| at > healed && *flag != "rerank")
        {
            let reason = format!("all faults end at {healed}, but --{flag} begins at {at}; move one of them");
            return Err(FlagError::new("heal-all-at", reason));
        }
        let healed = self.faults.heal_all_at.iter().map(|&at| ("heal-all-at", at));
        let mut times = faults.into_iter().chain(healed).chain(self.commands.times());
        if let Some(until) = self.run.until
            && let Some((flag, at)) = times.find(|(_, at)| *at > until)
        {
            let reason = format!("the run ends at {until}, but --{flag} is at {at}; move one of them");
            return Err(FlagError::new("until", reason));
        }
        Ok(())
    }
}

/// Refuses flags that exclude each other, and flags without the one that they require.
fn check_combinations(given: &[&Flag]) -> Result<(), FlagError> {
    let is_given = |name: &&&str| given.iter().any(|flag| flag.name == **name);
    for flag in given {
        if let Some(other) = flag.conflicts.iter().find(is_given) {
            return Err(FlagError::new(flag.name, format!("cannot be combined with --{other}")));
        }
        if let Some(other) = flag.requires.iter().find(|name| !is_given(name)) {
            return Err(FlagError::new(flag.name, format!("requires --{other}")));
        }
    }
    Ok(())
}

impl FromStr for Spec {
    type Err = FlagError;

    /// Parses the output of `Display`, and other lines with the same words. Of a shell's quotes only single quotes and
    /// backslashes are understood.
    fn from_str(line: &str) -> Result<Spec, FlagError> {
        Spec::parse(&unquoted(line))
    }
}

impl fmt::Display for Spec {
    /// Prints the flags as a shell takes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        let mut write = |name: &str, value: &str| {
            let value = if value.is_empty() { String::new() } else { format!(" {}", quoted(value)) };
            write!(f, "{}--{name}{value}", std::mem::replace(&mut gap, " "))
        };
        for (flag, values) in self.given() {
            match flag.arity {
                Arity::Switch => write(flag.name, "")?,
                Arity::List => write(flag.name, &values.join(","))?,
                Arity::One | Arity::Repeat => {
                    values.iter().try_for_each(|value| write(flag.name, value))?;
                }
            }
        }
        Ok(())
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,=@+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The words of a line, without single quotes and backslashes.
fn unquoted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut in_quotes = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                in_quotes = !in_quotes;
                word.get_or_insert_default();
            }
            '\\' if !in_quotes => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() && !in_quotes => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests;
