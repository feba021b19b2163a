//! The processes: their ids and ranks, those that call an election, those that are dead from the start.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use suffrage_core::{NodeId, Overlay, Roster};

use super::values::{self, named_twice, set, show, slots};
use super::{Arity, Faults, Flag, FlagError, Section};
use crate::{Contenders, Ranking, Scenario};

/// The greatest number of processes: more are a typing error, or need more memory than most machines have.
const MAX_NODES: usize = 10_000_000;
/// The default number of processes.
const DEFAULT_NODES: usize = 5;

/// The values of the flags of the processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The number of processes; their ids are 1 to that number.
    pub nodes: Option<usize>,
    /// The ids in ring order, if not 1 to the number of processes.
    pub ids: Vec<NodeId>,
    /// The origin of attributes.
    pub rank: Ranking,
    /// The probability with which one process knows another.
    pub view_prob: f64,
    /// The processes that call an election at time zero.
    pub initiator: Option<Initiators>,
    /// The number of others that do, drawn at random.
    pub contenders: Option<Contenders>,
    /// The overlay in which processes find each other.
    pub topology: Links,
    /// The processes that are dead from the start.
    pub crashed: Vec<NodeId>,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            nodes: None,
            ids: Vec::new(),
            rank: Ranking::Id,
            view_prob: 1.0,
            initiator: None,
            contenders: None,
            topology: Links::Complete,
            crashed: Vec::new(),
        }
    }
}

pub(super) const SECTION: Section = Section {
    heading: "Processes",
    flags: &[
        Flag {
            name: "nodes",
            value: "N",
            help: "The number of processes; their ids are 1 to N [default: 5]",
            parse_value: |spec, text| {
                set(&mut spec.group.nodes, values::number(text, "processes", 1, MAX_NODES))
            },
            print_values: |spec| show(&spec.group.nodes),
            ..Flag::NEW
        },
        Flag {
            name: "ids",
            value: "ID,..",
            arity: Arity::List,
            help: "The processes by id, in ring order, like 3,32,5,80,6,12",
            conflicts: &["nodes"],
            parse_value: |spec, text| values::member(text).map(|id| spec.group.ids.push(id)),
            print_values: |spec| show(&spec.group.ids),
            ..Flag::NEW
        },
        Flag {
            name: "rank",
            value: "RANKING",
            help: "The ranking of processes: id, lowest-id, random, quality (fewer crashes first, then id), or the \
                   attributes of some processes, like 5=90,6=1",
            parse_value: |spec, text| set(&mut spec.group.rank, text.parse::<Ranking>()),
            print_values: |spec| show([&spec.group.rank]),
            ..Flag::NEW
        },
        Flag {
            name: "view-prob",
            value: "PROBABILITY",
            help: "The probability that one process knows another; with 1, all know all",
            parse_value: |spec, text| set(&mut spec.group.view_prob, values::probability(text)),
            print_values: |spec| show([&spec.group.view_prob]),
            ..Flag::NEW
        },
        Flag {
            name: "initiator",
            value: "ID,..|all|none",
            help: "The processes that call an election at time 0: ids, all, or none [default: the first live process]",
            parse_value: |spec, text| set(&mut spec.group.initiator, text.parse::<Initiators>()),
            print_values: |spec| show(&spec.group.initiator),
            ..Flag::NEW
        },
        Flag {
            name: "contenders",
            value: "SHARE|N",
            help: "The number of random processes that call an election at time 0: a share like 0.01 or a number \
                   like 500; others call only if --initiator names them",
            parse_value: |spec, text| set(&mut spec.group.contenders, text.parse::<Contenders>()),
            print_values: |spec| show(&spec.group.contenders),
            ..Flag::NEW
        },
        Flag {
            name: "topology",
            value: "TOPOLOGY",
            help: "The overlay, for algorithms that choose peers by random walks: complete, or \
                   power-law:ALPHA, a random network in which degree falls with rank as rank^-ALPHA; the same \
                   in all runs",
            parse_value: |spec, text| set(&mut spec.group.topology, text.parse::<Links>()),
            print_values: |spec| show([&spec.group.topology]),
            ..Flag::NEW
        },
        Flag {
            name: "crashed",
            value: "ID,..",
            arity: Arity::List,
            help: "The processes that are dead from the start",
            parse_value: |spec, text| values::member(text).map(|id| spec.group.crashed.push(id)),
            print_values: |spec| show(&spec.group.crashed),
            ..Flag::NEW
        },
    ],
};

