//! The HTTP server of the playground: the page, a stream of states, and actions.
//!
//! The server listens on loopback. The state and the actions need the random token that is in the address of the page,
//! behind `#`, where browsers send it to nobody; the page sends it as a bearer token. A page of another origin cannot send
//! that header (CSRF), and Host must be `localhost` or an IP address (DNS rebinding).
//!
//! Each connection has a thread, and their number is limited. A stream sends the latest state only: a slow browser misses
//! states and holds none.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::json;
use suffrage_web::{CONTENT_SECURITY_POLICY, PLAYGROUND};

use crate::Error;

/// The most connections at a time.
const MOST_CONNECTIONS: usize = 32;
/// The longest head of a request, and the longest body, in bytes.
const LONGEST_HEAD: u64 = 16 * 1024;
const LONGEST_BODY: usize = 1024;
/// The time for a request, and for a write to a browser that does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// The least time between two states of a stream.
const PACE: Duration = Duration::from_millis(50);
/// The time after which an unchanged state is sent again: a stream that ends is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// An action of the page, and where its result goes.
pub(super) struct Action {
    pub(super) text: String,
    pub(super) result: Sender<Result<(), String>>,
}

/// The latest state of the playground.
#[derive(Default)]
struct State {
    text: Mutex<(u64, Arc<str>)>,
    changed: Condvar,
}

/// The server. It ends with the process.
pub(super) struct Server {
    state: Arc<State>,
    actions: Receiver<Action>,
    address: String,
}

/// What the threads of connections share.
struct Shared {
    state: Arc<State>,
    actions: Mutex<Sender<Action>>,
    token: String,
    connections: AtomicUsize,
}

