//! Tests against a server that answers as a test wants, with a clock that a test moves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::grpc::{Message, number};
use crate::recipe::Grant;
use crate::{Clock, Moment};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);
/// The create revision of the candidate's key.
const CREATED: i64 = 7;

/// What the server answers.
#[derive(Default)]
struct State {
    now: AtomicU64,
    /// How long each request takes by the clock, in seconds.
    latency: AtomicU64,
    /// The key of the candidate, if it is there.
    entry: Mutex<Option<(Vec<u8>, i64)>>,
    /// The terms in the answers to renewals and reads.
    renewal_term: AtomicI64,
    read_term: AtomicI64,
    seconds: AtomicI64,
    /// Transactions have no reply.
    is_silent: AtomicBool,
    /// The paths of all requests.
    calls: Mutex<Vec<String>>,
}

#[derive(Clone, Default)]
struct FakeServer(Arc<State>);

impl Clock for FakeServer {
    fn now(&self) -> Moment {
        Duration::from_secs(self.0.now.load(Ordering::SeqCst))
    }
}

impl FakeServer {
    fn header(term: &AtomicI64) -> Message {
        Message::new().number(3, CREATED).number(4, term.load(Ordering::SeqCst))
    }

    fn entry(&self) -> Message {
        match &*self.0.entry.lock().unwrap() {
            None => Message::new(),
            Some((key, lease)) => {
                let entry = Message::new().bytes(1, key).number(2, CREATED).number(6, *lease);
                Message::new().message(2, &entry)
            }
        }
    }

    fn answer(&self, path: &str, request: &[u8]) -> Message {
        self.0.now.fetch_add(self.0.latency.load(Ordering::SeqCst), Ordering::SeqCst);
        let seconds = self.0.seconds.load(Ordering::SeqCst);
        match path {
            api::LEASE_GRANT => {
                let lease = number(request, 2);
                *self.0.entry.lock().unwrap() = Some((key_of(b"name/", lease), lease));
                Message::new().number(2, lease).number(3, seconds)
            }
            api::LEASE_KEEP_ALIVE => {
                let header = FakeServer::header(&self.0.renewal_term);
                Message::new().message(1, &header).number(2, number(request, 1)).number(3, seconds)
            }
            api::TXN => {
                let range = Message::new().message(1, &self.entry());
                let header = FakeServer::header(&self.0.read_term);
                Message::new().message(1, &header).number(2, 1).message(3, &range).message(3, &range)
            }
            _ => Message::new(),
        }
    }

    async fn serve(self, request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>) {
        let path = request.uri().path().to_string();
        let mut body = request.into_body();
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        let mut read = BytesMut::new();
        while let Some(Ok(data)) = body.data().await {
            read.extend_from_slice(&data);
            if data.is_empty() {
                continue;
            }
            self.0.calls.lock().unwrap().push(path.clone());
            if path == api::TXN && self.0.is_silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            // Requests are small: each comes in one piece.
            if path != api::WATCH {
                stream.send_data(self.answer(&path, &read.split().freeze()[5..]).framed(), false).unwrap();
            }
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        _ = stream.send_trailers(trailers);
    }

    async fn run(self, stream: TcpStream) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::spawn(self.clone().serve(request, respond));
        }
    }

    /// Starts the server.
    async fn start(&self) -> Etcd {
        self.0.seconds.store(TTL.as_secs() as i64, Ordering::SeqCst);
        let listener = TcpListener::bind(suffrage_testbed::address()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().run(stream));
            }
        });
        connect(&format!("etcd://{address}")).unwrap()
    }

    fn candidate(&self, etcd: &Etcd) -> Box<dyn Candidate> {
        let (name, identity) = ("name".into(), "me".into());
        etcd.candidate(Wish { name, identity, ttl: TTL, drift: 0.0, clock: Arc::new(self.clone()) })
    }

    /// Starts the server, and a candidate that leads.
    async fn leader(&self) -> (Box<dyn Candidate>, Grant) {
        let mut candidate = self.candidate(&self.start().await);
        let grant = candidate.campaign().await.unwrap();
        (candidate, grant)
    }

    /// How many of these requests have arrived.
    fn count(&self, path: &str) -> usize {
        self.0.calls.lock().unwrap().iter().filter(|call| *call == path).count()
    }
}

/// A lease counts from before its request: the server may have counted from then on.
#[tokio::test]
async fn validity_counts_from_before_the_request() {
    let server = FakeServer::default();
    server.0.latency.store(1, Ordering::SeqCst);
    let (mut candidate, grant) = server.leader().await;
    // The connection has taken a second as well.
    assert_eq!(grant, Grant { token: 7, valid_until: TTL });
    let before = server.now();
    let renewed = candidate.renew().await.unwrap();
    assert_eq!(renewed.valid_until, before + TTL);
    assert_eq!(server.now(), before + 2 * SECOND, "a renewal and a read");
}

/// A server that was paused renews leases although another one leads: such a renewal does not count.
#[tokio::test]
async fn a_renewal_by_a_server_that_does_not_lead_does_not_count() {
    let server = FakeServer::default();
    let (mut candidate, _) = server.leader().await;
    server.0.read_term.store(1, Ordering::SeqCst);
    assert!(matches!(candidate.renew().await, Err(Error::Unavailable { .. })));
    server.0.renewal_term.store(1, Ordering::SeqCst);
    assert!(candidate.renew().await.is_ok());
}