impl Group {
    /// The number of processes.
    pub fn size(&self) -> usize {
        if self.ids.is_empty() { self.nodes.unwrap_or(DEFAULT_NODES) } else { self.ids.len() }
    }

    pub(super) fn roster(&self) -> Result<Roster, FlagError> {
        let roster = match self.ids.is_empty() {
            true => Roster::numbered(self.size()),
            false => Roster::listed(self.ids.clone()).map_err(|twice| named_twice("ids", twice))?,
        };
        Ok(match self.topology {
            Links::Complete => roster,
            Links::PowerLaw(alpha) => {
                let overlay = Overlay::power_law(roster.len(), alpha, 0);
                roster.with_overlay(Arc::new(overlay))
            }
        })
    }

    pub(super) fn apply(&self, scenario: &mut Scenario, faults: &Faults) -> Result<(), FlagError> {
        let roster = &scenario.roster;
        let crashed = slots("crashed", roster, &self.crashed)?;
        if crashed.len() == roster.len() && !faults.recovers() {
            let reason = "all processes are dead from the start; leave one alive or --recover one";
            return Err(FlagError::new("crashed", reason));
        }
        let initiators = self.initiators(roster, &crashed)?;
        if let Ranking::Listed(attributes) = &self.rank {
            let ids: Vec<NodeId> = attributes.iter().map(|(id, _)| *id).collect();
            slots("rank", roster, &ids)?;
        }
        scenario.links = self.topology;
        scenario.ranking = self.rank.clone();
        scenario.view_prob = self.view_prob;
        scenario.crashed = crashed;
        scenario.initiators = initiators;
        scenario.contenders = self.contenders;
        Ok(())
    }

    fn initiators(&self, roster: &Roster, crashed: &[usize]) -> Result<Vec<usize>, FlagError> {
        let dead = dead(roster, crashed);
        let mut live = live(&dead);
        match &self.initiator {
            None if self.contenders.is_some() => Ok(Vec::new()),
            None => Ok(live.next().into_iter().collect()),
            Some(Initiators::All) => Ok(live.collect()),
            Some(Initiators::Nobody) => Ok(Vec::new()),
            Some(Initiators::Listed(ids)) => {
                let slots = slots("initiator", roster, ids)?;
                let Some(&slot) = slots.iter().find(|&&slot| dead[slot]) else { return Ok(slots) };
                let id = roster.id(slot);
                let advice = format!("name a live one or drop --crashed {id}");
                Err(FlagError::new("initiator", format!("process {id} is dead from the start; {advice}")))
            }
        }
    }

    pub(super) fn of(scenario: &Scenario) -> Group {
        let roster = &scenario.roster;
        let dead = dead(roster, &scenario.crashed);
        let ids = |slots: &[usize]| slots.iter().map(|&slot| roster.id(slot)).collect::<Vec<_>>();
        let mut group = Group {
            nodes: Some(roster.len()),
            rank: scenario.ranking.clone(),
            view_prob: scenario.view_prob,
            initiator: match scenario.initiators.as_slice() {
                [] if scenario.contenders.is_some() => None,
                [] => Some(Initiators::Nobody),
                slots if slots.iter().copied().eq(live(&dead)) => Some(Initiators::All),
                slots => Some(Initiators::Listed(ids(slots))),
            },
            contenders: scenario.contenders,
            topology: scenario.links,
            crashed: ids(&scenario.crashed),
            ..Group::default()
        };
        if Ok(roster) != group.roster().as_ref() {
            (group.nodes, group.ids) = (None, roster.iter().collect());
            assert_eq!(Ok(roster), group.roster().as_ref(), "no flag gives this group");
        }
        group
    }
}

/// For each slot, true if its process is dead from the start.
fn dead(roster: &Roster, crashed: &[usize]) -> Vec<bool> {
    let mut dead = vec![false; roster.len()];
    crashed.iter().for_each(|&slot| dead[slot] = true);
    dead
}

/// The slots of the live processes.
fn live(dead: &[bool]) -> impl Iterator<Item = usize> {
    (0..dead.len()).filter(|&slot| !dead[slot])
}

/// The processes that call an election at time zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initiators {
    /// All that are alive.
    All,
    /// None.
    Nobody,
    /// These.
    Listed(Vec<NodeId>),
}

impl FromStr for Initiators {
    type Err = String;

