//! Fixed seeds: a model checker needs the same draw each time it visits a state.

use suffrage_core::Rng;

/// The number of draws per input that are short. No algorithm makes more draws for one input.
const DRAWS: usize = 3;
/// The upper end of a short draw.
const SHORT: f64 = 1.0 / 8.0;

/// Different seeds whose first draws are short. A random back-off is then about the shortest possible. Where a timer
/// may be late, the short back-off covers all longer ones too. Different seeds give different random ids to processes
/// that draw one.
pub(crate) fn short_draw_seeds(count: usize) -> Vec<u64> {
    let short = |&seed: &u64| {
        let mut rng = Rng::new(seed);
        (0..DRAWS).all(|_| rng.unit() < SHORT)
    };
    (0..).filter(short).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn draws_are_short_and_differ() {
        let seeds = short_draw_seeds(20);
        let first: BTreeSet<u64> = seeds.iter().map(|&seed| Rng::new(seed).bits()).collect();
        assert_eq!(first.len(), 20);
        assert!(first.iter().all(|&bits| bits < u64::MAX / 8));
    }
}
