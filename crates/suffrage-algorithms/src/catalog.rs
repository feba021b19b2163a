//! The catalog of all algorithms, by name.

use crate::{
    announce, bully, candidate_ordinary, chang_roberts, collecting_ring, grid_quorum, gupta, invitation,
    maximum_ring, modified_bully, next_in_line, probabilistic_quorum, quorum_lease, raft, randomized,
    stable_leader, suppress,
};

suffrage_core::catalog! {
    bully::Bully,
    modified_bully::ModifiedBully,
    next_in_line::NextInLine,
    candidate_ordinary::CandidateOrdinary,
    invitation::Invitation,
    chang_roberts::ChangRoberts,
    collecting_ring::CollectingRing,
    maximum_ring::MaximumRing,
    stable_leader::StableLeader,
    announce::Announce,
    suppress::Suppress,
    raft::Raft,
    grid_quorum::GridQuorum,
    quorum_lease::QuorumLease,
    gupta::Gupta,
    randomized::Randomized,
    probabilistic_quorum::ProbabilisticQuorum,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use suffrage_core::{Algorithm, Visitor};

    use super::*;

    struct Check;
    impl Visitor for Check {
        type Output = &'static str;
        fn visit<A: Algorithm>(self) -> &'static str {
            let mut options = A::Options::default();
            for parameter in A::PARAMETERS {
                let shown = (parameter.show)(&options);
                if !shown.is_empty() {
                    (parameter.set)(&mut options, &shown).unwrap_or_else(|error| {
                        panic!(
                            "{}: --{} prints `{shown}` but does not parse it: {error}",
                            A::CONTRACT.name,
                            parameter.name
                        )
                    });
                    assert_eq!((parameter.show)(&options), shown);
                }
                assert!(parameter.help.len() > 10);
            }
            A::CONTRACT.name
        }
    }

    #[test]
    fn names_are_unique_and_parameters_parse_what_they_print() {
        let names: BTreeSet<_> = CONTRACTS.iter().map(|contract| contract.name).collect();
        assert_eq!(names.len(), CONTRACTS.len());
        for name in names {
            assert_eq!(visit(name, Check), Some(name));
        }
        assert_eq!(visit("no-such-algorithm", Check), None);
    }
}
