//! Torture: a seed decides a whole scenario with faults of all kinds. Then the network heals, and the run goes on until
//! the algorithm must have kept its promises.

mod disruptions;
mod leases;
mod timing;

use suffrage_core::detectors::{self, gossip, heartbeat, phi};
use suffrage_core::multicast::bimodal;
use suffrage_core::{
    Algorithm, Attribute, BadParameter, Command, CommandStorm, Contract, Detection, Disruption, NodeId, Rng,
    Roster, Settings, Span, Time, Topology,
};

use crate::{
    Detector, Fault, Latency, Multicast, Outcome, Plan, Ranking, Scenario, Storm, keep_disks, sort_plan,
    storm,
};

/// The end of the faults, in time units.
const STORM_END: u64 = 300;
/// The number of delay bounds for which the run goes on after that, unless an algorithm claims to need fewer. Within
/// that time promises that hold "in the end" must hold.
const RECOVERY_BOUNDS: u64 = 1_000;
/// The greatest number of events for each pair of processes: several times the need of any run, since detectors send
/// from every process to every other. Small groups may have as many events as a group of nine.
const EVENTS_PER_PAIR: u64 = 2_000;
/// Times are multiples of a tenth of a time unit.
const TENTH: u64 = Span::UNIT.as_nanos() / 10;
/// The greatest factor of slow messages, and of a delay bound that is too large.
const MAX_SLOW_FACTOR: u64 = 20;
/// The largest group, unless another size is given.
pub const MAX_MEMBERS: usize = 9;

/// An algorithm to torture, and the settings that the seed does not decide.
#[derive(Clone, Debug)]
pub struct TortureTarget<A: Algorithm> {
    /// The algorithm's options.
    pub options: A::Options,
    /// The options that the caller has set, by name. The seed does not change them.
    pub given: Vec<(&'static str, String)>,
    /// The number of processes.
    pub members: Option<usize>,
    /// The greatest clock drift, instead of the drift that the algorithm tolerates.
    pub drift: Option<f64>,
}

/// One seed's torture of an algorithm.
#[derive(Clone, Debug)]
pub struct TortureCase<A: Algorithm> {
    /// The processes, the network and the faults.
    pub scenario: Scenario,
    /// The algorithm's options.
    pub options: A::Options,
    /// The options that are set, by name.
    pub settings: Vec<(&'static str, String)>,
    /// The longest duration of a hand-over between two healthy processes.
    pub handover: Span,
}

impl<A: Algorithm> TortureCase<A> {
    /// Runs a scenario of this case. A run that ends during a hand-over between healthy processes breaks no promise:
    /// no end of the run is late enough to exclude one, since candidates wait longer after each failed claim. So a run
    /// that ends with a violation is repeated with two later ends. Only a violation that one of them shows too counts.
    pub fn run(&self, scenario: &Scenario, run: impl Fn(&Scenario) -> Outcome) -> Outcome {
        let mut outcome = run(scenario);
        let (false, true, Some(until)) =
            (outcome.violations.is_empty(), self.handover > Span::ZERO, scenario.until)
        else {
            return outcome;
        };
        let later =
            |handovers| Scenario { until: Some(until + self.handover * handovers), ..scenario.clone() };
        if (1..=2).all(|handovers| run(&later(handovers)).violations.is_empty()) {
            outcome.violations.clear();
        }
        outcome
    }
}

impl<A: Algorithm> Default for TortureTarget<A> {
    fn default() -> TortureTarget<A> {
        TortureTarget { options: A::Options::default(), given: Vec::new(), members: None, drift: None }
    }
}

impl<A: Algorithm> TortureTarget<A> {
    /// Refuses options that do not fit every possible group.
    pub fn check(&self) -> Result<(), BadParameter> {
        let members = self.members.or(A::members(&self.options));
        let sizes = members.map_or(1..=MAX_MEMBERS, |members| members..=members);
        sizes.map(Roster::numbered).try_for_each(|roster| A::check(&self.options, &roster))?;
        let round_trip = A::leases(&self.options).map_or(0, |leases| leases.round_trip);
        let shortest = latencies().map(|latency| latency.bound()).into_iter().min().expect("there are four");
        A::check_delay_bound(&self.options, timing::smallest_bound(shortest, round_trip))
    }

