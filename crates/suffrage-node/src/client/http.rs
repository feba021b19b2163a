//! One HTTP/1.1 exchange over a Unix socket: as much of the protocol as a node uses.

use std::io;

use serde_json::Value;
use tokio::net::UnixStream;

/// The longest head of a response, and the longest line of a stream, in bytes.
const LONGEST: usize = 64 * 1024;

/// The bytes of a request.
pub(super) fn request(method: &str, path: &str, body: Option<&Value>, stays_open: bool) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let connection = if stays_open { "keep-alive" } else { "close" };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n{kind}Content-Length: {length}\r\n\r\n\
         {body}"
    )
    .into_bytes()
}

/// What comes next in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// This many bytes of a body whose length is known.
    Length(u64),
    /// The line with the length of a chunk.
    ChunkHead,
    /// This many bytes of a chunk.
    Chunk(u64),
    /// The end of line after a chunk.
    ChunkTail,
    /// Whatever comes until the connection closes.
    UntilClose,
    Ended,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer is not that of a node: {what}"))
}

/// The bytes of a response, decoded as they come.
#[derive(Debug)]
struct Decoder {
    received: Vec<u8>,
    body: Vec<u8>,
    framing: Framing,
}

impl Decoder {
    /// Moves what has arrived of the body, without the marks of chunks.
    fn decode(&mut self) -> io::Result<()> {
        loop {
            match self.framing {
                Framing::Ended => return Ok(()),
                Framing::UntilClose => {
                    self.body.append(&mut self.received);
                    return Ok(());
                }
                Framing::Length(0) => self.framing = Framing::Ended,
                Framing::Chunk(0) => self.framing = Framing::ChunkTail,
                Framing::Length(left) | Framing::Chunk(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.received.len());
                    if count == 0 {
                        return Ok(());
                    }
                    self.body.extend(self.received.drain(..count));
                    let left = left - count as u64;
                    self.framing = match self.framing {
                        Framing::Length(_) => Framing::Length(left),
                        _ => Framing::Chunk(left),
                    };
                }
                Framing::ChunkHead | Framing::ChunkTail => {
                    let Some(end) = self.received.iter().position(|byte| *byte == b'\n') else {
                        return if self.received.len() > LONGEST {
                            Err(malformed("a long line"))
                        } else {
                            Ok(())
                        };
                    };
                    let line: Vec<u8> = self.received.drain(..=end).collect();
                    let line = str::from_utf8(&line).map_err(|_| malformed("a chunk"))?.trim_end();
                    if self.framing == Framing::ChunkTail {
                        self.framing = if line.is_empty() { Framing::ChunkHead } else { Framing::Ended };
                        continue;
                    }
                    let digits = line.split(';').next().unwrap_or_default();
                    let length = u64::from_str_radix(digits, 16).map_err(|_| malformed("a chunk"))?;
                    self.framing = if length == 0 { Framing::Ended } else { Framing::Chunk(length) };
                }
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.body.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.body.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

/// A request that was sent, and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    stream: UnixStream,
    status: u16,
    decoder: Decoder,
}

impl Exchange {
    /// Sends the request, and waits for the head of the response.
    pub(super) async fn begin(
        stream: UnixStream,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<Exchange> {
        let bytes = request(method, path, body, false);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            stream.writable().await?;
            match stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let mut received = Vec::new();
        let end = loop {
            if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if received.len() > LONGEST {
                return Err(malformed("a long head"));
            }
            if read(&stream, &mut received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head: Vec<u8> = received.drain(..end + 4).collect();
        let (status, framing) = parse_head(&String::from_utf8_lossy(&head))?;
        Ok(Exchange { stream, status, decoder: Decoder { received, body: Vec::new(), framing } })
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// The next line of the body, without its end. None at the end of the body. Cancel-safe.
    pub(super) async fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            self.decoder.decode()?;
            if let Some(line) = self.decoder.line() {
                return Ok(Some(line));
            }
            if self.decoder.framing == Framing::Ended {
                return Ok(None);
            }
            if self.decoder.body.len() > LONGEST {
                return Err(malformed("a long line"));
            }
            if read(&self.stream, &mut self.decoder.received).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The rest of the body.
    pub(super) async fn rest(&mut self) -> io::Result<Vec<u8>> {
        loop {
            self.decoder.decode()?;
            if self.decoder.framing == Framing::Ended {
                return Ok(std::mem::take(&mut self.decoder.body));
            }
            if self.decoder.body.len() > LONGEST {
                return Err(malformed("a long body"));
            }
            if read(&self.stream, &mut self.decoder.received).await? == 0 {
                return match self.decoder.framing {
                    Framing::UntilClose => Ok(std::mem::take(&mut self.decoder.body)),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }
}

/// Appends what the socket has. Zero at the end of the stream. Cancel-safe.
async fn read(stream: &UnixStream, to: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 4096];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(count) => {
                to.extend_from_slice(&buffer[..count]);
                return Ok(count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The status, and how the body is framed.
fn parse_head(head: &str) -> io::Result<(u16, Framing)> {
    let mut lines = head.lines();
    let status = lines.next().filter(|line| line.starts_with("HTTP/1."));
    let status = status.and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| malformed("no status"))?;
    let mut framing = Framing::UntilClose;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(value.parse().map_err(|_| malformed("its length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            return Ok((status, Framing::ChunkHead));
        }
    }
    Ok((status, framing))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// The answer of a server that sends these parts, each when the one before was read.
    async fn lines(parts: &[&[u8]]) -> io::Result<(u16, Vec<String>)> {
        let (client, mut server) = std::os::unix::net::UnixStream::pair()?;
        client.set_nonblocking(true)?;
        let client = UnixStream::from_std(client)?;
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let server = std::thread::spawn(move || {
            // What is not read when the socket closes would reset the connection.
            _ = server.read(&mut [0; 4096])?;
            for part in parts {
                // A client that has the whole body has gone.
                if server.write_all(&part).is_err() {
                    break;
                }
                std::thread::yield_now();
            }
            io::Result::Ok(())
        });
        let read = async {
            let mut exchange = Exchange::begin(client, "GET", "/x", None).await?;
            let mut lines = Vec::new();
            while let Some(line) = exchange.line().await? {
                lines.push(line);
            }
            Ok((exchange.status(), lines))
        };
        let read = read.await;
        server.join().expect("the server does not panic")?;
        read
    }

    #[tokio::test]
    async fn a_body_is_decoded_however_it_arrives() {
        let chunked: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na\nbc\r\n3;x=y\r\nd\ne\r\n1\r\n\n\r\n0\r\n\r\n";
        let whole = lines(&[chunked]).await.unwrap();
        assert_eq!(whole, (200, vec!["a".to_string(), "bcd".to_string(), "e".to_string()]));
        let bytes: Vec<&[u8]> = chunked.chunks(1).collect();
        assert_eq!(lines(&bytes).await.unwrap(), whole);
        let sized: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\na\nb\nignored\n";
        assert_eq!(lines(&[sized]).await.unwrap(), (404, vec!["a".to_string(), "b".to_string()]));
    }

    #[tokio::test]
    async fn a_stream_that_is_cut_ends_and_garbage_is_an_error() {
        let cut: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na\nb";
        assert_eq!(lines(&[cut]).await.unwrap(), (200, vec!["a".to_string()]));
        for garbage in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200",
            b"",
        ] {
            assert!(lines(&[garbage]).await.is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn a_request_has_a_length_and_the_type_of_its_body() {
        let text = String::from_utf8(request("POST", "/x", Some(&serde_json::json!({})), false)).unwrap();
        assert!(text.ends_with("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), "{text}");
        let text = String::from_utf8(request("GET", "/x", None, true)).unwrap();
        assert!(
            text.starts_with("GET /x HTTP/1.1\r\n") && text.ends_with("Content-Length: 0\r\n\r\n"),
            "{text}"
        );
    }
}
