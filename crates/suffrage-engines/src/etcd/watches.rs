//! The watches of all candidates and observers of an engine, on one stream.
//!
//! A watch waits for one event. When the stream fails, it is opened again, at the next server if need be, and every watch
//! goes on from its revision: no event is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::api::{self, Target, WatchAnswer};
use super::client::{Client, Failure, Link, unavailable};
use crate::Error;
use crate::grpc::{Answers, Requests, Status, UNAVAILABLE};

/// The time for the opening of a stream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// The pauses between attempts to open a stream.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A stream of watches is silent also when its server is cut off. If no candidate renews over the same connection, a read
/// shows in this interval that the server reaches a majority.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// Why a watch was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The event has happened.
    Event,
    /// The event may have happened: etcd does not store it any more.
    Unknown,
}

type Wakeup = oneshot::Sender<Result<Woken, Error>>;

enum Command {
    Add { id: u64, target: Target, from: i64, wakeup: Wakeup },
    Remove(u64),
}

/// A watch for one event. Dropping it ends the watch.
pub(super) struct Watch {
    id: u64,
    commands: mpsc::UnboundedSender<Command>,
    woken: oneshot::Receiver<Result<Woken, Error>>,
}

impl Watch {
    /// Waits for the event, once. The future can be dropped at any moment.
    pub(super) async fn woken(&mut self) -> Result<Woken, Error> {
        (&mut self.woken).await.unwrap_or_else(|_| Err(unavailable("the runtime was shut down")))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        _ = self.commands.send(Command::Remove(self.id));
    }
}

/// The watches of an engine.
pub(super) struct Watches {
    client: Arc<Client>,
    /// To the task, which starts with the first watch.
    commands: Mutex<Option<mpsc::UnboundedSender<Command>>>,
    next_id: AtomicU64,
}

impl Watches {
    pub(super) fn new(client: Arc<Client>) -> Watches {
        Watches { client, commands: Mutex::default(), next_id: AtomicU64::new(0) }
    }

    /// Watches from this revision on.
    pub(super) fn watch(&self, target: Target, from: i64) -> Watch {
        let (wakeup, woken) = oneshot::channel();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let commands = self.commands();
        _ = commands.send(Command::Add { id, target, from, wakeup });
        Watch { id, commands, woken }
    }

    fn commands(&self) -> mpsc::UnboundedSender<Command> {
        let mut running = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        // A task ends with its runtime, and the engine may live on in another.
        if let Some(commands) = running.as_ref().filter(|commands| !commands.is_closed()) {
            return commands.clone();
        }
        let (commands, receiver) = mpsc::unbounded_channel();
        let task =
            Task { client: Arc::clone(&self.client), watches: BTreeMap::new(), stream: None, probe: None };
        crate::tasks::spawn(task.run(receiver));
        running.insert(commands).clone()
    }
}

struct Waiting {
    target: Target,
    from: i64,
    wakeup: Wakeup,
    /// The id at the server of the present stream, after it has answered.
    server_id: Option<i64>,
}

struct Stream {
    link: Arc<Link>,
    requests: Requests,
    answers: Answers,
    /// Watches that the server has not yet answered. It answers in order.
    created: VecDeque<u64>,
    by_server_id: BTreeMap<i64, u64>,
}

struct Task {
    client: Arc<Client>,
    watches: BTreeMap<u64, Waiting>,
    stream: Option<Stream>,
    /// The number of answers of the connection at the last probe.
    probe: Option<u64>,
}

