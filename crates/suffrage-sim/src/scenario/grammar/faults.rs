//! The faults, each at its time: crashes, recoveries, pauses, partitions, loss, clock jumps, changes of rank.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use suffrage_core::{Attribute, NodeId, Roster, Span, Time};

use super::values::{self, Probability, Timed, add, set, show, slot, slots};
use super::{Arity, At, Flag, FlagError, Section, Target};
use crate::{CrashPoint, Cut, Fault, Plan, Scenario, sort_plan};

/// The values of the flags of faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The crashes.
    pub crash: Vec<At<Target>>,
    /// The probability with which each process crashes by itself.
    pub fail: f64,
    /// The latest time of such a crash.
    pub fail_within: Option<Span>,
    /// The recoveries with the disk.
    pub recover: Vec<At<Target>>,
    /// The recoveries without the disk.
    pub recover_wiped: Vec<At<Target>>,
    /// The pauses.
    pub pause: Vec<Pause>,
    /// The jumps of clocks.
    pub jump: Vec<Jump>,
    /// The changes of rank.
    pub rerank: Vec<At<Rerank>>,
    /// The partitions of the network.
    pub partition: Vec<Partition>,
    /// True if all partitions are one-way.
    pub one_way: bool,
    /// The changes of the probability that a message is lost.
    pub loss_from: Vec<At<Probability>>,
    /// The changes of the probability that a message is duplicated.
    pub duplicate_from: Vec<At<Probability>>,
    /// The crashes in the middle of an input.
    pub crash_midway: Vec<At<MidwayCrash>>,
    /// The changes of the probability that a message is late.
    pub late: Vec<At<LateMessages>>,
    /// The changes of the speed of messages.
    pub slow: Vec<At<SlowFactor>>,
    /// The changes of the longest time of a save.
    pub slow_disk: Vec<At<Span>>,
    /// The moments at which cuts, loss, duplication and wrong suspicions end.
    pub heal_all_at: Vec<Time>,
}

