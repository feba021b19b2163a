//! HTTP connections: bounded in number, and closed when idle.
//!
//! ```text
//!   connect ──▶ first request ──▶ answer ──▶ next request ──▶ ..
//!      within `first`      as long as it takes      within `idle`
//! ```
//!
//! Long polls and server-sent events are answers without a time limit. A connection beyond the limit is an
//! overflow connection: it gets one answer without waiting, and is closed. So health checks and renewals get
//! through however many clients wait. When the overflow is full too, connections wait in the listen queue.
//!
//! Requests of the Unix socket have a [`LocalPeer`].

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::http::Response;
use super::local::LocalPeer;
use super::stream::{Listener, Stream};

/// The most connections, however many files the process may open.
const MOST_CONNECTIONS: u64 = 1_024;

/// The most connections of the Unix socket.
const MOST_LOCAL_CONNECTIONS: u64 = 65_536;
/// The file descriptors of a connection of the Unix socket: the connection, a copy, and the process.
const LOCAL_FILES: u64 = 3;

/// The connection that a request came on.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// Whether the connection is an overflow connection: the request is answered without waiting.
    pub(super) overflow: bool,
    /// The process on this machine that has opened the connection.
    pub(super) peer: Option<LocalPeer>,
}

/// A response that is not ready yet.
pub(super) type Responding = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// The handlers of requests.
pub(super) trait Handlers: Send + Sync + 'static {
    /// Responds to a request.
    fn respond(self: Arc<Self>, request: hyper::Request<Incoming>, origin: Origin) -> Responding;
}

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The number of connections.
    most: usize,
    /// The number of overflow connections besides.
    overflow: usize,
    /// The time for the head of the first request.
    first: Duration,
    /// The time for the head of a later request, from the answer before.
    idle: Duration,
    /// The time for the head of a request on an overflow connection.
    brief: Duration,
}

