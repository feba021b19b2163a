//! Elections on Consul: a key `PREFIX/NAME/.lock` that is locked by a session, as `consul lock` and the Go client do it.
//!
//! ```text
//!   session with a TTL ──lock──▶ leads: token = ModifyIndex of the key
//!        │ renewed while           ▲
//!        │ it waits                └── blocking query: the key is free
//!        └─ no renewal for the TTL ──▶ session ends ──lock-delay──▶ free
//! ```
//!
//! The session depends on nothing but its TTL: without checks of a node, a restarted agent costs no leadership. Consul ends
//! a session at the earliest a TTL after the last renewal; the lock-delay is at least as long, so that also a session that
//! was destroyed by hand ends our validity before another leads. The lock-delay is 60 s at most: so is validity.
//!
//! The token is not the LockIndex: `consul lock` deletes the key, and its LockIndex starts again.

mod api;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use self::api::{Api, Entry, Locked, PATIENCE};
use crate::follow::{Follower, State, Subscription};
use crate::recipe::{Candidate, Grant, Leader, Pending, Recipe, Status, Wish};
use crate::url::Url;
use crate::waiting::Turns;
use crate::{Error, Facts, Moment};

const ENGINE: &str = "Consul";
/// The longest lock-delay that Consul allows.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// How often a candidate tries while the lock-delay lasts, and reads the key while it cannot be watched.
const POLL: Duration = Duration::from_secs(1);
/// Timers stop while the machine is suspended, and the clock does not.
const RECHECK: Duration = Duration::from_millis(500);

fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: ENGINE, reason: reason.into() }
}

/// Elections under one prefix of the keys.
pub(crate) struct Consul {
    api: Arc<Api>,
    follower: Follower<Api>,
    turns: Arc<Turns>,
    /// The names of sessions whose keys have no value: clients that store none are named by their session.
    sessions: Mutex<BTreeMap<String, String>>,
}

impl Consul {
    pub(crate) fn new(url: Url) -> Result<Consul, Error> {
        let api = Arc::new(Api::new(url)?);
        let follower = Follower::new(Arc::clone(&api));
        Ok(Consul { api, follower, turns: Arc::default(), sessions: Mutex::default() })
    }

    /// The leader that a key names.
    async fn leader(&self, entry: Option<&Entry>) -> Result<Option<Leader>, Error> {
        let Some(entry) = entry.filter(|entry| !entry.session.is_empty()) else { return Ok(None) };
        let leader = |identity| Some(Leader { identity, token: entry.modify_index });
        if !entry.value.is_empty() {
            return Ok(leader(entry.value.clone()));
        }
        let sessions = || self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sessions().get(&entry.session).cloned();
        if let Some(name) = known {
            return Ok(leader(name));
        }
        let name = self.api.session_name(&entry.session).await?;
        let name =
            name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("session {}", entry.session));
        let mut sessions = sessions();
        if sessions.len() > 1_000 {
            sessions.clear();
        }
        sessions.insert(entry.session.clone(), name.clone());
        Ok(leader(name))
    }
}

impl Recipe for Consul {
    fn longest_validity(&self, ttl: Duration) -> Duration {
        ttl.min(LONGEST_DELAY)
    }

