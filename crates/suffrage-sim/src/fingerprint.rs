//! A hash of all events of a run, in order: equal hashes mean equal runs.

use std::hash::Hasher;

/// Hashes all events, in order. Fast and not cryptographic: the hash detects a changed run, not a forged one.
///
/// The widths are spelled out so that the number is the same on machines of any word size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fingerprint {
    sum: u64,
    /// The factor of the next word: a different number at every position.
    factor: u64,
}

impl Fingerprint {
    #[inline]
    pub(crate) fn mix(&mut self, word: u64) {
        // Only one addition per word depends on the word before; the multiplication does not.
        self.factor = self.factor.rotate_left(23).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add((!word).wrapping_mul(self.factor | 1));
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        suffrage_core::Hash::new(self.factor).word(self.sum)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.mix(byte.into()));
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    #[inline]
    fn write_isize(&mut self, word: isize) {
        self.mix(word as i64 as u64);
    }

    #[inline]
    fn write_i64(&mut self, word: i64) {
        self.mix(word as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    fn print_of(value: impl Hash) -> u64 {
        let mut fingerprint = Fingerprint::default();
        value.hash(&mut fingerprint);
        fingerprint.finish()
    }

    #[test]
    fn order_and_content_matter() {
        assert_eq!(print_of((1u8, 2u64, -3i64)), print_of((1u8, 2u64, -3i64)));
        assert_ne!(print_of((1u32, 2u32)), print_of((2u32, 1u32)));
        assert_ne!(print_of([1u64, 2].as_slice()), print_of([1u64, 3].as_slice()));
        assert_ne!(print_of(Some(0u16)), print_of(None::<u16>));
    }

    /// If this fails, every recorded trace hash has lost its meaning.
    #[test]
    fn the_values_are_fixed() {
        assert_eq!(print_of([7u64, 8].as_slice()), 10_532_307_362_882_860_458);
    }
}
