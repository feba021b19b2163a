//! Random changes of the voters in a torture, with the faults that go with them.
//!
//! Most mistakes in changes of the voters need several steps in a certain order: a leader that hears of no change, two
//! changes within its lease, and a rival. Random commands rarely meet them, so there are plots besides random changes:
//! [`succession`](ChangeStorm::succession), [`division`](ChangeStorm::division), [`race`](ChangeStorm::race) and
//! [`lost_disks`](ChangeStorm::lost_disks). All moments of a plot are random, also their order.
//!
//! All faults are within the promise. A node that lost its disk comes back without a vote, and a minority of the voters
//! does. A disk that is restored from an older copy is not drawn: it is a lost disk, and its voter does not know.

use suffrage_core::{CommandStorm, Disruption, NodeId, Span, Time};

use super::{Options, TENTH};
use suffrage_lease::{Action, CandidateConfig, Command, VoterChange};

/// Draws changes of the voters.
pub(super) fn changes(options: &Options, storm: &mut CommandStorm<'_>) -> Vec<(Time, usize, Command)> {
    let nodes = options.nodes(storm.roster.len());
    let voters = options.voters.min(nodes);
    let mut changes = ChangeStorm { options, storm, nodes, voters, commands: Vec::new() };
    // Clients lead through nodes, which stand for them only. A plot takes some leases.
    let fits = changes.lease() * 2 < changes.storm.end.since(Time::ZERO);
    let kinds = if options.clients == 0 && nodes > voters && fits { 12 } else { 5 };
    match changes.below(kinds) {
        0 | 1 => changes.random_changes(),
        2 | 3 => changes.migration(),
        4 if voters > 2 => changes.lost_disks(),
        4 => changes.random_changes(),
        5..=8 => changes.succession(),
        9 | 10 if voters <= 2 => changes.division(),
        _ => changes.race(),
    }
    changes.commands
}

struct ChangeStorm<'d, 'o> {
    options: &'d Options,
    storm: &'d mut CommandStorm<'o>,
    /// The number of nodes, which are the first slots.
    nodes: usize,
    /// The number of founders, which are the first nodes.
    voters: usize,
    commands: Vec<(Time, usize, Command)>,
}

