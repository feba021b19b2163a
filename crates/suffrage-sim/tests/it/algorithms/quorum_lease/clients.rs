//! Clients of nodes under torture: drifting clocks, lost and repeated requests, nodes that crash, restart, pause and hand
//! over. The invariants of leaders are checked for the clients.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_lease::Bug;
use suffrage_sim::{Outcome, TortureCase, TortureTarget};

use crate::algorithms::seeds;

/// The outcomes of the cases with such options, from the first seed on.
fn tortured_if(wanted: fn(&Options) -> bool, bug: Option<Bug>) -> impl Iterator<Item = (u64, Outcome)> {
    (0..).filter_map(move |seed| {
        let TortureCase { scenario, options, .. } = TortureTarget::<QuorumLease>::default().case(seed);
        wanted(&options).then(|| (seed, scenario.run::<QuorumLease>(&Options { bug, ..options })))
    })
}

/// The outcomes of the cases with clients, from the first seed on.
fn tortured(bug: Option<Bug>) -> impl Iterator<Item = (u64, Outcome)> {
    tortured_if(|options| options.clients > 0, bug)
}

/// "No two clients believe they lead one name at one moment", tokens increase, and after the faults a client leads and
/// all know it.
#[test]
fn no_two_clients_believe_to_lead_one_name_at_one_moment() {
    let mut leaderships = 0;
    for (seed, outcome) in tortured(None).take(seeds() as usize / 2) {
        assert_eq!(outcome.violations, [], "seed {seed}");
        leaderships += outcome.leaderships;
    }
    assert!(leaderships > seeds() as usize, "{leaderships}: clients did lead, and one after the other");
}

/// Whether one of so many cases with clients has two leaders.
fn makes_two_leaders(bug: Bug, cases: usize) -> bool {
    let two = |outcome: &Outcome| outcome.violations.iter().any(|it| it.invariant == "at-most-one-leader");
    tortured(Some(bug)).take(cases).any(|(_, outcome)| two(&outcome))
}

#[test]
fn each_deliberate_bug_in_the_sessions_makes_two_leaders() {
    for (bug, most) in [
        (Bug::SessionValidityFromReply, 300),
        (Bug::RevokeAtOnce, 300),
        (Bug::SharedLease, 100),
        (Bug::UndoAfterReply, 100),
        (Bug::SkipPin, 100),
    ] {
        assert!(makes_two_leaders(bug, most), "{bug:?}");
    }
}

/// A client that dies when it is its turn must not keep the others from leading.
#[test]
fn a_turn_that_never_passes_is_found() {
    let found = tortured(Some(Bug::EndlessTurn))
        .take(300)
        .any(|(_, outcome)| outcome.violations.iter().any(|it| it.invariant == "termination"));
    assert!(found);
}

#[test]
fn a_second_process_with_the_same_id_must_not_get_the_lease_of_the_first() {
    let found = tortured_if(|options| options.clients == 0, Some(Bug::IgnoreBoot))
        .take(500)
        .any(|(_, outcome)| outcome.violations.iter().any(|it| it.invariant == "lease-outlives-crash"));
    assert!(found);
}