impl Server {
    /// Listens on loopback, on any port.
    pub(super) fn start() -> Result<Server, Error> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let token = random_token()?;
        let address = format!("http://{}/#{token}", listener.local_addr()?);
        let (sender, actions) = channel();
        let state = Arc::new(State { text: Mutex::new((0, Arc::from("null"))), changed: Condvar::new() });
        let shared = Arc::new(Shared {
            state: Arc::clone(&state),
            actions: Mutex::new(sender),
            token,
            connections: AtomicUsize::new(0),
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                if shared.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                    // The browser tries again.
                    shared.connections.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                thread::spawn(move || {
                    // An error means that the browser has hung up, or has sent nonsense.
                    _ = shared.converse(&stream);
                    shared.connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(Server { state, actions, address })
    }

    /// The address of the page, with the token.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Publishes a state.
    pub(super) fn publish(&self, state: String) {
        let mut latest = lock(&self.state.text);
        if *latest.1 != *state {
            *latest = (latest.0 + 1, state.into());
            self.state.changed.notify_all();
        }
    }

    /// The next action of the page, if there is one.
    pub(super) fn action(&self) -> Option<Action> {
        self.actions.try_recv().ok()
    }
}

/// A request, with the parts of it that matter here.
struct Request {
    method: String,
    path: String,
    host: Option<String>,
    bearer: Option<String>,
    length: usize,
}

impl Request {
    fn read(reader: &mut BufReader<io::Take<&TcpStream>>) -> io::Result<Request> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::other("no request"));
        };
        let path = target.split('?').next().unwrap_or_default().to_string();
        let (mut host, mut bearer, mut length) = (None, None, 0);
        let method = method.to_string();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::Error::other("the head ends early"));
            }
            let Some((name, value)) = line.split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "host" => host = Some(value.to_string()),
                "authorization" => bearer = value.strip_prefix("Bearer ").map(str::to_string),
                "content-length" => length = value.parse().unwrap_or(usize::MAX),
                _ => {}
            }
        }
        Ok(Request { method, path, host, bearer, length })
    }

    /// Whether Host is `localhost` or an IP address.
    fn is_local(&self) -> bool {
        let Some(host) = &self.host else { return true };
        let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        name.eq_ignore_ascii_case("localhost")
            || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl Shared {
    /// Answers one request.
    fn converse(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(stream.take(LONGEST_HEAD));
        let request = Request::read(&mut reader)?;
        if !request.is_local() {
            return refuse(
                stream,
                "421 Misdirected Request",
                "Host is neither localhost nor a loopback address",
            );
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") => send_file(stream, "playground/index.html"),
            ("GET", path) if path.starts_with("/page/") => send_file(stream, &path["/page/".len()..]),
            _ if !self.is_authenticated(&request) => refuse(
                stream,
                "401 Unauthorized",
                "open the address that the demo has printed: it has the token",
            ),
            ("GET", "/state") => self.stream_states(stream),
            ("POST", "/action") if request.length <= LONGEST_BODY => {
                let mut body = vec![0; request.length];
                reader.read_exact(&mut body)?;
                self.act(stream, String::from_utf8_lossy(&body).into_owned())
            }
            _ => refuse(stream, "404 Not Found", "there is no such endpoint"),
        }
    }

    fn is_authenticated(&self, request: &Request) -> bool {
        let Some(bearer) = &request.bearer else { return false };
        // In constant time.
        let differences = bearer.bytes().zip(self.token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        bearer.len() == self.token.len() && differences == 0
    }

    fn act(&self, stream: &TcpStream, text: String) -> io::Result<()> {
        let (result, done) = channel();
        let gone = || io::Error::other("the demo has ended");
        lock(&self.actions).send(Action { text, result }).map_err(|_| gone())?;
        match done.recv_timeout(PATIENCE).map_err(|_| gone())? {
            Ok(()) => send(stream, "200 OK", "application/json", b"{}"),
            Err(reason) => refuse(stream, "409 Conflict", &reason),
        }
    }

    /// Sends the latest state whenever it has changed, until the browser hangs up.
    fn stream_states(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.write_all(head("200 OK", "text/event-stream", None).as_bytes())?;
        let mut seen = 0;
        loop {
            let state = {
                let latest = lock(&self.state.text);
                let waited =
                    self.state.changed.wait_timeout_while(latest, KEEP_ALIVE, |latest| latest.0 == seen);
                let (latest, _) = waited.unwrap_or_else(PoisonError::into_inner);
                seen = latest.0;
                Arc::clone(&latest.1)
            };
            stream.write_all(format!("event: state\ndata: {state}\n\n").as_bytes())?;
            thread::sleep(PACE);
        }
    }
}

fn send_file(stream: &TcpStream, path: &str) -> io::Result<()> {
    match PLAYGROUND.iter().find(|file| file.path == path) {
        Some(file) => send(stream, "200 OK", file.media_type, file.text.as_bytes()),
        None => refuse(stream, "404 Not Found", "the page has no such file"),
    }
}

fn refuse(stream: &TcpStream, status: &str, reason: &str) -> io::Result<()> {
    send(stream, status, "application/json", json!({ "error": reason }).to_string().as_bytes())
}

fn send(mut stream: &TcpStream, status: &str, media_type: &str, body: &[u8]) -> io::Result<()> {
    stream.write_all(head(status, media_type, Some(body.len())).as_bytes())?;
    stream.write_all(body)
}

fn head(status: &str, media_type: &str, length: Option<usize>) -> String {
    let length = length.map_or(String::new(), |length| format!("Content-Length: {length}\r\n"));
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\n{length}Connection: close\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {CONTENT_SECURITY_POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\n\r\n"
    )
}

/// 128 random bits in hexadecimal digits.
fn random_token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Failed(format!("no random token: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a request and returns the answer until the end of the connection, or until this text has come.
    fn ask(address: &str, request: &str, until: &str) -> String {
        let address = address.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let (mut answer, mut part) = (String::new(), [0; 4096]);
        while until.is_empty() || !answer.contains(until) {
            match stream.read(&mut part).unwrap() {
                0 => break,
                length => answer += &String::from_utf8_lossy(&part[..length]),
            }
        }
        answer
    }

    fn token(server: &Server) -> &str {
        server.address().split_once('#').unwrap().1
    }

    #[test]
    fn the_page_needs_no_token_and_all_else_does() {
        let server = Server::start().unwrap();
        let page = ask(server.address(), "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "");
        assert!(
            page.starts_with("HTTP/1.1 200") && page.contains("Content-Security-Policy: default-src 'none'")
        );
        assert!(!page.contains(token(&server)));
        for request in ["GET /state", "POST /action", "GET /other"] {
            for bearer in ["", "Authorization: Bearer wrong\r\n", "Authorization: Bearer \r\n"] {
                let answer = ask(
                    server.address(),
                    &format!("{request} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n"),
                    "",
                );
                assert!(answer.starts_with("HTTP/1.1 401"), "{request}: {answer}");
            }
        }
        assert!(server.action().is_none());
    }

    #[test]
    fn a_foreign_host_is_refused_also_with_the_token() {
        let server = Server::start().unwrap();
        let bearer = format!("Authorization: Bearer {}", token(&server));
        for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1"] {
            for path in ["/", "/state"] {
                let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n\r\n");
                assert!(ask(server.address(), &request, "").starts_with("HTTP/1.1 421"), "{host}");
            }
        }
    }

    #[test]
    fn states_and_actions_pass_with_the_token() {
        let server = Server::start().unwrap();
        server.publish(r#"{"first":1}"#.to_string());
        let bearer = format!("Host: [::1]:80\r\nAuthorization: Bearer {}", token(&server));
        let states = ask(server.address(), &format!("GET /state HTTP/1.1\r\n{bearer}\r\n\r\n"), "first");
        assert!(states.contains("event: state\ndata: {\"first\":1}\n"), "{states}");
        let request = format!("POST /action HTTP/1.1\r\n{bearer}\r\nContent-Length: 2\r\n\r\nhi");
        let answer = thread::scope(|scope| {
            let address = server.address().to_string();
            let asked = scope.spawn(move || ask(&address, &request, ""));
            let action = loop {
                match server.action() {
                    Some(action) => break action,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(action.text, "hi");
            action.result.send(Err("it is dead".to_string())).unwrap();
            asked.join().unwrap()
        });
        assert!(answer.starts_with("HTTP/1.1 409") && answer.contains("it is dead"), "{answer}");
        let long = format!("POST /action HTTP/1.1\r\n{bearer}\r\nContent-Length: 99999999999\r\n\r\n");
        assert!(ask(server.address(), &long, "").starts_with("HTTP/1.1 404"));
    }
}
