//! Elections on Kubernetes: a Lease of coordination.k8s.io/v1, as client-go's `leaderelection` uses it.
//!
//! ```text
//!   GET ──▶ absent ──POST──▶ ┐
//!       ──▶ released ──PUT──▶├─ leads: token = resourceVersion of this write
//!       ──▶ held ──watch──▶ unchanged for its duration ──PUT──▶ ┘      renews by PUT; 409 ──GET──▶ ours? again : lost
//! ```
//!
//! Every write carries the version that it replaces, so that of several candidates one succeeds. A candidate that waits
//! measures the duration of the record by its own clock, from when it has first seen the record. The leader's validity is
//! counted from before its write was sent: it ends before anybody's wait does.
//!
//! Clients of client-go before 1.33 wait for a duration of their own, whatever the record says. `shortest-duration` of the
//! URL is the shortest of those: validity is never longer. A candidate also remembers the durations that other holders
//! have written while it waited.

mod api;
mod config;
mod lease;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use self::api::{Api, PATIENCE, Written};
use self::config::Config;
use self::lease::{CandidateName, Decision, Lease, Stamps, Wall, decide};
use crate::follow::{Follower, State, Subscription};
use crate::recipe::{Candidate, Grant, Leader, Pending, Recipe, Status, Wish};
use crate::url::Url;
use crate::waiting::{Turns, random_name};
use crate::{Error, Facts, Moment};

const ENGINE: &str = "Kubernetes";
/// How often the Lease is read where the role does not allow to watch it.
const POLL: Duration = Duration::from_secs(1);
/// Timers stop while the machine is suspended, and the clock does not.
const RECHECK: Duration = Duration::from_millis(500);
/// How often a write is tried again after another one came first.
const ATTEMPTS: usize = 5;

fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: ENGINE, reason: reason.into() }
}

/// Elections in one namespace of a cluster.
pub(crate) struct Kubernetes {
    api: Arc<Api>,
    follower: Follower<Api>,
    turns: Arc<Turns>,
    shortest_duration: Option<Duration>,
    tokens: ForeignTokens,
}

impl Kubernetes {
    pub(crate) fn new(url: Url) -> Result<Kubernetes, Error> {
        let config = Config::of(url)?;
        let shortest_duration = config.shortest_duration;
        let api = Arc::new(Api::new(config));
        let follower = Follower::new(Arc::clone(&api));
        Ok(Kubernetes {
            api,
            follower,
            turns: Arc::default(),
            shortest_duration,
            tokens: ForeignTokens::default(),
        })
    }
}

/// The versions at which leaders of other clients were first seen: they do not write the version of their acquisition.
#[derive(Default)]
struct ForeignTokens(Mutex<BTreeMap<String, (String, u64)>>);

impl ForeignTokens {
    fn leader(&self, lease: &Lease) -> Option<Leader> {
        if lease.holder().is_empty() {
            return None;
        }
        let token = match lease.mark() {
            Some(mark) => mark.token.unwrap_or(lease.version()),
            None => {
                let acquisition = format!("{:?} {}", lease.acquire_time(), lease.holder());
                let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = known.entry(lease.name().to_string()).or_default();
                if entry.0 != acquisition {
                    *entry = (acquisition, lease.version());
                }
                entry.1
            }
        };
        Some(Leader { identity: lease.holder().to_string(), token })
    }
}

impl Recipe for Kubernetes {
    fn longest_validity(&self, ttl: Duration) -> Duration {
        self.shortest_duration.map_or(ttl, |shortest| shortest.min(ttl))
    }

