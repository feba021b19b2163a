//! Elections on NATS, by a key of a JetStream KV bucket.
//!
//! ```text
//!   $KV.BUCKET.NAME   identity    the last message of the subject: who leads
//!
//!   acquire   publish, expecting that the last message is none (0), or the marker of a deletion
//!   renew     publish, expecting the own last message; the server forgets each message after the bucket's max-age
//!   resign    publish a marker of deletion, expecting the own last message
//! ```
//!
//! - The token is the revision of the leader's first message. Later messages of ours have it in a header, beside the
//!   random name of the candidate: by that name a candidate finds its own message after a lost reply.
//! - The ttl is the max-age of the bucket, the same for all its elections.
//! - Servers remove a message max-age after the wall-clock time at which the leading server has stored it, each by its own
//!   wall clock. So the wall clocks of the servers must agree: the lease of a leader is shortened by the `skew` of the URL.
//! - The recipe has no queue. Of the candidates of one engine, one at a time contends for a key; those of other processes
//!   are woken together.

mod client;
mod credentials;
mod link;
mod watcher;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep, sleep_until};

use self::client::{CANDIDATE, Client, Entry, OPERATION, TOKEN};
use self::credentials::Credentials;
use self::watcher::{Told, Watcher};
use crate::recipe::{Candidate, Grant, Leader, Pending, Recipe, Status, Wish};
use crate::url::{Secret, Url};
use crate::waiting::Turns;
use crate::{Error, Facts, Moment};

const NAME: &str = "NATS";
/// The parameters of the URL.
const PARAMETERS: [&str; 11] = [
    "replicas",
    "skew-ms",
    "token-file",
    "token-env",
    "creds",
    "tls",
    "cacert",
    "cert",
    "key",
    "password-file",
    "password-env",
];
/// The bucket if the URL names none.
const DEFAULT_BUCKET: &str = "suffrage";
/// How far the wall clocks of the servers are apart, if the URL does not say.
const DEFAULT_SKEW: Duration = Duration::from_millis(50);

fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { engine: NAME, reason: reason.into() }
}

fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: NAME, reason: reason.into() }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Refused { engine: NAME, reason: reason.into() }
}

fn random_hex(bytes: usize) -> Result<String, String> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).map_err(|error| format!("no random number: {error}"))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn random_number() -> u16 {
    let mut bytes = [0; 2];
    _ = getrandom::fill(&mut bytes);
    u16::from_ne_bytes(bytes)
}

/// What the URL says.
struct Config {
    hosts: Vec<(String, u16)>,
    tls: Option<Arc<ClientConfig>>,
    credentials: Option<Credentials>,
    bucket: String,
    /// The replicas of a new bucket.
    replicas: Option<u64>,
    skew: Duration,
}

/// Elections on NATS.
pub(crate) struct Nats {
    client: Arc<Client>,
    watcher: Arc<Watcher>,
    turns: Arc<Turns>,
}

fn take_credentials(url: &mut Url) -> Result<Option<Credentials>, Error> {
    let creds = url.take("creds").map(|path| Credentials::read(Path::new(&path))).transpose()?;
    let token = match (url.take("token-file"), url.take("token-env")) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|error| Error::InvalidUrl(format!("token-file: {path}: {error}")))?;
            Some(Secret::new(text.trim_end_matches(['\r', '\n'])))
        }
        (None, Some(name)) => {
            let missing = |_| Error::InvalidUrl(format!("token-env: there is no variable `{name}`"));
            Some(Secret::new(std::env::var(&name).map_err(missing)?))
        }
        (None, None) => None,
    };
    let password = url.take_password("NATS_PASSWORD")?;
    let user = url.user().map(str::to_string);
    Ok(creds.or(token.map(Credentials::Token)).or(match (user, password) {
        (Some(user), Some(password)) => Some(Credentials::User(user, password)),
        // As other clients read `nats://TOKEN@host`.
        (Some(token), None) => Some(Credentials::Token(Secret::new(token))),
        (None, _) => None,
    }))
}

