//! The mediator of the synchronous protocol, which collects the requests of a round and answers them together.

use super::mediator::Claim;
use suffrage_core::NodeId;

/// A request of this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PendingRequest {
    /// The round of the first phase; `None` for the second phase.
    pub round: Option<u8>,
    /// The contender, with its number in the second phase.
    pub claim: Claim,
}

/// The answer to a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The contender.
    pub contender: NodeId,
    /// The round of the first phase; `None` for the second phase.
    pub round: Option<u8>,
    /// True if the answer is positive.
    pub positive: bool,
}

/// The mediator's state: `kappa_ij`, the requests of the current round, and the results of earlier rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SyncMediator {
    requests: Vec<PendingRequest>,
    /// The greatest contender with a positive answer in the second phase. Smaller numbers that come later, from
    /// contenders that replace dead mediators, are refused.
    chosen: Option<Claim>,
    /// With `--reuse-mediators`, the contenders that were accepted in the first phase, each with its round, and have
    /// not dropped out.
    held: Vec<(NodeId, u8)>,
}

impl SyncMediator {
    /// Adds a request. Returns true if the request is the first since the last answers.
    pub fn add_request(&mut self, request: PendingRequest) -> bool {
        let first = self.requests.is_empty();
        if !self.requests.contains(&request) {
            self.requests.push(request);
        }
        first
    }

    /// Removes a contender that has dropped out.
    pub fn release(&mut self, contender: NodeId) {
        self.held.retain(|&(other, _)| other != contender);
    }

    /// The greatest contender with a positive answer in the second phase.
    pub fn chosen(&self) -> Option<Claim> {
        self.chosen
    }

    /// Answers all requests. "If |kappa_ij| = 1, then send a positive response […] Otherwise, send a decline message
    /// to every rho_k"; in the second phase, "find the largest pi_k and send a positive response".
    pub fn answer(&mut self, reuse: bool) -> Vec<Response> {
        let mut requests = std::mem::take(&mut self.requests);
        requests.sort_unstable();
        let mut responses = Vec::with_capacity(requests.len());
        for kappa in requests.chunk_by(|a, b| a.round == b.round) {
            match kappa[0].round {
                Some(round) => self.answer_first_phase(kappa, round, reuse, &mut responses),
                None => {
                    let largest = kappa.last().map(|request| request.claim);
                    self.chosen = self.chosen.max(largest);
                    responses.extend(kappa.iter().map(|request| Response {
                        contender: request.claim.contender,
                        round: None,
                        positive: Some(request.claim) == self.chosen,
                    }));
                }
            }
        }
        responses
    }

    fn answer_first_phase(
        &mut self,
        kappa: &[PendingRequest],
        round: u8,
        reuse: bool,
        responses: &mut Vec<Response>,
    ) {
        let single = kappa.len() == 1 && self.held.iter().all(|&(held, _)| held == kappa[0].claim.contender);
        let response = |contender| Response { contender, round: Some(round), positive: single };
        responses.extend(kappa.iter().map(|request| response(request.claim.contender)));
        if single && reuse {
            self.held = vec![(kappa[0].claim.contender, round)];
        } else if reuse {
            // Held contenders take part in this round; now they learn that they are not the only ones.
            responses.extend(self.held.drain(..).map(|(contender, round)| Response {
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

    fn request(round: Option<u8>, contender: u64, number: u64) -> PendingRequest {
        PendingRequest { round, claim: Claim { number, contender: NodeId(contender) } }
    }

    fn answers(mediator: &mut SyncMediator, reuse: bool) -> Vec<(u64, bool)> {
        mediator.answer(reuse).iter().map(|response| (response.contender.0, response.positive)).collect()
    }

    /// "A contender is said to 'win' a bin if its ball is the only one that lands in the bin."
    #[test]
    fn a_single_request_wins_and_several_lose() {
        let mut mediator = SyncMediator::default();
        assert!(mediator.add_request(request(Some(1), 5, 0)));
        assert!(!mediator.add_request(request(Some(1), 5, 0)), "a duplicated request");
        assert_eq!(answers(&mut mediator, false), [(5, true)]);
        assert!(
            mediator.add_request(request(Some(1), 5, 0)) && !mediator.add_request(request(Some(1), 6, 0))
        );
        mediator.add_request(request(Some(2), 7, 0));
        assert_eq!(answers(&mut mediator, false), [(5, false), (6, false), (7, true)]);
    }

    #[test]
    fn the_largest_number_wins_the_second_phase_and_later_smaller_ones_lose() {
        let mut mediator = SyncMediator::default();
        for (contender, number) in [(1, 10), (2, 30), (3, 20)] {
            mediator.add_request(request(None, contender, number));
        }
        assert_eq!(answers(&mut mediator, false), [(1, false), (3, false), (2, true)]);
        mediator.add_request(request(None, 4, 29));
        assert_eq!(answers(&mut mediator, false), [(4, false)]);
        mediator.add_request(request(None, 5, 99));
        assert_eq!(answers(&mut mediator, false), [(5, true)]);
        assert_eq!(mediator.chosen().map(|claim| claim.contender), Some(NodeId(5)));
    }

    #[test]
    fn a_held_contender_collides_with_later_requests() {
        let mut mediator = SyncMediator::default();
        mediator.add_request(request(Some(1), 5, 0));
        assert_eq!(answers(&mut mediator, true), [(5, true)]);
        mediator.add_request(request(Some(2), 6, 0));
        assert_eq!(answers(&mut mediator, true), [(6, false), (5, false)]);
        mediator.add_request(request(Some(1), 5, 0));
        assert_eq!(answers(&mut mediator, true), [(5, true)]);
        mediator.release(NodeId(5));
        mediator.add_request(request(Some(2), 6, 0));
        assert_eq!(answers(&mut mediator, true), [(6, true)]);
    }
}
