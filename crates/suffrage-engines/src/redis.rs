//! Elections on Redis and Valkey: a key with a random value that expires, as the clients of Redlock use it with one server.
//!
//! ```text
//!   key NAME = "IDENTITY RANDOM", expires after the ttl      key {NAME}:token = the last token
//!
//!   acquire   script: if the key is missing, set it, and count the token up; publish "acquired"
//!   renew     script: if the value is ours, PEXPIRE
//!   resign    script: if the value is ours, DEL; publish "released"
//! ```
//!
//! - A fail-over to a replica can lose the lock: two lead, until the lease of the first ends.
//! - A server that has started lately may have lost the lock as well. Nobody stands before one ttl has passed, unless the
//!   server writes every change to its disk (`appendfsync always`).
//! - The token also follows the clock of the server in milliseconds, so that it grows even if its key is lost.
//! - One connection serves all elections of an [`Engine`](crate::Engine), and a second one hears of resignations. Clients
//!   of others publish none: their locks are looked at again and again, unless `notify-keyspace-events` is on.

mod client;
mod resp;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use self::client::{Client, Link, Settings, Wakeups, channel, ended, refused, unavailable};
use self::resp::Value;
use crate::recipe::{Candidate, Grant, Pending, Recipe, Wish};
use crate::tenure::never;
use crate::url::Url;
use crate::waiting::{Changes, Turns, random_name};
use crate::{Error, Facts, Leader, Status};

/// How long a request of an observer waits.
const OBSERVER_PATIENCE: Duration = Duration::from_secs(3);
/// The shortest pause before a candidate asks again.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// The pause before a lock of another client is looked at again: other clients do not tell when they release it.
const FOREIGN_PAUSE: Duration = Duration::from_millis(200);
/// What Redlock subtracts from a lease besides the drift: the resolution of expiry.
const RESOLUTION: Duration = Duration::from_millis(2);

/// KEYS: the lock, the token. ARGV: the value, the ttl in milliseconds, the channel.
/// Returns 1 and the token, or 0, the rest of the lease of the holder, and its value.
const ACQUIRE: &str = "
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return {0, redis.call('PTTL', KEYS[1]), held}
end
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if held and last > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return {1, string.format('%.0f', last)}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local token = string.format('%.0f', math.max(last + 1, now))
redis.call('SET', KEYS[2], token)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[3], 'acquired')
return {1, token}";

/// KEYS: the lock. ARGV: the value, the ttl in milliseconds.
const RENEW: &str = "
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// KEYS: the lock. ARGV: the value, the channel.
const RELEASE: &str = "
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', ARGV[2], 'released')
    return 1
end
return 0";

/// KEYS: the lock, the token. Returns the value, the rest of the lease, and the token.
const OBSERVE: &str = "
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2])}";

/// The keys of an election.
#[derive(Clone)]
struct Keys {
    lock: Arc<str>,
    token: String,
    channel: String,
}

/// A lock, as observers see it.
struct Observed {
    leader: Option<Leader>,
    value: String,
    /// Whether the value is of another client.
    foreign: bool,
    left: Duration,
    remarks: Vec<String>,
}

