//! The session that owns the nodes of all candidates with one ttl, and how long it lasts for certain.
//!
//! # Until when the session lasts
//!
//! The *leading server* ends a session when it has not been touched for its time-out. Other servers answer pings and
//! requests by themselves, collect which sessions they have heard of, and tell the leading server when it next asks, about
//! twice a tick. So neither a ping nor the reply to a write says when the leading server has last touched the session:
//! a write that is forwarded checks the session there and does not touch it. Counting from the write before the last
//! relies on the leading server's asking in between, which is late whenever that server is.
//!
//! The leading server touches a session itself in two cases: when the session is created, and when a client *connects with
//! the session*, to whichever server: that server asks the leading one to validate the session, which touches it. A round
//! of this module therefore is:
//!
//! ```text
//!   sent = clock    connect with the session ──▶ server ──validate──▶ leading server: touched, at a moment after `sent`
//!                   transaction of checks    ──▶ server ──forward───▶ leading server ──▶ majority of servers
//!   valid until sent + time-out × (1 - drift)
//! ```
//!
//! - The transaction shows that the server that was asked was the leading one. It went over the same connection, and a
//!   server closes its connections when it changes its leading server, so the same server validated and proposed. A
//!   majority accepted the proposal after `sent`. A later leading server is elected by a majority, so by one server at
//!   least that accepted the proposal before; it starts the time-outs of all sessions anew when it takes office, which is
//!   after `sent` as well. An earlier leading server, already replaced, finds no majority for the transaction.
//! - Time-outs are rounded up at the leading server, never down. Its clock runs at most `drift` faster than ours.
//! - A session that is due is marked as closing a moment after it was found due. A touch within that moment is in vain. So
//!   a round counts only if the validation was answered before the end that the round before it has shown. A session
//!   whose rounds have failed for longer than that is given up, even if the servers still have it: all leaderships of it
//!   have ended by then, and candidates stand again in a new session.
//! - A new session needs no transaction: its creation is one.
//!
//! The transaction also checks that the nodes of all leaders of this session exist. One connection and two requests per
//! round serve all candidates, however many elections they stand in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, RwLock, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::link::{Link, Refusal};
use super::wire::{Code, SessionKey};
use super::{Config, ended, refused, unavailable};
use crate::recipe::{Grant, Wish};
use crate::{Clock, Error, Moment};

/// Rounds per ttl.
const ROUNDS: u32 = 4;
/// The first pause after all servers have failed. It doubles up to an eighth of the ttl.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The most bytes of paths in one transaction: a quarter of what servers accept by default.
const MOST_BYTES: usize = 256 << 10;

/// What the last round has shown.
#[derive(Clone, Default)]
pub(super) struct Proof {
    /// The session. Zero if there is none.
    pub(super) session: i64,
    /// The moment before the round was sent.
    pub(super) sent: Moment,
    /// The time-out that the servers have granted.
    granted: Duration,
    /// The number of rounds so far, with those that have failed.
    rounds: u64,
    /// Why the last round has failed, if it has.
    failure: Option<Error>,
}

struct Inner {
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    ttl: Duration,
    drift: f64,
    /// Requests hold it for reading, and a round for writing: a new connection ends the old one, and no request with it.
    link: RwLock<Option<Arc<Link>>>,
    key: Mutex<Option<SessionKey>>,
    proof: watch::Sender<Proof>,
    /// The nodes of leaders, which every round checks. False: the node is gone.
    held: Mutex<BTreeMap<String, bool>>,
    candidates: AtomicUsize,
    wanted: Notify,
}