pub(super) const SECTION: Section = Section {
    heading: "Faults (repeatable)",
    flags: &[
        Flag {
            name: "crash",
            value: "ID@TIME",
            arity: Arity::List,
            help: "A process crashes, like 80@12; leader@12 is the leader at that time",
            parse_value: |spec, text| add(&mut spec.faults.crash, text),
            print_values: |spec| show(&spec.faults.crash),
            ..Flag::NEW
        },
        Flag {
            name: "fail",
            value: "PROBABILITY",
            help: "The probability that each process crashes by itself, at a random time up to --fail-within",
            parse_value: |spec, text| set(&mut spec.faults.fail, values::probability(text)),
            print_values: |spec| show([&spec.faults.fail]),
            ..Flag::NEW
        },
        Flag {
            name: "fail-within",
            value: "TIME",
            help: "The latest time of crashes by --fail; 0 is before the start [default: ten delay bounds]",
            requires: Some("fail"),
            parse_value: |spec, text| set(&mut spec.faults.fail_within, text.parse::<Span>()),
            print_values: |spec| show(&spec.faults.fail_within),
            ..Flag::NEW
        },
        Flag {
            name: "recover",
            value: "ID@TIME",
            arity: Arity::List,
            help: "A dead process recovers with its disk, like 80@40; leader@40 is the process that --crash leader@TIME hit last",
            parse_value: |spec, text| add(&mut spec.faults.recover, text),
            print_values: |spec| show(&spec.faults.recover),
            ..Flag::NEW
        },
        Flag {
            name: "recover-wiped",
            value: "ID@TIME",
            arity: Arity::List,
            help: "A dead process recovers without its disk, like 80@40",
            parse_value: |spec, text| add(&mut spec.faults.recover_wiped, text),
            print_values: |spec| show(&spec.faults.recover_wiped),
            ..Flag::NEW
        },
        Flag {
            name: "pause",
            value: "ID@FROM..TO",
            arity: Arity::List,
            help: "A process is paused, and keeps its state, like 5@10..20",
            parse_value: |spec, text| add(&mut spec.faults.pause, text),
            print_values: |spec| show(&spec.faults.pause),
            ..Flag::NEW
        },
        Flag {
            name: "jump",
            value: "ID@TIME+SPAN",
            arity: Arity::List,
            help: "A process's clock jumps ahead or back, like 5@10+30 or 5@10-30",
            parse_value: |spec, text| add(&mut spec.faults.jump, text),
            print_values: |spec| show(&spec.faults.jump),
            ..Flag::NEW
        },
        Flag {
            name: "rerank",
            value: "ID=ATTRIBUTE@TIME",
            arity: Arity::List,
            help: "Changes an attribute during the run, like 5=99@30",
            parse_value: |spec, text| add(&mut spec.faults.rerank, text),
            print_values: |spec| show(&spec.faults.rerank),
            ..Flag::NEW
        },
        Flag {
            name: "partition",
            value: "GROUPS@FROM..TO",
            arity: Arity::Repeat,
            help: "The network is cut into groups, like '1,2|3,4,5@10..50'; without ..50 for good; with > for |, \
                   messages of a group do not reach the groups after it, but theirs reach it",
            parse_value: |spec, text| add(&mut spec.faults.partition, text),
            print_values: |spec| show(&spec.faults.partition),
            ..Flag::NEW
        },
        Flag {
            name: "one-way",
            arity: Arity::Switch,
            help: "All partitions are one-way, as if written with >",
            parse_value: |spec, _| set(&mut spec.faults.one_way, Ok(true)),
            print_values: |spec| show(spec.faults.one_way.then_some(&"")),
            ..Flag::NEW
        },
        Flag {
            name: "loss-from",
            value: "PROBABILITY@TIME",
            arity: Arity::List,
            help: "Messages are lost with this probability from then on, like 0.3@50",
            parse_value: |spec, text| add(&mut spec.faults.loss_from, text),
            print_values: |spec| show(&spec.faults.loss_from),
            ..Flag::NEW
        },
        Flag {
            name: "duplicate-from",
            value: "PROBABILITY@TIME",
            arity: Arity::List,
            help: "Messages arrive twice with this probability from then on, like 0.3@50",
            parse_value: |spec, text| add(&mut spec.faults.duplicate_from, text),
            print_values: |spec| show(&spec.faults.duplicate_from),
            ..Flag::NEW
        },
        Flag {
            name: "crash-midway",
            value: "ID:POINT@TIME",
            arity: Arity::List,
            help: "From then on a process crashes in the middle of its effects: before its next save, like \
                   5:before-save@10, after it, like 5:after-save@10, or after a number of effects, like 5:3@10",
            parse_value: |spec, text| add(&mut spec.faults.crash_midway, text),
            print_values: |spec| show(&spec.faults.crash_midway),
            ..Flag::NEW
        },
        Flag {
            name: "late",
            value: "PROBABILITY:SPAN@TIME",
            arity: Arity::List,
            help: "From then on this share of messages has an additional delay of up to SPAN, like 0.01:36@10",
            parse_value: |spec, text| add(&mut spec.faults.late, text),
            print_values: |spec| show(&spec.faults.late),
            ..Flag::NEW
        },
        Flag {
            name: "slow",
            value: "FACTOR@TIME",
            arity: Arity::List,
            help: "From then on the delay of messages is multiplied, like 20@10; the delay bound that processes assume \
                   stays",
            parse_value: |spec, text| add(&mut spec.faults.slow, text),
            print_values: |spec| show(&spec.faults.slow),
            ..Flag::NEW
        },
        Flag {
            name: "slow-disk",
            value: "SPAN@TIME",
            arity: Arity::List,
            help: "From then on a save takes up to SPAN, like 20@10, for processes that do not wait for it; a crash \
                   during the save leaves the new state on the disk or the one before",
            parse_value: |spec, text| add(&mut spec.faults.slow_disk, text),
            print_values: |spec| show(&spec.faults.slow_disk),
            ..Flag::NEW
        },
        Flag {
            name: "heal-all-at",
            value: "TIME",
            arity: Arity::List,
            help: "From then on there is no loss, duplication, additional delay, partition or wrong suspicion",
            parse_value: |spec, text| add(&mut spec.faults.heal_all_at, text),
            print_values: |spec| show(&spec.faults.heal_all_at),
            ..Flag::NEW
        },
    ],
};

impl Faults {
    /// True if any process recovers.
    pub(super) fn recovers(&self) -> bool {
        !self.recover.is_empty() || !self.recover_wiped.is_empty()
    }