    /// The case of this seed: loss, duplication, reordering, crashes, also in the middle of an input, recoveries,
    /// pauses, cuts of all kinds, late and slow messages, delay bounds that are too large, drifting and jumping
    /// clocks, changing ranks, wrong suspicions, commands at any time. Faults that the algorithm does not claim to
    /// tolerate are left out.
    pub fn case(&self, seed: u64) -> TortureCase<A> {
        let own = &mut Rng::new(suffrage_core::Hash::new(seed).word(8));
        let variants: Vec<Settings> =
            A::VARIANTS.iter().copied().filter(|variant| self.fits(variant)).collect();
        let variant = own.pick(&variants).copied().unwrap_or(&[]);
        let members = self.members.or(A::members(&self.set(variant).0));
        let (mut scenario, lossy) = draw_scenario(seed, &A::CONTRACT, members);
        let needed = if lossy { A::CONTRACT.under_loss } else { &[] };
        let (options, settings) = self.set(&[needed, variant].concat());
        let (recovery_bounds, handover_bounds) = match A::leases(&options) {
            None => (RECOVERY_BOUNDS, 0),
            Some(leases) => {
                let members = 0..scenario.roster.len();
                let roles = leases::Roles {
                    voters: A::electorate(&options).voters(members.len()),
                    candidates: members.filter(|&slot| A::slot_may_lead(&options, slot)).collect(),
                };
                leases::add_lease_faults(
                    own,
                    &mut scenario,
                    &leases,
                    roles,
                    self.drift.unwrap_or(leases.drift),
                );
                (leases.recovery, leases.handover)
            }
        };
        let disruptions = match scenario.stable {
            None => add_commands::<A>(seed, &mut scenario, &options),
            Some(_) => Vec::new(),
        };
        if A::leases(&options).is_some_and(|leases| leases.changes_voters) {
            keep_voters(&mut scenario);
        }
        disruptions::add(&mut scenario, disruptions);
        let members = scenario.roster.len();
        round(&mut scenario);
        scenario.plan = effective_faults(&scenario.plan, members);
        scenario.commands.sort();
        scenario.limit = Some(EVENTS_PER_PAIR * (members.max(MAX_MEMBERS) as u64).pow(2));
        // Messages that faults have delayed arrive after the end of the faults.
        let delayed = scenario
            .plan
            .iter()
            .map(|(_, fault)| scenario.max_extra_delay(fault))
            .max()
            .unwrap_or(Span::ZERO);
        let healed = Time::ZERO + Span::from_millis(STORM_END) + delayed;
        scenario.until = Some(healed + scenario.bound() * recovery_bounds);
        let handover = scenario.bound() * handover_bounds;
        TortureCase { scenario, options, settings, handover }
    }