    fn facts(&self) -> &'static Facts {
        &crate::facts::KUBERNETES
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let part = |part: &str| match part.as_bytes() {
            [] => false,
            bytes => {
                letter(bytes[0])
                    && letter(bytes[bytes.len() - 1])
                    && bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
            }
        };
        if name.len() <= 253 && name.split('.').all(part) {
            return Ok(());
        }
        let cannot =
            format!("cannot name a Lease `{name}`: lower-case letters, digits, `-` and `.` are allowed");
        Err(Error::Unsupported { engine: ENGINE, cannot })
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        Box::new(LeaseCandidate {
            api: Arc::clone(&self.api),
            follower: self.follower.clone(),
            turns: Arc::clone(&self.turns),
            random: random_name(),
            duration: self.longest_validity(wish.ttl),
            wish,
            held: None,
            token: 0,
            unanswered: None,
            stamps: Stamps::default(),
            subscription: None,
        })
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let mut status = Status::default();
            let Some(lease) = self.api.get(name, PATIENCE).await? else { return Ok(status) };
            status.leader = self.tokens.leader(&lease);
            status.remarks.extend(lease.reassigned(""));
            if status.leader.is_some()
                && let Some(age) = lease.overdue(Wall::now())
            {
                let seconds = lease.duration().unwrap_or_default().as_secs();
                status.remarks.push(format!(
                    "the Lease was renewed {} s ago by the wall clock of its holder, and counts for {seconds} s: the holder \
                     is gone, or the clocks differ",
                    age.as_secs()
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
                    State::Known(lease, _) => {
                        let leader = lease.and_then(|lease| self.tokens.leader(&lease));
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

    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS {
                let Some(lease) = self.api.get(name, PATIENCE).await? else { return Ok(None) };
                let Some(leader) = self.tokens.leader(&lease) else { return Ok(None) };
                let written = self.api.replace(name, lease.release(Wall::now()), PATIENCE).await?;
                if let Written::Done(_) = written {
                    return Ok(Some(leader));
                }
            }
            let reason = "the Lease changes all the time".to_string();
            Err(Error::Unavailable { engine: ENGINE, reason })
        })
    }
}

/// One candidate.
struct LeaseCandidate {
    api: Arc<Api>,
    follower: Follower<Api>,
    turns: Arc<Turns>,
    wish: Wish,
    /// The name by which the candidate finds its own writes: identities need not be unique.
    random: String,
    /// The shortest duration for which another client may wait: how long a write counts.
    duration: Duration,
    /// The Lease as this candidate has written it.
    held: Option<Arc<Lease>>,
    token: u64,
    /// The version that an acquisition without a reply replaces, or zero if it creates the Lease.
    unanswered: Option<u64>,
    stamps: Stamps,
    subscription: Option<Subscription<Arc<Lease>>>,
}

impl LeaseCandidate {
    fn name(&self) -> CandidateName<'_> {
        CandidateName { identity: &self.wish.identity, random: &self.random }
    }

    /// The time-out of a request: after a renewal whose reply is lost, there is time for others.
    fn within(&self) -> Duration {
        self.duration / 6
    }

    async fn get(&self) -> Result<Option<Arc<Lease>>, Error> {
        let lease = self.api.get(&self.wish.name, self.within()).await;
        // The connection of the watch is probably as dead as this one.
        lease.inspect_err(|_| self.follower.doubt())
    }

    fn subscription(&mut self) -> &mut Subscription<Arc<Lease>> {
        let follower = &self.follower;
        self.subscription.get_or_insert_with(|| follower.subscribe(&self.wish.name))
    }

    async fn stand(&mut self) -> Result<Grant, Error> {
        let _turn = self.turns.wait(&self.wish.name).await;
        // The version that is stored, and when it was first seen.
        let mut seen = (0, Moment::ZERO);
        let mut lease = self.get().await?;
        loop {
            let now = self.wish.now();
            let version = lease.as_ref().map_or(0, |lease| lease.version());
            if seen.0 != version {
                seen = (version, now);
            }
            match decide(lease.as_deref(), seen.1, now, &self.random, self.wish.ttl) {
                Decision::Refuse(reason) => return Err(Error::Refused { engine: ENGINE, reason }),
                Decision::Wait(until) => {
                    let held = lease.as_ref().filter(|lease| lease.mark().is_none());
                    if let Some(foreign) = held.and_then(|lease| lease.duration()) {
                        // Not below what the engine can do: a record of one second comes from a test.
                        self.duration = self.duration.min(foreign.max(crate::facts::KUBERNETES.shortest_ttl));
                    }
                    lease = self.wait(lease, until).await?;
                }
                Decision::Create | Decision::Take => match self.acquire(lease.as_deref()).await? {
                    Some(grant) => return Ok(grant),
                    None => lease = self.get().await?,
                },
            }
        }
    }

    /// Waits until the Lease has changed, or until the moment.
    async fn wait(&mut self, lease: Option<Arc<Lease>>, until: Moment) -> Result<Option<Arc<Lease>>, Error> {
        let version = lease.as_ref().map_or(0, |lease| lease.version());
        loop {
            match self.subscription().state() {
                State::Known(changed, newer) if newer > version => {
                    let same = changed.as_ref().is_some_and(|changed| changed.version() == version);
                    if !same {
                        return Ok(changed);
                    }
                }
                State::Known(..) | State::Unknown => {}
                State::Failed(_) => {
                    let left = until.saturating_sub(self.wish.now());
                    let subscription = self.subscription();
                    tokio::select! {
                        () = subscription.changed() => {}
                        () = sleep(left.min(POLL)) => {}
                    }
                    return self.get().await;
                }
            }
            let left = until.saturating_sub(self.wish.now());
            if left.is_zero() {
                return Ok(lease);
            }
            let subscription = self.subscription();
            tokio::select! {
                () = subscription.changed() => {}
                () = sleep(left.min(RECHECK)) => {}
            }
        }
    }

