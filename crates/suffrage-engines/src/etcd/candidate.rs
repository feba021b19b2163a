//! A candidate: one lease, one key.
//!
//! ```text
//!   grant ──▶ put ──first──────────────────▶ leads          grant: a lease with an id that the candidate has chosen
//!               └─behind─▶ watch ahead, ──▶ read ─first─▶    put:   unless the key is there
//!                     ▲    renew             │               read:  the own key and the one ahead, in one request
//!                     └──────────behind──────┘
//! ```
//!
//! The candidate knows the id of its lease before the first request. So a lost reply leaves nothing that the candidate
//! cannot find: the grant and the put are repeated, and revoking the lease removes the key, and refuses a put that is
//! still under way.
//!
//! A candidate without requests in doubt only deletes its key when it withdraws, and leaves its lease to the next candidate
//! of this program (leases.rs).
//!
//! **A renewal counts after a read.** The leading server of etcd renews leases alone, without a majority. A server that
//! has been paused or cut off may do that while another one leads already, and has ended the lease. So the candidate
//! compares the term in the answer to the renewal with the term of a read that it sends afterwards and that a majority
//! confirms. If they are equal, one server has led from the renewal to the read. The same read shows that the key of the
//! candidate is still there: a lease without its key is no leadership.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::api::{self, Entry, Target};
use super::client::{Failure, unavailable};
use super::leases::{IdleLease, Validity};
use super::watches::{Watch, Woken};
use super::{Shared, key_of};
use crate::recipe::{Candidate, Grant, Pending, Wish};
use crate::{Error, Moment};

/// Timers stop while the machine is suspended, and the clock does not: it is read again at least this often.
const RECHECK: Duration = Duration::from_millis(500);
/// The pause after a failed watch of the own key.
const WATCH_PAUSE: Duration = Duration::from_millis(200);
/// The renewals within one call, if the leading server changes.
const ATTEMPTS: u32 = 3;

/// The lease and the key of a candidate at etcd.
struct Standing {
    lease: i64,
    key: Arc<[u8]>,
    /// The end of the lease, after the answer of etcd.
    validity: Option<Validity>,
    /// The create revision of the key, after the answer of etcd.
    created: Option<i64>,
    /// The watch of the own key, and the revision from which the next one starts.
    own: Option<Watch>,
    watched_from: i64,
    /// Whether every request that could make a key has been answered. Otherwise the lease is revoked in the end.
    is_clean: bool,
}

impl Standing {
    fn new(prefix: &[u8], lease: i64, validity: Option<Validity>) -> Standing {
        let key = key_of(prefix, lease).into();
        Standing { lease, key, validity, created: None, own: None, watched_from: 0, is_clean: true }
    }
}

/// A place in the queue.
enum Place {
    First,
    /// The key ahead, and the revision at which it was there.
    Behind(Vec<u8>, i64),
}

pub(super) struct EtcdCandidate {
    shared: Arc<Shared>,
    wish: Wish,
    /// The prefix of the keys of all candidates.
    prefix: Vec<u8>,
    standing: Option<Standing>,
    /// Leases that are not used any more, and may still exist.
    abandoned: Vec<i64>,
    /// A key of this candidate that somebody has taken away from its lease.
    detached: Option<(Arc<[u8]>, i64)>,
}

fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: "etcd", reason: reason.into() }
}

/// A positive number, as etcd itself chooses them.
fn random_lease() -> Result<i64, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| unavailable(format!("no random number: {error}")))?;
    Ok((i64::from_ne_bytes(random) & i64::MAX).max(1))
}

impl EtcdCandidate {
    pub(super) fn new(shared: Arc<Shared>, wish: Wish) -> EtcdCandidate {
        let prefix = shared.prefix_of(&wish.name);
        EtcdCandidate { shared, wish, prefix, standing: None, abandoned: Vec::new(), detached: None }
    }

    /// The time for a request.
    fn patience(&self) -> Duration {
        self.wish.ttl / 3
    }

    fn validity(&self, sent: Moment, seconds: u64) -> Validity {
        let valid_until = self.wish.end_of_lease(sent, Duration::from_secs(seconds));
        Validity { valid_until, renew_at: sent + self.wish.ttl / 3 }
    }

    /// A lease of etcd, which has no key at first.
    async fn obtain_lease(&mut self) -> Result<(), Error> {
        if self.standing.is_none() {
            let standing = match self.shared.leases.take(self.wish.ttl, self.wish.drift, self.wish.now()) {
                Some(idle) => Standing::new(&self.prefix, idle.id, Some(idle.validity)),
                None => Standing::new(&self.prefix, random_lease()?, None),
            };
            self.standing = Some(standing);
        }
        let Some(Standing { lease, validity: None, .. }) = self.standing else { return Ok(()) };
        let sent = self.wish.now();
        let seconds = self.wish.ttl.as_secs_f64().ceil() as i64;
        let message = api::lease_grant(seconds, lease);
        let validity = match self.shared.client.call(api::LEASE_GRANT, &message, self.patience()).await {
            Ok(answer) => self.validity(sent, api::seconds(&answer)),
            // An earlier request had no reply. How long the lease lasts is unknown: it is renewed first.
            Err(Failure::LeaseExists) => Validity::default(),
            Err(failure) => return Err(failure.into()),
        };
        if let Some(standing) = &mut self.standing {
            standing.validity = Some(validity);
        }
        Ok(())
    }