/// The identity in a value of ours: it is followed by 32 hexadecimal digits.
fn identity_of(value: &str) -> Option<&str> {
    let (identity, random) = value.rsplit_once(' ')?;
    (random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(identity)
}

/// Redis.
pub(crate) struct Redis {
    link: Arc<Link>,
    wakeups: Arc<Wakeups>,
    turns: Arc<Turns>,
}

impl Redis {
    pub(crate) fn new(url: Url) -> Result<Redis, Error> {
        let link = Arc::new(Link::new(Settings::parse(url)?));
        Ok(Redis { wakeups: Arc::new(Wakeups::new(Arc::clone(&link))), link, turns: Arc::default() })
    }

    fn keys(&self, name: &str) -> Keys {
        let lock: Arc<str> = format!("{}{name}", self.link.settings.prefix).into();
        Keys { token: format!("{{{lock}}}:token"), channel: channel(&lock), lock }
    }

    async fn observe(&self, keys: &Keys) -> Result<Observed, Error> {
        let words = ["EVAL", OBSERVE, "2", &keys.lock, &keys.token];
        let reply = self.link.request(&words, OBSERVER_PATIENCE).await?;
        let Value::Array(values) = reply else { return Err(unavailable("the reply is no array")) };
        let mut remarks = Vec::new();
        let (value, left) = match values.as_slice() {
            [Value::Text(value), Value::Int(left), ..] => {
                if *left < 0 {
                    remarks.push(format!("the key `{}` never expires: no candidate can lead", keys.lock));
                }
                (value.clone(), Duration::from_millis(u64::try_from(*left).unwrap_or(0)))
            }
            _ => {
                let value = String::new();
                return Ok(Observed { leader: None, value, foreign: false, left: Duration::ZERO, remarks });
            }
        };
        let token = match values.get(2) {
            Some(Value::Text(token)) => token.parse().unwrap_or(0),
            _ => 0,
        };
        let leader = match identity_of(&value) {
            Some(identity) => Leader { identity: identity.to_string(), token },
            // A client that does not count tokens has none.
            None => Leader { identity: value.clone(), token: 0 },
        };
        let foreign = identity_of(&value).is_none();
        Ok(Observed { leader: Some(leader), value, foreign, left, remarks })
    }

    /// What of the server's settings endangers leases.
    async fn remarks(&self) -> Result<Vec<String>, Error> {
        let client = self.link.client(OBSERVER_PATIENCE).await?;
        let (info, mut remarks) = (&client.info, Vec::new());
        let policy = info.get("maxmemory_policy");
        if policy.starts_with("allkeys") || policy.starts_with("volatile") && info.get("maxmemory") != "0" {
            remarks.push(format!("maxmemory-policy {policy} can evict locks: use noeviction"));
        }
        if info.get("connected_slaves") != "0" {
            remarks.push("a fail-over to a replica can lose the lock, and two can lead".to_string());
        }
        let uptime = client.uptime() + client.since.elapsed();
        if !client.durable && uptime < Duration::from_secs(60) {
            let seconds = uptime.as_secs();
            remarks.push(format!(
                "the server has started {seconds} s ago, and may have lost locks: candidates wait for one ttl"
            ));
        }
        Ok(remarks)
    }
}

/// The moment from which on a lease of the server that it has lost by a restart is over.
fn wait_after_start(client: &Client, ttl: Duration) -> Instant {
    if client.durable {
        return client.since;
    }
    // The server counts whole seconds by the time of day: its uptime is up to one second shorter than it says.
    client.since + (ttl + Duration::from_secs(1)).saturating_sub(client.uptime())
}

impl Recipe for Redis {
    fn facts(&self) -> &'static Facts {
        &crate::facts::REDIS
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        let keys = self.keys(&wish.name);
        Box::new(Stander {
            link: Arc::clone(&self.link),
            turns: Arc::clone(&self.turns),
            wakeups: self.wakeups.subscribe(&keys.lock),
            value: format!("{} {}", wish.identity, random_name()),
            keys,
            heard: 0,
            token: 0,
            asked: false,
            wish,
        })
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let observed = self.observe(&self.keys(name)).await?;
            let mut remarks = observed.remarks;
            remarks.extend(self.remarks().await?);
            Ok(Status { leader: observed.leader, waiting: Vec::new(), remarks })
        })
    }

    fn changed<'a>(
        &'a self,
        name: &'a str,
        known: Option<Leader>,
    ) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let keys = self.keys(name);
            let mut wakeups = self.wakeups.subscribe(&keys.lock);
            loop {
                wakeups.mark_unchanged();
                let observed = self.observe(&keys).await?;
                if observed.leader != known {
                    return Ok(observed.leader);
                }
                // Other clients do not tell what they do.
                let longest = if observed.foreign || known.is_none() { FOREIGN_PAUSE } else { observed.left };
                tokio::select! {
                    _ = wakeups.changed() => {}
                    () = sleep(longest.max(SHORT_PAUSE)) => {}
                }
            }
        })
    }

    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let keys = self.keys(name);
            let observed = self.observe(&keys).await?;
            let Some(leader) = observed.leader else { return Ok(None) };
            let words = ["EVAL", RELEASE, "1", &keys.lock, &observed.value, &keys.channel];
            self.link.request(&words, OBSERVER_PATIENCE).await?;
            Ok(Some(leader))
        })
    }
}

/// A candidate.
struct Stander {
    link: Arc<Link>,
    turns: Arc<Turns>,
    wish: Wish,
    keys: Keys,
    /// The value of the key while the candidate leads.
    value: String,
    wakeups: watch::Receiver<Changes>,
    /// The number of changes that the leader knows.
    heard: u64,
    token: u64,
    /// Whether the server may have heard of the candidate.
    asked: bool,
}

impl Stander {
    /// The time of a request.
    fn within(&self) -> Duration {
        self.wish.ttl / 3
    }

    fn millis(&self) -> String {
        self.wish.ttl.as_millis().to_string()
    }

