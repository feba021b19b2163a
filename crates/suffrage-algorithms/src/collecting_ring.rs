//! The ring election that collects the live processes (unimore, "A Ring Algorithm"; Database
//! Internals, ch. 10, Figure 10-5).
//!
//! Model: synchronous, crash and recovery; every process knows the ring's order and all ranks. A failure detector
//! triggers elections; without a detector, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election [3]──▶ 4 ──Election [3,4]──▶ 5 ─ ─ ▶ (6 is dead) 1 ─ ─ ▶ 2 ─ ─ ▶ 3
//!   3 ──Coordinator 5──▶ 4 ─ ─ ▶ 5 ─ ─ ▶ 1 ─ ─ ▶ 2 ─ ─ ▶ 3      the best of [3,4,5,1,2] leads
//! ```
//!
//! Cost: `2N` messages and message delays, whichever process calls. An `Election` grows with every process.
//!
//! Promise: some time after faults stop, the best live process of each component leads it. Not promised: "since the
//! ring can be partitioned in two or more parts, with each part potentially electing its own leader, this approach
//! doesn't hold a safety property, either".
//!
//! Interpretations: two simultaneous elections both complete, and name the same leader. Of two `Coordinator`s the
//! one of the greater run wins, and the other is only passed on. A process that finds itself in the list of an
//! election that it did not call knows that the initiator is dead, since the message would have ended there: the
//! process drops the message and calls an election of its own. An initiator does not choose a process that it
//! suspects meanwhile.

use serde::{Deserialize, Serialize};

use super::chang_roberts;
use super::ring::{Ring, Run, Token};
use suffrage_core::{Context, Contract, Cost, Formula, NodeId, Rank, View};

/// A process of the collecting ring.
pub type CollectingRing = Ring<Election>;

/// The content of an `Election` message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Election {
    /// The processes that have passed the message on, the initiator first.
    pub members: Vec<NodeId>,
}

impl Token for Election {
    const CONTRACT: Contract = Contract {
        name: "collecting-ring",
        summary: "A list of the live processes is collected round the ring, and the best on it leads.",
        source: "unimore; Database Internals, ch. 10, Figure 10-5",
        messages: Cost {
            best: Formula { text: "2N", of: |n| 2 * n },
            worst: Formula { text: "2N", of: |n| 2 * n },
        },
        time: Cost {
            best: Formula { text: "2N", of: |n| 2 * n },
            worst: Formula { text: "2N", of: |n| 2 * n },
        },
        ..chang_roberts::Election::CONTRACT
    };
    const OUTCOME: &'static str = "Coordinator";
    const REPAIRS: &'static str = "both|timeout|detector|none";
    const SUPPRESSES: bool = false;

    /// "… builds an ELECTION message which contains its own ID number."
    fn new(view: View<'_>) -> Election {
        Election { members: vec![view.me()] }
    }

    fn best(&self) -> Option<Rank> {
        None
    }

