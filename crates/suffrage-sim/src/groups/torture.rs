//! Torture of large groups: a seed decides faults and commands; afterwards the group must be one group again.
//!
//! All the time: an observer never goes back to an older record of a member, members with the same list follow the same
//! leader, and memory is bounded. 75 seconds after the end of the faults: every live member has exactly the live members in
//! its list, all follow the same one of them, nobody else claims to lead, no news is under way, and members that left are
//! forgotten.

use std::collections::BTreeMap;
use std::fmt;

use suffrage_core::{Command, NodeId, Rng, Span, Time};
use suffrage_group::{Address, Bug, Group, GroupCommand, Settings};

use super::{agrees, up, world};
use crate::{Cut, Fault, Latency, Plan, World};

/// The end of the faults, in milliseconds.
const STORM_END: u64 = 60_000;
/// The time from the end of the faults to the last checks: the longest time for which a ghost may stay, and some more.
const RECOVERY: Span = Span::from_millis(75_000);
/// The steps in which a world is observed.
const STEP: Span = Span::from_millis(250);
/// The most members.
const MAX_MEMBERS: u64 = 32;

/// A case of torture, which a seed decides.
#[derive(Clone, Debug)]
pub struct GroupStorm {
    /// The seed.
    pub seed: u64,
    /// The number of members.
    pub members: usize,
    /// The number of seeds of the group: the members 1 to this.
    pub seeds: usize,
    /// The delay of messages.
    pub latency: Latency,
    /// The greatest deviation of a clock's rate.
    pub drift: f64,
    /// The faults.
    pub plan: Plan,
    /// The commands, by slot.
    pub commands: Vec<(Time, usize, GroupCommand)>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupViolation {
    /// The promise.
    pub promise: &'static str,
    /// The time.
    pub at: Time,
    /// What was observed.
    pub detail: String,
}

impl fmt::Display for GroupViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} s: {}", self.promise, self.at.as_units() / 1_000.0, self.detail)
    }
}

/// Runs the torture of one seed, and returns the first broken promise.
pub fn torture_group(seed: u64, bug: Option<Bug>) -> Option<GroupViolation> {
    GroupStorm::draw(seed).run(bug)
}

fn moment(rng: &mut Rng) -> Time {
    Time::ZERO + Span::from_millis(rng.below(STORM_END))
}

/// A period within the storm of up to `longest` milliseconds.
fn period(rng: &mut Rng, longest: u64) -> (Time, Time) {
    let from = rng.below(STORM_END);
    let to = (from + 1 + rng.below(longest)).min(STORM_END);
    (Time::ZERO + Span::from_millis(from), Time::ZERO + Span::from_millis(to))
}

impl GroupStorm {
    /// The case of a seed.
    pub fn draw(seed: u64) -> GroupStorm {
        let rng = &mut Rng::new(seed);
        let members = 2 + rng.below(MAX_MEMBERS - 1) as usize;
        let latency = match rng.below(3) {
            0 => Latency::Uniform(Span::from_units(0.2), Span::from_units(2.0)),
            1 => Latency::Exponential(Span::from_millis(1 + rng.below(40))),
            _ => Latency::LogNormal(Span::from_millis(1 + rng.below(60)), 0.8),
        };
        let mut storm = GroupStorm {
            seed,
            members,
            seeds: 1 + rng.below(members.min(3) as u64) as usize,
            latency,
            drift: if rng.chance(0.3) { 0.01 } else { 0.0 },
            plan: Plan::new(),
            commands: Vec::new(),
        };
        storm.draw_crashes(rng);
        storm.draw_network(rng);
        storm.draw_commands(rng);
        storm
    }

    fn slot(&self, rng: &mut Rng) -> usize {
        rng.below(self.members as u64) as usize
    }

