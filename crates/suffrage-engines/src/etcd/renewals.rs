//! The renewals of all leases of an engine, on one stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::api;
use super::client::{Client, Link, unavailable};
use crate::Error;
use crate::grpc::{Answers, Requests, Status};

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renewed {
    /// The length of the lease from now on, in seconds. Zero if the server does not know the lease.
    pub(super) seconds: u64,
    /// The term of the last entry that the server had applied before it renewed the lease.
    pub(super) term: i64,
}

/// A lease, and who waits for the answer.
type Request = (i64, oneshot::Sender<Result<Renewed, Error>>);

/// The renewals that have no answer yet. A server answers them in order. None if the stream has ended.
#[derive(Clone)]
struct Unanswered(Arc<Mutex<Option<VecDeque<Request>>>>);

impl Unanswered {
    fn with<T>(&self, act: impl FnOnce(&mut Option<VecDeque<Request>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Stream {
    link: Arc<Link>,
    requests: Requests,
    unanswered: Unanswered,
    reader: AbortHandle,
}

impl Stream {
    fn is_open(&self) -> bool {
        self.link.is_open() && self.unanswered.with(|unanswered| unanswered.is_some())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The stream of renewals, which is opened again after it has failed.
pub(super) struct Renewals {
    client: Arc<Client>,
    stream: tokio::sync::Mutex<Option<Stream>>,
}

impl Renewals {
    pub(super) fn new(client: Arc<Client>) -> Renewals {
        Renewals { client, stream: tokio::sync::Mutex::default() }
    }

    /// Renews a lease.
    pub(super) async fn renew(&self, lease: i64, deadline: Instant) -> Result<Renewed, Error> {
        let sent = timeout_at(deadline, self.send(lease)).await;
        let (link, answers, answer) = sent.map_err(|_| unavailable("no server answers"))??;
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(unavailable("the stream of renewals has ended")),
            Err(_) => {
                link.suspect(answers);
                Err(unavailable("a renewal has no answer"))
            }
        }
    }

    async fn send(
        &self,
        lease: i64,
    ) -> Result<(Arc<Link>, u64, oneshot::Receiver<Result<Renewed, Error>>), Error> {
        let mut current = self.stream.lock().await;
        let stream = match current.take().filter(Stream::is_open) {
            Some(stream) => current.insert(stream),
            None => current.insert(self.open().await?),
        };
        let (reply, answer) = oneshot::channel();
        let answers = stream.link.answers();
        let open = stream.unanswered.with(|unanswered| {
            unanswered.as_mut().map(|unanswered| unanswered.push_back((lease, reply))).is_some()
        });
        // If the stream has ended meanwhile, the answer ends as well.
        if open && let Err(status) = stream.requests.send([api::lease(lease)]) {
            return Err(self.client.judge(&stream.link, &status, answers).into());
        }
        Ok((Arc::clone(&stream.link), answers, answer))
    }

    async fn open(&self) -> Result<Stream, Error> {
        let link = self.client.link().await?;
        let before = link.answers();
        let stream = link.stream(api::LEASE_KEEP_ALIVE).await;
        let (requests, answers) = stream.map_err(|status| self.client.judge(&link, &status, before))?;
        let unanswered = Unanswered(Arc::new(Mutex::new(Some(VecDeque::new()))));
        let (client, of_link, queue) = (Arc::clone(&self.client), Arc::clone(&link), unanswered.clone());
        let reader = crate::tasks::spawn(async move {
            let status = read(answers, &of_link, &queue).await;
            let error = Error::from(client.judge(&of_link, &status, of_link.answers()));
            for (_, reply) in queue.with(Option::take).unwrap_or_default() {
                _ = reply.send(Err(error.clone()));
            }
        });
        Ok(Stream { link, requests, unanswered, reader: reader.abort_handle() })
    }
}

/// Reads answers until the stream ends. Returns how it has ended.
async fn read(mut answers: Answers, link: &Link, unanswered: &Unanswered) -> Status {
    let broken = |message: &str| Status { code: crate::grpc::UNAVAILABLE, message: message.to_string() };
    loop {
        let answer = match answers.next().await {
            Ok(Some(answer)) => answer,
            Ok(None) => return broken("the server has ended the stream of renewals"),
            Err(status) => return status,
        };
        let next = unanswered.with(|unanswered| unanswered.as_mut().and_then(VecDeque::pop_front));
        match next {
            Some((lease, reply)) if lease == api::lease_of(&answer) => {
                link.answered();
                let (seconds, term) = (api::seconds(&answer), api::header(&answer).term);
                // The candidate may have given up.
                _ = reply.send(Ok(Renewed { seconds, term }));
            }
            _ => return broken("the server has answered a renewal that nobody has sent"),
        }
    }
}
