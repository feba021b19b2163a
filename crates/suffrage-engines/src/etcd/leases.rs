//! Leases that candidates have given back: the next candidate of this program needs no new one.
//!
//! A lease without a key blocks nobody. If no candidate takes it, etcd ends it by itself.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::Moment;

/// More are not kept.
const MOST: usize = 256;

/// A lease without a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IdleLease {
    pub(super) id: i64,
    /// The length that was asked for.
    pub(super) ttl: Duration,
    /// The drift bound of the validity.
    pub(super) drift: f64,
    pub(super) validity: Validity,
}

/// The end of a lease by the clock of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) valid_until: Moment,
    /// From this moment on, the lease is not used before it is renewed.
    pub(super) renew_at: Moment,
}

/// The leases without a key.
#[derive(Default)]
pub(super) struct Leases(Mutex<Vec<IdleLease>>);

impl Leases {
    /// Gives a lease back. False if there are too many.
    pub(super) fn give(&self, lease: IdleLease) -> bool {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = idle.len() < MOST;
        if room {
            idle.push(lease);
        }
        room
    }

    /// Takes a lease of this length and drift bound that need not be renewed yet.
    pub(super) fn take(&self, ttl: Duration, drift: f64, now: Moment) -> Option<IdleLease> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|lease| now < lease.validity.renew_at);
        let position = idle.iter().rposition(|lease| (lease.ttl, lease.drift) == (ttl, drift))?;
        Some(idle.swap_remove(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_given_once_and_only_while_it_is_fresh() {
        let seconds = Duration::from_secs;
        let lease = |id, renew_at| {
            let validity = Validity { valid_until: seconds(9), renew_at: seconds(renew_at) };
            IdleLease { id, ttl: seconds(9), drift: 0.0, validity }
        };
        let leases = Leases::default();
        assert!(leases.give(lease(1, 3)) && leases.give(lease(2, 5)));
        assert_eq!(leases.take(seconds(8), 0.0, seconds(1)), None, "another ttl");
        assert_eq!(leases.take(seconds(9), 0.1, seconds(1)), None, "another drift bound");
        assert_eq!(leases.take(seconds(9), 0.0, seconds(3)), Some(lease(2, 5)));
        assert_eq!(leases.take(seconds(9), 0.0, seconds(1)), None, "the first one was too old");
        assert_eq!((0..=MOST).filter(|_| leases.give(lease(1, 3))).count(), MOST);
    }
}