    /// The end of a lease that was asked for at this moment.
    fn end_of_lease(&self, sent: Duration) -> Duration {
        let whole = Duration::from_millis(u64::try_from(self.wish.ttl.as_millis()).unwrap_or(u64::MAX));
        self.wish.end_of_lease(sent, whole).saturating_sub(RESOLUTION)
    }

    /// A connection to a server that has not lost a lock by a restart.
    async fn client(&self) -> Result<Arc<Client>, Error> {
        loop {
            let client = self.link.client(self.within()).await?;
            let from = wait_after_start(&client, self.wish.ttl);
            if from <= Instant::now() {
                return Ok(client);
            }
            sleep_until(from).await;
        }
    }

    /// Asks for the lock once. Returns the time to wait otherwise.
    async fn acquire(&mut self) -> Result<Result<Grant, Duration>, Error> {
        let (within, millis) = (self.within(), self.millis());
        let client = self.client().await?;
        let keys = &self.keys;
        let words = ["EVAL", ACQUIRE, "2", &keys.lock, &keys.token, &self.value, &millis, &keys.channel];
        let sent = self.wish.now();
        self.asked = true;
        let reply = self.link.request_on(&client, &words, within).await?;
        let Value::Array(values) = reply else { return Err(unavailable("the reply is no array")) };
        match values.as_slice() {
            [Value::Int(1), Value::Text(token)] => {
                self.token =
                    token.parse().map_err(|_| refused(format!("the token `{token}` is no number")))?;
                self.heard = self.wakeups.borrow().changes;
                Ok(Ok(Grant { token: self.token, valid_until: self.end_of_lease(sent) }))
            }
            [Value::Int(0), Value::Int(left), Value::Text(held)] => {
                let foreign = identity_of(held).is_none();
                // A key without an expiry is looked at again: somebody may delete it.
                let left = u64::try_from(*left).map_or(FOREIGN_PAUSE, Duration::from_millis);
                let left = left.max(SHORT_PAUSE);
                Ok(Err(if foreign { left.min(FOREIGN_PAUSE) } else { left }))
            }
            _ => Err(unavailable("the reply is none of the script")),
        }
    }
}

impl Candidate for Stander {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async move {
            let _turn = self.turns.wait(&self.wish.name).await;
            loop {
                let releases = self.wakeups.borrow_and_update().releases;
                let pause = match self.acquire().await? {
                    Ok(grant) => return Ok(grant),
                    Err(pause) => pause,
                };
                tokio::select! {
                    _ = self.wakeups.wait_for(|known| known.releases != releases) => {}
                    () = sleep(pause) => {}
                }
            }
        })
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async move {
            let (sent, millis) = (self.wish.now(), self.millis());
            let words = ["EVAL", RENEW, "1", &self.keys.lock, &self.value, &millis];
            match self.link.request(&words, self.within()).await? {
                Value::Int(1) => Ok(Grant { token: self.token, valid_until: self.end_of_lease(sent) }),
                _ => Err(ended("the key has expired, was deleted, or has the value of another client")),
            }
        })
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(async move {
            loop {
                let heard = self.wakeups.wait_for(|known| known.changes != self.heard).await;
                let Ok(heard) = heard.map(|known| known.changes) else { return never().await };
                // An error: the renewal finds out. Until the answer is there, this future can be dropped.
                let value = self.link.request(&["GET", &self.keys.lock], self.wish.ttl / 3).await;
                if let Ok(value) = value
                    && value != Value::Text(self.value.clone())
                {
                    return ended("the key was deleted, or has the value of another client");
                }
                self.heard = heard;
            }
        })
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            if self.asked {
                let words = ["EVAL", RELEASE, "1", &self.keys.lock, &self.value, &self.keys.channel];
                self.link.request(&words, self.within()).await?;
                self.asked = false;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_told_from_the_value_of_another_client() {
        assert_eq!(identity_of("some one 0123456789abcdef0123456789abcdef"), Some("some one"));
        assert_eq!(identity_of("8d7c1f3a-0b8e-4b5e-9a57-2f6d1c0e4b11"), None);
        assert_eq!(identity_of("a b"), None);
    }

    #[test]
    fn a_wrong_url_is_refused_with_its_reason() {
        for (url, reason) in [
            ("redis://h/x", "no number of a database"),
            ("redis://h?cacert=/x", "need rediss://"),
            ("rediss://h?cert=/x", "need each other"),
            ("rediss://h?cacert=/no/such/file", "/no/such/file"),
            ("redis://h?nonsense=1", "knows no parameter `nonsense`"),
        ] {
            let error = Redis::new(Url::parse(url).unwrap()).err().expect(url).to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
