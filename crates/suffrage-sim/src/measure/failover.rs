//! How long nobody leads after a leader with a quorum lease is gone.

use suffrage_core::{Command, Hash, Rng, Roster, Span, Time};
use suffrage_lease::{Options, QuorumLease, Timings};

use crate::{Fault, Latency, Scenario, World};

/// A group with a quorum lease whose leader goes at a random moment. All of its members stand.
#[derive(Clone, Debug)]
pub struct FailoverTrial {
    /// How long everything takes.
    pub timings: Timings,
    /// How many of the members vote.
    pub voters: usize,
    /// How many members there are: the voters, and others. Of one or two voters none may die, so that then
    /// there must be others.
    pub members: usize,
    /// How long messages take.
    pub latency: Latency,
    /// How much clocks run fast or slow, as a fraction.
    pub drift: f64,
    /// Decides everything that is left to chance.
    pub seed: u64,
}

/// How a leader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverCause {
    /// It dies, with its vote if it has one.
    Crash,
    /// It releases its lease.
    Release,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// How long nobody led, in true time. None if that was longer than many leases.
    pub leaderless: Option<Span>,
}

impl FailoverTrial {
    /// Runs it.
    pub fn run(&self, cause: FailoverCause) -> Failover {
        let rng = &mut Rng::new(Hash::new(self.seed).word(5));
        let ttl = self.timings.ttl;
        let first = if self.voters > 2 { 0 } else { self.voters };
        let mut world = self.world(first + rng.below((self.members - first) as u64) as usize);
        // Everybody has asked who leads by then, and waits in the queues.
        let end = Time::ZERO + ttl * 3 + ttl.scale(rng.unit());
        world.run(end);
        let leader = (0..self.members).find(|&slot| world.facts().leads(slot));
        let leader = leader.expect("nothing has gone wrong yet");
        match cause {
            FailoverCause::Crash => world.schedule_fault(end, Fault::Crash(leader)),
            FailoverCause::Release => world.command(end, leader, Command::Resign),
        }
        Failover { leaderless: self.next(&mut world).map(|next| next.since(end)) }
    }

    /// When the next one leads.
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
