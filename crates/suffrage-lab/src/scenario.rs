//! From flags to a scenario, or to a sentence about the flag that does not fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use suffrage_core::{Command, NodeId, Overlay, Roster, Span, Time};
use suffrage_sim::{Cut, Fault, Multicast, Partition, Plan, Ranking, Scenario, Whom, slot_of};

use crate::args::{CommandArgs, Common, FaultArgs, GroupArgs, Initiators, Links, NetworkArgs};
use crate::watch::Cuts;
use suffrage_cli::Error;
use suffrage_cli::text;

/// The scenario that the flags describe, and what to call its cuts.
pub(crate) fn build(common: &Common) -> Result<(Scenario, Cuts), Error> {
    let roster = roster(&common.group)?;
    let crashed = slots("crashed", &roster, &common.group.crashed)?;
    let initiators = initiators(common, &roster, &crashed)?;
    check_ranks(&roster, &common.group)?;
    check_times(common)?;
    check_course(common)?;
    let (plan, cuts) = plan(&roster, common)?;
    let network = &common.network;
    let bound = network.delay_bound.unwrap_or(network.latency.bound());
    let (multicast, multicast_loss) = multicast(network)?;
    if bound.is_zero() {
        let flag = if network.delay_bound.is_some() { "delay-bound" } else { "latency" };
        return Err(Error::flag(flag, "no time at all to answer in; add a --delay-bound above 0"));
    }
    let scenario = Scenario {
        ranking: common.group.rank.clone(),
        view_prob: common.group.view_prob,
        seed: common.runs.seed,
        latency: network.latency,
        loss: network.ucast_loss.unwrap_or(network.loss),
        multicast_loss,
        duplicate: network.duplicate,
        drift: network.drift,
        delay_bound: network.delay_bound,
        detector: network.detector,
        multicast,
        crashed,
        fail: common.faults.fail,
        fail_within: match common.faults.fail {
            0.0 => Span::ZERO,
            _ => common.faults.fail_within.unwrap_or(bound * 10),
        },
        initiators,
        contenders: common.group.contenders,
        plan,
        commands: commands(&roster, &common.commands)?,
        until: common.runs.until,
        limit: common.runs.limit,
        stable: common.runs.stable,
        ..Scenario::new(roster)
    };
    Ok((scenario, cuts))
}

/// How multicasts go, and how many of them are lost if not as many as of other messages.
fn multicast(network: &NetworkArgs) -> Result<(Multicast, Option<f64>), Error> {
    let NetworkArgs { multicast, loss, ucast_loss, mcast_loss, .. } = *network;
    match (multicast, mcast_loss) {
        (Multicast::Ideal(reached), Some(_)) if reached < 1.0 => {
            let reason = "--multicast ideal:PROBABILITY says it already; give one of the two";
            Err(Error::flag("mcast-loss", reason))
        }
        (Multicast::Ideal(_), Some(missed)) => Ok((Multicast::Broadcast, Some(missed))),
        // What is said of messages to one is not said of multicasts.
        (_, None) => Ok((multicast, ucast_loss.map(|_| loss))),
        (_, missed) => Ok((multicast, missed)),
    }
}

fn roster(group: &GroupArgs) -> Result<Roster, Error> {
    let roster = match group.ids.is_empty() {
        true => Roster::numbered(group.nodes),
        false => Roster::listed(group.ids.clone()).map_err(|twice| stands_twice("ids", twice))?,
    };
    Ok(match group.topology {
        Links::Complete => roster,
        Links::PowerLaw(alpha) => {
            let overlay = Overlay::power_law(roster.len(), alpha, 0);
            roster.overlaid(Arc::new(overlay))
        }
    })
}

fn stands_twice(flag: &str, id: NodeId) -> Error {
    Error::flag(flag, format!("process {id} stands twice"))
}

fn slot(flag: &str, roster: &Roster, id: NodeId) -> Result<usize, Error> {
    slot_of(roster, id).map_err(|stranger| {
        Error::flag(flag, format!("{stranger}; the group is {}", text::ids(roster.iter())))
    })
}

/// The slots of these ids, each named once.
fn slots(flag: &str, roster: &Roster, ids: &[NodeId]) -> Result<Vec<usize>, Error> {
    let slots: Vec<usize> = ids.iter().map(|&id| slot(flag, roster, id)).collect::<Result<_, _>>()?;
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(stands_twice(flag, roster.id(pair[0]))),
        None => Ok(slots),
    }
}

