//! The hash H of Gupta et al.: the same value on every machine and in every version.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A fixed hash onto `[0, 1)`, seeded by what it is asked about: an election, a round, a view.
///
/// Specified as XXH3 (64 bit) over the little-endian bytes of the words, so that processes on
/// different machines agree on who is chosen without exchanging a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    seed: u64,
}

impl Hash {
    /// The hash function of this seed.
    pub const fn new(seed: u64) -> Hash {
        Hash { seed }
    }

    /// 64 well-mixed bits for a word.
    pub fn word(self, word: u64) -> u64 {
        xxh3_64_with_seed(&word.to_le_bytes(), self.seed)
    }

    /// 64 well-mixed bits for an ordered pair.
    pub fn pair(self, first: u64, second: u64) -> u64 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        xxh3_64_with_seed(&bytes, self.seed)
    }

    /// Whether 64 hashed bits, read as a fraction of one, lie below `probability`.
    pub fn falls_below(bits: u64, probability: f64) -> bool {
        ((bits >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, machines of two versions would disagree about who is chosen.
    #[test]
    fn the_values_are_fixed_for_ever() {
        assert_eq!(Hash::new(0).word(0), 0xc77b_3abb_6f87_acd9);
        assert_ne!(Hash::new(1).word(0), Hash::new(0).word(0));
        assert_ne!(Hash::new(0).pair(1, 2), Hash::new(0).pair(2, 1));
    }

    #[test]
    fn certainty_and_impossibility_are_exact() {
        assert!(!Hash::falls_below(0, 0.0));
        assert!(Hash::falls_below(u64::MAX, 1.0));
        assert!(Hash::falls_below(u64::MAX / 2, 0.5));
        assert!(!Hash::falls_below(u64::MAX / 2 + 1, 0.5));
    }
}