    fn arrive(mut self, ring: &mut Ring<Self>, cx: &mut Context<'_, Ring<Self>>, run: Run) {
        let (me, view) = (cx.me(), cx.view());
        let repairs = !ring.repair().is_none();
        if run.initiator == me {
            // "… sees its own process ID in the list and knows that the circuit is complete."
            let unsuspected = self.members.into_iter().filter(|&id| !ring.is_suspected(id));
            let leader = unsuspected.max_by_key(|&id| view.rank(id)).unwrap_or(me);
            ring.conclude(cx, run, leader);
        } else if self.members.contains(&me) && repairs {
            ring.abandon(cx, run);
        } else if ring.awaited_run(run).is_none() || !repairs {
            // "Each process adds its own number and forwards to next."
            if !self.members.contains(&me) {
                self.members.push(me);
            }
            ring.pass_token(cx, run, self, run.initiator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::*;
    use crate::ring::{Message, Options, Timer};

    const RING: &[u64] = &[1, 2, 3, 4, 5, 6];

    fn election(term: u64, initiator: u64, members: &[u64]) -> Message<Election> {
        let members = members.iter().copied().map(NodeId).collect();
        Message::Election { hop: 0, run: run(term, initiator), token: Election { members } }
    }

    fn process(me: u64, repair: &str) -> RingProcess<Election> {
        RingProcess::new(RING, me, options::<Election>(repair))
    }

    fn ring(repair: &str) -> TestRing<Election> {
        TestRing::new(RING, options::<Election>(repair))
    }

    /// "… builds an ELECTION message which contains its own ID number. Sends to first live
    /// successor."
    #[test]
    fn an_initiator_sends_its_own_id() {
        let mut process = process(5, "none");
        process.suspect(6);
        assert_eq!(process.campaign(), [send(1, election(1, 5, &[5]))]);
    }

    /// "Each process adds its own number and forwards to next."
    #[test]
    fn each_process_adds_itself_and_forwards() {
        let mut process = process(4, "none");
        assert_eq!(process.receive(3, election(1, 3, &[3])), [send(5, election(1, 3, &[3, 4]))]);
    }

    /// "When the message returns to p, it sees its own process ID in the list and knows that the
    /// circuit is complete. P circulates a COORDINATOR message with the new high number."
    #[test]
    fn when_the_token_returns_the_best_on_the_list_leads() {
        let mut process = process(3, "none");
        process.campaign();
        let effects = process.receive(2, election(1, 3, &[3, 4, 5, 1, 2]));
        assert_eq!(effects, [announce_leader(5, 1), send(4, elected(run(1, 3), 0, 5))]);
        assert_eq!(process.receive(2, elected(run(1, 3), 0, 5)), [], "the outcome ends at the initiator");
        assert_eq!(process.receive(2, election(1, 3, &[3, 4, 5, 1, 2])), [], "a duplicate");
    }

    #[test]
    fn the_leader_is_the_best_ranked_known_member_that_is_not_suspected() {
        let mut process = process(3, "both");
        process.campaign();
        process.set_attribute(1, 7);
        process.set_attribute(4, 8);
        process.suspect(4);
        assert_eq!(process.receive(2, election(1, 3, &[3, 4, 5, 99, 1, 2]))[1], announce_leader(1, 1));
    }

    #[test]
    fn the_elected_process_passes_the_outcome_on() {
        let outcome = elected(run(1, 3), 0, 6);
        assert_eq!(process(6, "none").receive(5, outcome.clone()), [announce_leader(6, 1), send(1, outcome)]);
    }

    /// "The complexity is always 2n"; with acknowledgements, which are not counted.
    #[test]
    fn an_election_takes_two_circulations_whichever_process_calls() {
        for caller in RING {
            let mut ring = TestRing::<Election>::new(RING, Options::default());
            ring.at(*caller, RingProcess::campaign).deliver(usize::MAX);
            let cost = (Election::CONTRACT.messages.worst.of)(6) as usize;
            assert_eq!((ring.counts(), ring.leaders()), ((cost, cost), vec![Some(6)]));
        }
    }

    /// Figure 10-5: "5 can't reach 6, so it skips it and goes straight to 1 … Since 5 was the node
    /// with the highest rank, 3 initiates another round of messages."
    #[test]
    fn the_example_of_figure_10_5_elects_5() {
        let mut ring = TestRing::<Election>::new(RING, Options::default());
        ring.kill(6);
        ring.at(3, RingProcess::campaign).deliver(usize::MAX);
        assert_eq!(ring.leaders(), [None]);
        ring.at(5, |process| process.expire(Timer::Hop, DELAY * 3)).deliver(usize::MAX);
        ring.at(5, |process| process.expire(Timer::Hop, DELAY * 3)).deliver(usize::MAX);
        assert_eq!(ring.leaders(), [Some(5)]);
        assert_eq!(ring.counts().0, 2 * 5 + 2, "and two messages to the dead process");
    }

    /// "OK to have two elections at once … Here, both 2 and 5 elect 6."
    #[test]
    fn two_simultaneous_elections_both_complete_and_agree() {
        let mut ring = ring("both");
        ring.at(2, RingProcess::campaign).at(5, RingProcess::campaign).deliver(usize::MAX);
        assert_eq!((ring.leaders(), ring.counts().0), (vec![Some(6)], 24));
    }

    #[test]
    fn of_two_coordinators_the_greater_run_wins() {
        let mut process = process(4, "none");
        process.receive(3, election(1, 5, &[5, 6, 1, 2, 3]));
        let lower = elected(run(1, 2), 0, 6);
        assert_eq!(process.receive(3, lower.clone()), [announce_leader(6, 1), send(5, lower.clone())]);
        assert_eq!(process.campaign(), [], "the process awaits the greater run");
        let greater = elected(run(1, 5), 0, 6);
        assert_eq!(process.receive(3, greater.clone()), [send(5, greater)]);
        let lower = elected(run(1, 3), 0, 6);
        assert_eq!(
            process.receive(3, lower.clone()),
            [send(5, lower.clone())],
            "the lower outcome is passed on, but not accepted"
        );
        assert_eq!(process.receive(3, lower), [], "passed on once");
        assert_eq!(process.receive(3, elected(run(1, 4), 0, 6)), [], "the outcome of the own run ends here");
    }

    #[test]
    fn a_leader_by_the_lower_of_two_runs_still_awaits_the_greater() {
        let options = Options { reaffirm: Some(10), ..options::<Election>("detector") };
        let mut process = RingProcess::<Election>::new(RING, 6, options);
        process.receive(5, election(1, 3, &[3, 4, 5]));
        let effects = process.receive(5, elected(run(1, 2), 0, 6));
        assert_eq!((timer(&effects, Timer::Reaffirm), timer(&effects, Timer::Leader)), (None, Some(36)));
    }

    #[test]
    fn lower_runs_are_passed_on_only_in_their_own_term() {
        let mut process = process(4, "both");
        for term in 1..3 {
            process.receive(3, election(term, 5, &[5, 6, 1, 2, 3]));
            assert_eq!(sent(&process.receive(3, election(term, 2, &[2, 3]))).len(), 1);
        }
        assert_eq!(process.receive(3, election(1, 3, &[3])), []);
    }

    /// Otherwise the message would have ended at the initiator.
    #[test]
    fn a_token_that_arrives_twice_makes_the_process_call_an_election() {
        let mut process = process(4, "timeout");
        process.receive(2, election(1, 3, &[3]));
        let effects = process.receive(2, election(1, 3, &[3, 4, 5, 6, 1, 2]));
        assert_eq!(sent(&effects), [(5, election(2, 4, &[4]))]);
    }

    #[test]
    fn a_duplicate_that_skipped_processes_is_dropped() {
        let mut process = process(5, "timeout");
        process.receive(4, election(1, 3, &[3, 4]));
        assert_eq!(process.receive(3, election(1, 3, &[3])), []);
        // The same holds for the lower of two runs.
        assert_eq!(sent(&process.receive(4, election(1, 2, &[2, 3, 4]))).len(), 1);
        assert_eq!(process.receive(4, election(1, 2, &[2, 3])), []);
    }

    fn initiator_dies(repair: &str) -> TestRing<Election> {
        let mut ring = ring(repair);
        ring.at(3, RingProcess::campaign).deliver(3);
        ring.kill(3);
        ring.at(2, |process| process.suspect(3)).deliver(1_000);
        ring
    }

    #[test]
    fn without_repair_the_token_of_a_dead_initiator_circulates_for_ever() {
        let ring = initiator_dies("none");
        assert!(!ring.is_idle());
        assert_eq!(ring.leaders(), [None]);
    }

    #[test]
    fn with_repair_the_first_process_that_sees_the_token_twice_calls_an_election() {
        for repair in ["both", "timeout", "detector"] {
            let ring = initiator_dies(repair);
            assert!(ring.is_idle());
            assert_eq!(ring.leaders(), [Some(6)], "{repair}");
        }
    }

    #[test]
    fn a_process_that_suspects_the_initiator_calls_an_election() {
        let mut process = process(5, "detector");
        process.receive(4, election(1, 3, &[3, 4]));
        assert_eq!(process.suspect(4), []);
        assert_eq!(process.suspect(3), [send(6, election(2, 5, &[5]))]);
    }
}