    /// The beginning of each fault, with its flag.
    pub(super) fn times(&self) -> Vec<(&'static str, Time)> {
        fn of<T>(flag: &'static str, timed: &[At<T>]) -> impl Iterator<Item = (&'static str, Time)> {
            timed.iter().map(move |timed| (flag, timed.at))
        }
        let mut times: Vec<_> = of("crash", &self.crash).collect();
        times.extend(of("recover", &self.recover));
        times.extend(of("recover-wiped", &self.recover_wiped));
        times.extend(self.pause.iter().map(|pause| ("pause", pause.from)));
        times.extend(self.jump.iter().map(|jump| ("jump", jump.at)));
        times.extend(self.partition.iter().map(|partition| ("partition", partition.from)));
        times.extend(of("loss-from", &self.loss_from));
        times.extend(of("duplicate-from", &self.duplicate_from));
        times.extend(of("rerank", &self.rerank));
        times.extend(of("crash-midway", &self.crash_midway));
        times.extend(of("late", &self.late));
        times.extend(of("slow", &self.slow));
        times.extend(of("slow-disk", &self.slow_disk));
        times
    }

    pub(super) fn apply(&self, scenario: &mut Scenario, crashed: &[NodeId]) -> Result<(), FlagError> {
        self.check_leaders()?;
        self.check_order(crashed)?;
        if self.one_way && self.partition.is_empty() {
            return Err(FlagError::new("one-way", "there is no --partition to be one-way; add one"));
        }
        scenario.plan = self.plan(&scenario.roster)?;
        scenario.fail = self.fail;
        scenario.fail_within = match self.fail {
            0.0 => Span::ZERO,
            _ => self.fail_within.unwrap_or(default_fail_within(scenario)),
        };
        Ok(())
    }

    fn plan(&self, roster: &Roster) -> Result<Plan, FlagError> {
        let mut plan = Plan::new();
        for &At { value, at } in &self.crash {
            let fault = match value {
                Target::Member(id) => Fault::Crash(slot("crash", roster, id)?),
                Target::Leader => Fault::CrashLeader,
            };
            plan.push((at, fault));
        }
        let recoveries = [("recover", &self.recover, true), ("recover-wiped", &self.recover_wiped, false)];
        for (flag, targets, disk) in recoveries {
            for &At { value, at } in targets {
                let fault = match value {
                    Target::Member(id) => Fault::Recover { slot: slot(flag, roster, id)?, disk },
                    Target::Leader => Fault::RecoverLeader { disk },
                };
                plan.push((at, fault));
            }
        }
        for &Jump { id, at, by, back } in &self.jump {
            plan.push((at, Fault::Jump { slot: slot("jump", roster, id)?, by, back }));
        }
        for &Pause { id, from, to } in &self.pause {
            plan.push((from, Fault::Pause(slot("pause", roster, id)?, to)));
        }
        for &At { value: Rerank { id, attribute }, at } in &self.rerank {
            plan.push((at, Fault::Rank(slot("rerank", roster, id)?, attribute)));
        }
        for (name, partition) in self.partition.iter().enumerate() {
            let sides = partition.groups.iter().map(|group| slots("partition", roster, group));
            let one_way = partition.one_way || self.one_way;
            let cut = Cut::new(roster.len(), &sides.collect::<Result<Vec<_>, _>>()?, one_way);
            plan.push((partition.from, Fault::Cut(name, cut)));
            plan.extend(partition.to.map(|to| (to, Fault::Heal(name))));
        }
        plan.extend(self.loss_from.iter().map(|loss| (loss.at, Fault::Loss(loss.value.0))));
        plan.extend(self.duplicate_from.iter().map(|again| (again.at, Fault::Duplicate(again.value.0))));
        for &At { value: MidwayCrash { id, point }, at } in &self.crash_midway {
            plan.push((at, Fault::CrashMidway { slot: slot("crash-midway", roster, id)?, point }));
        }
        let late = |late: &At<LateMessages>| {
            let LateMessages { probability, max_delay } = late.value;
            (late.at, Fault::Late { probability, max_delay })
        };
        plan.extend(self.late.iter().map(late));
        plan.extend(self.slow.iter().map(|slow| (slow.at, Fault::Slow(slow.value.0))));
        plan.extend(self.slow_disk.iter().map(|slow| (slow.at, Fault::SlowDisk(slow.value))));
        plan.extend(self.heal_all_at.iter().map(|&at| (at, Fault::HealAll)));
        sort_plan(&mut plan);
        Ok(plan)
    }

