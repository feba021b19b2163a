//! The ring election that carries the maximum only (Database Internals, ch. 10, "Ring Algorithm",
//! last paragraph).
//!
//! Model: as for the collecting ring, but a process need not know the ranks of the others, since the message carries
//! them: "since the max function is commutative, it is enough to know a current maximum".
//!
//! ```text
//!   3 ──Election 3──▶ 4 ──Election 4──▶ 5 ─ ─ ▶ (6 is dead) 1 ──Election 5──▶ 2 ─ ─ ▶ 3
//!   3 ──Coordinator 5──▶ 4 ─ ─ ▶ 5 ─ ─ ▶ 1 ─ ─ ▶ 2 ─ ─ ▶ 3
//! ```
//!
//! Cost: `2N` messages and message delays, whichever process calls, all messages of the same size.
//!
//! Promise: some time after faults stop, the best live process of each component leads it. Not promised: under
//! partition every component elects a leader.
//!
//! Interpretations: without a list, a process cannot tell a token whose initiator is dead from a duplicate (the
//! acknowledgement of a hop may be lost). The process drops a token that it has already passed on, and calls an
//! election only by its time-out or its detector. Calling at once would, on a long ring that loses messages, let no
//! election end before the next begins. An initiator that suspects the maximum when the token returns calls again.
//! Two simultaneous elections: as in the collecting ring.

use serde::{Deserialize, Serialize};

use super::collecting_ring;
use super::ring::{Ring, Run, Token};
use suffrage_core::{Context, Contract, Rank, View};

/// A process of the maximum-only ring.
pub type MaximumRing = Ring<Election>;

/// The content of an `Election` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Election {
    /// The best process among those that have passed the message on.
    pub best: Rank,
}

impl Token for Election {
    const CONTRACT: Contract = Contract {
        name: "maximum-ring",
        summary: "The best id on the way round the ring returns to the initiator, which announces it.",
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
            if ring.repair().detector && ring.is_suspected(best.id) {
                ring.abandon(cx, run);
            } else {
                ring.conclude(cx, run, best.id);
            }
        } else if ring.awaited_run(run).is_none() || ring.repair().is_none() {
            ring.pass_token(cx, run, Election { best }, run.initiator);
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

    fn process(me: u64, repair: &str) -> RingProcess<Election> {
        RingProcess::new(RING, me, options::<Election>(repair))
    }

    /// "Collecting a single highest-ranked identifier instead of a set of active nodes."
    #[test]
    fn each_process_passes_on_the_better_of_the_token_and_itself() {
        let mut process = process(4, "none");
        assert_eq!(process.receive(3, election(1, 3, 3)), [send(5, election(1, 3, 4))]);
        assert_eq!(process.receive(3, election(2, 3, 6)), [send(5, election(2, 3, 6))]);
    }

    /// "When the algorithm comes back to the node that has started the election, the last known
    /// highest identifier is circulated across the ring once again."
    #[test]
    fn when_the_token_returns_the_best_leads() {
        let mut process = process(3, "none");
        process.campaign();
        let effects = process.receive(2, election(1, 3, 5));
        assert_eq!(effects, [announce_leader(5, 1), send(4, elected(run(1, 3), 0, 5))]);
        assert_eq!(process.receive(2, elected(run(1, 3), 0, 5)), [], "the outcome ends at the initiator");
    }

    #[test]
    fn a_rank_that_changed_during_the_run_counts_with_its_current_value() {
        let mut process = process(3, "none");
        process.campaign();
        process.set_attribute(3, 9);
        assert_eq!(process.receive(2, election(1, 3, 6))[0], announce_leader(3, 1));

        let mut demoted = self::process(6, "none");
        demoted.set_attribute(6, 0);
        let mine = Rank { attribute: 0, id: NodeId(6) };
        let token = Message::Election { hop: 0, run: run(1, 3), token: Election { best: mine } };
        assert_eq!(demoted.receive(5, election(1, 3, 6)), [send(1, token)]);
    }

    #[test]
    fn an_initiator_that_outranks_the_returned_maximum_calls_again() {
        let mut process = process(3, "none");
        process.campaign();
        process.set_attribute(6, 1);
        let call = Message::Election { hop: 0, run: run(2, 3), token: Election::new(process.roster.view(2)) };
        assert_eq!(process.receive(2, election(1, 3, 6)), [send(4, call)]);
    }

    #[test]
    fn an_election_takes_two_circulations_whichever_process_calls() {
        for caller in RING {
            let mut ring = TestRing::<Election>::new(RING, Options::default());
            ring.at(*caller, RingProcess::campaign).deliver(usize::MAX);
            let cost = (Election::CONTRACT.messages.worst.of)(6) as usize;
            assert_eq!((ring.counts(), ring.leaders()), ((cost, cost), vec![Some(6)]));
        }
    }

    #[test]
    fn two_simultaneous_elections_both_complete_and_agree() {
        let mut ring = TestRing::<Election>::new(RING, options::<Election>("both"));
        ring.at(2, RingProcess::campaign).at(5, RingProcess::campaign).deliver(usize::MAX);
        assert_eq!((ring.leaders(), ring.counts().0), (vec![Some(6)], 24));
    }

    #[test]
    fn a_token_that_was_already_passed_on_is_dropped() {
        let mut process = process(4, "timeout");
        process.receive(3, election(1, 3, 3));
        assert_eq!(
            process.receive(2, election(1, 3, 6)),
            [],
            "the initiator is dead, or the token is a duplicate"
        );
        // The same holds for the lower of two runs.
        assert_eq!(sent(&process.receive(3, election(1, 2, 3))), [(5, election(1, 2, 4))]);
        assert_eq!(process.receive(3, election(1, 2, 6)), []);
        assert_eq!(sent(&process.expire(Timer::Outcome, DELAY * 38)), [(5, election(2, 4, 4))]);
    }

    #[test]
    fn without_repair_the_token_of_a_dead_initiator_circulates_for_ever() {
        let mut ring = TestRing::<Election>::new(RING, options::<Election>("none"));
        ring.at(3, RingProcess::campaign).deliver(3);
        ring.kill(3);
        ring.at(2, |process| process.suspect(3)).deliver(1_000);
        assert!(!ring.is_idle());
        assert_eq!(ring.leaders(), [None]);
    }

    /// The run fails if either process is dead.
    #[test]
    fn a_process_that_suspects_the_initiator_or_the_best_calls_an_election() {
        for dead in [3, 6] {
            let mut process = process(1, "detector");
            process.receive(6, election(1, 3, 6));
            assert_eq!(process.suspect(4), []);
            assert_eq!(process.suspect(dead), [send(2, election(2, 1, 1))]);
        }
    }

    #[test]
    fn an_initiator_that_suspects_the_best_calls_again() {
        let mut process = process(3, "both");
        process.campaign();
        process.suspect(6);
        assert_eq!(sent(&process.receive(2, election(1, 3, 6))), [(4, election(2, 3, 3))]);
    }
}
