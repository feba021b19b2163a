//! What is hard on leases: to lose touch for about as long as one lasts, and somebody who is waiting for that.
//!
//! Everything here is within what such algorithms claim to live through: disks are kept, but for those of a
//! minority of the voters in cases of their own; clocks drift up to the bound; the clock of one that nobody
//! relies on may jump ahead, which only makes it believe in less.

use suffrage_core::{Command, Leases, Rng, Span, Time};

use super::{MAX_SLOW_FACTOR, STORM_END, TENTH, timing};
use crate::{Cut, Detector, Fault, Latency, Plan, Scenario};

/// How many leases late a message is at most.
const MAX_LATE_LEASES: u64 = 12;

/// Who does what, by slot.
pub(super) struct Roles {
    /// The first so many vote.
    pub(super) voters: usize,
    /// These may lead.
    pub(super) candidates: Vec<usize>,
}

/// Makes a scenario hard on leases.
pub(super) fn add_lease_faults(
    rng: &mut Rng,
    scenario: &mut Scenario,
    leases: &Leases,
    roles: Roles,
    drift: f64,
) {
    // It learns of failures by its clocks alone.
    scenario.detector = Detector::None;
    scenario.drift = *rng.pick(&[0.0, drift / 2.0, drift, drift]).expect("there are some");
    // In a network that loses every other message nobody ever holds a lease.
    let max = *rng.pick(&[0.0, 0.1, 0.5]).expect("there are some");
    scenario.loss = super::thousandths(rng, max);
    scenario.plan.retain(|(_, fault)| !matches!(fault, Fault::Jump { .. }));
    let kind = rng.below(6);
    // Of its own, so that it leaves the others as they are.
    let bound_rng = &mut Rng::new(suffrage_core::Hash::new(scenario.seed).word(11));
    if let Some(bound) = timing::small_bound(bound_rng, scenario.latency.bound(), leases.round_trip) {
        scenario.delay_bound = Some(bound);
    }
    let mut faults = LeaseFaults {
        rng,
        members: scenario.roster.len(),
        voters: roles.voters,
        candidates: roles.candidates,
        delay: scenario.latency.bound(),
        lease: scenario.bound() * leases.length,
        plan: Plan::new(),
        commands: Vec::new(),
        cuts: 0,
    };
    match kind {
        0 if leases.stable => faults.challenge_stable_leader(scenario),
        0 => match leases.pin {
            Some(pin) => {
                faults.challenge_stable_leader(scenario);
                faults.pin_all(pin, scenario.bound() * leases.recovery);
            }
            None => faults.storm(scenario),
        },
        1 if faults.voters > 2 => faults.lose_disks(scenario),
        _ => faults.storm(scenario),
    }
    scenario.plan.extend(faults.plan);
    scenario.commands.extend(faults.commands);
}

struct LeaseFaults<'r> {
    rng: &'r mut Rng,
    members: usize,
    voters: usize,
    candidates: Vec<usize>,
    /// How long a message takes at most.
    delay: Span,
    lease: Span,
    plan: Plan,
    commands: Vec<(Time, usize, String)>,
    /// How many cuts there are so far.
    cuts: usize,
}

