//! The ring election that collects the live processes (unimore, "A Ring Algorithm"; Database
//! Internals, ch. 10, Figure 10-5).
//!
//! Model: synchronous, crash and recovery; everybody knows the ring's order and how each ranks. A
//! failure detector tells when to call an election; without one, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election [3]──▶ 4 ──Election [3,4]──▶ 5 ─ ─ ▶ (6 is dead) 1 ─ ─ ▶ 2 ─ ─ ▶ 3
//!   3 ──Coordinator 5──▶ 4 ─ ─ ▶ 5 ─ ─ ▶ 1 ─ ─ ▶ 2 ─ ─ ▶ 3      the best of [3,4,5,1,2] leads
//! ```
//!
//! Cost: `2N` messages and message delays, whoever calls. An `Election` grows with every process.
//!
//! Promises that some time after faults stop, the best live process of each component leads it.
//! Does not promise more: "since the ring can be partitioned in two or more parts, with each part
//! potentially electing its own leader, this approach doesn't hold a safety property, either".
//!
//! Readings: two elections at once both complete, and name the same leader; of two `Coordinator`s
//! the one of the greater run stands, and the other is only passed on. A process that finds itself in
//! the list of an election it did not call knows that the initiator is gone, or else the message
//! would have ended there: it drops it and calls an election of its own. An initiator does not
//! choose a process that it suspects meanwhile.

use serde::{Deserialize, Serialize};

use super::chang_roberts;
use super::ring::{Ring, Run, Token};
use suffrage_core::{Context, Contract, Cost, Formula, NodeId, Rank, View};

/// A process of the collecting ring.
pub type CollectingRing = Ring<Election>;

