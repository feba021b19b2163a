//! Reads of the entries of candidates, many in one request.
//!
//! A read of etcd is confirmed by a majority of the servers, and a renewal is not: the leading server answers it alone.
//! So a renewal counts only after a read that follows it ([`Check::term`]).

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::api::{self, Entry};
use super::client::{Client, unavailable};
use crate::Error;

/// The entries that one request reads. A server refuses more than 128 by default.
const BATCH: usize = 100;
/// The requests at once.
const RUNNERS: usize = 4;

/// The entry of a candidate, as a majority of the servers knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The entry, if it exists.
    pub(super) entry: Option<Entry>,
    /// The revision at which the entry was read.
    pub(super) revision: i64,
    /// The term of the server that led at the time of the read, or a later one.
    pub(super) term: i64,
}

struct Request {
    key: Arc<[u8]>,
    deadline: Instant,
    reply: oneshot::Sender<Result<Check, Error>>,
}

#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    runners: usize,
}

/// The reads of all candidates of an engine.
#[derive(Clone)]
pub(super) struct Checks {
    client: Arc<Client>,
    queue: Arc<Mutex<Queue>>,
}

impl Checks {
    pub(super) fn new(client: Arc<Client>) -> Checks {
        Checks { client, queue: Arc::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> T {
        act(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads an entry.
    pub(super) async fn check(&self, key: Arc<[u8]>, deadline: Instant) -> Result<Check, Error> {
        let (reply, answer) = oneshot::channel();
        let start = self.with(|queue| {
            queue.requests.push(Request { key, deadline, reply });
            let start = queue.runners < RUNNERS;
            queue.runners += usize::from(start);
            start
        });
        if start {
            // A task of its own: this future can be dropped, and others wait for the same request.
            let checks = self.clone();
            crate::tasks::spawn(async move { checks.run().await });
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(unavailable("a read has no answer")),
        }
    }

    /// Sends requests while there are any.
    async fn run(&self) {
        loop {
            // Candidates that are woken by the same packet ask together.
            yield_now().await;
            let batch: Vec<Request> = self.with(|queue| {
                queue.requests.retain(|request| !request.reply.is_closed());
                let count = queue.requests.len().min(BATCH);
                queue.runners -= usize::from(count == 0);
                queue.requests.drain(..count).collect()
            });
            let Some(deadline) = batch.iter().map(|request| request.deadline).max() else { return };
            let txn = api::read(batch.iter().map(|request| api::get(&request.key)));
            match self.client.call_until(api::TXN, &txn, deadline).await {
                Ok(answer) => {
                    let header = api::header(&answer);
                    for (request, range) in batch.into_iter().zip(api::ranges(&answer)) {
                        let entry = api::entries(range).next();
                        let check = Check { entry, revision: header.revision, term: header.term };
                        _ = request.reply.send(Ok(check));
                    }
                }
                Err(failure) => {
                    let error = Error::from(failure);
                    for request in batch {
                        _ = request.reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }
}