    /// Refuses the crash of a dead process, the recovery of a live one and the pause of a dead one: the id or the time
    /// is wrong.
    fn check_order(&self, crashed: &[NodeId]) -> Result<(), FlagError> {
        let members = |targets: &[At<Target>], change: ProcessChange| {
            let member = move |&At { value, at }: &At<Target>| match value {
                Target::Member(id) => Some((id, at, change)),
                Target::Leader => None,
            };
            targets.iter().filter_map(member).collect::<Vec<_>>()
        };
        let mut changes = members(&self.crash, ProcessChange::Crash);
        changes.extend(members(&self.recover, ProcessChange::Recover("recover")));
        changes.extend(members(&self.recover_wiped, ProcessChange::Recover("recover-wiped")));
        changes.extend(self.pause.iter().map(|pause| (pause.id, pause.from, ProcessChange::Pause)));
        // The run decides whether and when a crash in the middle of an input happens.
        changes.retain(|(id, ..)| self.crash_midway.iter().all(|midway| midway.value.id != *id));
        changes.sort_by_key(|&(_, at, change)| (at, change));
        let mut dead: BTreeMap<NodeId, bool> = crashed.iter().map(|&id| (id, true)).collect();
        for (id, at, change) in changes {
            let dead = dead.entry(id).or_default();
            match (change, *dead) {
                (ProcessChange::Crash, true) => {
                    return Err(FlagError::new(
                        "crash",
                        format!(
                            "process {id} is already dead at {at}; remove this crash or --recover it before"
                        ),
                    ));
                }
                (ProcessChange::Recover(flag), false) => {
                    let advice = format!("crash it before, with --crashed {id} or --crash {id}@TIME");
                    return Err(FlagError::new(flag, format!("process {id} is not dead at {at}; {advice}")));
                }
                (ProcessChange::Pause, true) => {
                    return Err(FlagError::new(
                        "pause",
                        format!("process {id} is dead at {at}; pause a live process"),
                    ));
                }
                (ProcessChange::Crash, false) => *dead = true,
                (ProcessChange::Recover(_), true) => *dead = false,
                (ProcessChange::Pause, false) => {}
            }
        }
        Ok(())
    }

    /// Refuses the recovery of a leader before any leader has crashed. The run decides which process is the leader, so
    /// the crash of a leader says nothing about a process of a known id.
    fn check_leaders(&self) -> Result<(), FlagError> {
        let leader = |target: &&At<Target>| target.value == Target::Leader;
        let first = self.crash.iter().filter(leader).map(|crash| crash.at).min();
        for (flag, recoveries) in [("recover", &self.recover), ("recover-wiped", &self.recover_wiped)] {
            let too_early = |target: &&At<Target>| first.is_none_or(|first| target.at < first);
            if let Some(At { at, .. }) = recoveries.iter().filter(leader).find(too_early) {
                let reason = format!("no leader has crashed before {at}; add --crash leader@TIME");
                return Err(FlagError::new(flag, reason));
            }
        }
        Ok(())
    }