    /// Puts the key unless it is there. Returns whether the candidate is first.
    async fn put_key(&mut self) -> Result<bool, Error> {
        let Some(standing) = &mut self.standing else { return Err(ended("there is no lease")) };
        if standing.created.is_some() {
            return Ok(false);
        }
        let was_clean = std::mem::replace(&mut standing.is_clean, false);
        let (lease, key) = (standing.lease, Arc::clone(&standing.key));
        let txn = api::stand(&key, self.wish.identity.as_bytes(), lease, &self.prefix);
        let answer = match self.shared.client.call(api::TXN, &txn, self.patience()).await {
            Ok(answer) => answer,
            Err(Failure::LeaseNotFound) => {
                self.standing = None;
                return Err(Failure::LeaseNotFound.into());
            }
            Err(failure) => return Err(failure.into()),
        };
        let mut ranges = api::ranges(&answer).map(|range| api::entries(range).next());
        let own = ranges.next().flatten();
        let first = ranges.next().flatten();
        let created = self.own_revision(own)?;
        if let Some(standing) = &mut self.standing {
            standing.created = Some(created);
            standing.watched_from = created + 1;
            standing.is_clean = was_clean;
        }
        self.watch_own();
        Ok(first.is_some_and(|first| first.key == *key))
    }

    /// The create revision of the own key, if it is there and of the own lease. Otherwise the candidate does not stand any
    /// more.
    fn own_revision(&mut self, entry: Option<Entry>) -> Result<i64, Error> {
        let Some(standing) = &mut self.standing else { return Err(ended("there is no lease")) };
        let entry =
            entry.filter(|entry| standing.created.is_none_or(|created| entry.create_revision == created));
        match entry {
            Some(entry) if entry.lease == standing.lease => Ok(entry.create_revision),
            Some(entry) => {
                self.detached = Some((Arc::clone(&standing.key), entry.create_revision));
                let lease = standing.lease;
                self.abandon();
                Err(ended(format!("the key is not bound to its lease {lease:x} any more")))
            }
            None => {
                // The lease may be alive. The next key has another create revision.
                standing.created = None;
                standing.own = None;
                Err(ended("the key was deleted, or its lease has expired or was revoked"))
            }
        }
    }

    fn abandon(&mut self) {
        self.abandoned.extend(self.standing.take().map(|standing| standing.lease));
    }

    /// Starts the watch of the own key.
    fn watch_own(&mut self) {
        let Some(standing) = &mut self.standing else { return };
        if standing.own.is_none() {
            let target = Target::Deletion(standing.key.to_vec());
            standing.own = Some(self.shared.watches.watch(target, standing.watched_from));
        }
    }

    /// Renews the lease, and sees that its key is there.
    async fn renew_lease(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + self.patience();
        for _ in 0..ATTEMPTS {
            let Some(standing) = &self.standing else { return Err(ended("there is no lease")) };
            let (lease, key) = (standing.lease, Arc::clone(&standing.key));
            let sent = self.wish.now();
            let renewed = self.shared.renewals.renew(lease, deadline).await?;
            let check = self.shared.checks.check(key, deadline).await?;
            if let Err(error) = self.own_revision(check.entry) {
                if renewed.seconds == 0 {
                    self.abandon();
                }
                return Err(error);
            }
            // A server that has just begun to lead may not yet know the lease.
            if renewed.seconds > 0 && renewed.term == check.term {
                let validity = self.validity(sent, renewed.seconds);
                if let Some(standing) = &mut self.standing {
                    standing.validity = Some(validity);
                }
                return Ok(());
            }
        }
        Err(unavailable("the leading server changes"))
    }

    fn grant(&self) -> Option<Grant> {
        let standing = self.standing.as_ref()?;
        let token = standing.created?.try_into().ok()?;
        Some(Grant { token, valid_until: standing.validity?.valid_until })
    }

    /// The time until the lease must be renewed. Zero if nothing is known of the lease.
    fn until_renewal(&self) -> Duration {
        let validity = self.standing.as_ref().and_then(|standing| standing.validity);
        validity.map_or(Duration::ZERO, |validity| validity.renew_at.saturating_sub(self.wish.now()))
    }

    /// The leadership, if the lease was renewed lately.
    fn fresh_grant(&self) -> Option<Grant> {
        self.grant().filter(|_| !self.until_renewal().is_zero())
    }

