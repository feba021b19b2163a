//! Large groups in the simulator: measurements (`measure.rs`) and torture (`torture.rs`) of [`Group`].

mod measure;
mod torture;

pub use measure::{
    ChurnResult, DeathResult, FormationResult, GroupTrial, IdleResult, LeaderResult, MassResult,
    PartitionResult,
};
pub use torture::{GroupStorm, GroupViolation, torture_group};

use suffrage_core::{NodeId, Roster, Time};
use suffrage_group::{Address, Group, Settings};

use crate::{Latency, World};

/// A world of a group whose members all start at once, with the first as their seed.
fn world(members: usize, seeds: usize, seed: u64, latency: Latency, settings: &Settings) -> World<Group> {
    let settings = Settings { seeds: (1..=seeds as u64).map(NodeId).collect(), ..settings.clone() };
    World::new(Roster::numbered(members), seed, latency, move |id| {
        // Ids order candidates; ranks are equal.
        Group::new(id, Settings { address: Address::simulated(id), ..settings.clone() })
    })
}

/// The live members.
fn up(world: &World<Group>) -> Vec<usize> {
    world.facts().up().collect()
}

/// The share of these members that satisfies a condition.
fn share(world: &World<Group>, slots: &[usize], condition: impl Fn(&Group) -> bool) -> f64 {
    let count = slots.iter().filter(|&&slot| condition(world.process(slot))).count();
    count as f64 / slots.len().max(1) as f64
}

/// The leader in which most of these members believe, and their share.
fn common_leader(world: &World<Group>, slots: &[usize]) -> Option<(NodeId, f64)> {
    let mut leaders: Vec<NodeId> =
        slots.iter().filter_map(|&slot| world.process(slot).leader()).map(|(id, _)| id).collect();
    leaders.sort_unstable();
    let runs = leaders.chunk_by(|one, other| one == other).max_by_key(|run| run.len())?;
    Some((runs[0], runs.len() as f64 / slots.len() as f64))
}

/// True if these members are exactly in each other's lists and follow one leader among them.
fn agrees(world: &World<Group>, slots: &[usize]) -> bool {
    let Some(&first) = slots.first() else { return true };
    let (digest, leader) = (world.process(first).digest(), world.process(first).leader());
    let is_right = digest.count as usize == slots.len()
        && world
            .process(first)
            .members()
            .iter()
            .map(|record| record.id.0 as usize - 1)
            .eq(slots.iter().copied());
    let leads = leader.is_some_and(|(id, _)| slots.contains(&(id.0 as usize - 1)));
    is_right
        && leads
        && share(world, slots, |group| group.digest() == digest && group.leader() == leader) == 1.0
}

/// Seconds between two times.
fn seconds(from: Time, to: Time) -> f64 {
    to.since(from).as_units() / 1_000.0
}
