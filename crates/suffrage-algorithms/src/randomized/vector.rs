//! The mediator of the asynchronous first phase: the vector V of section 4.1.

use super::options::FirstPhase;
use suffrage_core::NodeId;

/// The accepted contender of each round. Only the entries that are set are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vector {
    entries: Vec<(u8, NodeId)>,
}

impl Vector {
    /// Entry j of V; `None` for zero.
    pub fn entry(&self, round: u8) -> Option<NodeId> {
        self.entries.iter().find(|(other, _)| *other == round).map(|&(_, contender)| contender)
    }

    /// Answers a request, and returns whether the answer is positive: "if entry j in V at M is zero, M sends a
    /// positive response […] and sets the entry j". With `held`, a contender that was accepted in any round and has
    /// not dropped out takes part in all later rounds (`--reuse-mediators`).
    pub fn admit(&mut self, round: u8, contender: NodeId, rule: FirstPhase, held: bool) -> bool {
        if let Some(winner) = self.entry(round) {
            // The request may be a duplicate.
            return winner == contender;
        }
        let highest = self.entries.iter().map(|&(round, _)| round).max();
        let late = rule == FirstPhase::HighestRound && highest > Some(round);
        let taken = held && self.entries.iter().any(|&(_, other)| other != contender);
        let admitted = !late && !taken;
        if admitted {
            self.entries.push((round, contender));
        }
        admitted
    }

    /// Removes a contender that has dropped out.
    pub fn release(&mut self, contender: NodeId) {
        self.entries.retain(|&(_, other)| other != contender);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn shown(vector: &Vector) -> String {
        let name = |round| vector.entry(round).map_or('0', |NodeId(id)| char::from(b'@' + id as u8));
        (1..=4).map(name).collect()
    }

    /// Figure 2: (a) empty; (b) after a request from A for round 1; (c) after one from B for round 3; (d) after one
    /// from another contender for round 3, which "receives a negative response".
    #[test]
    fn entries_are_set_as_in_figure_2() {
        let mut vector = Vector::default();
        assert_eq!(shown(&vector), "0000");
        assert!(vector.admit(1, A, FirstPhase::First, false));
        assert_eq!(shown(&vector), "A000");
        assert!(vector.admit(3, B, FirstPhase::First, false));
        assert_eq!(shown(&vector), "A0B0");
        assert!(!vector.admit(3, C, FirstPhase::First, false));
        assert_eq!(shown(&vector), "A0B0");
        // "A mediator lets a contender proceed even when a higher numbered entry […] is already set."
        assert!(vector.admit(2, C, FirstPhase::First, false));
        assert_eq!(shown(&vector), "ACB0");
    }

    /// "A better solution […] would require M to send a negative response to any request with round number
    /// smaller than the index of the highest entry in V".
    #[test]
    fn highest_round_refuses_earlier_rounds() {
        let mut vector = Vector::default();
        assert!(vector.admit(3, B, FirstPhase::HighestRound, false));
        assert!(!vector.admit(2, C, FirstPhase::HighestRound, false));
        assert!(vector.admit(4, C, FirstPhase::HighestRound, false));
    }

    #[test]
    fn a_duplicated_request_gets_the_same_answer() {
        let mut vector = Vector::default();
        assert!(vector.admit(1, A, FirstPhase::First, false) && vector.admit(1, A, FirstPhase::First, false));
    }

    #[test]
    fn a_held_contender_takes_part_until_it_drops_out() {
        let mut vector = Vector::default();
        assert!(vector.admit(1, A, FirstPhase::First, true));
        assert!(!vector.admit(2, B, FirstPhase::First, true) && vector.admit(2, A, FirstPhase::First, true));
        vector.release(A);
        assert!(vector.admit(2, B, FirstPhase::First, true));
    }
}