    fn draw_crashes(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(self.members as u64 + 2) {
            let slot = self.slot(rng);
            match rng.below(4) {
                0 => {
                    let (from, to) = period(rng, 20_000);
                    self.plan.push((from, Fault::Pause(slot, to)));
                }
                1 => {
                    // A restart so fast that nobody has noticed the crash.
                    let (from, to) = period(rng, 2_000);
                    self.plan
                        .extend([(from, Fault::Crash(slot)), (to, Fault::Recover { slot, disk: false })]);
                }
                _ => {
                    let (from, to) = period(rng, 40_000);
                    self.plan.push((from, Fault::Crash(slot)));
                    if rng.chance(0.7) {
                        self.plan.push((to, Fault::Recover { slot, disk: false }));
                    }
                }
            }
        }
        for _ in 0..rng.below(3) {
            self.plan.push((moment(rng), Fault::CrashLeader));
        }
        // A group whose seeds are all gone cannot be joined again.
        let end = Time::ZERO + Span::from_millis(STORM_END);
        self.plan.extend((0..self.seeds).map(|slot| (end, Fault::Recover { slot, disk: false })));
    }

    fn draw_network(&mut self, rng: &mut Rng) {
        for name in 0..rng.below(4) as usize {
            let (from, to) = period(rng, 50_000);
            let cut = match rng.below(4) {
                0 => Cut::isolating(self.members, self.slot(rng)),
                1 => Cut::hub(self.members, self.slot(rng)),
                one_way => {
                    let share = rng.unit();
                    let (one, other) = (0..self.members).partition(|_| rng.chance(share));
                    Cut::new(self.members, &[one, other], one_way == 2 && rng.chance(0.5))
                }
            };
            self.plan.extend([(from, Fault::Cut(name, cut)), (to, Fault::Heal(name))]);
        }
        if rng.chance(0.6) {
            let (from, to) = period(rng, 60_000);
            let loss = [0.02, 0.05, 0.2, 0.5][rng.below(4) as usize];
            self.plan.extend([(from, Fault::Loss(loss)), (to, Fault::Loss(0.0))]);
        }
        if rng.chance(0.4) {
            self.plan.push((moment(rng), Fault::Duplicate(0.2)));
        }
        if rng.chance(0.4) {
            let late = Fault::Late { probability: 0.05, max_delay: Span::from_millis(1 + rng.below(15_000)) };
            self.plan.push((moment(rng), late));
        }
        if rng.chance(0.3) {
            let (from, to) = period(rng, 20_000);
            self.plan.extend([(from, Fault::Slow(20.0)), (to, Fault::Slow(1.0))]);
        }
        self.plan.push((Time::ZERO + Span::from_millis(STORM_END), Fault::HealAll));
        crate::sort_plan(&mut self.plan);
    }

    fn draw_commands(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(8) {
            let (at, slot) = (moment(rng), self.slot(rng));
            let command = match rng.below(8) {
                0 => GroupCommand::Common(Command::Campaign),
                1 => GroupCommand::Common(Command::Resign),
                2 => GroupCommand::Common(Command::Transfer(NodeId(1 + rng.below(self.members as u64)))),
                3 if slot >= self.seeds => GroupCommand::Leave,
                _ => GroupCommand::Rank(rng.below(100) as i64),
            };
            self.commands.push((at, slot, command));
        }
    }

    fn world(&self, bug: Option<Bug>) -> World<Group> {
        let settings = Settings { bug, ..Settings::new(Address::simulated(NodeId(0)), Vec::new()) };
        let mut world = world(self.members, self.seeds, self.seed, self.latency, &settings);
        world.set_drift(self.drift);
        for (at, fault) in self.plan.iter().cloned() {
            world.schedule_fault(at, fault);
        }
        for &(at, slot, command) in &self.commands {
            world.command(at, slot, command);
        }
        world
    }

