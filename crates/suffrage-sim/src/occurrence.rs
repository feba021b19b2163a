//! What befalls the world from outside, and what the simulated failure detector makes of it.

use suffrage_core::{Attribute, Command, Process, Span, Start, Time};

use crate::facts::Status;
use crate::invariants::Change;
use crate::observer::Why;
use crate::outside::{Pause, What};
use crate::{Fault, Happening, World};

/// Something scheduled that is neither a message nor a timer.
#[derive(Clone, Debug)]
pub(crate) enum Occurrence {
    Start,
    Fault(Fault),
    Resume(usize),
    Command(usize, Command),
    /// A process that was paused at the time learns that ranks have changed.
    ViewChange(usize),
    /// The detector looks at everything that involves this process.
    Look(usize),
    /// The detector looks at one pair.
    LookAt(usize, usize),
    /// The detector looks at everybody.
    LookAround,
    /// Somebody suspects somebody wrongly.
    Mistake,
}

impl<P: Process> World<P> {
    pub(crate) fn occur(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Start => self.start(),
            Occurrence::Fault(fault) => self.strike(fault),
            Occurrence::Resume(slot) => self.resume(slot),
            Occurrence::Command(slot, command) => self.obey(slot, command),
            Occurrence::ViewChange(slot) => self.see(slot),
            Occurrence::Look(slot) => self.look(slot),
            Occurrence::LookAt(observer, subject) => self.look_at(observer, subject),
            Occurrence::LookAround => self.look_around(),
            Occurrence::Mistake => self.mistake(),
        }
    }

    fn start(&mut self) {
        for slot in 0..self.roster.len() {
            if self.outside.status(slot) == Status::Up {
                self.input(slot, |process, cx| process.on_start(cx, Start::Fresh));
            }
        }
    }

    fn strike(&mut self, fault: Fault) {
        self.outside.note(0, 8 << 32);
        match fault {
            Fault::Crash(slot) => self.crash(slot),
            Fault::CrashLeader => {
                self.fallen = self.outside.facts(&self.roster).leader();
                self.fallen.into_iter().for_each(|slot| self.crash(slot));
            }
            Fault::Recover { slot, disk } => self.recover(slot, disk),
            Fault::RecoverLeader { disk } => {
                self.fallen.into_iter().for_each(|slot| self.recover(slot, disk));
            }
            Fault::Pause(slot, until) => self.pause(slot, until),
            Fault::Cut(name, cut) => {
                self.outside.network.cut(name, cut);
                self.rewired(Happening::Cut);
            }
            Fault::Heal(name) => {
                if self.outside.network.heal(name) {
                    self.rewired(Happening::Healed);
                }
            }
            Fault::Loss(probability) => self.outside.network.loss = probability,
            Fault::Duplicate(probability) => self.outside.network.duplicate = probability,
            Fault::Jump { slot, by, back } => {
                self.outside.note(slot as u64, 9 << 32);
                self.outside.jump(slot, by, back);
                self.outside.observe(Happening::Jumped { who: self.roster.id(slot), by, back });
                self.outside.changed(&self.roster, Change::Clocked(slot));
            }
            Fault::Rank(slot, attribute) => self.prefer(slot, attribute),
            Fault::Calm => {
                self.outside.network.calm();
                self.detector = self.detector.without_mistakes();
                self.rewired(Happening::Calmed);
            }
        }
    }

    fn crash(&mut self, slot: usize) {
        if self.outside.status(slot) == Status::Down {
            return;
        }
        let who = self.roster.id(slot);
        self.outside.note(slot as u64, 2 << 32);
        let waiting = self.outside.crash(slot, who);
        self.suspicions.forget(slot);
        self.outside.observe(Happening::Crashed { who });
        for event in waiting {
            if let What::Message(message) = event.what {
                self.outside.drop_message(&self.roster, event.mark as usize, slot, message, Why::Dead);
            }
        }
        self.outside.changed(&self.roster, Change::Crashed(slot));
        self.look_later(Occurrence::Look(slot));
    }

    fn recover(&mut self, slot: usize, disk: bool) {
        if self.outside.status(slot) != Status::Down {
            return;
        }
        let who = self.roster.id(slot);
        self.outside.note(slot as u64, 3 << 32);
        self.processes[slot] = (self.make)(who);
        self.outside.observe(Happening::Recovered { who });
        self.look_later(Occurrence::Look(slot));
        // Counted on its return, not on its failure, or ranks would work as a failure detector.
        if let Some(qualities) = &mut self.qualities {
            qualities[slot].failures += 1;
            let attribute = qualities[slot].attribute();
            self.rank(slot, attribute);
        }
        // Up only now: the first a process hears is its start.
        self.outside.set_status(slot, Status::Up);
        let saved = self.outside.disk(slot, disk);
        self.input(slot, |process, cx| process.on_start(cx, Start::Recovered(saved)));
    }

    fn pause(&mut self, slot: usize, until: Time) {
        if self.outside.status(slot) == Status::Down {
            return;
        }
        if let Some(pause) = self.outside.paused.get_mut(&slot) {
            pause.until = pause.until.max(until);
            return self.schedule(until, Occurrence::Resume(slot));
        }
        self.outside.note(slot as u64, 6 << 32);
        self.outside.set_status(slot, Status::Paused);
        self.outside.paused.insert(slot, Pause { until, waiting: Vec::new() });
        self.outside.observe(Happening::Paused { who: self.roster.id(slot) });
        self.outside.changed(&self.roster, Change::Paused(slot));
        self.schedule(until, Occurrence::Resume(slot));
        self.look_later(Occurrence::Look(slot));
    }

    fn resume(&mut self, slot: usize) {
        // It may have been paused for longer meanwhile, or have crashed, recovered and been paused again.
        let Some(pause) = self.outside.paused.remove(&slot) else { return };
        if pause.until > self.outside.now {
            self.outside.paused.insert(slot, pause);
            return;
        }
        self.outside.set_status(slot, Status::Up);
        self.outside.observe(Happening::Resumed { who: self.roster.id(slot) });
        self.outside.changed(&self.roster, Change::Paused(slot));
        self.look_later(Occurrence::Look(slot));
        for event in pause.waiting {
            match event.what {
                // It has met the network as it was on its arrival.
                What::Message(message) => self.hear(event.mark as usize, slot, message),
                _ => self.happen(event),
            }
        }
    }

    fn rewired(&mut self, happening: Happening<'_>) {
        self.outside.observe(happening);
        self.outside.changed(&self.roster, Change::Rewired);
        self.look_later(Occurrence::LookAround);
    }

    /// What the operator wishes: the attribute itself, or a part of it where failures count.
    fn prefer(&mut self, slot: usize, attribute: Attribute) {
        let Some(qualities) = &mut self.qualities else { return self.rank(slot, attribute) };
        qualities[slot].priority = attribute.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let attribute = qualities[slot].attribute();
        self.rank(slot, attribute);
    }

    fn rank(&mut self, slot: usize, attribute: Attribute) {
        let who = self.roster.id(slot);
        self.outside.note(slot as u64, 7 << 32);
        self.outside.ledger.fingerprint.mix(attribute as u64);
        self.roster.set_attribute(who, attribute);
        self.outside.observe(Happening::Ranked { who, attribute });
        for slot in 0..self.roster.len() {
            self.see(slot);
        }
    }

    fn see(&mut self, slot: usize) {
        match self.outside.status(slot) {
            Status::Up => self.input(slot, |process, cx| process.on_view_change(cx)),
            Status::Paused => self.wait(slot, Occurrence::ViewChange(slot)),
            Status::Down => {}
        }
    }

    fn obey(&mut self, slot: usize, command: Command) {
        match self.outside.status(slot) {
            Status::Up => {
                self.outside.note(slot as u64, 4 << 32);
                self.outside.observe(Happening::Commanded { who: self.roster.id(slot), command });
                self.input(slot, |process, cx| process.on_command(cx, command.into()));
            }
            Status::Paused => self.wait(slot, Occurrence::Command(slot, command)),
            Status::Down => {}
        }
    }

    /// Keeps what befalls a paused process until it goes on.
    fn wait(&mut self, slot: usize, occurrence: Occurrence) {
        let event = self.file(occurrence);
        self.outside.defer(slot, event);
    }

    pub(crate) fn look_later(&mut self, look: Occurrence) {
        if let Some(delay) = self.detector.delay() {
            self.schedule(self.outside.now + delay, look);
        }
    }

    fn look(&mut self, slot: usize) {
        for other in 0..self.roster.len() {
            self.look_at(other, slot);
            self.look_at(slot, other);
        }
    }

    fn look_around(&mut self) {
        for observer in 0..self.roster.len() {
            for subject in 0..self.roster.len() {
                self.look_at(observer, subject);
            }
        }
    }

    fn look_at(&mut self, observer: usize, subject: usize) {
        // One that does not run sees nothing; it is looked at again when it does.
        if observer != subject && self.outside.status(observer) == Status::Up {
            self.report(observer, subject, self.outside.is_silent(observer, subject));
        }
    }

    /// Tells the observer what to believe. True if that is news to it.
    fn report(&mut self, observer: usize, subject: usize, suspected: bool) -> bool {
        if !self.suspicions.set(observer, subject, suspected) {
            return false;
        }
        let (who, peer) = (self.roster.id(observer), self.roster.id(subject));
        self.outside.note(observer as u64 | (subject as u64) << 32, 5 << 32 | u64::from(suspected));
        self.outside.observe_opinion(who, peer, suspected);
        match suspected {
            true => self.input(observer, |process, cx| process.on_suspect(cx, peer)),
            false => self.input(observer, |process, cx| process.on_restore(cx, peer)),
        }
        true
    }

    fn mistake(&mut self) {
        let count = self.roster.len() as u64;
        let rng = &mut self.outside.network.rng;
        let (observer, other) = (rng.below(count) as usize, rng.below(count - 1) as usize);
        let subject = other + usize::from(other >= observer);
        let possible = self.detector.false_rate() > 0.0 && self.outside.status(observer) == Status::Up;
        if possible && !self.outside.is_silent(observer, subject) && self.report(observer, subject, true) {
            self.outside.ledger.wrong_suspicions += 1;
            self.look_later(Occurrence::LookAt(observer, subject));
        }
        self.schedule_mistake();
    }

    /// Mistakes of all processes together come as a Poisson process.
    pub(crate) fn schedule_mistake(&mut self) {
        let rate = self.detector.false_rate() * self.roster.len() as f64;
        if rate > 0.0 && self.roster.len() > 1 {
            let wait = Span::from_units(self.outside.network.rng.exponential(1.0 / rate));
            self.schedule(self.outside.now + wait, Occurrence::Mistake);
        }
    }
}
