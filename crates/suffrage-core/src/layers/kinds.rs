//! The concatenation of two lists of message kinds, as a constant.

use std::marker::PhantomData;

use crate::Kind;

/// The maximum number of message kinds of a process. A constant cannot have a length that depends on a type, so an
/// array of this length is filled as far as needed.
const MAX_KINDS: usize = 64;

/// Two lists of kinds, for [`Concatenation`].
pub(crate) trait KindLists {
    const FIRST: &'static [Kind];
    const SECOND: &'static [Kind];
}

/// The concatenation of the two lists of `L`.
pub(crate) struct Concatenation<L>(PhantomData<L>);

impl<L: KindLists> Concatenation<L> {
    const FILLED: [Kind; MAX_KINDS] = fill(L::FIRST, L::SECOND);

    pub(crate) const KINDS: &'static [Kind] = {
        let filled: &'static [Kind; MAX_KINDS] = &Self::FILLED;
        filled.split_at(L::FIRST.len() + L::SECOND.len()).0
    };
}

const fn fill(first: &[Kind], second: &[Kind]) -> [Kind; MAX_KINDS] {
    assert!(
        first.len() + second.len() <= MAX_KINDS,
        "a process has more kinds of message than MAX_KINDS; raise MAX_KINDS"
    );
    let mut filled = [Kind::uncounted(""); MAX_KINDS];
    let mut index = 0;
    while index < first.len() {
        filled[index] = first[index];
        index += 1;
    }
    while index < first.len() + second.len() {
        filled[index] = second[index - first.len()];
        index += 1;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Example;
    impl KindLists for Example {
        const FIRST: &'static [Kind] = &[Kind::uncounted("a"), Kind::new("b")];
        const SECOND: &'static [Kind] = &[Kind::new("c")];
    }

    #[test]
    fn kinds_are_the_first_list_followed_by_the_second() {
        assert_eq!(Concatenation::<Example>::KINDS, [Kind::uncounted("a"), Kind::new("b"), Kind::new("c")]);
    }
}