impl ChangeStorm<'_, '_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.storm.rng.below(bound)
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.storm.rng.chance(probability)
    }

    fn id(&self, slot: usize) -> NodeId {
        self.storm.roster.id(slot)
    }

    /// A random node.
    fn node(&mut self) -> usize {
        self.below(self.nodes as u64) as usize
    }

    /// A random node that may stand and is none of these.
    fn candidate(&mut self, except: &[usize]) -> Option<usize> {
        let first = self.options.candidates.map_or(0, |_| self.voters);
        let slots: Vec<usize> = (first..self.nodes).filter(|slot| !except.contains(slot)).collect();
        (!slots.is_empty()).then(|| slots[self.below(slots.len() as u64) as usize])
    }

    /// The length of a lease.
    fn lease(&self) -> Span {
        self.options.timings(self.storm.delay).ttl
    }

    /// A random moment of the storm.
    fn moment(&mut self) -> Time {
        self.after(Time::ZERO, self.storm.end.since(Time::ZERO), 0.0, 1.0)
    }

    /// The time `at` plus a random multiple of `span` from `min` to `max`, in tenths of a time unit, before the storm ends.
    fn after(&mut self, at: Time, span: Span, min: f64, max: f64) -> Time {
        let factor = min + self.storm.rng.unit() * (max - min);
        let later = at + span.scale(factor);
        let last = self.storm.end.as_nanos().saturating_sub(TENTH);
        Time::from_nanos((later.as_nanos() / TENTH * TENTH).min(last))
    }

    /// [`after`](Self::after) with a multiple of the network's usual delay.
    fn soon(&mut self, at: Time, min: f64, max: f64) -> Time {
        let latency = self.storm.latency;
        self.after(at, latency, min, max)
    }

    fn push(&mut self, at: Time, slot: usize, action: Action) {
        self.commands.push((at, slot, action.in_all()));
    }

    fn change(&mut self, at: Time, coordinator: usize, change: VoterChange) {
        self.push(at, coordinator, Action::ChangeVoters(change));
    }

    fn disrupt(&mut self, at: Time, disruption: Disruption) {
        self.storm.disruptions.push((at, disruption));
    }

    /// A change whose coordinator may be told to stop, be paused, or crash at any of its first effects.
    fn disturbed_change(&mut self, at: Time, coordinator: usize, change: VoterChange) {
        self.change(at, coordinator, change);
        let (soon, lease) = (self.soon(at, 0.0, 10.0), self.lease());
        let later = self.after(soon, lease, 0.0, 1.5);
        match self.below(8) {
            0 => self.push(soon, coordinator, Action::StopChange),
            1 => self.disrupt(soon, Disruption::Pause { slot: coordinator, until: later }),
            2 => {
                let effects = self.below(12) as u32;
                self.disrupt(at, Disruption::CrashMidway { slot: coordinator, effects, back: later });
            }
            3 => self.disrupt(soon, Disruption::Restart { slot: coordinator, back: later, disk: true }),
            _ => {}
        }
    }

    /// Changes by random coordinators, often by two at the same time.
    fn random_changes(&mut self) {
        for _ in 0..1 + self.below(6) {
            let (mut at, target) = (self.moment(), self.node());
            for _ in 0..1 + self.below(2) {
                let (coordinator, id) = (self.node(), self.id(target));
                let change = match self.below(10) {
                    0 => VoterChange::Adopt,
                    1 => VoterChange::AdoptWithout(id),
                    2..=5 => VoterChange::Add(id),
                    _ => VoterChange::Remove(id),
                };
                self.disturbed_change(at, coordinator, change);
                let lease = self.lease();
                at = self.after(at, lease, 0.0, 2.0);
            }
        }
    }

    /// Replaces voters by other nodes, one after the other and as quickly as it goes. Each change has a random
    /// coordinator, or all have the same, where a change often supersedes the one before.
    fn migration(&mut self) {
        let mut others: Vec<usize> = (self.voters..self.nodes).collect();
        self.storm.rng.shuffle(&mut others);
        let mut at = self.moment();
        let only = self.chance(0.5).then(|| self.node());
        // A change takes about ten delays. Quicker than the leases of the versions before have expired, or not.
        let (span, least, most) = match self.below(2) {
            0 => (self.storm.latency, 8.0, 20.0),
            _ => (self.lease(), 0.0, 2.0),
        };
        for (old, new) in (0..self.voters).zip(others) {
            let mut steps = [VoterChange::Add(self.id(new)), VoterChange::Remove(self.id(old))];
            // A voter that does not answer is removed first.
            if self.chance(0.3) {
                steps.reverse();
            }
            for change in steps {
                let coordinator = only.unwrap_or_else(|| self.node());
                self.disturbed_change(at, coordinator, change);
                at = self.after(at, span, least, most);
            }
        }
    }

    /// Some nodes lose their disks, again and again. They are removed and added, and other nodes are added. Fewer than
    /// half of the founders lose a disk or are removed, so that the others are a majority of every configuration.
    fn lost_disks(&mut self) {
        let mut slots: Vec<usize> = (0..self.nodes).collect();
        self.storm.rng.shuffle(&mut slots);
        let count = 1 + self.below((self.voters as u64 - 1) / 2) as usize;
        let lost = &slots[..count];
        let lease = self.lease();
        for _ in 0..1 + self.below(4) {
            let slot = lost[self.below(count as u64) as usize];
            let at = self.moment();
            let back = self.after(at, lease, 0.0, 1.0);
            self.disrupt(at, Disruption::Restart { slot, back, disk: false });
            // Rivals ask the voter that has forgotten its grants.
            let (rival, soon) = (self.candidate(&[]), self.soon(back, 0.0, 6.0));
            if let Some(rival) = rival {
                self.push(soon, rival, Action::Campaign);
            }
            let mut at = self.after(back, lease, 0.0, 0.5);
            for _ in 0..1 + self.below(3) {
                let (coordinator, id, other) = (self.node(), self.id(slot), self.node());
                let change = match self.below(8) {
                    0 => VoterChange::Adopt,
                    1 => VoterChange::AdoptWithout(id),
                    2..=4 => VoterChange::Remove(id),
                    5 | 6 => VoterChange::Add(id),
                    _ => VoterChange::Add(self.id(other)),
                };
                self.disturbed_change(at, coordinator, change);
                at = self.after(at, lease, 0.0, 1.0);
            }
        }
    }

    /// Begins a plot: no other faults, and no node stands. As soon as all have found their cluster, all but one leave all
    /// elections. At the end they join again. Returns the moment by which they have left.
    fn begin_plot(&mut self, leader: Option<usize>) -> Time {
        self.storm.alone = true;
        let gap = self.options.timings(self.storm.delay).gap;
        let enquired = self.after(Time::ZERO, gap, 1.2, 1.5);
        let left = self.soon(enquired, 2.0, 4.0);
        let end = self.storm.end;
        for slot in 0..self.nodes {
            self.push(Time::ZERO, slot, Action::Withdraw);
            if Some(slot) != leader {
                self.push(left, slot, Action::Leave);
            }
            self.push(end, slot, Action::Join(None));
            self.push(end, slot, Action::Stand { once: false });
        }
        left
    }

    /// Nodes that know no token join all elections around this moment.
    fn join_rivals(&mut self, at: Time, except: &[usize]) {
        for _ in 0..1 + self.below(3) {
            let Some(slot) = self.candidate(except) else { return };
            let soon = self.soon(at, 0.0, 8.0);
            self.push(soon, slot, Action::Join(None));
            let again = self.soon(soon, 1.0, 12.0);
            self.push(again, slot, Action::Campaign);
        }
    }

    /// A leader hears of no change, or leaves. Then all voters are replaced, quicker than its lease expires or not, and
    /// other nodes campaign.
    fn succession(&mut self) {
        let newcomers: Vec<usize> = (self.voters..self.nodes).collect();
        let leader = self.candidate(&[]).filter(|_| self.chance(0.9));
        let lease = self.lease();
        let mut at = self.begin_plot(leader);
        let only = self.chance(0.5).then(|| self.node());
        let adopts = only.unwrap_or_else(|| self.node());
        self.change(at, adopts, VoterChange::Adopt);
        at = self.soon(at, 9.0, 16.0);
        if let Some(leader) = leader {
            self.push(at, leader, Action::Stand { once: false });
            at = self.soon(at, 8.0, 20.0);
            self.retire(at, leader);
        }
        let quick = self.chance(0.7);
        for old in 0..self.voters {
            let new = newcomers[self.below(newcomers.len() as u64) as usize];
            for change in [VoterChange::Add(self.id(new)), VoterChange::Remove(self.id(old))] {
                let coordinator = match only {
                    Some(only) => only,
                    None if self.chance(0.5) => new,
                    None => old,
                };
                self.change(at, coordinator, change);
                at = match quick {
                    true => self.soon(at, 6.0, 14.0),
                    false => self.after(at, lease, 0.8, 1.4),
                };
                if self.chance(0.4) {
                    let (slot, down) = (if self.chance(0.7) { old } else { new }, at);
                    at = self.soon(down, 0.0, 3.0);
                    self.disrupt(down, Disruption::Restart { slot, back: at, disk: true });
                    at = self.soon(at, 0.0, 3.0);
                }
            }
            self.join_rivals(at, leader.as_slice());
        }
        let late = self.after(at, lease, 0.0, 1.0);
        self.join_rivals(late, &[]);
    }

    /// The leader is separated from all others for about a lease, is paused, or leaves; or it leads on.
    fn retire(&mut self, at: Time, leader: usize) {
        let lease = self.lease();
        let until = self.after(at, lease, 0.8, 2.0);
        match self.below(6) {
            0..=2 => {
                let one_way = self.chance(0.3);
                self.disrupt(at, Disruption::Separate { slots: vec![leader], until, one_way });
            }
            3 => self.push(at, leader, Action::Leave),
            4 => {
                let soon = self.soon(at, 0.0, 20.0);
                self.push(soon, leader, Action::Leave);
            }
            _ => {}
        }
    }

    /// A voter is removed, and does not hear of it, nor does a candidate on its side. Another candidate leads on the other
    /// side and dies. When its lease is over, the sides meet again.
    fn division(&mut self) {
        let (lease, delay) = (self.lease(), self.storm.delay);
        let mut at = self.begin_plot(None);
        let stays = if self.voters > 1 { 1 } else { self.voters };
        self.change(at, stays, VoterChange::Add(self.id(stays)));
        at = self.soon(at, 14.0, 24.0);
        self.change(at, stays, VoterChange::Remove(self.id(0)));
        let cut = self.soon(at, 2.0, 6.0);
        let (Some(other), elected) = (self.candidate(&[0, stays]), self.soon(cut, 3.0, 10.0)) else { return };
        let Some(dies) = self.candidate(&[0, stays, other]) else { return };
        // Candidates only observe before they campaign, so that they know the configuration of their side.
        let config = CandidateConfig { ttl: lease, standing: false, ..CandidateConfig::default() };
        self.push(elected, dies, Action::Join(Some(config)));
        let observed = self.after(elected, delay, 6.5, 9.0);
        let campaigns = self.soon(observed, 4.0, 8.0);
        self.push(campaigns, dies, Action::Campaign);
        let dead = self.soon(campaigns, 5.0, 12.0);
        self.disrupt(dead, Disruption::Restart { slot: dies, back: self.storm.end, disk: true });
        let healed = self.after(dead, lease, 1.0, 1.3);
        self.disrupt(cut, Disruption::Separate { slots: vec![0, other], until: healed, one_way: true });
        let joins = self.soon(cut, 0.5, 3.0);
        self.push(joins, other, Action::Join(Some(config)));
        self.push(healed, other, Action::Campaign);
    }

    /// A coordinator is paused, or cut off, while another one makes another change.
    fn race(&mut self) {
        let mut at = self.begin_plot(None);
        let first = self.node();
        self.change(at, first, VoterChange::Adopt);
        at = self.soon(at, 10.0, 20.0);
        let second = self.node();
        // Voters accept three or five messages after the command.
        let slow = self.soon(at, 2.0, 7.0);
        let until = self.soon(slow, 10.0, 40.0);
        for coordinator in [first, second] {
            let change = match self.below(2) {
                0 => {
                    let new = self.voters as u64 + self.below((self.nodes - self.voters) as u64);
                    VoterChange::Add(self.id(new as usize))
                }
                _ => {
                    let old = self.below(self.voters as u64);
                    VoterChange::Remove(self.id(old as usize))
                }
            };
            self.change(at, coordinator, change);
            at = self.soon(at, 0.0, 12.0);
        }
        match self.below(3) {
            0 => self.disrupt(slow, Disruption::Separate { slots: vec![first], until, one_way: true }),
            _ => self.disrupt(slow, Disruption::Pause { slot: first, until }),
        }
        let joined = self.soon(until, 0.0, 10.0);
        self.join_rivals(joined, &[]);
    }
}