/// A session. Dropping it closes it at the servers.
pub(super) struct Session {
    inner: Arc<Inner>,
    keeper: OnceLock<AbortHandle>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
        if let Some(link) = self.inner.link.try_read().ok().and_then(|link| link.clone()) {
            link.close_session();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A candidate of a session. While there is one, rounds go on.
pub(super) struct Presence(Arc<Inner>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.candidates.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Session {
    pub(super) fn new(config: Arc<Config>, wish: &Wish) -> Session {
        let inner = Inner {
            config,
            clock: Arc::clone(&wish.clock),
            ttl: wish.ttl,
            drift: wish.drift,
            link: RwLock::new(None),
            key: Mutex::new(None),
            proof: watch::Sender::new(Proof::default()),
            held: Mutex::default(),
            candidates: AtomicUsize::new(0),
            wanted: Notify::new(),
        };
        Session { inner: Arc::new(inner), keeper: OnceLock::new() }
    }

    /// Counts a candidate.
    pub(super) fn enter(&self) -> Presence {
        self.inner.candidates.fetch_add(1, Ordering::SeqCst);
        Presence(Arc::clone(&self.inner))
    }

    /// Waits until the session is alive for certain, by a recent round, and returns its id.
    pub(super) async fn ready(&self) -> Result<i64, Error> {
        self.keeper.get_or_init(|| tokio::spawn(keep(Arc::clone(&self.inner))).abort_handle());
        self.inner.wanted.notify_one();
        let mut proofs = self.inner.proof.subscribe();
        let start = proofs.borrow_and_update().rounds;
        let ready = async {
            loop {
                let proof = proofs.borrow_and_update().clone();
                if proof.session != 0 && self.inner.clock.now() < proof.sent + proof.granted / 2 {
                    return Ok(proof.session);
                }
                if let Some(failure) = proof.failure.filter(|_| proof.rounds > start) {
                    return Err(failure);
                }
                if proofs.changed().await.is_err() {
                    return Err(unavailable("the runtime was shut down"));
                }
            }
        };
        let late = || Err(unavailable(format!("no session within {:?}", self.inner.ttl / 3)));
        timeout(self.inner.ttl / 3, ready).await.unwrap_or_else(|_| late())
    }

    /// Does something over the connection of this session.
    pub(super) async fn with<T>(
        &self,
        session: i64,
        act: impl AsyncFnOnce(&Link) -> Result<Result<T, Code>, Error>,
    ) -> Result<Result<T, Code>, Error> {
        let link = self.inner.link.read().await;
        let link = link.as_ref().ok_or_else(|| unavailable("there is no connection now"))?;
        if link.key.id != session {
            return Err(ended("the session has expired"));
        }
        match act(link).await? {
            Err(Code::SESSION_EXPIRED | Code::SESSION_MOVED) => {
                // The next round finds out whether the session goes on.
                link.close();
                Err(unavailable("the connection has lost the session"))
            }
            reply => Ok(reply),
        }
    }

    /// The lease of a node of this session, and the moment of the round that it is from.
    pub(super) fn grant(&self, session: i64, token: u64, wish: &Wish) -> Result<(Moment, Grant), Error> {
        let proof = self.inner.proof.borrow().clone();
        if proof.session != session {
            return Err(ended("the session has expired"));
        }
        let valid_until = wish.end_of_lease(proof.sent, proof.granted.min(wish.ttl));
        Ok((proof.sent, Grant { token, valid_until }))
    }

    /// Waits for a round that was sent after this moment, and that has found the node.
    pub(super) async fn newer(&self, session: i64, path: &str, than: Moment) -> Result<(), Error> {
        let mut proofs = self.inner.proof.subscribe();
        let newer = async {
            let proof = proofs.wait_for(|proof| proof.session != session || proof.sent > than).await;
            proof.map(|proof| proof.session).map_err(|_| unavailable("the runtime was shut down"))
        };
        let within = self.inner.ttl / 3;
        let failure = || self.inner.proof.borrow().failure.clone();
        let late = || Err(failure().unwrap_or_else(|| unavailable(format!("no round within {within:?}"))));
        let now = timeout(within, newer).await.unwrap_or_else(|_| late())?;
        if now != session {
            return Err(ended("the session has expired"));
        }
        match lock(&self.inner.held).get(path) {
            Some(false) => Err(ended("the node was deleted")),
            _ => Ok(()),
        }
    }

    /// Waits until the session has ended.
    pub(super) async fn ended(&self, session: i64) {
        let mut proofs = self.inner.proof.subscribe();
        _ = proofs.wait_for(|proof| proof.session != session).await;
    }

    /// From now on each round checks that the node exists.
    pub(super) fn hold(&self, path: &str) {
        lock(&self.inner.held).insert(path.to_string(), true);
    }

    pub(super) fn release(&self, path: &str) {
        lock(&self.inner.held).remove(path);
    }
}

/// Runs rounds as long as there are candidates, and a little longer.
async fn keep(inner: Arc<Inner>) {
    let (mut server, mut failures) = (usize::from(random()), 0_u32);
    loop {
        if inner.candidates.load(Ordering::SeqCst) == 0 {
            // A program that stands again soon finds the session.
            let proof = inner.proof.borrow().clone();
            let linger = inner.end(&proof).saturating_sub(inner.clock.now());
            tokio::select! {
                () = inner.wanted.notified() => {}
                () = sleep(linger), if proof.session != 0 => inner.give_up().await,
            }
            if inner.candidates.load(Ordering::SeqCst) == 0 {
                continue;
            }
        }
        let start = inner.clock.now();
        let failure = inner.round(server).await.err();
        let failed = failure.is_some();
        inner.proof.send_modify(|proof| {
            proof.rounds += 1;
            proof.failure = failure;
        });
        if failed {
            (server, failures) = (server.wrapping_add(1), failures.saturating_add(1));
            let servers = u32::try_from(inner.config.hosts.len()).unwrap_or(1);
            if failures % servers == 0 {
                let doubled = FIRST_PAUSE * (1 << (failures / servers).min(10));
                sleep(doubled.min(inner.ttl / 8)).await;
            }
            continue;
        }
        failures = 0;
        let link = inner.link.read().await.clone();
        let next = (start + inner.ttl / ROUNDS).saturating_sub(inner.clock.now());
        tokio::select! {
            () = sleep(next) => {}
            () = async { if let Some(link) = &link { link.ended().await } } => {}
        }
    }
}

pub(super) fn random() -> u16 {
    let mut bytes = [0; 2];
    _ = getrandom::fill(&mut bytes);
    u16::from_ne_bytes(bytes)
}

impl Inner {
    /// The end of the session that a proof shows.
    fn end(&self, proof: &Proof) -> Moment {
        proof.sent + proof.granted.mul_f64(1.0 - self.drift)
    }

    fn forget_session(&self) {
        *lock(&self.key) = None;
        self.proof.send_modify(|proof| {
            (proof.session, proof.sent, proof.granted) = (0, Duration::ZERO, Duration::ZERO);
        });
        lock(&self.held).clear();
    }

    /// Closes the session at the servers.
    async fn give_up(&self) {
        let mut link = self.link.write().await;
        if let Some(link) = link.take() {
            link.close_session();
        }
        self.forget_session();
    }

    /// A new connection with the session, and a transaction on it.
    async fn round(&self, server: usize) -> Result<(), Error> {
        // A fifth: the session survives when two servers in a row do not answer.
        let step = self.ttl / 5;
        let mut slot = self.link.write().await;
        if let Some(old) = slot.take() {
            old.close();
        }
        let known = lock(&self.key).clone();
        let sent = self.clock.now();
        let link = match Link::open(&self.config, server, known.as_ref(), self.ttl, step).await {
            Ok(link) => Arc::new(link),
            Err(Refusal::Expired) => {
                self.forget_session();
                return Err(ended("the session has expired"));
            }
            Err(Refusal::Failed(error)) => {
                let proof = self.proof.borrow().clone();
                if proof.session != 0 && self.clock.now() >= self.end(&proof) {
                    self.forget_candidates();
                }
                return Err(error);
            }
        };
        if known.is_none() {
            if link.granted != self.ttl {
                link.close_session();
                return Err(refused(format!(
                    "the servers grant a session of {:?}, not of {:?}: use that ttl, or set minSessionTimeout and \
                     maxSessionTimeout of the servers",
                    link.granted, self.ttl
                )));
            }
        } else if self.proof.borrow().session == 0 || self.clock.now() >= self.end(&self.proof.borrow()) {
            // Too late to rely on it, whatever the server says.
            link.close_session();
            self.forget_session();
            return Err(ended("the session was not renewed in time"));
        }
        *lock(&self.key) = Some(link.key.clone());
        *slot = Some(Arc::clone(&link));
        drop(slot);
        if known.is_some() {
            self.check_nodes(&link).await?;
        }
        let (session, granted) = (link.key.id, link.granted);
        self.proof.send_modify(|proof| {
            (proof.session, proof.sent, proof.granted) = (session, sent, granted);
        });
        Ok(())
    }

    /// The session is over by our clock, and the servers cannot be reached: candidates go on without it. Its key is kept, so
    /// that it can be closed when a server answers.
    fn forget_candidates(&self) {
        self.proof.send_modify(|proof| {
            (proof.session, proof.sent, proof.granted) = (0, Duration::ZERO, Duration::ZERO);
        });
        lock(&self.held).clear();
    }

    /// Checks the nodes of leaders by transactions, one at least.
    async fn check_nodes(&self, link: &Link) -> Result<(), Error> {
        let paths: Vec<String> =
            lock(&self.held).iter().filter(|(_, there)| **there).map(|(path, _)| path.clone()).collect();
        let mut chunks = vec![Vec::new()];
        let mut bytes = 0;
        for path in paths {
            bytes += path.len() + 24;
            if bytes > MOST_BYTES {
                bytes = path.len();
                chunks.push(Vec::new());
            }
            chunks.last_mut().expect("one chunk at least").push(path);
        }
        for chunk in chunks {
            let missing = match link.missing(&chunk).await? {
                Ok(missing) => missing,
                Err(code) => {
                    link.close();
                    return Err(match code {
                        Code::NO_AUTH => refused("a node of this candidate cannot be read: check its ACL"),
                        code => unavailable(format!("the renewal was refused: {code}")),
                    });
                }
            };
            let mut held = lock(&self.held);
            for path in missing {
                held.entry(path).and_modify(|there| *there = false);
            }
        }
        Ok(())
    }
}
