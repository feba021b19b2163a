//! The ring election that carries the maximum only (Database Internals, ch. 10, "Ring Algorithm",
//! last paragraph).
//!
//! Model: as the collecting ring's, but a process need not know how the others rank, since the
//! message says it: "since the max function is commutative, it is enough to know a current maximum".
//!
//! ```text
//!   3 ──Election 3──▶ 4 ──Election 4──▶ 5 ─ ─ ▶ (6 is dead) 1 ──Election 5──▶ 2 ─ ─ ▶ 3
//!   3 ──Coordinator 5──▶ 4 ─ ─ ▶ 5 ─ ─ ▶ 1 ─ ─ ▶ 2 ─ ─ ▶ 3
//! ```
//!
//! Cost: `2N` messages and message delays, whoever calls, all of the same size.
//!
//! Promises that some time after faults stop, the best live process of each component leads it.
//! Does not promise more: under partition every part elects a leader.
//!
//! Readings: without a list, a process cannot tell a token whose initiator is gone from a duplicate
//! (the acknowledgement of a hop may be lost): it drops a token it has passed on already, and leaves
//! it to its time-out or its detector to call an election. To call one at once would, on a long ring
//! that loses messages, let no election end before the next begins. An initiator that suspects the
//! maximum when the token is back calls again. Two elections at once: as in the collecting ring.

use serde::{Deserialize, Serialize};

use super::collecting_ring;
use super::ring::{Ring, Run, Token};
use suffrage_core::{Context, Contract, Rank, View};

/// A process of the maximum-only ring.
pub type MaximumRing = Ring<Election>;

/// What an `Election` message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Election {
    /// The best of the processes that have passed it on.
    pub best: Rank,
}

impl Token for Election {
    const CONTRACT: Contract = Contract {
        name: "maximum-ring",
        summary: "The best id met on the way round the ring comes back to the initiator, who announces it.",
        source: "Database Internals, ch. 10, Ring Algorithm",
        ..collecting_ring::Election::CONTRACT
    };
    const OUTCOME: &'static str = "Coordinator";
    const REPAIRS: &'static str = "both|timeout|detector|none";
    const SUPPRESSES: bool = false;

    fn new(view: View<'_>) -> Election {
        Election { best: view.my_rank() }
    }

    fn best(&self) -> Option<Rank> {
        Some(self.best)
    }

