//! The hash H of Gupta et al.: the same value on every machine and in every version.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A fixed hash, seeded by what it is asked about: an election, a round, a view.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, machines of two versions would disagree about who is chosen.
    #[test]
    fn the_values_are_fixed_for_ever() {
        assert_eq!(Hash::new(0).word(0), 0xc77b_3abb_6f87_acd9);
        assert_ne!(Hash::new(1).word(0), Hash::new(0).word(0));
        assert_eq!(Hash::new(7).pair(1, 2), 3_059_136_226_125_565_901);
        assert_ne!(Hash::new(0).pair(1, 2), Hash::new(0).pair(2, 1));
    }
}
