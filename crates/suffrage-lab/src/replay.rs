//! The command that makes a run happen again.

use std::fmt::Display;

use clap::{Arg, ArgAction, ArgMatches, parser::ValueSource};
use suffrage_core::{Command, Time};
use suffrage_sim::{Fault, Multicast, Scenario};

/// Flags that say how a run is shown, not what happens in it; and the seed, which is put at the end.
const LEFT_OUT: &[&str] = &["seed", "runs", "jobs", "json", "diagram", "trace", "strict", "help"];

/// The command line of the run with this seed.
pub(crate) fn command_line(command: &clap::Command, matches: &ArgMatches, seed: u64) -> String {
    let mut line = format!("suffrage-lab simulate {}", command.get_name());
    for argument in command.get_arguments() {
        let given = matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
        if given && !LEFT_OUT.contains(&argument.get_id().as_str()) {
            line += &flag(argument, matches);
        }
    }
    format!("{line} --seed {seed}")
}

fn flag(argument: &Arg, matches: &ArgMatches) -> String {
    let name = argument.get_long().unwrap_or_default();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return format!(" --{name}");
    }
    let values = matches.get_raw(argument.get_id().as_str()).into_iter().flatten();
    let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    match argument.get_value_delimiter() {
        Some(delimiter) => format!(" --{name} {}", quoted(&values.join(&delimiter.to_string()))),
        None => values.iter().map(|value| format!(" --{name} {}", quoted(value))).collect(),
    }
}

/// The command line of a run that was described by no command line but by a scenario.
pub(crate) fn of_scenario(algorithm: &str, settings: &[(&str, String)], scenario: &Scenario) -> String {
    let mut flags = Flags::default();
    for (name, value) in settings {
        flags.add(name, value);
    }
    let id = |slot: usize| scenario.roster.id(slot);
    scenario.roster.iter().for_each(|id| flags.add("ids", id));
    flags.add("rank", &scenario.ranking);
    if scenario.view_prob < 1.0 {
        flags.add("view-prob", scenario.view_prob);
    }
    scenario.contenders.iter().for_each(|contenders| flags.add("contenders", contenders));
    match scenario.initiators.len() {
        0 if scenario.contenders.is_some() => {}
        0 => flags.add("initiator", "none"),
        count if count + scenario.crashed.len() == scenario.roster.len() => flags.add("initiator", "all"),
        _ => scenario.initiators.iter().for_each(|&slot| flags.add("initiator", id(slot))),
    }
    scenario.crashed.iter().for_each(|&slot| flags.add("crashed", id(slot)));
    if scenario.fail > 0.0 {
        flags.add("fail", scenario.fail);
        flags.add("fail-within", scenario.fail_within);
    }
    for (at, fault) in &scenario.plan {
        flags.add_fault(scenario, *at, fault);
    }
    for (at, slot, command) in &scenario.commands {
        match command {
            Command::Campaign => flags.add("campaign", format_args!("{}@{at}", id(*slot))),
            Command::Resign => flags.add("resign", format_args!("{}@{at}", id(*slot))),
            Command::Transfer(to) => flags.add("transfer", format_args!("{}>{to}@{at}", id(*slot))),
        }
    }
    flags.add("latency", scenario.latency);
    scenario.delay_bound.iter().for_each(|bound| flags.add("delay-bound", bound));
    for (flag, value) in
        [("loss", scenario.loss), ("duplicate", scenario.duplicate), ("drift", scenario.drift)]
    {
        if value > 0.0 {
            flags.add(flag, value);
        }
    }
    scenario.multicast_loss.iter().for_each(|loss| flags.add("mcast-loss", loss));
    flags.add("detector", scenario.detector);
    if scenario.multicast != Multicast::Broadcast {
        flags.add("multicast", scenario.multicast);
    }
    scenario.until.iter().for_each(|until| flags.add("until", until));
    scenario.limit.iter().for_each(|limit| flags.add("limit", limit));
    scenario.stable.iter().for_each(|settling| flags.add("stable", settling));
    flags.add("seed", scenario.seed);
    format!("suffrage-lab simulate {algorithm}{}", flags.line())
}

/// Flags with their values, in the order in which they were first given.
#[derive(Default)]
struct Flags(Vec<(String, Vec<String>)>);

impl Flags {
    fn add(&mut self, flag: &str, value: impl Display) {
        let value = value.to_string();
        match self.0.iter_mut().find(|(name, _)| name == flag) {
            Some((_, values)) => values.push(value),
            None => self.0.push((flag.to_string(), vec![value])),
        }
    }

