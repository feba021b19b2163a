//! Connections of HTTP: no more than there is room for, and none that is held for nothing.
//!
//! ```text
//!   connect ──▶ first request ──▶ answer ──▶ next request ──▶ ..
//!      within `first`      as long as it takes      within `idle`
//! ```
//!
//! Long polls and server-sent events are answers, and take as long as they take. Whoever connects while there is
//! no room is a [`Guest`]: answered once, and at once. So health checks and renewals get through whoever waits. When
//! there is no room for guests either, one waits in the system's queue.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// The most connections, however many files the process may open.
const MOST_CONNECTIONS: u64 = 1_024;

/// Marks a request of one who is not to be kept waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest;

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many there are at once.
    most: usize,
    /// How many guests besides.
    guests: usize,
    /// How long the head of the first request may take.
    first: Duration,
    /// How long that of a later one, from the answer before.
    idle: Duration,
    /// How long the head of a guest's request may take.
    brief: Duration,
}

impl Limits {
    /// As many connections as leave half of the files that the process may open for other things: a voter that
    /// cannot open one cannot save. Idle ones live longer than it is between two renewals of any usual lease.
    pub(super) fn of_this_process() -> Limits {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (files / 2).clamp(2, MOST_CONNECTIONS) as usize;
        let guests = most.div_ceil(16);
        Limits {
            most: most - guests,
            guests,
            first: Duration::from_secs(10),
            idle: Duration::from_secs(65),
            brief: Duration::from_secs(2),
        }
    }
}

/// Answers those who connect, until it is told not to; then finishes what it has begun.
pub(super) async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    limits: Limits,
    mut told: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(limits.most));
    let parlour = Arc::new(Semaphore::new(limits.guests));
    let mut connections = JoinSet::new();
    let stop = told.clone();
    loop {
        let next = async {
            let (place, guest) = tokio::select! {
                biased;
                place = Arc::clone(&room).acquire_owned() => (place, false),
                place = Arc::clone(&parlour).acquire_owned() => (place, true),
            };
            (listener.accept().await.0, place, guest)
        };
        tokio::select! {
            () = until_told(&mut told) => break,
            Some(_) = connections.join_next() => {}
            (stream, place, guest) = next => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    let conversation = converse(stream, router, limits, guest, stop);
                    if guest {
                        // However long the rest of the request takes, or the answer.
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

/// An error means that the daemon is gone, without a word.
async fn until_told(told: &mut watch::Receiver<bool>) {
    _ = told.wait_for(|told| *told).await;
}

/// Answers one who has connected.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    guest: bool,
    mut told: watch::Receiver<bool>,
) {
    let asked = AtomicBool::new(false);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        if guest {
            request.extensions_mut().insert(Guest);
        }
        router.call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle).keep_alive(!guest);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut first = pin!(sleep(if guest { limits.brief } else { limits.first }));
    let (mut waits, mut stops) = (true, false);
    loop {
        tokio::select! {
            // What has been said in time counts, also if this is late to hear it.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    // Anybody can do that as often as they like: not for the log of every day.
                    debug!("a connection ended early: {error}");
                }
                return;
            }
            () = &mut first, if waits => {
                if !asked.load(Ordering::Relaxed) {
                    return debug!("a connection ended early: nothing was asked in time");
                }
                waits = false;
            }
            () = until_told(&mut told), if !stops => {
                connection.as_mut().graceful_shutdown();
                stops = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Extension;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    struct Served {
        address: SocketAddr,
        told: watch::Sender<bool>,
        server: JoinHandle<()>,
    }

    impl Served {
        async fn start(most: usize, guests: usize, first: u64, idle: u64) -> Served {
            let (first, idle) = (Duration::from_millis(first), Duration::from_millis(idle));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let slow = || async {
                sleep(Duration::from_millis(1_500)).await;
                "slow"
            };
            let who = |guest: Option<Extension<Guest>>| async move {
                if guest.is_some() { "a guest" } else { "fine" }
            };
            let echo = post(|said: String| async { said });
            let router = Router::new().route("/", get(who)).route("/slow", get(slow)).route("/echo", echo);
            let (told, stop) = watch::channel(false);
            let limits = Limits { most, guests, first, idle, brief: first };
            let server = tokio::spawn(serve(listener, router, limits, stop));
            Served { address, told, server }
        }

        async fn connect(&self, said: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            stream
        }
    }

    fn ask(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }

    /// What is said until the connection is closed.
    async fn hear(mut stream: TcpStream) -> String {
        let mut said = Vec::new();
        // A connection that is closed with something unread is reset.
        _ = timeout(LONG, stream.read_to_end(&mut said)).await.expect("it is held for ever");
        String::from_utf8(said).unwrap()
    }

    #[tokio::test]
    async fn whoever_says_nothing_or_half_a_request_is_sent_away_and_whoever_waits_is_not() {
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
    async fn there_are_so_many_connections_at_most_and_the_next_waits_for_room() {
        let served = Served::start(2, 0, 60_000, 60_000).await;
        let mut held = [served.connect("").await, served.connect("").await];
        // Both are served, and not only in the queue.
        for stream in &mut held {
            stream.write_all(ask("/").as_bytes()).await.unwrap();
            timeout(LONG, stream.read(&mut [0; 4])).await.unwrap().unwrap();
        }
        let mut third = served.connect(&ask("/")).await;
        let early = timeout(Duration::from_millis(300), third.read(&mut [0; 4])).await;
        assert!(early.is_err(), "there is no room");
        drop(held);
        let mut first = [0; 12];
        timeout(LONG, third.read_exact(&mut first)).await.unwrap().unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    }

    #[tokio::test]
    async fn whoever_comes_when_all_places_are_taken_is_answered_once_and_known_for_a_guest() {
        let served = Served::start(1, 1, 2_000, 60_000).await;
        let mut held = served.connect(&ask("/")).await;
        timeout(LONG, held.read(&mut [0; 4])).await.unwrap().unwrap();
        for _ in 0..3 {
            let answer = hear(served.connect(&(ask("/") + &ask("/"))).await).await;
            assert!(answer.ends_with("a guest") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
        }
        // One that says nothing does not keep the next waiting for long, nor one that does not say all.
        let _silent = served.connect("").await;
        assert!(hear(served.connect(&ask("/")).await).await.ends_with("a guest"));
        let half = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabc";
        let _slow = served.connect(half).await;
        assert!(hear(served.connect(&ask("/")).await).await.ends_with("a guest"));
    }

    #[tokio::test]
    async fn what_has_begun_is_finished_before_it_stops() {
        let served = Served::start(10, 1, 60_000, 60_000).await;
        let idle = served.connect("").await;
        let mut slow = served.connect(&ask("/slow")).await;
        sleep(Duration::from_millis(200)).await;
        served.told.send(true).unwrap();
        assert_eq!(hear(idle).await, "");
        let mut first = [0; 12];
        timeout(LONG, slow.read_exact(&mut first)).await.unwrap().unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        timeout(LONG, served.server).await.unwrap().unwrap();
    }

    #[test]
    fn files_are_left_for_other_things() {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let Limits { most, guests, .. } = Limits::of_this_process();
        assert!(most > 0 && guests > 0 && (most + guests) as u64 <= files.max(4) / 2);
    }
}