/// What an `Election` message carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Election {
    /// The processes that have passed it on, the initiator first.
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
            let trusted = self.members.into_iter().filter(|&id| !ring.suspects(id));
            let leader = trusted.max_by_key(|&id| view.rank(id)).unwrap_or(me);
            ring.conclude(cx, run, leader);
        } else if self.members.contains(&me) && repairs {
            ring.give_up(cx, run);
        } else if ring.awaits(run).is_none() || !repairs {
            // "Each process adds its own number and forwards to next."
            if !self.members.contains(&me) {
                self.members.push(me);
            }
            ring.pass_on(cx, run, self, run.initiator);
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

    fn process(me: u64, repair: &str) -> One<Election> {
        One::new(RING, me, options::<Election>(repair))
    }

    fn table(repair: &str) -> Table<Election> {
        Table::new(RING, options::<Election>(repair))
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
    fn each_adds_itself_and_forwards() {
        let mut process = process(4, "none");
        assert_eq!(process.hear(3, election(1, 3, &[3])), [send(5, election(1, 3, &[3, 4]))]);
    }

    /// "When the message returns to p, it sees its own process ID in the list and knows that the
    /// circuit is complete. P circulates a COORDINATOR message with the new high number."
    #[test]
    fn back_at_the_initiator_the_best_on_the_list_leads() {
        let mut process = process(3, "none");
        process.campaign();
        let effects = process.hear(2, election(1, 3, &[3, 4, 5, 1, 2]));
        assert_eq!(effects, [believe(5, 1), send(4, elected(run(1, 3), 0, 5))]);
        assert_eq!(process.hear(2, elected(run(1, 3), 0, 5)), [], "it ends where it began");
        assert_eq!(process.hear(2, election(1, 3, &[3, 4, 5, 1, 2])), [], "a duplicate");
    }

    #[test]
    fn the_best_is_the_best_ranked_that_is_not_suspected_and_known() {
        let mut process = process(3, "both");
        process.campaign();
        process.rank_changes(1, 7);
        process.rank_changes(4, 8);
        process.suspect(4);
        assert_eq!(process.hear(2, election(1, 3, &[3, 4, 5, 99, 1, 2]))[1], believe(1, 1));
    }

    #[test]
    fn the_one_that_is_elected_passes_it_on() {
        let outcome = elected(run(1, 3), 0, 6);
        assert_eq!(process(6, "none").hear(5, outcome.clone()), [believe(6, 1), send(1, outcome)]);
    }

    /// "The complexity is always 2n"; with acknowledgements, which are counted apart.
    #[test]
    fn whoever_calls_there_are_two_trips_round_the_ring() {
        for caller in RING {
            let mut table = Table::<Election>::new(RING, Options::default());
            table.at(*caller, One::campaign).deliver(usize::MAX);
            let cost = (Election::CONTRACT.messages.worst.of)(6) as usize;
            assert_eq!((table.counts(), table.leaders()), ((cost, cost), vec![Some(6)]));
        }
    }

    /// Figure 10-5: "5 can't reach 6, so it skips it and goes straight to 1 … Since 5 was the node
    /// with the highest rank, 3 initiates another round of messages."
    #[test]
    fn figure_10_5() {
        let mut table = Table::<Election>::new(RING, Options::default());
        table.kill(6);
        table.at(3, One::campaign).deliver(usize::MAX);
        assert_eq!(table.leaders(), [None]);
        table.at(5, |one| one.run_out(Timer::Hop, DELAY * 3)).deliver(usize::MAX);
        table.at(5, |one| one.run_out(Timer::Hop, DELAY * 3)).deliver(usize::MAX);
        assert_eq!(table.leaders(), [Some(5)]);
        assert_eq!(table.counts().0, 2 * 5 + 2, "and two were sent to the dead");
    }

    /// "OK to have two elections at once … Here, both 2 and 5 elect 6."
    #[test]
    fn two_elections_at_once_both_complete_and_agree() {
        let mut table = table("both");
        table.at(2, One::campaign).at(5, One::campaign).deliver(usize::MAX);
        assert_eq!((table.leaders(), table.counts().0), (vec![Some(6)], 24));
    }

    #[test]
    fn of_two_coordinators_the_greater_run_stands() {
        let mut process = process(4, "none");
        process.hear(3, election(1, 5, &[5, 6, 1, 2, 3]));
        let lower = elected(run(1, 2), 0, 6);
        assert_eq!(process.hear(3, lower.clone()), [believe(6, 1), send(5, lower.clone())]);
        assert_eq!(process.campaign(), [], "it waits for the greater");
        let greater = elected(run(1, 5), 0, 6);
        assert_eq!(process.hear(3, greater.clone()), [send(5, greater)]);
        let lower = elected(run(1, 3), 0, 6);
        assert_eq!(
            process.hear(3, lower.clone()),
            [send(5, lower.clone())],
            "it is not believed, but passed on"
        );
        assert_eq!(process.hear(3, lower), [], "once");
        assert_eq!(process.hear(3, elected(run(1, 4), 0, 6)), [], "its own ends here");
    }

    #[test]
    fn who_leads_by_the_lower_of_two_runs_goes_on_waiting_for_the_other() {
        let options = Options { reaffirm: Some(10), ..options::<Election>("detector") };
        let mut process = One::<Election>::new(RING, 6, options);
        process.hear(5, election(1, 3, &[3, 4, 5]));
        let effects = process.hear(5, elected(run(1, 2), 0, 6));
        assert_eq!((timer(&effects, Timer::Reaffirm), timer(&effects, Timer::Leader)), (None, Some(36)));
    }

    #[test]
    fn lower_runs_are_passed_on_in_their_own_term_only() {
        let mut process = process(4, "both");
        for term in 1..3 {
            process.hear(3, election(term, 5, &[5, 6, 1, 2, 3]));
            assert_eq!(sent(&process.hear(3, election(term, 2, &[2, 3]))).len(), 1);
        }
        assert_eq!(process.hear(3, election(1, 3, &[3])), []);
    }

    /// Or else the message would have ended at the initiator.
    #[test]
    fn a_token_that_comes_by_again_has_lost_its_initiator() {
        let mut process = process(4, "timeout");
        process.hear(2, election(1, 3, &[3]));
        let effects = process.hear(2, election(1, 3, &[3, 4, 5, 6, 1, 2]));
        assert_eq!(sent(&effects), [(5, election(2, 4, &[4]))]);
    }

    #[test]
    fn a_duplicate_that_took_a_short_cut_is_dropped() {
        let mut process = process(5, "timeout");
        process.hear(4, election(1, 3, &[3, 4]));
        assert_eq!(process.hear(3, election(1, 3, &[3])), []);
        // The same for the lower of two runs.
        assert_eq!(sent(&process.hear(4, election(1, 2, &[2, 3, 4]))).len(), 1);
        assert_eq!(process.hear(4, election(1, 2, &[2, 3])), []);
    }

    fn initiator_dies(repair: &str) -> Table<Election> {
        let mut table = table(repair);
        table.at(3, One::campaign).deliver(3);
        table.kill(3);
        table.at(2, |one| one.suspect(3)).deliver(1_000);
        table
    }

    #[test]
    fn unrepaired_the_token_of_a_dead_initiator_circles_for_ever() {
        let table = initiator_dies("none");
        assert!(!table.is_quiet());
        assert_eq!(table.leaders(), [None]);
    }

    #[test]
    fn repaired_the_first_to_see_it_again_calls_an_election() {
        for repair in ["both", "timeout", "detector"] {
            let table = initiator_dies(repair);
            assert!(table.is_quiet());
            assert_eq!(table.leaders(), [Some(6)], "{repair}");
        }
    }

    #[test]
    fn whoever_detects_that_the_initiator_is_dead_calls_an_election() {
        let mut process = process(5, "detector");
        process.hear(4, election(1, 3, &[3, 4]));
        assert_eq!(process.suspect(4), []);
        assert_eq!(process.suspect(3), [send(6, election(2, 5, &[5]))]);
    }
}
