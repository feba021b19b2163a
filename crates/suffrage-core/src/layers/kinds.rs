//! The kinds of message of two parts, one after the other, as a constant.

use std::marker::PhantomData;

use crate::Kind;

/// More kinds of message than any process has. A constant cannot have a length that depends on a
/// type, so one of this length is filled as far as needed.
const MOST: usize = 64;

/// Two lists of kinds. Made into one by an implementation that names them.
pub(crate) trait Lists {
    const FIRST: &'static [Kind];
    const SECOND: &'static [Kind];
}

/// The two lists of `L` in one.
pub(crate) struct Concatenation<L>(PhantomData<L>);

impl<L: Lists> Concatenation<L> {
    const FILLED: [Kind; MOST] = fill(L::FIRST, L::SECOND);

    pub(crate) const KINDS: &'static [Kind] = {
        let filled: &'static [Kind; MOST] = &Self::FILLED;
        filled.split_at(L::FIRST.len() + L::SECOND.len()).0
    };
}

const fn fill(first: &[Kind], second: &[Kind]) -> [Kind; MOST] {
    assert!(first.len() + second.len() <= MOST, "raise MOST");
    let mut filled = [Kind::apart(""); MOST];
    let mut place = 0;
    while place < first.len() {
        filled[place] = first[place];
        place += 1;
    }
    while place < first.len() + second.len() {
        filled[place] = second[place - first.len()];
        place += 1;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Some;
    impl Lists for Some {
        const FIRST: &'static [Kind] = &[Kind::apart("a"), Kind::new("b")];
        const SECOND: &'static [Kind] = &[Kind::new("c")];
    }

    #[test]
    fn one_list_follows_the_other() {
        assert_eq!(Concatenation::<Some>::KINDS, [Kind::apart("a"), Kind::new("b"), Kind::new("c")]);
    }
}