    /// Writes this candidate into the Lease that it has seen. None if the Lease has changed meanwhile.
    async fn acquire(&mut self, lease: Option<&Lease>) -> Result<Option<Grant>, Error> {
        let sent = self.wish.now();
        let (stamp, from) = self.stamps.next(Wall::now(), sent);
        let seconds = self.wish.ttl.as_secs();
        self.unanswered = Some(lease.map_or(0, Lease::version));
        let written = match lease {
            None => {
                let absent = Lease::absent(&self.api.namespace, &self.wish.name);
                let object = absent.acquisition(&self.name(), seconds, stamp);
                self.api.create(object, self.within()).await?
            }
            Some(lease) => {
                let object = lease.acquisition(&self.name(), seconds, stamp);
                self.api.replace(&self.wish.name, object, self.within()).await?
            }
        };
        let Written::Done(lease) = written else { return Ok(None) };
        self.unanswered = None;
        self.token = lease.version();
        self.held = Some(lease);
        Ok(Some(self.grant(from)))
    }

    fn grant(&self, from: Moment) -> Grant {
        Grant { token: self.token, valid_until: self.wish.end_of_lease(from, self.duration) }
    }

    async fn extend(&mut self) -> Result<Grant, Error> {
        let mut base = self.held.clone().ok_or_else(|| ended("the candidate has withdrawn"))?;
        for _ in 0..ATTEMPTS {
            let sent = self.wish.now();
            let (stamp, from) = self.stamps.next(Wall::now(), sent);
            let object = base.renewal(&self.name(), self.token, stamp);
            let written = self.api.replace(&self.wish.name, object, self.within()).await;
            let written = written.inspect_err(|_| self.follower.doubt())?;
            match written {
                Written::Done(lease) => {
                    self.held = Some(lease);
                    return Ok(self.grant(from));
                }
                Written::Missing => return Err(ended("the Lease was deleted")),
                // An earlier renewal without a reply was stored, or somebody has edited the Lease.
                Written::Conflict => base = self.still_ours(self.get().await?)?,
            }
        }
        Err(Error::Unavailable { engine: ENGINE, reason: "the Lease changes all the time".to_string() })
    }

    /// The Lease, if this candidate holds it and may keep it.
    fn still_ours(&self, lease: Option<Arc<Lease>>) -> Result<Arc<Lease>, Error> {
        let lease = lease.ok_or_else(|| ended("the Lease was deleted"))?;
        if !lease.is_of(&self.random) {
            return Err(match lease.holder() {
                "" => ended("the Lease was released by somebody else"),
                holder => ended(format!("the Lease has another holder: `{holder}`")),
            });
        }
        match lease.reassigned(&self.wish.identity) {
            Some(reason) => Err(ended(reason)),
            None => Ok(lease),
        }
    }

    async fn release(&mut self) -> Result<(), Error> {
        let (name, within) = (&self.wish.name, self.within());
        if let Some(held) = &self.held {
            match self.api.replace(name, held.release(Wall::now()), within).await? {
                Written::Done(_) => return Ok(()),
                Written::Conflict | Written::Missing => {}
            }
        }
        for _ in 0..ATTEMPTS {
            let written = match self.api.get(name, within).await? {
                // An acquisition without a reply may still be on its way: a write of ours makes it fail.
                None if self.unanswered == Some(0) => {
                    let absent = Lease::absent(&self.api.namespace, name);
                    self.api.create(absent.release(Wall::now()), within).await?
                }
                Some(lease) if lease.is_of(&self.random) || self.unanswered == Some(lease.version()) => {
                    self.api.replace(name, lease.release(Wall::now()), within).await?
                }
                None | Some(_) => return Ok(()),
            };
            if let Written::Done(_) = written {
                return Ok(());
            }
        }
        Err(Error::Unavailable { engine: ENGINE, reason: "the Lease changes all the time".to_string() })
    }
}

impl Candidate for LeaseCandidate {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(self.stand())
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(self.extend())
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(async move {
            loop {
                if let State::Known(lease, version) = self.subscription().state()
                    && self.held.as_ref().is_some_and(|held| version > held.version())
                    && let Err(error) = self.still_ours(lease)
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
            if self.held.is_some() || self.unanswered.is_some() {
                self.release().await?;
                (self.held, self.unanswered) = (None, None);
            }
            Ok(())
        })
    }

    /// At least a second: client-go notices only renewals of another second.
    fn renewal_interval(&self, _ttl: Duration) -> Duration {
        (self.duration / 3).max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests;
