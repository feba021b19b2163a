//! What a register has seen, and whether that is right.
//!
//! Leaders count: each reads the number that the register holds, with its token, and from then on writes one more,
//! and one more, without looking again. If there is only ever one of them, or if tokens are checked, each number
//! follows the one before. If a deposed one gets through, its number is written over another's, which is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was asked of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A leader begins: it is told the number, and nobody before it may write any more.
    Begin,
    /// It writes this number.
    Write(u64),
}

/// Something that a register was asked, in the order in which it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) token: u64,
    pub(crate) writer: u64,
    pub(crate) deed: Deed,
    /// Whether it was done.
    pub(crate) taken: bool,
}

/// A write that its writer was told is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acknowledged {
    pub(crate) token: u64,
    pub(crate) writer: u64,
    pub(crate) number: u64,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Somebody with a greater token has been there before, and yet this was taken.
    Deposed { event: Event, greatest: u64 },
    /// Nobody with a greater token has been there, and yet this was not.
    Refused { event: Event, greatest: u64 },
    /// Two have the same token.
    Shared { token: u64, writers: [u64; 2] },
    /// It did not know of what was written before: that is lost.
    Lost { event: Event, held: u64 },
    /// Its writer was told that this is done, and it is not.
    Vanished(Acknowledged),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Deposed { event, greatest } => {
                write!(f, "{event:?} was taken, after token {greatest} had been seen")
            }
            Wrong::Refused { event, greatest } => {
                write!(f, "{event:?} was refused, and {greatest} is the greatest token that was seen")
            }
            Wrong::Shared { token, writers: [a, b] } => write!(f, "token {token} is both {a}'s and {b}'s"),
            Wrong::Lost { event, held } => write!(f, "{event:?} does not follow {held}, which is lost"),
            Wrong::Vanished(write) => write!(f, "{write:?} is nowhere in the register"),
        }
    }
}

/// What a history that is right comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) leaders: usize,
    pub(crate) writes: u64,
    pub(crate) refused: usize,
}

/// Nothing is lost, nothing is taken from a deposed leader, tokens never decrease; and what is refused is refused
/// for that alone.
pub(crate) fn verify(history: &[Event], acknowledged: &[Acknowledged]) -> Result<Account, Wrong> {
    let (mut greatest, mut held) = (0, 0);
    let (mut owners, mut written) = (BTreeMap::new(), BTreeSet::new());
    let mut account = Account::default();
    for &event in history {
        let owner = *owners.entry(event.token).or_insert(event.writer);
        if owner != event.writer {
            return Err(Wrong::Shared { token: event.token, writers: [owner, event.writer] });
        }
        match (event.token < greatest, event.taken) {
            (true, true) => return Err(Wrong::Deposed { event, greatest }),
            (false, false) => return Err(Wrong::Refused { event, greatest }),
            (true, false) => {
                account.refused += 1;
                continue;
            }
            (false, true) => greatest = event.token,
        }
        if let Deed::Write(number) = event.deed {
            if number != held + 1 {
                return Err(Wrong::Lost { event, held });
            }
            held = number;
            written.insert(Acknowledged { token: event.token, writer: event.writer, number });
        }
    }
    if let Some(&vanished) = acknowledged.iter().find(|write| !written.contains(write)) {
        return Err(Wrong::Vanished(vanished));
    }
    Ok(Account { leaders: owners.len(), writes: held, ..account })
}

mod tests {
    use super::*;

    fn begin(token: u64, writer: u64) -> Event {
        Event { token, writer, deed: Deed::Begin, taken: true }
    }

    fn write(token: u64, writer: u64, number: u64) -> Event {
        Event { token, writer, deed: Deed::Write(number), taken: true }
    }

    fn refused(event: Event) -> Event {
        Event { taken: false, ..event }
    }

    fn told(token: u64, writer: u64, number: u64) -> Acknowledged {
        Acknowledged { token, writer, number }
    }

    #[test]
    fn one_leader_after_the_other_is_right() {
        let history = [
            begin(3, 1),
            write(3, 1, 1),
            // Nobody was told, and it counts nevertheless: the next leader has seen it.
            write(3, 1, 2),
            begin(5, 2),
            refused(write(3, 1, 3)),
            write(5, 2, 3),
            refused(begin(4, 3)),
        ];
        let account = verify(&history, &[told(3, 1, 1), told(5, 2, 3)]);
        assert_eq!(account, Ok(Account { leaders: 3, writes: 3, refused: 2 }));
        assert_eq!(verify(&[], &[]), Ok(Account::default()));
    }

    #[test]
    fn it_fires_on_a_write_of_a_deposed_leader() {
        let stale = write(3, 1, 2);
        let history = [begin(3, 1), write(3, 1, 1), begin(5, 2), stale];
        assert_eq!(verify(&history, &[]), Err(Wrong::Deposed { event: stale, greatest: 5 }));
        // To begin is enough to depose, and tokens that decrease are the same thing.
        let history = [begin(5, 2), begin(3, 1)];
        assert_eq!(verify(&history, &[]), Err(Wrong::Deposed { event: begin(3, 1), greatest: 5 }));
    }

    #[test]
    fn it_fires_on_what_is_lost() {
        // It came too late to be seen by the next leader, and was written over: as if tokens were equal.
        let over = write(3, 1, 2);
        let history = [begin(3, 1), write(3, 1, 1), write(3, 1, 2), over];
        assert_eq!(verify(&history, &[]), Err(Wrong::Lost { event: over, held: 2 }));
        let gap = write(3, 1, 7);
        assert_eq!(verify(&[begin(3, 1), gap], &[]), Err(Wrong::Lost { event: gap, held: 0 }));
    }

    #[test]
    fn it_fires_on_what_was_told_done_and_is_not() {
        let history = [begin(3, 1), write(3, 1, 1), begin(5, 2), refused(write(3, 1, 2)), write(5, 2, 2)];
        assert!(verify(&history, &[told(3, 1, 1), told(5, 2, 2)]).is_ok());
        assert_eq!(verify(&history, &[told(3, 1, 2)]), Err(Wrong::Vanished(told(3, 1, 2))));
    }

    #[test]
    fn it_fires_on_a_token_that_two_have() {
        let history = [begin(3, 1), begin(3, 2)];
        assert_eq!(verify(&history, &[]), Err(Wrong::Shared { token: 3, writers: [1, 2] }));
        // Also if the second was refused by chance.
        let history = [begin(3, 1), begin(5, 3), refused(write(3, 2, 1))];
        assert_eq!(verify(&history, &[]), Err(Wrong::Shared { token: 3, writers: [1, 2] }));
    }

    #[test]
    fn it_fires_on_a_leader_that_is_refused() {
        let history = [begin(3, 1), refused(write(3, 1, 1))];
        let wrong = Wrong::Refused { event: refused(write(3, 1, 1)), greatest: 3 };
        assert_eq!(verify(&history, &[]), Err(wrong));
    }
}
