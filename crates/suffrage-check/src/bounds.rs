//! The size of a model, and the number of events in it.

use serde::Serialize;
use suffrage_core::{Contract, Span, Synchrony, Topology};

/// The size of a model, and the number of events in it. Smaller bounds make an exhaustive search shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// The number of processes. Their ids are 1 to N.
    pub nodes: usize,
    /// The number of processes that call elections: those with the highest ids.
    pub candidates: usize,
    /// The number of elections that each candidate calls.
    pub campaigns: u8,
    /// The number of `resign` commands to leaders, in total.
    pub resigns: u8,
    /// The number of `transfer` commands from leaders to other candidates, in total.
    pub transfers: u8,
    /// True if the search starts when the last process has called an election and all messages about it have
    /// arrived. False if the search starts before any event.
    pub elected: bool,
    /// The number of timers that fire, in total. A synchronous model has no limit.
    pub timers: u8,
    /// The number of messages that arrive twice.
    pub duplicates: u8,
    /// The number of messages that are lost by a step of their own.
    pub losses: u8,
    /// The number of crashes after which the process restarts with its disk.
    pub restarts: u8,
    /// The number of crashes after which the process restarts without its disk.
    pub wipes: u8,
    /// The model of time.
    pub clocks: Clocks,
}

/// The model of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "time")]
pub enum Clocks {
    /// Time stands still, and a timer may fire at any moment. This includes every behaviour of real clocks. For
    /// algorithms that never read a clock.
    Still,
    /// Each process has a clock of its own, independent of the other clocks. The clock advances only when a timer of
    /// the process fires. So the timers of one process fire in order, and early or late compared with other
    /// processes.
    Own,
    /// A true time advances in ticks, and each clock runs at a rate of its own.
    True {
        /// The length of a tick.
        tick: Span,
        /// The number of ticks.
        ticks: u8,
        /// The deviation of fast and slow clocks, in millionths.
        drift: u32,
        /// The clocks that run fast, and those that run slow.
        rates: Rates,
        /// True if every message arrives within a tick of being sent, and every timer fires on time. Otherwise
        /// messages and timers may be late without bound; timers are never early.
        synchronous: bool,
    },
}

/// The clocks that run fast, and those that run slow. A clock keeps its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rates {
    /// The clock of the last process, which is a candidate if any process is, runs slow and all others fast, or the
    /// other way round: the worst and the best case for a leader.
    Opposed,
    /// Every combination.
    All,
}

/// Settings that give an algorithm short leases, for ticks of [`LEASE_TICK`]. With clocks at the limits of the drift
/// bound, a lease expires after two ticks, at its holder and at the voters.
pub const SHORT_LEASES: &[(&str, &str)] =
    &[("voters", "2"), ("ttl", "12"), ("renew", "4"), ("drift-bound", "20%")];

/// The algorithms that never read a clock.
pub(crate) const CLOCK_FREE: &[&str] = &["raft", "stable-leader"];

/// The length of a tick for [`SHORT_LEASES`].
pub const LEASE_TICK: Span = Span::from_millis(5);

impl Bounds {
    /// Bounds within which a search of an algorithm with this contract is exhaustive in about a minute. `voters` is the
    /// number of voters, if the algorithm has any.
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
            Synchrony::PartiallySynchronous if CLOCK_FREE.contains(&contract.name) => {
                Bounds { candidates: 0, timers: 2, clocks: Clocks::Still, ..none }
            }
            Synchrony::PartiallySynchronous => Bounds { timers: 1, ..none },
            // Where hops are acknowledged, a timer fires because a message is late.
            Synchrony::Synchronous if contract.topology == Topology::Ring => none,
            Synchrony::Synchronous | Synchrony::Asynchronous => Bounds { timers: 2, ..none },
        }
    }
}

impl Clocks {
    /// True if messages and timers are on time.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Clocks::True { synchronous: true, .. })
    }

    /// The rates of the clocks, in millionths: for each initial state, a rate for each process.
    pub(crate) fn initial_rates(self, nodes: usize) -> Vec<Vec<u32>> {
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
    fn rates_are_opposed_or_all_combinations() {
        let clocks =
            |rates| Clocks::True { tick: Span::UNIT, ticks: 1, drift: 10, rates, synchronous: false };
        let (fast, slow) = (1_000_010, 999_990);
        let opposed = clocks(Rates::Opposed).initial_rates(3);
        assert_eq!(opposed, [[fast, fast, slow], [slow, slow, fast]]);
        let all = clocks(Rates::All).initial_rates(3);
        assert_eq!((all.len(), &all[5]), (8, &vec![fast, slow, fast]));
        assert_eq!(Clocks::Own.initial_rates(2), [[1_000_000; 2]]);
    }
}
