//! Requests over HTTP/1.1, for engines that speak it.
//!
//! A [`Client`] keeps a few connections open and shares them among all elections. A request goes to the server that has
//! answered last; if that one fails, the next request goes to the next server. Nothing is sent twice: whoever gets
//! [`Error::Unavailable`] does not know whether the server has done what was asked for, unless no server was reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use crate::Error;
use crate::transport::Connection;
use crate::url::Secret;

/// The number of requests at the same time, and so of connections, apart from those that wait for an event.
const REQUESTS: usize = 16;
/// The longest time-out of a connection, also for requests that wait for an event.
const CONNECT: Duration = Duration::from_secs(5);
/// The greatest reply.
const REPLY_LIMIT: usize = 64 << 20;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path and the query, percent-encoded.
    pub(crate) target: String,
    /// A header that authorizes the request: its name and value.
    pub(crate) authorization: Option<(&'static str, Secret)>,
    /// The type of the body, and of the reply.
    pub(crate) media_type: &'static str,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn new(method: Method, target: impl Into<String>) -> Request {
        let (authorization, media_type) = (None, "application/json");
        Request { method, target: target.into(), authorization, media_type, body: Bytes::new() }
    }

    pub(crate) fn media_type(mut self, media_type: &'static str) -> Request {
        self.media_type = media_type;
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Request {
        self.body = body.into();
        self
    }
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The start of the body, for error messages.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.trim().chars().take(300).collect()
    }
}

struct Idle {
    host: usize,
    sender: SendRequest<Full<Bytes>>,
}

/// A client of the servers of one engine.
pub(crate) struct Client {
    engine: &'static str,
    hosts: Vec<(String, u16)>,
    tls: Option<Arc<ClientConfig>>,
    /// The name in the certificates of the servers, if it is not that of the host.
    server_name: Option<String>,
    /// The host that requests go to.
    current: AtomicUsize,
    idle: Mutex<Vec<Idle>>,
    turns: Semaphore,
}

