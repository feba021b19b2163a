//! A minimal gRPC client: protocol buffers over HTTP/2. Public for the benchmark of this project only.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

/// The status code of a call whose connection has failed.
pub const UNAVAILABLE: u32 = 14;
/// No answer is longer.
const LONGEST_MESSAGE: usize = 64 << 20;
/// The window of a stream and of a connection.
const WINDOW: u32 = 1 << 20;

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code of gRPC.
    pub code: u32,
    /// The text of the server, or the failure of the connection.
    pub message: String,
}

impl Status {
    fn unavailable(message: impl Into<String>) -> Status {
        Status { code: UNAVAILABLE, message: message.into() }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (gRPC status {})", self.message, self.code)
    }
}

impl From<Status> for String {
    fn from(status: Status) -> String {
        status.to_string()
    }
}

impl From<h2::Error> for Status {
    fn from(error: h2::Error) -> Status {
        Status::unavailable(format!("HTTP/2: {error}"))
    }
}

/// A connection to one server, with concurrent calls. Clones share the connection.
#[derive(Clone)]
pub struct Channel {
    origin: Arc<str>,
    requests: SendRequest<Bytes>,
    metadata: HeaderMap,
    connection: AbortHandle,
}

impl Channel {
    /// Speaks HTTP/2 on a connection. The origin is like `http://host:port`.
    pub async fn open<S>(stream: S, origin: &str) -> Result<Channel, Status>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut settings = h2::client::Builder::new();
        // A stream of renewals has many small frames.
        settings.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        settings.data_frame_budget(usize::MAX).enable_push(false);
        let (requests, connection) = settings.handshake(stream).await?;
        // If the connection fails, its calls fail.
        let connection = crate::tasks::spawn(async move { _ = connection.await }).abort_handle();
        Ok(Channel { origin: origin.into(), requests, metadata: HeaderMap::new(), connection })
    }

    /// Adds metadata to all calls of this clone. The value is never shown.
    pub fn with(mut self, name: &'static str, value: &str) -> Result<Channel, Status> {
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| Status::unavailable(format!("`{name}` is no metadata")))?;
        value.set_sensitive(true);
        self.metadata.insert(name, value);
        Ok(self)
    }

    /// Whether the connection works.
    pub fn is_open(&self) -> bool {
        !self.connection.is_finished()
    }

    /// Closes the connection. The calls of all clones fail at once.
    pub fn close(&self) {
        self.connection.abort();
    }

    /// A unary call.
    pub async fn call(&self, path: &str, message: &Message) -> Result<Bytes, Status> {
        let (mut request, mut answers) = self.begin(path).await?;
        request.send_data(message.framed(), true)?;
        let answer = answers.next().await?;
        let answer = answer.ok_or_else(|| Status::unavailable(format!("{path}: no answer")))?;
        // The status follows the answer.
        match answers.next().await? {
            None => Ok(answer),
            Some(_) => Err(Status::unavailable(format!("{path}: two answers"))),
        }
    }

    /// A bidirectional stream.
    pub async fn stream(&self, path: &str) -> Result<(Requests, Answers), Status> {
        let (stream, answers) = self.begin(path).await?;
        Ok((Requests(stream), answers))
    }

    async fn begin(&self, path: &str) -> Result<(SendStream<Bytes>, Answers), Status> {
        let request = Request::builder().method(Method::POST).uri(format!("{}{path}", self.origin));
        let request = request.header("content-type", "application/grpc").header("te", "trailers").body(());
        let mut request = request.map_err(|error| Status::unavailable(error.to_string()))?;
        request.headers_mut().extend(self.metadata.clone());
        let mut requests = self.requests.clone().ready().await?;
        let (response, stream) = requests.send_request(request, false)?;
        Ok((stream, Answers { state: State::Begins(response), read: BytesMut::new() }))
    }
}

/// The failure of a call from its headers or trailers.
fn failure(headers: &HeaderMap) -> Option<Status> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status")?.parse().unwrap_or(2);
    let message = percent_encoding::percent_decode_str(text("grpc-message").unwrap_or_default());
    (code != 0).then(|| Status { code, message: message.decode_utf8_lossy().into_owned() })
}

/// The requests of a stream.
pub struct Requests(SendStream<Bytes>);

impl Requests {
    /// Sends messages.
    pub fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Result<(), Status> {
        let mut frames = BytesMut::new();
        messages.into_iter().for_each(|message| frames.extend_from_slice(&message.framed()));
        if frames.is_empty() {
            return Ok(());
        }
        Ok(self.0.send_data(frames.freeze(), false)?)
    }
}

enum State {
    Begins(ResponseFuture),
    Runs(RecvStream),
    Ended,
}

/// The answers of a stream.
pub struct Answers {
    state: State,
    read: BytesMut,
}

impl Answers {
    /// The next answer. None at the end of the stream. The future can be dropped at any moment.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        let answer = self.read().await;
        if !matches!(answer, Ok(Some(_))) {
            self.state = State::Ended;
        }
        answer
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Status> {
        if let State::Begins(response) = &mut self.state {
            let response = response.await?;
            if let Some(status) = failure(response.headers()) {
                return Err(status);
            }
            if response.status() != StatusCode::OK {
                return Err(Status::unavailable(format!("HTTP status {}", response.status())));
            }
            self.state = State::Runs(response.into_body());
        }
        let State::Runs(stream) = &mut self.state else { return Ok(None) };
        loop {
            if let Some(message) = unframe(&mut self.read)? {
                return Ok(Some(message));
            }
            let Some(data) = stream.data().await else {
                let trailers = stream.trailers().await?;
                let without = || Status::unavailable("the stream has ended without a status");
                return failure(&trailers.ok_or_else(without)?).map_or(Ok(None), Err);
            };
            let data = data?;
            stream.flow_control().release_capacity(data.len())?;
            self.read.extend_from_slice(&data);
        }
    }
}