    /// The options with these settings, unless the caller has set them.
    fn set(&self, wanted: &[(&'static str, &'static str)]) -> (A::Options, Vec<(&'static str, String)>) {
        let (mut options, mut settings) = (self.options.clone(), self.given.clone());
        for (name, value) in wanted {
            if !self.given.iter().any(|(given, _)| given == name) {
                A::set(&mut options, name, value).expect("an algorithm accepts its own values");
                settings.push((*name, value.to_string()));
            }
        }
        (options, settings)
    }

    /// True if a variant is valid together with the caller's options.
    fn fits(&self, variant: Settings) -> bool {
        TortureTarget::<A> { options: self.set(variant).0, ..self.clone() }.check().is_ok()
    }
}

/// Draws commands that only this algorithm knows, and returns the faults that go with them. Their random numbers are
/// separate, so that the other faults do not change.
fn add_commands<A: Algorithm>(
    seed: u64,
    scenario: &mut Scenario,
    options: &A::Options,
) -> Vec<(Time, Disruption)> {
    let end = Time::ZERO + Span::from_millis(STORM_END);
    let mut storm = CommandStorm {
        rng: &mut Rng::new(suffrage_core::Hash::new(seed).word(10)),
        roster: &scenario.roster,
        delay: scenario.bound(),
        end,
        latency: scenario.latency.median(),
        disruptions: Vec::new(),
        alone: false,
    };
    let drawn = A::draw_commands(options, &mut storm);
    let CommandStorm { disruptions, alone, .. } = storm;
    if alone {
        scenario.plan = vec![(end, Fault::HealAll)];
        scenario.commands.clear();
        scenario.initiators.clear();
        scenario.loss = 0.0;
    }
    scenario.commands.extend(drawn.into_iter().map(|(at, slot, command)| (at, slot, command.to_string())));
    disruptions
}

/// Removes the faults after which the processes that vote at the end might not elect a leader, or whose clocks nobody may
/// rely on: any process may be a voter.
fn keep_voters(scenario: &mut Scenario) {
    let end = Time::ZERO + Span::from_millis(STORM_END);
    keep_disks(&mut scenario.plan);
    let lasts = |at: Time, fault: &Fault| at == end && matches!(fault, Fault::Cut(..));
    scenario.plan.retain(|(at, fault)| !lasts(*at, fault) && !matches!(fault, Fault::Jump { .. }));
    let recover = |slot| (end, Fault::Recover { slot, disk: true });
    scenario.plan.extend((0..scenario.roster.len()).map(recover));
}

/// Draws a scenario for algorithms of this contract. True if messages are lost.
fn draw_scenario(seed: u64, contract: &Contract, members: Option<usize>) -> (Scenario, bool) {
    let rng = &mut Rng::new(suffrage_core::Hash::new(seed).word(7));
    let members = members.unwrap_or_else(|| 1 + rng.below(MAX_MEMBERS as u64) as usize);
    let mut ids: Vec<NodeId> = (1..=members as u64).map(NodeId).collect();
    rng.shuffle(&mut ids);
    let mut scenario = Scenario::new(Roster::listed(ids).expect("ids are unique"));
    scenario.seed = seed;
    scenario.ranking = rng
        .pick(&[Ranking::Id, Ranking::LowestId, Ranking::Random, Ranking::Quality])
        .cloned()
        .expect("there are some");
    scenario.latency = latency(rng);
    // Separate random numbers, so that these faults do not change the others.
    let timing = &mut Rng::new(suffrage_core::Hash::new(seed).word(9));
    scenario.delay_bound = timing::large_bound(timing, scenario.latency.bound());
    scenario.drift = if rng.chance(0.5) { 0.0 } else { thousandths(rng, 0.05) };
    scenario.initiators = (0..members).collect();

    // An algorithm that tolerates loss by itself always gets loss. One that needs settings for loss gets it in half of
    // the cases.
    let tolerates_loss = contract.detection == Detection::Timeout;
    let lossy = tolerates_loss || !contract.under_loss.is_empty() && rng.chance(0.5);
    scenario.detector = detector(rng, scenario.bound(), tolerates_loss || lossy);
    if contract.topology == Topology::Multicast {
        scenario.multicast = multicast(rng);
    }
    if lossy {
        scenario.loss = thousandths(rng, 0.5);
        scenario.duplicate = thousandths(rng, 0.3);
    }
    let shortest_noticed = scenario.detector.delay().unwrap_or(Span::ZERO) + scenario.latency.bound();
    let storm_config = Storm {
        members,
        from: Time::ZERO,
        to: Time::ZERO + Span::from_millis(STORM_END),
        lossy: false,
        shortest_cut: if lossy { Span::ZERO } else { shortest_noticed },
    };
    scenario.plan = storm(rng.bits(), storm_config);
    scenario.plan.extend(jumps(rng, members));
    scenario.plan.extend(reranks(rng, members));
    scenario.commands = draw_commands(rng, &scenario.roster);
    scenario.plan.extend(timing::crashes(timing, members));
    if lossy {
        // An algorithm that tolerates loss treats late messages as lost.
        scenario.plan.extend(timing::slow_messages(timing));
        scenario.plan.extend(timing::late_messages(timing, scenario.bound() * timing::MAX_LATE_BOUNDS));
    }
    if contract.needs_disk {
        keep_disks(&mut scenario.plan);
    }
    (scenario, lossy)
}

fn latency(rng: &mut Rng) -> Latency {
    latencies()[rng.below(4) as usize]
}

/// The latencies that are drawn.
fn latencies() -> [Latency; 4] {
    [
        Latency::Const(Span::UNIT),
        Latency::Uniform(Span::ZERO, Span::UNIT),
        Latency::Exponential(Span::from_units(0.3)),
        Latency::LogNormal(Span::from_units(0.3), 0.7),
    ]
}

/// Draws a detector: a simulated one or, where an algorithm does not need it, a real one or none.
fn detector(rng: &mut Rng, bound: Span, optional: bool) -> Detector {
    let delay = Span::from_millis(2 + rng.below(5));
    // Messages within the delay bound arrive in time, with the drift of these scenarios.
    let period = Span::from_millis(1) + bound * (3 + rng.below(4));
    match rng.below(if optional { 6 } else { 2 }) {
        0 => Detector::Ideal { delay },
        1 => Detector::Parametric { delay, false_rate: thousandths(rng, 0.02) },
        2 => {
            Detector::Real(detectors::Options::Heartbeat(heartbeat::Options { period, timeout: period * 3 }))
        }
        3 => Detector::Real(detectors::Options::Phi(phi::Options::new(
            8.0 + rng.below(5) as f64,
            Some(period),
        ))),
        4 => Detector::Real(detectors::Options::Gossip(gossip::Options { period, fail: period * 15 })),
        _ => Detector::None,
    }
}

/// Draws the multicast service.
fn multicast(rng: &mut Rng) -> Multicast {
    match rng.below(3) {
        0 => Multicast::Broadcast,
        1 => Multicast::Ideal(1.0 - thousandths(rng, 0.5)),
        _ => {
            let (fanout, rounds) = (1 + rng.below(2) as u32, 2 + rng.below(4) as u32);
            Multicast::Bimodal(bimodal::Options { fanout, rounds })
        }
    }
}

fn jumps(rng: &mut Rng, members: usize) -> Plan {
    let count = if rng.chance(0.5) { 0 } else { rng.below(4) };
    let jump = |_| {
        let at = Time::ZERO + Span::from_millis(rng.below(STORM_END));
        let slot = rng.below(members as u64) as usize;
        (at, Fault::Jump { slot, by: Span::from_millis(1 + rng.below(200)), back: rng.chance(0.5) })
    };
    (0..count).map(jump).collect()
}

fn reranks(rng: &mut Rng, members: usize) -> Plan {
    let count = if rng.chance(0.7) { 0 } else { 1 + rng.below(3) };
    let rerank = |_| {
        let at = Time::ZERO + Span::from_millis(rng.below(STORM_END));
        let attribute = rng.below(2 * members as u64 + 2) as Attribute - members as Attribute;
        (at, Fault::Rank(rng.below(members as u64) as usize, attribute))
    };
    (0..count).map(rerank).collect()
}

/// Draws commands of the application: campaigns, resignations and transfers.
fn draw_commands(rng: &mut Rng, roster: &Roster) -> Vec<(Time, usize, String)> {
    let count = rng.below(6);
    let members = roster.len() as u64;
    let draw = |_| {
        let at = Time::ZERO + Span::from_millis(rng.below(STORM_END));
        let command = match rng.below(4) {
            0 => Command::Resign,
            1 => Command::Transfer(roster.id(rng.below(members) as usize)),
            _ => Command::Campaign,
        };
        (at, rng.below(members) as usize, command.to_string())
    };
    (0..count).map(draw).collect()
}

/// A random number up to `most` with three decimals, to be readable on a command line.
fn thousandths(rng: &mut Rng, most: f64) -> f64 {
    (rng.unit() * most * 1000.0).round() / 1000.0
}

/// Rounds the times of faults to tenths of a time unit, to be readable on a command line. Beginnings are rounded down
/// and ends up, so that no fault gets shorter. All faults still begin before [`Fault::HealAll`], but for those that are
/// planned for that very moment.
fn round(scenario: &mut Scenario) {
    let down = |at: Time| Time::from_nanos(at.as_nanos() / TENTH * TENTH);
    let up = |at: Time| Time::from_nanos(at.as_nanos().div_ceil(TENTH) * TENTH);
    for (at, fault) in &mut scenario.plan {
        *at = match fault {
            Fault::Heal(_) | Fault::Recover { .. } | Fault::Slow(1.0) => up(*at),
            Fault::SlowDisk(Span::ZERO) => up(*at),
            Fault::Late { probability: 0.0, .. } => up(*at),
            _ => down(*at),
        };
        if let Fault::Pause(_, until) = fault {
            *until = up(*until).max(*at + Span::from_nanos(TENTH));
        }
    }
}

/// The state of a process as far as the plan determines it.
#[derive(Clone, Copy, PartialEq)]
enum LifeState {
    Up,
    Down,
    /// A crash in the middle of an input is pending, or has happened.
    CrashPending,
    /// Down, with a crash pending after the recovery.
    DownCrashPending,
    /// `CrashPending` or `DownCrashPending`.
    MaybeDownCrashPending,
}

/// The plan, sorted and without faults that have no effect: crashes and pauses of dead processes, recoveries of live
/// ones, cuts that separate nobody, healing without a cut. Cuts are numbered in order.
pub fn effective_faults(plan: &Plan, members: usize) -> Plan {
    let mut plan = plan.clone();
    sort_plan(&mut plan);
    let mut states = vec![LifeState::Up; members];
    let mut cuts = Vec::new();
    let mut names = 0..;
    let (mut slow, mut late, mut slow_disk) = (1.0, (0.0, Span::ZERO), Span::ZERO);
    plan.retain_mut(|(_, fault)| match fault {
        // The crash of a process that is down cancels its pending crash.
        Fault::Crash(slot) => std::mem::replace(&mut states[*slot], LifeState::Down) != LifeState::Down,
        Fault::CrashMidway { slot, .. } => {
            states[*slot] = match states[*slot] {
                LifeState::Up => LifeState::CrashPending,
                LifeState::Down | LifeState::DownCrashPending => LifeState::DownCrashPending,
                LifeState::CrashPending | LifeState::MaybeDownCrashPending => {
                    LifeState::MaybeDownCrashPending
                }
            };
            true
        }
        Fault::Recover { slot, .. } => {
            let before = states[*slot];
            states[*slot] = match before {
                LifeState::Up | LifeState::Down | LifeState::CrashPending => LifeState::Up,
                LifeState::DownCrashPending | LifeState::MaybeDownCrashPending => LifeState::CrashPending,
            };
            before != LifeState::Up
        }
        Fault::Pause(slot, _) => !matches!(states[*slot], LifeState::Down | LifeState::DownCrashPending),
        Fault::Cut(name, cut) => {
            cut.drop_empty_sides();
            if cut.groups().0.len() < 2 {
                return false;
            }
            let new = names.next().expect("there are always more");
            cuts.push((std::mem::replace(name, new), new));
            true
        }
        Fault::Heal(name) => match cuts.iter().position(|(old, _)| old == name) {
            Some(index) => {
                *name = cuts.remove(index).1;
                true
            }
            None => false,
        },
        Fault::Slow(factor) => std::mem::replace(&mut slow, *factor) != *factor,
        Fault::SlowDisk(delay) => std::mem::replace(&mut slow_disk, *delay) != *delay,
        Fault::Late { probability, max_delay } => {
            let new = if *probability > 0.0 { (*probability, *max_delay) } else { (0.0, Span::ZERO) };
            std::mem::replace(&mut late, new) != new
        }
        Fault::HealAll => {
            cuts.clear();
            (slow, late, slow_disk) = (1.0, (0.0, Span::ZERO), Span::ZERO);
            for state in &mut states {
                *state = match *state {
                    LifeState::DownCrashPending => LifeState::Down,
                    LifeState::MaybeDownCrashPending => LifeState::CrashPending,
                    state => state,
                };
            }
            true
        }
        Fault::CrashLeader | Fault::RecoverLeader { .. } => true,
        Fault::Jump { .. } | Fault::Rank(..) | Fault::Loss(_) | Fault::Duplicate(_) => true,
    });
    // Cuts have new numbers.
    sort_plan(&mut plan);
    plan
}

/// A smaller scenario that still reproduces a violation. Removes faults, commands and flaws of the network, many and
/// then fewer at a time, as long as `reproduces` holds (delta debugging: Zeller 1999).
pub fn shrink(scenario: &Scenario, mut reproduces: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut shrunk = scenario.clone();
    let mut try_candidate = |candidate: Scenario, shrunk: &mut Scenario| {
        let better = reproduces(&candidate);
        if better {
            *shrunk = candidate;
        }
        better
    };
    let mut count = len(&shrunk);
    loop {
        let before = size(&shrunk);
        for remove in [no_loss, no_duplication, no_drift, no_random_latency, no_large_bound] {
            let candidate = remove(&shrunk);
            if size(&candidate) < size(&shrunk) {
                try_candidate(candidate, &mut shrunk);
            }
        }
        let mut from = 0;
        while from < len(&shrunk) {
            let candidate = without(&shrunk, from, count.max(1));
            if len(&candidate) == len(&shrunk) || !try_candidate(candidate, &mut shrunk) {
                from += count.max(1);
            }
        }
        // Removes one at a time until nothing changes.
        if count <= 1 && size(&shrunk) == before {
            return shrunk;
        }
        count /= 2;
    }
}

fn len(scenario: &Scenario) -> usize {
    scenario.plan.len() + scenario.commands.len()
}

/// The number of faults, commands, and flaws of the network.
fn size(scenario: &Scenario) -> usize {
    let network_faults = [
        scenario.loss > 0.0,
        scenario.duplicate > 0.0,
        scenario.drift > 0.0,
        scenario.latency != Latency::Const(Span::UNIT),
        scenario.delay_bound.is_some(),
    ];
    len(scenario) + network_faults.iter().filter(|&&remove| remove).count()
}

fn no_loss(scenario: &Scenario) -> Scenario {
    Scenario { loss: 0.0, ..scenario.clone() }
}

fn no_duplication(scenario: &Scenario) -> Scenario {
    Scenario { duplicate: 0.0, ..scenario.clone() }
}

fn no_drift(scenario: &Scenario) -> Scenario {
    Scenario { drift: 0.0, ..scenario.clone() }
}

fn no_random_latency(scenario: &Scenario) -> Scenario {
    Scenario { latency: Latency::Const(Span::UNIT), ..scenario.clone() }
}

fn no_large_bound(scenario: &Scenario) -> Scenario {
    Scenario { delay_bound: None, ..scenario.clone() }
}

/// The scenario without `count` of its faults and commands, from the given index on. [`Fault::HealAll`] stays, since it
/// ends faults. Commands at the end of the storm stay, since they undo earlier ones.
fn without(scenario: &Scenario, from: usize, count: usize) -> Scenario {
    let is_removed = |index: usize| (from..from + count).contains(&index);
    let faults = scenario.plan.len();
    let plan = scenario.plan.iter().enumerate();
    let plan = plan.filter(|(index, (_, fault))| !is_removed(*index) || *fault == Fault::HealAll);
    let storm_end = Time::ZERO + Span::from_millis(STORM_END);
    let commands = scenario.commands.iter().enumerate();
    let commands = commands.filter(|(index, (at, ..))| !is_removed(faults + index) || *at == storm_end);
    Scenario {
        plan: effective_faults(&plan.map(|(_, fault)| fault.clone()).collect(), scenario.roster.len()),
        commands: commands.map(|(_, command)| command.clone()).collect(),
        ..scenario.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cut;
    use suffrage_algorithms::bully::Bully;

    fn case(seed: u64, members: Option<usize>) -> TortureCase<Bully> {
        TortureTarget { members, ..TortureTarget::default() }.case(seed)
    }

    fn time(units: u64) -> Time {
        Time::ZERO + Span::from_millis(units)
    }

    #[test]
    fn a_violation_at_the_end_counts_if_a_later_end_shows_it_too() {
        let mut case = case(1, Some(3));
        let until = case.scenario.until.unwrap();
        let violations = |case: &TortureCase<Bully>, ends: &[u64]| {
            let bad: Vec<Time> = ends.iter().map(|&handovers| until + Span::UNIT * handovers).collect();
            let outcome = case.run(&case.scenario, |scenario| {
                let mut outcome = scenario.run::<Bully>(&Default::default());
                let at = scenario.until.unwrap();
                outcome.violations.retain(|_| false);
                if bad.contains(&at) {
                    let detail = String::new();
                    outcome.violations.push(crate::Violation { invariant: "agreement", at, detail });
                }
                outcome
            });
            outcome.violations.len()
        };
        assert_eq!(violations(&case, &[0]), 1, "without hand-overs there is one end");
        case.handover = Span::UNIT;
        assert_eq!(violations(&case, &[0]), 0);
        assert_eq!(violations(&case, &[0, 1]), 1);
        assert_eq!(violations(&case, &[0, 2]), 1);
        assert_eq!(violations(&case, &[1, 2]), 0, "it had settled at the first end");
    }

    #[test]
    fn a_case_is_decided_by_its_seed_ends_healed_and_has_no_fault_without_effect() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let TortureCase { scenario, settings, .. } = case(seed, None);
            assert_eq!(format!("{scenario:?}"), format!("{:?}", case(seed, None).scenario));
            assert!(scenario.plan.iter().all(|(at, _)| *at <= time(STORM_END)), "seed {seed}");
            assert_eq!(scenario.plan, effective_faults(&scenario.plan, scenario.roster.len()), "seed {seed}");
            assert!(scenario.plan.contains(&(time(STORM_END), Fault::HealAll)), "seed {seed}");
            let late = scenario.plan.iter().filter(|(at, _)| *at == time(STORM_END));
            let last =
                |fault: &Fault| matches!(fault, Fault::HealAll | Fault::Recover { .. } | Fault::Cut(..));
            assert!(late.clone().all(|(_, fault)| last(fault)), "seed {seed}");
            assert!(late.filter(|(_, fault)| matches!(fault, Fault::Cut(..))).count() <= 1, "seed {seed}");
            assert!(scenario.loss == 0.0 || !settings.is_empty(), "seed {seed}: loss needs its settings");
            kinds.extend(
                scenario
                    .plan
                    .iter()
                    .map(|(_, fault)| std::mem::discriminant(fault))
                    .map(|d| format!("{d:?}")),
            );
        }
        assert_eq!(kinds.len(), 11, "every kind of fault but loss and duplication, which are not planned");
    }

