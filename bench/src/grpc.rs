//! A minimal gRPC client: protocol buffers over HTTP/2.

use std::net::SocketAddr;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Method, Request};
use tokio::net::TcpStream;

/// A connection to one server, with concurrent calls. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Channel {
    address: SocketAddr,
    requests: SendRequest<Bytes>,
}

fn failed(what: &str) -> impl Fn(h2::Error) -> String {
    move |error| format!("{what}: {error}")
}

impl Channel {
    pub(crate) async fn open(address: SocketAddr) -> Result<Channel, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        // A stream of renewals has many small frames.
        let mut settings = h2::client::Builder::new();
        settings.initial_window_size(1 << 20).data_frame_budget(usize::MAX);
        let handshake = settings.handshake(stream).await;
        let (requests, connection) = handshake.map_err(failed("HTTP/2"))?;
        // If the connection fails, its calls fail.
        tokio::spawn(connection);
        Ok(Channel { address, requests })
    }

    async fn begin(&self, path: &str) -> Result<(ResponseFuture, SendStream<Bytes>), String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|error| error.to_string())?;
        let mut requests = self.requests.clone().ready().await.map_err(failed(path))?;
        requests.send_request(request, false).map_err(failed(path))
    }

    /// A unary call.
    pub(crate) async fn call(&self, path: &str, message: Message) -> Result<Bytes, String> {
        let (response, mut request) = self.begin(path).await?;
        request.send_data(message.framed(), true).map_err(failed(path))?;
        let response = response.await.map_err(failed(path))?;
        let error = status_error(response.headers());
        let mut answers = Answers { stream: response.into_body(), read: BytesMut::new() };
        let answer = answers.next().await?;
        let trailers = answers.stream.trailers().await.map_err(failed(path))?;
        match (answer, error.or_else(|| status_error(&trailers.unwrap_or_default()))) {
            (Some(answer), None) => Ok(answer),
            (_, error) => Err(format!("{path}: {}", error.unwrap_or_else(|| "no answer".to_string()))),
        }
    }

    /// A bidirectional stream.
    pub(crate) async fn stream(&self, path: &str) -> Result<(Requests, ResponseFuture), String> {
        let (response, stream) = self.begin(path).await?;
        Ok((Requests(stream), response))
    }
}

/// The error of a call from its headers or trailers.
fn status_error(headers: &http::HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let status = text("grpc-status").filter(|status| *status != "0")?;
    Some(format!("status {status}: {}", text("grpc-message").unwrap_or_default()))
}

/// The requests of a stream.
pub(crate) struct Requests(SendStream<Bytes>);

impl Requests {
    pub(crate) fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Result<(), String> {
        let mut frames = BytesMut::new();
        messages.into_iter().for_each(|message| frames.extend_from_slice(&message.framed()));
        if frames.is_empty() {
            return Ok(());
        }
        self.0.send_data(frames.freeze(), false).map_err(failed("stream"))
    }
}

/// The answers of a stream.
pub(crate) struct Answers {
    stream: RecvStream,
    read: BytesMut,
}

impl Answers {
    pub(crate) async fn begin(response: &mut ResponseFuture) -> Result<Answers, String> {
        let response = response.await.map_err(failed("stream"))?;
        Ok(Answers { stream: response.into_body(), read: BytesMut::new() })
    }

    /// The next answer. None at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(message) = unframe(&mut self.read) {
                return Ok(Some(message));
            }
            let Some(data) = self.stream.data().await else { return Ok(None) };
            let data = data.map_err(failed("stream"))?;
            self.stream.flow_control().release_capacity(data.len()).map_err(failed("stream"))?;
            self.read.extend_from_slice(&data);
        }
    }
}

/// Removes one whole message from the front. Its prefix is a byte for compression and the length.
fn unframe(read: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(read.get(1..5)?.try_into().ok()?) as usize;
    (read.len() >= 5 + length).then(|| read.split_to(5 + length).freeze().slice(5..))
}

/// A protocol buffer to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(BytesMut);

impl Message {
    pub(crate) fn new() -> Message {
        Message::default()
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.put_u8(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.put_u8(number as u8);
    }

    pub(crate) fn number(mut self, field: u64, number: i64) -> Message {
        self.varint(field << 3);
        self.varint(number as u64);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn message(self, field: u64, message: &Message) -> Message {
        self.bytes(field, &message.0)
    }

    fn framed(&self) -> Bytes {
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

/// The content of this field of a protocol buffer.
fn field(mut bytes: &[u8], wanted: u64) -> Option<Content<'_>> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let content = match key & 7 {
            0 => Content::Number(varint(&mut bytes)?),
            2 => {
                let length = varint(&mut bytes)? as usize;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Content::Bytes(content)
            }
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(content);
        }
    }
    None
}

/// A number in a message. Zero if the field is absent, as in the format.
pub(crate) fn number(message: &[u8], wanted: u64) -> i64 {
    match field(message, wanted) {
        Some(Content::Number(number)) => number as i64,
        _ => 0,
    }
}

/// A byte string or message in a message.
pub(crate) fn within(message: &[u8], wanted: u64) -> Option<&[u8]> {
    match field(message, wanted) {
        Some(Content::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
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
        let outer = Message::new().number(1, -2).message(3, &text).number(4, 9);
        assert_eq!((number(&outer.0, 1), number(&outer.0, 4), number(&outer.0, 7)), (-2, 9, 0));
        assert_eq!(within(&outer.0, 3).and_then(|inner| within(inner, 2)), Some(b"testing".as_slice()));
        for end in 0..outer.0.len() {
            // A truncated message must not panic.
            _ = (number(&outer.0[..end], 4), within(&outer.0[..end], 3));
        }
    }

    #[test]
    fn only_whole_frames_are_removed() {
        let framed = Message::new().number(1, 5).framed();
        let mut read = BytesMut::new();
        for byte in framed.iter().chain(framed.iter()).take(2 * framed.len() - 1) {
            read.put_u8(*byte);
        }
        assert_eq!(number(&unframe(&mut read).unwrap(), 1), 5);
        assert_eq!(unframe(&mut read), None);
    }
}