impl Client {
    /// A client of these hosts, of which there is at least one.
    pub(crate) fn new(
        engine: &'static str,
        hosts: Vec<(String, u16)>,
        tls: Option<Arc<ClientConfig>>,
        server_name: Option<String>,
    ) -> Client {
        let idle = Mutex::default();
        Client {
            engine,
            hosts,
            tls,
            server_name,
            current: AtomicUsize::new(0),
            idle,
            turns: Semaphore::new(REQUESTS),
        }
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> Error {
        Error::Unavailable { engine: self.engine, reason: reason.into() }
    }

    fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Sends the next requests to another server than this one, and never again over its connections.
    fn abandon(&self, host: usize) {
        let next = (host + 1) % self.hosts.len();
        _ = self.current.compare_exchange(host, next, Ordering::Relaxed, Ordering::Relaxed);
        if let Ok(mut idle) = self.idle.try_lock() {
            idle.retain(|idle| idle.host != host);
        }
    }

    /// Tells that the server which has answered last cannot serve.
    pub(crate) fn try_next_server(&self) {
        if self.hosts.len() > 1 {
            self.abandon(self.current());
        }
    }

    /// Sends a request, and waits for the whole reply. A new connection has the same time again.
    pub(crate) async fn send(&self, request: &Request, within: Duration) -> Result<Reply, Error> {
        self.exchange(request, within, true).await
    }

    /// The same for a request that the server answers only when something happens.
    pub(crate) async fn send_and_wait(&self, request: &Request, within: Duration) -> Result<Reply, Error> {
        self.exchange(request, within, false).await
    }

    async fn exchange(&self, request: &Request, within: Duration, short: bool) -> Result<Reply, Error> {
        let mut host = self.current();
        let exchange = async {
            let _turn = match short {
                true => Some(self.turns.acquire().await.map_err(|error| error.to_string())?),
                false => None,
            };
            let (response, sender) = self.start(request, within, &mut host).await?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, REPLY_LIMIT).collect().await;
            let body = body.map_err(|error| format!("the reply ended early: {error}"))?.to_bytes();
            let mut idle = self.idle.lock().await;
            if idle.len() < REQUESTS {
                idle.push(Idle { host, sender });
            }
            Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body })
        };
        let reply: Result<Reply, String> = match timeout(within * 2, exchange).await {
            Ok(reply) => reply,
            Err(_) => Err(format!("{}: no reply within {within:?}", self.shown(host))),
        };
        reply.map_err(|reason| {
            self.abandon(host);
            self.unavailable(reason)
        })
    }

    /// Sends a request, and returns its reply frame by frame, over a connection of its own.
    pub(crate) async fn frames(
        &self,
        request: &Request,
        within: Duration,
    ) -> Result<Result<Frames, Reply>, Error> {
        let mut host = self.current();
        let opened = timeout(within * 2, async {
            let (response, sender) = self.start(request, within, &mut host).await?;
            let status = response.status().as_u16();
            if status == 200 {
                return Ok(Ok(Frames {
                    body: response.into_body(),
                    buffer: BytesMut::new(),
                    _sender: sender,
                }));
            }
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, REPLY_LIMIT).collect().await.map_err(|error| error.to_string())?;
            Ok(Err(Reply { status, headers: parts.headers, body: body.to_bytes() }))
        });
        let opened: Result<_, String> =
            opened.await.unwrap_or_else(|_| Err(format!("no reply within {within:?}")));
        opened.map_err(|reason| {
            self.abandon(host);
            self.unavailable(reason)
        })
    }

    fn shown(&self, host: usize) -> String {
        let (name, port) = &self.hosts[host];
        format!("{name}:{port}")
    }

    /// Sends a request over an open connection, or over a new one. Returns the head of the reply.
    async fn start(
        &self,
        request: &Request,
        within: Duration,
        host: &mut usize,
    ) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>), String> {
        let mut failed = None;
        // A connection that the server has closed meanwhile gives the request back, unsent.
        for _ in 0..=REQUESTS {
            let (mut sender, fresh) = match self.take_idle().await {
                Some(idle) => {
                    *host = idle.host;
                    (idle.sender, false)
                }
                None => (self.connect(within, host).await?, true),
            };
            let message = self.message(request, *host)?;
            let sent = timeout(within, sender.try_send_request(message)).await;
            match sent.map_err(|_| format!("{}: no reply within {within:?}", self.shown(*host)))? {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => {
                    let unsent = error.take_message().is_some();
                    let reason = format!("{}: {}", self.shown(*host), describe(error.error()));
                    if fresh || !unsent {
                        return Err(reason);
                    }
                    failed = Some(reason);
                }
            }
        }
        Err(failed.unwrap_or_default())
    }

    async fn take_idle(&self) -> Option<Idle> {
        let current = self.current();
        let mut idle = self.idle.lock().await;
        idle.retain(|idle| idle.host == current && !idle.sender.is_closed());
        // Those whose last reply has been read to its end.
        let ready = idle.iter().rposition(|idle| idle.sender.is_ready())?;
        Some(idle.swap_remove(ready))
    }

    async fn connect(
        &self,
        within: Duration,
        chosen: &mut usize,
    ) -> Result<SendRequest<Full<Bytes>>, String> {
        let mut reasons = Vec::new();
        let share = within.min(CONNECT) / u32::try_from(self.hosts.len().min(3)).unwrap_or(1);
        for _ in 0..self.hosts.len() {
            let host = self.current();
            *chosen = host;
            let (name, port) = &self.hosts[host];
            let server_name = self.server_name.as_ref().unwrap_or(name);
            let opened = Connection::open_as(name, *port, self.tls.as_ref(), server_name, share).await;
            let reason = match opened {
                Ok(connection) => match hyper::client::conn::http1::handshake(TokioIo::new(connection)).await
                {
                    Ok((sender, connection)) => {
                        crate::tasks::spawn(async { _ = connection.await });
                        return Ok(sender);
                    }
                    Err(error) => format!("{}: {error}", self.shown(host)),
                },
                Err(reason) => reason,
            };
            self.abandon(host);
            reasons.push(reason);
        }
        Err(reasons.join("; "))
    }

    fn message(&self, request: &Request, host: usize) -> Result<hyper::Request<Full<Bytes>>, String> {
        let (name, port) = &self.hosts[host];
        let host = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
        let mut message = hyper::Request::builder()
            .method(request.method.clone())
            .uri(request.target.as_str())
            .header(HOST, host)
            .header(USER_AGENT, concat!("suffrage/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, request.media_type)
            .header(CONTENT_TYPE, request.media_type);
        if let Some((name, secret)) = &request.authorization {
            let value = HeaderValue::from_str(secret.reveal());
            let mut value =
                value.map_err(|_| "the token has characters that no header can have".to_string())?;
            value.set_sensitive(true);
            message = message.header(*name, value);
        }
        message
            .body(Full::new(request.body.clone()))
            .map_err(|error| format!("`{}`: {error}", request.target))
    }
}

/// The header for a bearer token.
pub(crate) fn bearer(token: &Secret) -> (&'static str, Secret) {
    let value = zeroize::Zeroizing::new(format!("Bearer {}", token.reveal()));
    ("authorization", Secret::new(value.as_str()))
}

fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A reply that goes on: frames, each after its length in four bytes.
pub(crate) struct Frames {
    body: Incoming,
    buffer: BytesMut,
    _sender: SendRequest<Full<Bytes>>,
}

impl Frames {
    /// The next frame, or none at the end of the reply. The future can be dropped at any moment.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*length) as usize;
                if end > REPLY_LIMIT {
                    return Err(format!("a frame of {end} bytes is too long"));
                }
                if self.buffer.len() >= end {
                    return Ok(Some(self.buffer.split_to(end).freeze().slice(4..)));
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(describe(&error)),
            }
        }
    }
}