    fn add_fault(&mut self, scenario: &Scenario, at: Time, fault: &Fault) {
        let id = |slot: usize| scenario.roster.id(slot);
        match fault {
            Fault::Crash(slot) => self.add("crash", format_args!("{}@{at}", id(*slot))),
            Fault::CrashLeader => self.add("crash", format_args!("leader@{at}")),
            Fault::RecoverLeader { .. } => self.add("recover", format_args!("leader@{at}")),
            Fault::Recover { slot, disk } => {
                let flag = if *disk { "recover" } else { "recover-wiped" };
                self.add(flag, format_args!("{}@{at}", id(*slot)));
            }
            Fault::Pause(slot, until) => self.add("pause", format_args!("{}@{at}..{until}", id(*slot))),
            Fault::Jump { slot, by, back } => {
                let sign = if *back { '-' } else { '+' };
                self.add("jump", format_args!("{}@{at}{sign}{by}", id(*slot)));
            }
            Fault::Rank(slot, attribute) => {
                self.add("rerank", format_args!("{}={attribute}@{at}", id(*slot)))
            }
            Fault::Cut(name, cut) => {
                let (groups, one_way) = cut.groups();
                let ids = |group: &Vec<usize>| -> String {
                    group.iter().map(|&slot| id(slot).to_string()).collect::<Vec<_>>().join(",")
                };
                let groups: Vec<String> = groups.iter().map(ids).collect();
                let healed = scenario.plan.iter().find(|(_, fault)| *fault == Fault::Heal(*name));
                let until = healed.map_or(String::new(), |(to, _)| format!("..{to}"));
                let groups = groups.join(if one_way { ">" } else { "|" });
                self.add("partition", format_args!("{groups}@{at}{until}"));
            }
            // With its cut.
            Fault::Heal(_) => {}
            Fault::HealAll => self.add("heal-all-at", at),
            Fault::CrashMidway { .. } | Fault::Late { .. } | Fault::Slow(_) => {}
            // A run begins with these, and they end with calm.
            Fault::Loss(_) | Fault::Duplicate(_) => unreachable!("no flag changes {fault:?} during a run"),
        }
    }

    fn line(&self) -> String {
        let flag = |(name, values): &(String, Vec<String>)| match name.as_str() {
            "partition" => values.iter().map(|value| format!(" --{name} {}", quoted(value))).collect(),
            _ => format!(" --{name} {}", quoted(&values.join(","))),
        };
        self.0.iter().map(flag).collect()
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,=@+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Common;
    use crate::{scenario, simulate};
    use clap::FromArgMatches as _;
    use suffrage_algorithms::catalog::{self, CONTRACTS};
    use suffrage_core::Algorithm;
    use suffrage_core::Visitor;
    use suffrage_sim::{TortureTarget, order};

    #[test]
    fn what_decides_the_run_is_kept_and_the_rest_is_not() {
        let command = simulate::command();
        let bully = command.find_subcommand("bully").unwrap();
        let line = "bully --runs 9 --crash 1@2 3@4 --crash 4@5 --partition 1|2,3@4 --one-way --json \
                    --reaffirm 20 --seed 3";
        let matches = bully.clone().try_get_matches_from(line.split_whitespace()).unwrap();
        assert_eq!(
            command_line(bully, &matches, 7),
            "suffrage-lab simulate bully --reaffirm 20 --crash 1@2,3@4,4@5 --partition '1|2,3@4' --one-way --seed 7"
        );
    }

    struct Retell;

    impl Visitor for Retell {
        type Output = ();

        fn visit<A: Algorithm>(self) {
            for seed in 0..200 {
                let case = TortureTarget::<A>::default().case(seed);
                let line = of_scenario(A::CONTRACT.name, &case.settings, &case.scenario);
                let words: Vec<String> = line.split(' ').map(|word| word.replace('\'', "")).collect();
                let matches = simulate::command().try_get_matches_from(&words[1..]);
                let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                let matches = matches.subcommand().unwrap().1;
                let common = Common::from_arg_matches(matches).unwrap();
                let (mut built, _) =
                    scenario::build(&common).unwrap_or_else(|error| panic!("{line}: {error:?}"));
                order(&mut built.plan);
                built.commands.sort();
                let mut expected = case.scenario.clone();
                expected.commands.sort();
                assert_eq!(format!("{built:#?}"), format!("{expected:#?}"), "{line}");
                let options = crate::options::read::<A>(matches).unwrap();
                assert_eq!(format!("{options:?}"), format!("{:?}", case.options), "{line}");
            }
        }
    }

    /// Every case can be told as flags, and the flags describe that case.
    #[test]
    fn a_scenario_and_its_command_line_are_the_same() {
        for contract in CONTRACTS {
            catalog::visit(contract.name, Retell).unwrap();
        }
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("1,2@3"), "1,2@3");
        assert_eq!(quoted("1|2"), "'1|2'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a'b"), "'a'\\''b'");
    }
}