/// A server may deny a lease that exists, right after it began to lead. A read of the key decides.
#[tokio::test]
async fn an_unknown_lease_ends_the_leadership_only_without_the_key() {
    let server = FakeServer::default();
    let (mut candidate, _) = server.leader().await;
    server.0.seconds.store(0, Ordering::SeqCst);
    assert!(matches!(candidate.renew().await, Err(Error::Unavailable { .. })));
    *server.0.entry.lock().unwrap() = None;
    assert!(matches!(candidate.renew().await, Err(Error::Ended { .. })));
}

/// The lease was renewed, and the key is gone: nobody leads by a lease alone.
#[tokio::test]
async fn a_lease_without_its_key_is_no_leadership() {
    let server = FakeServer::default();
    let (mut candidate, _) = server.leader().await;
    *server.0.entry.lock().unwrap() = None;
    assert!(matches!(candidate.renew().await, Err(Error::Ended { .. })));
}

fn connect(url: &str) -> Result<Etcd, Error> {
    Etcd::new(Url::parse(url).unwrap())
}

/// A candidate leaves its lease to the next one of this program, which needs one request to lead.
#[tokio::test]
async fn a_lease_is_used_again() {
    let server = FakeServer::default();
    let etcd = server.start().await;
    for _ in 0..3 {
        let mut candidate = server.candidate(&etcd);
        candidate.campaign().await.unwrap();
        candidate.withdraw().await.unwrap();
    }
    let counts = [api::LEASE_GRANT, api::TXN, api::LEASE_REVOKE].map(|path| server.count(path));
    assert_eq!(counts, [1, 6, 0]);
    // It is too old to lead by.
    server.0.now.fetch_add(TTL.as_secs() / 3, Ordering::SeqCst);
    server.candidate(&etcd).campaign().await.unwrap();
    assert_eq!(server.count(api::LEASE_GRANT), 2);
}

/// A put without a reply may happen later: its lease is revoked, so that it fails then, and nobody uses that lease again.
#[tokio::test]
async fn a_lease_with_a_put_in_doubt_is_revoked() {
    let server = FakeServer::default();
    let etcd = server.start().await;
    server.0.is_silent.store(true, Ordering::SeqCst);
    let mut candidate = server.candidate(&etcd);
    tokio::select! {
        _ = candidate.campaign() => panic!("it cannot know that it leads"),
        () = async {
            while server.count(api::TXN) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        } => {}
    }
    server.0.is_silent.store(false, Ordering::SeqCst);
    // The next campaign finds the key.
    candidate.campaign().await.unwrap();
    candidate.withdraw().await.unwrap();
    assert_eq!((server.count(api::LEASE_GRANT), server.count(api::LEASE_REVOKE)), (1, 1));
    server.candidate(&etcd).campaign().await.unwrap();
    assert_eq!(server.count(api::LEASE_GRANT), 2);
}

#[test]
fn a_wrong_url_is_refused_with_its_reason() {
    for (url, reason) in [
        ("etcd://a?tls=perhaps", "true or false"),
        ("etcd://a?cert=/x", "need each other"),
        ("etcd://a?cacert=/no/such/file", "/no/such/file"),
        ("etcd://me@a", "has no password"),
        ("etcd://a?ttl=3", "knows no parameter `ttl`; parameters: cacert, cert, key"),
    ] {
        let error = connect(url).err().expect(url).to_string();
        assert!(error.contains(reason), "{url}: {error}");
    }
    assert!(connect("etcd://me:secret@a,b:1/prefix").is_ok());
}

#[test]
fn keys_are_those_of_the_go_client() {
    let prefix = |url: &str| connect(url).unwrap().shared.prefix_of("name");
    assert_eq!(prefix("etcd://a"), b"name/");
    assert_eq!(prefix("etcd://a/some/prefix/"), b"some/prefix/name/");
    assert_eq!(prefix("etcd://a//rooted"), b"/rooted/name/");
    assert_eq!(key_of(b"name/", 0x6b3a), b"name/6b3a");
}

#[test]
fn old_servers_and_strange_keys_are_remarked() {
    for (version, mended) in [
        ("3.3.27", false),
        ("3.4.23", false),
        ("3.4.31", true),
        ("3.5.12", false),
        ("3.5.13", true),
        ("3.6.0", true),
        ("3.6.0-rc.1", true),
        ("", true),
    ] {
        assert_eq!(remark_on_version(version).is_none(), mended, "{version}");
    }
    let remark = |key: &str, lease| {
        let entry = Entry { key: key.into(), value: Vec::new(), create_revision: 1, lease };
        remark_on_key(b"name/", &entry).unwrap_or_default()
    };
    assert_eq!(remark("name/1f", 0x1f), "");
    assert!(remark("name/1f", 0).contains("bound to no lease"));
    assert!(remark("name/other/1f", 0x1f).contains("counts as a candidate here"));
    assert!(remark("name/master", 0x1f).contains("unknown recipe"));
}
