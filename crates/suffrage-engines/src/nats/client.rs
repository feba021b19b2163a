//! The connection that all elections of an engine share, and the requests on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::link::{Link, parse_headers};
use super::{Config, refused, unavailable};
use crate::Error;

/// Codes of errors of JetStream.
const STREAM_NOT_FOUND: u64 = 10_059;
const MESSAGE_NOT_FOUND: u64 = 10_037;
const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];
const PAUSE: Duration = Duration::from_millis(50);

/// The names of headers: those of the recipe, and ours, which other clients ignore.
pub(super) const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
pub(super) const OPERATION: &str = "KV-Operation";
pub(super) const CANDIDATE: &str = "Suffrage-Candidate";
pub(super) const TOKEN: &str = "Suffrage-Token";

/// The last message of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) revision: u64,
    /// The message says that the key was deleted, or that the server has removed it.
    pub(super) absent: bool,
    pub(super) identity: String,
    /// The revision of the leader's first message. That of the last one, if another client wrote it.
    pub(super) token: u64,
    /// The random name of a candidate of ours.
    pub(super) candidate: Option<String>,
}

impl Entry {
    pub(super) fn new(revision: u64, headers: &BTreeMap<String, String>, data: &[u8]) -> Entry {
        let field = |name: &str| headers.get(&name.to_ascii_lowercase());
        // A marker of a server that tells why it has removed the last message of a key, or one of a client.
        let absent = field("Nats-Marker-Reason").is_some()
            || field(OPERATION).is_some_and(|operation| matches!(operation.as_str(), "DEL" | "PURGE"));
        let candidate = field(CANDIDATE).cloned();
        let token = field(TOKEN).filter(|_| candidate.is_some()).and_then(|token| token.parse().ok());
        Entry {
            revision,
            absent,
            identity: String::from_utf8_lossy(data).into_owned(),
            // A token is never above the revision, whatever a header says.
            token: token.unwrap_or(revision).min(revision),
            candidate,
        }
    }
}

/// The settings of a bucket that elections depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) max_age: Duration,
    pub(super) replicas: u64,
    pub(super) markers: bool,
}

/// The settings of a bucket, as a server has told them.
struct KnownBucket {
    link: std::sync::Weak<Link>,
    bucket: Bucket,
    /// When somebody has last asked for them.
    asked: Instant,
}

impl KnownBucket {
    /// The settings, if they were told over this connection and need not be asked for again. Once per max-age they must:
    /// somebody may change them. One caller is then told to ask, and the others use what is known.
    fn fresh(&mut self, link: &Arc<Link>) -> Option<Bucket> {
        let is_same = std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link));
        let is_fresh = self.bucket.max_age.is_zero() || self.asked.elapsed() < self.bucket.max_age;
        if is_same && !is_fresh {
            self.asked = Instant::now();
        }
        (is_same && is_fresh).then_some(self.bucket)
    }
}

type Current = Option<Result<Arc<Link>, Error>>;

/// Opens the connection when it is needed, in a task of its own: those who need it can be cancelled at any moment.
pub(super) struct Client {
    pub(super) config: Arc<Config>,
    /// The shortest ttl of all candidates, in milliseconds: failures of the connection must be noticed within it.
    ttl: Arc<AtomicU64>,
    current: Arc<watch::Sender<Current>>,
    wanted: Arc<Notify>,
    opener: OnceLock<AbortHandle>,
    /// The settings of the bucket, as seen on this connection.
    bucket: Mutex<Option<KnownBucket>>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(opener) = self.opener.get() {
            opener.abort();
        }
    }
}

fn step(ttl: &AtomicU64) -> Duration {
    Duration::from_millis(ttl.load(Ordering::SeqCst) / 6).max(Duration::from_millis(100))
}

impl Client {
    pub(super) fn new(config: Config) -> Client {
        Client {
            config: Arc::new(config),
            ttl: Arc::new(AtomicU64::new(3_000)),
            current: Arc::new(watch::Sender::new(None)),
            wanted: Arc::default(),
            opener: OnceLock::new(),
            bucket: Mutex::new(None),
        }
    }

