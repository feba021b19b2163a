//! Faults and their times.

use std::fmt;
use std::str::FromStr;

use suffrage_core::{Attribute, Span, Time};

use crate::Cut;

/// A change of the world that no process causes. Processes are named by slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A process dies and forgets all but what it saved.
    Crash(usize),
    /// The leader dies: of the live processes, the one that most live processes believe in at that
    /// moment. Nothing happens if there is none.
    CrashLeader,
    /// A process is to die in the middle of an input, at this point of what it does from now on; a dead process,
    /// of what it does from its return on. The effects before that point happen, those after it do not. The death
    /// of the process, the recovery of a live one, and [`HealAll`](Fault::HealAll) call it off.
    CrashMidway {
        /// The process.
        slot: usize,
        /// The point.
        point: CrashPoint,
    },
    /// A dead process comes back, with or without what it saved.
    Recover {
        /// The process.
        slot: usize,
        /// True if its disk survived.
        disk: bool,
    },
    /// The one that the last crash of a leader hit comes back, if it is dead.
    RecoverLeader {
        /// True if its disk survived.
        disk: bool,
    },
    /// A process stops, and goes on at the given time as if nothing had happened.
    Pause(usize, Time),
    /// The network is cut. The number names the cut.
    Cut(usize, Cut),
    /// The cut of that number is healed.
    Heal(usize),
    /// Messages are lost with this probability from now on.
    Loss(f64),
    /// Messages are duplicated with this probability from now on.
    Duplicate(f64),
    /// Messages are late with this probability from now on: a late one takes up to so much longer, uniformly.
    Late {
        /// How likely a message is late.
        probability: f64,
        /// How much longer it takes at most.
        max_delay: Span,
    },
    /// Messages take so many times as long as usual from now on; 1 ends it. Processes go on expecting them within
    /// the usual bound.
    Slow(f64),
    /// A process's clock jumps. Its timers, which count the time that passes, do not.
    Jump {
        /// The process.
        slot: usize,
        /// The distance.
        by: Span,
        /// True if the clock jumps backwards.
        back: bool,
    },
    /// The attribute of a process changes.
    Rank(usize, Attribute),
    /// Cuts, loss, duplication, late and slow messages, wrong suspicions and crashes that have not happened yet
    /// end. The dead stay dead, and messages on their way arrive when they would have.
    HealAll,
}

/// A point in what a process does, at which it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// After so many more effects of any kind.
    Effects(u32),
    /// When it would save: nothing is saved.
    BeforeSave,
    /// When it has saved: the disk is all that knows of it.
    AfterSave,
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<CrashPoint, String> {
        match text {
            "before-save" => Ok(CrashPoint::BeforeSave),
            "after-save" => Ok(CrashPoint::AfterSave),
            _ => text.parse().map(CrashPoint::Effects).map_err(|_| {
                format!("`{text}` is not a point; it is before-save, after-save or a number of effects")
            }),
        }
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrashPoint::BeforeSave => f.write_str("before-save"),
            CrashPoint::AfterSave => f.write_str("after-save"),
            CrashPoint::Effects(count) => count.fmt(f),
        }
    }
}

/// Faults and their times.
pub type Plan = Vec<(Time, Fault)>;

/// Puts a plan in the order in which it happens. At equal times the kinds have an order of their own, so
/// that a plan is the same however it was put together: what ends comes before what begins.
pub fn sort_plan(plan: &mut Plan) {
    plan.sort_by_key(|(at, fault)| (*at, fault.precedence()));
}

impl Fault {
    fn precedence(&self) -> (u8, usize) {
        match self {
            Fault::HealAll => (0, 0),
            Fault::Heal(name) => (1, *name),
            Fault::Loss(_) => (2, 0),
            Fault::Duplicate(_) => (3, 0),
            Fault::Slow(_) => (4, 0),
            Fault::Late { .. } => (5, 0),
            Fault::Crash(slot) => (6, *slot),
            Fault::CrashLeader => (6, usize::MAX),
            Fault::Recover { slot, .. } => (7, *slot),
            Fault::RecoverLeader { .. } => (7, usize::MAX),
            Fault::CrashMidway { slot, .. } => (8, *slot),
            Fault::Pause(slot, _) => (9, *slot),
            Fault::Jump { slot, .. } => (10, *slot),
            Fault::Rank(slot, _) => (11, *slot),
            Fault::Cut(name, _) => (12, *name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(units: u64) -> Time {
        units.to_string().parse().unwrap()
    }

    #[test]
    fn what_happens_at_the_same_time_has_an_order() {
        let (crash, recover) = (Fault::Crash(1), Fault::Recover { slot: 0, disk: true });
        let mut plan = vec![
            (time(5), Fault::Rank(0, 3)),
            (time(5), recover.clone()),
            (time(5), Fault::Crash(2)),
            (time(5), crash.clone()),
            (time(5), Fault::HealAll),
            (time(1), Fault::Heal(0)),
        ];
        sort_plan(&mut plan);
        let faults: Vec<Fault> = plan.into_iter().map(|(_, fault)| fault).collect();
        assert_eq!(
            faults,
            [Fault::Heal(0), Fault::HealAll, crash, Fault::Crash(2), recover, Fault::Rank(0, 3)]
        );
    }
}