impl Nats {
    pub(crate) fn new(mut url: Url) -> Result<Nats, Error> {
        let invalid = |reason: String| Err(Error::InvalidUrl(reason));
        let credentials = take_credentials(&mut url)?;
        let mut number = |name: &str| {
            let text = url.take(name);
            let number = text.map(|text| text.parse::<u64>().map_err(|_| text)).transpose();
            number.map_err(|text| Error::InvalidUrl(format!("{name}: `{text}` is no number")))
        };
        let (replicas, skew) = (number("replicas")?, number("skew-ms")?);
        let (cacert, cert, key) = (url.take("cacert"), url.take("cert"), url.take("key"));
        let certificate = match (&cert, &key) {
            (Some(cert), Some(key)) => Some((Path::new(cert), Path::new(key))),
            (None, None) => None,
            _ => return invalid("cert and key belong together".to_string()),
        };
        let wanted = match url.take("tls").as_deref() {
            Some("true") => true,
            Some("false") => false,
            None => url.scheme() == "tls" || cacert.is_some() || cert.is_some(),
            Some(other) => return invalid(format!("tls: `{other}` is not true or false")),
        };
        let tls = match wanted {
            true => Some(crate::transport::tls_config(cacert.as_deref().map(Path::new), certificate)?),
            false => None,
        };
        url.finish(&PARAMETERS)?;
        let bucket = match url.path().trim_matches('/') {
            "" => DEFAULT_BUCKET.to_string(),
            path => path.to_string(),
        };
        if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return invalid(format!("`{bucket}` is no name of a bucket: use letters, digits, - and _"));
        }
        let skew = skew.map_or(DEFAULT_SKEW, Duration::from_millis);
        let hosts = url.hosts("localhost", 4222);
        let client = Arc::new(Client::new(Config { hosts, tls, credentials, bucket, replicas, skew }));
        Ok(Nats { watcher: Arc::new(Watcher::new(Arc::clone(&client))), client, turns: Arc::default() })
    }
}

fn leader_of(entry: Option<Entry>) -> Option<Leader> {
    let entry = entry.filter(|entry| !entry.absent)?;
    Some(Leader { identity: entry.identity, token: entry.token })
}

/// Waits until something may have happened to a key after this entry: it was written or deleted by another, or is too old.
/// Returns the entry that is known then, if it is.
async fn wait(told: &mut watch::Receiver<Told>, mut entry: Option<Entry>, age: Duration) -> Option<Entry> {
    let mut due = Instant::now() + age;
    loop {
        tokio::select! {
            // An error: the engine is dropped.
            changed = told.changed() => if changed.is_err() { return None },
            () = sleep_until(due) => return None,
        }
        let Told { entry: news, age: passed } = told.borrow_and_update().clone();
        match (news, &entry) {
            (None, _) => return None,
            // Old news: the consumer repeats the last message of each key when it starts.
            (Some(news), Some(known)) if news.revision < known.revision => {}
            (Some(news), Some(known))
                if news.absent == known.absent
                    && news.identity == known.identity
                    && news.candidate == known.candidate =>
            {
                due = Instant::now() + age.saturating_sub(passed);
                entry = Some(news);
            }
            (Some(news), None) if news.absent => {}
            (Some(news), _) => return Some(news),
        }
    }
}