impl Task {
    /// Runs until the engine and all its watches are dropped.
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut pause = FIRST_PAUSE;
        let mut retry = Instant::now();
        let mut probe = Instant::now() + PROBE_INTERVAL;
        loop {
            let wants_stream = self.stream.is_none() && !self.watches.is_empty();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                answer = next_answer(&mut self.stream) => match answer {
                    Ok(answer) => {
                        self.on_answer(answer);
                        pause = FIRST_PAUSE;
                    }
                    Err(status) => self.fail(&status),
                },
                () = sleep_until(retry), if wants_stream => {
                    if let Err(error) = self.open().await {
                        self.refuse(&error);
                    }
                    // Also after success: a server may end each stream at once.
                    retry = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                },
                () = sleep_until(probe) => {
                    self.probe();
                    probe = Instant::now() + PROBE_INTERVAL;
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        let requests = match command {
            Command::Add { id, target, from, wakeup } => {
                let request = api::watch(&target, from);
                self.watches.insert(id, Waiting { target, from, wakeup, server_id: None });
                self.stream.as_mut().map(|stream| {
                    stream.created.push_back(id);
                    request
                })
            }
            Command::Remove(id) => {
                let server_id = self.watches.remove(&id).and_then(|watch| watch.server_id);
                self.forget(server_id)
            }
        };
        self.send(requests);
    }

    /// The request that ends a watch at the server.
    fn forget(&mut self, server_id: Option<i64>) -> Option<crate::grpc::Message> {
        let (stream, server_id) = (self.stream.as_mut()?, server_id?);
        stream.by_server_id.remove(&server_id);
        Some(api::cancel_watch(server_id))
    }

    fn send(&mut self, requests: impl IntoIterator<Item = crate::grpc::Message>) {
        let Some(stream) = &mut self.stream else { return };
        if let Err(status) = stream.requests.send(requests) {
            self.fail(&status);
        }
    }

    /// Opens the stream, and starts all watches at the server.
    async fn open(&mut self) -> Result<(), Error> {
        let open = async {
            let link = self.client.link().await?;
            let answers = link.answers();
            let stream = link.stream(api::WATCH).await;
            let stream = stream.map_err(|status| self.client.judge(&link, &status, answers))?;
            Ok::<_, Error>((link, stream))
        };
        let opened = timeout(OPEN_TIMEOUT, open).await;
        let (link, (requests, answers)) = opened.map_err(|_| unavailable("no server answers"))??;
        self.watches.values_mut().for_each(|watch| watch.server_id = None);
        let created: VecDeque<u64> = self.watches.keys().copied().collect();
        let creations: Vec<_> =
            self.watches.values().map(|watch| api::watch(&watch.target, watch.from)).collect();
        self.stream = Some(Stream { link, requests, answers, created, by_server_id: BTreeMap::new() });
        self.send(creations);
        Ok(())
    }

    /// The stream has ended. It is opened again.
    fn fail(&mut self, status: &Status) {
        let Some(stream) = self.stream.take() else { return };
        let failure = self.client.judge(&stream.link, status, stream.link.answers());
        self.refuse(&failure.into());
    }

    /// If an operator must act, those who wait are told. Otherwise they go on waiting.
    fn refuse(&mut self, error: &Error) {
        if !error.is_transient() {
            for (_, watch) in std::mem::take(&mut self.watches) {
                _ = watch.wakeup.send(Err(error.clone()));
            }
        }
    }

    fn on_answer(&mut self, answer: WatchAnswer) {
        let Some(stream) = &mut self.stream else { return };
        if answer.created {
            let Some(id) = stream.created.pop_front() else { return };
            match self.watches.get_mut(&id) {
                Some(_) if answer.canceled => return self.on_canceled(id, answer),
                Some(watch) => {
                    watch.server_id = Some(answer.id);
                    stream.by_server_id.insert(answer.id, id);
                }
                // It was dropped meanwhile.
                None if answer.canceled => {}
                None => self.send([api::cancel_watch(answer.id)]),
            }
            return;
        }
        let Some(id) = stream.by_server_id.get(&answer.id).copied() else { return };
        if answer.canceled {
            stream.by_server_id.remove(&answer.id);
            self.on_canceled(id, answer);
        } else if answer.has_events {
            if let Some(watch) = self.watches.remove(&id) {
                _ = watch.wakeup.send(Ok(Woken::Event));
            }
            let cancel = self.forget(Some(answer.id));
            self.send(cancel);
        }
    }

    /// The server has refused or ended a watch.
    fn on_canceled(&mut self, id: u64, answer: WatchAnswer) {
        let (Some(watch), Some(stream)) = (self.watches.remove(&id), &self.stream) else { return };
        let woken = if answer.compacted {
            Ok(Woken::Unknown)
        } else {
            let code = if answer.reason.contains("permission denied") { 7 } else { UNAVAILABLE };
            let status = Status { code, message: format!("a watch has ended: {}", answer.reason) };
            // The connection works: only a stale token closes it.
            match self.client.judge(&stream.link, &status, u64::MAX) {
                Failure::Other(error) => Err(error),
                Failure::LeaseExists | Failure::LeaseNotFound => Ok(Woken::Unknown),
            }
        };
        _ = watch.wakeup.send(woken);
    }

    /// Asks the server for a sign of life, unless it has given one since the last time.
    fn probe(&mut self) {
        let answers = self.stream.as_ref().map(|stream| stream.link.answers());
        if answers.is_some() && !self.watches.is_empty() && answers == self.probe {
            let client = Arc::clone(&self.client);
            crate::tasks::spawn(async move { client.probe(PROBE_INTERVAL).await });
        }
        self.probe = answers;
    }
}

/// The next answer of the stream. Never if there is none.
async fn next_answer(stream: &mut Option<Stream>) -> Result<WatchAnswer, Status> {
    let Some(stream) = stream else { return std::future::pending().await };
    match stream.answers.next().await {
        Ok(Some(answer)) => Ok(api::watch_answer(&answer)),
        Ok(None) => {
            Err(Status { code: UNAVAILABLE, message: "the server has ended the watches".to_string() })
        }
        Err(status) => Err(status),
    }
}
