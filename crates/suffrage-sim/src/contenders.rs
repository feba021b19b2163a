//! How many call an election at the start, where chance decides who.

use suffrage_core::{Hash, Rng};

/// So many processes, chosen uniformly by the seed of the run, call an election at time zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contenders {
    /// This share of those that are alive.
    Share(f64),
    /// So many, or all if there are fewer.
    Count(usize),
}

impl Contenders {
    /// Those of the live slots that call, in the order in which they do.
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
    fn the_seed_draws_as_many_as_asked_of_those_alive() {
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
