//! How large a world is, and how much may happen in it.

use serde::Serialize;
use suffrage_core::{Contract, Span, Synchrony, Topology};

/// How large a world is, and how much may happen in it: the smaller, the sooner all of it is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// How many processes there are; their ids are 1 to N.
    pub nodes: usize,
    /// How many of them call elections: the last ones.
    pub candidates: usize,
    /// How often each of those does.
    pub campaigns: u8,
    /// How often one that leads is told to resign, of all together.
    pub resigns: u8,
    /// How often one that leads is told to hand over to another that calls elections, of all together.
    pub transfers: u8,
    /// Whether the beginning is when the last of them has called an election and all messages about it have
    /// arrived. If not, nothing has happened yet.
    pub elected: bool,
    /// How often a timer runs out, of all together. Without limit in a synchronous world.
    pub timers: u8,
    /// How often a message arrives twice.
    pub duplicates: u8,
    /// How often a message is lost outright.
    pub losses: u8,
    /// How often a process crashes and comes back with its disk.
    pub restarts: u8,
    /// How often one comes back without its disk.
    pub wipes: u8,
    /// What time is.
    pub clocks: Clocks,
}

/// What time is in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "time")]
pub enum Clocks {
    /// Time stands still, and a timer may run out at any moment: more than any clock can do. For
    /// algorithms that never look at a clock.
    Still,
    /// Each process has a clock of its own, which has nothing to do with those of the others. It moves on
    /// when a timer of the process runs out, and not otherwise: its timers run out in their order, early or
    /// late as the others see it.
    Own,
    /// There is a true time, which goes on in ticks, and clocks that run at rates of their own.
    True {
        /// How long a tick is.
        tick: Span,
        /// How many there are.
        ticks: u8,
        /// How much clocks run fast or slow, in millionths.
        drift: u32,
        /// Which clocks run fast, and which slow.
        rates: Rates,
        /// Whether every message arrives within a tick of being sent, and every timer runs out on time. If not,
        /// messages may be as late as they like, and timers, but those never early.
        synchronous: bool,
    },
}

/// Which clocks run fast, and which slow. A clock keeps its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rates {
    /// The clock of the last process, which is a candidate if any is, runs slow and all others fast, or the
    /// other way round: the worst for whoever leads, and the best.
    Opposed,
    /// Every combination.
    All,
}

/// Settings of an algorithm with leases that make them short, in ticks of [`LEASE_TICK`]: with clocks that run
/// as fast or slow as they may, a lease is over for its holder after two of them, when it is for the voters.
pub const SHORT_LEASES: &[(&str, &str)] =
    &[("voters", "2"), ("ttl", "12"), ("renew", "4"), ("drift-bound", "20%")];

/// The algorithms that never look at a clock.
pub(crate) const TIMELESS: &[&str] = &["raft", "stable-leader"];

/// How long a tick is for [`SHORT_LEASES`].
pub const LEASE_TICK: Span = Span::from_millis(5);

impl Bounds {
    /// Bounds in which all of an algorithm with this contract can be looked at in a minute, where this is the
    /// number of voters, if there are any.
    pub fn usual(contract: &Contract, voters: Option<usize>) -> Bounds {
        let none = Bounds {
            nodes: 3,
            candidates: 2,
            campaigns: 1,
            resigns: 0,
            transfers: 0,
            elected: false,
            timers: 0,
            duplicates: 0,
            losses: 0,
            restarts: 0,
            wipes: 0,
            clocks: Clocks::Own,
        };
        match contract.synchrony {
            Synchrony::BoundedDrift => {
                let (rates, synchronous) = (Rates::Opposed, false);
                let clocks = Clocks::True { tick: LEASE_TICK, ticks: 2, drift: 0, rates, synchronous };
                let nodes = voters.map_or(2, |voters| voters.max(2));
                Bounds { nodes, elected: true, resigns: 1, transfers: 1, restarts: 1, clocks, ..none }
            }
            Synchrony::PartiallySynchronous if TIMELESS.contains(&contract.name) => {
                Bounds { candidates: 0, timers: 2, clocks: Clocks::Still, ..none }
            }
            Synchrony::PartiallySynchronous => Bounds { timers: 1, ..none },
            // Where hops are acknowledged, a timer that runs out is a message that is late.
            Synchrony::Synchronous if contract.topology == Topology::Ring => none,
            Synchrony::Synchronous | Synchrony::Asynchronous => Bounds { timers: 2, ..none },
        }
    }
}

impl Clocks {
    /// Whether messages and timers are on time.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Clocks::True { synchronous: true, .. })
    }

    /// The rates at which clocks run, in millionths: for each beginning, a rate for each process.
    pub(crate) fn beginnings(self, nodes: usize) -> Vec<Vec<u32>> {
        const ONE: u32 = 1_000_000;
        let Clocks::True { drift: drift @ 1.., rates, .. } = self else { return vec![vec![ONE; nodes]] };
        let rate = |fast: bool| if fast { ONE + drift } else { ONE - drift };
        let fast: Vec<u32> = match rates {
            Rates::Opposed => vec![(1 << (nodes - 1)) - 1, 1 << (nodes - 1)],
            Rates::All => (0..1 << nodes).collect(),
        };
        fast.into_iter().map(|fast| (0..nodes).map(|slot| rate(fast >> slot & 1 == 1)).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_begin_fast_or_slow_in_every_way_or_in_two() {
        let clocks =
            |rates| Clocks::True { tick: Span::UNIT, ticks: 1, drift: 10, rates, synchronous: false };
        let (fast, slow) = (1_000_010, 999_990);
        let opposed = clocks(Rates::Opposed).beginnings(3);
        assert_eq!(opposed, [[fast, fast, slow], [slow, slow, fast]]);
        let all = clocks(Rates::All).beginnings(3);
        assert_eq!((all.len(), &all[5]), (8, &vec![fast, slow, fast]));
        assert_eq!(Clocks::Own.beginnings(2), [[1_000_000; 2]]);
    }
}