    #[test]
    fn faults_without_effect_are_left_out() {
        let cut = |sides: [Vec<usize>; 2]| Cut::new(3, &sides, false);
        let recover = |slot| Fault::Recover { slot, disk: true };
        let plan = vec![
            (time(1), Fault::Crash(0)),
            (time(2), Fault::Crash(0)),
            (time(3), Fault::Pause(0, time(9))),
            (time(4), recover(0)),
            (time(5), recover(0)),
            (time(6), Fault::Cut(1, cut([vec![0, 1], vec![]]))),
            (time(7), Fault::Heal(1)),
            (time(7), Fault::Cut(2, cut([vec![0], vec![1]]))),
            (time(8), Fault::HealAll),
            (time(9), Fault::Heal(2)),
        ];
        assert_eq!(kept(&plan), [1, 4, 7, 8]);
    }

    fn kept(plan: &Plan) -> Vec<u64> {
        effective_faults(plan, 3).iter().map(|(at, _)| at.as_nanos() / Span::UNIT.as_nanos()).collect()
    }

    #[test]
    fn a_pending_crash_may_or_may_not_have_happened() {
        let recover = |slot| Fault::Recover { slot, disk: true };
        let crash_midway = |slot| Fault::CrashMidway { slot, point: crate::CrashPoint::BeforeSave };
        let plan = vec![
            (time(1), crash_midway(0)),
            (time(2), Fault::Pause(0, time(9))),
            (time(3), recover(0)),
            (time(4), recover(0)),
            (time(5), crash_midway(0)),
            (time(6), Fault::Crash(0)),
            (time(7), crash_midway(0)),
            (time(8), Fault::Crash(0)),
            (time(9), recover(0)),
            (time(10), recover(0)),
            (time(11), recover(0)),
            (time(12), crash_midway(0)),
            (time(13), crash_midway(0)),
            (time(14), recover(0)),
            (time(15), recover(0)),
            (time(16), recover(0)),
        ];
        assert_eq!(kept(&plan), [1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 14, 15]);
    }

