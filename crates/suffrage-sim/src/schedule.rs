//! Scheduled actions: faults, commands, and the checks of the simulated failure detector.

use suffrage_core::{Attribute, Process, Span, Start, Time};

use crate::environment::{Event, EventKind};
use crate::facts::Status;
use crate::invariants::Change;
use crate::observer::DropReason;
use crate::world::Input;
use crate::{Fault, TraceEvent, World};

/// A scheduled event that is neither a message nor a timer.
#[derive(Clone, Debug)]
pub(crate) enum ScheduledAction {
    Start,
    Fault(Fault),
    Resume(usize),
    /// A command in its text form, which is the same for all algorithms.
    Command(usize, Box<str>),
    /// A change of ranks that reaches a process after its pause.
    ViewChange(usize),
    /// The detector checks all pairs with this process.
    CheckProcess(usize),
    /// The detector checks one pair: observer and subject.
    CheckPair(usize, usize),
    /// The detector checks all pairs.
    CheckAll,
    /// A random process suspects another wrongly.
    Mistake,
}

impl<P: Process> World<P> {
    pub(crate) fn perform(&mut self, action: ScheduledAction) {
        match action {
            ScheduledAction::Start => self.start(),
            ScheduledAction::Fault(fault) => self.apply_fault(fault),
            ScheduledAction::Resume(slot) => self.resume(slot),
            ScheduledAction::Command(slot, command) => self.deliver_command(slot, command),
            ScheduledAction::ViewChange(slot) => self.deliver_view_change(slot),
            ScheduledAction::CheckProcess(slot) => self.check_process(slot),
            ScheduledAction::CheckPair(observer, subject) => self.check_pair(observer, subject),
            ScheduledAction::CheckAll => self.check_all_pairs(),
            ScheduledAction::Mistake => self.mistake(),
        }
    }

    fn start(&mut self) {
        for slot in 0..self.roster.len() {
            if self.environment.state.status(slot) == Status::Up {
                self.input_uninlined(slot, Input::Start(Start::Fresh));
            }
        }
    }

    fn apply_fault(&mut self, fault: Fault) {
        self.environment.state.record_input(0, 8 << 32);
        match fault {
            Fault::Crash(slot) => self.crash(slot),
            Fault::CrashLeader => {
                self.crashed_leader = self.environment.state.facts(&self.roster).leader();
                self.crashed_leader.into_iter().for_each(|slot| self.crash(slot));
            }
            Fault::Recover { slot, disk } => self.recover(slot, disk),
            Fault::RecoverLeader { disk } => {
                self.crashed_leader.into_iter().for_each(|slot| self.recover(slot, disk));
            }
            Fault::Pause(slot, until) => self.pause(slot, until),
            Fault::Rank(slot, attribute) => self.set_priority(slot, attribute),
            fault => {
                if fault == Fault::HealAll {
                    self.detector = self.detector.without_mistakes();
                }
                if self.environment.state.apply_fault(&self.roster, fault) {
                    self.schedule_check(ScheduledAction::CheckAll);
                }
            }
        }
    }

    pub(crate) fn crash(&mut self, slot: usize) {
        // A crash also cancels a crash that is pending for the recovery of a process that is down.
        self.environment.state.pending_crashes.remove(&slot);
        if self.environment.state.status(slot) == Status::Down {
            return;
        }
        let who = self.roster.id(slot);
        self.environment.state.record_input(slot as u64, 2 << 32);
        let waiting = self.environment.crash(slot, who);
        self.suspicions.forget(slot);
        self.environment.state.observe(TraceEvent::Crashed { who });
        for event in waiting {
            if let EventKind::Message(message) = event.kind {
                self.environment.drop_message(
                    &self.roster,
                    event.tag as usize,
                    slot,
                    message,
                    DropReason::ReceiverDead,
                );
            }
        }
        self.environment.state.check_invariants(&self.roster, Change::Crashed(slot));
        self.schedule_check(ScheduledAction::CheckProcess(slot));
    }

