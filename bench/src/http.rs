//! A minimal HTTP/1.1 client with keep-alive.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

/// A connection to one server, for one request at a time.
pub(crate) struct Connection {
    /// The header Host.
    host: String,
    stream: Stream,
    /// Received bytes that are not consumed yet.
    read: Vec<u8>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The JSON body of an answer with status 200.
    pub(crate) fn success(&self) -> Result<Value, String> {
        let text = String::from_utf8_lossy(&self.body);
        match self.status {
            200 => serde_json::from_str(&text).map_err(|error| format!("{error}: {text}")),
            status => Err(format!("status {status}: {text}")),
        }
    }
}

/// The status and the length from the head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// None for a chunked body.
    length: Option<usize>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { host: address.to_string(), stream: Stream::Tcp(stream), read: Vec::new() })
    }

    /// Connects to a Unix socket.
    pub(crate) async fn open_local(socket: &Path) -> io::Result<Connection> {
        let stream = Stream::Unix(UnixStream::connect(socket).await?);
        Ok(Connection { host: "localhost".to_string(), stream, read: Vec::new() })
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> io::Result<Answer> {
        let (host, length) = (&self.host, body.len());
        self.send(format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    pub(crate) async fn get(&mut self, path: &str) -> io::Result<Answer> {
        let host = &self.host;
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
    }

    async fn send(&mut self, request: String) -> io::Result<Answer> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(request.as_bytes()).await?,
            Stream::Unix(stream) => stream.write_all(request.as_bytes()).await?,
        }
        let end = loop {
            match self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.read_more().await?,
            }
        };
        let head: Vec<u8> = self.read.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let Head { status, length } = parse(&head).ok_or_else(|| invalid(&head))?;
        let body = match length {
            Some(length) => self.take(length).await?,
            None => self.chunks().await?,
        };
        Ok(Answer { status, body })
    }

    async fn read_more(&mut self) -> io::Result<()> {
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream.read_buf(&mut self.read).await?,
            Stream::Unix(stream) => stream.read_buf(&mut self.read).await?,
        };
        match read {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < length {
            self.read_more().await?;
        }
        Ok(self.read.drain(..length).collect())
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                match self.read.windows(2).position(|bytes| bytes == b"\r\n") {
                    Some(end) => break end + 2,
                    None => self.read_more().await?,
                }
            };
            let line = self.take(end).await?;
            let text = String::from_utf8_lossy(&line);
            let length = usize::from_str_radix(text.trim(), 16).map_err(|_| invalid(&text))?;
            let chunk = self.take(length + 2).await?;
            if length == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid HTTP: {what}"))
}

fn parse(head: &str) -> Option<Head> {
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let header = |name: &str| {
        head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let chunked = header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    let length = if chunked {
        None
    } else {
        Some(header("content-length").map_or(Some(0), |length| length.parse().ok())?)
    };
    Some(Head { status, length })
}

/// Base64, the encoding of bytes in the JSON of etcd.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number =
            (0..3).fold(0, |number, place| number << 8 | u32::from(group.get(place).copied().unwrap_or(0)));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_the_body_is_parsed() {
        let head = |headers: &str| parse(&format!("HTTP/1.1 202 Accepted\r\n{headers}\r\n\r\n"));
        assert_eq!(head("content-length: 17"), Some(Head { status: 202, length: Some(17) }));
        assert_eq!(head("Transfer-Encoding: chunked"), Some(Head { status: 202, length: None }));
        assert_eq!(head("x: y"), Some(Head { status: 202, length: Some(0) }));
        assert_eq!(head("Content-Length: many"), None);
        assert_eq!(parse("SSH-2.0-x\r\n\r\n"), None);
    }

    #[test]
    fn base64_is_as_the_standard_has_it() {
        let examples = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (text, coded) in examples {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }

    #[tokio::test]
    async fn several_answers_come_over_one_connection() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut asked = [0; 1_000];
            _ = stream.read(&mut asked).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTT").await.unwrap();
            _ = stream.read(&mut asked).await.unwrap();
            let rest = b"P/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
            stream.write_all(rest).await.unwrap();
        };
        let ask = async {
            let mut connection = Connection::open(address).await.unwrap();
            let first = connection.post("/x", "{}").await.unwrap();
            assert_eq!(first.success().unwrap(), serde_json::json!({}));
            let second = connection.get("/x").await.unwrap();
            assert_eq!((second.status, second.body.as_slice()), (503, b"abcde".as_slice()));
            assert!(second.success().unwrap_err().contains("503: abcde"));
        };
        tokio::join!(serve, ask);
    }
}