impl LeaseFaults<'_> {
    /// Somewhere in the storm, with a while left for what comes of it.
    fn moment(&mut self) -> Time {
        Time::ZERO + Span::from_units(self.rng.unit() * (STORM_END - 20) as f64)
    }

    /// So many times this span after that moment, from the first number to the second; not after the storm.
    fn moment_after(&mut self, at: Time, span: Span, min: f64, max: f64) -> Time {
        let factor = min + self.rng.unit() * (max - min);
        (at + span.scale(factor)).min(Time::ZERO + Span::from_millis(STORM_END))
    }

    fn random_member(&mut self) -> usize {
        self.rng.below(self.members as u64) as usize
    }

    /// One that may lead and does not vote, if there is one: nobody relies on its clock. A node that does not vote and
    /// leads for clients may not lead itself, and they rely on its clock.
    fn random_non_voter(&mut self) -> Option<usize> {
        let non_voters: Vec<usize> =
            self.candidates.iter().copied().filter(|&slot| slot >= self.voters).collect();
        if non_voters.is_empty() { None } else { self.rng.pick(&non_voters).copied() }
    }

    /// Somebody wants to lead: this one, or if it may not, another.
    fn campaign(&mut self, at: Time, slot: usize) {
        let may_lead = self.candidates.contains(&slot);
        let slot = if may_lead { slot } else { *self.rng.pick(&self.candidates).expect("somebody may lead") };
        // To a tenth: readers will meet it on a command line.
        let at = Time::from_nanos(at.as_nanos() / TENTH * TENTH);
        self.commands.push((at, slot, Command::Campaign.to_string()));
    }

    /// A cut for one to a few leases.
    fn cut(&mut self, at: Time, cuts: impl IntoIterator<Item = Cut>) -> Time {
        let healed = self.moment_after(at, self.lease, 0.7, 4.0);
        cuts.into_iter().for_each(|cut| self.cut_until(at, healed, cut));
        healed
    }

    fn cut_until(&mut self, at: Time, healed: Time, cut: Cut) {
        if at >= Time::ZERO + Span::from_millis(STORM_END) {
            return;
        }
        // Away from the numbers of the cuts that are there already.
        let name = 1_000 + self.cuts;
        self.cuts += 1;
        self.plan.push((at, Fault::Cut(name, cut)));
        if healed < Time::ZERO + Span::from_millis(STORM_END) {
            self.plan.push((healed, Fault::Heal(name)));
        }
    }

    /// All that goes wrong, one after the other or at once.
    fn storm(&mut self, scenario: &mut Scenario) {
        // What lasts for half of the storm leaves too few to be hard on anybody; so, not always.
        if self.rng.chance(0.6) {
            let end = Time::ZERO + Span::from_millis(STORM_END);
            scenario.plan.retain(|(at, fault)| *at == end || matches!(fault, Fault::Rank(..)));
        }
        match self.rng.below(4) {
            0 => self.pause_first_proposal(scenario),
            1 => scenario.initiators.retain(|_| self.rng.chance(0.4)),
            _ => {}
        }
        for _ in 0..2 + self.rng.below(3 * self.members as u64) {
            match self.rng.below(9) {
                0 | 1 => self.flap(),
                2 => self.pause(),
                3 => self.pause_during_campaign(),
                4 => self.power_failure(),
                5 => self.concurrent_campaigns(),
                6 => self.isolate_and_campaign(),
                7 => self.partial_partition(),
                _ => self.jump_ahead(),
            }
        }
        for _ in 0..self.rng.below(4) {
            match self.rng.below(4) {
                0 | 1 => self.crash_midway(),
                2 => self.late_messages(),
                _ => self.slow_messages(),
            }
        }
    }

    /// A crash so short that what was granted before is not over yet.
    fn flap(&mut self) {
        let (slot, at) = (self.random_member(), self.moment());
        let back = self.moment_after(at, self.lease, 0.0, 0.8);
        self.plan.push((at, Fault::Crash(slot)));
        self.plan.push((back, Fault::Recover { slot, disk: true }));
        if self.rng.chance(0.5) {
            self.campaign(back, slot);
        }
    }

    /// A crash in the middle of an input, most often a voter's, while somebody wants to lead; perhaps another on
    /// the return, which is soon.
    fn crash_midway(&mut self) {
        let at = if self.rng.chance(0.3) { Time::ZERO } else { self.moment() };
        let among = if self.rng.chance(0.7) { self.voters } else { self.members };
        let slot = self.rng.below(among as u64) as usize;
        let rival = self.random_member();
        self.plan.push((at, Fault::CrashMidway { slot, point: timing::crash_point(self.rng) }));
        self.campaign(at, rival);
        let mut back = self.moment_after(at, self.lease, 0.0, 0.8);
        let down = self.moment_after(at, self.lease, 0.0, 0.5);
        // After the storm nobody is to crash any more.
        if self.rng.chance(0.3) && down < Time::ZERO + Span::from_millis(STORM_END) {
            self.plan.push((down, Fault::Crash(slot)));
            self.plan.push((down, Fault::CrashMidway { slot, point: timing::crash_point(self.rng) }));
            back = self.moment_after(back.max(down), self.delay, 1.0, 2.0);
            self.plan.push((back, Fault::Recover { slot, disk: true }));
            back = self.moment_after(back, self.lease, 0.0, 0.5);
        }
        self.plan.push((back, Fault::Recover { slot, disk: true }));
    }

    /// Messages that arrive when the leases they are about are long over.
    fn late_messages(&mut self) {
        let (at, max) = (self.moment(), *self.rng.pick(&[20, 100, 300]).expect("there are some"));
        let end = self.moment_after(at, self.lease, 0.5, 8.0);
        self.plan.push((at, timing::late(self.rng, max, self.lease * MAX_LATE_LEASES)));
        self.plan.push((end, Fault::Late { probability: 0.0, max_delay: Span::ZERO }));
    }

    /// A spell in which messages take many times as long as everybody expects.
    fn slow_messages(&mut self) {
        let at = self.moment();
        let end = self.moment_after(at, self.lease, 0.3, 4.0);
        self.plan.push((at, Fault::Slow((2 + self.rng.below(MAX_SLOW_FACTOR - 1)) as f64)));
        self.plan.push((end, Fault::Slow(1.0)));
    }

    /// A pause about as long as a lease, or longer.
    fn pause(&mut self) {
        let (slot, at) = (self.random_member(), self.moment());
        let until = self.moment_after(at, self.lease, 0.5, 3.0);
        self.plan.push((at, Fault::Pause(slot, until)));
    }

    /// A pause in the middle of a contest: what was granted meanwhile is old when it is heard of.
    fn pause_during_campaign(&mut self) {
        let (slot, at) = (self.random_member(), self.moment());
        let from = self.moment_after(at, self.delay, 0.5, 4.0);
        let until = self.moment_after(from, self.lease, 0.5, 2.0);
        self.plan.push((from, Fault::Pause(slot, until)));
        self.campaign(at, slot);
    }

    /// Two begin, with the same token. One is paused when it is about to ask for a lease; the other leads and
    /// lets go, and just then the first goes on.
    fn pause_first_proposal(&mut self, scenario: &mut Scenario) {
        let [one, other] = [(); 2].map(|()| *self.rng.pick(&self.candidates).expect("somebody may lead"));
        scenario.initiators.retain(|&slot| slot == one || slot == other);
        let from = self.moment_after(Time::ZERO, self.delay, 0.2, 2.2);
        let done = self.moment_after(Time::ZERO, self.delay, 3.0, 8.0);
        let until = self.moment_after(done, self.delay, 0.2, 2.0);
        self.plan.push((from, Fault::Pause(one, until)));
        self.commands.push((
            Time::from_nanos(done.as_nanos() / TENTH * TENTH),
            other,
            Command::Resign.to_string(),
        ));
    }

    /// Power fails for most of the voters, and comes back soon; somebody sees a chance.
    fn power_failure(&mut self) {
        let at = self.moment();
        let back = self.moment_after(at, self.lease, 0.0, 0.5);
        let rival = self.random_member();
        for slot in 0..self.voters {
            if self.rng.chance(0.8) {
                self.plan.push((at, Fault::Crash(slot)));
                self.plan.push((back, Fault::Recover { slot, disk: true }));
            }
        }
        let soon = self.moment_after(back, self.delay, 0.0, 3.0);
        self.campaign(soon, rival);
    }

    /// Several want to lead at the same moment.
    fn concurrent_campaigns(&mut self) {
        let at = self.moment();
        for _ in 0..2 + self.rng.below(3) {
            let slot = self.random_member();
            self.campaign(at, slot);
        }
    }

    /// Somebody, who may lead, is alone for a while, and another wants to lead from the first moment on at
    /// which that can be.
    fn isolate_and_campaign(&mut self) {
        let (slot, at) = (self.random_member(), self.moment());
        let healed = self.cut(at, [Cut::isolating(self.members, slot)]);
        let rival = self.random_member();
        for part in 1..=6 {
            let next = at + self.lease.scale(f64::from(part) / 4.0);
            if next < healed {
                self.campaign(next, rival);
            }
        }
    }

    /// The partial partitions of the OmniPaxos paper (Ng, Haridi, Carbone 2023, section 2), and one that is
    /// heard but hears nobody, or the other way round.
    fn partial_partition(&mut self) {
        let members = self.members;
        let mut slots: Vec<usize> = (0..members).collect();
        self.rng.shuffle(&mut slots);
        let (one, other) = (slots[0], slots[members - 1]);
        let cuts = match self.rng.below(4) {
            0 => vec![Cut::chained(members, one, other)],
            1 => vec![Cut::hub(members, one)],
            2 => vec![Cut::hub(members, one), Cut::isolating(members, other)],
            _ => {
                let mut sides = [vec![one], slots[1..].to_vec()];
                sides.rotate_left(self.rng.below(2) as usize);
                vec![Cut::new(members, &sides, true)]
            }
        };
        let at = self.moment();
        self.cut(at, cuts);
    }

    /// The clock of one that does not vote jumps ahead: it takes its lease for shorter than it is.
    fn jump_ahead(&mut self) {
        let at = self.moment();
        if let Some(slot) = self.random_non_voter() {
            let by = Span::from_millis(1 + self.rng.below(100));
            self.plan.push((at, Fault::Jump { slot, by, back: false }));
        }
    }

    /// Nothing goes wrong with voters and messages; but others come and go, and all want to lead. Whoever
    /// leads and is well must not notice.
    fn challenge_stable_leader(&mut self, scenario: &mut Scenario) {
        let end = Time::ZERO + Span::from_millis(STORM_END);
        scenario.plan = vec![(end, Fault::HealAll)];
        scenario.commands.clear();
        scenario.loss = 0.0;
        // In time for sure; and so slow a renewal as to be missed is nobody's.
        if !matches!(scenario.latency, Latency::Const(_) | Latency::Uniform(..)) {
            scenario.latency = Latency::Uniform(Span::ZERO, Span::UNIT);
        }
        // By then whoever leads has renewed its lease, and if a voter that could not hear it has promised
        // another meanwhile, has prepared again: a renewal, its rejection, a preparation and a proposal, which
        // may be longer than a short lease.
        scenario.stable = Some(self.lease * 2);
        for _ in 0..10 + self.rng.below(20) {
            let (slot, at) = (self.random_member(), self.moment());
            self.campaign(at, slot);
        }
        for _ in 0..self.rng.below(4) {
            let Some(slot) = self.random_non_voter() else { return };
            let at = self.moment();
            let until = self.moment_after(at, self.lease, 0.3, 3.0);
            match self.rng.below(3) {
                0 => self.plan.push((at, Fault::Pause(slot, until))),
                1 => {
                    self.plan.push((at, Fault::Crash(slot)));
                    self.plan.push((until, Fault::Recover { slot, disk: true }));
                }
                _ => {
                    let other = self.random_member();
                    self.cut(at, [Cut::chained(self.members, slot, other)]);
                }
            }
        }
    }

    /// Whoever leads is told to stay, soon after it has begun to and again and again, though others become better.
    fn pin_all(&mut self, pin: &str, after: Span) {
        for rank in 0..4 {
            let (slot, at) = (self.random_member(), self.moment());
            self.plan.push((at, Fault::Rank(slot, 1_000 + rank)));
        }
        let step = (self.lease.as_nanos() / 4).max(TENTH) / TENTH * TENTH;
        let end = Time::ZERO + Span::from_millis(STORM_END) + after;
        for at in (0..end.as_nanos()).step_by(step as usize) {
            let commands = (0..self.members).map(|slot| (Time::from_nanos(at), slot, pin.to_string()));
            self.commands.extend(commands);
        }
    }

    /// A storm in which some of the voters, though fewer than half, lose their disks with every crash. All
    /// the others are there in the end, and reach each other: they are a majority.
    fn lose_disks(&mut self, scenario: &mut Scenario) {
        self.storm(scenario);
        let lost: Vec<usize> = {
            let mut slots: Vec<usize> = (0..self.voters).collect();
            self.rng.shuffle(&mut slots);
            slots[..1 + self.rng.below((self.voters as u64 - 1) / 2) as usize].to_vec()
        };
        let end = Time::ZERO + Span::from_millis(STORM_END);
        scenario.plan.retain(|(at, fault)| *at < end || !matches!(fault, Fault::Cut(..)));
        for _ in 0..1 + self.rng.below(3) {
            self.lose_disks_at_takeover(&lost);
        }
        self.plan.extend((0..self.voters).map(|slot| (end, Fault::Recover { slot, disk: true })));
        // A crash in the middle of an input comes at any time later, and there may be no recovery after it.
        let stays = |(_, fault): &(Time, Fault)| !matches!(fault, Fault::CrashMidway { slot, .. } if *slot < self.voters && !lost.contains(slot));
        scenario.plan.retain(stays);
        self.plan.retain(stays);
        for (_, fault) in scenario.plan.iter_mut().chain(&mut self.plan) {
            if let Fault::Recover { slot, disk } = fault {
                *disk = !lost.contains(slot);
            }
        }
    }

    /// Voters lose their disks at the moment when it matters most: some others have been away, and know nothing
    /// of the latest leader; now they are back, those who do know are cut off with it, and somebody wants to
    /// lead. With those who forgot, the others would be a majority.
    fn lose_disks_at_takeover(&mut self, lost: &[usize]) {
        let mut kept: Vec<usize> = (0..self.voters).filter(|slot| !lost.contains(slot)).collect();
        self.rng.shuffle(&mut kept);
        let (absent, informed) = kept.split_at((self.voters / 2 + 1 - lost.len()).min(kept.len()));
        let at = self.moment();
        let switch = self.moment_after(at, self.lease, 1.2, 2.0);
        let back = self.moment_after(switch, self.delay, 0.0, 2.0);
        let members = self.members;
        let rest = |side: &[usize]| (0..members).filter(|slot| !side.contains(slot)).collect();
        let before = Cut::new(members, &[absent.to_vec(), rest(absent)], false);
        // The leader may be any of those who do not vote.
        let mut leader_side = informed.to_vec();
        leader_side.extend((self.voters..self.members).filter(|_| self.rng.chance(0.5)));
        let after = Cut::new(members, &[leader_side.clone(), rest(&leader_side)], false);
        self.cut_until(at, switch, before);
        let healed = self.moment_after(switch, self.lease, 0.5, 1.5);
        self.cut_until(switch, healed, after);
        for &slot in lost {
            self.plan.extend([(switch, Fault::Crash(slot)), (back, Fault::Recover { slot, disk: false })]);
        }
        let rivals: Vec<usize> = rest(&leader_side);
        for _ in 0..3 {
            let rival = *self.rng.pick(&rivals).expect("those who forgot are among them");
            let soon = self.moment_after(back, self.delay, 0.0, 6.0);
            self.campaign(soon, rival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TortureCase, TortureTarget};
    use std::collections::BTreeSet;
    use suffrage_core::Algorithm;
    use suffrage_lease::QuorumLease;

    /// Nothing is asked of leases that they do not claim: the rules of the module's text, for every case.
    #[test]
    fn faults_stay_within_what_leases_claim() {
        let (mut stable, mut disks_lost, mut jumped, mut several) = (0, 0, 0, 0);
        let (mut midway, mut late, mut slow, mut large, mut small, mut pinned) = (0, 0, 0, 0, 0, 0);
        for seed in 0..3_000 {
            let TortureCase { scenario, options, .. } = TortureTarget::<QuorumLease>::default().case(seed);
            let voters = options.voters.min(scenario.roster.len());
            assert!(scenario.drift <= options.drift.fraction(), "seed {seed}");
            let mut lost = BTreeSet::new();
            for (at, fault) in &scenario.plan {
                assert!(*at <= Time::ZERO + Span::from_millis(STORM_END), "seed {seed}");
                match fault {
                    Fault::Jump { slot, back, .. } => {
                        assert!(*slot >= voters && !back, "seed {seed}");
                        jumped += 1;
                    }
                    Fault::Recover { slot, disk: false } => {
                        assert!(*slot < voters, "seed {seed}");
                        lost.insert(*slot);
                    }
                    Fault::Crash(slot) if scenario.stable.is_some() => {
                        assert!(*slot >= voters, "seed {seed}")
                    }
                    Fault::CrashMidway { .. } => {
                        assert!(scenario.stable.is_none(), "seed {seed}");
                        midway += 1;
                    }
                    Fault::Late { probability, max_delay } => {
                        assert!(scenario.stable.is_none(), "seed {seed}");
                        let lease = scenario.bound() * options.ttl;
                        // Drawn before a delay bound that is too small.
                        let bound = scenario.bound().max(scenario.latency.bound() * MAX_SLOW_FACTOR);
                        let longest = (lease * MAX_LATE_LEASES).max(bound * timing::MAX_LATE_BOUNDS);
                        assert!(*max_delay <= longest + Span::UNIT, "seed {seed}");
                        late += usize::from(*probability > 0.0 && *max_delay > lease * 6);
                    }
                    Fault::Slow(factor) => {
                        assert!(scenario.stable.is_none(), "seed {seed}");
                        assert!((1.0..=MAX_SLOW_FACTOR as f64).contains(factor), "seed {seed}");
                        slow += usize::from(*factor > 15.0);
                    }
                    _ => {}
                }
            }
            assert!(lost.len() <= (voters.max(1) - 1) / 2, "seed {seed}: a minority");
            disks_lost += usize::from(!lost.is_empty());
            several += usize::from(QuorumLease::elections(&options) > 1);
            let (bound, real) = (scenario.bound(), scenario.latency.bound());
            large += usize::from(bound >= real * 15);
            small += usize::from(bound * 15 <= real);
            // A round trip fits into the longest round, by the fastest clock.
            let round_trip = (real * 2).scale(1.0 + options.drift.fraction());
            assert!(
                bound >= real || round_trip * 4 <= bound * options.ttl + Span::from_nanos(1_000),
                "seed {seed}"
            );
            if scenario.stable.is_some() {
                stable += 1;
                assert!(scenario.loss == 0.0, "seed {seed}");
                let commands = &scenario.commands;
                let pins = commands.iter().filter(|(_, _, command)| command == "pin").count();
                let calls = commands.iter().filter(|(_, _, command)| command == "campaign").count();
                assert_eq!(calls + pins, commands.len(), "seed {seed}");
                assert_eq!(pins > 0, options.failback.is_some(), "seed {seed}");
                pinned += usize::from(pins > 0);
            }
        }
        for count in [stable, disks_lost, jumped, several] {
            assert!(count > 100, "{stable} {disks_lost} {jumped} {several}");
        }
        for count in [midway, late, slow, large, pinned] {
            assert!(count > 50, "{midway} {late} {slow} {large} {pinned}");
        }
        assert!(small > 5, "{small}");
    }

    /// Clocks that drift beyond the bound are used only if somebody asks for it.
    #[test]
    fn drift_is_as_asked() {
        let target = TortureTarget::<QuorumLease> { drift: Some(0.3), ..TortureTarget::default() };
        let drifts: Vec<f64> = (0..50).map(|seed| target.case(seed).scenario.drift).collect();
        assert!(drifts.contains(&0.3) && drifts.iter().all(|&drift| drift <= 0.3));
    }
}
