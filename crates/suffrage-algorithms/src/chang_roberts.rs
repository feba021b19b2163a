//! The ring election of Chang and Roberts, with attributes (cs425 slides 12-31; CHANG79).
//!
//! Model: synchronous, crash and recovery; everybody knows the ring's order and, to skip the dead,
//! all its members. A failure detector tells when to call an election; without one, the application
//! does (`Campaign`).
//!
//! ```text
//!   3 ──Election 3──▶ 32 ──Election 32──▶ 5 ──Election 32──▶ 80     the best so far overwrites
//!   80 ──Election 80──▶ 6 ─ ─ ▶ 12 ─ ─ ▶ 3 ─ ─ ▶ 32 ─ ─ ▶ 5 ─ ─ ▶ 80     unbeaten: 80 leads
//!   80 ──Elected 80──▶ 6 ─ ─ ▶ 12 ─ ─ ▶ 3 ─ ─ ▶ 32 ─ ─ ▶ 5 ─ ─ ▶ 80     everybody knows
//! ```
//!
//! Cost: `2N` messages and message delays if the best calls, `3N - 1` if its successor does.
//!
//! Promises that some time after faults stop, the best live process of each component leads it.
//! Does not promise more: under partition every part elects a leader, and so may two processes that
//! each skip the other.
//!
//! Readings: "has not forwarded an election message earlier" is meant in this run. The best dying on
//! the way leaves `Election` circling for ever (`--repair none`); with a repair, a process also drops
//! a token it has passed on already, which is either such a one or a duplicate. A rank that changes
//! while its owner's token is under way makes the run void.

use serde::{Deserialize, Serialize};

use super::ring::{Ring, Run, Token};
use suffrage_core::{
    Choice, Context, Contract, Cost, Detection, Electorate, Formula, Rank, Safety, Synchrony, Topology, View,
};

/// A process of the Chang-Roberts algorithm.
pub type ChangRoberts = Ring<Election>;

/// What an `Election` message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Election {
    /// The best process met so far, "id:attr".
    pub best: Rank,
}

impl Token for Election {
    const CONTRACT: Contract = Contract {
        name: "chang-roberts",
        summary: "The best id goes round the ring until it comes back to its owner, who leads.",
        source: "Chang and Roberts 1979; cs425 slides 12-31",
        topology: Topology::Ring,
        synchrony: Synchrony::Synchronous,
        knowledge: "the ring's order, and all ranks",
        tolerates: "crash and recovery; lost messages with --reaffirm",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        persists: true,
        under_loss: &[("reaffirm", "10")],
        safety: Safety::Eventual,
        choice: Choice::Best,
        handover: false,
        messages: Cost {
            best: Formula { text: "2N", of: |n| 2 * n },
            worst: Formula { text: "3N - 1", of: |n| 3 * n - 1 },
        },
        time: Cost {
            best: Formula { text: "2N", of: |n| 2 * n },
            worst: Formula { text: "3N - 1", of: |n| 3 * n - 1 },
        },
        upkeep: &[],
    };
    const OUTCOME: &'static str = "Elected";
    const REPAIRS: &'static str = "both|predecessor|detector|none";
    const SUPPRESSES: bool = true;

    /// "… initiates an Election message that contains p's own id:attr."
    fn new(view: View<'_>) -> Election {
        Election { best: view.my_rank() }
    }

    fn best(&self) -> Option<Rank> {
        Some(self.best)
    }

