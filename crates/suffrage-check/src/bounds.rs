//! The size of a model, and the number of events in it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use suffrage_core::{Algorithm, Contract, NodeId, Roster, Span, Synchrony, Topology};

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
    /// The commands that processes get before the search starts, in this order. After each of them all messages arrive.
    pub before: Vec<NodeCommand>,
    /// The commands that processes get during the search: each of them once at most, at any time and in any order.
    pub commands: Vec<NodeCommand>,
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

/// A command to a process, in the text form of its algorithm: `1:voters remove 2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCommand {
    /// The process.
    pub to: NodeId,
    /// The command in its text form.
    pub text: String,
}

impl FromStr for NodeCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeCommand, String> {
        let (to, command) =
            text.split_once(':').ok_or_else(|| format!("`{text}` does not have the form 1:resign"))?;
        Ok(NodeCommand { to: to.parse()?, text: command.trim().to_string() })
    }
}

impl fmt::Display for NodeCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.to, self.text)
    }
}

impl Serialize for NodeCommand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl NodeCommand {
    /// The slot of the process, and the command as its algorithm knows it. The error says what is wrong.
    pub fn parse<A: Algorithm>(&self, roster: &Roster) -> Result<(usize, A::Command), String> {
        let slot = roster.slot(self.to).ok_or_else(|| {
            format!("there is no process {}: the ids of the processes are 1 to {}", self.to, roster.len())
        })?;
        Ok((slot, self.text.parse()?))
    }
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
    /// The greatest number of [`commands`](Bounds::commands).
    pub const MAX_COMMANDS: usize = u32::BITS as usize;

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
            before: Vec::new(),
            commands: Vec::new(),
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
    fn commands_parse_as_they_print() {
        let command: NodeCommand = "2:transfer 3".parse().unwrap();
        assert_eq!(command, NodeCommand { to: NodeId(2), text: "transfer 3".to_string() });
        assert_eq!(command.to_string(), "2:transfer 3");
        assert_eq!("2: transfer 3".parse(), Ok(command));
        for text in ["transfer 3", "x:resign", ":resign", ""] {
            assert!(text.parse::<NodeCommand>().is_err(), "{text}");
        }
    }

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
