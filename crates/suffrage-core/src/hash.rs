//! The hash H of Gupta et al.: the same value on every machine and in every version.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A fixed hash function, seeded by its purpose: an election, a round, a view.
///
/// Specified as XXH3 (64 bit) over the little-endian bytes of the words. Processes on different machines therefore
/// agree on the chosen members without a message exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    seed: u64,
}

impl Hash {
    /// The hash function with this seed.
    pub const fn new(seed: u64) -> Hash {
        Hash { seed }
    }

    /// The 64-bit hash of a word.
    pub fn word(self, word: u64) -> u64 {
        xxh3_64_with_seed(&word.to_le_bytes(), self.seed)
    }

    /// The 64-bit hash of an ordered pair.
    pub fn pair(self, first: u64, second: u64) -> u64 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        xxh3_64_with_seed(&bytes, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Different values would let machines of two versions disagree about the chosen members.
    #[test]
    fn hash_values_never_change_between_versions() {
        assert_eq!(Hash::new(0).word(0), 0xc77b_3abb_6f87_acd9);
        assert_ne!(Hash::new(1).word(0), Hash::new(0).word(0));
        assert_eq!(Hash::new(7).pair(1, 2), 3_059_136_226_125_565_901);
        assert_ne!(Hash::new(0).pair(1, 2), Hash::new(0).pair(2, 1));
    }
}
