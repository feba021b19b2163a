//! The state of a world that does not depend on the algorithm: statuses, network, clocks, counts, invariants.
//!
//! This module is compiled once. The handling of messages and timers depends on the algorithm: it is in
//! [`environment`](crate::environment), which is compiled for each.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash as _;

use suffrage_core::{Announcement, Hash, NodeId, Rng, Roster, Span, Time};

use crate::clocks::Clocks;
use crate::facts::Status;
use crate::invariants::Change;
use crate::network::Network;
use crate::observer::{DropReason, TracedMessage};
use crate::{CrashPoint, Facts, Fault, Invariant, Latency, Ledger, Observer, TraceEvent, Violation};

/// An election besides the first: its ledger and its invariants.
pub(crate) struct ExtraElection {
    pub(crate) ledger: Ledger,
    pub(crate) invariants: Vec<Box<dyn Invariant>>,
}

/// The state of a world that does not depend on the algorithm.
pub(crate) struct WorldState {
    pub(crate) now: Time,
    pub(crate) network: Network,
    statuses: Vec<Status>,
    /// The number of processes that are not up. If it is zero, [`status`](WorldState::status) reads nothing else.
    impaired: usize,
    /// The paused processes, each with the end of its pause.
    pub(crate) pauses: BTreeMap<usize, Time>,
    /// The processes that are to crash in the middle of an input, each with the point.
    pub(crate) pending_crashes: BTreeMap<usize, CrashPoint>,
    /// The random numbers of the processes; the network has its own.
    pub(crate) rng: Rng,
    pub(crate) clocks: Clocks,
    /// The longest time of a save that a process does not wait for.
    pub(crate) save_delay: Span,
    /// The random numbers of the disks.
    pub(crate) disk_rng: Rng,
    pub(crate) delay_bound: Span,
    /// True if the bytes of messages are counted.
    pub(crate) counts_bytes: bool,
    /// True if there is an observer, or bytes are counted: one test on the hot path for both.
    pub(crate) inspects_sends: bool,
    pub(crate) ledger: Ledger,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) invariants: Vec<Box<dyn Invariant>>,
    /// The elections besides the first, if processes take part in several.
    pub(crate) extra_elections: Vec<ExtraElection>,
    pub(crate) ineligible: BTreeSet<usize>,
}

impl WorldState {
    /// The state of `count` processes that send `kinds` kinds of messages.
    pub(crate) fn new(count: usize, kinds: usize, seed: u64, latency: Latency) -> Self {
        let seeds = Hash::new(seed);
        WorldState {
            now: Time::ZERO,
            network: Network::new(latency, seeds.word(0)),
            statuses: vec![Status::Up; count],
            impaired: 0,
            pauses: BTreeMap::new(),
            pending_crashes: BTreeMap::new(),
            rng: Rng::new(seeds.word(1)),
            clocks: Clocks::new(seeds.word(2)),
            save_delay: Span::ZERO,
            disk_rng: Rng::new(seeds.word(13)),
            delay_bound: latency.bound(),
            counts_bytes: false,
            inspects_sends: false,
            ledger: Ledger::of(count, kinds),
            observer: None,
            invariants: Vec::new(),
            extra_elections: Vec::new(),
            ineligible: BTreeSet::new(),
        }
    }

    pub(crate) fn facts<'a>(&'a self, roster: &'a Roster) -> Facts<'a> {
        self.facts_in(roster, &self.ledger)
    }