    /// Runs the case, and returns the first broken promise.
    pub fn run(&self, bug: Option<Bug>) -> Option<GroupViolation> {
        let mut world = self.world(bug);
        let end = Time::ZERO + Span::from_millis(STORM_END) + RECOVERY;
        let mut observers = vec![Observed::default(); self.members];
        while world.now() < end {
            world.run(world.now() + STEP);
            let at = world.now();
            let violation = |(promise, detail)| GroupViolation { promise, at, detail };
            for (slot, observed) in observers.iter_mut().enumerate() {
                if !world.facts().is_up(slot) {
                    *observed = Observed::default();
                } else if let Some(broken) = observed.check(world.process(slot), slot, self.members) {
                    return Some(violation(broken));
                }
            }
            if let Some(broken) = same_list_same_leader(&world) {
                return Some(violation(broken));
            }
        }
        let broken = self.check_end(&world)?;
        Some(GroupViolation { promise: broken.0, at: world.now(), detail: broken.1 })
    }

    fn check_end(&self, world: &World<Group>) -> Option<(&'static str, String)> {
        let living: Vec<usize> =
            up(world).into_iter().filter(|&slot| !world.process(slot).has_left()).collect();
        if !agrees(world, &living) {
            let state = living.iter().map(|&slot| {
                let group = world.process(slot);
                format!("{}: {} members, leader {:?}", slot + 1, group.members().len(), group.leader())
            });
            let state: Vec<String> = state.collect();
            return Some(("one list and one leader", format!("{} live; {}", living.len(), state.join("; "))));
        }
        for &slot in &living {
            let group = world.process(slot);
            let claims = group.members().iter().filter(|record| record.term > 0).count();
            if claims != 1 {
                return Some(("one claim", format!("{} knows {claims} claims", slot + 1)));
            }
            // News waits for another member if there is none.
            let has_news = group.pending_news() > 0 && living.len() > 1;
            if has_news || group.suspected() > 0 || group.remembered().1 > 0 {
                let remains = (group.pending_news(), group.suspected(), group.remembered().1);
                return Some((
                    "nothing stays behind",
                    format!("{}: news, suspects, left {remains:?}", slot + 1),
                ));
            }
        }
        None
    }
}

/// What an observer knew at the last step.
#[derive(Clone, Debug, Default)]
struct Observed {
    incarnations: BTreeMap<NodeId, u32>,
    /// Restarts are seen by the number of changes, which starts anew.
    changes: u64,
}

impl Observed {
    fn check(&mut self, group: &Group, slot: usize, members: usize) -> Option<(&'static str, String)> {
        let changes = group.counters().changes;
        if changes < self.changes {
            self.incarnations.clear();
        }
        self.changes = changes;
        for id in (1..=members as u64).map(NodeId) {
            let Some(now) = group.incarnation(id) else { continue };
            let before = self.incarnations.insert(id, now).unwrap_or(0);
            if now < before {
                let detail = format!("{} has record {now} of member {id} after {before}", slot + 1);
                return Some(("records never go back", detail));
            }
        }
        let (dead, left) = group.remembered();
        if group.members().len() > members || group.pending_news() > members || dead + left > members {
            return Some(("bounded memory", format!("{}: {dead} dead, {left} left", slot + 1)));
        }
        None
    }
}

fn same_list_same_leader(world: &World<Group>) -> Option<(&'static str, String)> {
    let mut by_list = BTreeMap::new();
    for slot in up(world).into_iter().filter(|&slot| !world.process(slot).has_left()) {
        let group = world.process(slot);
        let digest = group.digest();
        let (other, leader) = *by_list.entry((digest.count, digest.hash)).or_insert((slot, group.leader()));
        if leader != group.leader() {
            let detail =
                format!("{} follows {leader:?}, {} follows {:?}", other + 1, slot + 1, group.leader());
            return Some(("members with one list follow one leader", detail));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_hold_under_torture() {
        for seed in 0..60 {
            assert_eq!(torture_group(seed, None), None, "seed {seed}");
        }
    }

    /// A checker that finds nothing would pass the test above.
    #[test]
    fn every_deliberate_bug_is_found() {
        for (name, bug) in Bug::ALL {
            let found = (0..300).find_map(|seed| torture_group(seed, Some(bug)));
            assert!(found.is_some(), "{name} was not found");
        }
    }
}
