//! The mediator of the synchronous protocol: it collects a round's messages, and answers them together.

use super::mediator::Claim;
use suffrage_core::NodeId;

/// A request of this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Petition {
    /// Which round of the first phase; none for the second phase.
    pub round: Option<u8>,
    /// Who asks, with its number in the second phase.
    pub claim: Claim,
}

/// What a mediator says to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// To whom.
    pub contender: NodeId,
    /// About which round of the first phase; none for the second phase.
    pub round: Option<u8>,
    /// Whether the answer is positive.
    pub positive: bool,
}

/// `kappa_ij`, the messages received by a mediator in a round, and what it remembers of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Docket {
    petitions: Vec<Petition>,
    /// The greatest whom it has answered positively in the second phase: the smaller ones that come later,
    /// because they had to ask others in the place of the dead, are refused.
    chosen: Option<Claim>,
    /// With `--reuse-mediators`, who was accepted in the first phase, in which round, and has not dropped
    /// out.
    held: Vec<(NodeId, u8)>,
}

impl Docket {
    /// Takes a request down. True if it is the first since the last answers.
    pub fn enter(&mut self, petition: Petition) -> bool {
        let first = self.petitions.is_empty();
        if !self.petitions.contains(&petition) {
            self.petitions.push(petition);
        }
        first
    }

    /// A contender has dropped out.
    pub fn release(&mut self, contender: NodeId) {
        self.held.retain(|&(other, _)| other != contender);
    }

    /// The greatest whom it has answered positively in the second phase.
    pub fn chosen(&self) -> Option<Claim> {
        self.chosen
    }

    /// Answers everybody. "If |kappa_ij| = 1, then send a positive response […] Otherwise, send a decline
    /// message to every rho_k"; in the second phase, "find the largest pi_k and send a positive response".
    pub fn answer(&mut self, reuse: bool) -> Vec<Verdict> {
        let mut petitions = std::mem::take(&mut self.petitions);
        petitions.sort_unstable();
        let mut verdicts = Vec::with_capacity(petitions.len());
        for kappa in petitions.chunk_by(|a, b| a.round == b.round) {
            match kappa[0].round {
                Some(round) => self.answer_first_phase(kappa, round, reuse, &mut verdicts),
                None => {
                    let largest = kappa.last().map(|petition| petition.claim);
                    self.chosen = self.chosen.max(largest);
                    verdicts.extend(kappa.iter().map(|petition| Verdict {
                        contender: petition.claim.contender,
                        round: None,
                        positive: Some(petition.claim) == self.chosen,
                    }));
                }
            }
        }
        verdicts
    }

    fn answer_first_phase(
        &mut self,
        kappa: &[Petition],
        round: u8,
        reuse: bool,
        verdicts: &mut Vec<Verdict>,
    ) {
        let alone = kappa.len() == 1 && self.held.iter().all(|&(held, _)| held == kappa[0].claim.contender);
        let verdict = |contender| Verdict { contender, round: Some(round), positive: alone };
        verdicts.extend(kappa.iter().map(|petition| verdict(petition.claim.contender)));
        if alone && reuse {
            self.held = vec![(kappa[0].claim.contender, round)];
        } else if reuse {
            // Those that are held take part in this round, and learn only now that they are not alone.
            verdicts.extend(self.held.drain(..).map(|(contender, round)| Verdict {
                contender,
                round: Some(round),
                positive: false,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn petition(round: Option<u8>, contender: u64, number: u64) -> Petition {
        Petition { round, claim: Claim { number, contender: NodeId(contender) } }
    }

    fn answers(docket: &mut Docket, reuse: bool) -> Vec<(u64, bool)> {
        docket.answer(reuse).iter().map(|verdict| (verdict.contender.0, verdict.positive)).collect()
    }

    /// "A contender is said to 'win' a bin if its ball is the only one that lands in the bin."
    #[test]
    fn one_alone_wins_and_several_lose() {
        let mut docket = Docket::default();
        assert!(docket.enter(petition(Some(1), 5, 0)));
        assert!(!docket.enter(petition(Some(1), 5, 0)), "the network has doubled it");
        assert_eq!(answers(&mut docket, false), [(5, true)]);
        assert!(docket.enter(petition(Some(1), 5, 0)) && !docket.enter(petition(Some(1), 6, 0)));
        docket.enter(petition(Some(2), 7, 0));
        assert_eq!(answers(&mut docket, false), [(5, false), (6, false), (7, true)]);
    }

    #[test]
    fn the_largest_number_wins_the_second_phase_and_smaller_ones_that_come_later_lose() {
        let mut docket = Docket::default();
        for (contender, number) in [(1, 10), (2, 30), (3, 20)] {
            docket.enter(petition(None, contender, number));
        }
        assert_eq!(answers(&mut docket, false), [(1, false), (3, false), (2, true)]);
        docket.enter(petition(None, 4, 29));
        assert_eq!(answers(&mut docket, false), [(4, false)]);
        docket.enter(petition(None, 5, 99));
        assert_eq!(answers(&mut docket, false), [(5, true)]);
        assert_eq!(docket.chosen().map(|claim| claim.contender), Some(NodeId(5)));
    }

    #[test]
    fn one_that_is_held_collides_with_those_that_come_later() {
        let mut docket = Docket::default();
        docket.enter(petition(Some(1), 5, 0));
        assert_eq!(answers(&mut docket, true), [(5, true)]);
        docket.enter(petition(Some(2), 6, 0));
        assert_eq!(answers(&mut docket, true), [(6, false), (5, false)]);
        docket.enter(petition(Some(1), 5, 0));
        assert_eq!(answers(&mut docket, true), [(5, true)]);
        docket.release(NodeId(5));
        docket.enter(petition(Some(2), 6, 0));
        assert_eq!(answers(&mut docket, true), [(6, true)]);
    }
}
