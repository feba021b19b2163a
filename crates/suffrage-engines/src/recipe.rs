//! What a module of an engine implements.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{Clock, Error, Facts, Moment};

/// A future that a trait object returns.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a candidate wants.
#[derive(Clone)]
pub(crate) struct Wish {
    /// The name of the election.
    pub(crate) name: Arc<str>,
    /// Who the candidate is, for people and for other clients: the value that the recipe stores.
    pub(crate) identity: Arc<str>,
    /// The length of the lease, at least the shortest of the engine.
    pub(crate) ttl: Duration,
    /// The greatest rate by which two clocks differ, as a share of 1.
    pub(crate) drift: f64,
    /// The clock of this machine.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Wish {
    /// The moment.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The end of a lease that was asked for at `sent`, before the request was sent. The engine counts from a later
    /// moment, by a clock that runs at most `drift` faster than this one.
    pub(crate) fn end_of_lease(&self, sent: Moment, ttl: Duration) -> Moment {
        sent + ttl.mul_f64(1.0 - self.drift)
    }
}

/// A lease that an engine has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The fencing token.
    pub(crate) token: u64,
    /// The end of the lease by the clock of this machine, from [`Wish::end_of_lease`].
    pub(crate) valid_until: Moment,
}

/// An engine, by its recipe. Connects when it is first used, and again whenever its connection has failed.
pub(crate) trait Recipe: Send + Sync {
    /// What the engine promises.
    fn facts(&self) -> &'static Facts;

    /// The ttl of an election that names none: that of the quorum lease, or the shortest that the engine grants.
    fn default_ttl(&self) -> Duration {
        Duration::from_secs(3).max(self.facts().shortest_ttl)
    }

    /// The longest time for which a lease of this ttl can be valid: a URL or an engine may allow less than the ttl.
    fn longest_validity(&self, ttl: Duration) -> Duration {
        ttl
    }

    /// Checks the name of an election: what the engine cannot store is [`Error::Unsupported`].
    fn check_name(&self, _name: &str) -> Result<(), Error> {
        Ok(())
    }

    /// A candidate, who has not yet told the engine.
    fn candidate(&self, wish: Wish) -> Box<dyn Candidate>;

    /// Who leads, who waits, and what an operator should know. Sees candidates of other clients as well.
    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>>;

    /// Waits until the leader differs from `known`, by a push of the engine if it has one. Returns the new leader. The
    /// future can be dropped at any moment.
    fn changed<'a>(
        &'a self,
        name: &'a str,
        known: Option<Leader>,
    ) -> Pending<'a, Result<Option<Leader>, Error>>;

    /// Removes the leader's entry, whoever it is. Returns the leader that was removed. The leader notices later.
    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>>;
}

/// One candidate of one election. [`tenure`](crate::tenure) calls the functions, one at a time.
///
/// Each function returns [`Error::Unavailable`] within a time of its own if the engine does not answer: a server that is
/// gone must not block a candidate for longer than a third of the ttl.
pub(crate) trait Candidate: Send {
    /// Stands, and waits until the candidate leads. After an error the next call first finds what the earlier one has left
    /// at the engine: a request whose reply was lost may have succeeded. The future can be dropped at any moment.
    ///
    /// The lease counts from the moment before the request that proves the leadership was sent: a candidate that has
    /// waited for a day renews before it returns.
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>>;

    /// Renews the lease. [`Error::Ended`] if somebody else may lead by now. The token may stay the same or grow.
    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>>;

    /// Waits until the engine tells that the leadership has ended, by a push. Waits for ever if the engine has no push. The
    /// future can be dropped at any moment, and is called again after each renewal.
    fn ended(&mut self) -> Pending<'_, Error>;

    /// Removes every trace of the candidate from the engine, so that the next one leads at once. Idempotent. An entry whose
    /// request had no reply is removed as well.
    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>>;

    /// How often the lease is renewed.
    fn renewal_interval(&self, ttl: Duration) -> Duration {
        ttl / 3
    }
}

/// A leader, as an engine names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The text that the leader has stored: the identity of a candidate of ours, or whatever another client stores.
    pub identity: String,
    /// The fencing token.
    pub token: u64,
}

/// What an engine knows of an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The leader.
    pub leader: Option<Leader>,
    /// The identities of those who wait, the next one first, if the engine knows them.
    pub waiting: Vec<String>,
    /// What an operator should know: "a child of an unknown recipe is in the folder: …", "lock-delay until …".
    pub remarks: Vec<String>,
}
