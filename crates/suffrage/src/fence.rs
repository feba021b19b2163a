//! Fencing, at the resource that only a leader may write to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use suffrage_lease::Token;

/// A token that is smaller than the greatest token a fence has seen: its leadership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {token} is stale: a later leader has token {greatest}; stop, this leadership has ended")]
pub struct StaleToken {
    /// The token of the write.
    pub token: u64,
    /// The greatest token that the fence has seen.
    pub greatest: u64,
}

/// A fence rejects tokens that are smaller than the greatest token it has seen.
///
/// A check and a write are two steps, and a later leader may write in between. [`Fenced`] makes them one step within
/// one program. For a database, check in the transaction of the write: the documentation of the crate has the SQL.
///
/// ```
/// # use suffrage::{Fence, StaleToken};
/// let fence = Fence::new();
/// assert!(fence.check(7).is_ok());
/// assert!(fence.check(7).is_ok(), "the same leader may write again");
/// assert!(fence.check(8).is_ok());
/// assert_eq!(fence.check(7), Err(StaleToken { token: 7, greatest: 8 }));
/// ```
#[derive(Debug, Default)]
pub struct Fence {
    greatest: AtomicU64,
}

impl Fence {
    /// A fence that has seen no token.
    pub fn new() -> Fence {
        Fence::default()
    }

    /// A fence that has seen this token, which was stored with the resource.
    pub fn with(greatest: u64) -> Fence {
        Fence { greatest: greatest.into() }
    }

    /// Checks a token. If it is accepted, smaller tokens are rejected from now on.
    pub fn check(&self, token: impl Into<PresentedToken>) -> Result<(), StaleToken> {
        let token = token.into().0;
        let greatest = self.greatest.fetch_max(token, Ordering::AcqRel);
        if token < greatest { Err(StaleToken { token, greatest }) } else { Ok(()) }
    }

    /// The greatest token seen, to be stored with the resource. Zero if none.
    pub fn greatest(&self) -> u64 {
        self.greatest.load(Ordering::Acquire)
    }
}

/// A token that is presented to a fence: a [`Token`], or the number of a token that was received over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentedToken(u64);

impl From<Token> for PresentedToken {
    fn from(token: Token) -> PresentedToken {
        PresentedToken(token.number())
    }
}

impl From<u64> for PresentedToken {
    fn from(number: u64) -> PresentedToken {
        PresentedToken(number)
    }
}

/// A value that only the holder of the greatest token can change.
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
    /// A value that no leader has changed yet.
    pub fn new(value: T) -> Fenced<T> {
        Fenced { guarded: Mutex::new((0, value)) }
    }

    /// Changes the value, unless a greater token has been used. If `change` panics, its partial changes remain.
    pub fn update<R>(
        &self,
        token: impl Into<PresentedToken>,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, StaleToken> {
        let token = token.into().0;
        let (greatest, value) = &mut *self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        if token < *greatest {
            return Err(StaleToken { token, greatest: *greatest });
        }
        *greatest = token;
        Ok(change(value))
    }

    /// Reads the value. No token is needed.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.guarded.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}