    fn arrive(self, ring: &mut Ring<Self>, cx: &mut Context<'_, Ring<Self>>, run: Run) {
        let mine = cx.view().my_rank();
        let best = if self.best.id == mine.id { mine } else { self.best.max(mine) };
        if run.initiator == cx.me() {
            // "… the last known highest identifier is circulated across the ring once again."
            if ring.repair().detector && ring.suspects(best.id) {
                ring.give_up(cx, run);
            } else {
                ring.conclude(cx, run, best.id);
            }
        } else if ring.awaits(run).is_none() || ring.repair().is_none() {
            ring.pass_on(cx, run, Election { best }, run.initiator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::*;
    use crate::ring::{Message, Options, Timer};
    use suffrage_core::{Attribute, NodeId};

    const RING: &[u64] = &[1, 2, 3, 4, 5, 6];

    fn election(term: u64, initiator: u64, best: u64) -> Message<Election> {
        let best = Rank { attribute: best as Attribute, id: NodeId(best) };
        Message::Election { hop: 0, run: run(term, initiator), token: Election { best } }
    }

    fn process(me: u64, repair: &str) -> One<Election> {
        One::new(RING, me, options::<Election>(repair))
    }

    /// "Collecting a single highest-ranked identifier instead of a set of active nodes."
    #[test]
    fn each_passes_the_better_of_the_token_and_itself_on() {
        let mut process = process(4, "none");
        assert_eq!(process.hear(3, election(1, 3, 3)), [send(5, election(1, 3, 4))]);
        assert_eq!(process.hear(3, election(2, 3, 6)), [send(5, election(2, 3, 6))]);
    }

    /// "When the algorithm comes back to the node that has started the election, the last known
    /// highest identifier is circulated across the ring once again."
    #[test]
    fn back_at_the_initiator_the_best_leads() {
        let mut process = process(3, "none");
        process.campaign();
        let effects = process.hear(2, election(1, 3, 5));
        assert_eq!(effects, [believe(5, 1), send(4, elected(run(1, 3), 0, 5))]);
        assert_eq!(process.hear(2, elected(run(1, 3), 0, 5)), [], "it ends where it began");
    }

    #[test]
    fn a_rank_that_changed_on_the_way_counts_as_it_is_now() {
        let mut process = process(3, "none");
        process.campaign();
        process.rank_changes(3, 9);
        assert_eq!(process.hear(2, election(1, 3, 6))[0], believe(3, 1));

        let mut fallen = self::process(6, "none");
        fallen.rank_changes(6, 0);
        let mine = Rank { attribute: 0, id: NodeId(6) };
        let token = Message::Election { hop: 0, run: run(1, 3), token: Election { best: mine } };
        assert_eq!(fallen.hear(5, election(1, 3, 6)), [send(1, token)]);
    }

    #[test]
    fn an_initiator_that_outranks_the_maximum_by_now_calls_again() {
        let mut process = process(3, "none");
        process.campaign();
        process.rank_changes(6, 1);
        let call = Message::Election { hop: 0, run: run(2, 3), token: Election::new(process.roster.view(2)) };
        assert_eq!(process.hear(2, election(1, 3, 6)), [send(4, call)]);
    }

    #[test]
    fn whoever_calls_there_are_two_trips_round_the_ring() {
        for caller in RING {
            let mut table = Table::<Election>::new(RING, Options::default());
            table.at(*caller, One::campaign).deliver(usize::MAX);
            let cost = (Election::CONTRACT.messages.worst.of)(6) as usize;
            assert_eq!((table.counts(), table.leaders()), ((cost, cost), vec![Some(6)]));
        }
    }

    #[test]
    fn two_elections_at_once_both_complete_and_agree() {
        let mut table = Table::<Election>::new(RING, options::<Election>("both"));
        table.at(2, One::campaign).at(5, One::campaign).deliver(usize::MAX);
        assert_eq!((table.leaders(), table.counts().0), (vec![Some(6)], 24));
    }

    #[test]
    fn a_token_that_was_passed_on_before_is_dropped() {
        let mut process = process(4, "timeout");
        process.hear(3, election(1, 3, 3));
        assert_eq!(process.hear(2, election(1, 3, 6)), [], "the initiator is gone, or it is a duplicate");
        // The same for the lower of two runs.
        assert_eq!(sent(&process.hear(3, election(1, 2, 3))), [(5, election(1, 2, 4))]);
        assert_eq!(process.hear(3, election(1, 2, 6)), []);
        assert_eq!(sent(&process.run_out(Timer::Outcome, DELAY * 38)), [(5, election(2, 4, 4))]);
    }

    #[test]
    fn unrepaired_the_token_of_a_dead_initiator_circles_for_ever() {
        let mut table = Table::<Election>::new(RING, options::<Election>("none"));
        table.at(3, One::campaign).deliver(3);
        table.kill(3);
        table.at(2, |one| one.suspect(3)).deliver(1_000);
        assert!(!table.is_quiet());
        assert_eq!(table.leaders(), [None]);
    }

    /// The run comes to nothing if either is dead.
    #[test]
    fn whoever_detects_that_the_initiator_or_the_best_is_dead_calls_an_election() {
        for dead in [3, 6] {
            let mut process = process(1, "detector");
            process.hear(6, election(1, 3, 6));
            assert_eq!(process.suspect(4), []);
            assert_eq!(process.suspect(dead), [send(2, election(2, 1, 1))]);
        }
    }

    #[test]
    fn an_initiator_that_suspects_the_best_calls_again() {
        let mut process = process(3, "both");
        process.campaign();
        process.suspect(6);
        assert_eq!(sent(&process.hear(2, election(1, 3, 6))), [(4, election(2, 3, 3))]);
    }
}
