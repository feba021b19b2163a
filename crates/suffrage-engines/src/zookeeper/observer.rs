//! The connection that reads and watches nodes. Its session owns nothing: after a failure it is a new one.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::link::{Link, Refusal, Watch};
use super::wire::{Code, Stat};
use super::{Config, unavailable};
use crate::Error;

/// The time-out of the session that is asked for. A server that does not answer pings is noticed within two thirds of it.
const SESSION: Duration = Duration::from_secs(4);
/// How long a request waits for its reply, and a caller for a connection.
const STEP: Duration = Duration::from_millis(1_500);
const PAUSE: Duration = Duration::from_millis(50);

type Current = Option<Result<Arc<Link>, Error>>;

/// Opens the connection when it is needed, in a task of its own: those who need it can be cancelled at any moment.
pub(super) struct Observer {
    config: Arc<Config>,
    current: Arc<watch::Sender<Current>>,
    wanted: Arc<Notify>,
    opener: OnceLock<AbortHandle>,
}

impl Drop for Observer {
    fn drop(&mut self) {
        if let Some(opener) = self.opener.get() {
            opener.abort();
        }
    }
}

impl Observer {
    pub(super) fn new(config: Arc<Config>) -> Observer {
        Observer {
            config,
            current: Arc::new(watch::Sender::new(None)),
            wanted: Arc::default(),
            opener: OnceLock::new(),
        }
    }

    /// The connection.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Error> {
        self.opener.get_or_init(|| {
            let (config, current) = (Arc::clone(&self.config), Arc::clone(&self.current));
            tokio::spawn(open(config, current, Arc::clone(&self.wanted))).abort_handle()
        });
        let mut current = self.current.subscribe();
        if let Some(Ok(link)) = &*current.borrow_and_update()
            && !link.has_ended()
        {
            return Ok(Arc::clone(link));
        }
        self.wanted.notify_one();
        let waited = timeout(STEP * 2, async {
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

    /// Watches a node. Returns its data as well. `None` if it does not exist.
    pub(super) async fn watch_node(&self, path: &str) -> Result<Option<(Vec<u8>, Stat, Watch)>, Error> {
        let link = self.link().await?;
        for synced in [false, true] {
            if synced {
                // The node may be new, and the server may lag behind.
                link.sync(path).await?;
            }
            let watch = link.expect_change(path);
            match link.data(path, true).await? {
                Ok((data, stat)) => return Ok(Some((data, stat, watch))),
                Err(Code::NO_NODE) => {}
                // Its existence can be watched without permission to read.
                Err(Code::NO_AUTH) => match link.exists(path, true).await? {
                    Ok(stat) => return Ok(Some((b"?".to_vec(), stat, watch))),
                    Err(Code::NO_NODE) => {}
                    Err(code) => return Err(unavailable(format!("{path}: {code}"))),
                },
                Err(code) => return Err(unavailable(format!("{path}: {code}"))),
            }
        }
        Ok(None)
    }
}

async fn open(config: Arc<Config>, current: Arc<watch::Sender<Current>>, wanted: Arc<Notify>) {
    let mut server = usize::from(super::session::random());
    loop {
        wanted.notified().await;
        if let Some(Ok(link)) = &*current.borrow()
            && !link.has_ended()
        {
            continue;
        }
        // All servers once.
        for tried in 1..=config.hosts.len() {
            match Link::open(&config, server, None, SESSION, STEP).await {
                Ok(link) => {
                    current.send_replace(Some(Ok(Arc::new(link))));
                    break;
                }
                Err(refusal) => {
                    server = server.wrapping_add(1);
                    if tried == config.hosts.len() {
                        let error = match refusal {
                            Refusal::Expired => unavailable("a new session has expired at once"),
                            Refusal::Failed(error) => error,
                        };
                        current.send_replace(Some(Err(error)));
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }
}
