//! The history of a register, and its checker.
//!
//! Leaders count: each reads the number of the register once, with its token, and then writes successive numbers without
//! reading again. With one leader at a time, or with fencing, each number follows the one before. A write of a deposed
//! leader overwrites the number of another, which is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A request to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A leader begins: it reads the number, and earlier leaders may not write any more.
    Begin,
    /// The leader writes this number.
    Write(u64),
}

/// An entry of the history, in the order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) token: u64,
    pub(crate) writer: u64,
    pub(crate) deed: Deed,
    /// Whether the request was accepted.
    pub(crate) taken: bool,
}

/// An acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acknowledged {
    pub(crate) token: u64,
    pub(crate) writer: u64,
    pub(crate) number: u64,
}

/// A violation of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A request was accepted after one with a greater token.
    Deposed { event: Event, greatest: u64 },
    /// A request was refused without an earlier greater token.
    Refused { event: Event, greatest: u64 },
    /// Two leaders have the same token.
    Shared { token: u64, writers: [u64; 2] },
    /// A write overwrote a number that its writer had not read: that number is lost.
    Lost { event: Event, held: u64 },
    /// An acknowledged write is missing.
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

/// The totals of a correct history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) leaders: usize,
    pub(crate) writes: u64,
    pub(crate) refused: usize,
}

/// Checks that no write is lost, no write of a deposed leader is accepted, tokens never decrease, and only stale tokens
/// are refused.
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
    fn successive_leaders_are_accepted() {
        let history = [
            begin(3, 1),
            write(3, 1, 1),
            // An unacknowledged write counts: the next leader has read it.
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
    fn a_write_of_a_deposed_leader_is_a_violation() {
        let stale = write(3, 1, 2);
        let history = [begin(3, 1), write(3, 1, 1), begin(5, 2), stale];
        assert_eq!(verify(&history, &[]), Err(Wrong::Deposed { event: stale, greatest: 5 }));
        // A begin deposes earlier leaders; decreasing tokens are the same violation.
        let history = [begin(5, 2), begin(3, 1)];
        assert_eq!(verify(&history, &[]), Err(Wrong::Deposed { event: begin(3, 1), greatest: 5 }));
    }

    #[test]
    fn a_lost_write_is_a_violation() {
        // The write came after the read of the next leader, and was overwritten, as with equal tokens.
        let over = write(3, 1, 2);
        let history = [begin(3, 1), write(3, 1, 1), write(3, 1, 2), over];
        assert_eq!(verify(&history, &[]), Err(Wrong::Lost { event: over, held: 2 }));
        let gap = write(3, 1, 7);
        assert_eq!(verify(&[begin(3, 1), gap], &[]), Err(Wrong::Lost { event: gap, held: 0 }));
    }

    #[test]
    fn an_acknowledged_write_that_is_missing_is_a_violation() {
        let history = [begin(3, 1), write(3, 1, 1), begin(5, 2), refused(write(3, 1, 2)), write(5, 2, 2)];
        assert!(verify(&history, &[told(3, 1, 1), told(5, 2, 2)]).is_ok());
        assert_eq!(verify(&history, &[told(3, 1, 2)]), Err(Wrong::Vanished(told(3, 1, 2))));
    }

    #[test]
    fn a_token_of_two_leaders_is_a_violation() {
        let history = [begin(3, 1), begin(3, 2)];
        assert_eq!(verify(&history, &[]), Err(Wrong::Shared { token: 3, writers: [1, 2] }));
        // Also if the second leader was refused.
        let history = [begin(3, 1), begin(5, 3), refused(write(3, 2, 1))];
        assert_eq!(verify(&history, &[]), Err(Wrong::Shared { token: 3, writers: [1, 2] }));
    }

    #[test]
    fn a_refused_leader_is_a_violation() {
        let history = [begin(3, 1), refused(write(3, 1, 1))];
        let wrong = Wrong::Refused { event: refused(write(3, 1, 1)), greatest: 3 };
        assert_eq!(verify(&history, &[]), Err(wrong));
    }
}