    /// "… compares the attr in the message with its own attr."
    #[inline]
    fn arrive(self, ring: &mut Ring<Self>, cx: &mut Context<'_, Ring<Self>>, run: Run) {
        let (best, mine) = (self.best, cx.view().my_rank());
        let forwarded = ring.awaits(run);
        if best.id == mine.id {
            // "then p's attr must be the greatest, and it becomes the new coordinator."
            if mine >= best { ring.conclude(cx, run, mine.id) } else { ring.give_up(cx, run) }
        } else if best > mine {
            let again = forwarded.is_some_and(|before| before.best >= Some(best));
            if !again || ring.repair().is_none() {
                ring.pass_on(cx, run, self, best.id);
            }
        } else {
            match forwarded {
                None => ring.pass_on(cx, run, Election { best: mine }, mine.id),
                // It has let others pass that it outranks by now.
                Some(before) if before.best < Some(mine) => ring.give_up(cx, run),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::*;
    use crate::ring::{Message, Options, Timer};
    use suffrage_core::{Attribute, NodeId};

    /// The ring of the slides, clockwise.
    const SLIDES: &[u64] = &[3, 32, 5, 80, 6, 12];

    fn election(term: u64, initiator: u64, best: u64) -> Message<Election> {
        election_ranked(term, initiator, best, best as Attribute)
    }

    fn election_ranked(term: u64, initiator: u64, best: u64, attribute: Attribute) -> Message<Election> {
        let best = Rank { attribute, id: NodeId(best) };
        Message::Election { hop: 0, run: run(term, initiator), token: Election { best } }
    }

    fn process(me: u64, repair: &str) -> One<Election> {
        One::new(SLIDES, me, options::<Election>(repair))
    }

    fn table(order: &[u64], repair: &str) -> Table<Election> {
        Table::new(order, options::<Election>(repair))
    }

    /// "If the arrived attr is greater, p forwards the message."
    #[test]
    fn greater_is_forwarded() {
        assert_eq!(process(5, "none").hear(32, election(1, 3, 32)), [send(80, election(1, 3, 32))]);
    }

    /// "If the arrived attr is smaller and p has not forwarded an election message earlier, it
    /// overwrites the message with its own id:attr, and forwards it."
    #[test]
    fn smaller_is_overwritten_once() {
        let mut process = process(32, "none");
        assert_eq!(process.hear(3, election(1, 3, 3)), [send(5, election(1, 3, 32))]);
        assert_eq!(process.hear(3, election(1, 3, 3)), []);
        // "Earlier" is meant in this run.
        assert_eq!(process.hear(3, election(2, 3, 3)), [send(5, election(2, 3, 32))]);
    }

    #[test]
    fn an_initiator_has_forwarded() {
        let mut process = process(32, "none");
        process.campaign();
        assert_eq!(process.hear(3, election(1, 32, 12)), []);
    }

    /// "If the arrived id:attr matches that of p, then p's attr must be the greatest, and it becomes
    /// the new coordinator. This process then sends an Elected message to its neighbor."
    #[test]
    fn its_own_comes_back_and_it_leads() {
        let mut process = process(80, "none");
        process.hear(5, election(1, 3, 32));
        let effects = process.hear(5, election(1, 3, 80));
        assert_eq!(effects, [believe(80, 1), send(6, elected(run(1, 3), 0, 80))]);
        assert_eq!(process.hear(5, election(1, 3, 80)), [], "a duplicate");
        // "… unless it is the new coordinator."
        assert_eq!(process.hear(5, elected(run(1, 3), 0, 80)), []);
    }

    #[test]
    fn attributes_are_compared_and_not_ids() {
        let mut process = process(3, "none");
        process.rank_changes(3, 100);
        assert_eq!(process.hear(12, election(1, 80, 80)), [send(32, election_ranked(1, 80, 3, 100))]);
        assert_eq!(
            process.hear(12, election_ranked(2, 6, 6, 101)),
            [send(32, election_ranked(2, 6, 6, 101))]
        );
    }

    #[test]
    fn a_rank_that_falls_on_the_way_makes_the_run_void() {
        let mut process = process(80, "none");
        process.campaign();
        process.rank_changes(80, 4);
        assert_eq!(process.hear(5, election(1, 80, 80)), [send(6, election_ranked(2, 80, 80, 4))]);
    }

    #[test]
    fn a_rank_that_rises_on_the_way_does_not() {
        let mut process = process(80, "none");
        process.campaign();
        process.rank_changes(80, 81);
        assert_eq!(process.hear(5, election(1, 80, 80))[0], believe(80, 1));
    }

    #[test]
    fn a_rank_that_rises_after_it_has_let_a_better_one_pass_makes_the_run_void() {
        let mut process = process(32, "none");
        process.campaign();
        process.hear(3, election(1, 32, 12));
        process.rank_changes(32, 99);
        assert_eq!(process.hear(3, election(1, 32, 80)), [send(5, election_ranked(2, 32, 32, 99))]);
    }

    /// "Each process suppresses Election/Elected messages of any lower-id initiators. Updates cache
    /// if receives higher-id initiator's Election/Elected message."
    #[test]
    fn lower_initiators_are_suppressed() {
        let mut process = process(5, "none");
        assert_eq!(process.hear(32, election(1, 12, 12)), [send(80, election(1, 12, 12))]);
        assert_eq!(process.hear(32, election(1, 3, 32)), []);
        assert_eq!(process.hear(32, elected(run(1, 3), 0, 80)), []);
        assert_eq!(process.hear(32, election(1, 32, 32)), [send(80, election(1, 32, 32))]);
        let outcome = elected(run(1, 80), 0, 80);
        assert_eq!(process.hear(32, outcome), [believe(80, 1), send(80, outcome)]);
        // By the cache alone, nobody below 80 would ever complete an election again.
        assert_eq!(process.hear(32, election(2, 3, 32)), [send(80, election(2, 3, 32))]);
    }

    /// "Goal: Elect highest id process as leader."
    #[test]
    fn the_ring_of_the_slides_elects_80() {
        let mut table = table(SLIDES, "none");
        table.at(3, One::campaign).deliver(usize::MAX);
        assert_eq!(table.leaders(), [Some(80)]);
        assert_eq!((table.count("Election"), table.count("Elected")), (3 + 6, 6));
    }

    /// "Worst case occurs when the initiator is the ring successor of the would-be leader": N - 1, N
    /// and N messages; with acknowledgements, which are counted apart.
    #[test]
    fn the_successor_of_the_best_needs_the_most_messages() {
        for count in 2..=9 {
            let order: Vec<u64> = (1..=count).collect();
            let mut table = Table::<Election>::new(&order, Options::default());
            table.at(1, One::campaign).deliver(usize::MAX);
            let worst = (Election::CONTRACT.messages.worst.of)(count) as usize;
            assert_eq!((table.counts(), table.leaders()), ((worst, worst), vec![Some(count)]));
        }
    }

    /// "Best case? Initiator is the would-be leader. Message complexity: 2N messages."
    #[test]
    fn the_best_needs_the_fewest_messages() {
        let mut table = table(SLIDES, "none");
        table.at(80, One::campaign).deliver(usize::MAX);
        assert_eq!((table.counts(), table.leaders()), ((12, 0), vec![Some(80)]));
    }

    /// "Result is that only the highest-id initiator's election run completes."
    #[test]
    fn of_several_initiators_one_completes() {
        let mut table = table(SLIDES, "both");
        for &id in SLIDES {
            table.at(id, One::campaign);
        }
        table.deliver(usize::MAX);
        assert_eq!(table.leaders(), [Some(80)]);
        assert_eq!((table.count("Elected"), table.count("Outdated")), (6, 0));
    }

    /// Kills the best when its token is under way. Its predecessor is told, and need not time out.
    fn best_dies(repair: &str) -> Table<Election> {
        let mut table = table(SLIDES, repair);
        table.at(80, One::campaign).deliver(3);
        table.kill(80);
        table.at(5, |one| one.suspect(80)).deliver(1_000);
        table
    }

    /// "Election: 80 will circulate around the ring forever => Liveness violated."
    #[test]
    fn unrepaired_the_token_of_the_dead_circles_for_ever() {
        let table = best_dies("none");
        assert!(!table.is_quiet());
        assert_eq!((table.leaders(), table.counts()), (vec![None], (1_004, 0)));
    }

    /// "Any process, after receiving Election:80 message, can detect failure of N80 via its own local
    /// failure detector. If so, start a new run of leader election."
    #[test]
    fn whoever_detects_that_the_would_be_leader_is_dead_calls_an_election() {
        let mut process = process(12, "detector");
        process.hear(6, election(1, 80, 80));
        assert_eq!(process.suspect(32), []);
        assert_eq!(process.suspect(80), [send(3, election(2, 12, 12))]);

        let table = best_dies("detector");
        assert!(table.is_quiet());
        assert_eq!(table.leaders(), [Some(32)]);
    }

    /// "Have predecessor of would-be leader N80 detect failure: receives an Election message but
    /// times out waiting for an Elected message … But what if predecessor also fails?"
    #[test]
    fn the_predecessor_of_the_would_be_leader_loses_patience_first() {
        // The token takes a delay for each step, so this is when each of them would call.
        let expiry = |(step, &me): (usize, &u64)| {
            let effects = process(me, "predecessor").hear(0, election(1, 80, 80));
            (step as u64 + timer(&effects, Timer::Outcome).unwrap(), me)
        };
        let mut expiries: Vec<_> = [6, 12, 3, 32, 5].iter().enumerate().map(expiry).collect();
        expiries.sort_unstable();
        assert_eq!(expiries.iter().map(|&(_, id)| id).collect::<Vec<_>>(), [5, 32, 3, 12, 6]);
        let caller = timer(&process(3, "predecessor").campaign(), Timer::Outcome);
        assert!(caller >= Some(3 * 6), "no run without failures takes as long");
    }

    #[test]
    fn a_time_out_calls_an_election_that_ends_the_old_one() {
        let mut table = best_dies("predecessor");
        table.at(32, |one| one.run_out(Timer::Outcome, DELAY * 22)).deliver(1_000);
        assert!(table.is_quiet());
        assert_eq!(table.leaders(), [Some(32)]);
    }

    /// The time-out must not start again with every lap.
    #[test]
    fn the_same_token_does_not_start_the_time_out_again() {
        let mut process = process(12, "predecessor");
        assert!(timer(&process.hear(6, election(1, 3, 32)), Timer::Outcome).is_some());
        assert!(timer(&process.hear(6, election(1, 3, 80)), Timer::Outcome).is_some());
        assert_eq!(process.hear(6, election(1, 3, 80)), []);
    }

    #[test]
    fn without_time_outs_a_token_may_have_died_with_the_one_it_was_passed_to() {
        let mut process = process(12, "detector");
        process.hear(6, election(1, 80, 80));
        assert_eq!(process.suspect(3), [send(32, election(2, 12, 12))]);
        assert_eq!(process.restore(3), [send(3, election(3, 12, 12))], "or passed it by");
    }

    #[test]
    fn without_time_outs_a_token_that_waits_for_a_suspect_is_given_up() {
        let mut process = process(5, "detector");
        process.suspect(80);
        assert_eq!(process.hear(32, election(1, 80, 80)), [send(6, election(2, 5, 5))]);
    }
}
