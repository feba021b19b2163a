//! The consumer of the bucket, which tells those who wait what happens to their keys. One per engine, for all keys.
//!
//! What it tells is only a hint: who wants to lead asks the leading server, and writes on condition. An entry that the
//! server has removed because of its age is not told at all, unless the bucket has markers: those who wait compute it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::client::{Client, Entry};
use super::link::{Link, Message};
use super::unavailable;
use crate::Error;

/// A server that is alive sends something at least this often.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Without a message for this long, the consumer is gone.
const SILENCE: Duration = Duration::from_millis(2_500);
const PAUSE: Duration = Duration::from_millis(100);

/// What was told last about a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// `None`: the consumer is new, and what has happened in the meantime is not known.
    pub(super) entry: Option<Entry>,
    /// How old the entry was, by the clocks of the server and of this machine. A hint: they may differ.
    pub(super) age: Duration,
}

type Keys = BTreeMap<String, watch::Sender<Told>>;

pub(super) struct Watcher {
    client: Arc<Client>,
    keys: Arc<Mutex<Keys>>,
    task: OnceLock<AbortHandle>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

fn lock(keys: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    pub(super) fn new(client: Arc<Client>) -> Watcher {
        Watcher { client, keys: Arc::default(), task: OnceLock::new() }
    }

    /// What is told about a key from now on.
    pub(super) fn watch(&self, key: &str) -> watch::Receiver<Told> {
        self.task.get_or_init(|| {
            let (client, keys) = (Arc::downgrade(&self.client), Arc::clone(&self.keys));
            tokio::spawn(run(client, keys)).abort_handle()
        });
        let mut keys = lock(&self.keys);
        keys.retain(|name, sender| name == key || sender.receiver_count() > 0);
        let mut receiver = keys.entry(key.to_string()).or_default().subscribe();
        receiver.mark_unchanged();
        receiver
    }
}

async fn run(client: Weak<Client>, keys: Arc<Mutex<Keys>>) {
    while let Some(client) = client.upgrade() {
        if lock(&keys).values().any(|sender| sender.receiver_count() > 0) {
            _ = consume(&client, &keys).await;
        }
        drop(client);
        sleep(PAUSE).await;
    }
}

/// Tells what a consumer sends, until it ends.
async fn consume(client: &Client, keys: &Mutex<Keys>) -> Result<(), Error> {
    let link: Arc<Link> = client.link().await?;
    let mut subscription = link.subscribe();
    client.consume(&link, &subscription.subject, HEARTBEAT).await?;
    for sender in lock(keys).values() {
        sender.send_replace(Told::default());
    }
    let prefix = client.subject("");
    let mut last = 0;
    loop {
        let message = timeout(SILENCE, subscription.messages.recv()).await;
        let message = message.map_err(|_| unavailable("the watch is silent"))?;
        let message = message.ok_or_else(|| unavailable("the connection has ended"))?;
        if receive(&message, &prefix, keys, &mut last).is_none() {
            return Err(unavailable("the watch has missed a message"));
        }
    }
}

/// Tells one message. `None` if messages before it are missing.
fn receive(message: &Message, prefix: &str, keys: &Mutex<Keys>, last: &mut u64) -> Option<()> {
    if message.status.starts_with("100") {
        let expected = message.headers.get("nats-last-consumer").and_then(|number| number.parse().ok());
        return (expected.unwrap_or(*last) == *last).then_some(());
    }
    // $JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.DELIVERED.REVISION.NUMBER.NANOSECONDS.PENDING[.RANDOM]
    let words: Vec<&str> = message.reply.split('.').collect();
    let first = match words.len() {
        9 => 5,
        length if length >= 11 => 7,
        _ => return None,
    };
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
    let (revision, sent, stored) = (number(first)?, number(first + 1)?, number(first + 2)?);
    if sent != *last + 1 {
        return None;
    }
    *last = sent;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_nanos(stored));
    let key = message.subject.strip_prefix(prefix)?;
    if let Some(sender) = lock(keys).get(key) {
        let entry = Entry::new(revision, &message.headers, &message.payload);
        sender.send_replace(Told { entry: Some(entry), age });
    }
    Some(())
}
