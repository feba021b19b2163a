//! Faults that are hard on leases: a holder loses contact for about as long as its lease lasts, while a rival waits.
//!
//! All faults are within the claims of such algorithms. Disks are kept; only in separate cases a minority of the voters
//! loses them. Clocks drift up to the bound. The clock of a process on which nobody relies may jump ahead, which only
//! shortens its own lease.

use suffrage_core::{Command, Leases, Rng, Span, Time};

use super::{MAX_SLOW_FACTOR, STORM_END, TENTH, timing};
use crate::{Cut, Detector, Fault, Latency, Plan, Scenario};

/// The greatest additional delay of a message, in leases.
const MAX_LATE_LEASES: u64 = 12;
/// The longest time of a save, in leases.
const MAX_SAVE_LEASES: u64 = 2;

/// The roles, by slot.
pub(super) struct Roles {
    /// The number of voters: the first slots.
    pub(super) voters: usize,
    /// The slots that may lead.
    pub(super) candidates: Vec<usize>,
}

/// Adds faults that are hard on leases to a scenario.
pub(super) fn add_lease_faults(
    rng: &mut Rng,
    scenario: &mut Scenario,
    leases: &Leases,
    roles: Roles,
    drift: f64,
) {
    // Lease algorithms detect failures by their clocks alone.
    scenario.detector = Detector::None;
    scenario.drift = *rng.pick(&[0.0, drift / 2.0, drift, drift]).expect("there are some");
    // In a network that loses every other message nobody ever holds a lease, so high loss is not always drawn.
    let max = *rng.pick(&[0.0, 0.1, 0.5]).expect("there are some");
    scenario.loss = super::thousandths(rng, max);
    scenario.plan.retain(|(_, fault)| !matches!(fault, Fault::Jump { .. }));
    let kind = rng.below(6);
    // Separate random numbers, so that the other faults do not change.
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
    // Separate random numbers, so that the other faults do not change.
    let disks_rng = &mut Rng::new(suffrage_core::Hash::new(scenario.seed).word(12));
    if scenario.stable.is_none() {
        faults.plan.extend(timing::slow_disks(disks_rng, faults.lease * MAX_SAVE_LEASES));
    }
    scenario.plan.extend(faults.plan);
    scenario.commands.extend(faults.commands);
}

struct LeaseFaults<'r> {
    rng: &'r mut Rng,
    members: usize,
    voters: usize,
    candidates: Vec<usize>,
    /// The delay bound of the network.
    delay: Span,
    lease: Span,
    plan: Plan,
    commands: Vec<(Time, usize, String)>,
    /// The number of cuts so far.
    cuts: usize,
}

