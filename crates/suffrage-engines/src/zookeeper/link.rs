//! One connection to one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{interval, timeout};

use super::wire::{self, Code, Op, Reader, SessionKey, Stat, Writer};
use super::{Config, unavailable};
use crate::Error;
use crate::transport::Connection;

/// Fires when the server tells that a node has changed. An error: the connection has ended, and nothing more is told.
pub(super) type Watch = oneshot::Receiver<()>;

/// What waits for the server.
#[derive(Default)]
struct Waiting {
    /// Requests by their number. The server answers in this order.
    replies: BTreeMap<i32, oneshot::Sender<Result<Vec<u8>, Code>>>,
    watches: BTreeMap<String, Vec<oneshot::Sender<()>>>,
    next: i32,
    ended: bool,
}

/// A connection with a session. Requests are pipelined. A request that has no reply in time ends the connection: what
/// comes after it would have no order.
pub(super) struct Link {
    pub(super) key: SessionKey,
    /// The time-out of the session that the server has granted.
    pub(super) granted: Duration,
    step: Duration,
    server: String,
    waiting: Arc<Mutex<Waiting>>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    ended: watch::Receiver<bool>,
    end: Arc<watch::Sender<bool>>,
}

/// Why no connection was made.
pub(super) enum Refusal {
    /// The session has expired.
    Expired,
    Failed(Error),
}

