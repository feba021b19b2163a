//! The protocol buffers of Kubernetes, as its own clients send them: less work for the server than JSON.
//!
//! A [`Message`] keeps the fields that it does not know: an object that is read, changed and written loses nothing.

/// What objects start with.
const MAGIC: &[u8] = b"k8s\0";
/// The type of a request's body, and of a reply that is asked for.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The type of a watch's reply: events, each after its length.
pub(crate) const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
}

/// A message: its fields in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<(u64, Field)>);

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

impl Message {
    /// The message of these bytes. None if they are none.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Message> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = take_number(&mut bytes)?;
            let field = match tag & 7 {
                0 => Field::Number(take_number(&mut bytes)?),
                1 => {
                    let (value, rest) = bytes.split_first_chunk()?;
                    bytes = rest;
                    Field::Fixed64(*value)
                }
                2 => {
                    let length = usize::try_from(take_number(&mut bytes)?).ok()?;
                    let (value, rest) = bytes.split_at_checked(length)?;
                    bytes = rest;
                    Field::Bytes(value.to_vec())
                }
                5 => {
                    let (value, rest) = bytes.split_first_chunk()?;
                    bytes = rest;
                    Field::Fixed32(*value)
                }
                _ => return None,
            };
            fields.push((tag >> 3, field));
        }
        Some(Message(fields))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, field) in &self.0 {
            let kind = match field {
                Field::Number(_) => 0,
                Field::Fixed64(_) => 1,
                Field::Bytes(_) => 2,
                Field::Fixed32(_) => 5,
            };
            push_number(&mut bytes, number << 3 | kind);
            match field {
                Field::Number(value) => push_number(&mut bytes, *value),
                Field::Fixed64(value) => bytes.extend(value),
                Field::Fixed32(value) => bytes.extend(value),
                Field::Bytes(value) => {
                    push_number(&mut bytes, value.len() as u64);
                    bytes.extend(value);
                }
            }
        }
        bytes
    }

    fn last(&self, number: u64) -> Option<&Field> {
        self.0.iter().rev().find(|field| field.0 == number).map(|field| &field.1)
    }

    pub(crate) fn number(&self, number: u64) -> Option<u64> {
        match self.last(number)? {
            Field::Number(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, number: u64) -> &[u8] {
        match self.last(number) {
            Some(Field::Bytes(value)) => value,
            _ => &[],
        }
    }

    /// The text of a field, or nothing.
    pub(crate) fn text(&self, number: u64) -> &str {
        std::str::from_utf8(self.bytes(number)).unwrap_or_default()
    }

    /// The message in a field, or an empty one.
    pub(crate) fn message(&self, number: u64) -> Message {
        Message::decode(self.bytes(number)).unwrap_or_default()
    }

    /// The messages of a field that repeats.
    pub(crate) fn messages(&self, number: u64) -> impl Iterator<Item = Message> + '_ {
        let fields = self.0.iter().filter(move |field| field.0 == number);
        fields.filter_map(|(_, field)| match field {
            Field::Bytes(value) => Message::decode(value),
            _ => None,
        })
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.0.retain(|field| field.0 != number);
    }

    fn set(&mut self, number: u64, value: Field) {
        self.remove(number);
        self.0.push((number, value));
    }

    pub(crate) fn set_number(&mut self, number: u64, value: u64) {
        self.set(number, Field::Number(value));
    }

    pub(crate) fn set_text(&mut self, number: u64, value: &str) {
        self.set(number, Field::Bytes(value.into()));
    }

    pub(crate) fn set_message(&mut self, number: u64, value: &Message) {
        self.set(number, Field::Bytes(value.encode()));
    }

    /// Sets an entry of a map from text to text, or removes it.
    pub(crate) fn set_entry(&mut self, number: u64, key: &str, value: Option<&str>) {
        self.0.retain(|(field, content)| {
            let entry = match content {
                Field::Bytes(bytes) if *field == number => Message::decode(bytes).unwrap_or_default(),
                _ => return true,
            };
            entry.text(1) != key
        });
        if let Some(value) = value {
            let mut entry = Message::default();
            entry.set_text(1, key);
            entry.set_text(2, value);
            self.0.push((number, Field::Bytes(entry.encode())));
        }
    }
}

/// The bytes of an object.
pub(crate) fn seal(version: &str, kind: &str, object: &Message) -> Vec<u8> {
    let mut meta = Message::default();
    meta.set_text(1, version);
    meta.set_text(2, kind);
    let mut envelope = Message::default();
    envelope.set_message(1, &meta);
    envelope.set_message(2, object);
    [MAGIC, &envelope.encode()].concat()
}

/// The object of the bytes of a reply. None if the reply is something else.
pub(crate) fn unseal(bytes: &[u8]) -> Option<Message> {
    let envelope = Message::decode(bytes.strip_prefix(MAGIC)?)?;
    Message::decode(envelope.bytes(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_what_it_does_not_know() {
        // 1: "ab", 2: 300, 3: eight bytes, 4: four bytes, 1000: 1.
        let bytes = [
            &b"\x0a\x02ab\x10\xac\x02"[..],
            b"\x19\x01\x02\x03\x04\x05\x06\x07\x08",
            b"\x25\x01\x02\x03\x04",
            b"\xc0\x3e\x01",
        ]
        .concat();
        let mut message = Message::decode(&bytes).unwrap();
        assert_eq!(message.encode(), bytes);
        assert_eq!((message.text(1), message.number(2), message.number(1000)), ("ab", Some(300), Some(1)));
        assert_eq!((message.text(9), message.number(9), message.text(2)), ("", None, ""));
        message.set_text(1, "c");
        assert_eq!(message.encode(), [&bytes[4..], &b"\x0a\x01c"[..]].concat());
        for end in 1..bytes.len() {
            // Nothing panics; a cut between fields is a message.
            _ = Message::decode(&bytes[..end]);
        }
        assert_eq!(Message::decode(b"\x0a\x05ab"), None);
        assert_eq!(Message::decode(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }

    #[test]
    fn entries_of_maps_are_set_and_removed() {
        let mut message = Message::default();
        message.set_entry(12, "a", Some("1"));
        message.set_entry(12, "b", Some("2"));
        message.set_entry(12, "a", Some("3"));
        let entries = |message: &Message| -> Vec<String> {
            message.messages(12).map(|entry| format!("{}={}", entry.text(1), entry.text(2))).collect()
        };
        assert_eq!(entries(&message), ["b=2", "a=3"]);
        message.set_entry(12, "b", None);
        assert_eq!(entries(&message), ["a=3"]);
    }

    #[test]
    fn an_object_is_sealed_and_unsealed() {
        let mut object = Message::default();
        object.set_text(1, "x");
        let bytes = seal("v1", "Thing", &object);
        assert!(bytes.starts_with(b"k8s\0\x0a"));
        assert_eq!(unseal(&bytes), Some(object));
        assert_eq!(unseal(b"{}"), None);
    }
}
