//! Measures a large group: formation, idle cost, detection, partitions, churn.

use serde::Serialize;
use suffrage_core::{Hash, NodeId, Rng, Span, Time};
use suffrage_group::{Address, Group, Settings};

use super::{agrees, common_leader, seconds, share, up, world};
use crate::{Cut, Fault, Latency, World};

/// The steps in which a world is observed.
const STEP: Span = Span::from_millis(100);
/// The longest observation of one event.
const LIMIT: Span = Span::from_millis(120_000);

/// A group to measure. All members start at once from one seed.
#[derive(Clone, Debug)]
pub struct GroupTrial {
    /// The number of members.
    pub members: usize,
    /// The settings of the members; seeds and addresses are the world's.
    pub settings: Settings,
    /// The delay of messages.
    pub latency: Latency,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The bytes that the seal of the wire adds to each message.
    pub seal: usize,
    /// The seed of every random decision.
    pub seed: u64,
}

/// The formation of a group. Times are in seconds, `None` if the event did not happen within two minutes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FormationResult {
    /// Until half of the members have the whole list.
    pub half: Option<f64>,
    /// Until 99% have it.
    pub most: Option<f64>,
    /// Until all have it.
    pub all: Option<f64>,
    /// Until all follow one leader.
    pub leader: Option<f64>,
    /// Bytes that a member sent until then, on average.
    pub bytes: f64,
}

/// The cost of a group in which nothing happens, and its mistakes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct IdleResult {
    /// Bytes that a member sends in a second, on average.
    pub bytes_per_second: f64,
    /// Datagrams that a member sends in a second, on average.
    pub packets_per_second: f64,
    /// Suspicions in a second, at all members together.
    pub suspicions_per_second: f64,
    /// Members that were declared dead although they lived, at all members together.
    pub false_deaths: u64,
    /// The length of the observation in seconds.
    pub seconds: f64,
}

/// The death of an ordinary member.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeathResult {
    /// Until half of the members know.
    pub half: Option<f64>,
    /// Until 99% know.
    pub most: Option<f64>,
}

/// The death of the leader.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LeaderResult {
    /// Until 99% follow the same next leader.
    pub agreed: Option<f64>,
}

/// A partition into halves.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PartitionResult {
    /// From the end of the partition until all have one list and one leader.
    pub one_group: Option<f64>,
}

/// The death of a tenth of the members, with the leader.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MassResult {
    /// Until 99% of the living follow one living leader.
    pub leader: Option<f64>,
    /// Until all of the living have only each other in their lists.
    pub list: Option<f64>,
}

/// Churn: one member in a hundred dies in each second, and comes back after a while.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChurnResult {
    /// The greatest relative error of a member's count of the living members, observed every second after the first 20,
    /// among members that have been up for 20 seconds.
    pub worst_error: f64,
    /// The mean share of those members that follow the most common leader.
    pub leader_share: f64,
    /// After the end of the churn, until all have one list and one leader.
    pub settled: Option<f64>,
}

impl GroupTrial {
    /// A group in one data centre: delays of 0.2 to 2 ms, no loss.
    pub fn new(members: usize, seed: u64) -> GroupTrial {
        GroupTrial {
            members,
            settings: Settings::new(Address::simulated(NodeId(0)), Vec::new()),
            latency: Latency::Uniform(Span::from_units(0.2), Span::from_units(2.0)),
            loss: 0.0,
            seal: 0,
            seed,
        }
    }

    fn world(&self) -> World<Group> {
        let mut world = world(self.members, 1, self.seed, self.latency, &self.settings);
        world.set_loss(self.loss);
        world.count_bytes();
        world
    }

    fn bytes(&self, world: &World<Group>) -> f64 {
        let traffic = world.ledger().traffic();
        (traffic.bytes + traffic.messages * self.seal as u64) as f64
    }