fn initiators(common: &Common, roster: &Roster, crashed: &[usize]) -> Result<Vec<usize>, Error> {
    let mut dead = vec![false; roster.len()];
    crashed.iter().for_each(|&slot| dead[slot] = true);
    let mut live = (0..roster.len()).filter(|&slot| !dead[slot]);
    let FaultArgs { recover, recover_wiped, .. } = &common.faults;
    if crashed.len() == roster.len() && recover.is_empty() && recover_wiped.is_empty() {
        let reason = "all processes are dead from the start; leave one alive or --recover one";
        return Err(Error::flag("crashed", reason));
    }
    match &common.group.initiator {
        None if common.group.contenders.is_some() => Ok(Vec::new()),
        None => Ok(live.next().into_iter().collect()),
        Some(Initiators::All) => Ok(live.collect()),
        Some(Initiators::Nobody) => Ok(Vec::new()),
        Some(Initiators::Listed(ids)) => {
            let slots = slots("initiator", roster, ids)?;
            let Some(&slot) = slots.iter().find(|&&slot| dead[slot]) else { return Ok(slots) };
            let id = roster.id(slot);
            let advice = format!("name a live one or drop --crashed {id}");
            Err(Error::flag("initiator", format!("process {id} is dead from the start; {advice}")))
        }
    }
}

fn check_ranks(roster: &Roster, group: &GroupArgs) -> Result<(), Error> {
    if let Ranking::Listed(attributes) = &group.rank {
        let ids: Vec<NodeId> = attributes.iter().map(|(id, _)| *id).collect();
        slots("rank", roster, &ids)?;
    }
    group.rerank.iter().try_for_each(|(id, ..)| slot("rerank", roster, *id).map(drop))
}

/// Refuses what would go wrong after --heal-all-at, and what would happen after --until: it would not, or
/// contradict the flag.
fn check_times(common: &Common) -> Result<(), Error> {
    let FaultArgs { crash, recover, recover_wiped, pause, jump, partition, heal_all_at, .. } = &common.faults;
    let mut times: Vec<(&str, Time)> = crash.iter().map(|&(_, at)| ("crash", at)).collect();
    times.extend(recover.iter().map(|&(_, at)| ("recover", at)));
    times.extend(recover_wiped.iter().map(|&(_, at)| ("recover-wiped", at)));
    times.extend(pause.iter().map(|&(_, from, _)| ("pause", from)));
    times.extend(jump.iter().map(|&(_, at, ..)| ("jump", at)));
    times.extend(partition.iter().map(|partition| ("partition", partition.from)));
    if let Some(heal_all_at) = heal_all_at
        && let Some((flag, at)) = times.iter().find(|(_, at)| at > heal_all_at)
    {
        let reason = format!("nothing goes wrong after {heal_all_at}, but --{flag} comes at {at}");
        return Err(Error::flag("heal-all-at", reason));
    }
    times.extend(common.group.rerank.iter().map(|&(.., at)| ("rerank", at)));
    times.extend(heal_all_at.map(|at| ("heal-all-at", at)));
    times.extend(common.commands.campaign.iter().map(|&(_, at)| ("campaign", at)));
    times.extend(common.commands.resign.iter().map(|&(_, at)| ("resign", at)));
    times.extend(common.commands.transfer.iter().map(|&(.., at)| ("transfer", at)));
    if let Some(until) = &common.runs.until
        && let Some((flag, at)) = times.iter().find(|(_, at)| at > until)
    {
        let reason = format!("the run is over at {until}, but --{flag} comes at {at}");
        return Err(Error::flag("until", reason));
    }
    Ok(())
}

/// What happens to one process, in the order it is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Crash,
    /// By this flag.
    Recover(&'static str),
    Pause,
}

/// Refuses the crash of a dead process, the recovery of a live one and the pause of a dead one:
/// whoever asks for that has mistaken an id or a time.
fn check_course(common: &Common) -> Result<(), Error> {
    let FaultArgs { crash, recover, recover_wiped, pause, .. } = &common.faults;
    check_leaders(crash, recover)?;
    let member = |&(whom, at): &(Whom, Time)| match whom {
        Whom::Member(id) => Some((id, at)),
        Whom::Leader => None,
    };
    let crashes = crash.iter().filter_map(member).map(|(id, at)| (id, at, Turn::Crash));
    let recoveries = recover.iter().filter_map(member).map(|(id, at)| (id, at, Turn::Recover("recover")));
    let wiped = recover_wiped.iter().map(|&(id, at)| (id, at, Turn::Recover("recover-wiped")));
    let pauses = pause.iter().map(|&(id, at, _)| (id, at, Turn::Pause));
    let mut turns: Vec<_> = crashes.chain(recoveries).chain(wiped).chain(pauses).collect();
    turns.sort_by_key(|&(_, at, turn)| (at, turn));
    let mut dead: BTreeMap<NodeId, bool> = common.group.crashed.iter().map(|&id| (id, true)).collect();
    for (id, at, turn) in turns {
        let dead = dead.entry(id).or_default();
        match (turn, *dead) {
            (Turn::Crash, true) => {
                return Err(Error::flag("crash", format!("process {id} is already dead at {at}")));
            }
            (Turn::Recover(flag), false) => {
                let advice = format!("crash it before, with --crashed {id} or --crash {id}@TIME");
                return Err(Error::flag(flag, format!("process {id} is not dead at {at}; {advice}")));
            }
            (Turn::Pause, true) => {
                return Err(Error::flag("pause", format!("process {id} is dead at {at}")));
            }
            (Turn::Crash, false) => *dead = true,
            (Turn::Recover(_), true) => *dead = false,
            (Turn::Pause, false) => {}
        }
    }
    Ok(())
}