    fn from_str(text: &str) -> Result<Initiators, String> {
        match text {
            "all" => Ok(Initiators::All),
            "none" => Ok(Initiators::Nobody),
            _ => text.split(',').map(values::member).collect::<Result<_, _>>().map(Initiators::Listed),
        }
    }
}

impl fmt::Display for Initiators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Initiators::All => f.write_str("all"),
            Initiators::Nobody => f.write_str("none"),
            Initiators::Listed(ids) => f.write_str(&show(ids).join(",")),
        }
    }
}

/// The overlay in which processes find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Links {
    /// All processes find all others.
    #[default]
    Complete,
    /// A random network in which degree falls with rank, to the power of minus this.
    PowerLaw(f64),
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Links, String> {
        match text.split_once(':') {
            None if text == "complete" => Ok(Links::Complete),
            Some(("power-law", alpha)) => match alpha.parse() {
                Ok(alpha) if (0.0..=2.0).contains(&alpha) => Ok(Links::PowerLaw(alpha)),
                _ => Err(format!("`{alpha}` is not an exponent from 0 to 2")),
            },
            _ => Err(format!("`{text}` is not a topology; use complete or power-law:ALPHA")),
        }
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Links::Complete => f.write_str("complete"),
            Links::PowerLaw(alpha) => write!(f, "power-law:{alpha}"),
        }
    }
}

impl FromStr for Ranking {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranking, String> {
        let pair = |text: &str| {
            let (id, attribute) = text.split_once('=')?;
            Some((id.parse().ok()?, attribute.parse().ok()?))
        };
        match text {
            "id" => Ok(Ranking::Id),
            "lowest-id" => Ok(Ranking::LowestId),
            "random" => Ok(Ranking::Random),
            "quality" => Ok(Ranking::Quality),
            _ => text.split(',').map(pair).collect::<Option<_>>().map(Ranking::Listed).ok_or_else(|| {
                format!(
                    "`{text}` is not a ranking; use id, lowest-id, random, quality, or a list like 5=90,6=1"
                )
            }),
        }
    }
}

impl fmt::Display for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ranking::Id => f.write_str("id"),
            Ranking::LowestId => f.write_str("lowest-id"),
            Ranking::Random => f.write_str("random"),
            Ranking::Quality => f.write_str("quality"),
            Ranking::Listed(attributes) => {
                let pairs: Vec<_> =
                    attributes.iter().map(|(id, attribute)| format!("{id}={attribute}")).collect();
                f.write_str(&pairs.join(","))
            }
        }
    }
}

impl FromStr for Contenders {
    type Err = String;

    fn from_str(text: &str) -> Result<Contenders, String> {
        if let Ok(count) = text.parse() {
            return Ok(Contenders::Count(count));
        }
        match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Contenders::Share(share)),
            _ => Err(format!("`{text}` is neither a share from 0.0 to 1.0 nor a number of processes")),
        }
    }
}

impl fmt::Display for Contenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // With a decimal point, since without one the value is a number of processes.
            Contenders::Share(share) if share.fract() == 0.0 => write!(f, "{share:.1}"),
            Contenders::Share(share) => share.fmt(f),
            Contenders::Count(count) => count.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_counts_are_parsed_as_they_are_printed() {
        for text in ["0.01", "500", "1.0", "1", "0"] {
            assert_eq!(text.parse::<Contenders>().unwrap().to_string(), text);
        }
        for text in ["", "-1", "1.5", "50%", "nan"] {
            assert!(text.parse::<Contenders>().is_err(), "{text}");
        }
    }

    #[test]
    fn rankings_are_parsed_as_they_are_printed() {
        for text in ["id", "lowest-id", "random", "quality", "5=90,6=-1"] {
            assert_eq!(text.parse::<Ranking>().unwrap().to_string(), text);
        }
        for text in ["", "highest", "5", "5=x", "5=1,"] {
            assert!(text.parse::<Ranking>().is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_printed_as_ranges() {
        let say = |list: &[u64]| suffrage_core::compact_ids(list.iter().map(|&id| NodeId(id)));
        assert_eq!(say(&[]), "nobody");
        assert_eq!(say(&[5]), "5");
        assert_eq!(say(&[5, 4]), "4 and 5");
        assert_eq!(say(&[3, 1, 2, 9, 7, 4]), "1-4, 7 and 9");
        let odd: Vec<u64> = (0..40).map(|n| 2 * n + 1).collect();
        assert_eq!(say(&odd), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 30 more");
    }
}