    #[test]
    fn slow_and_late_messages_are_ended_once() {
        let late = |probability, units| Fault::Late { probability, max_delay: Span::from_millis(units) };
        let plan = vec![
            (time(1), Fault::Slow(1.0)),
            (time(2), Fault::Slow(3.0)),
            (time(3), late(0.1, 9)),
            (time(4), late(0.1, 9)),
            (time(5), late(0.0, 9)),
            (time(6), late(0.0, 0)),
            (time(7), Fault::HealAll),
            (time(8), Fault::Slow(1.0)),
        ];
        assert_eq!(kept(&plan), [2, 3, 5, 7]);
    }

    #[test]
    fn shrinking_finds_the_faults_that_matter() {
        let TortureCase { mut scenario, .. } = case(1, Some(6));
        let culprits = [(time(50), Fault::Crash(4)), (time(120), Fault::Rank(2, 77))];
        scenario.plan = effective_faults(&scenario.plan, 6);
        scenario.plan.retain(|(_, fault)| *fault != Fault::Crash(4));
        scenario.plan.extend(culprits.clone());
        scenario.plan = effective_faults(&scenario.plan, 6);
        scenario.commands.push((time(10), 1, "leave".to_string()));
        let undo = (time(STORM_END), 1, "join".to_string());
        scenario.commands.push(undo.clone());
        let before = scenario.plan.len();
        let shrunk =
            shrink(&scenario, |candidate| culprits.iter().all(|culprit| candidate.plan.contains(culprit)));
        let mut faults = shrunk.plan;
        faults.retain(|(_, fault)| *fault != Fault::HealAll);
        assert!(before > 5, "{before}");
        assert_eq!(faults, culprits);
        assert_eq!(shrunk.commands, [undo], "commands that undo earlier ones stay");
        assert!(shrunk.loss == 0.0 && shrunk.drift == 0.0);
        let unshrunk = shrink(&scenario, |_| false);
        assert_eq!(unshrunk.plan, scenario.plan, "nothing is left out if no smaller scenario reproduces");
    }
}