fn lock(waiting: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_frame(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > wire::LONGEST_FRAME {
        return Err(std::io::Error::other(format!("a reply has {length} bytes")));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

impl Link {
    /// Connects with a known session, or with a new one. Each step takes at most `step`.
    pub(super) async fn open(
        config: &Config,
        server: usize,
        session: Option<&SessionKey>,
        session_timeout: Duration,
        step: Duration,
    ) -> Result<Link, Refusal> {
        let (host, port) = &config.hosts[server % config.hosts.len()];
        let server = format!("{host}:{port}");
        let failed = |reason: String| Refusal::Failed(unavailable(format!("{server}: {reason}")));
        let stream = Connection::open(host, *port, config.tls.as_ref(), step).await;
        let mut stream = stream.map_err(|reason| Refusal::Failed(unavailable(reason)))?;
        let greeting = async {
            stream.write_all(&wire::connect(session, session_timeout)).await?;
            stream.flush().await?;
            read_frame(&mut stream).await
        };
        let greeting = timeout(step, greeting).await.map_err(|_| failed("does not answer".to_string()))?;
        let greeting = greeting.map_err(|error| failed(format!("does not serve: {error}")))?;
        let granted = wire::connected(&greeting).ok_or_else(|| failed("is no ZooKeeper".to_string()))?;
        let (key, granted) = granted.ok_or(Refusal::Expired)?;
        let (reader, writer) = tokio::io::split(stream);
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(false);
        let (end, waiting) = (Arc::new(end), Arc::new(Mutex::new(Waiting { next: 1, ..Waiting::default() })));
        let pings = Arc::new(AtomicU32::new(0));
        tokio::spawn(write(writer, queue, Arc::clone(&end), Arc::clone(&pings), granted / 3));
        tokio::spawn(read(reader, Arc::clone(&waiting), Arc::clone(&end), pings));
        let link = Link { key, granted, step, server: server.clone(), waiting, outgoing, ended, end };
        if let Some((user, password)) = &config.user {
            let secret = format!("{user}:{}", password.reveal());
            let request = Writer::default().int(0).string("digest").string(&secret).record();
            link.numbered(Some(wire::AUTH), Op::Auth, &request).await.map_err(Refusal::Failed)?.map_err(
                |code| {
                    Refusal::Failed(super::refused(format!(
                        "{server}: {code}: check the user and the password"
                    )))
                },
            )?;
        }
        Ok(link)
    }

    /// Sends a request and waits for its reply.
    pub(super) async fn request(&self, op: Op, record: &[u8]) -> Result<Result<Vec<u8>, Code>, Error> {
        self.numbered(None, op, record).await
    }

    async fn numbered(
        &self,
        number: Option<i32>,
        op: Op,
        record: &[u8],
    ) -> Result<Result<Vec<u8>, Code>, Error> {
        let lost = || unavailable(format!("{}: the connection has ended", self.server));
        let (sender, reply) = oneshot::channel();
        {
            // Under one lock, so that requests are sent in the order of their numbers.
            let mut waiting = lock(&self.waiting);
            if waiting.ended {
                return Err(lost());
            }
            let number = number.unwrap_or(waiting.next);
            waiting.next += 1;
            waiting.replies.insert(number, sender);
            if self
                .outgoing
                .send(Writer::default().int(number).int(op as i32).append(record).frame())
                .is_err()
            {
                return Err(lost());
            }
        }
        match timeout(self.step, reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(lost()),
            Err(_) => {
                self.close();
                Err(unavailable(format!("{}: no reply within {:?}", self.server, self.step)))
            }
        }
    }

    /// A request that only a malformed reply can fail, apart from its code.
    async fn read<T>(
        &self,
        op: Op,
        record: &[u8],
        parse: impl Fn(&mut Reader<'_>) -> Option<T>,
    ) -> Result<Result<T, Code>, Error> {
        match self.request(op, record).await? {
            Ok(reply) => match parse(&mut Reader(&reply)) {
                Some(parsed) => Ok(Ok(parsed)),
                None => Err(unavailable(format!("{}: a reply is malformed", self.server))),
            },
            Err(code) => Ok(Err(code)),
        }
    }

    /// The children of a node.
    pub(super) async fn children(&self, path: &str, watch: bool) -> Result<Result<Vec<String>, Code>, Error> {
        self.read(Op::GetChildren, &wire::read(path, watch), |reader| reader.strings()).await
    }

    /// The data of a node.
    pub(super) async fn data(&self, path: &str, watch: bool) -> Result<Result<(Vec<u8>, Stat), Code>, Error> {
        let parse = |reader: &mut Reader<'_>| Some((reader.bytes()?.to_vec(), reader.stat()?));
        self.read(Op::GetData, &wire::read(path, watch), parse).await
    }

    pub(super) async fn exists(&self, path: &str, watch: bool) -> Result<Result<Stat, Code>, Error> {
        self.read(Op::Exists, &wire::read(path, watch), |reader| reader.stat()).await
    }

    /// Makes the server catch up with the leading server: reads after it see every write before it.
    pub(super) async fn sync(&self, path: &str) -> Result<(), Error> {
        let reply = self.request(Op::Sync, &Writer::default().string(path).record()).await?;
        reply.map(|_| ()).map_err(|code| unavailable(format!("{}: sync: {code}", self.server)))
    }

    /// Creates a node. Returns its path, with the number that the server has appended.
    pub(super) async fn create(
        &self,
        path: &str,
        data: &str,
        acl: wire::Acl,
        mode: wire::Mode,
    ) -> Result<Result<(String, Stat), Code>, Error> {
        let (op, record) = wire::create(path, data, acl, mode);
        self.read(op, &record, |reader| Some((reader.string()?, reader.stat()?))).await
    }

    /// Deletes a node. True if it was there.
    pub(super) async fn delete(&self, path: &str) -> Result<Result<bool, Code>, Error> {
        Ok(match self.request(Op::Delete, &wire::any_version(path)).await? {
            Ok(_) => Ok(true),
            Err(Code::NO_NODE) => Ok(false),
            Err(code) => Err(code),
        })
    }

    /// Checks by a transaction which of these nodes exist, and returns those that do not.
    pub(super) async fn missing(&self, paths: &[String]) -> Result<Result<Vec<String>, Code>, Error> {
        let (mut paths, mut missing) = (paths.to_vec(), Vec::new());
        loop {
            let reply = match self.request(Op::Multi, &wire::check_all(&paths)).await? {
                Ok(reply) => reply,
                Err(code) => return Ok(Err(code)),
            };
            let codes = wire::checked(&reply, paths.len());
            let codes = codes.ok_or_else(|| unavailable(format!("{}: a reply is malformed", self.server)))?;
            // The first check that fails fails the transaction. Those after it have not been tried.
            let failed = codes.iter().position(|code| *code == Code::NO_NODE);
            match failed {
                Some(index) => missing.push(paths.remove(index)),
                None => match codes.into_iter().find(|code| code.0 < 0) {
                    Some(code) => return Ok(Err(code)),
                    None => return Ok(Ok(missing)),
                },
            }
        }
    }

    /// Registers for the next change of a node, before the request that asks the server to tell it.
    pub(super) fn expect_change(&self, path: &str) -> Watch {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if !waiting.ended {
            let senders = waiting.watches.entry(path.to_string()).or_default();
            senders.retain(|sender| !sender.is_closed());
            senders.push(sender);
        }
        receiver
    }

    /// Ends the session, and with it its nodes. Does not wait for the reply.
    pub(super) fn close_session(&self) {
        let frame = Writer::default().int(i32::MAX).int(Op::CloseSession as i32).frame();
        _ = self.outgoing.send(frame);
    }

    /// Ends the connection. The session goes on until its time-out.
    pub(super) fn close(&self) {
        self.end.send_replace(true);
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// Writes requests and pings until the link is dropped or ends.
async fn write(
    mut stream: WriteHalf<Connection>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    end: Arc<watch::Sender<bool>>,
    pings: Arc<AtomicU32>,
    period: Duration,
) {
    let mut ended = end.subscribe();
    let mut timer = interval(period);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer.tick().await;
    loop {
        let mut bytes = tokio::select! {
            frame = queue.recv() => match frame {
                Some(frame) => frame,
                None => break,
            },
            _ = ended.wait_for(|ended| *ended) => break,
            _ = timer.tick() => {
                if pings.fetch_add(1, Ordering::SeqCst) > 0 {
                    // The last ping had no answer.
                    break;
                }
                Writer::default().int(wire::PING).int(Op::Ping as i32).frame()
            }
        };
        while let Ok(mut more) = queue.try_recv() {
            bytes.append(&mut more);
        }
        let written = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        tokio::select! {
            written = written => if written.is_err() { break },
            _ = ended.wait_for(|ended| *ended) => break,
        }
    }
    // Closes the connection for the server. The reader ends when the server has closed it as well, or by `end`.
    _ = timeout(period, stream.shutdown()).await;
    end.send_replace(true);
}

/// Reads replies and notifications until the connection ends.
async fn read(
    mut stream: ReadHalf<Connection>,
    waiting: Arc<Mutex<Waiting>>,
    end: Arc<watch::Sender<bool>>,
    pings: Arc<AtomicU32>,
) {
    let mut ended = end.subscribe();
    loop {
        let frame = tokio::select! {
            frame = read_frame(&mut stream) => frame,
            _ = ended.wait_for(|ended| *ended) => break,
        };
        let Ok(frame) = frame else { break };
        if receive(&frame, &waiting, &pings).is_none() {
            break;
        }
    }
    end.send_replace(true);
    let mut waiting = lock(&waiting);
    // Those who wait see that the connection has ended.
    (waiting.replies, waiting.watches, waiting.ended) = (BTreeMap::new(), BTreeMap::new(), true);
}

/// Hands a message to whoever waits for it. `None` if the server does not keep to the protocol.
fn receive(frame: &[u8], waiting: &Mutex<Waiting>, pings: &AtomicU32) -> Option<()> {
    let mut reader = Reader(frame);
    let (number, _zxid, code) = (reader.int()?, reader.long()?, reader.int()?);
    match number {
        wire::PING => pings.store(0, Ordering::SeqCst),
        wire::NOTIFICATION => {
            let (_kind, _state, path) = (reader.int()?, reader.int()?, reader.string()?);
            for sender in lock(waiting).watches.remove(&path).into_iter().flatten() {
                _ = sender.send(());
            }
        }
        number => {
            let mut waiting = lock(waiting);
            // The server answers in order: a gap is a reply that was lost.
            let (first, _) = waiting.replies.first_key_value()?;
            if *first != number {
                return None;
            }
            let sender = waiting.replies.remove(&number)?;
            _ = sender.send(if code == 0 { Ok(reader.0.to_vec()) } else { Err(Code(code)) });
        }
    }
    Some(())
}