    fn facts(&self) -> &'static Facts {
        &crate::facts::CONSUL
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let cannot = |cannot: &str| Err(Error::Unsupported { engine: ENGINE, cannot: cannot.to_string() });
        if name.starts_with('/') || name.ends_with('/') || name.contains("//") {
            return cannot("needs a name whose parts are not empty: without `/` at its ends");
        }
        if name.ends_with("/.lock") || name.chars().any(char::is_control) {
            return cannot("needs a name without control characters that does not end with `/.lock`");
        }
        Ok(())
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        Box::new(SessionCandidate {
            api: Arc::clone(&self.api),
            follower: self.follower.clone(),
            turns: Arc::clone(&self.turns),
            duration: wish.ttl.min(LONGEST_DELAY),
            wish,
            session: None,
            token: None,
            unanswered: false,
            subscription: None,
        })
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let mut status = Status::default();
            let entry = self.api.get(name, PATIENCE).await?;
            status.leader = self.leader(entry.as_ref()).await?;
            if let Some(conflict) = entry.as_ref().and_then(Entry::conflict) {
                status.remarks.push(conflict);
            } else if status.leader.is_none() && self.api.is_delayed(name).await {
                status.remarks.push(format!(
                    "lock-delay: the session of the last leader has ended without a release; nobody can lead before the \
                     lock-delay of that session is over, {} s at most",
                    LONGEST_DELAY.as_secs()
                ));
            }
            Ok(status)
        })
    }

    fn changed<'a>(
        &'a self,
        name: &'a str,
        known: Option<Leader>,
    ) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let mut subscription = self.follower.subscribe(&name.into());
            loop {
                match subscription.state() {
                    State::Known(entry, _) => {
                        let leader = self.leader(entry.as_deref()).await?;
                        if leader != known {
                            return Ok(leader);
                        }
                    }
                    State::Failed(error) => return Err(error),
                    State::Unknown => {}
                }
                subscription.changed().await;
            }
        })
    }

    /// Destroys the session of the leader: its lock-delay keeps the next leader away until the former is invalid.
    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let entry = self.api.get(name, PATIENCE).await?;
            let leader = self.leader(entry.as_ref()).await?;
            if let Some(entry) = entry.filter(|_| leader.is_some()) {
                self.api.destroy(&entry.session, PATIENCE).await?;
            }
            Ok(leader)
        })
    }
}

/// A session of a candidate.
struct Session {
    id: String,
    /// The moment before its last renewal was sent.
    renewed: Moment,
}

/// One candidate.
struct SessionCandidate {
    api: Arc<Api>,
    follower: Follower<Api>,
    turns: Arc<Turns>,
    wish: Wish,
    /// How long a renewal counts: the ttl, or the longest lock-delay.
    duration: Duration,
    session: Option<Session>,
    /// The token of the leadership.
    token: Option<u64>,
    /// Whether a lock was asked for without a reply.
    unanswered: bool,
    subscription: Option<Subscription<Arc<Entry>>>,
}

impl SessionCandidate {
    /// The time-out of a request: after a renewal whose reply is lost, there is time for others.
    fn within(&self) -> Duration {
        self.duration / 6
    }

    async fn get(&self) -> Result<Option<Entry>, Error> {
        let entry = self.api.get(&self.wish.name, self.within()).await;
        // The connection of the watch is probably as dead as this one.
        entry.inspect_err(|_| self.follower.doubt())
    }

    fn subscription(&mut self) -> &mut Subscription<Arc<Entry>> {
        let follower = &self.follower;
        self.subscription.get_or_insert_with(|| follower.subscribe(&self.wish.name))
    }

    /// Renews the session, unless it was renewed so lately, or creates one. Returns its id.
    async fn ensure_session(&mut self, lately: Duration) -> Result<String, Error> {
        let sent = self.wish.now();
        if let Some(session) = &mut self.session {
            if sent < session.renewed + lately {
                return Ok(session.id.clone());
            }
            if self.api.renew(&session.id, self.duration / 6).await? {
                session.renewed = sent;
                return Ok(session.id.clone());
            }
            self.session = None;
        }
        let sent = self.wish.now();
        let label = format!("suffrage: {} of {}", self.wish.identity, self.wish.name);
        let id = self.api.create_session(&label, self.wish.ttl, self.duration, self.within()).await?;
        self.session = Some(Session { id: id.clone(), renewed: sent });
        Ok(id)
    }

    async fn stand(&mut self) -> Result<Grant, Error> {
        let _turn = self.turns.wait(&self.wish.name).await;
        let mut entry = self.get().await?;
        loop {
            let session = self.ensure_session(self.duration / 3).await?;
            if let Some(conflict) = entry.as_ref().and_then(Entry::conflict) {
                return Err(Error::Refused { engine: ENGINE, reason: conflict });
            }
            if let Some(other) = entry.as_ref().filter(|entry| entry.is_held() && entry.session != session) {
                entry = self.wait(other.modify_index).await?;
                continue;
            }
            self.unanswered = true;
            match self.api.lock(&self.wish.name, &self.wish.identity, &session, self.within()).await? {
                Locked::Done(index) => {
                    let fresh = self.ensure_session(self.duration / 10).await?;
                    if fresh != session {
                        // It ended right after the lock.
                        entry = self.get().await?;
                        continue;
                    }
                    self.token = Some(index);
                    return self.grant();
                }
                Locked::Held => entry = self.get().await?,
                Locked::Delayed => {
                    sleep(POLL).await;
                    entry = self.get().await?;
                }
                Locked::NoSession => {
                    self.session = None;
                    entry = self.get().await?;
                }
            }
        }
    }

