//! Faults and their times.

use std::fmt;
use std::str::FromStr;

use suffrage_core::{Attribute, Span, Time};

use crate::Cut;

/// A change of the world that no process causes. Processes are named by slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A process crashes and loses all state but its disk.
    Crash(usize),
    /// The leader crashes: the live process that most live processes believe in at that moment. Without a leader,
    /// nothing happens.
    CrashLeader,
    /// A process crashes in the middle of an input, at this point of its effects from now on; a dead process, of its
    /// effects from its recovery on. The effects before that point happen, those after it do not. Another crash of
    /// the process, the recovery of a live one, and [`HealAll`](Fault::HealAll) cancel this crash.
    CrashMidway {
        /// The process.
        slot: usize,
        /// The point.
        point: CrashPoint,
    },
    /// A dead process recovers, with or without its disk.
    Recover {
        /// The process.
        slot: usize,
        /// True if its disk survived.
        disk: bool,
    },
    /// The leader that the last [`CrashLeader`](Fault::CrashLeader) crashed recovers, if it is dead.
    RecoverLeader {
        /// True if its disk survived.
        disk: bool,
    },
    /// A process is paused until the given time, and keeps its state.
    Pause(usize, Time),
    /// The network is cut. The number names the cut.
    Cut(usize, Cut),
    /// The cut of that number is healed.
    Heal(usize),
    /// Messages are lost with this probability from now on.
    Loss(f64),
    /// Messages are duplicated with this probability from now on.
    Duplicate(f64),
    /// Messages are late with this probability from now on. The additional delay of a late message is uniform.
    Late {
        /// The probability.
        probability: f64,
        /// The longest additional delay.
        max_delay: Span,
    },
    /// The delay of messages is multiplied by this factor from now on; 1 ends it. The delay bound that processes assume
    /// does not change.
    Slow(f64),
    /// From now on a save that a process does not wait for takes up to this long; zero ends it. If the process crashes
    /// during the save, its disk has the state that was being written, or the one before.
    SlowDisk(Span),
    /// A process's clock jumps. Its timers are not affected.
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
    /// Cuts, loss, duplication, late and slow messages, slow disks, wrong suspicions and pending crashes end. Dead
    /// processes stay dead, and messages in flight and saves under way keep their delay.
    HealAll,
}

/// A point in the effects of a process at which it crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// After this number of effects of any kind.
    Effects(u32),
    /// Before its next save.
    BeforeSave,
    /// After its next save, before any other effect.
    AfterSave,
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<CrashPoint, String> {
        match text {
            "before-save" => Ok(CrashPoint::BeforeSave),
            "after-save" => Ok(CrashPoint::AfterSave),
            _ => text.parse().map(CrashPoint::Effects).map_err(|_| {
                format!("`{text}` is not a crash point; use before-save, after-save or a number of effects")
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

/// Sorts a plan by time. At equal times the kinds of faults have a fixed order, so that the order of construction does
/// not matter: faults that end come before faults that begin.
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
            Fault::SlowDisk(_) => (5, 1),
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
    fn faults_of_equal_times_have_a_fixed_order() {
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
