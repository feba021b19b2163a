//! Connections with TLS, for [`serve`](super::serve).
//!
//! Each handshake has a task of its own and a timeout, so that a silent client does not block others. If too many
//! handshakes are open, the oldest is dropped: an honest handshake is quick. A connection uses the certificate that is in
//! use when the client connects.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::credentials::Credentials;

/// The timeout of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// The most open handshakes.
const MOST_HANDSHAKES: usize = 256;
/// The response to a client that sends plain HTTP.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 55\r\n\
Connection: close\r\n\r\n{\"error\":\"this server uses TLS: use https:// instead\"}\n";

/// A listener for TLS connections.
pub(super) struct Tls {
    listener: TcpListener,
    credentials: watch::Receiver<Arc<Credentials>>,
    handshakes: JoinSet<Option<TlsStream<TcpStream>>>,
    /// The same handshakes in the order of their begin. Some may have ended.
    order: VecDeque<AbortHandle>,
}

impl Tls {
    /// Listens with the certificate in use. There must be one.
    pub(super) fn new(listener: TcpListener, credentials: watch::Receiver<Arc<Credentials>>) -> Tls {
        Tls { listener, credentials, handshakes: JoinSet::new(), order: VecDeque::new() }
    }

    fn start_handshake(&mut self, stream: TcpStream, from: SocketAddr) {
        let server = self.credentials.borrow().certificate.as_ref().map(|it| it.server());
        // Without a certificate, no client is served: never fall back to plain HTTP.
        let Some(server) = server else { return };
        self.make_room();
        let handshake = self.handshakes.spawn(async move {
            let accepted = timeout(HANDSHAKE_TIMEOUT, handshake(stream, server)).await;
            match accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => Some(stream),
                Err(error) => {
                    // Any client can cause this at any rate: log it at debug level only.
                    debug!(client = %from, "TLS handshake failed: {error}");
                    None
                }
            }
        });
        self.order.push_back(handshake);
    }

    /// Drops the oldest open handshakes if there are too many. Completed handshakes wait to be served, and stay.
    fn make_room(&mut self) {
        self.order.retain(|handshake| !handshake.is_finished());
        while self.order.len() >= MOST_HANDSHAKES {
            self.order.pop_front().expect("there are so many").abort();
        }
    }
}

impl Tls {
    /// Waits for the next connection whose handshake is complete. Cancel-safe.
    pub(super) async fn accept(&mut self) -> io::Result<TlsStream<TcpStream>> {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.handshakes.join_next() => if let Ok(Some(stream)) = ended {
                    return Ok(stream);
                },
                accepted = self.listener.accept() => {
                    let (stream, from) = accepted?;
                    self.start_handshake(stream, from);
                }
            }
        }
    }
}

async fn handshake(mut stream: TcpStream, server: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    // A TLS record begins with byte 22, a plain request with the name of a method.
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        // Unread data would reset the connection before the client reads the response.
        _ = stream.read(&mut [0; 4_096]).await?;
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        return Err(io::Error::other("the client sent plain HTTP"));
    }
    TlsAcceptor::from(server).accept(stream).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_response_has_its_content_length() {
        let text = str::from_utf8(PLAIN).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