    /// A candidate has this ttl.
    pub(super) fn note_ttl(&self, ttl: Duration) {
        self.ttl.fetch_min(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// How long a request waits for its reply: below a third of the shortest ttl.
    fn patience(&self) -> Duration {
        step(&self.ttl) * 3 / 2
    }

    pub(super) async fn link(&self) -> Result<Arc<Link>, Error> {
        self.opener.get_or_init(|| {
            let (config, current) = (Arc::clone(&self.config), Arc::clone(&self.current));
            let (wanted, ttl) = (Arc::clone(&self.wanted), Arc::clone(&self.ttl));
            tokio::spawn(open(config, current, wanted, ttl)).abort_handle()
        });
        let mut current = self.current.subscribe();
        if let Some(Ok(link)) = &*current.borrow_and_update()
            && !link.has_ended()
        {
            return Ok(Arc::clone(link));
        }
        self.wanted.notify_one();
        let waited = timeout(step(&self.ttl) * 2, async {
            loop {
                if current.changed().await.is_err() {
                    return Err(unavailable("the runtime was shut down"));
                }
                if let Some(found) = &*current.borrow_and_update() {
                    return found.clone();
                }
            }
        });
        waited.await.unwrap_or_else(|_| Err(unavailable("no connection in time")))
    }

    /// A request to JetStream. An error of it is the code and its description.
    async fn api(&self, verb: &str, body: &Value) -> Result<Result<Value, (u64, String)>, Error> {
        let reply = self.link().await?.api(verb, body, self.patience()).await?;
        Ok(split_error(reply))
    }

    fn stream(&self) -> String {
        format!("KV_{}", self.config.bucket)
    }

    pub(super) fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.config.bucket)
    }

    /// The settings of the bucket, which is created if it is missing and a ttl is given.
    pub(super) async fn bucket(&self, create: Option<Duration>) -> Result<Option<Bucket>, Error> {
        let link = self.link().await?;
        let known = || self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = known().as_mut().and_then(|known| known.fresh(&link)) {
            return Ok(Some(bucket));
        }
        let stream = self.stream();
        let info = match self.api(&format!("STREAM.INFO.{stream}"), &Value::Null).await? {
            Ok(info) => info,
            Err((STREAM_NOT_FOUND, _)) => {
                let Some(ttl) = create else { return Ok(None) };
                let replicas = self.config.replicas.unwrap_or(if link.clustered { 3 } else { 1 });
                let body = self.new_bucket(ttl, replicas);
                match self.api(&format!("STREAM.CREATE.{stream}"), &body).await? {
                    Ok(info) => info,
                    // Another candidate was faster, or too few servers run.
                    Err((code, reason)) => return Err(unavailable(format!("bucket: {reason} ({code})"))),
                }
            }
            Err((code, reason)) => return Err(unavailable(format!("bucket: {reason} ({code})"))),
        };
        let config = &info["config"];
        let bucket = Bucket {
            max_age: Duration::from_nanos(config["max_age"].as_u64().unwrap_or(0)),
            replicas: config["num_replicas"].as_u64().unwrap_or(1),
            markers: config["subject_delete_marker_ttl"].as_u64().is_some_and(|ttl| ttl > 0),
        };
        *known() = Some(KnownBucket { link: Arc::downgrade(&link), bucket, asked: Instant::now() });
        Ok(Some(bucket))
    }

    /// The settings of a new bucket, as other clients make them.
    fn new_bucket(&self, ttl: Duration, replicas: u64) -> Value {
        let age = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        json!({
            "name": self.stream(), "subjects": [self.subject(">")], "retention": "limits", "storage": "file",
            "max_msgs_per_subject": 1, "max_age": age, "duplicate_window": age.min(120_000_000_000),
            "max_msgs": -1, "max_bytes": -1, "max_msg_size": -1, "max_consumers": -1, "discard": "new",
            "num_replicas": replicas, "deny_delete": true, "allow_rollup_hdrs": true, "allow_direct": true,
        })
    }

    /// Makes sure that the bucket exists, and that its entries live for the ttl.
    pub(super) async fn check_bucket(&self, ttl: Duration) -> Result<(), Error> {
        let Some(bucket) = self.bucket(Some(ttl)).await? else { return Ok(()) };
        if bucket.max_age == ttl {
            return Ok(());
        }
        let name = &self.config.bucket;
        Err(refused(match bucket.max_age {
            Duration::ZERO => format!(
                "entries of the bucket `{name}` have no max-age, so that a dead leader would lead for ever: give it a \
                 max-age of {ttl:?}"
            ),
            age => format!(
                "entries of the bucket `{name}` live for {age:?}, and the ttl is {ttl:?}: use that ttl, or another \
                 bucket"
            ),
        }))
    }

