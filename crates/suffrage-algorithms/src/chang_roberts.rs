//! The ring election of Chang and Roberts, with attributes (cs425 slides 12-31; CHANG79).
//!
//! Model: synchronous, crash and recovery; every process knows the ring's order and, to skip dead processes, all
//! members. A failure detector triggers elections; without a detector, the application does (`Campaign`).
//!
//! ```text
//!   3 ──Election 3──▶ 32 ──Election 32──▶ 5 ──Election 32──▶ 80     the best so far overwrites
//!   80 ──Election 80──▶ 6 ─ ─ ▶ 12 ─ ─ ▶ 3 ─ ─ ▶ 32 ─ ─ ▶ 5 ─ ─ ▶ 80     unbeaten: 80 leads
//!   80 ──Elected 80──▶ 6 ─ ─ ▶ 12 ─ ─ ▶ 3 ─ ─ ▶ 32 ─ ─ ▶ 5 ─ ─ ▶ 80     every process knows
//! ```
//!
//! Cost: `2N` messages and message delays if the best calls, `3N - 1` if its successor does.
//!
//! Promise: some time after faults stop, the best live process of each component leads it. Not promised: under
//! partition every component elects a leader, and so may two processes that each skip the other.
//!
//! Interpretations: "has not forwarded an election message earlier" refers to this run. If the best process dies
//! during the run, `Election` circulates for ever (`--repair none`). With a repair, a process also drops a token
//! that it has already passed on, which is either such a token or a duplicate. If the rank of a process changes
//! while its token circulates, the run is void.

use serde::{Deserialize, Serialize};

use super::ring::{Ring, Run, Token};
use suffrage_core::{
    Choice, Context, Contract, Cost, Detection, Electorate, Formula, Rank, Safety, Synchrony, Topology, View,
};

/// A process of the Chang-Roberts algorithm.
pub type ChangRoberts = Ring<Election>;

/// The content of an `Election` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Election {
    /// The best process met so far, "id:attr".
    pub best: Rank,
}