/// A text as one segment of a path, or as a value of a query.
pub(crate) fn encode(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}

/// A server of a test.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use crate::recipe::Wish;
    use crate::{Clock, Moment};

    /// A clock that a server moves.
    #[derive(Clone, Default)]
    pub(crate) struct TestClock(Arc<AtomicU64>);

    impl TestClock {
        pub(crate) fn advance(&self, seconds: u64) {
            self.0.fetch_add(seconds, Ordering::SeqCst);
        }

        /// What a candidate wants, by this clock.
        pub(crate) fn wish(&self, ttl: u64) -> Wish {
            let clock = Arc::new(self.clone());
            Wish { name: "x".into(), identity: "me".into(), ttl: Duration::from_secs(ttl), drift: 0.1, clock }
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Moment {
            Duration::from_secs(self.0.load(Ordering::SeqCst))
        }
    }

    /// Reads a request: its head and its body. None at the end of the connection.
    pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await.ok()?;
        Some((head, body))
    }

    /// Serves requests by this function, of the method, the path and the body. Returns the address.
    pub(crate) async fn serve(
        handle: impl Fn(&str, &str, &[u8]) -> (u16, Vec<u8>) + Send + Sync + 'static,
    ) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handle = Arc::new(handle);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let handle = Arc::clone(&handle);
                tokio::spawn(async move {
                    while let Some((head, body)) = read_request(&mut stream).await {
                        let mut words = head.split(' ');
                        let (method, path) = (words.next().unwrap(), words.next().unwrap());
                        let (status, reply) = handle(method, path, &body);
                        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", reply.len());
                        _ = stream.write_all(&[head.as_bytes(), &reply].concat()).await;
                    }
                });
            }
        });
        address
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    use super::testing::read_request;
    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// A server that handles each connection by this function.
    async fn server<F: Future<Output = ()> + Send + 'static>(
        handle: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> (String, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(handle(stream));
            }
        });
        (address.ip().to_string(), address.port())
    }

    fn client(hosts: Vec<(String, u16)>) -> Client {
        Client::new("test", hosts, None, None)
    }

    fn get() -> Request {
        Request::new(Method::GET, "/x")
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_a_closed_one_is_replaced() {
        let (sender, mut connections) = mpsc::unbounded_channel();
        // Two requests per connection.
        let host = server(move |mut stream| {
            sender.send(()).unwrap();
            async move {
                for _ in 0..2 {
                    if read_request(&mut stream).await.is_none() {
                        return;
                    }
                    stream.write_all(OK.as_bytes()).await.unwrap();
                }
            }
        });
        let client = client(vec![host.await]);
        for _ in 0..10 {
            let reply = client.send(&get(), WITHIN).await.unwrap();
            assert_eq!((reply.status, reply.text().as_str()), (200, "ok"));
        }
        let mut count = 0;
        while connections.try_recv().is_ok() {
            count += 1;
        }
        assert!((5..10).contains(&count), "{count} connections");
    }

    #[tokio::test]
    async fn a_request_is_never_sent_twice() {
        let (sender, mut requests) = mpsc::unbounded_channel();
        let host = server(move |mut stream| {
            let sender = sender.clone();
            async move {
                // The first request of a connection is answered, and the second is lost.
                read_request(&mut stream).await;
                stream.write_all(OK.as_bytes()).await.unwrap();
                if let Some((request, _)) = read_request(&mut stream).await {
                    sender.send(request).unwrap();
                }
            }
        });
        let client = client(vec![host.await]);
        client.send(&get(), WITHIN).await.unwrap();
        let ready = || async { client.idle.lock().await.iter().any(|idle| idle.sender.is_ready()) };
        while !ready().await {
            tokio::task::yield_now().await;
        }
        assert!(matches!(client.send(&get(), WITHIN).await, Err(Error::Unavailable { .. })));
        assert!(requests.recv().await.unwrap().starts_with("GET /x HTTP/1.1\r\n"));
        assert!(requests.try_recv().is_err());
    }

    #[tokio::test]
    async fn the_next_server_is_tried_when_one_fails() {
        let answers = server(|mut stream| async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK.as_bytes()).await.unwrap();
            }
        });
        let silent = server(|stream| async move {
            std::future::pending::<()>().await;
            drop(stream);
        });
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let closed = (closed.ip().to_string(), closed.port());
        let client = client(vec![closed, silent.await, answers.await]);
        // A refused connection costs nothing, silence costs a request.
        let failed = client.send(&get(), Duration::from_secs(3)).await.unwrap_err();
        assert!(failed.to_string().contains("no reply within"), "{failed}");
        client.send(&get(), WITHIN).await.unwrap();
        client.send(&get(), WITHIN).await.unwrap();
    }

    #[tokio::test]
    async fn frames_are_put_together() {
        let host = server(|mut stream| async move {
            read_request(&mut stream).await;
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            // Two frames, "abc" and "", cut where it hurts.
            for part in [&b"\0\0"[..], b"\0\x03a", b"bc\0\0\0", b"\0"] {
                let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
                stream.write_all(&chunk).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        });
        let client = client(vec![host.await]);
        let mut frames = client.frames(&get(), WITHIN).await.unwrap().ok().unwrap();
        assert_eq!(frames.next().await.unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(frames.next().await.unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(frames.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_secret_is_sent_and_not_shown() {
        let (sender, mut requests) = mpsc::unbounded_channel();
        let host = server(move |mut stream| {
            let sender = sender.clone();
            async move { sender.send(read_request(&mut stream).await).unwrap() }
        });
        let client = client(vec![host.await]);
        let mut request = get();
        request.authorization = Some(bearer(&Secret::new("secret-word")));
        assert!(!format!("{request:?}").contains("secret-word"));
        let failed = client.send(&request, WITHIN).await.unwrap_err();
        assert!(!failed.to_string().contains("secret-word"));
        assert!(requests.recv().await.unwrap().unwrap().0.contains("authorization: Bearer secret-word\r\n"));
        request.authorization = Some(bearer(&Secret::new("two\nlines")));
        let failed = client.send(&request, WITHIN).await.unwrap_err();
        assert!(!failed.to_string().contains("lines"), "{failed}");
    }
}