    /// The last message of a key, from the server that leads the bucket.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let verb = format!("STREAM.MSG.GET.{}", self.stream());
        let reply = match self.api(&verb, &json!({ "last_by_subj": self.subject(key) })).await? {
            Ok(reply) => reply,
            Err((MESSAGE_NOT_FOUND | STREAM_NOT_FOUND, _)) => return Ok(None),
            Err((code, reason)) => return Err(unavailable(format!("{key}: {reason} ({code})"))),
        };
        let message = &reply["message"];
        let decode = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            data_encoding::BASE64.decode(text.as_bytes()).unwrap_or_default()
        };
        let revision = message["seq"].as_u64().ok_or_else(|| unavailable(format!("{key}: no sequence")))?;
        let (_, headers) = parse_headers(&decode(&message["hdrs"]));
        Ok(Some(Entry::new(revision, &headers, &decode(&message["data"]))))
    }

    /// Writes a message to a key if its last message is the expected one. `None`: it is not.
    pub(super) async fn write(
        &self,
        key: &str,
        expected: u64,
        mut headers: Vec<(&str, String)>,
        value: &str,
    ) -> Result<Option<u64>, Error> {
        headers.push((EXPECTED, expected.to_string()));
        let link = self.link().await?;
        let reply = link.request(&self.subject(key), &headers, value.as_bytes(), self.patience()).await;
        if reply.is_err() {
            // The bucket may have gone.
            *self.bucket.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let reply: Value = serde_json::from_slice(&reply?.payload)
            .map_err(|error| unavailable(format!("{key}: the reply is malformed: {error}")))?;
        match split_error(reply) {
            Ok(reply) if reply["stream"] == self.stream() => match reply["seq"].as_u64() {
                Some(revision) => Ok(Some(revision)),
                None => Err(unavailable(format!("{key}: the reply has no sequence"))),
            },
            Ok(reply) => {
                Err(refused(format!("{key}: the stream {} stores the bucket's subject", reply["stream"])))
            }
            Err((code, _)) if WRONG_LAST_SEQUENCE.contains(&code) => Ok(None),
            Err((code, reason)) => Err(unavailable(format!("{key}: {reason} ({code})"))),
        }
    }

    /// Makes a consumer of all keys that sends their last messages, and then all new ones, to a subject.
    pub(super) async fn consume(&self, link: &Link, subject: &str, heartbeat: Duration) -> Result<(), Error> {
        let stream = self.stream();
        let body = json!({ "stream_name": stream, "config": {
            "deliver_subject": subject, "deliver_policy": "last_per_subject", "filter_subject": self.subject(">"),
            "ack_policy": "none", "max_deliver": 1, "replay_policy": "instant", "mem_storage": true,
            "num_replicas": 1, "idle_heartbeat": u64::try_from(heartbeat.as_nanos()).unwrap_or(u64::MAX),
        }});
        let reply = link.api(&format!("CONSUMER.CREATE.{stream}"), &body, self.patience()).await?;
        split_error(reply)
            .map(|_| ())
            .map_err(|(code, reason)| unavailable(format!("watch: {reason} ({code})")))
    }
}

fn split_error(reply: Value) -> Result<Value, (u64, String)> {
    let error = &reply["error"];
    match error.is_null() {
        true => Ok(reply),
        false => Err((
            error["err_code"].as_u64().unwrap_or_default(),
            error["description"].as_str().unwrap_or("unknown error").to_string(),
        )),
    }
}

async fn open(
    config: Arc<Config>,
    current: Arc<watch::Sender<Current>>,
    wanted: Arc<Notify>,
    ttl: Arc<AtomicU64>,
) {
    let mut server = usize::from(super::random_number());
    loop {
        wanted.notified().await;
        if let Some(Ok(link)) = &*current.borrow()
            && !link.has_ended()
        {
            continue;
        }
        // All servers once.
        for tried in 1..=config.hosts.len() {
            match Link::open(&config, server, step(&ttl)).await {
                Ok(link) => {
                    current.send_replace(Some(Ok(Arc::new(link))));
                    break;
                }
                Err(error) => {
                    server = server.wrapping_add(1);
                    if tried == config.hosts.len() {
                        current.send_replace(Some(Err(error)));
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_from_its_headers() {
        let fields = |fields: &[(&str, &str)]| -> BTreeMap<String, String> {
            fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_string())).collect()
        };
        let entry = Entry::new(9, &fields(&[(CANDIDATE, "x"), (TOKEN, "4")]), b"me");
        assert_eq!((entry.token, entry.absent, entry.identity.as_str()), (4, false, "me"));
        // Another client's, and a token that cannot be.
        assert_eq!(Entry::new(9, &fields(&[(TOKEN, "4")]), b"").token, 9);
        assert_eq!(Entry::new(9, &fields(&[(CANDIDATE, "x"), (TOKEN, "10")]), b"").token, 9);
        for marker in [(OPERATION, "DEL"), (OPERATION, "PURGE"), ("Nats-Marker-Reason", "MaxAge")] {
            assert!(Entry::new(9, &fields(&[marker]), b"").absent);
        }
    }
}
