//! Listeners and connections of all kinds behind one type each: the HTTP server is compiled once, and not for every kind.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use super::local::{LocalPeer, LocalStream};
use super::tls::Tls;

/// The time between two attempts to accept a connection. An error is usually too many open files: some may be closed by
/// then.
const RETRY: Duration = Duration::from_secs(1);

/// A listener of a node.
pub(super) enum Listener {
    /// TCP.
    Plain(TcpListener),
    /// TCP with TLS.
    Tls(Tls),
    /// The Unix socket.
    Local(UnixListener),
}

impl Listener {
    /// Waits for the next connection. A connection of the Unix socket has a peer on this machine. Cancel-safe.
    pub(super) async fn accept(&mut self) -> (Stream, Option<LocalPeer>) {
        loop {
            let accepted = match self {
                Listener::Plain(listener) => {
                    listener.accept().await.map(|(stream, _)| (Stream::Plain(stream), None))
                }
                Listener::Tls(tls) => tls.accept().await.map(|stream| (Stream::Tls(Box::new(stream)), None)),
                Listener::Local(listener) => listener.accept().await.map(|(stream, _)| {
                    let (stream, peer) = LocalStream::new(stream);
                    (Stream::Local(stream), Some(peer))
                }),
            };
            match accepted {
                Ok(accepted) => return accepted,
                // The client gave up before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!("cannot accept a connection: {error}");
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// A connection of a client.
pub(super) enum Stream {
    /// TCP.
    Plain(TcpStream),
    /// TCP with TLS. Its state is large.
    Tls(Box<TlsStream<TcpStream>>),
    /// The Unix socket.
    Local(LocalStream),
}

/// Calls a function with the connection, whatever its kind.
macro_rules! on_stream {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $call,
            Stream::Tls($stream) => $call,
            Stream::Local($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write(cx, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
            Stream::Local(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
