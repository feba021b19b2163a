//! A TCP proxy in front of a server, which loses connections and replies when a test says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// What a proxy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards everything.
    Pass,
    /// Closes all connections, and every new one.
    Cut,
    /// Keeps connections open, and forwards nothing: a network that loses everything.
    Silent,
    /// Forwards requests, and loses the replies.
    LoseReplies,
    /// Forwards everything, replies after this time.
    Slow(Duration),
}

/// A running proxy. Ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.mode.send_replace(Mode::Cut);
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(suffrage_testbed::address()).await.expect("a free address");
        let address = listener.local_addr().expect("an address");
        let mode = Arc::new(watch::Sender::new(Mode::Pass));
        let modes = Arc::clone(&mode);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *modes.borrow() != Mode::Cut {
                    tokio::spawn(serve(client, server, modes.subscribe()));
                }
            }
        });
        Proxy { address, mode, task }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn serve(client: TcpStream, server: SocketAddr, mut modes: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (requests, replies) = (modes.clone(), modes.clone());
    let up = async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from_client.read(&mut buffer).await.unwrap_or(0);
            let mode = *requests.borrow();
            if read == 0 || mode != Mode::Silent && to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    // Chunks of replies, and when they are due: a slow network delays them, and has room for many.
    let (queue, mut chunks) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let receive = async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from_server.read(&mut buffer).await.unwrap_or(0);
            let delay = match *replies.borrow() {
                Mode::Pass => Duration::ZERO,
                Mode::Slow(delay) => delay,
                Mode::Cut | Mode::Silent | Mode::LoseReplies => {
                    if read == 0 {
                        return;
                    }
                    continue;
                }
            };
            if read == 0 || queue.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    };
    let down = async move {
        let forward = async move {
            while let Some((due, chunk)) = chunks.recv().await {
                sleep_until(due).await;
                if to_client.write_all(&chunk).await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(receive, forward);
    };
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}