impl LeaseFaults<'_> {
    /// A random time in the storm, at least 20 time units before its end.
    fn moment(&mut self) -> Time {
        Time::ZERO + Span::from_units(self.rng.unit() * (STORM_END - 20) as f64)
    }

    /// The time `at` plus a random multiple of `span` from `min` to `max`; not after the storm.
    fn moment_after(&mut self, at: Time, span: Span, min: f64, max: f64) -> Time {
        let factor = min + self.rng.unit() * (max - min);
        (at + span.scale(factor)).min(Time::ZERO + Span::from_millis(STORM_END))
    }

    fn random_member(&mut self) -> usize {
        self.rng.below(self.members as u64) as usize
    }

    /// A random candidate that does not vote, if there is one: nobody relies on its clock. A node that leads for clients
    /// is not a candidate itself, and its clients rely on its clock.
    fn random_non_voter(&mut self) -> Option<usize> {
        let non_voters: Vec<usize> =
            self.candidates.iter().copied().filter(|&slot| slot >= self.voters).collect();
        if non_voters.is_empty() { None } else { self.rng.pick(&non_voters).copied() }
    }

    /// Has a process campaign: this one, or if it may not lead, a random candidate.
    fn campaign(&mut self, at: Time, slot: usize) {
        let may_lead = self.candidates.contains(&slot);
        let slot = if may_lead { slot } else { *self.rng.pick(&self.candidates).expect("somebody may lead") };
        // Rounded to a tenth, to be readable on a command line.
        let at = Time::from_nanos(at.as_nanos() / TENTH * TENTH);
        self.commands.push((at, slot, Command::Campaign.to_string()));
    }

    /// Cuts that last for one to a few leases.
    fn cut(&mut self, at: Time, cuts: impl IntoIterator<Item = Cut>) -> Time {
        let healed = self.moment_after(at, self.lease, 0.7, 4.0);
        cuts.into_iter().for_each(|cut| self.cut_until(at, healed, cut));
        healed
    }

    fn cut_until(&mut self, at: Time, healed: Time, cut: Cut) {
        if at >= Time::ZERO + Span::from_millis(STORM_END) {
            return;
        }
        // The scenario's own cuts have smaller numbers.
        let name = 1_000 + self.cuts;
        self.cuts += 1;
        self.plan.push((at, Fault::Cut(name, cut)));
        if healed < Time::ZERO + Span::from_millis(STORM_END) {
            self.plan.push((healed, Fault::Heal(name)));
        }
    }

    /// Faults of all kinds, one after the other or at once.
    fn storm(&mut self, scenario: &mut Scenario) {
        // Long faults leave too few processes to contend for leases; so they are removed in most cases.
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

    /// A crash that is shorter than the leases granted before it.
    fn flap(&mut self) {
        let (slot, at) = (self.random_member(), self.moment());
        let back = self.moment_after(at, self.lease, 0.0, 0.8);
        self.plan.push((at, Fault::Crash(slot)));
        self.plan.push((back, Fault::Recover { slot, disk: true }));
        if self.rng.chance(0.5) {
            self.campaign(back, slot);
        }
    }

    /// A crash in the middle of an input, most often of a voter, while a candidate campaigns; perhaps another crash after
    /// the recovery, which is soon.
    fn crash_midway(&mut self) {
        let at = if self.rng.chance(0.3) { Time::ZERO } else { self.moment() };
        let among = if self.rng.chance(0.7) { self.voters } else { self.members };
        let slot = self.rng.below(among as u64) as usize;
        let rival = self.random_member();
        self.plan.push((at, Fault::CrashMidway { slot, point: timing::crash_point(self.rng) }));
        self.campaign(at, rival);
        let mut back = self.moment_after(at, self.lease, 0.0, 0.8);
        let down = self.moment_after(at, self.lease, 0.0, 0.5);
        // No process crashes after the storm.
        if self.rng.chance(0.3) && down < Time::ZERO + Span::from_millis(STORM_END) {
            self.plan.push((down, Fault::Crash(slot)));
            self.plan.push((down, Fault::CrashMidway { slot, point: timing::crash_point(self.rng) }));
            back = self.moment_after(back.max(down), self.delay, 1.0, 2.0);
            self.plan.push((back, Fault::Recover { slot, disk: true }));
            back = self.moment_after(back, self.lease, 0.0, 0.5);
        }
        self.plan.push((back, Fault::Recover { slot, disk: true }));
    }

    /// Messages that arrive long after the end of the leases that they concern.
    fn late_messages(&mut self) {
        let (at, max) = (self.moment(), *self.rng.pick(&[20, 100, 300]).expect("there are some"));
        let end = self.moment_after(at, self.lease, 0.5, 8.0);
        self.plan.push((at, timing::late(self.rng, max, self.lease * MAX_LATE_LEASES)));
        self.plan.push((end, Fault::Late { probability: 0.0, max_delay: Span::ZERO }));
    }

    /// A period in which messages take many times the assumed delay bound.
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

    /// A pause in the middle of a campaign: grants are old when the candidate handles them.
    fn pause_during_campaign(&mut self) {
        let (slot, at) = (self.random_member(), self.moment());
        let from = self.moment_after(at, self.delay, 0.5, 4.0);
        let until = self.moment_after(from, self.lease, 0.5, 2.0);
        self.plan.push((from, Fault::Pause(slot, until)));
        self.campaign(at, slot);
    }

    /// Two candidates begin with the same token. One is paused before its proposal; the other leads and resigns, and just
    /// then the first resumes.
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

    /// Most of the voters crash at once and recover soon, and a rival campaigns.
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

    /// Several candidates campaign at the same moment.
    fn concurrent_campaigns(&mut self) {
        let at = self.moment();
        for _ in 0..2 + self.rng.below(3) {
            let slot = self.random_member();
            self.campaign(at, slot);
        }
    }

    /// A process, perhaps the leader, is isolated for a while, and a rival campaigns several times, from the earliest
    /// moment at which it can win.
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

    /// The partial partitions of the OmniPaxos paper (Ng, Haridi, Carbone 2023, section 2), and one-way cuts of a single
    /// process in either direction.
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

    /// The clock of a process that does not vote jumps ahead: the process takes its lease for shorter than it is.
    fn jump_ahead(&mut self) {
        let at = self.moment();
        if let Some(slot) = self.random_non_voter() {
            let by = Span::from_millis(1 + self.rng.below(100));
            self.plan.push((at, Fault::Jump { slot, by, back: false }));
        }
    }

    /// Voters and messages are healthy, but other processes come and go, and all campaign. A healthy leader must not be
    /// affected.
    fn challenge_stable_leader(&mut self, scenario: &mut Scenario) {
        let end = Time::ZERO + Span::from_millis(STORM_END);
        scenario.plan = vec![(end, Fault::HealAll)];
        scenario.commands.clear();
        scenario.loss = 0.0;
        // With an absolute bound, no renewal is so late that a healthy leader loses its lease.
        if !matches!(scenario.latency, Latency::Const(_) | Latency::Uniform(..)) {
            scenario.latency = Latency::Uniform(Span::ZERO, Span::UNIT);
        }
        // By then a leader has renewed its lease. If an unreachable voter has made a promise to a rival, the leader has
        // prepared again: a renewal, its rejection, a preparation and a proposal, which can take longer than a short
        // lease.
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

    /// All processes get `pin` commands again and again, so that the leader stays although others become better.
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

    /// A storm in which a minority of the voters loses the disk with every crash. In the end all other voters are up and
    /// connected: they are a majority.
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
        // A crash in the middle of an input can come at any later time, perhaps after the last recovery.
        let stays = |(_, fault): &(Time, Fault)| !matches!(fault, Fault::CrashMidway { slot, .. } if *slot < self.voters && !lost.contains(slot));
        scenario.plan.retain(stays);
        self.plan.retain(stays);
        for (_, fault) in scenario.plan.iter_mut().chain(&mut self.plan) {
            if let Fault::Recover { slot, disk } = fault {
                *disk = !lost.contains(slot);
            }
        }
    }

    /// Voters lose their disks at the worst moment. Some other voters were cut off and do not know the latest leader. Then
    /// they are back, the voters that know the leader are cut off together with it, and rivals campaign. With the voters
    /// that lost their disks, the uninformed voters would be a majority.
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
        // The leader may be any process that does not vote.
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
            let rival = *self.rng.pick(&rivals).expect("the voters that lost their disks are among them");
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
    use suffrage_algorithms::quorum_lease::QuorumLease;
    use suffrage_core::Algorithm;

    /// The rules of the module's text hold for every case.
    #[test]
    fn faults_stay_within_what_leases_claim() {
        let (mut stable, mut disks_lost, mut jumped, mut several) = (0, 0, 0, 0);
        let (mut midway, mut late, mut slow, mut large, mut small, mut pinned) = (0, 0, 0, 0, 0, 0);
        for seed in 0..6_000 {
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
                        assert!(*slot < voters || options.changes, "seed {seed}");
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
                        // The lateness is drawn before a delay bound that is too small.
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

    /// Clocks drift beyond the bound only if the caller sets it.
    #[test]
    fn drift_is_as_asked() {
        let target = TortureTarget::<QuorumLease> { drift: Some(0.3), ..TortureTarget::default() };
        let drifts: Vec<f64> = (0..50).map(|seed| target.case(seed).scenario.drift).collect();
        assert!(drifts.contains(&0.3) && drifts.iter().all(|&drift| drift <= 0.3));
    }
}