    fn recover(&mut self, slot: usize, disk: bool) {
        if self.environment.state.status(slot) != Status::Down {
            self.environment.state.pending_crashes.remove(&slot);
            return;
        }
        let who = self.roster.id(slot);
        self.environment.state.record_input(slot as u64, 3 << 32);
        self.processes[slot] = (self.make)(who);
        self.environment.state.observe(TraceEvent::Recovered { who });
        self.schedule_check(ScheduledAction::CheckProcess(slot));
        // Counted on its return, not on its failure, or ranks would work as a failure detector.
        if let Some(qualities) = &mut self.qualities {
            qualities[slot].failures += 1;
            let attribute = qualities[slot].attribute();
            self.rank(slot, attribute);
        }
        // Up only now: the first a process hears is its start.
        self.environment.state.set_status(slot, Status::Up);
        let saved = self.environment.disk(slot, disk);
        self.input_uninlined(slot, Input::Start(Start::Recovered(saved)));
    }

    fn pause(&mut self, slot: usize, until: Time) {
        if self.environment.state.status(slot) == Status::Down {
            return;
        }
        if let Some(end) = self.environment.state.pauses.get_mut(&slot) {
            *end = until.max(*end);
            return self.schedule(until, ScheduledAction::Resume(slot));
        }
        self.environment.state.record_input(slot as u64, 6 << 32);
        self.environment.state.set_status(slot, Status::Paused);
        self.environment.state.pauses.insert(slot, until);
        self.environment.state.observe(TraceEvent::Paused { who: self.roster.id(slot) });
        self.environment.state.check_invariants(&self.roster, Change::Paused(slot));
        self.schedule(until, ScheduledAction::Resume(slot));
        self.schedule_check(ScheduledAction::CheckProcess(slot));
    }

    fn resume(&mut self, slot: usize) {
        // The pause may have been extended, or the process crashed, recovered and was paused again.
        if self.environment.state.pauses.get(&slot).is_none_or(|&until| until > self.environment.state.now) {
            return;
        }
        self.environment.state.pauses.remove(&slot);
        self.environment.state.set_status(slot, Status::Up);
        self.environment.state.observe(TraceEvent::Resumed { who: self.roster.id(slot) });
        self.environment.state.check_invariants(&self.roster, Change::Paused(slot));
        self.schedule_check(ScheduledAction::CheckProcess(slot));
        for event in self.environment.deferred(slot) {
            self.handle_deferred(slot, event);
        }
    }

    /// Handles an event that was kept for a paused process.
    #[inline(never)]
    fn handle_deferred(&mut self, slot: usize, event: Event<P>) {
        match event.kind {
            // The process may have crashed on an event that was kept before this one.
            EventKind::Message(message) if self.environment.state.status(slot) == Status::Down => {
                self.environment.drop_message(
                    &self.roster,
                    event.tag as usize,
                    slot,
                    message,
                    DropReason::ReceiverDead,
                );
            }
            // The message has passed the network when it arrived.
            EventKind::Message(message) => self.receive(event.tag as usize, slot, message),
            EventKind::Timer(timer) => self.fire_timer(slot, timer, event.tag),
            EventKind::SaveEnd => self.end_save(slot, event.tag),
            EventKind::ScheduledAction => self.perform(self.actions[event.target as usize].clone()),
            EventKind::Multicast(_) => {
                unreachable!("the target of a multicast is its sender, which does not handle it")
            }
        }
    }

    /// Sets the operator's preference: the attribute itself, or the priority if failures lower the rank.
    fn set_priority(&mut self, slot: usize, attribute: Attribute) {
        let Some(qualities) = &mut self.qualities else { return self.rank(slot, attribute) };
        qualities[slot].priority = attribute.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let attribute = qualities[slot].attribute();
        self.rank(slot, attribute);
    }

