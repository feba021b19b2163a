//! Random faults that quorum leases claim to tolerate.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Attribute, Command, NodeId, Rng, Roster, Span, Time};
use suffrage_lease::Drift;
use suffrage_sim::{Cut, Fault, Latency, Scenario, Storm, World, storm};

/// The end of the faults.
pub(crate) const STORM_END: u64 = 300;

pub(crate) fn time(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

/// All faults within the model: loss, duplication, late messages, cuts of all kinds, crashes with the disk kept, some
/// of them short, pauses longer than a lease, clocks that drift up to the bound, new ranks, commands at any time.
pub(crate) fn storm_scenario(seed: u64) -> (Scenario, Options) {
    let rng = &mut Rng::new(seed);
    let members = 1 + rng.below(8) as usize;
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.drift = *rng.pick(&[0.0, 0.005, 0.01]).expect("there are three");
    scenario.latency = match rng.below(3) {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.5)),
    };
    let (from, to) = (Time::ZERO, time(STORM_END));
    let storm_scenarios = Storm { members, from, to, lossy: rng.chance(0.7), shortest_cut: Span::ZERO };
    scenario.plan = storm(rng.bits(), storm_scenarios);
    for _ in 0..rng.below(1 + 5 * members as u64) {
        scenario.plan.extend(flap(rng, members));
    }
    if members > 2 && rng.chance(0.5) {
        scenario.plan.extend(partial_cuts(rng, members));
    }
    for (_, fault) in &mut scenario.plan {
        if let Fault::Recover { disk, .. } = fault {
            *disk = true;
        }
    }
    scenario.commands = (0..rng.below(6)).map(|_| command(rng, members)).collect();
    // Applications campaign at the start, and after a recovery.
    scenario.initiators = (0..members).filter(|_| rng.chance(0.3)).collect();
    for (at, fault) in &scenario.plan {
        if let Fault::Recover { slot, .. } = fault
            && rng.chance(0.5)
        {
            scenario.commands.push((*at, *slot, Command::Campaign.to_string()));
        }
    }
    let voters = *rng.pick(&[1, 2, 3, 3, 3, 4, 5, 5, 5]).expect("there are some");
    let failback = rng.chance(0.3).then_some(40);
    scenario.until = Some(to + scenario.latency.bound() * 400);
    (scenario, Options { voters, failback, ..Options::default() })
}

fn moment(rng: &mut Rng) -> Time {
    time(rng.below(STORM_END - 20))
}

/// A crash that is shorter than a lease, or a pause that is longer.
fn flap(rng: &mut Rng, members: usize) -> Vec<(Time, Fault)> {
    let (slot, at) = (rng.below(members as u64) as usize, moment(rng));
    if rng.chance(0.5) {
        let until = at + Span::from_units(20.0 + rng.unit() * 60.0);
        return vec![(at, Fault::Pause(slot, until.min(time(STORM_END))))];
    }
    let up = at + Span::from_units(rng.unit() * 20.0);
    vec![(at, Fault::Crash(slot)), (up, Fault::Recover { slot, disk: true })]
}

/// The partial partitions of the OmniPaxos paper (Ng, Haridi, Carbone 2023, section 2).
fn partial_cuts(rng: &mut Rng, members: usize) -> Vec<(Time, Fault)> {
    let mut slots: Vec<usize> = (0..members).collect();
    rng.shuffle(&mut slots);
    let at = moment(rng);
    let healed = (at + Span::from_units(30.0 + rng.unit() * 100.0)).min(time(STORM_END));
    let mut cuts = match rng.below(3) {
        0 => vec![Cut::chained(members, slots[0], slots[1])],
        1 => vec![Cut::hub(members, slots[0])],
        _ => vec![Cut::hub(members, slots[0]), Cut::isolating(members, slots[1])],
    };
    cuts.drain(..)
        .enumerate()
        .flat_map(|(place, cut)| [(at, Fault::Cut(100 + place, cut)), (healed, Fault::Heal(100 + place))])
        .collect()
}

fn command(rng: &mut Rng, members: usize) -> (Time, usize, String) {
    let command = match rng.below(3) {
        0 => Command::Campaign,
        1 => Command::Resign,
        _ => Command::Transfer(NodeId(1 + rng.below(members as u64))),
    };
    (moment(rng), rng.below(members as u64) as usize, command.to_string())
}

/// Adds changes of ranks to a scenario.
pub(crate) fn reranked(scenario: &mut Scenario) {
    let rng = &mut Rng::new(!scenario.seed);
    let members = scenario.roster.len() as u64;
    for _ in 0..3 {
        let rank = Fault::Rank(rng.below(members) as usize, rng.below(5) as Attribute);
        scenario.plan.push((moment(rng), rank));
    }
}

/// True if some live candidate reaches a majority of the voters.
pub(crate) fn electable(world: &World<QuorumLease>, options: &Options) -> bool {
    let facts = world.facts();
    let members = facts.roster().len();
    let voters = options.voters.min(members);
    facts.up().any(|slot| {
        (0..voters).filter(|&voter| facts.is_up(voter) && facts.connected(slot, voter)).count() > voters / 2
    })
}

pub(crate) fn leaders(world: &World<QuorumLease>) -> Vec<u64> {
    let facts = world.facts();
    let leading = (0..facts.roster().len()).filter(|&slot| facts.leads(slot));
    leading.map(|slot| facts.roster().id(slot).0).collect()
}

pub(crate) fn drift(text: &str) -> Drift {
    text.parse().expect("a drift")
}
