//! The value of a leader: a text that a leader says about itself, such as its address.
//!
//! A value is information. No promise and no election depends on it.
//!
//! A value belongs to a token and a version. Proposals and grants carry the version, which is a small number. A node that
//! wants the text asks the holder for it, in chunks that fit into a datagram each: see
//! [`values.rs`](crate::Engine::value).

use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use suffrage_core::NodeId;

use crate::message::{Boot, Token};

/// The longest value, in bytes.
pub const MAX_VALUE: usize = 4_096;
/// The longest chunk of a value, in bytes: a message with it is not longer than the text of the longest name.
pub const VALUE_CHUNK: usize = 232;
/// The greatest number of chunks of a value. A set of chunks is a bit mask of 32 bits.
pub(crate) const MAX_CHUNKS: usize = MAX_VALUE.div_ceil(VALUE_CHUNK);
const _: () = assert!(MAX_CHUNKS < u32::BITS as usize);

/// The value of a leader: a text of 1 to [`MAX_VALUE`] bytes. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Arc<String>);

/// The length in bytes of a text that is no value: it is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidValue(pub usize);

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of {} bytes is invalid: the value of a leader has 1 to {MAX_VALUE} bytes", self.0)
    }
}

impl std::error::Error for InvalidValue {}

impl Value {
    /// The value, unless the text is empty or too long.
    pub fn new(text: &str) -> Result<Value, InvalidValue> {
        if text.is_empty() || text.len() > MAX_VALUE {
            return Err(InvalidValue(text.len()));
        }
        Ok(Value(Arc::new(text.to_string())))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A value for scenarios and torture, which says who has set it. Its length depends on the number: from one chunk to
    /// as many as there can be. None for 0.
    pub fn numbered(setter: NodeId, boot: Boot, number: u32) -> Option<Value> {
        let lengths = [0, VALUE_CHUNK, 3 * VALUE_CHUNK, MAX_VALUE];
        let length = lengths[number as usize % lengths.len()];
        let mut text = format!("{setter} {} {number} ", boot.0);
        while text.len() < length {
            text.push(char::from(b'a' + (text.len() as u32).wrapping_mul(number).wrapping_rem(23) as u8));
        }
        (number > 0).then(|| Value(Arc::new(text)))
    }

    /// The setter, the boot and the number of a [numbered](Value::numbered) value. None for any other text, also for a
    /// numbered value with one wrong byte.
    pub fn parse_numbered(&self) -> Option<(NodeId, Boot, u32)> {
        let mut words = self.0.split(' ');
        let setter = NodeId(words.next()?.parse().ok()?);
        let boot = Boot(words.next()?.parse().ok()?);
        let number = words.next()?.parse().ok()?;
        (Value::numbered(setter, boot, number).as_ref() == Some(self)).then_some((setter, boot, number))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Refuses a text of another length.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Value::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The version of a leader's value. It grows with every change, also with one to no value. 0 if the leader has never set
/// a value since it joined the election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ValueVersion(pub u32);

impl ValueVersion {
    /// The version before the first value.
    pub const NONE: ValueVersion = ValueVersion(0);

    pub(crate) fn next(self) -> ValueVersion {
        ValueVersion(self.0.saturating_add(1))
    }
}

/// A chunk of a leader's value, in a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ValueChunk {
    /// The token of the leader.
    pub token: Token,
    /// The version of the value.
    pub version: ValueVersion,
    /// The length of the whole value in bytes. Zero if the leader has none any more.
    pub length: u16,
    /// The place of the chunk, counted from 0. All chunks but the last have [`VALUE_CHUNK`] bytes.
    pub index: u8,
    /// The bytes.
    pub bytes: ChunkBytes,
}

/// The bytes of a chunk: at most [`VALUE_CHUNK`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkBytes(Box<[u8]>);

impl ChunkBytes {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for ChunkBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

/// Refuses more bytes than a chunk has, which a malformed message may contain. Allocates no more than that.
impl<'de> Deserialize<'de> for ChunkBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChunkBytes, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = ChunkBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {VALUE_CHUNK} bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<ChunkBytes, E> {
                if bytes.len() > VALUE_CHUNK {
                    return Err(E::invalid_length(bytes.len(), &self));
                }
                Ok(ChunkBytes(bytes.into()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// The number of chunks of a value of this length. A value that was taken back has one, which is empty.
pub(crate) fn chunk_count(length: usize) -> usize {
    length.div_ceil(VALUE_CHUNK).max(1)
}

/// The bits of this many chunks.
pub(crate) fn chunk_mask(count: usize) -> u32 {
    (1 << count) - 1
}

/// The chunks of a value that are in this set.
pub(crate) fn chunks(
    (token, version): (Token, ValueVersion),
    value: Option<&Value>,
    wanted: u32,
) -> impl Iterator<Item = ValueChunk> {
    let text = value.map_or("", Value::as_str).as_bytes();
    (0..chunk_count(text.len())).filter(move |index| wanted & (1 << index) != 0).map(move |index| {
        let from = index * VALUE_CHUNK;
        let bytes = ChunkBytes(text[from..text.len().min(from + VALUE_CHUNK)].into());
        ValueChunk { token, version, length: text.len() as u16, index: index as u8, bytes }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_1_to_4096_bytes() {
        assert_eq!(Value::new(""), Err(InvalidValue(0)));
        assert_eq!(Value::new(&"x".repeat(4_097)), Err(InvalidValue(4_097)));
        assert!(InvalidValue(4_097).to_string().contains("a value of 4097 bytes"));
        assert_eq!(Value::new(&"x".repeat(4_096)).unwrap().as_str().len(), 4_096);
    }

    #[test]
    fn numbered_values_say_who_has_set_them_and_are_wrong_with_one_wrong_byte() {
        for number in 1..50 {
            let value = Value::numbered(NodeId(3), Boot(77), number).unwrap();
            assert_eq!(value.parse_numbered(), Some((NodeId(3), Boot(77), number)));
            let mut text = value.as_str().to_string();
            text.replace_range(text.len() - 1.., "Z");
            assert_eq!(Value::new(&text).unwrap().parse_numbered(), None);
        }
        assert_eq!(Value::numbered(NodeId(3), Boot(77), 0), None);
        assert_eq!(Value::new("10.0.0.1:80").unwrap().parse_numbered(), None);
    }

    #[test]
    fn chunks_make_up_the_value() {
        let key = (Token::after(6), ValueVersion(2));
        for length in [1, VALUE_CHUNK, VALUE_CHUNK + 1, MAX_VALUE] {
            let value =
                Value::new(&"é".repeat(length.div_ceil(2))[..length / 2 * 2]).or(Value::new("x")).unwrap();
            let all: Vec<ValueChunk> = chunks(key, Some(&value), u32::MAX).collect();
            assert_eq!(all.len(), chunk_count(value.as_str().len()));
            let bytes: Vec<u8> = all.iter().flat_map(|chunk| chunk.bytes.as_bytes().to_vec()).collect();
            assert_eq!(bytes, value.as_str().as_bytes());
            assert!(all.iter().all(|chunk| usize::from(chunk.length) == bytes.len()));
        }
        let none: Vec<ValueChunk> = chunks(key, None, u32::MAX).collect();
        assert_eq!((none.len(), none[0].length), (1, 0));
        let long = Value::new(&"x".repeat(MAX_VALUE)).unwrap();
        let some: Vec<u8> = chunks(key, Some(&long), 0b101).map(|chunk| chunk.index).collect();
        assert_eq!(some, [0, 2]);
    }

    #[test]
    fn malformed_chunks_are_refused() {
        let chunk =
            chunks((Token::after(6), ValueVersion(2)), Value::new("x").ok().as_ref(), 1).next().unwrap();
        let mut buffer = [0; 2 * VALUE_CHUNK];
        let bytes = postcard::to_slice(&chunk, &mut buffer).unwrap();
        assert_eq!(postcard::from_bytes::<ValueChunk>(bytes), Ok(chunk));
        let last = bytes.len() - 2;
        bytes[last] = 0x7f;
        assert!(postcard::from_bytes::<ValueChunk>(bytes).is_err(), "127 bytes are claimed");
        for (length, fits) in [(VALUE_CHUNK, true), (VALUE_CHUNK + 1, false)] {
            let bytes = postcard::to_slice(&vec![7_u8; length], &mut buffer).unwrap();
            assert_eq!(postcard::from_bytes::<ChunkBytes>(bytes).is_ok(), fits, "{length}");
        }
    }
}
