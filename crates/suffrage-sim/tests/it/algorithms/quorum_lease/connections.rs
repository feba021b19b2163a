//! Processes that lead through the node of their machine by connection, under torture: they are killed, stopped and
//! disconnected, and nodes die without them. The invariants of leaders are checked for the processes.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_lease::Bug;
use suffrage_sim::{Outcome, TortureCase, TortureTarget};

use crate::algorithms::seeds;

/// The outcomes of the cases with connections, from the first seed on.
fn tortured(bug: Option<Bug>) -> impl Iterator<Item = (u64, Outcome)> {
    (0..).filter_map(move |seed| {
        let TortureCase { scenario, options, .. } = TortureTarget::<QuorumLease>::default().case(seed);
        let run = || (seed, scenario.run::<QuorumLease>(&Options { bug, ..options }));
        (options.connections > 0).then(run)
    })
}

/// "No two processes believe they lead one name at one moment", tokens increase, and after the faults a process leads
/// and all machines know it: no lease is kept for a dead process.
#[test]
fn no_two_processes_believe_to_lead_one_name_at_one_moment() {
    let mut leaderships = 0;
    for (seed, outcome) in tortured(None).take(seeds() as usize / 2) {
        assert_eq!(outcome.violations, [], "seed {seed}");
        leaderships += outcome.leaderships;
    }
    assert!(leaderships > seeds() as usize, "{leaderships}: processes did lead, and one after the other");
}

#[test]
fn each_deliberate_bug_in_sessions_by_connection_is_found() {
    for (bug, invariant, most) in [
        (Bug::ReleaseWhenBroken, "at-most-one-leader", 200),
        (Bug::DeadlineBeyondLease, "at-most-one-leader", 200),
        (Bug::IgnoreSlew, "at-most-one-leader", 600),
        (Bug::KeepDeadHolder, "termination", 200),
    ] {
        let broken = |outcome: &Outcome| outcome.violations.iter().any(|it| it.invariant == invariant);
        assert!(tortured(Some(bug)).take(most).any(|(_, outcome)| broken(&outcome)), "{bug:?}");
    }
}