/// Refuses the recovery of a leader that did not crash. Who it was is known only when it happens, so the
/// crash of a leader says nothing about anybody in particular.
fn check_leaders(crash: &[(Whom, Time)], recover: &[(Whom, Time)]) -> Result<(), Error> {
    let leader = |&&(whom, _): &&(Whom, Time)| whom == Whom::Leader;
    let first = crash.iter().filter(leader).map(|&(_, at)| at).min();
    match recover.iter().filter(leader).find(|&&(_, at)| first.is_none_or(|first| at < first)) {
        Some((_, at)) => {
            let reason = format!("no leader has crashed before {at}; add --crash leader@TIME");
            Err(Error::flag("recover", reason))
        }
        None => Ok(()),
    }
}

fn plan(roster: &Roster, common: &Common) -> Result<(Plan, Cuts), Error> {
    let faults = &common.faults;
    let mut plan = Plan::new();
    for &(whom, at) in &faults.crash {
        let fault = match whom {
            Whom::Member(id) => Fault::Crash(slot("crash", roster, id)?),
            Whom::Leader => Fault::CrashLeader,
        };
        plan.push((at, fault));
    }
    for &(whom, at) in &faults.recover {
        let fault = match whom {
            Whom::Member(id) => Fault::Recover { slot: slot("recover", roster, id)?, disk: true },
            Whom::Leader => Fault::RecoverLeader { disk: true },
        };
        plan.push((at, fault));
    }
    for &(id, at) in &faults.recover_wiped {
        plan.push((at, Fault::Recover { slot: slot("recover-wiped", roster, id)?, disk: false }));
    }
    for &(id, at, by, back) in &faults.jump {
        plan.push((at, Fault::Jump { slot: slot("jump", roster, id)?, by, back }));
    }
    for &(id, from, to) in &faults.pause {
        plan.push((from, Fault::Pause(slot("pause", roster, id)?, to)));
    }
    for &(id, attribute, at) in &common.group.rerank {
        plan.push((at, Fault::Rank(slot("rerank", roster, id)?, attribute)));
    }
    if faults.one_way && faults.partition.is_empty() {
        return Err(Error::flag("one-way", "there is no --partition that could be one way"));
    }
    let mut cuts = Vec::new();
    for (name, Partition { groups, one_way, from, to }) in faults.partition.iter().enumerate() {
        let one_way = *one_way || faults.one_way;
        let sides = groups.iter().map(|group| slots("partition", roster, group));
        let cut = Cut::new(roster.len(), &sides.collect::<Result<Vec<_>, _>>()?, one_way);
        plan.push((*from, Fault::Cut(name, cut)));
        if let Some(to) = to {
            plan.push((*to, Fault::Heal(name)));
        }
        cuts.push((describe(groups, one_way), *from, *to));
    }
    plan.extend(faults.heal_all_at.map(|at| (at, Fault::HealAll)));
    Ok((plan, Cuts::new(cuts)))
}

fn commands(roster: &Roster, asked: &CommandArgs) -> Result<Vec<(Time, usize, Command)>, Error> {
    let mut commands = Vec::new();
    for &(id, at) in &asked.campaign {
        commands.push((at, slot("campaign", roster, id)?, Command::Campaign));
    }
    for &(id, at) in &asked.resign {
        commands.push((at, slot("resign", roster, id)?, Command::Resign));
    }
    for &(id, to, at) in &asked.transfer {
        slot("transfer", roster, to)?;
        commands.push((at, slot("transfer", roster, id)?, Command::Transfer(to)));
    }
    Ok(commands)
}

fn describe(groups: &[Vec<NodeId>], one_way: bool) -> String {
    let groups: Vec<String> = groups.iter().map(|group| text::ids(group.iter().copied())).collect();
    groups.join(if one_way { ", unheard by " } else { " | " })
}