    pub(super) fn of(scenario: &Scenario) -> Faults {
        let id = |slot: usize| scenario.roster.id(slot);
        let member = |slot: usize| Target::Member(id(slot));
        let mut faults = Faults { fail: scenario.fail, ..Faults::default() };
        if scenario.fail > 0.0 && scenario.fail_within != default_fail_within(scenario) {
            faults.fail_within = Some(scenario.fail_within);
        }
        let mut plan = scenario.plan.clone();
        sort_plan(&mut plan);
        for (index, &(at, ref fault)) in plan.iter().enumerate() {
            match fault {
                Fault::Crash(slot) => faults.crash.push(At { value: member(*slot), at }),
                Fault::CrashLeader => faults.crash.push(At { value: Target::Leader, at }),
                Fault::Recover { slot, disk } => {
                    faults.recoveries(*disk).push(At { value: member(*slot), at })
                }
                Fault::RecoverLeader { disk } => {
                    faults.recoveries(*disk).push(At { value: Target::Leader, at })
                }
                Fault::Pause(slot, to) => faults.pause.push(Pause { id: id(*slot), from: at, to: *to }),
                Fault::Jump { slot, by, back } => {
                    faults.jump.push(Jump { id: id(*slot), at, by: *by, back: *back });
                }
                Fault::Rank(slot, attribute) => {
                    faults.rerank.push(At { value: Rerank { id: id(*slot), attribute: *attribute }, at });
                }
                Fault::Cut(name, cut) => {
                    let (sides, one_way) = cut.groups();
                    let groups =
                        sides.iter().map(|side| side.iter().map(|&slot| id(slot)).collect()).collect();
                    let healed = plan[index..].iter().find(|(_, fault)| *fault == Fault::Heal(*name));
                    let to = healed.map(|(to, _)| *to);
                    faults.partition.push(Partition { groups, one_way, from: at, to });
                }
                // Printed with its cut.
                Fault::Heal(_) => {}
                Fault::Loss(loss) => faults.loss_from.push(At { value: Probability(*loss), at }),
                Fault::Duplicate(again) => faults.duplicate_from.push(At { value: Probability(*again), at }),
                Fault::CrashMidway { slot, point } => {
                    faults.crash_midway.push(At { value: MidwayCrash { id: id(*slot), point: *point }, at });
                }
                Fault::Late { probability, max_delay } => {
                    faults.late.push(At {
                        value: LateMessages { probability: *probability, max_delay: *max_delay },
                        at,
                    });
                }
                Fault::Slow(factor) => faults.slow.push(At { value: SlowFactor(*factor), at }),
                Fault::SlowDisk(delay) => faults.slow_disk.push(At { value: *delay, at }),
                Fault::HealAll => faults.heal_all_at.push(at),
            }
        }
        faults
    }

    fn recoveries(&mut self, disk: bool) -> &mut Vec<At<Target>> {
        if disk { &mut self.recover } else { &mut self.recover_wiped }
    }
}

fn default_fail_within(scenario: &Scenario) -> Span {
    scenario.delay_bound.unwrap_or(scenario.latency.bound()) * 10
}

/// A change of one process. At equal times a process crashes before it recovers, and recovers before it pauses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ProcessChange {
    Crash,
    /// By the flag of this name.
    Recover(&'static str),
    Pause,
}

/// A pause: `5@10..20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The process.
    pub id: NodeId,
    /// The beginning.
    pub from: Time,
    /// The end.
    pub to: Time,
}

impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Pause, String> {
        let form = || format!("`{text}` does not have the form 5@10..20");
        let (id, when) = text.split_once('@').ok_or_else(form)?;
        let (from, to) = when.split_once("..").ok_or_else(form)?;
        let (from, to) = values::times(text, from, to)?;
        Ok(Pause { id: id.parse()?, from, to })
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}..{}", self.id, self.from, self.to)
    }
}

/// A jump of a clock: `5@10+30` or `5@10-30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The process.
    pub id: NodeId,
    /// The moment.
    pub at: Time,
    /// The distance.
    pub by: Span,
    /// True if the clock jumps backwards.
    pub back: bool,
}

impl FromStr for Jump {
    type Err = String;

    fn from_str(text: &str) -> Result<Jump, String> {
        let form = || format!("`{text}` does not have the form 5@10+30 or 5@10-30");
        let sign = text.find(['+', '-']).ok_or_else(form)?;
        let At { value: id, at } = text[..sign].parse()?;
        Ok(Jump { id, at, by: text[sign + 1..].parse()?, back: text[sign..].starts_with('-') })
    }
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.back { '-' } else { '+' };
        write!(f, "{}@{}{sign}{}", self.id, self.at, self.by)
    }
}

/// A new attribute of a process: `5=99`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rerank {
    /// The process.
    pub id: NodeId,
    /// The attribute.
    pub attribute: Attribute,
}

impl Timed for Rerank {
    const EXAMPLE: &'static str = "5=99";
}

impl FromStr for Rerank {
    type Err = String;

    fn from_str(text: &str) -> Result<Rerank, String> {
        let form = || format!("`{text}` does not have the form 5=99");
        let (id, attribute) = text.split_once('=').ok_or_else(form)?;
        Ok(Rerank { id: id.parse()?, attribute: attribute.parse().map_err(|_| form())? })
    }
}

impl fmt::Display for Rerank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.id, self.attribute)
    }
}

