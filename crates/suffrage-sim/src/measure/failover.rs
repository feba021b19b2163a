//! Measures the leaderless time after the end of a leader with a quorum lease.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Command, Hash, Rng, Roster, Span, Time};
use suffrage_lease::Timings;

use crate::{Fault, Latency, Scenario, World};

/// A group with a quorum lease whose leader crashes or resigns at a random moment. All members are candidates.
#[derive(Clone, Debug)]
pub struct FailoverTrial {
    /// The timings of the lease.
    pub timings: Timings,
    /// The number of voters.
    pub voters: usize,
    /// The number of members, including the voters. With one or two voters no voter may crash, so there must be other
    /// members.
    pub members: usize,
    /// The delay of messages.
    pub latency: Latency,
    /// The greatest deviation of a clock's rate, as a fraction.
    pub drift: f64,
    /// The seed of every random decision.
    pub seed: u64,
}

/// The cause of a fail-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverCause {
    /// The leader crashes, with its vote if it has one.
    Crash,
    /// The leader releases its lease.
    Release,
}

/// The result of a [`FailoverTrial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The leaderless time, in true time. None if it was longer than 20 leases.
    pub leaderless: Option<Span>,
}

impl FailoverTrial {
    /// Runs the trial.
    pub fn run(&self, cause: FailoverCause) -> Failover {
        let rng = &mut Rng::new(Hash::new(self.seed).word(5));
        let ttl = self.timings.ttl;
        let first = if self.voters > 2 { 0 } else { self.voters };
        let mut world = self.world(first + rng.below((self.members - first) as u64) as usize);
        // By then all candidates have enquired, and wait in the voters' queues.
        let end = Time::ZERO + ttl * 3 + ttl.scale(rng.unit());
        world.run(end);
        let leader = (0..self.members).find(|&slot| world.facts().leads(slot));
        let leader = leader.expect("there is a leader before the first fault");
        match cause {
            FailoverCause::Crash => world.schedule_fault(end, Fault::Crash(leader)),
            FailoverCause::Release => world.command(end, leader, Command::Resign),
        }
        Failover { leaderless: self.next(&mut world).map(|next| next.since(end)) }
    }

    /// The beginning of the next leadership.
    fn next(&self, world: &mut World<QuorumLease>) -> Option<Time> {
        let (before, end) = (world.ledger().leaderships.len(), world.now());
        for quarters in 1..=80 {
            world.run(end + self.timings.ttl.scale(0.25 * f64::from(quarters)));
            if let Some(next) = world.ledger().leaderships.get(before) {
                assert_eq!(world.ledger().violations, [], "seed {}", self.seed);
                return Some(next.from);
            }
        }
        None
    }

    fn world(&self, first: usize) -> World<QuorumLease> {
        let mut scenario = Scenario::new(Roster::numbered(self.members));
        scenario.seed = self.seed;
        scenario.latency = self.latency;
        scenario.drift = self.drift;
        scenario.initiators = vec![first];
        let exact = Some(self.timings);
        scenario.world(&Options { voters: self.voters, exact, ..Options::default() })
    }
}