impl Recipe for Nats {
    fn longest_validity(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.client.config.skew)
    }

    fn facts(&self) -> &'static Facts {
        &crate::facts::NATS
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-/_=.".contains(&byte);
        let whole = name.split('.').all(|part| !part.is_empty());
        if whole && name.bytes().all(allowed) {
            return Ok(());
        }
        let cannot = "needs a name of letters, digits and -/_=. without a dot at either end or two in a row"
            .to_string();
        Err(Error::Unsupported { engine: NAME, cannot })
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        self.client.note_ttl(wish.ttl);
        Box::new(Contender {
            client: Arc::clone(&self.client),
            watcher: Arc::clone(&self.watcher),
            turns: Arc::clone(&self.turns),
            wish,
            name: None,
            turn: None,
            attempt: None,
            held: None,
            told: None,
        })
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let mut status = Status::default();
            let Some(bucket) = self.client.bucket(None).await? else { return Ok(status) };
            status.leader = leader_of(self.client.get(name).await?);
            if bucket.replicas < 3 && self.client.link().await?.clustered {
                status.remarks.push(format!(
                    "the bucket has {} of 3 replicas: it is lost with its server",
                    bucket.replicas
                ));
            }
            if bucket.max_age.is_zero() {
                status.remarks.push("the bucket has no max-age: a dead leader leads for ever".to_string());
            }
            if bucket.markers {
                status.remarks.push(
                    "the bucket has limit markers: nats-py cannot create an entry after one has expired"
                        .to_string(),
                );
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
            let mut told = self.watcher.watch(name);
            let mut late = false;
            loop {
                let entry = self.client.get(name).await?.filter(|entry| !entry.absent);
                let ours = entry.as_ref().is_some_and(|entry| entry.candidate.is_some());
                let leader = leader_of(entry.clone());
                // The revisions of another client grow with every renewal: it is the same leader.
                let same = match (&leader, &known) {
                    (Some(leader), Some(known)) => {
                        leader.identity == known.identity && (!ours || leader.token == known.token)
                    }
                    (leader, known) => leader.is_none() && known.is_none(),
                };
                if !same {
                    return Ok(leader);
                }
                let age =
                    self.client.bucket(None).await?.map_or(Duration::from_secs(1), |bucket| bucket.max_age);
                // An entry that should have gone by now is looked at more often. Without an entry, messages tell.
                let age = if late && entry.is_some() { age / 20 } else { age };
                late = wait(&mut told, entry, age.max(Duration::from_millis(50))).await.is_none();
            }
        })
    }

    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            loop {
                let entry = self.client.get(name).await?.filter(|entry| !entry.absent);
                let Some(entry) = entry else { return Ok(None) };
                let delete = vec![(OPERATION, "DEL".to_string())];
                // Renewed in the meantime: again.
                if self.client.write(name, entry.revision, delete, "").await?.is_some() {
                    return Ok(leader_of(Some(entry)));
                }
            }
        })
    }
}

/// A candidate.
struct Contender {
    client: Arc<Client>,
    watcher: Arc<Watcher>,
    turns: Arc<Turns>,
    wish: Wish,
    /// The random name of this candidate.
    name: Option<String>,
    /// Held while this candidate contends.
    turn: Option<OwnedMutexGuard<()>>,
    /// The revision that a message to acquire has expected. That message may be stored, whether or not there was a reply.
    attempt: Option<u64>,
    /// The revision of the own last message, and the token.
    held: Option<(u64, u64)>,
    told: Option<watch::Receiver<Told>>,
}

impl Contender {
    /// The headers of a message of this candidate.
    fn headers(&self, token: Option<u64>) -> Vec<(&'static str, String)> {
        let mut headers = vec![(CANDIDATE, self.name.clone().unwrap_or_default())];
        headers.extend(token.map(|token| (TOKEN, token.to_string())));
        headers
    }

    fn is_own(&self, entry: &Entry) -> bool {
        !entry.absent && entry.candidate.is_some() && entry.candidate == self.name
    }

    fn grant(&self, sent: Moment, token: u64) -> Grant {
        let valid_until = self.wish.end_of_lease(sent, self.wish.ttl).saturating_sub(self.client.config.skew);
        Grant { token, valid_until }
    }

    /// Waits until no other candidate of this engine contends for the key.
    async fn take_turn(&mut self) {
        if self.turn.is_some() {
            return;
        }
        self.turn = Some(self.turns.wait(&self.wish.name).await);
    }

