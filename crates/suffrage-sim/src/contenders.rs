//! The number of random processes that call an election at the start.

use suffrage_core::{Hash, Rng};

/// The number of processes, chosen uniformly by the seed of the run, that call an election at time zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contenders {
    /// This share of the live processes.
    Share(f64),
    /// This number, or all live processes if there are fewer.
    Count(usize),
}

impl Contenders {
    /// Draws the slots that call, in the order of their calls.
    pub fn draw(self, seed: u64, mut live: Vec<usize>) -> Vec<usize> {
        let count = match self {
            Contenders::Share(share) => (share * live.len() as f64).round() as usize,
            Contenders::Count(count) => count,
        };
        let mut rng = Rng::new(Hash::new(seed).word(6));
        let count = count.min(live.len());
        for index in 0..count {
            let other = index + rng.below((live.len() - index) as u64) as usize;
            live.swap(index, other);
        }
        live.truncate(count);
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_draws_the_given_number_of_live_slots() {
        let live: Vec<usize> = (0..100).filter(|slot| slot % 2 == 0).collect();
        for (contenders, count) in
            [(Contenders::Share(0.1), 5), (Contenders::Count(7), 7), (Contenders::Count(99), 50)]
        {
            let mut drawn = contenders.draw(1, live.clone());
            assert_eq!(drawn, contenders.draw(1, live.clone()));
            assert_ne!(drawn, contenders.draw(2, live.clone()));
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), count);
            assert!(drawn.iter().all(|slot| live.contains(slot)));
        }
    }
}