    /// Runs until a condition holds, and returns the seconds until then.
    fn until(world: &mut World<Group>, mut condition: impl FnMut(&World<Group>) -> bool) -> Option<f64> {
        let from = world.now();
        while world.now() < from + LIMIT {
            world.run(world.now() + STEP);
            if condition(world) {
                return Some(seconds(from, world.now()));
            }
        }
        None
    }

    /// A world whose group has formed and settled.
    fn formed(&self) -> World<Group> {
        let mut world = self.world();
        let all: Vec<usize> = (0..self.members).collect();
        GroupTrial::until(&mut world, |world| agrees(world, &all));
        let rest = Span::from_millis(5_000 + Rng::new(Hash::new(self.seed).word(1)).below(1_000));
        world.run(world.now() + rest);
        world
    }

    /// Measures the formation.
    pub fn formation(&self) -> FormationResult {
        let mut world = self.world();
        let all: Vec<usize> = (0..self.members).collect();
        let (mut half, mut most, mut whole) = (None, None, None);
        let leader = GroupTrial::until(&mut world, |world| {
            let at = seconds(Time::ZERO, world.now());
            let share = share(world, &all, |group| group.members().len() == all.len());
            for (reached, wanted) in [(&mut half, 0.5), (&mut most, 0.99), (&mut whole, 1.0)] {
                if share >= wanted {
                    reached.get_or_insert(at);
                }
            }
            agrees(world, &all)
        });
        let bytes = self.bytes(&world) / self.members as f64;
        FormationResult { half, most, all: whole, leader, bytes }
    }

    /// Measures a group in which nothing happens.
    pub fn idle(&self, length: Span) -> IdleResult {
        let mut world = self.formed();
        let suspicions = |world: &World<Group>| {
            (0..self.members).map(|slot| world.process(slot).counters().suspicions).sum::<u64>()
        };
        let before = (self.bytes(&world), world.ledger().traffic().messages, suspicions(&world));
        let false_before = world.ledger().wrong_suspicions;
        let from = world.now();
        world.run(from + length);
        let seconds = seconds(from, world.now());
        let each = seconds * self.members as f64;
        IdleResult {
            bytes_per_second: (self.bytes(&world) - before.0) / each,
            packets_per_second: (world.ledger().traffic().messages - before.1) as f64 / each,
            suspicions_per_second: (suspicions(&world) - before.2) as f64 / seconds,
            false_deaths: world.ledger().wrong_suspicions - false_before,
            seconds,
        }
    }

    /// Ends a member: it crashes, or is cut off.
    fn end(&self, world: &mut World<Group>, slot: usize, cut_off: bool) {
        let fault = match cut_off {
            true => Fault::Cut(0, Cut::isolating(self.members, slot)),
            false => Fault::Crash(slot),
        };
        world.schedule_fault(world.now(), fault);
    }

    /// Measures the death of a member that does not lead.
    pub fn death(&self, cut_off: bool) -> DeathResult {
        let mut world = self.formed();
        let leader = world.process(0).leader().map(|(id, _)| id);
        let mut rng = Rng::new(Hash::new(self.seed).word(2));
        let slot = loop {
            let slot = rng.below(self.members as u64) as usize;
            if leader != Some(world.roster().id(slot)) {
                break slot;
            }
        };
        let id = world.roster().id(slot);
        self.end(&mut world, slot, cut_off);
        let others: Vec<usize> = (0..self.members).filter(|&other| other != slot).collect();
        let (from, mut half) = (world.now(), None);
        let most = GroupTrial::until(&mut world, |world| {
            let share = share(world, &others, |group| {
                group.members().binary_search_by_key(&id, |record| record.id).is_err()
            });
            if share >= 0.5 {
                half.get_or_insert(seconds(from, world.now()));
            }
            share >= 0.99
        });
        DeathResult { half, most }
    }

    /// Measures the death of the leader.
    pub fn leader_death(&self, cut_off: bool) -> LeaderResult {
        let mut world = self.formed();
        let Some((leader, _)) = world.process(0).leader() else { return LeaderResult { agreed: None } };
        let slot = world.roster().slot(leader).expect("the leader is a member");
        self.end(&mut world, slot, cut_off);
        let others: Vec<usize> = (0..self.members).filter(|&other| other != slot).collect();
        let agreed = GroupTrial::until(&mut world, |world| {
            common_leader(world, &others).is_some_and(|(id, share)| id != leader && share >= 0.99)
        });
        LeaderResult { agreed }
    }