    async fn campaign(&mut self) -> Result<Grant, Error> {
        if self.name.is_none() {
            self.name = Some(random_hex(16).map_err(unavailable)?);
        }
        self.take_turn().await;
        let key = Arc::clone(&self.wish.name);
        let mut told = self.watcher.watch(&key);
        let mut before = None;
        loop {
            self.client.check_bucket(self.wish.ttl).await?;
            let expected = match self.client.get(&key).await? {
                Some(entry) if self.is_own(&entry) => {
                    // The reply was lost. When the message was stored is not known: renewed, it is.
                    self.held = Some((entry.revision, entry.token));
                    let grant = self.renew().await?;
                    self.turn = None;
                    return Ok(grant);
                }
                Some(entry) if !entry.absent => {
                    // An entry that should have gone by now is looked at more often.
                    let late = before.replace(entry.revision) == Some(entry.revision);
                    let age = if late { self.wish.ttl / 20 } else { self.wish.ttl };
                    if let Some(news) = wait(&mut told, Some(entry), age).await.filter(|news| news.absent) {
                        before = None;
                        news.revision
                    } else {
                        continue;
                    }
                }
                Some(marker) => marker.revision,
                None => 0,
            };
            self.attempt = Some(expected);
            let sent = self.wish.now();
            let (headers, identity) = (self.headers(None), Arc::clone(&self.wish.identity));
            if let Some(revision) = self.client.write(&key, expected, headers, &identity).await? {
                self.held = Some((revision, revision));
                self.turn = None;
                return Ok(self.grant(sent, revision));
            }
            // Another was faster.
            sleep(Duration::from_millis(u64::from(random_number() % 16))).await;
        }
    }

    async fn renew(&mut self) -> Result<Grant, Error> {
        let (key, identity) = (Arc::clone(&self.wish.name), Arc::clone(&self.wish.identity));
        for _ in 0..2 {
            let Some((revision, token)) = self.held else { break };
            // An error: the renewal finds out.
            if let Ok(Some(bucket)) = self.client.bucket(None).await
                && !bucket.max_age.is_zero()
                && bucket.max_age < self.wish.ttl
            {
                let (age, ttl) = (bucket.max_age, self.wish.ttl);
                return Err(ended(format!(
                    "the max-age of the bucket was changed to {age:?}: the ttl is {ttl:?}"
                )));
            }
            let sent = self.wish.now();
            if let Some(revision) =
                self.client.write(&key, revision, self.headers(Some(token)), &identity).await?
            {
                self.held = Some((revision, token));
                return Ok(self.grant(sent, token));
            }
            // The own message of an earlier renewal without a reply, or another's.
            let found = self.client.get(&key).await?.filter(|entry| self.is_own(entry));
            self.held = found.map(|entry| (entry.revision, token));
        }
        match self.held {
            // Its own messages overtake each other: the next renewal finds the last one.
            Some(_) => Err(unavailable("a message of an earlier renewal came in between")),
            None => Err(ended("the entry has expired, or another has replaced or deleted it")),
        }
    }

    async fn end(&mut self) -> Error {
        let (name, watcher, key) =
            (self.name.clone(), Arc::clone(&self.watcher), Arc::clone(&self.wish.name));
        let held = self.held.map_or(0, |(revision, _)| revision);
        let told = self.told.get_or_insert_with(|| watcher.watch(&key));
        loop {
            {
                let told = told.borrow_and_update();
                if let Some(entry) = told.entry.as_ref().filter(|entry| entry.revision > held) {
                    if entry.absent {
                        return ended("the entry was deleted");
                    }
                    if entry.candidate != name {
                        return ended(format!("{} has replaced the entry", entry.identity));
                    }
                }
            }
            if told.changed().await.is_err() {
                return crate::tenure::never().await;
            }
        }
    }

    async fn withdraw(&mut self) -> Result<(), Error> {
        self.turn = None;
        let key = Arc::clone(&self.wish.name);
        // A message to acquire that had no reply may still be under way: a deletion with the same expectation comes before
        // it, so that it fails, or after it, and then finds it.
        while let Some(expected) = self.held.map(|(revision, _)| revision).or(self.attempt) {
            let delete = vec![(OPERATION, "DEL".to_string())];
            if self.client.write(&key, expected, delete, "").await?.is_none() {
                let own = self.client.get(&key).await?.filter(|entry| self.is_own(entry));
                if let Some(entry) = own {
                    self.held = Some((entry.revision, entry.token));
                    continue;
                }
            }
            (self.held, self.attempt) = (None, None);
        }
        Ok(())
    }
}

impl Candidate for Contender {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(Contender::campaign(self))
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(Contender::renew(self))
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(self.end())
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(Contender::withdraw(self))
    }
}
