//! Fencing, at the thing that only a leader may write to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use suffrage_lease::Token;

/// Somebody who leads no more, or has not noticed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {token} is stale: a leader with token {greatest} has been here")]
pub struct Stale {
    /// What was presented.
    pub token: u64,
    /// The greatest that has been.
    pub greatest: u64,
}

/// Refuses tokens that are smaller than the greatest it has seen.
///
/// To check and then to write is two steps, and a later leader may come in between. Where both are in one
/// program, use [`Fenced`], which makes them one. Where they are not, check in the same transaction: the
/// crate's documentation has that in SQL.
///
/// ```
/// # use suffrage::{Fence, Stale};
/// let fence = Fence::new();
/// assert!(fence.check(7).is_ok());
/// assert!(fence.check(7).is_ok(), "the same leader may write again");
/// assert!(fence.check(8).is_ok());
/// assert_eq!(fence.check(7), Err(Stale { token: 7, greatest: 8 }));
/// ```
#[derive(Debug, Default)]
pub struct Fence {
    greatest: AtomicU64,
}

impl Fence {
    /// A fence that has seen nobody yet.
    pub fn new() -> Fence {
        Fence::default()
    }

    /// A fence that has seen this token: as it was stored with what it protects.
    pub fn with(greatest: u64) -> Fence {
        Fence { greatest: greatest.into() }
    }

    /// Whether whoever has this token may write. If so, no smaller one may from now on.
    pub fn check(&self, token: impl Into<Presented>) -> Result<(), Stale> {
        let token = token.into().0;
        let greatest = self.greatest.fetch_max(token, Ordering::AcqRel);
        if token < greatest { Err(Stale { token, greatest }) } else { Ok(()) }
    }

    /// The greatest token that it has seen, to be stored with what it protects; zero if none.
    pub fn greatest(&self) -> u64 {
        self.greatest.load(Ordering::Acquire)
    }
}

/// A token as it is presented to a fence: a [`Token`], or the number of one that came over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presented(u64);

impl From<Token> for Presented {
    fn from(token: Token) -> Presented {
        Presented(token.number())
    }
}

impl From<u64> for Presented {
    fn from(number: u64) -> Presented {
        Presented(number)
    }
}

/// A value that only the holder of the latest token can change.
///
/// ```
/// # use suffrage::Fenced;
/// let register = Fenced::new(0);
/// assert_eq!(register.update(4, |value| { *value += 1; *value }), Ok(1));
/// assert_eq!(register.update(5, |value| { *value += 1; *value }), Ok(2));
/// assert!(register.update(4, |value| *value = 99).is_err());
/// assert_eq!(register.read(|value| *value), 2);
/// ```
#[derive(Debug, Default)]
pub struct Fenced<T> {
    guarded: Mutex<(u64, T)>,
}

impl<T> Fenced<T> {
    /// A value that nobody has changed yet.
    pub fn new(value: T) -> Fenced<T> {
        Fenced { guarded: Mutex::new((0, value)) }
    }

    /// Changes the value, unless a leader with a greater token has been here. If a change panics, what it has
    /// done so far stands.
    pub fn update<R>(
        &self,
        token: impl Into<Presented>,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Stale> {
        let token = token.into().0;
        let (greatest, value) = &mut *self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        if token < *greatest {
            return Err(Stale { token, greatest: *greatest });
        }
        *greatest = token;
        Ok(change(value))
    }

    /// Looks at the value. Anybody may.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.guarded.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}
