//! P1's baseline: what nobody who simulates the election can do without.

use suffrage_algorithms::randomized::rounds::sigma_last;
use suffrage_core::Rng;
use suffrage_papers::ramanathan2007::bulk::{Chance, Leg};
use suffrage_sim::Contenders;

/// Draws every contender's mediators and the delays of the requests to them, and puts the requests in order of
/// time; how many there are.
pub(crate) fn bare(nodes: usize, contenders: Contenders, seed: u64) -> u64 {
    let chance = Chance::new(seed);
    let needed = sigma_last(nodes as u64);
    let mut asked = vec![u32::MAX; nodes];
    let mut requests = Vec::new();
    for slot in contenders.draw(seed, (0..nodes).collect()) {
        let mut rng = Rng::new(chance.luck(slot));
        let mut missing = needed;
        while missing > 0 {
            let mediator = rng.below(nodes as u64) as usize;
            if asked[mediator] != slot as u32 {
                asked[mediator] = slot as u32;
                missing -= 1;
                requests.push((chance.delay(Leg::Req, slot, mediator), slot as u32, mediator as u32));
            }
        }
    }
    requests.sort_unstable();
    let latest = requests.last().map_or(0, |&(at, ..)| at);
    assert!(requests.is_empty() || latest > 0, "they are looked at, so that they are not left out");
    requests.len() as u64
}