    /// The true state of the election of this ledger.
    pub(crate) fn facts_in<'a>(&'a self, roster: &'a Roster, ledger: &'a Ledger) -> Facts<'a> {
        Facts {
            now: self.now,
            roster,
            statuses: &self.statuses,
            network: &self.network,
            clocks: &self.clocks,
            ledger,
            ineligible: &self.ineligible,
        }
    }

    #[inline]
    pub(crate) fn status(&self, slot: usize) -> Status {
        if self.impaired == 0 { Status::Up } else { self.statuses[slot] }
    }

    pub(crate) fn set_status(&mut self, slot: usize, status: Status) {
        self.impaired -= usize::from(self.statuses[slot] != Status::Up);
        self.impaired += usize::from(status != Status::Up);
        let was = std::mem::replace(&mut self.statuses[slot], status);
        let extra_elections = self.extra_elections.iter_mut().map(|extra| &mut extra.ledger);
        for ledger in std::iter::once(&mut self.ledger).chain(extra_elections) {
            match (was == Status::Down, status == Status::Down) {
                (true, false) => ledger.record_recovery(self.now),
                (false, true) => ledger.live -= 1,
                _ => {}
            }
        }
    }

    /// The number of processes, dead or alive.
    pub(crate) fn processes(&self) -> usize {
        self.statuses.len()
    }

    /// The reading of a process's clock.
    #[inline]
    pub(crate) fn clock(&self, slot: usize) -> Time {
        self.clocks.show(slot, self.now)
    }

    pub(crate) fn jump(&mut self, slot: usize, by: Span, back: bool) {
        self.clocks.jump(self.statuses.len(), slot, self.now, by, back);
    }

    /// Counts an input, and adds it to the fingerprint of the run.
    #[inline]
    pub(crate) fn record_input(&mut self, who: u64, what: u64) {
        self.ledger.events += 1;
        self.ledger.fingerprint.mix(self.now.as_nanos());
        self.ledger.fingerprint.mix(who ^ what.rotate_left(29));
    }

    pub(crate) fn observe(&mut self, event: TraceEvent<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.observe(self.now, event);
        }
    }

    pub(crate) fn observe_suspicion(&mut self, who: NodeId, peer: NodeId, suspected: bool) {
        self.observe(match suspected {
            true => TraceEvent::Suspected { who, peer },
            false => TraceEvent::Restored { who, peer },
        });
    }

    /// True if no message of the subject can reach the observer.
    pub(crate) fn is_silent(&self, observer: usize, subject: usize) -> bool {
        self.status(subject) != Status::Up || self.network.is_cut(subject, observer)
    }

    /// Applies a fault of the network or the clocks. True if the connectivity changes.
    pub(crate) fn apply_fault(&mut self, roster: &Roster, fault: Fault) -> bool {
        let event = match fault {
            Fault::Cut(name, cut) => {
                self.network.cut(name, cut);
                TraceEvent::Cut
            }
            Fault::Heal(name) if self.network.heal(name) => TraceEvent::Healed,
            Fault::HealAll => {
                self.network.heal_all();
                self.pending_crashes.clear();
                self.save_delay = Span::ZERO;
                TraceEvent::HealedAll
            }
            fault => {
                self.apply_without_reconnection(roster, fault);
                return false;
            }
        };
        self.observe(event);
        self.check_invariants(roster, Change::Connectivity);
        true
    }

    /// Applies a fault that does not change the connectivity.
    fn apply_without_reconnection(&mut self, roster: &Roster, fault: Fault) {
        let (condition, value) = match &fault {
            Fault::Loss(probability) => ("loss", *probability),
            Fault::Duplicate(probability) => ("duplicate", *probability),
            Fault::Slow(factor) => ("slow", *factor),
            Fault::SlowDisk(delay) => ("slow_disk", delay.as_units()),
            Fault::Late { probability, .. } => ("late", *probability),
            _ => ("", 0.0),
        };
        if !condition.is_empty() {
            self.observe(TraceEvent::Conditions { condition, value });
        }
        match fault {
            Fault::Loss(probability) => self.network.loss = probability,
            Fault::Duplicate(probability) => self.network.duplicate = probability,
            Fault::Slow(factor) => self.network.set_factor(factor),
            Fault::SlowDisk(delay) => self.save_delay = delay,
            Fault::Late { probability, max_delay } => self.network.set_late(probability, max_delay),
            Fault::CrashMidway { slot, point } => drop(self.pending_crashes.insert(slot, point)),
            Fault::Jump { slot, by, back } => {
                self.record_input(slot as u64, 9 << 32);
                self.jump(slot, by, back);
                self.observe(TraceEvent::Jumped { who: roster.id(slot), by, back });
                self.check_invariants(roster, Change::LeaseOrClock(slot));
            }
            Fault::Heal(_) => {}
            Fault::Cut(..) | Fault::HealAll => unreachable!("these faults change the connectivity"),
            Fault::Crash(_)
            | Fault::CrashLeader
            | Fault::Recover { .. }
            | Fault::RecoverLeader { .. }
            | Fault::Pause(..)
            | Fault::Rank(..) => unreachable!("these faults concern processes"),
        }
    }

    /// Counts and observes a message that is not delivered.
    pub(crate) fn record_drop(
        &mut self,
        roster: &Roster,
        [from, to]: [usize; 2],
        message: TracedMessage<'_>,
        reason: DropReason,
        on_send: bool,
    ) {
        match reason {
            DropReason::Lost => self.ledger.lost += 1,
            DropReason::Cut => self.ledger.cut += 1,
            DropReason::ReceiverDead => self.ledger.dead += 1,
            DropReason::UnknownReceiver => self.ledger.unknown_receiver += 1,
        }
        let (from, to) = (roster.id(from), roster.id(to));
        self.observe(TraceEvent::Dropped { from, to, message, reason, on_send });
    }

    /// Marks a process as down, and ends its pause and its belief.
    pub(crate) fn crash(&mut self, slot: usize, who: NodeId) {
        self.set_status(slot, Status::Down);
        self.pauses.remove(&slot);
        self.ledger.record_crash(slot, who, self.now);
        self.extra_elections.iter_mut().for_each(|extra| extra.ledger.record_crash(slot, who, self.now));
    }

    /// Checks the invariants after a change.
    pub(crate) fn check_invariants(&mut self, roster: &Roster, change: Change) {
        if self.invariants.is_empty() {
            return;
        }
        self.check_first_election(roster, &|invariant, facts| invariant.on_change(facts, change));
        // An announcement concerns one election; a fault concerns all.
        if !matches!(change, Change::Announced(..)) {
            for index in 0..self.extra_elections.len() {
                self.check_extra_election(roster, index, &|invariant, facts| {
                    invariant.on_change(facts, change)
                });
            }
        }
    }

    pub(crate) fn at_end(&mut self, roster: &Roster) {
        self.check_first_election(roster, &|invariant, facts| invariant.at_end(facts));
        for index in 0..self.extra_elections.len() {
            self.check_extra_election(roster, index, &|invariant, facts| invariant.at_end(facts));
        }
    }

    fn check_first_election(
        &mut self,
        roster: &Roster,
        check: &dyn Fn(&mut dyn Invariant, &Facts<'_>) -> Result<(), String>,
    ) {
        let mut invariants = std::mem::take(&mut self.invariants);
        for invariant in &mut invariants {
            if let Err(detail) = check(invariant.as_mut(), &self.facts(roster)) {
                self.record_violation(invariant.name(), detail);
            }
        }
        self.invariants = invariants;
    }

    fn check_extra_election(
        &mut self,
        roster: &Roster,
        index: usize,
        check: &dyn Fn(&mut dyn Invariant, &Facts<'_>) -> Result<(), String>,
    ) {
        let mut invariants = std::mem::take(&mut self.extra_elections[index].invariants);
        for invariant in &mut invariants {
            let facts = self.facts_in(roster, &self.extra_elections[index].ledger);
            if let Err(detail) = check(invariant.as_mut(), &facts) {
                self.record_violation(invariant.name(), format!("in election {}: {detail}", index + 2));
            }
        }
        self.extra_elections[index].invariants = invariants;
    }

    /// Records the first violation of each invariant.
    fn record_violation(&mut self, invariant: &'static str, detail: String) {
        if !self.ledger.violations.iter().any(|violation| violation.invariant == invariant) {
            self.observe(TraceEvent::Violated { invariant, detail: &detail });
            self.ledger.violations.push(Violation { invariant, at: self.now, detail });
        }
    }

    /// Observes a suspicion that a real failure detector reports, and counts it if it is wrong.
    pub(crate) fn report_suspicion(&mut self, roster: &Roster, slot: usize, peer: NodeId, suspected: bool) {
        let Some(subject) = roster.slot(peer) else { return };
        let wrong = suspected && !self.is_silent(slot, subject);
        self.ledger.wrong_suspicions += u64::from(wrong);
        self.observe_suspicion(roster.id(slot), peer, suspected);
    }

    pub(crate) fn announce(&mut self, roster: &Roster, slot: usize, announcement: Announcement) {
        let (who, now) = (roster.id(slot), self.now);
        announcement.hash(&mut self.ledger.fingerprint);
        let overdue = self.overdue(slot, &self.ledger);
        self.ledger.record_announcement(slot, who, announcement, now, overdue);
        self.observe(TraceEvent::Announced { who, announcement });
        self.check_invariants(roster, Change::Announced(slot, announcement));
    }

    /// The time since the end of a process's lease. A process that was paused announces late that it stepped down: its
    /// leadership ended with the lease.
    fn overdue(&self, slot: usize, ledger: &Ledger) -> Span {
        let overdue = |end| self.clocks.true_span(slot, self.clock(slot).since(end));
        ledger.lease(slot).map_or(Span::ZERO, overdue)
    }

    pub(crate) fn lead_until(&mut self, roster: &Roster, slot: usize, end: Time) {
        self.ledger.lease_until(slot, end);
        if self.observer.is_some() {
            let until = self.now + self.clocks.true_span(slot, end.since(self.clock(slot)));
            self.observe(TraceEvent::Leased { who: roster.id(slot), until });
        }
        self.check_invariants(roster, Change::LeaseOrClock(slot));
    }

    pub(crate) fn announce_in(
        &mut self,
        roster: &Roster,
        slot: usize,
        election: usize,
        announcement: Announcement,
    ) {
        let Some(index) = election.checked_sub(1) else { return self.announce(roster, slot, announcement) };
        announcement.hash(&mut self.ledger.fingerprint);
        self.ledger.active = self.now;
        let overdue = self.overdue(slot, &self.extra_elections[index].ledger);
        self.extra_elections[index].ledger.record_announcement(
            slot,
            roster.id(slot),
            announcement,
            self.now,
            overdue,
        );
        let change = Change::Announced(slot, announcement);
        self.check_extra_election(roster, index, &|invariant, facts| invariant.on_change(facts, change));
    }

    pub(crate) fn lead_until_in(&mut self, roster: &Roster, slot: usize, election: usize, end: Time) {
        let Some(index) = election.checked_sub(1) else { return self.lead_until(roster, slot, end) };
        self.extra_elections[index].ledger.lease_until(slot, end);
        let change = Change::LeaseOrClock(slot);
        self.check_extra_election(roster, index, &|invariant, facts| invariant.on_change(facts, change));
    }
}
