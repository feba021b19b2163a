//! The baseline of P1: the work that every simulation of the election must do.

use suffrage_algorithms::randomized::rounds::sigma_last;
use suffrage_core::Rng;
use suffrage_papers::ramanathan2007::bulk::{Draws, MessageKind};
use suffrage_sim::Contenders;

/// Draws all contenders' mediators and the delays of the requests, sorts the requests by time, and returns their
/// number.
pub(crate) fn bare(nodes: usize, contenders: Contenders, seed: u64) -> u64 {
    let draws = Draws::new(seed);
    let needed = sigma_last(nodes as u64);
    let mut asked = vec![u32::MAX; nodes];
    let mut requests = Vec::new();
    for slot in contenders.draw(seed, (0..nodes).collect()) {
        let mut rng = Rng::new(draws.process_seed(slot));
        let mut missing = needed;
        while missing > 0 {
            let mediator = rng.below(nodes as u64) as usize;
            if asked[mediator] != slot as u32 {
                asked[mediator] = slot as u32;
                missing -= 1;
                requests.push((draws.delay(MessageKind::Req, slot, mediator), slot as u32, mediator as u32));
            }
        }
    }
    requests.sort_unstable();
    let latest = requests.last().map_or(0, |&(at, ..)| at);
    assert!(requests.is_empty() || latest > 0, "they are looked at, so that they are not left out");
    requests.len() as u64
}
