//! A world of probes, with times in units and processes named by id.

use std::cell::RefCell;
use std::rc::Rc;

use suffrage_core::{NodeId, Roster, Span, Time};
use suffrage_sim::{Cut, Detector, End, Fault, Latency, Observer, TraceEvent, World};

use crate::world::probe::{Action, Probe};

/// The time of this number of units.
pub(crate) fn time(units: f64) -> Time {
    Time::ZERO + Span::from_units(units)
}

pub(crate) fn span(units: f64) -> Span {
    Span::from_units(units)
}

/// Every message takes one unit.
pub(crate) const ONE: Latency = Latency::Const(Span::UNIT);
/// Every message takes one unit, but by the code path of random latency.
pub(crate) const CHANCE_ONE: Latency = Latency::Uniform(Span::UNIT, Span::UNIT);

/// A world of probes.
pub(crate) struct ProbeWorld {
    pub(crate) world: World<Probe>,
}

impl ProbeWorld {
    /// A world of `count` probes in which each message takes one unit.
    pub(crate) fn new(count: usize) -> ProbeWorld {
        ProbeWorld::with(Roster::numbered(count), 1, ONE)
    }

    pub(crate) fn with(roster: Roster, seed: u64, latency: Latency) -> ProbeWorld {
        ProbeWorld { world: World::new(roster, seed, latency, |_| Probe::default()) }
    }

    pub(crate) fn detected(count: usize, detector: Detector) -> ProbeWorld {
        let mut probes = ProbeWorld::new(count);
        probes.world.set_detector(detector);
        probes
    }

    fn slot(&self, id: u64) -> usize {
        self.world.roster().slot(NodeId(id)).expect("a member")
    }

    /// Schedules an action of a process.
    pub(crate) fn at(&mut self, at: f64, id: u64, action: Action) {
        self.world.command(time(at), self.slot(id), action.command());
    }

    pub(crate) fn schedule_fault(&mut self, at: f64, fault: Fault) {
        self.world.schedule_fault(time(at), fault);
    }

    pub(crate) fn crash(&mut self, at: f64, id: u64) {
        self.schedule_fault(at, Fault::Crash(self.slot(id)));
    }

    pub(crate) fn recover(&mut self, at: f64, id: u64, disk: bool) {
        self.schedule_fault(at, Fault::Recover { slot: self.slot(id), disk });
    }

    pub(crate) fn pause(&mut self, from: f64, to: f64, id: u64) {
        self.schedule_fault(from, Fault::Pause(self.slot(id), time(to)));
    }

    /// Cuts the groups from each other, in both directions. The beginning is the cut's name.
    pub(crate) fn cut(&mut self, from: f64, to: f64, groups: &[&[u64]]) {
        self.cut_ways(from, to, groups, false);
    }

    /// Stops messages from earlier groups to later ones.
    pub(crate) fn cut_one_way(&mut self, from: f64, to: f64, groups: &[&[u64]]) {
        self.cut_ways(from, to, groups, true);
    }

    fn cut_ways(&mut self, from: f64, to: f64, groups: &[&[u64]], one_way: bool) {
        let slots = |group: &&[u64]| group.iter().map(|&id| self.slot(id)).collect();
        let groups: Vec<Vec<usize>> = groups.iter().map(slots).collect();
        let name = time(from).as_nanos() as usize;
        self.schedule_fault(from, Fault::Cut(name, Cut::new(self.world.roster().len(), &groups, one_way)));
        self.schedule_fault(to, Fault::Heal(name));
    }

    pub(crate) fn run(&mut self, until: f64) -> End {
        self.world.run(time(until))
    }

    pub(crate) fn run_out(&mut self) {
        assert_eq!(self.world.run(Time::MAX), End::Quiet);
    }

    /// The log of a process since its last start.
    pub(crate) fn log(&self, id: u64) -> &[String] {
        &self.world.process(self.slot(id)).log
    }

    /// The logs of all processes.
    pub(crate) fn logs(&self) -> Vec<&[String]> {
        self.world.roster().iter().map(|id| self.log(id.0)).collect()
    }

    /// The counts of messages: lost, cut, to the dead, duplicated, to unknown receivers.
    pub(crate) fn counts(&self) -> [u64; 5] {
        let ledger = self.world.ledger();
        [ledger.lost, ledger.cut, ledger.dead, ledger.duplicated, ledger.unknown_receiver]
    }

    /// Sets an observer, and returns its lines.
    pub(crate) fn watch(&mut self) -> Rc<RefCell<Vec<String>>> {
        let seen = Rc::default();
        self.world.set_observer(Box::new(Watcher(Rc::clone(&seen))));
        seen
    }
}

pub(crate) struct Watcher(pub(crate) Rc<RefCell<Vec<String>>>);

impl Observer for Watcher {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        let line = match event {
            TraceEvent::Sent { from, to, arrives, .. } => format!("{from} to {to}, due {arrives}"),
            TraceEvent::Multicast { from, .. } => format!("{from} to all"),
            TraceEvent::Delivered { from, to, .. } => format!("{to} hears {from}"),
            TraceEvent::Dropped { from, to, reason, .. } => format!("{from} to {to}: {reason:?}"),
            TraceEvent::Expired { who, timer } => format!("{who}: {timer:?}"),
            TraceEvent::Announced { who, announcement } => format!("{who}: {announcement:?}"),
            TraceEvent::Commanded { who, .. } => format!("{who} commanded"),
            TraceEvent::Suspected { who, peer } => format!("{who} suspects {peer}"),
            TraceEvent::Restored { who, peer } => format!("{who} trusts {peer}"),
            TraceEvent::Crashed { who } => format!("{who} crashed"),
            TraceEvent::Recovered { who } => format!("{who} recovered"),
            TraceEvent::Paused { who } => format!("{who} paused"),
            TraceEvent::Resumed { who } => format!("{who} resumed"),
            TraceEvent::Jumped { who, by, back } => {
                format!("{who} jumps {}{by}", if back { "-" } else { "+" })
            }
            TraceEvent::Ranked { who, attribute } => format!("{who} ranks {attribute}"),
            TraceEvent::Leased { who, until } => format!("{who} leads until {until}"),
            TraceEvent::Conditions { condition, value } => format!("{condition} {value}"),
            TraceEvent::Violated { invariant, .. } => format!("{invariant} violated"),
            TraceEvent::Cut => "cut".into(),
            TraceEvent::Healed => "healed".into(),
            TraceEvent::HealedAll => "healed all".into(),
        };
        self.0.borrow_mut().push(format!("{at} {line}"));
    }
}