    /// Measures a partition into halves that lasts for `length`.
    pub fn partition(&self, length: Span) -> PartitionResult {
        let mut world = self.formed();
        let all: Vec<usize> = (0..self.members).collect();
        let mut slots = all.clone();
        Rng::new(Hash::new(self.seed).word(3)).shuffle(&mut slots);
        let (one, other) = slots.split_at(self.members / 2);
        let cut = Cut::new(self.members, &[one.to_vec(), other.to_vec()], false);
        world.schedule_fault(world.now(), Fault::Cut(0, cut));
        world.run(world.now() + length);
        world.schedule_fault(world.now(), Fault::Heal(0));
        PartitionResult { one_group: GroupTrial::until(&mut world, |world| agrees(world, &all)) }
    }

    /// Measures the death of a tenth of the members at once, among them the leader.
    pub fn mass_death(&self) -> MassResult {
        let mut world = self.formed();
        let mut slots: Vec<usize> = (0..self.members).collect();
        Rng::new(Hash::new(self.seed).word(4)).shuffle(&mut slots);
        let leader = world.process(0).leader().and_then(|(id, _)| world.roster().slot(id));
        let mut killed = slots[..self.members / 10].to_vec();
        killed.extend(leader.filter(|slot| !slots[..self.members / 10].contains(slot)));
        for &slot in &killed {
            world.schedule_fault(world.now(), Fault::Crash(slot));
        }
        world.run(world.now());
        let (living, from, mut led) = (up(&world), world.now(), None);
        let list = GroupTrial::until(&mut world, |world| {
            let follows = common_leader(world, &living).is_some_and(|(id, share)| {
                share >= 0.99 && world.roster().slot(id).is_some_and(|slot| living.contains(&slot))
            });
            if follows {
                led.get_or_insert(seconds(from, world.now()));
            }
            agrees(world, &living)
        });
        MassResult { leader: led, list }
    }

    /// Measures churn of 1% of the members a second, for `length`.
    pub fn churn(&self, length: Span) -> ChurnResult {
        let mut world = self.formed();
        let mut rng = Rng::new(Hash::new(self.seed).word(6));
        let from = world.now();
        let deaths = (self.members as f64 / 100.0 * length.as_units() / 1_000.0) as u64;
        for _ in 0..deaths {
            let slot = rng.below(self.members as u64) as usize;
            let at = from + Span::from_nanos(rng.below(length.as_nanos()));
            world.schedule_fault(at, Fault::Crash(slot));
            let back = at + Span::from_millis(5_000 + rng.below(20_000));
            world.schedule_fault(back, Fault::Recover { slot, disk: false });
        }
        let (mut worst_error, mut shares) = (0.0f64, Vec::new());
        let mut up_for = vec![20; self.members];
        while world.now() < from + length {
            world.run(world.now() + Span::from_millis(1_000));
            let living = up(&world);
            (0..self.members)
                .for_each(|slot| up_for[slot] = if living.contains(&slot) { up_for[slot] + 1 } else { 0 });
            if seconds(from, world.now()) > 20.0 {
                let old: Vec<usize> = living.iter().copied().filter(|&slot| up_for[slot] > 20).collect();
                let error = |&slot: &usize| {
                    (world.process(slot).members().len() as f64 / living.len() as f64 - 1.0).abs()
                };
                worst_error = old.iter().map(error).fold(worst_error, f64::max);
                shares.push(common_leader(&world, &old).map_or(0.0, |(_, share)| share));
            }
        }
        let all: Vec<usize> = (0..self.members).collect();
        let settled = GroupTrial::until(&mut world, |world| agrees(world, &all));
        ChurnResult {
            worst_error,
            leader_share: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
            settled,
        }
    }
}