impl Token for Election {
    const CONTRACT: Contract = Contract {
        name: "chang-roberts",
        summary: "The best id goes round the ring until it returns to its owner, which leads.",
        source: "Chang and Roberts 1979; cs425 slides 12-31",
        topology: Topology::Ring,
        synchrony: Synchrony::Synchronous,
        knowledge: "the ring's order, and all ranks",
        tolerates: "crash and recovery; lost messages with --reaffirm",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
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
        let forwarded = ring.awaited_run(run);
        if best.id == mine.id {
            // "then p's attr must be the greatest, and it becomes the new coordinator."
            if mine >= best { ring.conclude(cx, run, mine.id) } else { ring.abandon(cx, run) }
        } else if best > mine {
            let already_passed = forwarded.is_some_and(|before| before.best >= Some(best));
            if !already_passed || ring.repair().is_none() {
                ring.pass_token(cx, run, self, best.id);
            }
        } else {
            match forwarded {
                None => ring.pass_token(cx, run, Election { best: mine }, mine.id),
                // This process has passed on tokens of processes that it outranks by now.
                Some(before) if before.best < Some(mine) => ring.abandon(cx, run),
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

    fn process(me: u64, repair: &str) -> RingProcess<Election> {
        RingProcess::new(SLIDES, me, options::<Election>(repair))
    }

    fn ring(order: &[u64], repair: &str) -> TestRing<Election> {
        TestRing::new(order, options::<Election>(repair))
    }

    /// "If the arrived attr is greater, p forwards the message."
    #[test]
    fn a_greater_attribute_is_forwarded() {
        assert_eq!(process(5, "none").receive(32, election(1, 3, 32)), [send(80, election(1, 3, 32))]);
    }

    /// "If the arrived attr is smaller and p has not forwarded an election message earlier, it
    /// overwrites the message with its own id:attr, and forwards it."
    #[test]
    fn a_smaller_attribute_is_overwritten_once() {
        let mut process = process(32, "none");
        assert_eq!(process.receive(3, election(1, 3, 3)), [send(5, election(1, 3, 32))]);
        assert_eq!(process.receive(3, election(1, 3, 3)), []);
        // "Earlier" refers to this run.
        assert_eq!(process.receive(3, election(2, 3, 3)), [send(5, election(2, 3, 32))]);
    }

    #[test]
    fn an_initiator_counts_as_having_forwarded() {
        let mut process = process(32, "none");
        process.campaign();
        assert_eq!(process.receive(3, election(1, 32, 12)), []);
    }

    /// "If the arrived id:attr matches that of p, then p's attr must be the greatest, and it becomes
    /// the new coordinator. This process then sends an Elected message to its neighbor."
    #[test]
    fn a_process_leads_when_its_own_token_returns() {
        let mut process = process(80, "none");
        process.receive(5, election(1, 3, 32));
        let effects = process.receive(5, election(1, 3, 80));
        assert_eq!(effects, [announce_leader(80, 1), send(6, elected(run(1, 3), 0, 80))]);
        assert_eq!(process.receive(5, election(1, 3, 80)), [], "a duplicate");
        // "… unless it is the new coordinator."
        assert_eq!(process.receive(5, elected(run(1, 3), 0, 80)), []);
    }

    #[test]
    fn attributes_are_compared_and_not_ids() {
        let mut process = process(3, "none");
        process.set_attribute(3, 100);
        assert_eq!(process.receive(12, election(1, 80, 80)), [send(32, election_ranked(1, 80, 3, 100))]);
        assert_eq!(
            process.receive(12, election_ranked(2, 6, 6, 101)),
            [send(32, election_ranked(2, 6, 6, 101))]
        );
    }

    #[test]
    fn a_rank_that_falls_during_the_run_makes_the_run_void() {
        let mut process = process(80, "none");
        process.campaign();
        process.set_attribute(80, 4);
        assert_eq!(process.receive(5, election(1, 80, 80)), [send(6, election_ranked(2, 80, 80, 4))]);
    }

    #[test]
    fn a_rank_that_rises_during_the_run_keeps_the_run_valid() {
        let mut process = process(80, "none");
        process.campaign();
        process.set_attribute(80, 81);
        assert_eq!(process.receive(5, election(1, 80, 80))[0], announce_leader(80, 1));
    }

    #[test]
    fn a_rank_that_rises_above_a_forwarded_token_makes_the_run_void() {
        let mut process = process(32, "none");
        process.campaign();
        process.receive(3, election(1, 32, 12));
        process.set_attribute(32, 99);
        assert_eq!(process.receive(3, election(1, 32, 80)), [send(5, election_ranked(2, 32, 32, 99))]);
    }

    /// "Each process suppresses Election/Elected messages of any lower-id initiators. Updates cache
    /// if receives higher-id initiator's Election/Elected message."
    #[test]
    fn lower_initiators_are_suppressed() {
        let mut process = process(5, "none");
        assert_eq!(process.receive(32, election(1, 12, 12)), [send(80, election(1, 12, 12))]);
        assert_eq!(process.receive(32, election(1, 3, 32)), []);
        assert_eq!(process.receive(32, elected(run(1, 3), 0, 80)), []);
        assert_eq!(process.receive(32, election(1, 32, 32)), [send(80, election(1, 32, 32))]);
        let outcome = elected(run(1, 80), 0, 80);
        assert_eq!(process.receive(32, outcome), [announce_leader(80, 1), send(80, outcome)]);
        // With the cache alone, no process below 80 would ever complete an election again.
        assert_eq!(process.receive(32, election(2, 3, 32)), [send(80, election(2, 3, 32))]);
    }

    /// "Goal: Elect highest id process as leader."
    #[test]
    fn the_ring_of_the_slides_elects_80() {
        let mut ring = ring(SLIDES, "none");
        ring.at(3, RingProcess::campaign).deliver(usize::MAX);
        assert_eq!(ring.leaders(), [Some(80)]);
        assert_eq!((ring.count("Election"), ring.count("Elected")), (3 + 6, 6));
    }

    /// "Worst case occurs when the initiator is the ring successor of the would-be leader": N - 1, N and N messages;
    /// with acknowledgements, which are not counted.
    #[test]
    fn an_election_called_by_the_successor_of_the_best_costs_the_most_messages() {
        for count in 2..=9 {
            let order: Vec<u64> = (1..=count).collect();
            let mut ring = TestRing::<Election>::new(&order, Options::default());
            ring.at(1, RingProcess::campaign).deliver(usize::MAX);
            let worst = (Election::CONTRACT.messages.worst.of)(count) as usize;
            assert_eq!((ring.counts(), ring.leaders()), ((worst, worst), vec![Some(count)]));
        }
    }

    /// "Best case? Initiator is the would-be leader. Message complexity: 2N messages."
    #[test]
    fn an_election_called_by_the_best_costs_the_fewest_messages() {
        let mut ring = ring(SLIDES, "none");
        ring.at(80, RingProcess::campaign).deliver(usize::MAX);
        assert_eq!((ring.counts(), ring.leaders()), ((12, 0), vec![Some(80)]));
    }

    /// "Result is that only the highest-id initiator's election run completes."
    #[test]
    fn of_several_initiators_one_completes() {
        let mut ring = ring(SLIDES, "both");
        for &id in SLIDES {
            ring.at(id, RingProcess::campaign);
        }
        ring.deliver(usize::MAX);
        assert_eq!(ring.leaders(), [Some(80)]);
        assert_eq!((ring.count("Elected"), ring.count("Outdated")), (6, 0));
    }

    /// Kills the best process while its token circulates. Its predecessor suspects it, and need not time out.
    fn best_dies(repair: &str) -> TestRing<Election> {
        let mut ring = ring(SLIDES, repair);
        ring.at(80, RingProcess::campaign).deliver(3);
        ring.kill(80);
        ring.at(5, |process| process.suspect(80)).deliver(1_000);
        ring
    }

    /// "Election: 80 will circulate around the ring forever => Liveness violated."
    #[test]
    fn without_repair_the_token_of_a_dead_process_circulates_for_ever() {
        let ring = best_dies("none");
        assert!(!ring.is_idle());
        assert_eq!((ring.leaders(), ring.counts()), (vec![None], (1_004, 0)));
    }

    /// "Any process, after receiving Election:80 message, can detect failure of N80 via its own local
    /// failure detector. If so, start a new run of leader election."
    #[test]
    fn a_process_that_suspects_the_would_be_leader_calls_an_election() {
        let mut process = process(12, "detector");
        process.receive(6, election(1, 80, 80));
        assert_eq!(process.suspect(32), []);
        assert_eq!(process.suspect(80), [send(3, election(2, 12, 12))]);

        let ring = best_dies("detector");
        assert!(ring.is_idle());
        assert_eq!(ring.leaders(), [Some(32)]);
    }

    /// "Have predecessor of would-be leader N80 detect failure: receives an Election message but
    /// times out waiting for an Elected message … But what if predecessor also fails?"
    #[test]
    fn the_predecessor_of_the_would_be_leader_times_out_first() {
        // The token takes one delay per hop, so this is the time at which each process would call.
        let expiry = |(step, &me): (usize, &u64)| {
            let effects = process(me, "predecessor").receive(0, election(1, 80, 80));
            (step as u64 + timer(&effects, Timer::Outcome).unwrap(), me)
        };
        let mut expiries: Vec<_> = [6, 12, 3, 32, 5].iter().enumerate().map(expiry).collect();
        expiries.sort_unstable();
        assert_eq!(expiries.iter().map(|&(_, id)| id).collect::<Vec<_>>(), [5, 32, 3, 12, 6]);
        let caller = timer(&process(3, "predecessor").campaign(), Timer::Outcome);
        assert!(caller >= Some(3 * 6), "no run without failures takes as long");
    }

    #[test]
    fn an_election_after_a_time_out_replaces_the_old_one() {
        let mut ring = best_dies("predecessor");
        ring.at(32, |process| process.expire(Timer::Outcome, DELAY * 22)).deliver(1_000);
        assert!(ring.is_idle());
        assert_eq!(ring.leaders(), [Some(32)]);
    }

    /// The time-out must not restart with every circulation.
    #[test]
    fn the_same_token_does_not_restart_the_time_out() {
        let mut process = process(12, "predecessor");
        assert!(timer(&process.receive(6, election(1, 3, 32)), Timer::Outcome).is_some());
        assert!(timer(&process.receive(6, election(1, 3, 80)), Timer::Outcome).is_some());
        assert_eq!(process.receive(6, election(1, 3, 80)), []);
    }

    #[test]
    fn without_time_outs_a_failure_of_the_next_process_starts_an_election() {
        let mut process = process(12, "detector");
        process.receive(6, election(1, 80, 80));
        assert_eq!(process.suspect(3), [send(32, election(2, 12, 12))]);
        assert_eq!(process.restore(3), [send(3, election(3, 12, 12))], "the token may have skipped 3");
    }

    #[test]
    fn without_time_outs_a_run_that_a_suspected_process_must_conclude_is_abandoned() {
        let mut process = process(5, "detector");
        process.suspect(80);
        assert_eq!(process.receive(32, election(1, 80, 80)), [send(6, election(2, 5, 5))]);
    }
}
