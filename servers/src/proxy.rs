//! A TCP proxy in front of a server, which loses connections and replies when a test says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::requests::{Protocol, RequestCounter};

/// What a proxy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwards everything.
    Pass,
    /// Closes all connections, and every new one.
    Cut,
    /// Keeps connections open, and forwards nothing: a network that loses everything. What was sent meanwhile arrives
    /// later, as TCP repeats it.
    Silent,
    /// Forwards requests, and loses the replies. A connection that has lost a reply ends with this mode.
    LoseReplies,
    /// Forwards everything, replies after this time.
    Slow(Duration),
}

/// The mode, and how often connections were closed: a short cut must not be overlooked.
#[derive(Clone, Copy)]
struct State {
    mode: Mode,
    cuts: u64,
}

/// Sees the bytes that a client sends over one connection.
type Observer = Box<dyn FnMut(&[u8]) + Send>;

/// A running proxy. Ends when it is dropped.
pub struct Proxy {
    /// The address for clients.
    pub address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Mode::Cut);
        self.task.abort();
    }
}

impl Proxy {
    /// Starts a proxy of this server.
    pub async fn start(server: SocketAddr) -> Proxy {
        Proxy::observed(server, || Box::new(|_| {})).await
    }

    /// Starts a proxy of this server, with an observer of each connection.
    async fn observed(server: SocketAddr, observer: impl Fn() -> Observer + Send + 'static) -> Proxy {
        let listener = TcpListener::bind(suffrage_testbed::address()).await.expect("a free address");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(watch::Sender::new(State { mode: Mode::Pass, cuts: 0 }));
        let states = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if states.borrow().mode != Mode::Cut {
                    tokio::spawn(serve(client, server, states.subscribe(), observer()));
                }
            }
        });
        Proxy { address, state, task }
    }

    /// Starts a proxy of this server that adds up the requests of all connections.
    pub async fn counting(server: SocketAddr, protocol: Protocol, requests: &Arc<AtomicU64>) -> Proxy {
        let requests = Arc::clone(requests);
        let observer = move || -> Observer {
            let (mut counter, requests) = (RequestCounter::new(protocol), Arc::clone(&requests));
            Box::new(move |bytes| {
                requests.fetch_add(counter.count(bytes), Ordering::Relaxed);
            })
        };
        Proxy::observed(server, observer).await
    }

    /// Changes what the proxy does.
    pub fn set(&self, mode: Mode) {
        self.state.send_modify(|state| {
            state.mode = mode;
            state.cuts += u64::from(mode == Mode::Cut);
        });
    }
}

async fn serve(
    client: TcpStream,
    server: SocketAddr,
    mut states: watch::Receiver<State>,
    observer: Observer,
) {
    let cuts = states.borrow().cuts;
    let Ok(server) = TcpStream::connect(server).await else { return };
    _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = forward(from_client, to_server, states.clone(), Some(observer)) => {}
        () = forward(from_server, to_client, states.clone(), None) => {}
        _ = states.wait_for(|state| state.cuts != cuts) => {}
    }
}

/// Forwards until the connection must end. Requests have an observer, and replies have none.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut states: watch::Receiver<State>,
    mut observer: Option<Observer>,
) {
    let are_replies = observer.is_none();
    // Chunks and when they are due: a slow network delays them, and has room for many.
    let (queue, mut chunks) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let write = async move {
        while let Some((due, chunk)) = chunks.recv().await {
            sleep_until(due).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    let read = async move {
        let mut buffer = vec![0; 64 << 10];
        let mut has_lost = false;
        loop {
            let read = from.read(&mut buffer).await.unwrap_or(0);
            let Ok(mode) = states.wait_for(|state| state.mode != Mode::Silent).await.map(|state| state.mode)
            else {
                return;
            };
            let is_lost = are_replies && mode == Mode::LoseReplies;
            if read == 0 || has_lost && !is_lost {
                return;
            }
            has_lost |= is_lost;
            if let Some(observe) = &mut observer {
                observe(&buffer[..read]);
            }
            let delay = match mode {
                Mode::Slow(delay) if are_replies => delay,
                _ => Duration::ZERO,
            };
            if !is_lost && queue.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
