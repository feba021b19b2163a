//! Connections with TLS, for [`serve`](super::serve).
//!
//! Each shakes hands in a task of its own and within a time, so that who connects and says nothing keeps nobody
//! else waiting. If very many are at it, the oldest gives way to the newest: an honest one takes moments. Whichever
//! certificate is in use when a client connects is the one that it sees.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use super::credentials::Credentials;

/// How long a client may take to shake hands.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many may be at it at once.
const MOST_HANDSHAKES: usize = 256;
/// What a client is told that speaks plain HTTP, in words that it understands.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 63\r\n\
Connection: close\r\n\r\n{\"error\":\"HTTP is served with TLS here: ask https:// instead\"}\n";

type Connection = (TlsStream<TcpStream>, SocketAddr);

/// Where clients connect.
pub(super) struct Tls {
    listener: TcpListener,
    credentials: watch::Receiver<Arc<Credentials>>,
    handshakes: JoinSet<Option<Connection>>,
    /// The same, in the order in which they began; some may be over.
    order: VecDeque<AbortHandle>,
}

impl Tls {
    /// Serves with the certificate that is in use; there must be one.
    pub(super) fn new(listener: TcpListener, credentials: watch::Receiver<Arc<Credentials>>) -> Tls {
        Tls { listener, credentials, handshakes: JoinSet::new(), order: VecDeque::new() }
    }

    fn greet(&mut self, stream: TcpStream, from: SocketAddr) {
        let server = self.credentials.borrow().certificate.as_ref().map(|it| it.server());
        // Without a certificate nobody is served, least of all in the clear.
        let Some(server) = server else { return };
        self.make_room();
        let handshake = self.handshakes.spawn(async move {
            let shaken = timeout(PATIENCE, shake_hands(stream, server)).await;
            match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => Some((stream, from)),
                Err(error) => {
                    // Anybody can do that as often as they like: not for the log of every day.
                    debug!(client = %from, "no TLS: {error}");
                    None
                }
            }
        });
        self.order.push_back(handshake);
    }

    /// Ends the oldest handshakes that are not over, if there are too many. Those that are over await to be served,
    /// and stay.
    fn make_room(&mut self) {
        self.order.retain(|handshake| !handshake.is_finished());
        while self.order.len() >= MOST_HANDSHAKES {
            self.order.pop_front().expect("there are so many").abort();
        }
    }
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        loop {
            tokio::select! {
                biased;
                Some(shaken) = self.handshakes.join_next() => if let Ok(Some(connection)) = shaken {
                    return connection;
                },
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => self.greet(stream, from),
                    Err(error) => {
                        // Too many open files, most likely: there may be fewer soon.
                        warn!("cannot accept a connection: {error}");
                        sleep(Duration::from_secs(1)).await;
                    }
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn shake_hands(mut stream: TcpStream, server: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    // A record of TLS begins with 22, and a request with a method.
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        // What is not read before it is closed would take the answer with it.
        _ = stream.read(&mut [0; 4_096]).await?;
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        return Err(io::Error::other("the client speaks plain HTTP"));
    }
    TlsAcceptor::from(server).accept(stream).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_the_clear_is_as_long_as_it_says() {
        let text = str::from_utf8(PLAIN).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