impl Limits {
    /// Connections take half of the process's file descriptors at most: a voter that cannot open a file cannot save.
    /// Idle connections live longer than the time between two renewals of any usual lease.
    pub(super) fn of_this_process() -> Limits {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (files / 2).clamp(2, MOST_CONNECTIONS) as usize;
        let overflow = most.div_ceil(16);
        Limits {
            most: most - overflow,
            overflow,
            first: Duration::from_secs(10),
            idle: Duration::from_secs(65),
            brief: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// The limits of the Unix socket: a quarter of the process's file descriptors. A client that leads has a connection for
    /// itself.
    pub(super) fn of_local() -> Limits {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (files / 4 / LOCAL_FILES).clamp(2, MOST_LOCAL_CONNECTIONS) as usize;
        let overflow = most.div_ceil(16);
        Limits { most: most - overflow, overflow, ..Limits::of_this_process() }
    }
}

/// Serves connections until the shutdown; then finishes the requests that have begun.
pub(super) async fn serve(
    mut listener: Listener,
    handlers: Arc<dyn Handlers>,
    limits: Limits,
    mut shutdown: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(limits.most));
    let overflow = Arc::new(Semaphore::new(limits.overflow));
    let mut connections = JoinSet::new();
    let stop = shutdown.clone();
    loop {
        let next = async {
            let (place, overflows) = tokio::select! {
                biased;
                place = Arc::clone(&room).acquire_owned() => (place, false),
                place = Arc::clone(&overflow).acquire_owned() => (place, true),
            };
            (listener.accept().await, place, overflows)
        };
        tokio::select! {
            () = until_shutdown(&mut shutdown) => break,
            Some(_) = connections.join_next() => {}
            ((stream, peer), place, overflows) = next => {
                let (handlers, stop) = (Arc::clone(&handlers), stop.clone());
                let origin = Origin { overflow: overflows, peer };
                connections.spawn(async move {
                    let conversation = serve_connection(stream, origin, handlers, limits, stop);
                    if overflows {
                        // Also bounds the time for the body and the answer.
                        _ = timeout(limits.brief * 3, conversation).await;
                    } else {
                        conversation.await;
                    }
                    drop(place);
                });
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits for the order to stop. A closed channel means that the daemon is gone.
async fn until_shutdown(shutdown: &mut watch::Receiver<bool>) {
    _ = shutdown.wait_for(|shutdown| *shutdown).await;
}

/// Serves one connection.
async fn serve_connection(
    stream: Stream,
    origin: Origin,
    handlers: Arc<dyn Handlers>,
    limits: Limits,
    mut shutdown: watch::Receiver<bool>,
) {
    let asked = AtomicBool::new(false);
    let overflows = origin.overflow;
    let is_local = origin.peer.is_some();
    let service = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        Arc::clone(&handlers).respond(request, origin.clone())
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle).keep_alive(!overflows);
    // A client of the Unix socket that has closed one direction only may still read. The price: no answer that waits is
    // cancelled when its client has hung up. Handlers that wait look themselves (`LocalPeer::closed`).
    builder.half_close(is_local);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut first = pin!(sleep(if overflows { limits.brief } else { limits.first }));
    let (mut waits, mut stops) = (true, false);
    loop {
        tokio::select! {
            // A request that came in time counts, also if this task is late to read it.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    // Any client can cause this at any rate: log it at debug level only.
                    debug!("a connection ended early: {error}");
                }
                return;
            }
            () = &mut first, if waits => {
                if !asked.load(Ordering::Relaxed) {
                    return debug!("a connection ended early: no request came in time");
                }
                waits = false;
            }
            () = until_shutdown(&mut shutdown), if !stops => {
                connection.as_mut().graceful_shutdown();
                stops = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::SocketAddr;

    use hyper::body::Body as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::daemon::http::Body;

    const LONG: Duration = Duration::from_secs(60);

    struct Served {
        address: SocketAddr,
        shutdown: watch::Sender<bool>,
        /// A slow request has begun.
        begun: Arc<Notify>,
        server: JoinHandle<()>,
    }

    /// Tells the kind of connection, waits, or echoes.
    struct Paths {
        begun: Arc<Notify>,
    }

    impl Handlers for Paths {
        fn respond(self: Arc<Self>, request: hyper::Request<Incoming>, origin: Origin) -> Responding {
            Box::pin(async move {
                let answer = match request.uri().path() {
                    "/slow" => {
                        self.begun.notify_one();
                        sleep(Duration::from_millis(1_500)).await;
                        "slow".to_string()
                    }
                    "/echo" => read(request.into_body()).await,
                    _ if origin.overflow => "overflow".to_string(),
                    _ => "fine".to_string(),
                };
                Ok(Response::new(Body::from(answer)))
            })
        }
    }

    async fn read(mut body: Incoming) -> String {
        let mut data = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            data.extend(frame.ok().and_then(|frame| frame.into_data().ok()).unwrap_or_default());
        }
        String::from_utf8(data).unwrap()
    }

    impl Served {
        async fn start(most: usize, overflow: usize, first: u64, idle: u64) -> Served {
            let (first, idle) = (Duration::from_millis(first), Duration::from_millis(idle));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let begun = Arc::new(Notify::new());
            let handlers = Arc::new(Paths { begun: Arc::clone(&begun) });
            let (shutdown, stop) = watch::channel(false);
            let limits = Limits { most, overflow, first, idle, brief: first };
            let server = tokio::spawn(serve(Listener::Plain(listener), handlers, limits, stop));
            Served { address, shutdown, begun, server }
        }

        async fn connect(&self, data: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(data.as_bytes()).await.unwrap();
            stream
        }
    }

    fn ask(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }

    /// The data until the end of the connection.
    async fn hear(mut stream: TcpStream) -> String {
        let mut data = Vec::new();
        // A connection that is closed with something unread is reset.
        _ = timeout(LONG, stream.read_to_end(&mut data)).await.expect("the connection stays open");
        String::from_utf8(data).unwrap()
    }

    #[tokio::test]
    async fn silent_and_slow_clients_are_disconnected_and_waiting_clients_are_not() {
        let served = Served::start(10, 1, 500, 1_000).await;
        assert_eq!(hear(served.connect("").await).await, "");
        assert_eq!(hear(served.connect("GET / HTTP/1.1\r\nHost: loc").await).await, "");
        // Longer than both limits; and closed when nothing else is asked.
        let slow = hear(served.connect(&ask("/slow")).await).await;
        assert!(slow.starts_with("HTTP/1.1 200") && slow.ends_with("slow"), "{slow}");
        let half = ask("/") + "GET / HTTP";
        let answered = hear(served.connect(&half).await).await;
        assert!(answered.contains("fine"), "{answered}");
    }

    #[tokio::test]
    async fn connections_are_bounded_and_the_next_one_waits() {
        let served = Served::start(2, 0, 60_000, 60_000).await;
        let mut held = [served.connect("").await, served.connect("").await];
        // Both are served, and not only in the queue.
        for stream in &mut held {
            stream.write_all(ask("/").as_bytes()).await.unwrap();
            timeout(LONG, stream.read(&mut [0; 4])).await.unwrap().unwrap();
        }
        let mut third = served.connect(&ask("/")).await;
        // Others are served again and again meanwhile.
        for round in 0..20 {
            let stream = &mut held[round % 2];
            stream.write_all(ask("/").as_bytes()).await.unwrap();
            timeout(LONG, stream.read(&mut [0; 400])).await.unwrap().unwrap();
        }
        let early = third.try_read(&mut [0; 4]).unwrap_err();
        assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock, "there is no room");
        drop(held);
        let mut first = [0; 12];
        timeout(LONG, third.read_exact(&mut first)).await.unwrap().unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    }

    #[tokio::test]
    async fn overflow_connections_get_one_answer() {
        let served = Served::start(1, 1, 2_000, 60_000).await;
        let mut held = served.connect(&ask("/")).await;
        timeout(LONG, held.read(&mut [0; 4])).await.unwrap().unwrap();
        for _ in 0..3 {
            let answer = hear(served.connect(&(ask("/") + &ask("/"))).await).await;
            assert!(answer.ends_with("overflow") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
        }
        // A silent client does not keep the next one waiting for long, nor does one that sends half a body.
        let _silent = served.connect("").await;
        assert!(hear(served.connect(&ask("/")).await).await.ends_with("overflow"));
        let half = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabc";
        let _slow = served.connect(half).await;
        assert!(hear(served.connect(&ask("/")).await).await.ends_with("overflow"));
    }

    #[tokio::test]
    async fn requests_that_have_begun_are_finished_before_the_server_stops() {
        let served = Served::start(10, 1, 60_000, 60_000).await;
        let idle = served.connect("").await;
        let mut slow = served.connect(&ask("/slow")).await;
        timeout(LONG, served.begun.notified()).await.unwrap();
        served.shutdown.send(true).unwrap();
        assert_eq!(hear(idle).await, "");
        let mut first = [0; 12];
        timeout(LONG, slow.read_exact(&mut first)).await.unwrap().unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        timeout(LONG, served.server).await.unwrap().unwrap();
    }

    #[test]
    fn half_of_the_file_descriptors_are_left() {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let Limits { most, overflow, .. } = Limits::of_this_process();
        assert!(most > 0 && overflow > 0 && (most + overflow) as u64 <= files.max(4) / 2);
    }
}