    fn grant(&self) -> Result<Grant, Error> {
        match (&self.session, self.token) {
            (Some(session), Some(token)) => {
                Ok(Grant { token, valid_until: self.wish.end_of_lease(session.renewed, self.duration) })
            }
            _ => Err(ended("the candidate has withdrawn")),
        }
    }

    /// Waits until the key is another than that of this index, and keeps the session alive meanwhile.
    async fn wait(&mut self, index: u64) -> Result<Option<Entry>, Error> {
        loop {
            let polled = match self.subscription().state() {
                State::Known(changed, newer) if newer > index => {
                    if changed.as_ref().is_none_or(|changed| changed.modify_index != index) {
                        return Ok(changed.map(|changed| Entry::clone(&changed)));
                    }
                    false
                }
                State::Known(..) | State::Unknown => false,
                State::Failed(_) => true,
            };
            let subscription = self.subscription();
            tokio::select! {
                () = subscription.changed() => {}
                () = sleep(if polled { POLL } else { RECHECK }) => {}
            }
            self.ensure_session(self.duration / 3).await?;
            if polled {
                return self.get().await;
            }
        }
    }

    async fn extend(&mut self) -> Result<Grant, Error> {
        let (Some(session), Some(token)) = (&mut self.session, self.token) else {
            return Err(ended("the candidate has withdrawn"));
        };
        let sent = self.wish.now();
        let renewed = self.api.renew(&session.id, self.duration / 6).await;
        if !renewed.inspect_err(|_| self.follower.doubt())? {
            return Err(ended("the session has expired, or was destroyed"));
        }
        let id = session.id.clone();
        // The session is alive, but is it still that of the key? The watch knows, if it works.
        let watched = match self.subscription().state() {
            State::Known(entry, version) => {
                version >= token && entry.is_some_and(|entry| entry.session == id)
            }
            State::Unknown | State::Failed(_) => false,
        };
        if !watched {
            let entry = self.get().await?;
            still_ours(entry.as_ref(), &id)?;
        }
        if let Some(session) = &mut self.session {
            session.renewed = sent;
        }
        self.grant()
    }
}

/// Checks that the key is locked by the session.
fn still_ours(entry: Option<&Entry>, session: &str) -> Result<(), Error> {
    match entry {
        None => Err(ended("the key was deleted")),
        Some(entry) if entry.session == session => Ok(()),
        Some(entry) if entry.session.is_empty() => {
            Err(ended("the session has ended, or the key was released"))
        }
        Some(entry) => Err(ended(format!("the key is locked by another session: {}", entry.session))),
    }
}

impl Candidate for SessionCandidate {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(self.stand())
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(self.extend())
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(async move {
            loop {
                let state = self.subscription().state();
                if let (State::Known(entry, version), Some(session), Some(token)) =
                    (state, &self.session, self.token)
                    && version > token
                    && let Err(error) = still_ours(entry.as_deref(), &session.id)
                {
                    return error;
                }
                self.subscription().changed().await;
            }
        })
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            self.subscription = None;
            let within = self.within();
            if let Some(session) = &self.session {
                // A session that ends with its key locked leaves a lock-delay behind.
                if self.unanswered {
                    self.api.release(&self.wish.name, &session.id, within).await?;
                }
                self.api.destroy(&session.id, within).await?;
            }
            (self.session, self.token, self.unanswered) = (None, None, false);
            Ok(())
        })
    }

    fn renewal_interval(&self, _ttl: Duration) -> Duration {
        self.duration / 3
    }
}

#[cfg(test)]
mod tests;