/// A crash in the middle of an input: `5:before-save`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MidwayCrash {
    /// The process.
    pub id: NodeId,
    /// The point at which it dies.
    pub point: CrashPoint,
}

impl Timed for MidwayCrash {
    const EXAMPLE: &'static str = "5:before-save";
}

impl FromStr for MidwayCrash {
    type Err = String;

    fn from_str(text: &str) -> Result<MidwayCrash, String> {
        let form = || format!("`{text}` does not have the form 5:before-save, 5:after-save or 5:3");
        let (id, point) = text.split_once(':').ok_or_else(form)?;
        Ok(MidwayCrash { id: id.parse()?, point: point.parse()? })
    }
}

impl fmt::Display for MidwayCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.point)
    }
}

/// The probability that a message is late, and the longest additional delay: `0.01:36`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateMessages {
    /// The probability.
    pub probability: f64,
    /// The longest additional delay.
    pub max_delay: Span,
}

impl Timed for LateMessages {
    const EXAMPLE: &'static str = "0.01:36";
}

impl FromStr for LateMessages {
    type Err = String;

    fn from_str(text: &str) -> Result<LateMessages, String> {
        let form = || format!("`{text}` does not have the form 0.01:36");
        let (probability, max_delay) = text.split_once(':').ok_or_else(form)?;
        Ok(LateMessages { probability: values::probability(probability)?, max_delay: max_delay.parse()? })
    }
}

impl fmt::Display for LateMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.probability, self.max_delay)
    }
}

/// A factor by which messages are slower: `20`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowFactor(pub f64);

impl Timed for SlowFactor {
    const EXAMPLE: &'static str = "20";
}

impl FromStr for SlowFactor {
    type Err = String;

    fn from_str(text: &str) -> Result<SlowFactor, String> {
        match text.parse() {
            Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(SlowFactor(factor)),
            _ => Err(format!("`{text}` is not a factor from 0.001 to 1000")),
        }
    }
}

impl fmt::Display for SlowFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of the network: `1,2|3,4,5@10..50`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The groups that are separated.
    pub groups: Vec<Vec<NodeId>>,
    /// True if messages of a group do not reach the groups after it, but theirs reach the group.
    pub one_way: bool,
    /// The beginning.
    pub from: Time,
    /// The end, unless the partition stays.
    pub to: Option<Time>,
}

impl FromStr for Partition {
    type Err = String;