    fn rank(&mut self, slot: usize, attribute: Attribute) {
        let who = self.roster.id(slot);
        self.environment.state.record_input(slot as u64, 7 << 32);
        self.environment.state.ledger.fingerprint.mix(attribute as u64);
        self.roster.set_attribute(who, attribute);
        self.environment.state.observe(TraceEvent::Ranked { who, attribute });
        for slot in 0..self.roster.len() {
            self.deliver_view_change(slot);
        }
    }

    fn deliver_view_change(&mut self, slot: usize) {
        match self.environment.state.status(slot) {
            Status::Up => self.input_uninlined(slot, Input::ViewChange),
            Status::Paused => self.defer_action(slot, ScheduledAction::ViewChange(slot)),
            Status::Down => {}
        }
    }

    fn deliver_command(&mut self, slot: usize, command: Box<str>) {
        match self.environment.state.status(slot) {
            Status::Up => {
                let who = self.roster.id(slot);
                self.environment.state.record_input(slot as u64, 4 << 32);
                self.environment.state.observe(TraceEvent::Commanded { who, command: &command });
                let command = command.parse().unwrap_or_else(|error: String| panic!("{error}"));
                self.input_uninlined(slot, Input::Command(command));
            }
            Status::Paused => self.defer_action(slot, ScheduledAction::Command(slot, command)),
            Status::Down => {}
        }
    }

    /// Keeps an action on a paused process until the process resumes.
    fn defer_action(&mut self, slot: usize, action: ScheduledAction) {
        let event = self.store_action(action);
        self.environment.defer(slot, event);
    }

    pub(crate) fn schedule_check(&mut self, check: ScheduledAction) {
        if let Some(delay) = self.detector.delay() {
            self.schedule(self.environment.state.now + delay, check);
        }
    }

    fn check_process(&mut self, slot: usize) {
        for other in 0..self.roster.len() {
            self.check_pair(other, slot);
            self.check_pair(slot, other);
        }
    }

    fn check_all_pairs(&mut self) {
        for observer in 0..self.roster.len() {
            for subject in 0..self.roster.len() {
                self.check_pair(observer, subject);
            }
        }
    }

    fn check_pair(&mut self, observer: usize, subject: usize) {
        // A process that is not up observes nothing. It is checked again after it resumes or recovers.
        if observer != subject && self.environment.state.status(observer) == Status::Up {
            self.report(observer, subject, self.environment.state.is_silent(observer, subject));
        }
    }

    /// Tells the observer whether to suspect the subject. True if this is a change.
    fn report(&mut self, observer: usize, subject: usize, suspected: bool) -> bool {
        if !self.suspicions.set(observer, subject, suspected) {
            return false;
        }
        let (who, peer) = (self.roster.id(observer), self.roster.id(subject));
        self.environment
            .state
            .record_input(observer as u64 | (subject as u64) << 32, 5 << 32 | u64::from(suspected));
        self.environment.state.observe_suspicion(who, peer, suspected);
        self.input_uninlined(observer, if suspected { Input::Suspect(peer) } else { Input::Restore(peer) });
        true
    }

    fn mistake(&mut self) {
        let count = self.roster.len() as u64;
        let rng = &mut self.environment.state.network.rng;
        let (observer, other) = (rng.below(count) as usize, rng.below(count - 1) as usize);
        let subject = other + usize::from(other >= observer);
        let possible =
            self.detector.false_rate() > 0.0 && self.environment.state.status(observer) == Status::Up;
        if possible
            && !self.environment.state.is_silent(observer, subject)
            && self.report(observer, subject, true)
        {
            self.environment.state.ledger.wrong_suspicions += 1;
            self.schedule_check(ScheduledAction::CheckPair(observer, subject));
        }
        self.schedule_mistake();
    }

    /// Schedules the next mistake. The mistakes of all processes are a Poisson process.
    pub(crate) fn schedule_mistake(&mut self) {
        let rate = self.detector.false_rate() * self.roster.len() as f64;
        if rate > 0.0 && self.roster.len() > 1 {
            let delay = Span::from_units(self.environment.state.network.rng.exponential(1.0 / rate));
            self.schedule(self.environment.state.now + delay, ScheduledAction::Mistake);
        }
    }
}