/// Removes one whole message from the front. Its prefix is a byte for compression and the length.
fn unframe(read: &mut BytesMut) -> Result<Option<Bytes>, Status> {
    let Some((prefix, rest)) = read.split_at_checked(5) else { return Ok(None) };
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if prefix[0] != 0 || length > LONGEST_MESSAGE {
        return Err(Status::unavailable(format!("an answer is compressed or too long: {length} bytes")));
    }
    Ok((rest.len() >= length).then(|| read.split_to(5 + length).freeze().slice(5..)))
}

/// A protocol buffer to be sent. It is never shown: it may hold a password.
#[derive(Clone, Default)]
pub struct Message(BytesMut);

impl Message {
    /// An empty message.
    pub fn new() -> Message {
        Message::default()
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.put_u8(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.put_u8(number as u8);
    }

    /// Adds a number.
    pub fn number(mut self, field: u64, number: i64) -> Message {
        self.varint(field << 3);
        self.varint(number as u64);
        self
    }

    /// Adds a byte string.
    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a message.
    pub fn message(self, field: u64, message: &Message) -> Message {
        self.bytes(field, &message.0)
    }

    /// The message as it is sent.
    pub(crate) fn framed(&self) -> Bytes {
        let mut framed = BytesMut::with_capacity(5 + self.0.len());
        framed.put_u8(0);
        framed.put_u32(self.0.len() as u32);
        framed.extend_from_slice(&self.0);
        framed.freeze()
    }
}

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for index in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << (7 * index);
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn skip<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (content, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(content)
}

/// The contents of this field of a protocol buffer. Ends early if the bytes are no protocol buffer.
fn fields(mut bytes: &[u8], wanted: u64) -> impl Iterator<Item = Content<'_>> {
    std::iter::from_fn(move || {
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let content = match key & 7 {
                0 => Content::Number(varint(&mut bytes)?),
                1 => Content::Bytes(skip(&mut bytes, 8)?),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    Content::Bytes(skip(&mut bytes, length)?)
                }
                5 => Content::Bytes(skip(&mut bytes, 4)?),
                _ => return None,
            };
            if key >> 3 == wanted {
                return Some(content);
            }
        }
        None
    })
}

/// A number in a message. Zero if the field is absent, as in the format.
pub fn number(message: &[u8], wanted: u64) -> i64 {
    match fields(message, wanted).next() {
        Some(Content::Number(number)) => number as i64,
        _ => 0,
    }
}

/// A byte string or message in a message.
pub fn within(message: &[u8], wanted: u64) -> Option<&[u8]> {
    all(message, wanted).next()
}

/// All byte strings or messages of a repeated field.
pub fn all(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    fields(message, wanted).filter_map(|content| match content {
        Content::Bytes(bytes) => Some(bytes),
        Content::Number(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded_as_protocol_buffers() {
        // The two examples of the format description: 150 in field 1, "testing" in field 2.
        assert_eq!(&Message::new().number(1, 150).0[..], [0x08, 0x96, 0x01]);
        let text = Message::new().bytes(2, b"testing");
        assert_eq!(&text.0[..], [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let outer = Message::new().number(1, -2).message(3, &text).number(4, 9).bytes(3, b"again");
        assert_eq!((number(&outer.0, 1), number(&outer.0, 4), number(&outer.0, 7)), (-2, 9, 0));
        assert_eq!(within(&outer.0, 3).and_then(|inner| within(inner, 2)), Some(b"testing".as_slice()));
        assert_eq!(all(&outer.0, 3).collect::<Vec<_>>(), [&text.0[..], b"again"]);
        for end in 0..outer.0.len() {
            // A truncated message must not panic.
            _ = (number(&outer.0[..end], 4), all(&outer.0[..end], 3).count());
        }
    }

    #[test]
    fn only_whole_frames_are_removed() {
        let framed = Message::new().number(1, 5).framed();
        let mut read = BytesMut::new();
        for byte in framed.iter().chain(framed.iter()).take(2 * framed.len() - 1) {
            read.put_u8(*byte);
        }
        assert_eq!(number(&unframe(&mut read).unwrap().unwrap(), 1), 5);
        assert_eq!(unframe(&mut read), Ok(None));
        // A frame that would fill the memory, and a compressed one.
        assert!(unframe(&mut BytesMut::from(&[0, 0xff, 0xff, 0xff, 0xff][..])).is_err());
        assert!(unframe(&mut BytesMut::from(&[1, 0, 0, 0, 0][..])).is_err());
    }

    #[test]
    fn a_status_is_read_from_trailers() {
        let headers = |code: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", HeaderValue::from_static(code));
            headers.insert("grpc-message", HeaderValue::from_static("etcdserver: 100%25"));
            headers
        };
        assert_eq!(failure(&headers("0")), None);
        assert_eq!(failure(&headers("7")), Some(Status { code: 7, message: "etcdserver: 100%".to_string() }));
        assert_eq!(failure(&HeaderMap::new()), None);
    }
}