    /// With `>` for `|`, the partition is one way. Without `..50` it stays; without `@10` it begins at 0.
    fn from_str(text: &str) -> Result<Partition, String> {
        let (groups, when) = text.split_once('@').unwrap_or((text, "0"));
        let (from, to) = match when.split_once("..") {
            Some((from, to)) => values::times(text, from, to).map(|(from, to)| (from, Some(to)))?,
            None => (when.parse()?, None),
        };
        let group = |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<NodeId>, _>>();
        let one_way = groups.contains('>');
        let groups: Vec<_> =
            groups.split(if one_way { '>' } else { '|' }).map(group).collect::<Result<_, _>>()?;
        if groups.len() < 2 {
            return Err(format!("`{text}` does not have the form 1,2|3,4,5@10..50: name two groups or more"));
        }
        let mut named: Vec<NodeId> = groups.concat();
        named.sort_unstable();
        match named.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("process {} is in two groups; name it once", pair[0])),
            None => Ok(Partition { groups, one_way, from, to }),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(|group| show(group).join(",")).collect();
        f.write_str(&groups.join(if self.one_way { ">" } else { "|" }))?;
        match (self.from, self.to) {
            (Time::ZERO, None) => Ok(()),
            (from, None) => write!(f, "@{from}"),
            (from, Some(to)) => write!(f, "@{from}..{to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(units: u64) -> Time {
        units.to_string().parse().unwrap()
    }

    fn at<T>(value: T, units: u64) -> At<T> {
        At { value, at: time(units) }
    }

    #[test]
    fn faults_are_parsed() {
        assert_eq!("80@12".parse(), Ok(at(NodeId(80), 12)));
        assert_eq!("80@12".parse(), Ok(at(Target::Member(NodeId(80)), 12)));
        assert_eq!("leader@12".parse(), Ok(at(Target::Leader, 12)));
        assert_eq!("5@10..20".parse(), Ok(Pause { id: NodeId(5), from: time(10), to: time(20) }));
        let Partition { groups, from, to, one_way } = "1,2|3@10..50".parse().unwrap();
        assert_eq!(groups, [vec![NodeId(1), NodeId(2)], vec![NodeId(3)]]);
        assert_eq!((from, to, one_way), (time(10), Some(time(50)), false));
        assert!("1,2>3".parse::<Partition>().unwrap().one_way);
        assert_eq!("1|2@7".parse::<Partition>().unwrap().to, None);
        assert_eq!("1|2".parse::<Partition>().unwrap().from, Time::ZERO);
        let jump = |by, back| Ok(Jump { id: NodeId(5), at: time(10), by, back });
        assert_eq!("5@10+30".parse(), jump(Span::from_millis(30), false));
        assert_eq!("5@10-3".parse(), jump(Span::from_millis(3), true));
        assert_eq!("5@10+1e-3".parse(), jump(Span::from_units(0.001), false));
        assert_eq!("5=-9@3".parse(), Ok(at(Rerank { id: NodeId(5), attribute: -9 }, 3)));
        assert_eq!("0.25@3".parse(), Ok(at(Probability(0.25), 3)));
    }

    #[test]
    fn faults_are_printed_as_they_are_parsed() {
        fn check<T: FromStr<Err = String> + fmt::Display>(texts: &[&str]) {
            for text in texts {
                assert_eq!(text.parse::<T>().unwrap().to_string(), *text);
            }
        }
        check::<At<Target>>(&["80@12", "leader@0.5"]);
        check::<Pause>(&["5@10..20"]);
        check::<Jump>(&["5@10+30", "5@10-0.5"]);
        check::<At<Rerank>>(&["5=-9@3"]);
        check::<At<MidwayCrash>>(&["5:before-save@10", "5:after-save@10", "5:3@10"]);
        check::<At<LateMessages>>(&["0.25:36@10"]);
        check::<At<SlowFactor>>(&["2.5@10"]);
        check::<At<Span>>(&["20@10"]);
        check::<Partition>(&["1,2|3@10..50", "1|2|3", "1>2,3@7", "1|2@0..3"]);
        assert_eq!("1|2@0".parse::<Partition>().unwrap().to_string(), "1|2");
    }

    #[test]
    fn invalid_values_are_refused() {
        for text in ["80", "80@", "@3", "x@3", "80@-1"] {
            assert!(text.parse::<At<NodeId>>().is_err() && text.parse::<At<Target>>().is_err(), "{text}");
        }
        assert!("leader@".parse::<At<Target>>().is_err() && "leader".parse::<At<Target>>().is_err());
        for text in ["5@10", "5@20..10", "5@10..10", "5@a..b"] {
            assert!(text.parse::<Pause>().is_err(), "{text}");
        }
        for text in ["1,2@3..4", "1|1", "1|x", "1|2@4..3", "1||2"] {
            assert!(text.parse::<Partition>().is_err(), "{text}");
        }
        for text in ["5@10", "5+3", "5@10+", "x@10+3"] {
            assert!(text.parse::<Jump>().is_err(), "{text}");
        }
        for text in ["5=9", "5@3", "5=x@3"] {
            assert!(text.parse::<At<Rerank>>().is_err(), "{text}");
        }
        for text in ["5@10", "5:save@10", "5:-1@10", ":3@10", "5:3"] {
            assert!(text.parse::<At<MidwayCrash>>().is_err(), "{text}");
        }
        for text in ["0.1@10", "2:3@10", "0.1:3", "0.1:x@10", "NaN:1@10"] {
            assert!(text.parse::<At<LateMessages>>().is_err(), "{text}");
        }
        for text in ["20", "0@10", "x@10", "NaN@10"] {
            assert!(text.parse::<At<SlowFactor>>().is_err(), "{text}");
        }
        let refusal = |text: &str| text.parse::<Pause>().unwrap_err();
        assert_eq!(refusal("5@10..5"), "`5@10..5` ends before it begins; swap the two times");
        assert_eq!(refusal("5@10..10"), "`5@10..10` ends when it begins; the end must be later");
        assert_eq!(refusal("5@10..1e30"), "1e30".parse::<Time>().unwrap_err());
        assert_eq!(
            "1|2@5..2".parse::<Partition>().unwrap_err(),
            "`1|2@5..2` ends before it begins; swap the two times"
        );
    }
}
