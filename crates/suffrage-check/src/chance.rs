//! Chance without chance: a model checker needs the same draw whenever it comes by.

use suffrage_core::Rng;

/// How many draws of one input are short. No algorithm draws more about one.
const DRAWS: usize = 3;
/// What counts as short.
const SHORT: f64 = 1.0 / 8.0;

/// Seeds whose first draws are short, so that whoever waits for a random time waits for about the shortest.
/// Where a timer may be late, that stands for all longer waits too. They differ, so that processes that draw
/// a number to be told apart by are.
pub(crate) fn seeds(count: usize) -> Vec<u64> {
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
        let seeds = seeds(20);
        let first: BTreeSet<u64> = seeds.iter().map(|&seed| Rng::new(seed).bits()).collect();
        assert_eq!(first.len(), 20);
        assert!(first.iter().all(|&bits| bits < u64::MAX / 8));
    }
}
