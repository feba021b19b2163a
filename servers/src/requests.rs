//! Counts the requests that a client sends to a server, from the bytes on the wire.

/// The protocol of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC over HTTP/2: a request is a DATA frame of the client, which is one message of etcd's clients.
    Grpc,
    /// PostgreSQL: a request is a round trip, which ends by Query or Sync.
    Postgres,
    /// HTTP/1.1.
    Http,
    /// ZooKeeper: a request is a packet, pings included.
    ZooKeeper,
    /// NATS: a request is a published message.
    Nats,
    /// Redis: a request is a command.
    Redis,
}

/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The code of PostgreSQL's request for TLS, which precedes the first message.
const SSL_REQUEST: u32 = 80_877_103;

/// The requests of one connection.
#[derive(Debug)]
pub struct RequestCounter {
    protocol: Protocol,
    /// Bytes that are not a whole message yet.
    rest: Vec<u8>,
    /// Whether the first message, which has a form of its own, has passed.
    opened: bool,
}

/// One message at the beginning of the bytes.
struct Frame {
    length: usize,
    is_request: bool,
    /// Whether the next message has the usual form.
    opens: bool,
}

fn frame(length: usize, is_request: bool) -> Frame {
    Frame { length, is_request, opens: true }
}

impl RequestCounter {
    /// A connection that has not begun.
    pub fn new(protocol: Protocol) -> RequestCounter {
        RequestCounter { protocol, rest: Vec::new(), opened: false }
    }

    /// The number of requests that these bytes complete.
    pub fn count(&mut self, bytes: &[u8]) -> u64 {
        self.rest.extend_from_slice(bytes);
        let (mut start, mut requests) = (0, 0);
        while let Some(found) = self.next(&self.rest[start..]) {
            if found.length == 0 || start + found.length > self.rest.len() {
                break;
            }
            start += found.length;
            requests += u64::from(found.is_request);
            self.opened |= found.opens;
        }
        self.rest.drain(..start);
        requests
    }

    /// The message at the beginning, which may not be complete. None if not even its length is known.
    fn next(&self, bytes: &[u8]) -> Option<Frame> {
        match self.protocol {
            Protocol::Grpc if !self.opened => Some(frame(PREFACE.len(), false)),
            Protocol::Grpc => {
                let head = bytes.get(..9)?;
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                Some(frame(9 + length, head[3] == 0 && length > 0))
            }
            Protocol::Postgres if !self.opened => {
                let is_tls = bytes.get(4..8).map(|_| number(bytes, 4))? == Some(SSL_REQUEST);
                Some(Frame { length: number(bytes, 0)? as usize, is_request: false, opens: !is_tls })
            }
            Protocol::Postgres => {
                let kind = *bytes.first()?;
                Some(frame(1 + number(bytes, 1)? as usize, kind == b'Q' || kind == b'S'))
            }
            Protocol::Http => {
                let head = find(bytes, b"\r\n\r\n")?;
                let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
                let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length = length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0);
                Some(frame(head + 4 + length, true))
            }
            Protocol::ZooKeeper => Some(frame(4 + number(bytes, 0)? as usize, true)),
            Protocol::Nats => {
                let line = find(bytes, b"\r\n")?;
                let text = String::from_utf8_lossy(&bytes[..line]);
                let mut words = text.split_whitespace();
                let is_message = matches!(words.next(), Some(verb) if ["PUB", "HPUB"].contains(&verb.to_uppercase().as_str()));
                let payload = words.last().filter(|_| is_message).and_then(|size| size.parse::<usize>().ok());
                Some(frame(line + 2 + payload.map_or(0, |size| size + 2), is_message))
            }
            Protocol::Redis => redis_length(bytes).map(|length| frame(length, true)),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

/// The length of a command of Redis: an array of strings.
fn redis_length(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize| -> Option<(usize, usize)> {
        let end = from + find(bytes.get(from..)?, b"\r\n")?;
        let digits = std::str::from_utf8(bytes.get(from + 1..end)?).ok()?;
        Some((end + 2, digits.parse().unwrap_or(0)))
    };
    let (mut at, count) = line(0)?;
    for _ in 0..count {
        let (start, length) = line(at)?;
        at = start + length + 2;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the same bytes at once and byte by byte.
    fn count(protocol: Protocol, bytes: &[u8]) -> u64 {
        let at_once = RequestCounter::new(protocol).count(bytes);
        let mut counter = RequestCounter::new(protocol);
        let one_by_one: u64 = bytes.iter().map(|byte| counter.count(&[*byte])).sum();
        assert_eq!(at_once, one_by_one, "{protocol:?}");
        assert!(counter.rest.is_empty(), "{protocol:?}: {:?}", counter.rest);
        at_once
    }

    #[test]
    fn grpc_messages_are_data_frames() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let (data, end) = ([0, 0, 2, 0, 0, 0, 0, 0, 1, 7, 7], [0, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(count(Protocol::Grpc, &[PREFACE, &settings, &data, &data, &end].concat()), 2);
    }

    #[test]
    fn round_trips_of_postgres_end_by_query_or_sync() {
        let tls = [&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes()].concat();
        let start = [0, 0, 0, 9, 0, 3, 0, 0, 0];
        let (bind, sync, query) = ([b'B', 0, 0, 0, 5, 1], [b'S', 0, 0, 0, 4], [b'Q', 0, 0, 0, 6, b'x', 0]);
        assert_eq!(count(Protocol::Postgres, &[&tls[..], &start, &bind, &sync, &query].concat()), 2);
        assert_eq!(count(Protocol::Postgres, &[&start[..], &bind, &sync].concat()), 1);
    }

    #[test]
    fn requests_over_http_have_bodies() {
        let bytes = b"PUT /v1/kv/a HTTP/1.1\r\nContent-Length: 9\r\n\r\n\r\n\r\nGET /GET /b HTTP/1.1\r\n\r\n";
        assert_eq!(count(Protocol::Http, bytes), 2);
    }

    #[test]
    fn packets_of_zookeeper_have_lengths() {
        assert_eq!(count(Protocol::ZooKeeper, &[0, 0, 0, 2, 9, 9, 0, 0, 0, 1, 9]), 2);
    }

    #[test]
    fn messages_of_nats_are_published() {
        let bytes = b"CONNECT {}\r\nPING\r\nPUB a.b in.1 5\r\nPUB x\r\nHPUB a 2 4\r\nabcd\r\nSUB a 1\r\n";
        assert_eq!(count(Protocol::Nats, bytes), 2);
    }

    #[test]
    fn commands_of_redis_are_arrays() {
        let bytes = b"*2\r\n$4\r\nEVAL\r\n$6\r\n*1\r\n$4\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(count(Protocol::Redis, bytes), 2);
    }
}