    /// Reads the own key and the one ahead.
    async fn find_place(&mut self) -> Result<Place, Error> {
        let created = self.standing.as_ref().and_then(|standing| Some((standing.created?, &standing.key)));
        let Some((created, key)) = created else { return Err(ended("there is no key")) };
        let txn = api::read([api::get(key), api::get_last_before(&self.prefix, created)]);
        let answer = self.shared.client.call(api::TXN, &txn, self.patience()).await?;
        let mut ranges = api::ranges(&answer).map(|range| api::entries(range).next());
        let (own, ahead) = (ranges.next().flatten(), ranges.next().flatten());
        self.own_revision(own)?;
        Ok(match ahead {
            None => Place::First,
            Some(ahead) => Place::Behind(ahead.key, api::header(&answer).revision),
        })
    }

    /// Waits until the key ahead or the own key is deleted. Renews meanwhile.
    async fn wait_behind(&mut self, ahead: Vec<u8>, revision: i64) -> Result<(), Error> {
        let mut ahead = self.shared.watches.watch(Target::Deletion(ahead), revision + 1);
        loop {
            self.watch_own();
            let left = self.until_renewal();
            let own = async {
                match self.standing.as_mut().and_then(|standing| standing.own.as_mut()) {
                    Some(own) => own.woken().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                woken = ahead.woken() => return woken.map(drop),
                woken = own => {
                    // The next read shows what has happened.
                    self.restart_own_watch(revision);
                    return woken.map(drop);
                }
                () = sleep(left.min(RECHECK)) => {}
            }
            if self.until_renewal().is_zero() {
                self.renew_lease().await?;
            }
        }
    }

    /// Forgets the watch of the own key, which has been woken. The next one starts after this revision.
    fn restart_own_watch(&mut self, revision: i64) {
        if let Some(standing) = &mut self.standing {
            standing.own = None;
            standing.watched_from = standing.watched_from.max(revision + 1);
        }
    }

    async fn try_campaign(&mut self) -> Result<Grant, Error> {
        self.obtain_lease().await?;
        if self.put_key().await?
            && let Some(grant) = self.fresh_grant()
        {
            return Ok(grant);
        }
        loop {
            if self.until_renewal().is_zero() {
                self.renew_lease().await?;
            }
            match self.find_place().await? {
                Place::Behind(ahead, revision) => self.wait_behind(ahead, revision).await?,
                Place::First => {
                    if let Some(grant) = self.fresh_grant() {
                        return Ok(grant);
                    }
                }
            }
        }
    }

    /// Waits until the own key is deleted.
    async fn own_key_deleted(&mut self) -> Error {
        loop {
            self.watch_own();
            let Some(standing) = &mut self.standing else { return ended("there is no lease") };
            let Some(own) = &mut standing.own else { return ended("there is no key") };
            let woken = own.woken().await;
            // It wakes once, and this future can be dropped below.
            standing.own = None;
            match woken {
                Ok(Woken::Event) => {
                    return ended("the key was deleted, or its lease has expired or was revoked");
                }
                // The events since then are compacted. If the key is still there, the watch goes on from now.
                Ok(Woken::Unknown) => {
                    let key = Arc::clone(&standing.key);
                    match self.shared.checks.check(key, Instant::now() + self.patience()).await {
                        Ok(check) => {
                            if let Err(error) = self.own_revision(check.entry) {
                                return error;
                            }
                            self.restart_own_watch(check.revision);
                        }
                        Err(_) => sleep(WATCH_PAUSE).await,
                    }
                }
                // A renewal notices the end as well.
                Err(_) => sleep(WATCH_PAUSE).await,
            }
        }
    }

    async fn revoke(&self, lease: i64) -> Result<(), Error> {
        match self.shared.client.call(api::LEASE_REVOKE, &api::lease(lease), self.patience()).await {
            Ok(_) | Err(Failure::LeaseNotFound) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Deletes the key, and gives the lease back for the next candidate. False if the lease must be revoked: a request
    /// without an answer may still make a key of that lease.
    async fn give_lease_back(&mut self) -> bool {
        let Some(standing) = &mut self.standing else { return false };
        let (Some(created), Some(validity)) = (standing.created, standing.validity) else { return false };
        // A later call does not come here again.
        if !std::mem::replace(&mut standing.is_clean, false) || self.wish.now() >= validity.renew_at {
            return false;
        }
        let (id, delete) = (standing.lease, api::delete(&standing.key, created));
        let answer = self.shared.client.call(api::TXN, &delete, self.patience()).await;
        let idle = IdleLease { id, ttl: self.wish.ttl, drift: self.wish.drift, validity };
        answer.is_ok_and(|answer| api::succeeded(&answer)) && self.shared.leases.give(idle)
    }

    async fn remove(&mut self) -> Result<(), Error> {
        if self.give_lease_back().await {
            self.standing = None;
        }
        self.abandon();
        while let Some(lease) = self.abandoned.last() {
            self.revoke(*lease).await?;
            self.abandoned.pop();
        }
        if let Some((key, created)) = &self.detached {
            self.shared.client.call(api::TXN, &api::delete(key, *created), self.patience()).await?;
            self.detached = None;
        }
        Ok(())
    }
}

impl Candidate for EtcdCandidate {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(self.try_campaign())
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async {
            self.renew_lease().await?;
            self.grant().ok_or_else(|| ended("there is no lease"))
        })
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(self.own_key_deleted())
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(self.remove())
    }
}
